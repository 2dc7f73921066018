//! The variables of envoyproxy/ratelimit that are set.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

use super::table::{Effect, MEMCACHE, VARIABLES, Variable};
use super::values;
use crate::cli::values::truth;

/// The variables that are set, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Environment(BTreeMap<&'static str, String>);

/// What is wrong with a variable.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}{value}: {what}", value = Shown(.value.as_deref()))]
pub struct Fault {
    name: &'static str,
    value: Option<String>,
    what: String,
}

/// Everything that is wrong with the environment.
#[derive(Debug, thiserror::Error)]
pub struct Faults(Vec<Fault>);

struct Shown<'a>(Option<&'a str>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |value| write!(f, "={value:?}"))
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the environment is refused:")?;
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(vec![fault])
    }
}

impl Fault {
    /// A fault of the variable `name`, whose value is not shown.
    pub(super) fn new(name: &'static str, what: impl Into<String>) -> Self {
        Self { name, value: None, what: what.into() }
    }

    fn of(name: &'static str, value: &str, what: impl Into<String>) -> Self {
        Self { name, value: Some(value.into()), what: what.into() }
    }
}

impl Environment {
    /// The variables of the table that `lookup` has.
    pub(super) fn read(lookup: impl Fn(&str) -> Option<OsString>) -> Self {
        let read = |variable: &Variable| {
            // What is not text fits no form; and as text it names no file.
            let value = lookup(variable.name)?.to_string_lossy().into_owned();
            Some((variable.name, value))
        };
        Self(VARIABLES.iter().filter_map(read).collect())
    }

    /// For tests.
    #[cfg(test)]
    pub(super) fn of(variables: &[(&'static str, &str)]) -> Self {
        Self(variables.iter().map(|(name, value)| (*name, (*value).into())).collect())
    }

    /// Checks every value, those of flags aside, which check them themselves.
    ///
    /// # Errors
    /// With all that is wrong.
    pub(super) fn check(&self) -> Result<(), Faults> {
        let faults: Vec<Fault> = VARIABLES.iter().filter_map(|it| self.fault_of(it)).collect();
        if faults.is_empty() { Ok(()) } else { Err(Faults(faults)) }
    }

    fn fault_of(&self, variable: &Variable) -> Option<Fault> {
        let Variable { name, form, effect } = *variable;
        let value = self.get(name)?;
        match effect {
            Effect::Flag(_) => None,
            Effect::Memcached => (self.get("BACKEND_TYPE") != Some("redis"))
                .then(|| Fault::of(name, value, format!("refused, since {MEMCACHE}"))),
            Effect::Refused(allowed, why) if !allowed.contains(&value) => {
                Some(Fault::of(name, value, format!("refused, since {why}")))
            }
            _ if form.fits(value) => None,
            _ => Some(Fault::of(name, value, format!("expected {}", form.expected()))),
        }
    }

    /// The value of a variable.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of a variable that is not empty.
    pub(super) fn filled(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Whether a variable is set to something true.
    pub(super) fn truth(&self, name: &str) -> bool {
        self.truth_or(name, false)
    }

    /// Whether a variable is set to something true, or is not set and true
    /// by default.
    pub(super) fn truth_or(&self, name: &str, default: bool) -> bool {
        self.get(name).map_or(default, |value| truth(value) == Ok(true))
    }

    /// `host:port`. Brackets around an IPv6 address may be missing.
    pub(super) fn address(&self, host: &str, port: &str, default_port: u16) -> String {
        let port = self.get(port).and_then(values::port).unwrap_or(default_port);
        match self.filled(host).unwrap_or("0.0.0.0") {
            host if host.contains(':') && !host.starts_with('[') => format!("[{host}]:{port}"),
            host => format!("{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(variables: &[(&'static str, &str)]) -> String {
        Environment::of(variables)
            .check()
            .map_or_else(|faults| faults.to_string(), |()| String::new())
    }

    #[test]
    fn a_wrong_value_is_told_with_its_variable_and_what_is_expected() {
        let text = said(&[("PORT", "http"), ("REDIS_TLS", "yes"), ("REDIS_TIMEOUT", "10")]);
        for told in ["PORT=\"http\": expected a port", "REDIS_TLS=\"yes\"", "a time such as"] {
            assert!(text.contains(told), "{told} in {text}");
        }
        assert_eq!(text.lines().count(), 4, "all at once: {text}");
    }

    #[test]
    fn memcached_is_refused_unless_redis_is_meant() {
        let host = ("MEMCACHE_HOST_PORT", "a:1");
        assert!(said(&[("BACKEND_TYPE", "memcache")]).contains("no memcached store"));
        assert!(said(&[host]).contains("BACKEND_TYPE=redis"));
        assert_eq!(said(&[host, ("BACKEND_TYPE", "redis")]), "");
    }

    #[test]
    fn addresses_have_the_defaults_of_the_reference() {
        let env = Environment::of(&[("HOST", "::1"), ("GRPC_PORT", "0x10")]);
        assert_eq!(env.address("HOST", "PORT", 8080), "[::1]:8080");
        assert_eq!(env.address("GRPC_HOST", "GRPC_PORT", 8081), "0.0.0.0:16");
    }
}

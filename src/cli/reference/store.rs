//! Where Redis is, as envoyproxy/ratelimit is told, in a URL of ours.

use std::fmt::Write as _;

use super::environment::{Environment, Fault};
use super::values::Form;

/// One of the two places for counters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    socket_type: &'static str,
    kind: &'static str,
    url: &'static str,
    auth: &'static str,
    tls: &'static str,
    default_url: &'static str,
}

impl Names {
    /// The place for all counters.
    pub(super) const MAIN: Self = Self {
        socket_type: "REDIS_SOCKET_TYPE",
        kind: "REDIS_TYPE",
        url: "REDIS_URL",
        auth: "REDIS_AUTH",
        tls: "REDIS_TLS",
        default_url: "/var/run/nutcracker/ratelimit.sock",
    };
    /// The place for limits per second.
    pub(super) const PER_SECOND: Self = Self {
        socket_type: "REDIS_PERSECOND_SOCKET_TYPE",
        kind: "REDIS_PERSECOND_TYPE",
        url: "REDIS_PERSECOND_URL",
        auth: "REDIS_PERSECOND_AUTH",
        tls: "REDIS_PERSECOND_TLS",
        default_url: "/var/run/nutcracker/ratelimitpersecond.sock",
    };
}

/// The URL of a place; it may hold a password.
///
/// # Errors
/// If the variables contradict each other.
pub(super) fn url(env: &Environment, names: Names) -> Result<String, Fault> {
    let url = env.get(names.url).unwrap_or(names.default_url);
    let is = |name, value: &str| env.get(name).is_some_and(|it| it.eq_ignore_ascii_case(value));
    let encrypted = env.truth(names.tls);
    if is(names.kind, "sentinel") {
        return sentinel(env, names, url, encrypted);
    }
    if is(names.kind, "cluster") {
        let hosts: Vec<&str> = url.split(',').map(|one| Address::of(one).host).collect();
        let login = login(env, names, Address::of(url));
        return Ok(format!("{}+cluster://{login}{}", scheme(encrypted), hosts.join(",")));
    }
    let unix = env.get(names.socket_type).is_none_or(|it| it.eq_ignore_ascii_case("unix"));
    if unix && !url.contains("://") {
        return socket(env, names, url, encrypted);
    }
    let address = Address::of(url);
    if !address.has_port() && !url.contains("://") {
        return Err(Fault::new(names.url, "expected host:port"));
    }
    let login = login(env, names, address);
    let host = if address.host.starts_with(':') { "localhost" } else { "" };
    let scheme = scheme(encrypted || address.encrypted);
    Ok(format!("{scheme}://{login}{host}{}{}", address.host, address.path))
}

/// `name,host:port,host:port`
fn sentinel(env: &Environment, names: Names, url: &str, encrypted: bool) -> Result<String, Fault> {
    let fault = || {
        let expected = "expected the name of the master and where the sentinels are, \
                        master,host:port,host:port";
        Fault::new(names.url, expected)
    };
    let (name, hosts) = url.split_once(',').ok_or_else(fault)?;
    if name.is_empty() || name.contains(['/', ':', '@']) || hosts.split(',').any(str::is_empty) {
        return Err(fault());
    }
    let hosts: Vec<&str> = hosts.split(',').map(|one| Address::of(one).host).collect();
    let login = login(env, names, Address::of(""));
    Ok(format!("{}+sentinel://{login}{}/{name}", scheme(encrypted), hosts.join(",")))
}

/// The path of a Unix socket.
fn socket(env: &Environment, names: Names, path: &str, tls: bool) -> Result<String, Fault> {
    if !path.starts_with('/') {
        let expected = format!(
            "expected the path of a socket, since {} is unix where it is not set; set it to tcp \
             for host:port",
            names.socket_type
        );
        return Err(Fault::new(names.url, expected));
    }
    if tls {
        return Err(Fault::new(names.tls, "TLS is not spoken on Unix sockets"));
    }
    let mut url = format!("redis+unix://{}", encoded(path, b"/"));
    if let Some((user, password)) = env.get(names.auth).and_then(user_and_password) {
        // Writing to a string cannot fail.
        let _ = write!(url, "?pass={}", encoded(password, b""));
        if !user.is_empty() {
            let _ = write!(url, "&user={}", encoded(user, b""));
        }
    }
    Ok(url)
}

fn scheme(encrypted: bool) -> &'static str {
    if encrypted { "rediss" } else { "redis" }
}

/// `user:password@`, or nothing. The variable goes before what the URL says.
fn login(env: &Environment, names: Names, address: Address<'_>) -> String {
    match env.get(names.auth).and_then(user_and_password) {
        Some((user, password)) => {
            format!("{}:{}@", encoded(user, b""), encoded(password, b""))
        }
        None => address.login.to_owned(),
    }
}

/// The user, empty for the default one, and the password in `REDIS_AUTH` and
/// its like.
pub(super) fn user_and_password(auth: &str) -> Option<(&str, &str)> {
    (!auth.is_empty()).then(|| auth.split_once(':').unwrap_or(("", auth)))
}

/// An address that may be a URL.
#[derive(Clone, Copy, Debug)]
struct Address<'a> {
    encrypted: bool,
    /// With its `@`.
    login: &'a str,
    host: &'a str,
    /// With its `/`.
    path: &'a str,
}

impl<'a> Address<'a> {
    fn of(text: &'a str) -> Self {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let rest = if scheme.is_empty() { text } else { rest };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (login, host) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
        Self { encrypted: matches!(scheme, "rediss" | "valkeys"), login, host, path }
    }

    fn has_port(self) -> bool {
        self.host.rsplit_once(':').is_some_and(|(_, port)| Form::Port.fits(port))
    }
}

/// `text` with every byte percent-encoded that might mean something in a URL.
fn encoded(text: &str, kept: &[u8]) -> String {
    text.bytes().fold(String::new(), |mut url, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.contains(&byte) {
            url.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(url, "%{byte:02X}");
        }
        url
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(variables: &[(&'static str, &str)]) -> Result<String, String> {
        let env = Environment::of(variables);
        url(&env, Names::MAIN).map_err(|fault| fault.to_string())
    }

    #[test]
    fn every_topology_becomes_a_url() {
        let tcp = ("REDIS_SOCKET_TYPE", "tcp");
        for (variables, wanted) in [
            (vec![], "redis+unix:///var/run/nutcracker/ratelimit.sock"),
            (vec![("REDIS_URL", "/run/my redis.sock")], "redis+unix:///run/my%20redis.sock"),
            (
                vec![("REDIS_URL", "/r.sock"), ("REDIS_AUTH", "u:p&s")],
                "redis+unix:///r.sock?pass=p%26s&user=u",
            ),
            (vec![tcp, ("REDIS_URL", "cache:6379")], "redis://cache:6379"),
            (vec![tcp, ("REDIS_URL", ":6379")], "redis://localhost:6379"),
            (vec![tcp, ("REDIS_URL", "redis://u:p@cache:1/2")], "redis://u:p@cache:1/2"),
            (vec![("REDIS_URL", "redis://cache:1")], "redis://cache:1"),
            (
                vec![tcp, ("REDIS_URL", "redis://u:p@cache:1/2"), ("REDIS_AUTH", "x@y")],
                "redis://:x%40y@cache:1/2",
            ),
            (
                vec![tcp, ("REDIS_URL", "[::1]:6379"), ("REDIS_TLS", "T"), ("REDIS_AUTH", "a:b:c")],
                "rediss://a:b%3Ac@[::1]:6379",
            ),
            (
                vec![
                    ("REDIS_TYPE", "Sentinel"),
                    ("REDIS_URL", "main,a:1,b:2"),
                    ("REDIS_AUTH", "p"),
                ],
                "redis+sentinel://:p@a:1,b:2/main",
            ),
            (
                vec![("REDIS_TYPE", "CLUSTER"), ("REDIS_URL", "a:1,b:2"), ("REDIS_TLS", "1")],
                "rediss+cluster://a:1,b:2",
            ),
        ] {
            assert_eq!(told(&variables).as_deref(), Ok(wanted), "{variables:?}");
        }
    }

    #[test]
    fn contradictions_are_told_without_passwords() {
        for (variables, said) in [
            (vec![("REDIS_URL", "hush@cache:6379")], "REDIS_SOCKET_TYPE"),
            (vec![("REDIS_URL", "/r.sock"), ("REDIS_TLS", "true")], "REDIS_TLS"),
            (vec![("REDIS_SOCKET_TYPE", "tcp"), ("REDIS_URL", "hush@cache")], "host:port"),
            (vec![("REDIS_TYPE", "sentinel"), ("REDIS_URL", "hush@a:1")], "master,host:port"),
            (vec![("REDIS_TYPE", "sentinel"), ("REDIS_URL", "hush,,b")], "master,host:port"),
        ] {
            let text = told(&variables).unwrap_err();
            assert!(text.contains(said) && !text.contains("hush"), "{variables:?}: {text}");
        }
    }
}

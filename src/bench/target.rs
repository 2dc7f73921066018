//! Whom to ask: a plaintext address, on this machine unless told otherwise.

use std::fmt;
use std::net::ToSocketAddrs as _;
use std::str::FromStr;

use tonic::codegen::http::Uri;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `host:port`.
    Tcp(String),
    /// The path of a Unix socket.
    Unix(String),
}

/// Why a server may not be asked.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// It may be somebody else's.
    #[error(
        "{0} is not on this machine, and this much load would harm a server in use; \
         if it is meant for that, say --allow-remote"
    )]
    Remote(Target),
    /// The name has no address.
    #[error("{target} cannot be resolved: {source}")]
    Unresolved {
        /// The target.
        target: Target,
        /// What the system says.
        source: std::io::Error,
    },
}

impl Target {
    /// The form that the client connects to.
    pub fn uri(&self) -> String {
        match self {
            Self::Tcp(authority) => format!("http://{authority}"),
            Self::Unix(path) => format!("unix:{path}"),
        }
    }

    /// Makes sure that the server is on this machine: every address of its name
    /// is a loopback one.
    ///
    /// # Errors
    /// If it is not, or the name has no address.
    pub fn check_local(&self) -> Result<(), TargetError> {
        let Self::Tcp(authority) = self else { return Ok(()) };
        let addresses = authority
            .to_socket_addrs()
            .map_err(|source| TargetError::Unresolved { target: self.clone(), source })?;
        let (mut known, mut local) = (false, true);
        for address in addresses {
            known = true;
            local &= address.ip().is_loopback();
        }
        if known && local { Ok(()) } else { Err(TargetError::Remote(self.clone())) }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.strip_prefix("//").unwrap_or(path) {
                "" => Err("the path is missing; write unix:/path/to/socket".into()),
                path => Ok(Self::Unix(path.into())),
            };
        }
        let uri: Uri = text.parse().map_err(|_| "expected http://host:port or unix:/path")?;
        match (uri.scheme_str(), uri.authority(), uri.path_and_query().map_or("", |at| at.path())) {
            (Some("https"), ..) => Err("only plaintext can be asked; write http://".into()),
            (Some("http"), Some(authority), "" | "/") if authority.port().is_some() => {
                Ok(Self::Tcp(authority.as_str().into()))
            }
            (Some("http"), Some(_), "" | "/") => {
                Err("the port is missing; tidegate listens on 8081 by default".into())
            }
            _ => Err("expected http://host:port or unix:/path".into()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.uri())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> Target {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn targets_are_read_and_shown_alike() {
        for text in ["http://127.0.0.1:8081", "http://[::1]:8081", "unix:/run/tidegate.sock"] {
            assert_eq!(target(text).to_string(), text);
        }
        assert_eq!(target("http://localhost:1/"), Target::Tcp("localhost:1".into()));
        assert_eq!(target("unix:///run/t"), Target::Unix("/run/t".into()));
    }

    #[test]
    fn what_cannot_be_asked_is_refused_with_advice() {
        for (text, told) in [
            ("127.0.0.1:8081", "http://host:port"),
            ("", "http://host:port"),
            ("http://127.0.0.1:8081/path", "http://host:port"),
            ("http://127.0.0.1", "port is missing"),
            ("https://127.0.0.1:8081", "plaintext"),
            ("unix:", "path is missing"),
        ] {
            let error = text.parse::<Target>().unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn only_this_machine_is_local() {
        for text in
            ["http://127.0.0.1:1", "http://127.9.9.9:1", "http://[::1]:1", "http://localhost:1"]
        {
            target(text).check_local().unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        target("unix:/run/t").check_local().unwrap();
        for text in [
            "http://192.0.2.1:1",
            "http://0.0.0.0:1",
            "http://[2001:db8::1]:1",
            "http://[::ffff:192.0.2.1]:1",
            // A name or a user that only looks like loopback.
            "http://127.0.0.1@192.0.2.1:1",
        ] {
            let refused = target(text).check_local();
            assert!(refused.is_err(), "{text} is taken for local");
        }
        let remote = target("http://192.0.2.1:1").check_local().unwrap_err().to_string();
        assert!(remote.contains("192.0.2.1") && remote.contains("--allow-remote"), "{remote}");
    }
}

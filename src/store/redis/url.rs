//! From a URL to servers.

use deadpool_redis::redis::io::tcp::TcpSettings;
use deadpool_redis::redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

use super::config::RedisConfigError;

/// What a URL names.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// One server.
    Server(Server),
    /// The master of a group of servers that sentinels watch over.
    Sentinel(Watched),
    /// The masters of a cluster.
    Cluster(Seeds),
}

/// Nodes that know a cluster.
#[derive(Clone, Debug)]
pub(super) struct Seeds {
    /// At least one of them, each with the login of all.
    pub(super) nodes: Vec<Server>,
    /// How to connect to a node, but for the address.
    pub(super) any: ConnectionInfo,
}

/// A master with its sentinels.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    /// Who knows where it is.
    pub(super) sentinels: Vec<Server>,
    /// What they call it.
    pub(super) name: String,
    /// How to connect to it, but for the address.
    pub(super) master: ConnectionInfo,
}

/// A Redis server, as read from the configuration.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// How to connect to it.
    pub(super) info: ConnectionInfo,
    /// What to call it in messages: its address and database, no credentials.
    pub(super) name: String,
}

/// Where a server listens.
pub(super) type Address = (String, u16);

/// The port that sentinels listen on unless told otherwise.
const SENTINEL_PORT: u16 = 26_379;

/// Reads a URL.
pub(super) fn read(url: &str) -> Result<Place, RedisConfigError> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    match scheme.split_once('+') {
        Some((base, "sentinel")) => watched(base, rest).map(Place::Sentinel),
        Some((base, "cluster")) => seeds(base, rest).map(Place::Cluster),
        _ => Ok(Place::Server(Server::new(parse(url)?))),
    }
}

/// Reads `[[user]:password@]host[:port],…/name[/db]`.
fn watched(base: &str, rest: &str) -> Result<Watched, RedisConfigError> {
    let (login, hosts, path) = parts(rest);
    let (name, database) = path.split_once('/').unwrap_or((path, ""));
    if name.is_empty() {
        let what = "the name of the master is missing after the sentinels";
        return Err(RedisConfigError::Url(what.into()));
    }
    let sentinel = |host: &str| {
        let port = if has_port(host) { String::new() } else { format!(":{SENTINEL_PORT}") };
        Ok(Server::new(parse(&format!("{base}://{host}{port}"))?))
    };
    Ok(Watched {
        sentinels: hosts.split(',').map(sentinel).collect::<Result<_, _>>()?,
        name: name.to_owned(),
        master: Server::new(parse(&format!("{base}://{login}master/{database}"))?).info,
    })
}

/// Reads `[[user]:password@]host[:port],…`.
fn seeds(base: &str, rest: &str) -> Result<Seeds, RedisConfigError> {
    let (login, hosts, path) = parts(rest);
    if !path.is_empty() {
        let what = "a cluster has no databases; remove what follows the hosts";
        return Err(RedisConfigError::Url(what.into()));
    }
    let seed = |host: &str| Ok(Server::new(parse(&format!("{base}://{login}{host}"))?));
    let nodes: Vec<Server> = hosts.split(',').map(seed).collect::<Result<_, _>>()?;
    let any = Server::new(parse(&format!("{base}://{login}node"))?).info;
    Ok(Seeds { nodes, any })
}

/// The login with its `@`, the hosts, and the path without its first `/`.
fn parts(rest: &str) -> (&str, &str, &str) {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let hosts_at = authority.rfind('@').map_or(0, |at| at + 1);
    let (login, hosts) = authority.split_at(hosts_at);
    (login, hosts, path)
}

fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'))
}

/// Reads the URL of one server.
fn parse(url: &str) -> Result<ConnectionInfo, RedisConfigError> {
    // Neither the URL nor what Redis' parser says of it goes into the
    // message whole: a password may stand anywhere in a mistyped one.
    let info = url.into_connection_info().map_err(|error| {
        RedisConfigError::Url(match error.detail() {
            Some(detail) => detail.to_owned(),
            None => error.to_string(),
        })
    })?;
    match info.addr() {
        ConnectionAddr::TcpTls { insecure: true, .. } => Err(RedisConfigError::Url(
            "it asks to trust any certificate (#insecure), which encrypts for nobody".into(),
        )),
        _ => Ok(info),
    }
}

impl Server {
    fn new(info: ConnectionInfo) -> Self {
        let name = match info.redis_settings().db() {
            0 => info.addr().to_string(),
            db => format!("{} db {db}", info.addr()),
        };
        // With version 3 of the protocol the client library tells at once that
        // a connection was closed, and not only when it is next used.
        let settings = info
            .redis_settings()
            .clone()
            .set_protocol(ProtocolVersion::RESP3)
            .set_lib_name(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        let info = info
            .set_redis_settings(settings)
            .set_tcp_settings(TcpSettings::default().set_nodelay(true));
        Self { info, name }
    }

    /// The server at `address`, reached like `info` in everything else.
    pub(super) fn at((host, port): Address, info: &ConnectionInfo) -> Self {
        let address = match info.addr() {
            ConnectionAddr::TcpTls { tls_params, .. } => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(host, port),
        };
        Self::new(info.clone().set_addr(address))
    }

    /// The host that it is reached at; empty if by a socket.
    pub(super) fn host(&self) -> String {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
            _ => String::new(),
        }
    }

    /// Whether connections to it are encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        is_encrypted(&self.info)
    }
}

/// Whether connections are encrypted.
fn is_encrypted(info: &ConnectionInfo) -> bool {
    matches!(info.addr(), ConnectionAddr::TcpTls { .. })
}

impl Place {
    /// Whether connections are encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        match self {
            Self::Server(server) => server.is_encrypted(),
            Self::Sentinel(watched) => is_encrypted(&watched.master),
            Self::Cluster(seeds) => is_encrypted(&seeds.any),
        }
    }
}

impl std::fmt::Display for Seeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.nodes.iter().map(|node| &*node.name).collect();
        write!(f, "the cluster of {}", names.join(", "))
    }
}

impl std::fmt::Display for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.sentinels.iter().map(|sentinel| &*sentinel.name).collect();
        write!(f, "master {:?} of the sentinels at {}", self.name, names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_named_without_credentials() {
        for (url, name) in [
            ("redis://127.0.0.1", "127.0.0.1:6379"),
            ("redis://:hush@db.local:7000/3", "db.local:7000 db 3"),
            ("redis://user:hush@db.local", "db.local:6379"),
            ("rediss://user:hush@db.local:7000", "db.local:7000"),
            ("redis+unix:///run/redis.sock", "/run/redis.sock"),
            ("redis+unix:///run/redis.sock?db=2", "/run/redis.sock db 2"),
            (
                "valkeys+sentinel://u:hush@a,[::1],b:1/main/2",
                "master \"main\" of the sentinels at a:26379, ::1:26379, b:1",
            ),
            ("rediss+cluster://u:hush@a,[::1]:7,b:1", "the cluster of a:6379, ::1:7, b:1"),
        ] {
            let place = read(url).unwrap();
            let called = match &place {
                Place::Server(server) => server.name.clone(),
                Place::Sentinel(watched) => watched.to_string(),
                Place::Cluster(seeds) => seeds.to_string(),
            };
            assert_eq!(called, name);
            assert!(!format!("{place:?}").contains("hush"), "{place:?}");
        }
    }

    #[test]
    fn a_wrong_url_is_explained_without_its_password() {
        for url in [
            "",
            "127.0.0.1:6379",
            "http://:hush@x",
            "redis://:hush@x/three",
            "redis://:hush@x:port",
            "redis://:hush@",
            "rediss://:hush@x/#insecure",
            "redis+sentinel://:hush@a:1,b:1",
            "redis+sentinel://:hush@a:1,b:1/",
            "redis+sentinel://:hush@a:1,,b:1/main",
            "redis+sentinel://:hush@/main",
            "redis+sentinel://:hush@a:x/main",
            "redis+sentinel://:hush@a/main/three",
            "http+sentinel://:hush@a/main",
            "redis+cluster://:hush@a,b/2",
            "redis+cluster://:hush@a,,b",
            "redis+cluster://:hush@",
            "http+cluster://:hush@a",
            "redis+other://:hush@a",
        ] {
            let said = read(url).unwrap_err().to_string();
            assert!(said.contains("redis://[[user]:password@]host"), "{url}: {said}");
            assert!(!said.contains("hush"), "{url}: {said}");
        }
    }

    #[test]
    fn a_watched_master_is_reached_by_its_own_login_and_sentinels_by_none() {
        let Place::Sentinel(watched) = read("rediss+sentinel://u:p%40ss@a,b/main/2").unwrap()
        else {
            panic!("not watched");
        };
        let server = Server::at(("10.0.0.1".into(), 7000), &watched.master);
        assert_eq!((&*server.name, server.is_encrypted()), ("10.0.0.1:7000 db 2", true));
        let settings = server.info.redis_settings();
        assert_eq!((settings.username(), settings.password()), (Some("u"), Some("p@ss")));
        for sentinel in &watched.sentinels {
            assert!(sentinel.is_encrypted());
            assert_eq!(sentinel.info.redis_settings().password(), None);
        }
    }
}

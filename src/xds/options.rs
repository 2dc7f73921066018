//! What an operator chooses.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use prost_types::value::Kind;
use prost_types::{Struct, Value};
use rustls::pki_types::ServerName;
use tonic::codegen::http::uri::Authority;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};

use super::backoff::Pace;
use crate::units::Span;

/// How the control plane is reached and asked.
#[derive(Clone, Debug)]
pub struct XdsOptions {
    /// Where it is.
    pub server: Server,
    /// Who we are; control planes choose by it what to send.
    pub node_id: String,
    /// Whatever else it wants to know of us.
    pub node_metadata: NodeMetadata,
    /// What every stream carries.
    pub headers: Headers,
    /// How the connection is encrypted, if it is.
    pub tls: Option<Tls>,
    /// How long to wait before trying again.
    pub pace: Pace,
    /// The largest response, in bytes.
    pub max_message: usize,
    /// After which silence the server is asked for a sign of life.
    pub keepalive: Span,
    /// The service is ready although there are no rules yet.
    pub start_without_config: bool,
}

/// Where a control plane is: `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server(Authority);

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Go's gRPC names its resolver first; names are resolved the same way here.
        let address = text.strip_prefix("dns:///").unwrap_or(text);
        Authority::from_str(address)
            .ok()
            .filter(|it| !it.as_str().contains('@') && !it.host().is_empty())
            .filter(|it| it.port_u16().is_some_and(|port| port > 0))
            .map(Self)
            .ok_or_else(|| "expected host:port, such as envoy-gateway:18001".into())
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the control plane wants to know of us: `key=value,key=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeMetadata(BTreeMap<String, String>);

impl NodeMetadata {
    /// The same for the wire; nothing if there is nothing.
    pub(super) fn to_struct(&self) -> Option<Struct> {
        let text = |value: &String| Value { kind: Some(Kind::StringValue(value.clone())) };
        let fields: BTreeMap<_, _> =
            self.0.iter().map(|(key, value)| (key.clone(), text(value))).collect();
        (!fields.is_empty()).then_some(Struct { fields })
    }
}

impl FromStr for NodeMetadata {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pairs = pairs(text, '=').map(|pair| match pair {
            Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
            _ => Err("expected key=value,key=value".to_owned()),
        });
        pairs.collect::<Result<_, _>>().map(Self)
    }
}

/// What every stream carries: `name:value,name:value`. Values may be secrets and
/// are not shown.
#[derive(Clone, Debug, Default)]
pub struct Headers(MetadataMap);

impl Headers {
    pub(super) const fn map(&self) -> &MetadataMap {
        &self.0
    }
}

impl FromStr for Headers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut map = MetadataMap::new();
        for pair in pairs(text, ':') {
            let (name, value) = pair.ok_or("expected name:value,name:value")?;
            let name = AsciiMetadataKey::from_bytes(name.to_ascii_lowercase().as_bytes())
                .map_err(|_| format!("{name:?} is not the name of a header of text"))?;
            let mut value = AsciiMetadataValue::try_from(value)
                .map_err(|_| format!("the value of {name} is not visible ASCII text"))?;
            value.set_sensitive(true);
            map.append(name, value);
        }
        Ok(Self(map))
    }
}

/// The pairs of a list; `None` where one is none.
fn pairs(text: &str, between: char) -> impl Iterator<Item = Option<(&str, &str)>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(move |part| part.split_once(between).map(|(key, value)| (key.trim(), value.trim())))
}

/// How the connection is encrypted. The files are read again for every
/// connection, so that they can be changed while the service runs.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The certificates of those who may have signed that of the server, in
    /// PEM; without one, those that the system trusts.
    pub ca: Option<PathBuf>,
    /// Our certificate, followed by those in between, and its key, in PEM.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that the certificate of the server must have; without one, the
    /// host that we connect to.
    pub server_name: Option<TlsName>,
}

/// A name or address that a certificate can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsName(String);

impl TlsName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TlsName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match ServerName::try_from(text) {
            Ok(_) => Ok(Self(text.into())),
            Err(_) => Err("expected a host name or an IP address".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_hosts_with_ports() {
        for (text, shown) in [
            ("envoy-gateway:18001", "envoy-gateway:18001"),
            ("dns:///gateway.ns.svc:18000", "gateway.ns.svc:18000"),
            ("[::1]:18000", "[::1]:18000"),
        ] {
            assert_eq!(text.parse::<Server>().map(|server| server.to_string()), Ok(shown.into()));
        }
        for text in ["", "host", "host:", "host:0", "host:x", ":18000", "http://host:1", "u@h:1"] {
            assert!(text.parse::<Server>().is_err(), "{text}");
        }
    }

    #[test]
    fn metadata_is_pairs() {
        let metadata: NodeMetadata = "zone=a, rack=b=c,".parse().unwrap();
        let fields = metadata.to_struct().unwrap().fields;
        let text = |key: &str| fields[key].kind.clone();
        assert_eq!(text("zone"), Some(Kind::StringValue("a".into())));
        assert_eq!(text("rack"), Some(Kind::StringValue("b=c".into())));
        assert_eq!("".parse::<NodeMetadata>().unwrap().to_struct(), None);
        assert!("zone".parse::<NodeMetadata>().is_err() && "=a".parse::<NodeMetadata>().is_err());
    }

    #[test]
    fn header_values_are_not_shown() {
        let headers: Headers = "Authorization:Bearer a:b,x-env:prod".parse().unwrap();
        assert_eq!(headers.map().get("authorization").unwrap(), "Bearer a:b");
        assert!(!format!("{headers:?}").contains("Bearer"));
        for text in ["x", "a b:c", "x-bin:AA==", ":v"] {
            assert!(text.parse::<Headers>().is_err(), "{text}");
        }
    }
}

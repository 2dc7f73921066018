//! What it means when a call of Redis fails: one rule for each kind of failure.
//! `docs/failure.md` has the same rules for operators.

use deadpool_redis::PoolError;
use deadpool_redis::redis::{ErrorKind, RedisError, ServerErrorKind};

use super::cluster::{NOT_HERE, Redirect};
use super::tls;
use crate::store::{Cause, Outage, StoreError};
use crate::units::Span;

/// A failed batch.
#[derive(Debug)]
pub(super) struct Failure {
    /// What the callers are told.
    pub(super) error: StoreError,
    /// Whether the connection is of no more use.
    pub(super) lost: bool,
    /// Where to ask instead, if a node of a cluster says so.
    pub(super) redirect: Option<Redirect>,
}

/// Why a request was not decided, and where it may be.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) error: StoreError,
    pub(super) redirect: Option<Redirect>,
}

impl Refused {
    /// Whether a node of a cluster was asked for what it has not, or cannot do.
    pub(super) fn is_stale(&self) -> bool {
        let cause =
            if let StoreError::Unavailable(why) = &self.error { why.cause } else { Cause::Other };
        match self.redirect {
            Some(Redirect::Moved { .. }) => true,
            // That slots are on their way is known.
            Some(Redirect::Ask { .. } | Redirect::Unsettled) => false,
            None => matches!(cause, Cause::Cluster | Cause::ReadOnly | Cause::MasterDown),
        }
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self { error, redirect: None }
    }
}

impl From<&Failure> for Refused {
    fn from(failure: &Failure) -> Self {
        Self { error: failure.error.clone(), redirect: failure.redirect.clone() }
    }
}

/// What to make of an error.
struct Rule {
    cause: Cause,
    /// Whether a new connection may be better: the name of the server may lead
    /// elsewhere by now, or the credentials may have changed.
    reconnect: bool,
    /// What to do about it, where that is not plain.
    advice: &'static str,
}

const fn rule(cause: Cause, advice: &'static str) -> Rule {
    Rule { cause, reconnect: false, advice }
}

impl Rule {
    const fn reconnecting(self) -> Self {
        Self { reconnect: true, ..self }
    }

    /// The rule for an error that begins with this code.
    fn of_code(code: &str) -> Option<Self> {
        Some(match code {
            "LOADING" => rule(Cause::Loading, ""),
            "BUSY" => rule(Cause::Busy, "somebody's script runs for too long"),
            // A server that became a replica stays one; its name may lead to
            // the new master by now.
            "READONLY" => rule(Cause::ReadOnly, REPLICA).reconnecting(),
            "MASTERDOWN" => rule(Cause::MasterDown, REPLICA).reconnecting(),
            "OOM" => rule(Cause::OutOfMemory, "raise maxmemory, or choose an eviction policy"),
            "MISCONF" => rule(Cause::Persistence, "Redis cannot save its data: see its log"),
            "NOREPLICAS" => rule(Cause::Persistence, "see min-replicas-to-write"),
            "MOVED" | "ASK" => rule(
                Cause::Cluster,
                "this is a node of Redis Cluster; begin its URL with redis+cluster://",
            ),
            "TRYAGAIN" => rule(Cause::Cluster, "the slot is on its way to another node"),
            "CROSSSLOT" => rule(Cause::Cluster, "see hash tags in docs/redis.md"),
            "CLUSTERDOWN" => rule(Cause::Cluster, "the cluster does not serve every slot"),
            "NOPERM" => rule(Cause::Permission, RIGHTS),
            "NOAUTH" | "WRONGPASS" => {
                rule(Cause::Login, "check the user and the password").reconnecting()
            }
            "WRONGTYPE" => rule(
                Cause::WrongType,
                "a key of the counters holds something else; delete it, or give the service a key \
                 prefix of its own",
            ),
            _ => return None,
        })
    }

    /// The rule for an error of the client library or the server.
    fn of(error: &RedisError) -> Self {
        let code = || describe(error).split(' ').next().and_then(Self::of_code);
        if let Some(rule) = error.code().and_then(Self::of_code).or_else(code) {
            return rule;
        }
        let says = |text| error.detail().is_some_and(|detail| detail.contains(text));
        match error.kind() {
            ErrorKind::AuthenticationFailed => {
                rule(Cause::Login, "check the user and the password")
            }
            _ if says("max number of clients") => rule(Cause::MaxClients, "raise maxclients"),
            // The last hit of a log went out of it while its slot is on its way.
            _ if says(NOT_HERE) => rule(Cause::Cluster, "the slot is on its way to another node"),
            _ if says("cluster support disabled") => rule(Cause::Cluster, NO_NODE),
            _ if is_unknown(error, "SENTINEL") => rule(Cause::Other, NO_SENTINEL),
            _ if is_unknown(error, "CLUSTER") => rule(Cause::Cluster, NO_NODE),
            // A sentinel knows no EVALSHA and repeats the bytes that it was sent.
            ErrorKind::Parse if error.to_string().contains("invalid utf-8") => {
                rule(Cause::Other, SENTINEL)
            }
            _ if error.detail().is_some_and(lacks_rights) => rule(Cause::Permission, RIGHTS),
            ErrorKind::Io => match tls::advice(&error.to_string()) {
                Some(advice) => rule(Cause::Tls, advice).reconnecting(),
                None => rule(Cause::Connection, "").reconnecting(),
            },
            _ => rule(Cause::Other, ""),
        }
    }
}

const REPLICA: &str = "this is a read-only replica; name the master, or the sentinels that know it";

const NO_SENTINEL: &str = "this is no sentinel; name its sentinels instead, or begin its URL with \
                           redis:// and leave out the name of the master";

const NO_NODE: &str = "this is no node of Redis Cluster; begin its URL with redis://, or with \
                       redis+sentinel:// if it is a sentinel";

const SENTINEL: &str = "is this a sentinel? begin its URL with redis+sentinel:// and end it with \
                        the name of the master";

const RIGHTS: &str = "give its user the commands that the README lists, on keys with the prefix of \
                      the counters";

impl Failure {
    /// What `error` means, from the server of this name.
    pub(super) fn of(error: &RedisError, server: &str) -> Self {
        let rule = Rule::of(error);
        let why = if lacks_functions(error) {
            NO_FUNCTIONS.to_owned()
        } else {
            with_advice(&describe(error), rule.advice)
        };
        let text = format!("Redis at {server}: {why}");
        let error_is_ours = matches!(
            error.kind(),
            ErrorKind::Server(ServerErrorKind::ResponseError)
                | ErrorKind::Parse
                | ErrorKind::UnexpectedReturnType
        );
        Self {
            lost: rule.reconnect || error.is_unrecoverable_error(),
            redirect: Redirect::of(error),
            error: if error_is_ours && rule.cause == Cause::Other {
                StoreError::Protocol(text)
            } else {
                StoreError::unavailable(rule.cause, text)
            },
        }
    }

    /// The server of this name has not answered for so long.
    pub(super) fn silent(server: &str, patience: Span) -> Self {
        Self::lost(Cause::Connection, format!("Redis at {server}: no answer within {patience}"))
    }

    /// The server of this name closed the connection.
    pub(super) fn closed(server: &str) -> Self {
        let text = format!("Redis at {server}: the server closed the connection");
        Self::lost(Cause::Connection, text)
    }

    /// The server of this name is not the master any more.
    pub(super) fn moved(server: &str) -> Self {
        let text = format!("Redis at {server}: it is not the master any more");
        Self::lost(Cause::ReadOnly, text)
    }

    /// There is no connection, `encrypted` or not, to the server of this name.
    pub(super) fn to_connect(
        error: &PoolError,
        server: &str,
        encrypted: bool,
        patience: Span,
    ) -> Self {
        let (cause, why) = match error {
            PoolError::Backend(error) => {
                let rule = Rule::of(error);
                // A server with too many clients says so and hangs up; often
                // only the latter arrives.
                let hung_up = error.is_connection_dropped() && !error.is_connection_refusal();
                let advice = match rule.advice {
                    "" if hung_up => "is maxclients reached?",
                    // Without TLS, a server waits for the end of a line.
                    "" if encrypted && error.is_timeout() => tls::NOT_SPOKEN,
                    advice => advice,
                };
                (rule.cause, with_advice(&describe(error), advice))
            }
            PoolError::Timeout(_) => (Cause::Connection, format!("no answer within {patience}")),
            other => (Cause::Other, other.to_string()),
        };
        Self::lost(cause, format!("Redis at {server}: cannot connect: {why}"))
    }

    fn lost(cause: Cause, text: String) -> Self {
        Self::fatal(StoreError::unavailable(cause, text))
    }

    /// The connection cannot be used, or there is none.
    pub(super) fn fatal(error: StoreError) -> Self {
        Self { error, lost: true, redirect: None }
    }

    /// The connection goes on.
    pub(super) fn harmless(error: StoreError) -> Self {
        Self { error, lost: false, redirect: None }
    }
}

/// Why the script could not use a counter of one request, in the words of Redis,
/// which name no key.
pub(super) fn unusable_counter(why: &[u8]) -> Refused {
    let why = String::from_utf8_lossy(why);
    let why: String = said_in_script(&why).chars().filter(|char| !char.is_control()).collect();
    let rule = match why.split(' ').next().and_then(Rule::of_code) {
        Some(rule) => rule,
        None if lacks_rights(&why) => rule(Cause::Permission, RIGHTS),
        None => rule(Cause::Other, ""),
    };
    let redirect = why.contains(NOT_HERE).then_some(Redirect::Unsettled);
    let outage = Outage::new(rule.cause, with_advice(&why, rule.advice));
    let error = match rule.cause {
        Cause::WrongType | Cause::Permission | Cause::Other => StoreError::Counter(outage),
        _ => StoreError::Unavailable(outage),
    };
    Refused { error, redirect }
}

fn with_advice(what: &str, advice: &str) -> String {
    if advice.is_empty() { what.to_owned() } else { format!("{what} ({advice})") }
}

/// Instead of the words of the server, which quote half of the library.
const NO_FUNCTIONS: &str = "it knows no functions (FUNCTION LOAD); use Redis 7, Valkey or later, \
                            or have the script run with --redis-script eval";

fn lacks_functions(error: &RedisError) -> bool {
    is_unknown(error, "FUNCTION")
}

/// Whether the server says that it has no such command.
fn is_unknown(error: &RedisError, command: &str) -> bool {
    let unknown = |detail: &str| detail.starts_with("unknown command") && detail.contains(command);
    error.code() == Some("ERR") && error.detail().is_some_and(unknown)
}

/// How servers say that a script may not do what it needs: before Redis 7.2, and
/// since then.
fn lacks_rights(detail: &str) -> bool {
    ["can't run this command", "can't access at least one of the keys", "ACL failure in script"]
        .iter()
        .any(|words| detail.contains(words))
}

/// What a command said inside the script. Before Redis 7, where that was comes first:
/// `@user_script: 7: -READONLY You can't write …`.
fn said_in_script(text: &str) -> &str {
    let said = text.strip_prefix("@user_script: ").and_then(|rest| rest.split_once(": "));
    said.map_or(text, |(_, said)| said.strip_prefix('-').unwrap_or(said))
}

/// The error in the words of the server, where they are its words.
fn describe(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => said_in_script(&format!("{code} {detail}")).to_owned(),
        (Some(code), None) => code.to_owned(),
        // Some have lines.
        (None, _) => error.to_string().split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Redis 6.2, 7.0 and 7.2 say it.
    #[test]
    fn what_a_command_says_in_a_script_is_recognised() {
        for (said, cause) in [
            ("@user_script: 12: -READONLY You can't write", Cause::ReadOnly),
            ("READONLY You can't write", Cause::ReadOnly),
            ("@user_script: 1: The user executing the script can't run this", Cause::Other),
            ("The user executing the script can't run this command", Cause::Permission),
            (
                "@user_script: 1: The user executing the script can't run this command",
                Cause::Permission,
            ),
            ("ERR ACL failure in script: User u has no permissions", Cause::Permission),
            ("@user_script: without a place", Cause::Other),
        ] {
            match unusable_counter(said.as_bytes()).error {
                StoreError::Counter(outage) | StoreError::Unavailable(outage) => {
                    assert_eq!(outage.cause, cause, "{said}");
                    assert!(!outage.text.contains("@user_script: 1"), "{}", outage.text);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

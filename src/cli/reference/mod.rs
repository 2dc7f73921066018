//! `tidegate serve` in place of envoyproxy/ratelimit: its environment variables
//! become the defaults of our flags. So a flag goes before its `TIDEGATE_`
//! variable, and that before a variable of the reference.

mod environment;
mod profile;
mod store;
mod table;
mod values;

use std::ffi::OsString;
use std::path::Path;

use clap::Command;
use clap::parser::{ArgMatches, ValueSource};

pub use environment::Faults;
pub use profile::{Chosen, Profile};
pub use table::markdown;

use environment::{Environment, Fault};
use profile::Entry;

use crate::app::Options;
use crate::policy::Layout;
use crate::store::redis::{Credentials, Password, Secret};

/// What envoyproxy/ratelimit is called.
pub const NAME: &str = "ratelimit";

/// What the environment and the way of starting make of the defaults of
/// `tidegate serve`.
#[derive(Debug)]
pub struct Defaults {
    /// Which defaults are in force, and why.
    pub chosen: Chosen,
    flags: Vec<(&'static str, String)>,
    rest: Rest,
}

/// What has no flag; it goes with what has one.
#[derive(Clone, Debug, Default)]
struct Rest {
    /// With `--config`.
    layout: Layout,
    /// With `--store`.
    sentinels: Option<Credentials>,
}

impl Defaults {
    /// Those that the flags have by themselves.
    pub fn none() -> Self {
        let chosen = Chosen { profile: Profile::Tidegate, why: String::new() };
        Self { chosen, flags: Vec::new(), rest: Rest::default() }
    }

    /// Reads the environment by `lookup`. `program` is the name that this
    /// process was started by.
    ///
    /// # Errors
    /// With every variable that has a wrong value, or one that cannot be.
    pub fn read(
        program: Option<&Path>,
        lookup: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Faults> {
        let chosen = Chosen::by(Entry::of(program), &lookup)?;
        Ok(match chosen.profile {
            Profile::Tidegate => Self { chosen, flags: Vec::new(), rest: Rest::default() },
            Profile::Container => Self {
                chosen,
                flags: CONTAINER.map(|(flag, value)| (flag, value.to_owned())).to_vec(),
                rest: Rest::default(),
            },
            Profile::Reference => Self::of_reference(chosen, &Environment::read(lookup))?,
        })
    }

    fn of_reference(chosen: Chosen, env: &Environment) -> Result<Self, Faults> {
        env.check()?;
        let mut flags: Vec<_> =
            REFERENCE.iter().map(|(flag, value)| (*flag, (*value).to_owned())).collect();
        flags.push(("http-listen", env.address("HOST", "PORT", 8080)));
        flags.push((
            "listen",
            match env.filled("GRPC_UDS") {
                Some(path) => format!("unix:{path}"),
                None => env.address("GRPC_HOST", "GRPC_PORT", 8081),
            },
        ));
        flags.push(("config", directory(env)));
        flags.push(("store", store::url(env, store::Names::MAIN)?));
        flags.push(("debug-listen", env.address("DEBUG_HOST", "DEBUG_PORT", 6070)));
        if env.truth("REDIS_PERSECOND") {
            flags.push(("store-per-second", store::url(env, store::Names::PER_SECOND)?));
        }
        if env.truth("REDIS_TLS") || env.truth("REDIS_PERSECOND_TLS") {
            flags.extend(redis_tls(env));
        }
        if env.truth("GRPC_SERVER_USE_TLS") {
            flags.extend(grpc_tls(env)?);
        }
        Ok(Self { chosen, flags, rest: Rest { layout: layout(env), sentinels: sentinels(env) } })
    }

    /// `command`, whose subcommand is `serve`, with these defaults.
    pub fn apply(&self, command: Command) -> Command {
        command.mut_subcommand("serve", |serve| {
            self.flags.iter().fold(serve, |serve, (flag, value)| {
                let id = serve.get_arguments().find(|arg| arg.get_long() == Some(*flag));
                let Some(id) = id.map(|arg| arg.get_id().clone()) else { return serve };
                serve.mut_arg(id, |arg| {
                    // What is not shown from the environment is not shown as a
                    // default: the URL of a store may hold a password.
                    let hidden = arg.is_hide_env_values_set();
                    arg.default_value(value.clone()).hide_default_value(hidden)
                })
            })
        })
    }

    /// `options`, made of what is in `matches`, with what has no flag.
    pub fn complete(&self, mut options: Options, matches: &ArgMatches) -> Options {
        let source = |id| matches.subcommand_matches("serve")?.value_source(id);
        let is_default = |id| source(id) == Some(ValueSource::DefaultValue);
        if is_default("config") {
            options.load.layout = self.rest.layout;
        }
        let sentinels = &mut options.store.sentinel_credentials;
        if is_default("store") && sentinels.username.is_none() && sentinels.password.is_none() {
            *sentinels = self.rest.sentinels.clone().unwrap_or_default();
        }
        options
    }
}

/// What the image of a container is for: everybody may call, rules are mounted,
/// and logs are collected.
const CONTAINER: [(&str, &str); 4] = [
    ("config", "/etc/tidegate"),
    ("listen", "0.0.0.0:8081"),
    ("http-listen", "0.0.0.0:8080"),
    ("log-format", "json"),
];

/// Where envoyproxy/ratelimit does otherwise than we do by default, whatever
/// its variables say.
const REFERENCE: &[(&str, &str)] = &[
    ("failure-mode", "error"),
    ("reference-codes", "true"),
    ("start-with-bad-config", "true"),
    ("lenient", "true"),
    ("log-level", "warn"),
    ("near-cache-size", "0"),
    ("statsd", "true"),
];

/// The directory of the rules.
fn directory(env: &Environment) -> String {
    let root = env.get("RUNTIME_ROOT").unwrap_or("/srv/runtime_data/current");
    let under = env.get("RUNTIME_SUBDIRECTORY").unwrap_or_default();
    let path = Path::new(root).join(under.trim_start_matches('/'));
    path.join(application(env).trim_start_matches('/')).display().to_string()
}

fn application(env: &Environment) -> &str {
    env.get("RUNTIME_APPDIRECTORY").unwrap_or("config")
}

/// Every file counts, and is called by its path with dots for slashes.
fn layout(env: &Environment) -> Layout {
    Layout::Runtime {
        dot_files: !env.truth("RUNTIME_IGNOREDOTFILES"),
        with_directory: env.truth_or("RUNTIME_WATCH_ROOT", true),
    }
}

/// The certificates for Redis.
fn redis_tls(env: &Environment) -> Vec<(&'static str, String)> {
    let pair = env.filled("REDIS_TLS_CLIENT_CERT").zip(env.filled("REDIS_TLS_CLIENT_KEY"));
    let ca = env.filled("REDIS_TLS_CACERT").map(|path| ("redis-tls-ca", path));
    let pair = pair.map(|(cert, key)| [("redis-tls-cert", cert), ("redis-tls-key", key)]);
    let given = ca.into_iter().chain(pair.into_iter().flatten());
    given.map(|(flag, path)| (flag, path.to_owned())).collect()
}

/// Our own certificate, and whose clients may come.
fn grpc_tls(env: &Environment) -> Result<Vec<(&'static str, String)>, Fault> {
    let needed = |name| {
        let what = "missing; GRPC_SERVER_USE_TLS needs the file of the certificate and of its key";
        env.filled(name).ok_or_else(|| Fault::new(name, what))
    };
    let mut flags = vec![
        ("tls-cert", needed("GRPC_SERVER_TLS_CERT")?.to_owned()),
        ("tls-key", needed("GRPC_SERVER_TLS_KEY")?.to_owned()),
    ];
    if let Some(ca) = env.filled("GRPC_CLIENT_TLS_CACERT") {
        flags.push(("tls-client-ca", ca.to_owned()));
        let name = env.filled("GRPC_CLIENT_TLS_SAN");
        flags.extend(name.map(|name| ("tls-client-san", name.to_owned())));
    }
    Ok(flags)
}

/// Who we are to sentinels.
fn sentinels(env: &Environment) -> Option<Credentials> {
    let (user, password) = env.get("REDIS_SENTINEL_AUTH").and_then(store::user_and_password)?;
    Some(Credentials {
        username: (!user.is_empty()).then(|| user.to_owned()),
        password: Some(Password::Given(Secret::new(password))),
    })
}

//! The two ways to have Redis run the script.
//!
//! Either way Redis keeps the source, may lose it at any time (a restart, a
//! flush), and has done nothing when it says so. The same batch is then sent
//! again, this time with the source.

use std::sync::LazyLock;

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{
    Cmd, ErrorKind, RedisError, RedisResult, Script, ServerErrorKind, Value, cmd,
};

use super::script::Batch;

/// How Redis is asked to run the script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScriptRuntime {
    /// `EVALSHA`, on any Redis or Valkey.
    #[default]
    Eval,
    /// `FCALL` of a library of functions, on Redis 7, Valkey and later: part of
    /// the data set, so it is there after a restart with data and on replicas.
    Function,
}

/// Defines the function `decide`. Assembled by `build.rs` out of `lua/`.
const SOURCE: &str = include_str!(concat!(env!("OUT_DIR"), "/decide.lua"));

/// The same, called.
static SCRIPT: LazyLock<(String, String)> = LazyLock::new(|| {
    let script = format!("{SOURCE}return decide(KEYS, ARGV)\n");
    let hash = Script::new(&script).get_hash().to_owned();
    (script, hash)
});

static LIBRARY: LazyLock<Library> = LazyLock::new(Library::new);

/// How often a batch is sent with the library before it is given up: somebody
/// would have to flush the functions as often, each time between two commands.
const MOST_LOADS: usize = 3;

/// The script as a library of functions.
struct Library {
    /// What the library and its one function are called: the names of functions
    /// are common to all libraries of a server. It ends in a hash of the source,
    /// so that two releases can share a server while one replaces the other.
    name: String,
    source: String,
}

impl Library {
    fn new() -> Self {
        let named = |name: &str| {
            format!("#!lua name={name}\n{SOURCE}redis.register_function('{name}', decide)\n")
        };
        let hash = blake3::hash(named("").as_bytes()).to_hex();
        let name = format!("tidegate_{}", hash.get(..16).unwrap_or(&hash));
        Self { source: named(&name), name }
    }
}

impl ScriptRuntime {
    /// Whether the server does not have the script. Nothing was done then.
    pub(super) fn is_lacking(self, error: &RedisError) -> bool {
        match self {
            Self::Eval => error.kind() == ErrorKind::Server(ServerErrorKind::NoScript),
            Self::Function => is_unknown_function(error),
        }
    }

    /// Makes a fresh connection ready. A server that knows no functions quotes
    /// what it does not understand; of a batch, that would not even be text.
    pub(super) async fn prepare(self, connection: &mut impl ConnectionLike) -> RedisResult<()> {
        match self {
            Self::Eval => Ok(()),
            Self::Function => load_library(connection).await,
        }
    }
}

impl Batch {
    /// Has the batch decided.
    pub(super) async fn decide(
        &self,
        runtime: ScriptRuntime,
        connection: &mut impl ConnectionLike,
    ) -> RedisResult<Value> {
        match runtime {
            ScriptRuntime::Eval => self.evaluate(connection).await,
            ScriptRuntime::Function => self.call_function(connection).await,
        }
    }

    /// The source goes with the batch, and Redis keeps it: that needs no
    /// permission for `SCRIPT`.
    async fn evaluate(&self, connection: &mut impl ConnectionLike) -> RedisResult<Value> {
        let runtime = ScriptRuntime::Eval;
        match self.call(runtime, false).query_async(connection).await {
            Err(error) if runtime.is_lacking(&error) => {
                self.call(runtime, true).query_async(connection).await
            }
            outcome => outcome,
        }
    }

    async fn call_function(&self, connection: &mut impl ConnectionLike) -> RedisResult<Value> {
        let call = self.call(ScriptRuntime::Function, false);
        for _ in 0..MOST_LOADS {
            match call.query_async(connection).await {
                Err(error) if is_unknown_function(&error) => load_library(connection).await?,
                outcome => return outcome,
            }
        }
        call.query_async(connection).await
    }

    /// The command that has it decided, with the source of the script where that
    /// can go along.
    pub(super) fn call(&self, runtime: ScriptRuntime, with_source: bool) -> Cmd {
        match runtime {
            ScriptRuntime::Eval if with_source => self.command("EVAL", &SCRIPT.0),
            ScriptRuntime::Eval => self.command("EVALSHA", &SCRIPT.1),
            ScriptRuntime::Function => self.command("FCALL", &LIBRARY.name),
        }
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = Cmd::with_capacity(self.charges() + 4, self.len_bytes() + script.len());
        command.arg(name).arg(script);
        self.write_to(&mut command);
        command
    }
}

/// Other connections and other replicas may load it at the same moment.
pub(super) async fn load_library(connection: &mut impl ConnectionLike) -> RedisResult<()> {
    let load = cmd("FUNCTION").arg("LOAD").arg(&LIBRARY.source).take();
    match load.query_async::<Value>(connection).await {
        Ok(_) => tracing::info!(library = LIBRARY.name, "loaded a library of functions into Redis"),
        Err(error) if says(&error, "already exists") => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

fn is_unknown_function(error: &RedisError) -> bool {
    says(error, "Function not found")
}

fn says(error: &RedisError, words: &str) -> bool {
    error.code() == Some("ERR") && error.detail().is_some_and(|detail| detail.contains(words))
}

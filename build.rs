//! Compiles the wire definitions (without `protoc`) and assembles the Lua script.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost::Message as _;

/// What the service serves, which reflection tells.
const SERVED: &[&str] = &["envoy/service/ratelimit/v3/rls.proto", "tidegate/v1/admin.proto"];
/// What it asks of control planes.
const ASKED: &[&str] =
    &["envoy/service/discovery/v3/ads.proto", "ratelimit/config/ratelimit/v3/rls_conf.proto"];

const LUA: &[&str] = &[
    "prelude",
    "limit/rate",
    "limit/fixed_window",
    "limit/sliding_log",
    "limit/sliding_counter",
    "limit/token_bucket",
    "limit/gcra",
    "limit/lockout",
    "decide",
];

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    compile_protos(&out)?;
    assemble_lua(&out)?;
    Ok(())
}

/// Rust types, clients and servers from `proto/`, and the descriptor set that
/// reflection and the JSON face read.
fn compile_protos(out: &Path) -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let served = protox::compile(SERVED, ["proto"])?;
    fs::write(out.join("descriptors.bin"), served.encode_to_vec())?;
    let all = protox::compile([SERVED, ASKED].concat(), ["proto"])?;
    tonic_prost_build::configure().build_client(true).build_server(true).compile_fds(all)?;
    Ok(())
}

/// One script out of many files, each of which may use what those before it
/// define: every algorithm is one of them, and `decide`, the last, runs them.
fn assemble_lua(out: &Path) -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=lua");
    let mut script = String::new();
    for part in LUA {
        let path = format!("lua/{part}.lua");
        let source = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        script.push_str(&without_comments(&source));
    }
    fs::write(out.join("decide.lua"), script)?;
    Ok(())
}

/// Drops whole-line comments and indentation: they would only be sent to Redis
/// and kept in its script cache.
fn without_comments(source: &str) -> String {
    let mut kept = String::with_capacity(source.len());
    for line in source.lines().map(str::trim) {
        if !line.is_empty() && !line.starts_with("--") {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

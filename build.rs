//! Compiles the wire definitions (without `protoc`) and assembles the Lua script.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost::Message as _;

/// What the service serves, which reflection tells.
const SERVED: &[&str] = &["envoy/service/ratelimit/v3/rls.proto", "tidegate/v1/admin.proto"];
/// What it asks of control planes.
const ASKED: &[&str] =
    &["envoy/service/discovery/v3/ads.proto", "ratelimit/config/ratelimit/v3/rls_conf.proto"];

/// The modules of the script by their number, each with the files it is made of.
const MODULES: &[(u8, &[&str])] = &[
    (0, &["groups"]),
    (1, &["limit/common", "limit/fixed_window"]),
    (2, &["limit/common", "limit/sliding_log"]),
    (3, &["limit/common", "limit/sliding_counter"]),
    (4, &["limit/common", "limit/rate", "limit/token_bucket"]),
    (5, &["limit/common", "limit/rate", "limit/gcra"]),
    (6, &["limit/common", "limit/lockout"]),
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

/// One script out of many files. A module is a chunk that returns what it makes;
/// all of them are branches of one function, because each function that a script
/// makes costs at every call.
fn assemble_lua(out: &Path) -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=lua");
    let mut script = lua("prelude")?;
    script.push_str("local function load_module(number)\nlocal function make()\n");
    for (number, parts) in MODULES {
        writeln!(script, "if number == {number} then")?;
        for part in *parts {
            script.push_str(&lua(part)?);
        }
        script.push_str("end\n");
    }
    script.push_str("end\nmodules[number] = make()\nreturn modules[number]\nend\n");
    script.push_str(&lua("decide")?);
    fs::write(out.join("decide.lua"), script)?;
    Ok(())
}

fn lua(part: &str) -> Result<String, String> {
    let path = format!("lua/{part}.lua");
    let source = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    Ok(without_comments(&source))
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

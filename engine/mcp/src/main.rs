//! The `mnemolith` binary: the command line of the memory engine, and its JSON-lines face for scripts.
//!
//! Everything here goes through the facade: parse, one call, print.
#![forbid(unsafe_code)]

mod args;
mod cli;
mod exec;
mod render;
mod tour;

fn main() -> std::process::ExitCode {
    cli::main()
}

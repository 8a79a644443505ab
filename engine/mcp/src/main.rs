//! The `mnemolith` binary.
fn main() {}

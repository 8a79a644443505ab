//! Benchmarks of Mnemolith.

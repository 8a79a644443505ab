//! Vector kernels, bitsets and top-k of Mnemolith.

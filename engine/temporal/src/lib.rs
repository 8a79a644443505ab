//! Time for Mnemolith: instants and, above them, bitemporal facts.

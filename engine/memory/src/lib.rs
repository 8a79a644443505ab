//! Mnemolith: an embedded memory engine for AI agents.

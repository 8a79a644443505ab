//! The storage kernel of Mnemolith: format, log, slabs, indexes, scan and recovery.

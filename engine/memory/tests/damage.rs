//! Damage below a memory that is changed: it must not be written again under a checksum that vouches for it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::disallowed_methods, reason = "tests fail by panicking")]

mod common;

use mnemolith::{Error, RecallQuery, RememberRequest, Update};

const VECTORS: &str = "default/slabs/00000000/vectors.slab";

/// Two memories along the axes, the vector of the first one turned towards the second on disk.
fn damaged(path: &std::path::Path) {
    let memory = common::vectors(path, 4, &common::clock()).open().unwrap();
    memory.remember(RememberRequest::new("along x").id("x").vector([1.0, 0.0, 0.0, 0.0])).unwrap();
    memory.remember(RememberRequest::new("along y").id("y").vector([0.0, 1.0, 0.0, 0.0])).unwrap();
    memory.close().unwrap();
    let mut bytes = std::fs::read(path.join(VECTORS)).unwrap();
    bytes.copy_within(64..80, 0);
    std::fs::write(path.join(VECTORS), bytes).unwrap();
}

#[test]
fn an_update_that_keeps_a_damaged_vector_is_refused() {
    let root = tempfile::tempdir().unwrap();
    damaged(root.path());
    let memory = common::vectors(root.path(), 4, &common::clock()).open().unwrap();
    let refused = memory.update("x", Update::new().tags(["kept"])).unwrap_err();
    assert!(matches!(refused, Error::Corrupt { .. }), "{refused}");
    let hits = memory.recall(RecallQuery::from_vector([0.0, 1.0, 0.0, 0.0]).k(9)).unwrap().hits;
    assert_eq!(hits.iter().map(|hit| hit.id.as_str()).collect::<Vec<_>>(), ["y"]);
    assert!(!memory.verify().unwrap().is_clean());
}

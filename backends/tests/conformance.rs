//! Every backend of this crate does what every backend must do.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::{Arc, Mutex};

use mnemolith_backends::{Backend, FileBackend, MemoryBackend, conformance};

#[test]
fn memory_conforms() {
    conformance::run(&|| Arc::new(MemoryBackend::new()) as Arc<dyn Backend>);
}

#[test]
fn files_conform() {
    let roots = Mutex::new(Vec::new());
    conformance::run(&|| {
        let root = tempfile::tempdir().unwrap();
        let backend = FileBackend::new(root.path().join("a").join("store"));
        roots.lock().unwrap().push(root);
        Arc::new(backend)
    });
}

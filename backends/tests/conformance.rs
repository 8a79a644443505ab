//! Every backend of this crate does what every backend must do.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::{Arc, Mutex};

use mnemolith_backends::{Backend, FileBackend, MemoryBackend, NamespaceImage, StorageErrorKind, conformance};

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

#[test]
fn an_image_of_memory_is_the_whole_namespace() {
    let backend = MemoryBackend::new();
    assert_eq!(backend.export("a").unwrap(), None);
    let directory = backend.open("a").unwrap();
    directory.create_folder("empty").unwrap();
    directory.create_folder("full/deep").unwrap();
    directory.replace("full/deep/file", b"bytes").unwrap();
    directory.create_region("region", 100).unwrap().append_at(98, b"xy").unwrap();
    assert!(matches!(backend.export("a").unwrap_err().kind, StorageErrorKind::AlreadyOpen { .. }));
    assert!(matches!(backend.import("a", &NamespaceImage::default()).unwrap_err().kind, StorageErrorKind::AlreadyOpen { .. }));
    drop(directory);
    let image = backend.export("a").unwrap().unwrap();
    assert_eq!(image.files["full/deep/file"], b"bytes");
    assert_eq!((image.files["region"].len(), &image.files["region"][98..]), (100, b"xy".as_slice()));
    let other = MemoryBackend::new();
    other.open("b").unwrap().replace("gone", b"").unwrap();
    other.import("b", &image).unwrap();
    assert_eq!(other.export("b").unwrap().unwrap(), image);
    let bad = NamespaceImage { files: [("../out".to_owned(), Vec::new())].into(), ..NamespaceImage::default() };
    other.import("b", &bad).unwrap_err();
}

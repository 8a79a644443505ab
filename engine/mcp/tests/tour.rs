//! The tour, from outside.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use support::{Folder, binary, run};

#[test]
fn the_tour_runs_through_fits_80_columns_and_leaves_nothing_behind() {
    let folder = Folder::new();
    let mut command = binary();
    command.env("TMPDIR", folder.path()).env("XDG_DATA_HOME", folder.path().join("data")).arg("tour");
    let ran = run(command, b"");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    for word in ["1. Remember", "duplicate", "x mod", "Filter by tag", "after forget", "acknowledged before the kill", "Next"] {
        assert!(ran.out.contains(word), "{word}: {}", ran.out);
    }
    let broad = ran.out.lines().find(|line| line.chars().count() > 80);
    assert_eq!(broad, None);
    assert!(!ran.out.contains('\x1b'), "no colour into a pipe");
    assert!(folder.path().read_dir().unwrap().next().is_none(), "the tour left something behind");
}

#[test]
fn a_directory_keeps_the_store_of_the_tour_and_is_not_used_twice() {
    let folder = Folder::new();
    let ran = folder.run(["tour"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let hits = folder.run(["recall", "walnuts", "--json", "-k", "3"]).json()["hits"].clone();
    assert!(hits.as_array().unwrap().iter().any(|hit| hit["text"].as_str().unwrap().contains("walnuts")), "{hits}");
    assert_eq!(folder.run(["get", "t25"]).code, 1, "what the tour forgot");
    let again = folder.run(["tour"]);
    assert!(again.code == 2 && again.err.contains("of its own"), "{again:?}");
}

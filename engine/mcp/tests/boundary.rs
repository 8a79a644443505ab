//! The crates are the walls: no arrow between them but those the architecture draws.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// What each crate of the workspace may depend on within it; `None` for a crate that may use any.
fn allowed(package: &str) -> Option<&'static [&'static str]> {
    match package {
        "mnemolith-mcp" => Some(&["mnemolith"]),
        "mnemolith" => Some(&["mnemolith-kernel", "mnemolith-temporal", "mnemolith-backends"]),
        "mnemolith-kernel" => Some(&["mnemolith-backends", "mnemolith-simd"]),
        benches if benches.contains("bench") => None,
        _ => Some(&[]),
    }
}

/// Every edge between two crates of the workspace, of any kind: normal, build or dev.
fn edges() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let members: BTreeSet<&str> = packages.iter().map(|package| package["name"].as_str().unwrap()).collect();
    let mut edges = BTreeMap::new();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let targets = package["dependencies"].as_array().unwrap().iter();
        let targets = targets.map(|dependency| dependency["name"].as_str().unwrap());
        let inside: BTreeSet<String> = targets.filter(|target| members.contains(target)).map(str::to_owned).collect();
        edges.insert(name.to_owned(), inside);
    }
    edges
}

#[test]
fn no_crate_depends_on_another_except_along_the_arrows_of_the_architecture() {
    let edges = edges();
    let mut seen = 0;
    for (package, targets) in &edges {
        seen += targets.len();
        let Some(allowed) = allowed(package) else {
            continue;
        };
        for target in targets {
            assert!(allowed.contains(&target.as_str()), "forbidden edge: {package} -> {target}");
        }
    }
    assert!(seen > 0, "no edge was seen, so nothing was checked");
    for package in ["mnemolith-mcp", "mnemolith", "mnemolith-kernel", "mnemolith-temporal", "mnemolith-backends", "mnemolith-simd"] {
        assert!(edges.contains_key(package), "{package} is not in the workspace any more: this test must learn its new name");
    }
}

#[test]
fn the_command_line_sees_the_facade_and_no_other_crate_of_the_workspace() {
    let edges = edges();
    assert_eq!(edges["mnemolith-mcp"], BTreeSet::from(["mnemolith".to_owned()]));
}

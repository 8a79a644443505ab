//! The choice of a table.

use crate::dispatch::choose;
use crate::{SimdError, available, by_name, portable, scalar};

#[test]
fn without_a_request_the_fastest_table_is_chosen() {
    let tables = available();
    let fastest = tables.last().map(|table| table.name());
    assert_eq!(choose(None, &tables).map(|table| table.name()).ok(), fastest);
}

#[test]
fn every_available_table_can_be_asked_for_by_name() {
    let tables = available();
    let names: Vec<&str> = tables.iter().map(|table| table.name()).collect();
    let slowest_first = ["scalar", "portable", "avx2", "avx512"];
    assert_eq!(names, slowest_first[..names.len()]);
    assert!(names.len() >= 2);
    for table in tables {
        assert_eq!(by_name(table.name()).unwrap().name(), table.name());
    }
}

#[test]
fn an_unknown_name_is_refused_and_the_message_lists_what_would_work() {
    for name in ["avx1024", "", "AVX2", " scalar", "scalar,portable"] {
        let error = choose(Some(name), &[&scalar::TABLE, &portable::TABLE]).unwrap_err();
        let expected = SimdError::Unknown { requested: name.to_owned(), supported: vec!["scalar", "portable"] };
        assert_eq!(error, expected);
        let message = error.to_string();
        assert!(message.contains(&format!("{name:?}")), "{message}");
        assert!(message.contains("[scalar, portable]"), "{message}");
        assert!(message.contains("MNEMOLITH_SIMD"), "{message}");
    }
}

#[test]
fn a_table_this_cpu_lacks_is_refused_and_never_replaced() {
    let tables = [&scalar::TABLE, &portable::TABLE];
    for name in ["avx2", "avx512"] {
        let error = choose(Some(name), &tables).unwrap_err();
        assert!(matches!(error, SimdError::Unsupported { .. }));
        assert!(error.to_string().contains(name));
        assert!(error.to_string().contains("[scalar, portable]"));
    }
}

#[test]
fn the_active_table_follows_the_environment_of_the_test_run() {
    let requested = std::env::var(crate::ENV_VAR).ok();
    let expected = choose(requested.as_deref(), &available()).map(|table| table.name());
    assert_eq!(crate::active().map(|table| table.name()), expected);
}

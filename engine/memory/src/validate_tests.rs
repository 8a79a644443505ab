use super::*;
use crate::error::ErrorKind;
use crate::types::Profile;
use serde_json::json;

fn new() -> RememberRequest {
    RememberRequest::new("text")
}

fn object(value: Value) -> Metadata {
    match value {
        Value::Object(object) => object,
        _ => Metadata::new(),
    }
}

fn refused(request: RememberRequest) -> Error {
    let error = memory(request, Some(2)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    error
}

fn code(request: RememberRequest) -> &'static str {
    refused(request).code()
}

#[test]
fn each_bound_of_a_memory_has_its_own_error() {
    let nan = f32::NAN;
    for (request, wanted) in [
        (RememberRequest::default(), "MissingContent"),
        (RememberRequest::new(""), "BlankText"),
        (RememberRequest::new(" \n\u{3000}"), "BlankText"),
        (RememberRequest::new("x".repeat(1_048_577)), "TextTooLong"),
        (RememberRequest::new(" ".repeat(1_048_577)), "TextTooLong"),
        (RememberRequest::from_vector([1.0, nan]), "NotFinite"),
        (RememberRequest::from_vector([f32::NEG_INFINITY, 1.0]), "NotFinite"),
        (RememberRequest::from_vector([0.0, 0.0]), "ZeroVector"),
        (RememberRequest::from_vector([1.0, 0.0, 0.0]), "WrongDimension"),
        (RememberRequest::from_vector([]), "WrongDimension"),
        (new().vector([1.0]), "WrongDimension"),
        (new().id(""), "BlankId"),
        (new().id("x".repeat(1025)), "IdTooLong"),
        (new().tags(vec!["x"; 65]), "TooManyTags"),
        (new().tag(" "), "BlankTag"),
        (new().tag("x".repeat(257)), "TagTooLong"),
        (new().metadata(object(json!({"k": "x".repeat(65_536)}))), "MetadataTooLong"),
        (new().session(" "), "BlankField"),
        (new().session("x".repeat(1025)), "FieldTooLong"),
        (new().at(Timestamp::from_millis(Timestamp::MIN_MEMORY.millis() - 1)), "TimeOutOfRange"),
        (new().at(Timestamp::from_millis(Timestamp::MAX_MEMORY.millis() + 1)), "TimeOutOfRange"),
        (new().at(Timestamp::POS_INF), "TimeOutOfRange"),
        (new().valence(-128), "OutOfRange"),
        (new().valence(128), "OutOfRange"),
        (new().valence(i64::MIN), "OutOfRange"),
        (new().arousal(-1), "OutOfRange"),
        (new().arousal(256), "OutOfRange"),
        (new().reward(1.000_1), "OutOfRange"),
        (new().reward(f64::NAN), "OutOfRange"),
        (new().interest(-0.1), "OutOfRange"),
        (new().challenge(1.1), "OutOfRange"),
        (new().urgency(f64::INFINITY), "OutOfRange"),
        (new().soul(Soul::new(1).boost("a", -0.1)), "OutOfRange"),
        (new().soul(Soul::new(1).boost("a", f64::NAN)), "OutOfRange"),
        (new().soul(Soul::new(1).boost(" ", 1.0)), "BlankField"),
        (new().soul(Soul::new(1).valence_gain(10.1)), "OutOfRange"),
        (new().link("", 1.0), "BlankField"),
        (new().link("x".repeat(1025), 1.0), "FieldTooLong"),
        (new().link("a", 0.0), "OutOfRange"),
        (new().link("a", 10.1), "OutOfRange"),
        (new().entities(["a", ""]), "BlankField"),
        (new().entities(vec!["a"; 257]), "TooManyItems"),
        (new().relation(StatedRelation::new("a", " ", "b")), "BlankField"),
        (new().relation(StatedRelation::new("a", "b", "x".repeat(65_537))), "FieldTooLong"),
    ] {
        let shown = format!("{request:?}").chars().take(120).collect::<String>();
        assert_eq!(code(request), wanted, "{shown}");
    }
}

#[test]
fn every_bound_itself_is_accepted() {
    let request = RememberRequest::new("x".repeat(1_048_576))
        .vector([0.0, f32::MIN_POSITIVE])
        .id("x".repeat(1024))
        .tags((0..64).map(|i| format!("{i:0256}")))
        .session("x".repeat(1024))
        .at(Timestamp::MIN_MEMORY)
        .valence(-127)
        .arousal(255)
        .reward(-1.0)
        .interest(0.0)
        .challenge(1.0)
        .urgency(1.0)
        .soul(Soul::new(u16::MAX).boost("a", 0.0).boost("b", 10.0).valence_gain(-10.0))
        .link("a", 10.0)
        .relation(StatedRelation::new("a", "b", "x".repeat(65_536)));
    let checked = memory(request, Some(2)).unwrap();
    assert_eq!((checked.valence, checked.arousal, checked.tags.len()), (Some(-127), Some(255), 64));
    assert!(memory(new().at(Timestamp::MAX_MEMORY), None).is_ok());
    assert!(memory(RememberRequest::from_vector(vec![1.0; 65_535]), None).is_ok());
}

#[test]
fn metadata_is_bounded_by_the_bytes_of_its_compact_json() {
    // {"k":"..."} has eight bytes around the value.
    let of = |len: usize| new().metadata(object(json!({"k": "x".repeat(len - 8)})));
    assert_eq!(memory(of(65_536), None).unwrap().metadata_json.len(), 65_536);
    assert_eq!(memory(of(65_537), None), Err(Error::MetadataTooLong { len: 65_537, max: 65_536 }));
    // An escape counts as what it becomes, and so does a character of two bytes.
    let escaped = new().metadata(object(json!({"k": "\n".repeat(32_764)})));
    assert_eq!(memory(escaped, None).unwrap().metadata_json.len(), 65_536);
    let wide = new().metadata(object(json!({"k": "é".repeat(32_765)})));
    assert_eq!(code(wide), "MetadataTooLong");
    assert_eq!(memory(new(), None).unwrap().metadata_json, "");
}

#[test]
fn metadata_reads_back_as_it_was_stored() {
    let metadata = object(json!({
        "z": 1, "a": [0.1, 1e-7, 0.123_456_789_012_345_68, 123_456_789.123_456_79_f64],
        "n": null, "big": u64::MAX, "small": i64::MIN, "é": "\u{0}",
    }));
    let checked = memory(new().metadata(metadata.clone()), None).unwrap();
    assert!(checked.metadata_json.starts_with("{\"a\":"), "keys are sorted");
    assert_eq!(serde_json::from_str::<Metadata>(&checked.metadata_json).unwrap(), metadata);
    let mut digits = 0.1_f64;
    for _ in 0..2_000 {
        digits = (digits * 1.618_033_988_749_895).fract() + f64::EPSILON;
        let metadata = object(json!({ "x": digits }));
        let json = memory(new().metadata(metadata.clone()), None).unwrap().metadata_json;
        assert_eq!(serde_json::from_str::<Metadata>(&json).unwrap(), metadata);
    }
}

#[test]
fn metadata_that_could_not_be_read_back_is_refused() {
    let nested = |levels: usize| {
        let mut value = json!(1);
        for _ in 0..levels {
            value = json!([value]);
        }
        new().metadata(object(json!({ "k": value })))
    };
    let json = memory(nested(METADATA_DEPTH - 1), None).unwrap().metadata_json;
    assert!(serde_json::from_str::<Metadata>(&json).is_ok());
    assert_eq!(code(nested(METADATA_DEPTH)), "InvalidField");
    assert_eq!(code(nested(5_000)), "InvalidField");
}

#[test]
fn ids_and_texts_may_contain_anything() {
    for odd in ["#", "/", "..", "a\nb", "🦀", "\0", " ", "don't", "\u{202e}x"] {
        assert_eq!(memory(new().id(odd), None).unwrap().id.as_deref(), Some(odd));
    }
    let checked = memory(RememberRequest::new(" a\0b "), None).unwrap();
    assert_eq!(checked.text.as_deref(), Some(" a\0b "));
}

#[test]
fn messages_name_the_field_and_the_numbers() {
    for (request, parts) in [
        (new().valence(300), ["valence", "300", "-127", "127"]),
        (new().link("a", 1.0).link("b", -2.0), ["links[1].weight", "-2", "10", "must"]),
        (new().soul(Soul::new(1).boost("Ops", 11.0)), ["soul.boosts[\"Ops\"]", "11", "0", "10"]),
        (new().entities(["a", " "]), ["entities[1]", "blank", "value", "leave"]),
        (new().relation(StatedRelation::new("", "b", "c")), ["relations[0]", "subject", "blank", "."]),
        (RememberRequest::from_vector([1.0; 3]), ["dimension 3", "dimension 2", "vector", "takes"]),
        (RememberRequest::from_vector([1.0, f32::NAN]), ["vector[1]", "NaN", "finite", "number"]),
        (new().at(Timestamp::MIN_FACT), ["at", "-9999-01-01T00:00:00Z", "0001", "9999"]),
    ] {
        let message = refused(request).to_string();
        for part in parts {
            assert!(message.contains(part), "{message:?} lacks {part:?}");
        }
    }
}

#[test]
fn boosts_match_tags_in_their_normal_form() {
    let soul = Soul::new(7).boost("OPS", 2.0).boost(" Straße", 0.5).boost("other", 9.0);
    let checked = memory(new().tags(["ops", "STRASSE"]).soul(soul), None).unwrap();
    let soul = checked.soul.unwrap();
    assert_eq!(soul.version, 7);
    let mut matching = soul.matching(&checked.tags);
    matching.sort_by(f64::total_cmp);
    assert_eq!(matching, [0.5, 2.0]);
}

#[test]
fn each_bound_of_a_query_has_its_own_error() {
    let new = || RecallQuery::new("text");
    for (given, wanted) in [
        (RecallQuery::default(), "MissingContent"),
        (RecallQuery::new(" "), "BlankText"),
        (RecallQuery::new("x".repeat(1_048_577)), "TextTooLong"),
        (RecallQuery::from_vector([f32::NAN, 0.0]), "NotFinite"),
        (RecallQuery::from_vector([0.0, 0.0]), "ZeroVector"),
        (RecallQuery::from_vector([1.0]), "WrongDimension"),
        (new().tags_all([""]), "BlankTag"),
        (new().tags_any(vec!["a"; 65]), "TooManyTags"),
        (new().mood(-128), "OutOfRange"),
        (new().session(""), "BlankField"),
    ] {
        assert_eq!(query(given, Some(2)).unwrap_err().code(), wanted);
    }
    for k in [0, 1, usize::MAX] {
        assert_eq!(query(new().k(k), Some(2)).unwrap().k, k);
    }
}

#[test]
fn mood_weighs_only_where_there_is_one_and_tiers_collapse() {
    let new = || RecallQuery::new("text").profile(Profile::Recalling);
    let calm = query(new(), None).unwrap();
    assert_eq!((calm.weights.m, calm.mood), (0.0, 0));
    let sad = query(new().mood(-80), None).unwrap();
    assert_eq!((sad.weights.m, sad.mood), (Profile::Recalling.weights().m, -80));
    assert!(sad.weights.m > 0.0);
    let tiers = [Tier::Semantic, Tier::Working, Tier::Semantic];
    assert_eq!(query(new().tiers(tiers), None).unwrap().tiers, [Tier::Working, Tier::Semantic]);
}

#[test]
fn lists_updates_and_reinforcements_are_bounded() {
    let code = |error: Option<Error>| error.map_or("none", |error| error.code());
    assert_eq!(code(list(ListQuery::new().limit(0)).err()), "OutOfRange");
    assert_eq!(code(list(ListQuery::new().limit(1001)).err()), "OutOfRange");
    assert_eq!(list(ListQuery::new().limit(1000)).unwrap().limit, 1000);
    assert_eq!(code(update(Update::new().text(" ")).err()), "BlankText");
    assert_eq!(code(update(Update::new().tags([" "])).err()), "BlankTag");
    let cleared = update(Update::new().tags([""; 0]).metadata(Metadata::new())).unwrap();
    assert_eq!(cleared.tags, Some(Vec::new()));
    assert_eq!((cleared.metadata_json.as_deref(), cleared.text), (Some(""), None));
    for outcome in [f64::NAN, -1.1, 1.1] {
        assert_eq!(code(reinforce(Reinforce::new("a", outcome)).err()), "OutOfRange");
    }
    assert_eq!(code(reinforce(Reinforce::new("", 0.0)).err()), "BlankId");
    assert_eq!(code(reinforce(Reinforce::new("a", 1.0).with([""])).err()), "BlankField");
    assert!(reinforce(Reinforce::new("a", -1.0).with(["b"])).is_ok());
}

#[test]
fn namespaces_are_short_and_plain() {
    for good in ["a", "main", "agent-7_x", &"x".repeat(63)] {
        assert_eq!(namespace(good), Ok(()));
    }
    for bad in ["", "A", "a b", "..", "a/b", "é", "a\n", &"x".repeat(64)] {
        assert_eq!(namespace(bad).unwrap_err().code(), "InvalidName", "{bad:?}");
    }
}

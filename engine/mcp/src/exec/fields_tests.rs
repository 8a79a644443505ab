//! Tests of the extraction of fields.

use mnemolith::ErrorKind;
use serde_json::json;

use super::*;

fn fields(value: Value) -> Fields {
    Fields::new(Map::from_json(value).unwrap())
}

fn refusal<T: Field + std::fmt::Debug>(value: Value) -> (&'static str, String) {
    let failure = fields(json!({ "f": value })).optional::<T>("f").unwrap_err();
    assert_eq!(failure.kind, ErrorKind::InvalidInput);
    (failure.code, failure.message)
}

#[test]
fn a_wrong_type_is_named_with_its_place_and_with_what_was_expected_and_found() {
    for (found, message) in [
        (refusal::<String>(json!(7)), "field `f`: expected a string, got the number 7"),
        (refusal::<bool>(json!("yes")), "field `f`: expected true or false, got a string"),
        (refusal::<f64>(json!([1])), "field `f`: expected a number, got an array"),
        (refusal::<f32>(json!({})), "field `f`: expected a number, got an object"),
        (refusal::<i64>(json!(1.5)), "field `f`: expected a whole number, got the number 1.5"),
        (refusal::<u16>(json!(70_000)), "field `f`: expected a whole number from 0 to 65535, got the number 70000"),
        (refusal::<Vec<String>>(json!("a")), "field `f`: expected an array, each item a string, got a string"),
        (refusal::<Vec<String>>(json!(["a", null])), "field `f[1]`: expected a string, got null"),
        (refusal::<Vec<f32>>(json!([0.5, 1, "2"])), "field `f[2]`: expected a number, got a string"),
        (refusal::<BTreeMap<String, f64>>(json!({"a": 1, "b": true})), "field `f.b`: expected a number, got a boolean"),
        (refusal::<Map<String, Value>>(json!([])), "field `f`: expected an object, got an array"),
    ] {
        assert_eq!(found, ("WrongType", message.to_owned()));
    }
    let (code, message) = refusal::<Timestamp>(json!(false));
    assert_eq!(code, "WrongType");
    assert!(message.starts_with("field `f`: expected a time: RFC 3339"), "{message}");
}

#[test]
fn a_value_of_the_right_type_that_means_nothing_has_a_code_of_its_own() {
    assert_eq!(refusal::<Tier>(json!("short")).0, "UnknownTier");
    assert_eq!(refusal::<Vec<Tier>>(json!(["working", "short"])).0, "UnknownTier");
    assert!(refusal::<Vec<Tier>>(json!(["working", "short"])).1.starts_with("field `f[1]`: "));
    assert_eq!(refusal::<Profile>(json!("calm")).0, "UnknownProfile");
    assert_eq!(refusal::<Timestamp>(json!("2026-03-02T09:30:00")).0, "InvalidTime");
    assert_eq!(refusal::<Timestamp>(json!("")).0, "InvalidTime");
    assert_eq!(refusal::<K>(json!(-1)).0, "NegativeK");
    assert_eq!(refusal::<K>(json!(1.5)).0, "WrongType");
    assert_eq!(refusal::<K>(json!("10")).0, "WrongType");
}

#[test]
fn a_time_is_a_text_a_date_or_milliseconds() {
    let mut given = fields(json!({"a": "2026-03-02T09:30:00+01:00", "b": "1970-01-02", "c": -5}));
    let mut time = |name| given.required::<Timestamp>(name).unwrap().millis();
    assert_eq!((time("a"), time("b"), time("c")), (1_772_440_200_000, 86_400_000, -5));
}

#[test]
fn null_is_absent_and_absent_where_required_is_an_error_that_says_what_belongs_there() {
    let mut given = fields(json!({"a": null}));
    assert_eq!(given.optional::<String>("a").unwrap(), None);
    assert!(!given.or_default::<bool>("b").unwrap());
    let failure = given.required::<String>("a").unwrap_err();
    assert_eq!((failure.code, failure.message.as_str()), ("MissingField", "field `a` is required: a string"));
    given.finish("x").unwrap();
}

#[test]
fn what_nobody_asked_for_is_unknown_and_the_message_says_what_is_known() {
    let mut given = fields(json!({"id": "x", "idd": "y"}));
    given.required::<String>("id").unwrap();
    let failure = given.finish("get").unwrap_err();
    assert_eq!((failure.code, failure.message.as_str()), ("UnknownField", "unknown field `idd`: get takes id"));
}

#[test]
fn fields_within_a_field_are_named_with_their_path() {
    let mut given = fields(json!({"soul": {"version": "1", "mood": 3}}));
    let mut soul = given.nested("soul").unwrap().unwrap();
    assert_eq!(
        soul.required::<u16>("version").unwrap_err().message,
        "field `soul.version`: expected a whole number from 0 to 65535, got a string"
    );
    assert_eq!(soul.finish("soul").unwrap_err().message, "unknown field `soul.mood`: soul takes version");
    assert_eq!(fields(json!({"soul": []})).nested("soul").unwrap_err().code, "WrongType");
}

#[test]
fn what_is_not_built_is_refused_where_it_asks_for_something() {
    let mut given = fields(json!({"links": [], "current_only": false, "as_of": null, "entities": ["x"]}));
    for name in ["links", "current_only", "as_of", "absent"] {
        given.unbuilt(name).unwrap();
    }
    let failure = given.unbuilt("entities").unwrap_err();
    assert_eq!((failure.kind, failure.code), (ErrorKind::InvalidInput, "Unsupported"));
    assert!(failure.message.contains("`entities`"), "{}", failure.message);
}

#[test]
fn a_number_beyond_the_stored_width_becomes_infinite_and_is_left_to_the_engine_to_refuse() {
    let mut given = fields(json!({"v": [1e39, -1e39, 0.1]}));
    assert_eq!(given.required::<Vec<f32>>("v").unwrap(), [f32::INFINITY, f32::NEG_INFINITY, 0.1]);
}

#[test]
fn a_repeated_field_is_noticed_and_the_first_is_kept() {
    let object: Object = serde_json::from_str(r#"{"a": 1, "b": 2, "a": 3}"#).unwrap();
    assert_eq!((object.repeated.as_deref(), &object.map["a"]), (Some("a"), &json!(1)));
    assert!(serde_json::from_str::<Object>("[]").unwrap_err().is_data());
}

//! Whatever is sent, the answer names the mistake, the session lives on and not a byte of the store changes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use serde_json::{Value, json};
use support::{Exec, Folder, bytes_of, refusal};

const SESSION: &[&str] = &["--dim", "8", "--embedder", "none"];

/// A session with one memory in it.
fn session(folder: &Folder) -> Exec {
    let mut exec = folder.exec(SESSION);
    exec.done(json!({"op": "remember", "text": "kept", "id": "a", "tags": ["t"], "vector": [1, 2, 3, 4, 5, 6, 7, 8]}));
    exec
}

/// Sends each line, expects its code and its words, and that nothing was touched.
fn each_is_refused_and_touches_nothing(lines: Vec<(Vec<u8>, &str, &str)>) {
    let folder = Folder::new();
    let mut exec = session(&folder);
    let before = (exec.done(json!({"op": "stats"})), exec.dump(), bytes_of(&folder.store()));
    for (line, code, words) in lines {
        let shown = String::from_utf8_lossy(&line[..line.len().min(150)]).into_owned();
        let reply = exec.ask_line(&line);
        let (kind, found, message) = refusal(&reply);
        assert_eq!(found, code, "{shown} -> {message}");
        assert!(message.contains(words), "{shown} -> {message}");
        assert!(message.len() < 2000, "{shown}: a message of {} bytes", message.len());
        let expected_kind = match code {
            "IdConflict" => "Conflict",
            "NotFound" => "NotFound",
            _ => "InvalidInput",
        };
        assert_eq!(kind, expected_kind, "{shown}");
        let now = (exec.done(json!({"op": "stats"})), exec.dump(), bytes_of(&folder.store()));
        assert_eq!((&now.0, &now.1), (&before.0, &before.1), "{shown} changed what is seen");
        for (path, bytes) in &before.2 {
            assert!(now.2.get(path) == Some(bytes), "{shown} changed {}", path.display());
        }
        assert_eq!(now.2.len(), before.2.len(), "{shown} left a file");
    }
    exec.done(json!({"op": "remember", "text": "still at work", "vector": [1, 0, 0, 0, 0, 0, 0, 0]}));
    assert_eq!(exec.end(), 0);
}

fn lines(requests: Vec<(Value, &'static str, &'static str)>) -> Vec<(Vec<u8>, &'static str, &'static str)> {
    requests.into_iter().map(|(request, code, words)| (request.to_string().into_bytes(), code, words)).collect()
}

#[test]
fn a_value_out_of_bounds_is_refused_by_its_own_code() {
    let unit = json!([1, 0, 0, 0, 0, 0, 0, 0]);
    let with = |field: &str, value: Value| {
        let mut request = json!({"op": "remember", "text": "x", "vector": unit});
        request[field] = value;
        request
    };
    each_is_refused_and_touches_nothing(lines(vec![
        (with("text", json!("")), "BlankText", "blank"),
        (with("text", json!(" \t\u{a0}\u{2003}\n")), "BlankText", "blank"),
        (with("text", json!("x".repeat((1 << 20) + 1))), "TextTooLong", "1048577"),
        (with("text", json!("\u{1F600}".repeat(1 << 18) + "x")), "TextTooLong", "1048577"),
        (with("text", json!(3)), "WrongType", "`text`"),
        (with("vector", json!([0, 0, 0, 0, 0, 0, 0, 0])), "ZeroVector", "zero"),
        (with("vector", json!([0.0, -0.0, 1e-300, 0, 0, 0, 0, 0])), "ZeroVector", "zero"),
        (with("vector", json!([1e300, 0, 0, 0, 0, 0, 0, 0])), "NotFinite", "vector[0]"),
        (with("vector", json!([1, "NaN", 0, 0, 0, 0, 0, 0])), "WrongType", "`vector[1]`"),
        (with("vector", json!([1, null, 0, 0, 0, 0, 0, 0])), "WrongType", "`vector[1]`"),
        (with("vector", json!([[1, 0], 0, 0, 0, 0, 0, 0, 0])), "WrongType", "`vector[0]`"),
        (with("vector", json!([])), "WrongDimension", "0"),
        (with("vector", json!([1, 2, 3])), "WrongDimension", "dimension 3 and this namespace takes dimension 8"),
        (with("vector", json!(vec![1; 100_000])), "WrongDimension", "100000"),
        (with("tags", json!((0..65).map(|tag| format!("t{tag}")).collect::<Vec<_>>())), "TooManyTags", "65"),
        (with("tags", json!(["ok", " \n"])), "BlankTag", "tags[1]"),
        (with("tags", json!(["x".repeat(257)])), "TagTooLong", "257"),
        (with("tags", json!("t")), "WrongType", "`tags`"),
        (with("id", json!("x".repeat(1025))), "IdTooLong", "1025"),
        (with("id", json!("\u{e9}".repeat(513))), "IdTooLong", "1026"),
        (with("id", json!("")), "BlankId", "empty"),
        (with("id", json!("a")), "IdConflict", "\"a\""),
        (with("metadata", json!({"x": "y".repeat(65_536)})), "MetadataTooLong", "65536"),
        (with("metadata", json!([1])), "WrongType", "`metadata`"),
        (with("at", json!("10000-01-01T00:00:00Z")), "InvalidTime", "`at`"),
        (with("at", json!(253_402_300_800_000_i64)), "TimeOutOfRange", "9999"),
        (with("at", json!(i64::MIN)), "TimeOutOfRange", "0001"),
        (with("at", json!(u64::MAX)), "WrongType", "`at`"),
        (with("at", json!(1.5)), "WrongType", "`at`"),
        (with("at", json!("2026-02-30")), "InvalidTime", "`at`"),
        (with("tier", json!("short")), "UnknownTier", "`tier`"),
        (with("valence", json!(128)), "OutOfRange", "valence"),
        (with("arousal", json!(-1)), "OutOfRange", "arousal"),
        (with("reward", json!(1.01)), "OutOfRange", "reward"),
        (with("interest", json!(-0.01)), "OutOfRange", "interest"),
        (with("urgency", json!(1e308)), "OutOfRange", "urgency"),
        (with("session", json!(" ")), "BlankField", "session"),
        (with("session", json!("s".repeat(2000))), "FieldTooLong", "session"),
        (with("soul", json!({"version": 70_000})), "WrongType", "`soul.version`"),
        (with("allow_duplicate", json!("yes")), "WrongType", "`allow_duplicate`"),
        (with("txet", json!("x")), "UnknownField", "`txet`"),
        (json!({"op": "remember"}), "MissingContent", "text"),
        (json!({"op": "recall", "vector": unit, "k": -1}), "NegativeK", "-1"),
        (json!({"op": "recall", "vector": unit, "k": 1.5}), "WrongType", "`k`"),
        (json!({"op": "recall", "vector": unit, "k": "10"}), "WrongType", "`k`"),
        (json!({"op": "recall", "vector": unit, "k": 1e30}), "WrongType", "`k`"),
        (json!({"op": "recall", "text": " "}), "BlankText", "blank"),
        (json!({"op": "recall", "vector": [0, 0, 0, 0, 0, 0, 0, 0]}), "ZeroVector", "zero"),
        (json!({"op": "recall", "vector": [1]}), "WrongDimension", "8"),
        (json!({"op": "recall", "text": "x"}), "NoEmbedder", "vector"),
        (json!({"op": "recall", "vector": unit, "mood": 200}), "OutOfRange", "mood"),
        (json!({"op": "recall", "vector": unit, "tags_any": [""]}), "BlankTag", "[0]"),
        (json!({"op": "list", "limit": 0}), "OutOfRange", "limit"),
        (json!({"op": "list", "limit": 1001}), "OutOfRange", "limit"),
        (json!({"op": "list", "cursor": "\u{1F600}"}), "InvalidCursor", "cursor"),
        (json!({"op": "get", "id": "absent"}), "NotFound", "absent"),
        (json!({"op": "get"}), "MissingField", "`id`"),
        (json!({"op": "forget", "id": "x".repeat(1025)}), "IdTooLong", "1025"),
        (json!({"op": "purge", "id": ""}), "BlankId", "empty"),
        (json!({"op": "update", "id": "absent", "text": "x"}), "NotFound", "absent"),
        (json!({"op": "update", "id": "a", "text": " "}), "BlankText", "blank"),
        (json!({"op": "update", "id": "a", "tags": vec!["t"; 65]}), "TooManyTags", "65"),
        (json!({"op": "reinforce", "id": "a", "outcome": 1.1}), "OutOfRange", "outcome"),
        (json!({"op": "reinforce", "id": "a"}), "MissingField", "`outcome`"),
        (json!({"op": "reinforce", "id": "absent", "outcome": 1}), "NotFound", "absent"),
        (json!({"op": "drop_namespace", "name": "../etc"}), "InvalidName", "../etc"),
        (json!({"op": "drop_namespace", "name": "x".repeat(64)}), "InvalidName", "63"),
        (json!({"op": "set_clock", "now": 0}), "NoTestClock", "--test-clock"),
        (json!({"op": "remembre", "text": "x"}), "UnknownOp", "remember"),
        (json!({"op": "x".repeat(1 << 20)}), "UnknownOp", "remember"),
        (json!({"op": ["remember"]}), "WrongType", "`op`"),
        (json!({"op": null}), "MissingField", "`op`"),
        (json!({"text": "x"}), "MissingField", "`op`"),
        (json!({}), "MissingField", "`op`"),
    ]));
}

#[test]
fn a_line_that_is_no_request_is_refused_by_its_own_code() {
    let deep = |open: &str, close: &str| [open.repeat(100_000), close.repeat(100_000)].concat();
    let text = |line: &str| line.as_bytes().to_vec();
    each_is_refused_and_touches_nothing(vec![
        (text("nonsense"), "MalformedJson", "column"),
        (text("{"), "MalformedJson", "column"),
        (text(r#"{"op":"stats",}"#), "MalformedJson", "column"),
        (text(r#"{'op':'stats'}"#), "MalformedJson", "column"),
        (text(r#"{"op":"stats"}{"op":"stats"}"#), "MalformedJson", "column"),
        (text(r#"{"op":"remember","text":"x","vector":[NaN,0,0,0,0,0,0,0]}"#), "MalformedJson", "column"),
        (text(r#"{"op":"remember","text":"x","vector":[1e999,0,0,0,0,0,0,0]}"#), "MalformedJson", "out of range"),
        (text(r#"{"op":"remember","text":"x","reward":1e999}"#), "MalformedJson", "out of range"),
        (text(r#"{"op":"remember","text":"\ud800"}"#), "MalformedJson", "column"),
        (text(r#"{"op":"remember","text":"\udc00\ud800"}"#), "MalformedJson", "column"),
        (text("{\"op\":\"remember\",\"text\":\"a\u{0}b\"}"), "MalformedJson", "control character"),
        (text("\u{feff}{\"op\":\"stats\"}"), "MalformedJson", "byte order mark"),
        (b"{\"op\":\"remember\",\"text\":\"\xed\xa0\x80\"}".to_vec(), "InvalidUtf8", "byte 25"),
        (b"\xff\xfe{\0}\0".to_vec(), "InvalidUtf8", "byte 0"),
        (text("[]"), "NotAnObject", "object"),
        (text(r#"[{"op":"stats"}]"#), "NotAnObject", "object"),
        (text("\"stats\""), "NotAnObject", "object"),
        (text("17"), "NotAnObject", "object"),
        (text("null"), "NotAnObject", "object"),
        (text(&deep("[", "]")), "NotAnObject", "object"),
        (text(&deep("{\"op\":", "}")), "MalformedJson", "recursion"),
        (text(&format!(r#"{{"op":"get","id":{}}}"#, deep("[", "]"))), "MalformedJson", "recursion"),
        (text(&format!(r#"{{"op":"remember","text":"x","metadata":{{"x":{}}}}}"#, deep("[", "]"))), "MalformedJson", "recursion"),
        (text(r#"{"op":"remember","text":"x","text":"y"}"#), "RepeatedField", "`text`"),
        (text(r#"{"op":"stats","op":"stats"}"#), "RepeatedField", "`op`"),
        (text(r#"{"op":"remember","text":"x","\u0074ext":"y"}"#), "RepeatedField", "`text`"),
        (text(r#"{"seq":1,"op":"stats","seq":2}"#), "RepeatedField", "`seq`"),
        (text(r#"{"op":"remember","text":"x","metadata":{"k":1,"k":2}}"#), "RepeatedField", "`metadata.k`"),
        (text(r#"{"op":"remember","text":"x","soul":{"version":1,"boosts":{"a":1,"a":2}}}"#), "RepeatedField", "`soul.boosts.a`"),
        (text(r#"{"op":"remember","text":"x","metadata":{"l":[{"k":1},{"m":{"k":1,"k":2}}]}}"#), "RepeatedField", "`metadata.l[1].m.k`"),
    ]);
}

#[test]
fn a_request_that_only_looks_odd_is_carried_out() {
    let folder = Folder::new();
    let mut exec = session(&folder);
    let huge = format!(r#"{{"op":"recall","vector":[1,0,0,0,0,0,0,0],"k":{}}}"#, u64::MAX);
    for line in [
        "{\"op\":\"stats\"}\r",
        " \t{\"op\" : \"stats\"} \t",
        "{\"\\u006fp\":\"stats\"}",
        r#"{"op":"stats","seq":null}"#,
        r#"{"op":"get","id":"a","seq":{"deep":[[[[1]]]]}}"#,
        r#"{"op":"remember","text":"\ud83d\ude00 \u0000","id":"pair","tags":null}"#,
        r#"{"op":"recall","vector":[1,0,0,0,0,0,0,0],"k":9007199254740993}"#,
        &huge,
    ] {
        let reply = exec.ask_line(line.as_bytes());
        assert_eq!(reply["ok"], true, "{line} -> {reply}");
    }
    assert_eq!(exec.done(json!({"op": "get", "id": "pair"}))["memory"]["text"], "\u{1F600} \u{0}");
    let longest = "x".repeat(1 << 20);
    exec.done(json!({"op": "remember", "text": longest, "id": "y".repeat(1024), "tags": (0..64).map(|tag| format!("t{tag}")).collect::<Vec<_>>()}));
    assert_eq!(exec.done(json!({"op": "get", "id": "y".repeat(1024)}))["memory"]["text"], longest);
    // A reply takes as many lines as its request, one, whatever is in it.
    exec.done(json!({"op": "remember", "text": "line\u{2028}and\u{85}line\r\nand\nline", "id": "lines"}));
    assert_eq!(exec.done(json!({"op": "get", "id": "lines"}))["memory"]["text"], "line\u{2028}and\u{85}line\r\nand\nline");
    assert_eq!(exec.end(), 0);
}

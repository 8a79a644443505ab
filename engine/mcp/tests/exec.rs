//! The exec protocol, from outside.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use serde_json::{Value, json};
use support::{Folder, refusal};

const EIGHT: &[&str] = &["--dim", "8", "--embedder", "none"];

/// A vector of eight that points mostly along one axis.
fn along(axis: usize) -> Value {
    let component = |index| if index == axis { 1.0 } else { 0.01 };
    json!((0..8).map(component).collect::<Vec<f64>>())
}

fn near(value: &Value, expected: f64) {
    let value = value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"));
    assert!((value - expected).abs() < 1e-5, "{value} is not {expected}");
}

#[test]
fn a_memory_is_remembered_recalled_read_reinforced_changed_and_forgotten() {
    let folder = Folder::new();
    let mut exec = folder.exec(&["--test-clock"]);
    exec.done(json!({"op": "set_clock", "now": "2026-03-02T10:00:00Z"}));
    let stored = exec.done(json!({
        "op": "remember", "text": "The deploy failed on a missing secret", "id": "deploy-17", "tags": ["Deploy", "failure"],
        "metadata": {"build": 17}, "tier": "episodic", "session": "monday", "at": "2026-03-02T09:30:00Z", "valence": -60, "arousal": 90,
        "interest": 0.5, "challenge": 0.5, "urgency": 0.9, "soul": {"version": 2, "boosts": {"failure": 1.5}, "valence_gain": 1.0},
    }));
    assert_eq!(stored["id"], "deploy-17");
    assert_eq!((&stored["status"], &stored["of"]), (&json!("stored"), &Value::Null));
    assert_eq!((&stored["valence"], &stored["arousal"], &stored["flashbulb"]), (&json!(-60), &json!(90), &json!(false)));
    assert!(stored["lsn"].is_u64() && stored["importance"].is_number() && stored["surprise_z"].is_number(), "{stored}");
    assert!(stored["enrichment"].is_string(), "{stored}");
    let relays: Vec<_> = stored["trace"].as_array().unwrap().iter().map(|relay| relay["relay"].as_str().unwrap()).collect();
    let order = ["DEDUP_GUARD", "TAG_TRANSDUCTION", "DOPAMINERGIC_SURPRISE", "CORTICAL_WRITE", "GRAPH_LINKING", "KG_ENRICHMENT"];
    assert_eq!(relays, order);
    for relay in stored["trace"].as_array().unwrap() {
        assert!(relay["micros"].is_u64() && relay["detail"].is_string() && relay["status"].is_string(), "{relay}");
    }
    assert_eq!(stored["trace"][3]["status"], "Completed");

    let again = exec.done(json!({"op": "remember", "text": " The deploy failed  on a missing secret", "at": "2026-03-02T09:40:00Z"}));
    assert_eq!((&again["status"], &again["of"], &again["id"]), (&json!("duplicate"), &json!("deploy-17"), &json!("deploy-17")));
    assert_eq!(again["trace"][3]["status"], "Skipped");
    exec.done(json!({"op": "remember", "text": "Lunch was good", "id": "lunch", "session": "monday", "at": "2026-03-02T09:45:00Z"}));

    let recall = exec.done(json!({"op": "recall", "text": "why did the deploy fail?", "k": 1, "tags_all": ["deploy"], "explain": true}));
    let hit = &recall["hits"][0];
    assert_eq!(recall["hits"].as_array().unwrap().len(), 1);
    assert_eq!((&hit["id"], &hit["at"]), (&json!("deploy-17"), &json!("2026-03-02T09:30:00Z")));
    assert_eq!((&hit["text"], &hit["facts"]), (&json!("The deploy failed on a missing secret"), &json!([])));
    assert_eq!((&hit["metadata"], &hit["session"]), (&json!({"build": 17}), &json!("monday")));
    near(&hit["strength"], 1.0);
    let factor = |name: &str| hit["breakdown"][name].as_f64().unwrap();
    near(&hit["score"], factor("sim") * factor("mod") * factor("tags") * factor("mood"));
    assert!(recall["plan"]["name"].is_string() && recall["plan"]["kernel"].is_string(), "{recall}");

    let memory = &exec.done(json!({"op": "get", "id": "lunch"}))["memory"];
    assert_eq!((&memory["id"], &memory["predecessor"]), (&json!("lunch"), &json!("deploy-17")));
    assert_eq!((&memory["last_recall"], &memory["recall_count"]), (&Value::Null, &json!(0)));

    let after = exec.done(json!({"op": "reinforce", "id": "lunch", "outcome": 1.0}));
    near(&after["strength"], 1.2);
    assert_eq!((&after["valence"], &after["recall_count"]), (&json!(38), &json!(1)));

    let changed = exec.done(json!({"op": "update", "id": "lunch", "tags": ["food"], "metadata": {"stars": 5}}));
    assert_eq!((&changed["memory"]["tags"], &changed["memory"]["text"]), (&json!(["food"]), &json!("Lunch was good")));
    assert_eq!(exec.done(json!({"op": "get", "id": "lunch"}))["memory"]["metadata"], json!({"stars": 5}));

    let why = exec.done(json!({"op": "why_not", "id": "lunch", "text": "deploy", "tags_all": ["deploy"]}));
    assert_eq!(why["rank"], Value::Null);
    assert!(!why["reasons"].as_array().unwrap().is_empty(), "{why}");

    assert_eq!(exec.done(json!({"op": "forget", "id": "lunch"}))["existed"], true);
    assert_eq!(exec.done(json!({"op": "forget", "id": "lunch"}))["existed"], false);
    let (kind, code, _) = exec.refused(json!({"op": "get", "id": "lunch"}));
    assert_eq!((kind.as_str(), code.as_str()), ("NotFound", "NotFound"));
    assert_eq!(exec.done(json!({"op": "purge", "id": "deploy-17"}))["existed"], true);
    assert_eq!(exec.done(json!({"op": "recall", "text": "deploy"}))["hits"], json!([]));
    assert_eq!(exec.end(), 0);
}

#[test]
fn vectors_need_no_embedder_and_filters_keep_out_what_does_not_fit() {
    let folder = Folder::new();
    let mut exec = folder.exec(EIGHT);
    for axis in 0..8 {
        let tier = if axis < 4 { "semantic" } else { "working" };
        let at = format!("2026-01-0{}", axis + 1);
        exec.done(json!({"op": "remember", "vector": along(axis), "id": format!("v{axis}"), "tags": [format!("t{}", axis % 2)], "tier": tier, "at": at}));
    }
    let mut ids = |query: Value| -> Vec<String> {
        let hits = exec.done(query)["hits"].clone();
        hits.as_array().unwrap().iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(json!({"op": "recall", "vector": along(3), "k": 1})), ["v3"]);
    assert_eq!(ids(json!({"op": "recall", "vector": along(3), "k": 0})), [""; 0]);
    assert_eq!(ids(json!({"op": "recall", "vector": along(3)})).len(), 8);
    assert_eq!(ids(json!({"op": "recall", "vector": along(3), "k": 1000, "tags_all": ["t0"], "exact": true})).len(), 4);
    assert_eq!(ids(json!({"op": "recall", "vector": along(3), "tiers": ["working"]})).len(), 4);
    let mut window = ids(json!({"op": "recall", "vector": along(3), "after": "2026-01-02", "before": "2026-01-04T00:00:00Z"}));
    window.sort();
    assert_eq!(window, ["v1", "v2"]);
    assert_eq!(ids(json!({"op": "recall", "vector": along(3), "profile": "similarity", "mood": 3, "tags_any": ["t1"], "k": 1})), ["v3"]);

    let (kind, code, message) = exec.refused(json!({"op": "recall", "vector": [1, 2, 3]}));
    assert_eq!((kind.as_str(), code.as_str()), ("InvalidInput", "WrongDimension"));
    assert!(message.contains('8') && message.contains('3'), "{message}");
    assert_eq!(exec.refused(json!({"op": "remember", "vector": [0, 0, 0, 0, 0, 0, 0, 0]})).1, "ZeroVector");
    assert_eq!(exec.refused(json!({"op": "remember", "vector": [1e300, 0, 0, 0, 0, 0, 0, 0]})).1, "NotFinite");
    assert_eq!(exec.end(), 0);
}

#[test]
fn a_listing_is_paged_by_its_cursor() {
    let folder = Folder::new();
    let mut exec = folder.exec(EIGHT);
    for axis in 0..5 {
        exec.done(json!({"op": "remember", "vector": along(axis), "id": format!("v{axis}")}));
    }
    let first = exec.done(json!({"op": "list", "limit": 3}));
    let second = exec.done(json!({"op": "list", "limit": 3, "cursor": first["cursor"]}));
    let ids = |page: &Value| page["memories"].as_array().unwrap().iter().map(|memory| memory["id"].clone()).collect::<Vec<_>>();
    assert_eq!([ids(&first), ids(&second)].concat(), ["v0", "v1", "v2", "v3", "v4"]);
    assert_eq!(second["cursor"], Value::Null);
    assert_eq!(exec.refused(json!({"op": "list", "cursor": "nonsense"})).1, "InvalidCursor");
    assert_eq!(exec.end(), 0);
}

#[test]
fn the_administrative_ops_answer_with_figures() {
    let folder = Folder::new();
    let mut exec = folder.exec(&["--namespace", "notes"]);
    exec.done(json!({"op": "remember", "text": "one"}));
    assert_eq!(exec.done(json!({"op": "namespaces"}))["namespaces"], json!(["notes"]));
    assert_eq!(exec.done(json!({"op": "drop_namespace", "name": "absent"}))["existed"], false);
    assert!(exec.done(json!({"op": "checkpoint"}))["checkpoint_lsn"].is_u64());
    let report = exec.done(json!({"op": "verify"}));
    assert_eq!((&report["clean"], &report["problems"]), (&json!(true), &json!([])));
    let stats = exec.done(json!({"op": "stats"}));
    assert_eq!((&stats["namespace"], &stats["live"], &stats["dimension"]), (&json!("notes"), &json!(1), &json!(384)));
    assert!(stats["kernel"].is_string() && stats["per_tier"].is_object(), "{stats}");
    assert_eq!(exec.end(), 0);
}

#[test]
fn seq_comes_back_as_it_was_with_every_reply_that_could_read_it() {
    let folder = Folder::new();
    let mut exec = folder.exec(&[]);
    for (request, ok) in [
        (json!({"op": "stats", "seq": 1}), true),
        (json!({"op": "stats", "seq": "a"}), true),
        (json!({"op": "stats", "seq": {"deep": [1.5, null]}}), true),
        (json!({"op": "nonsense", "seq": 2}), false),
        (json!({"op": 5, "seq": 3}), false),
        (json!({"seq": 4}), false),
        (json!({"op": "get", "seq": 5}), false),
        (json!({"op": "get", "id": 7, "seq": 6}), false),
        (json!({"op": "get", "id": "x", "unknown": 7, "seq": 7}), false),
        (json!({"op": "get", "id": "absent", "seq": 8}), false),
        (json!({"op": "recall", "seq": 9}), false),
    ] {
        let reply = exec.ask(request.clone());
        assert_eq!((&reply["seq"], &reply["ok"]), (&request["seq"], &json!(ok)), "{request} -> {reply}");
    }
    let reply = exec.ask_line(br#"{"op":"get","id":"a","id":"b","seq":10}"#);
    assert_eq!((&reply["seq"], &reply["error"]["code"]), (&json!(10), &json!("RepeatedField")));
    assert!(exec.ask(json!({"op": "stats"})).get("seq").is_none());
    assert_eq!(exec.end(), 0);
}

#[test]
fn a_request_that_is_not_exactly_right_is_refused_with_the_name_of_what_is_wrong() {
    let folder = Folder::new();
    let mut exec = folder.exec(EIGHT);
    for (request, code, named) in [
        (json!({"op": "remember", "text": "x", "tagz": []}), "UnknownField", "`tagz`"),
        (json!({"op": "stats", "verbose": true}), "UnknownField", "`verbose`"),
        (json!({"op": "get"}), "MissingField", "`id`"),
        (json!({"op": "get", "id": null}), "MissingField", "`id`"),
        (json!({"op": "reinforce", "id": "x"}), "MissingField", "`outcome`"),
        (json!({"op": "get", "id": 7}), "WrongType", "`id`: expected a string, got the number 7"),
        (json!({"op": "remember", "text": ["x"]}), "WrongType", "`text`: expected a string"),
        (json!({"op": "remember", "text": "x", "tags": "a"}), "WrongType", "`tags`: expected an array"),
        (json!({"op": "remember", "text": "x", "tags": ["a", 2]}), "WrongType", "`tags[1]`: expected a string"),
        (json!({"op": "remember", "text": "x", "metadata": "{}"}), "WrongType", "`metadata`: expected an object"),
        (json!({"op": "remember", "text": "x", "valence": 0.5}), "WrongType", "`valence`: expected a whole number"),
        (json!({"op": "remember", "text": "x", "allow_duplicate": 1}), "WrongType", "`allow_duplicate`: expected true or false"),
        (json!({"op": "remember", "text": "x", "soul": {"version": -1}}), "WrongType", "`soul.version`"),
        (json!({"op": "remember", "text": "x", "soul": {"version": 1, "x": 1}}), "UnknownField", "`soul.x`"),
        (json!({"op": "remember", "text": "x", "vector": [1, "2"]}), "WrongType", "`vector[1]`"),
        (json!({"op": "recall", "text": "x", "k": -1}), "NegativeK", "`k`"),
        (json!({"op": "recall", "text": "x", "k": "10"}), "WrongType", "`k`"),
        (json!({"op": "recall", "text": "x", "k": 1.5}), "WrongType", "`k`"),
        (json!({"op": "recall", "text": "x", "tiers": ["short"]}), "UnknownTier", "`tiers[0]`"),
        (json!({"op": "recall", "text": "x", "profile": "calm"}), "UnknownProfile", "`profile`"),
        (json!({"op": "recall", "text": "x", "after": "2026-03-02T09:30:00"}), "InvalidTime", "`after`"),
        (json!({"op": "remember"}), "MissingContent", "text"),
        (json!({"op": "recall"}), "MissingContent", "text"),
        (json!({"op": "remember", "text": " \n"}), "BlankText", "text"),
        (json!({"op": "assert", "subject": "a", "predicate": "b", "object": "c"}), "UnknownOp", "remember, recall, get"),
        (json!({"op": "set_clock", "now": 0}), "NoTestClock", "--test-clock"),
    ] {
        let (kind, found, message) = exec.refused(request.clone());
        assert_eq!((kind.as_str(), found.as_str()), ("InvalidInput", code), "{request} -> {message}");
        assert!(message.contains(named), "{request} -> {message}");
    }
    for (op, field, value) in [
        ("remember", "links", json!([{"to": "x", "weight": 1}])),
        ("remember", "entities", json!(["x"])),
        ("remember", "relations", json!([{"s": "a", "p": "b", "o": "c"}])),
        ("recall", "as_of", json!("2026-01-01")),
        ("recall", "current_only", json!(true)),
    ] {
        let mut request = json!({"op": op, "text": "x"});
        request[field] = value;
        let (kind, code, message) = exec.refused(request);
        assert_eq!((kind.as_str(), code.as_str()), ("InvalidInput", "Unsupported"));
        assert!(message.contains(field), "{message}");
    }
    assert_eq!(exec.done(json!({"op": "stats"}))["stored"], 0, "a refused request stored something");
    assert_eq!(exec.end(), 0);
}

#[test]
fn the_session_survives_every_bad_line_and_answers_each_once() {
    let folder = Folder::new();
    let mut exec = folder.exec(&[]);
    let code = |reply: &Value| refusal(reply).1;
    assert_eq!(code(&exec.ask_line(b"nonsense")), "MalformedJson");
    assert_eq!(code(&exec.ask_line(b"{\"op\":\"stats\"")), "MalformedJson");
    assert_eq!(code(&exec.ask_line(b"{\"op\":\"stats\"} {}")), "MalformedJson");
    assert_eq!(code(&exec.ask_line(b"{\"op\":\"\\ud800\"}")), "MalformedJson");
    assert_eq!(code(&exec.ask_line(b"[1,2]")), "NotAnObject");
    assert_eq!(code(&exec.ask_line(b"null")), "NotAnObject");
    assert_eq!(code(&exec.ask_line(b"\xff\xfe{}")), "InvalidUtf8");
    assert_eq!(code(&exec.ask_line(&[b'['; 100_000])), "NotAnObject");
    let deep = [br#"{"op":"get","id":"#.to_vec(), vec![b'['; 100_000]].concat();
    assert_eq!(code(&exec.ask_line(&deep)), "MalformedJson");
    // Blank lines and the line ends of another system.
    exec.send(b"\n   \n\t\r\n");
    assert_eq!(exec.ask_line(b"{\"op\":\"stats\"}\r")["ok"], true);
    // 20 MB, well formed and not.
    let long = "x".repeat(20 << 20);
    assert_eq!(exec.refused(json!({"op": "remember", "text": long})).1, "TextTooLong");
    assert_eq!(code(&exec.ask_line(long.as_bytes())), "MalformedJson");
    // Longer than any line may be.
    assert_eq!(code(&exec.ask_line(&vec![b'x'; 70 << 20])), "LineTooLong");
    assert_eq!(exec.done(json!({"op": "remember", "text": "still here"}))["status"], "stored");
    assert_eq!(exec.end(), 0);
}

#[test]
fn the_end_of_the_input_closes_the_store_even_in_the_middle_of_a_line() {
    let folder = Folder::new();
    let exec = folder.exec(&[]);
    assert_eq!(exec.end(), 0);
    let mut exec = folder.exec(&[]);
    exec.done(json!({"op": "remember", "text": "kept", "id": "a"}));
    exec.send(br#"{"op":"stats","seq":1}"#);
    let ran = folder.run(["stats"]);
    assert_eq!(ran.code, 1, "two processes hold one namespace: {ran:?}");
    let (code, replies) = exec.finish();
    assert_eq!((code, replies.len()), (0, 1), "a request needs no line end at the end of the input");
    assert_eq!((&replies[0]["ok"], &replies[0]["seq"]), (&json!(true), &json!(1)));
    let ran = folder.run_with(["exec"], b"{\"op\":\"get\",\"id\":\"a\"}\n{\"op\":\"stats\"");
    let replies: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((ran.code, replies.len()), (0, 2), "{ran:?}");
    assert_eq!(replies[0]["memory"]["text"], "kept");
    assert_eq!(refusal(&replies[1]).1, "MalformedJson");
    let ran = folder.run_with(["exec"], b"{\"op\":\"stats\"}");
    assert!(ran.code == 0 && ran.out.starts_with("{\"ok\":true,"), "{ran:?}");
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    for durability in ["sync", "buffered"] {
        let folder = Folder::new();
        let mut exec = folder.exec(&["--durability", durability]);
        for number in 0..20 {
            exec.done(json!({"op": "remember", "text": format!("entry {number}"), "id": format!("e{number}")}));
        }
        exec.done(json!({"op": "forget", "id": "e3"}));
        exec.kill();
        let mut exec = folder.exec(&[]);
        for number in 0..20 {
            let reply = exec.ask(json!({"op": "get", "id": format!("e{number}")}));
            assert_eq!(reply["ok"], number != 3, "{durability}: {reply}");
        }
        assert_eq!(exec.done(json!({"op": "verify"}))["clean"], true);
        assert_eq!(exec.end(), 0);
    }
}

#[test]
fn the_test_clock_stands_still_until_it_is_set() {
    let folder = Folder::new();
    let mut exec = folder.exec(&["--test-clock"]);
    assert_eq!(exec.done(json!({"op": "set_clock", "now": "2030-05-06"}))["now"], "2030-05-06T00:00:00Z");
    exec.done(json!({"op": "remember", "text": "first", "id": "a"}));
    exec.done(json!({"op": "set_clock", "now": 0}));
    exec.done(json!({"op": "remember", "text": "second", "id": "b"}));
    assert_eq!(exec.done(json!({"op": "get", "id": "a"}))["memory"]["at"], "2030-05-06T00:00:00Z");
    assert_eq!(exec.done(json!({"op": "get", "id": "b"}))["memory"]["at"], "1970-01-01T00:00:00Z");
    assert_eq!(exec.refused(json!({"op": "set_clock", "now": i64::MAX})).1, "TimeOutOfRange");
    assert_eq!(exec.refused(json!({"op": "set_clock"})).1, "MissingField");
    let query = json!({"op": "recall", "text": "first"});
    let (one, two) = (exec.done(query.clone()), exec.done(query));
    assert_eq!(one["hits"], two["hits"], "the same question at the same time");
    assert_eq!(exec.end(), 0);
}

#[test]
fn numbers_come_back_in_the_fewest_digits_that_read_back_the_same() {
    let folder = Folder::new();
    let mut exec = folder.exec(&[]);
    exec.done(json!({"op": "remember", "text": "x", "metadata": {"f": 0.1, "i": 9_007_199_254_740_993_u64, "s": "\u{1F600}\u{0}"}}));
    let ran_hit = exec.done(json!({"op": "recall", "text": "x"}))["hits"][0].clone();
    assert_eq!(ran_hit["metadata"], json!({"f": 0.1, "i": 9_007_199_254_740_993_u64, "s": "\u{1F600}\u{0}"}));
    let strength = ran_hit["strength"].to_string();
    assert_eq!(strength, "1.0");
    let importance = ran_hit["importance"].to_string();
    assert!(importance.len() <= 11, "{importance} is not the shortest form of 32 bits");
    assert_eq!(exec.end(), 0);
}

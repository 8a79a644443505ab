//! Bad input: each kind has an error of its own and changes nothing; and what looks odd but is allowed works.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::disallowed_methods)]

mod common;

use std::collections::BTreeSet;

use common::{at, clock, fingerprint, texts, vectors};
use mnemolith::{
    Error, ErrorKind, FaultKind, Limits, ListQuery, Memory, Metadata, Profile, RecallQuery, Reinforce, RememberRequest, Soul, Source, Tier,
    Timestamp, Update,
};

const DIMENSION: usize = 8;

fn vector() -> Vec<f32> {
    vec![0.5; DIMENSION]
}

fn with(index: usize, value: f32) -> Vec<f32> {
    let mut vector = vector();
    vector[index] = value;
    vector
}

/// Metadata that takes this many bytes as JSON.
fn metadata(bytes: usize) -> Metadata {
    let mut metadata = Metadata::new();
    metadata.insert("k".to_owned(), "x".repeat(bytes - r#"{"k":""}"#.len()).into());
    assert_eq!(serde_json::to_string(&metadata).unwrap().len(), bytes);
    metadata
}

fn nested(depth: usize) -> Metadata {
    let value = (0..depth).fold(serde_json::Value::Null, |inner, _| serde_json::Value::Array(vec![inner]));
    Metadata::from_iter([("deep".to_owned(), value)])
}

fn text(text: impl Into<String>) -> RememberRequest {
    RememberRequest::new(text)
}

type Call = Box<dyn Fn(&Memory) -> Result<(), Error>>;

fn remember(request: RememberRequest) -> Call {
    Box::new(move |memory| memory.remember(request.clone()).map(drop).map_err(Error::from))
}

fn recall(query: RecallQuery) -> Call {
    Box::new(move |memory| memory.recall(query.clone()).map(drop))
}

/// Every bad input, with the code of its error and words that its message has.
fn bad_inputs() -> Vec<(&'static str, &'static [&'static str], Call)> {
    let tags = |tags: Vec<String>| text("tagged").tags(tags);
    let year_10000 = Timestamp::from_millis(at("9999-12-31T23:59:59.999Z").millis() + 1);
    let year_0 = Timestamp::from_millis(at("0001-01-01T00:00:00Z").millis() - 1);
    let query = || RecallQuery::from_vector(vector());
    let soul = |boost: f64, gain: f64| text("felt").soul(Soul::new(1).boost("a", boost).valence_gain(gain));
    let over = "x".repeat(Limits::TEXT_BYTES + 1);
    vec![
        ("MissingContent", &["text", "vector"], remember(RememberRequest::default())),
        ("BlankText", &["blank"], remember(text(""))),
        ("BlankText", &["blank"], remember(text(" \n\t\u{2003}"))),
        ("BlankText", &["blank"], remember(text(" ").vector(vector()))),
        ("TextTooLong", &["1048577", "1048576"], remember(text(over.clone()))),
        ("NotFinite", &["vector[3]", "NaN"], remember(RememberRequest::from_vector(with(3, f32::NAN)))),
        ("NotFinite", &["vector[0]", "inf"], remember(RememberRequest::from_vector(with(0, f32::INFINITY)))),
        ("NotFinite", &["vector[7]", "-inf"], remember(RememberRequest::from_vector(with(7, f32::NEG_INFINITY)))),
        ("ZeroVector", &["zero"], remember(RememberRequest::from_vector(vec![0.0; DIMENSION]))),
        ("WrongDimension", &["dimension 7", "dimension 8"], remember(RememberRequest::from_vector(vec![1.0; 7]))),
        ("WrongDimension", &["dimension 9", "dimension 8"], remember(RememberRequest::from_vector(vec![1.0; 9]))),
        ("WrongDimension", &["dimension 0", "dimension 8"], remember(RememberRequest::from_vector(Vec::new()))),
        ("TooManyTags", &["65", "64"], remember(tags((0..65).map(|i| format!("t{i}")).collect()))),
        ("TooManyTags", &["65", "64"], remember(tags(vec!["same".to_owned(); 65]))),
        ("BlankTag", &["tags[1]"], remember(tags(vec!["a".to_owned(), " \t ".to_owned()]))),
        ("TagTooLong", &["tags[0]", "257", "256"], remember(tags(vec!["x".repeat(257)]))),
        ("IdTooLong", &["1025", "1024"], remember(text("named").id("i".repeat(1025)))),
        ("BlankId", &["empty"], remember(text("named").id(""))),
        ("IdConflict", &["\"first\""], remember(text("other content").id("first"))),
        ("TimeOutOfRange", &["at", "0001", "9999"], remember(text("late").at(year_10000))),
        ("TimeOutOfRange", &["at", "0001", "9999"], remember(text("early").at(year_0))),
        ("TimeOutOfRange", &["at"], remember(text("never").at(Timestamp::POS_INF))),
        ("MetadataTooLong", &["65537", "65536"], remember(text("described").metadata(metadata(65_537)))),
        ("InvalidField", &["metadata", "nested"], remember(text("described").metadata(nested(200)))),
        ("OutOfRange", &["valence", "128", "127"], remember(text("felt").valence(128))),
        ("OutOfRange", &["valence", "-128"], remember(text("felt").valence(-128))),
        ("OutOfRange", &["valence"], remember(text("felt").valence(i64::MIN))),
        ("OutOfRange", &["arousal", "256", "255"], remember(text("felt").arousal(256))),
        ("OutOfRange", &["arousal", "-1"], remember(text("felt").arousal(-1))),
        ("OutOfRange", &["reward", "1.5"], remember(text("felt").reward(1.5))),
        ("OutOfRange", &["reward", "NaN"], remember(text("felt").reward(f64::NAN))),
        ("OutOfRange", &["interest", "-0.1"], remember(text("felt").interest(-0.1))),
        ("OutOfRange", &["challenge", "1.1"], remember(text("felt").challenge(1.1))),
        ("OutOfRange", &["urgency", "inf"], remember(text("felt").urgency(f64::INFINITY))),
        ("OutOfRange", &["soul.boosts[\"a\"]", "11"], remember(soul(11.0, 1.0))),
        ("OutOfRange", &["soul.valence_gain"], remember(soul(1.0, -10.5))),
        ("BlankField", &["soul.boosts"], remember(text("felt").soul(Soul::new(1).boost("  ", 1.0)))),
        ("BlankField", &["session"], remember(text("said").session(" "))),
        ("FieldTooLong", &["session", "1025"], remember(text("said").session("s".repeat(1025)))),
        ("Unsupported", &["links"], remember(text("linked").link("first", 1.0))),
        ("OutOfRange", &["mood", "300"], recall(query().mood(300))),
        ("OutOfRange", &["mood", "-128"], recall(query().mood(-128))),
        ("MissingContent", &["text"], recall(RecallQuery::default())),
        ("BlankText", &["blank"], recall(RecallQuery::new("  "))),
        ("TextTooLong", &["1048577"], recall(RecallQuery::new(over))),
        ("WrongDimension", &["dimension 3", "dimension 8"], recall(RecallQuery::from_vector(vec![1.0; 3]))),
        ("NotFinite", &["vector[2]"], recall(RecallQuery::from_vector(with(2, f32::NAN)))),
        ("ZeroVector", &["zero"], recall(RecallQuery::from_vector(vec![0.0; DIMENSION]))),
        ("BlankTag", &["tags[0]"], recall(query().tags_all([""]))),
        ("TooManyTags", &["65"], recall(query().tags_any((0..65).map(|i| i.to_string())))),
        ("BlankField", &["session"], recall(query().session(""))),
        ("BlankId", &["empty"], Box::new(|memory| memory.get("").map(drop))),
        ("IdTooLong", &["1025"], Box::new(|memory| memory.forget(&"i".repeat(1025)).map(drop))),
        ("BlankId", &["empty"], Box::new(|memory| memory.purge("").map(drop))),
        ("BlankId", &["empty"], Box::new(move |memory| memory.why_not("", RecallQuery::from_vector(vector())).map(drop))),
        ("OutOfRange", &["limit", "0", "1000"], Box::new(|memory| memory.list(ListQuery::new().limit(0)).map(drop))),
        ("OutOfRange", &["limit", "1001"], Box::new(|memory| memory.list(ListQuery::new().limit(1001)).map(drop))),
        ("InvalidCursor", &["cursor"], Box::new(|memory| memory.list(ListQuery::new().cursor("nonsense")).map(drop))),
        ("InvalidCursor", &["cursor"], Box::new(|memory| memory.list(ListQuery::new().cursor("00000000-1")).map(drop))),
        ("OutOfRange", &["outcome", "1.01"], Box::new(|memory| memory.reinforce(Reinforce::new("first", 1.01)).map(drop))),
        ("OutOfRange", &["outcome", "NaN"], Box::new(|memory| memory.reinforce(Reinforce::new("first", f64::NAN)).map(drop))),
        ("NotFound", &["\"nobody\""], Box::new(|memory| memory.reinforce(Reinforce::new("nobody", 0.0)).map(drop))),
        ("NotFound", &["\"nobody\""], Box::new(|memory| memory.update("nobody", Update::new().text("new")).map(drop))),
        ("BlankText", &["blank"], Box::new(|memory| memory.update("first", Update::new().text(" ")).map(drop))),
        ("TagTooLong", &["tags[0]"], Box::new(|memory| memory.update("first", Update::new().tags(["x".repeat(257)])).map(drop))),
        ("MetadataTooLong", &["65537"], Box::new(|memory| memory.update("first", Update::new().metadata(metadata(65_537))).map(drop))),
        ("InvalidName", &["\"No Such\""], Box::new(|memory| memory.drop_namespace("No Such").map(drop))),
        ("UnknownTier", &["\"eternal\"", "episodic"], Box::new(|_| "eternal".parse::<Tier>().map(drop))),
        ("UnknownProfile", &["\"zen\"", "balanced"], Box::new(|_| Profile::parse("zen").map(drop))),
        ("UnknownSource", &["\"moon\"", "user"], Box::new(|_| Source::parse("moon").map(drop))),
    ]
}

#[test]
fn every_bad_input_has_its_error_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let memory = texts(folder.path(), &clock()).dimension(DIMENSION).open().unwrap();
    memory.remember(text("the first memory").id("first").tag("kept")).unwrap();
    memory.remember(text("the second memory").id("second").valence(40)).unwrap();
    memory.checkpoint().unwrap();
    memory.remember(text("the third memory, in the log").id("third")).unwrap();
    let (files, stats) = (fingerprint(folder.path()), memory.stats().unwrap());
    let page = memory.list(ListQuery::new()).unwrap();

    let mut codes = BTreeSet::new();
    for (number, (code, words, call)) in bad_inputs().into_iter().enumerate() {
        let error = call(&memory).expect_err(code);
        let message = error.to_string();
        assert_eq!(error.code(), code, "input {number}: {message}");
        for word in words {
            assert!(message.contains(word), "input {number}, {code}: {word:?} is not in {message:?}");
        }
        assert!(message.len() < 300, "{message}");
        let contract = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Conflict);
        assert_eq!(error.fault_kind(), if contract { FaultKind::Contract } else { FaultKind::Validation }, "{code}");
        assert!(!error.is_retryable(), "{code}");
        assert_eq!(fingerprint(folder.path()), files, "input {number}, {code}, changed the directory");
        assert_eq!(memory.stats().unwrap().lsn, stats.lsn, "input {number}, {code}, took a log number");
        codes.insert(code);
    }
    assert!(codes.len() >= 22, "{codes:?}");
    assert_eq!(memory.stats().unwrap(), stats);
    assert_eq!(memory.list(ListQuery::new()).unwrap(), page);

    // Not even the statistics of surprise have moved: what follows is as if nothing had been tried.
    let untried = tempfile::tempdir().unwrap();
    let other = texts(untried.path(), &clock()).dimension(DIMENSION).open().unwrap();
    for (id, words) in [("first", "the first memory"), ("second", "the second memory"), ("third", "the third memory, in the log")] {
        let request = text(words).id(id);
        other.remember(if id == "second" { request.valence(40) } else { request }).unwrap();
    }
    for i in 0..30 {
        let request = || text(format!("one more thing {i} of {}", i * i)).id(format!("more{i}"));
        let (one, two) = (memory.remember(request()).unwrap(), other.remember(request()).unwrap());
        assert_eq!((one.surprise_z.to_bits(), one.importance.to_bits()), (two.surprise_z.to_bits(), two.importance.to_bits()));
    }
}

#[test]
fn a_refused_request_runs_no_relay_and_a_conflict_says_where_it_stopped() {
    let memory = Memory::in_memory().unwrap();
    memory.remember(text("one").id("a")).unwrap();
    assert!(memory.remember(text(" ")).unwrap_err().trace().is_empty());
    let trace = memory.remember(text("two").id("a")).unwrap_err();
    let statuses: Vec<&str> = trace.trace().iter().map(|relay| relay.status.as_str()).collect();
    assert_eq!(statuses, ["Failed", "Skipped", "Skipped", "Skipped", "Skipped", "Skipped"]);
}

#[test]
fn a_text_without_an_embedder_can_be_kept_but_not_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let memory = vectors(folder.path(), DIMENSION, &clock()).open().unwrap();
    memory.remember(text("kept").id("a")).unwrap();
    assert_eq!(memory.recall(RecallQuery::new("kept")).unwrap_err().code(), "NoEmbedder");
    let record = memory.get("a").unwrap().unwrap();
    assert_eq!((record.text.as_deref(), record.has_vector), (Some("kept"), false));
}

#[test]
fn odd_ids_work_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let open = || texts(folder.path(), &clock()).open().unwrap();
    let memory = open();
    let long = "i".repeat(Limits::ID_BYTES);
    let ids = ["a#1", "a/b", "..", "../../etc/passwd", "line\nbreak", "🦀👩‍👩‍👧", "nul\0nul", "\0", " ", "'; DROP --", "é", "e\u{301}", &long];
    for (i, id) in ids.iter().enumerate() {
        let result = memory.remember(text(format!("number {i} of the odd ones")).id(*id)).unwrap();
        assert_eq!(result.id, *id);
    }
    memory.close().unwrap();
    let memory = open();
    assert_eq!(memory.stats().unwrap().live as usize, ids.len());
    for (i, id) in ids.iter().enumerate() {
        let words = format!("number {i} of the odd ones");
        assert_eq!(memory.get(id).unwrap().unwrap().text.as_deref(), Some(words.as_str()), "{id:?}");
        let hits = memory.recall(RecallQuery::new(words.as_str()).k(1)).unwrap().hits;
        assert_eq!(hits[0].id, *id);
        assert_eq!(memory.why_not(id, RecallQuery::new(words)).unwrap().rank, Some(1), "{id:?}");
        assert_eq!(memory.reinforce(Reinforce::new(*id, 0.5)).unwrap().recall_count, 1);
        assert_eq!(memory.update(id, Update::new().tags(["odd"])).unwrap().id, *id);
    }
    for (gone, id) in ids.iter().enumerate() {
        assert!(memory.forget(id).unwrap() && !memory.forget(id).unwrap(), "{id:?}");
        assert_eq!(memory.get(id).unwrap(), None);
        assert_eq!(memory.stats().unwrap().live as usize, ids.len() - gone - 1);
    }
    // No id became a path.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn the_largest_of_everything_reads_back_whole() {
    let folder = tempfile::tempdir().unwrap();
    let open = || texts(folder.path(), &clock()).open().unwrap();
    let memory = open();
    let largest: String = "all work and no play \u{1F980} ".chars().cycle().take(Limits::TEXT_BYTES).collect();
    let mut largest = largest[..largest.floor_char_boundary(Limits::TEXT_BYTES)].to_owned();
    largest.extend(std::iter::repeat_n('.', Limits::TEXT_BYTES - largest.len()));
    assert_eq!(largest.len(), Limits::TEXT_BYTES);
    let with_nul = "before\0after\0";
    let tags: Vec<String> = (0..Limits::TAGS).map(|i| format!("{i:03}{}", "t".repeat(Limits::TAG_BYTES - 3))).collect();
    let whole = metadata(Limits::METADATA_BYTES);
    memory.remember(text(largest.clone()).id("long").metadata(whole.clone()).tags(tags.clone()).session("s".repeat(1024))).unwrap();
    memory.remember(text(with_nul).id("nul").metadata(nested(50))).unwrap();
    let bounds = [("0001-01-01T00:00:00Z", "early"), ("9999-12-31T23:59:59.999Z", "late")];
    for (time, id) in bounds {
        memory
            .remember(text(format!("it happened {id}")).id(id).at(at(time)).valence(-127).arousal(255).reward(-1.0).urgency(1.0))
            .unwrap();
    }
    let check = |memory: Memory| {
        let long = memory.get("long").unwrap().unwrap();
        assert!(long.text.as_deref() == Some(largest.as_str()) && long.metadata == whole && long.tags == tags);
        assert_eq!(long.session.map(|session| session.len()), Some(1024));
        let last = tags.last().unwrap();
        assert_eq!(memory.recall(RecallQuery::new("play").tags_all(tags.clone())).unwrap().hits[0].id, "long");
        assert_eq!(memory.recall(RecallQuery::new("play").tags_any([last.as_str()])).unwrap().hits.len(), 1);
        let nul = memory.get("nul").unwrap().unwrap();
        assert_eq!((nul.text.as_deref(), nul.metadata), (Some(with_nul), nested(50)));
        for (time, id) in bounds {
            assert_eq!(memory.get(id).unwrap().unwrap().at, at(time));
        }
        assert!(memory.verify().unwrap().is_clean());
        memory.close().unwrap();
    };
    check(memory);
    check(open());
}

#[test]
fn every_dimension_finds_its_own_vector_first() {
    for dimension in [1_usize, 2, 7, 50, 100, 300, 384, 4096, 65_535] {
        let folder = tempfile::tempdir().unwrap();
        let open = || vectors(folder.path(), dimension, &clock()).open().unwrap();
        let count = if dimension > 10_000 { 5 } else { 40 };
        let vector = |i: usize| common::Random::new(1000 + i as u64).vector(dimension);
        let memory = open();
        for i in 0..count {
            memory.remember(RememberRequest::from_vector(vector(i)).id(format!("v{i}")).allow_duplicate(true)).unwrap();
        }
        let check = |memory: Memory| {
            for i in 0..count {
                let hits = memory.recall(RecallQuery::from_vector(vector(i)).k(2).profile(Profile::Similarity)).unwrap().hits;
                assert!((hits[0].cosine - 1.0).abs() < 1e-6, "dimension {dimension}: {hits:?}");
                // In one dimension there are two directions, and the first of a direction wins.
                assert!(hits[0].id == format!("v{i}") || dimension == 1, "dimension {dimension}: {hits:?}");
            }
            assert!(memory.verify().unwrap().is_clean());
            memory.close().unwrap();
        };
        check(memory);
        check(open());
    }
}

#[test]
fn dimensions_and_names_out_of_bounds_are_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    for dimension in [0, 65_536] {
        let error = vectors(folder.path(), dimension, &clock()).open().unwrap_err();
        assert_eq!(error.code(), "OutOfRange", "{error}");
    }
    let long = "n".repeat(64);
    for name in ["", "A", "a b", "..", ".", "a/b", "é", "a\0", long.as_str()] {
        let error = Memory::builder().path(folder.path()).namespace(name).open().unwrap_err();
        assert_eq!(error.code(), "InvalidName", "{name:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

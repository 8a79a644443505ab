//! The replies: one JSON object per request, `ok` first, `seq` as it came.
//!
//! The shapes here are the protocol, so they are spelled out and not derived from the engine's types: a field that the engine
//! renames or adds changes nothing for a script. Numbers keep their own width, so each prints in the fewest digits that read
//! back as the same value. What is absent is null. The command line prints the same objects under `--json`.

use std::time::Duration;

use mnemolith::{
    Breakdown, CheckpointReport, Enrichment, Hit, MemoryRecord, Page, Plan, Recall, Reinforced, RelayTrace, RememberResult, Stats, Status,
    Timestamp, VerifyReport, WhyNot,
};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use super::failure::Failure;

/// What an operation answers.
#[derive(Debug)]
pub(crate) enum Reply {
    Remembered(Box<RememberResult>),
    Recalled(Recall),
    Memory(Box<MemoryRecord>),
    Existed(bool),
    Listed(Page),
    WhyNot(WhyNot),
    Namespaces(Vec<String>),
    Reinforced(Reinforced),
    Checkpointed(CheckpointReport),
    Verified(VerifyReport),
    Stats(Box<Stats>),
    Clock(Timestamp),
}

/// The line that answers a request, without its newline.
pub(crate) fn line(seq: Option<&Value>, result: &Result<Reply, Failure>) -> serde_json::Result<Vec<u8>> {
    #[derive(serde::Serialize)]
    struct Line<'a> {
        ok: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        seq: Option<&'a Value>,
        #[serde(flatten)]
        reply: Option<&'a Reply>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<View<'a, Failure>>,
    }
    let (reply, error) = (result.as_ref().ok(), result.as_ref().err().map(View));
    serde_json::to_vec(&Line { ok: reply.is_some(), seq, reply, error })
}

/// Something of the engine as the protocol shows it.
struct View<'a, T>(&'a T);

/// A list of them.
struct Views<'a, T>(&'a [T]);

impl<'a, T> Serialize for Views<'a, T>
where
    View<'a, T>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(View))
    }
}

/// Writes an object with these entries, in this order.
macro_rules! object {
    ($serializer:expr, { $($name:literal: $value:expr),+ $(,)? }) => {{
        let mut object = $serializer.serialize_map(None)?;
        $(object.serialize_entry($name, &$value)?;)+
        object.end()
    }};
}

/// Shows an engine type as an object: `it` is the value.
macro_rules! view {
    ($type:ty, |$it:ident| { $($name:literal: $value:expr),+ $(,)? }) => {
        impl Serialize for View<'_, $type> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let $it = self.0;
                object!(serializer, { $($name: $value),+ })
            }
        }
    };
}

impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Remembered(result) => View(result.as_ref()).serialize(serializer),
            Self::Recalled(recall) => {
                object!(serializer, { "hits": Views(&recall.hits), "plan": View(&recall.plan) })
            }
            Self::Memory(memory) => object!(serializer, { "memory": View(memory.as_ref()) }),
            Self::Existed(existed) => object!(serializer, { "existed": existed }),
            Self::Listed(page) => {
                object!(serializer, { "memories": Views(&page.memories), "cursor": page.cursor })
            }
            Self::WhyNot(why) => object!(serializer, { "rank": why.rank, "reasons": why.reasons }),
            Self::Namespaces(names) => object!(serializer, { "namespaces": names }),
            Self::Reinforced(after) => View(after).serialize(serializer),
            Self::Checkpointed(report) => View(report).serialize(serializer),
            Self::Verified(report) => View(report).serialize(serializer),
            Self::Stats(stats) => View(stats.as_ref()).serialize(serializer),
            Self::Clock(now) => object!(serializer, { "now": View(now) }),
        }
    }
}

impl Serialize for View<'_, Timestamp> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}

impl Serialize for View<'_, Failure> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let it = self.0;
        if it.trace.is_empty() {
            return object!(serializer, { "kind": it.kind.as_str(), "code": it.code, "message": it.message });
        }
        object!(serializer, { "kind": it.kind.as_str(), "code": it.code, "message": it.message, "trace": Views(&it.trace) })
    }
}

view!(RememberResult, |it| {
    "id": it.id,
    "status": status(&it.status).0,
    "of": status(&it.status).1,
    "lsn": it.location.lsn,
    "importance": it.importance,
    "surprise_z": it.surprise_z,
    "valence": it.valence,
    "arousal": it.arousal,
    "flashbulb": it.flashbulb,
    "enrichment": enrichment(&it.enrichment),
    "trace": Views(&it.trace),
});

view!(RelayTrace, |it| {
    "relay": it.relay.as_str(),
    "status": it.status.as_str(),
    "micros": micros(it.elapsed),
    "detail": it.detail,
});

view!(Hit, |it| {
    "id": it.id,
    "score": it.score,
    "cosine": it.cosine,
    "text": it.text,
    "tags": it.tags,
    "at": View(&it.at),
    "tier": it.tier.as_str(),
    "session": it.session,
    "metadata": it.metadata,
    "importance": it.importance,
    "strength": it.strength,
    "valence": it.valence,
    // No memory supports a fact before there are facts.
    "facts": [(); 0],
    "breakdown": View(&it.breakdown),
});

view!(Breakdown, |it| { "sim": it.sim, "mod": it.modulation, "tags": it.tags, "mood": it.mood });

view!(Plan, |it| {
    "name": it.name,
    "admitted": it.admitted,
    "candidates": it.candidates,
    "rows_scanned": it.rows_scanned,
    "bytes": it.bytes,
    "micros": micros(it.elapsed),
    "kernel": it.kernel,
    "set_aside": it.set_aside,
    "reasons": it.reasons,
});

view!(MemoryRecord, |it| {
    "id": it.id,
    "text": it.text,
    "tags": it.tags,
    "metadata": it.metadata,
    "tier": it.tier.as_str(),
    "session": it.session,
    "at": View(&it.at),
    "valence": it.valence,
    "current_valence": it.current_valence,
    "arousal": it.arousal,
    "importance": it.importance,
    "surprise_z": it.surprise_z,
    "flashbulb": it.flashbulb,
    "pinned": it.pinned,
    "strength": it.strength,
    "recall_count": it.recall_count,
    "last_recall": it.last_recall.as_ref().map(View),
    "last_seen": View(&it.last_seen),
    "partition": it.location.partition,
    "slot": it.location.slot,
    "lsn": it.location.lsn,
    "predecessor": it.predecessor,
    "has_vector": it.has_vector,
    "source": it.source.as_str(),
    "soul_version": it.soul_version,
});

view!(Reinforced, |it| { "strength": it.strength, "valence": it.valence, "recall_count": it.recall_count });

view!(CheckpointReport, |it| {
    "checkpoint_lsn": it.checkpoint_lsn,
    "pages": it.pages,
    "segments_removed": it.segments_removed,
    "rows_destroyed": it.rows_destroyed,
    "micros": micros(it.elapsed),
});

view!(VerifyReport, |it| {
    "clean": it.is_clean(),
    "memories": it.memories,
    "rows": it.rows,
    "pages": it.pages,
    "index_files": it.index_files,
    "log_records": it.log_records,
    "problems": it.problems,
});

view!(Stats, |it| {
    "namespace": it.namespace,
    "live": it.live,
    "stored": it.stored,
    "forgotten": it.forgotten,
    "per_tier": it.per_tier,
    "tags": it.tags,
    "sessions": it.sessions,
    "quarantined": it.quarantined,
    "slabs": it.slabs,
    "disk_bytes": it.disk_bytes,
    "payload_bytes": it.payload_bytes,
    "lsn": it.lsn,
    "durable_lsn": it.durable_lsn,
    "checkpoint_lsn": it.checkpoint_lsn,
    "journal": it.journal,
    "kernel": it.kernel,
    "dimension": it.dimension,
    "embedder": it.embedder,
});

/// The protocol's name of a status, and the memory that a duplicate repeats.
pub(crate) fn status(status: &Status) -> (&'static str, Option<&str>) {
    match status {
        Status::Stored => ("stored", None),
        Status::Duplicate { of } => ("duplicate", Some(of)),
    }
}

/// The protocol's word for what becomes of entities and relations.
pub(crate) fn enrichment(enrichment: &Enrichment) -> String {
    match enrichment {
        Enrichment::Bypassed(reason) => format!("Bypassed({reason})"),
        other => format!("{other:?}"),
    }
}

/// Whole microseconds, as traces and plans tell time.
fn micros(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(seq: Option<&Value>, result: &Result<Reply, Failure>) -> (String, Value) {
        let line = String::from_utf8(line(seq, result).unwrap()).unwrap();
        let value = serde_json::from_str(&line).unwrap();
        (line, value)
    }

    #[test]
    fn a_reply_begins_with_ok_and_echoes_seq_as_it_came() {
        let (line, value) = parsed(Some(&json!({"n": [1, "x"]})), &Ok(Reply::Existed(true)));
        assert_eq!(line, r#"{"ok":true,"seq":{"n":[1,"x"]},"existed":true}"#);
        assert_eq!(value["seq"], json!({"n": [1, "x"]}));
        let (line, _) = parsed(None, &Ok(Reply::Namespaces(vec!["default".to_owned()])));
        assert_eq!(line, r#"{"ok":true,"namespaces":["default"]}"#);
    }

    #[test]
    fn an_error_carries_kind_code_and_message_and_no_reply() {
        let (line, _) = parsed(Some(&json!(7)), &Err(Failure::invalid("UnknownOp", "unknown op \"x\"")));
        assert_eq!(line, r#"{"ok":false,"seq":7,"error":{"kind":"InvalidInput","code":"UnknownOp","message":"unknown op \"x\""}}"#);
    }

    #[test]
    fn figures_and_times_print_in_their_shortest_form() {
        let report = CheckpointReport::default();
        let (line, _) = parsed(None, &Ok(Reply::Checkpointed(report)));
        assert_eq!(line, r#"{"ok":true,"checkpoint_lsn":0,"pages":0,"segments_removed":0,"rows_destroyed":0,"micros":0}"#);
        let (line, _) = parsed(None, &Ok(Reply::Clock(Timestamp::from_millis(0))));
        assert_eq!(line, r#"{"ok":true,"now":"1970-01-01T00:00:00Z"}"#);
    }
}

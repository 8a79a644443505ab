//! Each thing that the engine returns, as people see it.

use std::fmt::Write as _;

use mnemolith::{Hit, MemoryRecord, Plan, Recall, Reinforced, RelayTrace, RememberResult, Stats, VerifyReport};

use super::Kind::{Number, Text};
use super::{Screen, clean, one_line, time};
use crate::exec::{enrichment, status};

impl Screen {
    pub(crate) fn remembered(self, result: &RememberResult, with_trace: bool) -> String {
        let mut text = match status(&result.status) {
            (word, None) => format!(
                "{} {}  (importance {:.2}, surprise {:+.2}{})",
                word,
                one_line(&result.id),
                result.importance,
                result.surprise_z,
                if result.flashbulb { ", flashbulb" } else { "" }
            ),
            (word, Some(of)) => format!("{word} of {}: nothing was stored", one_line(of)),
        };
        if with_trace {
            let _ = write!(text, "\n{}\nenrichment: {}", self.trace(&result.trace), one_line(&enrichment(&result.enrichment)));
        }
        text
    }

    pub(crate) fn trace(self, trace: &[RelayTrace]) -> String {
        let row = |relay: &RelayTrace| vec![relay.relay.to_string(), relay.status.to_string(), time(relay.elapsed), relay.detail.clone()];
        self.table(&[("relay", Text), ("status", Text), ("time", Number), ("detail", Text)], trace.iter().map(row).collect())
    }

    pub(crate) fn recall(self, recall: &Recall, explain: bool) -> String {
        let mut text = match (recall.hits.is_empty(), explain) {
            (true, _) => "nothing found".to_owned(),
            (false, true) => self.breakdown(&recall.hits),
            (false, false) => self.hits(&recall.hits),
        };
        if explain {
            let _ = write!(text, "\n{}\n{}", self.heading("plan"), self.plan(&recall.plan));
        }
        text
    }

    /// What was found.
    pub(crate) fn hits(self, hits: &[Hit]) -> String {
        let row = |hit: &Hit| vec![format!("{:.4}", hit.score), hit.id.clone(), day(hit), hit.tags.join(" "), content(hit)];
        let columns = [("score", Number), ("id", Text), ("at", Text), ("tags", Text), ("text", Text)];
        self.table(&columns, hits.iter().map(row).collect())
    }

    /// What was found, and how each score came about.
    pub(crate) fn breakdown(self, hits: &[Hit]) -> String {
        let row = |hit: &Hit| {
            let factors = [hit.score, hit.breakdown.sim, hit.breakdown.modulation, hit.breakdown.tags, hit.breakdown.mood];
            let mut row: Vec<_> = factors.iter().map(|factor| format!("{factor:.4}")).collect();
            row.extend([hit.id.clone(), content(hit)]);
            row
        };
        let columns = [("score", Number), ("= sim", Number), ("x mod", Number), ("x tags", Number), ("x mood", Number)];
        let columns = [&columns[..], &[("id", Text), ("text", Text)]].concat();
        self.table(&columns, hits.iter().map(row).collect())
    }

    pub(crate) fn plan(self, plan: &Plan) -> String {
        let mut pairs = vec![
            ("name", plan.name.clone()),
            ("admitted", plan.admitted.to_string()),
            ("candidates", plan.candidates.to_string()),
            ("rows scanned", plan.rows_scanned.to_string()),
            ("bytes read", plan.bytes.to_string()),
            ("time", time(plan.elapsed)),
            ("kernel", plan.kernel.to_owned()),
        ];
        pairs.extend(plan.reasons.iter().map(|reason| ("because", reason.clone())));
        self.pairs(&pairs)
    }

    pub(crate) fn memory(self, memory: &MemoryRecord) -> String {
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let metadata = serde_json::to_string(&memory.metadata).unwrap_or_default();
        let pairs = self.pairs(&[
            ("id", memory.id.clone()),
            ("at", memory.at.to_string()),
            ("tier", memory.tier.to_string()),
            ("session", or_dash(memory.session.clone())),
            ("follows", or_dash(memory.predecessor.clone())),
            ("tags", memory.tags.join(" ")),
            ("metadata", metadata),
            ("source", memory.source.to_string()),
            ("importance", format!("{:.4}{}", memory.importance, if memory.pinned { ", does not fade" } else { "" })),
            ("surprise", format!("{:+.4}", memory.surprise_z)),
            ("valence", format!("{}, encoded as {}", memory.current_valence, memory.valence)),
            ("arousal", memory.arousal.to_string()),
            ("strength", format!("{:.4}", memory.strength)),
            ("reinforced", format!("{} times, last {}", memory.recall_count, or_dash(memory.last_recall.map(|at| at.to_string())))),
            ("last seen", memory.last_seen.to_string()),
            ("vector", if memory.has_vector { "yes" } else { "no" }.to_owned()),
            ("location", format!("partition {}, slot {}, lsn {}", memory.location.partition, memory.location.slot, memory.location.lsn)),
        ]);
        format!("{pairs}\n\n{}", memory.text.as_deref().map_or_else(|| "(no text)".to_owned(), clean))
    }

    pub(crate) fn reinforced(self, after: &Reinforced) -> String {
        format!("strength {:.4}, valence {}, reinforced {} times", after.strength, after.valence, after.recall_count)
    }

    pub(crate) fn stats(self, stats: &Stats) -> String {
        let tiers: Vec<_> = stats.per_tier.iter().map(|(tier, count)| format!("{tier} {count}")).collect();
        self.pairs(&[
            ("namespace", stats.namespace.clone()),
            ("live", stats.live.to_string()),
            ("by tier", tiers.join(", ")),
            ("stored", stats.stored.to_string()),
            ("forgotten", stats.forgotten.to_string()),
            ("quarantined", stats.quarantined.to_string()),
            ("tags", stats.tags.to_string()),
            ("sessions", stats.sessions.to_string()),
            ("slabs", stats.slabs.to_string()),
            ("disk bytes", stats.disk_bytes.to_string()),
            ("payload bytes", stats.payload_bytes.to_string()),
            ("last lsn", format!("{}, durable {}, in slabs {}", stats.lsn, stats.durable_lsn, stats.checkpoint_lsn)),
            ("journal", stats.journal.clone()),
            ("kernel", stats.kernel.to_owned()),
            ("dimension", stats.dimension.to_string()),
            ("embedder", stats.embedder.clone()),
        ])
    }

    pub(crate) fn verified(self, report: &VerifyReport) -> String {
        let read = format!(
            "{} live memories, {} rows with vector and payload, {} pages, {} index files, {} log records",
            report.memories, report.rows, report.pages, report.index_files, report.log_records
        );
        if report.is_clean() {
            return format!("no problem found: {read}");
        }
        let problems: Vec<_> = report.problems.iter().map(|problem| one_line(problem)).collect();
        format!("problems found: {}; {read}\n{}", report.problems.len(), problems.join("\n"))
    }
}

/// The date of a hit: the time of day is in `get`.
fn day(hit: &Hit) -> String {
    let at = hit.at.to_string();
    at.split_once('T').map_or(at.clone(), |(day, _)| day.to_owned())
}

fn content(hit: &Hit) -> String {
    hit.text.clone().unwrap_or_else(|| "(no text)".to_owned())
}

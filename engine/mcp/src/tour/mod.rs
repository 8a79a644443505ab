//! The tour: what the engine does, shown on a short conversation in a few seconds, without a network.

mod conversation;
mod crash;

use mnemolith::{Builder, Memory, RecallQuery, RememberRequest, Timestamp};

use self::conversation::{CONVERSATION, FILTER_TAG, FILTERED_QUESTION, QUESTION, SECRET_QUESTION, SECRET_TAG, Utterance};
use crate::args::StoreArgs;
use crate::cli::{Trouble, builder};
use crate::exec::{SettableClock, status};
use crate::render::{Kind, Screen, print};

/// When the tour takes place: a month after the last session, so that ages and scores are the same on every day.
const NOW: &str = "2026-11-01T12:00:00Z";

/// Writes the tour to the standard output.
pub(crate) fn run(screen: Screen, args: &StoreArgs) -> Result<(), Trouble> {
    if args.json {
        return Err(Trouble::Usage("tour is for people and prints text only; leave --json out".to_owned()));
    }
    match &args.dir {
        Some(_) => Tour::begin(screen.always_tables(), args)?.walk(),
        None => {
            let failed = |error: std::io::Error| Trouble::Failed(format!("no temporary directory: {error}"));
            let dir = tempfile::Builder::new().prefix("mnemolith-tour-").tempdir().map_err(failed)?;
            let args = StoreArgs { dir: Some(dir.path().join("store")), ..args.clone() };
            let walked = Tour::begin(screen.always_tables(), &args).and_then(Tour::walk);
            dir.close().map_err(|error| Trouble::Failed(format!("the temporary store could not be removed: {error}")))?;
            walked?;
            say("The store of this tour is gone again; `mnemolith tour --dir DIR` keeps it.")
        }
    }
}

/// What the steps share.
struct Tour<'a> {
    screen: Screen,
    args: &'a StoreArgs,
    clock: SettableClock,
    memory: Memory,
}

impl<'a> Tour<'a> {
    fn begin(screen: Screen, args: &'a StoreArgs) -> Result<Self, Trouble> {
        let clock = SettableClock::new();
        clock.set(time(NOW)?);
        let memory = opener(args, &clock)?.open()?;
        if memory.stats()?.stored > 0 {
            memory.close()?;
            return Err(Trouble::Usage("the tour wants a store of its own; give --dir a directory that is not in use".to_owned()));
        }
        Ok(Self { screen, args, clock, memory })
    }

    fn walk(self) -> Result<(), Trouble> {
        say("Ines and Tobias talk in three sessions, in March, June and October. What follows\n\
             happens in a real store, as if it were the first of November; nothing is sent\n\
             over a network.")?;
        self.remember()?;
        self.duplicate()?;
        self.recall()?;
        self.filter()?;
        self.forget()?;
        let screen = self.screen;
        self.crash()?;
        farewell(screen)
    }

    fn heading(&self, number: usize, text: &str) -> Result<(), Trouble> {
        say(&format!("\n{}", self.screen.heading(&format!("{number}. {text}"))))
    }

    fn remember(&self) -> Result<(), Trouble> {
        self.heading(1, &format!("Remember: {} utterances", CONVERSATION.len()))?;
        let mut last = None;
        for (index, said) in CONVERSATION.iter().enumerate() {
            last = Some(self.memory.remember(request(index, said)?)?);
        }
        if let Some(last) = last {
            say(&self.screen.trace(&last.trace))?;
        }
        say("Each memory passes six relays; this is the way of the last one. Look at\n\
             CORTICAL_WRITE: when it is completed, the memory survives power loss.")
    }

    fn duplicate(&self) -> Result<(), Trouble> {
        self.heading(2, "Say it again: a duplicate is recognised")?;
        let Some(said) = CONVERSATION.last() else {
            return Ok(());
        };
        let variants = [
            ("again-1", "the same words", spoken(said)),
            ("again-2", "other white space", format!("  {}  ", spoken(said).replace(' ', "   "))),
            ("again-3", "one digit changed", spoken(said).replace("4711", "4712")),
        ];
        let mut rows = Vec::new();
        for (id, what, text) in variants {
            let result = self.memory.remember(RememberRequest::new(text).id(id).at(time(said.at)?))?;
            let (status, of) = status(&result.status);
            rows.push(vec![what.to_owned(), status.to_owned(), of.unwrap_or("-").to_owned()]);
        }
        self.memory.forget("again-3")?;
        say(&self.screen.table(&[("said again with", Kind::Text), ("status", Kind::Text), ("of", Kind::Text)], rows))?;
        say("White space makes no difference. One digit does: that is another memory.")
    }

    fn recall(&self) -> Result<(), Trouble> {
        self.heading(3, &format!("Recall: {QUESTION}"))?;
        let recall = self.memory.recall(RecallQuery::new(QUESTION).k(3).explain(true))?;
        say(&self.screen.breakdown(&recall.hits))?;
        say(&self.screen.plan(&recall.plan))?;
        say("A score is the product of similarity, importance and age (mod), optional tags\n\
             and mood: multiply a row and see. The vectors come from a hashing embedder that\n\
             needs no download; it knows words and not what they mean.")
    }

    fn filter(&self) -> Result<(), Trouble> {
        self.heading(4, &format!("Filter by tag `{FILTER_TAG}`: {FILTERED_QUESTION}"))?;
        let recall = self.memory.recall(RecallQuery::new(FILTERED_QUESTION).k(4).tags_all([FILTER_TAG]))?;
        say(&self.screen.hits(&recall.hits))?;
        say("Every answer carries the tag: filters act before the search, not after it.")
    }

    fn forget(&self) -> Result<(), Trouble> {
        self.heading(5, &format!("Forget: {SECRET_QUESTION}"))?;
        let Some(index) = CONVERSATION.iter().position(|said| said.tags.contains(&SECRET_TAG)) else {
            return Ok(());
        };
        let secret = id(index);
        let found = |memory: &Memory| -> Result<String, Trouble> {
            let recall = memory.recall(RecallQuery::new(SECRET_QUESTION).k(CONVERSATION.len()))?;
            let place = recall.hits.iter().position(|hit| hit.id == secret);
            Ok(place.map_or_else(|| "not found".to_owned(), |place| format!("found, rank {}", place + 1)))
        };
        let before = found(&self.memory)?;
        self.memory.forget(&secret)?;
        let after = found(&self.memory)?;
        say(&self.screen.table(
            &[("memory", Kind::Text), ("before", Kind::Text), ("after forget", Kind::Text)],
            vec![vec![secret.clone(), before, after]],
        ))?;
        say("`forget --purge` also destroys its bytes on the disk before it returns.")
    }

    fn crash(self) -> Result<(), Trouble> {
        self.heading(6, "Kill it while it writes, and reopen")?;
        let Self { screen, args, clock, memory } = self;
        let known = memory.stats()?.live;
        memory.close()?;
        let acknowledged = crash::write_until_killed(args)?;

        let memory = opener(args, &clock)?.open()?;
        let mut lost = Vec::new();
        for id in &acknowledged {
            if memory.get(id)?.is_none() {
                lost.push(id.clone());
            }
        }
        let live = memory.stats()?.live;
        let report = memory.verify()?;
        memory.close()?;

        let written = u64::try_from(acknowledged.len()).unwrap_or(u64::MAX);
        let in_flight = live.saturating_sub(known.saturating_add(written));
        say(&screen.pairs(&[
            ("acknowledged before the kill", written.to_string()),
            ("of these found after reopening", (acknowledged.len() - lost.len()).to_string()),
            ("on their way when it was killed, found too", in_flight.to_string()),
            ("memories of before, all still there", known.to_string()),
            ("problems that a full verification found", report.problems.len().to_string()),
        ]))?;
        if !lost.is_empty() || !report.is_clean() || live < known.saturating_add(written) {
            return Err(Trouble::Failed(format!("the store lost what it had acknowledged: {}", lost.join(", "))));
        }
        say("A second process wrote to the store and got SIGKILL in the middle. What it had\n\
             acknowledged is there: a reply is sent only after the write is durable.")
    }
}

fn farewell(screen: Screen) -> Result<(), Trouble> {
    say(&format!("\n{}", screen.heading("Next, with a store of your own")))?;
    say("  mnemolith remember \"The backup key is in the blue drawer\" --tag home --trace\n\
         \x20 mnemolith recall \"where is the backup key?\" --explain\n\
         \x20 mnemolith stats\n\
         \x20 echo '{\"op\":\"recall\",\"text\":\"backup key\"}' | mnemolith exec")
}

/// How the store of the tour is opened: at the tour's time.
fn opener(args: &StoreArgs, clock: &SettableClock) -> Result<Builder, Trouble> {
    Ok(builder(args)?.clock(std::sync::Arc::new(clock.clone())))
}

/// Every memory of the tour has an id that fits a narrow table.
fn id(index: usize) -> String {
    format!("t{:02}", index + 1)
}

/// What a memory of an utterance says.
fn spoken(said: &Utterance) -> String {
    format!("{}: {}", said.speaker, said.text)
}

fn request(index: usize, said: &Utterance) -> Result<RememberRequest, Trouble> {
    let request = RememberRequest::new(spoken(said));
    Ok(request.id(id(index)).tags(said.tags.iter().copied()).session(said.session).at(time(said.at)?))
}

fn time(text: &str) -> Result<Timestamp, Trouble> {
    Timestamp::parse(text).map_err(|error| Trouble::Failed(error.to_string()))
}

fn say(text: &str) -> Result<(), Trouble> {
    print(text).map_err(Trouble::Output)
}

//! The command line: one call of the engine a command.

use std::io::{self, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use mnemolith::{
    Builder, Durability, Error, ErrorKind, HashingEmbedder, Limits, Memory, RecallQuery, Reinforce, RememberError, RememberRequest,
};

use crate::args::{Cli, Command, DurabilityArg, EmbedderArg, RecallArgs, RememberArgs, StoreArgs, default_dir};
use crate::exec::{Reply, Session, SettableClock};
use crate::render::{self, Screen};
use crate::tour;

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const CORRUPT: u8 = 3;

/// What every namespace has from its first moment on.
const STORE_ENTRIES: [&str; 2] = ["superblock", "wal"];

/// Of a new store's vectors where nothing is said.
const DEFAULT_DIMENSION: usize = 384;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The engine said no.
    Engine(Error),
    /// The arguments do not fit together.
    Usage(String),
    /// Something else failed.
    Failed(String),
    /// The output could not be written.
    Output(io::Error),
}

impl Trouble {
    /// The exit code, and the words for the standard error where any are due.
    fn report(&self) -> (u8, Option<String>) {
        match self {
            Self::Engine(error) => {
                let code = match error.kind() {
                    ErrorKind::Corrupt => CORRUPT,
                    ErrorKind::InvalidInput => USAGE,
                    _ => FAILED,
                };
                (code, Some(error.to_string()))
            }
            Self::Usage(message) => (USAGE, Some(message.clone())),
            Self::Failed(message) => (FAILED, Some(message.clone())),
            // Whoever read the output has seen enough: `mnemolith recall ... | head -1` did what was asked.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => (0, None),
            Self::Output(error) => (FAILED, Some(format!("the output could not be written: {error}"))),
        }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<RememberError> for Trouble {
    fn from(error: RememberError) -> Self {
        Self::Engine(error.into_error())
    }
}

/// The whole program.
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(code) => code,
        Err(trouble) => {
            let (code, message) = trouble.report();
            if let Some(message) = message {
                complain(&message);
            }
            ExitCode::from(code)
        }
    }
}

fn complain(message: &str) {
    use io::Write as _;
    // Where even this cannot be written the exit code still tells.
    let _ = writeln!(io::stderr(), "{} {message}", render::error_word());
}

fn run(cli: &Cli) -> Result<ExitCode, Trouble> {
    let store = &cli.store;
    let screen = Screen::detect();
    match &cli.command {
        Command::Exec { test_clock } => return exec(store, *test_clock),
        Command::Tour => {
            tour::run(screen, store)?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Remember(args) => {
            let text = text(&args.text)?;
            let result = with_store(store, |memory| Ok(memory.remember(remember_request(args, text))?))?;
            answer(store, || screen.remembered(&result, args.trace), Reply::Remembered(Box::new(result.clone())))?;
        }
        Command::Recall(args) => {
            let text = text(&args.text)?;
            let recall = with_existing_store(store, |memory| Ok(memory.recall(recall_query(args, text))?))?;
            if recall.plan.set_aside > 0 {
                eprintln!("warning: {} damaged memories were set aside; `mnemolith verify` names them", recall.plan.set_aside);
            }
            answer(store, || screen.recall(&recall, args.explain), Reply::Recalled(recall.clone()))?;
        }
        Command::Get { id } => {
            let found = with_existing_store(store, |memory| Ok(memory.get(id)?))?;
            let found = found.ok_or_else(|| Error::NotFound { id: id.clone() })?;
            answer(store, || screen.memory(&found), Reply::Memory(Box::new(found.clone())))?;
        }
        Command::Reinforce { id, outcome, with } => {
            let request = Reinforce::new(id, *outcome).with(with);
            let after = with_existing_store(store, |memory| Ok(memory.reinforce(request)?))?;
            answer(store, || screen.reinforced(&after), Reply::Reinforced(after))?;
        }
        Command::Forget { id, purge } => {
            let remove = |memory: &Memory| Ok(if *purge { memory.purge(id) } else { memory.forget(id) }?);
            if !with_existing_store(store, remove)? {
                return Err(Error::NotFound { id: id.clone() }.into());
            }
            let word = if *purge { "purged" } else { "forgotten" };
            answer(store, || word.to_owned(), Reply::Existed(true))?;
        }
        Command::Stats => {
            let stats = with_existing_store(store, |memory| Ok(memory.stats()?))?;
            answer(store, || screen.stats(&stats), Reply::Stats(Box::new(stats.clone())))?;
        }
        Command::Verify => {
            let report = with_existing_store(store, |memory| Ok(memory.verify()?))?;
            answer(store, || screen.verified(&report), Reply::Verified(report.clone()))?;
            if !report.is_clean() {
                complain("the store is damaged; keep a copy of its directory before anything else");
                return Ok(ExitCode::from(CORRUPT));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the reply: for people, or as the object that `exec` would answer.
fn answer(store: &StoreArgs, text: impl FnOnce() -> String, reply: Reply) -> Result<(), Trouble> {
    let text = match store.json {
        true => serde_json::to_string(&reply).map_err(|error| Trouble::Output(error.into()))?,
        false => text(),
    };
    render::print(&text).map_err(Trouble::Output)
}

/// Opens the store, does one thing and closes it; what failed first is what is told.
fn with_store<T>(store: &StoreArgs, act: impl FnOnce(&Memory) -> Result<T, Trouble>) -> Result<T, Trouble> {
    let memory = builder(store)?.open()?;
    let done = act(&memory);
    let closed = memory.close();
    let done = done?;
    closed?;
    Ok(done)
}

/// As [`with_store`], for what makes no sense where nothing was ever stored: a mistyped directory or namespace is not to become
/// a store.
fn with_existing_store<T>(store: &StoreArgs, act: impl FnOnce(&Memory) -> Result<T, Trouble>) -> Result<T, Trouble> {
    let dir = directory(store)?;
    if !dir.exists() {
        return Err(Trouble::Failed(format!(
            "there is no store in {}; `mnemolith remember TEXT` makes one, and --dir names another",
            dir.display()
        )));
    }
    // A directory that merely has the name, with somebody's other files in it, is none either. One half of a store is: it is damaged, and
    // opening it says how.
    let namespace = dir.join(&store.namespace);
    let absent = !namespace.exists();
    if absent || (namespace.is_dir() && !STORE_ENTRIES.iter().any(|entry| namespace.join(entry).exists())) {
        return Err(Error::NoSuchNamespace { namespace: store.namespace.clone() }.into());
    }
    with_store(store, act)
}

/// How the store that the arguments name is opened.
pub(crate) fn builder(store: &StoreArgs) -> Result<Builder, Trouble> {
    let durability = match store.durability {
        DurabilityArg::Sync => Durability::Sync,
        DurabilityArg::Buffered => Durability::Buffered,
    };
    let mut builder = Memory::builder().path(directory(store)?).namespace(&store.namespace).durability(durability);
    // What is not said is left to the store, which knows its dimension and its embedder.
    if let Some(dimension) = store.dim {
        builder = builder.dimension(dimension);
    }
    Ok(match store.embedder {
        None => builder,
        Some(EmbedderArg::None) => builder.no_embedder(),
        Some(EmbedderArg::Hash) => {
            let dimension = store.dim.unwrap_or(DEFAULT_DIMENSION);
            builder.embedder(Arc::new(HashingEmbedder::new(dimension)?))
        }
    })
}

fn directory(store: &StoreArgs) -> Result<PathBuf, Trouble> {
    let dir = store.dir.clone().or_else(|| default_dir(|name| std::env::var_os(name)));
    dir.ok_or_else(|| Trouble::Usage("no data directory is known, for HOME is not set; give --dir".to_owned()))
}

fn exec(store: &StoreArgs, test_clock: bool) -> Result<ExitCode, Trouble> {
    let clock = test_clock.then(SettableClock::new);
    let mut builder = builder(store)?;
    if let Some(clock) = &clock {
        builder = builder.clock(Arc::new(clock.clone()));
    }
    let session = Session::new(builder.open()?, clock);
    let served = session.serve(io::stdin().lock(), io::stdout().lock());
    session.close()?;
    served.map_err(|error| Trouble::Failed(format!("the session ended early: {error}")))?;
    Ok(ExitCode::SUCCESS)
}

/// A text argument; `-` stands for the standard input, less one line break at its end.
fn text(argument: &str) -> Result<String, Trouble> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    // The longest text, a line break, and one byte by which a longer text is known.
    let longest = Limits::TEXT_BYTES + 2;
    let bound = u64::try_from(longest).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(bound).read_to_end(&mut bytes);
    read.map_err(|error| Trouble::Failed(format!("the standard input could not be read: {error}")))?;
    if bytes.len() > longest {
        let max = Limits::TEXT_BYTES;
        return Err(Trouble::Usage(format!("the text on the standard input has more than {max} bytes; split it into several memories")));
    }
    let text = String::from_utf8(bytes);
    let mut text = text.map_err(|error| Trouble::Usage(format!("the text on the standard input is not UTF-8: {error}")))?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

fn remember_request(args: &RememberArgs, text: String) -> RememberRequest {
    let mut request = RememberRequest::new(text).tags(&args.tags).tier(args.tier).allow_duplicate(args.allow_duplicate);
    macro_rules! set {
        ($($field:ident),+) => {$(
            if let Some(value) = args.$field.clone() {
                request = request.$field(value);
            }
        )+};
    }
    set!(id, session, at, valence, arousal, reward, interest, challenge, urgency, metadata, source);
    request
}

fn recall_query(args: &RecallArgs, text: String) -> RecallQuery {
    let mut query = RecallQuery::new(text)
        .k(args.k)
        .tags_all(&args.tags_all)
        .tags_any(&args.tags_any)
        .tiers(args.tiers.clone())
        .profile(args.profile)
        .exact(args.exact)
        .explain(args.explain);
    macro_rules! set {
        ($($field:ident),+) => {$(
            if let Some(value) = args.$field.clone() {
                query = query.$field(value);
            }
        )+};
    }
    set!(session, after, before, mood);
    query
}

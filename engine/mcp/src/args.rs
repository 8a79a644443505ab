//! What can be written on the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::{Args, Parser, Subcommand, ValueEnum};
use mnemolith::{Metadata, Profile, Source, Tier, Timestamp};

/// A memory for agents: remember, recall, reinforce, forget.
#[derive(Debug, Parser)]
#[command(name = "mnemolith", version = version(), max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 the store is damaged.\nA first look: mnemolith tour")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Which store, and how it is opened.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Store")]
pub(crate) struct StoreArgs {
    /// Directory of the store [default: mnemolith in the platform's data directory]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Namespace in the store
    #[arg(long, global = true, value_name = "NAME", default_value = "default")]
    pub(crate) namespace: String,
    /// Print one JSON object instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Dimension of the vectors [default: the store's; 384 for a new one]
    #[arg(long, global = true, value_name = "N")]
    pub(crate) dim: Option<usize>,
    /// What makes vectors of texts: `hash`, or `none` [default: the store's; `hash` for a new one]
    #[arg(long, global = true, value_name = "EMBEDDER", value_parser = embedder)]
    pub(crate) embedder: Option<EmbedderArg>,
    /// When a write is done: `sync` survives power loss, `buffered` a killed process
    #[arg(long, global = true, value_name = "POLICY", default_value = "sync")]
    pub(crate) durability: DurabilityArg,
}

/// What makes vectors of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EmbedderArg {
    Hash,
    None,
}

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityArg {
    Sync,
    Buffered,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Store a memory
    Remember(Box<RememberArgs>),
    /// Find the memories that answer a text best
    Recall(Box<RecallArgs>),
    /// Show one memory
    Get {
        /// Id of the memory
        id: String,
    },
    /// Say how well a memory served: each use makes it fade more slowly, the outcome moves its mood
    Reinforce {
        /// Id of the memory
        id: String,
        /// From -1 (it misled) to 1 (it helped)
        #[arg(allow_negative_numbers = true)]
        outcome: f64,
        /// Memories used together with it; refused until memories can be linked
        #[arg(long, value_name = "ID", num_args = 1.., hide = true)]
        with: Vec<String>,
    },
    /// Remove a memory; it is never recalled again
    Forget {
        /// Id of the memory
        id: String,
        /// Destroy its bytes too, and do not return before that is done
        #[arg(long)]
        purge: bool,
    },
    /// Show figures of the namespace
    Stats,
    /// Read everything and check it
    Verify,
    /// Answer JSON requests, one per line, until the end of the input
    Exec {
        /// Let requests set the time of day, which then stands still
        #[arg(long)]
        test_clock: bool,
    },
    /// See it work on a short conversation: recall, forget, kill and reopen
    Tour,
}

#[derive(Debug, Args)]
pub(crate) struct RememberArgs {
    /// The text; `-` reads it from the standard input
    pub(crate) text: String,
    /// Id; chosen where absent
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Tag; may be repeated or separated by commas
    #[arg(long = "tag", visible_alias = "tags", value_name = "TAG", value_delimiter = ',')]
    pub(crate) tags: Vec<String>,
    /// working, episodic, semantic or procedural
    #[arg(long, default_value_t = Tier::Episodic)]
    pub(crate) tier: Tier,
    /// Session, whose memories are chained in time
    #[arg(long)]
    pub(crate) session: Option<String>,
    /// When it happened: 2026-03-02T09:30:00Z, 2026-03-02, or milliseconds since 1970 [default: now]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) at: Option<Timestamp>,
    /// How good or bad it was, -127 to 127
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) valence: Option<i64>,
    /// How stirring it was, 0 to 255
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) arousal: Option<i64>,
    /// The reward that came with it, -1 to 1
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) reward: Option<f64>,
    /// How interesting it is, 0 to 1
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) interest: Option<f64>,
    /// How challenging it is, 0 to 1
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) challenge: Option<f64>,
    /// How urgent it is, 0 to 1
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) urgency: Option<f64>,
    /// A JSON object kept with it
    #[arg(long, value_name = "JSON", value_parser = metadata)]
    pub(crate) metadata: Option<Metadata>,
    /// Where it comes from: user, agent, tool, document, inferred or imported
    #[arg(long)]
    pub(crate) source: Option<Source>,
    /// Store it even if the same text was stored just before
    #[arg(long)]
    pub(crate) allow_duplicate: bool,
    /// Show what each relay did
    #[arg(long)]
    pub(crate) trace: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RecallArgs {
    /// The text to look for; `-` reads it from the standard input
    pub(crate) text: String,
    /// How many memories at most
    #[arg(short, long, default_value_t = 10)]
    pub(crate) k: usize,
    /// Only memories with this tag; of several, all of them
    #[arg(long = "tag", visible_alias = "tags", value_name = "TAG", value_delimiter = ',')]
    pub(crate) tags_all: Vec<String>,
    /// Only memories with one of these tags
    #[arg(long = "any-tag", value_name = "TAG", value_delimiter = ',')]
    pub(crate) tags_any: Vec<String>,
    /// Only this tier; may be repeated
    #[arg(long = "tier", value_name = "TIER", value_delimiter = ',')]
    pub(crate) tiers: Vec<Tier>,
    /// Only this session
    #[arg(long)]
    pub(crate) session: Option<String>,
    /// Only from this time on
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) after: Option<Timestamp>,
    /// Only from before this time
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) before: Option<Timestamp>,
    /// balanced, exploring, critical, recalling, debugging or similarity
    #[arg(long, default_value_t = Profile::Balanced)]
    pub(crate) profile: Profile,
    /// The mood to match, -127 to 127
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) mood: Option<i64>,
    /// Read every row, whatever it costs
    #[arg(long)]
    pub(crate) exact: bool,
    /// Show how each score came about, and the plan
    #[arg(long)]
    pub(crate) explain: bool,
}

/// The version and the vector kernel this machine runs.
fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let kernel = match mnemolith::simd_kernel() {
            Ok(kernel) => kernel.to_owned(),
            Err(error) => format!("unusable: {error}"),
        };
        format!("{} (simd kernel {kernel})", env!("CARGO_PKG_VERSION"))
    })
}

fn embedder(text: &str) -> Result<EmbedderArg, String> {
    match text {
        "hash" => Ok(EmbedderArg::Hash),
        "none" => Ok(EmbedderArg::None),
        url if url.contains("://") => Err("embedding endpoints are not built yet; use hash, or none and give vectors".to_owned()),
        _ => Err("use hash or none".to_owned()),
    }
}

fn metadata(text: &str) -> Result<Metadata, String> {
    serde_json::from_str(text).map_err(|error| format!("it must be a JSON object: {error}"))
}

/// Where stores live on this platform where nothing is said, from the environment `variable` reads.
pub(crate) fn default_dir(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = if cfg!(target_os = "macos") {
        absolute("HOME")?.join("Library/Application Support")
    } else if cfg!(windows) {
        absolute("LOCALAPPDATA")?
    } else {
        // The XDG specification says to ignore a relative path.
        match absolute("XDG_DATA_HOME") {
            Some(base) => base,
            None => absolute("HOME")?.join(".local/share"),
        }
    };
    Some(base.join("mnemolith"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_starts_with_a_minus_is_read_as_a_number_where_numbers_may_be_negative() {
        let cli = Cli::try_parse_from(["mnemolith", "reinforce", "m1", "-0.5", "--with", "m2", "m3"]).unwrap();
        let Command::Reinforce { outcome, with, .. } = cli.command else { panic!("{cli:?}") };
        assert_eq!((outcome, with), (-0.5, vec!["m2".to_owned(), "m3".to_owned()]));
        let cli = Cli::try_parse_from(["mnemolith", "remember", "-", "--valence", "-3", "--at", "-1000", "--tag", "a,b", "--tag", "c"]);
        let Command::Remember(args) = cli.unwrap().command else { panic!("not remember") };
        assert_eq!((args.valence, args.at), (Some(-3), Some(Timestamp::from_millis(-1000))));
        assert_eq!(args.tags, ["a", "b", "c"]);
    }

    #[test]
    fn an_endpoint_is_refused_as_not_built_and_a_typo_as_unknown() {
        let refusal = |text| Cli::try_parse_from(["mnemolith", "exec", "--embedder", text]).unwrap_err().to_string();
        assert!(refusal("http://localhost:11434").contains("not built yet"));
        assert!(refusal("hush").contains("use hash or none"));
    }

    #[cfg(all(unix, not(target_os = "macos")))]
    #[test]
    fn the_data_directory_follows_xdg_and_ignores_a_relative_one() {
        let dir =
            |pairs: &[(&str, &str)]| default_dir(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value)));
        assert_eq!(dir(&[("XDG_DATA_HOME", "/data"), ("HOME", "/home/x")]), Some(PathBuf::from("/data/mnemolith")));
        assert_eq!(dir(&[("XDG_DATA_HOME", "data"), ("HOME", "/home/x")]), Some(PathBuf::from("/home/x/.local/share/mnemolith")));
        assert_eq!(dir(&[]), None);
    }
}

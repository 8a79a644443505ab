//! What a durable memory costs against a bare durable write of the same blocks, interleaved in one run.
//!
//! `cargo run --release -p mnemolith-benches --bin remember [-- DIRECTORY]`

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mnemolith::backend::{Backend, FileBackend};
use mnemolith::{Memory, RecallQuery, RememberRequest};

const DIMENSION: usize = 384;
const ROUNDS: usize = 20;
const CALLS: usize = 50;
const BATCH: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let root = std::env::args().nth(1).map_or_else(|| std::env::temp_dir().join("mnemolith-bench-remember"), PathBuf::from);
    let backend: Arc<dyn Backend> = Arc::new(FileBackend::new(&root));
    for name in ["bare", "memories"] {
        backend.remove(name)?;
    }
    let bare = backend.open("bare")?;
    let log = bare.create_log("bare.wal", 16 << 20)?;
    let memory = Memory::builder().path(&root).namespace("memories").dimension(DIMENSION).no_embedder().open()?;
    let mut random = Random(7);
    // Warm: slabs and segments of the first memories exist, and novelty has its 512 neighbours.
    memory.remember_batch((0..512).map(|_| request(&mut random))).into_iter().collect::<Result<Vec<_>, _>>()?;

    // A memory of 384 values takes one block of 4 KiB in the log.
    let block = vec![7_u8; 4096];
    let (mut bare_times, mut memory_times, mut batch_times, mut recall_times) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut offset = 0;
    for _ in 0..ROUNDS {
        for _ in 0..CALLS {
            bare_times.push(timed(|| log.write_durable_at(offset, &block))?);
            offset = (offset + 4096) % (15 << 20);
        }
        for _ in 0..CALLS {
            let request = request(&mut random);
            memory_times.push(timed(|| memory.remember(request))?);
        }
        let requests: Vec<_> = (0..BATCH).map(|_| request(&mut random)).collect();
        batch_times.push(timed(|| memory.remember_batch(requests).into_iter().collect::<Result<Vec<_>, _>>())?);
        for _ in 0..CALLS {
            let query = RecallQuery::from_vector(random.vector());
            recall_times.push(timed(|| memory.recall(query))?);
        }
    }
    let live = memory.stats()?.live;
    println!("machine: {} threads; kernel {}; journal {}", std::thread::available_parallelism()?, memory.stats()?.kernel, log.method());
    println!("{live} memories of {DIMENSION} values; {ROUNDS} interleaved rounds of {CALLS} calls; seed 7\n");
    let bare_p50 = show("bare durable write of 4 KiB", &mut bare_times, None);
    show("remember, one caller, durable", &mut memory_times, Some(bare_p50));
    let batch_p50 = show(&format!("remember_batch of {BATCH}, durable"), &mut batch_times, Some(bare_p50));
    println!("{:<34} {:>10.0} memories a second", "  that is", BATCH as f64 / batch_p50.as_secs_f64());
    show(&format!("recall, k 10, exact, {live} memories"), &mut recall_times, None);
    drop((memory, log, bare));
    for name in ["bare", "memories"] {
        backend.remove(name)?;
    }
    Ok(())
}

fn request(random: &mut Random) -> RememberRequest {
    RememberRequest::from_vector(random.vector()).tag("bench")
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the real clock")]
fn timed<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<Duration, E> {
    let started = Instant::now();
    let result = work();
    let elapsed = started.elapsed();
    result.map(|_| elapsed)
}

fn show(what: &str, times: &mut [Duration], baseline: Option<Duration>) -> Duration {
    times.sort_unstable();
    let at = |share: f64| times.get(((times.len() - 1) as f64 * share) as usize).copied().unwrap_or_default();
    let ratio = baseline.map(|baseline| format!("  {:.2} x bare", at(0.5).as_secs_f64() / baseline.as_secs_f64())).unwrap_or_default();
    println!("{what:<34} p50 {:>7.0} us  p99 {:>7.0} us{ratio}", at(0.5).as_secs_f64() * 1e6, at(0.99).as_secs_f64() * 1e6);
    at(0.5)
}

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn vector(&mut self) -> Vec<f32> {
        (0..DIMENSION).map(|_| (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0).collect()
    }
}

//! The writer threads of the process: up to four serve all namespaces with pending work.
//!
//! A namespace is served by one thread at a time. Threads are started on demand and end when there was nothing to do for a while;
//! before that they let idle namespaces give their descriptors back.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

const MAX_THREADS: usize = 4;
const IDLE_AFTER: Duration = Duration::from_millis(250);
/// More idle namespaces than this do not keep their descriptors until the pool is idle.
const MAX_RECENT: usize = 32;

/// A namespace with work.
pub(crate) trait Job: Send + Sync {
    /// Does all the work there is.
    fn drain(&self);
    /// Gives back what an idle namespace does not need.
    fn idle(&self);
}

/// Says whether a thread serves a namespace, so that closing it can wait until nobody holds it.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    running: bool,
    closed: bool,
    next: Option<Arc<dyn Job>>,
}

impl std::fmt::Debug for Signal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signal").field("running", &self.state.lock().running).finish()
    }
}

impl Signal {
    /// Asks for a thread to drain the job.
    pub(crate) fn kick(self: &Arc<Self>, job: Arc<dyn Job>) {
        let mut state = self.state.lock();
        if state.closed {
            // The owner drains what is left itself; a thread that held the job now would keep the namespace locked.
            return;
        }
        if state.running {
            state.next = Some(job);
            return;
        }
        state.running = true;
        drop(state);
        pool().submit(job, Arc::clone(self));
    }

    /// Waits until no thread holds the job, and keeps every thread away from then on.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        while state.running {
            self.changed.wait(&mut state);
        }
        state.closed = true;
    }

    fn serve(&self, mut job: Arc<dyn Job>) -> Weak<dyn Job> {
        loop {
            job.drain();
            let weak = Arc::downgrade(&job);
            drop(job);
            let mut state = self.state.lock();
            match state.next.take() {
                Some(next) => job = next,
                None => {
                    state.running = false;
                    self.changed.notify_all();
                    return weak;
                }
            }
        }
    }

    fn rest(self: &Arc<Self>, job: &Weak<dyn Job>) {
        {
            let mut state = self.state.lock();
            if state.running || state.closed {
                return;
            }
            state.running = true;
        }
        if let Some(job) = job.upgrade() {
            job.idle();
        }
        let mut state = self.state.lock();
        state.running = false;
        let next = state.next.take();
        self.changed.notify_all();
        drop(state);
        if let Some(next) = next {
            self.kick(next);
        }
    }
}

struct Pool {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(Arc<dyn Job>, Arc<Signal>)>,
    recent: VecDeque<(Weak<dyn Job>, Arc<Signal>)>,
    threads: usize,
    waiting: usize,
}

fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| Pool { queue: Mutex::default(), arrived: Condvar::new() })
}

impl Pool {
    fn submit(&'static self, job: Arc<dyn Job>, signal: Arc<Signal>) {
        let mut queue = self.queue.lock();
        queue.jobs.push_back((job, signal));
        if queue.waiting >= queue.jobs.len() || queue.threads >= MAX_THREADS {
            self.arrived.notify_one();
            return;
        }
        queue.threads += 1;
        let started = std::thread::Builder::new().name("mnemolith-writer".into()).spawn(|| self.work());
        if started.is_err() {
            queue.threads -= 1;
            self.serve_here(queue);
        }
    }

    /// No thread could be started: the caller does the work itself, so nothing waits forever.
    fn serve_here(&self, mut queue: parking_lot::MutexGuard<'_, Queue>) {
        if queue.threads > 0 {
            return;
        }
        let job = queue.jobs.pop_back();
        drop(queue);
        if let Some((job, signal)) = job {
            signal.serve(job);
        }
    }

    fn work(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some((job, signal)) = queue.jobs.pop_front() {
                drop(queue);
                let weak = signal.serve(job);
                queue = self.queue.lock();
                let surplus = self.remember(&mut queue, weak, signal);
                if let Some((job, signal)) = surplus {
                    parking_lot::MutexGuard::unlocked(&mut queue, || signal.rest(&job));
                }
                continue;
            }
            queue.waiting += 1;
            let timed_out = self.arrived.wait_for(&mut queue, IDLE_AFTER).timed_out();
            queue.waiting -= 1;
            if timed_out && queue.jobs.is_empty() {
                let recent = std::mem::take(&mut queue.recent);
                if recent.is_empty() {
                    queue.threads -= 1;
                    return;
                }
                parking_lot::MutexGuard::unlocked(&mut queue, || recent.iter().for_each(|(job, signal)| signal.rest(job)));
            }
        }
    }

    /// Notes who was served; hands back the one that was served longest ago where there are too many.
    fn remember(&self, queue: &mut Queue, job: Weak<dyn Job>, signal: Arc<Signal>) -> Option<(Weak<dyn Job>, Arc<Signal>)> {
        queue.recent.retain(|(_, known)| !Arc::ptr_eq(known, &signal));
        queue.recent.push_back((job, signal));
        if queue.recent.len() > MAX_RECENT { queue.recent.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Counter {
        drained: AtomicUsize,
        rested: AtomicUsize,
        inside: AtomicUsize,
    }

    impl Job for Counter {
        fn drain(&self) {
            assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "one thread at a time");
            std::thread::yield_now();
            self.inside.fetch_sub(1, Ordering::SeqCst);
            self.drained.fetch_add(1, Ordering::SeqCst);
        }
        fn idle(&self) {
            self.rested.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_closed_signal_leaves_the_job_to_its_owner_alone() {
        for _ in 0..200 {
            let jobs: Vec<_> = (0..8).map(|_| (Arc::new(Counter::default()), Arc::new(Signal::default()))).collect();
            for (job, signal) in jobs.iter().chain(&jobs).chain(&jobs) {
                signal.kick(Arc::clone(job) as Arc<dyn Job>);
            }
            for (job, signal) in &jobs {
                signal.close();
                assert!(job.drained.load(Ordering::SeqCst) >= 1);
                assert_eq!(Arc::strong_count(job), 1);
            }
        }
    }

    #[test]
    fn an_idle_namespace_is_told_to_rest() {
        let (job, signal) = (Arc::new(Counter::default()), Arc::new(Signal::default()));
        signal.kick(Arc::clone(&job) as Arc<dyn Job>);
        for _ in 0..200 {
            if job.rested.load(Ordering::SeqCst) > 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("never told to rest");
    }
}

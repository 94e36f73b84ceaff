//! A small persistent thread pool for parallel regions of microseconds.
//!
//! One decoded token runs a few hundred regions; a region may last five microseconds. So workers spin between regions
//! for a moment before they sleep, tasks are taken from one atomic counter, nothing is allocated and no lock is taken.
//! A region never waits for a worker that has not joined it: on a machine with other work, the calling thread simply
//! does the tasks itself.
//!
//! Which thread runs a task never changes what the task computes, so results do not depend on the number of threads.

mod local;
mod split;

pub(crate) use local::WorkerLocal;
pub(crate) use split::{Chunks, Columns, Each, Rectangles, SplitMut, Tile};

use std::{
    any::Any,
    cell::UnsafeCell,
    hint::spin_loop,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// How long an idle worker spins before it sleeps: long enough to bridge sampling between two tokens, short enough
/// not to be seen in `top`.
const SPIN: Duration = Duration::from_micros(200);

/// A region that accepts joiners. The state word is `epoch << 32 | OPEN | joined workers`.
const OPEN: u64 = 1 << 31;
const STOP: u64 = 1 << 30;
const JOINED: u64 = STOP - 1;

type Task<'a> = dyn Fn(usize, usize) + Sync + 'a;

#[derive(Clone, Copy)]
struct Job {
    run: *const Task<'static>,
    tasks: usize,
}

/// Each on its own cache line: workers poll the first while others count on the second.
#[repr(align(128))]
struct Line<T>(T);

struct Shared {
    state: Line<AtomicU64>,
    next: Line<AtomicUsize>,
    sleepers: Line<AtomicUsize>,
    /// Written only by the owner of the pool while no region is open and no worker has joined one.
    job: UnsafeCell<Option<Job>>,
    /// Set once `panic` holds something: the lock is taken then alone.
    panicked: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is the only field that is not `Sync`. It is written while the state word says closed with no worker
// joined, and read only by workers that joined after the release store that opened the region. The closure behind it
// is `Sync`, and `Pool::region` does not return before every joined worker has left.
unsafe impl Sync for Shared {}
// SAFETY: as above; the raw pointer in `job` carries no thread affinity.
unsafe impl Send for Shared {}

/// The pool. Dropping it ends its threads.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl Pool {
    /// A pool in which `threads` threads work, the calling one included. Fewer are used when the system refuses more.
    pub(crate) fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared {
            state: Line(AtomicU64::new(0)),
            next: Line(AtomicUsize::new(0)),
            sleepers: Line(AtomicUsize::new(0)),
            job: UnsafeCell::new(None),
            panicked: AtomicBool::new(false),
            panic: Mutex::new(None),
        });
        let workers = (1..threads.max(1))
            .map_while(|index| {
                let shared = shared.clone();
                let name = format!("lily-cpu-{index}");
                let spawned = std::thread::Builder::new().name(name).spawn(move || shared.work(index));
                spawned
                    .inspect_err(|error| tracing::warn!(%error, "a worker thread could not be started"))
                    .ok()
            })
            .collect();
        Self { shared, workers }
    }

    /// Threads that work in a region, the calling one included.
    pub(crate) fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `task(worker, index)` once for each index below `tasks`, in any order on any worker, and waits.
    fn region(&mut self, tasks: usize, task: &Task<'_>) {
        if self.workers.is_empty() || tasks <= 1 {
            for index in 0..tasks {
                task(0, index);
            }
            return;
        }
        let shared = &*self.shared;
        // SAFETY: only the lifetime is erased; no worker holds the pointer after this function has returned, since it
        // waits below (also when a task panics) until every worker that joined has left.
        let run: *const Task<'static> = unsafe { std::mem::transmute(std::ptr::from_ref(task)) };
        // SAFETY: no region is open and no worker has joined one (the last call waited for that), so none reads it.
        unsafe { *shared.job.get() = Some(Job { run, tasks }) };
        shared.next.0.store(0, Ordering::Relaxed);
        let epoch = (shared.state.0.load(Ordering::Relaxed) >> 32).wrapping_add(1) & 0xffff_ffff;
        shared.state.0.store(epoch << 32 | OPEN, Ordering::SeqCst);
        if shared.sleepers.0.load(Ordering::SeqCst) > 0 {
            for worker in &self.workers {
                worker.thread().unpark();
            }
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| shared.take_tasks(0, tasks, task)));
        if outcome.is_err() {
            shared.next.0.store(tasks, Ordering::Relaxed);
        }
        shared.state.0.fetch_and(!OPEN, Ordering::AcqRel);
        let mut spins = 0u32;
        while shared.state.0.load(Ordering::Acquire) & JOINED != 0 {
            spins = spins.saturating_add(1);
            // A worker that lost its core needs ours.
            if spins > 10_000 { std::thread::yield_now() } else { spin_loop() }
        }
        let theirs = shared.take_panic();
        if let Some(panic) = outcome.err().or(theirs) {
            resume_unwind(panic);
        }
    }

    /// Runs `task(index, part, scratch)` once for each part of `parts`, in any order on any worker, and waits.
    /// Every task owns its part alone, and the scratch of the worker that runs it while it runs.
    ///
    /// # Panics
    /// If a task panics, or if `scratch` was made for fewer workers.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the parts are given away: nobody may split them again"
    )]
    pub(crate) fn for_each<P: SplitMut, S: Send>(
        &mut self,
        parts: P,
        scratch: &mut WorkerLocal<S>,
        task: impl Fn(usize, P::Part, &mut S) + Sync,
    ) {
        assert!(
            scratch.len() >= self.threads(),
            "scratch for {} of {} workers",
            scratch.len(),
            self.threads()
        );
        let scratch = scratch.shared();
        self.region(parts.parts(), &|worker, index| {
            // SAFETY: `region` hands out each index once, so no other task has this part; and one worker runs one
            // task at a time, so no other task has this worker's scratch.
            let (part, scratch) = unsafe { (parts.part(index), scratch.get(worker)) };
            task(index, part, scratch);
        });
    }

    /// As [`Pool::for_each`], for tasks that need no scratch.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the parts are given away: nobody may split them again"
    )]
    pub(crate) fn for_each_part<P: SplitMut>(&mut self, parts: P, task: impl Fn(usize, P::Part) + Sync) {
        self.region(parts.parts(), &|_, index| {
            // SAFETY: `region` hands out each index once, so no other task has this part.
            task(index, unsafe { parts.part(index) });
        });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.state.0.fetch_or(STOP, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker cannot panic: its tasks are caught.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// What a worker's task panicked with in the region that has just ended. Takes no lock where none did.
    fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        // A worker sets the flag before it leaves, and the region waited for that.
        if !self.panicked.load(Ordering::Relaxed) {
            return None;
        }
        self.panicked.store(false, Ordering::Relaxed);
        self.panic.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }

    fn take_tasks(&self, worker: usize, tasks: usize, task: &Task<'_>) {
        loop {
            let index = self.next.0.fetch_add(1, Ordering::Relaxed);
            if index >= tasks {
                return;
            }
            task(worker, index);
        }
    }

    /// The life of a worker.
    fn work(&self, worker: usize) {
        let mut seen = 0;
        loop {
            let state = self.wait(seen);
            if state & STOP != 0 {
                return;
            }
            if self.state.0.compare_exchange(state, state + 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                continue;
            }
            seen = state >> 32;
            // SAFETY: this worker has joined an open region: the job was written before the region opened and is not
            // written again, nor its closure dropped, before this worker leaves.
            let job = unsafe { *self.job.get() };
            if let Some(Job { run, tasks }) = job {
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    // SAFETY: see above: the closure outlives this worker's stay in the region.
                    self.take_tasks(worker, tasks, unsafe { &*run });
                }));
                if let Err(panic) = outcome {
                    self.next.0.store(tasks, Ordering::Relaxed);
                    *self.panic.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(panic);
                    self.panicked.store(true, Ordering::Relaxed);
                }
            }
            self.state.0.fetch_sub(1, Ordering::Release);
        }
    }

    /// Spins, then sleeps, until a region other than `seen` is open or the pool ends; returns the state word.
    fn wait(&self, seen: u64) -> u64 {
        let news = |state: u64| state & STOP != 0 || (state & OPEN != 0 && state >> 32 != seen);
        let start = Instant::now();
        loop {
            for _ in 0..128 {
                let state = self.state.0.load(Ordering::Acquire);
                if news(state) {
                    return state;
                }
                spin_loop();
            }
            if start.elapsed() > SPIN {
                break;
            }
        }
        self.sleepers.0.fetch_add(1, Ordering::SeqCst);
        let state = loop {
            let state = self.state.0.load(Ordering::SeqCst);
            if news(state) {
                break state;
            }
            std::thread::park();
        };
        self.sleepers.0.fetch_sub(1, Ordering::SeqCst);
        state
    }
}

/// Threads to use when the user names no number: the cores that this process may run on.
pub(crate) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_visited_once_whatever_the_threads() {
        for threads in [1, 2, 3, 8] {
            let mut pool = Pool::new(threads);
            let mut scratch = WorkerLocal::new(pool.threads(), || 0usize);
            let mut out = vec![0u32; 1000];
            for round in 0..200 {
                pool.for_each(Chunks::new(&mut out, 7), &mut scratch, |index, part, count| {
                    *count += 1;
                    for (offset, value) in part.iter_mut().enumerate() {
                        assert_eq!(*value, round * (index * 7 + offset) as u32);
                        *value += (index * 7 + offset) as u32;
                    }
                });
            }
            assert_eq!(scratch.iter_mut().map(|count| *count).sum::<usize>(), 200 * 1000usize.div_ceil(7));
        }
    }

    #[test]
    fn sleeping_workers_wake_and_idle_ones_do_not_hold_a_region_up() {
        let mut pool = Pool::new(4);
        let count = AtomicUsize::new(0);
        for _ in 0..5 {
            std::thread::sleep(SPIN * 5);
            pool.region(100, &|_, _| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        }
        assert_eq!(count.load(Ordering::Relaxed), 500);
    }

    #[test]
    fn a_panic_in_a_task_reaches_the_caller_and_leaves_the_pool_usable() {
        let mut pool = Pool::new(3);
        for bad in [0, 50, 99] {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                pool.region(100, &|_, index| assert_ne!(index, bad, "boom"));
            }));
            assert!(caught.is_err());
            let count = AtomicUsize::new(0);
            pool.region(10, &|_, _| {
                count.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(count.load(Ordering::Relaxed), 10);
        }
    }
}

//! A queue that behaves as Metal's is described, and no better: it holds nothing of what command buffers use, starts them in
//! their order and ends them when it likes, reports them in any order, before or after the event, and stops the test where
//! Metal would stop the program or the GPU would wait for ever.

use super::{Blit, Calls, Ended, Fenced, Signal};
use crate::{Buffer, GpuError, Kernel, device::metal::encode::Encoder};
use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, Weak},
    time::Duration,
};

/// A buffer's bytes. What stands for a kernel adds one to a byte.
pub(super) type Cells = Arc<Mutex<Vec<u8>>>;

/// A buffer of the simulation.
pub(super) fn buffer(bytes: Vec<u8>) -> (Buffer, Weak<Mutex<Vec<u8>>>) {
    let cells: Cells = Arc::new(Mutex::new(bytes));
    let seen = Arc::downgrade(&cells);
    let length = cells.lock().expect("nobody panicked").len();
    (Buffer::new(length, "cells", cells), seen)
}

/// The bytes of a buffer at the moment.
pub(super) fn bytes(buffer: &Buffer) -> Vec<u8> {
    buffer.raw::<Cells>().expect("a buffer of the simulation").lock().expect("nobody panicked").clone()
}

fn cells(buffer: &Buffer) -> Weak<Mutex<Vec<u8>>> {
    Arc::downgrade(buffer.raw::<Cells>().expect("a buffer of the simulation"))
}

/// What is to go wrong with a command buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// It fails, and its event never comes.
    Silent,
    /// It fails, and counts the event all the same.
    Counted,
}

/// A place in memory that nobody holds.
type Place = (Weak<Mutex<Vec<u8>>>, usize);

enum Command {
    Copy { from: Place, to: Place, bytes: usize },
    Zero(Place, usize),
    Dispatch { from: Place, to: Place },
}

impl Command {
    fn execute(&self) {
        let at = |place: &Place| place.0.upgrade().expect("a buffer went before the GPU had used it");
        match self {
            Self::Copy { from, to, bytes } => {
                let read = at(from).lock().expect("nobody panicked")[from.1..from.1 + bytes].to_vec();
                at(to).lock().expect("nobody panicked")[to.1..to.1 + bytes].copy_from_slice(&read);
            }
            Self::Zero(to, bytes) => {
                at(to).lock().expect("nobody panicked")[to.1..to.1 + bytes].fill(0);
            }
            Self::Dispatch { from, to } => {
                let read = at(from).lock().expect("nobody panicked")[from.1];
                at(to).lock().expect("nobody panicked")[to.1] = read + 1;
            }
        }
    }
}

type Handler = Box<dyn Fn(&Ended) + Send>;

/// A command buffer.
#[derive(Default)]
pub(super) struct Draft {
    open: bool,
    encoders: u32,
    waits: bool,
    updates: bool,
    commands: Vec<Command>,
    signal: Option<u64>,
    handler: Option<Handler>,
    committed: bool,
    executed: bool,
    signalled: bool,
    reported: bool,
}

/// Everything that is going on.
#[derive(Default)]
pub(super) struct Gpu {
    /// The calls, in order.
    pub(super) log: Vec<String>,
    /// The most that were committed and not reported at once.
    pub(super) most: usize,
    pub(super) failures: HashMap<u64, Failure>,
    /// Kernels are not to be had.
    pub(super) refuses: bool,
    /// A call that does nothing: a fault that the simulation must object to.
    pub(super) leaves_out: Option<&'static str>,
    committed: Vec<Arc<Mutex<Draft>>>,
    event: u64,
    /// Of the order in which things happen.
    seed: u64,
}

/// What can happen next.
#[derive(Clone, Copy)]
enum Step {
    Execute(usize),
    Signal(usize),
    Report(usize),
}

thread_local! {
    /// Autorelease pools that are open.
    static POOLS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// The queue, its fence and its event.
#[derive(Clone)]
pub(super) struct Simulated {
    gpu: Arc<Mutex<Gpu>>,
    /// Slots of what the kernels read and write.
    slots: (u32, u32),
}

impl Simulated {
    /// One in which things happen in an order of their own.
    pub(super) fn new(seed: u64, slots: (u32, u32), failures: &[(u64, Failure)]) -> Self {
        let failures = failures.iter().copied().collect();
        let gpu = Gpu { seed: seed * 2 + 1, failures, ..Gpu::default() };
        Self { gpu: Arc::new(Mutex::new(gpu)), slots }
    }

    pub(super) fn gpu(&self) -> MutexGuard<'_, Gpu> {
        self.gpu.lock().expect("nobody panicked")
    }

    /// Writes a call down; false if it is to do nothing.
    fn say(&self, what: impl Into<String>) -> bool {
        let (mut gpu, what) = (self.gpu(), what.into());
        let does = gpu.leaves_out.is_none_or(|call| !what.starts_with(call));
        gpu.log.push(what);
        does
    }

    /// Command buffers of which some part is outstanding, and those that are not reported.
    pub(super) fn outstanding(&self) -> usize {
        let gpu = self.gpu();
        gpu.committed.iter().filter(|draft| !draft.lock().expect("nobody panicked").reported).count()
    }

    /// One thing happens, whichever; false if nothing is left.
    pub(super) fn step(&self) -> bool {
        let step = {
            let mut gpu = self.gpu();
            let steps = gpu.steps();
            if steps.is_empty() {
                return false;
            }
            let at = gpu.random(steps.len());
            steps[at]
        };
        match step {
            Step::Execute(at) => {
                let (draft, value) = self.draft(at);
                let failed = self.gpu().failures.contains_key(&value);
                let mut draft = draft.lock().expect("nobody panicked");
                if !failed {
                    draft.commands.iter().for_each(Command::execute);
                }
                draft.executed = true;
            }
            Step::Signal(at) => {
                let (draft, value) = self.draft(at);
                draft.lock().expect("nobody panicked").signalled = true;
                let mut gpu = self.gpu();
                // Somebody may have raised it by hand.
                gpu.event = gpu.event.max(value);
            }
            Step::Report(at) => {
                let (draft, value) = self.draft(at);
                let failed = self.gpu().failures.contains_key(&value);
                let handler = draft.lock().expect("nobody panicked").handler.take();
                let status = if failed { 5 } else { 4 };
                let error = failed.then(|| (2, "Caused GPU Timeout Error".to_owned()));
                handler.expect("a handler")(&Ended { status, error, seconds: (1.0, 1.5) });
                draft.lock().expect("nobody panicked").reported = true;
            }
        }
        true
    }

    fn draft(&self, at: usize) -> (Arc<Mutex<Draft>>, u64) {
        (self.gpu().committed[at].clone(), at as u64 + 1)
    }

    /// Some things happen.
    fn steps(&self) {
        let times = self.gpu().random(6);
        for _ in 0..times {
            self.step();
        }
    }
}

impl Gpu {
    fn random(&mut self, below: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed % below as u64) as usize
    }

    /// Executions and signals keep the queue's order, because each encoder waits for the one ahead; handlers do not.
    fn steps(&self) -> Vec<Step> {
        let (mut steps, mut executes, mut signals) = (Vec::new(), true, true);
        for (at, draft) in self.committed.iter().enumerate() {
            let draft = draft.lock().expect("nobody panicked");
            if !draft.executed && executes {
                steps.push(Step::Execute(at));
            }
            let silent = self.failures.get(&(at as u64 + 1)) == Some(&Failure::Silent);
            if draft.executed && !draft.signalled && signals && !silent {
                steps.push(Step::Signal(at));
            }
            if draft.executed && !draft.reported {
                steps.push(Step::Report(at));
            }
            executes &= draft.executed;
            signals &= draft.signalled || silent;
        }
        steps
    }
}

impl Signal for Simulated {
    fn value(&self) -> u64 {
        self.gpu().event
    }

    fn set(&self, value: u64) {
        if !self.say(format!("set {value}")) {
            return;
        }
        let mut gpu = self.gpu();
        assert!(value > gpu.event, "an event must grow");
        gpu.event = value;
    }

    fn sleep(&self, value: u64, _: Duration) {
        assert!(self.value() >= value || self.step(), "the thread sleeps for ever");
    }

    fn pause(&self) {
        assert!(self.step(), "the thread waits for a handler that nobody calls");
    }
}

impl Calls for Simulated {
    type Buffer = Arc<Mutex<Draft>>;
    type Event = Self;
    type Compute = Open;
    type Blit = Open;

    fn pool<T>(work: impl FnOnce() -> T) -> T {
        struct Pool;
        impl Drop for Pool {
            fn drop(&mut self) {
                POOLS.set(POOLS.get() - 1);
            }
        }
        POOLS.set(POOLS.get() + 1);
        let _pool = Pool;
        work()
    }

    fn begin(&self) -> Result<Self::Buffer, GpuError> {
        assert_eq!(POOLS.get(), 1, "a command buffer is autoreleased");
        self.steps();
        self.say("begin");
        Ok(Arc::default())
    }

    fn compute(&self, buffer: &Self::Buffer, dispatch_type: usize) -> Result<Open, GpuError> {
        self.say(format!("compute {dispatch_type}"));
        Ok(self.open(buffer))
    }

    fn blit(&self, buffer: &Self::Buffer) -> Result<Open, GpuError> {
        self.say("blit");
        Ok(self.open(buffer))
    }

    fn signal(&self, buffer: &Self::Buffer, value: u64) {
        if !self.say(format!("signal {value}")) {
            return;
        }
        let mut draft = buffer.lock().expect("nobody panicked");
        assert!(!draft.open, "no encoder may be open");
        assert_eq!(draft.signal.replace(value), None);
    }

    fn on_completed(&self, buffer: &Self::Buffer, handler: impl Fn(&Ended) + Send + 'static) {
        if !self.say("handler") {
            return;
        }
        let mut draft = buffer.lock().expect("nobody panicked");
        assert!(!draft.committed, "a handler comes before the commit");
        assert!(draft.handler.replace(Box::new(handler)).is_none());
    }

    fn commit(&self, buffer: Self::Buffer) {
        if !self.say("commit") {
            return;
        }
        let mut draft = buffer.lock().expect("nobody panicked");
        assert!(!std::mem::replace(&mut draft.committed, true), "a command buffer is committed once");
        assert!(!draft.open, "an encoder is open");
        assert!(draft.handler.is_some(), "nobody would hear of it");
        drop(draft);
        let mut gpu = self.gpu();
        gpu.committed.push(buffer.clone());
        let (place, draft) = (gpu.committed.len() as u64, buffer.lock().expect("nobody panicked"));
        assert_eq!(draft.signal, Some(place), "the event counts command buffers");
        assert_eq!((draft.waits, draft.updates), (place > 1, true), "the fence orders command buffers");
        drop(draft);
        let reported = |draft: &Arc<Mutex<Draft>>| draft.lock().expect("nobody panicked").reported;
        let under_way = gpu.committed.iter().filter(|draft| !reported(draft)).count();
        gpu.most = gpu.most.max(under_way);
        drop(gpu);
        self.steps();
    }

    fn event(&self) -> &Self {
        self
    }

    fn working(&self) {
        self.say("working");
    }
}

impl Simulated {
    fn open(&self, buffer: &Arc<Mutex<Draft>>) -> Open {
        assert_eq!(POOLS.get(), 1, "an encoder is autoreleased");
        let mut draft = buffer.lock().expect("nobody panicked");
        assert!(!std::mem::replace(&mut draft.open, true), "one encoder at a time");
        draft.encoders += 1;
        assert_eq!(draft.encoders, 1, "one encoder per command buffer");
        Open { queue: self.clone(), draft: buffer.clone(), slots: HashMap::new(), ended: false }
    }
}

/// An encoder.
pub(super) struct Open {
    queue: Simulated,
    draft: Arc<Mutex<Draft>>,
    slots: HashMap<u32, Place>,
    ended: bool,
}

impl Open {
    fn draft(&self) -> MutexGuard<'_, Draft> {
        self.draft.lock().expect("nobody panicked")
    }

    fn command(&mut self, command: Command) {
        let mut draft = self.draft();
        assert!(!draft.updates, "a command after the fence");
        draft.commands.push(command);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        assert!(self.ended || std::thread::panicking(), "an encoder must be ended before it goes");
    }
}

impl Fenced for Open {
    fn wait(&mut self) {
        if !self.queue.say("wait") {
            return;
        }
        let mut draft = self.draft();
        assert!(draft.commands.is_empty(), "a command before the fence");
        draft.waits = true;
    }

    fn update(&mut self) {
        if self.queue.say("update") {
            self.draft().updates = true;
        }
    }

    fn end(mut self) {
        if self.queue.say("end") {
            self.ended = true;
            self.draft().open = false;
        }
    }
}

impl Blit for Open {
    fn copy(&mut self, from: (&Buffer, usize), to: (&Buffer, usize), bytes: usize) -> Result<(), GpuError> {
        self.queue.say(format!("copy {bytes}"));
        self.command(Command::Copy { from: (cells(from.0), from.1), to: (cells(to.0), to.1), bytes });
        Ok(())
    }

    fn zero(&mut self, buffer: &Buffer, range: Range<usize>) -> Result<(), GpuError> {
        self.queue.say(format!("zero {}", range.len()));
        self.command(Command::Zero((cells(buffer), range.start), range.len()));
        Ok(())
    }
}

impl Encoder for Open {
    fn kernel(&mut self, kernel: &Kernel) -> Result<(), GpuError> {
        self.queue.say(format!("kernel {}", kernel.entry()));
        if self.queue.gpu().refuses {
            return Err(GpuError::TooLarge("refused".to_owned()));
        }
        Ok(())
    }

    fn buffer(&mut self, slot: u32, buffer: &Buffer, offset: usize) -> Result<(), GpuError> {
        self.slots.insert(slot, (cells(buffer), offset));
        Ok(())
    }

    fn offset(&mut self, slot: u32, offset: usize) {
        self.slots.get_mut(&slot).expect("Metal wants a buffer in the slot first").1 = offset;
    }

    fn bytes(&mut self, _: u32, _: &[u8]) {}

    fn barrier(&mut self) {
        self.queue.say("barrier");
    }

    fn dispatch(&mut self, groups: [u32; 3], threads: u32) {
        assert!(groups.iter().all(|&n| n > 0) && threads > 0);
        self.queue.say("dispatch");
        let (from, to) = self.queue.slots;
        let (from, to) = (self.slots[&from].clone(), self.slots[&to].clone());
        self.command(Command::Dispatch { from, to });
    }
}

//! Source: objects that worker processes of the caller create from a series of ids.
//!
//! ```text
//! listing ──names wanted──▶ Caller ──names──▶ listing ──▶ lane ──task──▶ Caller ──▶ a process makes and writes it
//!                                                           ▲                             │
//!                                                           └──── answer: size, or why ◀──┘
//! ```
//!
//! The lanes only keep the counts: they pass tasks to the caller, and report to the sink what the processes have
//! written, as [`Payload::Elsewhere`]. Not here: the ids themselves, the processes, their writing.
//!
//! Only the caller's thread can create names, so the listing requests them from it, one page at a time.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::locators::Located;
use super::{BoxFuture, Entries, Fetcher, Job, Lane, Listing, LocalFuture, Source, SourceProperties, Take, locators};
use crate::error::{Error, Kind, Result};
use crate::object::{ObjectMeta, Payload, Put};
use crate::partition::{Cursor, Partition};
use crate::poison::ignore_poison;
use crate::session::Twice;

/// Ids on a page: how many names the listing requests at a time.
pub const PAGE_IDS: u64 = 1000;
/// Ids in a partition: what is handed out, committed and skipped on resume at a time.
const PARTITION_IDS: usize = 100;
/// The index in front of the name in a locator.
const INDEX: usize = 8;
/// Ids are handed out for so long ahead. What is handed out keeps its partition open, and a kill costs that.
const AHEAD: Duration = Duration::from_millis(500);
/// Of what a lane may have in flight, this part is always handed out: one id for each process, and one that waits for it.
const AHEAD_LEAST: usize = 128;
/// So many answers tell how fast a function is. Of fewer, several may have come together by chance.
const TELLING: usize = 64;
/// Jobs of one lane are told apart by the low bits of a token, lanes by the high ones.
const LANE_SHIFT: u32 = 48;

/// Returns a source of `count` ids, and the caller's end of it. `identity` identifies the series when a run resumes.
/// `wake` is called, on any thread, when the caller should look for work.
pub fn ids(identity: String, count: u64, wake: impl Fn() + Send + Sync + 'static) -> (Ids, Caller) {
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        named: Notify::new(),
        lanes: Mutex::default(),
        wake: Box::new(wake),
    });
    (Ids { identity, count, shared: shared.clone() }, Caller(shared))
}

/// One object to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Identifies the task in its answer.
    pub token: u64,
    /// The index of the id in the series.
    pub index: u64,
    /// The name of the object.
    pub name: Box<[u8]>,
    /// A part of the object may be at the destination already.
    pub again: bool,
}

/// The outcome of a task.
#[derive(Debug)]
pub enum Answer {
    /// The object was written with this many bytes, or another object has its name.
    Done {
        /// Its bytes.
        size: u64,
        /// The answer of the sink.
        put: Put,
    },
    /// The object failed.
    Failed(Error),
}

#[derive(Default)]
struct State {
    /// The listing waits for the names of these.
    wanted: Option<Range<u64>>,
    names: Option<Vec<Box<[u8]>>>,
    /// In the order of the series, whichever lane they came from.
    tasks: BTreeMap<(u64, u64), Task>,
    /// The caller has taken all there was, and waits.
    caller_waits: bool,
    /// For each lane.
    answers: Vec<Vec<(u64, Answer)>>,
}

struct Shared {
    state: Mutex<State>,
    named: Notify,
    lanes: Mutex<Vec<Arc<Notify>>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        ignore_poison(self.state.lock())
    }

    /// The bell of a lane.
    fn lane(&self, lane: usize) -> Arc<Notify> {
        let mut lanes = ignore_poison(self.lanes.lock());
        while lanes.len() <= lane {
            lanes.push(Arc::default());
        }
        lanes[lane].clone()
    }

    fn push(&self, task: Task) {
        let mut state = self.state();
        state.tasks.insert((task.index, task.token), task);
        let waits = std::mem::take(&mut state.caller_waits);
        drop(state);
        if waits {
            (self.wake)();
        }
    }
}

/// The caller's end: one thread takes tasks here and answers them. No call waits.
pub struct Caller(Arc<Shared>);

impl Caller {
    /// Returns the ids whose names the listing waits for.
    pub fn names_wanted(&self) -> Option<Range<u64>> {
        self.0.state().wanted.clone()
    }

    /// Passes the requested names, of the ids from `start` on.
    ///
    /// # Errors
    /// [`Kind::Internal`] if other names were requested.
    pub fn offer(&self, start: u64, names: Vec<Box<[u8]>>) -> Result<()> {
        let mut state = self.0.state();
        if state.wanted != Some(start..start + names.len() as u64) {
            return Err(Error::new(Kind::Internal, "names were offered without a request"));
        }
        (state.wanted, state.names) = (None, Some(names));
        drop(state);
        self.0.named.notify_one();
        Ok(())
    }

    /// Returns the next tasks, at most `most`, in the order of the series. If there were fewer, the caller is woken for
    /// later ones.
    pub fn take(&self, most: usize) -> Vec<Task> {
        let mut state = self.0.state();
        let mut taken = Vec::new();
        while taken.len() < most
            && let Some((_, task)) = state.tasks.pop_first()
        {
            taken.push(task);
        }
        state.caller_waits = taken.len() < most;
        taken
    }

    /// Returns how many tasks are waiting to be taken.
    pub fn waiting(&self) -> usize {
        self.0.state().tasks.len()
    }

    /// Answers tasks, each once. An answer to an unknown task is ignored.
    pub fn answer(&self, answers: impl IntoIterator<Item = (u64, Answer)>) {
        let mut rung = Vec::new();
        let mut state = self.0.state();
        for (token, answer) in answers {
            let lane = (token >> LANE_SHIFT) as usize;
            if let Some(waiting) = state.answers.get_mut(lane) {
                waiting.push((token, answer));
                if !rung.contains(&lane) {
                    rung.push(lane);
                }
            }
        }
        drop(state);
        for lane in rung {
            self.0.lane(lane).notify_one();
        }
    }
}

/// Ids as a source.
pub struct Ids {
    identity: String,
    count: u64,
    shared: Arc<Shared>,
}

impl Source for Ids {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn properties(&self) -> SourceProperties {
        // One lane: it only keeps account.
        SourceProperties { twice: Twice::Reissued, lanes_max: Some(1), updates: false, ..SourceProperties::default() }
    }

    fn list(&self, after: Option<Cursor>) -> Result<Box<dyn Listing>> {
        let at = match &after {
            None => 0,
            Some(cursor) => <[u8; 8]>::try_from(&*cursor.0)
                .map(u64::from_le_bytes)
                .ok()
                .filter(|at| at % PAGE_IDS == 0 && *at <= self.count)
                .ok_or_else(|| {
                    Error::new(Kind::CursorRefused, "the journal's cursor for the ids is damaged")
                        .hint("start over with `resume=\"restart\"`")
                })?,
        };
        Ok(Box::new(Pages { shared: self.shared.clone(), count: self.count, at, page: Vec::new().into_iter() }))
    }

    fn select(&self, locators: &[Box<[u8]>]) -> Result<Partition> {
        Ok(locators::partition(b"", locators))
    }

    fn fetcher(&self, lane: usize) -> Result<Box<dyn Fetcher>> {
        let bell = self.shared.lane(lane);
        let mut state = self.shared.state();
        if state.answers.len() <= lane {
            state.answers.resize_with(lane + 1, Vec::new);
        }
        drop(state);
        Ok(Box::new(Account { shared: self.shared.clone(), lane, bell, jobs: RefCell::default(), pace: Pace::new() }))
    }
}

/// The listing: asks for the names of a page, and cuts it.
struct Pages {
    shared: Arc<Shared>,
    count: u64,
    /// The first id of the next page.
    at: u64,
    page: std::vec::IntoIter<Partition>,
}

impl Pages {
    fn cut(&self, names: &[Box<[u8]>]) -> Vec<Partition> {
        let cursor = |at: u64| Cursor(at.to_le_bytes()[..].into());
        let behind = self.at + names.len() as u64;
        let located = |(at, name): (u64, &[u8])| [&at.to_le_bytes()[..], name].concat().into_boxed_slice();
        let names = names.iter().map(|name| &**name);
        let locators: Vec<Box<[u8]>> = (self.at..).zip(names).map(located).collect();
        let mut partitions: Vec<_> = locators.chunks(PARTITION_IDS).map(|cut| locators::partition(b"", cut)).collect();
        for (seq, cut) in (self.at / PARTITION_IDS as u64..).zip(&mut partitions) {
            (cut.seq, cut.after) = (seq, cursor(self.at));
        }
        if let Some(last) = partitions.last_mut() {
            last.next = (behind < self.count).then(|| cursor(behind));
        }
        partitions
    }
}

impl Listing for Pages {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Partition>>> {
        Box::pin(async {
            if let Some(partition) = self.page.next() {
                return Ok(Some(partition));
            }
            if self.at >= self.count {
                return Ok(None);
            }
            self.shared.state().wanted = Some(self.at..self.count.min(self.at + PAGE_IDS));
            (self.shared.wake)();
            let names = loop {
                let named = self.shared.named.notified();
                if let Some(names) = self.shared.state().names.take() {
                    break names;
                }
                named.await;
            };
            self.page = self.cut(&names).into_iter();
            self.at += names.len() as u64;
            Ok(self.page.next())
        })
    }
}

/// One lane's account of what is made elsewhere.
struct Account {
    shared: Arc<Shared>,
    lane: usize,
    bell: Arc<Notify>,
    jobs: RefCell<Jobs>,
    pace: Pace,
}

/// How many ids are handed out: as many as were answered lately in the time that is handed out ahead. A slow function gets a
/// few, so that its partition can be committed without the others.
struct Pace {
    most: Cell<usize>,
    since: Cell<Instant>,
    answered: Cell<usize>,
}

impl Pace {
    fn new() -> Pace {
        Pace { most: Cell::new(0), since: Cell::new(Instant::now()), answered: Cell::new(0) }
    }

    /// So many more were answered.
    fn answered(&self, more: usize) {
        let (answered, took) = (self.answered.get() + more, self.since.get().elapsed());
        self.answered.set(answered);
        if took >= AHEAD / 2 || answered > self.most.get().max(TELLING) {
            self.most.set((answered as f64 / took.as_secs_f64().max(1e-6) * AHEAD.as_secs_f64()) as usize);
            self.since.set(Instant::now());
            self.answered.set(0);
        }
    }
}

#[derive(Default)]
struct Jobs {
    next: u64,
    out: HashMap<u64, Job>,
}

impl Account {
    fn hand_out(&self, job: Job) {
        let locator = job.entry().locator;
        let Some((index, name)) = locator.split_first_chunk::<INDEX>() else {
            return; // every locator is made in this file
        };
        let mut jobs = self.jobs.borrow_mut();
        let token = (self.lane as u64) << LANE_SHIFT | jobs.next;
        jobs.next += 1;
        let task = Task { token, index: u64::from_le_bytes(*index), name: name.into(), again: job.is_again() };
        jobs.out.insert(token, job);
        drop(jobs);
        self.shared.push(task);
    }

    /// Whether another id is handed out now.
    fn has_room(&self, lane: &dyn Lane) -> bool {
        let least = (lane.limits().in_flight / AHEAD_LEAST).max(1);
        self.jobs.borrow().out.len() < self.pace.most.get().max(least)
    }

    fn settle(&self, lane: &dyn Lane) {
        let answers = match self.shared.state().answers.get_mut(self.lane) {
            Some(answers) => std::mem::take(answers),
            None => return,
        };
        self.pace.answered(answers.len());
        for (token, answer) in answers {
            let Some(job) = self.jobs.borrow_mut().out.remove(&token) else { continue };
            match answer {
                Answer::Done { size, put } => {
                    let meta = ObjectMeta { size: Some(size), ..ObjectMeta::default() };
                    lane.whole(job, &meta, Payload::Elsewhere { size, put });
                }
                Answer::Failed(error) => {
                    let error = error.on(&job.name.to_string());
                    lane.failed(job, error);
                }
            }
        }
    }
}

impl Fetcher for Account {
    fn open<'a>(&'a self, partition: &'a Partition) -> LocalFuture<'a, Result<Rc<dyn Entries>>> {
        let entries = Located { locators: locators::parse(&partition.payload), name: INDEX };
        Box::pin(async move { Ok(Rc::new(entries) as Rc<dyn Entries>) })
    }

    fn run(&self, lane: Rc<dyn Lane>) -> LocalFuture<'_, Result<()>> {
        Box::pin(async move {
            loop {
                self.settle(&*lane);
                let taken = if self.has_room(&*lane) { lane.take() } else { Take::Wait };
                match taken {
                    Take::Stop => return Ok(()),
                    Take::Job(job) => self.hand_out(job),
                    Take::Wait => {
                        tokio::select! {
                            () = lane.wake() => {}
                            () = self.bell.notified() => {}
                        }
                    }
                }
            }
        })
    }
}

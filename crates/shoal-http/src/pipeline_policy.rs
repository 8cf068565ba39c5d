//! Whether requests to one host are pipelined, and how many: what all connections to it have learnt. Not here: the loop
//! of one connection (`pipelined_connection.rs`).
//!
//! A connection pipelines once an answer on it has echoed the id of its request and a probe has shown that pipelining
//! helps (`probe.rs`). If the user asks for it, it also pipelines without ids, once the same objects have been fetched
//! both ways and were equal (`pipeline_check.rs`), and as long as samples are equal (`samples.rs`). Failures lower the
//! number of pipelined requests: several connections in a row that ended early halve it. Three that answered nothing,
//! or three answers that were not for their requests, end pipelining for this host.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::check_objects::{CheckObject, CheckObjects, Enough};
use crate::probe::{Probe, ProbeResult};
use crate::request_id::Echo;
use crate::samples::Samples;
use shoal_core::error::Result;
use shoal_core::option::{Opt, Setting, Type, Value, whole};
use shoal_core::poison::ignore_poison;

/// When to send requests before earlier ones are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pipeline {
    /// If every answer echoes an unguessable request id.
    #[default]
    Auto,
    /// Never. No ids are sent.
    Off,
    /// So many at once, even if ids are not echoed, once a check has passed.
    Depth(usize),
}

impl Setting for Pipeline {
    const TAKES: Type = Type::WordOrCount("Pipeline", &["auto", "off"]);

    fn take(given: &Value, option: &Opt, named: &str) -> Result<Pipeline> {
        match given.text() {
            Some("auto") => Ok(Pipeline::Auto),
            Some("off") => Ok(Pipeline::Off),
            _ => whole(given, option, named).map(|depth| Pipeline::Depth(depth as usize)),
        }
    }

    fn given(&self) -> Value {
        match self {
            Pipeline::Auto => Value::Text("auto".to_owned()),
            Pipeline::Off => Value::Text("off".to_owned()),
            Pipeline::Depth(depth) => Value::Whole(*depth as i128),
        }
    }
}

/// How many unanswered requests on one connection a user may ask for.
pub const DEPTHS: (f64, f64) = (2.0, DEPTH_ASKED_MAX as f64);
/// Most unanswered requests on one connection, unless the user sets the number. Measured against one service on the
/// same machine: 16 pipelined requests gave 1.2 million answers a second, 64 gave 2.0, 256 gave 2.4. Each unanswered
/// request is sent again when the connection breaks.
pub(crate) const DEPTH_MAX: usize = 64;
/// Most unanswered requests that a user may set.
pub(crate) const DEPTH_ASKED_MAX: usize = 256;
/// So many connections in a row that ended early, or answers that were not for their requests, lower the depth.
const STRIKES: u32 = 3;
/// A connection that answered so many times its depth did not end early.
const LATE: usize = 4;
/// So many probes without gain end pipelining: on a busy machine, a service may pause just between two answers.
const PROBES: u32 = 8;
/// If an answer takes longer, more connections are opened at once instead of after the first probe.
const QUICK: Duration = Duration::from_millis(5);

/// The state of the check that answers without ids come in order.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckState {
    /// Objects for it are being collected.
    Collecting = 0,
    Running = 1,
    Passed = 2,
    /// Too many of the objects are equal.
    Impossible = 3,
}

/// Failures that lower the depth.
#[derive(Debug, Default)]
struct Strikes {
    /// Connections that ended early.
    early: u32,
    /// Connections that answered nothing.
    useless: u32,
    /// Answers that were not for their requests.
    wrong: u32,
    /// Probes without gain, in all.
    probes: u32,
}

/// What is known about pipelining with one host.
#[derive(Debug)]
pub struct PipelinePolicy {
    wanted: Pipeline,
    /// The largest depth that has not failed. 1: no pipelining.
    cap: AtomicUsize,
    /// A `CheckState`.
    check: AtomicU8,
    /// Some connection has pipelined with a gain, so fewer connections are needed.
    works: AtomicBool,
    /// Enough is known to open more than a few connections.
    known: AtomicBool,
    /// Some answer has echoed its id.
    echoes: AtomicBool,
    /// Some connection is probing whether pipelining helps.
    probing: AtomicBool,
    /// Shortest time in which the first answer on a connection came, in nanoseconds.
    shortest: AtomicU64,
    strikes: Mutex<Strikes>,
    objects: Mutex<CheckObjects>,
    pub(crate) samples: Samples,
}

impl PipelinePolicy {
    /// For a service that has not been asked yet.
    pub fn new(wanted: Pipeline) -> PipelinePolicy {
        let cap = match wanted {
            Pipeline::Auto => DEPTH_MAX,
            Pipeline::Off => 1,
            Pipeline::Depth(depth) => depth.clamp(1, DEPTH_ASKED_MAX),
        };
        PipelinePolicy {
            wanted,
            cap: AtomicUsize::new(cap),
            check: AtomicU8::new(CheckState::Collecting as u8),
            works: AtomicBool::new(false),
            known: AtomicBool::new(false),
            echoes: AtomicBool::new(false),
            probing: AtomicBool::new(false),
            shortest: AtomicU64::new(u64::MAX),
            strikes: Mutex::default(),
            objects: Mutex::default(),
            samples: Samples::default(),
        }
    }

    /// Whether requests carry an id.
    pub fn sends_ids(&self) -> bool {
        self.wanted != Pipeline::Off
    }

    /// Most unanswered requests on a connection that can be pipelined, if the lane allows `limit`.
    pub fn depth(&self, limit: usize) -> usize {
        match self.wanted {
            Pipeline::Depth(_) => self.cap.load(Relaxed),
            _ => self.cap.load(Relaxed).min(limit),
        }
    }

    /// The same, but 1 until some connection has pipelined with a gain.
    pub fn proven_depth(&self, limit: usize) -> usize {
        if self.works.load(Relaxed) { self.depth(limit) } else { 1 }
    }

    /// Whether nothing is known yet, so that a few connections are enough to begin with.
    pub fn is_unknown(&self) -> bool {
        let known = match self.wanted {
            Pipeline::Depth(_) => self.works.load(Relaxed),
            _ => self.known.load(Relaxed),
        };
        !known && self.cap.load(Relaxed) > 1
    }

    /// A single request was answered after `took`, with or without its id. `close`: the connection ends after it.
    pub(crate) fn single_answered(&self, echo: Echo, close: bool, took: Option<Duration>) {
        let echoes = echo == Echo::Right;
        if let Some(took) = took.filter(|_| echoes) {
            self.shortest.fetch_min(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        }
        if echoes && !self.echoes.load(Relaxed) {
            self.echoes.store(true, Relaxed);
        }
        if echoes && close && !self.works.load(Relaxed) {
            self.connection_ended(0);
        }
        if echoes && matches!(self.wanted, Pipeline::Depth(_)) && !self.works.load(Relaxed) {
            self.works.store(true, Relaxed); // the user asked for it, so no probe is needed
        }
        let probe_tells = echoes && !close && took.is_none_or(|took| took < QUICK);
        if !probe_tells && !self.known.load(Relaxed) {
            self.known.store(true, Relaxed);
        }
    }

    /// Whether a probe must show if pipelining helps. It needs more objects in flight than there are connections.
    pub fn needs_probe(&self) -> bool {
        self.echoes.load(Relaxed) && !self.works.load(Relaxed) && self.cap.load(Relaxed) > 1
    }

    /// Whether some connection has pipelined with a gain.
    pub fn works(&self) -> bool {
        self.works.load(Relaxed)
    }

    /// A probe, unless another connection is probing.
    pub(crate) fn probe(&self) -> Option<Probe<'_>> {
        let shortest = Duration::from_nanos(self.shortest.load(Relaxed));
        (!self.probing.swap(true, Relaxed)).then(|| Probe::new(&self.probing, shortest))
    }

    /// A probe has ended with this result.
    pub(crate) fn probed(&self, found: &ProbeResult) {
        match found {
            ProbeResult::Gain => self.works.store(true, Relaxed),
            ProbeResult::NoGain => {
                let mut strikes = self.strikes();
                strikes.probes += 1;
                if strikes.probes >= PROBES {
                    self.cap.store(1, Relaxed);
                }
            }
            ProbeResult::Unclear => {}
            ProbeResult::Nothing => return,
        }
        self.known.store(true, Relaxed);
    }

    /// Whether objects are being collected for a check: the user asked for pipelining, and answers carry no ids.
    pub fn collects_objects(&self) -> bool {
        matches!(self.wanted, Pipeline::Depth(_))
            && self.check.load(Relaxed) == CheckState::Collecting as u8
            && self.cap.load(Relaxed) > 1
    }

    /// Collects an object that was fetched alone. Once there are enough, returns all, and the caller runs the check.
    pub(crate) fn collect_object(&self, body: &[u8], target: impl FnOnce(&mut Vec<u8>)) -> Option<Vec<CheckObject>> {
        let mut objects = ignore_poison(self.objects.lock());
        if !self.collects_objects() {
            return None;
        }
        match objects.add(self.cap.load(Relaxed), body, target) {
            Enough::No => None,
            Enough::Yes => {
                self.check.store(CheckState::Running as u8, Relaxed);
                Some(objects.take())
            }
            Enough::Never => {
                self.check.store(CheckState::Impossible as u8, Relaxed);
                self.cap.store(1, Relaxed);
                None
            }
        }
    }

    /// The check has ended.
    pub fn checked(&self, same: bool) {
        if same {
            self.samples.start();
            self.check.store(CheckState::Passed as u8, Relaxed);
            self.works.store(true, Relaxed);
        } else {
            self.cap.store(1, Relaxed);
        }
    }

    /// Ends pipelining for this host.
    pub fn stop(&self) {
        self.cap.store(1, Relaxed);
    }

    /// A note for the report: pipelining was asked for, and could not be checked.
    pub fn remark(&self) -> Option<&'static str> {
        let asked = matches!(self.wanted, Pipeline::Depth(_)) && !self.works.load(Relaxed);
        let compared = matches!(self.check.load(Relaxed), 1 | 2);
        (asked && !compared && self.known.load(Relaxed)).then_some(
            "pipelining was not used: there were too few different small objects to check that the service answers in \
            order",
        )
    }

    /// Whether answers without ids are trusted to come in order.
    pub fn trusts_order(&self) -> bool {
        self.check.load(Relaxed) == CheckState::Passed as u8 && self.cap.load(Relaxed) > 1
    }

    /// A connection ended with requests unanswered, after so many answers to pipelined requests.
    pub fn connection_ended(&self, answers: usize) {
        let depth = self.cap.load(Relaxed);
        let mut strikes = self.strikes();
        strikes.useless = if answers == 0 { strikes.useless + 1 } else { 0 };
        strikes.early = if answers < depth * LATE { strikes.early + 1 } else { 0 };
        if strikes.useless >= STRIKES {
            self.cap.store(1, Relaxed);
        } else if strikes.early >= STRIKES {
            strikes.early = 0;
            self.cap.store((depth / 2).max(1), Relaxed);
        }
    }

    /// Counts an answer that was not for its request, or unreadable, after so many right ones. Whether pipelining ends.
    pub fn wrong_answer(&self, answers: usize) -> bool {
        let mut strikes = self.strikes();
        strikes.wrong = if answers < self.cap.load(Relaxed) * LATE { strikes.wrong + 1 } else { 1 };
        let over = strikes.wrong >= STRIKES || self.check.load(Relaxed) == CheckState::Passed as u8;
        if over {
            self.cap.store(1, Relaxed);
        }
        over
    }

    fn strikes(&self) -> std::sync::MutexGuard<'_, Strikes> {
        ignore_poison(self.strikes.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_end_early_shorten_the_pipeline_and_late_ones_do_not() {
        let auto = PipelinePolicy::new(Pipeline::Auto);
        for _ in 0..100 {
            auto.connection_ended(1000);
        }
        assert_eq!(auto.depth(64), 64);
        for _ in 0..100 {
            auto.connection_ended(7);
        }
        assert!((1..=2).contains(&auto.depth(64)), "{}", auto.depth(64));
    }

    #[test]
    fn three_closes_without_an_answer_and_three_wrong_answers_end_it() {
        let closing = PipelinePolicy::new(Pipeline::Auto);
        (0..2).for_each(|_| closing.connection_ended(0));
        assert_eq!(closing.depth(64), 64);
        closing.connection_ended(0);
        assert_eq!(closing.depth(64), 1);

        let lying = PipelinePolicy::new(Pipeline::Auto);
        assert!(!lying.wrong_answer(0) && !lying.wrong_answer(3) && lying.wrong_answer(0));
        assert_eq!(lying.depth(64), 1);
        let seldom = PipelinePolicy::new(Pipeline::Auto);
        assert!((0..10).all(|_| !seldom.wrong_answer(10_000)), "a 404 without an id, now and then");
    }

    #[test]
    fn the_first_answer_and_a_probe_tell_how_many_connections_it_takes() {
        let new = || PipelinePolicy::new(Pipeline::Auto);
        let quick = Some(Duration::from_micros(100));
        let silent = new();
        assert!(silent.is_unknown());
        silent.single_answered(Echo::Missing, false, quick);
        assert!(!silent.is_unknown() && silent.proven_depth(64) == 1);

        let gaining = new();
        gaining.single_answered(Echo::Right, false, quick);
        assert!(gaining.is_unknown() && gaining.proven_depth(64) == 1, "an echo alone proves nothing");
        gaining.probed(&ProbeResult::Gain);
        assert!(!gaining.is_unknown() && gaining.proven_depth(64) == 64);

        let slow = new();
        slow.single_answered(Echo::Right, false, Some(Duration::from_millis(30)));
        assert!(!slow.is_unknown() && slow.proven_depth(64) == 1, "more connections are not waited with");
        (0..PROBES).for_each(|_| slow.probed(&ProbeResult::Unclear));
        assert_eq!(slow.depth(64), 64);
        (0..PROBES).for_each(|_| slow.probed(&ProbeResult::NoGain));
        assert_eq!(slow.depth(64), 1);

        assert!(!PipelinePolicy::new(Pipeline::Off).is_unknown());
        let asked = PipelinePolicy::new(Pipeline::Depth(16));
        asked.single_answered(Echo::Missing, false, quick);
        assert!(asked.is_unknown(), "until the check is made");
        asked.checked(false);
        assert!(!asked.is_unknown());
    }

    #[test]
    fn a_service_that_closes_after_every_answer_gets_all_connections() {
        let closing = PipelinePolicy::new(Pipeline::Auto);
        closing.single_answered(Echo::Right, true, None);
        assert!(!closing.is_unknown() && closing.proven_depth(64) == 1);
        (0..2).for_each(|_| closing.single_answered(Echo::Right, true, None));
        assert_eq!(closing.depth(64), 1);
    }

    #[test]
    fn one_connection_at_a_time_probes_and_knows_the_shortest_time_of_an_answer() {
        let auto = PipelinePolicy::new(Pipeline::Auto);
        for took in [30, 10, 20] {
            auto.single_answered(Echo::Right, false, Some(Duration::from_millis(took)));
        }
        auto.single_answered(Echo::Missing, false, Some(Duration::from_millis(1)));
        let probe = auto.probe();
        assert_eq!(probe.as_ref().map(|probe| probe.shortest), Some(Duration::from_millis(10)));
        assert!(probe.is_some() && auto.probe().is_none());
        drop(probe);
        assert!(auto.probe().is_some());
    }

    #[test]
    fn order_is_trusted_only_when_asked_for_and_compared() {
        let add = |pipelining: &PipelinePolicy, n: usize| pipelining.collect_object(n.to_string().as_bytes(), |_| {});
        let auto = PipelinePolicy::new(Pipeline::Auto);
        assert!(!auto.collects_objects() && auto.remark().is_none());
        let asked = PipelinePolicy::new(Pipeline::Depth(16));
        asked.single_answered(Echo::Missing, false, None);
        assert!((0..15).all(|n| add(&asked, n).is_none()) && asked.remark().is_some());
        assert_eq!(add(&asked, 15).map(|objects| objects.len()), Some(16));
        assert!(!asked.collects_objects() && !asked.trusts_order());
        asked.checked(true);
        assert!(asked.trusts_order() && asked.remark().is_none());
        assert!(asked.wrong_answer(1000), "the first wrong answer ends it: nothing else would show the next");
        assert!(!asked.trusts_order());
    }
}

//! Whether requests to one host are pipelined, and how many: what all connections to it have learnt. Not here: the loop of
//! one connection (`pipeline.rs`).
//!
//! A connection pipelines once an answer on it has echoed its request's id and a probe has shown that it helps
//! (`probe.rs`), or, where the user asked for it, once the same objects have been fetched both ways and were the same
//! (`compare.rs`), and for as long as samples are (`samples.rs`). Whatever goes wrong lowers the number of requests
//! sent ahead: several connections in a row that ended early halve it, and three that were of no use, or three answers
//! that were not for their requests, end pipelining for this host.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::check_objects::{Collection, Enough, Seen};
use super::probe::{Found, Probe};
use super::request_id::Echo;
use super::samples::Samples;

/// When requests are sent before the answers to earlier ones are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pipeline {
    /// Where every answer echoes an unguessable request id.
    #[default]
    Auto,
    /// Never; no ids are sent.
    Off,
    /// So many at once, even where ids are not echoed, once a comparison has found nothing wrong.
    Depth(usize),
}

/// Most requests unanswered on one connection, as found by itself: measured against one service on the same machine, 16
/// pipelined gave 1.2 million answers a second, 64 gave 2.0, 256 gave 2.4, and each one unanswered is fetched again when the
/// connection breaks.
pub(crate) const DEPTH_MAX: usize = 64;
/// Most that a user may ask for.
pub(crate) const DEPTH_ASKED_MAX: usize = 256;
/// Connections in a row that ended early, or answers that were not for their requests, before something changes.
const STRIKES: u32 = 3;
/// A connection that answered so many times its depth did not end early.
const LATE: usize = 4;
/// Probes without gain that end pipelining: on a busy machine a service may pause just between two answers.
const PROBES: u32 = 8;
/// Where an answer takes longer, connections are not waited with until the first probe has shown how many it takes.
const QUICK: Duration = Duration::from_millis(5);

/// What is known of answers without an id.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    /// Objects are collected for it.
    NotMade = 0,
    UnderWay = 1,
    Same = 2,
    /// What came is too much alike.
    Impossible = 3,
}

#[derive(Debug, Default)]
struct Strikes {
    early: u32,
    useless: u32,
    wrong: u32,
    /// Probes without gain.
    probes: u32,
}

/// What is known of one host.
#[derive(Debug)]
pub(crate) struct Pipelining {
    wanted: Pipeline,
    /// Most that has not gone wrong; 1: no pipelining.
    cap: AtomicUsize,
    comparison: AtomicU8,
    /// Some connection pipelines, or has, and gains by it: fewer of them are needed.
    works: AtomicBool,
    /// So much is known that more than a few connections make sense.
    known: AtomicBool,
    /// Some answer has echoed its id.
    echoes: AtomicBool,
    /// Some connection is finding out whether pipelining helps.
    probing: AtomicBool,
    strikes: Mutex<Strikes>,
    collection: Mutex<Collection>,
    pub(super) samples: Samples,
}

impl Pipelining {
    pub fn new(wanted: Pipeline) -> Pipelining {
        let cap = match wanted {
            Pipeline::Auto => DEPTH_MAX,
            Pipeline::Off => 1,
            Pipeline::Depth(depth) => depth.clamp(1, DEPTH_ASKED_MAX),
        };
        Pipelining {
            wanted,
            cap: AtomicUsize::new(cap),
            comparison: AtomicU8::new(Comparison::NotMade as u8),
            works: AtomicBool::new(false),
            known: AtomicBool::new(false),
            echoes: AtomicBool::new(false),
            probing: AtomicBool::new(false),
            strikes: Mutex::default(),
            collection: Mutex::default(),
            samples: Samples::default(),
        }
    }

    /// Whether requests carry an id.
    pub fn sends_ids(&self) -> bool {
        self.wanted != Pipeline::Off
    }

    /// How many requests may be unanswered on one connection that can be pipelined, where the lane allows `limit`.
    pub fn depth(&self, limit: usize) -> usize {
        match self.wanted {
            Pipeline::Depth(_) => self.cap.load(Relaxed),
            _ => self.cap.load(Relaxed).min(limit),
        }
    }

    /// The same, but 1 until some connection has been found that can be.
    pub fn proven_depth(&self, limit: usize) -> usize {
        if self.works.load(Relaxed) { self.depth(limit) } else { 1 }
    }

    /// Whether nothing is known yet, and so a few connections are enough to begin with.
    pub fn is_unknown(&self) -> bool {
        let known = match self.wanted {
            Pipeline::Depth(_) => self.works.load(Relaxed),
            _ => self.known.load(Relaxed),
        };
        !known && self.cap.load(Relaxed) > 1
    }

    /// A request that was alone has been answered after so long, with or without its id; `close`: and the connection ends.
    pub fn answered(&self, echo: Echo, close: bool, took: Option<Duration>) {
        let echoes = echo == Echo::Right;
        if echoes && !self.echoes.load(Relaxed) {
            self.echoes.store(true, Relaxed);
        }
        if echoes && close && !self.works.load(Relaxed) {
            self.ended(0);
        }
        if echoes && matches!(self.wanted, Pipeline::Depth(_)) && !self.works.load(Relaxed) {
            self.works.store(true, Relaxed); // as asked for, whether it helps or not
        }
        let probe_tells = echoes && !close && took.is_none_or(|took| took < QUICK);
        if !probe_tells && !self.known.load(Relaxed) {
            self.known.store(true, Relaxed);
        }
    }

    /// Whether it is still to be found out if pipelining helps: that takes an object in flight more than there are connections.
    pub fn is_doubtful(&self) -> bool {
        self.echoes.load(Relaxed) && !self.works.load(Relaxed) && self.cap.load(Relaxed) > 1
    }

    /// Whether some connection pipelines with gain.
    pub fn works(&self) -> bool {
        self.works.load(Relaxed)
    }

    /// A turn to find out whether that helps, if no other connection is at it.
    pub(super) fn probe(&self) -> Option<Probe<'_>> {
        (!self.probing.swap(true, Relaxed)).then(|| Probe::new(&self.probing))
    }

    /// A probe has found this out.
    pub(super) fn probed(&self, found: &Found) {
        match found {
            Found::Gain => self.works.store(true, Relaxed),
            Found::NoGain => {
                let mut strikes = self.strikes();
                strikes.probes += 1;
                if strikes.probes >= PROBES {
                    self.cap.store(1, Relaxed);
                }
            }
            Found::Nothing => return,
        }
        self.known.store(true, Relaxed);
    }

    /// Whether objects that come alone are collected for a comparison: the user asked for pipelining without ids.
    pub fn collects(&self) -> bool {
        matches!(self.wanted, Pipeline::Depth(_))
            && self.comparison.load(Relaxed) == Comparison::NotMade as u8
            && self.cap.load(Relaxed) > 1
    }

    /// An object came alone. The objects to compare, to the one who should.
    pub(super) fn collect(&self, body: &[u8], target: impl FnOnce(&mut Vec<u8>)) -> Option<Vec<Seen>> {
        let mut collection = self.collection.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.collects() {
            return None;
        }
        match collection.add(self.cap.load(Relaxed), body, target) {
            Enough::No => None,
            Enough::Yes => {
                self.comparison.store(Comparison::UnderWay as u8, Relaxed);
                Some(collection.take())
            }
            Enough::Never => {
                self.comparison.store(Comparison::Impossible as u8, Relaxed);
                self.cap.store(1, Relaxed);
                None
            }
        }
    }

    /// The comparison is made.
    pub fn compared(&self, same: bool) {
        if same {
            self.samples.begin();
            self.comparison.store(Comparison::Same as u8, Relaxed);
            self.works.store(true, Relaxed);
        } else {
            self.cap.store(1, Relaxed);
        }
    }

    /// Nothing is sent ahead any more.
    pub fn stop(&self) {
        self.cap.store(1, Relaxed);
    }

    /// What the report must say: pipelining was asked for, and nothing could be proven.
    pub fn remark(&self) -> Option<&'static str> {
        let asked = matches!(self.wanted, Pipeline::Depth(_)) && !self.works.load(Relaxed);
        let compared = matches!(self.comparison.load(Relaxed), 1 | 2);
        (asked && !compared && self.known.load(Relaxed)).then_some(
            "pipelining was not used: there were too few different small objects to check that the service answers in \
            order",
        )
    }

    /// Whether answers without ids are trusted to come in order.
    pub fn trusts_order(&self) -> bool {
        self.comparison.load(Relaxed) == Comparison::Same as u8 && self.cap.load(Relaxed) > 1
    }

    /// A connection ended with requests unanswered, after so many answers to pipelined requests.
    pub fn ended(&self, answers: usize) {
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

    /// An answer was not for its request, or nothing that can be read; `answers` had been right on its connection. Whether
    /// that ends pipelining.
    pub fn wrong(&self, answers: usize) -> bool {
        let mut strikes = self.strikes();
        strikes.wrong = if answers < self.cap.load(Relaxed) * LATE { strikes.wrong + 1 } else { 1 };
        let over = strikes.wrong >= STRIKES || self.comparison.load(Relaxed) == Comparison::Same as u8;
        if over {
            self.cap.store(1, Relaxed);
        }
        over
    }

    fn strikes(&self) -> std::sync::MutexGuard<'_, Strikes> {
        self.strikes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_end_early_shorten_the_pipeline_and_late_ones_do_not() {
        let auto = Pipelining::new(Pipeline::Auto);
        for _ in 0..100 {
            auto.ended(1000);
        }
        assert_eq!(auto.depth(64), 64);
        for _ in 0..100 {
            auto.ended(7);
        }
        assert!((1..=2).contains(&auto.depth(64)), "{}", auto.depth(64));
    }

    #[test]
    fn three_closes_without_an_answer_and_three_wrong_answers_end_it() {
        let closing = Pipelining::new(Pipeline::Auto);
        (0..2).for_each(|_| closing.ended(0));
        assert_eq!(closing.depth(64), 64);
        closing.ended(0);
        assert_eq!(closing.depth(64), 1);

        let lying = Pipelining::new(Pipeline::Auto);
        assert!(!lying.wrong(0) && !lying.wrong(3) && lying.wrong(0));
        assert_eq!(lying.depth(64), 1);
        let seldom = Pipelining::new(Pipeline::Auto);
        assert!((0..10).all(|_| !seldom.wrong(10_000)), "a 404 without an id, now and then");
    }

    #[test]
    fn the_first_answer_and_a_probe_tell_how_many_connections_it_takes() {
        let new = || Pipelining::new(Pipeline::Auto);
        let quick = Some(Duration::from_micros(100));
        let silent = new();
        assert!(silent.is_unknown());
        silent.answered(Echo::Missing, false, quick);
        assert!(!silent.is_unknown() && silent.proven_depth(64) == 1);

        let gaining = new();
        gaining.answered(Echo::Right, false, quick);
        assert!(gaining.is_unknown() && gaining.proven_depth(64) == 1, "an echo alone proves nothing");
        gaining.probed(&Found::Gain);
        assert!(!gaining.is_unknown() && gaining.proven_depth(64) == 64);

        let slow = new();
        slow.answered(Echo::Right, false, Some(Duration::from_millis(30)));
        assert!(!slow.is_unknown() && slow.proven_depth(64) == 1, "more connections are not waited with");
        (0..PROBES).for_each(|_| slow.probed(&Found::NoGain));
        assert_eq!(slow.depth(64), 1);

        assert!(!Pipelining::new(Pipeline::Off).is_unknown());
        let asked = Pipelining::new(Pipeline::Depth(16));
        asked.answered(Echo::Missing, false, quick);
        assert!(asked.is_unknown(), "until the comparison is made");
        asked.compared(false);
        assert!(!asked.is_unknown());
    }

    #[test]
    fn a_service_that_closes_after_every_answer_gets_all_connections() {
        let closing = Pipelining::new(Pipeline::Auto);
        closing.answered(Echo::Right, true, None);
        assert!(!closing.is_unknown() && closing.proven_depth(64) == 1);
        (0..2).for_each(|_| closing.answered(Echo::Right, true, None));
        assert_eq!(closing.depth(64), 1);
    }

    #[test]
    fn one_connection_at_a_time_probes() {
        let auto = Pipelining::new(Pipeline::Auto);
        let probe = auto.probe();
        assert!(probe.is_some() && auto.probe().is_none());
        drop(probe);
        assert!(auto.probe().is_some());
    }

    #[test]
    fn order_is_trusted_only_when_asked_for_and_compared() {
        let add = |pipelining: &Pipelining, n: usize| pipelining.collect(n.to_string().as_bytes(), |_| {});
        let auto = Pipelining::new(Pipeline::Auto);
        assert!(!auto.collects() && auto.remark().is_none());
        let asked = Pipelining::new(Pipeline::Depth(16));
        asked.answered(Echo::Missing, false, None);
        assert!((0..15).all(|n| add(&asked, n).is_none()) && asked.remark().is_some());
        assert_eq!(add(&asked, 15).map(|seen| seen.len()), Some(16));
        assert!(!asked.collects() && !asked.trusts_order());
        asked.compared(true);
        assert!(asked.trusts_order() && asked.remark().is_none());
        assert!(asked.wrong(1000), "the first wrong answer ends it: nothing else would show the next");
        assert!(!asked.trusts_order());
    }
}

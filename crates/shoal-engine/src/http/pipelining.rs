//! Whether requests to one host are pipelined, and how many: what all connections to it have learnt. Not here: the loop of
//! one connection (`pipeline.rs`).
//!
//! A connection pipelines once an answer on it has echoed its request's id, or, where the user asked for it, once the
//! same objects have been fetched both ways and were the same (`compare.rs`). Whatever goes wrong lowers the number of
//! requests sent ahead: several connections in a row that ended early halve it, and three that were of no use, or three
//! answers that were not for their requests, end pipelining for this host.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};

use super::request_id::Echo;

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

/// What is known of answers without an id.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    NotMade = 0,
    UnderWay = 1,
    Same = 2,
}

#[derive(Debug, Default)]
struct Strikes {
    early: u32,
    useless: u32,
    wrong: u32,
}

/// What is known of one host.
#[derive(Debug)]
pub(crate) struct Pipelining {
    wanted: Pipeline,
    /// Most that has not gone wrong; 1: no pipelining.
    cap: AtomicUsize,
    comparison: AtomicU8,
    /// Some connection pipelines, or has: fewer of them are needed.
    works: AtomicBool,
    /// Some answer has come: whether ids are echoed is known.
    answered: AtomicBool,
    strikes: Mutex<Strikes>,
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
            answered: AtomicBool::new(false),
            strikes: Mutex::default(),
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

    /// Whether nothing is known yet, and so a few connections are enough to begin with. Where the user asked for a depth, the
    /// comparison must find objects that the others have not taken.
    pub fn is_unknown(&self) -> bool {
        let known = match self.wanted {
            Pipeline::Depth(_) => self.works.load(Relaxed),
            _ => self.answered.load(Relaxed),
        };
        self.cap.load(Relaxed) > 1 && !known
    }

    /// A request that was alone has been answered, with or without its id.
    pub fn answered(&self, echo: Echo) {
        if echo == Echo::Right && !self.works.load(Relaxed) {
            self.works.store(true, Relaxed);
        }
        if !self.answered.load(Relaxed) {
            self.answered.store(true, Relaxed);
        }
    }

    /// An answer had none; `true` to the one who should compare, since the user asked for pipelining all the same.
    pub fn should_compare(&self) -> bool {
        matches!(self.wanted, Pipeline::Depth(_))
            && self.cap.load(Relaxed) > 1
            && self
                .comparison
                .compare_exchange(Comparison::NotMade as u8, Comparison::UnderWay as u8, Relaxed, Relaxed)
                .is_ok()
    }

    /// The comparison is made.
    pub fn compared(&self, same: bool) {
        if same {
            self.comparison.store(Comparison::Same as u8, Relaxed);
            self.works.store(true, Relaxed);
        } else {
            self.cap.store(1, Relaxed);
        }
    }

    /// It could not be made: somebody else may try.
    pub fn not_compared(&self) {
        self.comparison.store(Comparison::NotMade as u8, Relaxed);
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
        self.strikes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
    fn one_answer_tells_how_many_connections_it_takes() {
        let (silent, echoing) = (Pipelining::new(Pipeline::Auto), Pipelining::new(Pipeline::Auto));
        assert!(silent.is_unknown());
        silent.answered(Echo::Missing);
        assert!(!silent.is_unknown() && silent.proven_depth(64) == 1);
        echoing.answered(Echo::Right);
        assert!(!echoing.is_unknown() && echoing.proven_depth(64) == 64);
        assert!(!Pipelining::new(Pipeline::Off).is_unknown());
        let asked = Pipelining::new(Pipeline::Depth(16));
        asked.answered(Echo::Missing);
        assert!(asked.is_unknown(), "until the comparison is made");
        asked.compared(false);
        assert!(!asked.is_unknown());
    }

    #[test]
    fn order_is_trusted_only_when_asked_for_and_compared() {
        assert!(!Pipelining::new(Pipeline::Auto).should_compare());
        let asked = Pipelining::new(Pipeline::Depth(16));
        assert!(asked.should_compare());
        assert!(!asked.should_compare() && !asked.trusts_order());
        asked.compared(true);
        assert!(asked.trusts_order());
        assert!(asked.wrong(1000), "the first wrong answer ends it: nothing else would show the next");
        assert!(!asked.trusts_order());
    }
}

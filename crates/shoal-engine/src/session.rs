//! When a run may have written at its destination: the intervals of its sessions, and the lease of the one that runs.
//!
//! A file says when it was born and when it was last changed. Whether a run made it, and whether anything else has
//! changed it since, follows from the intervals in which the run's sessions may have written. A session's interval
//! reaches from its begin to its lease, which the journal holds before anything is written under it. Not here: reading
//! clocks and files (`sink/dir/`), keeping intervals (`journal/`), renewing the lease (`engine/lease.rs`).
//!
//! All times are in nanoseconds since 1970.

use crate::poison::ignore_poison;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

/// How far a lease reaches beyond the clock that was read for it: a commit comes every 0.5 s, a renewal every 2 s.
pub const LEASE: i64 = 5_000_000_000;
/// This process stops writing so long before a lease ends: what it began to write is then born within the lease.
const MARGIN: i64 = 1_000_000_000;
/// How often a thread that waits for a lease looks at it.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What an object means if a file that the same run has written has its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Twice {
    /// Each name is one object (a directory tree, a service): a file of an earlier session is an older copy of it.
    #[default]
    SameObject,
    /// Several objects may have one name (entries of archives): the first stays, the others fail as `repeated`.
    Repeated,
    /// The same of a list of paths or of items: the others fail as `name-conflict`.
    Conflict,
    /// As `Conflict`, but an object that was handed out again replaces what it left (`generate`).
    Reissued,
}

/// A session that has ended or was cut off, on the destination's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The lowest clock it saw.
    pub low: i64,
    /// The highest clock it saw.
    pub seen: i64,
    /// The end of its last lease; of a session that ended in order, the clock at that moment.
    pub high: i64,
    /// The clock when its last durable barrier began: what was changed before is durable.
    pub barrier: Option<i64>,
    /// The machine has not been restarted since.
    pub same_boot: bool,
    /// No barrier of it has failed: it ended in order, or it had none. Where one has failed, the page cache may show
    /// bytes that never reached the disk.
    pub sound: bool,
    /// A barrier of it has failed.
    pub failed: bool,
    /// It had no barriers: what is there lasts until a restart, and is done again after one.
    pub volatile: bool,
    /// Each file that it has made and left is whole: it ended in order, or the listing that it belongs to was finished.
    pub whole: bool,
    /// The run has been begun anew since: what it made is replaced by what its source has now.
    pub superseded: bool,
    /// Its source had the same root directory as that of the session that runs.
    pub same_root: bool,
}

impl Interval {
    /// Whether it may have changed something then.
    pub(crate) fn holds(&self, time: i64) -> bool {
        (self.low..=self.high).contains(&time)
    }

    /// Whether the bytes of a file that it changed last at this time can be believed without writing them again.
    pub fn is_safe(&self, changed: i64) -> bool {
        self.same_boot && self.sound || self.is_durable(changed)
    }

    /// Whether such a file can be left as it is; also one that was changed in the step in which a barrier began, in the
    /// same boot. One that no barrier has covered, where there are barriers, is written
    /// again: later sessions would not know that a barrier of this one has covered it.
    pub fn may_stay(&self, changed: i64) -> bool {
        self.is_safe(changed) && (self.volatile || self.is_durable(changed) || self.barrier == Some(changed))
    }

    /// Whether it may be a file that the session has committed: one that was changed in the step in which a barrier began,
    /// too, and where there are no barriers any one, however the session has ended.
    pub fn may_be_safe(&self, changed: i64) -> bool {
        self.is_safe(changed) || self.barrier == Some(changed) || self.volatile && self.same_boot
    }

    /// Whether a barrier has covered it. Equal times do not count: clocks move in steps, and the barrier may have begun
    /// within the step.
    pub fn is_durable(&self, changed: i64) -> bool {
        self.barrier.is_some_and(|barrier| changed < barrier)
    }
}

/// Which session of a run made a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose<'a> {
    /// The one that runs.
    This,
    /// An earlier one, and nothing outside the run's sessions has changed it since.
    Earlier(&'a Interval),
    /// None: another run's, the user's, or changed since; or the file system does not say when it was born.
    Other,
}

/// What a pass over the source has to do with a file of an earlier session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// It was made in this pass.
    Made,
    /// It was made before, and no object of this pass was found to have its bytes.
    Not,
    /// The same, but one was, by the session that runs.
    ByThis,
    /// Or by an earlier one.
    ByEarlier(&'a Interval),
}

/// The sessions of one run.
#[derive(Debug)]
pub struct Sessions {
    earlier: Vec<Interval>,
    lease: Arc<Lease>,
}

impl Sessions {
    /// The earlier ones, and the lease of the one that runs.
    pub fn new(earlier: Vec<Interval>, lease: Arc<Lease>) -> Sessions {
        Sessions { earlier, lease }
    }

    /// The earlier ones.
    pub fn earlier(&self) -> &[Interval] {
        &self.earlier
    }

    /// The lease of the one that runs.
    pub fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// Which session made a file that was born and last changed at these times. What others change while a session of the
    /// run is under way cannot be told from its own.
    pub fn whose(&self, born: Option<i64>, changed: i64) -> Whose<'_> {
        let Some(born) = born else { return Whose::Other };
        let began = self.lease.began();
        let current = |time| began <= time && time <= self.lease.ends();
        let earlier = self.earlier.iter().rev().find(|interval| interval.holds(born));
        // A session begins after all births of the earlier ones, unless the clock has been set back since.
        let set_back = self.earlier.iter().any(|interval| interval.seen >= began);
        if current(born) && !(set_back && earlier.is_some()) {
            return Whose::This;
        }
        let unmodified = current(changed) || self.earlier.iter().any(|interval| interval.holds(changed));
        match earlier {
            Some(interval) if unmodified => Whose::Earlier(interval),
            _ => Whose::Other,
        }
    }

    /// The earlier sessions that may have changed something then.
    pub fn changing(&self, changed: i64) -> impl Iterator<Item = &Interval> {
        self.earlier.iter().filter(move |interval| interval.holds(changed))
    }

    /// The earlier session that changed a file last, of those that may have.
    pub fn changed_by(&self, changed: i64) -> Option<&Interval> {
        self.earlier.iter().rev().find(|interval| interval.holds(changed))
    }

    /// Whether an earlier session may have changed something then.
    pub fn has_changed(&self, time: i64) -> bool {
        self.earlier.iter().any(|interval| interval.holds(time))
    }

    /// Whether a file that was born then may be one of an earlier session, of which the lease had not ended when this one began.
    pub fn may_be_earlier(&self, born: Option<i64>) -> bool {
        self.holding(born).next().is_some()
    }

    /// The earlier sessions that may have made a file that was born then: several where the clock was set back.
    pub fn holding(&self, born: Option<i64>) -> impl Iterator<Item = &Interval> {
        self.earlier.iter().filter(move |interval| born.is_some_and(|born| interval.holds(born)))
    }

    /// What this pass has to do with a file that an earlier session made. Where several objects may have its name, the one
    /// that is found to have its bytes moves its time of change.
    pub fn found(&self, born: Option<i64>, changed: i64) -> Found<'_> {
        if !self.holding(born).all(|interval| interval.superseded) {
            return Found::Made;
        }
        if self.lease.began() <= changed && changed <= self.lease.ends() {
            return Found::ByThis;
        }
        let of_pass = |interval: &&Interval| !interval.superseded && interval.holds(changed);
        self.earlier.iter().rev().find(of_pass).map_or(Found::Not, Found::ByEarlier)
    }

    /// Whether a file that was born then may be one of the session that runs.
    pub fn may_be_this(&self, born: Option<i64>) -> bool {
        born.is_some_and(|born| self.lease.began() <= born && born <= self.lease.ends())
    }
}

/// What a lease says, for another process that writes under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The lowest clock of the destination that the session has seen.
    pub began: i64,
    /// The end of the lease, on that clock.
    pub ends: i64,
    /// From when and until when may be written, on this machine's clock.
    pub from: i64,
    /// See `from`.
    pub until: i64,
}

#[derive(Debug, Default)]
struct State {
    /// A thread waits: the lease should be renewed now.
    wanted: bool,
    ended: bool,
}

type Mirror = Box<dyn Fn(Granted) + Send + Sync>;
type Source = Box<dyn Fn() -> Option<Granted> + Send + Sync>;

/// Until when a session may write. What writes asks before each file; the thread that keeps the journal extends it.
pub struct Lease {
    began: AtomicI64,
    /// Its end, on the destination's clock.
    ends: AtomicI64,
    from: AtomicI64,
    until: AtomicI64,
    state: Mutex<State>,
    changed: Condvar,
    /// Told of each extension.
    mirror: OnceLock<Mirror>,
    /// Where a process that is not the journal's own learns of extensions.
    source: Option<Source>,
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Lease").field(&self.granted()).finish()
    }
}

impl Lease {
    fn with(from: i64, until: i64, source: Option<Source>) -> Lease {
        Lease {
            began: AtomicI64::new(i64::MAX),
            ends: AtomicI64::new(i64::MAX),
            from: AtomicI64::new(from),
            until: AtomicI64::new(until),
            state: Mutex::default(),
            changed: Condvar::new(),
            mirror: OnceLock::new(),
            source,
        }
    }

    /// A lease that is not granted yet.
    pub fn new() -> Lease {
        Lease::with(i64::MAX, i64::MIN, None)
    }

    /// One without an end, for a sink that no journal knows.
    pub fn unbounded() -> Lease {
        Lease::with(i64::MIN, i64::MAX, None)
    }

    /// One that another process grants: `source` says how far.
    pub fn following(source: impl Fn() -> Option<Granted> + Send + Sync + 'static) -> Lease {
        Lease::with(i64::MAX, i64::MIN, Some(Box::new(source)))
    }

    /// Tells `mirror` of each extension from now on.
    pub fn mirrored(&self, mirror: impl Fn(Granted) + Send + Sync + 'static) {
        let _ = self.mirror.set(Box::new(mirror)); // a session is started once
    }

    /// The destination's clock was seen to show this.
    pub fn saw(&self, clock: i64) {
        self.began.fetch_min(clock, Relaxed);
    }

    /// The lowest clock of the destination that this session has seen: what it makes is born then or later.
    pub fn began(&self) -> i64 {
        self.began.load(Relaxed)
    }

    /// What it makes is born then at the latest.
    fn ends(&self) -> i64 {
        self.ends.load(Relaxed)
    }

    /// The journal holds the interval from `low` to `high` on the destination's clock, which showed `clock` when this
    /// machine's showed `local` or a little more.
    pub fn grant(&self, low: i64, high: i64, clock: i64, local: i64) {
        self.saw(low);
        self.ends.store(high, Relaxed);
        self.from.store(local.saturating_sub(clock.saturating_sub(low)), Relaxed);
        self.until.store(local.saturating_add(high.saturating_sub(clock)).saturating_sub(MARGIN), Relaxed);
        if let Some(mirror) = self.mirror.get() {
            mirror(self.granted());
        }
        self.state().wanted = false;
        self.changed.notify_all();
    }

    fn granted(&self) -> Granted {
        Granted {
            began: self.began(),
            ends: self.ends(),
            from: self.from.load(Relaxed),
            until: self.until.load(Relaxed),
        }
    }

    /// Waits until writing is allowed; false: the run is over, and it never will be. Asked before each file.
    pub fn wait(&self) -> bool {
        self.is_valid() || self.wait_for_it()
    }

    fn is_valid(&self) -> bool {
        let now = local_clock();
        self.from.load(Relaxed) <= now && now <= self.until.load(Relaxed)
    }

    #[cold]
    fn wait_for_it(&self) -> bool {
        loop {
            if let Some(granted) = self.source.as_ref().and_then(|source| source()) {
                self.saw(granted.began);
                self.ends.store(granted.ends, Relaxed);
                self.from.store(granted.from, Relaxed);
                self.until.store(granted.until, Relaxed);
            }
            if self.is_valid() {
                return true;
            }
            let mut state = self.state();
            if state.ended {
                return false;
            }
            state.wanted = true;
            self.changed.notify_all();
            drop(self.changed.wait_timeout(state, LOOK_EVERY));
        }
    }

    /// Waits until a thread wants to write that may not, or the lease was granted for `most`. False: the run is over.
    pub fn wait_until_wanted(&self, most: Duration) -> bool {
        let idle = |state: &mut State| !state.wanted && !state.ended;
        let (state, _) = ignore_poison(self.changed.wait_timeout_while(self.state(), most, idle));
        !state.ended
    }

    /// Whether a thread waits to write.
    pub fn is_wanted(&self) -> bool {
        self.state().wanted
    }

    /// The run is over: nothing waits any more, and no other process begins to write.
    pub fn end(&self) {
        if let Some(mirror) = self.mirror.get() {
            mirror(Granted { from: i64::MAX, until: i64::MIN, ..self.granted() });
        }
        self.state().ended = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        ignore_poison(self.state.lock())
    }
}

impl Default for Lease {
    fn default() -> Lease {
        Lease::new()
    }
}

/// This machine's clock, as its own file systems stamp files.
pub fn local_clock() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(low: i64, high: i64) -> Interval {
        Interval {
            low,
            seen: high - 5,
            high,
            barrier: Some(low + 10),
            same_boot: true,
            sound: true,
            failed: false,
            volatile: false,
            superseded: false,
            same_root: true,
            whole: true,
        }
    }

    fn sessions(earlier: &[Interval], began: i64) -> Sessions {
        let lease = Lease::unbounded();
        lease.saw(began);
        Sessions::new(earlier.to_vec(), Arc::new(lease))
    }

    #[test]
    fn a_file_is_a_session_s_that_was_born_and_changed_in_the_run_s_intervals() {
        let (one, two) = (interval(100, 150), interval(200, 250));
        let run = sessions(&[one, two], 300);
        for (born, changed, whose) in [
            (99, 120, Whose::Other),
            (100, 100, Whose::Earlier(&one)),
            (150, 210, Whose::Earlier(&one)),
            (120, 170, Whose::Other), // modified between the sessions
            (170, 170, Whose::Other),
            (250, 300, Whose::Earlier(&two)),
            (270, 310, Whose::Other),
            (300, 300, Whose::This),
            (400, 400, Whose::This),
        ] {
            assert_eq!(run.whose(Some(born), changed), whose, "{born} {changed}");
        }
        assert_eq!(run.whose(None, 300), Whose::Other);
    }

    #[test]
    fn a_session_that_begins_within_the_last_lease_makes_files_of_its_own() {
        let one = interval(100, 150);
        assert_eq!(sessions(&[one], 146).whose(Some(148), 148), Whose::This);
        assert_eq!(sessions(&[one], 146).whose(Some(145), 145), Whose::Earlier(&one));
    }

    #[test]
    fn where_the_clock_was_set_back_a_file_in_two_intervals_may_be_a_leftover() {
        let one = interval(100, 150);
        let run = sessions(&[one], 50);
        assert_eq!(run.whose(Some(120), 120), Whose::Earlier(&one));
        assert_eq!(run.whose(Some(60), 60), Whose::This);
        assert_eq!(run.whose(Some(160), 160), Whose::This);
    }

    #[test]
    fn after_a_restart_only_what_a_barrier_covered_counts() {
        let kept = Interval { same_boot: false, ..interval(100, 150) };
        assert!(kept.is_safe(109) && !kept.is_safe(110) && kept.may_be_safe(110) && !kept.may_be_safe(111));
        let failed = Interval { sound: false, ..interval(100, 150) };
        assert!(!failed.is_safe(140) && failed.is_safe(109) && !failed.may_be_safe(140));
        let volatile = Interval { volatile: true, ..failed };
        assert!(!volatile.is_safe(140) && volatile.may_be_safe(140), "without a barrier its commits stand");
    }

    #[test]
    fn a_lease_is_waited_for_and_ends_with_the_run() {
        let lease = Arc::new(Lease::new());
        let waiting = {
            let lease = lease.clone();
            std::thread::spawn(move || lease.wait())
        };
        assert!(lease.wait_until_wanted(Duration::from_secs(60)));
        let local = local_clock();
        lease.grant(1_000, 1_000 + LEASE, 1_000, local);
        assert!(waiting.join().unwrap() && lease.wait());
        lease.grant(1_000, 1_000 + LEASE, 1_000, local - 2 * LEASE); // a lease of long ago
        let waiting = {
            let lease = lease.clone();
            std::thread::spawn(move || lease.wait())
        };
        lease.end();
        assert!(!waiting.join().unwrap() && !lease.wait_until_wanted(Duration::ZERO));
    }
}

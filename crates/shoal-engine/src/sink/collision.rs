//! What to do with an object if its name is taken: the one rule for sinks that keep files of earlier sessions.
//!
//! No set of names is kept in memory: the file itself tells, by its times and its bytes. Not here: reading those
//! (`dir/existing.rs`), which session made a file (`session.rs`).

use super::Mode;
use crate::error::{Error, Kind};
use crate::fs::read::{TICK, step};
use crate::options::Overwrite;
use crate::session::{Found, Interval, Sessions, Twice, Whose};

/// The times of the file that has the name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// When it came into being; `None`: its file system does not say.
    pub born: Option<i64>,
    /// When it was last changed in any way; no program can set this.
    pub changed: i64,
    /// When its contents were last written, or what a program has set.
    pub written: i64,
}

/// What a run does about names that are taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub twice: Twice,
    pub overwrite: Overwrite,
    /// Files may have several names.
    pub hard_links: bool,
}

/// What to do with an object that has other bytes than the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Replace the file, by rename.
    Replace,
    /// The object fails: the run has written another one of this name.
    Second,
    /// The object fails: the run did not write this file, or something else changed it since.
    Exists,
}

/// What to do with an object that has the bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SameBytes {
    /// An earlier session made it: the object is written.
    Kept,
    /// The same, before this pass, and another object may have its name: that this one was found is to be seen in the file.
    Found,
    /// This session made it, or another program: the object is skipped, the file left alone.
    Present,
    /// An earlier session made it, and no barrier has covered it: the bytes are written again.
    Rewrite,
}

impl Rules {
    /// Where the bytes differ. `timed`: objects carry a time, which their files get last; `begins`: whether the file holds
    /// the beginning of the object, as what a kill leaves of it does.
    pub(crate) fn decide(
        self,
        sessions: &Sessions,
        times: Times,
        mode: Mode,
        timed: bool,
        begins: &dyn Fn() -> bool,
    ) -> Decision {
        let always = self.overwrite == Overwrite::Always;
        let found = sessions.found(times.born, times.changed);
        match (sessions.whose(times.born, times.changed), self.twice) {
            (Whose::Other, _) if always => Decision::Replace,
            (Whose::Other, _) => Decision::Exists,
            (Whose::This, twice) if is_left(sessions, twice, times, mode) => Decision::Replace,
            (Whose::This, _) => Decision::Second,
            (Whose::Earlier(_), Twice::Reissued) if mode != Mode::First => Decision::Replace,
            (Whose::Earlier(_), Twice::SameObject) => Decision::Replace,
            (Whose::Earlier(_), _) if found == Found::Not => Decision::Replace,
            (Whose::Earlier(_), _) if found == Found::ByThis => Decision::Second,
            // The clock was set back. What this session wrote must stay; of what an earlier one left, a failure tells.
            (Whose::Earlier(_), _) if sessions.may_be_this(times.born) => Decision::Second,
            (Whose::Earlier(_), _) if always => Decision::Replace,
            (Whose::Earlier(_), _) if found != Found::Made => Decision::Second,
            // It may be what any of them has committed.
            (Whose::Earlier(_), _) => {
                match sessions.holding(times.born).any(|session| is_whole(session, times, mode, timed, begins)) {
                    true => Decision::Second,
                    false => Decision::Replace,
                }
            }
        }
    }

    /// The error of an object that is the second of its name.
    pub(crate) fn second(self) -> Error {
        match self.twice {
            Twice::Repeated => {
                Error::new(Kind::Repeated, "this run has already written an object of this name; the first one stays")
                    .hint("`into_subdirectories=True` gives each archive its own directory")
            }
            _ => Error::new(
                Kind::NameConflict,
                "this run has written another object of this name, with other contents; the first one stays",
            ),
        }
    }
}

/// Whether a file of this session is what a process has left of this very id: one that died over it, or one of an earlier
/// session that has not noticed yet that its run is dead.
fn is_left(sessions: &Sessions, twice: Twice, times: Times, mode: Mode) -> bool {
    let late = mode == Mode::Redo && sessions.may_be_earlier(times.born);
    twice == Twice::Reissued && (mode == Mode::Reissued || late)
}

/// Where the bytes are the same.
pub(crate) fn same_bytes(sessions: &Sessions, rules: Rules, times: Times, mode: Mode) -> SameBytes {
    match sessions.whose(times.born, times.changed) {
        // A worker wrote it and died before it said so.
        Whose::This if is_left(sessions, rules.twice, times, mode) => SameBytes::Kept,
        Whose::This | Whose::Other => SameBytes::Present,
        // Another id of this name has to meet a file of this session.
        Whose::Earlier(_) if rules.twice == Twice::Reissued => SameBytes::Rewrite,
        Whose::Earlier(session) => {
            let each_has_one = rules.twice == Twice::SameObject;
            // A later pass may have found it to have its object's bytes, and moved its time of change.
            let last = sessions.changed_by(times.changed).unwrap_or(session);
            match sessions.found(times.born, times.changed) {
                Found::ByThis if !each_has_one => SameBytes::Present,
                Found::ByEarlier(by) if !by.may_stay(times.changed) => SameBytes::Rewrite,
                Found::ByEarlier(_) => SameBytes::Kept,
                _ if !last.may_stay(times.changed) => SameBytes::Rewrite,
                Found::Not if !each_has_one => SameBytes::Found,
                _ => SameBytes::Kept,
            }
        }
    }
}

/// Whether a file of the object's size and time is the object, left by an earlier session, so that it need not be fetched.
/// Only where each name is one object: of two archives, both may have an entry of this name, size and time. `source_changed`:
/// when anything of its source was last changed. It must have been before the session: times can be set to what they were.
/// And the root of the source must be the same: in another one, the file may be another one that has not changed either.
/// `each`: files are synced one by one, so that after a restart one that was not yet may have its size and time alone.
pub(crate) fn is_done(
    sessions: &Sessions,
    rules: Rules,
    times: Times,
    source_changed: Option<i64>,
    each: bool,
) -> bool {
    // Judged by the session that changed it last: it had compared the file with its object, or written it.
    let is_current = |session: &Interval| {
        let unchanged = source_changed.is_none_or(|changed| was_before(changed, session));
        unchanged && session.may_stay(times.changed) && (session.same_boot || !each) && session.same_root
    };
    let is_earlier = matches!(sessions.whose(times.born, times.changed), Whose::Earlier(_));
    let mut last = sessions.changing(times.changed).peekable();
    // A file with several names is changed by what happens to the others, so there the session that made it counts as well.
    let made = || {
        !rules.hard_links || sessions.holding(times.born).all(|one| source_changed.is_none_or(|at| was_before(at, one)))
    };
    let is_done = is_earlier && last.peek().is_some() && last.all(is_current) && made();
    rules.twice == Twice::SameObject && is_done
}

/// Whether a file of another size or time than its object's is the user's to keep: others have changed what earlier sessions
/// had made, and nothing has changed its source since. What a killed session left of an object is no copy: there, the listing
/// must have been finished since. With `overwrite`, the user wants what the source has.
pub(crate) fn is_edited(sessions: &Sessions, rules: Rules, times: Times, source_changed: Option<i64>) -> bool {
    let Rules { twice: Twice::SameObject, overwrite: Overwrite::Never, .. } = rules else { return false };
    let made_all = |session: &Interval| {
        let unchanged = source_changed.is_some_and(|changed| was_before(changed, session));
        // Writing sets this time, and a change of permissions or a link does not: they do not make a torn file the user's.
        let written_since = times.written > session.high && !sessions.has_changed(times.written);
        unchanged && written_since && session.whole && session.superseded && session.same_root
    };
    sessions.whose(times.born, times.changed) == Whose::Other
        && sessions.may_be_earlier(times.born)
        && sessions.holding(times.born).all(made_all)
}

/// Whether something was last changed before a session. A time of change in whole seconds stands for up to two.
fn was_before(changed: i64, session: &Interval) -> bool {
    i128::from(changed) + step(changed.into()) < session.low.into()
}

/// Whether a session wrote all of it, or what is there is at least nothing of the object that is to be written. Where that
/// cannot be told it is: a failure is recorded then, and nothing is lost without a word.
fn is_whole(session: &Interval, times: Times, mode: Mode, timed: bool, begins: &dyn Fn() -> bool) -> bool {
    let ended = match timed {
        // Writing stamps both times alike. A source that was written in the moment in which its copy was made is left: then
        // the bytes tell, as they do without times.
        true => !session.holds(times.written) || is_time_set(times),
        // Of what a barrier has covered, nothing was in the writing any more when the session ended.
        false => mode == Mode::First || session.is_durable(times.changed),
    };
    (ended || !begins()) && session.may_be_safe(times.changed)
}

/// Whether the time of a file was set, and not stamped by what was written last.
fn is_time_set(times: Times) -> bool {
    let (changed, written) = (i128::from(times.changed), i128::from(times.written));
    changed.abs_diff(written) as i128 > step(written) + TICK
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::session::Lease;

    const EARLIER: Interval = Interval {
        low: 100,
        seen: 190,
        high: 200,
        barrier: Some(150),
        same_boot: true,
        sound: true,
        volatile: false,
        whole: true,
        failed: false,
        superseded: false,
        same_root: true,
    };

    fn sessions(earlier: Interval) -> Sessions {
        let lease = Lease::unbounded();
        lease.saw(300);
        Sessions::new(vec![earlier], Arc::new(lease))
    }

    /// Times of a file that was made at `born`, and got the time `written` then.
    fn file(born: i64, written: i64) -> Times {
        Times { born: Some(born), changed: born, written }
    }

    #[test]
    fn every_row_of_the_table_has_its_answer() {
        use Decision::{Exists, Replace, Second};
        use Mode::{First, Redo};
        use Twice::{Conflict, Reissued, Repeated, SameObject};
        let run = sessions(EARLIER);
        let (of_this, whole, torn, foreign) = (file(310, 310), file(120, 7), file(120, 120), file(250, 250));
        let unknown = Times { born: None, ..of_this };
        for (times, twice, mode, never, always) in [
            (foreign, SameObject, First, Exists, Replace),
            (foreign, Reissued, Redo, Exists, Replace),
            (unknown, Repeated, Redo, Exists, Replace),
            (of_this, SameObject, Redo, Second, Second),
            (of_this, Repeated, First, Second, Second),
            (of_this, Reissued, First, Second, Second),
            (of_this, Reissued, Redo, Second, Second),
            (of_this, Reissued, Mode::Reissued, Replace, Replace),
            (foreign, Reissued, Mode::Reissued, Exists, Replace),
            (whole, SameObject, First, Replace, Replace),
            (torn, SameObject, Redo, Replace, Replace),
            (whole, Repeated, Redo, Second, Replace),
            (torn, Repeated, First, Replace, Replace),
            (whole, Conflict, First, Second, Replace),
            (torn, Conflict, Redo, Replace, Replace),
            (whole, Reissued, Redo, Replace, Replace),
        ] {
            for (overwrite, wanted) in [(Overwrite::Never, never), (Overwrite::Always, always)] {
                let rules = Rules { twice, overwrite, hard_links: false };
                let decided = rules.decide(&run, times, mode, true, &|| true);
                assert_eq!(decided, wanted, "{times:?} {twice:?} {mode:?} {overwrite:?}");
            }
        }
        let rules = Rules { twice: Conflict, overwrite: Overwrite::Never, hard_links: false };
        let late = file(160, 160); // no barrier has covered it
        for (timed, torn) in [(false, late), (true, late), (true, torn)] {
            let decided = |begins| rules.decide(&run, torn, Redo, timed, &move || begins);
            assert_eq!(decided(false), Second, "whole, unless it is the beginning of this object");
            assert_eq!(decided(true), Replace, "… which a kill may have left");
        }
        assert_eq!(rules.decide(&run, torn, Redo, false, &|| true), Second, "not in the writing any more at its end");
        let lease = Lease::unbounded();
        lease.saw(100_000_000_000);
        let long = Interval { low: 0, seen: 90_000_000_000, high: 95_000_000_000, ..EARLIER };
        let long = Sessions::new(vec![long], Arc::new(lease));
        for (written, wanted) in [(40_123_456_789, Second), (49_999_999_999, Replace), (49_000_000_000, Replace)] {
            let young = Times { born: Some(50_000_000_000), changed: 50_000_000_000, written };
            assert_eq!(rules.decide(&long, young, Redo, true, &|| true), wanted, "its time was set to {written}");
        }
        assert_eq!(rules.decide(&run, torn, First, false, &|| true), Second, "never handed out before");
        let lease = Lease::unbounded();
        lease.saw(300);
        let killed = Interval { low: 110, barrier: None, sound: false, ..EARLIER };
        let overlapping = Sessions::new(vec![EARLIER, killed], Arc::new(lease));
        assert_eq!(rules.decide(&overlapping, whole, Redo, true, &|| true), Second, "the first may have committed it");
        let lease = Lease::unbounded();
        lease.saw(110);
        let set_back = Sessions::new(vec![EARLIER], Arc::new(lease));
        for (twice, wanted) in [(Conflict, Second), (Repeated, Second), (SameObject, Replace)] {
            let rules = Rules { twice, overwrite: Overwrite::Never, hard_links: false };
            assert_eq!(rules.decide(&set_back, torn, Redo, true, &|| true), wanted, "of either session");
        }
        let lease = Lease::unbounded();
        lease.saw(195);
        let overlapping = Sessions::new(vec![EARLIER], Arc::new(lease));
        for (born, wanted) in [(196, Replace), (201, Second)] {
            let rules = Rules { twice: Reissued, overwrite: Overwrite::Never, hard_links: false };
            assert_eq!(rules.decide(&overlapping, file(born, born), Redo, false, &|| true), wanted, "born {born}");
        }
        let rebooted = sessions(Interval { same_boot: false, ..EARLIER });
        assert_eq!(rules.decide(&rebooted, file(160, 7), First, true, &|| true), Replace, "after the last barrier");
        assert_eq!(rules.decide(&rebooted, file(140, 7), First, true, &|| true), Second, "before it");
    }

    #[test]
    fn the_same_bytes_are_kept_where_a_barrier_has_covered_them_or_there_is_none() {
        let unsound = sessions(Interval { sound: false, ..EARLIER });
        let volatile = sessions(Interval { volatile: true, ..EARLIER });
        for (run, times, wanted) in [
            (&sessions(EARLIER), file(180, 180), SameBytes::Rewrite),
            (&volatile, file(180, 180), SameBytes::Kept),
            (&unsound, file(180, 180), SameBytes::Rewrite),
            (&unsound, file(120, 120), SameBytes::Kept),
            (&unsound, file(250, 250), SameBytes::Present),
            (&unsound, file(310, 310), SameBytes::Present),
        ] {
            let rules = |twice| Rules { twice, overwrite: Overwrite::Never, hard_links: false };
            assert_eq!(same_bytes(run, rules(Twice::SameObject), times, Mode::Redo), wanted, "{times:?}");
            assert_eq!(
                is_done(run, rules(Twice::SameObject), times, Some(99), false),
                wanted == SameBytes::Kept,
                "{times:?}"
            );
            assert!(!is_done(run, rules(Twice::Repeated), times, None, false), "{times:?}");
            assert!(!is_done(run, rules(Twice::SameObject), times, Some(100), false), "its source was changed since");
        }
        let volatile = |twice| {
            same_bytes(
                &volatile,
                Rules { twice, overwrite: Overwrite::Never, hard_links: false },
                file(180, 180),
                Mode::Redo,
            )
        };
        assert_eq!(volatile(Twice::Reissued), SameBytes::Rewrite, "a second id of this name must not replace it");
        let second = 1_000_000_000;
        let late = |time: i64| 3 * second + time;
        let interval =
            Interval { low: late(100), seen: late(180), high: late(200), barrier: Some(late(150)), ..EARLIER };
        let rules_of_one = Rules { twice: Twice::SameObject, overwrite: Overwrite::Never, hard_links: false };
        for (changed, wanted) in [(late(99), true), (3 * second, false), (second, true)] {
            let times = file(late(120), late(120));
            let lease = Lease::unbounded();
            lease.saw(late(300));
            let done =
                is_done(&Sessions::new(vec![interval], Arc::new(lease)), rules_of_one, times, Some(changed), false);
            assert_eq!(done, wanted, "a time of change in whole seconds stands for up to two: {changed}");
        }
        let rebooted = sessions(Interval { same_boot: false, ..EARLIER });
        let rules = Rules { twice: Twice::SameObject, overwrite: Overwrite::Never, hard_links: false };
        for (each, wanted) in [(false, true), (true, false)] {
            assert_eq!(is_done(&rebooted, rules, file(140, 7), None, each), wanted, "synced one by one: {each}");
        }
        let other_root = Interval { same_root: false, ..EARLIER };
        assert!(!is_done(&sessions(other_root), rules, file(140, 7), Some(99), false), "copied from another root");
        let lease = Lease::unbounded();
        lease.saw(300);
        let either = Sessions::new(vec![other_root, EARLIER], Arc::new(lease));
        assert!(!is_done(&either, rules, file(140, 7), Some(99), false), "or perhaps from another one");
    }

    #[test]
    fn a_copy_that_others_have_changed_stays_only_if_it_was_whole_and_its_source_is_as_it_was() {
        let rules = Rules { twice: Twice::SameObject, overwrite: Overwrite::Never, hard_links: false };
        let superseded = Interval { superseded: true, ..EARLIER };
        let edited = Times { born: Some(120), changed: 250, written: 250 };
        let is = |interval: Interval, rules, times, changed| is_edited(&sessions(interval), rules, times, changed);
        assert!(is(superseded, rules, edited, Some(99)));
        assert!(!is(superseded, rules, edited, Some(100)), "its source was changed since");
        assert!(!is(superseded, rules, edited, None), "nothing is known of its source");
        assert!(!is(superseded, rules, Times { changed: 150, ..edited }, Some(99)), "it is as the session left it");
        assert!(!is(superseded, rules, Times { born: Some(250), ..edited }, Some(99)), "another file");
        for written in [150, 7] {
            assert!(!is(superseded, rules, Times { written, ..edited }, Some(99)), "only its permissions were changed");
        }
        assert!(!is(superseded, Rules { overwrite: Overwrite::Always, ..rules }, edited, Some(99)));
        assert!(!is(superseded, Rules { twice: Twice::Conflict, ..rules }, edited, Some(99)));
        for other in [
            Interval { whole: false, ..superseded },
            Interval { superseded: false, ..superseded },
            Interval { same_root: false, ..superseded },
        ] {
            assert!(!is(other, rules, edited, Some(99)), "{other:?}");
        }
    }

    #[test]
    fn in_an_update_a_file_from_behind_the_last_barrier_before_a_restart_is_never_unchanged() {
        let rules = |twice| Rules { twice, overwrite: Overwrite::Never, hard_links: false };
        let superseded = Interval { superseded: true, ..EARLIER };
        let rebooted = sessions(Interval { same_boot: false, ..superseded });
        for (times, safe) in [(file(140, 7), true), (file(150, 7), false), (file(160, 7), false)] {
            assert_eq!(is_done(&rebooted, rules(Twice::SameObject), times, Some(99), false), safe, "{times:?}");
            let kept = same_bytes(&rebooted, rules(Twice::SameObject), times, Mode::First);
            assert_eq!(kept, if safe { SameBytes::Kept } else { SameBytes::Rewrite }, "{times:?}");
            let found = same_bytes(&rebooted, rules(Twice::Repeated), times, Mode::First);
            assert_eq!(found, if safe { SameBytes::Found } else { SameBytes::Rewrite }, "{times:?}");
        }
        let later = sessions(superseded);
        for twice in [Twice::SameObject, Twice::Repeated, Twice::Conflict] {
            let other_bytes = rules(twice).decide(&later, file(140, 7), Mode::First, true, &|| true);
            assert_eq!(other_bytes, Decision::Replace, "what an update finds changed: {twice:?}");
        }
    }
}

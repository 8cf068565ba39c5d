//! Whose file it is that has a name already: the one rule for sinks that keep files of earlier runs.
//!
//! No set of names is kept in memory, so the file itself must tell: by when it came into being, compared with when the
//! runs began, all on the destination's own clock. Not here: reading that clock (`dir/session.rs`).

use super::Mode;

/// When the runs began that may have written here, in nanoseconds since 1970 on the destination's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Began {
    /// The first of the joined runs.
    pub first: i128,
    /// This one.
    pub session: i128,
    /// The clock has gone back since an earlier run: a leftover may look as if this run had written it.
    pub clock_went_back: bool,
}

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The joined runs wrote this name before: the first stays.
    Ours,
    /// A run that was cut off wrote it, perhaps in part: it is replaced.
    Leftover,
    /// Shoal did not write it.
    Stranger,
}

impl Began {
    /// Whose file it is that was born then, as seen from a partition in this mode.
    ///
    /// Equal times count as ours: a kernel clock moves in steps of about 4 ms, so a run's first files may be born at
    /// the very moment it began. (The directory sink waits for a step before it begins, so that nobody else's are.)
    pub(crate) fn owner(self, born: i128, mode: Mode) -> Owner {
        if born < self.first {
            Owner::Stranger
        } else if mode == Mode::Fresh {
            // Above the journal's mark nothing has been handed out before, so it cannot be a leftover.
            Owner::Ours
        } else if born >= self.session && !self.clock_went_back {
            Owner::Ours
        } else {
            // With a clock that went back, better to write a duplicate twice than to keep half a file.
            Owner::Leftover
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_its_owner() {
        let began = Began { first: 100, session: 200, clock_went_back: false };
        let back = Began { clock_went_back: true, ..began };
        for (began, born, fresh, again) in [
            (began, 99, Owner::Stranger, Owner::Stranger),
            (began, 100, Owner::Ours, Owner::Leftover),
            (began, 199, Owner::Ours, Owner::Leftover),
            (began, 200, Owner::Ours, Owner::Ours),
            (began, 300, Owner::Ours, Owner::Ours),
            (back, 99, Owner::Stranger, Owner::Stranger),
            (back, 300, Owner::Ours, Owner::Leftover),
        ] {
            assert_eq!(began.owner(born, Mode::Fresh), fresh, "{born}");
            assert_eq!(began.owner(born, Mode::Again), again, "{born}");
        }
    }
}

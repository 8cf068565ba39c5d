//! Answers that were passed on, and that what arrives later on their connection may still prove wrong. Not here: looking
//! for such bytes (`stream.rs`), what becomes of the objects (`Lane::withdraw`).

use std::collections::VecDeque;

use crate::request_id::Echo;
use crate::stream::Trailing;
use shoal_core::object::Fingerprint;

/// So many answers of a connection are doubted at once. An answer too many may have come long before it is noticed.
const DOUBTED_MAX: usize = 256;

/// An object that was passed on and accepted.
pub struct Passed<W> {
    /// What the handler returned for it.
    pub written: W,
    /// What tells its bytes from others.
    pub fingerprint: Fingerprint,
}

impl<W> Passed<W> {
    /// One that was passed on with these bytes, if it was accepted.
    pub fn of(written: Option<W>, bytes: &[u8]) -> Option<Passed<W>> {
        written.map(|written| Passed { written, fingerprint: Fingerprint::of(bytes) })
    }
}

/// Why an object that was passed on is doubted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Its answer was longer than announced.
    Overlong,
    /// The connection had an answer too many: this one may be another object's.
    Ahead,
}

/// The last answers of one connection, the newest last; `None` for one that was no object.
pub(crate) struct Unproven<W> {
    answers: VecDeque<Option<Passed<W>>>,
    /// The first of them had the id of its request. It is that request's, and those before it are right, so they are
    /// not here. It may still be longer than announced.
    by_id: bool,
}

impl<W> Unproven<W> {
    pub fn new() -> Unproven<W> {
        Unproven { answers: VecDeque::new(), by_id: false }
    }

    /// An answer was passed on.
    pub fn push(&mut self, passed: Option<Passed<W>>, echo: Echo) {
        match self.answers.len() {
            _ if echo == Echo::Right => {
                self.answers.clear();
                self.by_id = true;
            }
            DOUBTED_MAX => {
                self.answers.pop_front();
                self.by_id = false;
            }
            1 => self.answers.reserve_exact(DOUBTED_MAX), // once for each connection without ids
            _ => {}
        }
        self.answers.push_back(passed);
    }

    /// All of them are right.
    pub fn clear(&mut self) {
        self.answers.clear();
        self.by_id = false;
    }

    /// Whether an answer too many would show that others are wrong. The first answer of a connection can only be its own.
    pub fn has_several(&self) -> bool {
        self.answers.len() > 1
    }

    /// Takes the objects that these bytes behind the last answer make doubtful.
    pub fn doubt(&mut self, trailing: Trailing) -> impl Iterator<Item = (Passed<W>, Doubt)> + '_ {
        let (all, last) = (self.answers.len(), self.answers.len().saturating_sub(1));
        let (from, doubt) = match trailing {
            Trailing::Ahead | Trailing::Error if self.is_by_order() => (usize::from(self.by_id), Doubt::Ahead),
            Trailing::Bytes | Trailing::Ahead => (last, Doubt::Overlong),
            Trailing::Nothing | Trailing::Refusal | Trailing::Error | Trailing::End => (all, Doubt::Overlong),
        };
        self.answers.drain(from..).flatten().map(move |passed| (passed, doubt))
    }

    /// Whether only their order says which request some of them are for.
    pub fn is_by_order(&self) -> bool {
        self.answers.len() > usize::from(self.by_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(echoes: &[Echo]) -> Unproven<usize> {
        let mut answers = Unproven::new();
        for (written, echo) in echoes.iter().enumerate() {
            answers.push(Passed::of(Some(written), b""), *echo);
        }
        answers
    }

    fn doubted(echoes: &[Echo], trailing: Trailing) -> Vec<(usize, Doubt)> {
        answers(echoes).doubt(trailing).map(|(passed, doubt)| (passed.written, doubt)).collect()
    }

    #[test]
    fn an_answer_too_many_makes_all_doubtful_that_no_id_proves_and_other_bytes_the_last() {
        use Doubt::{Ahead, Overlong};
        use Echo::{Missing, Right, Wrong};
        let echoes = [Missing, Right, Missing, Wrong];
        assert_eq!(doubted(&echoes, Trailing::Ahead), [(2, Ahead), (3, Ahead)]);
        assert_eq!(doubted(&echoes, Trailing::Error), [(2, Ahead), (3, Ahead)], "the last object may be gone");
        assert_eq!(doubted(&echoes[..2], Trailing::Error), []);
        assert_eq!(doubted(&echoes, Trailing::Bytes), [(3, Overlong)]);
        assert_eq!(doubted(&echoes[..2], Trailing::Ahead), [(1, Overlong)], "its id is right, its length may not be");
        for trailing in [Trailing::Nothing, Trailing::Refusal, Trailing::End] {
            assert_eq!(doubted(&echoes, trailing), []);
        }
        let all = doubted(&[Missing; 300], Trailing::Ahead);
        assert_eq!((all.len(), all[0]), (DOUBTED_MAX, (300 - DOUBTED_MAX, Ahead)));
        let mut refused = answers(&[Missing]);
        refused.push(None, Missing);
        assert_eq!(refused.doubt(Trailing::Bytes).count(), 0, "the last answer was no object");
        assert!(!answers(&[Missing, Right]).has_several() && answers(&[Missing, Missing]).has_several());
    }
}

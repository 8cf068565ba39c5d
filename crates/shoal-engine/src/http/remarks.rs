//! What the report must say of answers that were taken, and can be told only at the end: those that turned out to be longer
//! than they said, and those that came encoded. Bounded: a count, and the first few names.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::display::escape;

/// Objects that are named.
const NAMED: usize = 5;

/// What all connections to one service have to tell.
#[derive(Debug, Default)]
pub(crate) struct Remarks(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    overlong: u64,
    named: Vec<String>,
    /// Objects that were decoded, by encoding.
    decoded: BTreeMap<&'static str, u64>,
}

impl Remarks {
    /// Bytes came behind the answer to this request target after its object was handed in.
    pub fn overlong(&self, target: &[u8]) {
        let mut told = self.told();
        told.overlong += 1;
        if told.named.len() < NAMED {
            // Values of parameters may be secrets.
            let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
            told.named.push(format!("\"{}\"", escape(path)));
        }
    }

    /// An object came in this encoding, and was decoded.
    pub fn decoded(&self, encoding: &'static str) {
        *self.told().decoded.entry(encoding).or_default() += 1;
    }

    /// For the report.
    pub fn notes(&self) -> Vec<String> {
        let told = self.told();
        let mut notes = Vec::new();
        if told.overlong > 0 {
            let (were, named) = (if told.overlong == 1 { "answer was" } else { "answers were" }, told.named.join(", "));
            let and_more = if told.overlong > told.named.len() as u64 { ", …" } else { "" };
            notes.push(format!(
                "{} {were} longer than announced, which showed only after the object was written: {named}{and_more} may be cut short",
                told.overlong
            ));
        }
        notes.extend(told.decoded.iter().map(|(encoding, count)| {
            format!("{count} objects came encoded as {encoding}, which shoal does not ask for; they were decoded and checked")
        }));
        notes
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_objects_are_named_and_all_are_counted_without_secrets() {
        let remarks = Remarks::default();
        assert!(remarks.notes().is_empty());
        remarks.overlong(b"/get/a?key=secret");
        assert!(remarks.notes()[0].starts_with("1 answer was longer"), "{:?}", remarks.notes());
        (0..1000).for_each(|n| remarks.overlong(format!("/get/{n}").as_bytes()));
        let note = &remarks.notes()[0];
        assert!(note.starts_with("1001 answers") && note.contains("\"/get/a\", ") && note.len() < 300, "{note}");
        assert!(!note.contains("secret"));
    }
}

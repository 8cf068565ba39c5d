//! Counts for the report that are complete only at the end of the run: how many objects were encoded, how long a proxy was
//! away.

use shoal_core::poison::ignore_poison;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// What all connections to one service have counted.
#[derive(Debug, Default)]
pub struct Remarks(Mutex<BTreeMap<(What, &'static str), u64>>);

/// What became of an encoding, or of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Decoded,
    Kept,
    /// Requests behind a proxy were not pipelined by a number.
    Forwarded,
    /// Seconds for which a proxy was waited for.
    Waited,
}

impl Remarks {
    /// Counts an object that had this encoding and was decoded.
    pub fn decoded(&self, encoding: &'static str) {
        *self.counts().entry((What::Decoded, encoding)).or_default() += 1;
    }

    /// Counts an answer with this encoding that was kept as it was sent, for what it is called.
    pub fn kept(&self, encoding: &'static str) {
        *self.counts().entry((What::Kept, encoding)).or_default() += 1;
    }

    /// Notes that the user has asked for a number of pipelined requests, which a proxy makes impossible.
    pub fn forwarded(&self) {
        self.counts().insert((What::Forwarded, ""), 1);
    }

    /// Counts the time for which a proxy was waited for that has come back.
    pub(crate) fn waited(&self, time: Duration) {
        *self.counts().entry((What::Waited, "")).or_default() += time.as_secs().max(1);
    }

    /// Notes for the report.
    pub fn notes(&self) -> Vec<String> {
        let note = |((what, encoding), count): (&(What, &str), &u64)| match what {
            What::Decoded => format!(
                "{count} objects came encoded as {encoding}, which shoal did not request; they were decoded and checked"
            ),
            What::Kept => format!(
                "{count} answers with Content-Encoding {encoding} were kept as they were sent, because their suffix or \
                type is that of {encoding}; `decode=\"always\"` decodes them"
            ),
            What::Forwarded => {
                "requests to http:// services behind a proxy were pipelined only if answers echoed their \
                ids: the number of `pipeline` does not apply there"
                    .to_owned()
            }
            What::Waited => format!("the proxy could not be reached for {count} s in all; shoal waited for it"),
        };
        self.counts().iter().map(note).collect()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<(What, &'static str), u64>> {
        ignore_poison(self.0.lock())
    }
}

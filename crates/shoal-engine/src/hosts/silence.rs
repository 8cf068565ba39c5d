//! When others continue without a request, because nothing arrives from its host. Not here: what is known of a connection
//! (`source/urls/asked.rs`), what follows (`machine.rs`, `places.rs`).

use std::time::Duration;

/// How often it is looked for such requests.
pub(crate) const LOOK: Duration = Duration::from_millis(250);
/// How long nothing may arrive from a host that has never answered, or from one to which another host redirects …
const FIRST: Duration = Duration::from_secs(1);
/// … and from one that has answered, on no lane: it may be slow.
const LATER: Duration = Duration::from_secs(5);

/// How long is waited, which is less than requests may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    first: Duration,
    later: Duration,
}

impl Patience {
    /// `timeout`, `connect_timeout`: those of requests.
    pub fn new(timeout: Duration, connect_timeout: Duration) -> Patience {
        Patience { first: FIRST.min(timeout.min(connect_timeout) / 2), later: LATER.min(timeout / 2) }
    }

    /// Whether a request hangs that has waited for so long. `heard`: how long ago something has arrived from its host, for
    /// any request.
    pub fn is_over(&self, waited: Duration, heard: Option<Duration>, has_answered: bool) -> bool {
        let patience = if has_answered { self.later } else { self.first };
        waited >= patience && heard.is_none_or(|heard| heard >= patience)
    }

    /// The same for one that its host has redirected to another.
    pub fn is_over_behind(&self, waited: Duration) -> bool {
        waited >= self.first
    }
}

//! Headers that change while requests are sent, such as a token that expires. Clients ask for new ones here, and a thread
//! of the caller, which may run the caller's code, gives them. Not here: where they come from (the binding), which requests
//! wait for them (the sources).
//!
//! | what | new headers are asked for |
//! |---|---|
//! | nothing is known yet, or the headers have expired | requests wait |
//! | the headers expire soon | nothing waits |
//! | 401 | requests wait, and this one is sent again; not if the headers that came since were refused, too |
//! | 403, or 401 of a host that has never accepted any headers | the same, at most once in [`SUSPECTS_EACH`] |
//!
//! Headers have a version, and each answer has that of its request. So many requests that are refused at once ask for new
//! headers once.

use std::collections::VecDeque;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::check_objects::hash;
use crate::client::request_fields;
use crate::head::Head;
use crate::url::{Address, Secret};
use shoal_core::error::{Error, Kind, Result};

/// How long nothing is asked for on suspicion, after new headers were.
pub const SUSPECTS_EACH: Duration = Duration::from_secs(30);
/// Headers that are refused one after the other, without any that were accepted, before a 401 is believed.
const REFUSED_MAX: u32 = 3;
/// How often one request asks for new headers before its 401 is believed.
const ASKS_MAX: usize = 2;
/// Requests that have asked and are remembered: as many as a lane may send again before it comes back to the first.
const ASKED_MAX: usize = 1024;
/// How long before headers expire new ones are asked for: a tenth of their life, and this at most.
const AHEAD_MAX: Duration = Duration::from_secs(10);
/// Headers live at least so long, or else no request would be sent with them.
const LIFE_MIN: Duration = Duration::from_millis(100);

/// Names and values of headers.
pub type Pairs = Vec<(String, String)>;

/// The present headers of a source.
#[derive(Default)]
pub struct Changing {
    state: Mutex<State>,
    /// New ones are to be given.
    wanted: AtomicBool,
    given: Notify,
}

#[derive(Default)]
struct State {
    headers: Arc<Pairs>,
    /// Of the headers; 0 before the first.
    version: u64,
    /// Requests wait for new ones.
    holds: bool,
    /// Because these were refused with 401.
    refused: bool,
    /// The version that was refused, and given again.
    useless: u64,
    asks_at: Option<Instant>,
    expires: Option<Instant>,
    /// They are asked for on suspicion; and when such headers were last asked for, or given.
    suspects: bool,
    suspected: Option<Instant>,
    /// None will be given any more.
    closed: bool,
}

impl Changing {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether [`Changing::give`] is to be called. Cheap.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed)
    }

    /// These are the headers from now on. `life`: how long they can be used, if that is known.
    pub fn give(&self, headers: Pairs, life: Option<Duration>) {
        self.give_at(Instant::now(), headers, life);
    }

    fn give_at(&self, now: Instant, headers: Pairs, life: Option<Duration>) {
        let mut state = self.state();
        if state.version > 0 && *state.headers == headers {
            if state.refused {
                state.useless = state.version;
            }
        } else {
            (state.version, state.headers) = (state.version + 1, Arc::new(headers));
        }
        if std::mem::take(&mut state.suspects) {
            state.suspected = Some(now);
        }
        let life = life.map(|life| life.max(LIFE_MIN));
        state.expires = life.and_then(|life| now.checked_add(life));
        state.asks_at = state.expires.zip(life).map(|(at, life)| at - (life / 10).min(AHEAD_MAX));
        (state.holds, state.refused) = (false, false);
        self.wanted.store(false, Relaxed);
        self.given.notify_waiters();
    }

    /// The present headers, which a signer may use instead of sending them.
    pub fn present(&self) -> Arc<Pairs> {
        self.state().headers.clone()
    }

    /// Nothing gives headers any more.
    pub fn close(&self) {
        self.state().closed = true;
        self.given.notify_waiters();
    }

    /// Whether requests can be sent now.
    fn is_ready(&self, now: Instant) -> bool {
        let mut state = self.state();
        let is_past = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        state.holds |= state.version == 0 || is_past(state.expires);
        if state.holds || is_past(state.asks_at) {
            self.wanted.store(true, Relaxed);
        }
        !state.holds
    }
}

/// The values are secrets.
impl fmt::Debug for Changing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Changing(***)")
    }
}

impl PartialEq for Changing {
    fn eq(&self, other: &Changing) -> bool {
        std::ptr::eq(self, other)
    }
}

/// The header lines of a client's requests, each with its line break, including `Host` and `Authorization`. Secret.
#[derive(Debug)]
pub struct Fields(Lines);

#[derive(Debug)]
enum Lines {
    Fixed(Secret),
    Changing(Box<Own>),
}

/// What one client knows of headers that change.
#[derive(Debug)]
struct Own {
    shared: Arc<Changing>,
    /// What is sent instead of the headers: they are the keys of a signer.
    instead: Option<Secret>,
    /// Of which version these lines are.
    lines: Mutex<(u64, Secret)>,
    /// The latest version with which something was sent; 0 if nothing ever was.
    accepted: AtomicU64,
    refusals: Mutex<Refusals>,
}

#[derive(Debug, Default)]
struct Refusals {
    /// The version that was refused last.
    version: u64,
    in_a_row: u32,
    /// Hashes of the targets of requests that have asked for new headers.
    asked: VecDeque<u128>,
}

impl From<Secret> for Fields {
    fn from(lines: Secret) -> Fields {
        Fields(Lines::Fixed(lines))
    }
}

impl Fields {
    /// Those of headers that change.
    pub fn changing(shared: Arc<Changing>) -> Fields {
        Fields::of(shared, None)
    }

    /// These lines, for requests that a signer signs with what `shared` has: they wait for that, and ask for it again.
    pub fn signed(shared: Arc<Changing>, lines: Secret) -> Fields {
        Fields::of(shared, Some(lines))
    }

    fn of(shared: Arc<Changing>, instead: Option<Secret>) -> Fields {
        let lines = Mutex::new((u64::MAX, Secret::new(String::new())));
        let (accepted, refusals) = (AtomicU64::new(0), Mutex::default());
        Fields(Lines::Changing(Box::new(Own { shared, instead, lines, accepted, refusals })))
    }

    /// Calls a function with the present lines of a client at this address, and their version: 0 if they never change.
    #[inline]
    pub(crate) fn with<R>(&self, address: &Address, write: impl FnOnce(&str, u64) -> Result<R>) -> Result<R> {
        let own = match &self.0 {
            Lines::Fixed(lines) => return write(lines.reveal(), 0),
            Lines::Changing(own) => own,
        };
        let (version, headers) = {
            let state = own.shared.state();
            (state.version, state.headers.clone())
        };
        if let Some(lines) = &own.instead {
            return write(lines.reveal(), version);
        }
        let mut lines = own.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.0 != version {
            *lines = (version, request_fields(address, &headers)?);
        }
        write(lines.1.reveal(), version)
    }

    /// Whether requests can be sent now. If not, [`Fields::ready`] tells when; the headers are asked for.
    #[inline]
    pub fn is_ready(&self) -> bool {
        match &self.0 {
            Lines::Fixed(_) => true,
            Lines::Changing(own) => own.shared.is_ready(Instant::now()),
        }
    }

    /// Waits until requests can be sent.
    ///
    /// # Errors
    /// Nothing gives headers any more, because the run is over.
    pub async fn ready(&self) -> Result<()> {
        let Lines::Changing(own) = &self.0 else { return Ok(()) };
        loop {
            let mut given = pin!(own.shared.given.notified());
            given.as_mut().enable(); // before looking, so that nothing is missed
            if own.shared.is_ready(Instant::now()) {
                return Ok(());
            }
            if own.shared.state().closed {
                return Err(Error::new(Kind::Interrupted, "nothing gives headers any more"));
            }
            given.await;
        }
    }

    /// Whether a header that the user has given has this word, such as the token behind `Bearer`.
    pub fn has_word(&self, address: &Address, word: &str) -> bool {
        let has = |line: &str| line.split_ascii_whitespace().skip(1).any(|one| one == word);
        let is_own = |line: &str| OWN_LINES.iter().any(|own| line.starts_with(own));
        self.with(address, |fields, _| Ok(fields.lines().any(|line| !is_own(line) && has(line)))).unwrap_or(false)
    }

    /// A request was answered.
    pub(crate) fn answered(&self, head: &Head) {
        if let Lines::Changing(own) = &self.0
            && (200..400).contains(&head.status)
            && own.accepted.load(Relaxed) < head.sent_with
        {
            own.accepted.fetch_max(head.sent_with, Relaxed);
        }
    }

    /// Whether the request of this answer is to be sent again, after [`Fields::ready`], because its headers may have expired.
    #[inline]
    pub fn asks_again(&self, head: &Head, target: &[u8]) -> bool {
        let Lines::Changing(own) = &self.0 else { return false };
        let is_refusal = head.status == 401 || head.status == 403 && !head.is_throttling();
        is_refusal && head.sent_with > 0 && own.asks_again(Instant::now(), head.status, head.sent_with, target)
    }

    /// The same for an answer that says in its body that they have expired.
    pub fn asks_as_expired(&self, head: &Head, target: &[u8]) -> bool {
        let Lines::Changing(own) = &self.0 else { return false };
        head.sent_with > 0 && own.asks_again(Instant::now(), 401, head.sent_with, target)
    }
}

/// How the header lines begin that every request has.
const OWN_LINES: [&str; 4] = ["Host: ", "Accept-Encoding: ", "Accept: ", "User-Agent: "];

impl Own {
    fn asks_again(&self, now: Instant, status: u16, sent_with: u64, target: &[u8]) -> bool {
        let mut state = self.shared.state();
        let accepted = self.accepted.load(Relaxed);
        if sent_with < state.version {
            return true;
        }
        if state.closed {
            return false;
        }
        if state.holds {
            state.refused |= status == 401;
            return true;
        }
        if status == 401 && state.useless == state.version {
            return false;
        }
        if status == 403 || accepted == 0 {
            if state.suspected.is_some_and(|at| now.saturating_duration_since(at) < SUSPECTS_EACH) {
                return false;
            }
            state.suspects = true;
        } else {
            let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
            if accepted > refusals.version {
                refusals.in_a_row = 0;
            }
            let target = hash(target);
            let asked = refusals.asked.iter().filter(|&&asked| asked == target).count();
            if refusals.in_a_row >= REFUSED_MAX || asked >= ASKS_MAX {
                return false;
            }
            (refusals.version, refusals.in_a_row) = (state.version, refusals.in_a_row + 1);
            if refusals.asked.len() == ASKED_MAX {
                refusals.asked.pop_front();
            }
            refusals.asked.push_back(target);
        }
        (state.holds, state.refused) = (true, status == 401);
        self.shared.wanted.store(true, Relaxed);
        true
    }
}

/// The versions of the header lines of a connection's requests. Empty if these never change.
#[derive(Default)]
pub(crate) struct Versions {
    /// From which request on the lines were of which version.
    from: VecDeque<(u64, u64)>,
}

impl Versions {
    /// A request of this number is sent with this version.
    pub fn sent(&mut self, number: u64, version: u64) {
        if version != self.from.back().map_or(0, |(_, version)| *version) {
            self.from.push_back((number, version));
        }
    }

    /// The version of a request that is answered. Those before it have been.
    pub fn of(&mut self, number: u64) -> u64 {
        while self.from.get(1).is_some_and(|(first, _)| *first <= number) {
            self.from.pop_front();
        }
        self.from.front().map_or(0, |(_, version)| *version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client, and what it does in virtual time.
    struct World {
        shared: Arc<Changing>,
        fields: Fields,
        now: Instant,
        tokens: u32,
    }

    impl World {
        fn new() -> World {
            let shared = Arc::new(Changing::default());
            let fields = Fields::changing(shared.clone());
            World { shared, fields, now: Instant::now(), tokens: 0 }
        }

        fn own(&self) -> &Own {
            let Lines::Changing(own) = &self.fields.0 else { unreachable!() };
            own
        }

        /// The caller's thread: another token, if one is wanted.
        fn serve(&mut self, life: Option<u64>) -> bool {
            let wanted = self.shared.is_wanted();
            if wanted {
                self.tokens += 1;
                self.give(&format!("token {}", self.tokens), life);
            }
            wanted
        }

        fn give(&self, token: &str, life: Option<u64>) {
            self.shared.give_at(self.now, vec![("A".into(), token.into())], life.map(Duration::from_secs));
        }

        fn refused(&self, status: u16, version: u64, request: u64) -> bool {
            self.own().asks_again(self.now, status, version, &request.to_le_bytes())
        }

        fn accepted(&self, version: u64) {
            self.own().accepted.fetch_max(version, Relaxed);
        }

        fn is_ready(&self) -> bool {
            self.shared.is_ready(self.now)
        }

        fn lines(&self) -> (String, u64) {
            let address = Address::parse("http://h").unwrap();
            self.fields.with(&address, |lines, version| Ok((lines.to_owned(), version))).unwrap()
        }

        /// One that has sent something with its first headers.
        fn working() -> World {
            let mut world = World::new();
            assert!(!world.shared.is_wanted() && !world.is_ready() && world.serve(None) && world.is_ready());
            world.accepted(1);
            world
        }
    }

    #[test]
    fn requests_carry_the_headers_that_were_given_last() {
        let mut world = World::working();
        assert!(world.lines().0.contains("A: token 1\r\n") && world.lines().1 == 1);
        assert!(world.refused(401, 1, 7) && world.serve(None));
        assert!(world.lines().0.contains("A: token 2\r\n") && world.lines().1 == 2);
    }

    #[test]
    fn many_requests_refused_at_once_ask_once() {
        let mut world = World::working();
        assert!((0..64).all(|request| world.refused(401, 1, request)));
        assert!(!world.is_ready() && world.serve(None) && world.is_ready());
        assert!((64..99).all(|late| world.refused(401, 1, late)), "these were sent before");
        assert!(!world.serve(None) && world.is_ready());
    }

    #[test]
    fn headers_are_renewed_before_they_expire_and_not_used_after() {
        let mut world = World::new();
        world.is_ready();
        world.serve(Some(20));
        world.now += Duration::from_secs(17);
        assert!(world.is_ready() && !world.shared.is_wanted());
        world.now += Duration::from_secs(2);
        assert!(world.is_ready() && world.shared.is_wanted(), "nothing waits before they expire");
        world.now += Duration::from_secs(2);
        assert!(!world.is_ready() && world.serve(None) && world.is_ready());
        world.now += Duration::from_secs(1 << 20);
        assert!(world.is_ready() && !world.shared.is_wanted());
    }

    #[test]
    fn the_same_headers_again_end_it() {
        let mut world = World::working();
        assert!(world.refused(401, 1, 7));
        world.give("token 1", None);
        assert!(world.is_ready() && !world.refused(401, 1, 7) && !world.refused(401, 1, 8) && !world.serve(None));
    }

    #[test]
    fn new_headers_that_are_all_refused_end_it() {
        let mut world = World::working();
        for version in 1..=u64::from(REFUSED_MAX) {
            assert!(world.refused(401, version, version) && world.serve(None));
        }
        assert!(!world.refused(401, 4, 4));
        world.accepted(4);
        assert!(world.refused(401, 4, 5));
    }

    #[test]
    fn headers_that_were_never_accepted_are_asked_for_once_more() {
        let mut world = World::new();
        assert!(!world.is_ready() && world.serve(None) && world.refused(401, 1, 7));
        world.now += 2 * SUSPECTS_EACH; // as long as the function took
        assert!(world.serve(None) && !world.refused(401, 2, 7));
    }

    #[test]
    fn one_request_that_is_always_refused_ends_it_while_others_are_accepted() {
        let mut world = World::working();
        for version in 1..=ASKS_MAX as u64 {
            world.accepted(version);
            assert!(world.refused(401, version, 7) && world.serve(None));
        }
        world.accepted(3);
        assert!(!world.refused(401, 3, 7) && world.refused(401, 3, 8));
    }

    #[test]
    fn a_forbidden_object_asks_at_most_once_in_30_seconds() {
        let mut world = World::working();
        assert!(world.refused(403, 1, 7) && !world.is_ready());
        world.give("token 1", None);
        assert!(world.is_ready() && !world.refused(403, 1, 7), "the same headers");
        world.now += SUSPECTS_EACH - LIFE_MIN;
        assert!(!world.refused(403, 1, 8));
        world.now += LIFE_MIN;
        assert!(world.refused(403, 1, 8) && world.serve(None));
        assert!(world.refused(403, 1, 9), "it was sent with the old headers");
        assert!(!world.refused(403, 2, 8) && !world.shared.is_wanted());
        assert!(world.refused(401, 2, 8), "401 is more than a suspicion");
    }

    #[test]
    fn the_same_headers_after_403_say_nothing_of_a_later_401() {
        let mut world = World::working();
        assert!(world.refused(403, 1, 7));
        world.give("token 1", None);
        assert!(world.refused(401, 1, 8) && world.serve(None) && world.is_ready());
    }

    #[test]
    fn each_answer_has_the_version_of_its_own_request() {
        let mut versions = Versions::default();
        assert_eq!(versions.of(0), 0);
        for (number, version) in [(0, 1), (1, 1), (2, 1), (3, 2), (4, 3), (5, 3)] {
            versions.sent(number, version);
        }
        assert_eq!([0, 1, 2, 3, 4, 5].map(|number| versions.of(number)), [1, 1, 1, 2, 3, 3]);
        assert!(versions.from.len() == 1);
    }

    #[test]
    fn waiting_ends_when_headers_are_given_or_nothing_gives_them_any_more() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for gives in [true, false] {
            let shared = Arc::new(Changing::default());
            let fields = Fields::changing(shared.clone());
            let caller = std::thread::spawn(move || {
                while !shared.is_wanted() {
                    std::thread::yield_now();
                }
                if gives { shared.give(vec![("A".into(), "secret".into())], None) } else { shared.close() }
            });
            assert_eq!(runtime.block_on(fields.ready()).map_err(|error| error.kind()).is_ok(), gives);
            caller.join().unwrap();
            assert!(fields.is_ready() == gives && !format!("{fields:?}").contains("secret"));
        }
    }
}

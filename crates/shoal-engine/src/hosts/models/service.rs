//! A service with one host in virtual time: its machine and the number in flight together, as the engine runs them. Not here:
//! lists of many hosts (`world.rs`), the cases (`throttling.rs`).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::world::{Reply, Request, s};
use crate::engine::{Concurrency, Reach, Sample, Setup};
use crate::error::{Error, HostId, Kind};
use crate::hosts::Rules;
use crate::hosts::host::{Gate, Time};
use crate::hosts::machine::{Glance, Machine, Verdict};
use crate::object::Storage;
use crate::options::Workers;

const HOST: HostId = HostId(0);
const TICK: Time = Time::from_millis(5);

/// How the objects of a service are fetched.
#[derive(Clone, Copy)]
pub enum Client {
    Shoal(Workers),
    /// A pool of so many threads. Each waits as long as it is asked to, and keeps its place.
    Pool(usize),
}

/// What a run came to, with times in seconds.
pub struct Run {
    pub took: f64,
    pub failed: usize,
    /// When each request was sent, and whether it was refused.
    pub requests: Vec<(f64, bool)>,
    /// When the last object was written.
    pub written_at: f64,
}

impl Run {
    /// The share of requests from this time on that were refused.
    pub fn refused(&self, from: f64) -> f64 {
        let since = self.requests.iter().filter(|(at, _)| *at >= from);
        let refused = since.clone().filter(|(_, is_refused)| *is_refused).count();
        refused as f64 / since.count().max(1) as f64
    }
}

#[derive(Default)]
struct Object {
    tries: u32,
    first_failed: Option<(Time, Time)>,
}

/// Fetches so many objects. `reply` says what the service does with each request.
pub fn run(client: Client, objects: usize, mut reply: impl FnMut(Request) -> Reply) -> Run {
    let rules = Rules { max_retries: 10, timeout: s(180.0), many: false };
    let glance = Arc::new(Glance::new(false));
    glance.answered.set_any(); // the listing has answered
    let mut machine = Machine::new(rules, glance.clone());
    let began = Instant::now();
    let mut auto = Concurrency::new(
        Setup {
            workers: if let Client::Shoal(workers) = client { workers } else { Workers::Auto },
            reach: Reach::Network,
            lanes: 2,
            files_max: usize::MAX,
            memory_max: usize::MAX,
            learnt: None,
            storage: Storage::Other,
            writes: false,
        },
        began,
    );
    let mut states: HashMap<usize, Object> = HashMap::new();
    let mut run = Run { took: 0.0, failed: 0, requests: Vec::new(), written_at: 0.0 };
    let (mut fresh, mut again) = ((0..objects).collect::<VecDeque<_>>(), VecDeque::new());
    let mut later: BinaryHeap<Reverse<(Time, usize)>> = BinaryHeap::new();
    let mut ends: BinaryHeap<Reverse<(Time, usize, bool)>> = BinaryHeap::new();
    let mut replies: HashMap<usize, Reply> = HashMap::new();
    let (mut now, mut looked, mut settled, mut throttled) = (Time::ZERO, None::<Time>, 0, 0);
    while settled < objects {
        assert!(now < s(3_000.0), "an object does not end");
        machine.tick(now);
        let sample = Sample {
            objects: settled as u64,
            settled: settled as u64,
            beats: (now.as_secs_f64() / 0.02) as u64,
            bytes: settled as u64 * 1_000,
            in_flight: ends.len(),
            throttled,
            paused: glance.known.any_gated(),
            ..Sample::at(began + now)
        };
        if looked.is_none_or(|at| now - at >= auto.tick(began + now)) {
            looked = Some(now);
            auto.look(sample, || now / 10);
        }
        let next = now + TICK;
        loop {
            while later.peek().is_some_and(|it| it.0.0 <= now) {
                again.extend(later.pop().map(|it| it.0.1));
            }
            let places = match client {
                Client::Shoal(_) => auto.target(),
                Client::Pool(threads) => threads - later.len().min(threads),
            };
            while ends.len() < places && !(fresh.is_empty() && again.is_empty()) {
                let gate = if matches!(client, Client::Pool(_)) { Gate::Open } else { machine.gate(HOST, now) };
                if matches!(gate, Gate::Closed | Gate::Away) {
                    break;
                }
                let is_gated = glance.known.any_gated();
                let object = match is_gated {
                    true => fresh.pop_front().or_else(|| again.pop_front()),
                    false => again.pop_front().or_else(|| fresh.pop_front()),
                };
                let Some(object) = object else { break };
                let at = now.as_secs_f64();
                let answer = reply(Request { now: at, nth: run.requests.len(), others: ends.len(), object });
                let (takes, refuses) = match answer {
                    Reply::Answers(takes) => (takes, false),
                    Reply::Fails(takes, kind) | Reply::Asks(takes, kind, _) => (takes, kind == Kind::Throttled),
                    Reply::Never => (30.0, false),
                };
                run.requests.push((at, refuses));
                replies.insert(object, answer);
                ends.push(Reverse((now + s(takes), object, gate == Gate::Probe)));
            }
            let Some(&Reverse((at, object, probe))) = ends.peek().filter(|end| end.0.0 <= next) else { break };
            ends.pop();
            now = at;
            let error = match replies.remove(&object) {
                Some(Reply::Answers(_)) => {
                    machine.answered(HOST, probe, true, now);
                    (settled, run.written_at) = (settled + 1, now.as_secs_f64());
                    continue;
                }
                Some(Reply::Fails(_, kind)) => Error::new(kind, "it fails"),
                Some(Reply::Asks(_, kind, wait)) => Error::new(kind, "it asks to wait").retry_after(Some(s(wait))),
                _ => Error::new(Kind::Timeout, "no answer"),
            };
            throttled += u64::from(error.kind() == Kind::Throttled);
            if matches!(client, Client::Pool(_)) {
                later.push(Reverse((now + error.wait_asked().unwrap_or(s(1.0)), object)));
                continue;
            }
            let paused = machine.paused(HOST, now);
            let state = states.entry(object).or_default();
            state.tries += 1;
            let (first, paused_at_first) = *state.first_failed.get_or_insert((now, paused));
            let trying = (now - first).saturating_sub(paused.saturating_sub(paused_at_first));
            match machine.failed(&error, state.tries, trying, probe, now) {
                Verdict::Again(wait) => later.push(Reverse((now + wait, object))),
                Verdict::GiveUp => (settled, run.failed) = (settled + 1, run.failed + 1),
                Verdict::Uncharged => {
                    state.tries -= 1;
                    again.push_back(object);
                }
            }
        }
        now = next.max(now);
    }
    run.took = now.as_secs_f64();
    run
}

//! A list of URLs in virtual time. One lane asks as the engine does: in the order of the list, past hosts that take no request
//! now. Not here: the cases (`mod.rs`).

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, HostId, Kind};
use crate::hosts::Rules;
use crate::hosts::host::{Gate, Time};
use crate::hosts::machine::{Glance, Machine, Verdict};
use crate::hosts::places::Places;
use crate::hosts::silence::{LOOK, Patience};

const TICK: Time = Time::from_millis(20);

pub fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// What a host does with a request.
#[derive(Clone, Copy)]
pub enum Reply {
    Answers(f64),
    Fails(f64, Kind),
    /// It fails so, and asks to wait for so long.
    Asks(f64, Kind, f64),
    Never,
}

/// A request, as a host sees it.
pub struct Request {
    pub now: f64,
    /// How many came before it, and how many others it is working on.
    pub nth: usize,
    pub others: usize,
    /// The number of the object among those of this host.
    pub object: usize,
}

/// How a host behaves.
pub struct Host {
    reply: Box<dyn FnMut(Request) -> Reply>,
    /// Connections are made to it.
    connects: bool,
    objects: usize,
}

pub fn host(objects: usize, connects: bool, reply: impl FnMut(Request) -> Reply + 'static) -> Host {
    Host { reply: Box::new(reply), connects, objects }
}

pub fn healthy(objects: usize) -> Host {
    host(objects, true, |_| Reply::Answers(0.02))
}

pub fn absent(objects: usize) -> Host {
    host(objects, false, |_| Reply::Fails(0.001, Kind::Connect))
}

pub fn silent(objects: usize, connects: bool) -> Host {
    host(objects, connects, |_| Reply::Never)
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Outcome {
    Written,
    Failed,
}

pub struct Object {
    pub host: usize,
    /// Its number among those of its host.
    pub number: usize,
    pub tries: u32,
    pub first_failed: Option<(Time, Duration)>,
    pub outcome: Option<(Outcome, Time)>,
}

#[derive(Default)]
pub struct Site {
    pub fresh: VecDeque<usize>,
    pub again: VecDeque<usize>,
    pub requests: usize,
    pub connections: usize,
    pub most: usize,
    pub is_connected: bool,
    pub heard: Option<Time>,
    pub first_heard: Option<Time>,
    /// When each request was sent, and its object.
    pub asked: Vec<(Time, usize)>,
}

pub struct World {
    pub hosts: Vec<Host>,
    pub sites: Vec<Site>,
    pub objects: Vec<Object>,
    pub machine: Machine,
    pub glance: Arc<Glance>,
    pub places: Places<usize>,
    /// Hosts with something to ask for, by their next object; and those that took no request since the last tick.
    pub ready: BTreeSet<(usize, usize)>,
    pub parked: Vec<usize>,
    pub later: BinaryHeap<Reverse<(Time, usize)>>,
    /// Requests under way: their objects, when they were sent, and when and how they end.
    pub sent: HashMap<usize, Time>,
    pub ends: BinaryHeap<Reverse<(Time, usize)>>,
    pub replies: HashMap<usize, Reply>,
    pub now: Time,
    pub stopped: Option<Error>,
    /// Objects that have not ended.
    pub left: usize,
    pub patience: Patience,
    pub timeouts: (f64, f64),
    pub per_host: usize,
    pub workers: usize,
}

/// What may be set for a run.
pub struct Settings {
    pub workers: usize,
    pub hanging_max: usize,
    pub per_host: usize,
    pub retry_timeout: f64,
    pub max_retries: u32,
    pub timeout: f64,
    pub connect_timeout: f64,
}

pub const DEFAULT: Settings = Settings {
    workers: 256,
    hanging_max: 400,
    per_host: 6,
    retry_timeout: 180.0,
    max_retries: 10,
    timeout: 30.0,
    connect_timeout: 10.0,
};

impl World {
    pub fn new(hosts: Vec<Host>, settings: &Settings) -> World {
        let rules = Rules { max_retries: settings.max_retries, timeout: s(settings.retry_timeout), many: true };
        let glance = Arc::new(Glance::new(true));
        let mut order: Vec<usize> =
            hosts.iter().enumerate().flat_map(|(host, of)| std::iter::repeat_n(host, of.objects)).collect();
        fastrand::Rng::with_seed(7).shuffle(&mut order);
        let mut sites: Vec<Site> = hosts.iter().map(|_| Site::default()).collect();
        let mut objects = Vec::new();
        for (object, &host) in order.iter().enumerate() {
            let number = sites[host].fresh.len();
            objects.push(Object { host, number, tries: 0, first_failed: None, outcome: None });
            sites[host].fresh.push_back(object);
        }
        let ready = sites.iter().enumerate().filter_map(|(host, site)| Some((*site.fresh.front()?, host))).collect();
        World {
            objects,
            machine: Machine::new(rules, glance.clone()),
            glance,
            places: Places::new(settings.hanging_max),
            parked: Vec::new(),
            later: BinaryHeap::new(),
            sent: HashMap::new(),
            ends: BinaryHeap::new(),
            replies: HashMap::new(),
            now: Time::ZERO,
            stopped: None,
            left: order.len(),
            patience: Patience::new(s(settings.timeout), s(settings.connect_timeout)),
            timeouts: (settings.timeout, settings.connect_timeout),
            per_host: settings.per_host,
            workers: settings.workers,
            hosts,
            sites,
            ready,
        }
    }

    fn id(host: usize) -> HostId {
        HostId(xxhash_rust::xxh3::xxh3_64(&host.to_le_bytes()))
    }

    /// Runs until every object has ended, or the run stops.
    pub fn run(mut self) -> World {
        self.glance.answered.set_any(); // the list is short: all of it was read
        let mut looked = Time::ZERO;
        while self.stopped.is_none() && self.left > 0 {
            assert!(self.now < s(20_000.0), "an object does not end: {:?}", self.unended());
            self.machine.tick(self.now);
            self.stopped = self.machine.unreachable("the server", self.now);
            for host in std::mem::take(&mut self.parked) {
                self.is_ready(host);
            }
            if self.now - looked >= LOOK {
                looked = self.now;
                self.look();
            }
            self.ask();
            let next = self.now + TICK;
            while let Some(&Reverse((at, object))) = self.ends.peek().filter(|end| end.0.0 <= next) {
                self.ends.pop();
                self.now = at;
                self.ended(object);
                self.ask();
            }
            self.now = next;
        }
        self
    }

    fn unended(&self) -> Vec<usize> {
        self.objects.iter().filter(|object| object.outcome.is_none()).map(|object| object.host).collect()
    }

    fn is_ready(&mut self, host: usize) {
        let site = &self.sites[host];
        if let Some(next) = site.fresh.front().into_iter().chain(site.again.front()).min() {
            self.ready.insert((*next, host));
        }
    }

    /// Requests what may be requested.
    fn ask(&mut self) {
        while let Some(&Reverse((at, object))) = self.later.peek()
            && at <= self.now
        {
            self.later.pop();
            let host = self.objects[object].host;
            self.sites[host].again.push_back(object);
            self.is_ready(host);
        }
        let unheard = (self.workers / 2).max(1);
        while !self.places.are_full(self.workers, unheard)
            && let Some((_, host)) = self.ready.pop_first()
        {
            let (id, answered) = (World::id(host), self.glance.answered.has(World::id(host)));
            let is_crowded = self.places.in_flight() * 2 >= self.workers;
            let site = &mut self.sites[host];
            let most = if !site.is_connected || is_crowded && !answered { 1 } else { self.per_host };
            let has_room = site.connections < most && (answered || self.places.room_for_unheard(unheard) > 0);
            let gate = match self.machine.look(id, self.now) {
                Gate::Open | Gate::Probe if has_room => self.machine.gate(id, self.now),
                Gate::Away => Gate::Away,
                _ => Gate::Closed,
            };
            match gate {
                Gate::Closed => self.parked.push(host),
                Gate::Away => {
                    let objects: Vec<usize> = site.fresh.drain(..).chain(site.again.drain(..)).collect();
                    objects.into_iter().for_each(|object| self.settle(object, Outcome::Failed));
                }
                Gate::Open | Gate::Probe => {
                    // An object that has not failed yet tells most about a host that is not well.
                    let is_well = !self.glance.known.may_have(id);
                    let object = match is_well {
                        true => site.again.pop_front().or_else(|| site.fresh.pop_front()),
                        false => site.fresh.pop_front().or_else(|| site.again.pop_front()),
                    };
                    if let Some(object) = object {
                        self.send(object, gate == Gate::Probe, !answered);
                    }
                    self.is_ready(host);
                }
            }
        }
    }

    fn send(&mut self, object: usize, probe: bool, is_unheard: bool) {
        let Object { host: index, number, .. } = self.objects[object];
        let (host, site) = (&mut self.hosts[index], &mut self.sites[index]);
        let now = self.now.as_secs_f64();
        let request = Request { now, nth: site.requests, others: site.connections, object: number };
        site.requests += 1;
        site.connections += 1;
        site.most = site.most.max(site.connections);
        site.asked.push((self.now, object));
        let reply = (host.reply)(request);
        let takes = match reply {
            Reply::Answers(takes) | Reply::Fails(takes, _) | Reply::Asks(takes, ..) => takes,
            Reply::Never => {
                if host.connects {
                    self.timeouts.0
                } else {
                    self.timeouts.1
                }
            }
        };
        site.is_connected |= host.connects;
        if probe {
            self.places.probes(object);
        }
        self.places.asks(object, is_unheard);
        self.sent.insert(object, self.now);
        self.replies.insert(object, reply);
        self.ends.push(Reverse((self.now + s(takes), object)));
    }

    /// Looks for requests that hang.
    fn look(&mut self) {
        let mut hanging = Vec::new();
        for (&object, &sent) in &self.sent {
            let host = self.objects[object].host;
            let heard = self.sites[host].heard.map(|heard| self.now.saturating_sub(heard));
            if self.patience.is_over(self.now.saturating_sub(sent), heard, self.glance.answered.has(World::id(host))) {
                hanging.push(object);
            }
        }
        hanging.sort_unstable();
        for object in hanging {
            let host = self.objects[object].host;
            self.sent.remove(&object); // told once
            self.machine.hangs(World::id(host), self.sites[host].is_connected, self.now);
            self.places.probes(object);
            self.places.hangs(object);
        }
    }

    fn ended(&mut self, object: usize) {
        let (host, reply) = (self.objects[object].host, self.replies.remove(&object));
        let (id, (_, probe)) = (World::id(host), self.places.arrives(object));
        self.places.ends();
        self.sent.remove(&object);
        self.sites[host].connections -= 1;
        let error = match reply {
            Some(Reply::Answers(_)) => {
                self.sites[host].heard = Some(self.now);
                self.sites[host].first_heard.get_or_insert(self.now);
                self.machine.answered(id, probe, true, self.now);
                self.settle(object, Outcome::Written);
                return self.is_ready(host);
            }
            Some(Reply::Fails(_, kind)) => Error::new(kind, "it fails"),
            Some(Reply::Asks(_, kind, wait)) => Error::new(kind, "it asks to wait").retry_after(Some(s(wait))),
            _ => Error::new(if self.hosts[host].connects { Kind::Timeout } else { Kind::Connect }, "no answer"),
        };
        self.failed(object, &error.host(id), probe);
        self.is_ready(host);
    }

    fn failed(&mut self, object: usize, error: &Error, probe: bool) {
        let (now, id) = (self.now, error.host_id());
        let paused = self.machine.paused(id, now);
        let of = &mut self.objects[object];
        of.tries += 1;
        let (first, paused_at_first) = *of.first_failed.get_or_insert((now, paused));
        let trying = (now - first).saturating_sub(paused.saturating_sub(paused_at_first));
        match self.machine.failed(error, of.tries, trying, probe, now) {
            Verdict::Again(wait) => self.later.push(Reverse((now + wait, object))),
            Verdict::GiveUp => self.settle(object, Outcome::Failed),
            Verdict::Uncharged => {
                of.tries -= 1;
                let wait = self.machine.wait_of_others(id, now).filter(|_| probe);
                match wait {
                    _ if probe && self.machine.look(id, now) == Gate::Away => self.settle(object, Outcome::Failed),
                    Some(wait) => self.later.push(Reverse((now + wait, object))),
                    None => self.sites[self.objects[object].host].again.push_back(object),
                }
            }
        }
    }

    fn settle(&mut self, object: usize, outcome: Outcome) {
        let before = self.objects[object].outcome.replace((outcome, self.now));
        assert_eq!(before, None, "an object has ended twice");
        self.left -= 1;
    }

    pub fn count(&self, hosts: impl Fn(usize) -> bool, outcome: Outcome) -> usize {
        let is = |object: &&Object| hosts(object.host) && object.outcome.is_some_and(|(it, _)| it == outcome);
        self.objects.iter().filter(is).count()
    }

    /// When the last object of these hosts had ended.
    pub fn end_of(&self, hosts: impl Fn(usize) -> bool) -> f64 {
        let ends = self.objects.iter().filter(|object| hosts(object.host)).filter_map(|object| object.outcome);
        ends.map(|(_, at)| at.as_secs_f64()).fold(0.0, f64::max)
    }
}

//! The connections of one lane: for each host the objects that wait for it, and how many connections fetch them. Not here:
//! one connection (`shoal-http`), what its answers mean (`fetch.rs`), what all lanes share (`hosts.rs`).
//!
//! A lane takes an object only if its host has room, so what waits here is little: a connection has it soon. A connection
//! that has nothing to do takes objects for all hosts. Connections of one host to which requests carry different users are
//! not shared.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use shoal_http::Client;
use tokio::sync::Notify;

use super::Shared;
use super::address::{Url, target_at};
use super::asked::Asked;
use super::by_host::ByHost;
use super::hosts::{Hosts, Site};
use super::refusal::of_object;
use super::usual_depth::Untold;
use crate::error::{Error, HostId, Kind};
use crate::findings::Findings;
use crate::hosts::Time;
use crate::source::http_objects::connections_wanted;
use crate::source::{Hangs, Job, JobId, Lane, Limits, Take};

/// Objects after which the lane is asked again how much it may do.
const LOOK_EACH: u32 = 16;

/// The objects and connections of a lane.
pub(super) struct Pools {
    pub lane: Rc<dyn Lane>,
    pub shared: Arc<Shared>,
    pub findings: Arc<Findings>,
    /// As the lane said last.
    limits: Cell<Limits>,
    /// Objects until it is asked again.
    looks_in: Cell<u32>,
    hosts: RefCell<ByHost<Rc<Host>>>,
    /// Pools for which a connection is to be started: it is counted already.
    pub starts: RefCell<Vec<Rc<Pool>>>,
    /// There is something in `starts`, or the lane has stopped.
    pub changed: Notify,
    pub stopped: Cell<bool>,
    /// Connections that have nothing to do.
    pub idle: Cell<usize>,
    /// Some host had no room for a reason of which nothing tells when it is over: look again soon.
    pub looks_again: Cell<bool>,
    /// The lane waits for `changed`.
    pub waits: Cell<bool>,
    /// Requests of this lane that do not count for `Shared::usual_depth` yet.
    untold: Cell<Untold>,
}

/// A host, as one lane uses it.
pub(super) struct Host {
    pub site: Arc<Site>,
    /// Objects that wait or are requested.
    jobs: Cell<usize>,
    pub connections: Cell<usize>,
    /// It has work and no connection, and `site` knows.
    wants: Cell<bool>,
    /// Something has arrived from it since the last look for what hangs.
    pub arrived: Cell<bool>,
    pools: RefCell<Vec<Rc<Pool>>>,
}

/// The objects and connections of one client.
pub(super) struct Pool {
    pub id: HostId,
    pub host: Rc<Host>,
    pub client: Arc<Client>,
    /// How URLs of this client begin, as in that for which it was made.
    pub service: String,
    pub queue: RefCell<VecDeque<Job>>,
    pub connections: Cell<usize>,
    /// What each of them requests.
    pub asked: RefCell<Vec<Rc<Asked>>>,
    pub wake: Notify,
}

impl Pools {
    pub fn new(shared: Arc<Shared>, lane: Rc<dyn Lane>, findings: Arc<Findings>) -> Pools {
        let limits = Cell::new(lane.limits());
        Pools {
            lane,
            shared,
            findings,
            limits,
            looks_in: Cell::new(LOOK_EACH),
            hosts: RefCell::default(),
            starts: RefCell::default(),
            changed: Notify::new(),
            stopped: Cell::new(false),
            idle: Cell::new(0),
            looks_again: Cell::new(false),
            waits: Cell::new(false),
            untold: Cell::default(),
        }
    }

    /// How much the lane may do at once.
    pub fn limits(&self) -> Limits {
        self.limits.get()
    }

    /// Asks the lane how much it may do at once.
    pub fn look(&self) {
        self.limits.set(self.lane.limits());
        self.looks_in.set(LOOK_EACH);
    }

    /// The same, but not for each object: the lane is woken when its limits have changed.
    pub fn look_again_in_time(&self) {
        match self.looks_in.get() {
            0 => self.look(),
            left => self.looks_in.set(left - 1),
        }
    }

    /// A request is sent by a client.
    pub fn asks(&self, client: &Client) {
        let depth = client.pipelining.proven_depth(usize::MAX);
        self.untold.set(self.shared.usual_depth.asks(self.untold.get(), depth, &self.findings));
    }

    /// Has the lane look again soon. It may be asleep, as connections take objects too.
    ///
    /// While it is not, it sees this itself before it waits. Notified by itself it would never wait, and its connections,
    /// which are on the same thread, would never run.
    fn look_again(&self) {
        if !self.looks_again.replace(true) && self.waits.get() {
            self.changed.notify_one();
        }
    }

    /// Takes an object from the lane, and puts it where its connection finds it. False if there is none now. `own`: the pool
    /// of the connection that needs one.
    pub fn take(&self, own: Option<&Rc<Pool>>) -> bool {
        match self.lane.take_if(own.map(|own| own.id), &|host| self.has_room(host)) {
            Take::Job(job) => {
                self.put(job, own);
                true
            }
            Take::Wait => false,
            Take::Stop => {
                self.stop();
                false
            }
        }
    }

    /// Ends all connections that have nothing to do; the others end when they are done.
    fn stop(&self) {
        self.stopped.set(true);
        for host in self.hosts.borrow().values() {
            host.pools.borrow().iter().for_each(|pool| pool.wake.notify_waiters());
        }
        self.changed.notify_one();
    }

    /// Whether another object can be requested from a host now. The lane is busy when it calls this.
    fn has_room(&self, id: HostId) -> bool {
        let hosts = self.hosts.borrow();
        let Some(host) = hosts.get(&id) else { return !self.shared.hosts.is_tried(id) };
        let limits = self.limits.get();
        if limits.is_crowded && host.jobs.get() > 0 && !self.lane.has_answered(id) {
            return false; // what it has may take long
        }
        let has_room = host.jobs.get() < host.room(limits, &self.shared);
        if has_room && !host.site.is_due() {
            self.look_again();
            return false;
        }
        if !has_room && host.connections.get() == 0 {
            self.look_again(); // another lane gives one up
        }
        has_room
    }

    fn put(&self, job: Job, own: Option<&Rc<Pool>>) {
        let entry = job.entry();
        if entry.unlisted.is_some() {
            let why = String::from_utf8_lossy(job.request()).into_owned();
            return self.lane.failed(job, Error::new(Kind::Unsupported, why));
        }
        let pool = match self.pool(&job) {
            Ok(pool) => pool,
            Err(error) => return self.lane.failed(job, error),
        };
        pool.host.site.requested();
        pool.host.jobs.set(pool.host.jobs.get() + 1);
        pool.queue.borrow_mut().push_back(job);
        if !own.is_some_and(|own| Rc::ptr_eq(own, &pool)) {
            pool.wake.notify_one();
        }
        self.start(&pool);
    }

    /// The pool of an object.
    fn pool(&self, job: &Job) -> Result<Rc<Pool>, Error> {
        let id = job.entry().host;
        let mut hosts = self.hosts.borrow_mut();
        let host = hosts.entry(id).or_insert_with(|| {
            Rc::new(Host {
                site: self.shared.hosts.site(id),
                jobs: Cell::new(0),
                connections: Cell::new(0),
                wants: Cell::new(false),
                arrived: Cell::new(false),
                pools: RefCell::default(),
            })
        });
        if let Some(pool) = host.pools.borrow().iter().find(|pool| target_at(job.request(), &pool.service).is_some()) {
            return Ok(pool.clone());
        }
        let text = std::str::from_utf8(job.request());
        let text = text.map_err(|_| Error::new(Kind::Internal, "a URL in a partition is damaged"))?;
        let url = Url::parse(text).map_err(|why| Error::new(Kind::Unsupported, why))?;
        let client = self.shared.hosts.client(&host.site, &url)?;
        let known = host.pools.borrow().iter().find(|pool| Arc::ptr_eq(&pool.client, &client)).cloned();
        Ok(known.unwrap_or_else(|| {
            let pool = Rc::new(Pool {
                id,
                host: host.clone(),
                client,
                service: url.service(),
                queue: RefCell::default(),
                connections: Cell::new(0),
                asked: RefCell::default(),
                wake: Notify::new(),
            });
            host.pools.borrow_mut().push(pool.clone());
            pool
        }))
    }

    /// Starts another connection for a pool, if it needs one and may have it.
    pub fn start(&self, pool: &Rc<Pool>) {
        let waiting = pool.queue.borrow().len();
        if waiting == 0 || self.stopped.get() || pool.connections.get() >= pool.wanted(self.limits.get()) {
            return;
        }
        let host = &pool.host;
        if host.can_connect(&self.shared) && host.site.connect() {
            host.connections.set(host.connections.get() + 1);
            pool.connections.set(pool.connections.get() + 1);
            host.set_wanting(host.has_pool_without_connection());
            self.starts.borrow_mut().push(pool.clone());
            self.changed.notify_one();
        } else if pool.connections.get() == 0 {
            host.set_wanting(true);
            self.look_again();
        }
    }

    /// Starts connections for pools that have work and none.
    pub fn start_wanting(&self) {
        let waits = |host: &Rc<Host>| {
            host.pools.borrow().iter().filter(|pool| !pool.queue.borrow().is_empty()).cloned().collect::<Vec<_>>()
        };
        let waiting: Vec<Rc<Pool>> =
            self.hosts.borrow().values().filter(|host| host.wants.get()).flat_map(waits).collect();
        waiting.iter().for_each(|pool| self.start(pool));
    }

    /// A connection has ended. What nothing uses any more is forgotten.
    pub fn ended(&self, pool: &Rc<Pool>) {
        let host = &pool.host;
        host.connections.set(host.connections.get() - 1);
        pool.connections.set(pool.connections.get() - 1);
        host.site.disconnected();
        self.start(pool);
        if !pool.queue.borrow().is_empty() {
            pool.wake.notify_one(); // it may have been woken for what waits, and ended instead
        }
        if host.connections.get() == 0 && host.jobs.get() == 0 {
            host.set_wanting(false);
            self.hosts.borrow_mut().remove(&pool.id);
            host.pools.borrow_mut().clear(); // pools and hosts hold each other
        }
    }

    /// Tells the lane which requests hang, and gives back what waits for connections that are silent.
    pub fn tell_what_hangs(&self) {
        let now = self.shared.hosts.now();
        let (mut hanging, mut waiting) = (Vec::new(), Vec::new());
        for (id, host) in self.hosts.borrow().iter() {
            let hangs = host.hanging(now, self.lane.stalled(), self.lane.has_answered(*id), &self.shared.hosts);
            if hangs.iter().any(|(_, why)| matches!(why, Hangs::Silent { .. })) {
                waiting.extend(host.take_waiting());
            }
            hanging.extend(hangs);
        }
        hanging.into_iter().for_each(|(job, why)| self.lane.hangs(job, why));
        waiting.into_iter().for_each(|job| self.lane.requeued(job));
    }

    /// Gives back what was not requested.
    pub fn give_back(&self) {
        for (_, host) in self.hosts.borrow_mut().drain() {
            host.set_wanting(false);
            for pool in host.pools.borrow_mut().drain(..) {
                pool.queue.borrow_mut().drain(..).for_each(|job| self.lane.requeued(job));
            }
        }
    }
}

impl Host {
    /// An object was answered.
    pub fn answered(&self) {
        self.jobs.set(self.jobs.get().saturating_sub(1));
    }

    /// Its requests that hang and have not been told yet. `stalled`: how long the lane was busy writing, when it receives
    /// nothing.
    fn hanging(&self, now: Time, stalled: Duration, has_answered: bool, hosts: &Hosts) -> Vec<(JobId, Hangs)> {
        if self.arrived.replace(false) {
            self.site.hears(now);
        }
        let heard = self.site.heard(now);
        let mut hanging = Vec::new();
        for asked in self.pools.borrow().iter().flat_map(|pool| pool.asked.borrow().clone()) {
            let Some(waited) = asked.silent_for(now.saturating_sub(stalled)) else { continue };
            let why = match asked.is_redirected() {
                true if hosts.patience.is_over_behind(waited) => Hangs::Behind,
                false if hosts.patience.is_over(waited, heard, has_answered) => {
                    Hangs::Silent { is_connected: self.site.is_reached() }
                }
                _ => continue,
            };
            hanging.extend(asked.tell().into_iter().map(|job| (job, why)));
        }
        hanging
    }

    /// The objects that no connection has requested yet.
    fn take_waiting(&self) -> Vec<Job> {
        let waiting: Vec<Job> = self.pools.borrow().iter().flat_map(|pool| pool.queue.take()).collect();
        waiting.iter().for_each(|_| self.answered());
        self.set_wanting(false);
        waiting
    }

    /// Whether another pool, of another user, has work and no connection.
    fn has_pool_without_connection(&self) -> bool {
        self.pools.borrow().iter().any(|pool| pool.connections.get() == 0 && !pool.queue.borrow().is_empty())
    }

    fn set_wanting(&self, wants: bool) {
        if self.wants.replace(wants) != wants {
            self.site.set_wanting(wants);
        }
    }

    /// Whether this lane may have another connection: not where another lane has none, and this one its part.
    fn can_connect(&self, shared: &Shared) -> bool {
        let is_others = self.site.is_wanted() && self.connections.get() >= shared.hosts.fair();
        self.site.can_connect() && !is_others
    }

    /// How many objects this lane can have with it.
    fn room(&self, limits: Limits, shared: &Shared) -> usize {
        let pools = self.pools.borrow();
        let (mut room, mut can_connect) = (0, self.can_connect(shared));
        for pool in pools.iter() {
            let policy = &pool.client.pipelining;
            let (connections, wanted) = (pool.connections.get(), pool.wanted(limits));
            let more = wanted.saturating_sub(connections).min(usize::from(can_connect));
            can_connect &= more == 0;
            room += (connections.min(wanted) + more) * policy.proven_depth(limits.depth);
            // One more than there are connections, to find out if pipelining helps.
            let helps = policy.needs_probe() && policy.depth(limits.depth) > 1;
            room += usize::from(helps && self.site.is_reached());
        }
        room
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.set_wanting(false);
    }
}

impl Pool {
    /// Connections that what may be in flight on the lane takes, if all of it is for this host.
    pub fn wanted(&self, limits: Limits) -> usize {
        connections_wanted(limits, &self.client.pipelining).max(1)
    }

    /// An object was answered with an error. `behind`: of a host to which this one has redirected.
    pub fn failed(&self, pools: &Pools, job: Job, error: Error, behind: bool) {
        if error.class() == crate::error::Class::Retry {
            pools.shared.keep(job.entry().locator, job.request());
        }
        let error = of_object(error, &self.client.address.authority());
        pools.lane.failed(job, if behind { error.behind_host() } else { error });
    }
}

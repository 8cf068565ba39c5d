//! What all lanes share of the hosts of a list: connections, pace, and clients. Not here: what one lane requests from a host
//! (`pools.rs`), what is known of hosts (`hosts/`).

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use shoal_http::{Address, AllowedHost, Attempts, Client, Refuses, Remarks, check_headers};
use tokio::sync::Notify;

use super::UrlsOptions;
use super::address::Url;
use super::by_host::ByHost;
use crate::error::{HostId, Kind, Result};
use crate::hosts::{Patience, Targets, Time};
use crate::poison::ignore_poison;
use crate::source::http_objects::{self, Reach};

/// Hosts that are kept before those without work are forgotten.
const KEPT_MAX: usize = 4096;

/// How long after a connection without a file descriptor none is kept that has nothing to do.
const CROWDED: Duration = Duration::from_secs(1);

/// All hosts, and what is the same for each.
pub(super) struct Hosts {
    options: UrlsOptions,
    allowed: Vec<AllowedHost>,
    pub reach: Reach,
    pub remarks: Arc<Remarks>,
    /// Those to which redirects lead.
    targets: Arc<Targets>,
    /// With requests that have no answer.
    pub patience: Patience,
    began: Instant,
    sites: Mutex<ByHost<Arc<Site>>>,
    /// How many lanes share the connections.
    lanes: AtomicUsize,
    /// Until when no connection is kept that has nothing to do: others lacked a file descriptor.
    crowded: Mutex<Option<Instant>>,
}

impl Hosts {
    /// # Errors
    /// [`Kind::Config`] for a header or host that is not valid, and for certificates that cannot be read.
    pub fn new(options: &UrlsOptions) -> Result<Hosts> {
        check_headers(&options.http.headers)?;
        Ok(Hosts {
            options: options.clone(),
            allowed: options.http.allow_host.iter().map(|host| AllowedHost::parse(host)).collect::<Result<_>>()?,
            reach: Reach::new(&options.http.connection)?,
            remarks: Arc::default(),
            targets: Arc::new(Targets::new(options.http.connection.retry_timeout)),
            patience: Patience::new(options.http.connection.timeout, options.http.connection.connect_timeout),
            began: Instant::now(),
            sites: Mutex::default(),
            lanes: AtomicUsize::new(0),
            crowded: Mutex::default(),
        })
    }

    /// One more lane shares the connections.
    pub fn lane_begins(&self) {
        self.lanes.fetch_add(1, Relaxed);
    }

    /// One fewer does.
    pub fn lane_ends(&self) {
        self.lanes.fetch_sub(1, Relaxed);
    }

    /// Connections to a host that a lane may keep while another one wants some.
    pub fn fair(&self) -> usize {
        (self.options.per_host / self.lanes.load(Relaxed).max(1)).max(1)
    }

    /// Time since the start.
    pub fn now(&self) -> Time {
        self.began.elapsed()
    }

    /// A connection was not made because no file descriptor was left.
    pub fn lacks_files(&self) {
        *ignore_poison(self.crowded.lock()) = Some(Instant::now() + CROWDED);
    }

    /// Whether that was so a moment ago.
    pub fn is_crowded(&self) -> bool {
        ignore_poison(self.crowded.lock()).is_some_and(|until| Instant::now() < until)
    }

    /// Whether another lane tries to connect to a host that none has reached.
    pub fn is_tried(&self, host: HostId) -> bool {
        let site = ignore_poison(self.sites.lock()).get(&host).cloned();
        site.is_some_and(|site| !site.is_reached() && !site.can_connect())
    }

    /// What is known of a host.
    pub fn site(&self, host: HostId) -> Arc<Site> {
        let mut sites = ignore_poison(self.sites.lock());
        if sites.len() >= KEPT_MAX && !sites.contains_key(&host) {
            sites.retain(|_, site| Arc::strong_count(site) > 1);
        }
        sites.entry(host).or_insert_with(|| Arc::new(Site::new(&self.options))).clone()
    }

    /// The client for a URL of this host.
    ///
    /// # Errors
    /// [`Kind::Config`] if its proxy cannot be used; [`Kind::BadAnswer`] if the URL is not one of a service.
    pub fn client(&self, site: &Site, url: &Url<'_>) -> Result<Arc<Client>> {
        let mut clients = ignore_poison(site.clients.lock());
        let is_its = |known: &&KnownClient| url.is_at(&known.client.address) && known.user.as_deref() == url.user();
        if let Some(known) = clients.iter().find(is_its) {
            return Ok(known.client.clone());
        }
        let client = Arc::new(self.new_client(site, url)?);
        if clients.len() >= USERS_MAX {
            clients.remove(0);
        }
        clients.push(KnownClient { user: url.user().map(str::to_owned), client: client.clone() });
        Ok(client)
    }

    fn new_client(&self, site: &Site, url: &Url<'_>) -> Result<Client> {
        let options = &self.options;
        let mut address = Address::parse(&url.service()).map_err(|error| error.into_kind(Kind::BadAnswer))?;
        let fields = http_objects::fields(&mut address, &options.http)?;
        let client = self.reach.client(address, fields)?;
        Ok(Client {
            attempts: site.attempts.clone(),
            leaves: true,
            // What the list names is the user's choice, and may be private.
            refuses: Refuses::LinkLocal,
            allowed: self.allowed.clone(),
            pipelining: http_objects::pipelining(&options.http, &client, &self.remarks),
            targets: Some(self.targets.clone()),
            remarks: self.remarks.clone(),
            ..client
        })
    }
}

/// Clients of one host that are kept: one for each user in its URLs.
const USERS_MAX: usize = 64;

/// A host, as all lanes know it.
pub(super) struct Site {
    per_host: usize,
    /// Connections of all lanes.
    connections: AtomicUsize,
    attempts: Arc<Attempts>,
    /// When something last arrived, about.
    heard: Mutex<Option<Time>>,
    /// Lanes that have work for it and no connection.
    wanting: AtomicUsize,
    /// One more does.
    pub wanted: Notify,
    pace: Option<Mutex<Pace>>,
    clients: Mutex<Vec<KnownClient>>,
}

struct KnownClient {
    user: Option<String>,
    client: Arc<Client>,
}

impl Site {
    fn new(options: &UrlsOptions) -> Site {
        Site {
            per_host: options.per_host,
            connections: AtomicUsize::new(0),
            attempts: Arc::default(),
            heard: Mutex::default(),
            wanting: AtomicUsize::new(0),
            wanted: Notify::new(),
            pace: options.limit_requests.map(|limit| Mutex::new(Pace::new(limit))),
            clients: Mutex::default(),
        }
    }

    /// Whether there may be another connection; if so, it is counted.
    pub fn connect(&self) -> bool {
        let most = self.connections_max();
        self.connections.fetch_update(Relaxed, Relaxed, |count| (count < most).then_some(count + 1)).is_ok()
    }

    /// Whether `connect` would say so now.
    pub fn can_connect(&self) -> bool {
        self.connections.load(Relaxed) < self.connections_max()
    }

    /// One, until a connection was made: lists have hosts to which none ever is, and each attempt may hang.
    fn connections_max(&self) -> usize {
        if self.is_reached() { self.per_host } else { 1 }
    }

    /// Whether a connection was made.
    pub fn is_reached(&self) -> bool {
        self.attempts.have_connected()
    }

    /// Something has arrived from it.
    pub fn hears(&self, now: Time) {
        *ignore_poison(self.heard.lock()) = Some(now);
    }

    /// How long ago something has, on any lane.
    pub fn heard(&self, now: Time) -> Option<Duration> {
        ignore_poison(self.heard.lock()).map(|heard| now.saturating_sub(heard))
    }

    /// A connection has ended.
    pub fn disconnected(&self) {
        self.connections.fetch_sub(1, Relaxed);
    }

    /// A lane has work and no connection; or no longer.
    pub fn set_wanting(&self, wants: bool) {
        if wants {
            self.wanting.fetch_add(1, Relaxed);
            self.wanted.notify_waiters(); // connections that have nothing to do, on any lane
        } else {
            self.wanting.fetch_sub(1, Relaxed);
        }
    }

    /// Whether some lane has work and no connection.
    pub fn is_wanted(&self) -> bool {
        self.wanting.load(Relaxed) > 0
    }

    /// Whether the pace allows a request now.
    pub fn is_due(&self) -> bool {
        self.pace.as_ref().is_none_or(|pace| ignore_poison(pace.lock()).is_due(Instant::now()))
    }

    /// A request is sent.
    pub fn requested(&self) {
        if let Some(pace) = &self.pace {
            ignore_poison(pace.lock()).spend(Instant::now());
        }
    }
}

/// Requests per second, spread evenly.
struct Pace {
    interval: Duration,
    /// When the next request is due.
    next: Option<Instant>,
}

/// How far requests may be behind their time and still be sent: lanes look every 20 ms.
const BEHIND: Duration = Duration::from_millis(50);

impl Pace {
    fn new(limit: f64) -> Pace {
        Pace { interval: Duration::from_secs_f64(1.0 / limit), next: None }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| next <= now)
    }

    fn spend(&mut self, now: Instant) {
        let next = self.next.unwrap_or(now);
        self.next = Some(next.max(now.checked_sub(BEHIND).unwrap_or(now)) + self.interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_kept_on_average_and_has_no_bursts() {
        let mut pace = Pace::new(100.0);
        let began = Instant::now();
        let mut sent = 0;
        for tick in 0..500 {
            let now = began + Duration::from_millis(20 * tick); // 10 s
            if tick == 250 {
                continue;
            }
            let before = sent;
            while pace.is_due(now) {
                pace.spend(now);
                sent += 1;
            }
            assert!(sent - before <= 6, "{} at once", sent - before);
        }
        assert!((980..=1001).contains(&sent), "{sent}");
    }

    #[test]
    fn connections_of_a_host_are_counted_over_all_lanes() {
        let options = UrlsOptions { per_host: 2, ..UrlsOptions::default() };
        let hosts = Hosts::new(&options).unwrap();
        let (one, other) = (hosts.site(HostId(7)), hosts.site(HostId(7)));
        one.attempts.connected(Duration::ZERO);
        assert!(one.connect() && other.connect() && !one.connect() && !other.can_connect());
        one.disconnected();
        assert!(other.connect());
        assert!(hosts.site(HostId(8)).connect());
    }

    #[test]
    fn a_client_is_one_for_the_address_and_the_user_whatever_the_id_of_the_host() {
        let hosts = Hosts::new(&UrlsOptions::default()).unwrap();
        let site = hosts.site(HostId(7));
        let client = |text: &str| hosts.client(&site, &Url::parse(text).unwrap()).unwrap();
        let all = ["http://h/x", "http://i/x", "http://h:81/x", "https://h:80/x", "http://u@h/x"].map(client);
        for (index, one) in all.iter().enumerate() {
            assert!(all[index + 1..].iter().all(|other| !Arc::ptr_eq(one, other)));
        }
        assert!(Arc::ptr_eq(&all[0], &client("HTTP://H:80/y")));
        assert_eq!((&*all[1].address.host, all[2].address.port, all[3].address.secure), ("i", 81, true));
    }

    #[test]
    fn a_host_gets_one_connection_until_one_is_made() {
        let hosts = Hosts::new(&UrlsOptions::default()).unwrap();
        assert!(!hosts.is_tried(HostId(7)));
        let site = hosts.site(HostId(7));
        assert!(site.connect() && !site.connect() && hosts.is_tried(HostId(7)));
        site.disconnected();
        assert!(!hosts.is_tried(HostId(7)), "another lane may try");
        assert!(site.connect());
        site.attempts.connected(Duration::ZERO);
        assert!((1..6).all(|_| site.connect()) && !site.connect() && !hosts.is_tried(HostId(7)));
    }

    #[test]
    fn what_is_kept_of_hosts_is_bounded() {
        let hosts = Hosts::new(&UrlsOptions::default()).unwrap();
        let used = hosts.site(HostId(1));
        used.connect();
        (2..20_000).for_each(|host| drop(hosts.site(HostId(host))));
        assert!(ignore_poison(hosts.sites.lock()).len() <= KEPT_MAX + 1);
        assert!(Arc::ptr_eq(&used, &hosts.site(HostId(1))), "a host with work stays");
    }
}

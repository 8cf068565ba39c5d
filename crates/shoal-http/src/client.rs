//! What all connections to one service share, and the fields of each request. Not here: one connection (`connection.rs`).

use std::sync::Arc;
use std::time::Duration;

use crate::attempts::Attempts;
use crate::changing::Fields;
use crate::cookies::Cookies;
use crate::head::Head;
use crate::message::Sign;
use crate::pipeline_policy::{Pipeline, PipelinePolicy};
use crate::proxy::{Proxies, Proxy};
use crate::redirect::AllowedHost;
use crate::remarks::Remarks;
use crate::tls::Tls;
use crate::url::{Address, Secret};
use shoal_core::display::escape;
use shoal_core::error::{Error, Kind, Result};
use shoal_core::option::valid_field;

/// What all connections to one service share.
#[derive(Debug)]
pub struct Client {
    /// Where it is.
    pub address: Address,
    /// Header lines of every request.
    pub fields: Fields,
    /// Those that it and the hosts behind its redirects have set.
    pub cookies: Arc<Cookies>,
    /// Signs each request.
    pub signer: Option<Arc<dyn Sign>>,
    /// Longest wait until the system accepts more of a request, for the next byte and for a whole head, and the window over which the least rate is measured.
    pub timeout: Duration,
    /// Longest wait for a connection to one address.
    pub connect_timeout: Duration,
    /// The proxies of the user, also for hosts to which redirects lead.
    pub proxies: Arc<Proxies>,
    /// That of them through which this address is requested.
    pub proxy: Option<Arc<Proxy>>,
    /// How connections to one of its addresses are attempted; through a proxy, only whether it was reached.
    pub attempts: Arc<Attempts>,
    /// Which certificates are trusted.
    pub tls: Arc<Tls>,
    /// The address came from a server (a redirect), not from the user.
    pub received: bool,
    /// Redirects may lead to any host, but from public addresses only to public ones, or to those of `allowed`.
    pub leaves: bool,
    /// Connections to addresses inside this machine's network, and inside other private ones, are refused.
    pub refuses: Refuses,
    /// A redirect led to it: its late connections say nothing about the service.
    pub is_other_host: bool,
    /// Other hosts to which redirects may lead.
    pub allowed: Vec<AllowedHost>,
    /// Whether requests are pipelined.
    pub pipelining: PipelinePolicy,
    /// What is known of the hosts to which redirects lead; `None`: each is asked every time.
    pub targets: Option<Arc<dyn Targets>>,
    /// What the report must say about the answers.
    pub remarks: Arc<Remarks>,
}

impl Client {
    /// One for this address. It sends `fields` (see [`request_fields`]) with each request, one request at a time; it reads no
    /// certificates before it needs them, and follows redirects within its origin only.
    pub fn new(address: Address, fields: impl Into<Fields>) -> Client {
        Client {
            address,
            fields: fields.into(),
            cookies: Arc::default(),
            signer: None,
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            proxies: Arc::default(),
            proxy: None,
            attempts: Arc::default(),
            tls: Arc::new(Tls::new(None, false)),
            received: false,
            leaves: false,
            refuses: Refuses::Nothing,
            is_other_host: false,
            allowed: Vec::new(),
            pipelining: PipelinePolicy::new(Pipeline::Off),
            targets: None,
            remarks: Arc::default(),
        }
    }

    /// A request was answered.
    pub(crate) fn answered(&self, head: &Head) {
        self.fields.answered(head);
        if !head.set_cookies().is_empty() {
            self.cookies.take(&self.address, head);
        }
    }

    /// The client of another host, to which a redirect leads. Headers and passwords are not sent there. `private`: the
    /// service has a private address.
    ///
    /// # Errors
    /// [`Kind::Config`] if it would be requested through a proxy that shoal cannot use.
    pub fn for_other_host(&self, address: Address, private: bool) -> Result<Client> {
        let may_be_private = !self.leaves || private || self.allowed.iter().any(|allowed| allowed.allows(&address));
        let is_own = self.address.is_same_origin(&address);
        Ok(Client {
            leaves: self.leaves,
            refuses: match may_be_private {
                _ if is_own => self.refuses,
                true => Refuses::LinkLocal,
                false => Refuses::Private,
            },
            timeout: self.timeout,
            connect_timeout: self.connect_timeout,
            proxies: self.proxies.clone(),
            proxy: self.proxies.of(&address)?,
            tls: self.tls.clone(),
            received: !is_own,
            is_other_host: true,
            cookies: self.cookies.clone(),
            remarks: self.remarks.clone(),
            // The other host may be farther away: what is known about connections to this one does not apply.
            ..Client::new(address.clone(), Secret::new(plain_fields(&address, |_| false)))
        })
    }

    /// The proxy that gets whole URLs, and not only a request for a tunnel.
    pub(crate) fn forwards(&self) -> Option<&Proxy> {
        self.proxy.as_deref().filter(|_| !self.address.secure)
    }
}

/// What is known of the hosts to which redirects lead, so that one that does not answer is not waited for each time.
pub trait Targets: std::fmt::Debug + Send + Sync {
    /// A redirect to this origin is about to be followed. Returns whether the request is a probe.
    ///
    /// # Errors
    /// Why that host is not to be asked now.
    fn ask(&self, origin: &str) -> Result<bool>;
    /// It has answered.
    fn answered(&self, origin: &str, probe: bool);
    /// The request failed. Returns the error, with what it means for the host.
    fn failed(&self, origin: &str, probe: bool, error: Error) -> Error;
}

/// Addresses to which no connection is made, by whatever name they are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refuses {
    /// None: the user has typed the address.
    Nothing,
    /// Those where clouds keep the credentials of their machines.
    LinkLocal,
    /// These, and those of private networks and of this machine.
    Private,
}

/// Whether these headers can be sent.
///
/// # Errors
/// [`Kind::Config`] if not.
pub fn check_headers(headers: &[(String, String)]) -> Result<()> {
    request_fields(&Address::new(false, String::new(), None), headers).map(drop)
}

/// The header lines of every request to this address.
///
/// # Errors
/// [`Kind::Config`] for a header that cannot be sent.
pub fn request_fields(address: &Address, headers: &[(String, String)]) -> Result<Secret> {
    let has = |wanted: &str| headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
    let mut lines = plain_fields(address, has);
    if let Some(authorization) = address.authorization.as_ref().filter(|_| !has("authorization")) {
        lines.push_str(&format!("Authorization: {}\r\n", authorization.reveal()));
    }
    for (name, value) in headers {
        let ours = [
            "host",
            "accept-encoding",
            "connection",
            "content-length",
            "transfer-encoding",
            "proxy-authorization",
            "range",
            "if-range",
            "shoal-request-id",
        ];
        if !valid_field(name, value) || ours.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            let why = "this header cannot be sent: its name or value has characters that are not allowed, or shoal \
            sets it itself";
            return Err(Error::new(Kind::Config, why).on(&escape(name.as_bytes())));
        }
        lines.push_str(&format!("{name}: {value}\r\n"));
    }
    Ok(Secret::new(lines))
}

/// The header lines that every service receives, but for those that the user sets.
fn plain_fields(address: &Address, is_set: impl Fn(&str) -> bool) -> String {
    let mut lines = format!("Host: {}\r\nAccept-Encoding: identity\r\n", address.authority());
    // Some services answer 406, or with a page for people, without `Accept`.
    for (name, value) in [("User-Agent", concat!("shoal/", env!("CARGO_PKG_VERSION"))), ("Accept", "*/*")] {
        if !is_set(name) {
            lines.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    lines
}

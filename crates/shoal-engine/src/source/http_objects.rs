//! What the sources that fetch objects by HTTP have in common: how many connections that takes, when a request is
//! conditional, and what an answer means to the lane.
//!
//! Not here: the client (`shoal-http`), which statuses are refused and why (`list_get/refusal.rs`, `urls/refusal.rs`).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use globset::GlobMatcher;
use shoal_http::{
    Address, CONDITION, Client, Doubt, Fields, Head, Passed, Pipeline, PipelinePolicy, Plan, Proxies, Remarks, Tls,
    Wants, request_fields,
};

use super::suffix::{self, Encoding, Form};
use super::{Body, ConnectionOptions, Decode, HttpOptions, Job, Lane, Limits, Written};
use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::object::{ObjectMeta, Payload};

/// Connections of a lane to a host until its first answer has shown whether requests can be sent ahead, and so how many it
/// takes.
const SCOUTS: usize = 4;
/// In flight on a lane before one connection fewer is used to find out if pipelining helps: of a few, one would be missed.
const DOUBTED: usize = 16;

/// Longest entity tag that is kept, in bytes.
const TAG_MAX: usize = 256;
const TAG: &str = "etag";
const TYPE: &str = "content-type";
/// What failures call a login page or one that says "not found".
pub(super) const PAGE: &str = "an HTML page";

/// Connections to one host that what may be in flight on a lane takes.
pub(super) fn connections_wanted(limits: Limits, pipelining: &PipelinePolicy) -> usize {
    let wanted = limits.in_flight.div_ceil(pipelining.proven_depth(limits.depth));
    if pipelining.is_unknown() {
        wanted.min(SCOUTS)
    } else if pipelining.needs_probe() && limits.in_flight >= DOUBTED && pipelining.depth(limits.depth) > 1 {
        wanted - 1 // one of them has two objects in flight, to find out
    } else {
        wanted
    }
}

/// Requests that a connection may have unanswered.
pub(super) fn depth(limits: Limits, pipelining: &PipelinePolicy) -> usize {
    // The last objects would wait for each other, to find out what is of no use any more.
    if limits.is_ending && !pipelining.works() { 1 } else { limits.depth }
}

/// How hosts are reached, for all clients of a source.
#[derive(Clone, Debug)]
pub struct Reach {
    options: ConnectionOptions,
    tls: Arc<Tls>,
    proxies: Arc<Proxies>,
}

impl Reach {
    /// # Errors
    /// [`Kind::Config`] for certificates that cannot be read, and for a proxy that cannot be used.
    pub fn new(options: &ConnectionOptions) -> Result<Reach> {
        let tls = Arc::new(Tls::new(options.ca_file.clone(), options.insecure));
        if options.ca_file.is_some() {
            tls.prepare()?;
        }
        Ok(Reach { options: options.clone(), tls, proxies: proxies(options)? })
    }

    /// A client of the service at this address, which sends these header lines.
    ///
    /// # Errors
    /// As [`Reach::new`].
    pub fn client(&self, address: Address, fields: Fields) -> Result<Client> {
        if address.secure {
            self.tls.prepare()?;
        }
        Ok(Client {
            timeout: self.options.timeout.max(Duration::from_millis(1)),
            connect_timeout: self.options.connect_timeout.max(Duration::from_millis(1)),
            proxies: self.proxies.clone(),
            proxy: self.proxies.of(&address)?,
            tls: self.tls.clone(),
            ..Client::new(address, fields)
        })
    }

    /// What the report must say before anything is sent.
    pub fn note(&self) -> Option<String> {
        let insecure =
            "`insecure=True`: no certificate was checked; any machine on the way can read and change everything";
        self.options.insecure.then(|| insecure.to_owned())
    }
}

/// The proxies of the user.
fn proxies(options: &ConnectionOptions) -> Result<Arc<Proxies>> {
    // Bytes that are no text make it the URL of no proxy, and are not passed over.
    let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    Proxies::new(options.proxy.as_deref(), variable, options.retry_timeout).map(Arc::new)
}

/// Whether requests to an address are pipelined. A proxy that gets whole URLs may spread the requests of one connection over
/// several, and no check of a few objects shows that it keeps their order: only ids do.
pub(super) fn pipelining(options: &HttpOptions, client: &Client, remarks: &Remarks) -> PipelinePolicy {
    let is_forwarded = client.proxy.is_some() && !client.address.secure;
    PipelinePolicy::new(match options.pipeline {
        Pipeline::Depth(_) if is_forwarded => {
            remarks.forwarded();
            Pipeline::Auto
        }
        wanted => wanted,
    })
}

/// The header lines of requests to an address, which gets the password that the user has for its host, if it has none.
///
/// # Errors
/// [`Kind::Config`] for a header that cannot be sent.
pub(super) fn fields(address: &mut Address, options: &HttpOptions) -> Result<Fields> {
    let login = options.logins.iter().find(|(host, _)| host.eq_ignore_ascii_case(&address.host));
    address.authorization = address.authorization.take().or_else(|| login.map(|(_, login)| login.clone()));
    match &options.changing {
        Some(changing) => Ok(Fields::changing(changing.clone())),
        None => Ok(request_fields(address, &options.headers)?.into()),
    }
}

/// What the source and the destination of a lane need of answers.
pub(super) fn wants(types: Option<&GlobMatcher>, decode: Decode, lane: Option<&dyn Lane>) -> Wants {
    let metadata = lane.is_some_and(|lane| lane.keeps_metadata());
    let times = metadata || lane.is_some_and(|lane| lane.keeps_times());
    let fields = [types.map(|_| TYPE), metadata.then_some(TAG)];
    let verbatim = decode == Decode::Never;
    Wants { verbatim, times, ..Wants::fields(&fields.into_iter().flatten().collect::<Vec<_>>()) }
}

/// Whether an encoded body is the object as it was sent, as browsers and curl keep it: its names or its type say so.
pub(super) fn is_as_sent(
    decode: Decode,
    remarks: &Remarks,
    head: &Head,
    is_named: impl FnOnce(&Encoding) -> bool,
) -> bool {
    let told = head.encoding().filter(|_| decode == Decode::Auto).and_then(|encoding| suffix::encoding(&encoding));
    let kept = told.filter(|encoding| head.is_type_of_encoding() || is_named(encoding));
    kept.inspect(|encoding| remarks.kept(encoding.name)).is_some()
}

/// The types that `expect_type` admits.
///
/// # Errors
/// [`Kind::Config`] if it is not a glob.
pub(super) fn types(expect_type: Option<&str>) -> Result<Option<GlobMatcher>> {
    let compile = |glob: &str| {
        let built = globset::GlobBuilder::new(&glob.to_ascii_lowercase()).build();
        built.map(|built| built.compile_matcher()).map_err(|error| {
            Error::new(Kind::Config, format!("not a valid glob: {}", error.kind())).on(&escape(glob.as_bytes()))
        })
    };
    expect_type.map(compile).transpose()
}

/// Why an object is refused for its type, if so: by what the user expects, or else by what its name says (`form`).
pub(super) fn wrong_type(
    types: Option<&GlobMatcher>,
    head: &Head,
    form: impl FnOnce() -> Option<Form>,
) -> Option<Error> {
    let Some(types) = types else {
        return match form_sent(head).and_then(|sent| Some((sent, form()?))) {
            Some((sent, Form::Other(what))) => Some(another(sent, what)),
            Some((sent @ PAGE, Form::Json)) => Some(another(sent, "JSON")),
            _ => None,
        };
    };
    let found = String::from_utf8_lossy(head.field(TYPE).unwrap_or_default());
    let essence = found.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if types.is_match(&essence) {
        return None;
    }
    let (found, expected) = (escape(found.as_bytes()), types.glob());
    Some(Error::new(Kind::UnexpectedType, format!("its type is \"{found}\", expected \"{expected}\"")))
}

/// What comes in place of objects, if this may be it.
fn form_sent(head: &Head) -> Option<&'static str> {
    let page = head.is_html.then_some(PAGE);
    page.or_else(|| head.is_json.then_some("JSON"))
}

/// The failure of an object: something else came in its place.
pub(super) fn another(sent: &str, what: &str) -> Error {
    let why = format!(
        "the server sent {sent} instead of {what}; if this is the object, accept it with `expect_type=\"*\"` and \
        `resume=\"failed\"`"
    );
    Error::new(Kind::UnexpectedType, why)
}

/// Why an object is refused for its length, if so.
pub(super) fn without_length(require_length: bool, head: &Head) -> Option<Error> {
    let why = "the answer does not say how long it is: if it was cut off, nothing would tell";
    let refused = || Error::new(Kind::Integrity, why).hint("`require_length=False` accepts it");
    (require_length && head.is_unverified()).then(refused)
}

/// When the object that an earlier run has left at the destination was last changed, as the server said then.
fn kept_since(lane: &dyn Lane, job: &Job) -> Option<SystemTime> {
    if job.is_tried() { None } else { lane.kept(job)?.last_modified }
}

/// Appends the condition under which the object is sent, if an earlier run has left it.
pub(super) fn push_condition(lane: &dyn Lane, job: &Job, out: &mut Vec<u8>) {
    if let Some(since) = kept_since(lane, job) {
        out.extend_from_slice(&[CONDITION, httpdate::fmt_http_date(since).as_bytes(), b"\r\n"].concat());
    }
}

/// What becomes of an answer that says that the object has not changed; `None` for any other answer.
pub(super) fn not_modified(lane: &dyn Lane, job: &Job, head: &Head) -> Option<Plan> {
    if head.status != 304 || head.is_redirected {
        return None; // not asked
    }
    let since = kept_since(lane, job)?;
    // Some servers say so of what is older, too: then another version was put in its place.
    Some(if head.is_of_another_time(since) { Plan::Refuse(untrue()) } else { Plan::Unchanged })
}

/// Settles an object that has not changed. Returns it with an error if it is not there any more.
pub(super) fn unchanged(lane: &dyn Lane, job: Job) -> Option<(Job, Error)> {
    let kept = lane.kept(&job);
    lane.is_there(job, &mut |_| kept.clone()).map(|job| (job, untrue()))
}

/// A 304 that names another version than it was asked about, or came when that was gone. The next try has no condition.
fn untrue() -> Error {
    Error::new(Kind::Protocol, "the server answered 304 for another version than the requested one")
}

/// Writes an object that came in one piece.
pub fn whole(lane: &dyn Lane, job: Job, head: &Head, body: &[u8]) -> Option<Written> {
    lane.whole(job, &meta(lane, head, Some(body.len() as u64)), Payload::Borrowed(body))
}

/// Begins to write an object that comes in pieces.
pub async fn begin(lane: &dyn Lane, job: &Job, head: &Head) -> Result<Body> {
    lane.begin(job, &meta(lane, head, head.size())).await
}

fn meta(lane: &dyn Lane, head: &Head, size: Option<u64>) -> ObjectMeta {
    let last_modified = if lane.keeps_times() || lane.keeps_metadata() { head.last_modified() } else { None };
    ObjectMeta {
        size,
        last_modified,
        e_tag: head.field(TAG).and_then(|tag| std::str::from_utf8(tag).ok()).filter(is_tag).map(Box::from),
        unverified: head.is_unverified(),
        ..ObjectMeta::default()
    }
}

/// Whether an entity tag is one that is kept.
fn is_tag(tag: &&str) -> bool {
    (1..=TAG_MAX).contains(&tag.len())
}

/// Takes back an object that may be wrong.
pub fn withdraw(lane: &dyn Lane, passed: Passed<Written>, doubt: Doubt) {
    let why = match doubt {
        Doubt::Overlong => "the answer was longer than announced, which was detected after the object was written",
        Doubt::Ahead => {
            "answers on this connection were one ahead, which was detected after the object was written: it may be \
            another object's"
        }
    };
    // Not `OutOfOrder`, which no retry ends: all that may be wrong is withdrawn, and is fetched again with patience.
    let error = Error::new(Kind::ShortBody, format!("{why}: `resume=\"failed\"` fetches it again"));
    lane.withdraw(passed.written, passed.fingerprint, error);
}

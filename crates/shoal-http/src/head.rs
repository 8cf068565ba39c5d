//! The head of one answer: status, framing of the body, the header fields used. Not here: bodies (`body.rs`).

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::body::{Chunks, Framing};
use crate::encoding;
use crate::redirect::{Location, RedirectRefused};
use crate::request_id::{self, Echo};
use crate::version::Version;
use shoal_core::display::escape;
use shoal_core::error::{Error, Kind, Result};

/// Most fields of a head.
const FIELDS_MAX: usize = 100;
/// Longest wait that a server may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);

/// `Last-Modified` tells versions apart if it is at least so long before `Date`: both have whole seconds.
const SETTLED: Duration = Duration::from_secs(2);

/// Larger bodies may be resumed, in bytes.
const VERSION_FROM: u64 = 64 << 10;

/// The content type of a login page.
const HTML: &[u8] = b"text/html";
/// The most common type of objects, which is neither of these.
const BINARY: &[u8] = b"application/octet-stream";
/// The end of the content types of errors that programs read.
const JSON: &[u8] = b"json";

/// The field under which an object is sent only if it has changed.
pub const CONDITION: &[u8] = b"If-Modified-Since: ";

/// What is wanted of answers.
#[derive(Clone, Debug, Default)]
pub struct Wants {
    /// Names of the fields that [`Head::field`] is asked for.
    pub fields: Arc<[Arc<str>]>,
    /// Bodies as they were sent, whatever encoding they are said to have.
    pub verbatim: bool,
    /// The times that [`Head::last_modified`], [`Head::date`] and the like tell of.
    pub times: bool,
    /// A proxy passes the answers on, and may send its own. A connection sets this itself.
    pub is_forwarded: bool,
}

impl Wants {
    /// These fields, and bodies decoded.
    pub fn fields(names: &[&str]) -> Wants {
        Wants { fields: names.iter().map(|name| Arc::from(*name)).collect(), ..Wants::default() }
    }
}

/// What an answer says about itself.
#[derive(Debug)]
pub struct Head {
    /// Its status code.
    pub status: u16,
    pub(crate) framing: Framing,
    /// The connection cannot be reused.
    pub close: bool,
    /// Whether the answer has the id of its request, if requests carry ids.
    pub(crate) echo: Echo,
    /// The body is the object as it was sent, with its encoding.
    pub(crate) is_as_sent: bool,
    /// The fields that are wanted.
    kept: Kept,
    /// The type is `text/html`: the body may be a login page.
    pub is_html: bool,
    /// The type is JSON of some kind: the body may be an error.
    pub is_json: bool,
    /// A proxy has passed it on, or sent it itself.
    pub(crate) is_forwarded: bool,
    /// A redirect led here.
    pub is_redirected: bool,
    /// The version and the part of the object. Only of large or partial answers.
    pub(crate) version: Option<Box<Version>>,
    /// Version of the header lines of its request (`changing.rs`): 0 if these never change, or were not sent.
    pub(crate) sent_with: u64,
    rare: Option<Box<Rare>>,
}

/// What most answers do not have. Heads are moved several times for each object, so they are small.
#[derive(Debug, Default)]
struct Rare {
    encoding: Option<String>,
    is_type_of_encoding: bool,
    set_cookies: Vec<Box<[u8]>>,
    location: Option<Location>,
    redirected_to: Option<Box<[u8]>>,
    refusal: Option<RedirectRefused>,
    /// With 403: no request is left in this period of time.
    is_used_up: bool,
    retry_after: Option<Duration>,
    /// When the object was last modified, and when the answer was sent, as text.
    modified: Option<Date>,
    sent: Option<Date>,
}

/// Names and values of fields.
type Kept = Vec<(Arc<str>, Box<[u8]>)>;

/// A date in the form that services must send (RFC 9110, 5.6.7). Other forms are ignored.
type Date = [u8; 29];

fn time(date: &Date) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(date).ok()?).ok()
}

impl Head {
    /// When the object was last modified, if that was so long before this answer that every later change has another
    /// time: dates have whole seconds (RFC 9110, 8.8.2.2).
    pub fn last_modified(&self) -> Option<SystemTime> {
        let (modified, sent) = (self.says_modified()?, self.date()?);
        sent.duration_since(modified).is_ok_and(|age| age >= SETTLED).then_some(modified)
    }

    /// The value of `Last-Modified`.
    pub fn says_modified(&self) -> Option<SystemTime> {
        time(self.rare(|rare| rare.modified.as_ref())?)
    }

    /// When the answer was sent, by its server's clock.
    pub fn date(&self) -> Option<SystemTime> {
        time(self.rare(|rare| rare.sent.as_ref())?)
    }

    /// Whether `Last-Modified` is another time than this.
    pub fn is_of_another_time(&self, modified: SystemTime) -> bool {
        self.rare(|rare| rare.modified.as_ref())
            .is_some_and(|date| date != httpdate::fmt_http_date(modified).as_bytes())
    }

    /// The value of a field that is wanted, without spaces around it; of several, the last.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        let found = self.kept.iter().rfind(|(kept, _)| kept.eq_ignore_ascii_case(name));
        found.map(|(_, value)| &**value)
    }

    /// The values of all such fields.
    pub fn fields(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.kept.iter().filter(move |(kept, _)| kept.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    /// The length of the body, if it is announced. Only before the body is read.
    pub fn length(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(length) => Some(length),
            _ => None,
        }
    }

    fn rare<T>(&self, of: impl FnOnce(&Rare) -> Option<&T>) -> Option<&T> {
        self.rare.as_deref().and_then(of)
    }

    /// An encoding that was not requested, as the answer names it.
    pub(crate) fn sent_encoding(&self) -> Option<&str> {
        self.rare(|rare| rare.encoding.as_ref()).map(String::as_str)
    }

    /// The name of an encoding that was not requested: `gzip` for `X-GZip`.
    pub fn encoding(&self) -> Option<String> {
        self.sent_encoding().map(encoding::name)
    }

    /// The encoding that must be undone to have the object, as the answer names it.
    pub(crate) fn to_decode(&self) -> Option<&str> {
        self.sent_encoding().filter(|_| !self.is_as_sent)
    }

    /// The content type is that of this encoding, too: what is encoded is the object.
    pub fn is_type_of_encoding(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.is_type_of_encoding)
    }

    /// The values of `Set-Cookie`.
    pub(crate) fn set_cookies(&self) -> &[Box<[u8]>] {
        self.rare.as_ref().map_or(&[], |rare| &rare.set_cookies)
    }

    /// Only with 3xx.
    pub(crate) fn location(&self) -> Option<&Location> {
        self.rare(|rare| rare.location.as_ref())
    }

    /// The path and query to which redirects led, if they stayed at the service.
    pub fn redirected_to(&self) -> Option<&[u8]> {
        self.rare(|rare| rare.redirected_to.as_ref()).map(|to| &**to)
    }

    /// This is the answer to a request to which redirects led; to what, if they stayed at the service.
    pub(crate) fn redirected(&mut self, to: Option<&[u8]>) {
        self.is_redirected = true;
        self.rare.get_or_insert_default().redirected_to = to.map(Box::from);
    }

    /// This redirect is not followed.
    pub(crate) fn refuse(&mut self, refusal: RedirectRefused) {
        self.rare.get_or_insert_default().refusal = Some(refusal);
    }

    /// How long to wait. Only with 403, 429 and 5xx; at most 120 s.
    pub fn retry_after(&self) -> Option<Duration> {
        self.rare(|rare| rare.retry_after.as_ref()).copied()
    }

    /// The length of the object, if it is announced. Only before the body is read.
    pub fn size(&self) -> Option<u64> {
        self.length().filter(|_| self.to_decode().is_none())
    }

    /// Whether its body was read to the end.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.framing, Framing::Length(0) | Framing::Chunked(Chunks::End))
    }

    /// Whether it asks to slow down, also where it says so with 403.
    pub fn is_throttling(&self) -> bool {
        matches!(self.status, 429 | 503) || self.status == 403 && self.asks_to_wait()
    }

    fn asks_to_wait(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.is_used_up || rare.retry_after.is_some())
    }

    /// Whether this is a redirect that could be followed.
    pub fn is_redirect(&self) -> bool {
        matches!(self.status, 301 | 302 | 303 | 307 | 308)
    }

    /// What has sent it, for messages: `server`, unless a proxy may have, because it did not reach that one, or must not.
    pub fn sender(&self, server: &'static str) -> &'static str {
        let is_proxys = self.is_forwarded && matches!(self.status, 403 | 500..=599);
        if is_proxys { "the proxy, or the server behind it," } else { server }
    }

    /// The error for a 3xx answer, of this kind.
    pub fn redirect_error(&self, kind: Kind) -> Error {
        let refusal = self.rare(|rare| rare.refusal.as_ref());
        let why = refusal.map_or("which is not allowed here", |refusal| &refusal.why);
        let error = Error::new(kind, format!("the answer is a redirect ({}) {why}", self.status));
        match refusal.and_then(|refusal| refusal.hint.as_ref()) {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }

    /// The length of the body was not announced: it ends when the connection does.
    pub fn is_unverified(&self) -> bool {
        matches!(self.framing, Framing::Close)
    }
}

/// Whether a head may end in `bytes`. Its end is not within the first `seen` of them.
pub(crate) fn may_end(bytes: &[u8], seen: usize) -> bool {
    let fresh = &bytes[seen.saturating_sub(2)..];
    memchr::memchr_iter(b'\n', fresh)
        .any(|at| fresh[at + 1..].starts_with(b"\n") || fresh[at + 1..].starts_with(b"\r\n"))
}

/// Parses the head at the start of `bytes`: it and its length, `None` if incomplete. `id`: its request's, or empty.
///
/// # Errors
/// [`Kind::Protocol`] if it is not HTTP, or ambiguous.
pub(crate) fn parse(bytes: &[u8], wants: &Wants, id: &[u8]) -> Result<Option<(Head, usize)>> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let mut answer = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default()
        .parse_response_with_uninit_headers(&mut answer, bytes, &mut fields)
        .map_err(|e| broken(format!("the answer is not HTTP: {e}")))?;
    let httparse::Status::Complete(length) = parsed else { return Ok(None) };
    let (Some(status), Some(version)) = (answer.code, answer.version) else { return Ok(None) };
    let mut reading = HeadFields { status, id, close: version == 0, ..HeadFields::default() };
    for field in answer.headers.iter() {
        reading.field(field.name, field.value, wants)?;
    }
    let framing = reading.framing()?;
    // Most objects are small, and these are not resumed.
    let is_large = matches!(framing, Framing::Length(length) if length > VERSION_FROM);
    let version = is_large || status == 206 || reading.has_range;
    let version = version.then(|| {
        let mut version = Box::<Version>::default();
        answer.headers.iter().for_each(|field| version.field(field.name, field.value));
        version
    });
    if status == 200
        && let Some((first, last, total)) = version.as_ref().and_then(|version| version.part())
    {
        let is_whole = first == 0 && last.checked_add(1) == Some(total);
        let is_plain = wants.verbatim || reading.rare.as_ref().is_none_or(|rare| rare.encoding.is_none()); // else the total is of other bytes
        if !is_whole || is_plain && matches!(framing, Framing::Length(length) if length != total) {
            return Err(broken(format!("a whole answer (200), but bytes {first}-{last}/{total} (Content-Range)")));
        }
    }
    if let Some(rare) = &mut reading.rare
        && let Some(encoding) = &rare.encoding
    {
        let types = answer.headers.iter().rfind(|field| field.name.eq_ignore_ascii_case("content-type"));
        let is_its =
            |found: &httparse::Header<'_>| is_type_of(&String::from_utf8_lossy(essence(found.value)), encoding);
        rare.is_type_of_encoding = types.is_some_and(is_its);
    }
    let close = reading.close || matches!(framing, Framing::Close);
    Ok(Some((
        Head {
            status,
            framing,
            close,
            echo: reading.echo,
            is_as_sent: wants.verbatim,
            kept: reading.kept,
            is_html: reading.is_html,
            is_json: reading.is_json,
            is_forwarded: wants.is_forwarded,
            is_redirected: false,
            version,
            sent_with: 0,
            rare: reading.rare,
        },
        length,
    )))
}

#[derive(Default)]
struct HeadFields<'a> {
    status: u16,
    id: &'a [u8],
    echo: Echo,
    close: bool,
    length: Option<u64>,
    chunked: bool,
    has_range: bool,
    kept: Kept,
    is_html: bool,
    is_json: bool,
    rare: Option<Box<Rare>>,
}

impl HeadFields<'_> {
    fn field(&mut self, name: &str, value: &[u8], wants: &Wants) -> Result<()> {
        if let Some(wanted) = wants.fields.iter().find(|wanted| wanted.eq_ignore_ascii_case(name)) {
            self.kept.push((wanted.clone(), value.trim_ascii().into()));
        }
        // By length first, because this runs for every field of every answer.
        match name.len() {
            14 if name.eq_ignore_ascii_case("content-length") => self.length(value)?,
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                if self.chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err(broken(format!("a transfer encoding of \"{}\"", escape(value))));
                }
                self.chunked = true;
            }
            10 if name.eq_ignore_ascii_case("connection") => {
                let mut options = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
                if options.clone().any(|option| option.eq_ignore_ascii_case(b"close")) {
                    self.close = true;
                } else if options.any(|option| option.eq_ignore_ascii_case(b"keep-alive")) {
                    self.close = false;
                }
            }
            16 if name.eq_ignore_ascii_case(request_id::FIELD) => {
                self.echo = match self.echo {
                    _ if request_id::is_of_another(value, self.id) => Echo::Another,
                    Echo::Another => Echo::Another,
                    Echo::Missing if self.id.is_empty() => Echo::Missing,
                    Echo::Missing if value == self.id => Echo::Right,
                    _ => Echo::Wrong,
                };
            }
            16 if name.eq_ignore_ascii_case("content-encoding") && !is_identity(value) => {
                // Several fields are one list, in the order in which the encodings were applied.
                let rare = self.rare.get_or_insert_default();
                let before = rare.encoding.take().map_or_else(String::new, |before| before + ", ");
                rare.encoding = Some(before + &escape(value));
            }
            12 if name.eq_ignore_ascii_case("content-type") && value != BINARY => {
                let essence = essence(value);
                self.is_html = essence.get(..HTML.len()).is_some_and(|start| start.eq_ignore_ascii_case(HTML));
                // `application/json`, `application/problem+json`, …
                self.is_json = essence.last_chunk().is_some_and(|end: &[u8; 4]| end.eq_ignore_ascii_case(JSON));
            }
            10 if name.eq_ignore_ascii_case("set-cookie") => {
                self.rare.get_or_insert_default().set_cookies.push(value.into());
            }
            4 if wants.times && name.eq_ignore_ascii_case("date") => {
                self.rare.get_or_insert_default().sent = value.try_into().ok();
            }
            13 if name.eq_ignore_ascii_case("content-range") => self.has_range = true,
            13 if wants.times && name.eq_ignore_ascii_case("last-modified") => {
                self.rare.get_or_insert_default().modified = value.try_into().ok();
            }
            8 if self.status / 100 == 3 && name.eq_ignore_ascii_case("location") => {
                self.rare.get_or_insert_default().location = Some(Location(value.trim_ascii().to_vec()));
            }
            21 if self.status == 403 && name.eq_ignore_ascii_case("x-ratelimit-remaining") => {
                self.rare.get_or_insert_default().is_used_up = value.trim_ascii() == b"0";
            }
            11 if (self.status == 403 || self.status >= 429) && name.eq_ignore_ascii_case("retry-after") => {
                self.rare.get_or_insert_default().retry_after = retry_after(value, SystemTime::now());
            }
            _ => {}
        }
        Ok(())
    }

    fn length(&mut self, value: &[u8]) -> Result<()> {
        // Digits only: `parse` would accept a sign.
        let parse = |digits: &[u8]| match digits.iter().all(u8::is_ascii_digit) {
            true => std::str::from_utf8(digits).ok()?.parse().ok(),
            false => None,
        };
        // What stands between two servers may make a list of two equal fields (RFC 9110, 8.6).
        let listed = || {
            let mut lengths = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
            let first = lengths.next()?;
            if lengths.all(|other| other == first) { parse(first) } else { None }
        };
        let length: u64 =
            parse(value).or_else(listed).ok_or_else(|| broken(format!("a length of \"{}\"", escape(value))))?;
        match self.length.replace(length) {
            Some(other) if other != length => Err(broken(format!("two lengths, {other} and {length}"))),
            _ => Ok(()),
        }
    }

    fn framing(&self) -> Result<Framing> {
        match (self.chunked, self.length) {
            (true, Some(_)) => Err(broken("both a length and a chunked encoding".to_owned())),
            _ if self.status / 100 == 1 || matches!(self.status, 204 | 304) => Ok(Framing::Length(0)),
            (true, None) => Ok(Framing::chunked()),
            (false, Some(length)) => Ok(Framing::Length(length)),
            (false, None) => Ok(Framing::Close),
        }
    }
}

/// A content type without its parameters.
fn essence(value: &[u8]) -> &[u8] {
    value[..memchr::memchr(b';', value).unwrap_or(value.len())].trim_ascii()
}

/// Whether a type is that of an encoding, as `application/gzip` or `application/x-gzip`.
fn is_type_of(essence: &str, encoding: &str) -> bool {
    let name = essence.split_once('/').filter(|(kind, _)| kind.eq_ignore_ascii_case("application"));
    name.is_some_and(|(_, name)| encoding::name(name) == encoding::name(encoding))
}

fn is_identity(encoding: &[u8]) -> bool {
    let encoding = encoding.trim_ascii();
    encoding.is_empty() || encoding.eq_ignore_ascii_case(b"identity")
}

fn broken(why: String) -> Error {
    Error::new(Kind::Protocol, why)
}

/// Seconds or an HTTP date, at most 120 s; `None` for anything else.
fn retry_after(value: &[u8], now: SystemTime) -> Option<Duration> {
    let text = std::str::from_utf8(value).ok()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => RETRY_AFTER_MAX, // overflows u64
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(head: &str) -> Result<Framing> {
        parse(format!("HTTP/1.1 200 OK\r\n{head}\r\n").as_bytes(), &Wants::default(), b"")
            .map(|parsed| parsed.unwrap().0.framing)
    }

    #[test]
    fn a_body_that_could_be_read_in_two_ways_is_refused() {
        for head in [
            "Content-Length: 1\r\nContent-Length: 2\r\n",
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Content-Length: -1\r\n",
            "Content-Length: +1\r\n",
            "Content-Length: 1, 2\r\n",
            "Content-Length: 1,\r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Content-Length: \r\n",
            "Content-Length: 100\r\nContent-Range: bytes 0-99/200\r\n",
            "Content-Length: 100\r\nContent-Range: bytes 100-199/200\r\n",
            "Content-Length: 100\r\nContent-Range: bytes 0-98/99\r\n",
            "Transfer-Encoding: chunked\r\nContent-Range: bytes 0-99/200\r\n",
        ] {
            assert_eq!(framing(head).map_err(|e| e.kind()).unwrap_err(), Kind::Protocol, "{head}");
        }
        for again in ["Content-Length: 7\r\nContent-Length: 7\r\n", "Content-Length: 7, 7\r\n"] {
            assert!(matches!(framing(again), Ok(Framing::Length(7))));
        }
        assert!(matches!(framing(""), Ok(Framing::Close)));
        for harmless in ["bytes 0-99/100", "bytes */100", "bytes 0-99/*", "nonsense"] {
            let head = format!("Content-Length: 100\r\nContent-Range: {harmless}\r\n");
            assert!(matches!(framing(&head), Ok(Framing::Length(100))), "{harmless}");
        }
    }

    #[test]
    fn the_id_of_another_request_is_told_from_one_that_a_cache_kept() {
        let own = format!("{}-7", "a".repeat(32));
        let echo = |id: &str| {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nShoal-Request-Id: {id}\r\n\r\n");
            parse(head.as_bytes(), &Wants::default(), own.as_bytes())
                .map(|parsed| parsed.unwrap().0.echo)
                .map_err(|e| e.kind())
        };
        assert_eq!(echo(&own), Ok(Echo::Right));
        assert_eq!(echo(&format!("{}-6", "a".repeat(32))), Ok(Echo::Another));
        assert_eq!(echo(&format!("{own}0")), Ok(Echo::Another));
        assert_eq!(echo(&format!("{}-7", "b".repeat(32))), Ok(Echo::Wrong));
        assert_eq!(echo(""), Ok(Echo::Wrong));
    }

    #[test]
    fn retry_after_is_obeyed_up_to_a_cap_and_garbage_is_not() {
        let now = SystemTime::now();
        let seconds = |text: &str| retry_after(text.as_bytes(), now).map(|wait| wait.as_secs());
        assert_eq!(seconds("7"), Some(7));
        assert_eq!(seconds("0"), Some(0));
        assert_eq!(seconds("1000000000"), Some(120));
        assert_eq!(seconds("99999999999999999999999"), Some(120));
        assert_eq!(seconds("-5"), None);
        assert_eq!(seconds("soon"), None);
        assert_eq!(seconds("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        let date = httpdate::fmt_http_date(now + Duration::from_secs(30));
        assert!((28..=30).contains(&seconds(&date).unwrap()));
    }

    #[test]
    fn an_unfinished_head_is_not_yet_an_answer() {
        let whole = b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\n";
        for end in 0..whole.len() {
            assert!(parse(&whole[..end], &Wants::default(), b"").unwrap().is_none());
            assert!(!may_end(&whole[..end], end / 2));
            assert!(may_end(whole, end), "the end is seen wherever the last look was");
        }
        assert_eq!(parse(whole, &Wants::default(), b"").unwrap().unwrap().1, whole.len());
    }
}

//! The pages of a listing, one after the other: tried again by the engine, watched for loops (`loops.rs`) and for an end that
//! comes too early (`hints.rs`). Not here: what the next page is (`next_page.rs`, `counted.rs`).

use std::sync::Arc;
use std::time::Duration;

use shoal_http::{Address, Head, IdleConnections, Method, Request, Wants, send_current};

use super::counted::{Counted, Follows};
use super::cut::{Cut, Encoded};
use super::hints::{self, Hint, Hints, Sort, Total};
use super::loops::Loops;
use super::next_page::{self, Requested};
use super::page::{self, Page};
use super::{ListFormat, PageForm, Service};
use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::findings::Findings;
use crate::partition::{Cursor, Partition};
use crate::source::{BoxFuture, Listing, ListingEnd};

/// Largest page, in bytes.
const PAGE_MAX: usize = 64 << 20;
/// How often a page is asked for again that came and could not be read.
const UNREAD_MAX: u32 = 2;

/// What a user can say of a page that is right.
const WHOLE: &str = "if this is the whole listing, use `pages=\"one\"`";

/// Where object stores answer https.
const BUCKETS: [&str; 5] = [
    ".amazonaws.com",
    "storage.googleapis.com",
    ".blob.core.windows.net",
    ".r2.cloudflarestorage.com",
    ".digitaloceanspaces.com",
];

/// Where a page begins: what `Cursor` holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    /// `seq` of its first partition.
    seq: u64,
    /// Pages before it.
    number: u64,
    /// `None`: the first page.
    token: Option<String>,
}

impl Place {
    fn cursor(&self) -> Cursor {
        let token = self.token.as_deref();
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&self.seq.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.push(u8::from(token.is_some()));
        bytes.extend_from_slice(token.unwrap_or_default().as_bytes());
        Cursor(bytes.into())
    }

    fn of(cursor: &Cursor) -> Option<Place> {
        let (seq, rest) = cursor.0.split_first_chunk::<8>()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let (has_token, token) = rest.split_first()?;
        let token = String::from_utf8(token.to_vec()).ok()?;
        let token = (*has_token == 1).then_some(token);
        Some(Place { seq: u64::from_le_bytes(*seq), number: u64::from_le_bytes(*number), token })
    }
}

/// Whether something else may be at the place of this cursor, because objects have come or gone.
pub(super) fn may_shift(service: &Service, cursor: &Cursor) -> bool {
    let (options, token) = (&service.options, Place::of(cursor).and_then(|place| place.token));
    // What the usual fields have is a marker, even if it is a number.
    let is_marker = options.form() == PageForm::Marker && !options.names_next();
    !is_marker && token.is_some_and(|token| next_page::may_shift(options.form(), &token))
}

/// The listing has a thread of its own, on which nothing else happens.
type Clock = fn() -> Duration;

/// A listing under way.
pub(super) struct Pages {
    service: Arc<Service>,
    /// Bytes behind a page blame nothing: it was whole, or could not be read.
    connections: IdleConnections<Clock, ()>,
    /// The page at hand.
    cut: Option<Cut>,
    /// The page to ask for next; `None`: the last one has come.
    place: Option<Place>,
    /// The first request of this listing uses a token from the journal.
    from_journal: bool,
    loops: Loops,
    /// Only if they are counted.
    counted: Option<Counted>,
    /// How often the page at hand came and could not be read.
    unread: u32,
    /// Names on all pages, unless it began behind the first.
    names: Option<u64>,
    /// What the first page says.
    first: Hints,
    /// The number of all names, as the first page and the last one that had one said.
    totals: Option<(u64, Total)>,
    /// A page without names was before others, and a remark says so.
    had_hole: bool,
    remarks: Vec<String>,
}

impl Pages {
    pub fn new(service: Arc<Service>, after: Option<Cursor>) -> Result<Pages> {
        let options = &service.options;
        let form = options.form();
        let counted = form.is_counted().then(|| Counted::new(form, options.first_page));
        let place = match &after {
            None => Place { token: counted.as_ref().and_then(Counted::first), ..Place::default() },
            Some(cursor) => Place::of(cursor).ok_or_else(|| {
                Error::new(Kind::CursorRefused, "the journal's cursor is not from this source")
                    .hint("list from the start and skip what is committed: `resume=\"relist\"`")
            })?,
        };
        let header = next_page::header(&service);
        let wants = Wants::fields(&hints::headers().chain(header.as_deref()).collect::<Vec<_>>());
        let is_whole = place.number == 0;
        Ok(Pages {
            connections: IdleConnections::new(Arc::default(), wants),
            cut: None,
            from_journal: !is_whole,
            place: Some(place),
            loops: Loops::default(),
            counted,
            unread: 0,
            names: is_whole.then_some(0),
            first: Hints::default(),
            totals: None,
            had_hole: false,
            remarks: Vec::new(),
            service,
        })
    }

    /// Asks for the next page.
    async fn advance(&mut self, place: Place) -> Result<()> {
        self.read(&place).await.map_err(|error| error.on(&self.shown(&place)))
    }

    async fn read(&mut self, place: &Place) -> Result<()> {
        let asked = next_page::request(&self.service, place.token.as_deref())?;
        let Some((body, head)) = self.page(&asked, place).await? else {
            self.place = None; // behind the last page
            return self.check_end(place, &Page::default());
        };
        check_lines(&head, self.service.options.list_format)?;
        let page = page::parse(&body, &self.service.options);
        let mut page = page.map_err(|error| self.once_more(error))?;
        page.hints.head(&head);
        let said = next_page::place(&self.service, &asked, &page, &head)?;
        let is_end = self.check_whole(place, &page, said.as_deref())?;
        (self.from_journal, self.unread) = (false, 0);
        let mut has_hole = false;
        let next = match &mut self.counted {
            None if is_end => None,
            None => said,
            Some(counted) => {
                let was_empty = counted.was_empty();
                let follows =
                    counted.page(place.token.as_deref(), &page.names, page.entries, page.hints.total.as_ref());
                match follows.map_err(|why| self.same_again(&why))? {
                    Follows::Page(next) => {
                        has_hole = was_empty && page.names.count > 0;
                        Some(next)
                    }
                    Follows::PageInstead(next) => {
                        page.names = Encoded::default();
                        Some(next)
                    }
                    Follows::Nothing => {
                        page.names = Encoded::default();
                        None
                    }
                }
            }
        };
        if has_hole && !std::mem::replace(&mut self.had_hole, true) {
            let why = "the page before it has no names: if that is wrong, `resume=\"update\"` lists it again";
            self.remarks.push(format!("{}: {why}", self.shown(place)));
        }
        let count = page.entries.max(page.names.count);
        self.names = self.names.map(|names| names + if page.names.count > 0 { count } else { 0 });
        if let Some(total) = &page.hints.total {
            let first = self.totals.as_ref().map_or(total.names, |(first, _)| *first);
            self.totals = Some((first, total.clone()));
        }
        if place.number == 0 {
            self.first = page.hints.clone();
        }
        if let Some(next) = &next
            && let Some(why) = self.loops.page(place.token.as_deref(), page.names.sum(), next)
        {
            let hint = "the service has a defect, or does not know the parameter that `marker_param` names";
            return Err(Error::new(Kind::Listing, why).hint(hint));
        }
        if next.is_none() {
            self.check_end(place, &page)?;
        }
        page.names.push_left_out(page.left_out.directories, ["directory", "directories"]);
        page.names.push_left_out(page.left_out.names, ["file with a name", "files with names"]);
        let seq = place.seq + Cut::count(&page.names);
        self.place = next.map(|token| Place { seq, number: place.number + 1, token: Some(token) });
        let next = self.place.as_ref().map(Place::cursor);
        self.cut = Some(Cut::new(page.names, place.seq, place.cursor(), next));
        Ok(())
    }

    /// Asks again for a page that says that it is not whole, and for one without names that may not be the last. Whether a page
    /// that names itself as the next is the last one all the same: at its end, Solr and others send the marker again that was
    /// sent to them.
    ///
    /// # Errors
    /// [`Kind::Listing`] for a page that stays incomplete: what is missing is nowhere in the report.
    fn check_whole(&mut self, place: &Place, page: &Page, next: Option<&str>) -> Result<bool> {
        if self.service.options.form() == PageForm::One {
            return Ok(false);
        }
        if let Some(Hint { what, advice, .. }) = &page.hints.incomplete {
            let error = Error::new(Kind::Listing, format!("this page may not be complete: {what}"));
            return Err(self.once_more(error.hint(format!("{advice}; {WHOLE}"))));
        }
        let is_empty = page.names.count == 0;
        let names_itself = is_empty && next.is_some() && next == place.token.as_deref() && !self.is_total_ahead();
        let is_early = is_empty && self.counted.as_ref().is_some_and(Counted::is_total_ahead);
        let why = "this page has no names, and the service has said that there are more";
        if (is_early || names_itself) && self.unread < UNREAD_MAX {
            return Err(self.once_more(Error::new(Kind::Listing, "this page has no names, and may not be the last")));
        }
        if is_early {
            self.remarks.push(format!("{}: {why}", self.shown(place)));
        }
        Ok(names_itself)
    }

    /// A total says that there are more names than have come.
    fn is_total_ahead(&self) -> bool {
        self.totals.as_ref().zip(self.names).is_some_and(|((_, total), names)| total.names > names)
    }

    fn same_again(&self, why: &str) -> Error {
        let options = &self.service.options;
        let why = format!("{why}: does the service know the parameter \"{}\"?", options.count_param());
        Error::new(Kind::Listing, why).hint("set it with `page_param`; use `pages=\"one\"` if there is no next page")
    }

    /// Whether the listing may end with this page. If it would have one page, and something on it looks as if there were
    /// more, it may not. Later this is only a note: a user has seen that the pages are followed.
    fn check_end(&mut self, place: &Place, page: &Page) -> Result<()> {
        let options = &self.service.options;
        let form = options.form();
        if form == PageForm::One {
            return Ok(());
        }
        let follows_given = options.names_next() || form != PageForm::Marker;
        let is_echo = |hint: &Hint| hint.value.is_some() && hint.value == place.token;
        // How many names were on the pages before the one at which an interrupted listing has continued is not known.
        let names = self.names.unwrap_or(u64::MAX);
        let had_one_page = match &self.counted {
            Some(counted) => counted.had_one_page(),
            None => place.number == 0,
        };
        let mut hints = page.hints.clone();
        // Behind the last page, there is often no total any more.
        hints.total = hints.total.or_else(|| self.totals.as_ref().map(|(_, total)| total.clone()));
        let hint = hints.best(names).filter(|hint| !is_echo(hint));
        let hint = hint.or_else(|| self.first.best(names).filter(|_| had_one_page));
        let hint =
            hint.or_else(|| hints::full(&options.list_path, names).filter(|_| place.number == 0 && !follows_given));
        if let Some(hint) = hint {
            let says = format!("this page may not be the last: {}", hint.what);
            if had_one_page {
                return Err(Error::new(Kind::Listing, says).hint(format!("{}; {WHOLE}", hint.advice)));
            }
            // What says where to continue is on the last page of many services, too.
            if hint.sort >= Sort::Count || !follows_given {
                self.remarks.push(format!("{}: {says}", self.shown(place)));
            }
        }
        if let Some((first, last)) =
            self.totals.as_ref().map(|(first, last)| (first, last.names)).filter(|(first, last)| *first != last)
        {
            self.remarks.push(format!(
                "the service said that there are {first} names when the listing began, and {last} at its end: \
                `resume=\"update\"` lists it again"
            ));
        }
        Ok(())
    }

    /// A page that cannot be read may be one that was cut short on its way, or a proxy's: it is asked for again, a few times.
    fn once_more(&mut self, error: Error) -> Error {
        self.unread += 1;
        match self.unread <= UNREAD_MAX {
            true => error.into_kind(Kind::ShortBody),
            false => error,
        }
    }

    /// A page and the head of its answer. `None` if there is no page any more.
    async fn page(&mut self, asked: &Requested, place: &Place) -> Result<Option<(Vec<u8>, Head)>> {
        let service = self.service.clone();
        let clock: Clock = || Duration::ZERO;
        let request = Request::new(Method::Get, &asked.target);
        let other = asked.host.clone().map(|host| service.client.for_other_host(host, false)).transpose()?;
        let mut others = IdleConnections::new(self.connections.findings.clone(), self.connections.wants.clone());
        let (client, connections) = match &other {
            None => (&service.client, &mut self.connections),
            Some(client) => (client, &mut others),
        };
        let asking = send_current(client, connections, clock, &request).await;
        let (mut open, mut head) = asking.map_err(|error| match error.kind() {
            Kind::BadAnswer => error.into_kind(Kind::Listing),
            _ => error,
        })?;
        if self.counted.as_ref().is_some_and(|counted| counted.is_missing(head.status)) {
            return Ok(None);
        }
        self.check(&head, place)?;
        let body = open.body(&mut head, PAGE_MAX).await.map_err(|error| match error.kind() {
            Kind::Unsupported | Kind::TooLarge => error.into_kind(Kind::Listing), // of its encoding
            Kind::Integrity => self.once_more(error.into_kind(Kind::Listing)),
            _ => error,
        });
        match body? {
            Some(body) => {
                if other.is_none() {
                    self.connections.keep(open, &head);
                }
                Ok(Some((body, head)))
            }
            None => Err(Error::new(Kind::Listing, format!("the page is larger than {} MiB", PAGE_MAX >> 20))
                .hint("ask the service for smaller pages")),
        }
    }

    fn check(&self, head: &Head, place: &Place) -> Result<()> {
        let status = head.status;
        let sender = head.sender("the service");
        let error = match status {
            200 => return Ok(()),
            _ if head.is_throttling() => Error::new(Kind::Throttled, format!("{sender} asks to slow down ({status})")),
            408 | 500..=599 => Error::new(Kind::ServerError, format!("{sender} answered {status}")),
            401 | 403 => Error::new(Kind::Credentials, format!("{sender} refuses the listing ({status})"))
                .hint("give credentials with `headers={\"Authorization\": \"…\"}` or in the URL"),
            400..=499 if self.from_journal => {
                let why = format!("the service no longer accepts the marker at which the run stopped ({status})");
                Error::new(Kind::CursorRefused, why)
                    .hint("list from the start and skip what is committed: `resume=\"relist\"`")
            }
            404 if place.number == 0 => Error::new(Kind::Listing, "there is no listing here (404)".to_owned())
                .hint(no_listing(&self.service.client.address)),
            300..=399 => head.redirect_error(Kind::Listing),
            _ => Error::new(Kind::Listing, format!("the service answered {status} to the listing")),
        };
        Err(error.retry_after(head.retry_after()))
    }

    fn shown(&self, place: &Place) -> String {
        let list = escape(super::without_values(&self.service.options.list_path).as_bytes());
        // Tokens can be secrets, and are of no use to a reader; the number of the page is. One that was requested is no secret.
        let number = place.token.as_deref().filter(|_| self.service.options.form() == PageForm::Number);
        let number = number.map_or_else(|| (place.number + 1).to_string(), str::to_owned);
        format!("{}{list} (page {number})", self.service.client.address.shown())
    }
}

/// What helps where a service has no listing.
fn no_listing(address: &Address) -> &'static str {
    let host = address.host.to_ascii_lowercase();
    let last = address.base.rsplit('/').next().unwrap_or_default();
    if BUCKETS.iter().any(|domain| host.ends_with(domain)) {
        "this host has buckets: write s3://BUCKET/PREFIX, with `endpoint` if it is not AWS; or pass a list of the URLs of \
        its objects"
    } else if last.contains('.') {
        "set its path with `list_path`; if this is the URL of one file, `--urls` or `shoal.urls(…)` copies a list with it"
    } else {
        "set its path with `list_path`; if the URL is a directory of a web server, use `index=True`"
    }
}

/// # Errors
/// [`Kind::Listing`] for an answer with lines that may be those of something else, or not all.
fn check_lines(head: &Head, format: ListFormat) -> Result<()> {
    let why = match () {
        () if format == ListFormat::Json => return Ok(()),
        () if format == ListFormat::Lines && head.is_json => "the page is JSON, and no list of lines",
        () if head.is_html => "the page is HTML, and no list of lines",
        () if head.is_unverified() => {
            "the answer does not say how long it is: if its last lines were missing, nothing would tell"
        }
        () => return Ok(()),
    };
    Err(Error::new(Kind::Listing, why))
}

impl Listing for Pages {
    fn report_to(&mut self, findings: &Arc<Findings>) {
        self.connections.findings = findings.clone();
    }

    fn end(&mut self) -> ListingEnd {
        ListingEnd { remarks: std::mem::take(&mut self.remarks), ..ListingEnd::default() }
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Option<Partition>>> {
        Box::pin(async move {
            loop {
                if let Some(partition) = self.cut.as_mut().and_then(Iterator::next) {
                    return Ok(Some(partition));
                }
                match self.place.clone() {
                    None => return Ok(None),
                    Some(place) => self.advance(place).await?,
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_survives_its_cursor() {
        for token in [None, Some(String::new()), Some("x/ü?".to_owned())] {
            let place = Place { seq: 1 << 40, number: 7, token };
            assert_eq!(Place::of(&place.cursor()), Some(place));
        }
        assert_eq!(Place::of(&Cursor(b"short"[..].into())), None);
    }
}

//! The chain of pages: each names the next. Asked ahead, tried again by the engine, watched for loops (`loops.rs`).

use std::sync::Arc;
use std::time::Duration;

use shoal_http::{Head, IdleConnections, Method, Request, Wants, encode_name, send};

use super::cut::Cut;
use super::loops::Loops;
use super::page;
use super::{ListGetOptions, Service};
use crate::display::escape;
use crate::error::{Error, Kind, Result};
use crate::findings::Findings;
use crate::partition::{Cursor, Partition};
use crate::source::{BoxFuture, Listing};

/// Largest page, in bytes.
const PAGE_MAX: usize = 64 << 20;
/// How often a page is asked for again that came and could not be read.
const UNREAD_MAX: u32 = 2;

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
    /// How often the page at hand came and could not be read.
    unread: u32,
}

impl Pages {
    pub fn new(service: Arc<Service>, after: Option<Cursor>) -> Result<Pages> {
        let place = match &after {
            None => Place::default(),
            Some(cursor) => Place::of(cursor).ok_or_else(|| {
                Error::new(Kind::CursorRefused, "the journal's cursor is not from this source")
                    .hint("list from the start and skip what is committed: `resume=\"relist\"`")
            })?,
        };
        let from_journal = place.token.is_some();
        Ok(Pages {
            service,
            connections: IdleConnections::new(Arc::default(), Wants::default()),
            cut: None,
            place: Some(place),
            from_journal,
            loops: Loops::default(),
            unread: 0,
        })
    }

    /// Asks for the next page.
    async fn advance(&mut self, place: Place) -> Result<()> {
        let (json, links_on) = self.page(&place).await.map_err(|error| error.on(&self.shown(&place)))?;
        let page = page::parse(&json, &self.service.options);
        let mut page = page.map_err(|error| self.once_more(error).on(&self.shown(&place)))?;
        (self.from_journal, self.unread) = (false, 0);
        if page.next.is_none() {
            self.check_end(&place, page.more.take(), links_on)?;
        }
        page.names.push_left_out(page.left_out.directories, ["directory", "directories"]);
        page.names.push_left_out(page.left_out.names, ["file with a name", "files with names"]);
        if let Some(next) = &page.next
            && let Some(why) = self.loops.page(place.token.as_deref(), page.names.sum(), next)
        {
            let hint = "the service has a defect, or does not know the parameter that `marker_param` names";
            return Err(Error::new(Kind::Listing, why).on(&self.shown(&place)).hint(hint));
        }
        let seq = place.seq + Cut::count(&page.names);
        self.place = page.next.map(|token| Place { seq, number: place.number + 1, token: Some(token) });
        let next = self.place.as_ref().map(Place::cursor);
        self.cut = Some(Cut::new(page.names, place.seq, place.cursor(), next));
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

    /// Asks of a page that would end the listing whether it does: without the right name of the field of the next page, the
    /// first one would be the whole.
    fn check_end(&self, place: &Place, more: Option<(String, Option<String>)>, links_on: bool) -> Result<()> {
        let options = &self.service.options;
        let given = options.next_field != ListGetOptions::default().next_field;
        let has_worked = given && place.token.is_some();
        let is_echo = |value: &Option<String>| value.is_some() && *value == place.token;
        let (what, hint) = match more.filter(|(_, value)| !is_echo(value)) {
            _ if has_worked || options.says_no_next() => return Ok(()),
            Some((field, value)) => {
                let field = escape(field.as_bytes());
                // Of one that is no text or number, or lies within another, the name would not do.
                let which = if value.is_some() && !field.contains('.') { &field } else { "FIELD" };
                let hint = format!("name the field with the marker of the next page, `next_field=\"{which}\"`, or use");
                (format!("its field \"{field}\" looks like the marker of a next page"), hint)
            }
            None if links_on => {
                let hint = "shoal finds the next page by a field, not by a header;".to_owned();
                ("its Link header names a next page".to_owned(), hint)
            }
            None => return Ok(()),
        };
        let error = Error::new(Kind::Listing, format!("this page may not be the last: {what}"));
        Err(error.on(&self.shown(place)).hint(format!("{hint} `next_field=\"none\"` if there is no next page")))
    }

    /// A page, and whether its head names a next one.
    async fn page(&mut self, place: &Place) -> Result<(Vec<u8>, bool)> {
        let service = self.service.clone();
        let clock: Clock = || Duration::ZERO;
        let target = target(&service, place);
        let request = Request::new(Method::Get, &target);
        let asking = send(&service.client, &mut self.connections, clock, &request, || ()).await;
        let (mut open, mut head) = asking.map_err(|error| match error.kind() {
            Kind::BadAnswer => error.into_kind(Kind::Listing),
            _ => error,
        })?;
        self.check(&head, place)?;
        let body = open.body(&mut head, PAGE_MAX).await.map_err(|error| match error.kind() {
            Kind::Unsupported | Kind::TooLarge => error.into_kind(Kind::Listing), // of its encoding
            Kind::Integrity => self.once_more(error.into_kind(Kind::Listing)),
            _ => error,
        });
        match body? {
            Some(json) => {
                self.connections.keep(open, &head);
                Ok((json, head.links_on))
            }
            None => Err(Error::new(Kind::Listing, format!("the page is larger than {} MiB", PAGE_MAX >> 20))
                .hint("ask the service for smaller pages")),
        }
    }

    fn check(&self, head: &Head, place: &Place) -> Result<()> {
        let status = head.status;
        let error = match status {
            200 => return Ok(()),
            429 | 503 => Error::new(Kind::Throttled, format!("the service asks to slow down ({status})")),
            408 | 500..=599 => Error::new(Kind::ServerError, format!("the service answered {status}")),
            401 | 403 => Error::new(Kind::Credentials, format!("the service refuses the listing ({status})"))
                .hint("give credentials with `headers={\"Authorization\": \"…\"}` or in the URL"),
            400..=499 if self.from_journal => {
                let why = format!("the service no longer accepts the marker at which the run stopped ({status})");
                Error::new(Kind::CursorRefused, why)
                    .hint("list from the start and skip what is committed: `resume=\"relist\"`")
            }
            404 if place.token.is_none() => Error::new(Kind::Listing, "there is no listing here (404)".to_owned())
                .hint("set its path with `list_path`"),
            300..=399 => head.redirect_error(Kind::Listing),
            _ => Error::new(Kind::Listing, format!("the service answered {status} to the listing")),
        };
        Err(error.retry_after(head.retry_after))
    }

    fn shown(&self, place: &Place) -> String {
        let list = escape(super::without_values(&self.service.options.list_path).as_bytes());
        // Tokens can be secrets, and are of no use to a reader; the number of the page is.
        format!("{}{list} (page {})", self.service.client.address.shown(), place.number + 1)
    }
}

fn target(service: &Service, place: &Place) -> Vec<u8> {
    let mut out = format!("{}{}", service.client.address.base, service.options.list_path).into_bytes();
    if let Some(token) = &place.token {
        out.push(if service.options.list_path.contains('?') { b'&' } else { b'?' });
        encode_name(&mut out, service.options.marker_param.as_bytes(), true);
        out.push(b'=');
        encode_name(&mut out, token.as_bytes(), true);
    }
    out
}

impl Listing for Pages {
    fn report_to(&mut self, findings: &Arc<Findings>) {
        self.connections.findings = findings.clone();
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

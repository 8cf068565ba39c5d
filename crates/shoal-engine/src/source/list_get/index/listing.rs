//! Requests the directory pages one by one, and splits what they name into partitions.
//!
//! Only the start page must be there. Any other directory that cannot be read, although it was tried a few times, is a
//! failure in the report: what is in it is not known, so it must not look empty.

use std::sync::Arc;
use std::time::Duration;

use shoal_http::{Head, IdleConnections, Method, Request, Wants, encode_name, send_current};

use super::link::{Place, directory_at, parts};
use super::page::{self, Page, PassedOver};
use super::walk::{Failed, Step, Walk};
use crate::display::{count, escape};
use crate::error::{Class, Error, Kind, Result};
use crate::findings::Findings;
use crate::name::SHOAL_DIR;
use crate::partition::{Cursor, Partition};
use crate::source::list_get::Service;
use crate::source::list_get::cut::{Encoded, PARTITION_MAX, entry, partition};
use crate::source::pages::Pages;
use crate::source::{BoxFuture, Listing, ListingEnd, Unlisted};

/// How often a directory is requested in a round, if the server answers or does not end its answer, and if it asks to slow down.
const TRIES_MAX: u32 = 3;
const THROTTLED_MAX: u32 = 10;

/// Largest page, in bytes: two million files as nginx lists them. It is in memory while it is read.
const PAGE_MAX: usize = 256 << 20;

type Clock = fn() -> Duration;

/// A listing in progress.
pub(in super::super) struct IndexListing {
    service: Arc<Service>,
    connections: IdleConnections<Clock, ()>,
    /// The parts of the path of the start directory, decoded.
    start: Vec<Vec<u8>>,
    walk: Walk,
    /// The directory that is being read, and how often it was requested.
    directory: Option<Box<[u8]>>,
    tries: u32,
    /// The directories above the one that was read last, itself included, and what their pages have.
    above: Vec<(Box<[u8]>, u128)>,
    /// What was read and is not in a partition yet, and how much of it is.
    found: Encoded,
    at: usize,
    /// The next partition, and its number.
    payload: Vec<u8>,
    len: usize,
    seq: u64,
    pages: Pages,
    passed_over: PassedOver,
    /// The directory in which shoal keeps a journal.
    has_journal: bool,
}

impl IndexListing {
    /// Starts at the start directory; `cursor`: that of an earlier listing, which says what is read last.
    pub fn new(service: Arc<Service>, cursor: Option<&Cursor>) -> Result<IndexListing> {
        let path = &service.client.address.base;
        let start: Option<Vec<_>> = parts(path.as_bytes()).collect();
        let start = start.ok_or_else(|| {
            let why = "the percent-encoding of its path is not correct";
            Error::new(Kind::Config, why).on(&service.client.address.shown())
        })?;
        let walk = Walk::new(cursor);
        Ok(IndexListing {
            connections: IdleConnections::new(Arc::default(), Wants::default()),
            start,
            pages: Pages::new(0, walk.cursor(0)),
            walk,
            directory: None,
            tries: 0,
            above: Vec::new(),
            found: Encoded::default(),
            at: 0,
            payload: Vec::new(),
            len: 0,
            seq: 0,
            passed_over: PassedOver::default(),
            has_journal: false,
            service,
        })
    }

    async fn advance(&mut self) -> Result<Option<Partition>> {
        loop {
            while let Some((.., next)) = entry(&self.found.bytes, self.at) {
                self.payload.extend_from_slice(&self.found.bytes[self.at..next]);
                (self.at, self.len) = (next, self.len + 1);
                if self.len == PARTITION_MAX {
                    return Ok(self.take());
                }
            }
            (self.found, self.at) = (Encoded::default(), 0);
            let step = match self.directory.take() {
                Some(directory) => Step::Read(directory), // once more
                None => self.walk.step(),
            };
            match step {
                Step::Read(directory) => self.read(directory).await?,
                Step::Round => {
                    if let Some(rest) = self.begin_page() {
                        return Ok(Some(rest));
                    }
                }
                Step::Gaps(gaps) => {
                    gaps.iter().for_each(|(directory, why)| self.gap(directory, why));
                    if let Some(rest) = self.begin_page() {
                        return Ok(Some(rest));
                    }
                }
                Step::End => return Ok(self.take()),
            }
        }
    }

    /// What is in the next partition, if anything.
    fn take(&mut self) -> Option<Partition> {
        let payload = std::mem::take(&mut self.payload);
        self.len = 0;
        if payload.is_empty() {
            return None;
        }
        let walk = &self.walk;
        let numbered = self.pages.number(partition(&payload), |seq| walk.cursor(seq));
        self.seq = numbered.seq + 1;
        // The next page has its own cursor, if a round begins with it.
        Some(Partition { next: None, ..numbered })
    }

    /// What is listed from now on begins a page of the journal.
    fn begin_page(&mut self) -> Option<Partition> {
        let rest = self.take();
        self.pages = Pages::new(self.seq, self.walk.cursor(self.seq));
        rest
    }

    /// Reads a directory, or notes why it cannot be read.
    async fn read(&mut self, directory: Box<[u8]>) -> Result<()> {
        let error = match self.page(&directory).await {
            Ok(page) => {
                self.tries = 0;
                return self.enter(&directory, page);
            }
            Err(error) => error,
        };
        self.tries += 1;
        let is_start = directory.is_empty();
        let most = match error.kind() {
            Kind::Throttled => THROTTLED_MAX,
            // Of the server, not of the directory: with the patience of the run.
            Kind::Connect | Kind::OutOfFiles => u32::MAX,
            _ => TRIES_MAX,
        };
        let is_again = error.class() == Class::Retry && self.tries < most;
        if is_start || is_again || error.class() == Class::Run && error.kind() != Kind::Listing {
            let is_unread = matches!(error.kind(), Kind::ShortBody | Kind::Integrity | Kind::Protocol);
            let gives_up = is_start && (error.class() == Class::Object || is_unread && !is_again);
            let error = if gives_up { error.into_kind(Kind::Listing) } else { error };
            let on = self.shown(&directory);
            self.directory = Some(directory);
            return Err(error.on(&on));
        }
        self.tries = 0;
        let why = error.why().to_owned();
        if self.walk.failed(directory.clone(), why.clone()) == Failed::Here {
            self.gap(&directory, &why);
        }
        Ok(())
    }

    /// A directory was read.
    fn enter(&mut self, directory: &[u8], page: Page) -> Result<()> {
        let Page { names, mut directories, sum, passed_over } = page;
        self.above.retain(|(above, _)| directory.len() > above.len() && directory.starts_with(above));
        let are_same = self.above.iter().rev().take(2).filter(|(_, above)| *above == sum).count() == 2;
        self.above.push((directory.into(), sum));
        // Directories of directories only may well be alike: the chunks of an array, for example.
        if are_same && !names.bytes.is_empty() && !directories.is_empty() {
            let why = "its page has the same names as those of the two directories above it; is it a link in a circle?";
            self.gap(directory, why);
            return Ok(());
        }
        self.found = names;
        self.passed_over.queries += passed_over.queries;
        self.passed_over.elsewhere += passed_over.elsewhere;
        let known = directories.len();
        directories.retain(|name| !is_ours(name));
        self.has_journal |= directories.len() < known;
        let deep = self.walk.enter(directories).map_err(|error| error.on(&self.shown(directory)))?;
        deep.iter().for_each(|deep| self.gap(deep, "it is more than 50 directories deep; is it a link in a circle?"));
        Ok(())
    }

    /// A directory could not be read: it will be a failure.
    fn gap(&mut self, directory: &[u8], why: &str) {
        let name = directory.strip_suffix(b"/").unwrap_or(directory);
        self.found.push_unlisted(Unlisted::Below, name, why);
    }

    /// The page of a directory.
    async fn page(&mut self, directory: &[u8]) -> Result<Page> {
        let service = self.service.clone();
        let mut target = format!("{}/", service.client.address.base).into_bytes();
        encode_name(&mut target, directory, false);
        let request = Request::new(Method::Get, &target);
        let clock: Clock = || Duration::ZERO;
        let (mut open, mut head) = send_current(&service.client, &mut self.connections, clock, &request).await?;
        refused(&head, directory.is_empty())?;
        let (is_html, is_unverified) = (head.is_html, head.is_unverified());
        let target = match head.is_redirected {
            true => head.redirected_to().map_or_else(Vec::new, Vec::from),
            false => target,
        };
        let Some(html) = open.body(&mut head, PAGE_MAX).await? else {
            return Err(Error::new(Kind::Listing, format!("its page is larger than {} MiB", PAGE_MAX >> 20)));
        };
        self.connections.keep(open, &head);
        let (address, start) = (&service.client.address, &*self.start);
        match directory_at(address, start, &target) {
            Some(name) if name == directory => {}
            // It is another name of a directory, which is listed under its own.
            Some(name) if !name.is_empty() && !directory.is_empty() => {
                return Ok(Page { directories: vec![name.into()], ..Page::default() });
            }
            _ => {
                let to = escape(target.split(|&byte| byte == b'?').next().unwrap_or_default());
                let to = if to.is_empty() { "another host".to_owned() } else { format!("\"{to}\"") };
                return Err(Error::new(Kind::Listing, format!("the server redirects it to {to}")));
            }
        }
        let place = Place { address, start, target: &target, directory };
        if is_html { page::read(&html, &place, is_unverified) } else { Err(page::no_index()) }
    }

    fn shown(&self, directory: &[u8]) -> String {
        format!("{}/{}", self.service.client.address.shown(), escape(directory))
    }
}

/// Why an answer is not a page.
fn refused(head: &Head, is_start: bool) -> Result<()> {
    let status = head.status;
    let answered = format!("the server answered {status}");
    let error = match status {
        200 => return Ok(()),
        _ if head.is_throttling() => Error::new(Kind::Throttled, format!("the server asks to slow down ({status})")),
        408 | 500..=599 => Error::new(Kind::ServerError, answered),
        300..=399 => head.redirect_error(Kind::Listing),
        401 | 403 if is_start => Error::new(Kind::Credentials, format!("the server refuses the index ({status})"))
            .hint("give credentials with `headers={\"Authorization\": \"…\"}` or in the URL"),
        _ => Error::new(Kind::Listing, answered),
    };
    Err(error.retry_after(head.retry_after()))
}

/// Whether this is the directory in which shoal keeps a journal.
fn is_ours(directory: &[u8]) -> bool {
    directory.strip_suffix(b"/") == Some(SHOAL_DIR.as_bytes())
}

impl Listing for IndexListing {
    fn report_to(&mut self, findings: &Arc<Findings>) {
        self.connections.findings = findings.clone();
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Option<Partition>>> {
        Box::pin(self.advance())
    }

    fn end(&mut self) -> ListingEnd {
        let PassedOver { queries, elsewhere } = self.passed_over;
        let links = |number: u64, what: &str| {
            let links = if number == 1 { "link" } else { "links" };
            (number > 0).then(|| format!("{} {links} {what}", count(number)))
        };
        let counted = [
            links(queries, "with a query, such as those that sort the index"),
            links(elsewhere, "to other hosts or to other places than below their page"),
        ];
        let counted: Vec<_> = counted.into_iter().flatten().collect();
        let mut remarks = Vec::new();
        if !counted.is_empty() {
            remarks.push(format!("not followed: {}", counted.join(" and ")));
        }
        if self.has_journal {
            remarks.push("\".shoal\" was skipped: it is the journal of a run that wrote to this directory".into());
        }
        ListingEnd { remarks, ..ListingEnd::default() }
    }
}

//! Whether a service has stopped giving objects: credentials that have expired (403 for everything) and login pages
//! (status 200, HTML, whatever is asked for). Answers that look so are held back, and an object that came before is asked
//! for again: if it is now refused too, the run stops. So one object that may not be read or a directory of them stops
//! nothing.
//!
//! A page in place of one object, while others still come, is a failure of that object: HTML where the first objects of the
//! session were none and the name does not say so, or where the name says another type. Where the first objects are HTML, a
//! service has such objects. What the user expects (`--expect-type`) is not doubted.
//!
//! Not here: single answers and what each means (`refusal.rs`).

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use shoal_http::{Head, IdleConnections, Method, Request, send_current};

use super::Service;
use super::refusal::refusal;
use crate::display::escape;
use crate::error::{Error, Kind};
use crate::findings::Findings;
use crate::poison::ignore_poison;
use crate::source::Entry;
use crate::source::http_objects::{self, PAGE, another};
use crate::source::suffix::{self, Form};

/// Most answers in a row that are believed without asking again. It begins with none and doubles with each suspicion
/// that was wrong, so a service with many such objects is asked for 1 % more.
const ALLOWED_MAX: u32 = 100;

/// What all lanes know of a service.
#[derive(Default)]
pub(super) struct Doubt {
    /// An object that came and is no HTML.
    known: Mutex<Option<Box<[u8]>>>,
    has_known: AtomicBool,
    /// Some HTML is what the service has: it was the first to come, and a name that cannot be there gets another answer.
    has_pages: AtomicBool,
    refused: Row,
    pages: Row,
}

/// Suspicious answers in a row, and how many are believed.
#[derive(Default)]
struct Row {
    length: AtomicU32,
    allowed: AtomicU32,
}

impl Row {
    fn goes_on(&self) -> bool {
        self.length.fetch_add(1, Relaxed) >= self.allowed.load(Relaxed)
    }

    fn ends(&self) {
        // Looked at first: every good answer comes by here, on all cores.
        if self.length.load(Relaxed) != 0 {
            self.length.store(0, Relaxed);
        }
    }

    fn was_innocent(&self) {
        let allowed = self.allowed.load(Relaxed);
        self.allowed.store((allowed * 2 + 1).min(ALLOWED_MAX), Relaxed);
        self.length.store(0, Relaxed);
    }
}

/// Why an answer is held back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Suspicion {
    /// Refused, where others came.
    Refused,
    /// HTML, where others were none, or as the first answer of all.
    Page { first: bool },
}

/// What an answer with status 200 is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    Object,
    /// A page in place of it.
    Page,
    /// It is held back; `is_page`: it is no object in any case.
    Doubtful {
        suspicion: Suspicion,
        is_page: bool,
    },
}

/// The failure of an object that is a page.
pub(super) fn page() -> Error {
    another(PAGE, "the object")
}

/// What the names of an object say of it: that at the destination, and then that of the service.
pub(super) fn form_of(entry: Entry<'_>) -> Option<Form> {
    suffix::form(&[entry.name, entry.locator])
}

impl Doubt {
    /// An object came under this head; whether to believe it. Which one is looked up only where that matters: every good
    /// answer comes by here.
    pub fn came<'a>(&self, entry: impl FnOnce() -> Entry<'a>, head: &Head) -> Came {
        if !head.is_html {
            if !self.has_known.load(Relaxed) {
                *ignore_poison(self.known.lock()) = Some(entry().locator.into());
                self.has_known.store(true, Relaxed);
            }
            self.refused.ends();
            self.pages.ends();
            return Came::Object;
        }
        let has_pages = self.has_pages.load(Relaxed);
        let is_page = match form_of(entry()) {
            Some(Form::Page) => false,
            Some(_) => true,
            None => !has_pages,
        };
        if self.has_known.load(Relaxed) {
            return match self.pages.goes_on() {
                true => Came::Doubtful { suspicion: Suspicion::Page { first: false }, is_page },
                false if is_page => Came::Page,
                false => Came::Object,
            };
        }
        match has_pages {
            false => Came::Doubtful { suspicion: Suspicion::Page { first: true }, is_page: false },
            true if is_page => Came::Page,
            true => Came::Object,
        }
    }

    /// An object was refused; whether to hold that back.
    pub fn refused(&self, error: &Error) -> Option<Suspicion> {
        (is_definite(error) && self.has_known.load(Relaxed) && self.refused.goes_on()).then_some(Suspicion::Refused)
    }

    /// Asks for something with a known answer. The error that stops the run, if the service has stopped giving objects;
    /// `name` is the first object that was held back.
    pub async fn check(
        &self,
        service: &Service,
        findings: &Arc<Findings>,
        suspicion: Suspicion,
        name: &[u8],
    ) -> Option<Error> {
        let first = suspicion == Suspicion::Page { first: true };
        let probe = match first {
            true => made_up_name(),
            false => ignore_poison(self.known.lock()).clone()?,
        };
        let mut target = Vec::new();
        service.target(&probe, &mut target);
        let idle = || std::time::Duration::ZERO;
        // No answer says nothing about the others.
        let mut connections = IdleConnections::<_, ()>::new(
            findings.clone(),
            http_objects::wants(service.expect_type.as_ref(), service.options.http.decode, None),
        );
        let request = Request::new(Method::Get, &target);
        let answered = send_current(&service.client, &mut connections, idle, &request).await;
        let head = answered.ok().map(|(_, head)| head);
        let guilty =
            head.as_ref().is_some_and(|head| match (first, refusal(service, head, || suffix::form(&[&probe]))) {
                (true, refused) => refused.is_none() && head.is_html,
                (false, None) => head.is_html,
                (false, Some(error)) => error.kind() == Kind::Credentials || is_definite(&error),
            });
        if !guilty {
            match (suspicion, first) {
                (Suspicion::Refused, _) => self.refused.was_innocent(),
                (_, false) => self.pages.was_innocent(),
                (_, true) => self.has_pages.store(true, Relaxed),
            }
            if !first && head.is_some_and(|head| matches!(head.status, 404 | 410)) {
                self.has_known.store(false, Relaxed); // deleted meanwhile: the next one that comes will do
            }
            return None;
        }
        let status = head.map_or(0, |head| head.status);
        Some(stopped(suspicion, first, status, name, &probe))
    }
}

fn stopped(suspicion: Suspicion, nothing_came: bool, status: u16, name: &[u8], probe: &[u8]) -> Error {
    let probe = escape(probe);
    let why = match suspicion {
        Suspicion::Refused => {
            format!(
                "the service refuses this object and all later ones, now also \"{probe}\", which it sent before \
                ({status})"
            )
        }
        Suspicion::Page { .. } if nothing_came => {
            "the service answers every request with an HTML page, even for an invented name".to_owned()
        }
        Suspicion::Page { .. } => format!(
            "since this object the service answers with an HTML page, now also for \"{probe}\", which was not HTML \
            before"
        ),
    };
    let hint = match suspicion {
        Suspicion::Refused => "the credentials may have expired: renew them and run the same command again",
        Suspicion::Page { .. } => {
            "it may be a login page: renew the credentials and run the same command again; if these are the objects, \
            accept them with `expect_type=\"*\"`"
        }
    };
    Error::new(Kind::Credentials, why).on(&escape(name)).hint(hint)
}

/// Whether a service has said that this is no object, or nothing for this user.
fn is_definite(error: &Error) -> bool {
    matches!(error.kind(), Kind::Forbidden | Kind::BadAnswer | Kind::UnexpectedType)
}

/// A name that no service has.
fn made_up_name() -> Box<[u8]> {
    format!("made-up-name-{:032x}", fastrand::u128(..)).into_bytes().into()
}

//! What the head of an answer says of the object that was requested. Each answer is about one object: no host of a list can
//! end the run.

use super::Shared;
use crate::display::escape;
use crate::error::{Class, Error, Kind};
use crate::http::Head;
use crate::source::http_objects::wrong_type;

/// Why an answer is not the object; `None`: it is.
pub(super) fn refusal(shared: &Shared, head: &Head) -> Option<Error> {
    let status = head.status;
    let error = |kind, why: String| Some(Error::new(kind, why));
    match status {
        200 => wrong_type(shared.expect_type.as_ref(), head),
        404 | 410 => error(Kind::Vanished, format!("the server has no such object ({status})")),
        401 | 403 | 407 => error(Kind::Forbidden, format!("the server refuses this object ({status})")),
        429 | 503 => error(Kind::Throttled, format!("the server asks to slow down ({status})")),
        408 | 500..=599 => error(Kind::ServerError, format!("the server answered {status}")),
        300..=399 => Some(head.redirect_error(Kind::BadAnswer)),
        _ => error(Kind::BadAnswer, format!("the server answered {status}")),
    }
}

/// An error of the client as the failure of one object. `host`: where it was requested; a name does not tell.
pub(super) fn of_object(error: Error, host: &str) -> Error {
    let host = escape(host.as_bytes());
    match error.kind() {
        Kind::Tls => of(&error, Kind::BadAnswer, format!("no trusted connection to {host}: {}", error.why())),
        Kind::Connect | Kind::Timeout | Kind::Disconnected => {
            of(&error, error.kind(), format!("{host}: {}", error.why()))
        }
        _ => error,
    }
}

fn of(error: &Error, kind: Kind, why: String) -> Error {
    let changed = Error::new(kind, why).retry_after(error.wait_asked()).errno(error.os_error());
    debug_assert!(changed.class() != Class::Run, "one host does not end the run");
    match error.advice() {
        Some(advice) => changed.hint(advice),
        None => changed,
    }
}

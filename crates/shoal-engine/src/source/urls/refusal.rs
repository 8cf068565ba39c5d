//! What the head of an answer says of the object that was requested. Each answer is about one object: no host of a list can
//! end the run.

use shoal_http::Head;

use super::Shared;
use crate::display::escape;
use crate::error::{Error, Kind};
use crate::source::http_objects::{without_length, wrong_type};
use crate::source::suffix::Form;

/// Why an answer is not the object; `None`: it is. `form`: what the name says of the object.
pub(super) fn refusal(shared: &Shared, head: &Head, form: impl FnOnce() -> Option<Form>) -> Option<Error> {
    let status = head.status;
    let error = |kind, why: String| Some(Error::new(kind, why));
    match status {
        _ if head.is_throttling() => {
            error(Kind::Throttled, format!("{} asks to slow down ({status})", head.sender("the server")))
        }
        200 => wrong_type(shared.expect_type.as_ref(), head, form)
            .or_else(|| without_length(shared.options.http.require_length, head)),
        404 | 410 => error(Kind::Vanished, format!("the server has no such object ({status})")),
        401 | 403 | 407 => Some(
            Error::new(Kind::Forbidden, format!("{} refuses this object ({status})", head.sender("the server")))
                .hint("`headers={\"Authorization\": \"…\"}` gives credentials"),
        ),
        408 | 500..=599 => error(Kind::ServerError, format!("{} answered {status}", head.sender("the server"))),
        300..=399 => Some(head.redirect_error(Kind::BadAnswer)),
        _ => error(Kind::BadAnswer, format!("the server answered {status}")),
    }
}

/// An error of the client as the failure of one object. `host`: where it was requested; a name does not tell.
pub(super) fn of_object(error: Error, host: &str) -> Error {
    let host = escape(host.as_bytes());
    match error.kind() {
        Kind::Tls => {
            let why = format!("no trusted connection to {host}");
            error.into_kind(Kind::BadAnswer).prefix(&why).without_subject()
        }
        Kind::Connect | Kind::Timeout | Kind::Disconnected => error.prefix(&host).without_subject(),
        _ => error,
    }
}

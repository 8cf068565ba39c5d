//! What the head of an answer says of the object that was requested. Not here: whether it is believed (`doubt.rs`).

use shoal_http::Head;

use super::Service;
use crate::error::{Error, Kind};
use crate::source::http_objects::{without_length, wrong_type};
use crate::source::suffix::Form;

/// Why an answer is not the object; `None`: it is, or a page, of which `doubt.rs` decides. `form`: what the name says of the
/// object.
pub(super) fn refusal(service: &Service, head: &Head, form: impl FnOnce() -> Option<Form>) -> Option<Error> {
    let status = head.status;
    let error = |kind, why: String| Some(Error::new(kind, why));
    match status {
        _ if head.is_throttling() => {
            error(Kind::Throttled, format!("{} asks to slow down ({status})", head.sender("the service")))
        }
        200 => wrong_type(service.expect_type.as_ref(), head, || if head.is_html { None } else { form() })
            .or_else(|| without_length(service.options.http.require_length, head)),
        404 | 410 => Some(
            Error::new(Kind::Vanished, format!("listed, but it no longer exists ({status})"))
                .hint("is `get_path` right?"),
        ),
        401 => Some(
            Error::new(Kind::Credentials, "the service requires credentials, or rejects the given ones (401)")
                .on(&service.client.address.shown())
                .hint(
                    "give them with `headers={\"Authorization\": \"…\"}`, with `netrc=True` or in the URL, then run the same command \
                    again",
                ),
        ),
        403 => Some(
            Error::new(Kind::Forbidden, format!("{} refuses this object (403)", head.sender("the service")))
                .hint("`headers={\"Authorization\": \"…\"}` or `netrc=True` gives credentials"),
        ),
        408 | 500..=599 => error(Kind::ServerError, format!("{} answered {status}", head.sender("the service"))),
        300..=399 => Some(head.redirect_error(Kind::BadAnswer)),
        _ => error(Kind::BadAnswer, format!("the service answered {status}")),
    }
}

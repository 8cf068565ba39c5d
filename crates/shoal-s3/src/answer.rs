//! What an answer means that is not the object or the page: the table of S3's error codes. Not here: what is done then.
//!
//! Codes: docs.aws.amazon.com, "Error responses" of Amazon S3; what other stores send was measured.

use std::time::SystemTime;

use shoal_engine::display::escape;
use shoal_engine::{Error, Kind};
use shoal_http::Head;

use crate::page::time;
use crate::service::{BUCKET_REGION, Service};

/// Characters of a store's message that are shown.
const MESSAGE_MAX: usize = 200;

/// What was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Object,
    List,
}

/// What is to be done.
pub(crate) enum Meaning {
    Fails(Error),
    /// New credentials may help; else this is the error.
    Expired(Error),
    /// The store's clock has another time; else this is the error.
    Skewed(Option<SystemTime>, Error),
}

/// The body of an error.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub code: String,
    message: String,
    pub region: Option<String>,
    time: Option<SystemTime>,
}

impl Said {
    /// Reads what is there of it.
    pub fn of(body: &[u8]) -> Said {
        let element = |name: &str| {
            let (open, close) = (format!("<{name}>"), format!("</{name}>"));
            let from = memchr::memmem::find(body, open.as_bytes())? + open.len();
            let length = memchr::memmem::find(&body[from..], close.as_bytes())?;
            Some(String::from_utf8_lossy(&body[from..from + length]).into_owned())
        };
        Said {
            code: element("Code").unwrap_or_default(),
            message: element("Message").unwrap_or_default(),
            region: element("Region"),
            time: element("ServerTime").and_then(|text| time(&text)),
        }
    }
}

/// Whether a text may be the name of a region: it is shown.
pub(crate) fn is_region(text: &str) -> bool {
    (1..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

impl Said {
    /// Without texts that repeat a secret.
    fn without(mut self, is_secret: impl Fn(&str) -> bool) -> Said {
        for text in [&mut self.code, &mut self.message] {
            if is_secret(text) {
                text.clear();
            }
        }
        self.region = self.region.filter(|region| !is_secret(region));
        self
    }
}

/// There is no such bucket.
pub(crate) fn no_bucket(bucket: &str) -> Error {
    Error::new(Kind::Listing, format!("there is no bucket \"{}\"", escape(bucket.as_bytes())))
        .hint("is its name right, and `endpoint`?")
}

/// What an answer means.
pub(crate) fn meaning(service: &Service, asked: Asked, head: &Head, body: &[u8]) -> Meaning {
    let said = Said::of(body).without(|text| service.has_secret(text));
    let status = head.status;
    let is_list = asked == Asked::List;
    let mut shown = format!("{} answered {status}", head.sender("the store"));
    if !said.code.is_empty() {
        shown.push_str(&format!(" {}", escape(said.code.as_bytes())));
    }
    if !said.message.is_empty() {
        let message: String = said.message.chars().take(MESSAGE_MAX).collect();
        shown.push_str(&format!(": {}", escape(message.as_bytes())));
    }
    let error = |kind| Error::new(kind, shown.clone()).retry_after(head.retry_after());
    let keys = "give valid keys: in the environment, with `profile` or with `credentials`";
    let credentials = || error(Kind::Credentials).hint(keys);
    Meaning::Fails(match (&*said.code, status) {
        ("NoSuchBucket", _) => no_bucket(&service.store.bucket),
        ("InvalidObjectState", _) => Error::new(Kind::Archived, "it is in an archive of the store, and not restored")
            .hint("restore it there, then use `resume=\"failed\"`; or leave such objects out with `archived=\"skip\"`"),
        ("SlowDown" | "ServiceUnavailable" | "Throttling" | "TooManyRequests" | "RequestLimitExceeded", _)
        | (_, 429 | 503) => error(Kind::Throttled),
        ("RequestTimeout" | "InternalError", _) | (_, 408 | 500..=599) => error(Kind::ServerError),
        ("RequestTimeTooSkewed", _) => {
            let hint = "set the clock of this machine right";
            return Meaning::Skewed(said.time.or(head.date()), error(Kind::Credentials).hint(hint));
        }
        ("ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired" | "RequestExpired" | "InvalidToken", _) => {
            return Meaning::Expired(credentials());
        }
        ("InvalidAccessKeyId", _) => credentials(),
        ("SignatureDoesNotMatch", _) => error(Kind::Credentials).hint("is the secret key right, and `region`?"),
        (
            "AuthorizationHeaderMalformed"
            | "PermanentRedirect"
            | "TemporaryRedirect"
            | "IllegalLocationConstraintException",
            _,
        ) => {
            let header = || Some(String::from_utf8_lossy(head.field(BUCKET_REGION)?).into_owned());
            match said.region.or_else(header).filter(|region| is_region(region)).map(|region| escape(region.as_bytes()))
            {
                Some(region) => Error::new(Kind::Config, format!("the bucket is in the region \"{region}\""))
                    .hint(format!("use `region=\"{region}\"`")),
                None => error(Kind::Config).hint("is `endpoint` right, and `region`?"),
            }
        }
        _ if (300..400).contains(&status) => head.redirect_error(if is_list { Kind::Config } else { Kind::BadAnswer }),
        (_, 401) => credentials(),
        (_, 403) if is_list => match service.signer {
            Some(_) => credentials(),
            None => error(Kind::Credentials).hint("it may not be public: leave `anonymous` out, and give keys"),
        },
        (_, 403) => error(Kind::Forbidden),
        ("NoSuchKey" | "", 404) if !is_list => {
            Error::new(Kind::Vanished, format!("listed, but it no longer exists ({status})"))
        }
        _ if is_list => {
            error(Kind::Listing).hint("is `endpoint` the store's URL, without the bucket, and are the keys right?")
        }
        _ => error(Kind::BadAnswer),
    })
}

//! `Error`, its kinds and classes: the one table of what is retried, what fails one object and what ends a run.
//!
//! Text form, one line: *what · on what: why · after n attempts in t s*; a hint, if there is one, on a second line.
//! Not here: HTTP status codes or errno (see `shoal-http` and `fs/` of the engine), Python exceptions (the binding).

use std::fmt;
use std::time::Duration;

/// What follows from an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Retried with back-off until the attempts are used up; then the object has failed.
    Retry,
    /// This object has failed; the run continues.
    Object,
    /// The run cannot continue; what is committed stays and the same command resumes.
    Run,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $text:literal : $class:ident,)*) => {
        /// What went wrong. The text form (`as_str`) is stable: journal, JSON and exceptions use it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Kind { $($(#[$doc])* $kind,)* }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Kind] = &[$(Kind::$kind,)*];
            /// Stable name.
            pub fn as_str(self) -> &'static str { match self { $(Kind::$kind => $text,)* } }
            /// What follows from it.
            pub fn class(self) -> Class { match self { $(Kind::$kind => Class::$class,)* } }
        }
    };
}

kinds! {
    /// No connection to the host could be made.
    Connect = "connect": Retry,
    /// The host sent nothing, or too little, for too long.
    Timeout = "timeout": Retry,
    /// The connection was closed or reset before the answer was complete.
    Disconnected = "disconnected": Retry,
    /// Fewer or more bytes arrived than were announced.
    ShortBody = "short-body": Retry,
    /// The answer is not valid HTTP.
    Protocol = "protocol": Retry,
    /// The host answered with a 5xx status or 408.
    ServerError = "server-error": Retry,
    /// The host asked to slow down (429, 503).
    Throttled = "throttled": Retry,
    /// Its turn has not come: its partition was committed without it, so that a kill loses little.
    Postponed = "postponed": Retry,
    /// This process has no file descriptor left; retried with fewer workers, no attempt charged.
    OutOfFiles = "out-of-files": Retry,
    /// The name cannot be stored safely.
    UnsafeName = "unsafe-name": Object,
    /// A file that shoal did not write has this name.
    Exists = "exists": Object,
    /// Listed, but gone when asked for (404, 410).
    Vanished = "vanished": Object,
    /// The source refuses this object (403).
    Forbidden = "forbidden": Object,
    /// It is in an archive of its store, and must be restored before it can be read.
    Archived = "archived": Object,
    /// The answer is not the object (a redirect, another 4xx).
    BadAnswer = "bad-answer": Object,
    /// The answer has another type than the object: a web page, or not what the user expects.
    UnexpectedType = "unexpected-type": Object,
    /// The file changed while it was read.
    Changed = "changed": Object,
    /// The source cannot read it: an I/O error.
    ReadFailed = "read-failed": Object,
    /// A part of the source could not be listed. The same command lists it again.
    Unlisted = "unlisted": Object,
    /// The bytes are not the ones that were promised.
    Integrity = "integrity": Object,
    /// Answers came in another order than their requests: objects that are written may be others.
    OutOfOrder = "out-of-order": Object,
    /// A directory stands where the file should go, or a file where a directory should.
    NameConflict = "name-conflict": Object,
    /// This run has written an object of this name before, and its source should hold each name once: the first stays.
    Repeated = "repeated": Object,
    /// The archive is damaged, is not an archive, or goes beyond a limit.
    Archive = "archive": Object,
    /// Stored in a way that shoal cannot read: encrypted, or packed by a method that it does not know.
    Unsupported = "unsupported": Object,
    /// What was to be saved has no form that its name asks for.
    Encoding = "encoding": Object,
    /// The user's function raised; the reason is its traceback.
    Function = "function": Object,
    /// A process that worked on it was killed, and so were those that retried it.
    WorkerKilled = "worker-killed": Object,
    /// The destination's file system takes no name of this length.
    NameTooLong = "name-too-long": Object,
    /// The source or the destination does not permit this file.
    Denied = "denied": Object,
    /// An owner, permission or attribute of the file cannot be set at the destination, and none may be lost.
    Attribute = "attribute": Object,
    /// Larger than the destination or a limit permits.
    TooLarge = "too-large": Object,
    /// No space, inodes or quota left at the destination.
    DestinationFull = "destination-full": Run,
    /// The destination can only be read.
    DestinationReadOnly = "destination-read-only": Run,
    /// The destination reports an I/O error; what was not yet durable is redone on resume.
    DestinationFailed = "destination-failed": Run,
    /// The source asks for credentials, or refuses those given (401).
    Credentials = "credentials": Run,
    /// No trusted connection (TLS).
    Tls = "tls": Run,
    /// The host gave no good answer for `retry_timeout`.
    Unreachable = "unreachable": Run,
    /// The listing is broken: not JSON, a field missing, a loop.
    Listing = "listing": Run,
    /// The source no longer accepts the journal's place in its listing.
    CursorRefused = "cursor-refused": Run,
    /// The journal cannot be read or written.
    Journal = "journal": Run,
    /// Another process works on this destination.
    JournalLocked = "journal-locked": Run,
    /// The journal belongs to a run with other options or an unknown format.
    JournalMismatch = "journal-mismatch": Run,
    /// Parts of a job have listed different names.
    DifferentListings = "different-listings": Run,
    /// An option or argument is wrong.
    Config = "config": Run,
    /// Patterns selected nothing, or all of a tree was left out.
    NothingMatched = "nothing-matched": Run,
    /// More objects failed than `max_failures` allows, or `on_error="raise"` met the first.
    TooManyFailures = "too-many-failures": Run,
    /// Stopped by the caller.
    Interrupted = "interrupted": Run,
    /// A defect of shoal itself (a panic in a lane).
    Internal = "internal": Run,
}

/// A host that can be paused as a whole, named by its source; 0 where a source has only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct HostId(pub u64);

/// Where an error happened. Each side has its own retries and pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Side {
    /// Listing, fetching and decoding.
    #[default]
    Source,
    /// Writing. The engine says so of what its calls of a sink return.
    Sink,
}

/// One failure: what, on what, why, and what to do next.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    why: String,
    on: Option<String>,
    hint: Option<String>,
    retry_after: Option<Duration>,
    host: HostId,
    side: Side,
    tries: Option<(u32, Duration)>,
    errno: Option<i32>,
    behind_host: bool,
    behind_away: bool,
}

impl Error {
    /// An error of this kind; `why` in lower case, without a full stop, strangers' bytes escaped.
    pub fn new(kind: Kind, why: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            why: why.into(),
            on: None,
            hint: None,
            retry_after: None,
            host: HostId(0),
            side: Side::Source,
            tries: None,
            errno: None,
            behind_host: false,
            behind_away: false,
        }))
    }

    /// The host has answered, with a redirect: what failed is behind it.
    #[must_use]
    pub fn behind_host(mut self) -> Error {
        self.0.behind_host = true;
        self
    }

    /// The same, and what is behind it stays away.
    #[must_use]
    pub fn behind_away(mut self) -> Error {
        self.0.behind_away = true;
        self.behind_host()
    }

    /// Whether it happened behind a redirect: the host itself has answered.
    pub fn is_behind_host(&self) -> bool {
        self.0.behind_host
    }

    /// Whether what is behind the redirect stays away.
    pub fn is_behind_away(&self) -> bool {
        self.0.behind_away
    }

    /// Names the object, path or address it happened on (already escaped); kept if one is named before.
    #[must_use]
    pub fn on(mut self, what: &str) -> Error {
        self.0.on.get_or_insert_with(|| what.to_owned());
        self
    }

    /// The same, without the name of what it happened on: another one follows.
    #[must_use]
    pub fn without_subject(mut self) -> Error {
        self.0.on = None;
        self
    }

    /// Says of an object that is a part of something what that is.
    #[must_use]
    pub fn within(self, what: Option<&[u8]>) -> Error {
        match what {
            Some(what) => self.prefix(&format!("in \"{}\"", crate::display::escape(what))),
            None => self,
        }
    }

    /// The same, with this and a colon in front of why it happened.
    #[must_use]
    pub fn prefix(mut self, what: &str) -> Error {
        self.0.why = format!("{what}: {}", self.0.why);
        self
    }

    /// The same, with this behind why it happened.
    #[must_use]
    pub fn suffix(mut self, what: &str) -> Error {
        self.0.why.push_str(what);
        self
    }

    /// Adds what the user can do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.0.hint = Some(hint.into());
        self
    }

    /// The same, in other words.
    #[must_use]
    pub fn reworded(mut self, words: impl Fn(&str) -> String) -> Error {
        self.0.why = words(&self.0.why);
        self.0.hint = self.0.hint.as_deref().map(words);
        self
    }

    /// The host asked for this much patience.
    #[must_use]
    pub fn retry_after(mut self, wait: Option<Duration>) -> Error {
        self.0.retry_after = wait;
        self
    }

    /// The host it came from.
    #[must_use]
    pub fn host(mut self, host: HostId) -> Error {
        self.0.host = host;
        self
    }

    /// The same, from the sink. Too few or too many bytes are the source's error, also where a sink has counted them.
    #[must_use]
    pub fn of_sink(mut self) -> Error {
        if self.0.kind != Kind::ShortBody {
            self.0.side = Side::Sink;
        }
        self
    }

    /// The same, as an error of another kind: whose failure it is depends on what was asked for.
    #[must_use]
    pub fn into_kind(mut self, kind: Kind) -> Error {
        self.0.kind = kind;
        self
    }

    /// How often it was tried, and for how long.
    #[must_use]
    pub fn after(mut self, tries: u32, time: Duration) -> Error {
        self.0.tries = Some((tries, time));
        self
    }

    /// Keeps the operating system's number.
    #[must_use]
    pub fn errno(mut self, errno: Option<i32>) -> Error {
        self.0.errno = errno;
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }
    /// What follows from it.
    pub fn class(&self) -> Class {
        self.0.kind.class()
    }
    /// Why, without object, attempts and hint.
    pub fn why(&self) -> &str {
        &self.0.why
    }
    /// The object, path or address, escaped.
    pub fn subject(&self) -> Option<&str> {
        self.0.on.as_deref()
    }
    /// What to do next.
    pub fn advice(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
    /// How long the host asked to wait.
    pub fn wait_asked(&self) -> Option<Duration> {
        self.0.retry_after
    }
    /// Where it happened.
    pub fn side(&self) -> Side {
        self.0.side
    }

    /// The host it came from.
    pub fn host_id(&self) -> HostId {
        self.0.host
    }
    /// The operating system's error number, if one is behind it.
    pub fn os_error(&self) -> Option<i32> {
        self.0.errno
    }
    /// The one line without the hint.
    pub fn line(&self) -> String {
        let mut line = String::new();
        if let Some(on) = &self.0.on {
            line.push_str(&format!("\"{on}\": "));
        }
        line.push_str(&self.0.why);
        if let Some((tries, time)) = self.0.tries {
            let word = if tries == 1 { "attempt" } else { "attempts" };
            line.push_str(&format!(" (after {tries} {word} in {:.1} s)", time.as_secs_f64()));
        }
        line
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line())?;
        match &self.0.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({}: {})", self.0.kind.as_str(), self.line())
    }
}

impl std::error::Error for Error {}

/// `Result` with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_says_what_why_tries_and_hint() {
        let error = Error::new(Kind::Connect, "connection refused")
            .on("127.0.0.1:1")
            .after(3, Duration::from_millis(1500))
            .hint("is the server running?");
        let text = "\"127.0.0.1:1\": connection refused (after 3 attempts in 1.5 s)\nhint: is the server running?";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn kinds_have_distinct_stable_names() {
        let names: std::collections::HashSet<_> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
    }
}

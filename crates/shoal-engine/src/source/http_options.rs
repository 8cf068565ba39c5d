//! The options of everything that uses HTTP.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use shoal_http::{Changing, DEPTHS, Pipeline, Secret};

use crate::error::Result;
use crate::option::group::SERVICES;
use crate::option::{COUNT_MAX, Opt, Setting, Type, Value};
use crate::options::{MAX_RETRIES, RETRY_TIMEOUT};

crate::words! {
    /// Which encoded bodies are decoded.
    pub enum Decode {
        /// All, unless their names or types say that they are so encoded.
        #[default]
        Auto = "auto",
        /// None.
        Never = "never",
        /// All.
        Always = "always",
    }
}

/// Where the names and passwords of hosts are read from.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Netrc {
    /// Nowhere.
    #[default]
    Unused,
    /// `$NETRC`, or else `~/.netrc`.
    OfUser,
    /// This file.
    File(PathBuf),
}

impl Setting for Netrc {
    const TAKES: Type = Type::FlagOrPath;

    fn take(given: &Value, option: &Opt, named: &str) -> Result<Netrc> {
        match given {
            Value::Flag(false) => Ok(Netrc::Unused),
            Value::Flag(true) => Ok(Netrc::OfUser),
            Value::Path(path) => Ok(Netrc::File(path.clone())),
            _ => Err(option.refuses(named, given)),
        }
    }

    fn given(&self) -> Value {
        match self {
            Netrc::File(path) => Value::Path(path.clone()),
            other => Value::Flag(*other == Netrc::OfUser),
        }
    }
}

crate::options! {
    /// How requests are sent, and which answers are accepted.
    pub struct HttpOptions {
        /// Headers to send with every request, such as `{"Authorization": "Bearer …"}`; not to hosts that a redirect leads
        /// to. Or a function that returns such headers, or `(headers, expiry)` with a `datetime` or `timedelta`; it is
        /// called again when they expire or are refused (docs/services.md). Headers are kept out of the journal, of messages
        /// and of `repr`.
        headers: Vec<(String, String)> = Vec::new(), "Send this header; @FILE reads them from a file, for secrets.",
            flag: Some("header"), metavar: Some("'NAME: VALUE'|@FILE"), secret: true, group: SERVICES;
        /// A program and its arguments, which prints headers as lines `Name: value`, in addition to `headers`. It is run
        /// without a shell, for at most 60 seconds, and again when the headers are refused.
        header_command: Option<String> = None, "Send the headers that this program prints.",
            metavar: Some("COMMAND"), secret: true, group: SERVICES;
        /// Send the name and password that `$NETRC` or `~/.netrc` has for a host, or the file at this path. A password in
        /// the URL and a header `Authorization` replace them. An entry `default` is not used.
        netrc: Netrc = Netrc::Unused, "Send the passwords of ~/.netrc.", group: SERVICES;
        /// A pattern that the content type of an object must match, such as `"image/*"`; an answer of another type is a
        /// failure. `"*"` accepts every type. By default every type is accepted, with two exceptions. An HTML page, or JSON,
        /// is a failure if the name or the URL ends in the suffix of something else, such as `.jpg`. So is an HTML page of
        /// a list/get service after objects that were not HTML, unless its name ends in `.html` or the like.
        expect_type: Option<String> = None, "Fail objects of other content types; * accepts any.", metavar: Some("GLOB"),
            group: SERVICES;
        /// Fail objects whose answer does not say how long it is, instead of counting them as `unverified`: if such an
        /// answer is cut off, nothing tells.
        require_length: bool = false, "Fail objects whose answer does not say its length.", group: SERVICES;
        /// What to do with bodies that are encoded (`Content-Encoding`), which shoal asks no service for. `"auto"`: a body is
        /// kept as it was sent, as browsers and curl do, if the suffix of the name or the URL, or the content type, is that
        /// of the encoding, such as `.gz` or `application/gzip`. Others are decoded if they are gzip or deflate, and fail
        /// if not. `"always"` decodes all; `"never"` keeps all as they were sent.
        decode: Decode = Decode::Auto, "What to decode; auto = not .gz and the like.", metavar: Some("auto|never|always"),
            binds: true, group: SERVICES;
        /// Other hosts (`"host"` or `"host:port"`) to which redirects and the URLs of next pages are followed, without your
        /// headers. By default a redirect of a service is followed only to the same scheme, host and port, and one of a public host of a list to
        /// any public host.
        allow_host: Vec<String> = Vec::new(), "Follow redirects to this host, without the headers.",
            metavar: Some("HOST[:PORT]"), group: SERVICES;
        /// Whether to send requests before the earlier answers have arrived (HTTP pipelining). `"auto"`: only if each
        /// answer echoes its request's `Shoal-Request-Id`, as `shoal serve` does, so that answers cannot be mixed up. A
        /// number from 2 to 256: that many requests on one connection also without ids. shoal first compares at least 16
        /// different objects at that depth, and then samples. This cannot find a service that answers out of order only
        /// now and then, so use it only for services known to answer in order. `"off"`: one request at a time, without
        /// ids.
        pipeline: Pipeline = Pipeline::Auto, "Pipelined requests on a connection.", metavar: Some("auto|off|N"),
            range: Some(DEPTHS), group: SERVICES;
    }
    with { connection: ConnectionOptions }
    and {
        /// Headers that are not known yet, and may change. They replace `headers`.
        changing: Option<Arc<Changing>> = None;
        /// What the file of `netrc` has: hosts, and a value of `Authorization` for each.
        logins: Vec<(String, Secret)> = Vec::new();
    }
}

crate::options! {
    /// How a host is reached.
    pub struct ConnectionOptions {
        /// A PEM file of certificates that are trusted in addition to those of the machine.
        ca_file: Option<PathBuf> = None, "Trust these certificates too.", metavar: Some("PEM"), group: SERVICES;
        /// Accept any certificate. Others on the network can then read and change everything, including headers; the
        /// report says so.
        insecure: bool = false, "Accept any certificate: others can read and change data.", group: SERVICES;
        /// The proxy for all requests: `"http://HOST:PORT"`, or with `USER:PASSWORD@` before the host. By default the variables
        /// `http_proxy`, `https_proxy` and `all_proxy` apply, but never for this machine itself. `"none"` uses no proxy.
        /// `no_proxy` applies always.
        proxy: Option<String> = None, "Send requests through this proxy; none = no proxy.", metavar: Some("URL|none"),
            secret: true, group: SERVICES;
        /// Seconds without a byte from the host after which a request has failed.
        timeout: Duration = Duration::from_secs(30), "Fail a request after this long without data.",
            metavar: Some("SECONDS"), group: SERVICES;
        /// Seconds after which an attempt to connect has failed.
        connect_timeout: Duration = Duration::from_secs(10), "Fail a connection after this long.",
            metavar: Some("SECONDS"), group: SERVICES;
        /// How often to retry one object.
        max_retries: u32 = MAX_RETRIES, "Number of retries of one object.", metavar: Some("N"),
            range: Some((0.0, COUNT_MAX)), group: SERVICES;
        /// Seconds for which to retry one object, and for which a host may be unavailable.
        retry_timeout: Duration = RETRY_TIMEOUT, "Retry one object, or a host, for this long.",
            metavar: Some("SECONDS"), group: SERVICES;
    }
}

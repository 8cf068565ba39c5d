//! The list/get service: `GET /list` gives names page by page, `GET /get/{name}` the bytes of one object.
//!
//! - what a caller sees: `options`, `server`, `stats`, `error`
//! - connections: `threads` and `connection` (which thread serves which), `shared` (what they share), `watch` (how long
//!   each may take), `wire` (batches of answers)
//! - requests: `asked`, `hosts` and `conditions` (one request), `answer` and `body` (one answer), `access_log`
//! - listings: `list`, `page` and `marker` (pages), `walks` (when the directory is read), `listings` (the snapshots that
//!   are kept), `snapshot` (the names in one)
//! - what is served: `dir`, `synthetic`
//!
//! Not here: the command line and its messages, and the client of such a service (`source/list_get`).
//!
//! A service owns its threads and its socket; nothing is global, and two services do not know of each other.
//!
//! ```
//! use shoal_engine::serve::{Content, Options, Server};
//!
//! let server = Server::start(Content::parse_synthetic("1000000:100")?, Options::default())?;
//! println!("{}", server.url());
//! let stats = server.stop(std::time::Duration::from_secs(5));
//! assert_eq!(stats.requests, 0);
//! # Ok::<(), shoal_engine::serve::ServeError>(())
//! ```

mod access_log;
mod answer;
mod asked;
mod body;
mod conditions;
mod connection;
mod dir;
mod error;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod fuzzing;
mod hosts;
mod list;
mod listings;
mod marker;
mod options;
mod page;
mod server;
mod shared;
mod snapshot;
mod stats;
mod synthetic;
mod threads;
mod walks;
mod watch;
mod wire;

pub use error::ServeError;
pub use options::{Content, Options};
pub use server::Server;
pub use stats::Stats;

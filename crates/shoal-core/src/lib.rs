//! The words that the engine, the HTTP client, every source and every sink share. It knows none of them.
//!
//! | look for | in |
//! |---|---|
//! | what can fail, what is retried, what ends a run | [`error`] |
//! | names that are safe to use as paths, and locators of a source | [`Name`], [`ObjectKey`] |
//! | what is known of an object, and how its bytes are handed over | [`object`] |
//! | what a run finds out about its source while it works | [`Findings`] |
//! | options as data | [`option`] |
//! | strangers' bytes as text that is safe to show | [`display`] |

#![warn(missing_docs)]
#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types))]

pub mod display;
pub mod error;
pub mod findings;
pub mod key;
pub mod name;
pub mod object;
pub mod option;
pub mod poison;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use error::{Class, Error, HostId, Kind, Result};
pub use findings::Findings;
pub use key::ObjectKey;
pub use name::Name;

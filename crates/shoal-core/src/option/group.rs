//! Headings of the help.
#![allow(missing_docs)]

pub const SOURCE: &str = "Source";
pub const DESTINATION: &str = "Destination";
pub const ERRORS: &str = "Errors and resuming";
pub const SPEED: &str = "Speed";
pub const SERVICES: &str = "Services";
pub const STORES: &str = "Object stores";
pub const URLS: &str = "Lists of URLs";
pub const ARCHIVES: &str = "Archives";

//! What a machine can do at most: bare loops without checks, journal, retries or resumption, one module a job. The lab
//! runs them beside shoal; nothing else uses them, and they use nothing of shoal.

mod answers;
mod buffer;
mod copy;
mod outcome;
mod read;
mod s3_get;
mod s3_objects;
mod s3_store;
mod scan;
mod sigv4;
mod unzip;

pub use copy::{Copy, copy};
pub use outcome::Outcome;
pub use read::{Read, read};
pub use s3_get::{S3Get, s3_get};
pub use s3_store::{S3Store, s3_store};
pub use scan::{Scan, scan};
pub use sigv4::{Checker, Keys};
pub use unzip::{Unzip, unzip};

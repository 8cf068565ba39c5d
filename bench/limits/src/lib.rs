//! What a machine can do at most: bare loops without checks, journal, retries or resumption, one module a job. The lab
//! runs them beside shoal; nothing else uses them, and they use nothing of shoal.

mod answers;
mod buffer;
mod copy;
mod outcome;
mod read;
mod scan;
mod unzip;

pub use copy::{Copy, copy};
pub use outcome::Outcome;
pub use read::{Read, read};
pub use scan::{Scan, scan};
pub use unzip::{Unzip, unzip};

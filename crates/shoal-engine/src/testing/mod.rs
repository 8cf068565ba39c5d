//! Contract suites, faults and hostile names (feature `testing`). Not used by shipped code.

pub mod answers;
pub mod archives;
pub mod faults;
pub mod names;
pub mod pages;
pub mod requests;
pub mod sink_contract;
pub mod source_contract;

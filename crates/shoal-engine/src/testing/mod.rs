//! Contract suites, faults and hostile names (feature `testing`). Not used by shipped code.

pub mod archives;
pub mod faults;
pub mod pages;
pub mod requests;
pub mod sink_contract;
pub mod source_contract;

pub use shoal_core::testing::names;
pub use shoal_http::testing as answers;

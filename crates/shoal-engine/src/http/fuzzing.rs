//! The parts that parse answers without a socket, for `testing::answers` and the fuzz target that runs it.

pub(crate) use super::body::{Framing, Step};
pub(crate) use super::head::Wants;
pub(crate) use super::reader::{Answer, Reader, Trust};

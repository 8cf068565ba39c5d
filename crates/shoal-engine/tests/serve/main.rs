//! The list/get service as its clients see it, over plain sockets.

mod browser;
mod client;
mod life;
mod objects;
mod pages;
mod refusals;
#[path = "../support/mod.rs"]
mod support;
mod walks;

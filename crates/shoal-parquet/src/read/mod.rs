//! Reading a dataset, for the source and the check: which files, what a footer says, which pages there are, and what is in
//! them. Nothing is mapped into memory, and nothing of a file is believed before it is checked.

pub mod blocks;
pub mod checksum;
pub mod column;
pub mod dataset;
pub mod fault;
pub mod file;
pub mod footer;
pub mod missing;
pub mod open_file;
pub mod pages;
pub mod row;

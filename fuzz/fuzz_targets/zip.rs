//! Any bytes as a zip archive: what must hold of it is checked in `shoal_engine::testing::archives`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shoal_engine::testing::archives::check_zip(bytes));

//! Any bytes as a page of a listing: what may be read of it is checked in `shoal_engine::testing::pages`.
#![no_main]

libfuzzer_sys::fuzz_target!(|json: &[u8]| shoal_engine::testing::pages::check_list_page(json));

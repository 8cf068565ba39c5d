//! Any bytes as what a client sends: what the service may make of them is checked in `shoal_engine::testing::requests`.
#![no_main]

libfuzzer_sys::fuzz_target!(|wire: &[u8]| shoal_engine::testing::requests::check_requests(wire));

//! Any bytes as pipelined answers: what the reader may accept of them is checked in `shoal_engine::testing::answers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|wire: &[u8]| shoal_engine::testing::answers::check_answers(wire));

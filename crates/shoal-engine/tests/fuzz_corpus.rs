//! The seeds of the fuzz targets, and what the targets found, as an ordinary test: `fuzz/corpus/TARGET/`.

use shoal_engine::testing::answers::check_answers;
use shoal_engine::testing::archives::{check_tar, check_zip};
use shoal_engine::testing::pages::check_list_page;
use shoal_engine::testing::requests::check_requests;

/// Checks every seed of a target as it is, cut at `places` bytes and with a bit of as many bytes flipped, all of them where
/// it has no more.
fn over_the_corpus(target: &str, least: usize, places: usize, check: fn(&[u8])) {
    let corpus = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut seeds = 0;
    for entry in std::fs::read_dir(&corpus).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let step = bytes.len() / places + 1;
        for end in (0..bytes.len()).step_by(step).chain([bytes.len()]) {
            check(&bytes[..end]);
        }
        for at in (0..bytes.len()).step_by(step) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            check(&flipped);
        }
        seeds += 1;
    }
    assert!(seeds >= least, "{seeds} seeds in {corpus}");
}

#[test]
fn the_response_reader_keeps_its_promises_over_its_corpus_cut_at_every_byte() {
    over_the_corpus("answers", 20, usize::MAX, check_answers);
}

#[test]
fn the_reader_of_list_pages_keeps_its_promises_over_its_corpus_cut_at_every_byte() {
    over_the_corpus("list_page", 20, usize::MAX, check_list_page);
}

#[test]
fn the_services_reading_of_requests_keeps_its_promises_over_its_corpus_cut_at_every_byte() {
    over_the_corpus("requests", 40, usize::MAX, check_requests);
}

#[test]
fn the_tar_reader_keeps_its_promises_over_its_corpus() {
    over_the_corpus("tar", 30, 700, check_tar);
}

#[test]
fn the_zip_reader_keeps_its_promises_over_its_corpus_cut_at_every_byte() {
    over_the_corpus("zip", 30, 700, check_zip);
}

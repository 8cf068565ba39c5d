//! The seeds of the fuzz targets, and what the targets found, as an ordinary test: `fuzz/corpus/TARGET/`.

use shoal_engine::testing::answers::check_answers;

#[test]
fn the_response_reader_keeps_its_promises_over_its_corpus_cut_at_every_byte() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/answers");
    let mut seeds = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let wire = std::fs::read(entry.unwrap().path()).unwrap();
        for end in 0..=wire.len() {
            check_answers(&wire[..end]);
        }
        for at in 0..wire.len() {
            let mut flipped = wire.clone();
            flipped[at] ^= 1;
            check_answers(&flipped);
        }
        seeds += 1;
    }
    assert!(seeds >= 20, "{seeds} seeds in {corpus}");
}

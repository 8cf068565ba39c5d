//! Reads the packs of `examples/own_sink.rs`.

use std::collections::BTreeMap;
use std::path::Path;

/// Objects by their names.
pub type Objects = BTreeMap<Vec<u8>, Vec<u8>>;

/// The objects in the packs of a directory; panics on an object that is there twice.
pub fn unpacked(directory: &Path) -> Objects {
    let mut found = Objects::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if !entry.file_name().to_str().unwrap().starts_with("pack-") {
            continue;
        }
        let bytes = std::fs::read(entry.path()).unwrap();
        let mut rest = &bytes[..];
        while let Some((name, tail)) = rest.split_first_chunk::<8>() {
            let (data, tail) = tail.split_first_chunk::<8>().unwrap();
            let (name, tail) = tail.split_at(u64::from_le_bytes(*name) as usize);
            let (data, tail) = tail.split_at(u64::from_le_bytes(*data) as usize);
            assert!(found.insert(name.to_vec(), data.to_vec()).is_none(), "{name:?} is there twice");
            rest = tail;
        }
    }
    found
}

//! The columns of a row, and the names of files and metadata: what the sink writes, and the source and the check read.

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

/// The first bytes of a file.
pub const MAGIC: &[u8] = b"PAR1";

/// Key in the metadata of a file: the checksums of its row groups, 16 hexadecimal digits each, separated by spaces.
pub const CHECKSUMS: &str = "shoal.row-group-xxh3";

/// The same for one checksum of all that is behind the last row group, without its own 16 digits: index and footer.
pub const FOOTER_CHECKSUM: &str = "shoal.footer-xxh3";

/// Where the digits of that checksum are in the bytes of a footer. Names of objects are there too, but before its key.
pub fn footer_digits(footer: &[u8]) -> Option<Range<usize>> {
    let before = [FOOTER_CHECKSUM.as_bytes(), b"\x18\x10"].concat(); // the value is field 2, of 16 bytes
    let start = footer.windows(before.len()).rposition(|window| window == before)? + before.len();
    (start + 16 <= footer.len()).then_some(start..start + 16)
}

/// The columns. `name` is UTF-8. `size` is the length of `data` in bytes, for queries that do not read `data`.
/// `last_modified` and `e_tag` are null where the source does not tell them.
pub fn schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new("name", DataType::Utf8, false),
        Field::new("size", DataType::Int64, false),
        Field::new("data", DataType::Binary, false),
        Field::new("last_modified", time, true),
        Field::new("e_tag", DataType::Utf8, true),
    ]))
}

/// The name of the file with this number. Each part of a job has numbers of its own.
pub fn file_name(part: Option<u32>, number: u64) -> String {
    match part {
        None => format!("objects-{number:06}.parquet"),
        Some(part) => format!("part-{part}-objects-{number:06}.parquet"),
    }
}

/// The part and the number in the name of a file, if it is one of a dataset.
pub fn file_number(name: &str) -> Option<(Option<u32>, u64)> {
    let (part, rest) = match name.strip_prefix("part-") {
        Some(rest) => rest.split_once('-').map(|(part, rest)| (Some(part), rest))?,
        None => (None, name),
    };
    let part = part.map(str::parse).transpose().ok()?;
    let number = rest.strip_prefix("objects-")?.strip_suffix(".parquet")?.parse().ok()?;
    (file_name(part, number) == name).then_some((part, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_number_in_its_name() {
        for (part, number) in [(None, 0), (None, 1_234_567), (Some(0), 3), (Some(4_000_000_000), u64::MAX)] {
            assert_eq!(file_number(&file_name(part, number)), Some((part, number)));
        }
        for other in ["objects-1.parquet", "part-objects-000001.parquet", "part-03-objects-000001.parquet", "part-1"] {
            assert_eq!(file_number(other), None, "{other}");
        }
    }
}

//! Recognizes files that are not supported archives by their first bytes, for the error message.

/// First bytes of a file, and what such a file is.
const BEGINNINGS: [(&[u8], &str); 34] = [
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"MSCF\0\0\0\0", "a cabinet (.cab)"),
    (b"!<arch>\n", "an ar archive (.deb, .a)"),
    (b"070701", "a cpio archive"),
    (b"070702", "a cpio archive"),
    (b"070707", "a cpio archive"),
    (b"\xed\xab\xee\xdb", "an RPM package"),
    (b"xar!", "a xar archive (.pkg)"),
    (b"\x60\xea", "an ARJ archive"),
    (b"hsqs", "a SquashFS image"),
    (b"LZIP", "compressed with lzip"),
    (b"\x04\x22\x4d\x18", "compressed with lz4"),
    (b"\x89LZO\0", "compressed with lzop"),
    (b"\x1f\x9d", "compressed with compress (.Z)"),
    (b"]\0\0", "compressed with lzma (.lzma)"),
    (b"\x1f\x8b\x08", "compressed with gzip"),
    (b"BZh", "compressed with bzip2"),
    (b"\xfd7zXZ\0", "compressed with xz"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd"),
    (b"%PDF-", "a PDF document"),
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"\x7fELF", "a program (ELF)"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"PAR1", "a Parquet file"),
    (b"\x89HDF\r\n", "an HDF5 file"),
    (b"version https://git-lfs", "a Git LFS pointer: its contents were not fetched"),
    (b"<!doctype html", HTML),
    (b"<html", HTML),
    (b"<?xml", "an XML document"),
    (b"{", "text that begins like JSON"),
    (b"PK\x07\x08PK\x03\x04", "one part of a split zip archive: join the parts first"),
];

/// Servers send this instead of a file.
const HTML: &str = "an HTML page: was the download refused?";

/// Returns what a file is that begins with `head`, if it is known. `head` has 512 bytes, or the whole file if it is
/// shorter.
pub(super) fn of(head: &[u8]) -> Option<&'static str> {
    if head.is_empty() {
        return Some("an empty file");
    }
    let begins = |head: &[u8]| {
        let is = |magic: &[u8]| head.get(..magic.len()).is_some_and(|first| first.eq_ignore_ascii_case(magic));
        BEGINNINGS.iter().find(|(magic, _)| is(magic)).map(|(_, what)| *what)
    };
    let text = || begins(head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start());
    let lha = || matches!(head, [_, _, b'-', b'l', _, _, b'-', ..]).then_some("an LHA archive");
    let zeros = || head.iter().all(|&byte| byte == 0).then_some("zeros");
    begins(head).or_else(text).or_else(lha).or_else(zeros)
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn first_bytes_tell_what_a_file_is() {
        let rows: [(&[u8], Option<&str>); 9] = [
            (b"", Some("an empty file")),
            (b"7z\xbc\xaf\x27\x1c\0\x04", Some("a 7z archive")),
            (b"\n <!DOCTYPE HTML><title>404", Some(super::HTML)),
            (b"\xef\xbb\xbf<HTML>", Some(super::HTML)),
            (b"!!-lh5-", Some("an LHA archive")),
            (b"\0\0\0\0", Some("zeros")),
            (b"Ra", None),
            (b"hello", None),
            (b"PK\x03\x04", None),
        ];
        for (head, wanted) in rows {
            assert_eq!(of(head), wanted, "{head:?}");
        }
    }
}

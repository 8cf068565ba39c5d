//! Decodes the names of entries: their encoding, and backslashes.
//!
//! Names are bytes. UTF-8 is passed through unchanged, other encodings are converted to UTF-8. Nothing is repaired, and
//! whether a name is safe is decided elsewhere (`Name`).

use encoding_rs::Encoding as Table;

use super::options::{ArchiveOptions, Backslashes, Encoding};
use crate::display::escape;
use crate::error::{Error, Kind, Result};

/// A name as it is in an archive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawName<'a> {
    pub bytes: &'a [u8],
    pub charset: Charset,
}

/// The encoding of a name, according to the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charset {
    /// UTF-8 (by a flag or extra field of a zip, or by pax): never converted.
    Utf8,
    /// From a zip without that flag, created on Unix or not.
    Zip { unix: bool },
    /// From a tar: the bytes unchanged, unless `encoding` names an encoding.
    Tar,
}

/// The upper half of code page 437, the default encoding of zip archives.
#[rustfmt::skip]
const CP437: [char; 128] = [
    'Ç', 'ü', 'é', 'â', 'ä', 'à', 'å', 'ç', 'ê', 'ë', 'è', 'ï', 'î', 'ì', 'Ä', 'Å',
    'É', 'æ', 'Æ', 'ô', 'ö', 'ò', 'û', 'ù', 'ÿ', 'Ö', 'Ü', '¢', '£', '¥', '₧', 'ƒ',
    'á', 'í', 'ó', 'ú', 'ñ', 'Ñ', 'ª', 'º', '¿', '⌐', '¬', '½', '¼', '¡', '«', '»',
    '░', '▒', '▓', '│', '┤', '╡', '╢', '╖', '╕', '╣', '║', '╗', '╝', '╜', '╛', '┐',
    '└', '┴', '┬', '├', '─', '┼', '╞', '╟', '╚', '╔', '╩', '╦', '╠', '═', '╬', '╧',
    '╨', '╤', '╥', '╙', '╘', '╒', '╓', '╫', '╪', '┘', '┌', '█', '▄', '▌', '▐', '▀',
    'α', 'ß', 'Γ', 'π', 'Σ', 'σ', 'µ', 'τ', 'Φ', 'Θ', 'Ω', 'δ', '∞', 'φ', 'ε', '∩',
    '≡', '±', '≥', '≤', '⌠', '⌡', '÷', '≈', '°', '∙', '·', '√', 'ⁿ', '²', '■', '\u{a0}',
];

/// Returns the table of an encoding, `None` for [`Encoding::Auto`].
///
/// # Errors
/// [`Kind::Config`] if the label is unknown.
pub(super) fn table(encoding: &Encoding) -> Result<Option<&'static Table>> {
    let Encoding::Label(label) = encoding else { return Ok(None) };
    match Table::for_label(label.as_bytes()) {
        Some(table) => Ok(Some(table)),
        None => Err(Error::new(Kind::Config, "unknown encoding")
            .on(&escape(label.as_bytes()))
            .hint("use auto, or a WHATWG label: shift_jis, gbk, euc-kr, windows-1251, ibm866")),
    }
}

/// The result of decoding a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Converted {
    /// The bytes have changed.
    pub changed: bool,
    /// It has a backslash, which is not allowed.
    pub refused: bool,
}

/// Appends the decoded name to `into`.
pub(super) fn convert(
    raw: RawName<'_>,
    table: Option<&'static Table>,
    options: &ArchiveOptions,
    into: &mut Vec<u8>,
) -> Converted {
    let start = into.len();
    decode(raw, table, into);
    let mut refused = false;
    if memchr::memchr(b'\\', &into[start..]).is_some() {
        match options.backslashes {
            Backslashes::Refuse => refused = true,
            Backslashes::Separator => {
                into[start..].iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
            }
        }
    }
    Converted { changed: into[start..] != *raw.bytes, refused }
}

fn decode(raw: RawName<'_>, table: Option<&'static Table>, into: &mut Vec<u8>) {
    if raw.charset == Charset::Utf8 || (table.is_none() && raw.bytes.is_ascii()) {
        return into.extend_from_slice(raw.bytes);
    }
    match (raw.charset, table) {
        (_, Some(table)) => {
            into.extend_from_slice(table.decode_without_bom_handling(raw.bytes).0.as_bytes());
        }
        (Charset::Zip { unix }, None) if !(unix && std::str::from_utf8(raw.bytes).is_ok()) => {
            let mut buffer = [0; 4];
            for &byte in raw.bytes {
                match byte.checked_sub(0x80) {
                    None => into.push(byte),
                    Some(high) => into.extend_from_slice(CP437[usize::from(high)].encode_utf8(&mut buffer).as_bytes()),
                }
            }
        }
        _ => into.extend_from_slice(raw.bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(bytes: &[u8], charset: Charset, encoding: Encoding, backslashes: Backslashes) -> (Vec<u8>, Converted) {
        let mut into = b"p/".to_vec();
        let options = ArchiveOptions { backslashes, ..ArchiveOptions::default() };
        let converted = convert(RawName { bytes, charset }, table(&encoding).unwrap(), &options, &mut into);
        (into[2..].to_vec(), converted)
    }

    #[test]
    fn each_charset_is_read_as_what_it_is_said_to_be() {
        let auto = |bytes: &[u8], charset| name(bytes, charset, Encoding::Auto, Backslashes::Refuse).0;
        let dos = Charset::Zip { unix: false };
        assert_eq!(auto(b"\x81ber \xe1\xff", dos), "\u{fc}ber \u{df}\u{a0}".as_bytes());
        assert_eq!(auto("\u{fc}".as_bytes(), dos), "\u{251c}\u{255d}".as_bytes(), "two characters of code page 437");
        assert_eq!(auto("\u{fc}".as_bytes(), Charset::Zip { unix: true }), "\u{fc}".as_bytes());
        assert_eq!(auto(b"\xfc", Charset::Zip { unix: true }), "\u{207f}".as_bytes());
        assert_eq!(auto(b"\xfc", Charset::Utf8), b"\xfc");
        assert_eq!(auto(b"\xfc", Charset::Tar), b"\xfc");
        let label =
            |bytes: &[u8], charset| name(bytes, charset, Encoding::Label("shift_jis".into()), Backslashes::Refuse);
        // The second byte of this character is a backslash.
        let (text, converted) = label(b"\x95\x5c.txt", dos);
        assert_eq!(text, "\u{8868}.txt".as_bytes());
        assert_eq!(converted, Converted { changed: true, refused: false });
        assert_eq!(label(b"\x95\x5c", Charset::Tar).0, "\u{8868}".as_bytes());
        assert_eq!(label("\u{8868}".as_bytes(), Charset::Utf8).0, "\u{8868}".as_bytes());
        assert_eq!(table(&Encoding::Label("klingon".into())).unwrap_err().kind(), Kind::Config);
    }

    #[test]
    fn a_backslash_is_refused_or_separates() {
        let (text, converted) = name(b"a\\b", Charset::Utf8, Encoding::Auto, Backslashes::Refuse);
        assert_eq!((&text[..], converted), (&b"a\\b"[..], Converted { changed: false, refused: true }));
        let (text, converted) = name(b"..\\b", Charset::Utf8, Encoding::Auto, Backslashes::Separator);
        assert_eq!((&text[..], converted), (&b"../b"[..], Converted { changed: true, refused: false }));
    }
}

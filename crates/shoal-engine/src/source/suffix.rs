//! What the suffix of a name says of the bytes behind it: the only tables of suffixes of answers by HTTP.
//!
//! They are small on purpose. Where a suffix is missing, an answer of any type is the object, and what is encoded is
//! decoded. Not here: what follows (`http_objects.rs`).

/// The bytes that a suffix stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A web page, or a program that makes one: anything may come.
    Page,
    /// JSON.
    Json,
    /// This.
    Other(&'static str),
}

const FORMS: [(Form, &str); 8] = [
    (Form::Page, "asp aspx cfm cgi do htm html jsp mht mhtml php phtml shtml xht xhtml"),
    (Form::Json, "geojson json jsonl ndjson"),
    (Form::Other("an image"), "avif bmp gif heic ico jp2 jpeg jpg png svg svgz tif tiff webp"),
    (Form::Other("an archive"), "7z jar rar tar tbz2 tgz txz whl zip"),
    (Form::Other("sound"), "aac flac m4a mp3 ogg opus wav"),
    (Form::Other("a video"), "avi mkv mov mp4 mpeg mpg webm"),
    (Form::Other("a document"), "doc docx epub odt pdf ppt pptx"),
    (Form::Other("data"), "arrow csv fits h5 hdf5 nc npy npz orc parquet tsv xls xlsx"),
];

/// An encoding, and the suffixes of what has it.
pub(super) struct Encoding {
    pub name: &'static str,
    /// Behind another suffix: services give the type of that one as often as their own.
    added: &'static str,
    whole: &'static str,
}

#[rustfmt::skip]
const ENCODINGS: [Encoding; 6] = [
    Encoding { name: "br", added: "br", whole: "" },
    Encoding { name: "bzip2", added: "bz2", whole: "tbz2" },
    Encoding { name: "compress", added: "z", whole: "" },
    Encoding { name: "gzip", added: "bgz gz", whole: "svgz tgz" },
    Encoding { name: "xz", added: "xz", whole: "txz" },
    Encoding { name: "zstd", added: "zst", whole: "tzst" },
];

/// The encoding of this name, if suffixes tell of it.
pub(super) fn encoding(name: &str) -> Option<&'static Encoding> {
    ENCODINGS.iter().find(|encoding| encoding.name == name)
}

impl Encoding {
    /// Whether the suffix of one of these names is that of what has this encoding.
    pub fn is_of(&self, names: &[&[u8]]) -> bool {
        let mut suffixes = names.iter().filter_map(|name| split(name));
        suffixes.any(|(_, suffix)| is_in(self.added, suffix) || is_in(self.whole, suffix))
    }
}

/// What the first of these names says that says anything.
pub(super) fn form(names: &[&[u8]]) -> Option<Form> {
    names.iter().find_map(|name| form_of(name))
}

fn form_of(name: &[u8]) -> Option<Form> {
    let (stem, suffix) = split(name)?;
    if ENCODINGS.iter().any(|encoding| is_in(encoding.added, suffix)) {
        return form_of(stem).or(Some(Form::Other("a compressed file")));
    }
    FORMS.iter().find(|(_, suffixes)| is_in(suffixes, suffix)).map(|(form, _)| *form)
}

/// A name without its suffix, and the suffix. Only the last segment of a path counts.
fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let segment = name.rsplit(|byte| *byte == b'/').next()?;
    let dot = memchr::memrchr(b'.', segment)?;
    Some((&segment[..dot], &segment[dot + 1..]))
}

fn is_in(suffixes: &str, suffix: &[u8]) -> bool {
    suffixes.split_ascii_whitespace().any(|one| one.as_bytes().eq_ignore_ascii_case(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_suffix_of_the_first_name_that_has_a_known_one_decides() {
        for (names, says) in [
            (&["a.JPG"][..], Some(Form::Other("an image"))),
            (&["a.jpg/b"], None),
            (&["a.jpg.unknown"], None),
            (&["a", "/x/b.html"], Some(Form::Page)),
            (&["a.json", "/x/b.html"], Some(Form::Json)),
            (&["a.html.gz"], Some(Form::Page)),
            (&["a.tar.gz"], Some(Form::Other("an archive"))),
            (&["a.gz", ".."], Some(Form::Other("a compressed file"))),
            (&["", "jpg", "a.", "."], None),
        ] {
            let bytes: Vec<_> = names.iter().map(|name| name.as_bytes()).collect();
            assert_eq!(form(&bytes), says, "{names:?}");
        }
    }

    #[test]
    fn an_encoding_is_told_by_the_suffix_of_any_name() {
        let is_of = |name: &str, names: &[&[u8]]| encoding(name).is_some_and(|encoding| encoding.is_of(names));
        for told in [&[&b"a.tar.gz"[..]][..], &[b"a.TGZ"], &[b"a", b"/b/c.svgz"], &[b"a.gz", b"b"]] {
            assert!(is_of("gzip", told), "{told:?}");
            assert!(!is_of("zstd", told) && !is_of("deflate", told) && !is_of("", told), "{told:?}");
        }
        for other in [&[&b"gz"[..]][..], &[b"a.gz/b"], &[b"a.bz2"], &[b"a."], &[]] {
            assert!(!is_of("gzip", other), "{other:?}");
        }
    }
}

//! What the suffix of a name says of the bytes behind it: the only table of suffixes of answers by HTTP.
//!
//! It is small on purpose. Where a suffix is missing, an answer of any type is the object. Not here: what follows
//! (`http_objects.rs`).

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

/// Suffixes behind another one, whose type services give as often as their own.
const PACKED: [&str; 5] = ["bz2", "gz", "xz", "z", "zst"];

/// What the first of these names says that says anything. Only the last segment of a path counts.
pub(super) fn form(names: &[&[u8]]) -> Option<Form> {
    names.iter().find_map(|name| of(name.rsplit(|byte| *byte == b'/').next()?))
}

fn of(name: &[u8]) -> Option<Form> {
    let dot = memchr::memrchr(b'.', name)?;
    let is = |suffix: &str| suffix.as_bytes().eq_ignore_ascii_case(&name[dot + 1..]);
    if PACKED.into_iter().any(is) {
        return of(&name[..dot]).or(Some(Form::Other("a compressed file")));
    }
    FORMS.iter().find(|(_, suffixes)| suffixes.split(' ').any(is)).map(|(form, _)| *form)
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
}

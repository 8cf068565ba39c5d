//! What the ending of a name says that its file holds, and what such a file can be made from.
//!
//! JSON of Python's own values and `.npz` are written by Python's libraries (`shoal._formats`), on the thread that iterates;
//! the others by the crate `shoal-encode`, on any.

use std::fmt;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use shoal_encode::{Format, Options};

use crate::array::is_array;

/// Endings of compressed files, images, text and other formats for arrays: nothing here writes them.
const FOREIGN: [&str; 22] = [
    "gz", "bz2", "xz", "zst", "lz4", "br", "zip", "png", "jpg", "jpeg", "gif", "bmp", "tif", "tiff", "webp", "txt",
    "tsv", "pkl", "pickle", "pt", "h5", "mat",
];

/// What an ending says.
#[derive(Clone, Copy)]
pub enum Ending {
    Format(Format),
    Json,
    Npz,
}

impl Ending {
    /// What a name ends in; `None`: it says nothing of what the file holds.
    pub fn of(name: &[u8]) -> Option<Ending> {
        let others = || match Format::ending(name)? {
            ending if ending.eq_ignore_ascii_case(b"json") => Some(Ending::Json),
            ending if ending.eq_ignore_ascii_case(b"npz") => Some(Ending::Npz),
            _ => None,
        };
        Format::of_name(name).map(Ending::Format).or_else(others)
    }

    /// What such a file is made from, besides bytes and text.
    pub fn takes(self) -> &'static str {
        match self {
            Ending::Format(Format::Csv) => "a table or an array of up to two dimensions",
            Ending::Format(Format::Parquet | Format::Arrow) => "a table",
            Ending::Format(Format::JsonLines) => "a table or a list of dicts",
            Ending::Format(Format::Npy) => "an array",
            Ending::Json => "a dict, a list or a dataclass",
            Ending::Npz => "an array or a dict of arrays",
        }
    }

    /// Returns the bytes of the file if one of Python's libraries encodes it; `None` for other objects.
    pub fn written_in_python<'py>(
        self,
        object: &Bound<'py, PyAny>,
        options: Options,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let formats = || object.py().import("shoal._formats");
        let is_list = object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
        let is_dict = object.is_instance_of::<PyDict>();
        let is_dataclass = || object.get_type().hasattr("__dataclass_fields__");
        let written = match self {
            Ending::Json if is_dict || is_list || is_dataclass()? => formats()?.call_method1("json_file", (object,)),
            Ending::Format(Format::JsonLines) if is_list => {
                formats()?.call_method1("json_lines", (object, options.final_newline))
            }
            Ending::Npz if is_dict || is_array(object)? => formats()?.call_method1("npz_file", (object,)),
            _ => return Ok(None),
        };
        Ok(Some(written?.cast_into()?))
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Format(format) => format.fmt(f),
            Ending::Json => f.write_str("json"),
            Ending::Npz => f.write_str("npz"),
        }
    }
}

/// The ending of a name, if its file has a form that bytes of an array do not have.
pub fn foreign(name: &[u8]) -> Option<&'static str> {
    let ending = Format::ending(name)?;
    FOREIGN.into_iter().find(|one| ending.eq_ignore_ascii_case(one.as_bytes()))
}

/// What a table's name may end in.
pub fn formless() -> String {
    let endings = Format::ENDINGS.iter().filter(|(_, format)| *format != Format::Npy);
    let endings: Vec<String> = endings.map(|(ending, _)| format!(".{ending}")).collect();
    format!("a table is written in the format of the name's suffix: {}", endings.join(", "))
}

//! What the ending of a name says that its file holds, and what such a file can be made from.
//!
//! JSON of Python's own values and `.npz` are written by Python's libraries (`shoal._formats`), on the thread that iterates;
//! the others by the crate `shoal-encode`, on any.

use std::fmt;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use shoal_encode::{Format, Options};
use shoal_engine::display::escape;

use crate::array::is_array;

/// Endings of compressed files.
const COMPRESSED: [&str; 7] = ["gz", "bz2", "xz", "zst", "lz4", "br", "zip"];

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
            Ending::Json => "a dict or a list",
            Ending::Npz => "an array or a dict of arrays",
        }
    }

    /// The bytes of the file, if one of Python's libraries writes it; `None`: the object is none for that. The inner error:
    /// it cannot be written; why.
    pub fn written_in_python<'py>(
        self,
        object: &Bound<'py, PyAny>,
        options: Options,
    ) -> PyResult<Option<Result<Bound<'py, PyBytes>, String>>> {
        let py = object.py();
        let formats = || py.import("shoal._formats");
        let is_list = object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
        let is_dict = object.is_instance_of::<PyDict>();
        let written = match self {
            Ending::Json if is_dict || is_list => formats()?.call_method1("json_file", (object,)),
            Ending::Format(Format::JsonLines) if is_list => {
                formats()?.call_method1("json_lines", (object, options.final_newline))
            }
            Ending::Npz if is_dict || is_array(object)? => formats()?.call_method1("npz_file", (object,)),
            _ => return Ok(None),
        };
        match written {
            Ok(bytes) => Ok(Some(Ok(bytes.cast_into()?))),
            // What cannot be written is that object's failure; KeyboardInterrupt and the like are not.
            Err(error) if error.is_instance_of::<PyException>(py) => {
                let why = format!("it cannot be written as .{self}: {}", error.value(py));
                Ok(Some(Err(escape(why.as_bytes()).to_string())))
            }
            Err(error) => Err(error),
        }
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

/// Whether a name says that the file is compressed.
pub fn compresses(name: &[u8]) -> bool {
    Format::ending(name).is_some_and(|ending| COMPRESSED.iter().any(|one| ending.eq_ignore_ascii_case(one.as_bytes())))
}

/// What a table's name may end in.
pub fn formless() -> String {
    let endings = Format::ENDINGS.iter().filter(|(_, format)| *format != Format::Npy);
    let endings: Vec<String> = endings.map(|(ending, _)| format!(".{ending}")).collect();
    format!("a table is written in the format that its name's ending says: {}", endings.join(", "))
}

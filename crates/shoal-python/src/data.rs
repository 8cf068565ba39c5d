//! What a user may save as the data of an object, and how lanes come to its bytes without the interpreter: bytes, text and
//! buffers as they are, tables (`table.rs`) and arrays (`array.rs`) in the format that the name's ending says (`ending.rs`).
//!
//! A Python object is looked at once, on the thread that iterates: only what nothing can change is borrowed, all else is
//! copied before the next item is asked for. Items are dropped on that thread too. Not here: the loop over items (`save.rs`).

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyMemoryView, PyString, PyTuple};
use shoal_encode::{Format, encode_rows};
use shoal_engine::display::escape;
use shoal_engine::source::items::Item;
use shoal_engine::{Error, Kind, Result};

use crate::array::{Array, MASKED, is_array, is_masked, is_numpy, never_changes, numpy_array};
use crate::ending::{Ending, foreign, formless};
use crate::table::Table;

/// Memory of a Python object that is held beside it.
struct Span {
    start: *const u8,
    len: usize,
}

impl Span {
    fn of(bytes: &[u8]) -> Span {
        Span { start: bytes.as_ptr(), len: bytes.len() }
    }
}

/// The data of one object.
pub enum Data {
    /// Bytes or text: they never change.
    Object(Held<Py<PyAny>>),
    /// What another object exports for reading.
    Buffer(Held<PyUntypedBuffer>),
    /// A table, and how it is written.
    Table(Table, Format, shoal_encode::Options),
    /// An array, and how it is written.
    Array(Array, Format, shoal_encode::Options),
    /// It has no bytes; why.
    Refused(Kind, String),
}

/// Bytes and what keeps them in place.
pub struct Held<T> {
    _owner: T,
    span: Span,
}

// SAFETY: nothing writes to the memory while the owner lives, which is let go only on the thread that made it.
unsafe impl<T: Send> Send for Held<T> {}
// SAFETY: as above; shared access only reads.
unsafe impl<T: Sync> Sync for Held<T> {}

impl<T> Held<T> {
    fn bytes(&self) -> &[u8] {
        if self.span.len == 0 {
            return &[]; // an empty buffer may have no address
        }
        // SAFETY: `_owner` keeps the memory where it is, and nothing writes to it: it is that of bytes, text or an object
        // that shoal has read.
        unsafe { std::slice::from_raw_parts(self.span.start, self.span.len) }
    }
}

impl Item for Data {
    fn held(&self) -> u64 {
        match self {
            Data::Object(held) => held.span.len as u64,
            Data::Buffer(held) => held.span.len as u64,
            Data::Table(table, ..) => table.held(),
            Data::Array(array, ..) => array.held(),
            Data::Refused(_, why) => why.len() as u64,
        }
    }

    fn data<'a>(&'a self, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        scratch.clear();
        let encoding = |error: shoal_encode::Error| Error::new(Kind::Encoding, escape(error.to_string().as_bytes()));
        match self {
            Data::Table(table, format, options) => {
                encode_rows(table.schema(), table.rows(), *format, options, scratch).map_err(encoding)?;
                Ok(scratch)
            }
            Data::Array(array, format, options) => {
                array.encode(*format, options, scratch).map_err(encoding)?;
                Ok(scratch)
            }
            Data::Object(held) => Ok(held.bytes()),
            Data::Buffer(held) => Ok(held.bytes()),
            Data::Refused(kind, why) => Err(Error::new(*kind, why)),
        }
    }
}

/// The two halves of an item.
pub fn pair<'py>(item: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    if let Ok(tuple) = item.cast::<PyTuple>() {
        if tuple.len() == 2 {
            return Ok((tuple.get_item(0)?, tuple.get_item(1)?));
        }
    } else if let Ok(list) = item.cast::<PyList>()
        && list.len() == 2
    {
        return Ok((list.get_item(0)?, list.get_item(1)?));
    }
    Err(PyTypeError::new_err(format!("not a pair (name, data): {}", class(item))))
}

fn class(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}

/// The class of an object with its article.
fn a(object: &Bound<'_, PyAny>) -> String {
    match class(object) {
        none if none == "NoneType" => "None".to_owned(),
        class if class.starts_with(['a', 'e', 'i', 'o', 'A', 'E', 'I', 'O']) => format!("an {class}"),
        class => format!("a {class}"),
    }
}

/// The bytes of a name, and why it cannot be one.
pub fn name<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<(Cow<'a, [u8]>, Option<Data>)> {
    if let Ok(text) = object.cast::<PyString>() {
        return match text.to_str() {
            Ok(text) => Ok((Cow::Borrowed(text.as_bytes()), None)),
            Err(_) => escaped(text),
        };
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok((Cow::Borrowed(bytes.as_bytes()), None));
    }
    let not_one = |_| PyTypeError::new_err(format!("its name must be text, bytes or a path: {}", class(object)));
    let path = object.py().import("os")?.call_method1("fspath", (object,)).map_err(not_one)?;
    let (bytes, refused) = name(&path)?;
    Ok((Cow::Owned(bytes.into_owned()), refused))
}

/// Text that is not UTF-8: the escapes with which Python writes the bytes of a file's name, or nothing that has bytes.
fn escaped<'a>(text: &Bound<'_, PyString>) -> PyResult<(Cow<'a, [u8]>, Option<Data>)> {
    let encode = |errors| -> PyResult<Vec<u8>> { text.call_method1("encode", ("utf-8", errors))?.extract() };
    if let Ok(bytes) = encode("surrogateescape") {
        return Ok((Cow::Owned(bytes), None));
    }
    let why = "unsafe name: it has a lone surrogate".to_owned();
    Ok((Cow::Owned(encode("surrogatepass")?), Some(Data::Refused(Kind::UnsafeName, why))))
}

/// The data of an item with this name.
pub fn data(object: &Bound<'_, PyAny>, name: &[u8], options: shoal_encode::Options) -> PyResult<Data> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(of_bytes(bytes.clone()));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(match text.to_str() {
            // Python keeps the UTF-8 form with the object, for as long as it lives.
            Ok(utf8) => {
                Data::Object(Held { span: Span::of(utf8.as_bytes()), _owner: text.clone().into_any().unbind() })
            }
            Err(error) => {
                Data::Refused(Kind::Encoding, format!("its text has no UTF-8 form: {}", error.value(text.py())))
            }
        });
    }
    let look = || match Ending::of(name) {
        Some(ending) => in_format(object, ending, options).map(Some),
        None => as_it_is(object, name),
    };
    // Rows that do not fit their own type make Arrow panic.
    let looked = catch_unwind(AssertUnwindSafe(look)).unwrap_or_else(|_| {
        let why = "its memory does not match its description: a library panicked";
        Ok(Some(Data::Refused(Kind::Encoding, why.to_owned())))
    });
    match looked {
        Ok(Some(data)) => Ok(data),
        Ok(None) => Err(PyTypeError::new_err(format!("its data must be bytes, text or a buffer: {}", class(object)))),
        // What its producer cannot do is that object's failure; KeyboardInterrupt and the like are not.
        Err(error) if error.is_instance_of::<PyException>(object.py()) => {
            let why = format!("{} cannot be saved: {}", a(object), error);
            Ok(Data::Refused(Kind::Encoding, escape(why.as_bytes()).to_string()))
        }
        Err(error) => Err(error),
    }
}

/// The data of an item with a name that says what the file holds.
fn in_format(object: &Bound<'_, PyAny>, ending: Ending, options: shoal_encode::Options) -> PyResult<Data> {
    let refused = |why| Data::Refused(Kind::Encoding, why);
    if let Some(bytes) = ending.written_in_python(object, options)? {
        return Ok(of_bytes(bytes));
    }
    if let Ending::Format(format) = ending {
        if let Some(table) = Table::import(object)? {
            return Ok(table.map_or_else(refused, |table| Data::Table(table, format, options)));
        }
        if let Some(array) = Array::import(object)? {
            return Ok(array.map_or_else(refused, |array| Data::Array(array, format, options)));
        }
    }
    // Other bytes are as they are; elements of several bytes would be what the ending does not say.
    let of_single_bytes = |buffer: PyUntypedBuffer| buffer.item_size() == 1;
    if !is_array(object)?
        && PyUntypedBuffer::get(object).is_ok_and(of_single_bytes)
        && let Some(data) = buffer(object)?
    {
        return Ok(data);
    }
    Ok(refused(format!("a .{ending} file takes {}, or bytes and text, not {}", ending.takes(), a(object))))
}

/// The data of an item with a name of another kind; `None`: it has no bytes. An array is saved as the bytes that it is.
fn as_it_is(object: &Bound<'_, PyAny>, name: &[u8]) -> PyResult<Option<Data>> {
    let refused = |why: String| Ok(Some(Data::Refused(Kind::Encoding, why)));
    if let Some(table) = Table::import(object)? {
        return refused(table.map_or_else(|why| why, |_| formless()));
    }
    if is_masked(object)? {
        return refused(MASKED.to_owned());
    }
    let Some(array) = numpy_array(object)? else { return buffer(object) };
    let dtype = array.getattr("dtype")?;
    if dtype.getattr("hasobject")?.extract()? {
        return refused(format!("an array of {} holds addresses of objects, not their contents", dtype.str()?));
    }
    let of_bytes = dtype.getattr("itemsize")?.eq(1)? && array.getattr("ndim")?.eq(1)?;
    match foreign(name).filter(|_| !of_bytes) {
        Some(ending) => refused(format!(
            "an array cannot be saved as .{ending}: save the bytes of such a file, or name it .npy or \
            .csv"
        )),
        None => buffer(&array),
    }
}

fn of_bytes(bytes: Bound<'_, PyBytes>) -> Data {
    Data::Object(Held { span: Span::of(bytes.as_bytes()), _owner: bytes.into_any().unbind() })
}

/// Anything that exports a buffer: borrowed where nothing can change it and it is in one piece, else copied. `None`: it does
/// not.
fn buffer(object: &Bound<'_, PyAny>) -> PyResult<Option<Data>> {
    if let Ok(array) = object.cast::<PyByteArray>() {
        // SAFETY: nothing of Python runs between here and the copy.
        return Ok(Some(of_bytes(PyBytes::new(object.py(), unsafe { array.as_bytes() }))));
    }
    if never_changes(object).unwrap_or(false)
        && let Ok(buffer) = PyUntypedBuffer::get(object)
        && buffer.readonly()
        && buffer.is_c_contiguous()
    {
        let span = Span { start: buffer.buf_ptr().cast(), len: buffer.len_bytes() };
        return Ok(Some(Data::Buffer(Held { _owner: buffer, span })));
    }
    // NumPy exports no buffer of times.
    if is_numpy(object)? {
        return Ok(Some(of_bytes(object.call_method1("tobytes", ("C",))?.cast_into::<PyBytes>()?)));
    }
    // Also what has no dimension, which that one refuses.
    let Ok(view) = PyMemoryView::from(object) else { return Ok(None) };
    if view.getattr("format")?.extract::<String>()?.contains('O') {
        return Err(PyValueError::new_err("it holds addresses of objects, not their contents"));
    }
    Ok(Some(of_bytes(view.call_method1("tobytes", ("C",))?.cast_into::<PyBytes>()?)))
}

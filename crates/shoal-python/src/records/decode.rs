//! Bytes of a record to Python's objects, and back: what `struct` does.
//!
//! Here: where each field lies and how it is read ([`Decoder`]), and rows of Python's values as bytes ([`encode`]). Not
//! here: loops over records (`iterate.rs`).

use std::os::raw::c_long;

use half::f16;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyMapping, PyString, PyTuple};
use shoal_records::{Field, Format, Kind};

/// How a field is read. One word for each kind and byte order, so that a loop branches once for a field.
#[derive(Clone, Copy)]
enum Code {
    Bool,
    U8,
    I8,
    U16,
    U16Big,
    I16,
    I16Big,
    U32,
    U32Big,
    I32,
    I32Big,
    U64,
    U64Big,
    I64,
    I64Big,
    F16,
    F16Big,
    F32,
    F32Big,
    F64,
    F64Big,
    Bytes(usize),
}

/// A field: where it lies, and how it is read.
#[derive(Clone, Copy)]
pub struct Slot {
    offset: usize,
    code: Code,
}

/// The fields of a format.
pub struct Decoder(Box<[Slot]>);

impl Decoder {
    /// Of all fields, in order.
    pub fn new(format: &Format) -> Self {
        Self(format.fields().iter().map(Slot::of).collect())
    }

    /// The fields.
    pub fn slots(&self) -> &[Slot] {
        &self.0
    }

    /// A record as a tuple.
    pub fn tuple<'py>(&self, py: Python<'py>, record: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
        let values: PyResult<Vec<Bound<'py, PyAny>>> = self
            .0
            .iter()
            .map(|slot| {
                assert!(slot.end() <= record.len(), "a format's fields lie within its records");
                // SAFETY: the interpreter is held, and the field lies within the record.
                unsafe { Bound::from_owned_ptr_or_err(py, slot.object(record.as_ptr())) }
            })
            .collect();
        PyTuple::new(py, values?)
    }
}

/// A whole number. On every 64-bit Linux `long` has its 64 bits, and this call is the quicker one.
#[inline(always)]
fn signed(value: i64) -> *mut ffi::PyObject {
    match c_long::try_from(value) {
        // SAFETY: the callers hold the interpreter.
        Ok(value) => unsafe { ffi::PyLong_FromLong(value) },
        // SAFETY: as above.
        Err(_) => unsafe { ffi::PyLong_FromLongLong(value) },
    }
}

#[inline(always)]
fn unsigned(value: u64) -> *mut ffi::PyObject {
    match i64::try_from(value) {
        Ok(value) => signed(value),
        // SAFETY: the callers hold the interpreter.
        Err(_) => unsafe { ffi::PyLong_FromUnsignedLongLong(value) },
    }
}

#[inline(always)]
fn float(value: f64) -> *mut ffi::PyObject {
    // SAFETY: the callers hold the interpreter.
    unsafe { ffi::PyFloat_FromDouble(value) }
}

impl Slot {
    fn of(field: &Field) -> Self {
        let code = match (field.kind, field.big_endian) {
            (Kind::Bool, _) => Code::Bool,
            (Kind::U8, _) => Code::U8,
            (Kind::I8, _) => Code::I8,
            (Kind::U16, false) => Code::U16,
            (Kind::U16, true) => Code::U16Big,
            (Kind::I16, false) => Code::I16,
            (Kind::I16, true) => Code::I16Big,
            (Kind::U32, false) => Code::U32,
            (Kind::U32, true) => Code::U32Big,
            (Kind::I32, false) => Code::I32,
            (Kind::I32, true) => Code::I32Big,
            (Kind::U64, false) => Code::U64,
            (Kind::U64, true) => Code::U64Big,
            (Kind::I64, false) => Code::I64,
            (Kind::I64, true) => Code::I64Big,
            (Kind::F16, false) => Code::F16,
            (Kind::F16, true) => Code::F16Big,
            (Kind::F32, false) => Code::F32,
            (Kind::F32, true) => Code::F32Big,
            (Kind::F64, false) => Code::F64,
            (Kind::F64, true) => Code::F64Big,
            (Kind::Bytes(length), _) => Code::Bytes(length),
        };
        Self { offset: field.offset, code }
    }

    fn end(self) -> usize {
        let length = match self.code {
            Code::Bool | Code::U8 | Code::I8 => 1,
            Code::U16 | Code::U16Big | Code::I16 | Code::I16Big | Code::F16 | Code::F16Big => 2,
            Code::U32 | Code::U32Big | Code::I32 | Code::I32Big | Code::F32 | Code::F32Big => 4,
            Code::U64 | Code::U64Big | Code::I64 | Code::I64Big | Code::F64 | Code::F64Big => 8,
            Code::Bytes(length) => length,
        };
        self.offset + length
    }

    /// The field's value in a record, a new reference; null with an exception where memory is out.
    ///
    /// # Safety
    ///
    /// The interpreter is held, and a whole record can be read at `record`.
    #[inline(always)]
    pub unsafe fn object(self, record: *const u8) -> *mut ffi::PyObject {
        // SAFETY: a format's fields lie within its records.
        let at = unsafe { record.add(self.offset) };
        macro_rules! load {
            ($type:ty, $from:ident) => {
                // SAFETY: as above; an array of bytes has no alignment.
                <$type>::$from(unsafe { at.cast::<[u8; size_of::<$type>()]>().read() })
            };
        }
        match self.code {
            // SAFETY: the caller holds the interpreter; one byte can be read.
            Code::Bool => unsafe { ffi::PyBool_FromLong((at.read() != 0).into()) },
            Code::U8 => signed(load!(u8, from_le_bytes).into()),
            Code::I8 => signed(load!(i8, from_le_bytes).into()),
            Code::U16 => signed(load!(u16, from_le_bytes).into()),
            Code::U16Big => signed(load!(u16, from_be_bytes).into()),
            Code::I16 => signed(load!(i16, from_le_bytes).into()),
            Code::I16Big => signed(load!(i16, from_be_bytes).into()),
            Code::U32 => signed(load!(u32, from_le_bytes).into()),
            Code::U32Big => signed(load!(u32, from_be_bytes).into()),
            Code::I32 => signed(load!(i32, from_le_bytes).into()),
            Code::I32Big => signed(load!(i32, from_be_bytes).into()),
            Code::U64 => unsigned(load!(u64, from_le_bytes)),
            Code::U64Big => unsigned(load!(u64, from_be_bytes)),
            Code::I64 => signed(load!(i64, from_le_bytes)),
            Code::I64Big => signed(load!(i64, from_be_bytes)),
            Code::F16 => float(load!(f16, from_le_bytes).to_f64()),
            Code::F16Big => float(load!(f16, from_be_bytes).to_f64()),
            Code::F32 => float(load!(f32, from_le_bytes).into()),
            Code::F32Big => float(load!(f32, from_be_bytes).into()),
            Code::F64 => float(load!(f64, from_le_bytes)),
            Code::F64Big => float(load!(f64, from_be_bytes)),
            // SAFETY: the caller holds the interpreter; so many bytes can be read. RECORD_MAX is far below 2^31.
            Code::Bytes(length) => unsafe { ffi::PyBytes_FromStringAndSize(at.cast(), length as ffi::Py_ssize_t) },
        }
    }
}

/// Appends a row of Python's values to `to` as a record; padding is zeros.
///
/// # Errors
///
/// TypeError or OverflowError: a value does not fit its field; the text does not name the row.
pub fn encode(format: &Format, row: &Bound<'_, PyAny>, to: &mut Vec<u8>) -> PyResult<()> {
    let fields = format.fields();
    let no_row = || PyTypeError::new_err(format!("not a row of values: {}", class(row)));
    if !is_row(row)? {
        return Err(no_row());
    }
    let width = row.len().map_err(|_| no_row())?;
    if width != fields.len() {
        let (given, wanted) = (width, fields.len());
        return Err(PyTypeError::new_err(format!("{given} values for {wanted} fields")));
    }
    let start = to.len();
    to.resize(start + format.size(), 0);
    let mut values = row.try_iter()?;
    for field in fields {
        let value = values.next().ok_or_else(no_row)??;
        let place = &mut to[start + field.offset..][..field.kind.size()];
        write(field, &value, place).map_err(|error| named(row.py(), &field.name, error))?;
    }
    Ok(())
}

/// Whether its values have an order that means something: those of a set and of a dict do not, and text is one value.
fn is_row(row: &Bound<'_, PyAny>) -> PyResult<bool> {
    if row.is_instance_of::<PyTuple>() || row.is_instance_of::<PyList>() {
        return Ok(true);
    }
    Ok(row.hasattr("__getitem__")? && row.cast::<PyMapping>().is_err() && !row.is_instance_of::<PyString>())
}

/// The same exception, saying of which field it is.
fn named(py: Python<'_>, name: &str, error: PyErr) -> PyErr {
    let text = format!("field {name:?}: {}", error.value(py));
    match error.is_instance_of::<PyOverflowError>(py) {
        true => PyOverflowError::new_err(text),
        false if error.is_instance_of::<PyTypeError>(py) => PyTypeError::new_err(text),
        // Raised by the value's own code.
        false => error,
    }
}

fn class(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}

/// The nearest half, as `struct` has it; `f16::from_f64` rounds to a single first, and then a second time.
fn half(wide: f64) -> f16 {
    let near = wide as f32;
    if f64::from(near) == wide || !near.is_finite() {
        return f16::from_f32(near);
    }
    // Rounded to zero, and odd because something was lost: never half-way between two halves, unlike the nearest.
    let away = u32::from(f64::from(near).abs() > wide.abs());
    f16::from_f32(f32::from_bits((near.to_bits() - away) | 1))
}

fn write(field: &Field, value: &Bound<'_, PyAny>, place: &mut [u8]) -> PyResult<()> {
    macro_rules! integer {
        ($type:ty) => {{
            let value: $type = value.extract()?;
            place.copy_from_slice(&if field.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
        }};
    }
    macro_rules! float {
        ($type:ty, $narrow:expr) => {{
            let wide: f64 = value.extract()?;
            let value: $type = $narrow(wide);
            if wide.is_finite() && !value.is_finite() {
                return Err(PyOverflowError::new_err(format!("{wide} does not fit {} bits", place.len() * 8)));
            }
            place.copy_from_slice(&if field.big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
        }};
    }
    match field.kind {
        Kind::Bool => place[0] = u8::from(value.is_truthy()?),
        Kind::U8 => integer!(u8),
        Kind::U16 => integer!(u16),
        Kind::U32 => integer!(u32),
        Kind::U64 => integer!(u64),
        Kind::I8 => integer!(i8),
        Kind::I16 => integer!(i16),
        Kind::I32 => integer!(i32),
        Kind::I64 => integer!(i64),
        Kind::F16 => float!(f16, half),
        Kind::F32 => float!(f32, |wide| wide as f32),
        Kind::F64 => float!(f64, |wide| wide),
        Kind::Bytes(length) => {
            let bytes = match value.cast::<PyByteArray>() {
                Ok(array) => PyBytes::new(value.py(), &array.to_vec()),
                Err(_) => value
                    .cast::<PyBytes>()
                    .map_err(|_| PyTypeError::new_err(format!("expected bytes, got {}", class(value))))?
                    .clone(),
            };
            let bytes = bytes.as_bytes();
            if bytes.len() > length {
                let given = bytes.len();
                return Err(PyOverflowError::new_err(format!("{given} bytes for a field of {length}")));
            }
            if bytes.len() < length && field.filled {
                return Err(PyTypeError::new_err("'c' needs bytes of length 1"));
            }
            place[..bytes.len()].copy_from_slice(bytes);
        }
    }
    Ok(())
}

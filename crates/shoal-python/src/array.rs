//! Arrays that describe their memory (`__array_interface__`): NumPy's, and those of other libraries.
//!
//! A mutable array is copied before the next item is requested. So is everything that is not exactly a NumPy array: the
//! memory of a scalar is freed with its description. Not here: encoding the elements (the crate `shoal-encode`).

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMemoryView, PyTuple};
use shoal_encode::{Error, Format, NdArray, Options, encode_array};

use crate::object::Object;

/// An array on its way to a lane.
pub struct Array {
    /// Keeps the memory where it is.
    _owner: Py<PyAny>,
    descr: String,
    shape: Vec<usize>,
    strides: Vec<isize>,
    origin: *const u8,
    held: u64,
}

// SAFETY: the memory is only read, and nothing else writes to it (it is that of bytes, or of a copy that only this has); the
// owner is let go only on the thread that made it.
unsafe impl Send for Array {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Array {}

impl Array {
    /// Imports an array; `None` if the object is not an array. The inner error says why an array cannot be saved.
    pub fn import(object: &Bound<'_, PyAny>) -> PyResult<Option<Result<Array, String>>> {
        if !is_array(object)? {
            return Ok(None);
        }
        owned(object).map(Some)
    }

    /// Bytes it keeps in memory.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Appends it in this format.
    pub fn encode(&self, format: Format, options: &Options, out: &mut Vec<u8>) -> Result<(), Error> {
        // SAFETY: address, shape and strides are the array's own, its owner is held, and it is not written to.
        let array = unsafe { NdArray::new(&self.descr, &self.shape, &self.strides, self.origin) }?;
        encode_array(&array, format, options, out)
    }
}

/// An array of which nothing can change the memory.
fn owned(object: &Bound<'_, PyAny>) -> PyResult<Result<Array, String>> {
    if is_numpy(object)? {
        return match never_changes(object)? {
            true => interface(object),
            false => interface(&object.call_method1("copy", ("C",))?),
        }
        .map(Ok);
    }
    if is_masked(object)? {
        return Ok(Err(MASKED.to_owned()));
    }
    let numpy = object.py().import("numpy")?;
    let array = numpy.call_method1("asanyarray", (object,))?;
    if is_masked(&array)? {
        return Ok(Err(MASKED.to_owned()));
    }
    interface(&numpy.call_method1("array", (array,))?).map(Ok)
}

/// Whether it is an array, or gives itself as one. (Tables and columns do too, but as one they lose their nulls and types.)
#[pyfunction]
pub fn is_array(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let has = |name| value.hasattr(name);
    let is_arrow =
        || Ok::<_, PyErr>(has("__arrow_c_stream__")? || has("__arrow_c_array__")? || has("__arrow_array__")?);
    Ok(has("__array_interface__")? || (has("__array__")? && !is_arrow()?))
}

/// Why a masked array is not saved.
pub const MASKED: &str = "no file format keeps the mask of a masked array: save array.filled(value), or array.data \
                          and array.mask";

/// Whether some of its elements are masked out, or may be.
pub fn is_masked(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    if !object.hasattr("__array_interface__")? || !object.hasattr("mask")? {
        return Ok(false);
    }
    object.is_instance(&object.py().import("numpy.ma")?.getattr("MaskedArray")?)
}

/// Whether it is exactly a NumPy array, not of a class made from it. (NumPy is not imported to know.)
pub fn is_numpy(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.get_type().fully_qualified_name()?.to_str()? == "numpy.ndarray")
}

/// Converts an array or scalar of NumPy, or of a subclass, to exactly an array; `None` if it is neither.
pub fn numpy_array<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    if is_numpy(object)? {
        return Ok(Some(object.clone()));
    }
    if !object.hasattr("__array_interface__")? {
        return Ok(None);
    }
    let numpy = object.py().import("numpy")?;
    let of_numpy = |class| object.is_instance(&numpy.getattr(class)?);
    match of_numpy("ndarray")? || of_numpy("generic")? {
        true => numpy.call_method1("asarray", (object,)).map(Some),
        false => Ok(None),
    }
}

/// Whether nothing can change the bytes that it shows: they are those of a `bytes` object, or of one that shoal has read.
/// Read-only is not enough, for something else may write to the same memory.
pub fn never_changes(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let mut object = object.clone();
    loop {
        if object.is_instance_of::<PyBytes>() || object.is_instance_of::<Object>() {
            return Ok(true);
        }
        object = if object.is_instance_of::<PyMemoryView>() {
            object.getattr("obj")?
        } else if is_numpy(&object)? {
            object.getattr("base")?
        } else {
            return Ok(false);
        };
    }
}

/// What the object says of its memory.
fn interface(object: &Bound<'_, PyAny>) -> PyResult<Array> {
    let said = object.getattr("__array_interface__")?;
    let said = said.cast::<PyDict>()?;
    let get = |key: &str| said.get_item(key)?.ok_or_else(|| pyo3::exceptions::PyKeyError::new_err(key.to_owned()));
    let (address, _): (usize, bool) = get("data")?.extract()?;
    let shape: Vec<usize> = get("shape")?.extract()?;
    let descr: String = get("typestr")?.extract()?;
    let item: usize = object.getattr("itemsize")?.extract()?;
    let strides: Option<Vec<isize>> = match said.get_item("strides")? {
        Some(strides) if strides.is_instance_of::<PyTuple>() => Some(strides.extract()?),
        _ => None,
    };
    let strides = strides.unwrap_or_else(|| in_order(&shape, item));
    let held = shape.iter().fold(item, |bytes, &length| bytes.saturating_mul(length)) as u64;
    Ok(Array { _owner: object.clone().unbind(), descr, shape, strides, origin: address as *const u8, held })
}

/// The strides of an array in C order.
fn in_order(shape: &[usize], item: usize) -> Vec<isize> {
    let mut strides = vec![item as isize; shape.len()];
    for dimension in (1..shape.len()).rev() {
        strides[dimension - 1] = strides[dimension].saturating_mul(shape[dimension] as isize);
    }
    strides
}

//! Arrays that say how they lie in memory (`__array_interface__`): NumPy's, and those of whoever follows it.
//!
//! One that may change is copied before the next item is asked for, by its own `copy`. Not here: how elements become bytes
//! (the crate `shoal-encode`).

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use shoal_encode::{Error, Format, NdArray, Options, encode_array};

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

// SAFETY: the memory is only read, and nobody else writes to it (read-only, or a copy that nobody else has); the owner is let
// go only on the thread that made it.
unsafe impl Send for Array {}
// SAFETY: as above; shared access only reads.
unsafe impl Sync for Array {}

impl Array {
    /// Takes an array in; `None`: the object is none.
    pub fn import(object: &Bound<'_, PyAny>) -> PyResult<Option<Array>> {
        let Some((facts, read_only)) = interface(object)? else { return Ok(None) };
        if read_only {
            return Ok(Some(facts));
        }
        let copied = object.call_method1("copy", ("C",))?;
        Ok(interface(&copied)?.map(|(facts, _)| facts))
    }

    /// Bytes it keeps in memory.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Appends it in this format.
    pub fn encode(&self, format: Format, options: &Options, out: &mut Vec<u8>) -> Result<(), Error> {
        // SAFETY: address, shape and strides are the array's own, its owner is held, and nobody writes to it.
        let array = unsafe { NdArray::new(&self.descr, &self.shape, &self.strides, self.origin) }?;
        encode_array(&array, format, options, out)
    }
}

/// What the object says of its memory, and whether that is read-only.
fn interface(object: &Bound<'_, PyAny>) -> PyResult<Option<(Array, bool)>> {
    let Ok(said) = object.getattr("__array_interface__") else { return Ok(None) };
    let said = said.cast::<PyDict>()?;
    let get = |key: &str| said.get_item(key)?.ok_or_else(|| pyo3::exceptions::PyKeyError::new_err(key.to_owned()));
    let (address, read_only): (usize, bool) = get("data")?.extract()?;
    let shape: Vec<usize> = get("shape")?.extract()?;
    let descr: String = get("typestr")?.extract()?;
    let item: usize = object.getattr("itemsize")?.extract()?;
    let strides: Option<Vec<isize>> = match said.get_item("strides")? {
        Some(strides) if strides.is_instance_of::<PyTuple>() => Some(strides.extract()?),
        _ => None,
    };
    let strides = strides.unwrap_or_else(|| in_order(&shape, item));
    let held = shape.iter().fold(item, |bytes, &length| bytes.saturating_mul(length)) as u64;
    let origin = address as *const u8;
    Ok(Some((Array { _owner: object.clone().unbind(), descr, shape, strides, origin, held }, read_only)))
}

/// The strides of an array in C order.
fn in_order(shape: &[usize], item: usize) -> Vec<isize> {
    let mut strides = vec![item as isize; shape.len()];
    for dimension in (1..shape.len()).rev() {
        strides[dimension - 1] = strides[dimension].saturating_mul(shape[dimension] as isize);
    }
    strides
}

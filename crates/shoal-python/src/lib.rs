//! The binding: arguments in, results out. No I/O, defaults or message texts live here.
use pyo3::prelude::*;

#[pymodule(gil_used = true)]
mod _shoal {}

//! `escape`: the engine's one display function, for the package to use.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use shoal_engine::display;

/// What is shown: a name is bytes, which Python holds as text with surrogate escapes.
#[derive(FromPyObject)]
pub enum Shown<'py> {
    Text(Bound<'py, PyString>),
    Bytes(Bound<'py, PyBytes>),
}

/// Makes text from strangers safe to show: control, bidirectional and invisible characters come out as escapes.
#[pyfunction]
pub fn escape(text: Shown<'_>) -> PyResult<String> {
    match text {
        Shown::Bytes(bytes) => Ok(display::escape(bytes.as_bytes())),
        Shown::Text(text) => {
            // A surrogate that stands for no byte is not a name; it is shown as Python writes it.
            let bytes = text
                .call_method1("encode", ("utf-8", "surrogateescape"))
                .or_else(|_| text.call_method1("encode", ("utf-8", "backslashreplace")))?;
            Ok(display::escape(bytes.cast::<PyBytes>()?.as_bytes()))
        }
    }
}

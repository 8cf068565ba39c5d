//! Structs that are read from the items of a mapping, one for each field.
//!
//! PyO3 derives the same, but keeps each field's name in a lock of its own that is initialised on first use. Another
//! thread may fork in that moment. Then the child waits for ever: once in 120 forks beside threads that save.

/// Makes the struct, and extracts it from the items that have the names of its fields.
macro_rules! from_items {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        $vis struct $name {
            $($field: $type,)*
        }

        impl<'py> pyo3::FromPyObject<'_, 'py> for $name {
            type Error = pyo3::PyErr;

            fn extract(items: pyo3::Borrowed<'_, 'py, pyo3::PyAny>) -> pyo3::PyResult<$name> {
                use pyo3::types::PyAnyMethods;
                Ok($name { $($field: items.get_item(stringify!($field))?.extract()?,)* })
            }
        }
    };
}

pub(crate) use from_items;

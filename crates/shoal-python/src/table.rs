//! Tables: anything that exports an Arrow array or stream, such as a data frame, read to its end and copied when it is taken in.
//!
//! All of it happens on the thread that iterates, before it asks for the next item: a result of a database ends with the next
//! query of its connection, and a table may be in memory that its producer reuses. Not here: encoding and copying rows (the
//! crate `shoal-encode`).

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array, ArrayReader, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use shoal_encode::copied;
use shoal_engine::display::escape;

/// A table with rows of its own.
pub struct Table {
    schema: SchemaRef,
    rows: Vec<RecordBatch>,
}

impl Table {
    /// Imports a table; `None` if the object is not a table. The inner error says why a table cannot be imported.
    pub fn import(object: &Bound<'_, PyAny>) -> PyResult<Option<Result<Table, String>>> {
        if let Some(name) = cut_name(object)? {
            let why =
                format!("the name of column {name:?} has a NUL, at which Arrow's C interface truncates it: rename it");
            return Ok(Some(Err(why)));
        }
        if let Some(column) = of_polars(object, |kind| kind == "Object")? {
            return Ok(Some(Err(format!("{column}, which no other library reads: use text or numbers"))));
        }
        let imported = if object.hasattr("__arrow_c_stream__")? {
            object.call_method0("__arrow_c_stream__").and_then(|capsule| stream(&capsule))
        } else if object.hasattr("__arrow_c_array__")? {
            object.call_method0("__arrow_c_array__").and_then(|capsules| array(&capsules))
        } else {
            return Ok(None);
        };
        Ok(Some(match imported? {
            Ok(table) => Ok(table),
            Err(error) => Err(match of_polars(object, |kind| kind.contains("Null") || kind.contains("Int128"))? {
                Some(column) => format!("{column}, which no other library reads: cast it to another type"),
                None => line(&error),
            }),
        }))
    }

    /// What columns it has.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Its rows.
    pub fn rows(&self) -> &[RecordBatch] {
        &self.rows
    }

    /// Bytes that the rows keep in memory.
    pub fn held(&self) -> u64 {
        self.rows.iter().map(RecordBatch::get_array_memory_size).sum::<usize>() as u64
    }
}

/// The name of a column that would lose its end on the way here, if the object is a table that says its names.
fn cut_name(object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if !object.hasattr("__arrow_c_stream__")? && !object.hasattr("__arrow_c_array__")? {
        return Ok(None);
    }
    let names = match (object.getattr_opt("column_names")?, object.getattr_opt("columns")?) {
        (Some(names), _) | (None, Some(names)) => names,
        (None, None) => match object.getattr_opt("schema")?.map(|schema| schema.getattr_opt("names")) {
            Some(names) => match names? {
                Some(names) => names,
                None => return Ok(None),
            },
            None => return Ok(None),
        },
    };
    let Ok(names) = names.try_iter() else { return Ok(None) };
    let names = names.filter_map(|name| name.ok()?.extract::<String>().ok());
    Ok(names.into_iter().find(|name| name.contains('\0')))
}

/// The first column of a Polars frame whose type, as text, is one of these. Polars gives the addresses of objects as
/// their values, and other types in a form of its own.
fn of_polars(object: &Bound<'_, PyAny>, is_one: fn(&str) -> bool) -> PyResult<Option<String>> {
    if !object.get_type().fully_qualified_name()?.to_str()?.starts_with("polars.") || !object.hasattr("schema")? {
        return Ok(None);
    }
    for item in object.getattr("schema")?.call_method0("items")?.try_iter()? {
        let (name, kind): (String, Bound<'_, PyAny>) = item?.extract()?;
        let kind = kind.str()?.to_string();
        if is_one(&kind) && !kind.starts_with("Enum") {
            return Ok(Some(format!("column {name:?} has Polars' type {}", escape(kind.as_bytes()))));
        }
    }
    Ok(None)
}

fn line(error: &ArrowError) -> String {
    escape(error.to_string().as_bytes()).to_string()
}

fn stream(capsule: &Bound<'_, PyAny>) -> PyResult<Result<Table, ArrowError>> {
    let pointer = capsule.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_array_stream"))?;
    // SAFETY: a capsule of this name holds this struct; it is moved out, which leaves an empty one that needs no release.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr().cast()) };
    let read = || {
        let reader = ArrayStreamReader::try_new(stream)?;
        let schema = columns(reader.field())?;
        let rows = reader.map(|array| rows(&array?, &schema)).collect::<Result<_, _>>()?;
        Ok(Table { schema, rows })
    };
    Ok(capsule.py().detach(read))
}

fn array(capsules: &Bound<'_, PyAny>) -> PyResult<Result<Table, ArrowError>> {
    let (schema, array) = {
        let pair = capsules.cast::<PyTuple>()?;
        (pair.get_item(0)?, pair.get_item(1)?)
    };
    let schema = schema.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_schema"))?;
    let array = array.cast::<PyCapsule>()?.pointer_checked(Some(c"arrow_array"))?;
    // SAFETY: capsules of these names hold these structs; they are moved out, which leaves empty ones.
    let (schema, array) =
        unsafe { (FFI_ArrowSchema::from_raw(schema.as_ptr().cast()), FFI_ArrowArray::from_raw(array.as_ptr().cast())) };
    let read = || {
        let schema_of_rows = columns(&Field::try_from(&schema)?)?;
        // SAFETY: the producer promises that the array is of this schema.
        let array = make_array(unsafe { from_ffi(array, &schema) }?);
        Ok(Table { rows: vec![rows(&array, &schema_of_rows)?], schema: schema_of_rows })
    };
    Ok(read())
}

/// The columns of a table, which Arrow's C interface gives as the parts of a struct.
fn columns(row: &Field) -> Result<SchemaRef, ArrowError> {
    match row.data_type() {
        DataType::Struct(fields) => Ok(Arc::new(Schema::new_with_metadata(fields.clone(), row.metadata().clone()))),
        other => Err(ArrowError::SchemaError(format!(
            "values of type {other} are not a table: make them a column of one, or an array with to_numpy()"
        ))),
    }
}

/// A copy of rows.
fn rows(array: &ArrayRef, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let Some(rows) = array.as_struct_opt().filter(|rows| rows.null_count() == 0) else {
        return Err(ArrowError::SchemaError("a row of a table cannot be null: make it a column of one".to_owned()));
    };
    let count = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    copied(&RecordBatch::try_new_with_options(schema.clone(), rows.columns().to_vec(), &count)?)
}

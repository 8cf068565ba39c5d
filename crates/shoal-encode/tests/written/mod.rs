//! What a table or an array becomes, for every test file.
#![allow(dead_code)] // each test file is a program of its own and uses some of it

use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator};
use shoal_encode::{Error, Format, NdArray, Options, encode_array, encode_table};

/// Neither a header nor a newline at the end.
pub const BARE: Options = Options { header: false, final_newline: false };

/// A batch of named columns, all nullable.
pub fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

/// The file that batches of one schema become.
pub fn table(batches: &[RecordBatch], format: Format, options: Options) -> Result<Vec<u8>, Error> {
    let mut reader = RecordBatchIterator::new(batches.iter().cloned().map(Ok), batches[0].schema());
    let mut out = Vec::new();
    encode_table(&mut reader, format, &options, &mut out)?;
    Ok(out)
}

/// The CSV text of one column, with neither header nor last newline.
pub fn column(column: ArrayRef) -> String {
    String::from_utf8(table(&[batch(vec![("c", column)])], Format::Csv, BARE).unwrap()).unwrap()
}

/// The file that an array becomes.
pub fn array(array: &NdArray<'_>, format: Format) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    encode_array(array, format, &Options::default(), &mut out)?;
    Ok(out)
}

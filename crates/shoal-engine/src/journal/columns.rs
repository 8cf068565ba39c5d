//! The columns of a row: how each field is stored, and the checksum that ends every row.
//!
//! A row that is not exactly what was written reads as `None`: its checksum covers the table, the run, the epoch (so that
//! nothing from before a reset counts after it) and every field. SQLite's own check misses flipped bits inside a row.
//! Fields and columns are in the same order, which `schema.rs` has verified before any row is read. Not here: the rows
//! themselves (`rows.rs`, `session.rs`, `skipped.rs`).

use std::collections::BTreeMap;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{ParamsFromIter, Row, params_from_iter};
use xxhash_rust::xxh3::Xxh3;

use super::stored_cursor::StoredCursor;
use crate::options::Pass;
use crate::partition::Key;
use crate::report::{Reason, Skips};

/// The checksum of a row. It covers lengths and kinds as well, so that fields cannot run into each other.
pub(super) struct Sum(Xxh3);

impl Sum {
    /// Begins with the table, and the columns that come before the fields.
    pub(super) fn of(table: &str, keys: &[i64]) -> Sum {
        let mut sum = Sum(Xxh3::new());
        sum.add(ValueRef::Text(table.as_bytes()));
        keys.iter().for_each(|key| sum.add(ValueRef::Integer(*key)));
        sum
    }

    fn add(&mut self, column: ValueRef<'_>) {
        match column {
            ValueRef::Null => self.0.update(b"-"),
            ValueRef::Integer(value) => {
                self.0.update(b"i");
                self.0.update(&value.to_le_bytes());
            }
            ValueRef::Text(value) | ValueRef::Blob(value) => {
                self.0.update(b"b");
                self.0.update(&(value.len() as u64).to_le_bytes());
                self.0.update(value);
            }
            ValueRef::Real(_) => {} // no field is one
        }
    }

    fn end(&self) -> i64 {
        self.0.digest() as i64
    }
}

/// Reads the columns of a row, one after the other.
pub(super) struct Columns<'r> {
    row: &'r Row<'r>,
    at: usize,
    sum: Sum,
}

impl<'r> Columns<'r> {
    /// The fields begin at the column `at`. `sum` covers the columns before it.
    pub(super) fn new(row: &'r Row<'r>, at: usize, sum: Sum) -> Columns<'r> {
        Columns { row, at, sum }
    }

    pub(super) fn next<F: Field<'r>>(&mut self) -> Option<F> {
        let column = self.row.get_ref(self.at).ok()?;
        self.at += 1;
        self.sum.add(column);
        F::read(column)
    }

    /// Compares the checksum, which is the last column.
    pub(super) fn end(&self) -> Option<()> {
        (self.row.get_ref(self.at).ok()? == ValueRef::Integer(self.sum.end())).then_some(())
    }
}

/// The values of a row to be written: the columns before the fields, the fields, and the checksum that `sum` begins.
pub(super) fn sealed<'v, const N: usize>(
    keys: [Option<i64>; N],
    fields: Vec<ToSqlOutput<'v>>,
    mut sum: Sum,
) -> ParamsFromIter<Vec<ToSqlOutput<'v>>> {
    for field in &fields {
        match field {
            ToSqlOutput::Borrowed(value) => sum.add(*value),
            ToSqlOutput::Owned(value) => sum.add(value.into()),
            _ => {} // `Field` makes no other
        }
    }
    let mut values: Vec<_> = keys.into_iter().map(|key| ToSqlOutput::Owned(key.into())).collect();
    values.extend(fields);
    values.push(sum.end().into());
    params_from_iter(values)
}

/// The fields of a row, in the order of its columns. [`fields`] implements it.
pub(super) trait Fields<'r>: Sized {
    fn read(columns: &mut Columns<'r>) -> Option<Self>;
    fn columns(&self) -> Vec<ToSqlOutput<'_>>;

    /// Reads a row whose fields begin at the column `at`, and checks it. `sum` covers the columns before it.
    fn checked(row: &'r Row<'r>, at: usize, sum: Sum) -> Option<Self> {
        let mut columns = Columns::new(row, at, sum);
        let fields = Self::read(&mut columns)?;
        columns.end().map(|()| fields)
    }
}

/// Names the fields of a struct that are columns, in their order. In braces: other fields, and what a row reads there.
macro_rules! fields {
    ($row:ty $({ $($other:ident: $value:expr),* })?: $($field:ident),* $(,)?) => {
        impl<'r> crate::journal::columns::Fields<'r> for $row {
            fn read(columns: &mut crate::journal::columns::Columns<'r>) -> Option<Self> {
                Some(Self { $($field: columns.next()?,)* $($($other: $value),*)? })
            }

            fn columns(&self) -> Vec<rusqlite::types::ToSqlOutput<'_>> {
                vec![$(crate::journal::columns::Field::column(&self.$field)),*]
            }
        }
    };
}
pub(super) use fields;

/// A value that is one column.
pub(super) trait Field<'r>: Sized {
    /// `None`: nothing that [`Field::column`] returns.
    fn read(column: ValueRef<'r>) -> Option<Self>;
    fn column(&self) -> ToSqlOutput<'_>;
}

/// Makes a type a field: what a column reads as, and what is stored.
macro_rules! field {
    ($type:ty: $column:ident => $read:expr, $value:ident => $stored:expr) => {
        impl<'r> Field<'r> for $type {
            fn read($column: ValueRef<'r>) -> Option<$type> {
                Some($read)
            }
            fn column(&self) -> ToSqlOutput<'_> {
                let $value = self;
                $stored.into()
            }
        }
    };
}

field!(i64: column => column.as_i64().ok()?, value => *value);
// By its 64 bits: SQLite has no unsigned numbers.
field!(u64: column => column.as_i64().ok()? as u64, value => *value as i64);
field!(u32: column => column.as_i64().ok()?.try_into().ok()?, value => *value);
field!(bool: column => column.as_i64().ok()? != 0, value => *value);
field!(&'r str: column => column.as_str().ok()?, value => *value);
field!(String: column => column.as_str().ok()?.to_owned(), value => value.as_str());
field!(&'r [u8]: column => column.as_blob().ok()?, value => *value);
field!([u8; 16]: column => column.as_blob().ok()?.try_into().ok()?, value => &value[..]);
field!([u8; 32]: column => column.as_blob().ok()?.try_into().ok()?, value => &value[..]);
field!(StoredCursor: column => StoredCursor::of_stored(column.as_blob().ok()?)?, value => value.stored());
field!(Key: column => Key(u128::from_be_bytes(Field::read(column)?)), value => value.0.to_be_bytes().to_vec());
field!(Pass: column => Pass::named(column.as_str().ok()?)?, value => value.as_str());
// As JSON: `{"link":3}`.
field!(Skips: column => {
    let counts: BTreeMap<&str, u64> = serde_json::from_str(column.as_str().ok()?).ok()?;
    let counts = counts.into_iter().map(|(name, count)| Some((Reason::named(name)?, count)));
    counts.collect::<Option<Skips>>()?
}, skips => {
    let each: Vec<String> = skips.iter().map(|(reason, count)| format!("\"{}\":{count}", reason.as_str())).collect();
    format!("{{{}}}", each.join(","))
});
// As JSON. Strings cannot fail to become it.
field!(Vec<(String, String)>: column => serde_json::from_str(column.as_str().ok()?).ok()?,
    options => serde_json::to_string(options).unwrap_or_default());

impl<'r, F: Field<'r>> Field<'r> for Option<F> {
    fn read(column: ValueRef<'r>) -> Option<Option<F>> {
        if column == ValueRef::Null { Some(None) } else { F::read(column).map(Some) }
    }
    fn column(&self) -> ToSqlOutput<'_> {
        self.as_ref().map_or(ToSqlOutput::Borrowed(ValueRef::Null), F::column)
    }
}

//! What one record is made of.
//!
//! Here: [`Format`], its [`Field`]s and their [`Kind`]s, and the checks that every format has passed. The ways to say a
//! format are in `text.rs` (a `struct` string, a NumPy type) and `schema.rs` (an Arrow schema, and the schema of what is
//! read). Not here: values (`column.rs`).

mod schema;
mod text;

use std::collections::HashSet;

use arrow_schema::DataType;

use crate::error::{Error, Result};

/// Longest record, in bytes: every worker holds at least one, so this bounds memory.
pub const RECORD_MAX: usize = 16 << 20;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One byte; anything but 0 is true.
    Bool,
    /// Unsigned, one byte.
    U8,
    /// Unsigned, two bytes.
    U16,
    /// Unsigned, four bytes.
    U32,
    /// Unsigned, eight bytes.
    U64,
    /// Signed, one byte.
    I8,
    /// Signed, two bytes.
    I16,
    /// Signed, four bytes.
    I32,
    /// Signed, eight bytes.
    I64,
    /// IEEE half.
    F16,
    /// IEEE single.
    F32,
    /// IEEE double.
    F64,
    /// So many bytes, all of them, zeros too.
    Bytes(usize),
}

impl Kind {
    /// Its length in bytes.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Kind::Bool | Kind::U8 | Kind::I8 => 1,
            Kind::U16 | Kind::I16 | Kind::F16 => 2,
            Kind::U32 | Kind::I32 | Kind::F32 => 4,
            Kind::U64 | Kind::I64 | Kind::F64 => 8,
            Kind::Bytes(length) => length,
        }
    }

    /// Whether it is a half, single or double.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Kind::F16 | Kind::F32 | Kind::F64)
    }

    /// Whether it is a number without a fraction; a truth value counts as 0 or 1.
    #[must_use]
    pub fn is_integer(self) -> bool {
        !self.is_float() && !matches!(self, Kind::Bytes(_))
    }

    /// The least and the greatest value of an integer.
    pub(crate) fn range(self) -> Option<(i128, i128)> {
        Some(match self {
            Kind::Bool => (0, 1),
            Kind::U8 => (0, u8::MAX.into()),
            Kind::U16 => (0, u16::MAX.into()),
            Kind::U32 => (0, u32::MAX.into()),
            Kind::U64 => (0, u64::MAX.into()),
            Kind::I8 => (i8::MIN.into(), i8::MAX.into()),
            Kind::I16 => (i16::MIN.into(), i16::MAX.into()),
            Kind::I32 => (i32::MIN.into(), i32::MAX.into()),
            Kind::I64 => (i64::MIN.into(), i64::MAX.into()),
            _ => return None,
        })
    }

    /// What it is called in an error.
    pub(crate) fn text(self) -> String {
        match self {
            Kind::Bool => "a truth value".to_owned(),
            Kind::Bytes(length) => format!("{length} bytes"),
            kind if kind.is_float() => format!("a {}-bit float", kind.size() * 8),
            kind => format!("a {}-bit integer", kind.size() * 8),
        }
    }
}

/// One field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// How it is called; the only one of that name.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
    /// Where it begins in the record, in bytes.
    pub offset: usize,
    /// Whether its most significant byte comes first.
    pub big_endian: bool,
    /// Whether no value may be shorter: `c` of `struct`, where `1s` takes no bytes for a zero.
    pub filled: bool,
    /// What Arrow takes it for if that is more than its kind says: a date, a time, a duration.
    pub logical: Option<DataType>,
}

impl Field {
    /// A little-endian field at a place.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: Kind, offset: usize) -> Self {
        Self { name: name.into(), kind, offset, big_endian: false, filled: false, logical: None }
    }

    /// The same with its most significant byte first, or not.
    #[must_use]
    pub fn with_big_endian(self, big_endian: bool) -> Self {
        Self { big_endian, ..self }
    }
}

/// What one record is made of: fields at places within so many bytes.
///
/// Every format has at least one byte and at most [`RECORD_MAX`]; its fields lie within and have names that differ. Bytes
/// between them are padding. Fields may overlap, as NumPy's may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    fields: Vec<Field>,
    size: usize,
}

impl Format {
    /// A format of these fields in records of so many bytes.
    ///
    /// # Errors
    ///
    /// Format: no bytes, too many, a field beyond them or without any, or a name that is empty or there twice.
    pub fn new(fields: Vec<Field>, size: usize) -> Result<Self> {
        if size == 0 {
            return Err(Error::format("a record of 0 bytes: a file cannot say how many of them it holds"));
        }
        if size > RECORD_MAX {
            return Err(Error::format(format!("a record of {size} bytes: at most {RECORD_MAX} are read")));
        }
        let mut names = HashSet::new();
        for field in &fields {
            let Field { name, kind, offset, .. } = field;
            if kind.size() == 0 {
                return Err(Error::format(format!("field {name:?} has no bytes: leave it out")));
            }
            if offset.checked_add(kind.size()).is_none_or(|end| end > size) {
                let length = kind.size();
                return Err(Error::format(format!(
                    "field {name:?} of {length} bytes at byte {offset} does not fit a record of {size} bytes"
                )));
            }
            if name.is_empty() {
                return Err(Error::format("a field's name is empty"));
            }
            if !names.insert(name.as_str()) {
                return Err(Error::format(format!("two fields are called {name:?}")));
            }
        }
        Ok(Self { fields, size })
    }

    /// Its fields, in order.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Bytes of one record, padding included.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The place of a field in [`Format::fields`].
    ///
    /// # Errors
    ///
    /// Invalid: there is no such field; the text names those there are.
    pub fn index_of(&self, name: &str) -> Result<usize> {
        self.fields
            .iter()
            .position(|field| field.name == name)
            .ok_or_else(|| Error::invalid(format!("no field is called {name:?}: {}", self.names_text())))
    }

    /// "there are "a" and "b"", shortened where there are many.
    pub(crate) fn names_text(&self) -> String {
        const SHOWN: usize = 12; // a line's worth
        if self.fields.is_empty() {
            return "the format has no fields".to_owned();
        }
        let shown: Vec<String> = self.fields.iter().take(SHOWN).map(|field| format!("{:?}", field.name)).collect();
        let more = self.fields.len().saturating_sub(SHOWN);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("the fields are {}{rest}", shown.join(", "))
    }
}

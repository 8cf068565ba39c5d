//! Formats as people write them: a `struct` string of Python's, or the types of a NumPy array.

use super::{Field, Format, Kind, RECORD_MAX};
use crate::error::{Error, Result};

/// Most fields of one format: "1000000000I" must not take gigabytes to be refused.
const FIELDS_MAX: usize = 65_536;

const NATIVE_BIG: bool = cfg!(target_endian = "big");

/// How the first character of a `struct` string lays fields out.
struct Layout {
    big_endian: bool,
    /// Sizes and alignment are those of this machine's C compiler.
    native: bool,
}

/// What one letter stands for.
enum Item {
    Pad,
    Field(Kind),
    /// Takes its count as a length.
    Bytes,
}

impl Format {
    /// The format that Python's `struct` gives to such a string, as `"<QII"`.
    ///
    /// Without names, fields are called `f0`, `f1` and so on, as NumPy calls them. A count makes so many fields (`4I`),
    /// but a length for `s` and padding for `x`. Without a byte order, or with `@`, sizes and alignment are this
    /// machine's, and there is no padding at the end unless a count of 0 asks for it (`"QB0Q"`), as in `struct`.
    ///
    /// # Errors
    ///
    /// Format: an unknown letter, `p` (bytes with a length in front), complex numbers, no bytes or too many, or names
    /// that do not fit the fields.
    pub fn from_struct(text: &str, names: Option<&[String]>) -> Result<Self> {
        let (layout, body) = layout(text);
        let mut kinds: Vec<(Kind, usize, bool)> = Vec::new();
        let mut end = 0_usize;
        let mut rest = body.chars().peekable();
        while let Some(letter) = rest.next() {
            if letter.is_ascii_whitespace() {
                continue;
            }
            let (count, letter) = count(text, letter, &mut rest)?;
            let item = item(text, letter, layout.native)?;
            let too_long =
                || Error::format(format!("{text:?} is more than {RECORD_MAX} bytes, the most a record may have"));
            let (kind, times, length) = match item {
                Item::Pad => (None, 0, count.unwrap_or(1)),
                Item::Bytes => {
                    let length = count.unwrap_or(1);
                    if length == 0 {
                        return Err(Error::format(format!(
                            "\"0s\" in {text:?} is a field without bytes: leave it out"
                        )));
                    }
                    (Some(Kind::Bytes(length)), 1, length)
                }
                Item::Field(kind) => (Some(kind), count.unwrap_or(1), kind.size()),
            };
            let Some(kind) = kind else {
                end = end.checked_add(length).filter(|end| *end <= RECORD_MAX).ok_or_else(too_long)?;
                continue;
            };
            if layout.native && !matches!(kind, Kind::Bytes(_)) {
                end = end.next_multiple_of(kind.size());
            }
            if kinds.len() + times.min(FIELDS_MAX + 1) > FIELDS_MAX {
                return Err(Error::format(format!("{text:?} has more than {FIELDS_MAX} fields")));
            }
            for _ in 0..times {
                kinds.push((kind, end, letter == 'c'));
                end = end.checked_add(length).filter(|end| *end <= RECORD_MAX).ok_or_else(too_long)?;
            }
        }
        if end == 0 {
            return Err(Error::format(format!("{text:?} describes a record of 0 bytes")));
        }
        let names = names_for(text, kinds.len(), names)?;
        let fields = kinds.into_iter().zip(names).map(|((kind, offset, filled), name)| {
            Field { filled, ..Field::new(name, kind, offset) }
                .with_big_endian(layout.big_endian && kind.size() > 1 && !matches!(kind, Kind::Bytes(_)))
        });
        Self::new(fields.collect(), end)
    }

    /// The format of a NumPy structured dtype: of each field its name, its type as NumPy spells it (`"<u4"`, `"|S16"`)
    /// and its offset; `size` is the dtype's `itemsize`.
    ///
    /// # Errors
    ///
    /// Format: a type that no field here can hold, or what [`Format::new`] refuses.
    pub fn from_numpy(fields: &[(String, String, usize)], size: usize) -> Result<Self> {
        let fields: Result<Vec<Field>> = fields
            .iter()
            .map(|(name, descr, offset)| {
                let (kind, big_endian) = Kind::from_numpy(descr)
                    .ok_or_else(|| Error::format(format!("field {name:?} is of dtype {descr:?}: {NUMPY_TAKEN}")))?;
                Ok(Field::new(name, kind, *offset).with_big_endian(big_endian))
            })
            .collect();
        Self::new(fields?, size)
    }
}

const NUMPY_TAKEN: &str = "booleans, integers of 1 to 8 bytes, floats of 2 to 8 bytes and bytes (S and V) are \
supported; view dates and times as int64";

impl Kind {
    /// What NumPy's name for a type of one element means, and whether it is big-endian.
    #[must_use]
    pub fn from_numpy(descr: &str) -> Option<(Self, bool)> {
        let mut rest = descr.chars();
        let first = rest.next()?;
        let (order, code) = match first {
            '<' | '>' | '|' | '=' => (first, rest.next()?),
            code => ('=', code),
        };
        let size: usize = match rest.as_str() {
            digits if digits.bytes().all(|digit| digit.is_ascii_digit()) => digits.parse().ok()?,
            _ => return None,
        };
        let big_endian = order == '>' || (order == '=' && NATIVE_BIG);
        let kind = match (code, size) {
            ('b' | '?', 1) => Kind::Bool,
            ('u', 1) => Kind::U8,
            ('u', 2) => Kind::U16,
            ('u', 4) => Kind::U32,
            ('u', 8) => Kind::U64,
            ('i', 1) => Kind::I8,
            ('i', 2) => Kind::I16,
            ('i', 4) => Kind::I32,
            ('i', 8) => Kind::I64,
            ('f', 2) => Kind::F16,
            ('f', 4) => Kind::F32,
            ('f', 8) => Kind::F64,
            ('S' | 'V' | 'a', length) => Kind::Bytes(length),
            _ => return None,
        };
        Some((kind, big_endian && kind.size() > 1 && !matches!(kind, Kind::Bytes(_))))
    }
}

impl Field {
    /// Its type as NumPy spells it; bytes are `S`, of which NumPy hides trailing zeros.
    #[must_use]
    pub fn numpy(&self) -> String {
        let order = if self.big_endian { '>' } else { '<' };
        match self.kind {
            Kind::Bool => "|b1".to_owned(),
            Kind::U8 => "|u1".to_owned(),
            Kind::I8 => "|i1".to_owned(),
            Kind::Bytes(length) => format!("|S{length}"),
            kind if kind.is_float() => format!("{order}f{}", kind.size()),
            kind if matches!(kind, Kind::U16 | Kind::U32 | Kind::U64) => format!("{order}u{}", kind.size()),
            kind => format!("{order}i{}", kind.size()),
        }
    }
}

/// Splits the byte order off.
fn layout(text: &str) -> (Layout, &str) {
    let (big_endian, native) = match text.as_bytes().first() {
        Some(b'<') => (false, false),
        Some(b'>' | b'!') => (true, false),
        Some(b'=') => (NATIVE_BIG, false),
        Some(b'@') => (NATIVE_BIG, true),
        _ => return (Layout { big_endian: NATIVE_BIG, native: true }, text),
    };
    (Layout { big_endian, native }, &text[1..])
}

/// Reads the digits in front of a letter, and the letter.
fn count(text: &str, first: char, rest: &mut impl Iterator<Item = char>) -> Result<(Option<usize>, char)> {
    let mut letter = first;
    let mut count = None;
    while let Some(digit) = letter.to_digit(10) {
        // A count beyond the longest record is refused later, whatever its exact value.
        count = Some(count.unwrap_or(0_usize).saturating_mul(10).saturating_add(digit as usize));
        letter = rest.next().ok_or_else(|| Error::format(format!("{text:?} ends with a count: add a letter")))?;
    }
    Ok((count, letter))
}

/// What a letter stands for.
fn item(text: &str, letter: char, native: bool) -> Result<Item> {
    let native_only = |kind| match native {
        true => Ok(Item::Field(kind)),
        false => Err(Error::format(format!(
            "'{letter}' in {text:?} has a size only in native mode: start the format \
        with '@'"
        ))),
    };
    let long = |wide, narrow| if native && cfg!(target_pointer_width = "64") { wide } else { narrow };
    Ok(Item::Field(match letter {
        'x' => return Ok(Item::Pad),
        's' => return Ok(Item::Bytes),
        'c' => Kind::Bytes(1),
        'b' => Kind::I8,
        'B' => Kind::U8,
        '?' => Kind::Bool,
        'h' => Kind::I16,
        'H' => Kind::U16,
        'i' => Kind::I32,
        'I' => Kind::U32,
        'l' => long(Kind::I64, Kind::I32),
        'L' => long(Kind::U64, Kind::U32),
        'q' => Kind::I64,
        'Q' => Kind::U64,
        'n' => return native_only(long(Kind::I64, Kind::I32)),
        'N' | 'P' => return native_only(long(Kind::U64, Kind::U32)),
        'e' => Kind::F16,
        'f' => Kind::F32,
        'd' => Kind::F64,
        'p' => {
            return Err(Error::format(format!(
                "'p' in {text:?} is bytes of varying length with a length prefix: use 's'"
            )));
        }
        'F' | 'D' => return Err(Error::format(format!("'{letter}' in {text:?} is a complex number: use two floats"))),
        other => {
            return Err(Error::format(format!(
                "{other:?} in {text:?} is not a letter of a struct format (cbB?hHiIlLqQnNefdsxP)"
            )));
        }
    }))
}

/// The names given, if there is one for each field, or NumPy's.
fn names_for(text: &str, fields: usize, names: Option<&[String]>) -> Result<Vec<String>> {
    match names {
        None => Ok((0..fields).map(|at| format!("f{at}")).collect()),
        Some(names) if names.len() == fields => Ok(names.to_vec()),
        Some(names) => {
            let given = names.len();
            Err(Error::format(format!(
                "{text:?} has {fields} fields, but {given} names were given (padding has no \
            name)"
            )))
        }
    }
}

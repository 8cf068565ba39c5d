//! Arrays as CSV: numbers, booleans, bytes and text of up to two dimensions.

use half::f16;

use super::cell::{Cell, push_rows};
use super::{end_file, end_line, push_text};
use crate::{Error, NdArray, Options, Scalar};

/// Appends an array as CSV.
pub(crate) fn write_array(array: &NdArray<'_>, options: &Options, out: &mut Vec<u8>) -> Result<(), Error> {
    let grid = Grid::of(array)?;
    let start = out.len();
    match array.scalar() {
        Scalar::Bool => grid.push::<bool>(out),
        Scalar::Int(1) => grid.push::<i8>(out),
        Scalar::Int(2) => grid.push::<i16>(out),
        Scalar::Int(4) => grid.push::<i32>(out),
        Scalar::Int(8) => grid.push::<i64>(out),
        Scalar::Uint(1) => grid.push::<u8>(out),
        Scalar::Uint(2) => grid.push::<u16>(out),
        Scalar::Uint(4) => grid.push::<u32>(out),
        Scalar::Uint(8) => grid.push::<u64>(out),
        Scalar::Float(2) => grid.push::<f16>(out),
        Scalar::Float(4) => grid.push::<f32>(out),
        Scalar::Float(8) => grid.push::<f64>(out),
        Scalar::Bytes(_) => grid.push_texts(out, |item, out| {
            let end = item.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1); // NUL only fills up
            push_text(&item[..end], out);
            Ok(())
        })?,
        Scalar::Unicode(_) => {
            let mut text = String::new();
            grid.push_texts(out, |item, out| {
                decode(item, array.swapped(), &mut text)?;
                push_text(text.as_bytes(), out);
                Ok(())
            })?;
        }
        _ => {
            return Err(Error::unsupported(format!(
                "an array of dtype {:?} has no text form for a cell of .csv: name the file .npy, or make it a \
                 table, for example with pyarrow.table or polars.DataFrame",
                array.descr()
            )));
        }
    }
    end_file(start, options, out);
    Ok(())
}

/// An array seen as rows and columns.
struct Grid<'a> {
    array: &'a NdArray<'a>,
    rows: usize,
    columns: usize,
    /// Bytes from one row, and from one column, to the next.
    steps: (isize, isize),
}

impl<'a> Grid<'a> {
    fn of(array: &'a NdArray<'a>) -> Result<Self, Error> {
        let (rows, columns, steps) = match (array.shape(), array.strides()) {
            ([], []) => (1, 1, (0, 0)),
            ([rows], [step]) => (*rows, 1, (*step, 0)),
            ([rows, columns], [down, right]) => (*rows, *columns, (*down, *right)),
            (shape, _) => {
                return Err(Error::unsupported(format!(
                    "an array of {} dimensions does not fit .csv, which has at most two: reshape it, or name the \
                     file .npy",
                    shape.len()
                )));
            }
        };
        Ok(Self { array, rows, columns, steps })
    }

    fn at(&self, row: usize, column: usize) -> *const u8 {
        let offset = row as isize * self.steps.0 + column as isize * self.steps.1;
        self.array.origin().wrapping_offset(offset)
    }

    fn push<T: Element>(&self, out: &mut Vec<u8>) {
        let swapped = self.array.swapped();
        // SAFETY: `push_rows` asks for places within the grid, which is the array's shape, and NdArray's maker promised
        // that the elements there can be read; the scalar was matched to T's size.
        push_rows(self.rows, self.columns, |row, column| unsafe { T::read(self.at(row, column), swapped) }, out);
    }

    fn push_texts(
        &self,
        out: &mut Vec<u8>,
        mut push: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let size = self.array.scalar().size();
        if self.columns == 0 {
            return Ok(());
        }
        for row in 0..self.rows {
            for column in 0..self.columns {
                // SAFETY: the place is within the array's shape, and NdArray's maker promised its element's bytes.
                push(unsafe { std::slice::from_raw_parts(self.at(row, column), size) }, out)?;
                out.push(b',');
            }
            end_line(out);
        }
        Ok(())
    }
}

/// Decodes UTF-32, as NumPy keeps text, up to the NULs that fill it up.
fn decode(item: &[u8], swapped: bool, text: &mut String) -> Result<(), Error> {
    text.clear();
    for unit in item.chunks_exact(4) {
        let unit = u32::from_ne_bytes([unit[0], unit[1], unit[2], unit[3]]);
        let unit = if swapped { unit.swap_bytes() } else { unit };
        let character = char::from_u32(unit).ok_or_else(|| {
            Error::unsupported(format!(
                "a text of the array holds {unit:#x}, which a UTF-8 file cannot hold: replace \
            it"
            ))
        })?;
        text.push(character);
    }
    text.truncate(text.trim_end_matches('\0').len());
    Ok(())
}

/// A number in an array's memory.
trait Element: Cell {
    /// Reads an element, its bytes reversed if `swapped`.
    ///
    /// # Safety
    ///
    /// As many bytes as the type has can be read from `at` on.
    unsafe fn read(at: *const u8, swapped: bool) -> Self;
}

macro_rules! element {
    ($($type:ty: $bits:ty, $from_bits:expr;)*) => {$(
        impl Element for $type {
            #[inline(always)]
            unsafe fn read(at: *const u8, swapped: bool) -> Self {
                // SAFETY: the caller's promise; any bits are a value.
                let bits = unsafe { at.cast::<$bits>().read_unaligned() };
                $from_bits(if swapped { bits.swap_bytes() } else { bits })
            }
        }
    )*};
}

element! {
    bool: u8, |bits| bits != 0;
    i8: i8, std::convert::identity;
    i16: i16, std::convert::identity;
    i32: i32, std::convert::identity;
    i64: i64, std::convert::identity;
    u8: u8, std::convert::identity;
    u16: u16, std::convert::identity;
    u32: u32, std::convert::identity;
    u64: u64, std::convert::identity;
    f16: u16, f16::from_bits;
    f32: u32, f32::from_bits;
    f64: u64, f64::from_bits;
}

//! One number as the text of a CSV cell, written straight into spare capacity.

use half::f16;

/// How many bytes [`Cell::write`] may touch: the longest number (20 digits and a sign, or a float's 24) and then what a
/// store of eight bytes at once reaches beyond its end.
pub(crate) const ROOM: usize = 32;

/// How much capacity is reserved at a time, in bytes: many rows, yet no more than a first-level cache holds.
const BLOCK: usize = 32 << 10;

/// A value with a text of bounded length that never needs quotes.
pub(crate) trait Cell: Copy {
    /// Writes the text and returns where it ends.
    ///
    /// # Safety
    ///
    /// [`ROOM`] bytes from `at` on can be written.
    unsafe fn write(self, at: *mut u8) -> *mut u8;
}

/// Appends one value.
#[inline]
pub(crate) fn push(value: impl Cell, out: &mut Vec<u8>) {
    out.reserve(ROOM);
    // SAFETY: ROOM bytes of spare capacity were just reserved, and `write` returns the end of what it initialised.
    unsafe {
        let start = out.as_mut_ptr().add(out.len());
        let end = value.write(start);
        out.set_len(out.len() + end.offset_from_unsigned(start));
    }
}

/// Appends rows of values that have one type and no nulls, each row ended by a newline.
///
/// Asks `get` for places below `rows` and `columns` only. Inlined for every type, so that a value costs its digits and
/// little else.
#[inline]
pub(crate) fn push_rows<T: Cell>(rows: usize, columns: usize, get: impl Fn(usize, usize) -> T, out: &mut Vec<u8>) {
    if columns == 0 {
        return;
    }
    let row_room = columns.saturating_mul(ROOM + 1); // 1: the comma or newline after a value
    let block = (BLOCK / row_room).max(1);
    let mut row = 0;
    while row < rows {
        let end_row = rows.min(row + block);
        out.reserve((end_row - row).saturating_mul(row_room));
        // SAFETY: every value and its comma advance by at most ROOM + 1 bytes, which were reserved for each of them;
        // all bytes up to `at` are initialised. `columns` is not 0, so a comma stands before the end of every row.
        unsafe {
            let start = out.as_mut_ptr().add(out.len());
            let mut at = start;
            for row in row..end_row {
                for column in 0..columns {
                    at = get(row, column).write(at);
                    at.write(b',');
                    at = at.add(1);
                }
                at.sub(1).write(b'\n');
            }
            out.set_len(out.len() + at.offset_from_unsigned(start));
        }
        row = end_row;
    }
}

macro_rules! unsigned {
    ($($type:ty)*) => {$(
        impl Cell for $type {
            #[inline(always)]
            unsafe fn write(self, at: *mut u8) -> *mut u8 {
                // SAFETY: the caller's promise.
                unsafe { write_unsigned(u64::from(self), at) }
            }
        }
    )*};
}

macro_rules! signed {
    ($($type:ty)*) => {$(
        impl Cell for $type {
            #[inline(always)]
            unsafe fn write(self, at: *mut u8) -> *mut u8 {
                // SAFETY: the caller's promise; the sign takes one byte of ROOM, and 31 are enough for 20 digits.
                unsafe {
                    at.write(b'-');
                    write_unsigned(u64::from(self.unsigned_abs()), at.add(usize::from(self < 0)))
                }
            }
        }
    )*};
}

macro_rules! float {
    ($($type:ty)*) => {$(
        impl Cell for $type {
            #[inline]
            unsafe fn write(self, at: *mut u8) -> *mut u8 {
                let mut buffer = zmij::Buffer::new();
                let text = buffer.format(self);
                // SAFETY: the text has at most 24 bytes, and the caller promises ROOM.
                unsafe {
                    at.copy_from_nonoverlapping(text.as_ptr(), text.len());
                    at.add(text.len())
                }
            }
        }
    )*};
}

unsigned!(u8 u16 u32 u64);
signed!(i8 i16 i32 i64);
float!(f32 f64);

impl Cell for f16 {
    #[inline]
    unsafe fn write(self, at: *mut u8) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.to_f32().write(at) }
    }
}

impl Cell for bool {
    #[inline]
    unsafe fn write(self, at: *mut u8) -> *mut u8 {
        let text: &[u8] = if self { b"true" } else { b"false" };
        // SAFETY: the caller promises ROOM bytes, and the text has at most 5.
        unsafe {
            at.copy_from_nonoverlapping(text.as_ptr(), text.len());
            at.add(text.len())
        }
    }
}

/// Writes a whole number. Four or eight digits are made at once in one register, without a table or a loop.
///
/// # Safety
///
/// 24 bytes from `at` on can be written.
#[inline(always)]
unsafe fn write_unsigned(value: u64, at: *mut u8) -> *mut u8 {
    // SAFETY: the first part writes 8 bytes at most and advances by its digits (at most 8, 8 or 4), then each full
    // part takes 8: 24 bytes are never passed.
    unsafe {
        if value < 10_000 {
            write_first_four(value as u32, at)
        } else if value < 100_000_000 {
            write_first_eight(value, at)
        } else {
            write_long(value, at)
        }
    }
}

/// # Safety
///
/// As [`write_unsigned`]; `value` has more than 8 digits.
#[inline(never)]
unsafe fn write_long(value: u64, at: *mut u8) -> *mut u8 {
    const EIGHT: u64 = 100_000_000;
    let (upper, low) = (value / EIGHT, value % EIGHT);
    // SAFETY: the caller's promise: 4 + 8 + 8 digits at most.
    unsafe {
        let at = if upper < 10_000 {
            write_first_four(upper as u32, at)
        } else if upper < EIGHT {
            write_first_eight(upper, at)
        } else {
            // 2^64 / 10^16 is 1844, four digits.
            write_all_eight(upper % EIGHT, write_first_four((upper / EIGHT) as u32, at))
        };
        write_all_eight(low, at)
    }
}

/// Writes a number below 10,000 without leading zeros.
///
/// # Safety
///
/// 4 bytes from `at` on can be written.
#[inline(always)]
unsafe fn write_first_four(value: u32, at: *mut u8) -> *mut u8 {
    // 5243 / 2^19 and 103 / 2^10 are 1/100 and 1/10, exact when rounded down for numbers as small as these.
    let hundreds = (value * 5243) >> 19;
    let pairs = hundreds | (value - hundreds * 100) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f;
    let digits = tens | (pairs - tens * 10) << 8; // the first digit is the lowest byte
    let zeros = (digits | 1 << 24).trailing_zeros() & 24; // bits of leading zeros; the last digit always stays
    let text = (digits | 0x3030_3030) >> zeros;
    // SAFETY: the caller promises 4 bytes.
    unsafe {
        at.cast::<[u8; 4]>().write(text.to_le_bytes());
        at.add(4 - zeros as usize / 8)
    }
}

/// Writes a number from 1 to 99,999,999 without leading zeros.
///
/// # Safety
///
/// 8 bytes from `at` on can be written.
#[inline(always)]
unsafe fn write_first_eight(value: u64, at: *mut u8) -> *mut u8 {
    let digits = eight_digits(value);
    let zeros = digits.trailing_zeros() & 56;
    let text = (digits | 0x3030_3030_3030_3030) >> zeros;
    // SAFETY: the caller promises 8 bytes.
    unsafe {
        at.cast::<[u8; 8]>().write(text.to_le_bytes());
        at.add(8 - zeros as usize / 8)
    }
}

/// Writes a number below 10^8 with its leading zeros.
///
/// # Safety
///
/// 8 bytes from `at` on can be written.
#[inline(always)]
unsafe fn write_all_eight(value: u64, at: *mut u8) -> *mut u8 {
    let text = eight_digits(value) | 0x3030_3030_3030_3030;
    // SAFETY: the caller promises 8 bytes.
    unsafe {
        at.cast::<[u8; 8]>().write(text.to_le_bytes());
        at.add(8)
    }
}

/// The eight digits of a number below 10^8, one a byte, the first in the lowest.
#[inline(always)]
fn eight_digits(value: u64) -> u64 {
    let upper = value / 10_000;
    let fours = upper | (value - upper * 10_000) << 32;
    let hundreds = ((fours * 5243) >> 19) & 0x0000_007f_0000_007f;
    let pairs = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (pairs - tens * 10) << 8
}

//! The cells of one measure, one for each group.
//!
//! Here: adding a strip's values to the cells of their groups, which is where a grouped sum spends its time: one random
//! access per record to a table of eight bytes per group. Not here: which cell (`slots.rs`).

use std::ops::Range;

use super::total::{both, compensate, compensated};
use super::{Measure, Value};
use crate::column::{Float, Integer, Rows, Strided, with_float, with_integer};
use crate::format::Field;

/// Sums of integers stay in 64 bits while every value takes at most 32 bits and there are at most so many.
pub(super) const NARROW_ROWS: u64 = 1 << 30;
pub(super) const NARROW_MAGNITUDE: u64 = u32::MAX as u64;

/// Largest value of which sums are kept in halves: a carry, which costs a wrong guess of the processor's, is then rarer than
/// one in 4,096 values.
pub(super) const TIGHT_MAGNITUDE: u64 = (1 << 20) - 1;

/// The cells of one measure. What no record has touched is as `EMPTY` says.
pub(super) enum Table {
    Counts(Vec<u64>),
    /// The lower and the upper halves of sums of small numbers without a sign. The lower ones take half the cache of whole
    /// sums, and the upper ones are hardly ever met.
    Tight(Field, Vec<u32>, Vec<u32>),
    Narrow(Field, Vec<i64>),
    Wide(Field, Vec<i128>),
    Doubles(Field, Vec<[f64; 2]>),
    /// The keys of least or greatest integers, in an order of unsigned integers.
    Least(Field, Vec<u64>),
    Greatest(Field, Vec<u64>),
    LeastDouble(Field, Vec<f64>),
    GreatestDouble(Field, Vec<f64>),
}

/// Which of another worker's cells are the same groups' as which here.
pub(super) enum Pairs {
    /// A run of them, in use or not (what is empty changes nothing), as those from a place on here.
    Run { from: Range<usize>, to: usize },
    /// One by one: there, and here.
    Listed(Vec<(u32, u32)>),
}

/// Does the same with the cells of any table.
macro_rules! cells {
    ($table:expr, $cells:ident, $empty:ident => $body:expr) => {
        match $table {
            Table::Counts($cells) => {
                let $empty = 0;
                $body
            }
            Table::Tight(_, lower, upper) => {
                {
                    let ($cells, $empty) = (lower, 0);
                    $body
                }
                {
                    let ($cells, $empty) = (upper, 0);
                    $body
                }
            }
            Table::Narrow(_, $cells) => {
                let $empty = 0;
                $body
            }
            Table::Wide(_, $cells) => {
                let $empty = 0;
                $body
            }
            Table::Doubles(_, $cells) => {
                let $empty = [0.0; 2];
                $body
            }
            Table::Least(_, $cells) => {
                let $empty = u64::MAX;
                $body
            }
            Table::Greatest(_, $cells) => {
                let $empty = 0;
                $body
            }
            Table::LeastDouble(_, $cells) | Table::GreatestDouble(_, $cells) => {
                let $empty = f64::NAN;
                $body
            }
        }
    };
}

/// Memory for so many cells, in large pages where the system has them: cells are met in no order, and small pages may cost a
/// walk through the page tables besides. NumPy asks for the same. What it gains was lost in the noise of a busy machine.
fn roomy<T>(len: usize) -> Vec<T> {
    const PAGE: usize = 2 << 20; // a large page of x86-64 and of most ARM kernels
    let mut memory = Vec::<T>::with_capacity(len);
    let bytes = memory.capacity() * size_of::<T>();
    let start = memory.spare_capacity_mut().as_mut_ptr().cast::<u8>();
    let lead = start.align_offset(PAGE);
    if let Some(whole) = bytes.checked_sub(lead).map(|rest| rest / PAGE * PAGE).filter(|whole| *whole > 0) {
        // SAFETY: the range lies within this vector's own memory, and the advice changes nothing that it holds. If it
        // fails, the pages stay small.
        let _ = unsafe { rustix::mm::madvise(start.add(lead).cast(), whole, rustix::mm::Advice::LinuxHugepage) };
    }
    memory
}

impl Table {
    pub(super) fn new(measure: &Measure) -> Self {
        match measure {
            Measure::Count => Table::Counts(Vec::new()),
            Measure::Sum(field) if field.kind.is_float() => Table::Doubles(field.clone(), Vec::new()),
            Measure::Sum(field) if flip(field) == 0 => Table::Tight(field.clone(), Vec::new(), Vec::new()),
            Measure::Sum(field) => Table::Narrow(field.clone(), Vec::new()),
            Measure::Least(field) if field.kind.is_float() => Table::LeastDouble(field.clone(), Vec::new()),
            Measure::Least(field) => Table::Least(field.clone(), Vec::new()),
            Measure::Greatest(field) if field.kind.is_float() => Table::GreatestDouble(field.clone(), Vec::new()),
            Measure::Greatest(field) => Table::Greatest(field.clone(), Vec::new()),
        }
    }

    /// How well its cells tell by themselves which groups are in use, 0 being not at all: counts always do; sums of what has
    /// no sign do but for groups whose values are all 0.
    pub(super) fn tells(&self) -> u8 {
        match self {
            Table::Counts(_) => 2,
            Table::Tight(..) => 1,
            Table::Narrow(field, _) | Table::Wide(field, _) if flip(field) == 0 => 1,
            _ => 0,
        }
    }

    /// Marks the groups that are in use by what their cells hold.
    pub(super) fn settle(&self, present: &mut [u8]) {
        fn mark<T: PartialEq + Default>(cells: &[T], present: &mut [u8]) {
            for (cell, present) in cells.iter().zip(present) {
                *present |= u8::from(*cell != T::default());
            }
        }
        match self {
            Table::Counts(cells) => mark(cells, present),
            Table::Tight(_, lower, upper) => {
                mark(lower, present);
                mark(upper, present);
            }
            Table::Narrow(_, cells) => mark(cells, present),
            Table::Wide(_, cells) => mark(cells, present),
            _ => {}
        }
    }

    /// Marks the groups of these rows whose value is 0: their sum may not tell that they are in use.
    pub(super) fn mark_zeros(&self, strip: &[u8], size: usize, rows: Rows<'_>, slots: &[u32], present: &mut [u8]) {
        let (Table::Tight(field, ..) | Table::Narrow(field, _) | Table::Wide(field, _)) = self else { return };
        with_integer!(field, S => Strided::<S>::new(strip, size, field).zip(rows, slots, |slot, value| {
            if value.bits() == 0 {
                present[slot as usize] = 1;
            }
        }));
    }

    /// Empty cells in front and behind, to so many.
    pub(super) fn widen(&mut self, in_front: usize, len: usize) {
        cells!(self, cells, empty => {
            let mut wider = roomy(len);
            wider.resize(len, empty);
            wider[in_front..][..cells.len()].copy_from_slice(cells);
            *cells = wider;
        });
    }

    /// Empty cells behind, to so many.
    pub(super) fn extend(&mut self, len: usize) {
        cells!(self, cells, empty => cells.resize(len, empty));
    }

    /// Keeps the cells in use, one after the other.
    pub(super) fn compact(&mut self, present: &[u8]) {
        cells!(self, cells, _empty => {
            let mut present = present.iter();
            cells.retain(|_| present.next().is_some_and(|present| *present != 0));
        });
    }

    /// Makes room for sums of any size if these values, or so many, might need it.
    pub(super) fn make_room(&mut self, strip: &[u8], size: usize, rows: Rows<'_>, seen: u64) {
        let tight = matches!(self, Table::Tight(..));
        let (Table::Tight(field, ..) | Table::Narrow(field, _)) = &*self else { return };
        // What any value of the kind fits need not be looked at.
        let look = if tight { field.kind.size() > 2 } else { field.kind.size() > 4 };
        let magnitude = match look {
            true => with_integer!(field, S => {
                let values = Strided::<S>::new(strip, size, field);
                values.fold(rows, 0, |all, value| all | value.magnitude(), |one, other| one | other)
            }),
            false => 0,
        };
        if magnitude > TIGHT_MAGNITUDE || seen > NARROW_ROWS {
            self.make_narrow();
        }
        if magnitude > NARROW_MAGNITUDE || seen > NARROW_ROWS {
            self.make_wide();
        }
    }

    /// Makes whole sums of halves.
    pub(super) fn make_narrow(&mut self) {
        if let Table::Tight(field, lower, upper) = self {
            let mut whole = roomy(lower.len());
            whole.extend(lower.iter().zip(upper).map(|(lower, upper)| joined(*lower, *upper)));
            *self = Table::Narrow(field.clone(), whole);
        }
    }

    pub(super) fn make_wide(&mut self) {
        if let Table::Narrow(field, cells) = self {
            *self = Table::Wide(field.clone(), cells.iter().map(|sum| i128::from(*sum)).collect());
        }
    }

    /// Adds rows of a strip to the cells at these places, one for each row.
    pub(super) fn add(&mut self, strip: &[u8], size: usize, rows: Rows<'_>, slots: &[u32]) {
        match self {
            Table::Counts(cells) => {
                for slot in slots {
                    cells[*slot as usize] += 1;
                }
            }
            Table::Tight(field, lower, upper) => with_integer!(field, S => {
                Strided::<S>::new(strip, size, field).zip(rows, slots, |slot, value| {
                    let cell = &mut lower[slot as usize];
                    // No value is above TIGHT_MAGNITUDE.
                    let (sum, carry) = cell.overflowing_add(value.bits() as u32);
                    *cell = sum;
                    if carry {
                        upper[slot as usize] += 1;
                    }
                });
            }),
            Table::Narrow(field, cells) => with_integer!(field, S => {
                Strided::<S>::new(strip, size, field).zip(rows, slots, |slot, value| {
                    let cell = &mut cells[slot as usize];
                    *cell = cell.wrapping_add(value.bits() as i64);
                });
            }),
            Table::Wide(field, cells) => with_integer!(field, S => {
                Strided::<S>::new(strip, size, field).zip(rows, slots, |slot, value| {
                    let value: i128 = value.into();
                    cells[slot as usize] += value;
                });
            }),
            Table::Doubles(field, cells) => with_float!(field, S => {
                let values = Strided::<S>::new(strip, size, field);
                values.zip(rows, slots, |slot, value| compensate(&mut cells[slot as usize], value.double()));
            }),
            Table::Least(field, cells) => extreme(field, strip, size, rows, slots, cells, u64::min),
            Table::Greatest(field, cells) => extreme(field, strip, size, rows, slots, cells, u64::max),
            Table::LeastDouble(field, cells) => extreme_float(field, strip, size, rows, slots, cells, f64::min),
            Table::GreatestDouble(field, cells) => extreme_float(field, strip, size, rows, slots, cells, f64::max),
        }
    }

    /// Adds another worker's cells to the same groups' cells here.
    pub(super) fn merge(&mut self, other: &Self, pairs: &Pairs) {
        match (self, other) {
            (Table::Counts(cells), Table::Counts(other)) => each(cells, other, pairs, |one, other| *one += other),
            (Table::Narrow(_, cells), Table::Narrow(_, other)) => each(cells, other, pairs, |one, other| *one += other),
            (Table::Wide(_, cells), Table::Wide(_, other)) => each(cells, other, pairs, |one, other| *one += other),
            (Table::Wide(_, cells), Table::Narrow(_, other)) => {
                each(cells, other, pairs, |one, other| *one += i128::from(other));
            }
            (Table::Doubles(_, cells), Table::Doubles(_, other)) => {
                each(cells, other, pairs, |one, other| *one = both(*one, other));
            }
            (Table::Least(_, cells), Table::Least(_, other)) => {
                each(cells, other, pairs, |one, other| *one = other.min(*one));
            }
            (Table::Greatest(_, cells), Table::Greatest(_, other)) => {
                each(cells, other, pairs, |one, other| *one = other.max(*one));
            }
            (Table::LeastDouble(_, cells), Table::LeastDouble(_, other)) => {
                each(cells, other, pairs, |one, other| *one = one.min(other));
            }
            (Table::GreatestDouble(_, cells), Table::GreatestDouble(_, other)) => {
                each(cells, other, pairs, |one, other| *one = one.max(other));
            }
            _ => debug_assert!(false, "tables of one plan are of the same kinds"),
        }
    }

    /// Whether its sums are in 128 bits.
    pub(super) fn is_wide(&self) -> bool {
        matches!(self, Table::Wide(..))
    }

    /// What cells in use hold, if they are integers that 64 bits hold.
    pub(super) fn small(&self, slots: &[u32]) -> Option<Vec<i64>> {
        match self {
            Table::Counts(cells) => Some(slots.iter().map(|at| cells[*at as usize] as i64).collect()),
            Table::Tight(_, lower, upper) => {
                Some(slots.iter().map(|at| joined(lower[*at as usize], upper[*at as usize])).collect())
            }
            Table::Narrow(_, cells) => Some(slots.iter().map(|at| cells[*at as usize]).collect()),
            _ => None,
        }
    }

    /// What a cell in use holds.
    pub(super) fn value(&self, at: usize) -> Value {
        match self {
            Table::Counts(cells) => Value::Integer(cells[at].into()),
            Table::Tight(_, lower, upper) => Value::Integer(joined(lower[at], upper[at]).into()),
            Table::Narrow(_, cells) => Value::Integer(cells[at].into()),
            Table::Wide(_, cells) => Value::Integer(cells[at]),
            Table::Doubles(_, cells) => Value::Float(compensated(cells[at])),
            Table::Least(field, cells) | Table::Greatest(field, cells) => {
                Value::Integer(from_ordered(field, cells[at]))
            }
            Table::LeastDouble(_, cells) | Table::GreatestDouble(_, cells) => Value::Float(cells[at]),
        }
    }
}

/// Joins cells with another worker's.
pub(super) fn each<T, U: Copy>(cells: &mut [T], other: &[U], pairs: &Pairs, mut join: impl FnMut(&mut T, U)) {
    match pairs {
        Pairs::Run { from, to } => {
            for (cell, other) in cells[*to..].iter_mut().zip(&other[from.clone()]) {
                join(cell, *other);
            }
        }
        Pairs::Listed(pairs) => {
            for (from, to) in pairs {
                join(&mut cells[*to as usize], other[*from as usize]);
            }
        }
    }
}

/// A sum of its halves, which is far below 2^63.
fn joined(lower: u32, upper: u32) -> i64 {
    i64::from(upper) << 32 | i64::from(lower)
}

/// The sign's bit of an order of unsigned integers.
fn flip(field: &Field) -> u64 {
    let signed = field.kind.range().is_some_and(|(least, _)| least < 0);
    if signed { 1 << 63 } else { 0 }
}

fn from_ordered(field: &Field, ordered: u64) -> i128 {
    match flip(field) {
        0 => ordered.into(),
        flip => ((ordered ^ flip) as i64).into(),
    }
}

fn extreme(
    field: &Field,
    strip: &[u8],
    size: usize,
    rows: Rows<'_>,
    slots: &[u32],
    cells: &mut [u64],
    choose: impl Fn(u64, u64) -> u64,
) {
    let flip = flip(field);
    with_integer!(field, S => Strided::<S>::new(strip, size, field).zip(rows, slots, |slot, value| {
        let cell = &mut cells[slot as usize];
        *cell = choose(*cell, value.bits() ^ flip);
    }));
}

fn extreme_float(
    field: &Field,
    strip: &[u8],
    size: usize,
    rows: Rows<'_>,
    slots: &[u32],
    cells: &mut [f64],
    choose: impl Fn(f64, f64) -> f64,
) {
    with_float!(field, S => Strided::<S>::new(strip, size, field).zip(rows, slots, |slot, value| {
        let cell = &mut cells[slot as usize];
        *cell = choose(*cell, value.double());
    }));
}

//! Aggregates of all records: one cell for each measure.

use super::{Measure, Output, Value};
use crate::column::{Float, Integer, Rows, Stored, Strided, with_float, with_integer};
use crate::format::Field;

/// Adds a float and keeps what rounding lost (Neumaier).
#[inline(always)]
pub(super) fn compensate(sum: &mut [f64; 2], value: f64) {
    let [total, lost] = sum;
    let next = *total + value;
    *lost += if total.abs() >= value.abs() { (*total - next) + value } else { (value - next) + *total };
    *total = next;
}

/// Two sums in one.
pub(super) fn both(mut one: [f64; 2], [total, lost]: [f64; 2]) -> [f64; 2] {
    compensate(&mut one, total);
    one[1] += lost;
    one
}

/// Returns the sum plus what rounding lost; infinities and NaN have no rounding loss.
pub(super) fn compensated([total, lost]: [f64; 2]) -> f64 {
    if total.is_finite() { total + lost } else { total }
}

/// What has been measured of some records.
#[derive(Clone, Debug)]
pub(super) struct Totals(Vec<Cell>);

#[derive(Clone, Copy, Debug)]
enum Cell {
    Count(u64),
    Sum(i128),
    Double([f64; 2]),
    Least(Option<i128>),
    Greatest(Option<i128>),
    LeastDouble(Option<f64>),
    GreatestDouble(Option<f64>),
}

impl Totals {
    pub(super) fn new(measures: &[Measure]) -> Self {
        let cell = |measure: &Measure| match measure {
            Measure::Count => Cell::Count(0),
            Measure::Sum(field) if field.kind.is_float() => Cell::Double([0.0; 2]),
            Measure::Sum(_) => Cell::Sum(0),
            Measure::Least(field) if field.kind.is_float() => Cell::LeastDouble(None),
            Measure::Least(_) => Cell::Least(None),
            Measure::Greatest(field) if field.kind.is_float() => Cell::GreatestDouble(None),
            Measure::Greatest(_) => Cell::Greatest(None),
        };
        Self(measures.iter().map(cell).collect())
    }

    /// Counts records that need not be looked at.
    pub(super) fn count(&mut self, records: u64) {
        for cell in &mut self.0 {
            if let Cell::Count(count) = cell {
                *count += records;
            }
        }
    }

    /// Adds rows of a strip, of which there is at least one.
    pub(super) fn add(&mut self, measures: &[Measure], strip: &[u8], size: usize, rows: Rows<'_>) {
        for (measure, cell) in measures.iter().zip(&mut self.0) {
            let now = match measure {
                Measure::Count => Cell::Count(rows.len() as u64),
                Measure::Sum(field) if field.kind.is_float() => {
                    Cell::Double(with_float!(field, S => sum_floats(Strided::<S>::new(strip, size, field), rows)))
                }
                Measure::Sum(field) => {
                    Cell::Sum(with_integer!(field, S => sum(Strided::<S>::new(strip, size, field), rows, field)))
                }
                Measure::Least(field) if field.kind.is_float() => Cell::LeastDouble(Some(
                    with_float!(field, S => extreme_float(Strided::<S>::new(strip, size, field), rows, f64::min)),
                )),
                Measure::Greatest(field) if field.kind.is_float() => Cell::GreatestDouble(Some(
                    with_float!(field, S => extreme_float(Strided::<S>::new(strip, size, field), rows, f64::max)),
                )),
                Measure::Least(field) => {
                    Cell::Least(Some(with_integer!(field, S => least(Strided::<S>::new(strip, size, field), rows))))
                }
                Measure::Greatest(field) => Cell::Greatest(Some(
                    with_integer!(field, S => greatest(Strided::<S>::new(strip, size, field), rows)),
                )),
            };
            cell.merge(&now);
        }
    }

    /// Adds what was measured of records behind these.
    pub(super) fn merge(&mut self, other: &Self) {
        for (cell, other) in self.0.iter_mut().zip(&other.0) {
            cell.merge(other);
        }
    }

    pub(super) fn value(&self, output: Output) -> Value {
        let exact = |value: Option<i128>| value.map_or(Value::None, Value::Integer);
        let double = |value: Option<f64>| value.map_or(Value::None, Value::Float);
        match output {
            Output::Is(at) => match self.0[at] {
                Cell::Count(count) => Value::Integer(count.into()),
                Cell::Sum(sum) => Value::Integer(sum),
                Cell::Double(sum) => Value::Float(compensated(sum)),
                Cell::Least(value) | Cell::Greatest(value) => exact(value),
                Cell::LeastDouble(value) | Cell::GreatestDouble(value) => double(value),
            },
            Output::Mean { sum, count } => match (self.0[sum], self.0[count]) {
                (_, Cell::Count(0)) => Value::None,
                (Cell::Sum(sum), Cell::Count(count)) => Value::Float(sum as f64 / count as f64),
                (Cell::Double(sum), Cell::Count(count)) => Value::Float(compensated(sum) / count as f64),
                _ => Value::None,
            },
        }
    }
}

impl Cell {
    fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Cell::Count(one), Cell::Count(other)) => *one += other,
            (Cell::Sum(one), Cell::Sum(other)) => *one += other,
            (Cell::Double(one), Cell::Double(other)) => *one = both(*one, *other),
            (Cell::Least(one), Cell::Least(other)) => merge(one, *other, i128::min),
            (Cell::Greatest(one), Cell::Greatest(other)) => merge(one, *other, i128::max),
            (Cell::LeastDouble(one), Cell::LeastDouble(other)) => merge(one, *other, f64::min),
            (Cell::GreatestDouble(one), Cell::GreatestDouble(other)) => merge(one, *other, f64::max),
            _ => debug_assert!(false, "cells of one plan are of the same kinds"),
        }
    }
}

fn merge<T: Copy>(one: &mut Option<T>, other: Option<T>, choose: fn(T, T) -> T) {
    *one = match (*one, other) {
        (Some(one), Some(other)) => Some(choose(one, other)),
        (one, other) => one.or(other),
    };
}

/// A strip's sum. So few values of 32 bits fit 64 bits.
fn sum<S: Stored<Value: Integer>>(values: Strided<'_, S>, rows: Rows<'_>, field: &Field) -> i128 {
    if field.kind.size() <= 4 {
        let total = values.fold(rows, 0_i64, |sum, value| sum.wrapping_add(value.bits() as i64), i64::wrapping_add);
        total.into()
    } else {
        values.fold(rows, 0_i128, |sum, value| sum + value.into(), |one, other| one + other)
    }
}

/// A strip's sum, and what rounding lost of it.
fn sum_floats<S: Stored<Value: Float>>(values: Strided<'_, S>, rows: Rows<'_>) -> [f64; 2] {
    let mut lanes = [[0.0; LANES]; 2];
    add_floats(values, rows, &mut lanes);
    let [totals, lost] = lanes;
    totals.into_iter().zip(lost).fold([0.0; 2], |sum, (total, lost)| both(sum, [total, lost]))
}

/// Sums that do not wait for each other.
const LANES: usize = 8;

/// As [`compensate`], without a branch (Knuth).
///
/// Not inlined: the compiler adds two lanes at once only because they are stored together at the end.
#[inline(never)]
fn add_floats<S: Stored<Value: Float>>(values: Strided<'_, S>, rows: Rows<'_>, lanes: &mut [[f64; LANES]; 2]) {
    let [mut totals, mut lost] = *lanes;
    values.lanes(rows, LANES, |lane, value| {
        let (total, value) = (totals[lane], value.double());
        let next = total + value;
        let added = next - total;
        lost[lane] += (total - (next - added)) + (value - added);
        totals[lane] = next;
    });
    *lanes = [totals, lost];
}

fn least<S: Stored<Value: Integer>>(values: Strided<'_, S>, rows: Rows<'_>) -> i128 {
    values.fold(rows, S::Value::clamped(i128::MAX), |least, value| least.min(value), Ord::min).into()
}

fn greatest<S: Stored<Value: Integer>>(values: Strided<'_, S>, rows: Rows<'_>) -> i128 {
    values.fold(rows, S::Value::clamped(i128::MIN), |most, value| most.max(value), Ord::max).into()
}

fn extreme_float<S: Stored<Value: Float>>(values: Strided<'_, S>, rows: Rows<'_>, choose: fn(f64, f64) -> f64) -> f64 {
    // f64::min and max give the other side when one is NaN.
    values.fold(rows, f64::NAN, |best, value| choose(best, value.double()), choose)
}

//! Choosing records with a bound condition, a strip at a time.
//!
//! Here: [`Evaluator`], which one worker owns: it writes a byte per record (0 or 1) for each test, joins them, and makes
//! the list of places. Bytes and not bits, since each is one store of a compiled loop and their joins are vectorised. Not
//! here: what the tests are (`bind.rs`).

use std::cmp::Ordering;
use std::sync::Arc;

use super::bind::{Bound, Number, Test, exactly};
use super::{Comparison, Operation};
use crate::column::{Float, Integer, Rows, Stored, Strided, with_float, with_integer};
use crate::format::Field;

/// A list that is looked through one by one up to this length, and by halving beyond.
const LINEAR_MAX: usize = 8;

/// Evaluates a condition on strips of records.
pub(crate) struct Evaluator {
    bound: Arc<Bound>,
    mask: Vec<u8>,
    places: Vec<u32>,
    masks: Spare<u8>,
    small: Spare<i64>,
    wide: Spare<i128>,
    doubles: Spare<f64>,
}

/// Memory of earlier strips.
struct Spare<T>(Vec<Vec<T>>);

impl<T: Copy + Default> Spare<T> {
    fn take(&mut self, length: usize) -> Vec<T> {
        let mut memory = self.0.pop().unwrap_or_default();
        memory.resize(length, T::default());
        memory
    }

    fn give(&mut self, memory: Vec<T>) {
        self.0.push(memory);
    }
}

impl Evaluator {
    pub(crate) fn new(bound: Arc<Bound>) -> Self {
        Self {
            bound,
            mask: Vec::new(),
            places: Vec::new(),
            masks: Spare(Vec::new()),
            small: Spare(Vec::new()),
            wide: Spare(Vec::new()),
            doubles: Spare(Vec::new()),
        }
    }

    /// The records of a strip for which the condition holds.
    pub(crate) fn choose(&mut self, strip: &[u8]) -> Rows<'_> {
        let bound = self.bound.clone();
        let records = strip.len() / bound.size;
        if let Test::Constant(value) = bound.test {
            return if value { Rows::All(records) } else { Rows::Chosen(&[]) };
        }
        let mut mask = std::mem::take(&mut self.mask);
        mask.resize(records, 0);
        self.test(&bound.test, strip, &mut mask);
        let chosen = places(&mask, &mut self.places);
        self.mask = mask;
        if chosen == records { Rows::All(records) } else { Rows::Chosen(&self.places[..chosen]) }
    }

    /// Writes 1 where a test holds and 0 elsewhere.
    fn test(&mut self, test: &Test, strip: &[u8], mask: &mut [u8]) {
        let size = self.bound.size;
        match test {
            Test::Constant(value) => mask.fill(u8::from(*value)),
            Test::Within(field, low, high) => {
                with_integer!(field, S => within::<S>(strip, size, field, *low, *high, mask))
            }
            Test::Member(field, values) => with_integer!(field, S => among::<S>(strip, size, field, values, mask)),
            Test::Double(field, comparison, value) => {
                with_float!(field, S => double::<S>(strip, size, field, *comparison, *value, mask));
            }
            Test::Integers { comparison, left, right, wide: false } => {
                let sides = (number(left, strip, size, &mut self.small), number(right, strip, size, &mut self.small));
                join(*comparison, sides, mask, &mut self.small);
            }
            Test::Integers { comparison, left, right, wide: true } => {
                let sides = (number(left, strip, size, &mut self.wide), number(right, strip, size, &mut self.wide));
                join(*comparison, sides, mask, &mut self.wide);
            }
            Test::Doubles { comparison, left, right } => {
                let sides = (self.doubles(left, strip), self.doubles(right, strip));
                join(*comparison, sides, mask, &mut self.doubles);
            }
            Test::Mixed { comparison, double, integer, wide } => {
                let doubles = self.doubles(double, strip);
                let orders = |integer: i128, double: &f64| exactly(integer, *double).map(Ordering::reverse);
                let holds = |order| match order {
                    Some(order) => comparison.holds(&order, &Ordering::Equal),
                    None => *comparison == Comparison::NotEqual,
                };
                self.whole(integer, *wide, strip, |at, integer| {
                    mask[at] = u8::from(holds(orders(integer, &doubles[at])));
                });
                self.doubles.give(doubles);
            }
            Test::Bytes(field, comparison, value) => {
                bytes(strip, size, field, mask, |bytes, _| comparison.holds(bytes, value.as_slice()));
            }
            Test::BytesMember(field, values) => bytes(strip, size, field, mask, |bytes, _| {
                values.binary_search_by(|value| value.as_slice().cmp(bytes)).is_ok()
            }),
            Test::BytesFields(left, comparison, right) => bytes(strip, size, left, mask, |bytes, record| {
                comparison.holds(bytes, &record[right.offset..][..right.kind.size()])
            }),
            Test::Not(inner) => {
                self.test(inner, strip, mask);
                mask.iter_mut().for_each(|one| *one ^= 1);
            }
            Test::All(tests) => self.joined(tests, strip, mask, |one, other| one & other),
            Test::Any(tests) => self.joined(tests, strip, mask, |one, other| one | other),
        }
    }

    /// Computes a number in floats. What has no fraction is computed as such, and rounded where it meets a float.
    fn doubles(&mut self, number: &Number, strip: &[u8]) -> Vec<f64> {
        match number {
            Number::Whole { number, wide } => {
                let mut values = self.doubles.take(strip.len() / self.bound.size);
                self.whole(number, *wide, strip, |at, value| values[at] = value as f64);
                values
            }
            Number::Negative(inner) => {
                let mut values = self.doubles(inner, strip);
                values.iter_mut().for_each(|value| *value = -*value);
                values
            }
            Number::Arithmetic(operation, left, right) => {
                let mut values = self.doubles(left, strip);
                let right = self.doubles(right, strip);
                f64::apply(*operation)(&mut values, &right);
                self.doubles.give(right);
                values
            }
            leaf => self::number(leaf, strip, self.bound.size, &mut self.doubles),
        }
    }

    /// Computes a number without a fraction, and hands over the place and value of each.
    fn whole(&mut self, number: &Number, wide: bool, strip: &[u8], mut each: impl FnMut(usize, i128)) {
        if wide {
            let values = self::number(number, strip, self.bound.size, &mut self.wide);
            values.iter().enumerate().for_each(|(at, value)| each(at, *value));
            self.wide.give(values);
        } else {
            let values = self::number(number, strip, self.bound.size, &mut self.small);
            values.iter().enumerate().for_each(|(at, value)| each(at, (*value).into()));
            self.small.give(values);
        }
    }

    fn joined(&mut self, tests: &[Test], strip: &[u8], mask: &mut [u8], join: fn(u8, u8) -> u8) {
        let Some((first, rest)) = tests.split_first() else { return };
        self.test(first, strip, mask);
        let mut other = self.masks.take(mask.len());
        for test in rest {
            self.test(test, strip, &mut other);
            for (one, other) in mask.iter_mut().zip(&other) {
                *one = join(*one, *other);
            }
        }
        self.masks.give(other);
    }
}

/// Lists the places of the ones; gives their number.
fn places(mask: &[u8], places: &mut Vec<u32>) -> usize {
    if places.len() < mask.len() {
        places.resize(mask.len(), 0);
    }
    let mut found = 0;
    // Eight at once: where few are chosen, most eights have none.
    let (eights, rest) = mask.as_chunks::<8>();
    for (at, eight) in eights.iter().enumerate() {
        let mut ones = u64::from_le_bytes(*eight);
        if ones == 0x0101_0101_0101_0101 {
            // And where most are chosen, most eights have all.
            for (place, to) in places[found..][..8].iter_mut().enumerate() {
                *to = (at * 8 + place) as u32;
            }
            found += 8;
            continue;
        }
        while ones != 0 {
            places[found] = (at * 8) as u32 + ones.trailing_zeros() / 8;
            found += 1;
            ones &= ones - 1;
        }
    }
    for (at, one) in rest.iter().enumerate() {
        if *one != 0 {
            places[found] = (eights.len() * 8 + at) as u32;
            found += 1;
        }
    }
    found
}

fn within<S: Stored<Value: Integer>>(strip: &[u8], size: usize, field: &Field, low: i128, high: i128, mask: &mut [u8]) {
    let (low, high) = (S::Value::clamped(low), S::Value::clamped(high));
    Strided::<S>::new(strip, size, field).fill(mask, |value| u8::from(value.within(low, high)));
}

fn among<S: Stored<Value: Integer>>(strip: &[u8], size: usize, field: &Field, values: &[i128], mask: &mut [u8]) {
    let values: Vec<S::Value> = values.iter().map(|value| S::Value::clamped(*value)).collect();
    let strided = Strided::<S>::new(strip, size, field);
    if values.len() <= LINEAR_MAX {
        strided.fill(mask, |value| values.iter().fold(0, |found, one| found | u8::from(*one == value)));
    } else {
        strided.fill(mask, |value| u8::from(values.binary_search(&value).is_ok()));
    }
}

fn double<S: Stored<Value: Float>>(
    strip: &[u8],
    size: usize,
    field: &Field,
    comparison: Comparison,
    value: f64,
    mask: &mut [u8],
) {
    let strided = Strided::<S>::new(strip, size, field);
    // The comparison is chosen outside the loop.
    match comparison {
        Comparison::Equal => strided.fill(mask, |one| u8::from(one.double() == value)),
        Comparison::NotEqual => strided.fill(mask, |one| u8::from(one.double() != value)),
        Comparison::Less => strided.fill(mask, |one| u8::from(one.double() < value)),
        Comparison::LessEqual => strided.fill(mask, |one| u8::from(one.double() <= value)),
        Comparison::Greater => strided.fill(mask, |one| u8::from(one.double() > value)),
        Comparison::GreaterEqual => strided.fill(mask, |one| u8::from(one.double() >= value)),
    }
}

fn bytes(strip: &[u8], size: usize, field: &Field, mask: &mut [u8], holds: impl Fn(&[u8], &[u8]) -> bool) {
    for (record, one) in strip.chunks_exact(size).zip(mask) {
        *one = u8::from(holds(&record[field.offset..][..field.kind.size()], record));
    }
}

/// What numbers are computed in.
trait Arithmetic: Copy + Default + PartialOrd {
    fn literal(number: &Number) -> Self;
    /// Writes a field's values; it is of a kind that this type can hold.
    fn load(strip: &[u8], size: usize, field: &Field, to: &mut [Self]);
    fn negative(self) -> Self;
    fn apply(operation: Operation) -> fn(&mut [Self], &[Self]);
}

macro_rules! arithmetic {
    ($type:ty, $literal:expr, $load:expr, $negative:expr, $add:expr, $subtract:expr, $multiply:expr) => {
        impl Arithmetic for $type {
            fn literal(number: &Number) -> Self {
                $literal(number)
            }
            fn load(strip: &[u8], size: usize, field: &Field, to: &mut [Self]) {
                $load(strip, size, field, to)
            }
            fn negative(self) -> Self {
                $negative(self)
            }
            fn apply(operation: Operation) -> fn(&mut [Self], &[Self]) {
                fn each(left: &mut [$type], right: &[$type], compute: impl Fn($type, $type) -> $type) {
                    for (left, right) in left.iter_mut().zip(right) {
                        *left = compute(*left, *right);
                    }
                }
                match operation {
                    Operation::Add => |left, right| each(left, right, $add),
                    Operation::Subtract => |left, right| each(left, right, $subtract),
                    Operation::Multiply => |left, right| each(left, right, $multiply),
                }
            }
        }
    };
}

// No result leaves the type: ranges were computed when the condition was bound.
arithmetic!(
    i64,
    |number: &Number| if let Number::Integer(value) = number { *value as i64 } else { 0 },
    |strip, size, field: &Field, to: &mut [i64]| {
        with_integer!(field, S => Strided::<S>::new(strip, size, field).fill(to, |value| value.bits() as i64));
    },
    i64::wrapping_neg,
    i64::wrapping_add,
    i64::wrapping_sub,
    i64::wrapping_mul
);
arithmetic!(
    i128,
    |number: &Number| if let Number::Integer(value) = number { *value } else { 0 },
    |strip, size, field: &Field, to: &mut [i128]| {
        with_integer!(field, S => Strided::<S>::new(strip, size, field).fill(to, |value| value.into()));
    },
    i128::wrapping_neg,
    i128::wrapping_add,
    i128::wrapping_sub,
    i128::wrapping_mul
);
arithmetic!(
    f64,
    |number: &Number| match number {
        Number::Float(value) => *value,
        Number::Integer(value) => *value as f64,
        _ => 0.0,
    },
    |strip, size, field: &Field, to: &mut [f64]| {
        if field.kind.is_float() {
            with_float!(field, S => Strided::<S>::new(strip, size, field).fill(to, |value| value.double()));
        } else {
            with_integer!(field, S => Strided::<S>::new(strip, size, field).fill(to, |value| value.double()));
        }
    },
    |value: f64| -value,
    |left: f64, right: f64| left + right,
    |left: f64, right: f64| left - right,
    |left: f64, right: f64| left * right
);

/// Computes a number for each record of a strip.
fn number<T: Arithmetic>(number: &Number, strip: &[u8], size: usize, spare: &mut Spare<T>) -> Vec<T> {
    match number {
        Number::Field(field) => {
            let mut values = spare.take(strip.len() / size);
            T::load(strip, size, field, &mut values);
            values
        }
        literal @ (Number::Integer(_) | Number::Float(_)) => {
            let mut values = spare.take(strip.len() / size);
            values.fill(T::literal(literal));
            values
        }
        // An integer has none in it, and floats come in another way.
        Number::Whole { number, .. } => self::number(number, strip, size, spare),
        Number::Negative(inner) => {
            let mut values = self::number(inner, strip, size, spare);
            values.iter_mut().for_each(|value| *value = value.negative());
            values
        }
        Number::Arithmetic(operation, left, right) => {
            let mut values = self::number(left, strip, size, spare);
            let right = self::number(right, strip, size, spare);
            T::apply(*operation)(&mut values, &right);
            spare.give(right);
            values
        }
    }
}

/// Compares two computed sides, and gives their memory back.
fn join<T: Arithmetic>(comparison: Comparison, sides: (Vec<T>, Vec<T>), mask: &mut [u8], spare: &mut Spare<T>) {
    for ((one, left), right) in mask.iter_mut().zip(&sides.0).zip(&sides.1) {
        *one = u8::from(comparison.holds(left, right));
    }
    spare.give(sides.0);
    spare.give(sides.1);
}

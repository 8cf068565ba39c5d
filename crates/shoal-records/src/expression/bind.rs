//! A condition fitted to a format.
//!
//! Here: names become fields, types are checked, constants folded, and every comparison becomes the cheapest test that
//! decides it; an integer field against a number is a range, whatever the comparison. Not here: running it
//! (`evaluate.rs`).

use std::cmp::Ordering;

use super::{Comparison, Expression, Literal, Node, Operation, Part};
use crate::error::{Error, Result};
use crate::format::{Field, Format, Kind};

/// A condition that can be evaluated on records of one format.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) test: Test,
    /// Bytes of a record.
    pub(crate) size: usize,
}

/// What is looked at in each record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    Constant(bool),
    /// An integer lies within the two, which lie within its kind's range.
    Within(Field, i128, i128),
    /// An integer is one of these, which are in order.
    Member(Field, Vec<i128>),
    /// A float against a number.
    Double(Field, Comparison, f64),
    /// Two numbers; `wide` if they do not fit 64 bits.
    Integers {
        comparison: Comparison,
        left: Number,
        right: Number,
        wide: bool,
    },
    Doubles {
        comparison: Comparison,
        left: Number,
        right: Number,
    },
    /// A number with a fraction against one without, neither of which is rounded.
    Mixed {
        comparison: Comparison,
        double: Number,
        integer: Number,
        wide: bool,
    },
    /// Bytes against bytes of the same length.
    Bytes(Field, Comparison, Vec<u8>),
    /// Bytes are among these, which are in order and of the same length.
    BytesMember(Field, Vec<Vec<u8>>),
    /// Two fields of bytes, equally long.
    BytesFields(Field, Comparison, Field),
    Not(Box<Test>),
    All(Vec<Test>),
    Any(Vec<Test>),
}

/// What is computed of each record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Number {
    Field(Field),
    Integer(i128),
    Float(f64),
    /// One without a fraction, computed as such before it meets floats; `wide` if it does not fit 64 bits on the way.
    Whole {
        number: Box<Number>,
        wide: bool,
    },
    Negative(Box<Number>),
    Arithmetic(Operation, Box<Number>, Box<Number>),
}

/// A side of a comparison.
#[derive(Clone)]
enum Operand {
    /// Without a fraction: its least and greatest value, and whether a step on the way needs more than 64 bits.
    Integer {
        number: Number,
        range: (i128, i128),
        wide: bool,
    },
    Float(Number),
    BytesField(Field),
    Bytes(Vec<u8>),
}

impl Bound {
    pub(crate) fn new(expression: &Expression, format: &Format) -> Result<Self> {
        Ok(Self { test: test(&expression.root, format)?, size: format.size() })
    }
}

/// Binds a condition.
fn test(node: &Node, format: &Format) -> Result<Test> {
    match &node.part {
        Part::All(parts) => all(parts.iter().map(|part| test(part, format)).collect::<Result<_>>()?),
        Part::Any(parts) => Ok(any(parts.iter().map(|part| test(part, format)).collect::<Result<_>>()?)),
        Part::Not(inner) => Ok(negated(test(inner, format)?)),
        Part::Compare(comparison, left, right) => {
            compare(node.column, *comparison, operand(left, format)?, operand(right, format)?)
        }
        Part::In(left, items) => member(operand(left, format)?, items),
        Part::Literal(Literal::Truth(value)) => Ok(Test::Constant(*value)),
        Part::Field(name) => {
            let field = field(node.column, name, format)?;
            match field.kind {
                Kind::Bool => Ok(Test::Within(field, 1, 1)),
                kind => {
                    let text = format!("{name:?} is {}, not a condition: compare it with a value", kind.text());
                    Err(Error::expression(node.column, text))
                }
            }
        }
        Part::Literal(_) | Part::Negative(_) | Part::Arithmetic(..) => {
            Err(Error::expression(node.column, "a value, not a condition: compare it with something"))
        }
    }
}

/// Joins tests that must all hold; ranges of one field become one.
fn all(tests: Vec<Test>) -> Result<Test> {
    let mut joined: Vec<Test> = Vec::new();
    for test in tests {
        match test {
            Test::Constant(true) => {}
            Test::Constant(false) => return Ok(Test::Constant(false)),
            Test::Within(field, low, high) => {
                let same = joined.iter_mut().find_map(|before| match before {
                    Test::Within(other, low, high) if *other == field => Some((low, high)),
                    _ => None,
                });
                match same {
                    None => joined.push(Test::Within(field, low, high)),
                    Some((least, greatest)) => {
                        (*least, *greatest) = ((*least).max(low), (*greatest).min(high));
                        if least > greatest {
                            return Ok(Test::Constant(false));
                        }
                    }
                }
            }
            other => joined.push(other),
        }
    }
    Ok(match joined.len() {
        0 => Test::Constant(true),
        1 => joined.remove(0),
        _ => Test::All(joined),
    })
}

fn any(mut tests: Vec<Test>) -> Test {
    if tests.contains(&Test::Constant(true)) {
        return Test::Constant(true);
    }
    tests.retain(|test| *test != Test::Constant(false));
    match tests.len() {
        0 => Test::Constant(false),
        1 => tests.remove(0),
        _ => Test::Any(tests),
    }
}

fn negated(test: Test) -> Test {
    match test {
        Test::Constant(value) => Test::Constant(!value),
        Test::Not(inner) => *inner,
        other => Test::Not(Box::new(other)),
    }
}

fn field(column: usize, name: &str, format: &Format) -> Result<Field> {
    let at = format.index_of(name).map_err(|error| Error::expression(column, error))?;
    Ok(format.fields()[at].clone())
}

/// Binds a value.
fn operand(node: &Node, format: &Format) -> Result<Operand> {
    Ok(match &node.part {
        Part::Field(name) => {
            let field = field(node.column, name, format)?;
            match field.kind {
                Kind::Bytes(_) => Operand::BytesField(field),
                kind => match kind.range() {
                    Some(range) => {
                        Operand::Integer { wide: wide(range.0, range.1), number: Number::Field(field), range }
                    }
                    None => Operand::Float(Number::Field(field)),
                },
            }
        }
        Part::Literal(literal) => constant(literal),
        Part::Negative(inner) => negative(node.column, operand(inner, format)?)?,
        Part::Arithmetic(operation, left, right) => {
            arithmetic(node.column, *operation, operand(left, format)?, operand(right, format)?)?
        }
        _ => return Err(Error::expression(node.column, "a condition is not a value")),
    })
}

fn constant(literal: &Literal) -> Operand {
    match literal {
        Literal::Integer(value) => whole(*value),
        Literal::Truth(value) => whole(i128::from(*value)),
        Literal::Float(value) => Operand::Float(Number::Float(*value)),
        Literal::Bytes(bytes) => Operand::Bytes(bytes.clone()),
    }
}

fn whole(value: i128) -> Operand {
    Operand::Integer { number: Number::Integer(value), range: (value, value), wide: wide(value, value) }
}

fn wide(low: i128, high: i128) -> bool {
    i64::try_from(low).is_err() || i64::try_from(high).is_err()
}

fn negative(column: usize, inner: Operand) -> Result<Operand> {
    match inner {
        Operand::Integer { number, range, wide: inner_wide } => {
            let ends = (range.1.checked_neg(), range.0.checked_neg());
            let (Some(low), Some(high)) = ends else { return Err(too_large(column)) };
            let number = if low == high { Number::Integer(low) } else { Number::Negative(Box::new(number)) };
            Ok(Operand::Integer { number, range: (low, high), wide: inner_wide || wide(low, high) })
        }
        Operand::Float(Number::Float(value)) => Ok(Operand::Float(Number::Float(-value))),
        Operand::Float(number) => Ok(Operand::Float(Number::Negative(Box::new(number)))),
        _ => Err(no_number(column)),
    }
}

fn arithmetic(column: usize, operation: Operation, left: Operand, right: Operand) -> Result<Operand> {
    if let (
        Operand::Integer { number: left, range: a, wide: left_wide },
        Operand::Integer { number: right, range: b, wide: right_wide },
    ) = (&left, &right)
    {
        let (low, high) = range_of(operation, *a, *b).ok_or_else(|| too_large(column))?;
        let number = match low == high {
            true => Number::Integer(low),
            false => Number::Arithmetic(operation, Box::new(left.clone()), Box::new(right.clone())),
        };
        return Ok(Operand::Integer { number, range: (low, high), wide: *left_wide || *right_wide || wide(low, high) });
    }
    let (left, right) = (as_float(column, left)?, as_float(column, right)?);
    Ok(Operand::Float(match (left, right) {
        (Number::Float(left), Number::Float(right)) => Number::Float(match operation {
            Operation::Add => left + right,
            Operation::Subtract => left - right,
            Operation::Multiply => left * right,
        }),
        (left, right) => Number::Arithmetic(operation, Box::new(left), Box::new(right)),
    }))
}

/// The least and the greatest result, if 128 bits hold all.
fn range_of(operation: Operation, a: (i128, i128), b: (i128, i128)) -> Option<(i128, i128)> {
    match operation {
        Operation::Add => Some((a.0.checked_add(b.0)?, a.1.checked_add(b.1)?)),
        Operation::Subtract => Some((a.0.checked_sub(b.1)?, a.1.checked_sub(b.0)?)),
        Operation::Multiply => {
            let corners = [a.0.checked_mul(b.0)?, a.0.checked_mul(b.1)?, a.1.checked_mul(b.0)?, a.1.checked_mul(b.1)?];
            Some((*corners.iter().min()?, *corners.iter().max()?))
        }
    }
}

fn too_large(column: usize) -> Error {
    Error::expression(column, "the result may need more than 128 bits: make one side a float, as in 1.0 * a * b")
}

fn no_number(column: usize) -> Error {
    Error::expression(column, "bytes can only be compared with bytes")
}

fn as_float(column: usize, operand: Operand) -> Result<Number> {
    match operand {
        Operand::Integer { number: Number::Integer(value), .. } => Ok(Number::Float(value as f64)),
        Operand::Integer { number: Number::Field(field), .. } => Ok(Number::Field(field)),
        Operand::Integer { number, wide, .. } => Ok(Number::Whole { number: Box::new(number), wide }),
        Operand::Float(number) => Ok(number),
        _ => Err(no_number(column)),
    }
}

fn compare(column: usize, comparison: Comparison, left: Operand, right: Operand) -> Result<Test> {
    Ok(match (left, right) {
        (
            Operand::Integer { number: left, range: a, wide: left_wide },
            Operand::Integer { number: right, range: b, wide: right_wide },
        ) => {
            if let Some(decided) = decided(comparison, a, b) {
                return Ok(Test::Constant(decided));
            }
            match (left, right) {
                (Number::Field(field), Number::Integer(value)) => within(field, comparison, value),
                (Number::Integer(value), Number::Field(field)) => within(field, comparison.mirrored(), value),
                (left, right) => Test::Integers { comparison, left, right, wide: left_wide || right_wide },
            }
        }
        // An integer against a float literal stays exact.
        (left @ Operand::Integer { .. }, Operand::Float(Number::Float(value))) => {
            against(column, comparison, left, value)?
        }
        (Operand::Float(Number::Float(value)), right @ Operand::Integer { .. }) => {
            against(column, comparison.mirrored(), right, value)?
        }
        (Operand::Float(left), Operand::Integer { number, range, wide }) => {
            mixed(comparison, left, number, range, wide)
        }
        (Operand::Integer { number, range, wide }, Operand::Float(right)) => {
            mixed(comparison.mirrored(), right, number, range, wide)
        }
        (Operand::Float(left), Operand::Float(right)) => doubles(comparison, left, right),
        (Operand::BytesField(field), Operand::Bytes(value)) => against_bytes(column, field, comparison, value)?,
        (Operand::Bytes(value), Operand::BytesField(field)) => {
            against_bytes(column, field, comparison.mirrored(), value)?
        }
        (Operand::Bytes(left), Operand::Bytes(right)) => Test::Constant(comparison.holds(&left, &right)),
        (Operand::BytesField(left), Operand::BytesField(right)) => match left.kind == right.kind {
            true => Test::BytesFields(left, comparison, right),
            false => {
                let text = format!(
                    "{:?} is {} and {:?} is {}: only fields of one length can be compared",
                    left.name,
                    left.kind.text(),
                    right.name,
                    right.kind.text()
                );
                return Err(Error::expression(column, text));
            }
        },
        _ => return Err(no_number(column)),
    })
}

/// Two floats.
fn doubles(comparison: Comparison, left: Number, right: Number) -> Test {
    match (left, right) {
        (Number::Field(field), Number::Float(value)) if field.kind.is_float() => Test::Double(field, comparison, value),
        (Number::Float(value), Number::Field(field)) if field.kind.is_float() => {
            Test::Double(field, comparison.mirrored(), value)
        }
        (Number::Float(left), Number::Float(right)) => Test::Constant(comparison.holds(&left, &right)),
        (left, right) => Test::Doubles { comparison, left, right },
    }
}

/// A float against an integer that has these least and greatest values.
fn mixed(comparison: Comparison, double: Number, integer: Number, range: (i128, i128), wide: bool) -> Test {
    if let Number::Integer(value) = integer {
        return match beside(comparison, value) {
            Some((comparison, value)) => doubles(comparison, double, Number::Float(value)),
            None => Test::Constant(comparison == Comparison::NotEqual),
        };
    }
    // Integers up to here are floats without being rounded.
    const EXACT: i128 = 1 << f64::MANTISSA_DIGITS;
    match (-EXACT <= range.0 && range.1 <= EXACT, integer) {
        (true, Number::Field(field)) => doubles(comparison, double, Number::Field(field)),
        (true, number) => doubles(comparison, double, Number::Whole { number: Box::new(number), wide }),
        (false, integer) => Test::Mixed { comparison, double, integer, wide },
    }
}

/// A float, and the comparison with it that holds where the one with this integer does; none if no float equals it and that
/// is what is asked for.
fn beside(comparison: Comparison, value: i128) -> Option<(Comparison, f64)> {
    let float = value as f64;
    let order = exactly(value, float)?;
    let above = order.is_lt();
    match comparison {
        same if order.is_eq() => Some((same, float)),
        Comparison::Equal | Comparison::NotEqual => None,
        Comparison::Less | Comparison::LessEqual if above => Some((Comparison::Less, float)),
        Comparison::Less | Comparison::LessEqual => Some((Comparison::LessEqual, float)),
        Comparison::Greater | Comparison::GreaterEqual if above => Some((Comparison::GreaterEqual, float)),
        Comparison::Greater | Comparison::GreaterEqual => Some((Comparison::Greater, float)),
    }
}

/// How an integer stands to a float; `None`: that is NaN.
pub(super) fn exactly(integer: i128, float: f64) -> Option<Ordering> {
    const END: f64 = (1_u128 << 127) as f64; // just beyond the greatest integer; the least is its negative
    match float {
        float if float.is_nan() => None,
        float if float >= END => Some(Ordering::Less),
        float if float < -END => Some(Ordering::Greater),
        float => Some(integer.cmp(&(float.trunc() as i128)).then(0.0_f64.total_cmp(&(float.fract() + 0.0)))),
    }
}

/// Whether the ranges of two integers alone decide a comparison.
fn decided(comparison: Comparison, a: (i128, i128), b: (i128, i128)) -> Option<bool> {
    let apart = a.1 < b.0 || b.1 < a.0;
    let same = a == b && a.0 == a.1;
    match comparison {
        Comparison::Equal if apart => Some(false),
        Comparison::Equal if same => Some(true),
        Comparison::NotEqual => decided(Comparison::Equal, a, b).map(|equal| !equal),
        Comparison::Less if a.1 < b.0 => Some(true),
        Comparison::Less if a.0 >= b.1 => Some(false),
        Comparison::GreaterEqual => decided(Comparison::Less, a, b).map(|less| !less),
        Comparison::Greater => decided(Comparison::Less, b, a),
        Comparison::LessEqual => decided(Comparison::Less, b, a).map(|less| !less),
        _ => None,
    }
}

/// An integer field against a number, as a range.
fn within(field: Field, comparison: Comparison, value: i128) -> Test {
    let Some((least, greatest)) = field.kind.range() else { return Test::Constant(false) };
    let (low, high) = match comparison {
        Comparison::Equal => (value, value),
        Comparison::NotEqual => return negated(within(field, Comparison::Equal, value)),
        Comparison::Less => (least, value.saturating_sub(1)),
        Comparison::LessEqual => (least, value),
        Comparison::Greater => (value.saturating_add(1), greatest),
        Comparison::GreaterEqual => (value, greatest),
    };
    let (low, high) = (low.max(least), high.min(greatest));
    if low > high {
        Test::Constant(false)
    } else if (low, high) == (least, greatest) {
        Test::Constant(true)
    } else {
        Test::Within(field, low, high)
    }
}

/// An integer against a float literal: the same as against the integer beside it.
fn against(column: usize, comparison: Comparison, left: Operand, value: f64) -> Result<Test> {
    if value.is_nan() {
        return Ok(Test::Constant(comparison == Comparison::NotEqual));
    }
    let integral = value.fract() == 0.0; // infinities are not, and are cut to the ends of 128 bits below
    let (comparison, beside) = match comparison {
        Comparison::Equal if !integral => return Ok(Test::Constant(false)),
        Comparison::NotEqual if !integral => return Ok(Test::Constant(true)),
        Comparison::Less => (Comparison::Less, value.ceil()),
        Comparison::GreaterEqual => (Comparison::GreaterEqual, value.ceil()),
        Comparison::LessEqual => (Comparison::LessEqual, value.floor()),
        Comparison::Greater => (Comparison::Greater, value.floor()),
        same => (same, value),
    };
    compare(column, comparison, left, whole(beside as i128))
}

/// A literal made as long as the field.
fn padded(column: usize, field: &Field, mut value: Vec<u8>) -> Result<Vec<u8>> {
    let size = field.kind.size();
    if value.len() > size {
        let text = format!("{} bytes, but {:?} has only {size}", value.len(), field.name);
        return Err(Error::expression(column, text));
    }
    value.resize(size, 0);
    Ok(value)
}

fn against_bytes(column: usize, field: Field, comparison: Comparison, value: Vec<u8>) -> Result<Test> {
    let value = padded(column, &field, value)?;
    Ok(Test::Bytes(field, comparison, value))
}

/// Binds `left in (items)`.
fn member(left: Operand, items: &[(usize, Literal)]) -> Result<Test> {
    match left {
        Operand::BytesField(field) => {
            let values: Result<Vec<Vec<u8>>> = items
                .iter()
                .map(|(column, item)| match item {
                    Literal::Bytes(bytes) => padded(*column, &field, bytes.clone()),
                    _ => {
                        Err(Error::expression(*column, format_args!("{:?} is bytes, but this is a number", field.name)))
                    }
                })
                .collect();
            let mut values = values?;
            values.sort_unstable();
            values.dedup();
            Ok(Test::BytesMember(field, values))
        }
        Operand::Integer { number: Number::Field(field), range, .. } => {
            let mut values = Vec::with_capacity(items.len());
            for (column, item) in items {
                match item {
                    Literal::Integer(value) => values.push(*value),
                    Literal::Truth(value) => values.push(i128::from(*value)),
                    // 7.0 is 7; what has a fraction is never found.
                    Literal::Float(value) if value.fract() == 0.0 => values.push(*value as i128),
                    Literal::Float(_) => {}
                    Literal::Bytes(_) => return Err(no_number(*column)),
                }
            }
            values.retain(|value| (range.0..=range.1).contains(value));
            values.sort_unstable();
            values.dedup();
            Ok(match values.as_slice() {
                [] => Test::Constant(false),
                [one] => within(field, Comparison::Equal, *one),
                _ => Test::Member(field, values),
            })
        }
        left => {
            let equal: Result<Vec<Test>> = items
                .iter()
                .map(|(column, item)| compare(*column, Comparison::Equal, left.clone(), constant(item)))
                .collect();
            Ok(any(equal?))
        }
    }
}

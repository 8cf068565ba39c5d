//! Conditions on records: `len > 100 and id in (7, 8)`.
//!
//! Here: the tree that a condition is ([`Expression`]) and the page that says what it means. Reading one is in `lexer.rs`
//! and `parser.rs`, fitting it to a format in `bind.rs`, choosing records with it in `evaluate.rs`. Nothing is ever given
//! to an interpreter.
//!
//! ```text
//! condition  = both { "or" both }
//! both       = negated { "and" negated }
//! negated    = "not" negated | comparison
//! comparison = sum { ("==" | "!=" | "<" | "<=" | ">" | ">=") sum }
//!            | sum ["not"] "in" "(" literal { "," literal } ")"
//! sum        = product { ("+" | "-") product }
//! product    = signed { "*" signed }
//! signed     = ("-" | "+") signed | field | literal | "(" condition ")"
//! field      = name | "`" any text "`"
//! literal    = 12 | 0xff | 1_000 | 1.5 | 1e9 | b"bytes" | "text" | true | false
//! ```
//!
//! - `a < b <= c` is `a < b and b <= c`, as in Python.
//! - Integers are exact: a condition whose sums and products might not fit 128 bits is refused before anything is read.
//! - A sum or product with a float in it is computed in 64-bit floats; what of it has no fraction is computed first, and
//!   rounded where it meets the float. A comparison rounds nothing: `2**53 + 1` is greater than `2.0**53`. One with NaN is
//!   false, `!=` true.
//! - Truth values are conditions by themselves and count as 0 and 1 beside numbers.
//! - Bytes are compared with bytes or text (UTF-8); what is shorter than the field gets zeros at its end, as `struct.pack`
//!   gives it. Order is that of the bytes.

mod bind;
mod evaluate;
mod lexer;
mod parser;

use std::fmt;
use std::str::FromStr;

pub(crate) use bind::Bound;
pub(crate) use evaluate::Evaluator;

use crate::error::{Error, Result};
use crate::format::Format;

/// A condition that has been read, and not yet been fitted to a format.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    pub(crate) text: String,
    pub(crate) root: Node,
}

impl Expression {
    /// Reads a condition.
    ///
    /// # Errors
    ///
    /// Expression: it cannot be read; the error has the column.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(Self { text: text.to_owned(), root: parser::parse(text)? })
    }

    /// Whether it fits a format: its fields are there, and what is compared can be.
    ///
    /// # Errors
    ///
    /// Expression: it does not fit; the error has the column.
    pub fn check(&self, format: &Format) -> Result<()> {
        Bound::new(self, format).map(|_| ())
    }
}

impl FromStr for Expression {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Part of a condition, and the column at which it (or its operator) stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) column: usize,
    pub(crate) part: Part,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    Field(String),
    Literal(Literal),
    Negative(Box<Node>),
    Arithmetic(Operation, Box<Node>, Box<Node>),
    Compare(Comparison, Box<Node>, Box<Node>),
    In(Box<Node>, Vec<(usize, Literal)>),
    Not(Box<Node>),
    All(Vec<Node>),
    Any(Vec<Node>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Integer(i128),
    Float(f64),
    Bytes(Vec<u8>),
    Truth(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Add,
    Subtract,
    Multiply,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Comparison {
    /// The comparison that says the same with its sides exchanged.
    pub(crate) fn mirrored(self) -> Self {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessEqual => Comparison::GreaterEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterEqual => Comparison::LessEqual,
            same => same,
        }
    }

    /// Whether it holds of two values.
    #[inline(always)]
    pub(crate) fn holds<T: PartialOrd + ?Sized>(self, left: &T, right: &T) -> bool {
        match self {
            Comparison::Equal => left == right,
            Comparison::NotEqual => left != right,
            Comparison::Less => left < right,
            Comparison::LessEqual => left <= right,
            Comparison::Greater => left > right,
            Comparison::GreaterEqual => left >= right,
        }
    }
}

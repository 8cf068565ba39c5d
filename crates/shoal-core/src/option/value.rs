//! A value as a user gives it, before an option takes it.

use std::fmt;
use std::path::PathBuf;

use crate::display::escape;

/// A value of any option.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Left open.
    None,
    /// True or false.
    Flag(bool),
    /// A whole number; one that does not fit is the nearest that does, which no option takes.
    Whole(i128),
    /// A number with a fraction.
    Number(f64),
    /// Text.
    Text(String),
    /// A path.
    Path(PathBuf),
    /// Texts.
    Texts(Vec<String>),
    /// Pairs of texts.
    Pairs(Vec<(String, String)>),
    /// Two whole numbers.
    Part(i64, i64),
    /// Something that no option takes, as it is shown.
    Other(String),
}

impl Value {
    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| format!("\"{}\"", escape(text.as_bytes()));
        match self {
            Value::None => out.write_str("None"),
            Value::Flag(true) => out.write_str("True"),
            Value::Flag(false) => out.write_str("False"),
            Value::Whole(i128::MIN | i128::MAX) => out.write_str("a number of many digits"),
            Value::Whole(whole) => write!(out, "{whole}"),
            Value::Number(number) => write!(out, "{number:?}"),
            Value::Text(text) => out.write_str(&quoted(text)),
            Value::Path(path) => write!(out, "\"{}\"", escape(path.as_os_str().as_encoded_bytes())),
            Value::Texts(texts) => {
                write!(out, "[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
            }
            // Values of headers are secrets.
            Value::Pairs(pairs) => {
                let shown = pairs.iter().map(|(name, _)| quoted(&format!("{name}: ***")));
                write!(out, "[{}]", shown.collect::<Vec<_>>().join(", "))
            }
            Value::Part(index, count) => write!(out, "({index}, {count})"),
            Value::Other(shown) => out.write_str(shown),
        }
    }
}

//! What each type of option takes, and what its value looks like when it is given.

use std::path::PathBuf;
use std::time::Duration;

use super::size::parse_size;
use super::{Opt, Type, Value};
use crate::display::escape;
use crate::error::{Error, Kind, Result};

/// A type that an option may have.
pub trait Setting: Sized {
    /// What it takes.
    const TAKES: Type;
    /// Whether it may be left open.
    const OPTIONAL: bool = false;

    /// The value that was given. `named`: what it was given as.
    ///
    /// # Errors
    /// [`Kind::Config`](crate::Kind::Config) if the option does not take it.
    fn take(given: &Value, option: &Opt, named: &str) -> Result<Self>;

    /// The value as it would be given.
    fn given(&self) -> Value;
}

impl<T: Setting> Setting for Option<T> {
    const TAKES: Type = T::TAKES;
    const OPTIONAL: bool = true;

    fn take(given: &Value, option: &Opt, named: &str) -> Result<Self> {
        match given {
            Value::None => Ok(None),
            _ => T::take(given, option, named).map(Some),
        }
    }

    fn given(&self) -> Value {
        self.as_ref().map_or(Value::None, T::given)
    }
}

impl Setting for bool {
    const TAKES: Type = Type::Flag;

    fn take(given: &Value, option: &Opt, named: &str) -> Result<Self> {
        match given {
            Value::Flag(flag) => Ok(*flag),
            _ => Err(option.refuses(named, given)),
        }
    }

    fn given(&self) -> Value {
        Value::Flag(*self)
    }
}

/// A whole number within the range of the option; of one that takes sizes, also text.
pub fn whole(given: &Value, option: &Opt, named: &str) -> Result<u64> {
    let (least, most) = option.bounds();
    let number = match given {
        Value::Whole(number) => Some(*number),
        Value::Text(text) if option.takes == Type::Size => parse_size(text).map(i128::from),
        _ => None,
    };
    match number {
        Some(number) if number > most as i64 as i128 => Err(option.is_exceeded(named)),
        Some(number) if number >= least as i128 => Ok(number as u64),
        _ => Err(option.refuses(named, given)),
    }
}

macro_rules! whole_numbers {
    ($($type:ty),*) => {
        $(impl Setting for $type {
            const TAKES: Type = Type::Count;

            fn take(given: &Value, option: &Opt, named: &str) -> Result<Self> {
                whole(given, option, named)?.try_into().map_err(|_| option.refuses(named, given))
            }

            fn given(&self) -> Value {
                Value::Whole(*self as i128)
            }
        })*
    };
}

whole_numbers!(u32, u64, usize);

/// A number within the range of the option.
fn number(given: &Value, option: &Opt, named: &str) -> Result<f64> {
    let (least, most) = option.bounds();
    let number = match given {
        Value::Whole(whole) => *whole as f64,
        Value::Number(number) => *number,
        _ => f64::NAN, // within no bounds
    };
    match number {
        _ if number > most => Err(option.is_exceeded(named)),
        _ if number >= least => Ok(number),
        _ => Err(option.refuses(named, given)),
    }
}

impl Setting for f64 {
    const TAKES: Type = Type::Number;

    fn take(given: &Value, option: &Opt, named: &str) -> Result<Self> {
        number(given, option, named)
    }

    fn given(&self) -> Value {
        Value::Number(*self)
    }
}

impl Setting for Duration {
    const TAKES: Type = Type::Seconds;

    fn take(given: &Value, option: &Opt, named: &str) -> Result<Self> {
        Duration::try_from_secs_f64(number(given, option, named)?).map_err(|_| option.refuses(named, given))
    }

    fn given(&self) -> Value {
        Value::Number(self.as_secs_f64())
    }
}

impl Setting for String {
    const TAKES: Type = Type::Text;

    fn take(given: &Value, option: &Opt, named: &str) -> Result<Self> {
        given.text().filter(|text| !text.is_empty()).map(str::to_owned).ok_or_else(|| option.refuses(named, given))
    }

    fn given(&self) -> Value {
        Value::Text(self.clone())
    }
}

impl Setting for Vec<String> {
    const TAKES: Type = Type::Texts;

    fn take(given: &Value, option: &Opt, named: &str) -> Result<Self> {
        let texts = match given {
            Value::Text(text) => vec![text.clone()],
            Value::Texts(texts) => texts.clone(),
            _ => return Err(option.refuses(named, given)),
        };
        if texts.iter().any(String::is_empty) {
            return Err(option.refuses(named, given));
        }
        Ok(texts)
    }

    fn given(&self) -> Value {
        Value::Texts(self.clone())
    }
}

/// Whether a user's header field can be sent: a token, and a value of printable ASCII and tabs (RFC 9110, 5.5 and 5.6.2).
/// What other bytes mean is up to the service.
pub fn valid_field(name: &str, value: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty()
        && name.bytes().all(token)
        && value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte))
}

impl Setting for Vec<(String, String)> {
    const TAKES: Type = Type::Headers;

    fn take(given: &Value, option: &Opt, named: &str) -> Result<Self> {
        let Value::Pairs(pairs) = given else { return Err(option.refuses(named, given)) };
        match pairs.iter().find(|(name, value)| !valid_field(name, value)) {
            None => Ok(pairs.clone()),
            Some((name, _)) => {
                let why = "its name or value has characters that HTTP does not allow";
                let name = escape(name.as_bytes());
                Err(Error::new(Kind::Config, format!("`{named}`: the header \"{name}\" cannot be sent: {why}")))
            }
        }
    }

    fn given(&self) -> Value {
        Value::Pairs(self.clone())
    }
}

impl Setting for PathBuf {
    const TAKES: Type = Type::Path;

    fn take(given: &Value, option: &Opt, named: &str) -> Result<Self> {
        match given {
            Value::Path(path) => Ok(path.clone()),
            Value::Text(text) => Ok(text.into()),
            _ => Err(option.refuses(named, given)),
        }
    }

    fn given(&self) -> Value {
        Value::Path(self.clone())
    }
}

//! Options as data: a struct of options is declared once, and is the truth about each of them.
//!
//! [`options!`](macro@crate::options) makes the struct, its `Default`, a table that can be read at run time
//! ([`Options::TABLES`]), and one way to set an option by its name ([`Options::set`]), with one check and one wording of the
//! error. The signatures and documents of Python, the flags of the command line and their help follow from the table.
//!
//! Here: the table. `value.rs` has a value as a user gives it, `setting.rs` what each type of option takes, `size.rs` sizes
//! such as `64MiB`. Not here: the options themselves, which are beside what acts on them.

pub mod group;
mod setting;
mod size;
mod value;

pub use self::setting::Setting;
pub use self::setting::{valid_field, whole};
pub use self::size::parse_size;
pub use self::value::Value;
use crate::error::{Error, Kind, Result};

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// True or false.
    Flag,
    /// A whole number.
    Count,
    /// A number.
    Number,
    /// A number of bytes, or text such as `64MiB`.
    Size,
    /// A time in seconds.
    Seconds,
    /// One of these words. The first text is the name of the type.
    Word(&'static str, &'static [&'static str]),
    /// One of these words, or a whole number.
    WordOrCount(&'static str, &'static [&'static str]),
    /// Text that is not empty.
    Text,
    /// One text or several, none of them empty.
    Texts,
    /// Names and values of HTTP headers.
    Headers,
    /// A path.
    Path,
    /// True or false, or a path.
    FlagOrPath,
    /// An index, counted from 0, and a number of parts.
    Part,
}

/// One option: its name, and all that is said of it anywhere.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// Its name in Python.
    pub name: &'static str,
    /// What it takes.
    pub takes: Type,
    /// Whether it may be left open (`None`).
    pub optional: bool,
    /// Its value if it is not given.
    pub default: fn() -> Value,
    /// A sentence for the help of its flag.
    pub help: &'static str,
    /// What it does, for the documents.
    pub text: &'static str,
    /// What stands for its value in the help.
    pub metavar: Option<&'static str>,
    /// The heading of its flag in the help.
    pub group: &'static str,
    /// The name of its flag, if it is not the option's, without the dashes.
    pub flag: Option<&'static str>,
    /// A letter for its flag.
    pub short: Option<&'static str>,
    /// The least and the most that a number may be, if not what its type says; see [`Opt::bounds`].
    pub range: Option<(f64, f64)>,
    /// Whether its values are never shown.
    pub secret: bool,
    /// Whether another value makes another job: then it is in the identity of its source, while it is not the default.
    pub binds: bool,
    /// Whether `SHOAL_NAME` in the environment replaces its default.
    pub environment: bool,
}

/// The largest number that an option takes if it does not say: no run has more of anything.
pub const COUNT_MAX: f64 = u32::MAX as f64;
/// Up to the largest number that Python calls a size, which is the largest `i64` (`sys.maxsize`).
const SIZES: (f64, f64) = (1.0, i64::MAX as f64);
/// A millisecond to 30 years; beyond that, clocks overflow.
const SECONDS: (f64, f64) = (0.001, 1e9);

impl Opt {
    /// An option of which only the first facts are known; the macro replaces the others.
    pub const fn new(name: &'static str, takes: Type, optional: bool, default: fn() -> Value) -> Opt {
        Opt {
            name,
            takes,
            optional,
            default,
            help: "",
            text: "",
            metavar: None,
            group: "",
            flag: None,
            short: None,
            range: None,
            secret: false,
            binds: false,
            environment: false,
        }
    }

    /// The least and the most that a number may be.
    pub fn bounds(&self) -> (f64, f64) {
        self.range.unwrap_or(match self.takes {
            Type::Seconds => SECONDS,
            Type::Size => SIZES,
            _ => (1.0, COUNT_MAX),
        })
    }

    /// The error for a number above its maximum, which is whole. The number is not shown: it may have many digits.
    pub fn is_exceeded(&self, named: &str) -> Error {
        let most = self.bounds().1 as i64; // of 2^63, the largest `i64`
        Error::new(Kind::Config, format!("`{named}` is too large: the maximum is {most}"))
    }

    /// The error for a value that it does not take. `named`: what it was given as.
    pub fn refuses(&self, named: &str, given: &Value) -> Error {
        let (least, most) = self.bounds();
        let listed = |words: &[&str], more: &[&str]| {
            let mut words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
            words.extend(more.iter().map(|&text| text.to_owned()));
            let last = words.pop().unwrap_or_default();
            if words.is_empty() { last } else { format!("{} or {last}", words.join(", ")) }
        };
        let must = match self.takes {
            Type::Flag => "true or false".to_owned(),
            Type::Count => format!("a whole number of at least {least}"),
            Type::Number => format!("a number from {least} to {most}"),
            Type::Size => "a size above 0".to_owned(),
            Type::Seconds => format!("a time in seconds of at least {least}"),
            Type::Word(_, words) => listed(words, &[]),
            Type::WordOrCount(_, words) => listed(words, &[&format!("a whole number from {least} to {most}")]),
            Type::Text => "text that is not empty".to_owned(),
            Type::Texts => "one text or several, none of them empty".to_owned(),
            Type::Headers => "names and values of HTTP headers".to_owned(),
            Type::Path => "a path".to_owned(),
            Type::FlagOrPath => "true, false or a path".to_owned(),
            Type::Part => "(index, count), with the index counted from 0".to_owned(),
        };
        let shown = if self.secret { String::new() } else { format!(", got {given}") };
        let error = Error::new(Kind::Config, format!("`{named}` must be {must}{shown}"));
        match self.takes {
            Type::Size => error.hint("use a number of bytes, or \"64M\", \"1.5GB\""),
            _ => error,
        }
    }
}

/// A struct of options that was declared with [`options!`](macro@crate::options).
pub trait Options: Default {
    /// Its options, in the order in which they are shown: first its own, then those of a struct in it.
    const TABLES: &'static [&'static [Opt]];

    /// Sets one of them. `named`: what the user gave it as, for the message: its name, or a variable of the environment.
    ///
    /// # Errors
    /// [`Kind::Config`] if it does not take the value, or there is no such option.
    fn set(&mut self, name: &str, named: &str, value: &Value) -> Result<()>;

    /// The value of an option.
    fn get(&self, name: &str) -> Option<Value>;

    /// What identifies the options that bind a job and are not at their default, to follow the identity of their source.
    fn identity(&self) -> String {
        let (defaults, mut identity) = (Self::default(), String::new());
        for option in Self::TABLES.concat().iter().filter(|option| option.binds) {
            let own = self.get(option.name).unwrap_or(Value::None);
            if defaults.get(option.name).as_ref() == Some(&own) {
                continue;
            }
            let text = match own {
                Value::Flag(true) => {
                    identity.push_str(&format!(" {}", option.name));
                    continue;
                }
                Value::Text(text) => text,
                // A comma within a text would look like one between two.
                Value::Texts(texts) => texts.iter().map(|text| text.replace(',', "\0")).collect::<Vec<_>>().join(","),
                other => other.to_string(),
            };
            let text = text.escape_default().to_string().replace(' ', "\\ ");
            identity.push_str(&format!(" {}={text}", option.name));
        }
        identity
    }

    /// All values by their names.
    fn values(&self) -> Vec<(&'static str, Value)> {
        Self::TABLES.concat().iter().filter_map(|option| Some((option.name, self.get(option.name)?))).collect()
    }
}

/// Declares a struct of options: for each its documentation, name, type, default and help, and what else [`Opt`] has.
/// After `with`, it has a struct of further options; fields after `and` are not options, since only programs set them.
///
/// ```
/// use shoal_core::option::{Options, Value};
///
/// shoal_core::options! {
///     /// How to bake.
///     pub struct Baking {
///         /// Number of loaves.
///         loaves: u32 = 2, "Number of loaves.", metavar: Some("N"), range: Some((1.0, 10.0)), binds: true;
///     }
///     and {
///         /// Where.
///         oven: u8 = 0;
///     }
/// }
/// let mut baking = Baking::default();
/// baking.set("loaves", "loaves", &Value::Whole(3))?;
/// assert_eq!((baking.loaves, baking.oven, Baking::TABLES[0][0].help), (3, 0, "Number of loaves."));
/// assert_eq!((baking.identity(), Baking::default().identity()), (" loaves=3".to_owned(), String::new()));
/// let refused = baking.set("loaves", "loaves", &Value::Whole(11)).unwrap_err();
/// assert_eq!(refused.line(), "`loaves` is too large: the maximum is 10");
/// # Ok::<(), shoal_core::Error>(())
/// ```
#[macro_export]
macro_rules! options {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $(
                $(#[doc = $text:literal])+
                $field:ident: $type:ty = $default:expr, $help:literal $(, $key:ident: $value:expr)*;
            )*
        }
        $(with { $part:ident: $part_type:ty })?
        $(and { $( $(#[$own_meta:meta])* $own:ident: $own_type:ty = $own_default:expr; )* })?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $( $(#[doc = $text])+ pub $field: $type, )*
            $(#[doc = "Further options."] pub $part: $part_type,)?
            $($( $(#[$own_meta])* pub $own: $own_type, )*)?
        }

        impl Default for $name {
            fn default() -> $name {
                $name {
                    $( $field: $default, )*
                    $( $part: <$part_type>::default(), )?
                    $($( $own: $own_default, )*)?
                }
            }
        }

        impl $crate::option::Options for $name {
            const TABLES: &'static [&'static [$crate::option::Opt]] = &[&[
                $($crate::option::Opt {
                    help: $help,
                    text: concat!($($text, "\n"),+),
                    $($key: $value,)*
                    ..$crate::option::Opt::new(
                        stringify!($field),
                        <$type as $crate::option::Setting>::TAKES,
                        <$type as $crate::option::Setting>::OPTIONAL,
                        || $crate::option::Setting::given(&{ let value: $type = $default; value }),
                    )
                },)*
            ], $(
                <$part_type as $crate::option::Options>::TABLES[0],
                // Also those of a struct in that; no struct is deeper.
                match <$part_type as $crate::option::Options>::TABLES {
                    [_, further, ..] => further,
                    _ => &[],
                },
            )?];

            fn set(&mut self, name: &str, named: &str, value: &$crate::option::Value) -> $crate::Result<()> {
                let Some(option) = Self::TABLES[0].iter().find(|option| option.name == name) else {
                    $( return $crate::option::Options::set(&mut self.$part, name, named, value); )?
                    #[allow(unreachable_code)]
                    return Err($crate::Error::new($crate::Kind::Config, format!("there is no option `{name}`")));
                };
                match name {
                    $( stringify!($field) => self.$field = $crate::option::Setting::take(value, option, named)?, )*
                    _ => {}
                }
                Ok(())
            }

            fn get(&self, name: &str) -> Option<$crate::option::Value> {
                match name {
                    $( stringify!($field) => Some($crate::option::Setting::given(&self.$field)), )*
                    $( _ => $crate::option::Options::get(&self.$part, name), )?
                    #[allow(unreachable_patterns)]
                    _ => None,
                }
            }
        }
    };
}

/// Declares an enum whose variants are the words of an option.
#[macro_export]
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $( $(#[$variant_meta:meta])* $variant:ident = $word:literal, )+ }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        pub enum $name { $( $(#[$variant_meta])* $variant, )+ }

        impl $name {
            /// The word that a user types.
            pub fn as_str(self) -> &'static str {
                match self { $( $name::$variant => $word, )+ }
            }

            /// What this word stands for.
            pub fn named(word: &str) -> Option<$name> {
                match word { $( $word => Some($name::$variant), )+ _ => None }
            }
        }

        impl $crate::option::Setting for $name {
            const TAKES: $crate::option::Type = $crate::option::Type::Word(stringify!($name), &[$($word),+]);

            fn take(
                given: &$crate::option::Value,
                option: &$crate::option::Opt,
                named: &str,
            ) -> $crate::Result<$name> {
                given.text().and_then($name::named).ok_or_else(|| option.refuses(named, given))
            }

            fn given(&self) -> $crate::option::Value {
                $crate::option::Value::Text(self.as_str().to_owned())
            }
        }
    };
}

//! Options from Python to the structs that declare them, and their tables to Python.
//!
//! A function of Python passes its arguments as one dictionary, and each struct takes those that it has. Not here: what the
//! options are (`options!` beside what acts on them).
//!
//! Nothing here keeps a name in a lock that is initialised on first use, as what PyO3 derives does. Another thread may fork in
//! that moment, and then the child waits for ever: once in 120 forks beside threads that save.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use shoal_engine::option::group::{DESTINATION, ERRORS, SOURCE};
use shoal_engine::option::{Opt, Options, Setting, Type, Value};
use shoal_engine::sink::digest::Checksum;
use shoal_engine::{Error, Kind, Part, TransferOptions};

use crate::errors::{OnError, run_error};
use crate::registry::{SINKS, SOURCES, sink_named, source_named};

shoal_engine::words! {
    /// In which order objects arrive.
    pub enum Order {
        /// As they are ready.
        #[default]
        Any = "any",
        /// As the source lists them.
        Source = "source",
    }
}

shoal_engine::options! {
    /// How failed objects are told.
    pub struct TellOptions {
        /// What to do about failed objects. `"raise"` finishes the rest, then raises `ObjectsFailedError`; `"record"`
        /// returns the report, which has the failures; `"stop"` ends at the first failure and raises its exception. All
        /// of them record failures in the journal.
        on_error: OnError = OnError::Raise, "Record a failure and continue, or stop at it.", group: ERRORS;
    }
}

shoal_engine::options! {
    /// How objects are handed to a loop.
    pub struct ReadOptions {
        /// `"any"`: objects arrive as they are ready, which is faster. `"source"`: in the order of the listing, with
        /// objects that were retried later at the end.
        order: Order = Order::Any, "Order of the objects; source = as listed.", group: SOURCE;
        /// Deliver objects that are larger in chunks of at most this size, each an `Object` with its `offset`.
        chunk_size: Option<u64> = None, "Size of the chunks.", takes: Type::Size;
        /// A hash function: hand over checksums instead of the bytes.
        checksum: Option<Checksum> = None, "Print checksums.";
    }
}

shoal_engine::options! {
    /// How tables and arrays are encoded.
    pub struct EncodeOptions {
        /// Begin a `.csv` file of a table with the names of its columns. (An array's columns have no names.)
        header: bool = true, "Begin a table's .csv with the column names.", group: DESTINATION;
        /// End a `.csv` or `.jsonl` file with a newline. (A last line that is empty, a null, always has one.)
        final_newline: bool = true, "End a .csv or .jsonl file with a newline.", group: DESTINATION;
    }
}

shoal_engine::options! {
    /// Of what has no options of its own.
    pub struct NoOptions {}
}

impl EncodeOptions {
    /// The encoder's form.
    pub fn to_encoder(&self) -> shoal_encode::Options {
        shoal_encode::Options { header: self.header, final_newline: self.final_newline }
    }

    /// By what names the journal compares them.
    pub fn bound(&self) -> [(String, String); 2] {
        [("header", self.header), ("final_newline", self.final_newline)]
            .map(|(name, value)| (name.to_owned(), value.to_string()))
    }
}

/// Those of the given options that `T` has, and for the others a variable of the environment or the default. A flag that is
/// `None` is one of the others.
pub fn take<T: Options>(given: &Bound<'_, PyDict>) -> PyResult<T> {
    let mut options = T::default();
    for option in T::TABLES.concat() {
        let set = match given.get_item(option.name)? {
            Some(value) if !(value.is_none() && option.takes == Type::Flag) => {
                options.set(option.name, option.name, &value_of(&value, &option)?)
            }
            _ => from_environment(&mut options, &option),
        };
        set.map_err(|error| run_error(given.py(), &error))?;
    }
    Ok(options)
}

/// Sets an option from `SHOAL_NAME`, if it has such a variable and it is set.
fn from_environment<T: Options>(options: &mut T, option: &Opt) -> Result<(), Error> {
    let variable = format!("SHOAL_{}", option.name.to_ascii_uppercase());
    match option.environment.then(|| std::env::var_os(&variable)).flatten() {
        Some(text) if !text.is_empty() => {
            let text = text.to_string_lossy().into_owned();
            let number = text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse().unwrap_or(i128::MAX));
            options.set(option.name, &variable, &number.map_or(Value::Text(text), Value::Whole))
        }
        _ => Ok(()),
    }
}

/// The options of a run, and what failed objects mean.
pub fn of_run(given: &Bound<'_, PyDict>) -> PyResult<(TransferOptions, OnError)> {
    let mut options: TransferOptions = take(given)?;
    let TellOptions { on_error } = take(given)?;
    if on_error == OnError::Stop {
        options.max_failures = Some(0);
    }
    options.keep_going = options.keep_going.or(Some(on_error == OnError::Record));
    Ok((options, on_error))
}

/// A value of Python as one that `option` may take. What iterating over it raises is passed on.
fn value_of(given: &Bound<'_, PyAny>, option: &Opt) -> PyResult<Value> {
    if given.is_none() {
        return Ok(Value::None);
    }
    // A number of thousands of digits has no text.
    let other = || Ok(Value::Other(given.repr().or_else(|_| given.get_type().name())?.to_string_lossy().into_owned()));
    if option.takes == Type::Flag {
        return given.is_truthy().map(Value::Flag);
    }
    if given.is_exact_instance_of::<PyBool>() {
        return given.is_truthy().map(Value::Flag);
    }
    if given.is_exact_instance_of::<PyInt>() {
        let nearest = || given.lt(0).map(|negative| if negative { i128::MIN } else { i128::MAX });
        return Ok(Value::Whole(given.extract().or_else(|_| nearest())?));
    }
    if given.is_exact_instance_of::<PyFloat>() {
        return given.extract().map(Value::Number);
    }
    match option.takes {
        Type::Path | Type::FlagOrPath => given.extract::<PathBuf>().map(Value::Path).or_else(|_| other()),
        _ if given.is_instance_of::<PyString>() => given.extract().map(Value::Text).or_else(|_| other()),
        Type::Part if is_several(given) => {
            let whole =
                |number: &Bound<'_, PyAny>| number.is_exact_instance_of::<PyInt>().then(|| number.extract().ok())?;
            match each(given, whole)?.as_deref() {
                Some(&[index, count]) => Ok(Value::Part(index, count)),
                _ => other(),
            }
        }
        Type::Texts if is_several(given) => {
            each(given, |text| text.extract().ok())?.map_or_else(other, |texts| Ok(Value::Texts(texts)))
        }
        Type::Headers if given.is_callable() => Ok(Value::Pairs(Vec::new())), // `credentials.rs` calls it
        Type::Headers if is_several(given) => {
            let pair = |pair: &Bound<'_, PyAny>| match pair.is_instance_of::<PyString>() {
                true => None, // of two letters
                false => pair.extract::<[String; 2]>().ok().map(Into::into),
            };
            let pairs = if given.hasattr("items")? { &given.call_method0("items")? } else { given };
            Ok(each(pairs, pair)?.map_or(Value::Other(String::new()), Value::Pairs)) // what is not shown needs no text
        }
        _ => other(),
    }
}

/// Whether a value has elements and is not bytes.
fn is_several(given: &Bound<'_, PyAny>) -> bool {
    !given.hasattr("decode").unwrap_or(true) && given.hasattr("__iter__").unwrap_or(false)
}

/// What `one` makes of each element; `None` if it makes nothing of one.
fn each<T>(given: &Bound<'_, PyAny>, one: impl Fn(&Bound<'_, PyAny>) -> Option<T>) -> PyResult<Option<Vec<T>>> {
    given.try_iter()?.map(|element| Ok(one(&element?))).collect()
}

/// A value as Python has it: sizes in bytes, times in seconds.
fn to_python<'py>(py: Python<'py>, value: Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::None => py.None().into_bound(py),
        Value::Flag(flag) => PyBool::new(py, flag).to_owned().into_any(),
        Value::Whole(whole) => whole.into_pyobject(py)?.into_any(),
        Value::Number(number) => number.into_pyobject(py)?.into_any(),
        Value::Text(text) | Value::Other(text) => text.into_pyobject(py)?.into_any(),
        Value::Path(path) => path.into_os_string().into_pyobject(py)?.into_any(),
        Value::Texts(texts) => PyTuple::new(py, texts)?.into_any(),
        Value::Pairs(pairs) => PyTuple::new(py, pairs)?.into_any(),
        Value::Part(index, count) => (index, count).into_pyobject(py)?.into_any(),
    })
}

/// The values of options by their names.
pub fn values<'py, T: Options>(py: Python<'py>, options: &T) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    for (name, value) in options.values() {
        all.set_item(name, to_python(py, value)?)?;
    }
    Ok(all)
}

/// A part of a job, from its number and the number of parts.
pub fn part((index, count): (u32, u32)) -> PyResult<Part> {
    Part::new(index, count).map_err(|error| pyo3::exceptions::PyValueError::new_err(error.why().to_owned()))
}

/// Returns a size in bytes from a number or text.
#[pyfunction(name = "parse_size")]
pub fn size(py: Python<'_>, value: &Bound<'_, PyAny>, option: &str) -> PyResult<u64> {
    let sizes = Opt::new("", Type::Size, false, || Value::None);
    u64::take(&value_of(value, &sizes)?, &sizes, option).map_err(|error| run_error(py, &error))
}

/// Every table of options by what it is of: the name of a function that describes a source or a destination, or a struct.
#[pyfunction]
pub fn options(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    let add = |name: &str, tables: &[&[Opt]]| -> PyResult<()> {
        let rows = tables.concat().iter().map(|option| row(py, option)).collect::<PyResult<Vec<_>>>()?;
        all.set_item(name, PyList::new(py, rows)?)
    };
    add("run", TransferOptions::TABLES)?;
    add("tell", TellOptions::TABLES)?;
    add("read", ReadOptions::TABLES)?;
    add("encode", EncodeOptions::TABLES)?;
    let described = SOURCES.iter().map(|source| (source.function, source.tables));
    for (function, tables) in described.chain(SINKS.iter().map(|sink| (sink.function, sink.tables))) {
        if !function.is_empty() {
            add(function, tables)?;
        }
    }
    Ok(all)
}

/// One option as a dictionary.
fn row<'py>(py: Python<'py>, option: &Opt) -> PyResult<Bound<'py, PyDict>> {
    let Opt {
        name,
        takes,
        optional,
        default,
        help,
        text,
        metavar,
        group,
        flag,
        short,
        range: _,
        secret,
        binds: _,
        environment,
    } = *option;
    let (kind, alias, words): (&str, &str, &[&str]) = match takes {
        Type::Word(alias, words) => ("word", alias, words),
        Type::WordOrCount(alias, words) => ("word-or-count", alias, words),
        Type::Flag => ("flag", "bool", &[]),
        Type::Count => ("count", "int", &[]),
        Type::Number => ("number", "float", &[]),
        Type::Seconds => ("seconds", "float", &[]),
        Type::Size => ("size", "Size", &[]),
        Type::Text => ("text", "str", &[]),
        Type::Texts => ("texts", "Texts", &[]),
        Type::Headers => ("headers", "Headers", &[]),
        Type::FlagOrPath => ("flag-or-path", "bool | Path", &[]),
        Type::Path => ("path", "Path", &[]),
        Type::Part => ("part", "Part", &[]),
    };
    let row = PyDict::new(py);
    row.set_item("name", name)?;
    row.set_item("kind", kind)?;
    row.set_item("type", alias)?;
    row.set_item("words", PyTuple::new(py, words)?)?;
    row.set_item("optional", optional)?;
    row.set_item("default", to_python(py, default())?)?;
    row.set_item("help", help)?;
    row.set_item("text", text)?;
    row.set_item("metavar", metavar)?;
    row.set_item("group", group)?;
    row.set_item("flag", flag.map_or_else(|| name.replace('_', "-"), str::to_owned))?;
    row.set_item("short", short)?;
    row.set_item("secret", secret)?;
    row.set_item("environment", environment)?;
    Ok(row)
}

/// The options of a table with valid values, those left out with their defaults.
#[pyfunction]
pub fn checked<'py>(py: Python<'py>, table: &str, given: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyDict>> {
    let source = SOURCES.iter().find(|source| source.function == table).map(|source| source.checked);
    let sink = || SINKS.iter().find(|sink| sink.function == table).map(|sink| sink.checked);
    match (table, source.or_else(sink)) {
        ("run", _) => values(py, &take::<TransferOptions>(given)?),
        ("encode", _) => values(py, &take::<EncodeOptions>(given)?),
        (_, Some(checked)) => checked(given),
        (_, None) => Err(run_error(py, &Error::new(Kind::Config, format!("there are no options of {table}")))),
    }
}

/// Returns the names of the functions that describe a source, and of those that describe a destination.
#[pyfunction]
pub fn functions() -> (Vec<&'static str>, Vec<&'static str>) {
    let named = |name: &&str| !name.is_empty();
    let sources = SOURCES.iter().map(|kind| kind.function).filter(named);
    (sources.collect(), SINKS.iter().map(|kind| kind.function).filter(named).collect())
}

/// Returns the name of the function that describes such a source; empty if it has no options.
#[pyfunction]
pub fn source_function(py: Python<'_>, text: OsString) -> PyResult<&'static str> {
    source_named(&text).map(|kind| kind.function).map_err(|error| run_error(py, &error))
}

/// Returns the name of the function that describes such a destination; empty if it has no options.
#[pyfunction]
pub fn destination_function(py: Python<'_>, text: OsString) -> PyResult<&'static str> {
    sink_named(&text).map(|kind| kind.function).map_err(|error| run_error(py, &error))
}

//! Random tables as CSV against the slowest and plainest formatter there is.

mod written;

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int32Array, Int64Array, StringArray, UInt64Array,
};
use fastrand::Rng;
use shoal_encode::{Format, Options};
use written::{batch, table};

/// How Python's `repr` prints a float, given Rust's `{}` and `{:e}` of it.
fn repr(plain: String, scientific: String) -> String {
    match plain.as_str() {
        "NaN" | "inf" | "-inf" => return plain,
        _ => {}
    }
    let (digits, exponent) = scientific.split_once('e').unwrap();
    let exponent: i32 = exponent.parse().unwrap();
    if !(-4..16).contains(&exponent) {
        format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
    } else if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}

fn quoted(text: &str) -> String {
    if text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// A random whole number of a random number of bits, so that all lengths are met.
fn whole(random: &mut Rng) -> i64 {
    let value = random.i64(..) >> random.u32(..64);
    if random.u8(..16) == 0 { i64::MIN } else { value }
}

/// Whether two shortest texts are equally near to the float; Rust then prints the upper one, Python the even one.
fn is_tie(exact: f64, scientific: &str) -> bool {
    let significant = |text: &str| text.bytes().filter(u8::is_ascii_digit).count();
    let shortest = significant(scientific.split('e').next().unwrap());
    let all = format!("{exact:.1100e}"); // more digits than any float has
    let all = all.split('e').next().unwrap().trim_end_matches('0');
    all.ends_with('5') && significant(all) == shortest + 1
}

/// A random float: often any bits at all, at times a short one.
fn double(random: &mut Rng) -> f64 {
    loop {
        let value = match random.u8(..3) {
            0 => f64::from_bits(random.u64(..)),
            1 => random.f64() * 10_f64.powi(random.i32(-8..20)),
            _ => whole(random) as f64,
        };
        let single = value as f32;
        if !is_tie(value, &format!("{value:e}")) && !is_tie(f64::from(single), &format!("{single:e}")) {
            return value;
        }
    }
}

fn string(random: &mut Rng) -> String {
    let letters = ['a', 'b', ',', '"', '\n', '\r', ' ', 'é', '0', 'x', 'y', 'z'];
    (0..random.usize(..40)).map(|_| letters[if random.bool() { 0 } else { random.usize(..letters.len()) }]).collect()
}

/// A random column, and the text of each of its cells.
fn column(rows: usize, nulls: bool, random: &mut Rng) -> (ArrayRef, Vec<String>) {
    let present: Vec<bool> = (0..rows).map(|_| !nulls || random.u8(..4) > 0).collect();
    let cells = |text: &mut dyn FnMut(usize) -> String| -> Vec<String> {
        (0..rows).map(|row| if present[row] { text(row) } else { String::new() }).collect()
    };
    macro_rules! typed {
        ($array:ty, $make:expr, $text:expr) => {{
            let values: Vec<_> = (0..rows).map(|_| $make).collect();
            let texts = cells(&mut |row| $text(&values[row]));
            let options = values.into_iter().zip(&present).map(|(value, present)| present.then_some(value));
            (Arc::new(options.collect::<$array>()) as ArrayRef, texts)
        }};
    }
    match random.u8(..7) {
        0 => typed!(Int64Array, whole(random), |value: &i64| value.to_string()),
        1 => typed!(Int32Array, whole(random) as i32, |value: &i32| value.to_string()),
        2 => typed!(UInt64Array, whole(random) as u64, |value: &u64| value.to_string()),
        3 => typed!(Float64Array, double(random), |value: &f64| repr(value.to_string(), format!("{value:e}"))),
        4 => typed!(Float32Array, double(random) as f32, |value: &f32| repr(value.to_string(), format!("{value:e}"))),
        5 => typed!(BooleanArray, random.bool(), |value: &bool| value.to_string()),
        _ => typed!(StringArray, string(random), |value: &String| quoted(value)),
    }
}

#[test]
fn random_tables_are_written_as_a_plain_formatter_writes_them() {
    for seed in 0..400 {
        let mut random = Rng::with_seed(seed);
        let (rows, columns, nulls) = (random.usize(..200), random.usize(1..8), random.bool());
        let alike = random.bool(); // all columns of one type, which has a path of its own
        let kind = random.u64(..);
        let made: Vec<(ArrayRef, Vec<String>)> = (0..columns)
            .map(|_| column(rows, nulls, &mut if alike { Rng::with_seed(kind) } else { random.fork() }))
            .collect();
        let mut expected: Vec<String> = (0..rows)
            .map(|row| made.iter().map(|(_, cells)| cells[row].as_str()).collect::<Vec<_>>().join(","))
            .collect();
        let names: Vec<String> = (0..columns).map(|place| format!("c{place}")).collect();
        let options = Options { header: random.bool(), final_newline: random.bool() };
        if options.header {
            expected.insert(0, names.join(","));
        }
        let mut expected = expected.join("\n");
        let last_is_empty = (rows > 0 && expected.is_empty()) || expected.ends_with('\n');
        if (options.final_newline && (rows > 0 || options.header)) || last_is_empty {
            expected.push('\n');
        }
        let table_of = batch(names.iter().map(String::as_str).zip(made.into_iter().map(|(array, _)| array)).collect());
        let split = random.usize(..=rows);
        let parts = [table_of.slice(0, split), table_of.slice(split, rows - split)];
        let written = String::from_utf8(table(&parts, Format::Csv, options).unwrap()).unwrap();
        assert_eq!(written, expected, "seed {seed}");
    }
}

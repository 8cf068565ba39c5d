//! Conditions: what they choose, compared with a plain loop, and what they are refused for.

use crate::written::{Cell, NUMBERS, Written, cell, encode, index, index_format, random_bytes};
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use shoal_records::{Aggregate, ErrorKind, Expression, Field, Format, Pool, Query, ScanOptions, Value};

/// How many records of a file a condition chooses.
fn chosen(file: &Written, format: &Format, text: &str) -> i128 {
    let query = Query {
        aggregates: vec![Aggregate::count()],
        condition: Some(text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))),
        ..Query::default()
    };
    match file.open(format).aggregate(&query, &Pool::default()) {
        Ok(values) => match values[0] {
            Value::Integer(count) => count,
            other => panic!("{other:?}"),
        },
        Err(error) => panic!("{text}: {error}"),
    }
}

type Row = (u64, u32, u32);

/// Whether a loop would choose a row.
type Holds = dyn Fn(&Row) -> bool;

#[test]
fn conditions_choose_what_a_loop_chooses() {
    let mut random = fastrand::Rng::with_seed(1);
    let (rows, bytes) = index(&mut random, 50_000, 100);
    let (file, format) = (Written::new(&bytes), index_format());
    let first = rows[0].0;
    let cases: &[(&str, &Holds)] = &[
        ("len > 9000", &|row| row.2 > 9000),
        ("len > 9000 and id == 7", &|row| row.2 > 9000 && row.1 == 7),
        ("not (len >= 100 or id != 7)", &|row| !(row.2 >= 100 || row.1 != 7)),
        ("100 < len <= 200", &|row| 100 < row.2 && row.2 <= 200),
        ("id in (1, 3, 5)", &|row| [1, 3, 5].contains(&row.1)),
        ("id not in [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 500, -1]", &|row| row.1 > 20 || row.1 % 2 == 0),
        ("len + id * 100 > 12_000", &|row| row.2 + row.1 * 100 > 12_000),
        ("id - len > 0", &|row| row.1 > row.2),
        ("-id >= -3", &|row| row.1 <= 3),
        ("len > 99.5 and len < 1e2 + 0.5", &|row| row.2 == 100),
        ("len * 0.5 < id", &|row| f64::from(row.2) * 0.5 < f64::from(row.1)),
        ("7 == id", &|row| row.1 == 7),
        ("0x0a > id", &|row| row.1 < 10),
        ("id < -1 or id > 99_999_999_999", &|_| false),
        ("id >= 0", &|_| true),
        ("true", &|_| true),
        ("id == id", &|_| true),
        ("id == 7.0", &|row| row.1 == 7),
        ("id == 7.5 or `id` in (8.5, 9.0)", &|row| row.1 == 9),
        ("ts * 9223372036854775807 > 0", &|_| true),
        ("len == id or (((len))) == (3)", &|row| row.2 == row.1 || row.2 == 3),
        ("not not id == 5", &|row| row.1 == 5),
        ("id in ()", &|_| false),
        ("len + 0 in (5, 6)", &|row| [5, 6].contains(&row.2)),
    ];
    for (text, holds) in cases {
        let wanted = rows.iter().filter(|row| holds(row)).count();
        assert_eq!(chosen(&file, &format, text), wanted as i128, "{text}");
    }
    let late = format!("ts >= {} and ts < {}", first + 300, first + 600);
    assert_eq!(chosen(&file, &format, &late), 100);
    assert_eq!(chosen(&file, &format, &format!("ts > {}", u64::MAX)), 0);
}

#[test]
fn every_kind_is_compared_exactly_in_both_byte_orders() {
    let mut random = fastrand::Rng::with_seed(2);
    for kind in NUMBERS {
        for big in [false, true] {
            let field = Field::new("v", kind, 3).with_big_endian(big && kind.size() > 1);
            let format = Format::new(vec![field.clone()], 3 + kind.size() + 2).unwrap();
            let bytes = random_bytes(&mut random, &format, 3000);
            let file = Written::new(&bytes);
            let cells: Vec<Cell> = bytes.chunks(format.size()).map(|record| cell(&field, record)).collect();
            for _ in 0..3 {
                let pivot = cells[random.usize(..cells.len())].clone();
                if kind.is_float() {
                    let pivot = pivot.float();
                    if !pivot.is_finite() {
                        continue;
                    }
                    let wanted = cells.iter().filter(|cell| cell.float() < pivot).count();
                    assert_eq!(chosen(&file, &format, &format!("v < {pivot:e}")), wanted as i128, "{kind:?}");
                    let wanted = cells.iter().filter(|cell| cell.float() + 1.0 >= pivot).count();
                    assert_eq!(chosen(&file, &format, &format!("v + 1 >= {pivot:e}")), wanted as i128, "{kind:?}");
                    let wanted = cells.iter().filter(|cell| cell.float() != pivot).count();
                    assert_eq!(chosen(&file, &format, &format!("{pivot:e} != v")), wanted as i128, "{kind:?}");
                } else {
                    let pivot = pivot.integer();
                    for (text, count) in [
                        (format!("v < {pivot}"), cells.iter().filter(|cell| cell.integer() < pivot).count()),
                        (format!("v <= {pivot}"), cells.iter().filter(|cell| cell.integer() <= pivot).count()),
                        (format!("{pivot} <= v"), cells.iter().filter(|cell| cell.integer() >= pivot).count()),
                        (
                            format!("v * 3 > {pivot} + 1"),
                            cells.iter().filter(|cell| cell.integer() * 3 > pivot + 1).count(),
                        ),
                        (
                            format!("v in ({pivot}, 0)"),
                            cells.iter().filter(|cell| [pivot, 0].contains(&cell.integer())).count(),
                        ),
                    ] {
                        assert_eq!(chosen(&file, &format, &text), count as i128, "{kind:?} {text}");
                    }
                }
            }
        }
    }
}

#[test]
fn bytes_are_compared_with_zeros_at_their_end() {
    let format = Format::from_struct("<4s4s?", Some(&["a", "b", "ok"].map(String::from))).unwrap();
    let file = Written::new(b"ab\0\0ab\0\0\x01abc\0abcd\x00\xff\0\0\0b\0\0\0\x07");
    for (text, count) in [
        ("a == b'ab'", 1),
        ("a == \"ab\\x00\"", 1),
        ("a > b'ab'", 2),
        ("b'ab' < a", 2),
        ("a in ('abc', 'zz')", 1),
        ("a == b", 1),
        ("a != b", 2),
        ("a < b", 1),
        ("a == b'\\xff' and ok", 1),
        ("ok", 2),
        ("not ok", 1),
        ("ok == 1", 2),
        ("ok == false", 1),
        ("'a' == 'a'", 3),
    ] {
        assert_eq!(chosen(&file, &format, text), count, "{text}");
    }
}

#[test]
fn nan_is_equal_to_nothing() {
    let format = Format::from_struct("<d", None).unwrap();
    let bytes: Vec<u8> = [f64::NAN, 1.0, f64::INFINITY, -0.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let file = Written::new(&bytes);
    for (text, count) in [
        ("f0 == f0", 3),
        ("f0 != f0", 1),
        ("f0 < 2", 2),
        ("not f0 < 2", 2),
        ("f0 == 0", 1),
        ("f0 < 1e999", 2),
        ("f0 in (0, 1)", 2),
    ] {
        assert_eq!(chosen(&file, &format, text), count, "{text}");
    }
}

#[test]
fn a_wrong_condition_is_refused_with_its_column() {
    let format = Format::from_struct("<QI4s?d", Some(&["ts", "len", "tag", "ok", "x"].map(String::from))).unwrap();
    for (text, column, part) in [
        ("", 1, "empty"),
        ("len >", 6, "expected a field"),
        ("len = 3", 5, "=="),
        ("len > 3 )", 9, "no matching '('"),
        ("(len > 3", 9, "expected ')'"),
        ("len > 3 4", 9, "cannot follow"),
        ("size > 3", 1, "\"size\""),
        ("len & 3", 5, "\"and\""),
        ("len / 3 == 1", 5, "use + - and *"),
        ("len", 1, "not a condition"),
        ("len + 1", 5, "not a condition"),
        ("tag > 3", 5, "bytes"),
        ("tag == b'12345'", 5, "only 4"),
        ("tag + 1 == 2", 5, "bytes"),
        ("len in 3", 8, "list"),
        ("len in (3", 10, "',' or ')'"),
        ("len in ('a')", 9, "bytes"),
        ("tag in (3)", 9, "bytes"),
        ("(len > 3) > 1", 6, "condition"),
        ("1 < (len < 3) < 4", 10, "condition"),
        ("ts * ts > 1", 4, "128 bits"),
        ("len > 99999999999999999999999999999999999999999", 7, "128 bits"),
        ("len > 1.2.3", 7, "not a number"),
        ("len > 0x", 7, "not a number"),
        ("len > 12ab", 7, "not a number"),
        ("len > 1__0", 7, "not a number"),
        ("len > 010", 7, "begins with a zero"),
        ("len == 'a", 8, "no closing"),
        ("tag == b'é'", 10, "é"),
        ("tag == '\\q'", 9, "escapes"),
        ("`len > 3", 1, "backtick"),
        ("len > 3 and", 12, "expected a field"),
        ("and len > 3", 1, "\"and\""),
        ("len not 3", 9, "\"in\""),
        ("é > 3 and ü # 4", 13, "'#'"),
    ] {
        let error = match Expression::parse(text).and_then(|expression| expression.check(&format)) {
            Err(error) => error,
            Ok(()) => panic!("{text:?} was taken"),
        };
        assert_eq!(error.kind(), ErrorKind::Expression, "{text:?}: {error}");
        assert_eq!(error.column(), Some(column), "{text:?}: {error}");
        assert!(error.to_string().contains(part), "{text:?}: {error}");
    }
}

#[test]
fn deep_and_long_conditions_end_in_an_error_or_a_result() {
    let format = index_format();
    let nested = |open: &str, close: &str, times| format!("{}id{}", open.repeat(times), close.repeat(times));
    for text in [
        format!("{} == 1", nested("(", ")", 100_000)),
        format!("{} == 1", nested("-", "", 100_000)),
        format!("{}id == 1", "not ".repeat(100_000)),
        format!("id{} == 1", " + 1".repeat(100_000)),
        nested("a<(", ")<a", 90),
        "(".repeat(100_000),
        "id == ".repeat(100_000),
    ] {
        assert!(Expression::parse(&text).is_err());
    }
    let many = vec!["id == 3"; 20_000].join(" or ");
    Expression::parse(&many).unwrap().check(&format).unwrap();
    let sum = format!("id{} > 900", " + 1".repeat(900));
    Expression::parse(&sum).unwrap().check(&format).unwrap();
}

#[test]
fn no_text_makes_the_parser_panic() {
    let mut random = fastrand::Rng::with_seed(3);
    let format = index_format();
    let words = [
        "id",
        "len",
        "ts",
        "and",
        "or",
        "not",
        "in",
        "(",
        ")",
        "[",
        ",",
        "==",
        "<",
        "1",
        "1.5",
        "-",
        "+",
        "*",
        "b'a'",
        "'",
        "\\x",
        "`",
        "0x",
        "1e",
        "true",
        "é",
        "\0",
        "=",
        "!",
        "9999999999999999999999999",
    ];
    for _ in 0..20_000 {
        let text: String = match random.bool() {
            true => (0..random.usize(0..12)).map(|_| format!("{} ", words[random.usize(..words.len())])).collect(),
            false => {
                let bytes: Vec<u8> = (0..random.usize(0..40)).map(|_| random.u8(..)).collect();
                String::from_utf8_lossy(&bytes).into_owned()
            }
        };
        if let Ok(expression) = Expression::parse(&text) {
            let _ = expression.check(&format);
        }
    }
}

#[test]
fn chosen_records_come_in_order_with_the_columns_asked_for() {
    let mut random = fastrand::Rng::with_seed(4);
    let (rows, bytes) = index(&mut random, 700_000, 1000);
    let (file, format) = (Written::new(&bytes), index_format());
    let wanted: Vec<u64> = rows.iter().filter(|row| row.2 < 100).map(|row| row.0).collect();
    for workers in [1, 2, 5] {
        let options = ScanOptions {
            condition: Some("len < 100".parse().unwrap()),
            columns: Some(vec!["ts".to_owned()]),
            ..ScanOptions::default()
        };
        let scan = file.open(&format).scan(&options, &Pool::new(Some(workers))).unwrap();
        let found: Vec<u64> = scan
            .flat_map(|batch| {
                let batch = batch.unwrap();
                assert_eq!((batch.num_columns(), batch.schema().field(0).name().as_str()), (1, "ts"));
                batch.column(0).as_primitive::<UInt64Type>().values().to_vec()
            })
            .collect();
        assert_eq!(found, wanted);
    }
    assert_eq!(encode(&rows), bytes);
}

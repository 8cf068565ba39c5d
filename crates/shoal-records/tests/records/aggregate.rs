//! Sums and groups, compared with a plain loop.

use std::collections::BTreeMap;

use arrow_array::Array;
use arrow_schema::DataType;
use shoal_records::{Aggregate, ErrorKind, Field, Format, Function, Kind, Pool, Query, Value};

use crate::written::{Cell, NUMBERS, Written, cell, index, index_format, random_bytes, random_format};

const ALL: [Function; 4] = [Function::Sum, Function::Min, Function::Max, Function::Mean];

fn query(fields: &[&str]) -> Query {
    let of = |field: &&str| ALL.map(|function| Aggregate::of(function, *field));
    let aggregates = [Aggregate::count()].into_iter().chain(fields.iter().flat_map(of)).collect();
    Query { aggregates, ..Query::default() }
}

/// Count, sum, min, max and mean of cells, one by one.
fn plain(cells: &[Cell]) -> [Value; 5] {
    let count = Value::Integer(cells.len() as i128);
    if cells.is_empty() {
        return [count, Value::Integer(0), Value::None, Value::None, Value::None];
    }
    if matches!(cells[0], Cell::Integer(_)) {
        let values = || cells.iter().map(Cell::integer);
        let sum: i128 = values().sum();
        let ends = (values().min().unwrap(), values().max().unwrap());
        let mean = sum as f64 / cells.len() as f64;
        return [count, Value::Integer(sum), Value::Integer(ends.0), Value::Integer(ends.1), Value::Float(mean)];
    }
    let values = || cells.iter().map(Cell::float);
    let sum: f64 = values().sum();
    let (least, greatest) = (values().fold(f64::NAN, f64::min), values().fold(f64::NAN, f64::max));
    [count, Value::Float(sum), Value::Float(least), Value::Float(greatest), Value::Float(sum / cells.len() as f64)]
}

/// The same value; floats within what adding in another order changes.
fn assert_close(is: Value, wanted: Value, scale: f64, what: &str) {
    match (is, wanted) {
        (Value::Float(is), Value::Float(wanted)) => {
            let close = is == wanted || (is.is_nan() && wanted.is_nan()) || (is - wanted).abs() <= scale * 1e-12;
            assert!(close, "{what}: {is} for {wanted}");
        }
        _ => assert_eq!(is, wanted, "{what}"),
    }
}

/// Floats that can be added: random bits are mostly enormous or no numbers.
fn tame(random: &mut fastrand::Rng, field: &Field, size: usize, bytes: &mut [u8]) {
    for record in bytes.chunks_mut(size) {
        let value = (random.f64() - 0.5) * 1000.0;
        let place = &mut record[field.offset..][..field.kind.size()];
        match field.kind {
            Kind::F16 => place.copy_from_slice(&half::f16::from_f64(value).to_le_bytes()),
            Kind::F32 => place.copy_from_slice(&(value as f32).to_le_bytes()),
            Kind::F64 => place.copy_from_slice(&value.to_le_bytes()),
            _ => continue,
        }
        if field.big_endian {
            place.reverse();
        }
    }
}

#[test]
fn every_kind_is_added_up_as_a_loop_does() {
    let mut random = fastrand::Rng::with_seed(20);
    for kind in NUMBERS {
        for big in [false, true] {
            let field = Field::new("v", kind, 1).with_big_endian(big && kind.size() > 1);
            let format = Format::new(vec![field.clone()], 1 + kind.size()).unwrap();
            for count in [0, 1, 3, 8192, 8193, 70_000] {
                let mut bytes = random_bytes(&mut random, &format, count);
                tame(&mut random, &field, format.size(), &mut bytes);
                let cells: Vec<Cell> = bytes.chunks(format.size()).map(|record| cell(&field, record)).collect();
                let scale: f64 = cells.iter().map(|cell| cell.float().abs()).sum();
                let found = Written::new(&bytes).open(&format).aggregate(&query(&["v"]), &Pool::new(Some(2))).unwrap();
                let mut wanted = plain(&cells);
                if count == 0 && kind.is_float() {
                    wanted[1] = Value::Float(0.0);
                }
                for (is, wanted) in found.iter().zip(wanted) {
                    assert_close(*is, wanted, scale, &format!("{kind:?} {count}"));
                }
            }
        }
    }
}

#[test]
fn the_same_file_gives_the_same_bits_with_any_number_of_workers() {
    let mut random = fastrand::Rng::with_seed(21);
    let format = Format::from_struct("<d", None).unwrap();
    let bytes: Vec<u8> = (0..2_000_000).flat_map(|_| ((random.f64() - 0.5) * 1e10).to_le_bytes()).collect();
    let file = Written::new(&bytes);
    let sum = |workers| file.open(&format).aggregate(&query(&["f0"]), &Pool::new(Some(workers))).unwrap();
    assert_eq!(sum(1), sum(2));
    assert_eq!(sum(1), sum(7));
}

#[test]
fn a_condition_leaves_records_out_of_sums_and_groups() {
    let mut random = fastrand::Rng::with_seed(22);
    let (rows, bytes) = index(&mut random, 400_000, 1000);
    let (file, format) = (Written::new(&bytes), index_format());
    for (text, holds) in [
        ("len < 100", &(|row: &&(u64, u32, u32)| row.2 < 100) as &dyn Fn(&&(u64, u32, u32)) -> bool),
        ("len >= 100", &|row| row.2 >= 100),
        ("len > 99999", &|_| false),
    ] {
        let condition = || Some(text.parse().unwrap());
        let query = Query { condition: condition(), ..query(&["len"]) };
        let cells: Vec<Cell> = rows.iter().filter(holds).map(|row| Cell::Integer(row.2.into())).collect();
        let found = file.open(&format).aggregate(&query, &Pool::new(Some(2))).unwrap();
        assert_eq!(found, plain(&cells), "{text}");
        let mut groups = BTreeMap::<i128, Vec<Cell>>::new();
        for row in rows.iter().filter(holds) {
            groups.entry(row.1.into()).or_default().push(Cell::Integer(row.2.into()));
        }
        let found = file.open(&format).aggregate_by("id", &query, &Pool::new(Some(2))).unwrap();
        assert!(found.keys().eq(groups.keys().copied()));
        for (at, cells) in groups.values().enumerate() {
            for (column, wanted) in plain(cells).into_iter().enumerate() {
                assert_eq!(found.value(column, at), wanted, "{text}");
            }
        }
        // One aggregate alone takes a way of its own.
        for (place, function) in [(0, Function::Count), (1, Function::Sum)] {
            let query = Query { condition: condition(), ..alone(Aggregate::of(function, "len")) };
            let found = file.open(&format).aggregate_by("id", &query, &Pool::new(Some(2))).unwrap();
            assert!(found.keys().eq(groups.keys().copied()));
            assert!(groups.values().enumerate().all(|(at, cells)| found.value(0, at) == plain(cells)[place]), "{text}");
        }
    }
}

/// Groups random records by a field, and compares each group with a plain loop.
fn check_groups(format: &Format, bytes: &[u8], key: &Field, value: &Field, queries: &[Query], workers: usize) {
    let mut groups = BTreeMap::<i128, Vec<Cell>>::new();
    for record in bytes.chunks(format.size()) {
        groups.entry(cell(key, record).integer()).or_default().push(cell(value, record));
    }
    let file = Written::new(bytes);
    for query in queries {
        let found = file.open(format).aggregate_by(&key.name, query, &Pool::new(Some(workers))).unwrap();
        assert!(found.keys().eq(groups.keys().copied()));
        for (at, cells) in groups.values().enumerate() {
            let all = plain(cells);
            let scale: f64 = cells.iter().map(|cell| cell.float().abs()).sum();
            for (column, name) in found.names().iter().enumerate() {
                let which =
                    ["count", "sum", "min", "max", "mean"].iter().position(|one| name.starts_with(one)).unwrap();
                assert_close(found.value(column, at), all[which], scale, &format!("{name} by {key:?} of {value:?}"));
            }
        }
        let batch = found.to_batch().unwrap();
        assert_eq!((batch.num_rows(), batch.num_columns()), (found.len(), 1 + query.aggregates.len()));
        assert_eq!(batch.column(0).data_type(), &key.data_type());
    }
}

/// All aggregates, and each by itself: what marks groups as seen differs.
fn queries(field: &str) -> Vec<Query> {
    let mut queries = vec![query(&[field]), alone(Aggregate::count())];
    queries.extend(ALL.map(|function| alone(Aggregate::of(function, field))));
    queries
}

fn alone(aggregate: Aggregate) -> Query {
    Query { aggregates: vec![aggregate], ..Query::default() }
}

#[test]
fn keys_and_values_of_every_width_are_grouped_whatever_stands_among_them() {
    // Mostly small numbers, which take the short way, and now and then one that it cannot take: at the ends of strips
    // (8,192 records), within them, and several in a row.
    let kinds = ["B", "h", "H", "i", "I", "q", "Q", "?"];
    for (at, (k, v)) in kinds.iter().flat_map(|k| kinds.map(|v| (*k, v))).enumerate() {
        let order = if at % 5 == 4 { '>' } else { '<' };
        let names = ["k", "v"].map(String::from);
        let format = Format::from_struct(&format!("{order}{k}{v}"), Some(&names)).unwrap();
        let [key, value] = [0, 1].map(|at| format.fields()[at].clone());
        let mut bytes = Vec::new();
        for row in 0..20_000_i64 {
            let strange = matches!(row % 8192, 0 | 8191 | 100..103 | 4000) && row > 0;
            let number = |kind: &str, usual: i64, strange_one: i64| {
                let number = if strange { strange_one } else { usual };
                let mut all = number.to_le_bytes();
                let size = match kind {
                    "B" | "?" => 1,
                    "h" | "H" => 2,
                    "i" | "I" => 4,
                    _ => 8,
                };
                if kind == "?" {
                    all[0] &= 1;
                }
                if order == '>' {
                    all[..size].reverse();
                }
                all[..size].to_vec()
            };
            bytes.extend(number(k, row * 7 % 100, -1 - row % 5));
            bytes.extend(number(v, row % 1000 * (row % 3), i64::MIN / 2 - row));
        }
        let single = [Aggregate::count(), Aggregate::of(Function::Sum, "v")].map(alone);
        check_groups(&format, &bytes, &key, &value, &single, 1 + at % 2);
    }
}

#[test]
fn random_formats_are_grouped_as_a_loop_does() {
    let mut random = fastrand::Rng::with_seed(23);
    let mut grouped = 0;
    while grouped < 30 {
        let format = random_format(&mut random, 5);
        let key = format.fields().iter().find(|field| field.kind.is_integer()).cloned();
        let value = format.fields().iter().rfind(|field| !matches!(field.kind, Kind::Bytes(_))).cloned();
        let (Some(key), Some(value)) = (key, value) else { continue };
        let count = random.usize(0..20_000);
        let mut bytes = random_bytes(&mut random, &format, count);
        tame(&mut random, &value, format.size(), &mut bytes);
        check_groups(&format, &bytes, &key, &value, &queries(&value.name), 1 + grouped % 3);
        grouped += 1;
    }
}

#[test]
fn keys_of_any_range_find_their_groups() {
    let mut random = fastrand::Rng::with_seed(24);
    let format = Format::from_struct("<qi", Some(&["k", "v"].map(String::from))).unwrap();
    let [key, value] = [0, 1].map(|at| format.fields()[at].clone());
    const ROWS: i64 = 600_000;
    type MakeKey = dyn Fn(i64, &mut fastrand::Rng) -> i64;
    let ranges: [&MakeKey; 8] = [
        &|at, _| at / 2,                             // growing
        &|at, _| -at / 2,                            // shrinking
        &|at, _| if at % 2 == 0 { at } else { -at }, // both
        &|at, _| (at - 100_000) * 1000,              // far apart from some point on
        &|_, random| random.i64(..),                 // anywhere
        &|at, random| if at < ROWS / 2 { 7 } else { random.i64(-50..50) * (1 << 40) },
        &|at, _| [i64::MIN, i64::MAX, 0][at as usize % 3],
        &|at, _| i64::MAX - at / 3,
    ];
    for range in ranges {
        let mut bytes = Vec::new();
        for at in 0..ROWS {
            bytes.extend(range(at, &mut random).to_le_bytes());
            bytes.extend(random.i32(..).to_le_bytes());
        }
        check_groups(&format, &bytes, &key, &value, &queries("v")[..3], 2);
    }
}

#[test]
fn groups_whose_values_are_all_zero_are_there() {
    let bytes: Vec<u8> = [(5_u32, 0_u32), (9, 0), (5, 0), (1, 3)]
        .iter()
        .flat_map(|(k, v)| [k.to_le_bytes(), v.to_le_bytes()].concat())
        .collect();
    let format = Format::from_struct("<II", Some(&["k", "v"].map(String::from))).unwrap();
    let [key, value] = [0, 1].map(|at| format.fields()[at].clone());
    check_groups(&format, &bytes, &key, &value, &queries("v"), 1);
}

#[test]
fn sums_of_small_numbers_carry_beyond_32_bits_wherever_their_cells_move() {
    let format = Format::from_struct("<iI", Some(&["k", "v"].map(String::from))).unwrap();
    let [key, value] = [0, 1].map(|at| format.fields()[at].clone());
    // Few keys, then more before and behind them; in the last variants values that do not stay small, or keys far apart.
    for variant in 0..4 {
        let mut bytes = Vec::new();
        for at in 0..200_000_i32 {
            let spread = if at < 100_000 { 0 } else { at / 10 * if variant == 3 { 20_000 } else { 1 } };
            let key = at % 3 + if at % 2 == 0 { spread } else { -spread };
            let large = variant == 1 && at == 150_000 || variant == 2 && at > 190_000;
            bytes.extend(key.to_le_bytes());
            bytes.extend((if large { u32::MAX } else { 1_000_000 + at as u32 % 9 }).to_le_bytes());
        }
        check_groups(&format, &bytes, &key, &value, &queries("v")[..3], 1 + variant % 2);
    }
}

#[test]
fn sums_beyond_64_bits_are_exact() {
    let format = Format::from_struct("<BQq", Some(&["k", "u", "i"].map(String::from))).unwrap();
    let mut bytes = Vec::new();
    for at in 0..30_000_u64 {
        bytes.push((at % 2) as u8);
        bytes.extend(if at < 20_000 { at } else { u64::MAX - at }.to_le_bytes());
        bytes.extend((i64::MIN + at as i64).to_le_bytes());
    }
    let fields = format.fields().to_vec();
    check_groups(&format, &bytes, &fields[0], &fields[1], &queries("u"), 2);
    check_groups(&format, &bytes, &fields[0], &fields[2], &queries("i"), 2);
    let found = Written::new(&bytes).open(&format).aggregate_by("k", &queries("u")[2], &Pool::default()).unwrap();
    assert_eq!(found.to_batch().unwrap().column(1).data_type(), &DataType::Decimal128(38, 0));
}

#[test]
fn too_many_groups_are_an_error_and_not_a_full_memory() {
    let mut random = fastrand::Rng::with_seed(25);
    let format = Format::from_struct("<Q", None).unwrap();
    let bytes = random_bytes(&mut random, &format, 50_000);
    let file = Written::new(&bytes);
    let query = Query { aggregates: vec![Aggregate::count()], groups_max: Some(1000), ..Query::default() };
    let error = file.open(&format).aggregate_by("f0", &query, &Pool::new(Some(2))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Groups);
    let dense: Vec<u8> = (0..5000_u64).flat_map(u64::to_le_bytes).collect();
    let error = Written::new(&dense).open(&format).aggregate_by("f0", &query, &Pool::new(Some(2))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Groups);
}

#[test]
fn what_cannot_be_computed_is_refused() {
    let format = Format::from_struct("<4sfI", Some(&["tag", "x", "n"].map(String::from))).unwrap();
    let records = Written::new(&[0; 12]).open(&format);
    let one = |aggregate| Query { aggregates: vec![aggregate], ..Query::default() };
    let pool = Pool::default();
    for wrong in [
        Query::default(),
        one(Aggregate::of(Function::Sum, "tag")),
        one(Aggregate::of(Function::Sum, "none")),
        Query { aggregates: vec![Aggregate::count(), Aggregate::count()], ..Query::default() },
    ] {
        assert_eq!(records.aggregate(&wrong, &pool).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(records.aggregate_by("n", &wrong, &pool).unwrap_err().kind(), ErrorKind::Invalid);
    }
    for by in ["tag", "x", "none"] {
        assert_eq!(records.aggregate_by(by, &one(Aggregate::count()), &pool).unwrap_err().kind(), ErrorKind::Invalid);
    }
    pool.cancel();
    let sum = one(Aggregate::of(Function::Sum, "n"));
    assert_eq!(records.aggregate(&sum, &pool).unwrap_err().kind(), ErrorKind::Cancelled);
}

#[test]
fn infinities_and_nan_come_through_sums() {
    let format = Format::from_struct("<d", None).unwrap();
    let sum = |values: &[f64]| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let found = Written::new(&bytes).open(&format).aggregate(&query(&["f0"]), &Pool::default()).unwrap();
        (found[1], found[2], found[3])
    };
    let inf = f64::INFINITY;
    assert_eq!(sum(&[1.0, inf]), (Value::Float(inf), Value::Float(1.0), Value::Float(inf)));
    assert!(matches!(sum(&[inf, -inf]), (Value::Float(sum), ..) if sum.is_nan()));
    let (total, least, greatest) = sum(&[2.0, f64::NAN, 1.0]);
    assert!(matches!(total, Value::Float(total) if total.is_nan()));
    assert_eq!((least, greatest), (Value::Float(1.0), Value::Float(2.0)));
    assert!(matches!(sum(&[f64::NAN]).1, Value::Float(least) if least.is_nan()));
}

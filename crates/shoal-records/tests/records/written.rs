//! Files of random records for tests, and their values computed one by one, the slow and obvious way.

use std::path::PathBuf;

use shoal_records::{Field, Format, Kind, OpenOptions, Records};

/// A value as it was put into a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Integer(i128),
    Float(f64),
    Bytes(Vec<u8>),
}

impl Cell {
    pub fn integer(&self) -> i128 {
        match self {
            Cell::Integer(value) => *value,
            other => panic!("{other:?} is no integer"),
        }
    }

    pub fn float(&self) -> f64 {
        match self {
            Cell::Float(value) => *value,
            Cell::Integer(value) => *value as f64,
            Cell::Bytes(_) => panic!("bytes are no number"),
        }
    }
}

/// Reads a field of a record, byte by byte.
pub fn cell(field: &Field, record: &[u8]) -> Cell {
    let mut bytes = record[field.offset..][..field.kind.size()].to_vec();
    if let Kind::Bytes(_) = field.kind {
        return Cell::Bytes(bytes);
    }
    if field.big_endian {
        bytes.reverse();
    }
    let mut unsigned = 0_u64;
    for byte in bytes.iter().rev() {
        unsigned = unsigned << 8 | u64::from(*byte);
    }
    let bits = bytes.len() * 8;
    match field.kind {
        Kind::Bool => Cell::Integer(i128::from(unsigned != 0)),
        Kind::F16 => Cell::Float(half::f16::from_bits(unsigned as u16).to_f64()),
        Kind::F32 => Cell::Float(f32::from_bits(unsigned as u32).into()),
        Kind::F64 => Cell::Float(f64::from_bits(unsigned)),
        Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64 if unsigned >> (bits - 1) == 1 => {
            Cell::Integer(i128::from(unsigned) - (1_i128 << bits))
        }
        _ => Cell::Integer(unsigned.into()),
    }
}

pub const NUMBERS: [Kind; 12] = [
    Kind::Bool,
    Kind::U8,
    Kind::U16,
    Kind::U32,
    Kind::U64,
    Kind::I8,
    Kind::I16,
    Kind::I32,
    Kind::I64,
    Kind::F16,
    Kind::F32,
    Kind::F64,
];

/// A format of up to so many fields of any kind, with gaps, in either byte order.
pub fn random_format(random: &mut fastrand::Rng, most: usize) -> Format {
    let mut end = random.usize(0..3);
    let mut fields = Vec::new();
    for at in 0..random.usize(1..=most) {
        let kind = match random.usize(0..14) {
            number @ 0..12 => NUMBERS[number],
            _ => Kind::Bytes(random.usize(1..20)),
        };
        let big = kind.size() > 1 && !matches!(kind, Kind::Bytes(_)) && random.bool();
        fields.push(Field::new(format!("f{at}"), kind, end).with_big_endian(big));
        end += kind.size() + random.usize(0..3);
    }
    Format::new(fields, end).unwrap()
}

/// Random bytes of so many records.
pub fn random_bytes(random: &mut fastrand::Rng, format: &Format, records: usize) -> Vec<u8> {
    let mut bytes = vec![0; format.size() * records];
    random.fill(&mut bytes);
    bytes
}

/// A file in a folder of its own, which lives as long as this does.
pub struct Written {
    pub folder: tempfile::TempDir,
    pub path: PathBuf,
}

impl Written {
    pub fn new(bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.bin");
        std::fs::write(&path, bytes).unwrap();
        Self { folder, path }
    }

    pub fn open(&self, format: &Format) -> Records {
        Records::open(&[&self.path], format.clone(), OpenOptions::default()).unwrap()
    }
}

/// The format of the workload: `<QII`.
pub fn index_format() -> Format {
    Format::from_struct("<QII", Some(&["ts", "id", "len"].map(String::from))).unwrap()
}

/// So many records of the workload, as numbers and as bytes.
pub fn index(random: &mut fastrand::Rng, records: usize, ids: u32) -> (Vec<(u64, u32, u32)>, Vec<u8>) {
    let rows: Vec<(u64, u32, u32)> =
        (0..records as u64).map(|at| (1_700_000_000_000 + at * 3, random.u32(0..ids), random.u32(0..10_000))).collect();
    (rows.clone(), encode(&rows))
}

pub fn encode(rows: &[(u64, u32, u32)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(rows.len() * 16);
    for (ts, id, len) in rows {
        bytes.extend(ts.to_le_bytes());
        bytes.extend(id.to_le_bytes());
        bytes.extend(len.to_le_bytes());
    }
    bytes
}

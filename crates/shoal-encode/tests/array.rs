//! Arrays as `.npy` and as CSV, in any order in memory.

mod written;

use shoal_encode::{Error, ErrorKind, Format, NdArray, Options, encode_array};
use written::{BARE, array};

/// Splits a `.npy` file into its version, header text and data, after checking what the format promises.
fn parse(file: &[u8]) -> (u8, String, &[u8]) {
    assert_eq!(&file[..6], b"\x93NUMPY");
    assert_eq!(file[7], 0);
    let (start, length) = match file[6] {
        1 => (10, usize::from(u16::from_le_bytes([file[8], file[9]]))),
        2 => (12, u32::from_le_bytes([file[8], file[9], file[10], file[11]]) as usize),
        version => panic!("version {version}"),
    };
    assert_eq!((start + length) % 64, 0, "the data is aligned");
    let header = std::str::from_utf8(&file[start..start + length]).unwrap();
    assert!(header.ends_with('\n'));
    (file[6], header.trim_end().to_owned(), &file[start + length..])
}

fn csv(array: &NdArray<'_>, options: Options) -> Result<String, Error> {
    let mut out = Vec::new();
    encode_array(array, Format::Csv, &options, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn bytes_of(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn a_npy_file_has_the_header_that_numpy_writes_and_the_elements() {
    let data = bytes_of(&[1, 2, 3, 4, 5, 6]);
    for (shape, strides, text) in
        [(vec![6], vec![4], "(6,)"), (vec![2, 3], vec![12, 4], "(2, 3)"), (vec![1, 2, 3], vec![0, 12, 4], "(1, 2, 3)")]
    {
        let file = array(&NdArray::within("<i4", &shape, &strides, &data, 0).unwrap(), Format::Npy).unwrap();
        let (version, header, elements) = parse(&file);
        assert_eq!(version, 1);
        assert_eq!(header, format!("{{'descr': '<i4', 'fortran_order': False, 'shape': {text}, }}"));
        assert_eq!(elements, data);
        assert_eq!(file.len() - elements.len(), 128, "NumPy's own header is as long");
    }
}

#[test]
fn an_array_without_dimensions_is_one_element_and_one_with_a_zero_is_none() {
    let data = bytes_of(&[7]);
    let scalar = NdArray::within("<i4", &[], &[], &data, 0).unwrap();
    let file = array(&scalar, Format::Npy).unwrap();
    assert!(parse(&file).1.ends_with("'shape': (), }"));
    assert_eq!(parse(&file).2, data);
    assert_eq!(csv(&scalar, BARE).unwrap(), "7");

    let empty = NdArray::within("<i4", &[3, 0], &[0, 4], &[], 0).unwrap();
    assert_eq!(parse(&array(&empty, Format::Npy).unwrap()).2, b"");
    assert_eq!(csv(&empty, Options::default()).unwrap(), "");
}

#[test]
fn a_shape_too_long_for_version_1_is_version_2() {
    let (shape, strides) = (vec![1; 30_000], vec![4; 30_000]);
    let file = array(&NdArray::within("<i4", &shape, &strides, &bytes_of(&[7]), 0).unwrap(), Format::Npy).unwrap();
    let (version, header, elements) = parse(&file);
    assert_eq!((version, elements), (2, bytes_of(&[7]).as_slice()));
    assert_eq!(header.matches("1").count(), 30_000);
}

#[test]
fn elements_are_written_in_c_order_whatever_their_order_in_memory() {
    let data = bytes_of(&(0..24).collect::<Vec<_>>());
    type View<'a> = (&'a [usize], &'a [isize], usize, &'a [i32]); // shape, strides, origin, what comes out
    let cases: [View<'_>; 7] = [
        (&[3, 2], &[4, 12], 0, &[0, 3, 1, 4, 2, 5]),                 // Fortran order
        (&[2, 3], &[-12, -4], 20, &[5, 4, 3, 2, 1, 0]),              // backwards
        (&[3], &[8], 4, &[1, 3, 5]),                                 // every second
        (&[2, 2], &[0, 4], 0, &[0, 1, 0, 1]),                        // a row repeated
        (&[2, 2, 2], &[4, 48, 8], 0, &[0, 2, 12, 14, 1, 3, 13, 15]), // axes mixed
        (&[2, 3], &[24, 4], 0, &[0, 1, 2, 6, 7, 8]),                 // rows with a gap
        (&[4, 1], &[24, 999], 0, &[0, 6, 12, 18]),                   // a stride that is never taken
    ];
    for (shape, strides, offset, expected) in cases {
        let view = NdArray::within("<i4", shape, strides, &data, offset).unwrap();
        assert_eq!(parse(&array(&view, Format::Npy).unwrap()).2, bytes_of(expected), "{shape:?} {strides:?}");
        let Ok(text) = csv(&view, BARE) else { continue };
        let cells: Vec<i32> = text.split([',', '\n']).map(|cell| cell.parse().unwrap()).collect();
        assert_eq!(cells, expected, "{shape:?} {strides:?}");
        assert_eq!(text.lines().count(), shape[0]);
    }
}

#[test]
fn elements_of_every_size_are_gathered_whole() {
    for (descr, size) in
        [("|b1", 1), ("|i1", 1), (">u2", 2), ("<f2", 2), ("<f4", 4), (">f8", 8), ("<c8", 8), ("<c16", 16), ("<f16", 16)]
            .into_iter()
            .chain([("<c32", 32), ("|S3", 3), ("<U2", 8), ("<M8[ns]", 8), ("<m8", 8), ("<M8[25s]", 8)])
    {
        let data: Vec<u8> = (0..6 * size).map(|byte| byte as u8).collect();
        let strides = [size as isize, 3 * size as isize];
        let file = array(&NdArray::within(descr, &[3, 2], &strides, &data, 0).unwrap(), Format::Npy).unwrap();
        let expected: Vec<u8> =
            [0, 3, 1, 4, 2, 5].iter().flat_map(|element| data[element * size..(element + 1) * size].to_vec()).collect();
        let (_, header, elements) = parse(&file);
        assert_eq!(elements, expected, "{descr}");
        assert!(header.starts_with(&format!("{{'descr': '{descr}', ")), "{header}");
    }
}

#[test]
fn numbers_of_either_byte_order_are_written_as_text_without_a_header() {
    let cases: [(&str, Vec<u8>, &str); 9] = [
        ("<i8", i64::MIN.to_le_bytes().to_vec(), "-9223372036854775808"),
        (">i8", i64::MIN.to_be_bytes().to_vec(), "-9223372036854775808"),
        (">u2", vec![1, 2], "258"),
        ("|i1", vec![255], "-1"),
        ("<f8", 0.1_f64.to_le_bytes().to_vec(), "0.1"),
        (">f4", 1e20_f32.to_be_bytes().to_vec(), "1e+20"),
        ("<f2", vec![0, 0x3c], "1.0"),
        ("|b1", vec![1], "true"),
        ("|u1", vec![200], "200"),
    ];
    for (descr, data, expected) in cases {
        let one = NdArray::within(descr, &[1], &[0], &data, 0).unwrap();
        assert_eq!(csv(&one, Options::default()).unwrap(), format!("{expected}\n"), "{descr}");
    }
}

#[test]
fn texts_of_an_array_lose_what_fills_them_up_and_are_quoted() {
    let bytes = NdArray::within("|S3", &[2, 2], &[6, 3], b"ab\0a,b\0\0\0xyz", 0).unwrap();
    assert_eq!(csv(&bytes, BARE).unwrap(), "ab,\"a,b\"\n\"\",xyz");

    let units: Vec<u8> = ['é' as u32, 0, 'x' as u32, 'y' as u32].iter().flat_map(|unit| unit.to_be_bytes()).collect();
    assert_eq!(csv(&NdArray::within(">U2", &[2], &[8], &units, 0).unwrap(), BARE).unwrap(), "é\nxy");

    let lone = 0xd800_u32.to_le_bytes();
    let error = csv(&NdArray::within("<U1", &[1], &[4], &lone, 0).unwrap(), BARE).unwrap_err();
    assert!(error.to_string().contains("0xd800"), "{error}");
}

#[test]
fn what_csv_and_the_table_formats_cannot_hold_is_refused_with_a_way_out() {
    let data = [0; 64];
    let cube = NdArray::within("<i4", &[2, 2, 2], &[16, 8, 4], &data, 0).unwrap();
    let complex = NdArray::within("<c16", &[2], &[16], &data, 0).unwrap();
    let flat = NdArray::within("<i4", &[2], &[4], &data, 0).unwrap();
    for (view, format, named, way_out) in [
        (cube, Format::Csv, "3 dimensions", ".npy"),
        (complex, Format::Csv, "\"<c16\"", ".npy"),
        (flat, Format::Parquet, ".parquet", "pyarrow.table"),
        (flat, Format::Arrow, ".arrow", "polars.DataFrame"),
        (flat, Format::JsonLines, ".jsonl", "make it a table"),
    ] {
        let error = array(&view, format).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(named) && error.to_string().contains(way_out), "{error}");
    }
}

#[test]
fn dtypes_that_are_not_plain_data_are_refused_by_name() {
    for descr in [
        "|O",
        "|V16",
        "<i3",
        "<f3",
        "i4",
        "=i4",
        "",
        "<",
        "|i4",
        "<i+4",
        "<M8[n's]",
        "<M8[]",
        "<é4",
        "<U9999999999999999999",
    ] {
        let error = NdArray::within(descr, &[], &[], &[0; 32], 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{descr}");
        assert!(error.to_string().contains(&format!("{descr:?}")), "{error}");
    }
}

#[test]
fn an_array_that_leaves_its_memory_or_contradicts_itself_is_refused() {
    let data = [0; 16];
    let cases: [(&[usize], &[isize], usize); 8] = [
        (&[5], &[4], 0),
        (&[4], &[4], 1),
        (&[2], &[-4], 0),
        (&[2, 2], &[4], 0),
        (&[usize::MAX], &[4], 0),
        (&[usize::MAX / 8], &[isize::MAX], 0),
        (&[1], &[4], usize::MAX),
        (&[], &[], 13),
    ];
    for (shape, strides, offset) in cases {
        let error = NdArray::within("<i4", shape, strides, &data, offset).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{shape:?} {strides:?} {offset}");
    }
}

#[test]
fn a_repeated_array_larger_than_memory_is_an_error_and_nothing_is_written() {
    let data = [0; 8];
    let huge = NdArray::within("<i8", &[1 << 59], &[0], &data, 0).unwrap();
    let mut out = b"kept".to_vec();
    let error = encode_array(&huge, Format::Npy, &Options::default(), &mut out).unwrap_err();
    assert_eq!((error.kind(), out.as_slice()), (ErrorKind::Memory, b"kept".as_slice()));
}

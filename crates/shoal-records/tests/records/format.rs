//! What a record is made of, said in four ways.

use arrow_schema::{DataType, Field as ArrowField, Schema, TimeUnit};
use shoal_records::{ErrorKind, Field, Format, Kind};

fn layout(text: &str) -> (Vec<(Kind, usize, bool)>, usize) {
    let format = Format::from_struct(text, None).unwrap();
    let fields = format.fields().iter().map(|field| (field.kind, field.offset, field.big_endian)).collect();
    (fields, format.size())
}

fn refusal(text: &str) -> String {
    let error = Format::from_struct(text, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format, "{error}");
    error.to_string()
}

#[test]
fn a_struct_string_lays_fields_out_as_struct_does() {
    assert_eq!(layout("<QII"), (vec![(Kind::U64, 0, false), (Kind::U32, 8, false), (Kind::U32, 12, false)], 16));
    assert_eq!(
        layout(">hx?2f"),
        (vec![(Kind::I16, 0, true), (Kind::Bool, 3, false), (Kind::F32, 4, true), (Kind::F32, 8, true)], 12)
    );
    assert_eq!(
        layout("!l4sc"),
        (vec![(Kind::I32, 0, true), (Kind::Bytes(4), 4, false), (Kind::Bytes(1), 8, false)], 9)
    );
    assert_eq!(layout("=bq"), (vec![(Kind::I8, 0, false), (Kind::I64, 1, false)], 9));
    assert_eq!(
        layout("< 2H 3x e d "),
        (vec![(Kind::U16, 0, false), (Kind::U16, 2, false), (Kind::F16, 7, false), (Kind::F64, 9, false)], 17)
    );
}

#[test]
fn native_mode_aligns_as_a_c_compiler_does() {
    // struct.calcsize("bq") is 16, of "qb" 9, of "qb0q" 16, of "@lB0l" 16.
    assert_eq!(layout("bq"), (vec![(Kind::I8, 0, false), (Kind::I64, 8, false)], 16));
    assert_eq!(layout("@qb").1, 9);
    assert_eq!(layout("qb0q").1, 16);
    assert_eq!(layout("@lB0l"), (vec![(Kind::I64, 0, false), (Kind::U8, 8, false)], 16));
    assert_eq!(layout("3sH").0[1], (Kind::U16, 4, false));
    assert_eq!(layout("PnN").1, 24);
}

#[test]
fn struct_strings_that_no_record_can_have_are_refused() {
    for (text, part) in [
        ("", "0 bytes"),
        ("<", "0 bytes"),
        ("0I", "0 bytes"),
        ("<4", "ends with a count"),
        ("<10p", "use 's'"),
        ("<F", "complex"),
        ("<n", "native mode"),
        ("<0s", "without bytes"),
        ("<4 I", "' '"),
        ("<Iy", "'y'"),
        ("<I@", "'@'"),
        ("<é", "'é'"),
        ("<99999999999999999999999s", "16777216"),
        ("<99999999999999999999999I", "fields"),
        ("<99999999999999999999999x", "16777216"),
        ("<60000Q60000Q", "fields"),
    ] {
        let text_of = refusal(text);
        assert!(text_of.contains(part), "{text:?}: {text_of}");
    }
}

#[test]
fn names_must_fit_and_differ() {
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let given = |text, list: &[&str]| Format::from_struct(text, Some(&names(list))).map_err(|error| error.to_string());
    assert_eq!(given("<2Ix", &["a", "b"]).unwrap().fields()[1].name, "b");
    assert!(given("<2I", &["a"]).unwrap_err().contains("2 fields, but 1 names"));
    assert!(given("<2I", &["a", "a"]).unwrap_err().contains("two fields are called \"a\""));
    assert!(given("<I", &[""]).unwrap_err().contains("empty"));
    assert_eq!(Format::from_struct("<2I", None).unwrap().fields()[1].name, "f1");
}

#[test]
fn a_numpy_type_keeps_its_offsets_and_byte_orders() {
    let fields = [("a", "<u4", 0), ("b", ">f8", 8), ("c", "|S5", 16), ("d", "|b1", 21), ("e", "|V3", 4)];
    let fields = fields.map(|(name, descr, offset)| (name.to_owned(), descr.to_owned(), offset));
    let format = Format::from_numpy(&fields, 24).unwrap();
    assert_eq!(format.size(), 24);
    assert_eq!(format.fields()[1], Field::new("b", Kind::F64, 8).with_big_endian(true));
    assert_eq!(format.fields()[2].kind, Kind::Bytes(5));
    assert_eq!(format.fields()[1].numpy(), ">f8");
    for wrong in ["<U4", "<M8[ns]", "|O8", "<c16", "<f16", "", "<", "<u", "<u3", "u4x"] {
        let fields = [("a".to_owned(), wrong.to_owned(), 0)];
        assert_eq!(Format::from_numpy(&fields, 64).unwrap_err().kind(), ErrorKind::Format, "{wrong:?}");
    }
}

#[test]
fn fields_must_lie_within_the_record() {
    let field = |offset| vec![Field::new("a", Kind::U32, offset)];
    assert!(Format::new(field(4), 8).is_ok());
    assert!(Format::new(field(5), 8).is_err());
    assert!(Format::new(field(usize::MAX), 8).is_err());
    assert!(Format::new(Vec::new(), 0).is_err());
    assert!(Format::new(Vec::new(), shoal_records::RECORD_MAX + 1).is_err());
}

#[test]
fn an_arrow_schema_of_fixed_widths_is_a_format_and_comes_back() {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let types =
        [DataType::Int8, DataType::UInt64, DataType::Boolean, DataType::FixedSizeBinary(3), time, DataType::Date32];
    let columns = types.iter().enumerate().map(|(at, one)| ArrowField::new(format!("c{at}"), one.clone(), false));
    let schema = Schema::new(columns.collect::<Vec<_>>());
    let format = Format::from_schema(&schema).unwrap();
    assert_eq!(format.size(), 1 + 8 + 1 + 3 + 8 + 4);
    assert_eq!(*format.schema(), schema);
    let text = Schema::new(vec![ArrowField::new("t", DataType::Utf8, false)]);
    assert!(Format::from_schema(&text).unwrap_err().to_string().contains("\"t\""));
}

//! What the footer of a file says: its columns, row groups and checksums. Here is what makes a file a failure as a whole.

use std::sync::{Arc, OnceLock};

use arrow_schema::{DataType, Field as ArrowField, Fields};
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::file::metadata::{
    ColumnChunkMask, ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader,
};
use parquet::schema::types::{SchemaDescriptor, Type};
use shoal_engine::Kind;
use shoal_engine::display::escape;

use super::checksum;
use super::fault::{Fault, Result, guarded};
use super::file::{Chunks, DataFile};
use super::pages::Pages;
use crate::schema::MAGIC;

/// A column that shoal reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Name,
    Data,
    Size,
    LastModified,
    ETag,
}

impl Field {
    pub const ALL: [Field; 5] = [Field::Name, Field::Data, Field::Size, Field::LastModified, Field::ETag];

    pub fn name(self) -> &'static str {
        match self {
            Field::Name => "name",
            Field::Data => "data",
            Field::Size => "size",
            Field::LastModified => "last_modified",
            Field::ETag => "e_tag",
        }
    }

    fn is_needed(self) -> bool {
        matches!(self, Field::Name | Field::Data)
    }

    /// What its type must be, for a message.
    fn wanted(self) -> &'static str {
        match self {
            Field::Name | Field::ETag => "a string",
            Field::Data => "binary or a string",
            Field::Size => "a whole number",
            Field::LastModified => "a timestamp (64 bits)",
        }
    }
}

/// A column of a file.
pub struct Column {
    /// Its number among the leaves of the schema.
    pub leaf: usize,
    /// How the library is to read it: without what the schema says beyond bytes and numbers.
    pub levels: FieldLevels,
    /// Nanoseconds in a unit of a timestamp.
    pub unit: i64,
}

/// A row group.
pub struct RowGroup {
    pub rows: u32,
    /// By [`Field`].
    pages: [OnceLock<Result<Pages>>; 5],
}

/// A file of a dataset with its footer.
pub struct ParquetFile {
    pub file: Arc<DataFile>,
    pub metadata: ParquetMetaData,
    /// By [`Field`].
    columns: [Option<Column>; 5],
    pub groups: Vec<RowGroup>,
    /// Of the row groups, if the file has them.
    pub checksums: Option<Vec<u64>>,
}

impl ParquetFile {
    /// Opens a file and reads its footer.
    pub fn open(path: &[u8]) -> Result<ParquetFile> {
        let file = Arc::new(DataFile::open(path)?);
        let opened = guarded(|| ParquetFile::of(file.clone()));
        match opened {
            Err(fault) if !fault.is_general() => Err(file.unchanged().err().unwrap_or(fault)),
            opened => opened,
        }
    }

    fn of(file: Arc<DataFile>) -> Result<ParquetFile> {
        if file.facts.size == 0 {
            return Err(Fault::new(Kind::Archive, "not a Parquet file: it is empty"));
        }
        if file.facts.size < MAGIC.len() as u64 || file.bytes(0, MAGIC.len())? != MAGIC {
            return Err(Fault::new(Kind::Archive, "not a Parquet file: it does not begin with PAR1"));
        }
        let chunks = Chunks::new(&file);
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&chunks).map_err(|error| {
            let fault = Fault::from(error);
            if fault.kind == Kind::Archive { fault.at("not a Parquet file, or damaged") } else { fault }
        })?;
        let checksums = checksum::stored(&metadata)?;
        let mut columns = [const { None }; 5];
        for field in Field::ALL {
            // A file of shoal has all of them: a name that was damaged must not look like a column that is missing.
            columns[field as usize] = column(&metadata, field, checksums.is_some() || field.is_needed())?;
        }
        let leaves: Vec<usize> = columns.iter().flatten().map(|column| column.leaf).collect();
        let groups = (0..metadata.num_row_groups()).map(|group| row_group(&metadata, group, &leaves));
        let groups = groups.collect::<Result<Vec<_>>>()?;
        checksum::check_footer(&file, &metadata)?;
        let rows: i64 = groups.iter().map(|group| i64::from(group.rows)).sum();
        let stated = metadata.file_metadata().num_rows();
        if rows != stated {
            let why = format!("damaged: its footer says {stated} rows, but its row groups have {rows}");
            return Err(Fault::new(Kind::Archive, why));
        }
        let metadata = with_index(metadata, leaves, &chunks);
        Ok(ParquetFile { file, metadata, columns, groups, checksums })
    }

    /// A column, if the file has it.
    pub fn column(&self, field: Field) -> Option<&Column> {
        self.columns[field as usize].as_ref()
    }

    /// The pages of a column of a row group.
    pub fn pages(&self, group: usize, field: Field) -> Result<&Pages> {
        let of = |column: &Column| {
            let chunk = self.metadata.row_group(group).column(column.leaf);
            let index = self.metadata.page_index_for_row_group(group);
            let indexed = index.offset_index(column.leaf).map(|index| &index.page_locations()[..]);
            Pages::new(&self.file, chunk, self.groups[group].rows, indexed)
        };
        let pages = self.groups[group].pages[field as usize].get_or_init(|| match self.column(field) {
            None => Ok(Pages::default()),
            Some(column) => guarded(|| of(column)).map_err(|fault| match self.file.unchanged() {
                Err(changed) => changed,
                Ok(()) => fault.at(&format!("row group {group}, column \"{}\"", field.name())),
            }),
        });
        pages.as_ref().map_err(Fault::clone)
    }

    /// Rows before a row group.
    pub fn rows_before(&self, group: usize) -> u64 {
        self.groups[..group].iter().map(|group| u64::from(group.rows)).sum()
    }

    /// About how many bytes it takes in memory.
    pub fn weight(&self) -> usize {
        self.metadata.memory_size()
    }
}

/// The same metadata with the page index, as far as it can be read. Without it, the headers of pages are read.
fn with_index(metadata: ParquetMetaData, leaves: Vec<usize>, chunks: &Chunks) -> ParquetMetaData {
    let mut reader = ParquetMetaDataReader::new_with_metadata(metadata.clone())
        .with_offset_index_policy(PageIndexPolicy::Optional)
        .with_offset_index_mask(ColumnChunkMask::columns(leaves));
    let indexed = guarded(|| {
        reader.read_page_indexes(chunks)?;
        Ok(reader.finish()?)
    });
    indexed.unwrap_or(metadata)
}

fn row_group(metadata: &ParquetMetaData, number: usize, leaves: &[usize]) -> Result<RowGroup> {
    let damaged = |why: String| Fault::new(Kind::Archive, format!("row group {number}: {why}"));
    let group = metadata.row_group(number);
    let rows = u32::try_from(group.num_rows()).ok().filter(|rows| i32::try_from(*rows).is_ok());
    let rows = rows.ok_or_else(|| damaged(format!("it cannot have {} rows", group.num_rows())))?;
    let is_within = |column: &ColumnChunkMetaData| {
        column.compressed_size() >= 0
            && column.data_page_offset() >= 0
            && column.dictionary_page_offset().is_none_or(|at| at >= 0)
    };
    if !group.columns().iter().all(is_within) {
        return Err(damaged("a column begins before the file".to_owned()));
    }
    for &leaf in leaves {
        let column = group.column(leaf);
        if column.num_values() != i64::from(rows) {
            let why = format!("a column has {} values, but there are {rows} rows", column.num_values());
            return Err(damaged(why));
        }
        match column.compression() {
            Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::GZIP(_) | Compression::ZSTD(_) => {}
            other => {
                let name = format!("{other:?}").to_ascii_lowercase();
                let why = format!("compressed with {name}, which shoal does not support");
                return Err(Fault::new(Kind::Unsupported, why));
            }
        }
    }
    Ok(RowGroup { rows, pages: Default::default() })
}

/// Finds a column and checks its type.
fn column(metadata: &ParquetMetaData, field: Field, is_needed: bool) -> Result<Option<Column>> {
    let schema = metadata.file_metadata().schema_descr();
    let mut named = schema.root_schema().get_fields().iter().filter(|one| one.name() == field.name());
    let (found, second) = (named.next(), named.next());
    let Some(found) = found else {
        let has: Vec<_> = schema.root_schema().get_fields().iter().take(20).map(|one| one.name()).collect();
        let has = escape(has.join(", ").as_bytes());
        let why = format!("no column \"{}\" (its columns: {has})", field.name());
        return if is_needed { Err(Fault::new(Kind::Archive, why)) } else { Ok(None) };
    };
    if second.is_some() {
        return Err(Fault::new(Kind::Archive, format!("it has two columns \"{}\"", field.name())));
    }
    let unit = unit_of(field, found).ok_or_else(|| {
        let why = format!("its column \"{}\" is {}, not {}", field.name(), shown(found), field.wanted());
        Fault::new(Kind::Archive, why)
    })?;
    let leaf = schema.columns().iter().position(|leaf| leaf.path().parts() == [field.name()]);
    let leaf = leaf.ok_or_else(|| Fault::new(Kind::Archive, "its schema is damaged"))?;
    let repetition = found.get_basic_info().repetition();
    let plain = Type::primitive_type_builder("c", found.get_physical_type()).with_repetition(repetition).build()?;
    let root = Type::group_type_builder("schema").with_fields(vec![Arc::new(plain)]).build()?;
    let kind = match found.get_physical_type() {
        Physical::BYTE_ARRAY => DataType::BinaryView, // its values are not copied out of the page
        Physical::INT32 => DataType::Int32,
        _ => DataType::Int64,
    };
    let hint = Fields::from(vec![ArrowField::new("c", kind, repetition == Repetition::OPTIONAL)]);
    let root = SchemaDescriptor::new(Arc::new(root));
    let levels = parquet_to_arrow_field_levels(&root, ProjectionMask::all(), Some(&hint))?;
    Ok(Some(Column { leaf, levels, unit }))
}

/// How many nanoseconds a unit of the column has (1 if it is no timestamp), or `None` if its type is wrong.
fn unit_of(field: Field, found: &Type) -> Option<i64> {
    if !found.is_primitive() || found.get_basic_info().repetition() == Repetition::REPEATED {
        return None;
    }
    let (logical, converted) = (found.get_basic_info().logical_type_ref(), found.get_basic_info().converted_type());
    let is_text = matches!(logical, None | Some(LogicalType::String | LogicalType::Enum | LogicalType::Json))
        && matches!(converted, ConvertedType::NONE | ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON);
    let is_number = matches!(logical, None | Some(LogicalType::Integer(_)))
        && !matches!(converted, ConvertedType::TIMESTAMP_MILLIS | ConvertedType::TIMESTAMP_MICROS)
        && !matches!(converted, ConvertedType::DECIMAL | ConvertedType::DATE)
        && !matches!(converted, ConvertedType::TIME_MILLIS | ConvertedType::TIME_MICROS);
    match (field, found.get_physical_type()) {
        (Field::Name | Field::ETag | Field::Data, Physical::BYTE_ARRAY) => is_text.then_some(1),
        (Field::Size, Physical::INT32 | Physical::INT64) => is_number.then_some(1),
        (Field::LastModified, Physical::INT64) => match (logical, converted) {
            (Some(LogicalType::Timestamp(of)), _) => Some(match of.unit {
                TimeUnit::MILLIS => 1_000_000,
                TimeUnit::MICROS => 1_000,
                TimeUnit::NANOS => 1,
            }),
            (None, ConvertedType::TIMESTAMP_MILLIS) => Some(1_000_000),
            (None, ConvertedType::TIMESTAMP_MICROS) => Some(1_000),
            _ => None,
        },
        _ => None,
    }
}

/// A type for a message.
fn shown(found: &Type) -> String {
    if !found.is_primitive() {
        return "a group of columns".to_owned();
    }
    let info = found.get_basic_info();
    let mut shown = format!("{}", found.get_physical_type());
    if let Some(logical) = info.logical_type_ref() {
        shown.push_str(&format!(" ({logical:?})"));
    }
    if info.repetition() == Repetition::REPEATED {
        shown.push_str(", repeated");
    }
    shown
}

//! Why something that was listed without a name cannot be read.

use shoal_engine::Kind;

use super::files::changed;
use super::locator::{Locator, dataset_of};
use crate::read::dataset;
use crate::read::fault::Fault;
use crate::read::footer::Field;
use crate::read::missing::Lacking;
use crate::read::open_file::OpenFile;

/// Why something that was listed without a name cannot be read.
pub fn why_unknown(located: Locator<'_>, file: Option<&OpenFile>) -> Fault {
    if let Some(directory) = dataset_of(located.path) {
        return match dataset::files(directory) {
            Ok(found) => Lacking::fault(directory, &found),
            Err(error) => Fault::new(error.kind(), error.why()),
        };
    }
    let Some(file) = file else {
        return OpenFile::open(located.path).err().unwrap_or_else(changed);
    };
    let group = match located.group.map(|group| group as usize) {
        Some(group) if group < file.parquet.groups.len() => group,
        Some(_) => return changed(),
        // A failure counts as one object, so a retry cannot turn it into many.
        None => return unlisted("the file can be read now, but its rows were not listed"),
    };
    if let Some(Err(fault)) = file.check(group) {
        return fault;
    }
    let Some(row) = located.row else {
        return match file.parquet.pages(group, Field::Name) {
            Err(fault) => fault.at(&format!("none of its {} rows can be read", file.parquet.groups[group].rows)),
            Ok(_) => unlisted("the row group can be read now, but its rows were not listed"),
        };
    };
    if !file.has(group, row) {
        return changed();
    }
    let block = file.names(group, row);
    match block.get().map(|names| names.name(row)) {
        Some(Err(fault)) => file.in_row(group, row, fault),
        Some(Ok(_)) if located.sum.is_none() => unlisted("the row can be read now, but it was listed without its name"),
        _ => changed(),
    }
}

fn unlisted(why: &str) -> Fault {
    Fault::new(Kind::Archive, why)
}

//! The binding: arguments in, results out, the interpreter released in between.
//!
//! Here: what Python sees of the engine, and nothing else. Not here: defaults (the engine's), message texts (the engine's and
//! the package's), files, retries, threads.

#![cfg_attr(not(test), deny(clippy::disallowed_macros, clippy::disallowed_methods, clippy::disallowed_types))]

mod array;
mod at_exit;
mod background;
mod batches;
mod credentials;
mod data;
mod ending;
mod errors;
mod fork;
mod generate;
mod listing;
mod object;
mod options;
mod placer;
mod reader;
mod records;
mod registry;
mod report;
mod save;
mod serve;
mod show;
mod sink;
mod source;
mod status;
mod table;
mod transfer;
mod verify;

use pyo3::prelude::*;

// Until a stress test has run on a free-threaded interpreter, importing this module keeps the GIL on.
#[pymodule(gil_used = true)]
mod _shoal {
    #[pymodule_export]
    use crate::array::is_array;
    #[pymodule_export]
    use crate::batches::{Batch, Batches};
    #[pymodule_export]
    use crate::errors::kinds;
    #[pymodule_export]
    use crate::generate::Generation;
    #[pymodule_export]
    use crate::listing::Listing;
    #[pymodule_export]
    use crate::object::Object;
    #[pymodule_export]
    use crate::options::{checked, destination_function, functions, options, size, source_function};
    #[pymodule_export]
    use crate::placer::Placer;
    #[pymodule_export]
    use crate::reader::Reader;
    #[pymodule_export]
    use crate::records::{
        RecordBatch, RecordBatches, RecordFiles, RecordFormat, RecordScan, RecordTable, append_records, recover_records,
    };
    #[pymodule_export]
    use crate::save::save;
    #[pymodule_export]
    use crate::serve::Server;
    #[pymodule_export]
    use crate::show::escape;
    #[pymodule_export]
    use crate::status::{each_failure, status};
    #[pymodule_export]
    use crate::transfer::copy;
    #[pymodule_export]
    use crate::verify::verify_dataset;

    /// Version of engine, binding and package, which are one.
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    /// The profile of Cargo that the engine was built with; of "debug" the speed says nothing.
    #[pymodule_export]
    const BUILD_PROFILE: &str = env!("SHOAL_BUILD_PROFILE");
}

//! The sink that a destination names: `parquet:DIR`, or one of the engine.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use shoal_engine::sink::Sink;
use shoal_engine::transfer::sink_from_url;
use shoal_engine::{Error, Kind, TransferOptions};
use shoal_parquet::sink::{ParquetOptions, ParquetSink};

const PARQUET: &[u8] = b"parquet:";

/// The engine's hint does not have `parquet:`.
const HINT: &str = "a destination is a directory, parquet:DIR for rows of Parquet files, or null: to discard everything; \
                    for a directory with a colon in its name, ./NAME:X";

/// The sink that `destination` names.
pub fn sink(destination: &OsStr, engine: &TransferOptions, parquet: ParquetOptions) -> Result<Arc<dyn Sink>, Error> {
    match destination.as_bytes().strip_prefix(PARQUET) {
        None => sink_from_url(destination, engine).map_err(|error| match error.why() {
            "the destination is empty" | "not a valid destination" => error.hint(HINT),
            _ => error,
        }),
        Some(b"") => Err(Error::new(Kind::Config, "parquet: needs a directory").hint("as in parquet:out/")),
        Some(directory) => Ok(Arc::new(ParquetSink::new(Path::new(OsStr::from_bytes(directory)), parquet, engine)?)),
    }
}

//! The bare loops of `shoal-limits`, for the lab.

use std::net::SocketAddr;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use shoal_limits::{Copy, Layout, Read, Scan, Unzip};

/// Copies from the service at `address` ("127.0.0.1:8080"): objects, bytes, seconds.
#[pyfunction]
pub fn limit_copy(
    py: Python<'_>,
    address: &str,
    directory: Option<PathBuf>,
    layout: &str,
    depth: usize,
    threads: usize,
    limit: Option<usize>,
) -> PyResult<(u64, u64, f64)> {
    let address: SocketAddr = address.parse().map_err(|_| PyValueError::new_err("not a numeric address and a port"))?;
    let layout = match layout {
        "names" => Layout::Names,
        "partition" => Layout::Partition,
        _ => return Err(PyValueError::new_err("layout is names or partition")),
    };
    let job = Copy { address, directory, layout, depth, threads, limit };
    let outcome = py.detach(|| shoal_limits::copy(&job))?;
    Ok((outcome.objects, outcome.bytes, outcome.seconds))
}

/// Reads every file below a directory and hands over nothing: objects, bytes, seconds.
#[pyfunction]
pub fn limit_read(py: Python<'_>, directory: PathBuf, threads: usize) -> PyResult<(u64, u64, f64)> {
    let outcome = py.detach(|| shoal_limits::read(&Read { directory, threads }))?;
    Ok((outcome.objects, outcome.bytes, outcome.seconds))
}

/// Adds up the lengths of the records of a flat file: records, bytes, seconds, sum.
#[pyfunction]
pub fn limit_scan(py: Python<'_>, file: PathBuf, threads: usize) -> PyResult<(u64, u64, f64, u64)> {
    let (outcome, sum) = py.detach(|| shoal_limits::scan(&Scan { file, threads }))?;
    Ok((outcome.objects, outcome.bytes, outcome.seconds, sum))
}

/// Inflates every entry of some archives, and writes it below a directory if there is one: objects, bytes, seconds.
#[pyfunction]
pub fn limit_unzip(
    py: Python<'_>,
    archives: Vec<PathBuf>,
    directory: Option<PathBuf>,
    threads: usize,
) -> PyResult<(u64, u64, f64)> {
    let outcome = py.detach(|| shoal_limits::unzip(&Unzip { archives, directory, threads }))?;
    Ok((outcome.objects, outcome.bytes, outcome.seconds))
}

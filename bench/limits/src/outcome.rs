//! What every loop returns.

/// What a loop has done. Listing what there is to do is not in the time.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Seconds from the first object to the last.
    pub seconds: f64,
}

//! `ByHost`: a map by host, which is looked into for every object. Not here: what a host is (`shoal-core`).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use xxhash_rust::xxh3::xxh3_64;

use crate::error::HostId;

/// A map by host.
pub(super) type ByHost<V> = HashMap<HostId, V, BuildHasherDefault<IdHasher>>;

/// Takes an id as it is, because it is a hash.
#[derive(Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = id;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

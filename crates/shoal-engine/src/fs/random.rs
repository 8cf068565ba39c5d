//! Random bytes from the kernel, for what must differ between processes.
//!
//! The generators of `fastrand` have a state, which a fork copies: the child and its parent draw the same numbers.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// At most 256 bytes, which the kernel returns at once.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    loop {
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            Ok(length) if length == N => return bytes,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => break, // a sandbox forbids it
        }
    }
    fastrand::seed(fastrand::u64(..) ^ u64::from(std::process::id()));
    fastrand::fill(&mut bytes);
    bytes
}

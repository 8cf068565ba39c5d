//! Unpacks whole entries at once with libdeflate: about twice as fast as a decompressor that can pause.

use std::ptr::NonNull;

use libdeflate_sys::{
    libdeflate_alloc_decompressor, libdeflate_crc32, libdeflate_decompressor, libdeflate_deflate_decompress,
    libdeflate_free_decompressor, libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE,
    libdeflate_result_LIBDEFLATE_SUCCESS,
};

use crate::error::{Error, Kind, Result};

/// A decompressor: 11 KB of tables, reused for all entries.
pub(super) struct Inflater(NonNull<libdeflate_decompressor>);

impl Inflater {
    /// # Errors
    /// [`Kind::Internal`] if there is not enough memory.
    pub fn new() -> Result<Inflater> {
        // SAFETY: takes nothing, and answers null or a decompressor that is ours.
        match NonNull::new(unsafe { libdeflate_alloc_decompressor() }) {
            Some(tables) => Ok(Inflater(tables)),
            None => Err(Error::new(Kind::Internal, "not enough memory for a decompressor")),
        }
    }

    /// Appends exactly `size` unpacked bytes to `out`, which must have the capacity for them.
    ///
    /// # Errors
    /// [`Kind::Integrity`] if there are more or fewer bytes, or the stream is damaged. Then `out` is unchanged.
    pub fn append(&mut self, packed: &[u8], out: &mut Vec<u8>, size: usize) -> Result<()> {
        if size == 0 && packed.is_empty() {
            return Ok(()); // some packers write empty files like this
        }
        let space = out.spare_capacity_mut();
        if space.len() < size {
            return Err(Error::new(Kind::Internal, "the output buffer is too small"));
        }
        let mut unpacked = 0;
        // SAFETY: the decompressor is ours alone; it reads `packed` and writes at most `size` bytes of `space`.
        let result = unsafe {
            libdeflate_deflate_decompress(
                self.0.as_ptr(),
                packed.as_ptr().cast(),
                packed.len(),
                space.as_mut_ptr().cast(),
                size,
                &mut unpacked,
            )
        };
        #[allow(non_upper_case_globals)] // the names of C
        match result {
            libdeflate_result_LIBDEFLATE_SUCCESS if unpacked == size => {}
            libdeflate_result_LIBDEFLATE_SUCCESS => return Err(fewer(unpacked as u64, size as u64)),
            libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE => return Err(more(size as u64)),
            _ => return Err(Error::new(Kind::Integrity, "its deflate stream is damaged")),
        }
        // SAFETY: that many bytes behind the old end have just been written, and they are within the capacity.
        unsafe { out.set_len(out.len() + size) };
        Ok(())
    }
}

impl Drop for Inflater {
    fn drop(&mut self) {
        // SAFETY: it is ours, and not used again.
        unsafe { libdeflate_free_decompressor(self.0.as_ptr()) }
    }
}

/// The error for too few unpacked bytes.
pub(super) fn fewer(found: u64, size: u64) -> Error {
    Error::new(Kind::Integrity, format!("it unpacks to {found} bytes, but declares {size}"))
}

/// The error for too many unpacked bytes.
pub(super) fn more(size: u64) -> Error {
    Error::new(Kind::Integrity, format!("it unpacks to more than the {size} bytes it declares"))
}

/// Continues a CRC-32 with `bytes`. `sum` is the checksum so far, 0 at the start.
pub(super) fn crc(sum: u32, bytes: &[u8]) -> u32 {
    // SAFETY: reads `bytes`.
    unsafe { libdeflate_crc32(sum, bytes.as_ptr().cast(), bytes.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `hello hello hello ` compressed with zlib, level 9.
    const PACKED: &[u8] = &[0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x57, 0xc8, 0x40, 0x22, 0x01];

    #[test]
    fn it_is_exactly_as_many_bytes_as_declared_or_nothing() {
        let mut inflater = Inflater::new().unwrap();
        let mut out = Vec::with_capacity(100);
        out.push(b'>');
        inflater.append(PACKED, &mut out, 18).unwrap();
        assert_eq!(out, b">hello hello hello ");
        let why = |result: Result<()>| result.unwrap_err().why().to_owned();
        assert!(why(inflater.append(PACKED, &mut out, 17)).contains("more than the 17 bytes"));
        assert!(why(inflater.append(PACKED, &mut out, 19)).contains("18 bytes, but declares 19"));
        assert!(why(inflater.append(&PACKED[..5], &mut out, 18)).contains("damaged"));
        assert!(inflater.append(&[], &mut out, 0).is_ok() && inflater.append(&[3, 0], &mut out, 0).is_ok());
        assert_eq!(out.len(), 19, "nothing of a failure stays");
        assert_eq!(inflater.append(PACKED, &mut Vec::new(), 18).unwrap_err().kind(), Kind::Internal);
        assert_eq!(crc(crc(0, b"12345"), b"6789"), 0xcbf4_3926);
    }
}

//! An array in memory as NumPy describes one: dtype, shape, strides and where its first element is.

use std::marker::PhantomData;

use crate::Error;

/// What one element is. The numbers are sizes in bytes, but characters for `Unicode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// One byte, 0 or not.
    Bool,
    /// A signed whole number of 1, 2, 4 or 8 bytes.
    Int(usize),
    /// An unsigned whole number of 1, 2, 4 or 8 bytes.
    Uint(usize),
    /// A float of 2, 4, 8, 12 or 16 bytes.
    Float(usize),
    /// Two floats, together of 8, 16, 24 or 32 bytes.
    Complex(usize),
    /// A text of bytes, filled up with NUL.
    Bytes(usize),
    /// A text of 4-byte characters, filled up with NUL.
    Unicode(usize),
    /// A date and time (`M8`) or a time span (`m8`), 8 bytes.
    Time,
}

impl Scalar {
    /// Bytes of one element.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::Bool => 1,
            Self::Int(size) | Self::Uint(size) | Self::Float(size) | Self::Complex(size) | Self::Bytes(size) => size,
            Self::Unicode(characters) => characters * 4,
            Self::Time => 8,
        }
    }

    /// Reads what follows the byte order in a dtype's `str`.
    fn parse(text: &str) -> Option<Self> {
        let kind = *text.as_bytes().first()?;
        let rest = text.get(1..)?;
        if matches!(kind, b'M' | b'm') {
            let unit = rest.strip_prefix('8')?;
            let inside = unit.strip_prefix('[').and_then(|unit| unit.strip_suffix(']'));
            let plain = |unit: &str| !unit.is_empty() && unit.bytes().all(|byte| byte.is_ascii_alphanumeric());
            return (unit.is_empty() || inside.is_some_and(plain)).then_some(Self::Time);
        }
        // Only digits: `parse` would take a sign too.
        let size: usize = rest.bytes().all(|byte| byte.is_ascii_digit()).then(|| rest.parse().ok())??;
        match (kind, size) {
            (b'b', 1) => Some(Self::Bool),
            (b'i', 1 | 2 | 4 | 8) => Some(Self::Int(size)),
            (b'u', 1 | 2 | 4 | 8) => Some(Self::Uint(size)),
            (b'f', 2 | 4 | 8 | 12 | 16) => Some(Self::Float(size)),
            (b'c', 8 | 16 | 24 | 32) => Some(Self::Complex(size)),
            (b'S', _) => Some(Self::Bytes(size)),
            (b'U', _) => size.checked_mul(4).map(|_| Self::Unicode(size)),
            _ => None,
        }
    }
}

/// A borrowed array of any strides: contiguous or not, in C or Fortran order, stepping backwards, repeated.
#[derive(Clone, Copy, Debug)]
pub struct NdArray<'a> {
    scalar: Scalar,
    swapped: bool,
    descr: &'a str,
    shape: &'a [usize],
    strides: &'a [isize],
    /// The element whose indexes are all 0.
    origin: *const u8,
    /// Bytes of all elements together.
    bytes: usize,
    borrowed: PhantomData<&'a [u8]>,
}

// SAFETY: an NdArray only reads, and its maker promised memory that stays and is not written to for 'a, which is what
// a `&'a [u8]` promises; that may be sent and shared.
unsafe impl Send for NdArray<'_> {}
// SAFETY: as above.
unsafe impl Sync for NdArray<'_> {}

impl<'a> NdArray<'a> {
    /// Takes an array by its address, as NumPy's `dtype.str`, `shape`, `strides` (in bytes) and data pointer give it.
    ///
    /// # Errors
    ///
    /// Unsupported: a dtype that is not plain data, such as objects or structs. Invalid: shape and strides do not belong
    /// together, or the size overflows.
    ///
    /// # Safety
    ///
    /// For all of `'a`, and for every index within `shape`: the bytes of the element at `origin` plus the sum of
    /// index × stride can be read, are initialised, and are not written to. Nothing is read of an array with
    /// a 0 in its shape.
    pub unsafe fn new(
        descr: &'a str,
        shape: &'a [usize],
        strides: &'a [isize],
        origin: *const u8,
    ) -> Result<Self, Error> {
        let (scalar, swapped) = parse_descr(descr)?;
        if shape.len() != strides.len() {
            return Err(Error::invalid(format!(
                "an array of {} dimensions has {} strides: give one for each dimension",
                shape.len(),
                strides.len()
            )));
        }
        let bytes = if shape.contains(&0) {
            Some(0)
        } else {
            shape.iter().try_fold(scalar.size(), |bytes, length| bytes.checked_mul(*length))
        };
        let bytes = bytes.filter(|bytes| isize::try_from(*bytes).is_ok());
        let bytes = bytes
            .ok_or_else(|| Error::invalid(format!("an array of dtype {descr:?} and shape {shape:?} is too large")))?;
        Ok(Self { scalar, swapped, descr, shape, strides, origin, bytes, borrowed: PhantomData })
    }

    /// Takes an array within `data`, its first element at `offset`.
    ///
    /// # Errors
    ///
    /// As [`NdArray::new`]; Invalid too if an element lies outside `data`.
    pub fn within(
        descr: &'a str,
        shape: &'a [usize],
        strides: &'a [isize],
        data: &'a [u8],
        offset: usize,
    ) -> Result<Self, Error> {
        let origin = data.as_ptr().wrapping_add(offset);
        // SAFETY: nothing is read before the check below, and after it all elements lie in `data`, borrowed for 'a.
        let array = unsafe { Self::new(descr, shape, strides, origin) }?;
        if !shape.contains(&0) && array.span(offset).is_none_or(|(_, end)| end > data.len()) {
            return Err(Error::invalid(format!(
                "an array of dtype {descr:?}, shape {shape:?} and strides {strides:?} from byte {offset} on does not \
                fit in {} bytes",
                data.len()
            )));
        }
        Ok(array)
    }

    /// The lowest byte that an element has, and the byte after the highest; none if one is not a place in memory.
    fn span(&self, offset: usize) -> Option<(usize, usize)> {
        let (mut low, mut high) = (isize::try_from(offset).ok()?, isize::try_from(offset).ok()?);
        for (length, stride) in self.shape.iter().zip(self.strides) {
            let reach = isize::try_from(length - 1).ok()?.checked_mul(*stride)?;
            low = low.checked_add(reach.min(0))?;
            high = high.checked_add(reach.max(0))?;
        }
        Some((usize::try_from(low).ok()?, usize::try_from(high).ok()?.checked_add(self.scalar.size())?))
    }

    /// What one element is.
    #[must_use]
    pub fn scalar(&self) -> Scalar {
        self.scalar
    }

    /// NumPy's `dtype.str`.
    #[must_use]
    pub fn descr(&self) -> &'a str {
        self.descr
    }

    /// The length of each dimension.
    #[must_use]
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// Bytes from one element to the next, in each dimension.
    #[must_use]
    pub fn strides(&self) -> &'a [isize] {
        self.strides
    }

    /// Bytes of all elements together.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes
    }

    /// Returns true if the elements do not have this machine's byte order.
    pub(crate) fn swapped(&self) -> bool {
        self.swapped
    }

    pub(crate) fn origin(&self) -> *const u8 {
        self.origin
    }
}

fn parse_descr(descr: &str) -> Result<(Scalar, bool), Error> {
    let order = descr.as_bytes().first();
    let scalar = descr.get(1..).and_then(Scalar::parse);
    let swapped = match order {
        Some(b'<') => Some(cfg!(target_endian = "big")),
        Some(b'>') => Some(cfg!(target_endian = "little")),
        // "not applicable", which is so for single bytes
        Some(b'|') => scalar.filter(|scalar| scalar.size() == 1 || matches!(scalar, Scalar::Bytes(_))).map(|_| false),
        _ => None,
    };
    scalar.zip(swapped).ok_or_else(|| {
        Error::unsupported(format!(
            "an array of dtype {descr:?} is not plain numbers, booleans, times, bytes or text: convert it, or make it \
            a \
             table, for example with pyarrow.table or polars.DataFrame"
        ))
    })
}

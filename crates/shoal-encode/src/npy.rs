//! NumPy's `.npy`: a header of one line, then the elements in C order.

use crate::{Error, NdArray};

const MAGIC: &[u8] = b"\x93NUMPY";

/// The data begins at a multiple of this many bytes, so that a mapped file is aligned for any dtype.
const ALIGNMENT: usize = 64;

/// Room, in characters, that NumPy leaves for the first length to grow in place when a file is appended to.
const GROWTH: usize = 21;

/// Appends an array as a `.npy` file.
pub(crate) fn write(array: &NdArray<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let header = header(&format!("'{}'", array.descr()), array.shape())?;
    let size = header.len().saturating_add(array.size());
    // A repeated array (stride 0) can be far larger than its memory.
    out.try_reserve(size).map_err(|_| Error::memory(size))?;
    out.extend_from_slice(&header);
    if array.size() > 0 {
        push_elements(array, out);
    }
    Ok(())
}

/// The bytes before the elements, the same that NumPy writes for an array in C order; `descr` is the dtype as NumPy's
/// `descr` shows it. Their number is the same whatever the first length.
pub(crate) fn header(descr: &str, shape: &[usize]) -> Result<Vec<u8>, Error> {
    let lengths: Vec<String> = shape.iter().map(usize::to_string).collect();
    let comma = if lengths.len() == 1 { "," } else { "" };
    let mut text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': ({}{comma}), }}", lengths.join(", "));
    if let Some(first) = lengths.first() {
        text.push_str(&" ".repeat(GROWTH.saturating_sub(first.len())));
    }
    // Magic, two bytes of version, and the length of what follows: two bytes of it in version 1, four in version 2 and in
    // version 3, which has names of fields that are not ASCII.
    // NumPy fills up by at least one character more than it needs.
    let padded = |prefix: usize| (prefix + text.len() + 2).next_multiple_of(ALIGNMENT) - prefix;
    let mut header = MAGIC.to_vec();
    let ascii = text.is_ascii();
    let short = u16::try_from(padded(MAGIC.len() + 4)).ok().filter(|_| ascii);
    let length = if let Some(length) = short {
        header.extend_from_slice(&[1, 0]);
        header.extend_from_slice(&length.to_le_bytes());
        usize::from(length)
    } else {
        let length = padded(MAGIC.len() + 6);
        let field = u32::try_from(length).map_err(|_| Error::invalid("a shape of more than 4 GB of text"))?;
        header.extend_from_slice(&[if ascii { 2 } else { 3 }, 0]);
        header.extend_from_slice(&field.to_le_bytes());
        length
    };
    header.extend_from_slice(text.as_bytes());
    header.resize(header.len() + length - text.len() - 1, b' ');
    header.push(b'\n');
    Ok(header)
}

/// Appends the elements of an array that has some, as many at a time as lie together.
fn push_elements(array: &NdArray<'_>, out: &mut Vec<u8>) {
    let (shape, strides) = (array.shape(), array.strides());
    let mut run = array.scalar().size(); // bytes that lie together
    let mut outer = shape.len(); // dimensions whose elements do not
    while outer > 0 && (shape[outer - 1] == 1 || isize::try_from(run) == Ok(strides[outer - 1])) {
        outer -= 1;
        run *= shape[outer];
    }
    let (count, stride) = match outer {
        0 => (1, 0),
        _ => (shape[outer - 1], strides[outer - 1]),
    };
    let outer = outer.saturating_sub(1);
    let gather = match run {
        1 => push_strided::<1>,
        2 => push_strided::<2>,
        4 => push_strided::<4>,
        8 => push_strided::<8>,
        16 => push_strided::<16>,
        _ => push_runs,
    };
    each_place(&shape[..outer], &strides[..outer], array.origin(), |at| {
        // SAFETY: `at` and the `count` runs from it on, `stride` apart, hold only elements within the shape, whose bytes
        // NdArray's maker promised; a `run` is `run` bytes of them that lie together.
        unsafe { gather(at, count, stride, run, out) }
    });
}

/// Calls `visit` with the place of each index of a shape without zeros, in C order.
fn each_place(shape: &[usize], strides: &[isize], origin: *const u8, mut visit: impl FnMut(*const u8)) {
    let mut index = vec![0; shape.len()];
    let mut at = origin;
    loop {
        visit(at);
        let mut axis = shape.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            at = at.wrapping_offset(strides[axis]);
            if index[axis] < shape[axis] {
                break;
            }
            at = at.wrapping_offset(strides[axis].wrapping_mul(-(shape[axis] as isize)));
            index[axis] = 0;
        }
    }
}

/// Appends `count` elements of `N` bytes, `stride` bytes apart.
///
/// # Safety
///
/// The `N` bytes of each can be read.
unsafe fn push_strided<const N: usize>(at: *const u8, count: usize, stride: isize, _run: usize, out: &mut Vec<u8>) {
    for place in 0..count as isize {
        // SAFETY: the caller's promise; an array of bytes has no alignment.
        let element = unsafe { at.wrapping_offset(place * stride).cast::<[u8; N]>().read() };
        out.extend_from_slice(&element);
    }
}

/// Appends `count` runs of `run` bytes, `stride` bytes apart.
///
/// # Safety
///
/// The bytes of each run can be read.
unsafe fn push_runs(at: *const u8, count: usize, stride: isize, run: usize, out: &mut Vec<u8>) {
    for place in 0..count as isize {
        // SAFETY: the caller's promise.
        out.extend_from_slice(unsafe { std::slice::from_raw_parts(at.wrapping_offset(place * stride), run) });
    }
}

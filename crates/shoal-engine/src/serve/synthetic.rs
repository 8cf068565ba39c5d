//! Objects that exist only by rule: names `object-000000000` …, contents a name and a line feed, repeated and cut to size.
//!
//! Not here: files (`dir.rs`). Nothing is stored, so any number of objects costs no memory, and the same two numbers
//! give the same bytes in every run and on every machine.

/// The smallest number of digits in a name; all names have the same, so that their order is the order of their bytes.
const MIN_DIGITS: usize = 9;
const PREFIX: &[u8] = b"object-";

/// `count` objects of `size` bytes.
#[derive(Debug)]
pub(super) struct Synthetic {
    pub(super) count: u64,
    pub(super) size: u64,
    digits: usize,
    /// What ends every tag: the size and the closing quote.
    tag_end: Vec<u8>,
}

impl Synthetic {
    pub(super) fn new(count: u64, size: u64) -> Self {
        let last = count.saturating_sub(1);
        let needed = last.checked_ilog10().map_or(1, |log| log as usize + 1);
        Self { count, size, digits: needed.max(MIN_DIGITS), tag_end: format!("-{size}\"").into_bytes() }
    }

    /// Appends the name of one object.
    pub(super) fn name(&self, index: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFIX);
        let start = out.len();
        out.resize(start + self.digits, b'0');
        // By hand: formatting took a twentieth of all the time of pipelined requests.
        let mut left = index;
        for digit in out[start..].iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
        }
    }

    /// The index behind a name, if there is such an object.
    pub(super) fn index(&self, name: &[u8]) -> Option<u64> {
        let digits = name.strip_prefix(PREFIX)?;
        if digits.len() != self.digits {
            return None;
        }
        let mut index = 0u64;
        for digit in digits {
            let value = digit.wrapping_sub(b'0');
            if value > 9 {
                return None;
            }
            index = index.checked_mul(10)?.checked_add(u64::from(value))?;
        }
        (index < self.count).then_some(index)
    }

    /// The strong tag: name and size decide every byte.
    pub(super) fn tag(&self, index: u64) -> Vec<u8> {
        let mut tag = Vec::with_capacity(PREFIX.len() + self.digits + self.tag_end.len() + 1);
        tag.push(b'"');
        self.name(index, &mut tag);
        tag.extend_from_slice(&self.tag_end);
        tag
    }

    /// `length` bytes of the content from `first` on; the caller has cut both to the size.
    pub(super) fn bytes(&self, index: u64, first: u64, length: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(length.max(PREFIX.len() + self.digits + 1));
        self.name(index, &mut out);
        out.push(b'\n');
        let period = out.len();
        // The pattern is turned to where the part begins, then doubled until it is long enough.
        out.rotate_left((first % period as u64) as usize);
        while out.len() < length {
            let more = out.len().min(length - out.len());
            out.extend_from_within(..more);
        }
        out.truncate(length);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_repeat_the_name_and_any_part_equals_that_part_of_the_whole() {
        let objects = Synthetic::new(20, 100);
        let whole = objects.bytes(7, 0, 100);
        let expected: Vec<u8> = b"object-000000007\n".iter().copied().cycle().take(100).collect();
        assert_eq!(whole, expected);
        for first in 0..100u64 {
            for length in [0usize, 1, 16, 17, 18, 99] {
                let length = length.min(100 - first as usize);
                let part = objects.bytes(7, first, length);
                assert_eq!(part, expected[first as usize..first as usize + length]);
            }
        }
    }

    #[test]
    fn names_have_nine_digits_and_more_when_the_count_needs_them() {
        let mut name = Vec::new();
        Synthetic::new(1_000_000_000, 1).name(5, &mut name);
        assert_eq!(name, b"object-000000005");
        name.clear();
        let many = Synthetic::new(1_000_000_001, 1);
        many.name(5, &mut name);
        assert_eq!(name, b"object-0000000005");
        assert_eq!(many.index(b"object-1000000000"), Some(1_000_000_000));
        assert_eq!(many.index(b"object-1000000001"), None);
        assert_eq!(many.index(b"object-000000005"), None);
        assert_eq!(Synthetic::new(0, 1).index(b"object-000000000"), None);
    }
}

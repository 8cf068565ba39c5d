//! Objects that exist only by rule: names `object-000000000` …, contents a name and a line feed, repeated and cut to size,
//! or bytes that do not compress.
//!
//! Not here: files (`dir.rs`). Nothing is stored, so any number of objects costs no memory, and the same setting gives
//! the same bytes in every run and on every machine. Any part of an object is computed without the rest.
//!
//! The bytes that do not compress are SplitMix64's (Steele, Lea and Flood, 2014): its output number `index` from the seed
//! 0 is the seed of an object, and the outputs from there are its bytes, the least significant first. It has no state but
//! a counter, and costs less than a copy of the bytes that it makes.

/// The smallest number of digits in a name; all names have the same, so that their order is the order of their bytes.
const MIN_DIGITS: usize = 9;
const PREFIX: &[u8] = b"object-";
/// The step of SplitMix64's counter.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Bytes of one of its outputs.
const WORD: usize = 8;

/// `count` objects of `size` bytes.
#[derive(Debug)]
pub(super) struct Synthetic {
    pub(super) count: u64,
    pub(super) size: u64,
    random: bool,
    digits: usize,
    /// What ends every tag: the size, which contents, and the closing quote.
    tag_end: Vec<u8>,
}

impl Synthetic {
    pub(super) fn new(count: u64, size: u64, random: bool) -> Self {
        let last = count.saturating_sub(1);
        let needed = last.checked_ilog10().map_or(1, |log| log as usize + 1);
        let contents = if random { "-random" } else { "" };
        let tag_end = format!("-{size}{contents}\"").into_bytes();
        Self { count, size, random, digits: needed.max(MIN_DIGITS), tag_end }
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

    /// The strong tag: name, size and setting decide every byte.
    pub(super) fn tag(&self, index: u64) -> Vec<u8> {
        let mut tag = Vec::with_capacity(PREFIX.len() + self.digits + self.tag_end.len() + 1);
        tag.push(b'"');
        self.name(index, &mut tag);
        tag.extend_from_slice(&self.tag_end);
        tag
    }

    /// `length` bytes of the content from `first` on; the caller has cut both to the size.
    pub(super) fn bytes(&self, index: u64, first: u64, length: usize) -> Vec<u8> {
        if self.random {
            return random_bytes(index, first, length);
        }
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

/// `length` bytes of SplitMix64 from the byte `first` on.
#[inline(never)]
fn random_bytes(index: u64, first: u64, length: usize) -> Vec<u8> {
    let seed = split_mix(0, index);
    let skipped = (first % WORD as u64) as usize;
    let mut out = Vec::with_capacity(skipped + length + WORD);
    let mut word = first / WORD as u64;
    while out.len() < skipped + length {
        out.extend_from_slice(&split_mix(seed, word).to_le_bytes());
        word += 1;
    }
    out.truncate(skipped + length);
    out.drain(..skipped);
    out
}

/// Output number `at` of SplitMix64 with this seed.
fn split_mix(seed: u64, at: u64) -> u64 {
    let mut mixed = seed.wrapping_add(at.wrapping_add(1).wrapping_mul(STEP));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VECTOR_0: [u64; 3] = [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f];
    const VECTOR_1: [u64; 3] = [0xa706_dd2f_4d19_7e6f, 0xb382_a305_f441_4f5e, 0x631a_9154_fbab_f717];

    #[test]
    fn contents_repeat_the_name_and_any_part_equals_that_part_of_the_whole() {
        let objects = Synthetic::new(20, 100, false);
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

    /// The outputs of the reference implementation (Vigna's splitmix64.c) with the seed 0, and then with the first of
    /// them as the seed.
    #[test]
    fn random_contents_are_the_same_on_every_machine_and_in_every_part() {
        assert_eq!([0, 1, 2].map(|at| split_mix(0, at)), VECTOR_0);
        let objects = Synthetic::new(20, 100, true);
        let whole = objects.bytes(0, 0, 100);
        assert_eq!(whole[..24], VECTOR_1.map(u64::to_le_bytes).concat());
        for first in 0..100 {
            for length in 0..=100 - first {
                assert_eq!(objects.bytes(0, first as u64, length), whole[first..first + length]);
            }
        }
        let far = u64::MAX - 50;
        assert_eq!(objects.bytes(7, far, 40)[9..], objects.bytes(7, far + 9, 31));
    }

    #[test]
    fn random_contents_do_not_compress() {
        let objects = Synthetic::new(10_000, 100, true);
        let all: Vec<u8> = (0..10_000).flat_map(|index| objects.bytes(index, 0, 100)).collect();
        assert!(zstd::bulk::compress(&all, 19).unwrap().len() >= all.len());
        let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut packed, &all).unwrap();
        assert!(packed.finish().unwrap().len() >= all.len());
        // What the other setting is for.
        let named = Synthetic::new(10_000, 100, false);
        let all: Vec<u8> = (0..10_000).flat_map(|index| named.bytes(index, 0, 100)).collect();
        assert!(zstd::bulk::compress(&all, 3).unwrap().len() < all.len() / 20);
    }

    #[test]
    fn names_have_nine_digits_and_more_when_the_count_needs_them() {
        let mut name = Vec::new();
        Synthetic::new(1_000_000_000, 1, false).name(5, &mut name);
        assert_eq!(name, b"object-000000005");
        name.clear();
        let many = Synthetic::new(1_000_000_001, 1, false);
        many.name(5, &mut name);
        assert_eq!(name, b"object-0000000005");
        assert_eq!(many.index(b"object-1000000000"), Some(1_000_000_000));
        assert_eq!(many.index(b"object-1000000001"), None);
        assert_eq!(many.index(b"object-000000005"), None);
        assert_eq!(Synthetic::new(0, 1, false).index(b"object-000000000"), None);
    }
}

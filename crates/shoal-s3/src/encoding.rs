//! Undoes `encoding-type=url` of a listing. A store may say that its keys are encoded and send them as they are; then a key
//! with a percent sign would become another one. Such a store is found out by what an encoder does not do.

use shoal_engine::Result;

use crate::entries::Listed;
use crate::page::{broken, check_plain};

/// What is known of the encoding of a listing, over all its pages.
#[derive(Default)]
pub(crate) struct Encoding {
    /// Bytes that stood as they are, and those that were encoded: an encoder does one or the other with a byte.
    plain: Bytes,
    encoded: Bytes,
    /// A key was decoded to another one.
    is_used: bool,
    /// The store says that keys are encoded, and they are not.
    is_lie: bool,
}

#[derive(Clone, Copy, Default)]
struct Bytes([u64; 4]);

impl Bytes {
    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn meets(&self, other: &Bytes) -> bool {
        self.0.iter().zip(other.0).any(|(own, other)| own & other != 0)
    }
}

impl Encoding {
    /// Decodes the keys of a page.
    ///
    /// # Errors
    /// The keys of an earlier page were decoded, and it turns out that they were not encoded; or one is incomplete.
    pub fn decode(&mut self, objects: &mut [Listed]) -> Result<()> {
        let keys: Option<Vec<Vec<u8>>> = objects.iter().map(|object| self.decoded(&object.key)).collect();
        if let Some(keys) = keys.filter(|_| !self.is_lie && !self.plain.meets(&self.encoded)) {
            for (object, key) in objects.iter_mut().zip(keys) {
                object.is_decoded = object.key != key;
                self.is_used |= object.is_decoded;
                object.key = key;
            }
            return Ok(());
        }
        if self.is_used {
            let why = "the store says that keys are encoded, and they are not; keys of earlier pages were decoded";
            return Err(broken(why));
        }
        self.is_lie = true;
        objects.iter().try_for_each(|object| check_plain(&object.key))
    }

    /// A key without its encoding; `None` if it has none.
    fn decoded(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let hex = |byte: Option<&u8>| (*byte? as char).to_digit(16).map(|digit| digit as u8);
        let (mut plain, mut at) = (Vec::with_capacity(key.len()), 0);
        while let Some(&byte) = key.get(at) {
            plain.push(match byte {
                b'%' => {
                    let decoded = hex(key.get(at + 1))? << 4 | hex(key.get(at + 2))?;
                    at += 2;
                    self.encoded.add(decoded);
                    decoded
                }
                b'+' => b' ',
                0..=b' ' | b'<' | b'>' | b'"' | 0x7f.. => return None,
                other => {
                    self.plain.add(other);
                    other
                }
            });
            at += 1;
        }
        Some(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys that come of pages with these.
    fn decoded(pages: &[&[&str]]) -> Result<Vec<String>> {
        let (mut encoding, mut all) = (Encoding::default(), Vec::new());
        for page in pages {
            let listed = |key: &&str| Listed { key: key.as_bytes().to_vec(), ..Listed::default() };
            let mut objects: Vec<Listed> = page.iter().map(listed).collect();
            encoding.decode(&mut objects)?;
            all.extend(objects.into_iter().map(|object| String::from_utf8(object.key).unwrap()));
        }
        Ok(all)
    }

    #[test]
    fn keys_are_decoded_unless_the_store_lies() {
        assert_eq!(decoded(&[&["a/b+c%0A%25"], &["%C3%BC"]]).unwrap(), ["a/b c\n%", "ü"]);
        for lie in
            [&["a b", "a+b"][..], &["ü", "a+b"], &["a%zz"], &["a%2"], &["a/b", "a%2Fb"], &["d=1", "d%3D1"], &["%41A"]]
        {
            assert_eq!(decoded(&[lie]).unwrap(), lie, "as they are");
            assert_eq!(decoded(&[lie, &["a%20b"]]).unwrap().last().unwrap(), "a%20b", "once a lie, always one");
            assert!(decoded(&[&["a%20b"], lie]).is_err(), "what was decoded was none");
        }
    }
}

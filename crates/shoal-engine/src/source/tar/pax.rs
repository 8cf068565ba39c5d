//! The records of a pax header that say where and what the next entry is. Other records are ignored.
//!
//! Each record is `LENGTH KEY=VALUE\n`, and the length includes itself. A malformed record makes the whole header an
//! error: a reader that skips it may miss the length of an entry.

/// The contents of a pax header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pax {
    pub path: Option<Vec<u8>>,
    /// The target of a link.
    pub link: Option<Vec<u8>>,
    pub size: Option<u64>,
    /// Whole seconds since 1970, rounded down.
    pub modified: Option<i64>,
    /// Whether it describes a sparse file, and the name that GNU tar then stores here.
    pub sparse: bool,
    pub sparse_name: Option<Vec<u8>>,
}

impl Pax {
    /// Parses the records.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(mut records: &[u8]) -> Result<Pax, String> {
        let mut pax = Pax::default();
        // Some packers fill the rest of a block with zeros and include them in the length.
        while records.first().is_some_and(|&byte| byte != 0) {
            let (record, rest) = record(records).ok_or("a record of a pax header is malformed")?;
            records = rest;
            let equals =
                memchr::memchr(b'=', record).filter(|&at| at > 0).ok_or("a record of a pax header has no key")?;
            pax.set(&record[..equals], &record[equals + 1..])?;
        }
        match records.iter().all(|&byte| byte == 0) {
            true => Ok(pax),
            false => Err("a pax header has data after its records".into()),
        }
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let bad = || format!("\"{}\" of a pax header is malformed", String::from_utf8_lossy(key));
        match key {
            b"path" => self.path = (!value.is_empty()).then(|| value.to_vec()),
            b"linkpath" => self.link = (!value.is_empty()).then(|| value.to_vec()),
            b"size" if value.is_empty() => self.size = None,
            b"size" => self.size = Some(decimal(value).ok_or_else(bad)?),
            b"mtime" if value.is_empty() => self.modified = None,
            b"mtime" => self.modified = Some(seconds(value).ok_or_else(bad)?),
            b"GNU.sparse.name" => {
                self.sparse = true;
                self.sparse_name = Some(value.to_vec());
            }
            _ => self.sparse |= key.starts_with(b"GNU.sparse."),
        }
        Ok(())
    }

    /// Checks a header for all entries that follow.
    ///
    /// # Errors
    /// If it has a name, target or length: readers disagree about what that means.
    pub fn checked_global(self) -> Result<Pax, String> {
        match (&self.path, &self.link, self.size, self.sparse) {
            (None, None, None, false) => Ok(self),
            _ => Err("a global pax header has the name or length of a single entry".into()),
        }
    }

    /// Applies a later global header.
    pub fn update(&mut self, later: Pax) {
        self.modified = later.modified.or(self.modified);
    }
}

/// Returns the first record without its length and line feed, and the rest.
fn record(records: &[u8]) -> Option<(&[u8], &[u8])> {
    let blank = memchr::memchr(b' ', &records[..records.len().min(20)])?;
    let length = usize::try_from(decimal(&records[..blank])?).ok()?;
    let (record, rest) = records.split_at_checked(length)?;
    Some((record.get(blank + 1..)?.strip_suffix(b"\n")?, rest))
}

/// Parses digits and nothing else. The number must fit in a signed one.
fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let value = text.iter().try_fold(0u64, |value, &digit| match digit {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })?;
    i64::try_from(value).is_ok().then_some(value)
}

/// Parses seconds with an optional sign and decimals, rounded down.
fn seconds(text: &[u8]) -> Option<i64> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, decimals) = match memchr::memchr(b'.', text) {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &b""[..]),
    };
    if !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let whole = decimal(whole)? as i64;
    match negative {
        true => (-whole).checked_sub(i64::from(decimals.iter().any(|&digit| digit != b'0'))),
        false => Some(whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_and_the_last_of_a_kind_counts() {
        let pax = Pax::parse(b"12 path=a/b\n11 size=77\n20 mtime=1700000000.5\n12 path=c=d\n9 size=\n").unwrap_err();
        assert!(pax.contains("malformed"), "lengths that are wrong: {pax}");
        let pax =
            Pax::parse(b"12 path=a/b\n11 size=77\n22 mtime=1700000000.5\n12 path=c=d\n13 comment=x\n\0\0").unwrap();
        let expected =
            Pax { path: Some(b"c=d".to_vec()), size: Some(77), modified: Some(1_700_000_000), ..Pax::default() };
        assert_eq!(pax, expected);
        assert_eq!(Pax::parse(b"11 size=77\n8 size=\n").unwrap(), Pax::default());
        assert_eq!(Pax::parse(b"14 mtime=-1.5\n").unwrap().modified, Some(-2));
        assert_eq!(Pax::parse(b"17 path=line\nend\n").unwrap().path.unwrap(), b"line\nend");
        assert!(Pax::parse(b"22 GNU.sparse.major=1\n").unwrap().sparse);
    }

    #[test]
    fn what_is_malformed_is_an_error_and_not_passed_over() {
        for records in [
            &b"x path=a\n"[..],
            b" 9 path=a\n",
            b"+9 path=a\n",
            b"9 path=a",
            b"8 path=a\n",
            b"99 path=a\n",
            b"0 path=a\n",
            b"1 path=a\n",
            b"2 \n",
            b"4 =\n\n",
            b"8 nokey\n",
            b"11 size=-1\n",
            b"12 size=0x1\n",
            b"28 size=9223372036854775808\n",
            b"12 mtime=1e\n",
            b"9 path=a\n\0x",
            b"99999999999999999999999 path=a\n",
        ] {
            assert!(Pax::parse(records).is_err(), "{}", records.escape_ascii());
        }
        assert!(Pax::parse(b"9 path=a\n").unwrap().checked_global().is_err());
        assert!(Pax::parse(b"10 size=1\n").unwrap().checked_global().is_err());
        assert!(Pax::parse(b"14 linkpath=a\n").unwrap().checked_global().is_err());
    }
}

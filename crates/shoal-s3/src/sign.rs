//! Signatures (AWS Signature Version 4, in headers). The key of a day is derived once. Not here: where credentials come from.
//!
//! The method: docs.aws.amazon.com, "Authenticating Requests (AWS Signature Version 4)" of Amazon S3. Paths of S3 are
//! signed as they are sent; queries must be sorted by name and encoded, as those of `store.rs` are.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ring::{digest, hmac};
use shoal_engine::source::{Changing, Pairs};
use shoal_engine::{Error, Kind, Result};
use shoal_http::{Sign, Unsigned};

/// What stands in place of the hash of a body: TLS keeps bodies safe, and GET has none.
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";
/// Clocks that differ by less are not corrected; stores accept 15 minutes.
const SKEW_MIN: i64 = 30;
/// After a correction, refusals of requests that were signed before it are expected for so long.
const SETTLING: Duration = Duration::from_secs(60);
/// Corrections in a row.
const CORRECTIONS_MAX: u32 = 3;

/// The names under which credentials are passed.
pub const ACCESS_KEY: &str = "access_key";
/// The second half of a key.
pub const SECRET_KEY: &str = "secret_key";
/// Of temporary credentials.
pub const TOKEN: &str = "token";

/// Signs requests to one store.
pub(crate) struct Signer {
    credentials: Arc<Changing>,
    region: String,
    /// Seconds by which the clock of the store is ahead.
    offset: AtomicI64,
    corrected: Mutex<(u32, Option<Instant>)>,
    derived: Mutex<Option<Arc<Derived>>>,
}

/// What the requests of one day and one set of credentials have in common.
struct Derived {
    day: [u8; 8],
    credentials: Arc<Pairs>,
    key: hmac::Key,
    access_key: String,
    token: Option<String>,
    scope: String,
}

impl Signer {
    pub fn new(credentials: Arc<Changing>, region: String) -> Signer {
        let (corrected, derived) = (Mutex::default(), Mutex::default());
        Signer { credentials, region, offset: AtomicI64::new(0), corrected, derived }
    }

    /// The store has refused a signature for its time. Returns whether the request can be signed anew.
    pub fn correct(&self, store: SystemTime) -> bool {
        let offset = seconds(store) - seconds(SystemTime::now());
        let mut corrected = self.corrected.lock().unwrap_or_else(PoisonError::into_inner);
        if (offset - self.offset.load(Relaxed)).abs() < SKEW_MIN {
            return corrected.1.is_some_and(|at| at.elapsed() < SETTLING);
        }
        if corrected.1.is_none_or(|at| at.elapsed() > SETTLING) {
            corrected.0 = 0;
        }
        if corrected.0 == CORRECTIONS_MAX {
            return false;
        }
        self.offset.store(offset, Relaxed);
        *corrected = (corrected.0 + 1, Some(Instant::now()));
        true
    }

    fn derived(&self, day: [u8; 8]) -> Result<Arc<Derived>> {
        let credentials = self.credentials.present();
        let mut derived = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*derived
            && known.day == day
            && Arc::ptr_eq(&known.credentials, &credentials)
        {
            return Ok(known.clone());
        }
        let fresh = Arc::new(Derived::new(day, credentials, &self.region)?);
        *derived = Some(fresh.clone());
        Ok(fresh)
    }

    fn sign_at(&self, now: i64, request: &Unsigned<'_>, out: &mut Vec<u8>) -> Result<()> {
        let stamp = stamp(now);
        let [day @ .., _, _, _, _, _, _, _, _] = stamp;
        let derived = self.derived(day)?;
        let stamped = std::str::from_utf8(&stamp).unwrap_or_default();
        let mut lines = format!("x-amz-content-sha256: {UNSIGNED}\r\nx-amz-date: {stamped}\r\n");
        if let Some(token) = &derived.token {
            lines.push_str(&format!("x-amz-security-token: {token}\r\n"));
        }
        let mut fields: Vec<(&[u8], &[u8])> = [request.fields, lines.as_bytes()].into_iter().flat_map(signed).collect();
        fields.sort_unstable_by_key(|(name, _)| *name);
        let mut names = Vec::with_capacity(128);
        for (name, _) in &fields {
            names.extend_from_slice(name);
            names.push(b';');
        }
        names.pop();
        let (path, query) = match memchr::memchr(b'?', request.target) {
            Some(at) => (&request.target[..at], &request.target[at + 1..]),
            None => (request.target, &b""[..]),
        };
        let mut canonical = Vec::with_capacity(512);
        for line in [request.method.as_str().as_bytes(), path, query] {
            canonical.extend_from_slice(line);
            canonical.push(b'\n');
        }
        for (name, value) in &fields {
            canonical.extend_from_slice(name);
            canonical.push(b':');
            canonical.extend_from_slice(value);
            canonical.push(b'\n');
        }
        canonical.push(b'\n');
        canonical.extend_from_slice(&names);
        canonical.push(b'\n');
        canonical.extend_from_slice(UNSIGNED.as_bytes());
        let hash = digest::digest(&digest::SHA256, &canonical);
        canonical.clear();
        for part in ["AWS4-HMAC-SHA256\n", stamped, "\n", &derived.scope, "\n"] {
            canonical.extend_from_slice(part.as_bytes());
        }
        push_hex(&mut canonical, hash.as_ref());
        let signature = hmac::sign(&derived.key, &canonical);
        out.extend_from_slice(lines.as_bytes());
        for part in ["Authorization: AWS4-HMAC-SHA256 Credential=", &derived.access_key, "/", &derived.scope] {
            out.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(b", SignedHeaders=");
        out.extend_from_slice(&names);
        out.extend_from_slice(b", Signature=");
        push_hex(out, signature.as_ref());
        out.extend_from_slice(b"\r\n");
        Ok(())
    }
}

impl Sign for Signer {
    fn sign(&self, request: &Unsigned<'_>, out: &mut Vec<u8>) -> Result<()> {
        self.sign_at(seconds(SystemTime::now()) + self.offset.load(Relaxed), request, out)
    }
}

impl Derived {
    fn new(day: [u8; 8], credentials: Arc<Pairs>, region: &str) -> Result<Derived> {
        let value = |name: &str| credentials.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let missing = || Error::new(Kind::Credentials, "the credentials have no access key and secret key");
        let (access_key, secret) = value(ACCESS_KEY).zip(value(SECRET_KEY)).ok_or_else(missing)?;
        let text = std::str::from_utf8(&day).unwrap_or_default();
        let first = format!("AWS4{secret}").into_bytes();
        let key = [text, region, "s3", "aws4_request"].iter().fold(first, |key, part| {
            hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), part.as_bytes()).as_ref().to_vec()
        });
        let (key, scope) = (hmac::Key::new(hmac::HMAC_SHA256, &key), format!("{text}/{region}/s3/aws4_request"));
        Ok(Derived { day, token: value(TOKEN), credentials, key, access_key, scope })
    }
}

/// The header lines that are signed: `Host`, and those that tell S3 what to do, with names in lower case.
fn signed(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines.split(|&byte| byte == b'\n').filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        match name {
            b"Host" => Some((&b"host"[..], value)),
            _ => name.starts_with(b"x-amz-").then_some((name, value)),
        }
    })
}

fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// `20130524T000000Z`.
fn stamp(now: i64) -> [u8; 16] {
    let (day, time) = (now.div_euclid(86_400), now.rem_euclid(86_400));
    // The inverse of `days_before` (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let month_day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let mut text = *b"00000000T000000Z";
    let mut put = |at: usize, length: usize, mut number: i64| {
        for place in (at..at + length).rev() {
            text[place] = b'0' + (number % 10) as u8;
            number /= 10;
        }
    };
    put(0, 4, year);
    put(4, 2, month);
    put(6, 2, month_day);
    put(9, 2, time / 3600);
    put(11, 2, time / 60 % 60);
    put(13, 2, time % 60);
    text
}

/// Days from 1970-01-01 to this day of the Gregorian calendar (the same source).
pub(crate) fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_http::Method;

    const NOW: i64 = 1_369_353_600; // 2013-05-24

    fn signer(token: Option<&str>) -> Signer {
        let changing = Arc::new(Changing::default());
        let keys = [(ACCESS_KEY, "AKIAIOSFODNN7EXAMPLE"), (SECRET_KEY, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")];
        let keys = keys.into_iter().chain(token.map(|token| (TOKEN, token)));
        changing.give(keys.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(), None);
        Signer::new(changing, "us-east-1".into())
    }

    fn signed_at(signer: &Signer, target: &str, more: &str) -> String {
        let fields = format!("Host: examplebucket.s3.amazonaws.com\r\nAccept: */*\r\n{more}");
        let request =
            Unsigned { method: Method::Get, target: target.as_bytes(), fields: fields.as_bytes(), id: b"", body: b"" };
        let mut out = Vec::new();
        signer.sign_at(NOW, &request, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (time, text) in [(NOW, "20130524T000000Z"), (951_782_399, "20000228T235959Z"), (0, "19700101T000000Z")] {
            assert_eq!(std::str::from_utf8(&stamp(time)).unwrap(), text);
        }
        assert_eq!(days_before(2013, 5, 24) * 86_400, NOW);
    }

    /// Made with botocore 1.44.8 (`S3SigV4Auth`, `UNSIGNED-PAYLOAD`) at that time.
    #[test]
    fn signatures_are_those_of_botocore() {
        let lines = signed_at(&signer(None), "/test%24file.text", "");
        assert!(
            lines.contains("20130524/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, ")
        );
        assert!(
            lines.ends_with("Signature=85f2edea05a52a0c38d507019c29172e8528d6ae568a805f7ec2378280c7d288\r\n"),
            "{lines}"
        );
        let lines = signed_at(&signer(Some("tok")), "/?list-type=2&prefix=J", "x-amz-request-payer: requester\r\n");
        assert!(
            lines.ends_with("Signature=52ffd36f4093ada7716045cbe5ea814fdb3aa9bd907f909f7f65f380d26f39cb\r\n"),
            "{lines}"
        );
    }

    #[test]
    fn a_clock_is_corrected_and_not_for_ever() {
        let signer = signer(None);
        let ahead = |hours: u64| SystemTime::now() + Duration::from_secs(hours * 3600);
        assert!(!signer.correct(ahead(0)), "the clock is right: it is something else");
        assert!(signer.correct(ahead(1)) && signer.correct(ahead(1)), "one that was signed before");
        assert!(signer.correct(ahead(2)) && signer.correct(ahead(3)) && !signer.correct(ahead(4)));
    }
}

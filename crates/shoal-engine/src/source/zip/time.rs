//! Times of entries: those of DOS, which have no time zone, and those of NTFS.

use super::fields::flag;
use super::fields::{u16_at, u64_at};
use crate::source::archive::member::{Member, NO_TIME};

/// Seconds from 1601, the epoch of NTFS, to 1970.
const NTFS_EPOCH: i64 = 11_644_473_600;
/// NTFS counts units of 100 ns.
const NTFS_SECOND: u64 = 10_000_000;
const HOUR: i64 = 3600;

/// Returns seconds since 1970 as if there were no time zones; [`NO_TIME`] if the date or time does not exist.
pub(super) fn of_dos(time: u16, date: u16) -> i64 {
    let (day, month) = (i64::from(date & 31), i64::from(date >> 5 & 15));
    let year = 1980 + i64::from(date >> 9);
    let (second, minute, hour) = (i64::from(time & 31) * 2, i64::from(time >> 5 & 63), i64::from(time >> 11));
    if !(1..=12).contains(&month) || day == 0 || hour > 23 || minute > 59 || second > 59 {
        return NO_TIME;
    }
    // Days since 1970, with years that begin in March, so that a leap day is the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    days * 86_400 + hour * HOUR + minute * 60 + second
}

/// Returns when the contents were last written, from the NTFS field.
pub(super) fn of_ntfs(field: &[u8]) -> Option<i64> {
    let mut rest = field.get(4..)?;
    while let Some((head, behind)) = rest.split_at_checked(4) {
        let (value, behind) = behind.split_at_checked(usize::from(u16_at(head, 2)))?;
        if u16_at(head, 0) == 1 && value.len() >= 8 {
            return Some((u64_at(value, 0) / NTFS_SECOND) as i64 - NTFS_EPOCH);
        }
        rest = behind;
    }
    None
}

/// Converts local times by the time zone of this process.
#[derive(Default)]
pub(super) struct Clock {
    /// A local hour and its offset: many entries of one archive were written within the same hour.
    known: Option<(i64, i64)>,
}

impl Clock {
    /// Returns the time of an entry in seconds since 1970.
    pub fn settle(&mut self, member: &Member) -> i64 {
        let wall = member.modified;
        if wall == NO_TIME || member.flags & flag::LOCAL_TIME == 0 {
            return wall;
        }
        let hour = wall.div_euclid(HOUR);
        let off = match self.known {
            Some((known, off)) if known == hour => off,
            _ => {
                let off = offset(hour * HOUR);
                self.known = Some((hour, off));
                off
            }
        };
        wall + off
    }
}

/// Returns what to add to a local time. Asks twice, since near a change of the clocks the first answer is for another
/// hour. (`mktime` would look up the time zone in the file system each time.)
fn offset(wall: i64) -> i64 {
    -east(wall - east(wall))
}

/// Returns how far local time is ahead of UTC.
fn east(utc: i64) -> i64 {
    // SAFETY: a `tm` of zeros is one, and the call fills only what it is given.
    unsafe {
        let mut broken: libc::tm = std::mem::zeroed();
        match libc::localtime_r(&utc, &mut broken).is_null() {
            true => 0,
            false => broken.tm_gmtoff,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_dos_are_days_of_the_calendar_or_none() {
        let dos = |year: u16, month: u16, day: u16, hour: u16, minute: u16, second: u16| {
            of_dos((hour << 11) | (minute << 5) | (second / 2), ((year - 1980) << 9) | (month << 5) | day)
        };
        assert_eq!(dos(1980, 1, 1, 0, 0, 0), 315_532_800);
        assert_eq!(dos(2000, 2, 29, 23, 59, 58), 951_868_798);
        assert_eq!(dos(2024, 12, 31, 12, 30, 0), 1_735_648_200);
        assert_eq!([of_dos(0, 0), dos(2024, 13, 1, 0, 0, 0), dos(2024, 1, 1, 25, 0, 0)], [NO_TIME; 3]);
    }

    #[test]
    fn times_of_ntfs_and_of_walls() {
        let field = [&[0u8; 4][..], &[1, 0, 24, 0], &132_539_328_000_000_000u64.to_le_bytes(), &[0; 16]].concat();
        assert_eq!(of_ntfs(&field), Some(1_609_459_200));
        assert_eq!([of_ntfs(&field[..10]), of_ntfs(&[])], [None, None]);
        let mut clock = Clock::default();
        let mut member = Member { modified: 1_000_000_000, ..Member::default() };
        assert_eq!(clock.settle(&member), 1_000_000_000);
        member.flags = flag::LOCAL_TIME;
        assert!((clock.settle(&member) - 1_000_000_000).abs() <= 15 * HOUR, "a time zone");
        member.modified = NO_TIME;
        assert_eq!(clock.settle(&member), NO_TIME);
    }
}

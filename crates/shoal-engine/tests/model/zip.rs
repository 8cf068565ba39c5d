//! The plainest zip archive: entries stored, with a time.

pub fn zip<'a>(entries: impl Iterator<Item = (&'a str, &'a [u8], u64)>) -> Vec<u8> {
    let (mut bytes, mut directory, mut count) = (Vec::new(), Vec::new(), 0u16);
    for (name, data, time) in entries {
        let at = bytes.len() as u32;
        // 2001-01-01, so many times 2 s after midnight.
        let (time, date) = ((time % 30) as u16 | ((time / 30) as u16) << 5, (21u16 << 9) | (1 << 5) | 1);
        let mut common = Vec::new();
        for field in [20u16, 0x800, 0, time, date] {
            common.extend(field.to_le_bytes());
        }
        for field in [crc32fast::hash(data), data.len() as u32, data.len() as u32] {
            common.extend(field.to_le_bytes());
        }
        common.extend((name.len() as u16).to_le_bytes());
        common.extend(0u16.to_le_bytes());
        bytes.extend([&b"PK\x03\x04"[..], &common, name.as_bytes(), data].concat());
        directory.extend([&b"PK\x01\x02"[..], &0x0314u16.to_le_bytes(), &common, &[0; 6]].concat());
        directory.extend([&(0o100_644u32 << 16).to_le_bytes()[..], &at.to_le_bytes(), name.as_bytes()].concat());
        count += 1;
    }
    let (start, length) = (bytes.len() as u32, directory.len() as u32);
    bytes.extend(directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    bytes.extend([length.to_le_bytes(), start.to_le_bytes()].concat());
    bytes.extend([0, 0]);
    bytes
}

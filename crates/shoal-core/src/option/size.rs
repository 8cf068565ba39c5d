//! Sizes: a number of bytes, or text such as `256MiB`, `10M` (both binary, as in dd, curl and rsync) or `1.5 GB` (decimal, as
//! in SI).

/// Returns a size in bytes, or `None` if the text is not a size above 0. One that does not fit is the largest that does.
///
/// ```
/// use shoal_core::option::parse_size;
///
/// assert_eq!(parse_size("64M"), Some(64 << 20));
/// assert_eq!(parse_size("1.5 GB"), Some(1_500_000_000));
/// assert_eq!(parse_size("99999999 TiB"), Some(u64::MAX));
/// assert_eq!(parse_size("many"), None);
/// ```
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let number_end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let unit = bytes(unit.trim_start())?;
    let (whole, fraction) = number.split_once('.').map_or((number, None), |(whole, rest)| (whole, Some(rest)));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(whole) || !fraction.is_none_or(is_number) {
        return None;
    }
    let part = fraction.map_or(0.0, |digits| format!("0.{digits}").parse::<f64>().unwrap_or(0.0));
    let whole = whole.parse().unwrap_or(u64::MAX); // they are digits
    let size = whole.saturating_mul(unit).saturating_add((part * unit as f64) as u64);
    (size > 0).then_some(size)
}

/// How many bytes a unit has.
fn bytes(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let Some(power) = unit.chars().next().filter(|_| unit != "b") else { return Some(1) };
    let power = 1 + "kmgt".find(power)? as u32;
    match &unit[1..] {
        "" | "i" | "ib" => Some(1024_u64.pow(power)),
        "b" => Some(1000_u64.pow(power)),
        _ => None,
    }
}

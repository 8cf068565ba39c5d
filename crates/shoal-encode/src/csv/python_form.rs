//! Very large and very small floats in the form of Python's `repr`: the same digits as any shortest text, but an exponent
//! only from 1e16 on and below 1e-4, and then with a sign and two digits at least.

/// The longest text is 24 bytes: a sign, 17 digits, a point, and `e-308`.
const LONGEST: usize = 24;

/// A float's text in Python's form.
pub(super) struct PythonForm {
    bytes: [u8; LONGEST],
    length: usize,
}

impl PythonForm {
    /// Reformats the output of another formatter for a finite float that is not 0.
    #[cold]
    pub(super) fn of(printed: &[u8]) -> Self {
        let mut form = Self { bytes: [0; LONGEST], length: 0 };
        let (sign, printed) = match printed {
            [b'-', rest @ ..] => (b"-".as_slice(), rest),
            _ => (b"".as_slice(), printed),
        };
        form.push(sign);
        let (digits, count, exponent) = digits_of(printed);
        let digits = &digits[..count];
        if !(-4..16).contains(&exponent) {
            form.push(&digits[..1]);
            if count > 1 {
                form.push(b".");
                form.push(&digits[1..]);
            }
            form.push_exponent(exponent);
        } else if exponent < 0 {
            form.push(&b"0.000"[..1 + exponent.unsigned_abs() as usize]);
            form.push(digits);
        } else {
            let whole = exponent as usize + 1;
            form.push(&digits[..whole.min(count)]);
            form.push(&[b'0'; 16][..whole.saturating_sub(count)]);
            form.push(b".");
            form.push(if whole < count { &digits[whole..] } else { b"0" });
        }
        form
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn push(&mut self, text: &[u8]) {
        self.bytes[self.length..self.length + text.len()].copy_from_slice(text);
        self.length += text.len();
    }

    fn push_exponent(&mut self, exponent: i32) {
        let size = exponent.unsigned_abs();
        let digit = |unit: u32| b'0' + (size / unit % 10) as u8;
        self.push(if exponent < 0 { b"e-" } else { b"e+" });
        if size >= 100 {
            self.push(&[digit(100)]);
        }
        self.push(&[digit(10), digit(1)]);
    }
}

/// The digits without zeros around them, how many there are, and the power of ten that the first one counts.
fn digits_of(printed: &[u8]) -> ([u8; LONGEST], usize, i32) {
    let (mantissa, exponent) = match printed.iter().position(|byte| *byte == b'e') {
        Some(place) => (&printed[..place], parse_exponent(&printed[place + 1..])),
        None => (printed, 0),
    };
    let (mut digits, mut count, mut zeros) = ([0; LONGEST], 0, 0);
    let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    for byte in mantissa.iter().filter(|byte| **byte != b'.') {
        if count == 0 && *byte == b'0' {
            zeros += 1;
        } else {
            digits[count] = *byte;
            count += 1;
        }
    }
    while count > 1 && digits[count - 1] == b'0' {
        count -= 1;
    }
    (digits, count, exponent + point as i32 - 1 - zeros)
}

fn parse_exponent(text: &[u8]) -> i32 {
    let size =
        text.iter().filter(|byte| byte.is_ascii_digit()).fold(0, |size, byte| size * 10 + i32::from(byte - b'0'));
    if text.starts_with(b"-") { -size } else { size }
}

//! Makes bytes from strangers safe to show: the one function through which a name, a server's
//! words or a path reach a message, so that none of them can move a terminal's cursor. And numbers.

use std::fmt::Write;

/// Longest text shown of one name or one server message, in characters; the rest is counted.
const SHOWN_MAX: usize = 200;

/// `raw` as text without control, bidirectional or other invisible characters.
///
/// Such characters and bytes that are not UTF-8 come out as `\x1b` or `\u{202e}`, a backslash as `\\`;
/// everything else stands as it is. Long input is cut at 200 characters.
///
/// ```
/// assert_eq!(shoal_core::display::escape(b"x\x1b[31m"), "x\\x1b[31m");
/// ```
pub fn escape(raw: &[u8]) -> String {
    let mut text = String::with_capacity(raw.len().min(4 * SHOWN_MAX));
    let mut shown = 0;
    for chunk in raw.utf8_chunks() {
        for character in chunk.valid().chars() {
            if shown == SHOWN_MAX {
                let _ = write!(text, "… ({} bytes)", raw.len());
                return text;
            }
            shown += 1;
            push(&mut text, character);
        }
        for byte in chunk.invalid() {
            shown += 1;
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// A number as people write it: `20,000`.
///
/// ```
/// assert_eq!(shoal_core::display::count(1_020_304), "1,020,304");
/// ```
pub fn count(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", count(number / 1000), number % 1000),
    }
}

fn push(text: &mut String, character: char) {
    match character {
        '\\' => text.push_str("\\\\"),
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        // C0, DEL and C1.
        '\0'..='\x1f' | '\x7f'..='\u{9f}' => {
            let _ = write!(text, "\\x{:02x}", u32::from(character));
        }
        _ if invisible(character) => {
            let _ = write!(text, "\\u{{{:x}}}", u32::from(character));
        }
        _ => text.push(character),
    }
}

/// Characters that reorder or hide their neighbours (Unicode TR 36): bidi controls, zero-width and line separators, tags.
fn invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn no_control_or_bidi_character_survives() {
        for code in (0..0x2100).chain(0xfe00..0x10000).chain(0xe0000..0xe0100) {
            let Some(character) = char::from_u32(code) else {
                continue;
            };
            let text = escape(character.to_string().as_bytes());
            assert!(!text.chars().any(|c| c.is_control() || super::invisible(c)), "{code:x}");
        }
    }

    #[test]
    fn different_names_stay_different() {
        assert_ne!(escape(b"\\x1b"), escape(b"\x1b"));
        assert_eq!(escape("日本語".as_bytes()), "日本語");
        assert_eq!(escape(b"\xff"), "\\xff");
    }

    #[test]
    fn long_names_are_cut() {
        assert!(escape(&vec![b'a'; 5000]).len() < 300);
    }
}

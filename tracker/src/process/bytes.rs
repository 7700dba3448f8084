//! Names that the kernel hands out are bytes, and hostile. This is how they
//! are shown.

use std::fmt::{self, Write};

/// Shows bytes on one line of a terminal: printable UTF-8 as it is, all else
/// (control characters, escape sequences, direction overrides, broken UTF-8)
/// as `\n`, `\x1b`, `\u{202e}`. A backslash is doubled, so the output is
/// unambiguous.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a [u8]);

/// [`Escaped`] as a `String`, for JSON and for logs.
pub fn escape(bytes: &[u8]) -> String {
    // Nearly everything is plain, and a tree has tens of thousands of strings.
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'\\';
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.iter().all(is_plain) => text.to_owned(),
        _ => Escaped(bytes).to_string(),
    }
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for char in chunk.valid().chars() {
                match char {
                    '\\' => f.write_str("\\\\")?,
                    '\n' => f.write_str("\\n")?,
                    '\t' => f.write_str("\\t")?,
                    '\r' => f.write_str("\\r")?,
                    char if char.is_ascii_control() => write!(f, "\\x{:02x}", u32::from(char))?,
                    char if is_invisible(char) => write!(f, "{}", char.escape_unicode())?,
                    char => f.write_char(char)?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Characters that change how a terminal shows others, or that it does not show.
fn is_invisible(char: char) -> bool {
    char.is_control()
        || matches!(char,
            '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_can_show_is_left_alone() {
        assert_eq!(
            escape("grün 日本 x) R 1 (".as_bytes()),
            "grün 日本 x) R 1 ("
        );
    }

    #[test]
    fn what_could_forge_a_line_is_escaped() {
        assert_eq!(escape(b"a\nb\xff\x1b[2J\\"), "a\\nb\\xff\\x1b[2J\\\\");
        assert_eq!(escape("\u{202e}".as_bytes()), "\\u{202e}");
    }
}

//! The byte alphabet of byte-level BPE: each byte is spelled as one visible character.
//!
//! Source: GPT-2's `bytes_to_unicode`: the 188 printable bytes stand for themselves, the other 68 are numbered up from
//! U+0100 in the order of the bytes.

/// The bytes that a token's spelling stands for. A spelling with a character outside the alphabet (an added token with
/// a space, say) stands for its own UTF-8 bytes, as in the `ByteLevel` decoder.
pub(super) fn push_bytes(spelling: &str, out: &mut Vec<u8>) {
    let start = out.len();
    for letter in spelling.chars() {
        match byte_of(letter) {
            Some(byte) => out.push(byte),
            None => {
                out.truncate(start);
                out.extend_from_slice(spelling.as_bytes());
                return;
            }
        }
    }
}

fn byte_of(letter: char) -> Option<u8> {
    let code = u32::from(letter);
    match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => u8::try_from(code).ok(),
        0x100..=0x120 => u8::try_from(code - 0x100).ok(),
        0x121..=0x142 => u8::try_from(code - 0x121 + 0x7f).ok(),
        0x143 => Some(0xad),
        _ => None,
    }
}

/// The character that spells a byte.
pub(super) fn letter_of(byte: u8) -> char {
    let code = u32::from(byte);
    let letter = match code {
        0x00..=0x20 => code + 0x100,
        0x7f..=0xa0 => code - 0x7f + 0x121,
        0xad => 0x143,
        _ => code,
    };
    char::from_u32(letter).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_letter_and_back() {
        let mut seen = std::collections::HashSet::new();
        for byte in 0..=255u8 {
            let letter = letter_of(byte);
            assert_eq!(byte_of(letter), Some(byte), "{byte:#x}");
            assert!(seen.insert(letter));
        }
        assert_eq!(letter_of(b' '), 'Ġ');
        assert_eq!(letter_of(b'\n'), 'Ċ');
        assert_eq!(byte_of('Ń'), Some(0xad));
        assert_eq!(byte_of('ń'), None);
        assert_eq!(byte_of(' '), None);
    }

    #[test]
    fn a_spelling_outside_the_alphabet_is_its_own_bytes() {
        let mut bytes = Vec::new();
        push_bytes("Ġa", &mut bytes);
        push_bytes("Ġ b", &mut bytes);
        assert_eq!(bytes, " aĠ b".as_bytes());
    }
}

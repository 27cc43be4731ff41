//! Names: escaped for terminals and messages; as strings in JSON, with the bytes where a string can't hold them.

use serde::Serialize;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

/// The name with control characters and bytes that are no UTF-8 as `\n` or `\x1b`.
pub(crate) fn escaped(name: &OsStr) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                c if c.is_control() => {
                    let mut bytes = [0; 4];
                    push_hex(&mut text, c.encode_utf8(&mut bytes).as_bytes());
                }
                c => text.push(c),
            }
        }
        push_hex(&mut text, chunk.invalid());
    }
    text
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for b in bytes {
        // Writing to a string can't fail.
        let _ = write!(text, "\\x{b:02x}");
    }
}

/// A name or path in JSON: `path`, and `path_bytes` only if the path is not UTF-8.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub(crate) struct JsonName {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<Vec<u8>>,
}

impl JsonName {
    pub(crate) fn new(path: impl AsRef<OsStr>) -> Self {
        let path = path.as_ref();
        let bytes = || path.as_bytes().to_vec();
        Self { path: path.to_string_lossy().into_owned(), path_bytes: path.to_str().is_none().then(bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tricks_are_escaped() {
        let name = |b: &[u8]| escaped(OsStr::from_bytes(b));
        assert_eq!(name("plain é".as_bytes()), "plain é");
        assert_eq!(name(b"a\nb\x1b[31m\x7f"), "a\\nb\\x1b[31m\\x7f");
        assert_eq!(name(b"\xffx\xc3"), "\\xffx\\xc3");
        assert_eq!(name("\u{9b}".as_bytes()), "\\xc2\\x9b");
    }

    #[test]
    fn json_keeps_all_bytes() {
        assert_eq!(JsonName::new("é").path_bytes, None);
        assert_eq!(JsonName::new(OsStr::from_bytes(b"\xff")).path_bytes, Some(vec![0xff]));
    }
}

//! The rows of COPY … FROM STDIN, as they stand behind the statement: lines to one with `\.` only.

use std::io::{self, BufRead, Read};

/// What ends the rows.
const END: &[u8] = b"\\.";

/// The lines of an input up to the end of the rows, which is read as well, or else to the end of the input. What
/// follows stays in the input.
pub struct CopiedLines<R> {
    input: R,
    line: Vec<u8>,
    /// Bytes of the line that were given.
    given: usize,
    is_over: bool,
    lines: u64,
}

impl<R: BufRead> CopiedLines<R> {
    /// The rows that the input begins with.
    pub fn new(input: R) -> Self {
        Self { input, line: Vec::new(), given: 0, is_over: false, lines: 0 }
    }

    /// Passes what is left of the rows, and gives the number of all lines. Fails if the input cannot be read.
    pub fn pass(mut self) -> io::Result<u64> {
        while !self.is_over {
            self.next_line()?;
        }
        Ok(self.lines)
    }

    fn next_line(&mut self) -> io::Result<()> {
        self.line.clear();
        self.given = 0;
        let read = self.input.read_until(b'\n', &mut self.line)?;
        self.lines += u64::from(read > 0);
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        self.is_over = read == 0 || line.strip_suffix(b"\r").unwrap_or(line) == END;
        if self.is_over {
            self.line.clear();
        }
        Ok(())
    }
}

impl<R: BufRead> Read for CopiedLines<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.given == self.line.len() && !self.is_over {
            self.next_line()?;
        }
        let rest = &self.line[self.given..];
        let length = rest.len().min(out.len());
        out[..length].copy_from_slice(&rest[..length]);
        self.given += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_end_at_their_mark_or_with_the_input() {
        for (text, rows, rest, lines) in [
            ("1\ta\n2\tb\n\\.\nSELECT 1;\n", "1\ta\n2\tb\n", "SELECT 1;\n", 3),
            ("1\r\n\\.\r\nx", "1\r\n", "x", 2),
            ("1\n2", "1\n2", "", 2),
            ("\\.", "", "", 1),
            ("\\N\n\\.x\n", "\\N\n\\.x\n", "", 2),
            ("", "", "", 0),
        ] {
            let mut input = text.as_bytes();
            let mut copied = CopiedLines::new(&mut input);
            let mut read = String::new();
            copied.read_to_string(&mut read).unwrap();
            assert_eq!((read.as_str(), copied.pass().unwrap()), (rows, lines), "{text:?}");
            assert_eq!(input, rest.as_bytes(), "{text:?}");
            let mut input = text.as_bytes();
            assert_eq!(CopiedLines::new(&mut input).pass().unwrap(), lines);
            assert_eq!(input, rest.as_bytes(), "{text:?}");
        }
    }
}

//! Block request sequences: what a process asks of its files, in the order in which it asks (Wang & Cherniack 2006,
//! section 1), and their text form.
//!
//! The text form is what the engine writes when it logs its requests. Lines that are empty or begin with `#` are
//! skipped. The first other line says how large a block is; every further one is one request:
//!
//! ```text
//! block 1048576                  a block is 1 MiB
//! r lineitem 0                   block 0 of the file lineitem is read
//! w run-0.0 0                    block 0 of run-0.0 is written, whole
//! f run-0.0 0                    what block 0 of run-0.0 holds is of no more use
//! w run-1.0 0 over run-0.0 0     block 0 of run-1.0 is written where run-0.0 had its block 0 (block recycling)
//! f run-1.0                      the file is deleted: all its blocks are of no more use
//! ```
//!
//! Always true: no request reads a block that was freed or whose place was taken, because [`Sequence`] refuses to hold
//! one. A block that is read before it is written existed before the sequence began. A block that was freed may be
//! written again; it keeps its place until another block is written over it.

use std::collections::HashMap;
use std::io::BufRead;

use diligence_base::{Error, Result};

/// The largest number of blocks in all files, counting the gaps: 256 TiB of 1 MiB blocks. Keeps a wrong number in a log
/// from filling memory, and addresses within 32 bits.
const BLOCKS_MAX: usize = 1 << 28;

/// A block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// The file, as [`Sequence::file`] numbers it.
    pub file: u32,
    /// The block's number in its file, from 0.
    pub number: u32,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The block is read.
    Read(Block),
    /// The block is written, whole: nothing of what was there is kept.
    Write {
        /// The block.
        block: Block,
        /// The block whose place on disk it takes, if it does not take a new one or its own.
        over: Option<Block>,
    },
    /// What the block holds is of no more use.
    Free(Block),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No request named it yet.
    Unseen,
    /// It holds something.
    Live,
    /// What it held is of no more use; it still has a place.
    Freed,
    /// Another block was written over it.
    Taken,
}

struct File {
    name: String,
    states: Vec<State>,
}

/// Requests in their order, with the names of their files.
pub struct Sequence {
    block_bytes: u64,
    files: Vec<File>,
    numbers: HashMap<String, u32>,
    requests: Vec<Request>,
    /// The states of all files.
    blocks: usize,
}

impl Sequence {
    /// A sequence without requests. `block_bytes`: the size of every block in bytes.
    pub fn new(block_bytes: u64) -> Self {
        Self { block_bytes, files: Vec::new(), numbers: HashMap::new(), requests: Vec::new(), blocks: 0 }
    }

    /// The size of a block in bytes.
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// The requests, first to last.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// How many files the requests name.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// The name of a file.
    pub fn name(&self, file: u32) -> &str {
        &self.files[file as usize].name
    }

    /// The number of the file with this name; new names are numbered in their order.
    pub fn file(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.files.len() as u32;
        self.files.push(File { name: name.to_owned(), states: Vec::new() });
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// Appends a read. An input error if the block was freed or its place taken.
    pub fn read(&mut self, file: u32, number: u32) -> Result<()> {
        let block = Block { file, number };
        let state = self.state(block)?;
        match *state {
            State::Unseen | State::Live => *state = State::Live,
            State::Freed => return Err(self.refuse(block, "is read after it was freed")),
            State::Taken => return Err(self.refuse(block, "is read after another block was written over it")),
        }
        self.requests.push(Request::Read(block));
        Ok(())
    }

    /// Appends a write to a new place, or to the block's own place if it has one. An input error if that was taken.
    pub fn write(&mut self, file: u32, number: u32) -> Result<()> {
        let block = Block { file, number };
        let state = self.state(block)?;
        if *state == State::Taken {
            return Err(self.refuse(block, "is written in place after another block was written over it"));
        }
        *state = State::Live;
        self.requests.push(Request::Write { block, over: None });
        Ok(())
    }

    /// Appends a write of a block to the place of `old`, which ends. An input error if `old` has no place, or if the
    /// block has one of its own.
    pub fn write_over(&mut self, file: u32, number: u32, old: Block) -> Result<()> {
        let block = Block { file, number };
        if !matches!(*self.state(old)?, State::Live | State::Freed) {
            return Err(self.refuse(old, "has no place that another block could be written to"));
        }
        if !matches!(*self.state(block)?, State::Unseen | State::Taken) {
            return Err(self.refuse(block, "has a place already and cannot be written over another block"));
        }
        *self.state(old)? = State::Taken;
        *self.state(block)? = State::Live;
        self.requests.push(Request::Write { block, over: Some(old) });
        Ok(())
    }

    /// Appends that a block is of no more use. An input error if it was freed before.
    pub fn free(&mut self, file: u32, number: u32) -> Result<()> {
        let block = Block { file, number };
        let state = self.state(block)?;
        match *state {
            State::Unseen | State::Live => *state = State::Freed,
            State::Freed => return Err(self.refuse(block, "is freed twice")),
            State::Taken => return Err(self.refuse(block, "is freed after another block was written over it")),
        }
        self.requests.push(Request::Free(block));
        Ok(())
    }

    /// Appends that all blocks of a file are of no more use, by ascending number; those that are not live are passed
    /// by.
    pub fn free_file(&mut self, file: u32) {
        for (number, state) in self.files[file as usize].states.iter_mut().enumerate() {
            if *state == State::Live {
                *state = State::Freed;
                self.requests.push(Request::Free(Block { file, number: number as u32 }));
            }
        }
    }

    /// The first requests of this sequence as a sequence of its own, up to the given number of reads and writes.
    pub fn prefix(&self, transfers: usize) -> Result<Self> {
        let mut prefix = Self::new(self.block_bytes);
        let mut left = transfers;
        for request in &self.requests {
            let transfer = !matches!(request, Request::Free(_));
            if transfer && left == 0 {
                break;
            }
            left -= usize::from(transfer);
            prefix.append(request, |file| self.name(file))?;
        }
        Ok(prefix)
    }

    fn append<'a>(&mut self, request: &Request, name: impl Fn(u32) -> &'a str) -> Result<()> {
        match *request {
            Request::Read(block) => {
                let file = self.file(name(block.file));
                self.read(file, block.number)
            }
            Request::Write { block, over: None } => {
                let file = self.file(name(block.file));
                self.write(file, block.number)
            }
            Request::Write { block, over: Some(old) } => {
                let old = Block { file: self.file(name(old.file)), ..old };
                let file = self.file(name(block.file));
                self.write_over(file, block.number, old)
            }
            Request::Free(block) => {
                let file = self.file(name(block.file));
                self.free(file, block.number)
            }
        }
    }

    fn state(&mut self, block: Block) -> Result<&mut State> {
        let index = block.number as usize;
        let length = self.files[block.file as usize].states.len();
        if index >= length {
            if self.blocks + index + 1 - length > BLOCKS_MAX {
                return Err(
                    self.refuse(block, &format!("is beyond the {BLOCKS_MAX} blocks that all files may have together"))
                );
            }
            self.blocks += index + 1 - length;
            self.files[block.file as usize].states.resize(index + 1, State::Unseen);
        }
        Ok(&mut self.files[block.file as usize].states[index])
    }

    fn refuse(&self, block: Block, why: &str) -> Error {
        Error::input(format!("block {} of {} {why}", block.number, self.name(block.file)))
    }

    /// Reads the text form. A file error with the number of the line if a line is not a request, or one that no process
    /// can make.
    pub fn parse(text: impl BufRead) -> Result<Self> {
        let mut sequence: Option<Self> = None;
        for (index, line) in text.lines().enumerate() {
            let at = |error: Error| Error::file(format!("line {}: {}", index + 1, error.message()));
            let line = line.map_err(|error| at(Error::file(error.to_string())))?;
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.is_empty() || words[0].starts_with('#') {
                continue;
            }
            match &mut sequence {
                Some(sequence) => sequence.parse_request(&words).map_err(at)?,
                None => sequence = Some(Self::new(parse_block_bytes(&words).map_err(at)?)),
            }
        }
        sequence
            .ok_or_else(|| Error::file("the log is empty: its first line is `block` and the size of a block in bytes"))
    }

    fn parse_request(&mut self, words: &[&str]) -> Result<()> {
        match *words {
            ["r", file, number] => {
                let file = self.file(file);
                self.read(file, parse_number(number)?)
            }
            ["w", file, number] => {
                let file = self.file(file);
                self.write(file, parse_number(number)?)
            }
            ["w", file, number, "over", old_file, old_number] => {
                let old = Block { file: self.file(old_file), number: parse_number(old_number)? };
                let file = self.file(file);
                self.write_over(file, parse_number(number)?, old)
            }
            ["f", file, number] => {
                let file = self.file(file);
                self.free(file, parse_number(number)?)
            }
            ["f", file] => {
                let known = self.numbers.get(file).copied();
                let file = known.ok_or_else(|| Error::input(format!("no request before this one names {file}")))?;
                self.free_file(file);
                Ok(())
            }
            _ => Err(Error::input(format!(
                "`{}` is not a request: `r FILE BLOCK`, `w FILE BLOCK [over FILE BLOCK]` or `f FILE [BLOCK]`",
                words.join(" ")
            ))),
        }
    }
}

fn parse_block_bytes(words: &[&str]) -> Result<u64> {
    match *words {
        ["block", bytes] => match bytes.parse() {
            Ok(bytes) if bytes > 0 => Ok(bytes),
            _ => Err(Error::input(format!("`{bytes}` is not a size of a block in bytes"))),
        },
        _ => Err(Error::input(format!(
            "`{}` stands where `block` and the size of a block in bytes must stand",
            words.join(" ")
        ))),
    }
}

fn parse_number(word: &str) -> Result<u32> {
    word.parse().map_err(|_| Error::input(format!("`{word}` is not a block number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(file: u32, number: u32) -> Block {
        Block { file, number }
    }

    #[test]
    fn a_line_is_a_request() -> Result<()> {
        let log = "block 4096\nr in 0\nw run-0 0\nr run-0 0\nf run-0 0\nw run-1 0 over run-0 0\nw run-1 1\nf run-1 0\n";
        let sequence = Sequence::parse(log.as_bytes())?;
        assert_eq!(sequence.block_bytes(), 4096);
        assert_eq!([0, 1, 2].map(|file| sequence.name(file)), ["in", "run-0", "run-1"]);
        assert_eq!(
            sequence.requests(),
            [
                Request::Read(block(0, 0)),
                Request::Write { block: block(1, 0), over: None },
                Request::Read(block(1, 0)),
                Request::Free(block(1, 0)),
                Request::Write { block: block(2, 0), over: Some(block(1, 0)) },
                Request::Write { block: block(2, 1), over: None },
                Request::Free(block(2, 0)),
            ]
        );
        Ok(())
    }

    #[test]
    fn a_prefix_ends_before_the_next_transfer() -> Result<()> {
        let sequence = Sequence::parse("block 1\nr in 0\nw a 0\nf a 0\nw b 0 over a 0\nf b 0".as_bytes())?;
        assert_eq!(sequence.prefix(2)?.requests(), &sequence.requests()[..3]);
        assert_eq!(sequence.prefix(9)?.requests(), sequence.requests());
        Ok(())
    }

    #[test]
    fn comments_are_skipped_and_a_deleted_file_frees_what_is_left_of_it() -> Result<()> {
        let sequence = Sequence::parse("# a log\n\nblock 1\nw a 0\nw a 1\nw a 2\nf a 1\nf a\n".as_bytes())?;
        assert_eq!(sequence.requests()[3..], [1, 0, 2].map(|number| Request::Free(block(0, number))));
        Ok(())
    }

    #[test]
    fn wrong_lines_are_refused_with_their_number() {
        let cases = [
            ("", "the log is empty: its first line is `block` and the size of a block in bytes"),
            ("r a 0", "line 1: `r a 0` stands where `block` and the size of a block in bytes must stand"),
            ("block 0", "line 1: `0` is not a size of a block in bytes"),
            (
                "block 1\nx a 0",
                "line 2: `x a 0` is not a request: `r FILE BLOCK`, `w FILE BLOCK [over FILE BLOCK]` or `f FILE [BLOCK]`",
            ),
            ("block 1\n# note\nr a -1", "line 3: `-1` is not a block number"),
            ("block 1\nf a", "line 2: no request before this one names a"),
            ("block 1\nw a 0\nf a 0\nr a 0", "line 4: block 0 of a is read after it was freed"),
            ("block 1\nw a 0\nf a 0\nf a 0", "line 4: block 0 of a is freed twice"),
            ("block 1\nw b 0 over a 0", "line 2: block 0 of a has no place that another block could be written to"),
            (
                "block 1\nw a 0\nw b 0\nw b 0 over a 0",
                "line 4: block 0 of b has a place already and cannot be written over another block",
            ),
            (
                "block 1\nw a 0\nw b 0 over a 0\nr a 0",
                "line 4: block 0 of a is read after another block was written over it",
            ),
            (
                "block 1\nw a 0\nw b 0 over a 0\nw a 0",
                "line 4: block 0 of a is written in place after another block was written over it",
            ),
            (
                "block 1\nr a 0\nr b 268435455",
                "line 3: block 268435455 of b is beyond the 268435456 blocks that all files may have together",
            ),
        ];
        for (text, message) in cases {
            let error = Sequence::parse(text.as_bytes()).err().expect(text);
            assert_eq!(error.message(), message, "{text}");
        }
    }
}

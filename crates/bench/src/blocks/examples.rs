//! The paper's worked examples (Wang & Cherniack 2006): Figure 2, Tables 1 and 2 (a sort of four blocks) and Table 3
//! (partitions of 19 blocks), made by the same generators and the same cache as everything else here.
//!
//! How the paper is read, where it leaves room:
//!
//! - *Figure 2* ends in dots. The sequences here go on to the end of the sort; the tables show their first 16 requests.
//!   The sixth request of Figure 2b is printed `W B'`; Table 1b and the text have `R B'`, which is what is meant. The
//!   EMS of the figure does not recycle: it is [`sort::EMS_NR`].
//! - *Table 1b* evicts B' to read C and does not write it, although only A' was overwritten (by E2). "MMS no longer has
//!   a need for A' and B' once run E has been constructed, and thus need not ever flush A' or B'" (section 1.1): what
//!   was consumed is of no more use, whether or not something was written over it yet.
//! - *Table 2a* can be followed only partly. It evicts E2 rather than E1 to read C', as an optimal policy does that
//!   knows that the next merge reads E1 before E2. Then E2, which no disk has, must be written, as Table 2b does in the
//!   same situation and Table 1a too; but Table 2a does not write it, and the text counts 6. Written, it is 7 against 5
//!   in Table
//!   2. Under the other rule, that nobody wants E and F after the last request shown, it is 6 against 4. The 6 of Table
//!   2a and the 5 of Table 2b each follow from one of the two rules. No rule gives both: either way four blocks must be
//!   read, EMS must write one of the first runs and read it back, and three pages cannot hold the four blocks of E and
//!   F, so that one of them is written in both sorts or in none. By either rule MMS saves two I/Os, not one.
//! - *Table 3* is a picture that has no text. The text around it leaves little: partition 0 has T1, T4, ... and five
//!   tuples in all; T3, T6, T9 and T12 are of partition 2; HHJ's files have four separate groups each, so its other 14
//!   tuples alternate between two partitions; HHJ's first requests that are not followed by an adjacent block are those
//!   of T2 and T5. The simplest order that fits puts T1 to T13 in partitions 0, 1, 2 in turn and T14 to T19 in 1 and 2
//!   in turn, and from it the rest follows: SHJ's groups of partition 2 at 7 and 9 and of partition 0 at 11 and 13, 7
//!   requests against 4 without an adjacent successor, 8 seeks against 6. *Adjacent* is meant in both directions:
//!   otherwise HHJ would have 10.

use diligence_base::Result;

use crate::blocks::cache::{Cache, Move, Replacement, Replay};
use crate::blocks::disk::{Act, Allocation, Placed};
use crate::blocks::join::{self, Method, Relation};
use crate::blocks::sequence::{Block, Request, Sequence};
use crate::blocks::sort::{self, Sort, Variant};

/// The requests that Figure 2 and Tables 1 and 2 show.
const SHOWN: usize = 16;
/// The pages of the buffer in Tables 1 and 2.
const PAGES: u32 = 3;

/// One of the paper's counts beside ours.
pub struct Comparison {
    /// What is counted.
    pub what: &'static str,
    /// EMS or HHJ.
    pub plain: u64,
    /// MMS or SHJ.
    pub refined: u64,
    /// The same in the paper.
    pub paper: (u64, u64),
}

/// All counts of the examples.
pub fn comparisons() -> Result<Vec<Comparison>> {
    let both = |replacement, rest| -> Result<(u64, u64)> {
        Ok((sort_ios(sort::EMS_NR, replacement, rest)?, sort_ios(sort::MMS, replacement, rest)?))
    };
    let lru = both(Replacement::Lru, Rest::Wanted)?;
    let wanted = both(Replacement::Optimal, Rest::Wanted)?;
    let unwanted = both(Replacement::Optimal, Rest::Unwanted)?;
    let (hybrid, sorted) = (partitioned(Method::Hybrid)?, partitioned(Method::Sorted)?);
    let row = |what, ours: (u64, u64), paper| Comparison { what, plain: ours.0, refined: ours.1, paper };
    Ok(vec![
        row("Table 1: I/Os, LRU", lru, (14, 6)),
        row("Table 2: I/Os, OPT, as printed: E and F wanted later in b only", (unwanted.0, wanted.1), (6, 5)),
        row("Table 2: I/Os, OPT, E and F wanted later", wanted, (6, 5)),
        row("Table 2: I/Os, OPT, E and F not wanted later", unwanted, (6, 5)),
        row("Table 3: seeks to read the partitions", (hybrid.seeks(), sorted.seeks()), (8, 6)),
        row("Table 3: requests without an adjacent successor", (hybrid.breaks(), sorted.breaks()), (7, 4)),
    ])
}

/// Tables 1 (LRU) or 2 (OPT): for each request of EMS and of MMS the request, the buffer after it and its I/Os.
pub fn buffer_table(replacement: Replacement) -> Result<Vec<Vec<String>>> {
    let rows = |variant| -> Result<Vec<Row>> {
        trace(&sort_sequence(variant, Rest::Wanted)?, Cache::flushing_on_eviction(PAGES, replacement))
    };
    let (plain, refined) = (rows(sort::EMS_NR)?, rows(sort::MMS)?);
    let cells = |row: Row| [row.request, row.buffer, row.moves.join(" ")];
    let both = plain.into_iter().zip(refined).take(SHOWN);
    Ok(both.map(|(plain, refined)| cells(plain).into_iter().chain(cells(refined)).collect()).collect())
}

/// What becomes of the runs that are there after the requests shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// The sort goes on and reads them.
    Wanted,
    /// They are deleted.
    Unwanted,
}

/// The sort of Figures 1 and 2: blocks A to D, one in memory at a time, two runs merged at a time.
fn sort_sequence(variant: Variant, rest: Rest) -> Result<Sequence> {
    let sequence = sort::requests(Sort { input_blocks: 4, run_blocks: 1, fan_in: 2, drops_input: false }, variant, 1)?;
    if rest == Rest::Wanted {
        return Ok(sequence);
    }
    let mut shown = sequence.prefix(SHOWN)?;
    for file in 1..shown.file_count() as u32 {
        shown.free_file(file);
    }
    Ok(shown)
}

fn sort_ios(variant: Variant, replacement: Replacement, rest: Rest) -> Result<u64> {
    let sequence = sort_sequence(variant, rest)?;
    let rows = trace(&sequence, Cache::flushing_on_eviction(PAGES, replacement))?;
    Ok(rows.iter().take(SHOWN).map(|row| row.moves.len() as u64).sum())
}

/// A row of Tables 1 and 2.
struct Row {
    /// `R A'` or `W E1`.
    request: String,
    /// The buffer after it: `A A' B`.
    buffer: String,
    /// The I/Os: `O A'`, `I C`.
    moves: Vec<String>,
}

/// A row for every read and write.
fn trace(sequence: &Sequence, cache: Cache) -> Result<Vec<Row>> {
    let placed = Placed::new(sequence, Allocation::Groups(1))?;
    let mut replay = Replay::new(&placed, cache);
    // What each address holds: recycled addresses change hands, and a block moves out under its own name.
    let mut holds = vec![String::new(); placed.address_count as usize];
    let mut rows = Vec::new();
    for (request, step) in sequence.requests().iter().zip(&placed.steps) {
        let address = step.address as usize;
        let label = match *request {
            Request::Read(block) | Request::Write { block, .. } | Request::Free(block) => label(sequence, block),
        };
        holds[address].clone_from(&label);
        let moves: Vec<Move> = replay.advance().unwrap_or_default().to_vec();
        let moves = moves.iter().map(|step| match *step {
            Move::In(address) => format!("I {}", holds[address as usize]),
            Move::Out(address) => format!("O {}", holds[address as usize]),
        });
        let request = match step.act {
            Act::Read => format!("R {label}"),
            Act::Write => format!("W {label}"),
            Act::Free => continue,
        };
        let buffer: Vec<&str> = replay.pages().map(|address| holds[address as usize].as_str()).collect();
        rows.push(Row { request, buffer: buffer.join(" "), moves: moves.collect() });
    }
    Ok(rows)
}

/// The paper's name of a block: A to D of the input, A' to D' of the first runs, E1 and E2, F1 and F2, G1 to G4.
fn label(sequence: &Sequence, block: Block) -> String {
    let letter = |number: u32| char::from(b'A' + number as u8);
    match sequence.name(block.file) {
        "input" => letter(block.number).to_string(),
        name => {
            let (level, number) = name.trim_start_matches("run-").split_once('.').unwrap_or_default();
            match (level, number.parse().unwrap_or(0)) {
                ("0", number) => format!("{}'", letter(number)),
                ("1", number) => format!("{}{}", letter(4 + number), block.number + 1),
                (_, number) => format!("{}{}", letter(6 + number), block.number + 1),
            }
        }
    }
}

/// The partitions of T1 to T19.
const TUPLES: [u32; 19] = [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 1, 2, 1, 2];
/// Memory pages in Table 3.
const MEMORY: u32 = 7;
/// Blocks that the file system gives out at a time in Table 3.
const GROUP: u32 = 2;

/// Table 3 for one of the joins.
struct Partitioned {
    placed: Placed,
    files: Vec<u32>,
}

fn partitioned(method: Method) -> Result<Partitioned> {
    let mut sequence = Sequence::new(1);
    let count = join::partition_count(TUPLES.len() as u32, MEMORY)?;
    let relation = Relation { name: "R", partitions: &TUPLES, records_per_block: 1 };
    join::partition(&mut sequence, &relation, method, count, MEMORY)?;
    let files = (0..count).map(|number| sequence.file(&join::partition_name("R", number))).collect();
    Ok(Partitioned { placed: Placed::new(&sequence, Allocation::Groups(GROUP))?, files })
}

impl Partitioned {
    /// To read every partition in order.
    fn seeks(&self) -> u64 {
        self.files.iter().map(|file| self.placed.regions(*file).len() as u64).sum()
    }

    /// Writes that are not followed by one of an adjacent block.
    fn breaks(&self) -> u64 {
        self.writes().windows(2).filter(|pair| pair[0].abs_diff(pair[1]) != 1).count() as u64
    }

    /// The block numbers written, from 1 as the paper counts them.
    fn writes(&self) -> Vec<u32> {
        let steps = self.placed.steps.iter().filter(|step| step.act == Act::Write);
        steps.map(|step| step.address - self.placed.first_new + 1).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of a table: request, buffer, I/Os.
    fn table(variant: Variant, replacement: Replacement, rest: Rest) -> Result<Vec<String>> {
        let sequence = sort_sequence(variant, rest)?;
        let rows = trace(&sequence, Cache::flushing_on_eviction(PAGES, replacement))?;
        let rows = rows.iter().take(SHOWN);
        Ok(rows
            .map(|row| format!("{} | {} | {}", row.request, row.buffer, row.moves.join(" ")).trim().into())
            .collect())
    }

    fn assert_table(ours: Vec<String>, paper: &str) {
        let paper: Vec<&str> = paper.trim().lines().map(str::trim).collect();
        assert_eq!(ours.join("\n"), paper.join("\n"));
    }

    #[test]
    fn figure_2() -> Result<()> {
        let requests = |variant| -> Result<String> {
            let rows = table(variant, Replacement::Lru, Rest::Wanted)?;
            let requests: Vec<&str> = rows.iter().filter_map(|row| row.split(" | ").next()).collect();
            Ok(requests.join(", "))
        };
        assert_eq!(
            requests(sort::EMS_NR)?,
            "R A, W A', R B, W B', R C, W C', R D, W D', R A', R B', W E1, W E2, R C', R D', W F1, W F2"
        );
        assert_eq!(
            requests(sort::MMS)?,
            "R A, W A', R B, W B', R A', R B', W E1, W E2, R C, W C', R D, W D', R C', R D', W F1, W F2"
        );
        Ok(())
    }

    #[test]
    fn table_1a() -> Result<()> {
        assert_table(
            table(sort::EMS_NR, Replacement::Lru, Rest::Wanted)?,
            "R A | A | I A
             W A' | A A' |
             R B | A A' B | I B
             W B' | B' A' B |
             R C | B' C B | O A' I C
             W C' | B' C C' |
             R D | D C C' | O B' I D
             W D' | D D' C' |
             R A' | D D' A' | O C' I A'
             R B' | B' D' A' | I B'
             W E1 | B' E1 A' | O D'
             W E2 | B' E1 E2 |
             R C' | C' E1 E2 | I C'
             R D' | C' D' E2 | O E1 I D'
             W F1 | C' D' F1 | O E2
             W F2 | F2 D' F1 |",
        );
        Ok(())
    }

    #[test]
    fn table_1b() -> Result<()> {
        assert_table(
            table(sort::MMS, Replacement::Lru, Rest::Wanted)?,
            "R A | A | I A
             W A' | A A' |
             R B | A A' B | I B
             W B' | B' A' B |
             R A' | B' A' B |
             R B' | B' A' B |
             W E1 | B' A' E1 |
             W E2 | B' E2 E1 |
             R C | C E2 E1 | I C
             W C' | C E2 C' | O E1
             R D | C D C' | O E2 I D
             W D' | D' D C' |
             R C' | D' D C' |
             R D' | D' D C' |
             W F1 | D' F1 C' |
             W F2 | D' F1 F2 |",
        );
        Ok(())
    }

    /// Request for request as printed, but for the write of E2 that Table 2a leaves out when it reads C'.
    #[test]
    fn table_2a() -> Result<()> {
        assert_table(
            table(sort::EMS_NR, Replacement::Optimal, Rest::Wanted)?,
            "R A | A | I A
             W A' | A A' |
             R B | A A' B | I B
             W B' | B' A' B |
             R C | B' A' C | I C
             W C' | B' A' C' |
             R D | B' A' D | O C' I D
             W D' | B' A' D' |
             R A' | B' A' D' |
             R B' | B' A' D' |
             W E1 | B' E1 D' |
             W E2 | E2 E1 D' |
             R C' | C' E1 D' | O E2 I C'
             R D' | C' E1 D' |
             W F1 | F1 E1 D' |
             W F2 | F1 E1 F2 |",
        );
        Ok(())
    }

    /// The I/Os as printed, request for request: those of runs that nobody wants after the last request.
    #[test]
    fn table_2a_without_a_later_use_of_the_runs() -> Result<()> {
        let rows = table(sort::EMS_NR, Replacement::Optimal, Rest::Unwanted)?;
        let ios: Vec<&str> = rows.iter().filter_map(|row| row.rsplit("| ").next()).collect();
        let printed: Vec<&str> = ios.into_iter().filter(|moves| !moves.is_empty() && !moves.ends_with('|')).collect();
        assert_eq!(printed, ["I A", "I B", "I C", "O C' I D", "I C'"]);
        Ok(())
    }

    #[test]
    fn table_2b() -> Result<()> {
        assert_table(
            table(sort::MMS, Replacement::Optimal, Rest::Wanted)?,
            "R A | A | I A
             W A' | A A' |
             R B | A A' B | I B
             W B' | B' A' B |
             R A' | B' A' B |
             R B' | B' A' B |
             W E1 | B' A' E1 |
             W E2 | B' E2 E1 |
             R C | C E2 E1 | I C
             W C' | C' E2 E1 |
             R D | C' D E1 | O E2 I D
             W D' | C' D' E1 |
             R C' | C' D' E1 |
             R D' | C' D' E1 |
             W F1 | F1 D' E1 |
             W F2 | F1 F2 E1 |",
        );
        Ok(())
    }

    #[test]
    fn counts_of_tables_1_2_and_3() -> Result<()> {
        let counts: Vec<(u64, u64)> = comparisons()?.iter().map(|row| (row.plain, row.refined)).collect();
        assert_eq!(counts, [(14, 6), (6, 5), (7, 5), (6, 4), (8, 6), (7, 4)]);
        Ok(())
    }

    #[test]
    fn table_3b() -> Result<()> {
        let hybrid = partitioned(Method::Hybrid)?;
        assert_eq!(hybrid.writes(), [1, 3, 2, 4, 5, 7, 6, 8, 9, 11, 10, 12, 13, 15]);
        let regions: Vec<usize> = hybrid.files.iter().map(|file| hybrid.placed.regions(*file).len()).collect();
        assert_eq!(regions, [0, 4, 4]);
        Ok(())
    }

    #[test]
    fn table_3c() -> Result<()> {
        let sorted = partitioned(Method::Sorted)?;
        // T1 T4, T2 T5 T8, T3 T6 T9 T12, T7 T10 T13, T11 T14 T16 T18, T15 T17 T19.
        assert_eq!(sorted.writes(), [1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 6, 15, 16, 17, 19, 20, 21]);
        let regions: Vec<usize> = sorted.files.iter().map(|file| sorted.placed.regions(*file).len()).collect();
        assert_eq!(regions, [2, 2, 2]);
        Ok(())
    }
}

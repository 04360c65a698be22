//! A bad day of a server: 500 clients, half of which only sit there; some read slowly, some leave in the middle, some
//! send nonsense or texts of megabytes; and fifty queries at once want memory that three would fill.
//!
//! What must hold: no answer is wrong; nobody gets an error but those that the server announces (too many queries, a
//! statement that is too large); memory stays within the budget; `SELECT 1` is answered in between; and afterwards
//! nothing is left: no session, no query, no packet, no byte reserved, no file or thread.
//!
//! ```text
//! cargo test --release --workspace --test bad_day
//! ```
//! `DILIGENCE_BAD_DAY_SECONDS` is for how long (20), `DILIGENCE_SEED` what clients do when, and `DILIGENCE_SERVER` a
//! `diligence` program to be tried; without it, the server is this program once more.

mod clients;
mod day;
mod server;

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(server::SERVE) {
        return server::serve(arguments.next().and_then(|bytes| bytes.parse().ok()));
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seconds = number("DILIGENCE_BAD_DAY_SECONDS").unwrap_or(20);
    let seed = number("DILIGENCE_SEED")
        .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()));
    println!("bad day: {seconds} s with DILIGENCE_SEED={seed}");
    match day::run(Duration::from_secs(seconds), seed) {
        Ok(()) => {
            println!("bad day: all is well");
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("bad day: {what}\nagain: DILIGENCE_SEED={seed}");
            ExitCode::FAILURE
        }
    }
}

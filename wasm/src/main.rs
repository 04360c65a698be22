//! A primed process that runs functions in WebAssembly: it takes modules and rows from its socket, and gives values
//! back.
//!
//! ```text
//!   engine ---- load: a module ----> decoded, compiled, linked with a loop around it
//!          ---- call: rows --------> into linear memory, the loop, values from linear memory
//! ```
//!
//! * [`frames`] is what the engine and a process say to each other (`crates/pool/src/wire.rs` is the other side).
//! * [`source`] makes bytes of what stands in `CREATE FUNCTION`.
//! * [`function`] is a module that was loaded, with the limits of its fuel and its memory.
//! * [`held`] is what its instance has, and what ends it.
//! * [`rows`] calls a function of numbers row by row, in a loop that is WebAssembly itself.
//! * [`columns`] calls a function of whole columns, which lie in its memory as Arrow has them.
//!
//! Invariants:
//! * A module gets nothing but numbers, its own memory, and a way to print.
//! * What a module says is checked before it is followed: addresses, lengths and types.
//! * One answer to each frame that asks for one. Without the engine there is no process.

mod columns;
mod frames;
mod function;
mod held;
mod rows;
mod source;
mod steps;

use std::collections::HashMap;
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use frames::{Answer, CALL, Connection, FORGET, LOAD, Raised, hello};
use function::{Function, Machine};

/// Bytes that a process may have beside the memory of its functions: the compiler's, and what was compiled.
const OWN_BYTES: u64 = 2 << 30;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|argument| argument.parse::<u64>().ok());
    let (Some(Some(lifeline)), Some(Some(memory_bytes)), Some(Some(fuel))) =
        (numbers.next(), numbers.next(), numbers.next())
    else {
        eprintln!("diligence-wasm is started by diligence, which calls functions in WebAssembly by it");
        return ExitCode::FAILURE;
    };
    match serve(lifeline as RawFd, memory_bytes, fuel) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(lifeline: RawFd, memory_bytes: u64, fuel: u64) -> std::io::Result<()> {
    let mut connection = Connection::new(prime(lifeline, memory_bytes)?);
    let mut machine = Machine::new(memory_bytes, fuel);
    let mut functions = HashMap::<u64, Function>::new();
    connection.answer(0, Ok(hello()))?;
    while let Some(frame) = connection.frame()? {
        let answer = match frame.kind {
            FORGET => {
                functions.remove(&frame.function);
                connection.skip(&frame)?;
                continue;
            }
            LOAD => {
                let payload = connection.payload(&frame)?;
                let loaded = Function::load(&mut machine, &payload);
                loaded.map(|function| drop(functions.insert(frame.function, function))).map(|()| Answer::loaded())
            }
            CALL => match functions.get_mut(&frame.function) {
                Some(function) => function.call(&mut machine, &mut connection, &frame)?,
                None => {
                    connection.skip(&frame)?;
                    Err(Raised::wrong("it was not loaded"))
                }
            },
            other => return Err(std::io::Error::other(format!("a frame of the kind {other}"))),
        };
        connection.answer(frame.number, answer)?;
    }
    Ok(())
}

/// Sets up the process: its socket.
fn prime(lifeline: RawFd, memory_bytes: u64) -> std::io::Result<UnixStream> {
    let checked = |result: libc::c_int| match result {
        -1 => Err(std::io::Error::last_os_error()),
        result => Ok(result),
    };
    let limit = |of, bytes: u64| {
        let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
        // SAFETY: the limit lives as long as the call.
        unsafe { libc::setrlimit(of, &raw const limit) }
    };
    // SAFETY: none of these calls touches memory; the descriptors are this process' own, and nobody else has them.
    unsafe {
        let socket = checked(libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 64))?;
        let nothing = checked(libc::open(c"/dev/null".as_ptr(), libc::O_RDWR))?;
        checked(libc::dup2(nothing, 0))?;
        libc::close(nothing);
        // When the engine goes, however it does, the other end closes: SIGIO ends this process.
        checked(libc::fcntl(lifeline, libc::F_SETFD, libc::FD_CLOEXEC))?;
        checked(libc::fcntl(lifeline, libc::F_SETOWN, -libc::getpid()))?;
        let flags = checked(libc::fcntl(lifeline, libc::F_GETFL))?;
        checked(libc::fcntl(lifeline, libc::F_SETFL, flags | libc::O_ASYNC))?;
        checked(limit(libc::RLIMIT_CORE, 0))?;
        if memory_bytes > 0 {
            checked(limit(libc::RLIMIT_DATA, memory_bytes.saturating_add(OWN_BYTES)))?;
        }
        Ok(UnixStream::from_raw_fd(socket))
    }
}

//! One primed process: an interpreter or a machine of WebAssembly, the socket to it, what it prints, and a pipe whose
//! end tells it that the engine is gone.
//!
//! Invariant: whoever has a process is the only one to talk to it. It is killed with all that it started when it is
//! dropped, and waited for.

use std::collections::VecDeque;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use diligence_base::limits::{POOL_PRINTED_BYTES_MAX, POOL_REPLY_BYTES_MAX, POOL_START_TIME};
use parking_lot::Mutex;

use crate::caller::{Caller, Nobody};
use crate::code::{KeptFrom, Runtime};
use crate::failures::refused_start;
use crate::options::Launch;
use crate::standing::Member;
use crate::wire::{Frame, HEAD_BYTES, Malformed, Reply, head, is_values, reply_of};

/// What a process runs.
const PRIMED: &str = include_str!("primed.py");

/// Reads what it runs, so that no list of processes shows it.
const LAUNCHER: &str = "\
import os
def primed(count):
    text = b''
    while len(text) < count: text += os.read(0, count - len(text))
    return text
exec(compile(primed(int.from_bytes(primed(4), 'little')), '<primed>', 'exec'))";

/// Variables that a process finds around it: the others are the engine's, and may be secrets.
const ENVIRONMENT: [&str; 9] =
    ["HOME", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ", "VIRTUAL_ENV"];

/// And those that it is given: libraries start no threads of their own for each process, and take memory as they need
/// it.
const GIVEN: [(&str, &str); 3] =
    [("ARROW_DEFAULT_MEMORY_POOL", "system"), ("OMP_NUM_THREADS", "1"), ("OPENBLAS_NUM_THREADS", "1")];

/// How often a call looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(10);

/// How long a process that has closed its socket may take to end.
const ENDING: Duration = Duration::from_millis(200);

/// Bytes in front of an answer, so that numbers lie at a multiple of 8: two more stand before them.
const PADDING: usize = 6;

/// Bytes that are made ready for an answer before it comes.
const READ_BYTES: usize = 256 << 10;

/// What others may see of a process.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub number: u64,
    pub pid: u32,
    pub kept_from: KeptFrom,
    pub is_active: AtomicBool,
    pub has_started: AtomicBool,
    pub calls: AtomicU64,
    pub rows: AtomicU64,
    pub functions: Mutex<Vec<String>>,
}

/// Why a process gave no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It has ended.
    Died(Option<ExitStatus>),
    /// It has said what makes no sense.
    Malformed(Malformed),
    /// Values came that have so many bytes, which is too many.
    TooLarge(usize),
    /// It has taken too long.
    TooLate,
    /// Nobody wants the answer any more.
    Stopped,
    /// It cannot be talked to.
    Broken(std::io::Error),
}

/// A primed process.
pub(crate) struct Process {
    pub(crate) shown: Arc<Shown>,
    /// The functions that it has, those first that were not used for the longest time; their names are shown.
    pub(crate) loaded: VecDeque<(u64, String)>,
    child: Child,
    /// Becomes readable when it ends, however it does; a forked one may have the socket still.
    ending: Option<OwnedFd>,
    socket: UnixStream,
    output: PipeReader,
    /// Whether something may come there.
    is_printing: bool,
    /// What it printed since that was taken.
    printed: Vec<u8>,
    _lifeline: PipeWriter,
    /// Questions that it was asked.
    asked: u64,
    has_ended: bool,
    /// How, if that was by itself.
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts a process. Returns before that has begun to run. Fails as the system does.
    fn spawn(launch: &Launch, number: u64) -> std::io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let (output, printing) = std::io::pipe()?;
        let (living, lifeline) = std::io::pipe()?;
        set_flags(living.as_raw_fd(), libc::F_SETFD, 0)?;
        let mut command = Command::new(launch.path());
        if launch.runtime == Runtime::Python {
            command.args(["-I", "-B", "-c", LAUNCHER]);
        }
        command.args([living.as_raw_fd().to_string(), launch.memory_bytes.to_string(), launch.fuel.to_string()]);
        command.arg(launch.kept_from.0.to_string());
        command.env_clear().envs(GIVEN);
        command.envs(ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.stdin(Stdio::from(OwnedFd::from(theirs))).current_dir("/").process_group(0);
        command.stdout(Stdio::from(OwnedFd::from(printing.try_clone()?))).stderr(Stdio::from(OwnedFd::from(printing)));
        let child = command.spawn()?;
        drop(living);
        socket.set_nonblocking(true)?;
        let flags = set_flags(output.as_raw_fd(), libc::F_GETFL, 0)?;
        set_flags(output.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK)?;
        let pid = child.id();
        let mut process = Self {
            shown: Arc::new(Shown { number, pid, kept_from: launch.kept_from, ..Shown::default() }),
            loaded: VecDeque::new(),
            ending: ending_of(pid),
            child,
            socket,
            output,
            is_printing: true,
            printed: Vec::new(),
            _lifeline: lifeline,
            asked: 0,
            has_ended: false,
            ended: None,
        };
        if launch.runtime == Runtime::Python {
            // It fits into the socket's buffer.
            let mut script = (PRIMED.len() as u32).to_le_bytes().to_vec();
            script.extend(PRIMED.as_bytes());
            process.socket.write_all(&script)?;
        }
        Ok(process)
    }

    /// The number of the next question. None comes twice, so that no answer fits another question.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    /// What it printed since this was asked last.
    pub(crate) fn take_printed(&mut self) -> String {
        self.read_output();
        String::from_utf8_lossy(&std::mem::take(&mut self.printed)).into_owned()
    }

    /// Sends a frame that is not answered.
    pub(crate) fn tell(&mut self, frame: &Frame, caller: &dyn Caller) -> Result<(), Failure> {
        let mut sent = 0;
        while sent < frame.len() {
            if !self.send(frame, &mut sent)? {
                self.wait(true, caller, None)?;
            }
        }
        Ok(())
    }

    /// Sends a frame and waits for the answer to it. After a failure the process is of no more use.
    pub(crate) fn ask(
        &mut self,
        frame: &Frame,
        number: u64,
        caller: &dyn Caller,
        time: Duration,
    ) -> Result<Reply, Failure> {
        if !self.shown.has_started.load(Ordering::Relaxed) {
            caller.waits();
            match self.answer(caller, Instant::now() + POOL_START_TIME)? {
                (0, Reply::Hello(_)) => self.shown.has_started.store(true, Ordering::Relaxed),
                (_, other) => return Err(out_of_turn(&other)),
            }
        }
        let mut sent = 0;
        let end = Instant::now() + time;
        while sent < frame.len() {
            if !self.send(frame, &mut sent)? {
                self.wait(true, caller, Some(end))?;
            }
        }
        match self.answer(caller, end)? {
            (of, reply) if of == number && !matches!(reply, Reply::Hello(_)) => Ok(reply),
            (_, other) => Err(out_of_turn(&other)),
        }
    }

    /// Sends what the socket takes. False if it takes no more at the moment.
    fn send(&mut self, frame: &Frame, sent: &mut usize) -> Result<bool, Failure> {
        match self.socket.write_vectored(&frame.parts_from(*sent)) {
            Ok(count) => {
                *sent += count;
                Ok(*sent == frame.len())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(self.died()),
            Err(error) => Err(Failure::Broken(error)),
        }
    }

    /// The next frame: the number of its call, and what it says.
    fn answer(&mut self, caller: &dyn Caller, end: Instant) -> Result<(u64, Reply), Failure> {
        let mut came = Vec::with_capacity(HEAD_BYTES);
        self.receive(&mut came, HEAD_BYTES, caller, end)?;
        let (length, kind, number) = head(came.as_slice().try_into().unwrap_or([0; HEAD_BYTES]));
        if length > POOL_REPLY_BYTES_MAX {
            return Err(match is_values(kind) {
                true => Failure::TooLarge(length),
                false => Failure::Malformed(Malformed(format!("an answer of {length} bytes"))),
            });
        }
        // No more than what came is held, whatever the head says.
        let mut payload = Vec::with_capacity(PADDING + length.min(READ_BYTES));
        payload.resize(PADDING, 0);
        self.receive(&mut payload, PADDING + length, caller, end)?;
        let payload = Buffer::from_vec(payload).slice(PADDING);
        Ok((number, reply_of(kind, payload).map_err(Failure::Malformed)?))
    }

    /// Reads until there are so many bytes.
    fn receive(&mut self, came: &mut Vec<u8>, wanted: usize, caller: &dyn Caller, end: Instant) -> Result<(), Failure> {
        let mut is_over = false;
        while came.len() < wanted {
            match self.read_some(came, wanted) {
                Ok(0) => return Err(self.died()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if is_over {
                        return Err(self.died());
                    }
                    // What it said before it ended is there still.
                    is_over = self.wait(false, caller, Some(end))?;
                }
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Err(self.died()),
                Err(error) => return Err(Failure::Broken(error)),
            }
        }
        Ok(())
    }

    /// Reads what is there, until there are `wanted` bytes at most; 0 if the process is gone. Makes room as more comes.
    fn read_some(&self, came: &mut Vec<u8>, wanted: usize) -> std::io::Result<usize> {
        let left = wanted - came.len();
        if came.capacity() == came.len() {
            came.reserve(left.min(came.len().max(READ_BYTES)));
        }
        let room = came.spare_capacity_mut();
        let most = room.len().min(left);
        // SAFETY: the socket is open, and so many bytes of the room are the vector's own.
        let count = unsafe { libc::recv(self.socket.as_raw_fd(), room.as_mut_ptr().cast(), most, 0) };
        let count = usize::try_from(count).map_err(|_| std::io::Error::last_os_error())?;
        // SAFETY: they have been written just now.
        unsafe { came.set_len(came.len() + count) };
        Ok(count)
    }

    /// Waits until the socket can be read or written, or the process has ended; true then. Keeps what it prints. The
    /// caller is told once it has taken as long as it takes to look again.
    fn wait(&mut self, is_writing: bool, caller: &dyn Caller, end: Option<Instant>) -> Result<bool, Failure> {
        loop {
            if caller.is_stopped() {
                return Err(Failure::Stopped);
            }
            let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Err(Failure::TooLate);
            }
            let events = if is_writing { libc::POLLOUT | libc::POLLIN } else { libc::POLLIN };
            let poll = |descriptor: RawFd, events| libc::pollfd { fd: descriptor, events, revents: 0 };
            let mut looked = [
                poll(self.socket.as_raw_fd(), events),
                // Those below zero are not looked at.
                poll(if self.is_printing { self.output.as_raw_fd() } else { -1 }, libc::POLLIN),
                poll(self.ending.as_ref().map_or(-1, AsRawFd::as_raw_fd), libc::POLLIN),
            ];
            // A shorter time would be a timer of its own, which costs more than the process' answer.
            let timeout_ms = left.min(LOOK).as_millis().max(1) as i32;
            // SAFETY: the array has as many elements as are said, and lives as long as the call.
            let ready = unsafe { libc::poll(looked.as_mut_ptr(), looked.len() as libc::nfds_t, timeout_ms) };
            if ready < 0 {
                let error = std::io::Error::last_os_error();
                if error.kind() == ErrorKind::Interrupted {
                    continue;
                }
                return Err(Failure::Broken(error));
            }
            if looked[1].revents != 0 {
                self.read_output();
            }
            if looked[0].revents != 0 || looked[2].revents != 0 {
                return Ok(looked[2].revents != 0);
            }
            caller.waits();
        }
    }

    /// Reads what was printed; what is too much is read and forgotten.
    fn read_output(&mut self) {
        let mut buffer = [0; 4096];
        // As much as a pipe holds, so that who prints without end keeps nobody here.
        for _ in 0..16 {
            match self.output.read(&mut buffer) {
                Ok(0) => return self.is_printing = false,
                Ok(count) => {
                    let room = POOL_PRINTED_BYTES_MAX.saturating_sub(self.printed.len());
                    self.printed.extend(&buffer[..count.min(room)]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_printing &= error.kind() == ErrorKind::WouldBlock;
                    return;
                }
            }
        }
    }

    /// It has ended, or has closed its socket.
    fn died(&mut self) -> Failure {
        self.read_output();
        Failure::Died(self.end(true))
    }

    /// Kills it and what it started; how it ended, if that was by itself, perhaps within a moment.
    fn end(&mut self, waits: bool) -> Option<ExitStatus> {
        if self.has_ended {
            return self.ended;
        }
        self.has_ended = true;
        // One that is ending by itself says how. Its files are closed a moment before it has ended.
        let patience = if waits { ENDING } else { Duration::ZERO };
        let by_itself = self.ending.as_ref().is_some_and(|ending| is_readable(ending.as_raw_fd(), patience));
        if let Ok(pid) = libc::pid_t::try_from(self.child.id()) {
            // SAFETY: a signal touches no memory. The group is this child's as long as it was not waited for.
            unsafe { libc::kill(-pid, libc::SIGKILL) };
        }
        let _ = self.child.kill();
        self.ended = self.child.wait().ok().filter(|_| by_itself || self.ending.is_none());
        self.ended
    }
}

impl Member for Process {
    type Launch = Launch;
    type Shown = Shown;

    fn start(launch: &Launch, number: u64) -> diligence_base::Result<Self> {
        Self::spawn(launch, number).map_err(|error| refused_start(launch, &error))
    }

    fn shown(&self) -> &Arc<Shown> {
        &self.shown
    }

    fn is_alive(&mut self) -> bool {
        !self.has_ended && matches!(self.child.try_wait(), Ok(None))
    }

    /// An answer that was not asked for would be taken for the answer to the next question.
    fn is_quiet(&self) -> bool {
        !self.shown.has_started.load(Ordering::Relaxed) || !is_readable(self.socket.as_raw_fd(), Duration::ZERO)
    }

    fn has_started(&mut self) -> bool {
        if self.shown.has_started.load(Ordering::Relaxed) {
            return true;
        }
        // What it says comes in one piece. One that says anything else is found out when it is used.
        let says_so = is_readable(self.socket.as_raw_fd(), Duration::ZERO)
            && matches!(self.answer(&Nobody, Instant::now() + LOOK), Ok((0, Reply::Hello(_))));
        if says_so {
            self.shown.has_started.store(true, Ordering::Relaxed);
        }
        says_so
    }

    fn knows(&self, function: u64) -> bool {
        self.loaded.iter().any(|(number, _)| *number == function)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end(false);
    }
}

/// Whether a process ended because somebody killed it.
pub(crate) fn was_killed(status: Option<ExitStatus>) -> bool {
    status.is_some_and(|status| status.signal() == Some(libc::SIGKILL))
}

/// How a process ended, for people.
pub(crate) fn ending_text(status: Option<ExitStatus>) -> String {
    match status {
        None => "closed its connection".to_owned(),
        Some(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with the exit code {code}"),
            (None, Some(libc::SIGKILL)) => "was killed (signal 9)".to_owned(),
            (None, Some(libc::SIGSEGV)) => "crashed (signal 11, an access to memory that it does not have)".to_owned(),
            (None, Some(libc::SIGABRT)) => "gave up (signal 6)".to_owned(),
            (None, signal) => format!("ended by the signal {}", signal.unwrap_or_default()),
        },
    }
}

/// What to do about it; nothing where a module's machine ended.
pub(crate) fn ending_hint(status: Option<ExitStatus>, runtime: Runtime) -> Option<&'static str> {
    let status = status.filter(|_| runtime == Runtime::Python)?;
    match (status.code(), status.signal()) {
        (Some(_), _) => Some("a function returns its value; os._exit and what it calls must not end the process"),
        (None, Some(libc::SIGKILL)) => Some(
            "the system kills processes when its memory runs out: with less function_memory the function gets an error",
        ),
        (None, Some(libc::SIGSEGV | libc::SIGABRT | libc::SIGBUS | libc::SIGILL | libc::SIGFPE)) => {
            Some("a library of the function crashed: run its body by itself with python3 -X faulthandler")
        }
        _ => None,
    }
}

fn out_of_turn(reply: &Reply) -> Failure {
    let said = match reply {
        Reply::Hello(_) => "that it has started",
        Reply::Loaded => "that it has a function",
        Reply::Values(_) => "values",
        Reply::Raised(_) => "an error",
    };
    Failure::Malformed(Malformed(format!("{said}, which nobody asked for")))
}

fn set_flags(descriptor: RawFd, command: i32, flags: i32) -> std::io::Result<i32> {
    // SAFETY: the descriptor is open, and the call touches no memory.
    match unsafe { libc::fcntl(descriptor, command, flags) } {
        -1 => Err(std::io::Error::last_os_error()),
        flags => Ok(flags),
    }
}

fn is_readable(descriptor: RawFd, patience: Duration) -> bool {
    let mut looked = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: one element, which lives as long as the call.
    unsafe { libc::poll(&raw mut looked, 1, patience.as_millis() as i32) > 0 }
}

/// What becomes readable when a process ends; `None` where the system has no such thing.
#[cfg(target_os = "linux")]
fn ending_of(pid: u32) -> Option<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: the call touches no memory; what it gives is open and nobody else's.
    unsafe {
        let descriptor = libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0);
        (descriptor >= 0).then(|| OwnedFd::from_raw_fd(descriptor as RawFd))
    }
}

#[cfg(not(target_os = "linux"))]
fn ending_of(_pid: u32) -> Option<OwnedFd> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{Code, CodeSpec};
    use crate::wire;

    /// However the engine ends, its end of the pipe is closed then.
    #[test]
    fn a_process_that_spins_ends_with_the_engine() {
        let (runtime, program) = (Runtime::Python, "python3".into());
        let Ok(mut process) =
            Process::start(&Launch { runtime, program, memory_bytes: 0, fuel: 0, kept_from: KeptFrom::NOTHING }, 1)
        else {
            return eprintln!("not tested: there is no python3 here");
        };
        let code = Code::new(CodeSpec::of_text("while True: pass"), 1);
        let loaded = process.ask(&wire::load(&code, 1).unwrap(), 1, &Nobody, Duration::from_secs(60));
        assert!(matches!(loaded, Ok(Reply::Loaded)), "{loaded:?}");
        process.tell(&wire::call(&code, 2, &[], 1).unwrap(), &Nobody).unwrap();
        let (_, another) = std::io::pipe().unwrap();
        drop(std::mem::replace(&mut process._lifeline, another));
        while process.is_alive() {
            std::thread::yield_now();
        }
        assert_eq!(process.child.wait().unwrap().signal(), Some(libc::SIGIO));
    }
}

//! The command on a pseudo-terminal: type, and wait for what appears.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long anything may take to appear; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a program sends to ask where the cursor is, and an answer it can live with.
const CURSOR_QUESTION: &str = "\u{1b}[6n";
const CURSOR_ANSWER: &str = "\u{1b}[1;1R";

pub struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    /// Everything that appeared, with the terminal's commands taken out.
    seen: String,
    raw: Vec<u8>,
    /// Where the next `expect` begins to look.
    looked: usize,
    answered: usize,
}

impl Terminal {
    /// Starts the command with the terminal as its input, output and controlling terminal.
    pub fn start(mut command: Command) -> Self {
        let (mut master, mut slave) = (0, 0);
        let size = libc::winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: openpty fills in the two descriptors and reads the size; the other pointers may be null.
        let opened = unsafe { libc::openpty(&mut master, &mut slave, std::ptr::null_mut(), std::ptr::null(), &size) };
        assert_eq!(opened, 0, "a pseudo-terminal: {}", std::io::Error::last_os_error());
        // SAFETY: openpty succeeded, so both are descriptors that nobody else owns.
        let (master, slave) = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        let part = || Stdio::from(slave.try_clone().expect("a descriptor"));
        command.stdin(part()).stdout(part()).stderr(part());
        let terminal = slave.as_raw_fd();
        // SAFETY: between fork and exec only system calls are made.
        unsafe {
            command.pre_exec(move || {
                if libc::setsid() < 0 || libc::ioctl(terminal, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().expect("the command starts");
        drop(command);
        drop(slave);

        let keyboard = File::from(master);
        let mut reading = keyboard.try_clone().expect("a descriptor");
        let (show, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Linux answers EIO when the last process on the terminal is gone.
            while let Ok(count @ 1..) = reading.read(&mut bytes) {
                if show.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, keyboard, screen, seen: String::new(), raw: Vec::new(), looked: 0, answered: 0 }
    }

    /// Types.
    pub fn send(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("a keyboard");
    }

    /// Waits until the text appears behind what was expected before.
    pub fn expect(&mut self, text: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen[self.looked..].find(text) {
                self.looked += at + text.len();
                return;
            }
            if !self.receive(end) {
                panic!("'{text}' does not appear; what did:\n{}", self.seen);
            }
        }
    }

    /// Waits for the end of the command.
    pub fn wait(mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(Instant::now() < end, "the command does not end; what appeared:\n{}", self.seen);
            self.receive(Instant::now() + Duration::from_millis(50));
        }
    }

    /// Takes what appears; false when the time is over or the command has gone.
    fn receive(&mut self, end: Instant) -> bool {
        match self.screen.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(bytes) => {
                self.raw.extend(bytes);
                let text = String::from_utf8_lossy(&self.raw).into_owned();
                let questions = text.matches(CURSOR_QUESTION).count();
                for _ in self.answered..questions {
                    self.send(CURSOR_ANSWER);
                }
                self.answered = questions;
                self.seen = without_commands(&text);
                // Text that is not complete yet may have shrunk when its last part arrived.
                self.looked = (0..=self.looked.min(self.seen.len()))
                    .rev()
                    .find(|&at| self.seen.is_char_boundary(at))
                    .unwrap_or(0);
                true
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(Duration::from_millis(20));
                Instant::now() < end
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A child that ended by itself is not there any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The text without escape sequences.
fn without_commands(text: &str) -> String {
    let mut plain = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '\u{1b}' {
            plain.push(character);
            continue;
        }
        match characters.next() {
            // ESC [ parameters letter
            Some('[') => while characters.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
            // ESC ] text BEL, or ESC \
            Some(']') => {
                while let Some(c) = characters.next() {
                    if c == '\u{7}' {
                        break;
                    }
                    if c == '\u{1b}' {
                        characters.next();
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    plain
}

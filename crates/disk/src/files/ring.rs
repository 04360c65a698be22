//! A queue of requests in an io_uring: the system does them while the thread that asked goes on, with one call for
//! many.
//!
//! Invariants:
//! * A slot is taken from the moment its request is in the submission queue until its completion has been seen, and
//!   holds all memory that the system was told of.
//! * The ring is left only when no slot is taken.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};

use super::{Bell, Completion, Memory, TempQueue, Transfer};

/// Marks the completion of the bell; slots have small numbers.
const BELL: u64 = u64::MAX;

/// Bytes that one request asks for at most: the length is a 32-bit number.
const REQUEST_BYTES_MAX: usize = 1 << 30;

/// How long to wait before a call is tried again that the system had no memory for.
const RETRY: Duration = Duration::from_millis(1);

/// Requests under way in an io_uring.
pub(super) struct RingQueue {
    ring: IoUring,
    slots: Vec<Option<UnderWay>>,
    free: Vec<usize>,
    /// Done without the system.
    done: Vec<Completion>,
    bell: Arc<EventBell>,
    /// Whether the system has been asked to look at the bell.
    is_listening: bool,
}

/// What a slot holds.
struct UnderWay {
    transfer: Box<dyn Transfer>,
    _slices: Slices,
}

/// Where the memory of a write is.
struct Slices {
    _vectors: Box<[libc::iovec]>,
}

// SAFETY: the pointers are only for the system, and go to memory of the transfer beside them, which may go to other
// threads.
unsafe impl Send for Slices {}

impl RingQueue {
    /// A queue for so many requests at once, one at least. Fails if the system refuses: it is too old, or forbids it as
    /// many containers do.
    pub fn new(depth: usize) -> io::Result<Self> {
        let depth = depth.max(1);
        // One more for the bell.
        let entries = u32::try_from(depth + 1).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let ring = IoUring::new(entries)?;
        if !ring.params().is_feature_nodrop() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "it may lose completions on this kernel"));
        }
        Ok(Self {
            ring,
            slots: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            done: Vec::new(),
            bell: Arc::new(EventBell::new()?),
            is_listening: false,
        })
    }

    fn push(&mut self, entry: &io_uring::squeue::Entry) {
        // SAFETY: what the entry points to is in a slot until its completion has been seen, or it points to nothing.
        let pushed = unsafe { self.ring.submission().push(entry) };
        assert!(pushed.is_ok(), "there is an entry for each slot and the bell");
    }

    /// Gives the system what was pushed, and waits for so many completions.
    fn enter(&self, completions: usize) {
        while let Err(error) = self.ring.submit_and_wait(completions) {
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                // Completions have to be taken first.
                io::ErrorKind::ResourceBusy => return,
                // The system is short of memory. What it has taken goes on, so there is nothing better than to ask
                // again.
                _ => std::thread::sleep(RETRY),
            }
        }
    }

    /// Takes the completions that there are. True if the bell is among them.
    fn take(&mut self, done: &mut Vec<Completion>) -> bool {
        let mut is_called = false;
        for completion in self.ring.completion() {
            if completion.user_data() == BELL {
                is_called = true;
                self.is_listening = false;
                self.bell.silence();
                continue;
            }
            let slot = completion.user_data() as usize;
            let Some(UnderWay { transfer, .. }) = self.slots[slot].take() else { continue };
            self.free.push(slot);
            let result = usize::try_from(completion.result())
                .map_err(|_| io::Error::from_raw_os_error(completion.result().saturating_neg()));
            done.push((transfer, result));
        }
        is_called
    }
}

impl TempQueue for RingQueue {
    fn under_way(&self) -> usize {
        self.slots.len() - self.free.len() + self.done.len()
    }

    fn begin(&mut self, mut transfer: Box<dyn Transfer>) {
        let request = transfer.request();
        let Some(descriptor) = request.file.descriptor() else {
            let result = request.run();
            self.done.push((transfer, result));
            return;
        };
        let file = types::Fd(descriptor.as_raw_fd());
        let slot = self.free.pop().unwrap_or_else(|| panic!("more is begun than the queue was made for"));
        let (entry, slices) = match request.memory {
            Memory::Read(buffer) => {
                let bytes = buffer.len().min(REQUEST_BYTES_MAX) as u32;
                let read = opcode::Read::new(file, buffer.as_mut_ptr(), bytes).offset(request.offset).build();
                (read, Slices { _vectors: Box::default() })
            }
            Memory::Write(parts) => {
                let parts = parts.iter().take(super::SLICES_MAX);
                let slices: Box<[libc::iovec]> = parts
                    .map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() })
                    .collect();
                let count = slices.len() as u32;
                let write = opcode::Writev::new(file, slices.as_ptr(), count).offset(request.offset).build();
                (write, Slices { _vectors: slices })
            }
        };
        self.slots[slot] = Some(UnderWay { transfer, _slices: slices });
        self.push(&entry.user_data(slot as u64));
    }

    fn wait(&mut self, done: &mut Vec<Completion>) {
        if !self.is_listening {
            let listen = opcode::PollAdd::new(types::Fd(self.bell.0.as_raw_fd()), libc::POLLIN as u32).build();
            self.push(&listen.user_data(BELL));
            self.is_listening = true;
        }
        let before = done.len();
        done.append(&mut self.done);
        self.enter(usize::from(done.len() == before));
        while !self.take(done) && done.len() == before {
            self.enter(1);
        }
    }

    fn bell(&self) -> Arc<dyn Bell> {
        self.bell.clone()
    }
}

impl Drop for RingQueue {
    fn drop(&mut self) {
        let mut done = Vec::new();
        while self.under_way() > 0 {
            self.wait(&mut done);
        }
    }
}

/// A counter of the system that can be polled.
struct EventBell(File);

impl EventBell {
    fn new() -> io::Result<Self> {
        // SAFETY: a call of the system without pointers.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was opened just now, and nobody else has it.
        Ok(Self(File::from(unsafe { OwnedFd::from_raw_fd(descriptor) })))
    }

    /// As if nobody had rung. It does not block: what is not there is not waited for.
    fn silence(&self) {
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

impl Bell for EventBell {
    fn ring(&self) {
        // It fails only if it has been rung 2^64 times and not been heard.
        let _ = (&self.0).write(&1_u64.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::IoSlice;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::path::PathBuf;
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Arc, Mutex};

    use super::super::{LocalTempFiles, Request, TempFile, TempFiles};
    use super::*;

    /// Where tests put files, and a ring; `None` where the system refuses one, as in many containers.
    fn ring(depth: usize) -> Option<(Arc<dyn TempFile>, RingQueue)> {
        let queue = RingQueue::new(depth).ok()?;
        let directory: PathBuf = std::env::temp_dir();
        Some((LocalTempFiles.create(&directory, false).unwrap(), queue))
    }

    type Results = Arc<Mutex<BTreeMap<u64, (usize, Vec<u8>)>>>;

    struct Page {
        file: Arc<dyn TempFile>,
        number: u64,
        bytes: Vec<u8>,
        is_write: bool,
        results: Results,
        dropped: Option<Sender<u64>>,
    }

    impl Transfer for Page {
        fn request(&mut self) -> Request<'_> {
            let memory = if self.is_write {
                let (one, two) = self.bytes.split_at(1000);
                Memory::Write(vec![IoSlice::new(one), IoSlice::new(two)])
            } else {
                Memory::Read(&mut self.bytes)
            };
            Request { file: self.file.as_ref(), offset: self.number * 4096, memory }
        }

        fn done(mut self: Box<Self>, result: io::Result<usize>) -> Option<Box<dyn Transfer>> {
            let bytes = std::mem::take(&mut self.bytes);
            self.results.lock().unwrap().insert(self.number, (result.unwrap(), bytes));
            None
        }
    }

    impl Drop for Page {
        fn drop(&mut self) {
            self.dropped.iter().for_each(|dropped| dropped.send(self.number).unwrap());
        }
    }

    fn page(file: &Arc<dyn TempFile>, number: u64, is_write: bool, results: &Results) -> Page {
        let bytes = vec![if is_write { number as u8 + 1 } else { 0 }; 4096];
        Page { file: file.clone(), number, bytes, is_write, results: results.clone(), dropped: None }
    }

    #[test]
    fn what_was_written_is_read_and_the_end_of_a_file_is_seen() {
        let Some((file, mut queue)) = ring(4) else { return };
        file.grow(0, 64 * 4096).unwrap();
        for is_write in [true, false] {
            let results = Results::default();
            let mut numbers = 0..64 + u64::from(!is_write);
            let mut done = Vec::new();
            loop {
                while queue.under_way() < 4
                    && let Some(number) = numbers.next()
                {
                    queue.begin(Box::new(page(&file, number, is_write, &results)));
                }
                if queue.under_way() == 0 {
                    break;
                }
                queue.wait(&mut done);
                done.drain(..).for_each(|(transfer, result)| assert!(transfer.done(result).is_none()));
            }
            let results = results.lock().unwrap();
            for number in 0..64 {
                assert_eq!(results[&number], (4096, vec![number as u8 + 1; 4096]));
            }
            if !is_write {
                assert_eq!(results[&64].0, 0, "behind the end");
            }
        }
    }

    /// A file that is a descriptor, or nothing: then it cannot be read.
    struct Bare(Option<OwnedFd>);

    impl TempFile for Bare {
        fn is_direct(&self) -> bool {
            false
        }
        fn is_named(&self) -> bool {
            false
        }
        fn grow(&self, _: u64, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn truncate(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            Err(io::Error::from_raw_os_error(libc::EIO))
        }
        fn write_at(&self, _: &[IoSlice<'_>], _: u64) -> io::Result<usize> {
            Ok(1)
        }
        fn descriptor(&self) -> Option<BorrowedFd<'_>> {
            self.0.as_ref().map(AsFd::as_fd)
        }
    }

    #[test]
    fn an_error_of_the_system_is_the_result() {
        let Some((_, mut queue)) = ring(1) else { return };
        // Without a descriptor the file is asked itself.
        let file: Arc<dyn TempFile> = Arc::new(Bare(None));
        let mut done = Vec::new();
        queue.begin(Box::new(page(&file, 0, false, &Results::default())));
        queue.wait(&mut done);
        assert_eq!(done[0].1.as_ref().unwrap_err().raw_os_error(), Some(libc::EIO));
        // A descriptor that cannot be written to.
        let file: Arc<dyn TempFile> = Arc::new(Bare(Some(File::open("/dev/null").unwrap().into())));
        done.clear();
        queue.begin(Box::new(page(&file, 0, true, &Results::default())));
        while done.is_empty() {
            queue.wait(&mut done);
        }
        assert_eq!(done[0].1.as_ref().unwrap_err().raw_os_error(), Some(libc::EBADF));
    }

    /// Waits until a thread of this process sleeps in a call of the system.
    fn until_asleep(thread: libc::pid_t) {
        let is_asleep = || {
            let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
            // Behind the thread's name, which has parentheses around it.
            text.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('S'))
        };
        while !is_asleep() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_bell_wakes_whoever_waits_and_memory_lives_until_the_end() {
        let Some((_, mut queue)) = ring(2) else { return };
        // A pipe that nobody writes to: its read is under way until the other end is closed.
        let (reader, writer) = io::pipe().unwrap();
        let file: Arc<dyn TempFile> = Arc::new(Bare(Some(reader.into())));
        let (sender, dropped) = channel();
        let mut transfer = page(&file, 0, false, &Results::default());
        transfer.dropped = Some(sender);
        queue.begin(Box::new(transfer));
        let bell = queue.bell();
        let mut done = Vec::new();
        // Rung before, and rung meanwhile.
        bell.ring();
        queue.wait(&mut done);
        // SAFETY: it takes nothing and cannot fail.
        let this_thread = unsafe { libc::gettid() };
        let ringing = std::thread::spawn(move || {
            until_asleep(this_thread);
            bell.ring();
        });
        queue.wait(&mut done);
        ringing.join().unwrap();
        assert!(done.is_empty() && queue.under_way() == 1);
        let closing = std::thread::spawn(move || {
            until_asleep(this_thread);
            assert!(dropped.try_recv().is_err(), "what is under way is not dropped");
            drop(writer);
            dropped
        });
        drop(queue);
        assert_eq!(closing.join().unwrap().recv().unwrap(), 0);
    }
}

//! Panics of this process, recorded rather than printed.

use std::sync::Mutex;

/// The place and message of the last panic, whether or not it was caught.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// The name of threads that must not panic: the future of a session would be lost without a message.
pub const NETWORK_THREAD: &str = "fuzz-network";

static LAST_NETWORK_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// The last panic on such a thread since the last call.
pub fn network_panic() -> Option<String> {
    LAST_NETWORK_PANIC.lock().ok().and_then(|mut last| last.take())
}

/// Records panics instead of printing them, because the library may catch them and turn them into errors.
pub fn keep_panics_quiet() {
    std::panic::set_hook(Box::new(|panic| {
        if std::thread::current().name() == Some(NETWORK_THREAD)
            && let Ok(mut last) = LAST_NETWORK_PANIC.lock()
        {
            *last = Some(panic.to_string());
        }
        if let Ok(mut last) = LAST_PANIC.lock() {
            *last = panic.to_string();
        }
    }));
}

/// The place and message of the last panic; empty without one.
pub fn last_panic() -> String {
    LAST_PANIC.lock().map(|last| last.clone()).unwrap_or_default()
}

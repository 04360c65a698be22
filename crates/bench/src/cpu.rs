//! Processor time of this process.

/// Seconds that all threads of this process have run so far, in user mode and in the system; those that have ended are
/// counted too.
pub fn seconds() -> f64 {
    // SAFETY: the structure is all numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a structure of the kind that is asked for. With these arguments the call does not fail.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let of = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    of(usage.ru_utime) + of(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    #[test]
    fn work_is_counted() {
        let before = super::seconds();
        let mut sum = 0u64;
        while super::seconds() - before < 0.02 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0);
    }
}

//! Who calls a function, as far as the pool is concerned.

use diligence_base::function_limits::FunctionLimits;

/// Who calls a function.
pub trait Caller {
    /// Whether the call is to end: nobody wants its answer. Asked every few milliseconds.
    fn is_stopped(&self) -> bool;

    /// What the function printed. Called once for each answer that came with something.
    fn printed(&self, text: &str);

    /// The call takes longer than a moment, or may do so, or waits for a process. Said once or more in such a call.
    fn waits(&self) {}

    /// What the functions may take that it calls, if that is less than what they may take anyway.
    fn limits(&self) -> FunctionLimits {
        FunctionLimits::default()
    }
}

/// A caller who waits as long as it takes, and reads nothing.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Caller for Nobody {
    fn is_stopped(&self) -> bool {
        false
    }

    fn printed(&self, _text: &str) {}
}

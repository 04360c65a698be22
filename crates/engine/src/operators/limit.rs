//! Skips rows, then keeps at most so many.

//! The tests of the file beside it are in `tests`.



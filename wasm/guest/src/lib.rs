//! What functions of whole columns need in WebAssembly: columns of arguments, a result to fill, messages, and printing.
//!
//! ```ignore
//! use diligence_guest::{export, Column, Message, Output};
//!
//! fn initial([names]: [Column<'_>; 1], output: &mut Output<'_>) -> Result<(), Message> {
//!     output.texts(|row, text| match names.text(row) {
//!         None => false,
//!         Some(name) => {
//!             text.extend(name.chars().take(1));
//!             true
//!         }
//!     })
//! }
//!
//! export!(initial);
//! ```
//!
//! ```sql
//! CREATE FUNCTION initial(name text) RETURNS text LANGUAGE wasm IMMUTABLE AS '…/functions.wasm';
//! ```
//!
//! * [`column`] reads the columns of a batch.
//! * [`output`] makes the column of results.
//! * [`memory`] is the room for both. The engine asks for it by `diligence_alloc`, which this crate exports, and gives
//!   it back before each batch, by `diligence_reset`.
//!
//! Functions of numbers, row by row, need none of it: `#[no_mangle] pub extern "C" fn plus(x: i64, y: i64) -> i64`.
//!
//! The crate needs no standard library. Modules that have none either say `diligence_guest::trap_on_panic!();`.

#![no_std]
#![warn(missing_docs, unsafe_op_in_unsafe_fn)]

#[cfg(test)]
extern crate std;

pub mod column;
pub mod memory;
pub mod output;

pub use column::{Column, Number};
pub use output::{Message, Output, Text};

use column::RawColumn;

/// Exports functions of whole columns by their names: of the type
/// `fn([Column<'_>; N], &mut Output<'_>) -> Result<(), Message>`, N being how many parameters there are.
#[macro_export]
macro_rules! export {
    ($($name:ident),+ $(,)?) => {$(
        const _: () = {
            #[no_mangle]
            extern "C" fn $name(
                rows: u32,
                given: *const $crate::column::RawColumn,
                result: *mut $crate::column::RawColumn,
            ) -> u32 {
                // SAFETY: the engine has written the columns, and no other thread has the memory.
                unsafe { $crate::run(rows, given, result, self::$name) }
            }
        };
    )+};
}

/// What a module without the standard library does when it panics: it ends, and so does the query.
#[macro_export]
macro_rules! trap_on_panic {
    () => {
        #[panic_handler]
        fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
            core::arch::wasm32::unreachable()
        }
    };
}

/// Calls a function for a batch; for [`export`]. Gives 0, or the address of a message.
///
/// # Safety
/// The columns are N, one after the other, with what they name in this memory, and `result` is one more. They stay
/// until the next batch.
#[doc(hidden)]
pub unsafe fn run<const N: usize>(
    rows: u32,
    given: *const RawColumn,
    result: *mut RawColumn,
    function: impl FnOnce([Column<'_>; N], &mut Output<'_>) -> Result<(), Message>,
) -> u32 {
    // SAFETY: as the caller says.
    let (columns, result) = unsafe {
        let mut place = 0;
        let columns = [(); N].map(|()| {
            place += 1;
            Column::new(&*given.add(place - 1))
        });
        (columns, &mut *result)
    };
    let mut output = Output::new(rows as usize, result);
    let called = function(columns, &mut output).and_then(|()| output.check());
    match called {
        Ok(()) => 0,
        Err(message) => message.address(),
    }
}

/// Prints a text: the client whose query calls the function gets it as a notice.
pub fn print(text: &str) {
    #[cfg(target_arch = "wasm32")]
    {
        #[link(wasm_import_module = "diligence")]
        extern "C" {
            #[link_name = "print"]
            fn print(address: *const u8, bytes: usize);
        }
        // SAFETY: the text lies in the memory, and is not changed.
        unsafe { print(text.as_ptr(), text.len()) }
    }
    #[cfg(not(target_arch = "wasm32"))]
    let _ = text;
}

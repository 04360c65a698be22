//! Functions in Rust, row by row and of whole columns.
//!
//! ```sql
//! CREATE FUNCTION collatz(x bigint) RETURNS bigint LANGUAGE wasm IMMUTABLE AS '…/diligence_example_functions.wasm';
//! CREATE FUNCTION reversed(s text) RETURNS text LANGUAGE wasm IMMUTABLE AS '…/diligence_example_functions.wasm';
//! ```

/// A column, as docs/functions.md describes it: numbers and addresses of four bytes each.
#[repr(C)]
pub struct Column {
    kind: u32,
    rows: u32,
    validity: u32,
    offsets: u32,
    values: u32,
    bytes: u32,
}

/// How many steps the Collatz sequence takes to 1; row by row.
#[unsafe(no_mangle)]
pub extern "C" fn collatz(x: i64) -> i64 {
    let (mut x, mut steps) = (x.unsigned_abs().max(1), 0);
    while x != 1 {
        x = if x % 2 == 0 { x / 2 } else { x.wrapping_mul(3).wrapping_add(1) };
        steps += 1;
    }
    steps
}

/// Room for a batch. It is asked for once, and again for larger batches; it is never given back.
#[unsafe(no_mangle)]
pub extern "C" fn diligence_alloc(bytes: u32) -> u32 {
    let room = vec![0_u64; (bytes as usize).div_ceil(8)];
    Box::leak(room.into_boxed_slice()).as_mut_ptr() as usize as u32
}

/// Texts with their characters the other way round; whole columns.
///
/// # Safety
/// The columns are those that the engine describes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reversed(rows: u32, given: *const Column, result: *mut Column) -> u32 {
    static mut VALUES: Vec<u8> = Vec::new();
    // SAFETY: the engine has written the columns, and a module has one thread. What is returned stays until the next
    // call.
    unsafe {
        let (given, result) = (&*given, &mut *result);
        let offsets = std::slice::from_raw_parts(given.offsets as usize as *const u32, rows as usize + 1);
        let bytes = std::slice::from_raw_parts(given.values as usize as *const u8, offsets[rows as usize] as usize);
        let values = &mut *(&raw mut VALUES);
        values.clear();
        for pair in offsets.windows(2) {
            let text = String::from_utf8_lossy(&bytes[pair[0] as usize..pair[1] as usize]);
            values.extend(text.chars().rev().flat_map(|letter| letter.to_string().into_bytes()));
        }
        // Texts have as many bytes as before, each in its place.
        result.validity = given.validity;
        result.offsets = given.offsets;
        result.values = values.as_ptr() as usize as u32;
    }
    0
}

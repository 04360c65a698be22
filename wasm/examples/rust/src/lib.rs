//! Functions in Rust, row by row and of whole columns.
//!
//! ```sql
//! CREATE FUNCTION collatz(x bigint) RETURNS bigint LANGUAGE wasm IMMUTABLE AS '…/diligence_example_functions.wasm';
//! CREATE FUNCTION reversed(s text) RETURNS text LANGUAGE wasm IMMUTABLE AS '…/diligence_example_functions.wasm';
//! CREATE FUNCTION similarity(a double precision[], b double precision[]) RETURNS double precision
//!   LANGUAGE wasm IMMUTABLE AS '…/diligence_example_functions.wasm';
//! CREATE FUNCTION running(x double precision[]) RETURNS double precision[]
//!   LANGUAGE wasm IMMUTABLE AS '…/diligence_example_functions.wasm';
//! ```

use diligence_guest::{export, Column, Message, Output};

/// How many steps the Collatz sequence takes to 1; row by row.
#[no_mangle]
pub extern "C" fn collatz(x: i64) -> i64 {
    let (mut x, mut steps) = (x.unsigned_abs().max(1), 0);
    while x != 1 {
        x = if x % 2 == 0 { x / 2 } else { x.wrapping_mul(3).wrapping_add(1) };
        steps += 1;
    }
    steps
}

export!(reversed, similarity, running);

/// Texts with their characters the other way round.
fn reversed([given]: [Column<'_>; 1], output: &mut Output<'_>) -> Result<(), Message> {
    output.texts(|row, text| match given.text(row) {
        None => false,
        Some(one) => {
            text.extend(one.chars().rev());
            true
        }
    })
}

/// The cosine of the angle between two vectors. Fails if they have different dimensions.
fn similarity([one, other]: [Column<'_>; 2], output: &mut Output<'_>) -> Result<(), Message> {
    for row in 0..output.rows() {
        if !one.is_null(row) && !other.is_null(row) && one.range(row).len() != other.range(row).len() {
            return Err(Message::new(&format!(
                "vectors of {} and {} dimensions",
                one.range(row).len(),
                other.range(row).len()
            )));
        }
    }
    output.numbers(|row| {
        let (a, b) = (one.array::<f64>(row)?, other.array::<f64>(row)?);
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let lengths = (product(a, a) * product(b, b)).sqrt();
        if lengths == 0.0 {
            None
        } else {
            Some(product(a, b) / lengths)
        }
    })
}

/// The sums of an array up to each of its elements.
fn running([given]: [Column<'_>; 1], output: &mut Output<'_>) -> Result<(), Message> {
    output.arrays(|row, array| match given.array::<f64>(row) {
        None => false,
        Some(numbers) => {
            let mut sum = 0.0;
            for number in numbers {
                sum += number;
                array.push(sum);
            }
            true
        }
    })
}

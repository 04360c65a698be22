//! How large integers are, so that arithmetic on all of them can be shown not to overflow.

/// A bound that no value's magnitude is above, at most twice the least one: one pass without branches.
pub(crate) fn magnitude_bound(values: &[i64]) -> u64 {
    // For a negative value, `v ^ (v >> 63)` is `-v - 1`: hence the one more at the end.
    let bits = values.iter().fold(0, |bits, value| bits | (value ^ (value >> 63)));
    if values.len() == 1 { values[0].unsigned_abs() } else { bits as u64 + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_never_below_a_magnitude() {
        for values in [vec![0, 5, -9], vec![i64::MIN, 3], vec![i64::MAX, 0], vec![-1, -1], vec![0, 0], vec![i64::MIN]] {
            let largest = values.iter().map(|value| value.unsigned_abs()).max().unwrap();
            assert!(magnitude_bound(&values) >= largest, "{values:?}");
            assert!(magnitude_bound(&values) <= largest.max(1).saturating_mul(2), "{values:?}");
        }
        assert!(magnitude_bound(&[]) <= 1);
    }
}

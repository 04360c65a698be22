//! Which columns of a file are encrypted, if its footer is not. Parquet's reader passes what a footer says of that, and
//! would take what is encrypted for damaged pages.
//! Format: <https://github.com/apache/parquet-format/blob/master/Encryption.md>.

use super::header::{Compact, Malformed, field};

/// For each leaf whether it is encrypted, by the footer's first row group; empty if none is, or the footer is
/// malformed, which its reader will tell.
pub(super) fn encrypted_leaves(footer: &[u8]) -> Vec<bool> {
    let leaves = leaves_of_file(footer).unwrap_or_default();
    if leaves.contains(&true) { leaves } else { Vec::new() }
}

fn leaves_of_file(footer: &[u8]) -> Result<Vec<bool>, Malformed> {
    // The signature: a nonce of 12 bytes and a tag of 16. Without it nothing in the file is encrypted, and the
    // structure, whose end is a zero, ends with the footer.
    const SIGNATURE_BYTES: usize = 28;
    let signed = footer.len().checked_sub(SIGNATURE_BYTES + 1).is_some_and(|end| footer[end] == 0);
    if !signed {
        return Ok(Vec::new());
    }
    let mut reader = Compact { bytes: footer, at: 0 };
    let mut leaves = Vec::new();
    let (mut last, mut has_algorithm) = (0, false);
    while let Some((number, ty)) = reader.field(&mut last)? {
        match (number, ty) {
            (4, field::LIST) => {
                let (groups, ty) = reader.list()?;
                for group in 0..groups {
                    match (group, ty) {
                        (0, field::STRUCT) => leaves = leaves_of_group(&mut reader)?,
                        _ => reader.skip(ty, 1)?,
                    }
                }
            }
            (8, field::STRUCT) => {
                has_algorithm = true;
                reader.skip(ty, 0)?;
            }
            _ => reader.skip(ty, 0)?,
        }
    }
    Ok(if has_algorithm { leaves } else { Vec::new() })
}

/// For each column chunk of a row group whether it is encrypted.
fn leaves_of_group(reader: &mut Compact<'_>) -> Result<Vec<bool>, Malformed> {
    let (mut leaves, mut last) = (Vec::new(), 0);
    while let Some((number, ty)) = reader.field(&mut last)? {
        if (number, ty) != (1, field::LIST) {
            reader.skip(ty, 1)?;
            continue;
        }
        let (chunks, ty) = reader.list()?;
        for _ in 0..chunks {
            if ty != field::STRUCT {
                reader.skip(ty, 2)?;
                continue;
            }
            let (mut is_encrypted, mut last) = (false, 0);
            while let Some((number, ty)) = reader.field(&mut last)? {
                is_encrypted |= (number, ty) == (8, field::STRUCT);
                reader.skip(ty, 2)?;
            }
            leaves.push(is_encrypted);
        }
    }
    Ok(leaves)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScanRequest;
    use crate::external::OpenOptions;
    use crate::external::testing::{open_bytes, try_read_all};

    /// By pyarrow 26: the column `b` is encrypted with a key of its own, the column `a` and the footer are not.
    const FILE: &[u8] = include_bytes!("../../../tests/parquet/encrypted_column.parquet");

    #[test]
    fn encrypted_columns_are_told() {
        let end = FILE.len() - 8;
        let length = u32::from_le_bytes([FILE[end], FILE[end + 1], FILE[end + 2], FILE[end + 3]]) as usize;
        let footer = &FILE[end - length..end];
        assert_eq!(encrypted_leaves(footer), [false, true]);
        // Nothing is told of a footer that is damaged.
        assert!((0..length).all(|end| encrypted_leaves(&footer[..end]).len() <= 2));
        let table = open_bytes("encrypted.parquet", FILE.to_vec(), &OpenOptions::default()).unwrap();
        let read = |column| {
            let request = ScanRequest { columns: vec![column], predicate: None };
            try_read_all(&table, &request, &[], 1024, false)
        };
        assert_eq!(read(0).unwrap().num_rows(), 2);
        let error = read(1).unwrap_err();
        assert!(error.message().contains("column 'b' is encrypted"), "{error}");
        assert_eq!(error.code(), Some("0A000"));
    }
}

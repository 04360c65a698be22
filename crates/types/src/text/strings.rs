//! What the lengths of the string types do to a text.

use diligence_base::{Error, Result};

/// Cuts a name at 63 bytes, as PostgreSQL's names are.
pub(crate) fn cut_name(text: &str) -> &str {
    &text[..text.floor_char_boundary(63)]
}

/// Fits a text into `varchar(n)`: a longer one is cut if the statement says the cast or only blanks are lost.
pub(crate) fn fit_varchar(text: &str, length: u32, is_explicit: bool) -> Result<&str> {
    let Some((end, _)) = text.char_indices().nth(length as usize) else { return Ok(text) };
    match is_explicit || text[end..].bytes().all(|byte| byte == b' ') {
        true => Ok(&text[..end]),
        false => Err(too_long("character varying", length)),
    }
}

/// Fits a text into `char(n)`, whose values are held without the blanks at the end.
pub(crate) fn fit_char(text: &str, length: Option<u32>, is_explicit: bool) -> Result<&str> {
    let text = text.trim_end_matches(' ');
    let Some((end, _)) = length.and_then(|length| text.char_indices().nth(length as usize)) else { return Ok(text) };
    match is_explicit {
        true => Ok(text[..end].trim_end_matches(' ')),
        false => Err(too_long("character", length.unwrap_or_default())),
    }
}

fn too_long(name: &str, length: u32) -> Error {
    Error::input(format!("value too long for type {name}({length})")).with_code("22001")
}

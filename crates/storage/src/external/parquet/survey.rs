//! What the page headers of a cluster say, before any page is decoded: who can decode the columns, and how much memory
//! that needs.
//!
//! The footer does not say reliably which encodings there are, nor how long the longest page is. Going through the
//! headers costs little: they are a few bytes each, and pages are thousands.

use std::collections::HashMap;

use diligence_base::{Error, Result};
use parquet::basic::{Encoding, Type as PhysicalType};
use parquet::file::metadata::ColumnChunkMetaData;

use super::bytes::{ChunkBytes, ParquetBytes};
use super::header::{Header, Kind, Malformed, encoding};
use super::page::{Pages, is_supported};
use super::{ParquetFile, Piece};

/// What errors about a column begin with.
pub(super) fn cannot_be_decoded(piece: &Piece, column: &str) -> String {
    format!("row group {}: column '{column}' cannot be decoded", piece.row_group)
}

/// What was fetched of a piece, with a survey of each leaf.
pub(super) struct Surveyed {
    pub bytes: Box<ParquetBytes>,
    leaves: HashMap<usize, Survey>,
}

/// What the page headers of a chunk say.
#[derive(Debug)]
pub(super) struct Survey {
    /// Whether its values are neither lists nor structs, and all pages are of kinds and encodings that are decoded
    /// here.
    pub is_supported: bool,
    /// Whether all data pages have codes of the dictionary.
    pub is_all_codes: bool,
    pub dictionary_values: usize,
    /// Bytes that decoding holds at once: the dictionary and the longest page.
    pub bytes: usize,
    /// If it is read in steps, what one reads, if no page is longer.
    pub step_bytes: Option<usize>,
    /// Bytes of the chunk that are read later.
    pub unread: u64,
}

/// Bytes of a value in memory at most: a view, or the widest number.
pub(super) const VALUE_BYTES: usize = size_of::<u128>();

impl Surveyed {
    pub fn new(file: &ParquetFile, piece: &Piece, bytes: Box<ParquetBytes>) -> Result<Self> {
        let group = file.metadata.row_group(piece.row_group);
        let survey = |(&leaf, chunk): (&usize, &ChunkBytes)| {
            file.check_readable(leaf)?;
            let cannot_be_decoded = |why: &str| corrupt(file, piece, leaf, why);
            let expected = file.checksums.as_ref().filter(|_| piece.whole);
            if expected.is_some_and(|all| {
                let expected = all.get(piece.row_group * group.num_columns() + leaf);
                expected != Some(&crc32fast::hash(&chunk.pages))
            }) {
                return Err(cannot_be_decoded("its checksum is wrong").with_code("XX001"));
            }
            let survey = survey(chunk, group.column(leaf)).map_err(|error| cannot_be_decoded(&error.0))?;
            Ok((leaf, survey))
        };
        let leaves = bytes.leaves.iter().map(survey).collect::<Result<_>>()?;
        Ok(Self { bytes, leaves })
    }

    /// The beginnings of leaves that are read in steps, with the bytes of each that come later.
    pub fn in_steps(
        file: &ParquetFile,
        piece: &Piece,
        bytes: Box<ParquetBytes>,
        unread: &HashMap<usize, u64>,
        step_bytes: usize,
    ) -> Result<Self> {
        let group = file.metadata.row_group(piece.row_group);
        let survey = |&leaf: &usize| {
            file.check_readable(leaf)?;
            let survey = survey_in_steps(file, group.column(leaf)).zip(unread.get(&leaf));
            let (survey, unread) = survey.ok_or_else(|| Error::bug("a column is read in steps that cannot be"))?;
            Ok((leaf, Survey { unread: *unread, step_bytes: Some(step_bytes), ..survey }))
        };
        let leaves = bytes.leaves.keys().map(survey).collect::<Result<_>>()?;
        Ok(Self { bytes, leaves })
    }

    /// A leaf's bytes and survey; `None` if it was not fetched.
    pub fn leaf(&self, leaf: usize) -> Option<(&ChunkBytes, &Survey)> {
        Some((self.bytes.leaves.get(&leaf)?, self.leaves.get(&leaf)?))
    }

    /// Bytes that decoding holds besides what was fetched, with all columns open: of each the dictionary, the longest
    /// page, and the values of a batch.
    pub fn decode_bytes(&self, batch_rows: usize) -> usize {
        let values = batch_rows.saturating_mul(VALUE_BYTES);
        let bytes = self.leaves.values().map(|survey| survey.bytes.saturating_add(values));
        bytes.fold(0, usize::saturating_add)
    }
}

/// Bytes of a dictionary: its text and its values.
pub(super) fn dictionary_bytes(header: &Header) -> usize {
    // Each value has a byte of text at least, so memory is never taken for more of them.
    header.text_bytes.saturating_add(header.values.min(header.text_bytes).saturating_mul(VALUE_BYTES))
}

/// What the footer says of a chunk that is read in steps; `None` if that is too little, or it cannot be read so. What
/// it says of encodings is believed as far as a page that is otherwise ends in an error; not that all pages have
/// codes.
pub(super) fn survey_in_steps(file: &ParquetFile, metadata: &ColumnChunkMetaData) -> Option<Survey> {
    const KNOWN: [Encoding; 3] = [Encoding::PLAIN, Encoding::PLAIN_DICTIONARY, Encoding::RLE_DICTIONARY];
    let is_bits = metadata.column_type() == PhysicalType::BOOLEAN;
    let is_known = |encoding: Encoding| KNOWN.contains(&encoding) || encoding == Encoding::RLE && is_bits;
    let descriptor = metadata.column_descr();
    let flat = descriptor.max_rep_level() == 0 && descriptor.max_def_level() <= 1;
    let supported = match metadata.page_encoding_stats_mask() {
        Some(pages) => pages.encodings().all(is_known),
        // Among these are the encodings of levels and of the dictionary.
        None => {
            metadata.encodings().all(|encoding| is_known(encoding) || encoding == Encoding::RLE || is_old(encoding))
        }
    };
    // Levels that may be in the encoding of old. One writer says so of levels that there are none of.
    let writer = file.metadata.file_metadata().created_by().unwrap_or_default();
    let old = descriptor.max_def_level() > 0
        && metadata.encodings().any(is_old)
        && !writer.starts_with("parquet-mr version 1.");
    (flat && supported && !old && is_supported(metadata.compression())).then_some(Survey {
        is_supported: true,
        is_all_codes: false,
        dictionary_values: 0,
        bytes: 0,
        step_bytes: None,
        unread: 0,
    })
}

#[allow(deprecated, reason = "old files have it")]
fn is_old(encoding: Encoding) -> bool {
    encoding == Encoding::BIT_PACKED
}

fn corrupt(file: &ParquetFile, piece: &Piece, leaf: usize, why: &str) -> Error {
    let root = file.leaves.iter().position(|leaves| leaves.contains(&leaf));
    let what = cannot_be_decoded(piece, root.map_or("?", |root| file.column_name(root)));
    file.source.error(format!("{what} ({why}); the file is corrupt"))
}

fn survey(chunk: &ChunkBytes, metadata: &ColumnChunkMetaData) -> Result<Survey, Malformed> {
    let descriptor = metadata.column_descr();
    let flat = descriptor.max_rep_level() == 0 && descriptor.max_def_level() <= 1;
    let optional = descriptor.max_def_level() > 0;
    // Numbers that are not compressed are read where they are.
    let is_copied = metadata.compression() != parquet::basic::Compression::UNCOMPRESSED
        || metadata.column_type() == PhysicalType::BYTE_ARRAY;
    let mut pages = Pages::new(chunk, metadata.compression(), metadata.uncompressed_size());
    let mut survey = Survey {
        is_supported: flat && is_supported(metadata.compression()),
        is_all_codes: true,
        dictionary_values: 0,
        bytes: 0,
        step_bytes: None,
        unread: 0,
    };
    let (mut dictionary, mut longest) = (0usize, 0);
    while let Some((header, _)) = pages.next()? {
        let is_codes = encoding::is_dictionary(header.encoding);
        match header.kind {
            Kind::Dictionary => {
                survey.dictionary_values = header.values;
                dictionary = dictionary_bytes(&header);
            }
            Kind::Data | Kind::DataV2 => {
                survey.is_all_codes &= is_codes;
                survey.is_supported &= is_codes || header.encoding == encoding::PLAIN;
                survey.is_supported &= !optional || header.levels_are_runs();
                if is_copied {
                    longest = longest.max(header.text_bytes);
                }
            }
            Kind::Other => {}
        }
    }
    survey.bytes = dictionary.saturating_add(longest);
    Ok(survey)
}

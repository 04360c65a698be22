//! The first byte of a record, which says what kind it is of. A number is never given twice.

pub(super) const ROWS: u8 = 1;
pub(super) const CREATE_SCHEMA: u8 = 2;
pub(super) const DROP_SCHEMA: u8 = 3;
pub(super) const CREATE_TABLE: u8 = 4;
pub(super) const CREATE_VIEW: u8 = 5;
pub(super) const CREATE_FILES: u8 = 6;
pub(super) const DROP: u8 = 7;
pub(super) const CHANGE: u8 = 8;
pub(super) const END: u8 = 9;
pub(super) const GROUP: u8 = 10;
pub(super) const CREATE_SEQUENCE: u8 = 11;
pub(super) const ALTER: u8 = 12;
pub(super) const COUNT: u8 = 13;
pub(super) const CREATE_ROUTINE: u8 = 14;
pub(super) const STORED: u8 = 15;
pub(super) const CREATE_TABLE_WITH_IDS: u8 = 16;
pub(super) const CREATE_ENUM: u8 = 17;
pub(super) const CREATE_TABLE_IN_FRAGMENTS: u8 = 18;
pub(super) const STORED_IN_FRAGMENT: u8 = 19;
pub(super) const CREATE_COMPOSITE: u8 = 20;
pub(super) const CREATE_DOMAIN: u8 = 21;
pub(super) const AUTHORITY: u8 = 22;
pub(super) const CREATE_COLLATION: u8 = 23;
pub(super) const KEYS: u8 = 24;
pub(super) const MOMENT: u8 = 25;

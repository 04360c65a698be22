//! What the black-box tests share: data, and the runner of the SQL scripts in `slt/`.
//!
//! Everything here goes through the front door of the library, [`diligence_db`], and never looks inside.

pub mod data;
pub mod idle;
pub mod slt;
pub mod strangers;

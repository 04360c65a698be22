//! The house tidies itself: checks of the repository, each of which says what to do about what it finds.
//!
//! [`House`] is the repository as a value: its [`files`], and the crates in it. [`lexer`] and [`syntax`] read a Rust
//! file, [`packages`] make trees of modules of them, in which a path can be followed to what it names. [`markdown`]
//! reads a document, and [`programs`] are what command lines in documents may say. The other modules are one check
//! each, and [`CHECKS`] has them all. What is found and is right nevertheless stands in `allowed.txt`, with the reason.
//!
//! What is always true here: a check reads only the house, so a small made-up one can show that it finds what it
//! should.

pub mod documents;
pub mod failures;
pub mod files;
mod findings;
pub mod headers;
mod house;
pub mod leftovers;
pub mod lexer;
pub mod links;
pub mod markdown;
pub mod names;
pub mod packages;
pub mod programs;
pub mod rooms;
pub mod syntax;
pub mod width;

use std::io;
use std::path::Path;

pub use findings::Finding;
pub use house::House;

/// A check with its name in `allowed.txt`.
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// What it finds.
    pub find: fn(&House) -> Vec<Finding>,
}

/// Every check.
pub const CHECKS: &[Check] = &[
    Check { name: "rooms", find: rooms::check },
    Check { name: "inner", find: rooms::check_inner },
    Check { name: "names", find: names::check },
    Check { name: "fails", find: failures::check },
    Check { name: "documents", find: documents::check },
    Check { name: "links", find: links::check },
    Check { name: "width", find: width::check },
    Check { name: "modules", find: headers::check },
    Check { name: "leftovers", find: leftovers::check },
];

/// What a check finds but for the exceptions in `allowed.txt`.
pub fn findings_of(house: &House, check: &Check) -> Vec<Finding> {
    findings::without_allowed(check.name, (check.find)(house), include_str!("../allowed.txt"))
}

/// The repository that this crate is in.
///
/// Fails if one of its files cannot be read.
pub fn house_of_this_crate() -> io::Result<House> {
    House::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
}

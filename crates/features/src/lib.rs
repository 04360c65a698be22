//! One set of features for every dependency, whichever package is built, so that Cargo compiles each of them once.
//!
//! There is no code here: `Cargo.toml` lists the features that the workspace as a whole asks for, and each package
//! depends on it. After a change of a dependency, `cargo hakari generate && cargo hakari manage-deps` writes it anew
//! (`cargo install cargo-hakari`).

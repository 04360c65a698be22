//! TPC-H data for tests: generated once per machine, kept in the build's folder for temporary files.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use diligence_base::Result;
use diligence_tpch::{Options, generate};

/// Generating twice at once would write every file twice.
static GENERATING: Mutex<()> = Mutex::new(());

/// The folder under `temporary` that holds the eight tables at a scale factor.
pub fn tpch(temporary: &Path, scale_factor: f64) -> Result<PathBuf> {
    let _one = GENERATING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = temporary.join(format!("tpch-sf{scale_factor}"));
    generate(&Options::new(scale_factor), &folder, |_| {})?;
    Ok(folder)
}

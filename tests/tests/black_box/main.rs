//! Diligence from outside, through the library's front door: one program, so that it is linked once.

mod crowd;
mod damaged_files;
mod faults;
mod first_rows;
mod library;
mod memory;
mod panics;
mod sharing;
mod sharing_seeds;
mod tpch_budgets;
mod tpch_refresh;
mod transcripts;
mod web_log_budgets;

//! Damaged databases.

use std::path::Path;
use std::sync::Arc;

use diligence_base::ErrorKind;
use diligence_base::seams::{CrashDisk, Disk};

use crate::ScanRequest;
use crate::external::testing::{all, quietly, try_read_all};
use crate::external::{Format, OpenOptions, open, sqlite_tables};

fn made(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slt/data/lakes/sqlite").join(name)).unwrap()
}

#[test]
fn tables_are_listed() {
    let disk: Arc<dyn Disk> = Arc::new(CrashDisk::holding([("shop.db", made("shop.db"))]));
    let names = sqlite_tables("shop.db", &disk).unwrap();
    assert_eq!(names, ["computed", "items", "keyed", "long", "many rows", "mixed"]);
}

#[test]
fn a_damaged_database_is_an_error_and_never_a_panic() {
    let whole = made("shop.db");
    let (mut read, mut refused) = (0, 0);
    let mut chance = 7u64;
    let mut below = |bound: usize| {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((chance >> 33) as usize) % bound
    };
    for round in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..=below(4) {
            // Headers of pages more often than what is in them.
            let page = below(whole.len() / 1024) * 1024;
            let at = if below(2) == 0 { page + below(16) } else { page + below(1024) };
            bytes[at] = below(256) as u8;
        }
        if below(10) == 0 {
            bytes.truncate(below(whole.len()));
        }
        let disk: Arc<dyn Disk> = Arc::new(CrashDisk::holding([("shop.db", bytes)]));
        for name in ["items", "many rows", "long"] {
            let options =
                OpenOptions { format: Some(Format::Sqlite), table: Some(name.to_owned()), ..OpenOptions::default() };
            let result = quietly(|| {
                let table = open("shop.db", &options, disk.clone())?;
                let request = ScanRequest { columns: all(&table), predicate: None };
                try_read_all(&table, &request, &[], 1000, true)
            });
            match result {
                Ok(_) => read += 1,
                Err(error) => {
                    assert_ne!(error.kind(), ErrorKind::Bug, "{round}: {error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(read > 50 && refused > 50, "{read} read, {refused} refused");
}

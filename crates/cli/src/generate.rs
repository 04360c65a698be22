//! `diligence generate`: generates data, with a progress bar per table.

use diligence_base::ErrorKind;
use diligence_tpch::{Options, Outcome, TpchTable};
use indicatif::HumanBytes;

use crate::arguments::{FileFormat, GenerateArguments, Generated, TpchArguments};
use crate::failure::{Done, Failure, complain};
use crate::progress::{count_text, rows_bar};

/// Runs the subcommand. Fails if the options are invalid or a file cannot be written.
pub fn run(arguments: &GenerateArguments) -> Done {
    match &arguments.what {
        Generated::Tpch(arguments) => tpch(arguments),
    }
}

fn tpch(arguments: &TpchArguments) -> Done {
    let FileFormat::Parquet = arguments.format;
    let options = Options { force: arguments.force, ..Options::new(arguments.sf) };
    let rows_total: usize = TpchTable::ALL.iter().map(|table| table.rows_estimate(arguments.sf)).sum();
    let bar = rows_bar(rows_total as u64);
    let mut rows_before = 0;
    let mut table = None;
    let mut rows_of_table = 0;
    let files = diligence_tpch::generate(&options, &arguments.out, |progress| {
        if table.replace(progress.table) != Some(progress.table) {
            rows_before += rows_of_table;
            bar.set_message(progress.table.name());
        }
        rows_of_table = progress.rows_done;
        bar.set_position((rows_before + rows_of_table) as u64);
    });
    bar.finish_and_clear();
    let files = files.map_err(|error| match error.kind() {
        ErrorKind::Input => Failure::Usage(error.to_string()),
        _ => Failure::Other(error.to_string()),
    })?;
    for file in &files {
        match file.outcome {
            Outcome::Kept => complain(format!("{}: kept", file.path.display())),
            Outcome::Written { rows, bytes } => {
                complain(format!("{}: {}, {}", file.path.display(), count_text(rows as u64, "row"), HumanBytes(bytes)));
            }
        }
    }
    Ok(())
}

//! How results are shown: what the commands change of it, and what is said of that.

use std::cell::Cell;

use super::commands::{Command, Switch};
use crate::display::Display;
use crate::output::{Expanded, Format, Frame};

/// Changes how results are shown as a command says. `folded` is what `\x` goes back to.
pub fn change(display: &mut Display, folded: &Cell<Expanded>, command: Command) {
    let table = &mut display.table;
    match command {
        Command::Mode(format, frame, expanded) => {
            display.format = format;
            (table.frame, table.expanded) = (frame, expanded);
        }
        Command::Expanded(wanted) => {
            let now = table.expanded;
            if now != Expanded::On {
                folded.set(now);
            }
            let switched = if now == Expanded::On { folded.get() } else { Expanded::On };
            table.expanded = wanted.unwrap_or(switched);
        }
        Command::MaxRows(Some(rows)) => {
            table.rows = (rows > 0).then_some(rows);
            display.rows_chosen = true;
        }
        Command::Switch(switch, on) => {
            let on = on.unwrap_or_else(|| !is_on(display, switch));
            match switch {
                Switch::Headers => display.table.headers = on,
                Switch::Types => display.table.types = on,
                Switch::Pager => display.pager = on,
                Switch::Timer => display.timer = on,
                Switch::Footer => display.table.footer = on,
                Switch::TuplesOnly => (display.table.headers, display.table.footer) = (!on, !on),
            }
        }
        Command::Null(text) => {
            table.unaligned_null.clone_from(&text);
            table.null = text;
        }
        Command::Border(frame) => table.frame = frame,
        Command::Align if display.format == Format::Unaligned => display.format = Format::Table,
        Command::Align => display.format = Format::Unaligned,
        Command::FieldSeparator(Some(text)) => table.field_separator = text,
        Command::RecordSeparator(text) => table.record_separator = text,
        Command::CsvSeparator(separator) => table.csv_separator = separator,
        _ => {}
    }
}

/// What is said of a change; `None` of other commands.
pub fn told(display: &Display, command: &Command) -> Option<String> {
    let told = match command {
        Command::Mode(..) | Command::Align => format!("Output format is {}.", format_name(display)),
        Command::FieldSeparator(_) => told_separator("Field", &display.table.field_separator),
        Command::RecordSeparator(_) => told_separator("Record", &display.table.record_separator),
        Command::CsvSeparator(separator) => format!("Field separator for CSV is \"{separator}\"."),
        Command::Expanded(_) => match display.table.expanded {
            Expanded::Auto => "Expanded display is used automatically.".to_owned(),
            Expanded::On => "Expanded display is on.".to_owned(),
            Expanded::Off => "Expanded display is off.".to_owned(),
        },
        Command::MaxRows(_) => match display.table.rows {
            Some(rows) => format!("Tables show {rows} rows at most."),
            None => "Tables show all rows.".to_owned(),
        },
        Command::Switch(switch, _) => format!("{} is {}.", switch.name(), on(is_on(display, *switch))),
        Command::Null(text) => format!("Null display is \"{text}\"."),
        Command::Border(_) => format!("Border style is {}.", border(display.table.frame)),
        _ => return None,
    };
    Some(told)
}

/// All of that, a line for each setting.
pub fn shown(display: &Display) -> Vec<String> {
    let table = &display.table;
    let expanded = match table.expanded {
        Expanded::Off => "off",
        Expanded::On => "on",
        Expanded::Auto => "auto",
    };
    let rows = table.rows.map_or_else(|| "all".to_owned(), |rows| rows.to_string());
    let settings = [
        ("mode", format_name(display)),
        ("expanded", expanded),
        ("maxrows", rows.as_str()),
        ("headers", on(table.headers)),
        ("types", on(table.types)),
        ("nullvalue", table.null.as_str()),
        ("border", border(table.frame)),
        ("separator", table.field_separator.as_str()),
        ("pager", on(display.pager)),
        ("timer", on(display.timer)),
    ];
    settings.iter().map(|(name, value)| format!("{name:<10} {value}")).collect()
}

/// What is said of a separator.
pub fn told_separator(of: &str, text: &str) -> String {
    match text {
        "\n" => format!("{of} separator is <newline>."),
        "\0" => format!("{of} separator is zero byte."),
        text => format!("{of} separator is \"{text}\"."),
    }
}

fn is_on(display: &Display, switch: Switch) -> bool {
    match switch {
        Switch::Headers => display.table.headers,
        Switch::Types => display.table.types,
        Switch::Pager => display.pager,
        Switch::Timer => display.timer,
        Switch::Footer => display.table.footer,
        Switch::TuplesOnly => !display.table.footer,
    }
}

fn on(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn border(frame: Frame) -> &'static str {
    match frame {
        Frame::Bare => "0",
        Frame::Inner => "1",
        Frame::Box => "2",
        Frame::Markdown => "markdown",
    }
}

fn format_name(display: &Display) -> &'static str {
    match display.format {
        Format::Table if display.table.frame == Frame::Markdown => "markdown",
        Format::Table => "table",
        Format::Csv => "csv",
        Format::Tsv => "tsv",
        Format::Json => "json",
        Format::Jsonl => "jsonl",
        Format::Unaligned => "unaligned",
        Format::Arrow => "arrow",
        Format::None => "none",
    }
}

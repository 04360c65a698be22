//! What a spreadsheet says about all of its sheets: their names, the texts that cells share, and which numbers are
//! dates.

use diligence_base::{Error, Result};
use quick_xml::Reader;
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::archive::{Archive, damaged};

/// What a number in a cell stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberKind {
    Number,
    Date,
    Time,
    Timestamp,
}

/// A spreadsheet.
pub(super) struct Workbook {
    archive: Archive,
    /// Names of sheets with the files that have them, in their order.
    sheets: Vec<(String, String)>,
    /// Whether days are counted from 1904 on.
    pub counts_from_1904: bool,
    /// What numbers stand for, by the style of their cells.
    pub kinds: Vec<NumberKind>,
    /// The texts that cells share.
    pub texts: Vec<String>,
}

impl Workbook {
    /// Reads all but the sheets. Fails with kind `Input` for what is no spreadsheet.
    pub fn open(bytes: Vec<u8>) -> Result<Self> {
        let archive = Archive::open(bytes)?;
        let main = main_file(&archive)?;
        let text = archive.text(&main)?.ok_or_else(damaged)?;
        let folder = main.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        let links = links(&archive, &main)?;
        let target = |id: &str| {
            let (_, target, _) = links.iter().find(|(own, _, _)| own == id)?;
            Some(placed(&folder, target))
        };
        let (mut sheets, mut counts_from_1904) = (Vec::new(), false);
        elements(&text, |element| {
            match element.local_name().as_ref() {
                b"sheet" => {
                    let (name, id) = (attribute(element, b"name")?, attribute(element, b"r:id")?);
                    // Charts have no cells, and no file that is a sheet.
                    if let (Some(name), Some(file)) = (name, id.and_then(|id| target(&id))) {
                        sheets.push((name, file));
                    }
                }
                b"workbookPr" => {
                    let told = attribute(element, b"date1904")?;
                    counts_from_1904 = matches!(told.as_deref(), Some("1" | "true"));
                }
                _ => {}
            }
            Ok(())
        })?;
        let of_kind = |kind: &str| {
            let found = links.iter().find(|(_, _, own)| own.ends_with(kind));
            found.map_or_else(|| Ok(None), |(_, target, _)| archive.text(&placed(&folder, target)))
        };
        let kinds = of_kind("/styles")?.map_or_else(|| Ok(vec![]), |text| number_kinds(&text))?;
        let texts = of_kind("/sharedStrings")?.map_or_else(|| Ok(vec![]), |text| shared_texts(&text))?;
        Ok(Self { archive, sheets, counts_from_1904, kinds, texts })
    }

    /// The XML of a sheet, the first one if none is named. Fails with 22023 if there is none of this name.
    pub fn sheet(&self, name: Option<&str>) -> Result<String> {
        let found = match name {
            Some(name) => self.sheets.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)),
            None => self.sheets.first(),
        };
        let Some((_, file)) = found else {
            let names = self.sheets.iter().map(|(own, _)| format!("'{own}'")).collect::<Vec<_>>().join(", ");
            let error = Error::input(format!("there is no sheet '{}'", name.unwrap_or(""))).with_code("22023");
            return Err(error.with_hint(format!("the sheets are {names}")));
        };
        self.archive.text(file)?.ok_or_else(damaged)
    }
}

/// The file that lists the sheets.
fn main_file(archive: &Archive) -> Result<String> {
    let found = links(archive, "")?.into_iter().find(|(_, _, kind)| kind.ends_with("/officeDocument"));
    Ok(found.map_or_else(|| "xl/workbook.xml".to_owned(), |(_, target, _)| placed("", &target)))
}

/// What a file names: ids, files and kinds.
fn links(archive: &Archive, of: &str) -> Result<Vec<(String, String, String)>> {
    let (folder, name) = of.rsplit_once('/').map_or((String::new(), of), |(folder, name)| (format!("{folder}/"), name));
    let Some(text) = archive.text(&format!("{folder}_rels/{name}.rels"))? else { return Ok(vec![]) };
    let mut links = Vec::new();
    elements(&text, |element| {
        if element.local_name().as_ref() == b"Relationship" {
            let told = |name: &[u8]| Ok::<_, Error>(attribute(element, name)?.unwrap_or_default());
            links.push((told(b"Id")?, told(b"Target")?, told(b"Type")?));
        }
        Ok(())
    })?;
    Ok(links)
}

/// A file as another file in a folder names it.
fn placed(folder: &str, target: &str) -> String {
    match target.strip_prefix('/') {
        Some(whole) => whole.to_owned(),
        None => format!("{folder}{target}"),
    }
}

/// What numbers stand for, by the number of a style.
fn number_kinds(text: &str) -> Result<Vec<NumberKind>> {
    let (mut own, mut kinds, mut is_inside) = (Vec::new(), Vec::new(), false);
    let mut reader = Reader::from_str(text);
    loop {
        match reader.read_event().map_err(|_| damaged())? {
            Event::Start(element) | Event::Empty(element) => match element.local_name().as_ref() {
                b"numFmt" => {
                    let code = attribute(&element, b"formatCode")?.unwrap_or_default();
                    own.push((attribute(&element, b"numFmtId")?, kind_of_code(&code)));
                }
                b"cellXfs" => is_inside = true,
                b"xf" if is_inside => {
                    let id = attribute(&element, b"numFmtId")?;
                    let known = own.iter().find(|(own, _)| *own == id).map(|(_, kind)| *kind);
                    let number = id.and_then(|id| id.parse().ok()).unwrap_or(0);
                    kinds.push(known.unwrap_or_else(|| kind_of_number(number)));
                }
                _ => {}
            },
            Event::End(element) if element.local_name().as_ref() == b"cellXfs" => is_inside = false,
            Event::Eof => return Ok(kinds),
            _ => {}
        }
    }
}

/// What the forms stand for that every spreadsheet has. Durations (46) are numbers of days.
fn kind_of_number(number: u32) -> NumberKind {
    match number {
        14..=17 | 27..=31 | 34..=36 | 50..=58 => NumberKind::Date,
        18..=21 | 32 | 33 | 45 | 47 => NumberKind::Time,
        22 => NumberKind::Timestamp,
        _ => NumberKind::Number,
    }
}

/// What a form stands for that a spreadsheet defines: `yyyy-mm-dd`, `[h]:mm`, `#,##0.00 "days"`.
fn kind_of_code(code: &str) -> NumberKind {
    let first = code.split(';').next().unwrap_or_default();
    let (mut letters, mut rest) = (String::new(), first.chars());
    while let Some(letter) = rest.next() {
        match letter {
            '"' => drop(rest.by_ref().find(|letter| *letter == '"')),
            '\\' | '_' | '*' => drop(rest.next()),
            '[' => {
                let inner = rest.by_ref().take_while(|letter| *letter != ']').collect::<String>();
                // A duration, which may have more hours than a day.
                if !inner.is_empty()
                    && inner.chars().all(|letter| matches!(letter.to_ascii_lowercase(), 'h' | 'm' | 's'))
                {
                    return NumberKind::Number;
                }
            }
            letter => letters.push(letter.to_ascii_lowercase()),
        }
    }
    if matches!(letters.as_str(), "general" | "standard" | "@") {
        return NumberKind::Number;
    }
    let has = |wanted: &[char]| letters.contains(wanted);
    match (has(&['y', 'd']), has(&['h', 's'])) {
        (true, true) => NumberKind::Timestamp,
        (true, false) => NumberKind::Date,
        (false, true) => NumberKind::Time,
        (false, false) if has(&['m']) => NumberKind::Date,
        (false, false) => NumberKind::Number,
    }
}

/// The texts that cells share. Readings of Japanese words, which stand beside them, are left out.
fn shared_texts(text: &str) -> Result<Vec<String>> {
    let (mut texts, mut current, mut is_text, mut is_beside) = (Vec::new(), String::new(), false, false);
    let mut reader = Reader::from_str(text);
    loop {
        match reader.read_event().map_err(|_| damaged())? {
            Event::Start(element) => match element.local_name().as_ref() {
                b"si" => current.clear(),
                b"t" => is_text = !is_beside,
                b"rPh" => is_beside = true,
                _ => {}
            },
            Event::End(element) => match element.local_name().as_ref() {
                b"si" => texts.push(unescaped(std::mem::take(&mut current))),
                b"t" => is_text = false,
                b"rPh" => is_beside = false,
                _ => {}
            },
            Event::Empty(element) if element.local_name().as_ref() == b"si" => texts.push(String::new()),
            Event::Text(more) if is_text => current.push_str(&more.xml10_content().map_err(|_| damaged())?),
            Event::CData(more) if is_text => current.push_str(&more.xml10_content().map_err(|_| damaged())?),
            Event::GeneralRef(reference) if is_text => current.push(referred(&reference)?),
            Event::Eof => return Ok(texts),
            _ => {}
        }
    }
}

/// A text in which `_x000D_` and the like stand for characters that XML does not have.
pub(super) fn unescaped(text: String) -> String {
    if !text.contains("_x") {
        return text;
    }
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text.as_str());
    while let Some(at) = rest.find("_x") {
        let code = rest.get(at + 2..at + 6).filter(|_| rest.as_bytes().get(at + 6) == Some(&b'_'));
        let letter = code.and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
        plain.push_str(&rest[..at]);
        match letter {
            Some(letter) => {
                plain.push(letter);
                rest = &rest[at + 7..];
            }
            None => {
                plain.push_str("_x");
                rest = &rest[at + 2..];
            }
        }
    }
    plain + rest
}

/// The character that `&amp;` or `&#10;` stands for.
pub(super) fn referred(reference: &BytesRef<'_>) -> Result<char> {
    if let Some(letter) = reference.resolve_char_ref().map_err(|_| damaged())? {
        return Ok(letter);
    }
    match reference.as_ref() {
        b"amp" => Ok('&'),
        b"lt" => Ok('<'),
        b"gt" => Ok('>'),
        b"quot" => Ok('"'),
        b"apos" => Ok('\''),
        _ => Err(damaged()),
    }
}

/// Calls a function with each element of an XML text.
fn elements(text: &str, mut see: impl FnMut(&BytesStart<'_>) -> Result<()>) -> Result<()> {
    let mut reader = Reader::from_str(text);
    loop {
        match reader.read_event().map_err(|_| damaged())? {
            Event::Start(element) | Event::Empty(element) => see(&element)?,
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}

/// An attribute of an element, by its name with its prefix.
pub(super) fn attribute(element: &BytesStart<'_>, name: &[u8]) -> Result<Option<String>> {
    let found = element.try_get_attribute(name).map_err(|_| damaged())?;
    found.map(|found| found.unescape_value().map(std::borrow::Cow::into_owned).map_err(|_| damaged())).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_numbers_are_told_apart() {
        for (code, kind) in [
            ("General", NumberKind::Number),
            ("0.00", NumberKind::Number),
            ("#,##0 \"days\"", NumberKind::Number),
            ("[Red]0", NumberKind::Number),
            ("[h]:mm:ss", NumberKind::Number),
            ("yyyy\\-mm\\-dd", NumberKind::Date),
            ("[$-409]d\\-mmm\\-yy;@", NumberKind::Date),
            ("mmm", NumberKind::Date),
            ("h:mm AM/PM", NumberKind::Time),
            ("dd.mm.yyyy hh:mm", NumberKind::Timestamp),
        ] {
            assert_eq!(kind_of_code(code), kind, "{code}");
        }
    }

    #[test]
    fn characters_that_xml_does_not_have_are_read() {
        assert_eq!(unescaped("a_x000D_b".to_owned()), "a\rb");
        assert_eq!(unescaped("_xyz_x00".to_owned()), "_xyz_x00");
    }
}

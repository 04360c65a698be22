//! `pg_operator`: PostgreSQL's operators of types that are here, by PostgreSQL's numbers.

use diligence_catalog::SessionSnapshot;
use diligence_catalog::privileges::OWNER_OID;

use super::CATALOG_OID;
use super::rows::Cell;

pub(super) const OPERATORS: &str = "oid:p oprname:n oprnamespace:p oprowner:p oprkind:c oprcanmerge:b oprcanhash:b oprleft:p oprright:p \
                                    oprresult:p oprcom:p oprnegate:p oprcode:p oprrest oprjoin";

/// An operator a line: number, name, kind, two flags, and the numbers of types, operators and its function.
const LINES: &str = include_str!("operators.txt");

pub(super) fn operators(_: &SessionSnapshot) -> Vec<Vec<Cell>> {
    LINES.lines().filter(|line| !line.starts_with("# ")).filter_map(row).collect()
}

fn row(line: &str) -> Option<Vec<Cell>> {
    let parts = line.split(' ').collect::<Vec<_>>();
    let [oid, name, kind, merges, hashes, numbers @ ..] = parts.as_slice() else { return None };
    let number = |text: &&str| text.parse::<i64>().ok().map(Cell::Number);
    let flag = |text: &str| Cell::Flag(text == "t");
    let mut cells = vec![number(oid)?, (*name).into(), CATALOG_OID.into(), OWNER_OID.into(), (*kind).into()];
    cells.extend([flag(merges), flag(hashes)]);
    for text in numbers {
        cells.push(number(text)?);
    }
    Some(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_an_operator() {
        let lines = LINES.lines().filter(|line| !line.starts_with("# ")).collect::<Vec<_>>();
        assert!(lines.len() > 500);
        for line in lines {
            assert_eq!(row(line).map(|cells| cells.len()), Some(13), "{line}");
        }
    }
}

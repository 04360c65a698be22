//! Cursors of a procedure. Their rows are there when they are opened, and stay until the transaction ends.

use std::time::SystemTime;

use parking_lot::MutexGuard;

use super::ran::first_of;
use super::statements::named_error;
use super::*;
use crate::cursors::{CursorInfo, CursorRows, OpenCursor, Passed};

/// The values of a row, with their names.
type Row = Vec<(String, Typed)>;

/// The values of the row on which a cursor stands, if it is on one.
fn current(rows: &mut CursorRows) -> Result<Option<Row>> {
    let Some(row) = rows.current()? else { return Ok(None) };
    let values = rows.schema().fields().iter().zip(row.columns());
    Ok(Some(values.map(|(field, column)| (field.name().clone(), first_of(&type_of(field), column))).collect()))
}

/// A row of NULLs.
fn nulls(rows: &CursorRows) -> Row {
    let fields = rows.schema().fields().iter();
    fields.map(|field| (field.name().clone(), Typed::null(type_of(field)))).collect()
}

impl Run<'_> {
    /// What is done with a cursor.
    pub(super) fn cursor_step(&mut self, step: &CursorStep) -> Result<()> {
        match step {
            CursorStep::Open { name, arguments, rows } => {
                let opened = match rows {
                    Some(rows) => self.opened_rows(rows)?,
                    None => self.cursor_rows(name, arguments)?,
                };
                self.open_cursor(name, opened).map(|_| ())
            }
            CursorStep::Close { name } => {
                let portal = self.portal(name)?;
                self.session.parts().cursors().close(&portal);
                Ok(())
            }
            CursorStep::Fetch { name, way, into } => {
                let (found, nulls) = {
                    let cursor = self.moved(name, way)?.0;
                    let mut rows = cursor.rows.lock();
                    (current(&mut rows)?, nulls(&rows))
                };
                let is_found = found.is_some();
                self.store_row(found.unwrap_or(nulls), into)?;
                self.note(u64::from(is_found))
            }
            CursorStep::Move { name, way } => {
                let (_, passed) = self.moved(name, way)?;
                self.note(passed)
            }
        }
    }

    /// The next row of a cursor; it stands on it, or behind the last.
    pub(super) fn next_row(&self, portal: &str) -> Result<Option<Row>> {
        let Some(cursor) = self.session.parts().cursors().get(portal)? else { return Ok(None) };
        let mut rows: MutexGuard<'_, CursorRows> = cursor.rows.lock();
        rows.go(crate::cursors::CursorWay::By(1));
        current(&mut rows)
    }

    /// The rows of a query as those of a cursor.
    fn opened_rows(&mut self, rows: &Rows) -> Result<OpenCursor> {
        match rows {
            Rows::Of(sql) => self.opened_query(sql),
            Rows::Computed(computed) => {
                let (tree, using) = self.computed_tree(computed)?;
                let values = self.computed_values(&tree, &using)?;
                self.opened(&tree, &values)
            }
            Rows::Cursor { name, arguments } => self.cursor_rows(name, arguments),
        }
    }

    fn opened_query(&mut self, sql: &Sql) -> Result<OpenCursor> {
        let tree = self.tree("", sql)?;
        let values = self.values(&tree)?;
        self.opened(&tree, &values).map_err(|error| named_error(&tree, error))
    }

    /// The rows of a declared cursor's query, which gets these arguments.
    pub(super) fn cursor_rows(&mut self, name: &str, arguments: &[(Option<String>, Sql)]) -> Result<OpenCursor> {
        let declared = self.declared_cursors.iter().rev().find(|(known, ..)| known == name).cloned();
        let Some((_, parameters, query)) = declared else {
            let message = format!("cursor variable \"{name}\" is not bound to a query");
            return Err(Error::input(message).with_code("42601").with_hint("OPEN … FOR query gives it one"));
        };
        if parameters.len() != arguments.len() {
            let message = format!("cursor \"{name}\" takes {} arguments, found {}", parameters.len(), arguments.len());
            return Err(Error::input(message).with_code("42601"));
        }
        let mut scope = Scope::default();
        for (place, (argument, value)) in arguments.iter().enumerate() {
            let named = argument
                .as_ref()
                .map_or(Some(place), |wanted| parameters.iter().position(|(parameter, _)| parameter == wanted));
            let Some((parameter, named_type)) = named.and_then(|place| parameters.get(place)) else {
                let wanted = argument.clone().unwrap_or_default();
                let message = format!("cursor \"{name}\" has no argument named \"{wanted}\"");
                return Err(Error::input(message).with_code("42601"));
            };
            let mut variable = Variable::new(parameter.clone(), self.null_of(named_type)?);
            let value = self.value_of(value)?;
            variable.assign(value, &self.zone)?;
            scope.variables.push(variable);
        }
        self.scopes.push(scope);
        let opened = self.opened_query(&query);
        self.scopes.pop();
        opened
    }

    /// Fails with 42P03 if a cursor is open.
    pub(super) fn refuse_open(&self, name: &str) -> Result<()> {
        match self.portal(name) {
            Ok(portal) => Err(Error::input(format!("cursor \"{portal}\" already in use")).with_code("42P03")),
            Err(_) => Ok(()),
        }
    }

    /// Opens the cursor that a variable names, and gives its name.
    pub(super) fn open_cursor(&mut self, name: &str, opened: OpenCursor) -> Result<String> {
        let unknown = || Error::input(format!("\"{name}\" is not a known variable")).with_code("42601");
        let value = self.scopes.find(name).ok_or_else(unknown)?.value()?.shown(&self.zone)?;
        let cursors = self.session.parts().cursors();
        let portal = match value {
            Some(portal) => portal,
            None => {
                let is_declared = self.declared_cursors.iter().any(|(known, ..)| known == name);
                let portal = match is_declared && !cursors.is_open(name) {
                    true => name.to_owned(),
                    false => cursors.next_name(),
                };
                let zone = self.zone.clone();
                self.scopes.find_mut(name).ok_or_else(unknown)?.assign(Typed::text(&portal), &zone)?;
                portal
            }
        };
        let info = CursorInfo {
            statement: String::new(),
            is_holdable: false,
            is_binary: false,
            is_scrollable: true,
            opened: SystemTime::now(),
        };
        let in_use = |_| Error::input(format!("cursor \"{portal}\" already in use")).with_code("42P03");
        cursors.open(&portal, info, Some(opened)).map_err(in_use)?;
        Ok(portal)
    }

    /// The open cursor that a variable names. Fails with 22004 if it names none, 34000 if it is not open.
    fn portal(&self, name: &str) -> Result<String> {
        let unknown = || Error::input(format!("\"{name}\" is not a known variable")).with_code("42601");
        let value = self.scopes.find(name).ok_or_else(unknown)?.value()?.shown(&self.zone)?;
        let null = || Error::value(format!("cursor variable \"{name}\" is null")).with_code("22004");
        let portal = value.ok_or_else(null)?;
        match self.session.parts().cursors().is_open(&portal) {
            true => Ok(portal),
            false => Err(Error::input(format!("cursor \"{portal}\" does not exist")).with_code("34000")),
        }
    }

    /// A cursor where it has gone, and how many rows it has passed.
    fn moved(&mut self, name: &str, way: &CursorWay) -> Result<(OpenCursor, u64)> {
        use crate::cursors::CursorWay as Way;
        let number = match way {
            CursorWay::By(Some(sql), _) | CursorWay::To(sql) => Some(self.integer(sql, "cursor position")?),
            _ => None,
        };
        let portal = self.portal(name)?;
        let missing = || Error::bug("a cursor is not there");
        let cursor = self.session.parts().cursors().get(&portal)?.ok_or_else(missing)?;
        let way = match way {
            CursorWay::By(_, sign) => Way::By(number.unwrap_or(1).saturating_mul(*sign)),
            CursorWay::To(_) => Way::To(number.unwrap_or(0)),
            CursorWay::First => Way::To(1),
            CursorWay::Last => Way::To(-1),
            CursorWay::All => Way::All,
            CursorWay::AllBackward => Way::AllBackward,
        };
        let passed: Passed = cursor.rows.lock().go(way);
        Ok((cursor, passed.rows()))
    }
}

//! Cursors of a procedure. Their rows are there when they are opened.

use super::current::Found;
use super::statements::named_error;
use super::*;

/// The rows of a cursor, and where it stands.
pub(super) struct OpenCursor {
    ran: Ran,
    /// How its rows are found again, if that may be asked for.
    pub(super) found: Option<Found>,
    /// 0 before the first row; one more than there are rows behind the last.
    at: i64,
}

impl OpenCursor {
    pub(super) fn new(ran: Ran, found: Option<Found>) -> Self {
        Self { ran, found, at: 0 }
    }

    /// The row that it stands on, with the numbers of rows behind its columns.
    pub(super) fn current(&self) -> Result<Option<Vec<(String, Typed)>>> {
        match u64::try_from(self.at - 1) {
            Ok(row) => self.ran.row(row),
            Err(_) => Ok(None),
        }
    }

    /// The same without these numbers.
    fn shown(&self, mut row: Vec<(String, Typed)>) -> Vec<(String, Typed)> {
        let hidden = self.found.as_ref().map_or(0, Found::numbers);
        row.truncate(row.len().saturating_sub(hidden));
        row
    }

    /// The next row, if there is one; the cursor stands on it, or behind the last.
    pub(super) fn step(&mut self) -> Result<Option<Vec<(String, Typed)>>> {
        self.at = (self.at + 1).min(self.ran.row_count() as i64 + 1);
        Ok(self.current()?.map(|row| self.shown(row)))
    }
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
                self.cursors.remove(&portal);
                Ok(())
            }
            CursorStep::Fetch { name, way, into } => {
                let cursor = self.moved(name, way)?.0;
                let (is_found, values) = match cursor.current()? {
                    Some(values) => (true, cursor.shown(values)),
                    None => (false, cursor.shown(cursor.ran.nulls())),
                };
                self.store_row(values, into)?;
                self.note(u64::from(is_found))
            }
            CursorStep::Move { name, way } => {
                let (_, passed) = self.moved(name, way)?;
                self.note(passed)
            }
        }
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
        let portal = match value {
            Some(portal) => portal,
            None => {
                self.portals += 1;
                let is_declared = self.declared_cursors.iter().any(|(known, ..)| known == name);
                let portal = match is_declared && !self.cursors.contains_key(name) {
                    true => name.to_owned(),
                    false => format!("<unnamed portal {}>", self.portals),
                };
                let zone = self.zone.clone();
                self.scopes.find_mut(name).ok_or_else(unknown)?.assign(Typed::text(&portal), &zone)?;
                portal
            }
        };
        if self.cursors.contains_key(&portal) {
            return Err(Error::input(format!("cursor \"{portal}\" already in use")).with_code("42P03"));
        }
        self.cursors.insert(portal.clone(), opened);
        Ok(portal)
    }

    /// The open cursor that a variable names. Fails with 22004 if it names none, 34000 if it is not open.
    fn portal(&self, name: &str) -> Result<String> {
        let unknown = || Error::input(format!("\"{name}\" is not a known variable")).with_code("42601");
        let value = self.scopes.find(name).ok_or_else(unknown)?.value()?.shown(&self.zone)?;
        let null = || Error::value(format!("cursor variable \"{name}\" is null")).with_code("22004");
        let portal = value.ok_or_else(null)?;
        match self.cursors.contains_key(&portal) {
            true => Ok(portal),
            false => Err(Error::input(format!("cursor \"{portal}\" does not exist")).with_code("34000")),
        }
    }

    /// A cursor where it has gone, and how many rows it has passed.
    fn moved(&mut self, name: &str, way: &CursorWay) -> Result<(&OpenCursor, u64)> {
        let number = match way {
            CursorWay::By(Some(sql), _) | CursorWay::To(sql) => Some(self.integer(sql, "cursor position")?),
            _ => None,
        };
        let portal = self.portal(name)?;
        let missing = || Error::bug("a cursor is not there");
        let cursor = self.cursors.get_mut(&portal).ok_or_else(missing)?;
        let rows = cursor.ran.row_count() as i64;
        let before = cursor.at;
        let to = match way {
            CursorWay::By(_, sign) => before.saturating_add(number.unwrap_or(1).saturating_mul(*sign)),
            CursorWay::To(_) => match number.unwrap_or(0) {
                number if number < 0 => (rows + 1).saturating_add(number),
                number => number,
            },
            CursorWay::First => 1,
            CursorWay::Last => rows.max(1),
            CursorWay::All => rows + 1,
            CursorWay::AllBackward => 0,
        };
        cursor.at = to.clamp(0, rows + 1);
        let is_on_row = (1..=rows).contains(&cursor.at);
        let passed = match way {
            CursorWay::By(..) | CursorWay::All | CursorWay::AllBackward => {
                let (low, high) = (before.min(cursor.at), before.max(cursor.at));
                let first = if cursor.at > before { low + 1 } else { low };
                let last = if cursor.at > before { high } else { high - 1 };
                (last.min(rows) - first.max(1) + 1).max(0) as u64
            }
            _ => u64::from(is_on_row),
        };
        Ok((&*cursor, passed))
    }
}

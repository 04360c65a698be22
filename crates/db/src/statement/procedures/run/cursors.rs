//! Cursors of a procedure. Their rows are there when they are opened.

use super::*;

/// The rows of a cursor, and where it stands.
pub(super) struct OpenCursor {
    ran: Ran,
    /// 0 before the first row; one more than there are rows behind the last.
    at: i64,
}

impl Run<'_> {
    /// What is done with a cursor.
    pub(super) fn cursor_step(&mut self, step: &CursorStep) -> Result<()> {
        match step {
            CursorStep::Open { name, arguments, rows } => {
                let ran = match rows {
                    Some(rows) => self.rows_of(rows)?,
                    None => self.cursor_rows(name, arguments)?,
                };
                self.open_cursor(name, ran)
            }
            CursorStep::Close { name } => {
                let portal = self.portal(name)?;
                self.cursors.remove(&portal);
                Ok(())
            }
            CursorStep::Fetch { name, way, into } => {
                let cursor = self.moved(name, way)?.0;
                let row = usize::try_from(cursor.at - 1).ok().and_then(|row| cursor.ran.row(row));
                let (is_found, values) = match row {
                    Some(values) => (true, values),
                    None => (false, cursor.ran.nulls()),
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

    /// The rows of a declared cursor's query, which gets these arguments.
    pub(super) fn cursor_rows(&mut self, name: &str, arguments: &[(Option<String>, Sql)]) -> Result<Ran> {
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
        let ran = self.run(&query);
        self.scopes.pop();
        ran
    }

    /// Fails with 42P03 if a cursor is open.
    pub(super) fn refuse_open(&self, name: &str) -> Result<()> {
        match self.portal(name) {
            Ok(portal) => Err(Error::input(format!("cursor \"{portal}\" already in use")).with_code("42P03")),
            Err(_) => Ok(()),
        }
    }

    fn open_cursor(&mut self, name: &str, ran: Ran) -> Result<()> {
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
        self.cursors.insert(portal, OpenCursor { ran, at: 0 });
        Ok(())
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

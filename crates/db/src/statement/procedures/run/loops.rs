//! Loops: over numbers, rows, elements of an array, and as long as something is true.

use super::*;

impl Run<'_> {
    /// A round of a loop; how it goes on behind the loop, if that is left.
    fn round(&mut self, repeated: &Loop) -> Result<Option<Flow>> {
        self.look()?;
        let is_own = |label: &Option<String>| label.is_none() || *label == repeated.label;
        Ok(match self.steps(&repeated.steps)? {
            Flow::Next => None,
            Flow::Continue(label) if is_own(&label) => None,
            Flow::Exit(label) if is_own(&label) => Some(Flow::Next),
            flow => Some(flow),
        })
    }

    pub(super) fn repeat(&mut self, repeated: &Loop) -> Result<Flow> {
        let mut left = Flow::Next;
        match &repeated.over {
            Over::Forever => loop {
                if let Some(flow) = self.round(repeated)? {
                    return Ok(flow);
                }
            },
            Over::While(condition) => {
                while self.is_true(condition)? {
                    if let Some(flow) = self.round(repeated)? {
                        left = flow;
                        break;
                    }
                }
                Ok(left)
            }
            Over::Range { name, from, to, by, is_reverse } => {
                let mut number = self.integer(from, "lower bound")?;
                let to = self.integer(to, "upper bound")?;
                let by = match by {
                    Some(by) => self.integer(by, "BY value")?,
                    None => 1,
                };
                if by <= 0 {
                    let message = "BY value of FOR loop must be greater than zero";
                    return Err(Error::value(message).with_code("22023"));
                }
                let mut is_found = false;
                self.scopes.push(Scope { label: repeated.label.clone(), ..Scope::default() });
                while if *is_reverse { number >= to } else { number <= to } {
                    is_found = true;
                    let value = Typed::bigint(number).into_type(&SqlType::Integer, &self.zone)?;
                    self.scopes.innermost().variables = vec![Variable::new(name.clone(), value)];
                    match self.round(repeated) {
                        Ok(None) => {}
                        Ok(Some(flow)) => {
                            left = flow;
                            break;
                        }
                        Err(error) => {
                            self.scopes.pop();
                            return Err(error);
                        }
                    }
                    number = if *is_reverse { number - by } else { number + by };
                }
                self.scopes.pop();
                self.found(is_found)?;
                Ok(left)
            }
            Over::Rows { targets, rows: Rows::Cursor { name, arguments } } => {
                self.repeat_cursor(repeated, targets, name, arguments)
            }
            Over::Rows { targets, rows } => {
                let ran = self.rows_of(rows)?;
                let into = Into { targets: targets.clone(), is_strict: false };
                let (mut row, mut failed) = (0, None);
                while let Some(values) = ran.row(row)? {
                    row += 1;
                    let done = self.store_row(values, &into).and_then(|()| self.round(repeated));
                    match done {
                        Ok(None) => {}
                        Ok(Some(flow)) => {
                            left = flow;
                            break;
                        }
                        Err(error) => {
                            failed = Some(error);
                            break;
                        }
                    }
                }
                if let Some(error) = failed {
                    return Err(error);
                }
                self.found(row > 0)?;
                Ok(left)
            }
            Over::Elements { target, array } => {
                let array = self.value_of(array)?;
                if array.is_null() {
                    return Err(Error::value("FOREACH expression must not be null").with_code("22004"));
                }
                let (Some(element), Some(list)) = (array.sql_type.element().cloned(), array.value.as_list_opt::<i32>())
                else {
                    let message = format!("FOREACH expression must yield an array, not type {}", array.sql_type);
                    return Err(Error::input(message).with_code("42804"));
                };
                let values = list.value(0);
                for place in 0..values.len() {
                    self.assign(target, Typed { sql_type: element.clone(), value: values.slice(place, 1) })?;
                    if let Some(flow) = self.round(repeated)? {
                        left = flow;
                        break;
                    }
                }
                self.found(!values.is_empty())?;
                Ok(left)
            }
        }
    }

    /// A loop over the rows of a cursor, which it opens and closes. The row is a variable of the loop alone.
    fn repeat_cursor(
        &mut self,
        repeated: &Loop,
        targets: &[Target],
        name: &str,
        arguments: &[(Option<String>, Sql)],
    ) -> Result<Flow> {
        self.refuse_open(name)?;
        let opened = self.cursor_rows(name, arguments)?;
        let before = self.variable(name)?.clone();
        let portal = self.open_cursor(name, opened)?;
        let into = Into { targets: targets.to_vec(), is_strict: false };
        let own = match targets {
            [only] => vec![Variable::record(only.name.clone())],
            _ => vec![],
        };
        self.scopes.push(Scope { variables: own, ..Scope::default() });
        let (mut is_found, mut done) = (false, Ok(None));
        loop {
            done = match self.next_row(&portal) {
                Ok(None) => break,
                Ok(Some(row)) => self.store_row(row, &into).and_then(|()| self.round(repeated)),
                Err(error) => Err(error),
            };
            is_found = true;
            if !matches!(done, Ok(None)) {
                break;
            }
        }
        self.scopes.pop();
        self.session.parts().cursors().close(&portal);
        let left = done?.unwrap_or(Flow::Next);
        let zone = self.zone.clone();
        if let Some(variable) = self.scopes.find_mut(name) {
            variable.assign(before, &zone)?;
        }
        self.found(is_found)?;
        Ok(left)
    }

    pub(super) fn integer(&mut self, sql: &Sql, what: &str) -> Result<i64> {
        let value = self.value_of(sql)?;
        if value.is_null() {
            return Err(Error::value(format!("{what} of FOR loop cannot be null")).with_code("22004"));
        }
        Ok(value.into_type(&SqlType::BigInt, &self.zone)?.value.as_primitive::<Int64Type>().value(0))
    }
}

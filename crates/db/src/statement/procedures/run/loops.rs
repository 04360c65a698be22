//! Loops: over numbers, rows, elements of an array, and as long as something is true.

use arrow::array::new_empty_array;
use arrow::compute::concat;

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
            Over::Elements { target, slice, array } => self.repeat_elements(repeated, target, *slice, array),
        }
    }

    /// A loop over the elements of an array: over its parts of so many dimensions, or over all that is in it.
    fn repeat_elements(&mut self, repeated: &Loop, target: &Target, slice: usize, array: &Sql) -> Result<Flow> {
        let array = self.value_of(array)?;
        if array.is_null() {
            return Err(Error::value("FOREACH expression must not be null").with_code("22004"));
        }
        let mut dimensions = 0;
        let mut inner = &array.sql_type;
        while let Some(element) = inner.element() {
            (dimensions, inner) = (dimensions + 1, element);
        }
        if dimensions == 0 {
            let message = format!("FOREACH expression must yield an array, not type {}", array.sql_type);
            return Err(Error::input(message).with_code("42804"));
        }
        // An empty array has no dimensions.
        let is_empty = array.value.as_list_opt::<i32>().is_some_and(|list| list.value(0).is_empty());
        let dimensions = if is_empty { 0 } else { dimensions };
        if slice > dimensions {
            let message = format!("slice dimension ({slice}) is out of the valid range 0..{dimensions}");
            return Err(Error::value(message).with_code("2202E"));
        }
        let variable = self.scopes.find(&target.name).filter(|_| target.fields.is_empty());
        let sql_type = variable.and_then(|variable| variable.sql_type.as_ref());
        if slice > 0 && sql_type.is_some_and(|sql_type| sql_type.base().element().is_none()) {
            let message = "FOREACH ... SLICE loop variable must be of an array type";
            return Err(Error::input(message).with_code("42804"));
        }
        let (mut sql_type, mut values) = (array.sql_type.clone(), array.value.slice(0, usize::from(!is_empty)));
        for _ in slice..dimensions {
            let (Some(element), Some(list)) = (sql_type.element().cloned(), values.as_list_opt::<i32>()) else {
                return Err(Error::bug("an array is no list"));
            };
            // A part that is NULL has no elements.
            let parts = list.iter().flatten().collect::<Vec<_>>();
            let parts = parts.iter().map(|part| &**part).collect::<Vec<_>>();
            values = match parts.is_empty() {
                true => new_empty_array(&list.value_type()),
                false => concat(&parts).map_err(from_arrow)?,
            };
            sql_type = element;
        }
        let mut left = Flow::Next;
        for place in 0..values.len() {
            self.assign(target, Typed { sql_type: sql_type.clone(), value: values.slice(place, 1) })?;
            if let Some(flow) = self.round(repeated)? {
                left = flow;
                break;
            }
        }
        self.found(!values.is_empty())?;
        Ok(left)
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

//! The statements of a block: their trees, with values of variables, and how they are run.
//!
//! What is run for the first time is planned with its values. From its third time on an expression that reads nothing
//! is computed without a plan ([`Formula`](diligence_sql::Formula)), and a statement that finds few rows has one plan
//! for all values. All others are planned each time: how many rows they read may hang on the values.

use super::ran::{first_of, type_of};
use super::*;

impl Run<'_> {
    /// EXECUTE.
    pub(super) fn computed(&mut self, computed: &Computed) -> Result<Ran> {
        let (tree, using) = self.computed_tree(computed)?;
        self.on_current(&tree, || self.started(&tree.statement, &self.computed_values(&tree, &using)?))
    }

    /// The statement of EXECUTE, and the values of `$1`, `$2`, ….
    pub(super) fn computed_tree(&mut self, computed: &Computed) -> Result<(Tree, Vec<Typed>)> {
        let Some(text) = self.value_of(&computed.text)?.shown(&self.zone)? else {
            return Err(Error::value("query string argument of EXECUTE is null").with_code("22004"));
        };
        let mut using = Vec::with_capacity(computed.using.len());
        for value in &computed.using {
            using.push(self.value_of(value)?);
        }
        let tree = self.tree_of(&text, |names| self.computed_value(names, &using))?;
        match tree.failed.clone() {
            // It is about the row of a cursor, and there is none.
            Some(failed) => Err(failed),
            None => Ok((tree, using)),
        }
    }

    /// What a name in a statement of EXECUTE stands for.
    fn computed_value(&self, names: &[String], using: &[Typed]) -> Result<Option<Typed>> {
        match names {
            [first, cursor, table @ ..] if first == CURRENT_OF => self.current_number(cursor, table).map(Some),
            [only] => {
                let place = only.strip_prefix('$').and_then(|place| place.parse::<usize>().ok()?.checked_sub(1));
                Ok(place.and_then(|place| using.get(place)).cloned())
            }
            _ => Ok(None),
        }
    }

    pub(super) fn computed_values(&self, tree: &Tree, using: &[Typed]) -> Result<Vec<ArrayRef>> {
        let value = |names: &[String]| Ok(self.computed_value(names, using)?.map(|value| value.value));
        tree.names.iter().filter_map(|(names, _)| value(names).transpose()).collect()
    }

    /// The value of an expression.
    pub(super) fn value_of(&mut self, sql: &Sql) -> Result<Typed> {
        let tree = self.tree("SELECT ", sql)?;
        let Way::Computed(computed) = self.way(&tree) else {
            return self.run_tree(&tree)?.value();
        };
        let [sql_type] = computed.types.as_slice() else {
            return self.run_tree(&tree)?.value();
        };
        let row = computed.formula.row(&self.values(&tree)?, self.session.planner())?;
        Ok(first_of(sql_type, row.column(0)))
    }

    /// Runs a statement with the values of the variables that it names.
    pub(super) fn run(&mut self, sql: &Sql) -> Result<Ran> {
        let tree = self.tree("", sql)?;
        self.run_tree(&tree)
    }

    fn run_tree(&mut self, tree: &Tree) -> Result<Ran> {
        let way = self.way(tree);
        let ran = self.on_current(tree, || {
            let values = self.values(tree)?;
            match &way {
                Way::Computed(computed) => computed.formula.row(&values, self.session.planner()).map(Ran::one),
                Way::Generic(plan) => match plan.with(&values, self.session) {
                    Ok(Some(planned)) => self.started_as(planned),
                    // Planned with its values, it may do, or say better why it does not.
                    Ok(None) | Err(_) => self.started(&tree.statement, &values),
                },
                Way::New | Way::Once | Way::Planned => self.started(&tree.statement, &values),
            }
        });
        ran.map_err(|error| named_error(tree, error))
    }

    /// How a statement is run now.
    fn way(&self, tree: &Tree) -> Way {
        let way = tree.way();
        match &way {
            Way::New => tree.set_way(Way::Once),
            Way::Once => {
                let found = self.best_way(tree);
                tree.set_way(found.clone());
                return found;
            }
            Way::Computed(computed) => {
                if !computed.formula.is_current(self.session.planner(), &self.session.snapshot()) {
                    tree.set_way(Way::Once);
                    return Way::Planned;
                }
            }
            Way::Planned | Way::Generic(_) => {}
        }
        way
    }

    fn best_way(&self, tree: &Tree) -> Way {
        let is_of_cursor = |(names, _): &(Vec<String>, SqlType)| names.first().is_some_and(|name| name == CURRENT_OF);
        if tree.names.iter().any(is_of_cursor) || tree.failed.is_some() {
            return Way::Planned;
        }
        let types = tree.names.iter().map(|(_, sql_type)| sql_type.arrow()).collect::<Vec<_>>();
        // What fails without values need not fail with them.
        if let Ok(Some(formula)) = self.session.formula(&tree.statement, &types) {
            let types = formula.schema().fields().iter().map(|field| type_of(field)).collect();
            return Way::Computed(Arc::new(ComputedRow { formula, types }));
        }
        match self.session.plan_generic(&tree.statement, &types) {
            Ok(Some(plan)) if plan.may_be_short() => Way::Generic(plan),
            _ => Way::Planned,
        }
    }

    /// A statement's tree, for the types that variables have now.
    pub(super) fn tree(&self, before: &str, sql: &Sql) -> Result<Arc<Tree>> {
        self.look()?;
        let is_same = |(names, known): &(Vec<String>, SqlType)| matches!(self.named(names), Ok(Some(value)) if value.sql_type == *known);
        if let Some(tree) = self.trees.get(sql.number, (before, &sql.text))
            && tree.names.iter().all(is_same)
        {
            return Ok(tree);
        }
        let tree = Arc::new(self.tree_of(&format!("{before}{}", sql.text), |names| self.named(names))?);
        if tree.failed.is_none() {
            self.trees.put(sql.number, &tree);
        }
        Ok(tree)
    }

    /// What a name stands for.
    fn named(&self, names: &[String]) -> Result<Option<Typed>> {
        match names {
            [first, cursor, table @ ..] if first == CURRENT_OF => self.current_number(cursor, table).map(Some),
            names => self.scopes.named(names),
        }
    }

    /// The values that a statement's tree takes.
    pub(super) fn values(&self, tree: &Tree) -> Result<Vec<ArrayRef>> {
        tree.names.iter().map(|(names, _)| self.given_for(names)).collect()
    }

    pub(super) fn given_for(&self, names: &[String]) -> Result<ArrayRef> {
        let value = self.named(names)?.ok_or_else(|| Error::bug("a variable is gone"))?;
        Ok(value.value)
    }

    /// A statement's tree, with parameters in the places of names that have values.
    pub(super) fn tree_of(&self, text: &str, find: impl Fn(&[String]) -> Result<Option<Typed>>) -> Result<Tree> {
        let parsed = self.session.parse(text).map_err(without_place)?;
        let (mut names, mut failed) = (Vec::<(Vec<String>, SqlType)>::new(), None);
        let conflict = self.procedure.block.conflict;
        let tree = placed(parsed.tree(), conflict, &mut |wanted| {
            let found = match find(wanted) {
                Ok(found) => found?,
                Err(error) => {
                    failed.get_or_insert(error);
                    return None;
                }
            };
            let type_name = match &found.sql_type {
                SqlType::Unknown | SqlType::Record(_) | SqlType::Void => None,
                SqlType::Array(element) if matches!(**element, SqlType::Record(_)) => None,
                other => Some(other.to_string()),
            };
            let known = names.iter().position(|(known, _)| known == wanted);
            let number = known.unwrap_or_else(|| {
                names.push((wanted.to_vec(), found.sql_type.clone()));
                names.len() - 1
            });
            Some(Place { number: number + 1, type_name })
        });
        Ok(Tree::new(ParsedStatement::new(text, tree), names, failed))
    }

    pub(super) fn ask(&self, text: &str) -> Result<Ran> {
        let parsed = self.session.parse(text).map_err(without_place)?;
        self.started(&parsed, &[])
    }

    /// Runs a statement to its end.
    pub(super) fn started(&self, parsed: &ParsedStatement, values: &[ArrayRef]) -> Result<Ran> {
        self.started_as(self.session.plan(parsed, values).map_err(without_place)?)
    }

    fn started_as(&self, planned: PlannedStatement) -> Result<Ran> {
        if planned.is_transaction_step() {
            let error = Error::input("a procedure cannot begin or end transactions").with_code("2D000");
            return Err(error.with_hint("BEGIN … EXCEPTION … END takes back what fails within it"));
        }
        let mut result = match self.session.run_short(planned).map_err(without_place)? {
            Short::Done(result) => result,
            Short::Not(planned) => self.session.start_planned(planned).map_err(without_place)?,
        };
        let (token, printed) = (result.cancel_token(), result.printed());
        let mut rows = self.session.keep_rows(result.schema());
        loop {
            let next = result.next_within(LOOK);
            printed.take().into_iter().for_each(|message| self.caller.printed(message));
            match next {
                Poll::Ready(None) => break,
                Poll::Ready(Some(batch)) => rows.push(&batch.map_err(without_place)?)?,
                Poll::Pending if self.caller.is_stopped() => token.cancel(),
                Poll::Pending => {}
            }
        }
        let count = counted(&result, rows.rows());
        Ok(Ran::new(rows, count, result.written().is_some()))
    }
}

fn counted(result: &QueryResult, rows: u64) -> u64 {
    match (result.written(), result.kind()) {
        (Some((_, count)), _) => count,
        (None, ResultKind::Command { rows: count, .. }) => count.unwrap_or(0),
        (None, ResultKind::Rows) => rows,
    }
}

/// Why a statement failed: because of a name that no variable has, if that is it.
pub(super) fn named_error(tree: &Tree, error: Error) -> Error {
    match (&tree.failed, error.code()) {
        (Some(failed), Some("42P01" | "42703")) => failed.clone(),
        _ => error,
    }
}

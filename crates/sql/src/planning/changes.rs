//! Statements that change rows: UPDATE, DELETE and MERGE, and what INSERT has in common with them.
//!
//! Each becomes a query whose rows say what is to be done (`binder/changes`); its writer keeps what comes and applies
//! it at the end.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::Schema;
use diligence_base::ids::TableVersion;
use diligence_base::{Error, Result};
use diligence_catalog::authority::Privilege;
use diligence_catalog::rules::{Key, KeyKind, TableRules};
use diligence_catalog::{NativeTable, Object, ObjectRef, Relation, RelationName, Resolved, Trigger};
use diligence_storage::Table;
use sqlparser::ast::{
    self, AssignmentTarget, ConflictTarget, Expr, Ident, MergeAction, MergeClauseKind, MergeInsertKind, ObjectName,
    OutputClause, SelectItem, SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins, UpdateTableFromKind, With,
};

use super::around::Around;
use super::bound::{BoundStatement, schema_of};
use super::definitions::lower;
use super::implied::is_implied;
use super::tables::{name_in, targets};
use super::writable::{refuse_materialized, unwritable};
use crate::binder::{
    self, BoundChange, BoundLater, CHANGED, Changed, Demanded, MERGE_ACTION, MERGE_ACTION_OF, Meeting, MergeStep,
    Named, NewValue, Overriding, Target,
};
use crate::parse::{self, BY_NAME, BY_POSITION, CONFLICT_VALUE, CONFLICT_WHERE, NOTHING, OVERRIDING, OVERRIDING_USER};
use crate::quoting::quoted;
use crate::view_shape::OF_VIEW;
use crate::walking::{each_expression, each_expression_mut};
use crate::write::native::{ChangeWay, Layout, NativeTarget, Step};
use crate::write::triggers::Operation;
use crate::{errors, front};

/// The table that a statement changes.
pub(super) struct ChangedTable {
    pub object: ObjectRef,
    pub targets: Vec<Target>,
    keys: Vec<Key>,
    checks: Vec<(String, Arc<Expr>)>,
    conditions: Vec<Arc<Expr>>,
    /// What may give its rows other values before they are written.
    triggers: Vec<Trigger>,
    version: TableVersion,
    is_view: bool,
    /// What the statement calls it.
    alias: Ident,
    has_alias: bool,
}

impl ChangedTable {
    /// `version` is that of no other table.
    pub(super) fn new(
        object: &Object,
        table: &NativeTable,
        (alias, has_alias): (&Ident, bool),
        version: TableVersion,
    ) -> Result<Self> {
        let rules = table.rules();
        let checks = rules.checks.iter().map(|check| (check.name.clone(), check.condition.clone()));
        Ok(Self {
            object: object.reference(),
            targets: targets(table.schema(), rules)?,
            keys: rules.keys.clone(),
            checks: checks.collect(),
            conditions: rules.checks.iter().map(|check| check.condition.clone()).collect(),
            triggers: rules.triggers.iter().filter(|trigger| trigger.changes_rows()).cloned().collect(),
            version,
            is_view: false,
            alias: alias.clone(),
            has_alias,
        })
    }

    /// A view whose triggers do what the statement says.
    pub(super) fn of_view(
        object: &Object,
        columns: &Schema,
        (alias, has_alias): (&Ident, bool),
        version: TableVersion,
    ) -> Result<Self> {
        Ok(Self {
            object: object.reference(),
            targets: targets(columns, &TableRules::default())?,
            keys: vec![],
            checks: vec![],
            conditions: vec![],
            triggers: vec![],
            version,
            is_view: true,
            alias: alias.clone(),
            has_alias,
        })
    }

    /// What the binder is told of it, for a statement that does this with its rows.
    pub(super) fn described<'a>(
        &'a self,
        returning: Option<&'a [SelectItem]>,
        with: Option<&'a With>,
        operations: &[Operation],
    ) -> Changed<'a> {
        let qualifiers = if self.has_alias { vec![] } else { vec![self.object.name.schema.clone()] };
        let Self { alias, targets, conditions, .. } = self;
        let is_changed = self.triggers.iter().any(|trigger| operations.iter().any(|one| one.is_meant_by(trigger)));
        let later = returning.filter(|_| is_changed || self.is_view).map(|_| self.version);
        let RelationName { schema, name } = &self.object.name;
        let relation = (!self.is_view).then(|| format!("{}.{}", quoted(schema), quoted(name)));
        let is_view = self.is_view;
        Changed { alias, qualifiers, targets, checks: conditions, returning, with, later, is_view, relation }
    }

    /// Whether triggers see rows before this is done with them.
    pub(super) fn has_triggers_before(&self, operation: Operation) -> bool {
        self.triggers.iter().any(|trigger| operation.is_meant_by(trigger))
    }

    /// The same, where new rows have to fulfill these conditions as well.
    pub(super) fn checked(mut self, checks: Vec<(String, Expr)>) -> Self {
        for (name, condition) in checks {
            let condition = Arc::new(condition);
            self.checks.push((name, condition.clone()));
            self.conditions.push(condition);
        }
        self
    }

    /// The columns that are set. Fails with 42703 if there is none of a name.
    pub(super) fn assigned(&self, assignments: &[ast::Assignment]) -> Result<Vec<String>> {
        let values = self.values(assignments)?;
        Ok(values.into_iter().map(|(place, _)| self.targets[place].name.clone()).collect())
    }

    /// The columns of rows that come.
    pub(super) fn layout(&self) -> Layout {
        Layout {
            has_numbers: false,
            has_steps: false,
            values: self.targets.len(),
            checks: self.checks.iter().map(|(name, _)| name.clone()).collect(),
            is_old: false,
        }
    }

    /// What rows have to be that come, whether their keys are there or not. Conditions of a view are looked at when
    /// rows are written.
    pub(super) fn demanded(&self, table: &NativeTable) -> Demanded<'_> {
        let fields = table.schema().fields().iter().enumerate();
        let present = fields.filter(|(_, field)| !field.is_nullable()).map(|(place, _)| place).collect();
        let of_table = |name: &str| !name.starts_with(OF_VIEW);
        let checks = self.checks.iter().map(|(name, _)| Some(name.as_str()).filter(|name| of_table(name))).collect();
        Demanded { table: &self.object.name, present, checks }
    }

    /// The key that ON CONFLICT names. Fails with 42P10 and 42704 if there is none.
    pub(super) fn conflict_key(&self, target: Option<&ConflictTarget>, around: &Around<'_>) -> Result<Option<&Key>> {
        match target {
            None => Ok(None),
            Some(ConflictTarget::Columns(columns)) => {
                let wanted = WantedKey::of(columns, &self.targets, around)?;
                if let Some(column) = wanted.columns.iter().find(|column| !self.has_column(column)) {
                    return Err(self.no_column(column));
                }
                let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
                let error = || Error::input(message).with_code("42P10");
                self.keys.iter().find(|key| wanted.is(key)).ok_or_else(error).map(Some)
            }
            Some(ConflictTarget::OnConstraint(name)) => {
                let wanted = name.0.last().and_then(|part| part.as_ident()).map(lower).unwrap_or_default();
                let same = |key: &&Key| key.kind.is_constraint() && key.name == wanted;
                let table = &self.object.name.name;
                let message = format!("constraint \"{wanted}\" for table \"{table}\" does not exist");
                let error = || Error::input(message).with_code("42704");
                self.keys.iter().find(same).ok_or_else(error).map(Some)
            }
        }
    }

    /// The key of a table that has no other.
    pub(super) fn only_key(&self) -> Option<&Key> {
        let mut keys = self.keys.iter().filter(|key| key.kind.is_unique());
        let first = keys.next()?;
        (keys.next().is_none() && first.is_whole()).then_some(first)
    }

    /// INSERT OR IGNORE and OR REPLACE, which DuckDB has, as ON CONFLICT. Fails with 0A000 for other forms, 42P10 for a
    /// table without a key, whose rows cannot be replaced.
    pub(super) fn with_conflict<'i>(&self, insert: &'i ast::Insert) -> Result<Cow<'i, ast::Insert>> {
        let is_replacing = match (insert.or, insert.replace_into) {
            (None, false) => return Ok(Cow::Borrowed(insert)),
            (Some(ast::SqliteOnConflict::Ignore), false) => false,
            (Some(ast::SqliteOnConflict::Replace), false) | (None, true) => true,
            _ => {
                let error = Error::unsupported("INSERT OR takes IGNORE or REPLACE").with_code("0A000");
                return Err(error.with_hint("write ON CONFLICT (key) DO NOTHING or DO UPDATE"));
            }
        };
        if insert.on.is_some() {
            return Err(Error::input("INSERT OR … has no ON CONFLICT").with_code("42601"));
        }
        let quoted = |name: &String| ast::Ident::with_quote('"', name);
        let on = match is_replacing {
            false => ast::OnConflict { conflict_target: None, action: ast::OnConflictAction::DoNothing },
            true => {
                let primary = self.keys.iter().find(|key| key.kind == KeyKind::Primary);
                let unique = || self.keys.iter().find(|key| key.kind.is_unique() && key.is_whole());
                let key = primary.or_else(unique).ok_or_else(|| {
                    let error = Error::input("INSERT OR REPLACE into a table without a key").with_code("42P10");
                    error.with_hint("give the table a PRIMARY KEY, or write INSERT INTO")
                })?;
                let given = insert.columns.iter().map(|column| {
                    name_in(column.0.last().and_then(|part| part.as_ident()).unwrap_or(&self.alias), &self.targets)
                });
                let given = given.collect::<Vec<_>>();
                let is_set = |name: &&String| (given.is_empty() || given.contains(name)) && !key.columns.contains(name);
                let names = self
                    .targets
                    .iter()
                    .filter(|target| target.generated.is_none() && !target.is_always)
                    .map(|target| &target.name);
                let assignment = |name: &String| ast::Assignment {
                    target: ast::AssignmentTarget::ColumnName(ObjectName::from(vec![quoted(name)])),
                    value: ast::Expr::CompoundIdentifier(vec![ast::Ident::new("excluded"), quoted(name)]),
                };
                let assignments = names.filter(is_set).map(assignment).collect::<Vec<_>>();
                let conflict_target = Some(ConflictTarget::Columns(key.columns.iter().map(quoted).collect()));
                let action = match assignments.is_empty() {
                    true => ast::OnConflictAction::DoNothing,
                    false => ast::OnConflictAction::DoUpdate(ast::DoUpdate { assignments, selection: None }),
                };
                ast::OnConflict { conflict_target, action }
            }
        };
        let on = Some(ast::OnInsert::OnConflict(on));
        Ok(Cow::Owned(ast::Insert { or: None, replace_into: false, on, ..insert.clone() }))
    }

    /// Fails with code 55000 if a key by which rows conflict is deferrable: this one, or any if it is `None`.
    pub(super) fn refuse_deferrable(&self, key: Option<&Key>) -> Result<()> {
        let mut keys = self.keys.iter().filter(|own| key.is_none_or(|key| key == *own));
        if !keys.any(Key::is_deferrable) {
            return Ok(());
        }
        let message = "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters";
        Err(Error::input(message).with_code("55000"))
    }

    /// What the statement calls it.
    pub(super) fn alias(&self) -> &Ident {
        &self.alias
    }

    fn has_column(&self, name: &str) -> bool {
        self.targets.iter().any(|target| target.name == name)
    }

    fn no_column(&self, name: &str) -> Error {
        let message = format!("column \"{name}\" of relation \"{}\" does not exist", self.object.name.name);
        let known = self.targets.iter().map(|target| target.name.clone()).collect::<Vec<_>>();
        errors::suggest(Error::input(message).with_code("42703"), name, &known)
    }

    /// The columns that get those of a source, by their names or by their places. Fails with 42703 for a name that is
    /// no column's, and with 42601 for another number of columns.
    fn whole<'s>(&self, way: &str, source: &'s [(String, Expr)]) -> Result<Vec<(usize, NewValue<'s>)>> {
        if way == BY_POSITION && source.len() != self.targets.len() {
            let (wanted, found) = (self.targets.len(), source.len());
            let error = Error::input(format!("the table has {wanted} columns, and the source has {found}"));
            return Err(error.with_code("42601").with_hint("BY NAME takes the columns of equal names"));
        }
        let value = |(place, (name, value)): (usize, &'s (String, Expr))| {
            let place = match way {
                BY_POSITION => place,
                _ => self.place(&ObjectName::from(vec![Ident::with_quote('"', name)]))?,
            };
            Ok((place, NewValue::Of(value)))
        };
        source.iter().enumerate().map(value).collect()
    }

    /// RETURNING of MERGE: `*` is the table's columns, and `merge_action()`, or the name alone if no column has it,
    /// what was done with a row.
    fn merge_returning(&self, items: &[SelectItem]) -> Vec<SelectItem> {
        let mut items = items.to_vec();
        let is_column = self.has_column(MERGE_ACTION);
        let action = [MERGE_ACTION_OF, MERGE_ACTION].map(|name| Ident::with_quote('"', name));
        let _ = each_expression_mut(&mut items, |expression| {
            let is_action = match expression {
                Expr::Identifier(name) => lower(name) == MERGE_ACTION && !is_column,
                Expr::Function(call) => call.to_string().eq_ignore_ascii_case("merge_action()"),
                _ => false,
            };
            if is_action {
                *expression = Expr::CompoundIdentifier(action.to_vec());
            }
            ControlFlow::Continue(())
        });
        for item in &mut items {
            if let SelectItem::Wildcard(options) = item {
                let table = ObjectName::from(vec![self.alias.clone()]);
                let options = options.clone();
                let table = SelectItemQualifiedWildcardKind::ObjectName(table);
                *item = SelectItem::QualifiedWildcard(table, options);
            }
        }
        items
    }

    /// The place of a column that an assignment names. Fails with 42703 if there is none; `SET t.x` is of a column `t`.
    /// The values of a new row of MERGE, by place. Fails with 42601 if there are more or fewer than named columns.
    fn inserted<'e>(
        &self,
        columns: &[ObjectName],
        row: &'e [Expr],
        overriding: Overriding,
    ) -> Result<Vec<(usize, NewValue<'e>)>> {
        let places = match columns {
            [] => (0..self.targets.len()).collect(),
            columns => columns.iter().map(|column| self.place(column)).collect::<Result<Vec<_>>>()?,
        };
        if row.len() > places.len() {
            return Err(Error::input("INSERT has more expressions than target columns").with_code("42601"));
        }
        if row.len() < places.len() && !columns.is_empty() {
            return Err(Error::input("INSERT has more target columns than expressions").with_code("42601"));
        }
        let is_taken = |place: &usize| overriding != Overriding::User || !self.targets[*place].counts;
        let values = places.into_iter().zip(row.iter().map(NewValue::Of));
        Ok(values.filter(|(place, _)| is_taken(place)).collect())
    }

    fn place(&self, column: &ObjectName) -> Result<usize> {
        let first = column.0.first().and_then(|part| part.as_ident());
        let name = first.map(|name| name_in(name, &self.targets)).unwrap_or_default();
        let place = self.targets.iter().position(|target| target.name == name).ok_or_else(|| {
            let error = errors::at(self.no_column(&name), first.and_then(binder::name_place));
            match column.0.len() > 1 && first.is_some_and(|first| lower(first) == lower(&self.alias)) {
                true => error.with_hint("SET target columns cannot be qualified with the relation name."),
                false => error,
            }
        })?;
        if column.0.len() > 1 {
            let error = Error::unsupported(format!("{column}: fields of columns cannot be set"));
            return Err(error.with_code("0A000"));
        }
        Ok(place)
    }

    /// The values that assignments give to columns, by place.
    pub(super) fn values<'e>(&self, assignments: &'e [ast::Assignment]) -> Result<Vec<(usize, NewValue<'e>)>> {
        let mut values = Vec::<(usize, NewValue<'e>)>::with_capacity(assignments.len());
        for (column, value) in pairs(assignments)? {
            let place = self.place(column)?;
            if values.iter().any(|(known, _)| *known == place) {
                let name = &self.targets[place].name;
                let error = Error::input(format!("multiple assignments to same column \"{name}\""));
                return Err(error.with_code("42601"));
            }
            values.push((place, value));
        }
        for (place, value) in &values {
            let target = &self.targets[*place];
            if (target.generated.is_some() || target.is_always) && !value.is_default() {
                let message = format!("column \"{}\" can only be updated to DEFAULT", target.name);
                let detail = match target.is_always {
                    true => format!("Column \"{}\" is an identity column defined as GENERATED ALWAYS.", target.name),
                    false => format!("Column \"{}\" is a generated column.", target.name),
                };
                return Err(Error::input(message).with_code("428C9").with_detail(detail));
            }
        }
        Ok(values)
    }
}

/// The key that ON CONFLICT names by what it is of.
struct WantedKey {
    columns: Vec<String>,
    values: Vec<Expr>,
    /// Of which rows it is.
    condition: Option<Expr>,
}

impl WantedKey {
    fn of(names: &[Ident], targets: &[Target], around: &Around<'_>) -> Result<Self> {
        // As the index keeps it.
        let kept = |text: &str| Ok::<_, Error>(plain(&around.with_whole_names(&parse::expression(text)?)));
        let mut wanted = Self { columns: vec![], values: vec![], condition: None };
        for name in names {
            if let Some(condition) = name.value.strip_prefix(CONFLICT_WHERE) {
                wanted.condition = Some(kept(condition)?);
            } else if let Some(value) = name.value.strip_prefix(CONFLICT_VALUE) {
                match kept(value)? {
                    Expr::Identifier(name) => wanted.columns.push(name_in(&name, targets)),
                    value => wanted.values.push(value),
                }
            } else {
                wanted.columns.push(name_in(name, targets));
            }
        }
        Ok(wanted)
    }

    /// Whether it is this key: of the same columns and expressions in any order, and of these rows at least.
    fn is(&self, key: &Key) -> bool {
        let expression =
            |place: usize| key.computed.as_ref().and_then(|computed| computed.expressions.get(place)?.as_deref());
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        for (place, column) in key.columns.iter().enumerate() {
            match expression(place) {
                Some(value) => values.push(plain(value)),
                None => columns.push(column),
            }
        }
        let condition = key.computed.as_ref().and_then(|computed| computed.condition.as_deref());
        key.kind.is_unique()
            && condition.is_none_or(|condition| {
                self.condition.as_ref().is_some_and(|given| is_implied(&plain(condition), given))
            })
            && columns.iter().all(|column| self.columns.contains(column))
            && self.columns.iter().all(|column| columns.contains(&column))
            && values.iter().all(|value| self.values.contains(value))
            && self.values.iter().all(|value| values.contains(value))
    }
}

/// An expression that is equal to another one that was written with other capitals and parentheses around it.
fn plain(expression: &Expr) -> Expr {
    let mut plain = expression.clone();
    while let Expr::Nested(inner) = plain {
        plain = *inner;
    }
    let lowered = |name: &mut Ident| {
        if name.quote_style.is_none() {
            name.value = name.value.to_lowercase();
        }
        name.quote_style = None;
    };
    let _ = each_expression_mut(&mut plain, |expression| {
        match expression {
            Expr::Identifier(name) => lowered(name),
            Expr::CompoundIdentifier(names) => names.iter_mut().for_each(lowered),
            Expr::Function(call) => call.name.0.iter_mut().for_each(|part| {
                if let ast::ObjectNamePart::Identifier(name) = part {
                    lowered(name);
                }
            }),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    plain
}

impl Around<'_> {
    /// DELETE; `with` is before the whole statement.
    pub(super) fn delete(&self, delete: &ast::Delete, with: Option<&With>) -> Result<BoundStatement> {
        refuse(&[
            (!delete.tables.is_empty(), "DELETE of several tables"),
            (delete.output.is_some(), "OUTPUT"),
            (!delete.order_by.is_empty() || delete.limit.is_some(), "DELETE with ORDER BY or LIMIT"),
        ])?;
        let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
        let [target] = from.as_slice() else {
            return Err(Error::unsupported("DELETE from several tables is not supported").with_code("0A000"));
        };
        let reads = !others(delete.using.as_deref()).is_empty() || delete.selection.is_some();
        let granted = Granted { first: Privilege::Delete, reads: reads || delete.returning.is_some() };
        let changed = self.changed(&target.relation, &target.joins, "DELETE", granted)?;
        let others = others(delete.using.as_deref());
        let described = changed.described(delete.returning.as_deref(), with, &[Operation::Delete]);
        let bound = binder::bind_delete(others, delete.selection.as_ref(), &described, self)?;
        let layout = Layout { has_numbers: true, ..Layout::default() };
        let meant = Meant { operations: vec![Operation::Delete], assigned: None };
        self.changing("DELETE", changed.object, ChangeWay::Replace, layout, bound, &meant)
    }

    /// UPDATE; `with` is before the whole statement.
    pub(super) fn update(&self, update: &ast::Update, with: Option<&With>) -> Result<BoundStatement> {
        refuse(&[
            (update.or.is_some(), "UPDATE OR"),
            (update.output.is_some(), "OUTPUT"),
            (!update.order_by.is_empty() || update.limit.is_some(), "UPDATE with ORDER BY or LIMIT"),
        ])?;
        let reads = update.from.is_some() || update.selection.is_some() || update.returning.is_some();
        let reads = reads || update.assignments.iter().any(|assignment| names_columns(&assignment.value));
        let granted = Granted { first: Privilege::Update, reads };
        let changed = self.changed(&update.table.relation, &update.table.joins, "UPDATE", granted)?;
        let others: &[TableWithJoins] = match &update.from {
            None => &[],
            Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) => from,
        };
        let assignments = changed.without_fields(&update.assignments)?;
        let values = changed.values(&assignments)?;
        let described = changed.described(update.returning.as_deref(), with, &[Operation::Update]);
        let bound = binder::bind_update(&values, others, update.selection.as_ref(), &described, self)?;
        let layout = Layout { has_numbers: true, ..changed.layout() };
        let assigned = Some(changed.assigned(&assignments)?);
        let set = assigned.iter().flatten().map(String::as_str);
        self.check_columns(&changed.object.name, set, Privilege::Update)?;
        let meant = Meant { operations: vec![Operation::Update], assigned };
        self.changing("UPDATE", changed.object, ChangeWay::Replace, layout, bound, &meant)
    }

    /// MERGE; `with` is before the whole statement.
    pub(super) fn merge(&self, merge: &ast::Merge, with: Option<&With>) -> Result<BoundStatement> {
        let returning = match &merge.output {
            None => None,
            Some(OutputClause::Returning { select_items, .. }) => Some(select_items),
            Some(OutputClause::Output { .. }) => {
                let error = Error::unsupported("OUTPUT is not supported").with_code("0A000");
                return Err(error.with_hint("write RETURNING"));
            }
        };
        let needed = merge.clauses.iter().map(|clause| match &clause.action {
            MergeAction::Update(_) => Privilege::Update,
            MergeAction::Insert(_) => Privilege::Insert,
            MergeAction::Delete { .. } => Privilege::Delete,
        });
        let needed = needed.collect::<Vec<_>>();
        let granted = Granted { first: needed.first().copied().unwrap_or(Privilege::Select), reads: true };
        let changed = self.changed(&merge.table, &[], "MERGE", granted)?;
        for privilege in needed {
            self.at.snapshot.rights.check(&changed.object.name, privilege)?;
        }
        let takes_all = merge.clauses.iter().any(|clause| whole_of(&clause.action).is_some());
        let source = if takes_all { self.source_columns(&merge.source, with)? } else { vec![] };
        let assigned = merge.clauses.iter().map(|clause| match &clause.action {
            MergeAction::Update(update) => changed.without_fields(&update.assignments),
            _ => Ok(Cow::Borrowed(&[][..])),
        });
        let assigned = assigned.collect::<Result<Vec<_>>>()?;
        let (mut clauses, mut steps, mut ended) = (Vec::new(), Vec::new(), Vec::new());
        for (clause, assigned) in merge.clauses.iter().zip(&assigned) {
            let meeting = match clause.clause_kind {
                MergeClauseKind::Matched => Meeting::Both,
                MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => Meeting::SourceOnly,
                MergeClauseKind::NotMatchedBySource => Meeting::TableOnly,
            };
            if ended.contains(&meeting) {
                let message = "unreachable WHEN clause specified after unconditional WHEN clause";
                return Err(Error::input(message).with_code("42601"));
            }
            ended.extend(clause.predicate.is_none().then_some(meeting));
            let mut overriding = Overriding::Nothing;
            let is_nothing = match &clause.action {
                MergeAction::Update(update) => update.assignments.iter().any(is_marked_nothing),
                MergeAction::Insert(insert) => insert.columns.iter().any(is_nothing),
                MergeAction::Delete { .. } => false,
            };
            let is_new = meeting == Meeting::SourceOnly;
            let whole = whole_of(&clause.action).map(|way| changed.whole(way, &source)).transpose()?;
            let (step, values) = match (&clause.action, whole) {
                _ if is_nothing => (None, None),
                (MergeAction::Update(_), Some(values)) if !is_new => (Some(Step::Update), Some(values)),
                (MergeAction::Insert(_), Some(values)) if is_new => (Some(Step::Insert), Some(values)),
                (MergeAction::Update(_), _) if !is_new => (Some(Step::Update), Some(changed.values(assigned)?)),
                (MergeAction::Delete { .. }, _) if !is_new => (Some(Step::Delete), None),
                (MergeAction::Insert(insert), _) if is_new => {
                    let MergeInsertKind::Values(values) = &insert.kind else {
                        return Err(Error::unsupported("INSERT ROW is not supported").with_code("0A000"));
                    };
                    let [row] = values.rows.as_slice() else {
                        return Err(Error::input("INSERT of MERGE takes one row of values").with_code("42601"));
                    };
                    let (said, columns) = overridden(&insert.columns);
                    overriding = said;
                    (Some(Step::Insert), Some(changed.inserted(columns, &row.content, overriding)?))
                }
                _ => {
                    let error = Error::input("a row that is matched is updated or deleted, another one is inserted");
                    return Err(error.with_code("42601"));
                }
            };
            clauses.push(MergeStep { meeting, condition: clause.predicate.as_ref(), values, is_nothing, overriding });
            steps.extend(step);
        }
        let operations = steps.iter().map(|step| match step {
            Step::Insert => Operation::Insert,
            Step::Update | Step::Lock => Operation::Update,
            Step::Delete => Operation::Delete,
        });
        // In this order they begin, and end in the other one.
        let operations = operations.collect::<Vec<_>>();
        let in_order = [Operation::Insert, Operation::Update, Operation::Delete];
        let operations = in_order.into_iter().filter(|operation| operations.contains(operation)).collect::<Vec<_>>();
        let returning = returning.map(|items| changed.merge_returning(items));
        let described = changed.described(returning.as_deref(), with, &operations);
        let bound = binder::bind_merge(&merge.source, &merge.on, &clauses, &described, self)?;
        let layout = Layout { has_numbers: true, has_steps: true, ..changed.layout() };
        let twice = "MERGE command cannot affect row a second time";
        let meant = Meant { operations, ..Meant::default() };
        self.changing("MERGE", changed.object, ChangeWay::Steps { steps, twice, key: None }, layout, bound, &meant)
    }

    /// The columns of a source of rows, and the expression that each is.
    fn source_columns(&self, source: &TableFactor, with: Option<&With>) -> Result<Vec<(String, Expr)>> {
        let mut query = parse::query("SELECT * FROM t")?;
        query.with = with.cloned();
        if let ast::SetExpr::Select(select) = query.body.as_mut()
            && let Some(part) = select.from.first_mut()
        {
            part.relation = source.clone();
        }
        let own = match source {
            TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
                Some(alias.name.clone())
            }
            TableFactor::Table { name, .. } => name.0.last().and_then(|part| part.as_ident()).cloned(),
            _ => None,
        };
        let column = |name: &str| {
            let column = Ident::with_quote('"', name);
            match &own {
                Some(own) => Expr::CompoundIdentifier(vec![own.clone(), column]),
                None => Expr::Identifier(column),
            }
        };
        let columns = binder::bind_query(&query, self)?.columns;
        Ok(columns.into_iter().map(|found| (found.name.clone(), column(&found.name))).collect())
    }

    /// A statement that changes rows, with what it gives back.
    pub(super) fn changing(
        &self,
        tag: &'static str,
        table: ObjectRef,
        way: ChangeWay,
        layout: Layout,
        bound: BoundChange,
        meant: &Meant,
    ) -> Result<BoundStatement> {
        let BoundChange { rows, returning, later } = bound;
        let given = later.as_ref().map(|later| schema_of(&later.rows));
        let later = later.map(|BoundLater { rows, from }| self.computes_later(rows, from));
        let triggers = self.triggers(&table, meant.operations.clone(), meant.assigned.as_deref(), later)?;
        let writer = self.calling_writer(NativeTarget::Change { table, layout, way }, triggers);
        let returning = returning.map(|(count, computed)| {
            let first = rows.columns.len() - count;
            let fields = rows.columns[first..].iter().map(|column| column.sql_type.field(&column.name, true));
            let now = || {
                let schema = Arc::new(arrow::datatypes::Schema::new(fields.collect::<Vec<_>>()));
                front::with_computed(&schema, &computed)
            };
            (given.unwrap_or_else(now), writer.returned())
        });
        let again = Some(writer.clone());
        Ok(BoundStatement::Write { tag, rows, writer, returning, again })
    }

    /// The table that a statement changes. From now on [`CHANGED`] means it.
    fn changed(&self, target: &TableFactor, joins: &[ast::Join], what: &str, granted: Granted) -> Result<ChangedTable> {
        let TableFactor::Table { name, alias, .. } = target else {
            return Err(Error::unsupported(format!("{what} is of a table only")).with_code("0A000"));
        };
        if !joins.is_empty() {
            let error = Error::unsupported(format!("{what} of joined tables is not supported")).with_code("0A000");
            return Err(error.with_hint("name the other tables in FROM (UPDATE) or USING (DELETE)"));
        }
        let name = match granted.first {
            Privilege::Update => self.granted_in_part(name, granted.first)?,
            _ => self.granted(name, granted.first)?,
        };
        *self.changed_name.borrow_mut() = Some(name.clone());
        let found = match granted.reads {
            true if !self.is_through(&name) => self.readable(&name)?,
            _ => self.at.snapshot.get(&name).filter(|_| self.at.snapshot.sees(&name)),
        };
        let found = found.ok_or_else(|| self.unknown(&name))?;
        let Resolved::Object(object) = &found else { return Err(unwritable(&name, &found)) };
        let Relation::Native(memory) = &object.relation else { return Err(unwritable(&name, &found)) };
        refuse_materialized(object)?;
        self.set_changed(memory.numbered());
        self.names.uses_object(&name, object);
        let own = Ident::with_quote('"', &name.name);
        let called = (alias.as_ref().map_or(&own, |alias| &alias.name), alias.is_some());
        let changed = ChangedTable::new(object, memory, called, self.next_table_version())?;
        Ok(changed.checked(self.view_checks.take()))
    }

    pub(super) fn next_table_version(&self) -> TableVersion {
        self.planner.catalogs().catalog().next_table_version()
    }

    /// What [`CHANGED`] means.
    pub(super) fn changed_table(&self, name: &ObjectName) -> Option<Named> {
        let [part] = name.0.as_slice() else { return None };
        if part.as_ident().is_none_or(|id| id.value != CHANGED) {
            return None;
        }
        if let Some(view) = &*self.changed_view.borrow() {
            return self.object(&view.name, view).ok();
        }
        let table: Arc<dyn Table> = self.changed_rows()?;
        Some(Named::Table { table, name: CHANGED.to_owned(), key: vec![] })
    }
}

/// What a statement means to do, for triggers.
#[derive(Default)]
pub(super) struct Meant {
    /// What it does with rows.
    pub operations: Vec<Operation>,
    /// The columns that it sets; all, if `None`.
    pub assigned: Option<Vec<String>>,
}

/// What a statement needs of the table that it changes.
#[derive(Clone, Copy)]
struct Granted {
    /// What it does, or does first.
    first: Privilege,
    /// Whether it looks at the rows as well.
    reads: bool,
}

/// The tables beside the one that is changed.
pub(super) fn others(using: Option<&[TableWithJoins]>) -> &[TableWithJoins] {
    using.unwrap_or_default()
}

/// Whether a value is computed from columns.
pub(super) fn names_columns(value: &ast::Expr) -> bool {
    each_expression(value, |part: &ast::Expr| match part {
        ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// What INSERT of MERGE says of identity columns, behind its columns.
fn overridden(columns: &[ObjectName]) -> (Overriding, &[ObjectName]) {
    let said = columns.split_last().and_then(|(last, before)| {
        match last.0.first().and_then(|part| part.as_ident())?.value.as_str() {
            OVERRIDING => Some((Overriding::System, before)),
            OVERRIDING_USER => Some((Overriding::User, before)),
            _ => None,
        }
    });
    said.unwrap_or((Overriding::Nothing, columns))
}

/// How an action of MERGE takes all columns of the source, if it does: [`BY_NAME`] or [`BY_POSITION`].
fn whole_of(action: &MergeAction) -> Option<&'static str> {
    let name = match action {
        MergeAction::Update(update) => match update.assignments.as_slice() {
            [ast::Assignment { target: AssignmentTarget::ColumnName(name), .. }] => name,
            _ => return None,
        },
        MergeAction::Insert(insert) => match insert.columns.as_slice() {
            [name] => name,
            _ => return None,
        },
        MergeAction::Delete { .. } => return None,
    };
    let [part] = name.0.as_slice() else { return None };
    [BY_NAME, BY_POSITION].into_iter().find(|way| part.as_ident().is_some_and(|name| name.value == *way))
}

/// Whether an assignment stands for DO NOTHING.
fn is_marked_nothing(assignment: &ast::Assignment) -> bool {
    matches!(&assignment.target, AssignmentTarget::ColumnName(name) if is_nothing(name))
}

fn is_nothing(name: &ObjectName) -> bool {
    matches!(name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value == NOTHING))
}

/// Each column that is set, with its value.
fn pairs(assignments: &[ast::Assignment]) -> Result<Vec<(&ObjectName, NewValue<'_>)>> {
    let mut pairs = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        let columns = match &assignment.target {
            AssignmentTarget::ColumnName(column) => {
                pairs.push((column, NewValue::Of(&assignment.value)));
                continue;
            }
            AssignmentTarget::Tuple(columns) => columns,
        };
        let values = match &assignment.value {
            Expr::Subquery(row) => {
                let value = |place| NewValue::InRow { row, place, columns: columns.len() };
                (0..columns.len()).map(value).collect::<Vec<_>>()
            }
            Expr::Tuple(values) => values.iter().map(NewValue::Of).collect(),
            other => match row_values(other) {
                Some(values) => values.into_iter().map(NewValue::Of).collect(),
                None => {
                    let message = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
                    return Err(Error::unsupported(message).with_code("0A000"));
                }
            },
        };
        if columns.len() != values.len() {
            return Err(Error::input("number of columns does not match number of values").with_code("42601"));
        }
        pairs.extend(columns.iter().zip(values));
    }
    Ok(pairs)
}

/// The values of ROW(…).
pub(super) fn row_values(expression: &Expr) -> Option<Vec<&Expr>> {
    let Expr::Function(function) = expression else { return None };
    let [name] = function.name.0.as_slice() else { return None };
    let ast::FunctionArguments::List(list) = &function.args else { return None };
    if name.as_ident().is_none_or(|name| lower(name) != "row") {
        return None;
    }
    let value = |argument| match argument {
        &ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ref value)) => Some(value),
        _ => None,
    };
    list.args.iter().map(value).collect()
}

fn refuse(clauses: &[(bool, &str)]) -> Result<()> {
    match clauses.iter().find(|(given, _)| *given) {
        None => Ok(()),
        Some((_, what)) => Err(Error::unsupported(format!("{what} is not supported")).with_code("0A000")),
    }
}

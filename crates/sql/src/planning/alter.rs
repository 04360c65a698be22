//! ALTER TABLE, CREATE INDEX, DROP INDEX, COMMENT ON and sequences.
//!
//! A change that leaves the rows as they are (names, rules, columns that go or are NULL) is one of the catalog. Any
//! other is a query over the table, whose rows take the places of the table's.

mod columns;
mod constraints;
mod index_names;
mod operations;

use std::sync::Arc;

use diligence_base::{Error, Result};
use diligence_catalog::authority::{RoleChange, Subject, Topic};
use diligence_catalog::rules::{ComputedKey, Deferral, Key, KeyKind, Reference, TableRules};
use diligence_catalog::sequence::{Sequence, SequenceOptions};
use diligence_catalog::{NativeTable, Object, Relation, RelationName, Resolved, TableAlteration};
use diligence_types::SqlType;
use sqlparser::ast::{self, AlterTableOperation, Expr, Ident, ObjectName, RenameTableNameKind, SelectItem, SetExpr};

use super::altered_kind::AlteredKind;
use super::around::Around;
use super::bound::BoundStatement;
use super::called::unnested;
use super::definitions::lower;
use super::depends::Becomes;
use super::fragments;
use super::index_forms::{form_of, put_form};
use super::indexes::IndexParts;
use super::schemas::OTHER_SCHEMA;
use super::tables::{Declaration, sequence_options_of};
use super::writable::unwritable;
use crate::binder::{self, CHANGED, Changed, Given, Overriding, Target};
use crate::errors;
use crate::statement::{Command, Statement};
use crate::write::native::{Layout, NativeTarget, NewTable};

/// Where the values of a column come from.
#[derive(Clone)]
enum From {
    /// A column of the table as it is.
    Column(usize),
    /// It is new, and NULL.
    Null,
    /// An expression over the table's columns.
    Value(Expr),
}

/// A table on its way to what it becomes.
struct Altered {
    declaration: Declaration,
    /// By column.
    from: Vec<From>,
    /// Names of conditions that are looked at.
    new_checks: Vec<String>,
    /// What becomes of its sequences.
    also: Vec<Command>,
    /// What is done before: other tables lose references to a key.
    before: Vec<Command>,
    /// The tables and names of these references.
    cut: Vec<(RelationName, String)>,
    /// The old and the new names of indexes and constraints that are called otherwise.
    renamed: Vec<(String, String)>,
    /// Whether its rows are divided or ordered anew.
    is_recut: bool,
    /// Whether views go that read a column which goes.
    cascades: bool,
}

impl Altered {
    fn new(declaration: Declaration, from: Vec<From>) -> Self {
        let (new_checks, also, before, cut, renamed) = (vec![], vec![], vec![], vec![], vec![]);
        Self { declaration, from, new_checks, also, before, cut, renamed, is_recut: false, cascades: false }
    }

    fn place(&self, name: &Ident) -> Result<usize> {
        let wanted = lower(name);
        self.declaration.fields.iter().position(|field| *field.name() == wanted).ok_or_else(|| {
            let message = format!("column \"{wanted}\" of relation \"{}\" does not exist", self.declaration.name.name);
            let known = self.declaration.fields.iter().map(|field| field.name().clone()).collect::<Vec<_>>();
            let error = errors::at(Error::input(message).with_code("42703"), binder::name_place(name));
            errors::suggest(error, &wanted, &known)
        })
    }

    /// What refers to the table itself refers to this one.
    fn refer_to(&mut self, object: &Object) {
        let references = self.declaration.rules.references.iter_mut();
        for reference in references.filter(|reference| reference.table == Reference::ITSELF) {
            reference.table = object.id;
        }
    }

    /// Only constraints that are there are not proven.
    fn forget_gone(&mut self) {
        let rules = &mut self.declaration.rules;
        let unproven = std::mem::take(&mut rules.unproven);
        rules.unproven = unproven.into_iter().filter(|name| rules.has_name(name)).collect();
    }

    /// The change, where it leaves the rows as they are.
    fn alteration(self) -> TableAlteration {
        let place = |from: &From| match from {
            From::Column(place) => Some(*place),
            From::Null | From::Value(_) => None,
        };
        TableAlteration {
            name: self.declaration.name.clone(),
            columns: self.declaration.schema(),
            places: self.from.iter().map(place).collect(),
            rules: self.declaration.rules,
        }
    }

    /// What views find in the place of the table.
    fn becomes(&self, table: &NativeTable) -> Becomes {
        let columns = self.declaration.schema();
        let renamed = columns.fields().iter().zip(&self.from).filter_map(|(field, from)| match from {
            From::Column(place) => {
                let old = table.schema().field(*place).name();
                (old != field.name()).then(|| (old.clone(), field.name().clone()))
            }
            From::Null | From::Value(_) => None,
        });
        let renamed = renamed.collect();
        Becomes { name: self.declaration.name.clone(), columns, renamed }
    }

    fn is_rewritten(&self) -> bool {
        self.is_recut || !self.new_checks.is_empty() || self.from.iter().any(|from| matches!(from, From::Value(_)))
    }
}

impl Around<'_> {
    /// ALTER TABLE.
    pub(super) fn alter_table(&self, alter: &ast::AlterTable) -> Result<BoundStatement> {
        let kind = AlteredKind::of(alter);
        if kind == AlteredKind::Type {
            return self.alter_attributes(alter);
        }
        let tag = kind.tag();
        let done = |command| Ok(BoundStatement::Other(Statement::Command(command)));
        let name = self.changeable(&alter.name)?;
        let Some(found) = self.at.snapshot.get(&name) else {
            if !alter.if_exists {
                return Err(self.unknown(&name));
            }
            self.tell_missing_object("relation", &name);
            return done(Command::Nothing(tag));
        };
        let Resolved::Object(object) = &found else { return Err(unwritable(&name, &found)) };
        kind.check(object)?;
        if let [AlterTableOperation::OwnerTo { .. }] = alter.operations.as_slice() {
            return done(Command::Nothing(tag));
        }
        let Relation::Native(table) = &object.relation else {
            let altered = self.alter_without_rows(object, &alter.operations, tag)?;
            return altered.ok_or_else(|| unwritable(&name, &found));
        };
        if object.relation.materialized().is_some()
            && let Some(other) = alter.operations.iter().find(|operation| !is_renaming(operation))
        {
            let action = other.to_string();
            let words = action.split(' ').take_while(|word| word.chars().all(|letter| letter.is_ascii_uppercase()));
            let words = words.collect::<Vec<_>>().join(" ");
            let message = format!("ALTER action {words} cannot be performed on relation \"{}\"", name.name);
            let error = Error::input(message).with_code("42809");
            return Err(error.with_detail("This operation is not supported for materialized views."));
        }
        let from = (0..table.schema().fields().len()).map(From::Column).collect();
        let declaration = Declaration::of(name.clone(), table);
        let mut altered = Altered::new(declaration, from);
        for operation in &alter.operations {
            self.operate(&mut altered, operation, object)?;
        }
        altered.forget_gone();
        let renamed = altered.becomes(table).renamed;
        self.rename_referred(object, &mut altered, &renamed)?;
        self.validate(&altered.declaration)?;
        fragments::check(&altered.declaration.rules.distribution, &altered.declaration)?;
        self.check_referred(object, table, &altered)?;
        let is_rewritten = altered.is_rewritten();
        let becomes = altered.becomes(table);
        let (views, gone) = self.views_after(object, &becomes, altered.cascades)?;
        if !gone.is_empty() {
            altered.before.push(Command::drop_views(gone));
        }
        if is_rewritten && !views.is_empty() {
            let error = Error::unsupported("other names under a view and other rows are two statements");
            return Err(error.with_code("0A000"));
        }
        altered.also.extend(views);
        if is_rewritten {
            // Comments of constraints that go wait for the next change of comments.
            altered.also.retain(|command| !matches!(command, Command::Roles { .. }));
            if !altered.also.is_empty() || !altered.before.is_empty() {
                let error = Error::unsupported("a change of rows and one of how a column counts are two statements");
                return Err(error.with_code("0A000"));
            }
            return self.rewritten(object, table, altered);
        }
        altered.also.extend(self.sequences_of(object, table, &altered));
        self.altered(object, altered, tag)
    }

    /// ALTER of what has no rows of its own: a view, a sequence. `None` if it cannot be altered in this way.
    fn alter_without_rows(
        &self,
        object: &Object,
        operations: &[AlterTableOperation],
        tag: &'static str,
    ) -> Result<Option<BoundStatement>> {
        let done = |command| Ok(Some(BoundStatement::Other(Statement::Command(command))));
        match (operations, &object.relation) {
            ([AlterTableOperation::RenameTable { table_name }], relation) => {
                let to = renamed(&object.name, table_name)?;
                self.is_index_name(&to, false)?;
                if let Relation::View(view) = relation
                    && to.schema != object.name.schema
                {
                    return self.move_view(object, view, to, tag).map(Some);
                }
                let views = match relation.schema() {
                    Ok(columns) => {
                        self.followed_views(object, &Becomes { name: to.clone(), columns, renamed: vec![] })?
                    }
                    // What has no columns no view selects from.
                    Err(_) => vec![],
                };
                let rename = Command::Rename { object: object.reference(), to, tag };
                match views.is_empty() {
                    true => done(rename),
                    false => done(Command::All { commands: std::iter::once(rename).chain(views).collect(), tag }),
                }
            }
            ([AlterTableOperation::RenameColumn { old_column_name, new_column_name }], Relation::View(view)) => {
                self.rename_view_column(object, view, (old_column_name, new_column_name), tag).map(Some)
            }
            ([AlterTableOperation::SetOptionsParens { options }], Relation::View(view)) => {
                self.set_view_options(object, view, options, tag).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// What becomes of the sequences of columns that get another name or go.
    fn sequences_of(&self, object: &Object, table: &NativeTable, altered: &Altered) -> Vec<Command> {
        let change = |own: &Arc<Object>| {
            let Relation::Sequence(sequence) = &own.relation else { return None };
            let (_, column) = sequence.options.owner.as_ref().filter(|(owner, _)| *owner == object.id)?;
            let place = table.schema().index_of(column).ok()?;
            let is_it = |from: &From| matches!(from, From::Column(from) if *from == place);
            let Some(at) = altered.from.iter().position(is_it) else {
                return Some(Command::DropSequence(own.name.clone()));
            };
            let name = altered.declaration.fields[at].name();
            (name != column).then(|| {
                let options = SequenceOptions { owner: Some((object.id, name.clone())), ..sequence.options.clone() };
                Command::AlterSequence { sequence: own.reference(), options, state: None, tag: "ALTER TABLE" }
            })
        };
        self.at.snapshot.catalog.objects().filter_map(change).collect()
    }

    /// A table without some columns, and without what has them.
    pub(super) fn without_columns(&self, object: &Object, columns: &[String]) -> Result<TableAlteration> {
        let Relation::Native(table) = &object.relation else { return Err(Error::bug("a column is in no table")) };
        let from = (0..table.schema().fields().len()).map(From::Column).collect();
        let declaration = Declaration::of(object.name.clone(), table);
        let mut altered = Altered::new(declaration, from);
        for column in columns.iter() {
            // One that is generated from another is gone with it.
            if !altered.declaration.has_column(column) {
                continue;
            }
            self.drop_column(&mut altered, &Ident::with_quote('"', column), true)?;
        }
        self.check_referred(object, table, &altered)?;
        Ok(altered.alteration())
    }

    /// A change that leaves the rows as they are.
    fn altered(&self, object: &Object, mut altered: Altered, tag: &'static str) -> Result<BoundStatement> {
        self.settle_indexes(&mut altered.declaration)?;
        altered.also.extend(self.comments_of_parts(object.id, &altered.declaration.rules, &altered.renamed));
        let (before, also) = (std::mem::take(&mut altered.before), std::mem::take(&mut altered.also));
        let alteration = altered.alteration();
        let memory = self.planner.options.tables.clone();
        let (table, built_on) = (object.reference(), object.version);
        let (alteration, is_concurrent) = (Box::new(alteration), false);
        let command = Command::Alter { table, built_on, alteration, memory, is_concurrent, tag };
        let command = match before.is_empty() && also.is_empty() {
            true => command,
            false => Command::All { commands: before.into_iter().chain([command]).chain(also).collect(), tag },
        };
        Ok(BoundStatement::Other(Statement::Command(command)))
    }

    /// Other rows in the place of the table's.
    fn rewritten(&self, object: &Object, table: &Arc<NativeTable>, altered: Altered) -> Result<BoundStatement> {
        if altered.declaration.name != object.name {
            let error = Error::unsupported("RENAME TO and a change of rows are two statements").with_code("0A000");
            return Err(error);
        }
        self.set_changed(table.numbered());
        let mut query = crate::parse::query("SELECT 1 FROM t")?;
        if let SetExpr::Select(select) = query.body.as_mut() {
            let column = |from: &From| match from {
                From::Column(place) => Expr::Identifier(Ident::with_quote('"', table.schema().field(*place).name())),
                From::Null => Expr::Value(ast::Value::Null.into()),
                From::Value(value) => value.clone(),
            };
            select.projection = altered.from.iter().map(|from| SelectItem::UnnamedExpr(column(from))).collect();
            for from in &mut select.from {
                if let ast::TableFactor::Table { name, alias, .. } = &mut from.relation {
                    *name = ObjectName::from(vec![Ident::with_quote('"', CHANGED)]);
                    let own = Ident::with_quote('"', &object.name.name);
                    *alias = Some(ast::TableAlias { explicit: true, name: own, columns: vec![], at: None });
                }
            }
        }
        let mut declaration = altered.declaration;
        self.settle_indexes(&mut declaration)?;
        let names = declaration.fields.iter().map(|field| field.name().clone());
        let is_other = |(name, from): &(String, &From)| {
            matches!(from, From::Value(_)) || declaration.rules.generated.contains_key(name)
        };
        let other_values = names.zip(&altered.from).filter(is_other).map(|(name, _)| name).collect();
        // Values of columns that are generated or count come from the query; a generated column is computed anew.
        let plain = |target: Target| Target { is_always: false, ..target };
        let all = declaration.targets()?.into_iter().map(plain).collect::<Vec<_>>();
        let targets = all.clone();
        let checks = declaration.rules.checks.iter().filter(|check| altered.new_checks.contains(&check.name));
        let (names, conditions): (Vec<_>, Vec<_>) =
            checks.map(|check| (check.name.clone(), check.condition.clone())).unzip();
        let alias = Ident::with_quote('"', &object.name.name);
        let given = (0..targets.len()).filter(|place| targets[*place].generated.is_none()).collect::<Vec<_>>();
        if let SetExpr::Select(select) = query.body.as_mut() {
            let all = std::mem::take(&mut select.projection);
            select.projection = given.iter().map(|place| all[*place].clone()).collect();
        }
        // Rows are in the order of the clustering key, as far as the query has its columns.
        let clustered = declaration.rules.distribution.clustered.iter();
        let place = |column: &String| given.iter().position(|place| targets[*place].name == *column);
        let places = clustered.map_while(place).map(|place| place + 1).collect::<Vec<_>>();
        if !places.is_empty() {
            query.order_by = fragments::ordered(&query, &places)?.order_by;
        }
        let changed = Changed {
            alias: &alias,
            qualifiers: vec![],
            targets: &targets,
            checks: &conditions,
            returning: None,
            with: None,
            later: None,
            is_view: false,
            relation: None,
        };
        let given = Given::Places(given);
        let bound = binder::bind_new_rows(Some(&query), &given, Overriding::System, None, &changed, self)?;
        let layout = Layout { values: targets.len(), checks: names, is_old: true, ..Layout::default() };
        let new = NewTable {
            name: object.name.clone(),
            or_replace: false,
            if_not_exists: false,
            schema: declaration.schema(),
            rules: declaration.rules,
            sequences: declaration.sequences,
        };
        let (table, built_on) = (object.reference(), object.version);
        let writer = self.memory_writer(NativeTarget::Rewrite { table, built_on, new, layout, changed: other_values });
        Ok(BoundStatement::Write { tag: "ALTER TABLE", rows: bound.rows, writer, returning: None, again: None })
    }

    /// Fails with code 2BP01 if a key goes that another table refers to.
    fn check_referred(&self, object: &Object, table: &NativeTable, altered: &Altered) -> Result<()> {
        let keys = &altered.declaration.rules.keys;
        let renamed = altered.becomes(table).renamed;
        for other in self.at.snapshot.catalog.objects() {
            let Relation::Native(rows) = &other.relation else { continue };
            let own = &altered.declaration.rules.references;
            let references = if other.id == object.id { own } else { &rows.rules().references };
            let is_cut = |reference: &Reference| {
                altered.cut.iter().any(|(table, name)| *table == other.name && *name == reference.name)
            };
            for reference in references.iter().filter(|reference| reference.table == object.id && !is_cut(reference)) {
                // Its own references name its columns as they are called from now on.
                let is_own = other.id == object.id;
                let now = |name: &String| {
                    let renamed = renamed.iter().find(|(old, _)| !is_own && old == name);
                    renamed.map_or_else(|| name.clone(), |(_, new)| new.clone())
                };
                let now = reference.referred.iter().map(now).collect::<Vec<_>>();
                let was_there = is_own || table.rules().keys.iter().any(|key| key.refers_to(&reference.referred));
                if was_there && !keys.iter().any(|key| key.refers_to(&now)) {
                    let message = format!(
                        "cannot change table {} because constraint {} on table {} depends on it",
                        object.name.name, reference.name, other.name.name
                    );
                    return Err(Error::input(message).with_code("2BP01").with_hint("drop that constraint first"));
                }
            }
        }
        Ok(())
    }

    /// CREATE INDEX.
    pub(super) fn create_index(&self, create: &ast::CreateIndex) -> Result<BoundStatement> {
        const TAG: &str = "CREATE INDEX";
        if create.concurrently {
            self.outside_of_blocks("CREATE INDEX CONCURRENTLY")?;
        }
        let name = self.changeable(&create.table_name)?;
        let found = self.at.snapshot.get(&name).ok_or_else(|| self.unknown(&name))?;
        let Resolved::Object(object) = &found else { return Err(unwritable(&name, &found)) };
        let Relation::Native(table) = &object.relation else { return Err(unwritable(&name, &found)) };
        let form = form_of(create)?;
        let given = match &create.name {
            None => None,
            Some(name) => name.0.last().and_then(|part| part.as_ident()).cloned(),
        };
        let is_there =
            given.as_ref().is_some_and(|given| self.is_taken(&RelationName::new(&name.schema, lower(given))));
        if let (true, Some(given)) = (is_there, &given) {
            if create.if_not_exists {
                self.tell_existing_relation(&lower(given));
                return Ok(BoundStatement::Other(Statement::Command(Command::Nothing(TAG))));
            }
            let message = format!("relation \"{}\" already exists", lower(given));
            return Err(Error::input(message).with_code("42P07"));
        }
        let from = (0..table.schema().fields().len()).map(From::Column).collect();
        let mut altered = Altered::new(Declaration::of(name, table), from);
        let kind = if create.unique { KeyKind::UniqueIndex } else { KeyKind::Index };
        let equal = create.nulls_distinct == Some(false);
        let parts = self.index_parts(&create.columns, &altered.declaration.name);
        let called = given.is_none().then(|| parts.called.clone());
        match parts.expressions.iter().all(Option::is_none) && create.predicate.is_none() {
            true => altered.declaration.add_key(given.as_ref(), parts.columns, kind, equal, Deferral::Never)?,
            false => {
                let declaration = &altered.declaration;
                let condition = create.predicate.as_ref().map(unnested);
                let condition = condition.map(|condition| self.kept_rule(condition, &declaration.name));
                let (table, schema) = (&declaration.name.name, declaration.schema());
                let IndexParts { columns, expressions, .. } = &parts;
                let function = self.index_function(table, &schema, columns, expressions, condition.as_deref(), &[])?;
                let computed = ComputedKey { expressions: parts.expressions, condition, function };
                let key = Key { computed: Some(computed), ..Key::of_columns("", parts.columns, kind, equal) };
                altered.declaration.add_index(given.as_ref(), &parts.called, key)?;
            }
        }
        put_form(&mut altered.declaration, form, called.as_deref())?;
        let mut bound = self.altered(object, altered, TAG)?;
        if let BoundStatement::Other(Statement::Command(Command::Alter { is_concurrent, .. })) = &mut bound {
            *is_concurrent = create.concurrently;
        }
        Ok(bound)
    }

    /// COMMENT ON TABLE and COMMENT ON COLUMN.
    pub(super) fn comment(
        &self,
        on: &ast::CommentObject,
        name: &ObjectName,
        comment: Option<&str>,
    ) -> Result<BoundStatement> {
        let (table, column) = match on {
            ast::CommentObject::Table => (name.clone(), None),
            ast::CommentObject::Column => {
                let (column, table) = name.0.split_last().ok_or_else(|| Error::bug("a name without parts"))?;
                (ObjectName(table.to_vec()), column.as_ident())
            }
            other => return Err(Error::unsupported(format!("COMMENT ON {other} is not supported")).with_code("0A000")),
        };
        let name = self.changeable(&table)?;
        let found = self.at.snapshot.get(&name).ok_or_else(|| self.unknown(&name))?;
        let Resolved::Object(object) = &found else { return Err(unwritable(&name, &found)) };
        let is_shown = matches!(object.relation, Relation::View(_)) || object.relation.materialized().is_some();
        if let Some(column) = column.filter(|_| is_shown) {
            return comment_on_shown(object, &lower(column), comment);
        }
        if is_shown {
            let error = Error::input(format!("\"{}\" is not a table", name.name)).with_code("42809");
            return Err(error.with_hint(format!("it is {}", found.a_kind())));
        }
        let Relation::Native(table) = &object.relation else { return Err(unwritable(&name, &found)) };
        let comment = comment.filter(|comment| !comment.is_empty());
        let key = match column.map(lower) {
            None => String::new(),
            Some(column) if table.schema().column_with_name(&column).is_some() => column,
            Some(column) => {
                let message = format!("column \"{column}\" of relation \"{}\" does not exist", name.name);
                return Err(Error::input(message).with_code("42703"));
            }
        };
        self.with_rules(object, table, "COMMENT", |rules| match comment {
            Some(comment) => drop(rules.comments.insert(key, comment.to_owned())),
            None => drop(rules.comments.remove(&key)),
        })
    }

    /// A table without some columns and what stands on them, under other rules.
    pub(super) fn with_rules_without(
        &self,
        object: &Object,
        table: &NativeTable,
        columns: &[String],
        tag: &'static str,
        change: impl FnOnce(&mut TableRules),
    ) -> Result<BoundStatement> {
        let from = (0..table.schema().fields().len()).map(From::Column).collect();
        let mut altered = Altered::new(Declaration::of(object.name.clone(), table), from);
        altered.cascades = true;
        for column in columns {
            let keys = altered.declaration.rules.keys.iter().filter(|key| key.uses(column));
            for key in keys.cloned().collect::<Vec<_>>() {
                self.drop_referring(&mut altered, &key, true, object)?;
            }
            self.drop_column(&mut altered, &Ident::with_quote('"', column), true)?;
        }
        change(&mut altered.declaration.rules);
        altered.forget_gone();
        self.check_referred(object, table, &altered)?;
        let (views, gone) = self.views_after(object, &altered.becomes(table), true)?;
        if !gone.is_empty() {
            altered.before.push(Command::drop_views(gone));
        }
        altered.also.extend(views);
        self.altered(object, altered, tag)
    }

    /// A table with other rules, which its rows need not be looked at for.
    pub(super) fn with_rules(
        &self,
        object: &Object,
        table: &NativeTable,
        tag: &'static str,
        change: impl FnOnce(&mut TableRules),
    ) -> Result<BoundStatement> {
        let from = (0..table.schema().fields().len()).map(From::Column).collect();
        let mut declaration = Declaration::of(object.name.clone(), table);
        change(&mut declaration.rules);
        let altered = Altered::new(declaration, from);
        self.altered(object, altered, tag)
    }

    /// CREATE SEQUENCE.
    pub(super) fn create_sequence(&self, statement: &ast::Statement) -> Result<Statement> {
        let ast::Statement::CreateSequence { temporary, if_not_exists, name, data_type, sequence_options, owned_by } =
            statement
        else {
            return Err(Error::bug("not a CREATE SEQUENCE"));
        };
        let name = self.creatable(name, *temporary)?;
        if self.is_index_name(&name, *if_not_exists)? {
            return Ok(Statement::Command(Command::Nothing("CREATE SEQUENCE")));
        }
        if let Some(there) = self.at.snapshot.catalog.get(&name) {
            if *if_not_exists {
                self.tell_existing_relation(&name.name);
                return Ok(Statement::Command(Command::Nothing("CREATE SEQUENCE")));
            }
            let error = Error::input(format!("{} named '{name}' exists already", there.relation.a_kind()));
            return Err(error.with_code("42P07"));
        }
        let bits = match data_type.as_ref().map(|data_type| binder::named_type(data_type, self)).transpose()? {
            None | Some(SqlType::BigInt) => 64,
            Some(SqlType::Integer) => 32,
            Some(SqlType::SmallInt) => 16,
            Some(_) => {
                let error = Error::input("sequence type must be smallint, integer, or bigint").with_code("22023");
                return Err(error);
            }
        };
        let mut options = sequence_options_of(sequence_options, bits)?;
        if let Some(owner) = owned_by.as_ref().filter(|owner| owner.to_string().to_lowercase() != "none") {
            let names = owner.0.iter().filter_map(|part| part.as_ident()).cloned().collect::<Vec<_>>();
            options.owner = Some(self.owner_of(&names)?);
        }
        Ok(Statement::Command(Command::CreateSequence { name, sequence: Arc::new(Sequence::new(options)) }))
    }
}

/// Whether a materialized view takes it.
fn is_renaming(operation: &AlterTableOperation) -> bool {
    matches!(operation, AlterTableOperation::RenameTable { .. } | AlterTableOperation::RenameColumn { .. })
}

fn renamed(name: &RelationName, to: &RenameTableNameKind) -> Result<RelationName> {
    let (RenameTableNameKind::As(to) | RenameTableNameKind::To(to)) = to;
    match to.0.as_slice() {
        [part] => part.as_ident().map(|ident| RelationName::new(&name.schema, lower(ident))),
        [schema, part] => {
            let schema = schema.as_ident().and_then(|schema| schema.value.strip_prefix(OTHER_SCHEMA));
            schema.zip(part.as_ident()).map(|(schema, part)| RelationName::new(schema, lower(part)))
        }
        _ => None,
    }
    .ok_or_else(|| Error::input("a table is renamed within its schema").with_code("42601"))
}

fn no_constraint(name: &str, table: &RelationName) -> Error {
    let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
    Error::input(message).with_code("42704")
}

/// COMMENT ON a column of a view. Fails with 42703 if there is no such column.
fn comment_on_shown(object: &Object, column: &str, comment: Option<&str>) -> Result<BoundStatement> {
    let Some(number) = object.column_number(column) else {
        let message = format!("column \"{column}\" of relation \"{}\" does not exist", object.name.name);
        return Err(Error::input(message).with_code("42703"));
    };
    let topic = Topic::Subject(Subject::Column(object.id, number));
    let text = comment.filter(|comment| !comment.is_empty()).map(str::to_owned);
    let change = Arc::new(RoleChange::Comment { topic, text });
    Ok(BoundStatement::Other(Statement::Command(Command::Roles { change, tag: "COMMENT" })))
}

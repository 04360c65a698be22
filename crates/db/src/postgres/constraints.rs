//! Constraints, as `pg_constraint` lists them and `pg_get_constraintdef` shows them: keys, checks and references of
//! tables, checks of domains, and constraint triggers.

use diligence_catalog::rules::{Deferral, Key, KeyKind, Reference, ReferenceAction, TableRules};
use diligence_catalog::{SessionSnapshot, declared_oid};
use diligence_types::quoted_name;

use super::declared::{Declared, Kind, declared};
use super::definitions::{deferred, key_definition, reference_definition};
use super::rows::Cell;
use super::triggers::{self, TriggerConstraint};

/// The text of a constraint.
struct ConstraintText {
    whole: String,
    /// Of one that refers to another table, how it is shown where that needs no schema, the schema and the table.
    short: Option<(String, u32, u32)>,
}

impl From<String> for ConstraintText {
    fn from(whole: String) -> Self {
        Self { whole, short: None }
    }
}

/// A constraint: the columns of its row in `pg_constraint` as far as constraints differ in them, and its text. What it
/// is not of has the number 0.
struct Constraint {
    number: Cell,
    name: String,
    schema: u32,
    /// `p`, `u`, `x`, `c`, `f` or `t`.
    kind: &'static str,
    deferral: Deferral,
    /// Whether all rows are known to obey it.
    is_proven: bool,
    table: u32,
    domain: u32,
    /// The index that it needs.
    index: Cell,
    /// The table that it refers to.
    referred: u32,
    /// Of a reference, what it does on UPDATE and on DELETE, and how it matches.
    actions: [&'static str; 3],
    /// `conkey` and the columns behind it, as far as it has any.
    columns: Vec<Cell>,
    text: ConstraintText,
}

impl Constraint {
    /// One of a table that refers to nothing and cannot be deferred.
    fn of_table(of: &Declared, number: Cell, name: &str, kind: &'static str, text: ConstraintText) -> Self {
        Self {
            number,
            name: name.to_owned(),
            schema: of.schema_oid,
            kind,
            deferral: Deferral::Never,
            is_proven: !of.table.rules().unproven.contains(name),
            table: of.object.oid(),
            domain: 0,
            index: 0.into(),
            referred: 0,
            actions: [" ", " ", " "],
            columns: vec![],
            text,
        }
    }

    /// Its row.
    fn row(self) -> Vec<Cell> {
        let [update, delete, matching] = self.actions;
        let mut row = vec![
            self.number,
            self.name.into(),
            self.schema.into(),
            self.kind.into(),
            (self.deferral != Deferral::Never).into(),
            (self.deferral == Deferral::Deferred).into(),
            self.is_proven.into(),
            self.table.into(),
            self.domain.into(),
            self.index,
            // Partitions have no constraints of their own.
            0.into(),
            self.referred.into(),
            update.into(),
            delete.into(),
            matching.into(),
            // Nothing is inherited.
            true.into(),
            0.into(),
            (self.kind != "c").into(),
        ];
        row.extend(self.columns);
        row
    }
}

fn all_constraints(snapshot: &SessionSnapshot) -> Vec<Constraint> {
    let tables = declared(snapshot);
    let mut constraints = Vec::new();
    for of in &tables {
        let rules = of.table.rules();
        let keys = of.keys().filter(|(_, key)| key.kind.is_constraint());
        constraints.extend(keys.map(|(place, key)| key_constraint(of, place, key)));
        constraints.extend(checks(of, rules));
        for (place, reference) in rules.references.iter().enumerate() {
            let referred = tables.iter().find(|other| other.object.id == reference.table);
            constraints.extend(referred.map(|referred| reference_constraint(of, place, reference, referred)));
        }
    }
    constraints.extend(domain_checks(snapshot));
    constraints.extend(trigger_constraints(snapshot));
    constraints
}

fn key_constraint(of: &Declared, place: usize, key: &Key) -> Constraint {
    let kind = match key.kind {
        KeyKind::Primary => "p",
        KeyKind::Exclusion => "x",
        _ => "u",
    };
    let text = key_definition(key).into();
    Constraint {
        deferral: key.deferral,
        index: of.number(Kind::Index, place),
        columns: vec![of.columns(&key.columns)],
        ..Constraint::of_table(of, of.number(Kind::Key, place), &key.name, kind, text)
    }
}

fn checks<'a>(of: &'a Declared, rules: &'a TableRules) -> impl Iterator<Item = Constraint> + 'a {
    rules.checks.iter().enumerate().map(|(place, check)| {
        let condition = check.condition.to_string();
        let columns = of.table.schema().fields().iter().map(|field| field.name().clone());
        let named = columns.filter(|column| mentions(&condition, column)).collect::<Vec<_>>();
        let text = format!("CHECK ({condition}){}", unproven(rules, &check.name)).into();
        Constraint {
            columns: vec![of.columns(&named)],
            ..Constraint::of_table(of, of.number(Kind::Check, place), &check.name, "c", text)
        }
    })
}

fn reference_constraint(of: &Declared, place: usize, reference: &Reference, referred: &Declared) -> Constraint {
    let action = |action: ReferenceAction| match action {
        ReferenceAction::Refuse => "a",
        ReferenceAction::Restrict => "r",
        ReferenceAction::Cascade => "c",
        ReferenceAction::SetNull => "n",
        ReferenceAction::SetDefault => "d",
    };
    let is_it = |(_, key): &(usize, &Key)| key.refers_to(&reference.referred);
    let index = referred.keys().find(is_it).map_or(0.into(), |(place, _)| referred.number(Kind::Index, place));
    let matches = if reference.is_full { "f" } else { "s" };
    let unproven = unproven(of.table.rules(), &reference.name);
    let text = |name: &str| format!("{}{unproven}", reference_definition(reference, name));
    let name = &referred.object.name;
    let whole = text(&format!("{}.{}", quoted_name(&name.schema), quoted_name(&name.name)));
    let short = Some((text(&quoted_name(&name.name)), referred.schema_oid, referred.object.oid()));
    let set = &reference.set_columns;
    let set = if set.is_empty() { Cell::Null } else { of.columns(set) };
    let (own, others) = (of.columns(&reference.columns), referred.columns(&reference.referred));
    let (number, text) = (of.number(Kind::Reference, place), ConstraintText { whole, short });
    Constraint {
        deferral: reference.deferral,
        index,
        referred: referred.object.oid(),
        actions: [action(reference.on_update), action(reference.on_delete), matches],
        columns: vec![own, others, Cell::Null, Cell::Null, Cell::Null, set],
        ..Constraint::of_table(of, number, &reference.name, "f", text)
    }
}

fn domain_checks(snapshot: &SessionSnapshot) -> Vec<Constraint> {
    let mut constraints = Vec::new();
    for (object, domain, definition) in snapshot.catalog.domains().filter(|(object, ..)| snapshot.sees(&object.name)) {
        let schema = snapshot.schema_oid(&object.name.schema).unwrap_or_default();
        constraints.extend(definition.checks.iter().enumerate().map(|(place, check)| Constraint {
            number: Cell::Number(declared_oid(domain.oid, Kind::Check as i64, place)),
            name: check.name.clone(),
            schema,
            kind: "c",
            deferral: Deferral::Never,
            is_proven: true,
            table: 0,
            domain: domain.oid,
            index: 0.into(),
            referred: 0,
            actions: [" ", " ", " "],
            columns: vec![],
            text: format!("CHECK ({})", check.condition).into(),
        }));
    }
    constraints
}

fn trigger_constraints(snapshot: &SessionSnapshot) -> impl Iterator<Item = Constraint> + '_ {
    triggers::constraints(snapshot).into_iter().map(|TriggerConstraint { number, object, trigger }| Constraint {
        number: Cell::Number(number),
        name: trigger.name.clone(),
        schema: snapshot.schema_oid(&object.name.schema).unwrap_or_default(),
        kind: "t",
        deferral: trigger.constraint.unwrap_or_default(),
        is_proven: true,
        table: object.oid(),
        domain: 0,
        index: 0.into(),
        referred: 0,
        actions: [" ", " ", " "],
        columns: vec![],
        text: format!("TRIGGER{}", deferred(trigger.constraint.unwrap_or_default())).into(),
    })
}

/// What stands behind a constraint that older rows may break.
fn unproven(rules: &TableRules, name: &str) -> &'static str {
    if rules.unproven.contains(name) { " NOT VALID" } else { "" }
}

/// Whether a text has a word.
fn mentions(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.split(|c: char| !is_part(c)).any(|part| part == word)
}

/// The number of a constraint, by its name and the number of the table or the domain that it is of.
pub(super) fn number_of(snapshot: &SessionSnapshot, of: u32, name: &str) -> Option<Cell> {
    let is_it = |one: &Constraint| one.name == name && (one.table == of || one.domain == of);
    all_constraints(snapshot).into_iter().find(is_it).map(|one| one.number)
}

/// The rows of `pg_constraint`.
pub(super) fn constraints(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    all_constraints(snapshot).into_iter().map(Constraint::row).collect()
}

/// What `pg_get_constraintdef` looks into.
pub(super) fn constraint_definitions(snapshot: &SessionSnapshot) -> Vec<Vec<Cell>> {
    let row = |Constraint { number, text, .. }: Constraint| {
        let (short, schema, table) = match text.short {
            Some((short, schema, table)) => (short.into(), schema.into(), table.into()),
            None => (Cell::Null, Cell::Null, Cell::Null),
        };
        vec![number, text.whole.into(), short, schema, table]
    };
    all_constraints(snapshot).into_iter().map(row).collect()
}

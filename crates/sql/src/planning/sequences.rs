//! What becomes of sequences, and of columns that count: ALTER SEQUENCE, ALTER COLUMN … SET GENERATED and RESTART.

use diligence_base::{Error, Result};
use diligence_catalog::rules::Identity;
use diligence_catalog::sequence::{Sequence, SequenceOptions, SequenceState};
use diligence_catalog::{Object, Relation};
use sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, UnaryOperator};

use super::around::Around;
use super::definitions::lower;
use crate::parse::{ALTER_IDENTITY, ALTER_SEQUENCE};
use crate::statement::{Command, Statement};

/// One thing that becomes of a sequence or of a column that counts or is generated.
#[derive(Debug)]
pub(super) enum SequenceChange {
    Generated(Identity),
    /// It goes on from there; from its beginning, if that is not said.
    Restart(Option<i64>),
    Start(i64),
    Increment(i64),
    /// The smallest number; what there is none for, if that is not said.
    Min(Option<i64>),
    Max(Option<i64>),
    Cache(i64),
    Cycle(bool),
    /// Bits of its numbers.
    As(u8),
    OwnedBy(Option<Vec<Ident>>),
    /// Nothing, if it is not there.
    IfExists,
    /// The column counts no more; nothing, if it does not and that is said to be well.
    DropIdentity {
        if_exists: bool,
    },
    /// The column is generated no more, likewise.
    DropExpression {
        if_exists: bool,
    },
}

/// Whether CALL is ALTER SEQUENCE.
pub(super) fn is_alter_sequence(call: &ast::Function) -> bool {
    matches!(call.name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value == ALTER_SEQUENCE))
}

/// Whether a default stands for a change of how a column counts or is generated.
pub(super) fn is_alter_identity(call: &ast::Function) -> bool {
    matches!(call.name.0.as_slice(), [part] if part.as_ident().is_some_and(|name| name.value == ALTER_IDENTITY))
}

/// What the arguments of a call say, which come in pairs; see `parse/tokens/alterations`.
pub(super) fn changes_of(arguments: &[&Expr]) -> Result<Vec<SequenceChange>> {
    arguments
        .chunks(2)
        .map(|pair| match pair {
            [kind, value] => change_of(kind, value),
            _ => Err(Error::bug("a change of a sequence has no value")),
        })
        .collect()
}

fn change_of(kind: &Expr, value: &Expr) -> Result<SequenceChange> {
    let number = || number_of(value)?.ok_or_else(|| Error::bug("a sequence's number is not said"));
    let kind = text_of(kind).ok_or_else(|| Error::bug("a change of a sequence has no name"))?;
    Ok(match kind {
        "generated" if text_of(value) == Some("always") => SequenceChange::Generated(Identity::Always),
        "generated" => SequenceChange::Generated(Identity::ByDefault),
        "restart" => SequenceChange::Restart(number_of(value)?),
        "start" => SequenceChange::Start(number()?),
        "increment" => SequenceChange::Increment(number()?),
        "minvalue" => SequenceChange::Min(number_of(value)?),
        "maxvalue" => SequenceChange::Max(number_of(value)?),
        "cache" => SequenceChange::Cache(number()?),
        "cycle" => {
            SequenceChange::Cycle(matches!(value, Expr::Value(value) if value.value == ast::Value::Boolean(true)))
        }
        "as" => SequenceChange::As(match text_of(value).unwrap_or_default().to_lowercase().as_str() {
            "smallint" | "int2" => 16,
            "integer" | "int" | "int4" => 32,
            "bigint" | "int8" => 64,
            _ => {
                let error = Error::input("sequence type must be smallint, integer, or bigint");
                return Err(error.with_code("22023"));
            }
        }),
        "owned" => SequenceChange::OwnedBy(match value {
            Expr::CompoundIdentifier(names) => Some(names.clone()),
            Expr::Identifier(_) => {
                let error = Error::input("invalid OWNED BY option").with_code("42601");
                return Err(error.with_hint("Specify OWNED BY table.column or OWNED BY NONE."));
            }
            _ => None,
        }),
        "if exists" => SequenceChange::IfExists,
        "drop identity" => SequenceChange::DropIdentity { if_exists: text_of(value).is_some() },
        "drop expression" => SequenceChange::DropExpression { if_exists: text_of(value).is_some() },
        other => return Err(Error::bug(format!("a sequence has no {other}"))),
    })
}

fn text_of(value: &Expr) -> Option<&str> {
    match value {
        Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// A number with its sign; `None` for NULL. Fails with 22023 for what is none of 64 bits.
fn number_of(value: &Expr) -> Result<Option<i64>> {
    let (sign, value) = match value {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => ("-", expr.as_ref()),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => ("", expr.as_ref()),
        other => ("", other),
    };
    let Expr::Value(value) = value else { return Ok(None) };
    let ast::Value::Number(digits, _) = &value.value else { return Ok(None) };
    let text = format!("{sign}{digits}");
    let wrong = |_| Error::input(format!("{text} is no number of a sequence")).with_code("22023");
    text.parse().map(Some).map_err(wrong)
}

/// The arguments of a call.
pub(super) fn arguments_of(call: &ast::Function) -> Vec<&Expr> {
    let FunctionArguments::List(list) = &call.args else { return vec![] };
    let value = |argument| match argument {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref value)) => Some(value),
        _ => None,
    };
    list.args.iter().filter_map(value).collect()
}

/// How a sequence counts after changes, and where it goes on, if that changes. Fails with 22023 if the numbers make no
/// sense together.
pub(super) fn changed(
    before: &Sequence,
    changes: &[SequenceChange],
) -> Result<(SequenceOptions, Option<SequenceState>)> {
    let fail = |message: String| Err(Error::input(message).with_code("22023"));
    let mut options = before.options.clone();
    let mut restart = None;
    for change in changes {
        match change {
            SequenceChange::As(bits) => {
                let old = SequenceOptions::of_bits(options.bits, options.increment);
                let new = SequenceOptions::of_bits(*bits, options.increment);
                // Ends that were those of the type are those of the new one.
                if options.min == old.min {
                    options.min = new.min;
                }
                if options.max == old.max {
                    options.max = new.max;
                }
                options.bits = *bits;
            }
            SequenceChange::Increment(increment) => options.increment = *increment,
            _ => {}
        }
    }
    let of_type = SequenceOptions::of_bits(options.bits, options.increment);
    for change in changes {
        match change {
            SequenceChange::Start(start) => options.start = *start,
            SequenceChange::Min(min) => options.min = min.unwrap_or(of_type.min),
            SequenceChange::Max(max) => options.max = max.unwrap_or(of_type.max),
            SequenceChange::Cycle(cycles) => options.cycles = *cycles,
            SequenceChange::Cache(count) if *count < 1 => {
                return fail(format!("CACHE ({count}) must be greater than zero"));
            }
            SequenceChange::Restart(at) => restart = Some(*at),
            _ => {}
        }
    }
    options.validate()?;
    let state = restart.map(|at| SequenceState { last: at.unwrap_or(options.start), is_called: false });
    let last = state.unwrap_or_else(|| before.state()).last;
    if last < options.min {
        return fail(format!("RESTART value ({last}) cannot be less than MINVALUE ({})", options.min));
    }
    if last > options.max {
        return fail(format!("RESTART value ({last}) cannot be greater than MAXVALUE ({})", options.max));
    }
    Ok((options, state))
}

impl Around<'_> {
    /// ALTER SEQUENCE. Fails with 42P01 if there is none of the name, 42809 if that is something else, and as
    /// [`changed`].
    pub(super) fn alter_sequence(&self, call: &ast::Function) -> Result<Statement> {
        const TAG: &str = "ALTER SEQUENCE";
        let arguments = arguments_of(call);
        let (name, changes) = arguments.split_first().ok_or_else(|| Error::bug("ALTER SEQUENCE of nothing"))?;
        let name = match name {
            Expr::Identifier(name) => ObjectName::from(vec![name.clone()]),
            Expr::CompoundIdentifier(names) => ObjectName::from(names.clone()),
            _ => return Err(Error::input("ALTER SEQUENCE names a sequence").with_code("42601")),
        };
        let changes = changes_of(changes)?;
        let name = self.changeable(&name)?;
        let Some(object) = self.at.snapshot.catalog.get(&name) else {
            if changes.iter().any(|change| matches!(change, SequenceChange::IfExists)) {
                self.tell_missing_object("relation", &name);
                return Ok(Statement::Command(Command::Nothing(TAG)));
            }
            return Err(Error::input(format!("relation \"{name}\" does not exist")).with_code("42P01"));
        };
        let Relation::Sequence(sequence) = &object.relation else {
            return Err(Error::input(format!("\"{}\" is not a sequence", name.name)).with_code("42809"));
        };
        let (mut options, state) = changed(sequence, &changes)?;
        for change in &changes {
            if let SequenceChange::OwnedBy(owner) = change {
                self.refuse_counting(object, sequence)?;
                options.owner = match owner {
                    None => None,
                    Some(names) => Some(self.owner_of(names)?),
                };
            }
        }
        Ok(Statement::Command(Command::AlterSequence { sequence: object.reference(), options, state, tag: TAG }))
    }

    /// Fails with code 0A000 if the sequence is that of an identity column, which goes on counting with it.
    fn refuse_counting(&self, object: &Object, sequence: &Sequence) -> Result<()> {
        let Some((table, column)) = &sequence.options.owner else { return Ok(()) };
        let mut tables = self.at.snapshot.catalog.objects().filter(|table_object| table_object.id == *table);
        let Some(owner) = tables.next() else { return Ok(()) };
        let Relation::Native(rows) = &owner.relation else { return Ok(()) };
        if !rows.rules().identities.contains_key(column) {
            return Ok(());
        }
        let detail = format!("Sequence \"{}\" is linked to table \"{}\".", object.name.name, owner.name.name);
        let error = Error::unsupported("cannot change ownership of identity sequence").with_code("0A000");
        Err(error.with_detail(detail))
    }

    /// The table and the column that a sequence is to belong to. Fails with 42P01 and 42703 if there is none.
    pub(super) fn owner_of(&self, names: &[Ident]) -> Result<(diligence_base::ids::ObjectId, String)> {
        let (column, table) = names.split_last().ok_or_else(|| Error::bug("a name without parts"))?;
        let table = self.changeable(&ObjectName::from(table.to_vec()))?;
        let object = self.at.snapshot.catalog.get(&table).ok_or_else(|| self.unknown(&table))?;
        let column = lower(column);
        if object.relation.schema()?.index_of(&column).is_err() {
            let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
            return Err(Error::input(message).with_code("42703"));
        }
        Ok((object.id, column))
    }

    /// The sequence that counts for a column.
    pub(super) fn sequence_of(&self, table: &Object, column: &str) -> Option<std::sync::Arc<Object>> {
        let is_its = |object: &&std::sync::Arc<Object>| match &object.relation {
            Relation::Sequence(sequence) => {
                sequence.options.owner.as_ref().is_some_and(|(id, own)| *id == table.id && own == column)
            }
            _ => false,
        };
        self.at.snapshot.catalog.objects().find(is_its).cloned()
    }
}

/// Whether a function takes the name of a sequence.
pub(super) fn is_counting(name: &ObjectName) -> bool {
    let bare = name.0.last().and_then(|part| part.as_ident()).map(lower);
    bare.is_some_and(|bare| ["nextval", "currval", "setval"].contains(&bare.as_str()))
}

/// The text of `'s'` and of `'s'::regclass`.
pub(super) fn sequence_text(argument: &Expr) -> Option<&str> {
    match argument {
        Expr::Cast { expr, data_type, .. } if data_type.to_string().eq_ignore_ascii_case("regclass") => text_of(expr),
        other => text_of(other),
    }
}

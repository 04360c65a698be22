//! Triggers: functions that a table calls when its rows change.

use diligence_base::{Error, Result};

use crate::RelationName;
use crate::deferral::Deferral;
use crate::parts::{shielded, unshielded};

/// A change of rows that a trigger is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerEvent {
    /// Rows come.
    Insert,
    /// Rows change; if columns are named, by statements that set one of them.
    Update(Vec<String>),
    /// Rows go.
    Delete,
    /// All rows go at once.
    Truncate,
}

/// In which sessions a trigger runs. All of them have the role `origin` here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerState {
    /// In those of the role `origin`: ENABLE.
    Origin,
    /// In all: ENABLE ALWAYS.
    Always,
    /// In those of the role `replica`: ENABLE REPLICA.
    Replica,
    /// In none: DISABLE.
    Disabled,
}

impl TriggerState {
    /// The letter in `pg_trigger`.
    pub fn letter(self) -> &'static str {
        match self {
            Self::Origin => "O",
            Self::Always => "A",
            Self::Replica => "R",
            Self::Disabled => "D",
        }
    }

    /// What ALTER TABLE says in front of TRIGGER to have it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Origin => "ENABLE",
            Self::Always => "ENABLE ALWAYS",
            Self::Replica => "ENABLE REPLICA",
            Self::Disabled => "DISABLE",
        }
    }
}

/// A trigger of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// Its name.
    pub name: String,
    /// Whether it runs before the change, or behind it.
    pub is_before: bool,
    /// Whether it runs in the place of the change, of a view's rows.
    pub is_instead: bool,
    /// Whether it runs once for each row, or once for the statement.
    pub is_row: bool,
    /// What it is for.
    pub events: Vec<TriggerEvent>,
    /// The condition under which it runs, as it was written.
    pub when: Option<String>,
    /// Its function, by its name among the objects of a schema.
    pub function: RelationName,
    /// What the function gets beside the rows.
    pub arguments: Vec<String>,
    /// In which sessions it runs.
    pub state: TriggerState,
    /// What it calls the rows that a statement has changed or taken away, as they were, and as a table.
    pub old_rows: Option<String>,
    /// What it calls those that came or have changed.
    pub new_rows: Option<String>,
    /// Of a constraint trigger, when it runs: behind the statement, or at the end of the transaction.
    pub constraint: Option<Deferral>,
}

impl Trigger {
    /// When it runs, as SQL says it.
    pub fn timing(&self) -> &'static str {
        match (self.is_instead, self.is_before) {
            (true, _) => "INSTEAD OF",
            (_, true) => "BEFORE",
            (_, false) => "AFTER",
        }
    }

    /// Whether it is a constraint trigger that may run at the end of a transaction.
    pub fn is_deferrable(&self) -> bool {
        self.constraint.is_some_and(|deferral| deferral != Deferral::Never)
    }

    /// Whether it runs at all.
    pub fn is_enabled(&self) -> bool {
        matches!(self.state, TriggerState::Origin | TriggerState::Always)
    }

    /// Whether it may give rows other values than a statement does.
    pub fn changes_rows(&self) -> bool {
        self.is_before && self.is_row && self.is_enabled()
    }
}

/// Between the parts of a trigger's text, and between those of a part.
const BETWEEN: char = '\u{11}';
const WITHIN: char = '\u{12}';

impl Trigger {
    /// As a text, which a log keeps.
    pub fn encoded(&self) -> String {
        let events = self.events.iter().map(|event| match event {
            TriggerEvent::Insert => "insert".to_owned(),
            TriggerEvent::Update(columns) => {
                let columns = columns.iter().map(|column| shielded(column)).collect::<Vec<_>>();
                format!("update{WITHIN}{}", columns.join("\u{13}"))
            }
            TriggerEvent::Delete => "delete".to_owned(),
            TriggerEvent::Truncate => "truncate".to_owned(),
        });
        let flags = [
            (self.is_before, "before"),
            (self.is_row, "row"),
            (self.is_enabled(), "enabled"),
            (self.state == TriggerState::Always, "always"),
            (self.state == TriggerState::Replica, "replica"),
            (self.is_instead, "instead"),
            (self.constraint.is_some(), "constraint"),
            (self.is_deferrable(), "deferrable"),
            (self.constraint == Some(Deferral::Deferred), "deferred"),
        ];
        let flags = flags.into_iter().filter(|(is, _)| *is).map(|(_, flag)| flag).collect::<Vec<_>>().join(",");
        let parts = [
            shielded(&self.name),
            flags,
            events.collect::<Vec<_>>().join("\u{14}"),
            self.when.as_deref().map(shielded).unwrap_or_default(),
            shielded(&self.function.schema),
            shielded(&self.function.name),
            self.arguments.iter().map(|argument| format!("{}{WITHIN}", shielded(argument))).collect(),
            [&self.old_rows, &self.new_rows]
                .map(|name| name.as_deref().map(shielded).unwrap_or_default())
                .join(&WITHIN.to_string()),
        ];
        parts.join(&BETWEEN.to_string())
    }

    /// The trigger of a text. Fails with kind `File` if it says none.
    pub fn decoded(text: &str) -> Result<Self> {
        let parts = text.split(BETWEEN).collect::<Vec<_>>();
        let [name, flags, events, when, schema, function, arguments, rest @ ..] = parts.as_slice() else {
            return Err(Error::file("a trigger cannot be understood"));
        };
        let (old_rows, new_rows) = rest.first().and_then(|names| names.split_once(WITHIN)).unwrap_or_default();
        let named = |name: &str| (!name.is_empty()).then(|| unshielded(name));
        let has = |flag: &str| flags.split(',').any(|known| known == flag);
        let event = |text: &str| match text.split_once(WITHIN) {
            Some(("update", columns)) => {
                let columns = columns.split('\u{13}').filter(|column| !column.is_empty());
                Ok(TriggerEvent::Update(columns.map(unshielded).collect()))
            }
            None if text == "insert" => Ok(TriggerEvent::Insert),
            None if text == "delete" => Ok(TriggerEvent::Delete),
            None if text == "truncate" => Ok(TriggerEvent::Truncate),
            _ => Err(Error::file("a trigger's event is not known to this version")),
        };
        let constraint = has("constraint").then(|| match (has("deferrable"), has("deferred")) {
            (_, true) => Deferral::Deferred,
            (true, false) => Deferral::Immediate,
            (false, false) => Deferral::Never,
        });
        let state = match (has("enabled"), has("always"), has("replica")) {
            (true, true, _) => TriggerState::Always,
            (true, false, _) => TriggerState::Origin,
            (false, _, true) => TriggerState::Replica,
            (false, _, false) => TriggerState::Disabled,
        };
        let mut arguments = arguments.split(WITHIN).map(unshielded).collect::<Vec<_>>();
        arguments.pop();
        Ok(Self {
            name: unshielded(name),
            is_before: has("before"),
            is_instead: has("instead"),
            is_row: has("row"),
            state,
            events: events.split('\u{14}').map(event).collect::<Result<_>>()?,
            when: named(when),
            function: RelationName::new(unshielded(schema), unshielded(function)),
            arguments,
            old_rows: named(old_rows),
            new_rows: named(new_rows),
            constraint,
        })
    }

    /// The statement that makes it, for a table of this name as SQL writes it.
    pub fn definition(&self, table: &str) -> String {
        self.definition_with(table, self.function.schema != crate::DEFAULT_SCHEMA)
    }

    /// The same, with the schema of its function or without it.
    pub fn definition_with(&self, table: &str, names_schema: bool) -> String {
        let quoted = |name: &str| match name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
            true => name.to_owned(),
            false => format!("\"{}\"", name.replace('"', "\"\"")),
        };
        // In PostgreSQL's order.
        let place = |event: &&TriggerEvent| match event {
            TriggerEvent::Insert => 0,
            TriggerEvent::Delete => 1,
            TriggerEvent::Update(_) => 2,
            TriggerEvent::Truncate => 3,
        };
        let mut events = self.events.iter().collect::<Vec<_>>();
        events.sort_by_key(place);
        let events = events.into_iter().map(|event| match event {
            TriggerEvent::Insert => "INSERT".to_owned(),
            TriggerEvent::Update(columns) if columns.is_empty() => "UPDATE".to_owned(),
            TriggerEvent::Update(columns) => {
                format!("UPDATE OF {}", columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", "))
            }
            TriggerEvent::Delete => "DELETE".to_owned(),
            TriggerEvent::Truncate => "TRUNCATE".to_owned(),
        });
        let events = events.collect::<Vec<_>>().join(" OR ");
        let timing = self.timing();
        let each = if self.is_row { "ROW" } else { "STATEMENT" };
        let when = self.when.as_ref().map(|when| format!(" WHEN ({when})")).unwrap_or_default();
        let arguments = self.arguments.iter().map(|argument| format!("'{}'", argument.replace('\'', "''")));
        let arguments = arguments.collect::<Vec<_>>().join(", ");
        let routine = self.function.routine().unwrap_or(&self.function.name);
        let routine = quoted(routine.split('(').next().unwrap_or(routine));
        let routine = match names_schema {
            true => format!("{}.{routine}", quoted(&self.function.schema)),
            false => routine,
        };
        let name = quoted(&self.name);
        let tables = [("OLD", &self.old_rows), ("NEW", &self.new_rows)];
        let tables = tables
            .iter()
            .filter_map(|(which, name)| name.as_ref().map(|name| format!(" {which} TABLE AS {}", quoted(name))));
        let tables = tables.collect::<String>();
        let referencing = if tables.is_empty() { tables } else { format!(" REFERENCING{tables}") };
        let (kind, deferral) = match self.constraint {
            None => ("", ""),
            Some(Deferral::Never) => ("CONSTRAINT ", " NOT DEFERRABLE INITIALLY IMMEDIATE"),
            Some(Deferral::Immediate) => ("CONSTRAINT ", " DEFERRABLE INITIALLY IMMEDIATE"),
            Some(Deferral::Deferred) => ("CONSTRAINT ", " DEFERRABLE INITIALLY DEFERRED"),
        };
        format!(
            "CREATE {kind}TRIGGER {name} {timing} {events} ON {table}{deferral}{referencing} FOR EACH {each}{when} \
             EXECUTE FUNCTION {routine}({arguments})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_is_what_its_text_says() {
        let trigger = Trigger {
            name: "t".into(),
            is_before: true,
            is_instead: false,
            is_row: true,
            events: vec![
                TriggerEvent::Insert,
                TriggerEvent::Update(vec!["a".into(), "B c".into()]),
                TriggerEvent::Delete,
            ],
            when: Some("new.a > 1".into()),
            function: RelationName::of_routine("public", "f", Some("")),
            arguments: vec![String::new(), "it's".into()],
            state: TriggerState::Disabled,
            old_rows: None,
            new_rows: None,
            constraint: None,
        };
        assert_eq!(Trigger::decoded(&trigger.encoded()).unwrap(), trigger);
        assert_eq!(
            trigger.definition("public.t"),
            "CREATE TRIGGER t BEFORE INSERT OR DELETE OR UPDATE OF a, \"B c\" ON public.t FOR EACH ROW WHEN (new.a > 1) \
             EXECUTE FUNCTION f('', 'it''s')"
        );
        let plain = Trigger { events: vec![TriggerEvent::Update(vec![])], when: None, arguments: vec![], ..trigger };
        assert_eq!(Trigger::decoded(&plain.encoded()).unwrap(), plain);
        for state in [TriggerState::Origin, TriggerState::Always, TriggerState::Replica] {
            let own = Trigger { state, ..plain.clone() };
            assert_eq!(Trigger::decoded(&own.encoded()).unwrap(), own);
            assert_eq!(own.is_enabled(), state != TriggerState::Replica);
        }
        let behind = Trigger {
            is_before: false,
            is_row: false,
            events: vec![TriggerEvent::Truncate],
            old_rows: Some("gone".into()),
            new_rows: Some("New ones".into()),
            ..plain
        };
        assert_eq!(Trigger::decoded(&behind.encoded()).unwrap(), behind);
        assert_eq!(
            behind.definition("public.t"),
            "CREATE TRIGGER t AFTER TRUNCATE ON public.t REFERENCING OLD TABLE AS gone NEW TABLE AS \"New ones\" \
             FOR EACH STATEMENT EXECUTE FUNCTION f()"
        );
        // Of a database that was written before there were names for rows.
        let before = behind.encoded();
        let (before, _) = before.rsplit_once(BETWEEN).unwrap();
        assert_eq!(Trigger::decoded(before).unwrap(), Trigger { old_rows: None, new_rows: None, ..behind.clone() });
        for (deferral, words) in [
            (Deferral::Never, "NOT DEFERRABLE INITIALLY IMMEDIATE"),
            (Deferral::Immediate, "DEFERRABLE INITIALLY IMMEDIATE"),
            (Deferral::Deferred, "DEFERRABLE INITIALLY DEFERRED"),
        ] {
            let events = vec![TriggerEvent::Insert];
            let (constraint, is_row, arguments) = (Some(deferral), true, vec![]);
            let own =
                Trigger { events, constraint, is_row, arguments, old_rows: None, new_rows: None, ..behind.clone() };
            assert_eq!(Trigger::decoded(&own.encoded()).unwrap(), own);
            let expected = format!(
                "CREATE CONSTRAINT TRIGGER t AFTER INSERT ON public.t {words} FOR EACH ROW EXECUTE FUNCTION f()"
            );
            assert_eq!(own.definition("public.t"), expected);
        }
        assert!(Trigger::decoded("x").is_err());
    }
}

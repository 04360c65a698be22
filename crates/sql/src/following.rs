//! What definitions say when a function, a type or a label of an enum gets another name: defaults, generated columns,
//! conditions, indexes and triggers of tables, conditions and defaults of domains, and queries of views.
//!
//! Texts of bodies stay as they are, as in PostgreSQL.

use std::ops::ControlFlow;
use std::sync::Arc;

use diligence_base::Result;
use diligence_catalog::rules::Check;
use diligence_catalog::{
    DEFAULT_SCHEMA, DomainDefinition, NativeTable, Object, Relation, RelationName, RenamedObject, Trigger, View,
};
use diligence_types::SqlType;
use sqlparser::ast::{ArrayElemTypeDef, DataType, Expr, Ident, ObjectName, TableFactor, Value, VisitorMut};

use crate::parse::{self, lower};
use crate::walking::walk_mut;

/// Something that is called otherwise from now on.
#[derive(Clone, Debug)]
pub enum NewName {
    /// A function that shares its name with no other of its schema, by the schema and the name.
    Routine {
        /// As it was called.
        from: RelationName,
        /// As it is called.
        to: RelationName,
    },
    /// A type.
    Type {
        /// As it was called.
        from: RelationName,
        /// As it is called.
        to: RelationName,
    },
    /// A label of an enum.
    Label {
        /// The number of the enum.
        oid: u32,
        /// Its name.
        of: RelationName,
        /// As it was.
        from: String,
        /// As it is.
        to: String,
    },
}

impl NewName {
    /// An object as it is under the new name; `None` if it does not say the old one. Fails as reading a view does.
    pub(crate) fn followed(&self, object: &Object) -> Result<Option<RenamedObject>> {
        let mut names = Following { new: self, within: &object.name.schema, columns: vec![], is_changed: false };
        let followed = match &object.relation {
            Relation::Native(table) => {
                let mut rules = table.rules().clone();
                names.columns = self.columns_of(table);
                for (column, value) in &mut rules.defaults {
                    names.default(column, value);
                }
                rules.generated.values_mut().for_each(|value| names.expression(value));
                names.checks(&mut rules.checks);
                for key in &mut rules.keys {
                    let Some(computed) = key.computed.as_mut() else { continue };
                    for (text, expression) in key.columns.iter_mut().zip(&mut computed.expressions) {
                        let Some(expression) = expression else { continue };
                        let before = expression.to_string();
                        names.expression(expression);
                        *text = text.replace(&before, &expression.to_string());
                    }
                    computed.condition.iter_mut().for_each(|condition| names.expression(condition));
                }
                names.triggers(&mut rules.triggers);
                if let Some(view) = &mut rules.materialized {
                    view.query = names.text(&view.query)?;
                }
                RenamedObject::Table { columns: table.schema().clone(), rules: Box::new(rules) }
            }
            Relation::View(view) => {
                let mut source = view.source.as_ref().clone();
                let _ = walk_mut(&mut source, &mut names);
                let (depth, schema, mut triggers) = (view.depth, view.schema.clone(), view.triggers.clone());
                names.triggers(&mut triggers);
                let view = View { source: Arc::new(source), depth, schema, triggers };
                RenamedObject::Other(Relation::View(Arc::new(view)))
            }
            Relation::Domain(domain) => {
                let mut domain = DomainDefinition::clone(domain);
                domain.default.iter_mut().for_each(|value| names.expression(value));
                names.checks(&mut domain.checks);
                RenamedObject::Other(Relation::Domain(Arc::new(domain)))
            }
            _ => return Ok(None),
        };
        Ok(names.is_changed.then_some(followed))
    }

    /// The name of an index of a table that is computed with what gets the name; `None` if none is.
    pub(crate) fn index_that_says_it(&self, object: &Object) -> Option<String> {
        let Relation::Native(table) = &object.relation else { return None };
        let columns = self.columns_of(table);
        let mut names = Following { new: self, within: &object.name.schema, columns, is_changed: false };
        let said = table.rules().keys.iter().find(|key| {
            let Some(computed) = &key.computed else { return false };
            let expressions = computed.expressions.iter().flatten().chain(&computed.condition);
            expressions.for_each(|expression| names.expression(&mut expression.clone()));
            names.is_changed
        });
        said.map(|key| key.name.clone())
    }

    /// The columns of a table that hold labels of the enum.
    fn columns_of(&self, table: &NativeTable) -> Vec<String> {
        let Self::Label { oid, .. } = self else { return vec![] };
        let is_it = |sql_type: Option<SqlType>| {
            let sql_type = sql_type.map(|sql_type| sql_type.base().innermost().clone());
            matches!(sql_type, Some(SqlType::Enum(one)) if one.oid == *oid)
        };
        let fields = table.schema().fields().iter();
        fields.filter(|field| is_it(SqlType::of_field(field))).map(|field| field.name().clone()).collect()
    }
}

/// Puts the new name in the place of the old one.
struct Following<'n> {
    new: &'n NewName,
    /// The schema of what says it.
    within: &'n str,
    /// The columns that hold labels of the enum.
    columns: Vec<String>,
    is_changed: bool,
}

impl Following<'_> {
    fn expression(&mut self, kept: &mut Arc<Expr>) {
        let mut copy = kept.as_ref().clone();
        let before = std::mem::replace(&mut self.is_changed, false);
        let _ = walk_mut(&mut copy, self);
        if self.is_changed {
            *kept = Arc::new(copy);
        }
        self.is_changed |= before;
    }

    /// The functions and the conditions of triggers.
    fn triggers(&mut self, triggers: &mut [Trigger]) {
        for trigger in triggers {
            if let Some(when) = &mut trigger.when {
                self.condition(when);
            }
            if let NewName::Routine { from, to } = self.new {
                // They have no parameters.
                let [from, to] = [from, to].map(|name| RelationName::of_routine(&name.schema, &name.name, Some("")));
                if trigger.function == from {
                    trigger.function = to;
                    self.is_changed = true;
                }
            }
        }
    }

    /// A trigger's condition; one that names rows as a whole is no expression to the parser, and stays.
    fn condition(&mut self, when: &mut String) {
        let Ok(parsed) = parse::expression(when) else { return };
        let mut condition = Arc::new(parsed);
        let before = condition.clone();
        self.expression(&mut condition);
        if condition != before {
            *when = condition.to_string();
        }
    }

    /// The text of a query. Fails as parsing it does.
    fn text(&mut self, text: &str) -> Result<String> {
        let before = std::mem::replace(&mut self.is_changed, false);
        let mut query = parse::query(text)?;
        let _ = walk_mut(&mut query, self);
        let text = if self.is_changed { query.to_string() } else { text.to_owned() };
        self.is_changed |= before;
        Ok(text)
    }

    /// The default of a column: that of one with labels may be one.
    fn default(&mut self, column: &str, kept: &mut Arc<Expr>) {
        if self.columns.iter().any(|own| own == column) {
            let mut copy = kept.as_ref().clone();
            self.label(&mut copy);
            *kept = Arc::new(copy);
        }
        self.expression(kept);
    }

    fn checks(&mut self, checks: &mut [Check]) {
        for check in checks {
            self.expression(&mut check.condition);
        }
    }

    /// A name of a function or a type. Without a schema, it means what is in the same schema or in the default one.
    fn name(&mut self, name: &mut ObjectName, from: &RelationName, to: &RelationName) {
        let parts = name.0.iter().filter_map(|part| part.as_ident()).map(lower).collect::<Vec<_>>();
        let is_it = match parts.as_slice() {
            [own] => *own == from.name && (from.schema == self.within || from.schema == DEFAULT_SCHEMA),
            [schema, own] => *own == from.name && *schema == from.schema,
            _ => false,
        };
        if !is_it || parts.len() != name.0.len() {
            return;
        }
        let own = written(&to.name);
        let is_found = to.schema == self.within || to.schema == DEFAULT_SCHEMA;
        let parts = if parts.len() == 1 && is_found { vec![own] } else { vec![written(&to.schema), own] };
        *name = ObjectName::from(parts);
        self.is_changed = true;
    }

    fn call(&mut self, name: &mut ObjectName) {
        if let NewName::Routine { from, to } = self.new {
            self.name(name, from, to);
        }
    }

    fn data_type(&mut self, data_type: &mut DataType) {
        match (data_type, self.new) {
            (DataType::Custom(name, _), NewName::Type { from, to }) => self.name(name, from, to),
            (
                DataType::Array(
                    ArrayElemTypeDef::SquareBracket(element, _)
                    | ArrayElemTypeDef::AngleBracket(element)
                    | ArrayElemTypeDef::Parenthesis(element),
                ),
                _,
            ) => self.data_type(element),
            _ => {}
        }
    }

    /// Whether a type is the enum.
    fn is_enum(&self, data_type: &DataType) -> bool {
        let (DataType::Custom(name, _), NewName::Label { of, .. }) = (data_type, self.new) else { return false };
        let mut parts = name.0.iter().rev().filter_map(|part| part.as_ident()).map(lower);
        parts.next().is_some_and(|own| own == of.name) && parts.next().is_none_or(|schema| schema == of.schema)
    }

    /// Whether an expression is a column that holds labels of the enum.
    fn holds_labels(&self, expression: &Expr) -> bool {
        let name = match expression {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(names) => names.last(),
            _ => None,
        };
        name.map(lower).is_some_and(|name| self.columns.contains(&name))
    }

    /// A text that is the label.
    fn label(&mut self, expression: &mut Expr) {
        let (NewName::Label { from, to, .. }, Expr::Value(value)) = (self.new, expression) else { return };
        if let Value::SingleQuotedString(text) = &mut value.value
            && text == from
        {
            text.clone_from(to);
            self.is_changed = true;
        }
    }
}

/// A name as it is written.
fn written(name: &str) -> Ident {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain { Ident::new(name) } else { Ident::with_quote('"', name) }
}

impl VisitorMut for Following<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } = factor {
            self.call(name);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, value: &mut Expr) -> ControlFlow<()> {
        match value {
            Expr::Function(call) => self.call(&mut call.name),
            Expr::Cast { expr, data_type, .. } => {
                if self.is_enum(data_type) {
                    self.label(expr);
                }
                self.data_type(data_type);
            }
            Expr::BinaryOp { left, right, .. } => {
                if self.holds_labels(left) {
                    self.label(right);
                }
                if self.holds_labels(right) {
                    self.label(left);
                }
            }
            Expr::InList { expr, list, .. } if self.holds_labels(expr) => {
                list.iter_mut().for_each(|item| self.label(item));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An expression in a schema as it is under a new name.
    fn followed(text: &str, within: &str, columns: &[&str], new: &NewName) -> String {
        let mut expression = Arc::new(parse::expression(text).unwrap());
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Following { new, within, columns, is_changed: false }.expression(&mut expression);
        expression.to_string()
    }

    #[test]
    fn functions_and_types_are_named_as_they_are_called() {
        let name = |schema: &str, name: &str| RelationName::new(schema, name);
        let function = NewName::Routine { from: name("lab", "f"), to: name("lab", "g") };
        assert_eq!(followed("f(a) + lab.f(b) + other.f(c)", "lab", &[], &function), "g(a) + lab.g(b) + other.f(c)");
        assert_eq!(followed("f(a) + lab.f(b)", "public", &[], &function), "f(a) + lab.g(b)");
        let moved = NewName::Routine { from: name("public", "f"), to: name("Lab", "f") };
        assert_eq!(followed("f(a)", "public", &[], &moved), "\"Lab\".f(a)");
        let own = NewName::Type { from: name("public", "mood"), to: name("public", "m2") };
        assert_eq!(followed("'x'::mood = ANY('{}'::mood[])", "lab", &[], &own), "'x'::m2 = ANY('{}'::m2[])");
    }

    #[test]
    fn labels_are_those_of_columns_and_casts() {
        let new = NewName::Label {
            oid: 1,
            of: RelationName::new("public", "mood"),
            from: "ok".to_owned(),
            to: "fine".to_owned(),
        };
        let text = "m = 'ok' OR 'ok' <> t OR m IN ('sad', 'ok') OR 'ok'::mood = x";
        let shown = "m = 'fine' OR 'ok' <> t OR m IN ('sad', 'fine') OR 'fine'::mood = x";
        assert_eq!(followed(text, "public", &["m"], &new), shown);
    }
}

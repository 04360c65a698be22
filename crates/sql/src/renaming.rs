//! What the objects of a database say when a schema has another name: statements of views and functions, expressions
//! that tables and domains are declared with, triggers, and the types of columns.
//!
//! Texts of bodies stay as they are, as in PostgreSQL; so do names without a schema, which are looked up in the schema
//! of the object that says them.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use diligence_base::Result;
use diligence_catalog::rules::{Check, TableRules};
use diligence_catalog::{DomainDefinition, Object, Relation, RenamedObject, Routine, Trigger, View};
use diligence_types::SqlType;
use diligence_types::collation::Collation;
use diligence_types::domain_type::DomainType;
use diligence_types::enum_type::EnumType;
use diligence_types::record_type::{CompositeName, RecordType};
use diligence_types::sql_type::RecordField;
use sqlparser::ast::{
    self, ArrayElemTypeDef, DataType, Expr, Ident, ObjectName, ObjectNamePart, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, VisitorMut,
};

use crate::parse;
use crate::parse::lower;
use crate::quoting::quoted;
use crate::walking::walk_mut;

/// An object as it is when a schema is named otherwise; `None` if it says nothing of the schema. Fails as reading a
/// trigger's condition does.
pub(crate) fn renamed(object: &Object, from: &str, to: &str) -> Result<Option<RenamedObject>> {
    let mut names = SchemaNames { from, to, is_changed: false };
    let renamed = match &object.relation {
        Relation::Native(table) => {
            let columns = names.columns(table.schema());
            let rules = names.rules(table.rules())?;
            RenamedObject::Table { columns, rules: Box::new(rules) }
        }
        Relation::View(view) => {
            let mut source = view.source.as_ref().clone();
            names.statement(&mut source);
            let triggers = names.triggers(&view.triggers)?;
            let schema = names.columns(&view.schema);
            let view = View { source: Arc::new(source), depth: view.depth, schema, triggers };
            RenamedObject::Other(Relation::View(Arc::new(view)))
        }
        Relation::Routine(routine) => {
            let mut source = routine.source.as_ref().clone();
            names.statement(&mut source);
            let routine = Routine { source: Arc::new(source), depth: routine.depth };
            RenamedObject::Other(Relation::Routine(Arc::new(routine)))
        }
        Relation::Domain(domain) => {
            let base = names.sql_type(&domain.base).unwrap_or_else(|| domain.base.clone());
            let default = domain.default.as_ref().map(|default| names.expression(default));
            let checks = names.checks(&domain.checks);
            let domain = DomainDefinition { base, default, checks, ..domain.as_ref().clone() };
            RenamedObject::Other(Relation::Domain(Arc::new(domain)))
        }
        _ => return Ok(None),
    };
    Ok(names.is_changed.then_some(renamed))
}

/// Puts one name of a schema in the place of another one.
struct SchemaNames<'n> {
    from: &'n str,
    to: &'n str,
    is_changed: bool,
}

impl SchemaNames<'_> {
    fn ident(&mut self, schema: &mut Ident) {
        if lower(schema) == self.from {
            *schema = Ident::with_quote('"', self.to);
            self.is_changed = true;
        }
    }

    /// A name whose last part is that of something in a schema.
    fn name(&mut self, name: &mut ObjectName) {
        let schema = name.0.len().checked_sub(2).and_then(|at| name.0.get_mut(at));
        if let Some(ObjectNamePart::Identifier(schema)) = schema {
            self.ident(schema);
        }
    }

    fn data_type(&mut self, data_type: &mut DataType) {
        match data_type {
            DataType::Custom(name, _) => self.name(name),
            DataType::Array(
                ArrayElemTypeDef::SquareBracket(element, _)
                | ArrayElemTypeDef::AngleBracket(element)
                | ArrayElemTypeDef::Parenthesis(element),
            ) => self.data_type(element),
            _ => {}
        }
    }

    /// A text that names a relation, as `nextval` and `regclass` have it.
    fn literal(&mut self, value: &mut Expr) {
        let Expr::Value(value) = value else { return };
        let ast::Value::SingleQuotedString(text) = &mut value.value else { return };
        let Some((schema, rest)) = text.rsplit_once('.') else { return };
        if schema == self.from || schema == quoted(self.from) {
            *text = format!("{}.{rest}", quoted(self.to));
            self.is_changed = true;
        }
    }

    fn statement(&mut self, statement: &mut ast::Statement) {
        match statement {
            ast::Statement::CreateView(create) => self.name(&mut create.name),
            ast::Statement::CreateMacro { name, .. } => self.name(name),
            ast::Statement::CreateFunction(create) => {
                self.name(&mut create.name);
                for argument in create.args.iter_mut().flatten() {
                    self.data_type(&mut argument.data_type);
                }
                match &mut create.return_type {
                    Some(ast::FunctionReturnType::DataType(one) | ast::FunctionReturnType::SetOf(one)) => {
                        self.data_type(one);
                    }
                    None => {}
                }
            }
            _ => {}
        }
        let _ = walk_mut(statement, self);
    }

    fn expression(&mut self, expression: &Arc<Expr>) -> Arc<Expr> {
        let mut copy = expression.as_ref().clone();
        let _ = walk_mut(&mut copy, self);
        Arc::new(copy)
    }

    fn checks(&mut self, checks: &[Check]) -> Vec<Check> {
        let check = |check: &Check| Check { condition: self.expression(&check.condition), ..check.clone() };
        checks.iter().map(check).collect()
    }

    fn triggers(&mut self, triggers: &[Trigger]) -> Result<Vec<Trigger>> {
        let mut all = triggers.to_vec();
        for trigger in &mut all {
            if trigger.function.schema == self.from {
                self.to.clone_into(&mut trigger.function.schema);
                self.is_changed = true;
            }
            if let Some(when) = &mut trigger.when {
                let before = std::mem::replace(&mut self.is_changed, false);
                let mut condition = parse::expression(when)?;
                let _ = walk_mut(&mut condition, self);
                // What says nothing of the schema stays as it was written.
                if self.is_changed {
                    *when = condition.to_string();
                }
                self.is_changed |= before;
            }
        }
        Ok(all)
    }

    fn rules(&mut self, rules: &TableRules) -> Result<TableRules> {
        let mut rules = rules.clone();
        for value in rules.defaults.values_mut().chain(rules.generated.values_mut()) {
            *value = self.expression(value);
        }
        rules.checks = self.checks(&rules.checks);
        for computed in rules.keys.iter_mut().filter_map(|key| key.computed.as_mut()) {
            for expression in computed.expressions.iter_mut().flatten().chain(&mut computed.condition) {
                *expression = self.expression(expression);
            }
        }
        rules.triggers = self.triggers(&rules.triggers)?;
        if let Some(view) = &mut rules.materialized {
            let before = std::mem::replace(&mut self.is_changed, false);
            let mut query = parse::query(&view.query)?;
            let _ = walk_mut(&mut query, self);
            if self.is_changed {
                view.query = query.to_string();
            }
            self.is_changed |= before;
        }
        Ok(rules)
    }

    fn columns(&mut self, columns: &SchemaRef) -> SchemaRef {
        let column = |field: &FieldRef| match SqlType::of_field(field).and_then(|one| self.sql_type(&one)) {
            Some(sql_type) => Arc::new(sql_type.field(field.name(), field.is_nullable())),
            None => field.clone(),
        };
        Arc::new(Schema::new(columns.fields().iter().map(column).collect::<Vec<_>>()))
    }

    /// The schema that a type notes, if it is another one.
    fn noted(&mut self, schema: Option<&String>) -> Option<Option<String>> {
        (schema.is_some_and(|schema| schema == self.from)).then(|| {
            self.is_changed = true;
            Some(self.to.to_owned())
        })
    }

    /// A type that notes the schema otherwise; `None` if it does not note it.
    fn sql_type(&mut self, sql_type: &SqlType) -> Option<SqlType> {
        match sql_type {
            SqlType::Enum(one) => {
                let schema = self.noted(one.schema.as_ref())?;
                Some(SqlType::Enum(Arc::new(EnumType { schema, ..one.as_ref().clone() })))
            }
            SqlType::Domain(one) => {
                let (schema, base) = (self.noted(one.schema.as_ref()), self.sql_type(&one.base));
                (schema.is_some() || base.is_some()).then(|| {
                    let schema = schema.unwrap_or_else(|| one.schema.clone());
                    let base = base.unwrap_or_else(|| one.base.clone());
                    SqlType::Domain(Arc::new(DomainType { schema, base, ..one.as_ref().clone() }))
                })
            }
            SqlType::Collated(one) => {
                let schema = self.noted(one.collation.schema.as_ref())?;
                let collation = Collation { schema, ..one.collation.clone() };
                Some(one.base.with_collation(Some(&collation)))
            }
            SqlType::Array(element) => self.sql_type(element).map(SqlType::array_of),
            SqlType::Map(pair) => {
                let (key, value) = (self.sql_type(&pair.0), self.sql_type(&pair.1));
                (key.is_some() || value.is_some()).then(|| {
                    let key = key.unwrap_or_else(|| pair.0.clone());
                    SqlType::Map(Arc::new((key, value.unwrap_or_else(|| pair.1.clone()))))
                })
            }
            SqlType::Record(own) => {
                let name = own.composite_name();
                let schema = self.noted(name.and_then(|name| name.schema.as_ref()));
                let types = own.iter().map(|field| self.sql_type(&field.sql_type)).collect::<Vec<_>>();
                if schema.is_none() && types.iter().all(Option::is_none) {
                    return None;
                }
                let fields = own.iter().zip(types).map(|(field, changed)| RecordField {
                    name: field.name.clone(),
                    sql_type: changed.unwrap_or_else(|| field.sql_type.clone()),
                });
                let fields = fields.collect();
                Some(SqlType::Record(match (name, schema) {
                    (Some(name), Some(schema)) => {
                        RecordType::composite(CompositeName { schema, ..name.clone() }, fields)
                    }
                    _ => own.with(fields),
                }))
            }
            _ => None,
        }
    }

    fn stars(&mut self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => {
                for item in &mut select.projection {
                    if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item {
                        self.name(name);
                    }
                }
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.stars(left);
                self.stars(right);
            }
            _ => {}
        }
    }
}

impl VisitorMut for SchemaNames<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        self.stars(&mut query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<()> {
        self.name(name);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, value: &mut Expr) -> ControlFlow<()> {
        match value {
            Expr::Function(call) => {
                self.name(&mut call.name);
                let bare = call.name.0.last().and_then(|part| part.as_ident()).map(lower).unwrap_or_default();
                if ["nextval", "currval", "setval"].contains(&bare.as_str())
                    && let ast::FunctionArguments::List(list) = &mut call.args
                    && let Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(first))) = list.args.first_mut()
                {
                    self.literal(first);
                }
            }
            Expr::Cast { expr, data_type, .. } => {
                if data_type.to_string().eq_ignore_ascii_case("regclass") {
                    self.literal(expr);
                }
                self.data_type(data_type);
            }
            Expr::CompoundIdentifier(parts) if parts.len() == 3 => self.ident(&mut parts[0]),
            Expr::Collate { collation, .. } => self.name(collation),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

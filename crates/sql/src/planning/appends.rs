//! Rows that a client sends into a table: COPY … FROM STDIN. They go the way of an INSERT's, so columns that are left
//! out get their defaults, and constraints hold.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion_common::Statistics;
use diligence_base::ids::{TableIdentity, TableVersion};
use diligence_base::{Error, Result};
use diligence_catalog::authority::Privilege;
use diligence_catalog::{DEFAULT_SCHEMA, NativeTable, Object, Relation, RelationName, Resolved, SessionSnapshot};
use diligence_engine::expressions::Expr;
use diligence_engine::plan::{Node, Plan, RowsSender, incoming};
use diligence_storage::{ScanRequest, Table, TableScan};
use diligence_types::SqlType;
use diligence_types::enum_type::EnumType;
use sqlparser::ast::Ident;

use super::around::Around;
use super::bound::BoundStatement;
use super::changes::{ChangedTable, Meant};
use super::names::Names;
use super::writable::refuse_materialized;
use super::{Planner, guarded};
use crate::binder::{self, CHANGED, Given, Overriding};
use crate::errors::suggest;
use crate::front;
use crate::quoting::quoted;
use crate::statement::Query;
use crate::write::native::ChangeWay;
use crate::write::triggers::Operation;

/// A plan that writes rows as they are sent.
pub struct PlannedAppend {
    /// What the engine runs.
    pub query: Query,
    /// Takes the rows, which have these columns.
    pub rows: RowsSender,
    /// The columns of what is sent, in the table's types.
    pub schema: SchemaRef,
}

/// What stands for the rows until there is a plan.
#[derive(Debug)]
struct SentTable(SchemaRef, TableIdentity);

impl Table for SentTable {
    fn schema(&self) -> SchemaRef {
        self.0.clone()
    }

    fn identity(&self) -> TableIdentity {
        self.1
    }

    fn statistics(&self) -> Statistics {
        Statistics::new_unknown(&self.0)
    }

    fn scan(&self, _request: &ScanRequest) -> Result<TableScan> {
        Err(Error::bug("rows that are sent are scanned"))
    }

    fn describe(&self) -> String {
        "sent".into()
    }
}

impl Planner {
    /// The table that rows are sent to: without a schema, the first one of the name on the search path.
    pub fn table_to_append(&self, snapshot: &SessionSnapshot, schema: Option<&str>, table: &str) -> RelationName {
        match schema {
            Some("pg_temp") => RelationName::new(self.catalogs().temporary_schema(), table),
            Some(schema) => RelationName::new(schema, table),
            None => {
                let at = self.planning(snapshot);
                Around::new(self, &at, &Names::new(&at), vec![]).in_path(table)
            }
        }
    }

    /// The columns that COPY takes of a table or gives it, of those that it names: none for all of them. Fails with
    /// code 42P10 if one of them is generated.
    pub fn copied_columns(
        &self,
        snapshot: &SessionSnapshot,
        name: &RelationName,
        named: &[String],
    ) -> Result<Vec<String>> {
        let Some(Resolved::Object(object)) = snapshot.get(name) else { return Ok(named.to_vec()) };
        let Relation::Native(table) = &object.relation else { return Ok(named.to_vec()) };
        let generated = &table.rules().generated;
        if let Some(column) = named.iter().find(|column| generated.contains_key(*column)) {
            let error = Error::input(format!("column \"{column}\" is a generated column")).with_code("42P10");
            return Err(error.with_detail("Generated columns cannot be used in COPY."));
        }
        if generated.is_empty() || !named.is_empty() {
            return Ok(named.to_vec());
        }
        let columns = table.schema().fields().iter().map(|field| field.name());
        Ok(columns.filter(|column| !generated.contains_key(*column)).cloned().collect())
    }

    /// The columns of a table that rows can be sent to: those that are not computed from others. Fails with kind
    /// `Input` if there is no such table or it may not be changed, `Unsupported` if it is not in memory.
    pub fn appendable(&self, snapshot: &SessionSnapshot, name: &RelationName) -> Result<SchemaRef> {
        let (_, table) = memory_table(snapshot, name)?;
        let is_given = |field: &&Arc<Field>| !table.rules().generated.contains_key(field.name());
        Ok(Arc::new(Schema::new(table.schema().fields().iter().filter(is_given).cloned().collect::<Vec<_>>())))
    }

    /// Plans an INSERT of rows that are sent, with these of a table's columns. Fails as
    /// [`appendable`](Self::appendable) does, with code 42703 if there is no such column, and as an INSERT does.
    /// `condition` says which of the rows the table gets, over its columns; with `leaves_out_errors`, it gets none with
    /// a text that is no value of its column's type.
    pub fn plan_append(
        &self,
        snapshot: &SessionSnapshot,
        name: &RelationName,
        columns: &[String],
        condition: Option<&str>,
        leaves_out_errors: bool,
    ) -> Result<PlannedAppend> {
        let (object, table) = memory_table(snapshot, name)?;
        let places = columns.iter().map(|column| {
            table.schema().index_of(column).map_err(|_| {
                let names = table.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
                let message = format!("the table '{}' has no column '{column}'", name.name);
                suggest(Error::input(message).with_code("42703"), column, &names)
            })
        });
        let places = places.collect::<Result<Vec<_>>>()?;
        snapshot.rights.check_columns(name, columns.iter().map(String::as_str), Privilege::Insert)?;
        // What may not be NULL is looked at when the table gets the rows.
        let fields = places.iter().map(|place| sent_field(table.schema().field(*place)));
        let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let at = self.planning(snapshot);
        let names = Names::new(&at);
        guarded(|| {
            let around = Around::new(self, &at, &names, vec![]);
            let sent = TableIdentity::of_new(TableVersion(0));
            around.set_changed(Arc::new(SentTable(schema.clone(), sent)));
            let shown = places.iter().map(|place| shown_value(table.schema().field(*place), "CAST"));
            let shown = shown.collect::<Vec<_>>().join(", ");
            let mut source = format!("SELECT {shown} FROM \"{CHANGED}\" AS {}", quoted(&name.name));
            if leaves_out_errors {
                let valid = places.iter().map(|place| {
                    let field = table.schema().field(*place);
                    format!("({} IS NOT NULL OR {} IS NULL)", shown_value(field, "TRY_CAST"), quoted(field.name()))
                });
                source = format!("{source} WHERE {}", valid.collect::<Vec<_>>().join(" AND "));
            }
            if let Some(condition) = condition {
                let all = places.iter().map(|place| quoted(table.schema().field(*place).name())).collect::<Vec<_>>();
                let (columns, table) = (all.join(", "), quoted(&name.name));
                source = format!("SELECT * FROM ({source}) AS {table}({columns}) WHERE {condition}");
            }
            let source = crate::parse::query(&source)?;
            let alias = Ident::with_quote('"', &name.name);
            let changed = ChangedTable::new(&object, &table, (&alias, false), around.next_table_version())?;
            let described = changed.described(None, None, &[Operation::Insert]);
            let given = Given::Places(places);
            let bound = binder::bind_new_rows(Some(&source), &given, Overriding::System, None, &described, &around)?;
            let layout = changed.layout();
            let way = ChangeWay::Insert { replace: false };
            let meant = Meant { operations: vec![Operation::Insert], ..Meant::default() };
            let statement = around.changing("COPY", changed.object, way, layout, bound, &meant)?;
            let BoundStatement::Write { rows, writer, .. } = statement else {
                return Err(Error::bug("rows are sent to no writer"));
            };
            let front::Planned { mut plan, tables, .. } = around.front(rows, &[], false)?;
            let (sender, incoming) = incoming(schema.clone());
            let mut incoming = Some(incoming);
            replace(&mut plan, sent, &mut incoming)?;
            if incoming.is_some() {
                return Err(Error::bug("rows that are sent are not read"));
            }
            let query = Query { is_calling: around.is_calling(), ..Query::new(Plan::write(plan, writer), tables) };
            Ok(PlannedAppend { query, rows: sender, schema: schema.clone() })
        })
    }
}

/// A column of what is sent. Types that are held as texts take any text: those are looked at on their way.
fn sent_field(field: &Field) -> Field {
    let held = SqlType::of_field(field).map(|sql_type| sql_type.base().clone());
    let sent = match &held {
        Some(
            SqlType::Uuid
            | SqlType::Json
            | SqlType::Jsonb
            | SqlType::Enum(_)
            | SqlType::Bit(_)
            | SqlType::VarBit(_)
            | SqlType::Range(_)
            | SqlType::Multirange(_)
            | SqlType::Network(_)
            | SqlType::Search(_)
            | SqlType::Vector(_)
            | SqlType::TimeTz,
        ) => SqlType::Text,
        // How long a text may be is looked at on its way, too.
        Some(sql_type) if is_of_length(sql_type) => SqlType::Text,
        Some(SqlType::Array(element)) if matches!(**element, SqlType::Enum(_)) || is_of_length(element.base()) => {
            SqlType::array_of(SqlType::Text)
        }
        Some(other) => return other.field(field.name(), true),
        None => return field.clone().with_nullable(true),
    };
    sent.field(field.name(), true)
}

/// Whether a type is that of texts of so many characters.
fn is_of_length(sql_type: &SqlType) -> bool {
    match sql_type {
        SqlType::Collated(one) => is_of_length(&one.base),
        SqlType::Varchar(length) => length.is_some(),
        SqlType::Char(_) => true,
        _ => false,
    }
}

/// The value that a column gets of what is sent, by CAST or TRY_CAST.
fn shown_value(field: &Field, cast: &str) -> String {
    let name = quoted(field.name());
    let of_enum = |one: &EnumType| {
        let schema = one.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
        format!("{}.{}", quoted(schema), quoted(&one.name))
    };
    match SqlType::of_field(field).map(|sql_type| sql_type.base().clone()) {
        Some(known @ (SqlType::Uuid | SqlType::Json | SqlType::Jsonb | SqlType::TimeTz)) => {
            format!("{cast}({name} AS {known})")
        }
        Some(
            known @ (SqlType::Range(_)
            | SqlType::Multirange(_)
            | SqlType::Network(_)
            | SqlType::Search(_)
            | SqlType::Vector(_)),
        ) => {
            format!("{cast}({name} AS {known})")
        }
        // What is too long for the column is an error, as it is not where a cast names the length.
        Some(SqlType::Bit(_) | SqlType::VarBit(_)) => format!("{cast}({name} AS varbit)"),
        // So that a condition compares them as the column's values, without the spaces behind them.
        Some(SqlType::Char(_)) => format!("{cast}({name} AS bpchar)"),
        Some(SqlType::Enum(one)) => format!("{cast}({name} AS {})", of_enum(&one)),
        Some(SqlType::Array(element)) => match element.as_ref() {
            SqlType::Enum(one) => format!("{cast}({name} AS {}[])", of_enum(one)),
            _ => name,
        },
        _ => name,
    }
}

/// Puts the sent rows where the plan reads what stands for them.
fn replace(plan: &mut Plan, sent: TableIdentity, incoming: &mut Option<Plan>) -> Result<()> {
    if let Node::Scan(scan) = &plan.node
        && scan.table == sent
    {
        let rows = incoming.take().ok_or_else(|| Error::bug("rows that are sent are read twice"))?;
        let rows = scan.filters.iter().try_fold(rows, |input, condition| {
            let (schema, ordered, predicate) = (input.schema.clone(), input.ordered, condition.clone());
            let node = Node::Filter { input: Box::new(input), predicate };
            Ok::<_, Error>(Plan { node, schema, rows_estimate: None, ordered })
        })?;
        let columns = scan.columns.iter().map(|place| Expr::column(*place, &rows.schema));
        let expressions = columns.collect::<Result<Vec<_>>>()?;
        plan.node = Node::Project { input: Box::new(rows), expressions };
        return Ok(());
    }
    plan.inputs_mut().into_iter().try_for_each(|input| replace(input, sent, incoming))
}

fn memory_table(snapshot: &SessionSnapshot, name: &RelationName) -> Result<(Arc<Object>, Arc<NativeTable>)> {
    if !snapshot.rights.may_any_column(name, Privilege::Insert) {
        snapshot.rights.check(name, Privilege::Insert)?;
    }
    match snapshot.get(name) {
        Some(found) => {
            if let Resolved::Object(object) = &found
                && let Relation::Native(memory) = &object.relation
            {
                refuse_materialized(object)?;
                return Ok((object.clone(), memory.clone()));
            }
            let message = format!("'{name}' is {}; rows are added to tables in memory", found.a_kind());
            let error = Error::unsupported(message).with_code("42809");
            Err(error.with_hint("CREATE TABLE makes a table in memory"))
        }
        None => {
            let names = snapshot.names().iter().map(ToString::to_string).collect::<Vec<_>>();
            let error = Error::input(format!("no table is named '{name}'")).with_code("42P01");
            Err(suggest(error, &name.to_string(), &names))
        }
    }
}

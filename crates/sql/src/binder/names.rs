//! The names of result columns, as PostgreSQL makes them (`FigureColname`).

use sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, Query, SelectItem, SetExpr,
    TrimWhereField,
};

use super::syntax::written;
use super::{Binder, normalized};
use crate::parse::{GIVEN_AS, JSON_CALL, WHOLE_ROW};

/// The name of a column that nothing names.
const NAMELESS: &str = "?column?";

/// How much a name says: what is found first does not give way to a type's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Weak,
    Strong,
}

impl Binder<'_> {
    /// The name of a column without AS.
    pub(super) fn column_name(&self, expression: &Expr) -> String {
        self.figure(expression).map_or_else(|| NAMELESS.to_owned(), |(name, _)| name)
    }

    fn figure(&self, expression: &Expr) -> Option<(String, Strength)> {
        use Strength::{Strong, Weak};
        let strong = |name: &str| Some((name.to_owned(), Strong));
        match expression {
            Expr::Identifier(name) => Some((normalized(name), Strong)),
            Expr::CompoundIdentifier(names) => Some((normalized(names.last()?), Strong)),
            Expr::CompoundFieldAccess { root, access_chain } => {
                let field = access_chain.iter().rev().find_map(|access| match access {
                    AccessExpr::Dot(Expr::Identifier(name)) => Some(normalized(name)),
                    _ => None,
                });
                field.map(|name| (name, Strong)).or_else(|| self.figure(root))
            }
            Expr::Nested(inner) | Expr::Collate { expr: inner, .. } | Expr::Named { expr: inner, .. } => {
                self.figure(inner)
            }
            Expr::Function(function) => {
                let name = function.name.0.last()?.as_ident().map(normalized)?;
                match name.as_str() {
                    "between symmetric" | GIVEN_AS => None,
                    WHOLE_ROW => match written(function) {
                        [FunctionArg::Unnamed(FunctionArgExpr::Expr(source))] => self.figure(source),
                        _ => None,
                    },
                    "list comprehension" => strong("array"),
                    name if name.starts_with(JSON_CALL) => strong(&name.replace(' ', "_")),
                    _ => Some((name, Strong)),
                }
            }
            Expr::Cast {
                expr, data_type, kind: CastKind::Cast | CastKind::DoubleColon | CastKind::TryCast, ..
            }
            | Expr::Cast { expr, data_type, kind: CastKind::SafeCast, .. } => match self.figure(expr) {
                Some((name, Strong)) => Some((name, Strong)),
                _ => self.name_of_type(data_type).map(|name| (name, Weak)),
            },
            Expr::TypedString(typed) => Some((self.name_of_type(&typed.data_type)?, Weak)),
            Expr::Interval(_) => Some(("interval".to_owned(), Weak)),
            Expr::Case { else_result, .. } => match else_result.as_ref().and_then(|other| self.figure(other)) {
                Some((name, Strong)) => Some((name, Strong)),
                _ => Some(("case".to_owned(), Weak)),
            },
            Expr::Exists { negated: false, .. } => strong("exists"),
            Expr::Subquery(query) => self.first_name(query).map(|name| (name, Strong)),
            Expr::Array(_) => strong("array"),
            Expr::Tuple(_) | Expr::Struct { .. } | Expr::Dictionary(_) => strong("row"),
            Expr::AtTimeZone { .. } => strong("timezone"),
            Expr::Extract { .. } => strong("extract"),
            Expr::IsNormalized { negated: false, .. } => strong("is_normalized"),
            Expr::Ceil { .. } => strong("ceil"),
            Expr::Floor { .. } => strong("floor"),
            Expr::Position { .. } => strong("position"),
            Expr::Substring { shorthand, .. } => strong(if *shorthand { "substr" } else { "substring" }),
            Expr::Overlay { .. } => strong("overlay"),
            Expr::Trim { trim_where, .. } => strong(match trim_where {
                Some(TrimWhereField::Leading) => "ltrim",
                Some(TrimWhereField::Trailing) => "rtrim",
                Some(TrimWhereField::Both) | None => "btrim",
            }),
            Expr::BinaryOp { op: BinaryOperator::Overlaps, .. } => strong("overlaps"),
            _ => None,
        }
    }

    /// What a column is called after a type that it is cast to.
    fn name_of_type(&self, data_type: &DataType) -> Option<String> {
        let last = match data_type {
            DataType::Custom(name, _) => name.0.last().and_then(|part| part.as_ident()),
            _ => None,
        };
        let written = last.map(normalized);
        // Types that are others here.
        let is_other = last.is_some_and(|last| last.quote_style.is_some() && last.value == "char");
        if is_other || written.as_deref() == Some("jsonpath") {
            return written;
        }
        // The row of a table is called as the table.
        self.sql_type(data_type).map(|sql_type| sql_type.column_name()).ok().or(written)
    }

    /// The name of a query's first column.
    fn first_name(&self, query: &Query) -> Option<String> {
        let mut body = query.body.as_ref();
        loop {
            match body {
                SetExpr::Select(select) => {
                    return match select.projection.first()? {
                        SelectItem::UnnamedExpr(expression) => Some(self.column_name(expression)),
                        SelectItem::ExprWithAlias { alias, .. } => Some(normalized(alias)),
                        // Of `*` the name is known once it is bound.
                        _ => None,
                    };
                }
                SetExpr::Query(inner) => body = inner.body.as_ref(),
                SetExpr::SetOperation { left, .. } => body = left.as_ref(),
                SetExpr::Values(_) => return Some("column1".to_owned()),
                _ => return None,
            }
        }
    }
}

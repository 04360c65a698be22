//! Functions that SQL writes with words among their arguments: `substring(a FROM b FOR c)`, `a AT TIME ZONE b`.

use diligence_base::Result;
use diligence_types::functions::has_function;
use sqlparser::ast::{CeilFloorKind, DateTimeField, Expr, TrimWhereField};

use super::scope::Level;
use super::{Binder, unsupported};
use crate::algebra::{Constant, Scalar};

impl Binder<'_> {
    /// A call with words in it; `None` if the expression is none.
    pub(super) fn worded_call(&self, expression: &Expr, level: &Level<'_>) -> Result<Option<Scalar>> {
        let call = match expression {
            Expr::AtTimeZone { timestamp, time_zone } => {
                let (timestamp, zone) = (self.scalar(timestamp, level)?, self.scalar(time_zone, level)?);
                self.call("timezone", vec![zone, timestamp])
            }
            Expr::Extract { field, expr, .. } => {
                let name = match field {
                    DateTimeField::Custom(name) => name.value.to_lowercase(),
                    other => other.to_string().to_lowercase(),
                };
                self.part_of("extract", &name, self.scalar(expr, level)?, level)
            }
            Expr::Ceil { expr, field } => self.rounded("ceil", expr, field, level),
            Expr::Floor { expr, field } => self.rounded("floor", expr, field, level),
            Expr::Position { expr, r#in } => {
                let (wanted, text) = (self.scalar(expr, level)?, self.scalar(r#in, level)?);
                self.call(if has_function("position") { "position" } else { "strpos" }, vec![text, wanted])
            }
            Expr::Substring { expr, substring_from, substring_for, shorthand, .. } => {
                let mut arguments = vec![self.scalar(expr, level)?];
                match (substring_from, substring_for) {
                    (from, Some(length)) => {
                        let from = from.as_ref().map(|from| self.scalar(from, level)).transpose()?;
                        arguments.push(from.unwrap_or_else(|| Scalar::Constant(Constant::integer(1))));
                        arguments.push(self.scalar(length, level)?);
                    }
                    (Some(from), None) => arguments.push(self.scalar(from, level)?),
                    (None, None) => {}
                }
                self.call(if *shorthand { "substr" } else { "substring" }, arguments)
            }
            Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                let name = match trim_where {
                    Some(TrimWhereField::Leading) => "ltrim",
                    Some(TrimWhereField::Trailing) => "rtrim",
                    Some(TrimWhereField::Both) | None => "btrim",
                };
                let mut arguments = vec![self.scalar(expr, level)?];
                let characters = trim_what.iter().map(AsRef::as_ref).chain(trim_characters.iter().flatten());
                arguments.extend(self.scalars(characters, level)?);
                self.call(name, arguments)
            }
            Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
                let parts = [expr, overlay_what, overlay_from].into_iter().chain(overlay_for);
                let arguments = self.scalars(parts.map(AsRef::as_ref), level)?;
                self.call("overlay", arguments)
            }
            Expr::Collate { expr, collation } => self.collated(expr, collation, level),
            _ => return Ok(None),
        };
        call.map(Some)
    }

    fn rounded(&self, name: &str, inner: &Expr, field: &CeilFloorKind, level: &Level<'_>) -> Result<Scalar> {
        let scalar = self.scalar(inner, level)?;
        match field {
            CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) => self.call(name, vec![scalar]),
            CeilFloorKind::DateTimeField(field) => Err(unsupported(format!("{name} to {field}"))),
            CeilFloorKind::Scale(scale) => {
                let scale = self.literal(&scale.value)?;
                self.call(name, vec![scalar, scale])
            }
        }
    }
}

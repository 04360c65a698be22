//! Values of domains: what a domain demands is looked at where a value becomes one of it. The value is one of the base
//! type then.

use std::ops::ControlFlow;

use diligence_base::{Error, Result};
use diligence_catalog::DEFAULT_SCHEMA;
use diligence_types::SqlType;
use diligence_types::domain_type::DomainType;
use sqlparser::ast::{Expr, Value};

use super::collations::unlabelled;
use super::operators::Way;
use super::scope::{Clause, Level, Namespace, Withs};
use super::targets::Target;
use super::{Binder, Context, normalized};
use crate::algebra::{Constant, Scalar};
use crate::walking::each_expression_mut;

/// A condition of a domain is looked at with a value of this type. Fails with kind `Input` if it means nothing, 0A000
/// with a query in it.
pub(crate) fn bind_domain_check(condition: &Expr, base: &SqlType, context: &dyn Context) -> Result<()> {
    let binder = Binder::new(context);
    let value = context.numbers().named("value", base.base().uncollated(), true).scalar();
    let bound = binder.condition_of(condition, value)?;
    if bound.has_subquery() {
        return Err(Error::unsupported("cannot use subquery in check constraint").with_code("0A000"));
    }
    Ok(())
}

impl Binder<'_> {
    /// The value as one of a domain. Fails as a cast to the base type does, with 23502 or 23514 where it is run, and
    /// with 0A000 for one that is another each time it is looked at.
    pub(super) fn of_domain(&self, scalar: Scalar, domain: &DomainType, way: Way) -> Result<Scalar> {
        // Those below demand, too.
        let mut definitions = vec![self.context.domain(domain)?];
        while let Some(SqlType::Domain(below)) = definitions.last().map(|definition| definition.base.clone()) {
            definitions.push(self.context.domain(&below)?);
        }
        let value = match way {
            Way::Explicit | Way::Try => self.explicit(scalar, domain.base.below_domains(), way == Way::Try)?,
            Way::Implicit | Way::Assignment => self.cast(scalar, domain.base.below_domains(), way)?,
        };
        let text = |text: &str| Scalar::Constant(Constant::text(text));
        let schema = domain.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
        let name = domain.to_string();
        let mut tests = Vec::new();
        if definitions.iter().any(|definition| definition.is_not_null) {
            let is_null = Scalar::IsNull(Box::new(value.clone()));
            tests.push(self.call("domain_not_null", vec![is_null, text(schema), text(&name)])?);
        }
        for check in definitions.iter().rev().flat_map(|definition| &definition.checks) {
            // In the condition, the value has the base type's collation: none of its own.
            let holds = self.condition_of(&check.condition, unlabelled(value.clone()))?;
            tests.push(self.call("domain_check", vec![holds, text(schema), text(&name), text(&check.name)])?);
        }
        if tests.is_empty() {
            return Ok(value);
        }
        if value.is_volatile() {
            let message = format!("a value of the domain {name} that is another each time is not supported here");
            let hint = "compute it in a query below: SELECT CAST(x AS …) FROM (SELECT … AS x)";
            return Err(Error::unsupported(message).with_code("0A000").with_hint(hint));
        }
        let sql_type = value.sql_type();
        Ok(Scalar::Case { arms: vec![(Scalar::all(tests), value)], otherwise: None, sql_type })
    }

    /// What a function returns, in the type that it is declared with.
    pub(super) fn result_of(&self, value: Scalar, returns: &SqlType, is_explicit: bool) -> Result<Scalar> {
        let value = value.cast(returns.base().clone(), is_explicit);
        match returns {
            SqlType::Domain(domain) => self.of_domain(value, domain, Way::Assignment),
            _ => Ok(value),
        }
    }

    /// The condition with VALUE in its place.
    fn condition_of(&self, condition: &Expr, value: Scalar) -> Result<Scalar> {
        let mut condition = condition.clone();
        let _ = each_expression_mut(&mut condition, |expression| {
            if let Expr::Identifier(name) = expression
                && name.quote_style.is_none()
                && normalized(name) == "value"
            {
                *expression = Expr::Value(Value::Placeholder("$1".to_owned()).into());
            }
            ControlFlow::Continue(())
        });
        self.with_template(vec![value], || {
            let withs = Withs::default();
            let level = Level::new(None, &withs, Namespace::default(), Clause::Check);
            self.condition(&condition, &level, "CHECK")
        })
    }

    /// What a column of a domain gets where neither the statement nor the table says anything.
    pub(super) fn domain_default(&self, target: &Target, withs: &Withs<'_>) -> Result<Scalar> {
        let mut sql_type = &target.sql_type;
        while let SqlType::Domain(domain) = sql_type {
            let definition = self.context.domain(domain)?;
            if let Some(default) = &definition.default {
                let level = Level::new(None, withs, Namespace::default(), Clause::Default);
                return self.assign(self.scalar(default, &level)?, target);
            }
            sql_type = &domain.base;
        }
        self.cast(Scalar::Constant(Constant::null(SqlType::Unknown)), &target.sql_type, Way::Assignment)
    }
}

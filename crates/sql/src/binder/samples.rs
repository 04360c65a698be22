//! Samples of rows, the nearest rows of an ASOF JOIN, and the rows of a POSITIONAL JOIN.

use std::collections::HashSet;

use diligence_base::{Error, Result};
use diligence_types::SqlType;
use sqlparser::ast::{
    Expr, FunctionArg, TableFactor, TableSampleKind, TableSampleMethod, TableSampleUnit, TableWithJoins, Value,
};

use super::{Binder, place, unsupported};
use crate::algebra::{
    Apply, Column, Comparison, Constant, Join, JoinKind, Limit, Relation, Scalar, SortKey, WithTable,
};
use crate::errors;

impl Binder<'_> {
    /// TABLESAMPLE of rows that are no table's.
    pub(super) fn sampled(&self, relation: Relation, sample: Option<&TableSampleKind>) -> Result<Relation> {
        let Some(sample) = sample else { return Ok(relation) };
        let seed = seed_of(sample)?;
        if let Some(count) = row_count(sample)? {
            return self.some_rows(relation, count, seed);
        }
        let (share, _) = self.share(sample)?;
        self.sample_of_share(relation, share, seed)
    }

    fn sample_of_share(&self, relation: Relation, share: f64, seed: Option<i64>) -> Result<Relation> {
        let (relation, lot) = self.lots(relation, seed)?;
        Ok(relation.filtered(self.compare(Comparison::Less, lot, double(share))?))
    }

    /// Rows, and a number from 0 to 1 for each. With a seed, the number follows from the row's values, and from how
    /// many equal rows came before it: in whatever order rows come, the same ones have the same numbers.
    fn lots(&self, relation: Relation, seed: Option<i64>) -> Result<(Relation, Scalar)> {
        /// As many bits as a double has for certain.
        const BITS: u32 = 52;
        let Some(seed) = seed else { return Ok((relation, self.call("random", vec![])?)) };
        let whole = |number: i64| Scalar::Constant(Constant::bigint(number));
        let values = relation.columns().iter().map(Column::scalar).collect::<Vec<_>>();
        let values = if values.is_empty() { whole(0) } else { self.call("hash", values)? };
        let key = self.column_for("values", &values);
        let relation = relation.mapped(vec![(key.clone(), values)]);
        let (relation, number, _) = self.numbered_alike(relation, std::slice::from_ref(&key), &[]);
        let row = self.call("hash", vec![key.scalar(), number.scalar()])?;
        let hash = self.call("hashint8extended", vec![row, whole(seed)])?;
        let bits = self.operator("&", vec![hash, whole((1 << BITS) - 1)])?;
        let bits = self.explicit(bits, &SqlType::Double, false)?;
        let lot = self.operator("/", vec![bits, double((1_i64 << BITS) as f64)])?;
        Ok((relation, lot))
    }

    /// USING SAMPLE: a share of the rows, or so many of them; by a seed, if there is one.
    pub(super) fn sample_of_rows(&self, relation: Relation, arguments: &[FunctionArg]) -> Result<Relation> {
        let [count, unit, seed @ ..] = arguments else { return Err(Error::bug("a sample has a number and a unit")) };
        let seed = seed.first().map(|seed| seed_number(&seed.to_string())).transpose()?;
        let count = count.to_string();
        if unit.to_string() == "'percent'" {
            let percent = count.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
            let percent = percent
                .ok_or_else(|| Error::input("sample percentage must be between 0 and 100").with_code("2202H"))?;
            return self.sample_of_share(relation, percent / 100.0, seed);
        }
        self.some_rows(relation, whole_number(&count)?, seed)
    }

    /// So many rows, whichever.
    fn some_rows(&self, relation: Relation, count: i64, seed: Option<i64>) -> Result<Relation> {
        let (relation, scalar) = self.lots(relation, seed)?;
        let key = self.column_for("sample", &scalar);
        let keys = vec![SortKey { scalar: key.scalar(), descending: false, nulls_first: false }];
        let input = Box::new(relation.mapped(vec![(key, scalar)]));
        let sorted = Relation::Sort { input, keys };
        let fetch = Some(Scalar::Constant(Constant::bigint(count)));
        Ok(Relation::Limit(Limit { input: Box::new(sorted), skip: None, fetch, ties: None }))
    }

    /// The share of rows of a TABLESAMPLE, and whether whole clusters are taken. Fails with 2202H for a share that is
    /// none.
    pub(super) fn share(&self, sample: &TableSampleKind) -> Result<(f64, bool)> {
        let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = sample;
        if sample.bucket.is_some() || sample.offset.is_some() {
            return Err(unsupported("a sample of buckets"));
        }
        let Some(quantity) = &sample.quantity else {
            return Err(Error::input("TABLESAMPLE needs a percentage").with_code("42601"));
        };
        let percent = match &quantity.value {
            Expr::Value(value) => match &value.value {
                Value::Number(number, _) => number.parse::<f64>().ok(),
                _ => None,
            },
            _ => return Err(unsupported("TABLESAMPLE with a percentage that is no number")),
        };
        let percent = percent.filter(|percent| (0.0..=100.0).contains(percent)).ok_or_else(|| {
            let error = Error::input("sample percentage must be between 0 and 100").with_code("2202H");
            errors::at(error, place(&quantity.value))
        })?;
        let is_clusters = matches!(sample.name, Some(TableSampleMethod::System | TableSampleMethod::Block));
        Ok((percent / 100.0, is_clusters))
    }
}

/// How many rows a TABLESAMPLE is of; `None` if it is of a share. Fails with 2201W for no whole number.
pub(super) fn row_count(sample: &TableSampleKind) -> Result<Option<i64>> {
    let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = sample;
    match &sample.quantity {
        Some(quantity) if quantity.unit == Some(TableSampleUnit::Rows) => {
            whole_number(&quantity.value.to_string()).map(Some)
        }
        _ => Ok(None),
    }
}

/// The seed of a TABLESAMPLE … REPEATABLE. Fails with 2202G for what is no number.
pub(super) fn seed_of(sample: &TableSampleKind) -> Result<Option<i64>> {
    let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = sample;
    sample.seed.as_ref().map(|seed| seed_number(&seed.value.to_string())).transpose()
}

fn seed_number(seed: &str) -> Result<i64> {
    let number =
        seed.parse::<f64>().map_err(|_| Error::input("the seed of a sample is a number").with_code("2202G"))?;
    Ok(number.to_bits().cast_signed())
}

fn double(value: f64) -> Scalar {
    let value = datafusion_common::ScalarValue::Float64(Some(value));
    Scalar::Constant(Constant { value, sql_type: SqlType::Double })
}

fn whole_number(count: &str) -> Result<i64> {
    count
        .parse::<i64>()
        .map_err(|_| Error::input(format!("a sample has a whole number of rows, not {count}")).with_code("2201W"))
}

/// The arguments of USING SAMPLE, which is spelled as a last part of FROM.
pub(super) fn sample_of(part: &TableWithJoins) -> Option<&[FunctionArg]> {
    match &part.relation {
        TableFactor::Table { name, args: Some(args), .. } => {
            let name = name.0.last()?.as_ident()?;
            (name.quote_style.is_some() && name.value == "using sample").then_some(args.args.as_slice())
        }
        _ => None,
    }
}

/// An ASOF JOIN: with each row of the left side the nearest one of the right. Fails with 42601 unless one of the
/// conditions, and no more, is an inequality between the sides.
pub(super) fn nearest(kind: JoinKind, left: Relation, right: Relation, on: Scalar) -> Result<Relation> {
    let theirs = right.columns().iter().map(|column| column.id).collect::<HashSet<_>>();
    let terms = match &on {
        Scalar::And(terms) => terms.as_slice(),
        one => std::slice::from_ref(one),
    };
    let is_right = |scalar: &Scalar| {
        let columns = scalar.columns();
        !columns.is_empty() && columns.iter().all(|id| theirs.contains(id))
    };
    let has_columns = |scalar: &Scalar| !scalar.columns().is_empty();
    let mut keys = Vec::new();
    for term in terms {
        let Scalar::Compare { comparison, left, right } = term else { continue };
        let is_later = match comparison {
            Comparison::Greater | Comparison::GreaterOrEqual => true,
            Comparison::Less | Comparison::LessOrEqual => false,
            _ => continue,
        };
        // Of what is not later the latest is the nearest.
        let (scalar, descending) = match (is_right(left), is_right(right)) {
            (false, true) if has_columns(left) => (right.as_ref().clone(), is_later),
            (true, false) if has_columns(right) => (left.as_ref().clone(), !is_later),
            // What is said of one side alone says nothing of what is near.
            _ => continue,
        };
        keys.push(SortKey { scalar, descending, nulls_first: false });
    }
    if keys.len() != 1 {
        let error = Error::input("an ASOF JOIN has one inequality between its sides").with_code("42601");
        return Err(error.with_hint("for example ASOF JOIN b ON a.id = b.id AND a.time >= b.time"));
    }
    let sorted = Relation::Sort { input: Box::new(right.filtered(on)), keys };
    let fetch = Some(Scalar::Constant(Constant::bigint(1)));
    let right = Box::new(Relation::Limit(Limit { input: Box::new(sorted), skip: None, fetch, ties: None }));
    Ok(Relation::Apply(Apply { kind, left: Box::new(left), right, on: Scalar::boolean(true) }))
}

impl Binder<'_> {
    /// An ASOF JOIN that keeps the rows of its right side that are nearest to none, and those of the left side that
    /// have no nearest one, if `keeps_left`. The right side is computed once and read twice, and its rows have numbers:
    /// by them each finds the rows of the left side to which it is nearest. Fails as [`nearest`] does.
    pub(super) fn nearest_of_all(
        &self,
        keeps_left: bool,
        left: Relation,
        right: Relation,
        on: Scalar,
    ) -> Result<Relation> {
        let (numbered, number, _) = self.numbered_alike(right, &[], &[]);
        // What is computed in two places would have other numbers in each; a volatile number is computed once.
        let zero = self.explicit(self.call("random", vec![])?, &SqlType::BigInt, false)?;
        let zero = self.operator("*", vec![zero, Scalar::Constant(Constant::bigint(0))])?;
        let scalar = self.operator("+", vec![number.scalar(), zero])?;
        let place = self.column_for("place", &scalar);
        let numbered = numbered.mapped(vec![(place.clone(), scalar)]);
        let own = numbered.columns();
        let found = own.iter().map(|column| Column { id: self.numbers.column(), ..column.clone() }).collect::<Vec<_>>();
        let found_for = |id| own.iter().position(|column| column.id == id).map(|place| &found[place]);
        let on = on.substituted(&|id| found_for(id).map(Column::scalar));
        let found_place = found_for(place.id).map(|column| Column { nullable: true, ..column.clone() });
        let found_place = found_place.ok_or_else(|| Error::bug("the number of a row is gone"))?;
        let id = self.numbers.with();
        let table = |columns| Relation::With(WithTable { id, name: "nearest".to_owned(), columns });
        let (definition, _) = numbered.with_new_ids(self.numbers);
        let defined = definition.columns();
        let kind = if keeps_left { JoinKind::Left } else { JoinKind::Inner };
        let pairs = Box::new(nearest(kind, left, table(found), on)?);
        let on = self.compare(Comparison::Equal, place.scalar(), found_place.scalar())?;
        let all = Box::new(table(own));
        let kind = if keeps_left { JoinKind::Full } else { JoinKind::Left };
        let input = Box::new(Relation::Join(Join { kind, left: all, right: pairs, on }));
        Ok(Relation::Definitions { definitions: vec![(id, definition, defined)], input })
    }

    /// A POSITIONAL JOIN: each row of a side with the row of the other that has its number; what is left of the longer
    /// side stays alone.
    pub(super) fn by_position(&self, left: Relation, right: Relation) -> Result<Relation> {
        let numbered = |input: Relation| {
            let (relation, number, _) = self.numbered_alike(input, &[], &[]);
            (Box::new(relation), number)
        };
        let ((left, own), (right, other)) = (numbered(left), numbered(right));
        let on = self.compare(Comparison::Equal, own.scalar(), other.scalar())?;
        Ok(Relation::Join(Join { kind: JoinKind::Full, left, right, on }))
    }
}

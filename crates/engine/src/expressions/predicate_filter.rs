//! A condition as a filter that a scan applies while it decodes.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::datatypes::Schema;
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal};
use diligence_base::Result;
use diligence_storage::{AnswerId, RowFilter, WholeRanges};

use super::node::{Node, foreign};
use super::outside::calls_outside;
use super::pieces::Pieces;
use super::{Expr, bits, compile, read_columns};
use crate::batch::Batch;

/// A condition over the columns of a table.
#[derive(Debug)]
pub struct PredicateFilter {
    /// Positions in the table's schema, ascending.
    columns: Vec<usize>,
    /// The condition over the table's schema.
    condition: Arc<dyn PhysicalExpr>,
    /// The condition over just those columns.
    node: Node,
    /// How many rows it looks at at once, if what it makes on the way may be wide.
    pieces: Option<Pieces>,
    /// As [`RowFilter::answer`] says.
    answer: Option<AnswerId>,
    /// Whether it compares numbers with constants, and does nothing else.
    is_plain: bool,
    /// As [`RowFilter::ranges`] says.
    ranges: Option<WholeRanges>,
    /// As [`RowFilter::is_of_values`] says.
    is_of_values: bool,
}

impl PredicateFilter {
    /// The filter of a condition over `table`'s schema. `None` for a condition that reads no column: such a one says
    /// nothing about rows, and could not tell how many there are.
    pub fn new(condition: &Expr, table: &Schema) -> Result<Option<Self>> {
        let columns = read_columns(condition.physical())?;
        if columns.is_empty() {
            return Ok(None);
        }
        let dense = foreign::renumbered(condition.physical(), &columns)?;
        let schema = table.project(&columns).map_err(diligence_storage::foreign_error::from_arrow)?;
        let is_plain = is_plain(condition.physical(), table);
        let condition = condition.physical().clone();
        let ranges = if columns.len() == 1 { ranges(&condition, table) } else { None };
        let node = compile::compile(&dense, &schema)?.0;
        let is_of_values = columns.len() == 1 && !node.is_volatile() && !calls_outside(&condition);
        let pieces = Pieces::of(&condition);
        Ok(Some(Self { node, pieces, condition, answer: None, columns, is_plain, ranges, is_of_values }))
    }

    /// The condition over the table's schema.
    pub fn condition(&self) -> &Arc<dyn PhysicalExpr> {
        &self.condition
    }

    /// The same filter, whose answers are shared under this number.
    pub fn with_answer(self, answer: Option<AnswerId>) -> Self {
        Self { answer, ..self }
    }

    /// The filters of all conditions, in their order; comparisons of one column with constants are one filter, wherever
    /// they are, so that the column is looked at once.
    pub fn all_of(conditions: &[Expr], table: &Schema) -> Result<Vec<Self>> {
        let mut together: Vec<(Option<usize>, Expr)> = Vec::new();
        for condition in conditions {
            let column = compared_column(condition, table)?;
            match together.iter_mut().find(|(other, _)| column.is_some() && *other == column) {
                Some((_, earlier)) => {
                    let (earlier_one, this) = (earlier.physical().clone(), condition.physical().clone());
                    *earlier = Expr::new(Arc::new(BinaryExpr::new(earlier_one, Operator::And, this)), table)?;
                }
                None => together.push((column, condition.clone())),
            }
        }
        let filters = together.iter().map(|(_, condition)| Self::new(condition, table));
        Ok(filters.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }
}

/// The one column that a condition compares with constants, if it does nothing else.
fn compared_column(condition: &Expr, table: &Schema) -> Result<Option<usize>> {
    let columns = read_columns(condition.physical())?;
    Ok(match columns.as_slice() {
        [column] if is_plain(condition.physical(), table) => Some(*column),
        _ => None,
    })
}

impl RowFilter for PredicateFilter {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn keep(&self, columns: &[ArrayRef]) -> Result<BooleanArray> {
        let rows = columns.first().map_or(0, |column| column.len());
        if rows == 0 {
            return Ok(BooleanArray::from(Vec::<bool>::new()));
        }
        let batch = Batch::from_arrays(columns.to_vec(), rows);
        let kept = |rows: &Batch| self.node.rows_that_are(true, rows);
        let bits = match &self.pieces {
            Some(pieces) => bits::joined(pieces.each(&batch, kept)?),
            None => kept(&batch)?,
        };
        Ok(BooleanArray::new(bits, None))
    }

    fn may_see_dropped(&self) -> bool {
        self.is_plain
    }

    fn answer(&self) -> Option<AnswerId> {
        self.answer
    }

    fn ranges(&self) -> Option<&WholeRanges> {
        self.ranges.as_ref()
    }

    fn is_of_values(&self) -> bool {
        self.is_of_values
    }
}

/// The ranges in which comparisons of one column with constants, and lists of such, want its whole numbers; `None` if
/// they want something else, or its values are no whole numbers.
fn ranges(condition: &Arc<dyn PhysicalExpr>, table: &Schema) -> Option<WholeRanges> {
    if let Some(list) = condition.downcast_ref::<InListExpr>() {
        return listed(list, table);
    }
    let binary = condition.downcast_ref::<BinaryExpr>()?;
    let (left, right) = (binary.left(), binary.right());
    match binary.op() {
        Operator::And => return ranges(left, table)?.and(&ranges(right, table)?),
        Operator::Or => return ranges(left, table)?.or(&ranges(right, table)?),
        _ => {}
    }
    let (column, constant, operator) = match (left.downcast_ref::<Column>(), right.downcast_ref::<Literal>()) {
        (Some(column), Some(constant)) => (column, constant, *binary.op()),
        _ => {
            let (column, constant) = (right.downcast_ref::<Column>()?, left.downcast_ref::<Literal>()?);
            (column, constant, binary.op().swap()?)
        }
    };
    let value = whole_number(constant.value(), column, table)?;
    let of = |least, greatest| Some(WholeRanges::new(column.index(), [(least, greatest)]));
    // What is less than the least number, or greater than the greatest, is nothing.
    let nothing = || of(1, 0);
    match operator {
        Operator::Eq => of(value, value),
        Operator::NotEq => of(value, value).map(|one| one.others()),
        Operator::LtEq => of(i64::MIN, value),
        Operator::GtEq => of(value, i64::MAX),
        Operator::Lt => value.checked_sub(1).map_or_else(nothing, |greatest| of(i64::MIN, greatest)),
        Operator::Gt => value.checked_add(1).map_or_else(nothing, |least| of(least, i64::MAX)),
        _ => None,
    }
}

/// What is in a list, or what is not.
fn listed(list: &InListExpr, table: &Schema) -> Option<WholeRanges> {
    let column = list.expr().downcast_ref::<Column>()?;
    let (mut numbers, mut has_null) = (Vec::with_capacity(list.list().len()), false);
    for member in list.list() {
        let constant = member.downcast_ref::<Literal>()?.value();
        match whole_number(constant, column, table) {
            Some(number) => numbers.push((number, number)),
            None if constant.is_null() => has_null = true,
            None => return None,
        }
    }
    let members = WholeRanges::new(column.index(), numbers);
    Some(match (list.negated(), has_null) {
        (false, _) => members,
        (true, false) => members.others(),
        // Nothing is known to differ from NULL.
        (true, true) => WholeRanges::new(column.index(), []),
    })
}

/// What a column has in the place of a constant, if it is of its type.
fn whole_number(constant: &ScalarValue, column: &Column, table: &Schema) -> Option<i64> {
    let is_of_its_type = *table.fields().get(column.index())?.data_type() == constant.data_type();
    if is_of_its_type { stored_number(constant) } else { None }
}

/// What a column of a value's type has in its place, if that is a whole number.
pub(crate) fn stored_number(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int16(Some(number)) => Some(i64::from(*number)),
        ScalarValue::Int32(Some(number)) | ScalarValue::Date32(Some(number)) => Some(i64::from(*number)),
        ScalarValue::Int64(Some(number))
        | ScalarValue::Date64(Some(number))
        | ScalarValue::Time64Microsecond(Some(number))
        | ScalarValue::TimestampSecond(Some(number), _)
        | ScalarValue::TimestampMillisecond(Some(number), _)
        | ScalarValue::TimestampMicrosecond(Some(number), _)
        | ScalarValue::TimestampNanosecond(Some(number), _) => Some(*number),
        ScalarValue::Decimal128(Some(number), ..) => i64::try_from(*number).ok(),
        _ => None,
    }
}

/// Whether a condition is a comparison of a column of numbers, or what is like them, with a constant of its type, or
/// several such.
fn is_plain(condition: &Arc<dyn PhysicalExpr>, table: &Schema) -> bool {
    let Some(binary) = condition.downcast_ref::<BinaryExpr>() else { return false };
    let (left, right) = (binary.left(), binary.right());
    if matches!(binary.op(), Operator::And | Operator::Or) {
        return is_plain(left, table) && is_plain(right, table);
    }
    let is_compared = |column: &Arc<dyn PhysicalExpr>, constant: &Arc<dyn PhysicalExpr>| {
        let (Some(column), Some(constant)) = (column.downcast_ref::<Column>(), constant.downcast_ref::<Literal>())
        else {
            return false;
        };
        let data_type = table.field(column.index()).data_type();
        data_type.is_primitive() && constant.value().data_type() == *data_type
    };
    let compares = matches!(
        binary.op(),
        Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
    );
    compares && (is_compared(left, right) || is_compared(right, left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field};

    #[test]
    fn comparisons_of_one_column_are_a_range() {
        let table = Schema::new(vec![
            Field::new("number", DataType::Int64, true),
            Field::new("money", DataType::Decimal128(15, 2), true),
        ]);
        let column = |index: usize| Arc::new(Column::new(table.field(index).name(), index)) as Arc<dyn PhysicalExpr>;
        let literal = |value| Arc::new(Literal::new(value)) as Arc<dyn PhysicalExpr>;
        let int = |value| literal(ScalarValue::Int64(value));
        let money = |value| literal(ScalarValue::Decimal128(Some(value), 15, 2));
        let binary = |left: &Arc<dyn PhysicalExpr>, operator, right: &Arc<dyn PhysicalExpr>| {
            Arc::new(BinaryExpr::new(left.clone(), operator, right.clone())) as Arc<dyn PhysicalExpr>
        };
        let found = |condition: &Arc<dyn PhysicalExpr>| {
            let condition = Expr::new(condition.clone(), &table).unwrap();
            let filter = PredicateFilter::new(&condition, &table).unwrap().unwrap();
            filter.ranges().map(|ranges| (ranges.column(), ranges.ranges().to_vec()))
        };
        use Operator::*;
        let number = column(0);
        let (least, most) = (i64::MIN, i64::MAX);
        let of = |column: usize, ranges: &[(i64, i64)]| Some((column, ranges.to_vec()));
        assert_eq!(found(&binary(&number, Eq, &int(Some(7)))), of(0, &[(7, 7)]));
        assert_eq!(found(&binary(&number, Lt, &int(Some(7)))), of(0, &[(least, 6)]));
        assert_eq!(found(&binary(&int(Some(7)), Lt, &number)), of(0, &[(8, most)]));
        assert_eq!(found(&binary(&int(Some(7)), GtEq, &number)), of(0, &[(least, 7)]));
        assert_eq!(found(&binary(&number, Lt, &int(Some(least)))), of(0, &[]));
        assert_eq!(found(&binary(&number, Gt, &int(Some(most)))), of(0, &[]));
        let (low, high) = (binary(&number, Gt, &int(Some(3))), binary(&number, LtEq, &int(Some(9))));
        assert_eq!(found(&binary(&low, And, &high)), of(0, &[(4, 9)]));
        let price = binary(&column(1), GtEq, &money(2500));
        assert_eq!(found(&price), of(1, &[(2500, most)]));
        assert_eq!(found(&binary(&low, And, &price)), None);
        assert_eq!(found(&binary(&low, Or, &high)), of(0, &[(least, most)]));
        assert_eq!(found(&binary(&number, NotEq, &int(Some(3)))), of(0, &[(least, 2), (4, most)]));
        assert_eq!(found(&binary(&number, Eq, &int(None))), None);
        assert_eq!(found(&binary(&column(1), Lt, &money(i128::from(most) + 1))), None);

        let list = |members: &[Option<i64>], negated| {
            let members = members.iter().map(|member| int(*member)).collect();
            Arc::new(InListExpr::try_new(number.clone(), members, negated, &table).unwrap()) as Arc<dyn PhysicalExpr>
        };
        assert_eq!(found(&list(&[Some(9), Some(3), Some(4), Some(9)], false)), of(0, &[(3, 4), (9, 9)]));
        assert_eq!(found(&list(&[Some(9), None], false)), of(0, &[(9, 9)]));
        assert_eq!(found(&list(&[Some(9), Some(least)], true)), of(0, &[(least + 1, 8), (10, most)]));
        assert_eq!(found(&list(&[Some(9), None], true)), of(0, &[]));
        assert_eq!(found(&binary(&list(&[Some(2), Some(5), Some(12)], false), And, &low)), of(0, &[(5, 5), (12, 12)]));
    }

    #[test]
    fn what_a_value_alone_decides_is_asked_of_values() {
        let table =
            Schema::new(vec![Field::new("a", DataType::Utf8View, true), Field::new("b", DataType::Int64, true)]);
        let column = |index: usize| Arc::new(Column::new(table.field(index).name(), index)) as Arc<dyn PhysicalExpr>;
        let is_of_values = |condition: Arc<dyn PhysicalExpr>| {
            let condition = Expr::new(condition, &table).unwrap();
            PredicateFilter::new(&condition, &table).unwrap().unwrap().is_of_values()
        };
        let text = Arc::new(Literal::new(ScalarValue::Utf8View(Some("a".into())))) as Arc<dyn PhysicalExpr>;
        let equal = Arc::new(BinaryExpr::new(column(0), Operator::Eq, text.clone())) as Arc<dyn PhysicalExpr>;
        assert!(is_of_values(equal.clone()));
        let matches = Arc::new(BinaryExpr::new(column(0), Operator::RegexMatch, text)) as Arc<dyn PhysicalExpr>;
        assert!(is_of_values(matches));
        let one = Arc::new(Literal::new(ScalarValue::Int64(Some(1)))) as Arc<dyn PhysicalExpr>;
        let other = Arc::new(BinaryExpr::new(column(1), Operator::Lt, one)) as Arc<dyn PhysicalExpr>;
        assert!(!is_of_values(Arc::new(BinaryExpr::new(equal, Operator::Or, other))));
    }

    #[test]
    fn only_what_cannot_fail_may_see_dropped_rows() {
        let table = Schema::new(vec![
            Field::new("number", DataType::Int64, true),
            Field::new("text", DataType::Utf8View, true),
        ]);
        let column = |index: usize| Arc::new(Column::new(table.field(index).name(), index)) as Arc<dyn PhysicalExpr>;
        let int = |value| Arc::new(Literal::new(ScalarValue::Int64(Some(value)))) as Arc<dyn PhysicalExpr>;
        let binary = |left: &Arc<dyn PhysicalExpr>, operator, right: &Arc<dyn PhysicalExpr>| {
            Arc::new(BinaryExpr::new(left.clone(), operator, right.clone())) as Arc<dyn PhysicalExpr>
        };
        let may_see = |condition: &Arc<dyn PhysicalExpr>| {
            let condition = Expr::new(condition.clone(), &table).unwrap();
            PredicateFilter::new(&condition, &table).unwrap().unwrap().may_see_dropped()
        };
        let (low, high) = (binary(&column(0), Operator::GtEq, &int(1)), binary(&int(9), Operator::NotEq, &column(0)));
        let inverse = binary(&binary(&int(100), Operator::Divide, &column(0)), Operator::Gt, &int(1));
        let text = Arc::new(Literal::new(ScalarValue::Utf8View(Some("a".into())))) as Arc<dyn PhysicalExpr>;
        assert!(may_see(&low) && may_see(&high) && may_see(&binary(&low, Operator::Or, &high)));
        assert!(!may_see(&inverse) && !may_see(&binary(&low, Operator::And, &inverse)));
        assert!(!may_see(&binary(&column(1), Operator::Eq, &text)));

        let conditions = [low, inverse, binary(&column(1), Operator::Eq, &text), high];
        let conditions = conditions.map(|condition| Expr::new(condition, &table).unwrap());
        let filters = PredicateFilter::all_of(&conditions, &table).unwrap();
        let columns = filters.iter().map(|filter| (filter.columns().to_vec(), filter.may_see_dropped()));
        assert_eq!(columns.collect::<Vec<_>>(), [(vec![0], true), (vec![0], false), (vec![1], false)]);
        // The first one is both comparisons.
        let numbers = Arc::new(arrow::array::Int64Array::from(vec![Some(0), Some(1), Some(9), None])) as ArrayRef;
        let kept = filters[0].keep(&[numbers]).unwrap();
        assert_eq!(kept.iter().map(|kept| kept == Some(true)).collect::<Vec<_>>(), [false, true, false, false]);
    }
}

//! The catalog's vectors, whose elements are counted from 0: arrays of their elements, counted from 1, to functions,
//! operators and subscripts.

use diligence_base::Result;
use diligence_types::SqlType;

use super::Binder;
use super::operators::Way;
use crate::algebra::{Constant, Scalar};

impl Binder<'_> {
    /// The array of a vector's elements; another value itself.
    pub(super) fn vector_elements(&self, scalar: Scalar) -> Result<Scalar> {
        let SqlType::Vector(kind) = scalar.sql_type() else { return Ok(scalar) };
        let text = self.cast(scalar, &SqlType::Text, Way::Explicit)?;
        let parts = self.call("string_to_array", vec![text, Scalar::Constant(Constant::text(" "))])?;
        self.cast(parts, &SqlType::array_of(kind.element()), Way::Explicit)
    }

    /// A subscript of a vector as one of the array of its elements.
    pub(super) fn counted_from_1(&self, subscript: Scalar) -> Result<Scalar> {
        self.call("+", vec![subscript, Scalar::Constant(Constant::integer(1))])
    }

    /// A function of vectors. What gives subscripts counts them from 0.
    pub(super) fn call_of_vectors(&self, name: &str, arguments: Vec<Scalar>) -> Result<Scalar> {
        let is_of_first = arguments.first().is_some_and(|first| first.sql_type().is_vector());
        let arguments = arguments.into_iter().map(|argument| self.vector_elements(argument)).collect::<Result<_>>()?;
        let answer = self.call(name, arguments)?;
        let is_subscript = matches!(name, "array_lower" | "array_upper" | "array_position");
        if !is_subscript || !is_of_first {
            return Ok(answer);
        }
        self.call("-", vec![answer, Scalar::Constant(Constant::integer(1))])
    }

    /// The array of the rows that a function of vectors gives.
    pub(super) fn rows_of_vectors(&self, name: &str, arguments: Vec<Scalar>) -> Result<Scalar> {
        let is_of_first = arguments.first().is_some_and(|first| first.sql_type().is_vector());
        let mut arguments =
            arguments.into_iter().map(|argument| self.vector_elements(argument)).collect::<Result<Vec<_>>>()?;
        if name != "generate_subscripts" || !is_of_first || arguments.len() != 2 {
            return self.row_array(name, arguments);
        }
        let dimension = arguments.remove(1);
        let bounds = ["array_lower", "array_upper"].map(|bound| {
            let bound = self.call(bound, vec![arguments[0].clone(), dimension.clone()])?;
            self.call("-", vec![bound, Scalar::Constant(Constant::integer(1))])
        });
        self.call("generate_series", bounds.into_iter().collect::<Result<_>>()?)
    }

    /// The sides of an operator. A vector is compared with another, or with a literal of one; to all else it is an
    /// array.
    pub(super) fn vector_sides(&self, sides: Vec<Scalar>) -> Result<Vec<Scalar>> {
        let vector = sides.iter().find(|side| side.sql_type().is_vector()).map(Scalar::sql_type);
        let array = |side: Scalar| match (side.sql_type(), &vector) {
            (SqlType::Unknown, Some(vector)) => self.vector_elements(self.cast(side, vector, Way::Implicit)?),
            _ => self.vector_elements(side),
        };
        sides.into_iter().map(array).collect()
    }
}

//! The time at which a statement or its transaction began, and DuckDB's names of PostgreSQL's functions of dates.

use diligence_base::Result;
use diligence_types::SqlType;
use diligence_types::functions::has_function;

use super::SpecialCall;
use crate::algebra::Scalar;

impl SpecialCall<'_, '_, '_> {
    /// A time.
    pub(super) fn of_times(&self) -> Result<Option<Scalar>> {
        let binder = self.binder;
        let scalar = match self.name {
            "now" | "transaction_timestamp" | "current_timestamp" => {
                self.bound()?;
                binder.with_digits(binder.now(), self.function)
            }
            "get_current_timestamp" => {
                self.bound()?;
                Ok(binder.now())
            }
            "statement_timestamp" | "clock_timestamp" => {
                self.bound()?;
                Ok(binder.statement_time())
            }
            "current_date" | "today" if self.written().is_empty() => Ok(binder.now().cast(SqlType::Date, true)),
            "current_time" => binder.with_digits(binder.now().cast(SqlType::TimeTz, true), self.function),
            "localtime" => binder.with_digits(binder.now().cast(SqlType::Time, true), self.function),
            "localtimestamp" => binder.with_digits(binder.now().cast(SqlType::Timestamp, true), self.function),
            "date_add" if !has_function(self.name) => {
                let [day, interval] = self.exactly("a date and an interval")?;
                binder.operator("+", vec![day, interval])
            }
            "datetrunc" if !has_function(self.name) => binder.call("date_trunc", self.bound()?),
            _ => return Ok(None),
        };
        scalar.map(Some)
    }
}

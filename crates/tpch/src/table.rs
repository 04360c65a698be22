//! The eight tables: their sizes, and a part of one as Arrow batches.

use arrow::array::RecordBatchReader;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

/// Rows of a generated batch: small enough that a batch and the rows it is made of stay in the cache.
const BATCH_ROWS: usize = 8_192;

/// A table of TPC-H.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum TpchTable {
    Nation,
    Region,
    Supplier,
    Customer,
    Part,
    PartSupp,
    Orders,
    LineItem,
}

impl TpchTable {
    /// All tables, the small ones first.
    pub const ALL: [TpchTable; 8] = [
        TpchTable::Nation,
        TpchTable::Region,
        TpchTable::Supplier,
        TpchTable::Customer,
        TpchTable::Part,
        TpchTable::PartSupp,
        TpchTable::Orders,
        TpchTable::LineItem,
    ];

    /// The table's name in SQL, and the stem of its file.
    pub fn name(self) -> &'static str {
        match self {
            TpchTable::Nation => "nation",
            TpchTable::Region => "region",
            TpchTable::Supplier => "supplier",
            TpchTable::Customer => "customer",
            TpchTable::Part => "part",
            TpchTable::PartSupp => "partsupp",
            TpchTable::Orders => "orders",
            TpchTable::LineItem => "lineitem",
        }
    }

    /// What the generator counts when it cuts a table into parts: rows, or the parts and orders they belong to.
    pub(crate) fn units(self, scale_factor: f64) -> i64 {
        match self {
            TpchTable::Nation => 25,
            TpchTable::Region => 5,
            TpchTable::Supplier => SupplierGenerator::calculate_row_count(scale_factor, 1, 1),
            TpchTable::Customer => CustomerGenerator::calculate_row_count(scale_factor, 1, 1),
            TpchTable::Part | TpchTable::PartSupp => PartGenerator::calculate_row_count(scale_factor, 1, 1),
            TpchTable::Orders | TpchTable::LineItem => OrderGenerator::calculate_row_count(scale_factor, 1, 1),
        }
    }

    /// Rows per unit: exact, but for `lineitem`, where it is the mean of 1 to 7.
    fn rows_per_unit(self) -> i64 {
        match self {
            TpchTable::PartSupp | TpchTable::LineItem => 4,
            _ => 1,
        }
    }

    /// The number of rows at a scale factor: exact, but for `lineitem`, where it is within some thousandths.
    pub fn rows_estimate(self, scale_factor: f64) -> usize {
        usize::try_from(self.units(scale_factor) * self.rows_per_unit()).unwrap_or(0)
    }

    /// The batches of part `part` of `parts` (counted from 1), in the order of the whole table. Strings are `Utf8View`,
    /// keys `Int64`, money `Decimal128(15, 2)`, dates `Date32`.
    pub fn batches(self, scale_factor: f64, part: i32, parts: i32) -> Box<dyn RecordBatchReader + Send> {
        macro_rules! part_of {
            ($arrow:ident, $generator:ident) => {
                Box::new($arrow::new($generator::new(scale_factor, part, parts)).with_batch_size(BATCH_ROWS))
            };
        }
        match self {
            TpchTable::Nation => part_of!(NationArrow, NationGenerator),
            TpchTable::Region => part_of!(RegionArrow, RegionGenerator),
            TpchTable::Supplier => part_of!(SupplierArrow, SupplierGenerator),
            TpchTable::Customer => part_of!(CustomerArrow, CustomerGenerator),
            TpchTable::Part => part_of!(PartArrow, PartGenerator),
            TpchTable::PartSupp => part_of!(PartSuppArrow, PartSuppGenerator),
            TpchTable::Orders => part_of!(OrderArrow, OrderGenerator),
            TpchTable::LineItem => part_of!(LineItemArrow, LineItemGenerator),
        }
    }
}

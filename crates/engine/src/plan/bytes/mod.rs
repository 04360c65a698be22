//! Plans as bytes, and back: to keep one, to send it, to run it again.
//!
//! ```text
//!   "DLPL" | version | checksum of what follows | nodes, inputs first, with their schemas and expressions
//! ```
//!
//! The bytes have all of a plan but what lives: they name functions by their [names](FunctionName), and what takes rows
//! by its place among the plan's writers, as the plan itself names tables. Whoever [reads](read) them says
//! which [functions](Functions) have these names, and what [lives](Live) where the plan is to run. For a plan that
//! stays in the process, that is what was [beside](Beside) it when it was [written](write()).
//!
//! Invariants:
//! * A plan that was read back gives the same rows as the one that was written, and is written as the same bytes.
//! * Damaged bytes are an error of kind `File`, never a panic: a checksum tells, every count is compared with what is
//!   left, and what a library makes of them is guarded.
//! * What cannot be written is an error of kind `Unsupported` that names it: rows that come from outside, and what only
//!   the engine makes of plans when they start (masks of several queries).

mod expressions;
mod form;
mod nodes;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion_common::config::ConfigOptions;
use datafusion_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion_expr::{AggregateUDF, ScalarUDF};
use datafusion_physical_expr::PhysicalExpr;
use diligence_base::{Error, Result};
use diligence_storage::Writer;

use self::form::{BytesRead, BytesWritten, damaged};
use super::Plan;

/// What the bytes of a plan begin with.
const MAGIC: [u8; 4] = *b"DLPL";
/// The form of the bytes. Those of another one are not read.
const VERSION: u8 = 1;
/// Bytes before the checksum, and with it.
const CHECKSUM_FROM: usize = MAGIC.len() + 1;
const HEADER_BYTES: usize = CHECKSUM_FROM + 4;

/// Nodes, or expressions, within each other at most.
const DEPTH_MAX: usize = 20_000;
/// When the stack is made larger, and by how much.
const STACK_RED_ZONE: usize = 128 * 1024;
const STACK_GROWTH: usize = 2 * 1024 * 1024;

/// What a plan's bytes call a function, an aggregate included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FunctionName {
    /// Which functions it is one of: who is asked for it.
    pub family: String,
    /// Its name there.
    pub name: String,
    /// The types that it was made for.
    pub types: Vec<FieldRef>,
    /// Whatever else tells it from others of its name.
    pub numbers: Vec<i64>,
    /// Likewise.
    pub texts: Vec<String>,
}

/// The functions that plans may call, by name.
pub trait Functions: Send + Sync {
    /// What a function is called. Fails with kind `Unsupported`, naming it, if it cannot be found again by that.
    fn name_of(&self, function: &ScalarUDF) -> Result<FunctionName>;
    /// Whether the function of a name belongs to a session or a statement, so that it is looked for among what is
    /// [alive](Live) first.
    fn is_live(&self, name: &FunctionName) -> bool;
    /// The function of a name. Fails with kind `Unsupported`, naming it, if there is none.
    fn named(&self, name: &FunctionName) -> Result<Arc<ScalarUDF>>;
    /// What an aggregate is called. Fails as [`name_of`](Self::name_of) does.
    fn name_of_aggregate(&self, function: &AggregateUDF) -> Result<FunctionName>;
    /// The aggregate of a name. Fails as [`named`](Self::named) does.
    fn aggregate_named(&self, name: &FunctionName) -> Result<Arc<AggregateUDF>>;
}

/// What plans name and do not hold, where one is to run.
pub trait Live: Send + Sync {
    /// What takes the rows of the plan's [`Write`](super::Write) node of this place. Fails if there is none.
    fn writer(&self, place: usize) -> Result<Arc<dyn Writer>>;
    /// A function of the session or the statement; `None` if it has none of the name.
    fn function(&self, name: &FunctionName) -> Option<Arc<ScalarUDF>>;
}

/// What becomes of plans before they run.
pub trait PlanPass: Debug + Send + Sync {
    /// The plan that runs in the place of this one, which gives the same rows. Fails if there is none.
    fn pass(&self, plan: &Plan) -> Result<Plan>;
}

/// What a plan had that its bytes name only.
#[derive(Default)]
pub struct Beside {
    writers: Vec<Arc<dyn Writer>>,
    functions: HashMap<FunctionName, Arc<ScalarUDF>>,
}

impl Live for Beside {
    fn writer(&self, place: usize) -> Result<Arc<dyn Writer>> {
        let missing = || Error::input("the plan writes rows that nothing here takes");
        self.writers.get(place).cloned().ok_or_else(missing)
    }

    fn function(&self, name: &FunctionName) -> Option<Arc<ScalarUDF>> {
        self.functions.get(name).cloned()
    }
}

/// A plan as bytes, and what they name and do not hold. Fails with kind `Unsupported` if the plan has something that
/// cannot be written, which the message names.
pub fn write(plan: &Plan, functions: &dyn Functions) -> Result<(Vec<u8>, Beside)> {
    let mut writer = PlanWriter {
        output: BytesWritten::default(),
        functions,
        beside: Beside::default(),
        schemas: Vec::new(),
        names: HashMap::new(),
        known: HashMap::new(),
        configurations: Vec::new(),
        subqueries: Vec::new(),
    };
    writer.output.0.extend_from_slice(&MAGIC);
    writer.output.byte(VERSION);
    writer.output.0.extend_from_slice(&[0; HEADER_BYTES - CHECKSUM_FROM]);
    writer.plan(plan)?;
    let mut bytes = writer.output.0;
    seal(&mut bytes);
    Ok((bytes, writer.beside))
}

/// Puts the checksum into bytes that have a header.
fn seal(bytes: &mut [u8]) {
    if let Some((header, body)) = bytes.split_at_mut_checked(HEADER_BYTES) {
        header[CHECKSUM_FROM..].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    }
}

/// The plan of these bytes, with what lives here. Fails with kind `File` if the bytes are damaged or of another
/// version, and as `functions` and `live` do if they do not know what the plan names.
pub fn read(bytes: &[u8], functions: &dyn Functions, live: &dyn Live) -> Result<Plan> {
    let Some((header, body)) = bytes.split_at_checked(HEADER_BYTES) else {
        return Err(damaged("they end too early"));
    };
    let (magic, rest) = header.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(damaged("these are no plan's"));
    }
    if rest[0] != VERSION {
        let version = rest[0];
        return Err(Error::file(format!("a plan's bytes have version {version}, and only {VERSION} can be read")));
    }
    if rest[1..] != crc32fast::hash(body).to_le_bytes() {
        return Err(damaged("their checksum differs"));
    }
    let mut reader = PlanReader {
        input: BytesRead(body),
        functions,
        live,
        schemas: Vec::new(),
        names: Vec::new(),
        known: Vec::new(),
        configurations: Vec::new(),
        subqueries: Vec::new(),
        depth: 0,
    };
    // Nothing of the reader is used after a panic.
    let plan = catch_unwind(AssertUnwindSafe(|| reader.plan()));
    let plan = plan.unwrap_or_else(|_| Err(damaged("they make no sense")))?;
    match reader.input.0 {
        [] => Ok(plan),
        _ => Err(damaged("there are too many")),
    }
}

/// A plan on its way into bytes.
struct PlanWriter<'p> {
    output: BytesWritten,
    functions: &'p dyn Functions,
    beside: Beside,
    schemas: Vec<SchemaRef>,
    names: HashMap<FunctionName, usize>,
    /// The numbers of the expressions so far, by where they are.
    known: HashMap<*const (), usize>,
    /// Where configurations are that were written already.
    configurations: Vec<*const ConfigOptions>,
    /// Those whose values expressions may read here.
    subqueries: Vec<ScalarSubqueryResults>,
}

/// A plan on its way out of bytes.
struct PlanReader<'b> {
    input: BytesRead<'b>,
    functions: &'b dyn Functions,
    live: &'b dyn Live,
    schemas: Vec<SchemaRef>,
    names: Vec<FunctionName>,
    known: Vec<Arc<dyn PhysicalExpr>>,
    configurations: Vec<Arc<ConfigOptions>>,
    /// With the number of their slots.
    subqueries: Vec<(ScalarSubqueryResults, usize)>,
    depth: usize,
}

impl PlanWriter<'_> {
    /// A schema; one that was there before by its number.
    fn schema(&mut self, schema: &SchemaRef) -> Result<()> {
        let is_same = |known: &SchemaRef| Arc::ptr_eq(known, schema) || known == schema;
        if let Some(place) = self.schemas.iter().position(is_same) {
            self.output.count(place);
            return Ok(());
        }
        self.output.count(self.schemas.len());
        self.schemas.push(schema.clone());
        self.output.schema(schema)
    }

    /// A function's name; one that was there before by its number.
    fn function_name(&mut self, name: &FunctionName) -> Result<()> {
        if let Some(place) = self.names.get(name) {
            self.output.count(*place);
            return Ok(());
        }
        let place = self.names.len();
        self.output.count(place);
        self.names.insert(name.clone(), place);
        let FunctionName { family, name, types, numbers, texts } = name;
        self.output.text(family);
        self.output.text(name);
        self.output.fields(types)?;
        self.output.count(numbers.len());
        numbers.iter().for_each(|number| self.output.signed(*number));
        self.output.count(texts.len());
        texts.iter().for_each(|text| self.output.text(text));
        Ok(())
    }
}

impl PlanReader<'_> {
    fn schema(&mut self) -> Result<SchemaRef> {
        let place = self.input.size()?;
        if place == self.schemas.len() {
            let schema = self.input.schema()?;
            self.schemas.push(schema);
        }
        self.schemas.get(place).cloned().ok_or_else(|| damaged("a schema is not known"))
    }

    fn function_name(&mut self) -> Result<FunctionName> {
        let place = self.input.size()?;
        if place == self.names.len() {
            let name = FunctionName {
                family: self.input.text()?,
                name: self.input.text()?,
                types: self.input.all(|input| Ok(Arc::new(input.field()?)))?,
                numbers: self.input.all(BytesRead::signed)?,
                texts: self.input.all(BytesRead::text)?,
            };
            self.names.push(name);
        }
        self.names.get(place).cloned().ok_or_else(|| damaged("a function is not known"))
    }
}

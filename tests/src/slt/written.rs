//! Plans that are written down as bytes and read back before they run.

use diligence_base::{Error, Result};
use diligence_engine::plan::bytes::{PlanPass, read, write};
use diligence_engine::plan::{Node, Plan};
use diligence_sql::SqlFunctions;

/// What runs is what was read back. Only rows that a client sends (COPY … FROM STDIN) come with no plan of bytes.
#[derive(Debug)]
pub struct WrittenPlans;

impl PlanPass for WrittenPlans {
    fn pass(&self, plan: &Plan) -> Result<Plan> {
        if reads_what_is_sent(plan) {
            return Ok(plan.clone());
        }
        let (bytes, beside) = write(plan, &SqlFunctions)?;
        let again = read(&bytes, &SqlFunctions, &beside)?;
        let (twice, _) = write(&again, &SqlFunctions)?;
        match twice == bytes && again.to_string() == plan.to_string() {
            true => Ok(again),
            false => Err(Error::bug(format!("a plan was read back as another one:\n{plan}\n{again}"))),
        }
    }
}

fn reads_what_is_sent(plan: &Plan) -> bool {
    matches!(plan.node, Node::Incoming(_)) || plan.inputs().into_iter().any(reads_what_is_sent)
}

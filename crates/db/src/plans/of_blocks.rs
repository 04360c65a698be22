//! What a session knows of the statements in blocks of procedures: their trees, and from their second run on how each
//! is run best. A block is run again and again, by rows of a statement as well as by statements.

use std::collections::HashMap;
use std::sync::Arc;

use diligence_base::Error;
use diligence_base::recent::Recent;
use diligence_sql::Formula;
use diligence_sql::procedural::Block;
use diligence_types::SqlType;
use parking_lot::Mutex;

use super::{GenericPlan, ParsedStatement};

/// Blocks that a session remembers, at most.
const BLOCKS_MAX: usize = 64;
/// Statements of a block that are remembered, at most.
const TREES_MAX: usize = 1000;

/// A statement's tree, for values of variables.
pub(crate) struct Tree {
    pub(crate) statement: ParsedStatement,
    /// The names whose values it takes, and the types that these had.
    pub(crate) names: Vec<(Vec<String>, SqlType)>,
    /// Why a name of it has no value. It may be a column's.
    pub(crate) failed: Option<Error>,
    way: Mutex<Way>,
}

/// How a statement is run.
#[derive(Clone)]
pub(crate) enum Way {
    /// It has not been run yet.
    New,
    /// It was run once. Most that are, are run again.
    Once,
    /// It is planned with its values, each time.
    Planned,
    /// It is computed.
    Computed(Arc<ComputedRow>),
    /// It has one plan for all values.
    Generic(Arc<GenericPlan>),
}

/// A row that is computed, and the types of its columns.
pub(crate) struct ComputedRow {
    pub(crate) formula: Formula,
    pub(crate) types: Vec<SqlType>,
}

impl Tree {
    pub(crate) fn new(statement: ParsedStatement, names: Vec<(Vec<String>, SqlType)>, failed: Option<Error>) -> Self {
        Self { statement, names, failed, way: Mutex::new(Way::New) }
    }

    /// How it is run now.
    pub(crate) fn way(&self) -> Way {
        self.way.lock().clone()
    }

    /// How it is run from now on.
    pub(crate) fn set_way(&self, way: Way) {
        *self.way.lock() = way;
    }
}

/// The trees of a block, by the numbers of its texts. Several texts may have one number, where a trigger's condition
/// stands around the block of its function.
#[derive(Default)]
pub(crate) struct BlockTrees(Mutex<HashMap<usize, Vec<Arc<Tree>>>>);

impl BlockTrees {
    /// The tree of a number and a text, which is two parts.
    pub(crate) fn get(&self, number: usize, (before, text): (&str, &str)) -> Option<Arc<Tree>> {
        let is_of_text = |tree: &&Arc<Tree>| tree.statement.text().strip_prefix(before) == Some(text);
        self.0.lock().get(&number)?.iter().find(is_of_text).cloned()
    }

    /// Remembers one, instead of one of the same text.
    pub(crate) fn put(&self, number: usize, tree: &Arc<Tree>) {
        let mut trees = self.0.lock();
        if trees.len() < TREES_MAX || trees.contains_key(&number) {
            let known = trees.entry(number).or_default();
            known.retain(|known| known.statement.text() != tree.statement.text());
            known.push(tree.clone());
        }
    }
}

/// The blocks that a session has run last.
pub(crate) struct KnownBlocks(Mutex<Recent<usize, (Arc<Block>, Arc<BlockTrees>)>>);

impl KnownBlocks {
    /// The trees of a block.
    pub(crate) fn trees(&self, block: &Arc<Block>) -> Arc<BlockTrees> {
        // The block is kept with them, so that its address stays its own.
        let key = Arc::as_ptr(block).addr();
        let mut known = self.0.lock();
        if let Some((_, trees)) = known.get(&key) {
            return trees.clone();
        }
        let trees = Arc::<BlockTrees>::default();
        known.insert(key, (block.clone(), trees.clone()));
        trees
    }
}

impl Default for KnownBlocks {
    fn default() -> Self {
        Self(Mutex::new(Recent::new(BLOCKS_MAX)))
    }
}

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

/// The trees of a block, by the numbers of its texts.
#[derive(Default)]
pub(crate) struct BlockTrees(Mutex<HashMap<usize, Arc<Tree>>>);

impl BlockTrees {
    /// The tree of a number.
    pub(crate) fn get(&self, number: usize) -> Option<Arc<Tree>> {
        self.0.lock().get(&number).cloned()
    }

    /// Remembers one.
    pub(crate) fn put(&self, number: usize, tree: &Arc<Tree>) {
        let mut trees = self.0.lock();
        if trees.len() < TREES_MAX || trees.contains_key(&number) {
            trees.insert(number, tree.clone());
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

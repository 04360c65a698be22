//! DataFusion's session state as we use it: a planner for one partition, nothing that runs.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::execution::config::SessionConfig;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use diligence_base::limits::BATCH_ROWS_MAX;
use diligence_catalog::{CATALOG_NAME, DEFAULT_SCHEMA};

use crate::{bounded, rules};

/// How deep the parser's own recursion may go. The nesting guard of [`parse`](crate::parse) is the limit that users
/// meet; it provides the stack for what it lets through.
pub(crate) const PARSER_DEPTH_MAX: usize = 100_000;

/// A state for one session, which knows no tables.
pub fn session_state(runtime: Arc<RuntimeEnv>) -> SessionState {
    let mut config = SessionConfig::new().with_batch_size(BATCH_ROWS_MAX);
    set_defaults(config.options_mut());
    fix_options(config.options_mut());
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_optimizer_rules(rules::install())
        .with_physical_optimizer_rules(physical_rules());
    let mut state = rules::analyzers().into_iter().fold(state, SessionStateBuilder::with_analyzer_rule).build();
    // It only fails for what the registry refuses, and functions of these names were there before.
    let _ = bounded::install(&mut state);
    // Functions that read settings get them through this.
    state.mark_start_execution();
    state
}

/// Rows of a row group that is written.
const PARQUET_ROW_GROUP_ROWS: usize = 128 * 1024;

/// Defaults of ours that a session may change.
pub fn set_defaults(options: &mut ConfigOptions) {
    // A literal with a point is a decimal, as in the SQL standard: as a DOUBLE it may miss the DECIMAL that it is
    // compared with.
    options.sql_parser.parse_float_as_decimal = true;
    // As most writers of Parquet do: Zstandard was a third of the CPU time of sorting a file into a file. Row groups
    // are what scans share out among packets, and what a writer holds in memory.
    let parquet = &mut options.execution.parquet;
    parquet.compression = Some("snappy".to_owned());
    parquet.max_row_group_size = PARQUET_ROW_GROUP_ROWS;
}

/// Options that our lowering and engine rely on. Set at the start and again after every SET of a DataFusion option.
pub fn fix_options(options: &mut ConfigOptions) {
    options.execution.target_partitions = 1;
    options.execution.planning_concurrency = 1;
    // The same plan may run twice: nothing in it may be used up by the first run.
    options.execution.enable_file_stream_work_stealing = false;
    options.sql_parser.collect_spans = true;
    // Names are resolved by us; these are what information_schema shows.
    options.catalog.default_catalog = CATALOG_NAME.into();
    options.catalog.default_schema = DEFAULT_SCHEMA.into();
    options.catalog.create_default_catalog_and_schema = false;
    options.catalog.information_schema = true;
    let optimizer = &mut options.optimizer;
    // Our joins send their own filters to the scans, and never wait for a filter.
    optimizer.enable_dynamic_filter_pushdown = false;
    optimizer.enable_join_dynamic_filter_pushdown = false;
    optimizer.enable_topk_dynamic_filter_pushdown = false;
    optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    // Exchanges are ours.
    optimizer.enable_round_robin_repartition = false;
    optimizer.repartition_aggregations = false;
    optimizer.repartition_joins = false;
    optimizer.repartition_sorts = false;
    optimizer.repartition_windows = false;
    optimizer.repartition_file_scans = false;
    optimizer.enable_topk_repartition = false;
    // Forms that we do not have, for things that we do.
    optimizer.enable_topk_aggregation = false;
    optimizer.enable_window_topn = false;
    optimizer.enable_sort_pushdown = false;
    optimizer.enable_piecewise_merge_join = false;
    optimizer.prefer_hash_join = true;
    optimizer.enable_physical_uncorrelated_scalar_subquery = true;
}

/// DataFusion's physical rules without those that only matter to its own execution.
fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    const USELESS: [&str; 6] =
        ["WindowTopN", "LimitAggregation", "HashJoinBuffering", "TopKRepartition", "PushdownSort", "EnsureCooperative"];
    let mut rules = PhysicalOptimizer::new().rules;
    // Our scans have every filter that they can take from the logical plan already.
    rules.retain(|rule| !USELESS.contains(&rule.name()) && !rule.name().starts_with("FilterPushdown"));
    let rules = rules.into_iter().flat_map(|rule| rules::physical(rule.name()).into_iter().chain([rule]));
    rules.collect()
}

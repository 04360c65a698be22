//! The settings that are Diligence's own: a table with a row for each.

use diligence_engine::tuning::settings::KnobId;

use crate::settings_of_duckdb::own_name;

/// A setting of ours, in the order of [`ROWS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    BatchRows,
    FragmentDirectories,
    FragmentWise,
    FunctionFiles,
    FunctionFuel,
    FunctionMemory,
    FunctionNetwork,
    FunctionTime,
    HistoryRetention,
    IoThreads,
    LockTimeout,
    Memory,
    Packets,
    PoolMaximum,
    PoolMinimum,
    PoolThreshold,
    PortCredits,
    Python,
    Quantum,
    QueryMemory,
    ReadAhead,
    SegmentBuffer,
    SegmentFormat,
    Sharing,
    SharingColumns,
    SharingRetained,
    SharingRows,
    SortPlan,
    StagePolicy,
    StageWorkers,
    Tuning,
    Wasm,
    Workers,
}

/// Who has a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Each session its own.
    Session,
    /// The engine, so all sessions share it.
    Engine,
    /// The engine, as a knob that can be turned while it runs.
    Knob(KnobId),
    /// The processes that compute functions.
    Pool,
}

struct Row {
    setting: Setting,
    name: &'static str,
    owner: Owner,
    description: &'static str,
}

const ROWS: [Row; 33] = [
    Row {
        setting: Setting::BatchRows,
        name: "batch_rows",
        owner: Owner::Session,
        description: "Rows in a batch at most, from 1 to 8192",
    },
    Row {
        setting: Setting::FragmentDirectories,
        name: "fragment_directories",
        owner: Owner::Engine,
        description: "Directories of other disks, with commas between them, into which fragments of tables are \
                      written as well as into the database's folder, for everybody and for good",
    },
    Row {
        setting: Setting::FragmentWise,
        name: "fragment_wise",
        owner: Owner::Session,
        description: "Whether joins and groups run fragment by fragment where tables are divided by what they join \
                      on or group by: on or off",
    },
    Row {
        setting: Setting::FunctionFiles,
        name: "function_files",
        owner: Owner::Pool,
        description: "Whether functions in Python may use files beside the libraries of their interpreter, for \
                      everybody: on or off",
    },
    Row {
        setting: Setting::FunctionFuel,
        name: "function_fuel",
        owner: Owner::Pool,
        description: "Steps that a function in WebAssembly may take for the rows that it gets at once, for \
                      everybody, from 1000; none is no limit",
    },
    Row {
        setting: Setting::FunctionMemory,
        name: "function_memory",
        owner: Owner::Pool,
        description: "Memory of a process that computes functions in Python, and of a function in WebAssembly, for \
                      everybody, like 2GB, 64MB at least; none is no limit",
    },
    Row {
        setting: Setting::FunctionNetwork,
        name: "function_network",
        owner: Owner::Pool,
        description: "Whether functions in Python may open connections, for everybody: on or off",
    },
    Row {
        setting: Setting::FunctionTime,
        name: "function_time",
        owner: Owner::Pool,
        description: "How long a function in another language may take for the rows that it gets at once, one where \
                      they take long, for everybody, like 5min",
    },
    Row {
        setting: Setting::HistoryRetention,
        name: "history_retention",
        owner: Owner::Engine,
        description: "How long the past of tables is kept for FOR SYSTEM_TIME AS OF, for everybody, in milliseconds \
                      or like 1h; 0 is not at all",
    },
    Row {
        setting: Setting::IoThreads,
        name: "io_threads",
        owner: Owner::Knob(KnobId::IoThreads),
        description: "Threads that wait for the files of scans, for everybody, from 1 to 64",
    },
    Row {
        setting: Setting::LockTimeout,
        name: "lock_timeout",
        owner: Owner::Session,
        description: "How long a statement waits for another transaction's lock, in milliseconds or like 5s; 0 is as \
                      long as it takes",
    },
    Row {
        setting: Setting::Memory,
        name: "memory",
        owner: Owner::Engine,
        description: "The memory budget of the whole process, for everybody, like 4GB; 16MB at least",
    },
    Row {
        setting: Setting::Packets,
        name: "packets",
        owner: Owner::Session,
        description: "Packets that may work on one pipeline at once; auto is one per worker",
    },
    Row {
        setting: Setting::PoolMaximum,
        name: "pool_maximum",
        owner: Owner::Pool,
        description: "Processes that compute functions in Python at most, and as many of WebAssembly, for everybody, \
                      from 1 to 1000",
    },
    Row {
        setting: Setting::PoolMinimum,
        name: "pool_minimum",
        owner: Owner::Pool,
        description: "Of these processes, how many are started at once, at least, for everybody",
    },
    Row {
        setting: Setting::PoolThreshold,
        name: "pool_threshold",
        owner: Owner::Pool,
        description: "Of these processes, how many are to be free at any time, for everybody",
    },
    Row {
        setting: Setting::PortCredits,
        name: "port_credits",
        owner: Owner::Knob(KnobId::PortCredits),
        description: "Batches that a pipeline may be ahead of the one behind it, for everybody, from 1 to 64",
    },
    Row {
        setting: Setting::Python,
        name: "python",
        owner: Owner::Pool,
        description: "The interpreter for functions in Python, for everybody: a path, such as that of a virtual \
                      environment, or a name that is looked for along PATH",
    },
    Row {
        setting: Setting::Quantum,
        name: "quantum",
        owner: Owner::Knob(KnobId::Quantum),
        description: "How long a packet runs before it goes back to its queue, for everybody, like 2ms or 500us, \
                      from 200us to 100ms",
    },
    Row {
        setting: Setting::QueryMemory,
        name: "query_memory",
        owner: Owner::Session,
        description: "Memory that one query of this session may reserve, like 512MB, 16MB at least; none is no limit",
    },
    Row {
        setting: Setting::ReadAhead,
        name: "read_ahead",
        owner: Owner::Knob(KnobId::ReadAhead),
        description: "Clusters that a scan may have in flight for each of its packets, for everybody, from 1 to 16",
    },
    Row {
        setting: Setting::SegmentBuffer,
        name: "segment_buffer",
        owner: Owner::Engine,
        description: "The part of the memory budget, in percent, that what is read of tables on disk may have, \
                      packed as it is, for everybody; from 0 (it is read for each scan) to 80",
    },
    Row {
        setting: Setting::SegmentFormat,
        name: "segment_format",
        owner: Owner::Engine,
        description: "How rows of tables are written to disk from now on, for everybody: parquet or diligence, which \
                      is packed; both are read",
    },
    Row {
        setting: Setting::Sharing,
        name: "sharing",
        owner: Owner::Session,
        description: "What queries share that run at the same time: off, scans (what they decode), states (also \
                      equal parts of plans) or all (also runs of queries that differ in constants only)",
    },
    Row {
        setting: Setting::SharingColumns,
        name: "sharing_columns",
        owner: Owner::Engine,
        description: "The part of the memory budget, in percent, that columns which scans have decoded may have for \
                      other scans, for everybody; from 0 (every scan decodes for itself) to 80",
    },
    Row {
        setting: Setting::SharingRetained,
        name: "sharing_retained",
        owner: Owner::Engine,
        description: "The part of the memory budget, in percent, that finished states may have for later queries, \
                      for everybody; from 0 (nothing is kept) to 50",
    },
    Row {
        setting: Setting::SharingRows,
        name: "sharing_rows",
        owner: Owner::Session,
        description: "Rows that a plan must be expected to touch for it to be shared",
    },
    Row {
        setting: Setting::SortPlan,
        name: "sort_plan",
        owner: Owner::Session,
        description: "When runs of a sort that does not fit in memory are merged: cost, ems, ems-nr, mms, mms(1), \
                      mms(2) or mms-nr",
    },
    Row {
        setting: Setting::StagePolicy,
        name: "stage_policy",
        owner: Owner::Engine,
        description: "Which packet runs next, for everybody: two_level(MILLISECONDS), processor_sharing, fcfs, \
                      d_gated, t_gated(QUERIES) or c_gated(MILLISECONDS); then those of single stages, as in \
                      'two_level(6), scan: t_gated(2)'",
    },
    Row {
        setting: Setting::StageWorkers,
        name: "stage_workers",
        owner: Owner::Engine,
        description: "Workers that may serve a stage at once, for everybody: all, or a number for each of some \
                      stages, as in 'scan: 2, sort: 1'",
    },
    Row {
        setting: Setting::Tuning,
        name: "tuning",
        owner: Owner::Engine,
        description: "Whether the engine changes its settings by what it measures, for everybody: off, observe (it \
                      only says what it would change, in system.tuning) or on",
    },
    Row {
        setting: Setting::Wasm,
        name: "wasm",
        owner: Owner::Pool,
        description: "The program that runs functions in WebAssembly, for everybody: a path, or a name that is \
                      looked for along PATH; auto is diligence-wasm beside this program",
    },
    Row {
        setting: Setting::Workers,
        name: "workers",
        owner: Owner::Session,
        description: "Worker threads; fixed when the database is opened",
    },
];

// A setting's number is its place.
const _: () = {
    let mut place = 0;
    while place < ROWS.len() {
        assert!(ROWS[place].setting as usize == place, "the settings and their rows are in different orders");
        place += 1;
    }
};

impl Setting {
    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// All of them, in the order of their names.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.setting)
    }

    /// The setting with this name, or with DuckDB's name for it.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.name == own_name(name)).map(|row| row.setting)
    }

    pub(crate) fn name(self) -> &'static str {
        self.row().name
    }

    pub(crate) fn description(self) -> &'static str {
        self.row().description
    }

    /// Whether all sessions share it.
    pub(crate) fn is_engines(self) -> bool {
        self.row().owner != Owner::Session
    }

    /// Whether it is about the processes that compute functions.
    pub(crate) fn is_pools(self) -> bool {
        self.row().owner == Owner::Pool
    }

    /// The knob of the engine that it turns, if it is no more than that.
    pub(crate) fn knob(self) -> Option<KnobId> {
        match self.row().owner {
            Owner::Knob(knob) => Some(knob),
            Owner::Session | Owner::Engine | Owner::Pool => None,
        }
    }
}

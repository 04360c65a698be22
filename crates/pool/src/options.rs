//! How a pool is run: which programs its processes are, their number, and what functions may take.

use std::path::PathBuf;
use std::time::Duration;

use diligence_base::limits::{
    FUNCTION_MEMORY_BYTES, FUNCTION_TIME, POOL_IDLE, POOL_MAXIMUM, POOL_MINIMUM, POOL_THRESHOLD,
};

use crate::code::{KeptFrom, Runtime};
use crate::growth::Growth;
use crate::standing::Order;

/// Steps that a module of WebAssembly may take for the rows that it gets at once, unless a setting says otherwise: more
/// than a core takes in half a minute.
const FUNCTION_FUEL: u64 = 100_000_000_000;

/// What runs WebAssembly.
const WASM: &str = "diligence-wasm";

/// How a pool is run. May change at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// The interpreter: a path, the folder of a virtual environment, or a name that is looked for along PATH.
    pub python: String,
    /// The machine of WebAssembly, likewise; empty for the one that lies beside the engine's program, or along PATH.
    pub wasm: String,
    /// The bounds of its size.
    pub growth: Growth,
    /// How long a process may be idle before it is ended.
    pub idle: Duration,
    /// How long a function may work on the rows that it gets at once, which are few where they take long.
    pub time: Duration,
    /// Virtual memory that a process may have, in bytes; 0 for as much as there is.
    pub memory_bytes: u64,
    /// Steps that a module of WebAssembly may take for the rows that it gets at once; 0 for as many as it likes.
    pub fuel: u64,
    /// Whether functions in Python may use files beside the libraries of their interpreter.
    pub files: bool,
    /// Whether they may open connections.
    pub network: bool,
}

impl PoolOptions {
    /// How processes of a runtime stand that keep functions from this, at least.
    pub(crate) fn order(&self, runtime: Runtime, kept_from: KeptFrom) -> Order<Launch> {
        Order { launch: self.launch(runtime, kept_from), growth: self.growth, patience: self.idle }
    }

    /// How processes of a runtime are started that keep functions from this, at least.
    fn launch(&self, runtime: Runtime, kept_from: KeptFrom) -> Launch {
        let kept_from = match runtime {
            Runtime::Python => kept_from.and(KeptFrom::of(!self.files, !self.network)),
            Runtime::Wasm => KeptFrom::NOTHING,
        };
        let (program, fuel) = match runtime {
            Runtime::Python => (self.python.clone(), 0),
            Runtime::Wasm => (self.wasm.clone(), self.fuel),
        };
        Launch { runtime, program, memory_bytes: self.memory_bytes, fuel, kept_from }
    }
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            python: "python3".to_owned(),
            wasm: String::new(),
            growth: Growth { threshold: POOL_THRESHOLD, minimum: POOL_MINIMUM, maximum: POOL_MAXIMUM },
            idle: POOL_IDLE,
            time: FUNCTION_TIME,
            memory_bytes: FUNCTION_MEMORY_BYTES,
            fuel: FUNCTION_FUEL,
            files: true,
            network: true,
        }
    }
}

/// How a process is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    pub runtime: Runtime,
    /// The interpreter, or the machine, as the options have it.
    pub program: String,
    /// Memory that it may have, in bytes; 0 is no limit.
    pub memory_bytes: u64,
    /// Steps that a module may take for a batch; 0 is no limit.
    pub fuel: u64,
    /// What functions in it cannot reach.
    pub kept_from: KeptFrom,
}

impl Launch {
    /// Where the program is now: a path, or a name that is looked for along PATH. It may have been installed since the
    /// options were set.
    pub(crate) fn path(&self) -> PathBuf {
        match self.runtime {
            Runtime::Python => interpreter(&self.program),
            Runtime::Wasm if self.program.is_empty() => beside(WASM),
            Runtime::Wasm => PathBuf::from(&self.program),
        }
    }
}

/// The interpreter of a path: that of a virtual environment, if it is the folder of one.
fn interpreter(python: &str) -> PathBuf {
    let path = PathBuf::from(python);
    // A name alone is never a folder: it is looked for along PATH.
    match python.contains('/') && path.is_dir() {
        true => path.join("bin/python3"),
        false => path,
    }
}

/// Where a program is: beside that of the engine, or a folder above it, where tests are; else along PATH.
fn beside(name: &str) -> PathBuf {
    let own = std::env::current_exe().ok();
    let folders = own.iter().flat_map(|own| own.ancestors().skip(1).take(2));
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| name.into())
}

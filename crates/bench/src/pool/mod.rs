//! What it costs to have processes: Bortvedt's experiments (chapter 5, Tables 1 to 5) with today's means.
//!
//! A query of 1, 3 or 5 exchanges acquires 1 to 8 workers for each, one exchange after another, and has all of them
//! until it ends. A worker is acquired when it has answered a byte. Workers are threads that stand ready, processes
//! that stand ready, forks of a process that has so much memory, and programs that are started. The exchange cost is
//! the time until all have answered; the total cost is that until all are free again, or gone.
//!
//! The fixed costs are those of the database: a session, a function's code, its first call, others, the rows as text.
//! [`doors`] has calls by several clients, of the library and of a server.

mod doors;

use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use arrow::util::pretty::pretty_format_batches;
use clap::Args;
use diligence_base::{Error, Result};
use diligence_db::{Database, DatabaseOptions, Session};
use serde_json::{Value, json};

use crate::curve;
use crate::report::{median, print_table};

/// What to run.
#[derive(Args)]
pub struct PoolArguments {
    /// Exchanges of a query.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 3, 5])]
    exchanges: Vec<usize>,
    /// Workers of each exchange.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    workers: Vec<usize>,
    /// Memory of the process that forks, in MiB.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 128, 1024])]
    resident: Vec<usize>,
    /// Rounds: the ways take turns; medians are shown.
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Draw the costs of each number of exchanges into this folder, as Figures 15 to 20 have them.
    #[arg(long)]
    svg: Option<PathBuf>,
    /// Measure calls of functions instead, by so many clients at once, of the library and of a server.
    #[arg(long, value_delimiter = ',')]
    clients: Vec<usize>,
    /// The diligence that serves them [default: the one beside this program].
    #[arg(long)]
    program: Option<PathBuf>,
}

/// A way to have workers.
enum Way {
    /// Threads that stand ready.
    Threads(Vec<(Sender<u8>, Receiver<u8>)>),
    /// Processes that stand ready.
    Primed(Vec<Echo>),
    /// Forks of this process.
    Forks,
    /// Programs that are started.
    Fresh,
}

/// A program that answers what it is sent; ended and waited for when it is dropped.
struct Echo {
    child: Child,
    socket: UnixStream,
}

impl Echo {
    fn start() -> Result<Self> {
        let (socket, theirs) = UnixStream::pair().map_err(failed)?;
        let theirs = || theirs.try_clone().map(std::os::fd::OwnedFd::from).map_err(failed);
        let mut command = Command::new("cat");
        command.stdin(Stdio::from(theirs()?)).stdout(Stdio::from(theirs()?));
        Ok(Self { child: command.spawn().map_err(failed)?, socket })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // It ends when nothing more can come.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let _ = self.child.wait();
    }
}

/// A fork of this process that answers what it is sent.
struct Fork {
    pid: libc::pid_t,
    socket: UnixStream,
}

impl Fork {
    fn start() -> Result<Self> {
        use std::os::fd::AsRawFd;
        let (socket, theirs) = UnixStream::pair().map_err(failed)?;
        let (own, descriptor) = (socket.as_raw_fd(), theirs.as_raw_fd());
        // SAFETY: the child calls nothing but read, write, close and _exit, which are safe after a fork beside threads.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let mut byte = 0_u8;
            // SAFETY: one byte of the child's own stack, and descriptors that are open.
            unsafe {
                libc::close(own);
                while libc::read(descriptor, (&raw mut byte).cast(), 1) == 1 {
                    if libc::write(descriptor, (&raw const byte).cast(), 1) != 1 {
                        break;
                    }
                }
                libc::_exit(0)
            }
        }
        if pid < 0 {
            return Err(failed(std::io::Error::last_os_error()));
        }
        Ok(Self { pid, socket })
    }
}

impl Drop for Fork {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        // SAFETY: the child is ours and was not waited for.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

/// Workers that a query has.
enum Held {
    Nothing,
    Forks(Vec<Fork>),
    Fresh(Vec<Echo>),
}

fn failed(error: std::io::Error) -> Error {
    Error::resource(format!("a process cannot be had: {error}"))
}

/// Sends a byte to each, and waits until all have answered.
fn meet<'s>(sockets: impl Iterator<Item = &'s UnixStream> + Clone) -> Result<()> {
    for mut socket in sockets.clone() {
        socket.write_all(&[1]).map_err(failed)?;
    }
    for mut socket in sockets {
        socket.read_exact(&mut [0]).map_err(failed)?;
    }
    Ok(())
}

impl Way {
    /// Threads of which each answers what it is sent.
    fn threads(count: usize) -> Self {
        let standing = (0..count).map(|_| {
            let ((to, from_us), (to_us, from)) = (channel::<u8>(), channel());
            std::thread::spawn(move || from_us.iter().try_for_each(|byte| to_us.send(byte)));
            (to, from)
        });
        Self::Threads(standing.collect())
    }

    fn primed(count: usize) -> Result<Self> {
        let standing = (0..count).map(|_| Echo::start()).collect::<Result<Vec<_>>>()?;
        meet(standing.iter().map(|one| &one.socket))?;
        Ok(Self::Primed(standing))
    }

    /// Has `workers` for another exchange, the first of them being that of this number.
    fn acquire(&self, first: usize, workers: usize) -> Result<Held> {
        match self {
            Self::Threads(standing) => {
                let ours = standing.get(first..first + workers).unwrap_or_default();
                for (to, _) in ours {
                    to.send(1).map_err(|_| Error::bug("a thread has ended"))?;
                }
                for (_, from) in ours {
                    from.recv().map_err(|_| Error::bug("a thread has ended"))?;
                }
                Ok(Held::Nothing)
            }
            Self::Primed(standing) => {
                let ours = standing.get(first..first + workers).unwrap_or_default();
                meet(ours.iter().map(|one| &one.socket)).map(|()| Held::Nothing)
            }
            Self::Forks => {
                let forks = (0..workers).map(|_| Fork::start()).collect::<Result<Vec<_>>>()?;
                meet(forks.iter().map(|one| &one.socket))?;
                Ok(Held::Forks(forks))
            }
            Self::Fresh => {
                let fresh = (0..workers).map(|_| Echo::start()).collect::<Result<Vec<_>>>()?;
                meet(fresh.iter().map(|one| &one.socket))?;
                Ok(Held::Fresh(fresh))
            }
        }
    }

    /// The exchange cost and the total cost of a query.
    fn query(&self, exchanges: usize, workers: usize) -> Result<(Duration, Duration)> {
        let start = Instant::now();
        let held = (0..exchanges).map(|exchange| self.acquire(exchange * workers, workers));
        let held = held.collect::<Result<Vec<_>>>()?;
        let exchange = start.elapsed();
        // Those that stand ready answer once more, when they are free; others end.
        match self {
            Self::Threads(_) | Self::Primed(_) => {
                (0..exchanges).try_for_each(|exchange| self.acquire(exchange * workers, workers).map(drop))?;
            }
            Self::Forks | Self::Fresh => {}
        }
        for held in held {
            match held {
                Held::Nothing => {}
                Held::Forks(forks) => drop(forks),
                Held::Fresh(fresh) => drop(fresh),
            }
        }
        Ok((exchange, start.elapsed()))
    }
}

/// Memory of which every page has been written.
fn resident(mebibytes: usize) -> Vec<u8> {
    let mut memory = vec![0; mebibytes << 20];
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    black_box(memory)
}

/// Runs the benchmark and prints its tables.
pub fn run(arguments: &PoolArguments) -> Result<Value> {
    if !arguments.clients.is_empty() {
        let doors = doors::run(&arguments.clients, arguments.rounds, arguments.program.as_deref())?;
        return Ok(json!({"benchmark": "pool", "doors": doors}));
    }
    let largest = |values: &[usize]| values.iter().copied().max().unwrap_or(1);
    let standing = largest(&arguments.exchanges) * largest(&arguments.workers);
    let mut ways = vec![
        ("primed threads".to_owned(), 0, Way::threads(standing)),
        ("primed processes".to_owned(), 0, Way::primed(standing)?),
    ];
    ways.extend(arguments.resident.iter().map(|mebibytes| (format!("forks, {mebibytes} MiB"), *mebibytes, Way::Forks)));
    ways.push(("fresh processes".to_owned(), 0, Way::Fresh));
    let cases =
        arguments.exchanges.iter().flat_map(|exchanges| arguments.workers.iter().map(move |one| (*exchanges, *one)));
    let cases = cases.collect::<Vec<_>>();
    let mut times = vec![vec![(Vec::new(), Vec::new()); cases.len()]; ways.len()];
    for round in 0..=arguments.rounds {
        for ((_, mebibytes, way), times) in ways.iter().zip(&mut times) {
            let memory = resident(*mebibytes);
            for ((exchanges, workers), (exchange_us, total_us)) in cases.iter().zip(times) {
                let (exchange, total) = way.query(*exchanges, *workers)?;
                // The first round is not counted.
                if round > 0 {
                    exchange_us.push(exchange.as_secs_f64() * 1e6);
                    total_us.push(total.as_secs_f64() * 1e6);
                }
            }
            drop(memory);
        }
    }
    let names = ways.iter().map(|(name, ..)| name.clone()).collect::<Vec<_>>();
    let mut results = Vec::new();
    for exchanges in &arguments.exchanges {
        for (what, of) in [("exchange cost", 0), ("total cost", 1)] {
            println!("\n{what} with {exchanges} exchanges, microseconds, medians of {} rounds", arguments.rounds);
            let header = ["workers of each".to_owned()].into_iter().chain(names.iter().cloned()).collect::<Vec<_>>();
            let rows =
                cases.iter().enumerate().filter(|(_, (known, _))| known == exchanges).map(|(place, (_, workers))| {
                    let of_way = times.iter().map(|times| if of == 0 { &times[place].0 } else { &times[place].1 });
                    let medians = of_way.map(|times| median(times)).collect::<Vec<_>>();
                    results.push(json!({"cost": what, "exchanges": exchanges, "workers": workers, "us": medians}));
                    [workers.to_string()].into_iter().chain(medians.iter().map(|us| format!("{us:.0}"))).collect()
                });
            print_table(&header, &rows.collect::<Vec<Vec<String>>>());
            if let Some(folder) = &arguments.svg {
                let of_these = cases.iter().enumerate().filter(|(_, (known, _))| known == exchanges);
                let (places, axis): (Vec<_>, Vec<_>) =
                    of_these.map(|(place, (_, workers))| (place, (workers.to_string(), *workers as u64))).unzip();
                let lines = names.iter().zip(&times).map(|(name, times)| {
                    let at = |place: &usize| Some(median(if of == 0 { &times[*place].0 } else { &times[*place].1 }));
                    (name.clone(), places.iter().map(at).collect::<Vec<_>>())
                });
                let title = format!("{what}, {exchanges} exchanges, by workers of each");
                let drawing = curve::draw(&title, "us", &axis, &lines.collect::<Vec<_>>());
                save(&folder.join(format!("pool-{}-{exchanges}.svg", what.replace(' ', "-"))), &drawing)?;
            }
        }
    }
    drop(ways);
    let fixed = fixed_costs(arguments.rounds)?;
    Ok(json!({"benchmark": "pool", "ways": names, "queries": results, "fixed_us": fixed}))
}

fn save(path: &Path, drawing: &str) -> Result<()> {
    std::fs::write(path, drawing).map_err(|error| Error::file(format!("cannot write {}: {error}", path.display())))
}

/// What is paid beside processes.
fn fixed_costs(rounds: usize) -> Result<Value> {
    let database = Database::open(DatabaseOptions::default())?;
    let value = |session: &Session, sql: &str| session.execute(sql)?.collect();
    let timed = |what: &mut dyn FnMut() -> Result<()>| {
        let start = Instant::now();
        what().map(|()| start.elapsed().as_secs_f64() * 1e6)
    };
    let connect = |_| timed(&mut || value(&database.session(), "SELECT 1").map(drop));
    let mut costs = vec![("session and SELECT 1", (0..rounds).map(connect).collect::<Result<Vec<_>>>()?)];
    let session = database.session();
    let wasm = "LANGUAGE wasm AS '(module (func (export \"f\") (param i64) (result i64) \
                (i64.add (local.get 0) (i64.const NUMBER))))', 'f'";
    let python = "LANGUAGE python AS 'return x + NUMBER'";
    for (first, load, first_call, call, body) in [
        ("start the first machine, load", "load code (wasm)", "first call (wasm)", "call (wasm)", wasm),
        ("start the first interpreter, load", "load code (python)", "first call (python)", "call (python)", python),
    ] {
        let (mut loads, mut firsts, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=rounds {
            let name = format!("f_{}_{round}", body.len());
            let body = body.replace("NUMBER", &round.to_string());
            let make = format!("CREATE FUNCTION {name}(x bigint) RETURNS bigint {body}");
            let made = timed(&mut || session.execute(&make).map(drop));
            let made = match made {
                Err(error) if error.code() == Some("58P01") => {
                    println!("not measured: {error}");
                    break;
                }
                made => made?,
            };
            if round == 0 {
                costs.push((first, vec![made]));
                continue;
            }
            loads.push(made);
            let sql = format!("SELECT {name}(1)");
            firsts.push(timed(&mut || value(&session, &sql).map(drop))?);
            calls.push(timed(&mut || value(&session, &sql).map(drop))?);
        }
        if !loads.is_empty() {
            costs.extend([(load, loads), (first_call, firsts), (call, calls)]);
        }
    }
    let batches = value(&session, "SELECT value FROM generate_series(1, 100) g(value)")?;
    let format = |_| {
        timed(&mut || {
            drop(black_box(pretty_format_batches(&batches).map(|table| table.to_string())));
            Ok(())
        })
    };
    costs.push(("100 rows as text", (0..rounds).map(format).collect::<Result<Vec<_>>>()?));
    println!("\nfixed costs, microseconds");
    let rows = costs.iter().map(|(what, us)| vec![(*what).to_owned(), format!("{:.0}", median(us))]);
    print_table(&["cost".to_owned(), "median".to_owned()], &rows.collect::<Vec<_>>());
    Ok(costs.iter().map(|(what, us)| json!({"cost": what, "us": median(us)})).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_workers_answer_and_are_gone_or_free_afterwards() {
        for way in [Way::threads(4), Way::primed(4).unwrap(), Way::Forks, Way::Fresh] {
            for _ in 0..2 {
                let (exchange, total) = way.query(2, 2).unwrap();
                assert!(exchange > Duration::ZERO && total >= exchange);
            }
        }
    }
}

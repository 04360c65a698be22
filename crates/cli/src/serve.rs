//! `diligence serve`: a server for network clients, until a signal stops it.

use std::io::{BufRead, Write, stdin, stdout};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use clap::Parser;
use diligence_base::ErrorKind;
use diligence_db::{Database, QueryResult, Session};
use diligence_server::config::{FLIGHT_PORT, HTTP_PORT, Limits, POSTGRES_PORT, WORKER_NICE};
use diligence_server::execution::ExecutionOptions;
use diligence_server::process::Network;
use diligence_server::scram::Verifier;
use diligence_server::{Addresses, LogFormat, LogOptions, ServerOptions, TlsFiles, Users, log};

use crate::arguments::{Arguments, Command, LogFormatChoice, ServeArguments};
use crate::configuration::{Configured, configured};
use crate::failure::{Done, Failure, complain};
use crate::open::open;
use crate::sources::Source;

/// Runs the subcommand. Fails if the options are invalid, the database cannot be opened, or an address is in use.
pub fn run(arguments: ServeArguments) -> Done {
    if arguments.hash_password {
        return hash_password();
    }
    // From here on SIGHUP does not end the process. Opening may take long.
    let network = Network::start().map_err(failed)?;
    let Configured { arguments, users } = configured(arguments)?;
    let options = options(&arguments, users)?;
    let opened_as = format!("{:?} {:?}", arguments.database, arguments.worker_nice);
    log::start(&log_options(&arguments)).map_err(failed)?;
    // Opening the database may take a while, so mistakes are reported before.
    options.check().map_err(failed)?;
    let database = open(&arguments.database, arguments.worker_nice.unwrap_or(WORKER_NICE))?;
    for (name, why) in database.left_out() {
        complain(format!("warning: the directory '{name}' cannot be read as a table: {why}"));
    }
    for path in &arguments.init {
        initialize(&database, path)?;
    }
    let encrypted = options.tls.is_some();
    let own = database.clone();
    let announce = move |addresses: Addresses| {
        // Whoever wants to open the directory as well finds the way here.
        if let Some(url) = door(&addresses)
            && let Err(error) = own.has_door(&url)
        {
            complain(format!("warning: other processes cannot find this server by its directory: {error}"));
        }
        announce(&addresses, encrypted);
    };
    let served = network.serve(database, options, announce, move || reread(&opened_as)).map_err(failed)?;
    if !served {
        complain("some sessions were closed before their statements finished");
    }
    Ok(())
}

/// Runs the statements of a file, one after the other. Fails with the first error.
fn initialize(database: &Database, path: &Path) -> Done {
    let source = Source::file(path)?;
    let session = database.session();
    let whole = || source.locations(std::slice::from_ref(&source.text)).into_iter().next();
    let statements = Session::split(&source.text).map_err(|error| Failure::Statement(error, whole()))?;
    for location in source.locations(&statements) {
        let done = session.execute(&location.statement).and_then(QueryResult::collect);
        done.map_err(|error| Failure::Statement(error, Some(location)))?;
    }
    Ok(())
}

/// The arguments of this process with its configuration as it is now, after SIGHUP; the log follows them. How the
/// database was `opened_as` stays.
fn reread(opened_as: &str) -> diligence_base::Result<ServerOptions> {
    let wrong = |failure: Failure| diligence_base::Error::input(failure.to_string());
    let command = Arguments::try_parse_from(std::env::args_os());
    let Command::Serve(arguments) = command.map_err(|error| wrong(Failure::Usage(error.to_string())))?.command else {
        return Err(diligence_base::Error::bug("a server without its arguments"));
    };
    let Configured { arguments, users } = configured(arguments).map_err(wrong)?;
    let options = options(&arguments, users).map_err(wrong)?;
    log::change(&log_options(&arguments))?;
    if format!("{:?} {:?}", arguments.database, arguments.worker_nice) != opened_as {
        log::warn("options of the database, its memory and its workers change with a restart only");
    }
    Ok(options)
}

fn log_options(arguments: &ServeArguments) -> LogOptions {
    let format = match arguments.log_format {
        LogFormatChoice::Text => LogFormat::Text,
        LogFormatChoice::Json => LogFormat::Json,
    };
    LogOptions { format, level: arguments.log_level, file: arguments.log_file.clone() }
}

fn options(arguments: &ServeArguments, in_configuration: Option<Users>) -> Result<ServerOptions, Failure> {
    let defaults = ServerOptions::default();
    let users = arguments.users.as_deref().map(Users::read).transpose().map_err(failed)?.or(in_configuration);
    if arguments.files && users.is_some() {
        return Err(Failure::Usage("'files' is for servers without users; users have it one by one".to_owned()));
    }
    let tls = match (&arguments.tls_certificate, &arguments.tls_key) {
        (Some(certificates), Some(key)) => Some(TlsFiles { certificates: certificates.clone(), key: key.clone() }),
        _ => None,
    };
    let execution = ExecutionOptions {
        running_max: arguments.running_max.map_or(defaults.execution.running_max, usize::from),
        heavy_max: arguments.heavy_max.map_or(defaults.execution.heavy_max, usize::from),
        queue_max: arguments.queue_max.unwrap_or(defaults.execution.queue_max),
        slow_statement: arguments.slow_statement.filter(|time| !time.is_zero()),
        ..defaults.execution
    };
    let limits = Limits {
        sessions_max: arguments.sessions_max.map_or(defaults.limits.sessions_max, usize::from),
        statement_time_max: arguments.statement_timeout.map_or(Duration::ZERO, Duration::from_secs),
        result_rows_max: arguments.result_rows_max,
        drain_time_max: arguments.drain_time.map_or(defaults.limits.drain_time_max, Duration::from_secs),
        ..defaults.limits
    };
    Ok(ServerOptions {
        postgres: arguments.postgres.address(POSTGRES_PORT),
        socket_directory: arguments.socket.clone(),
        http: arguments.http.address(HTTP_PORT),
        flight: arguments.flight.address(FLIGHT_PORT),
        users,
        tls,
        endpoints: arguments.endpoints.clone(),
        check_endpoints: true,
        files: arguments.files,
        limits,
        execution,
        collector: arguments.otlp.clone(),
    })
}

/// The URL at which a process of this machine speaks PostgreSQL's protocol to the server: by its socket, if it has one.
fn door(addresses: &Addresses) -> Option<String> {
    if let Some(path) = &addresses.socket {
        let (folder, name) = (path.parent()?, path.file_name()?.to_str()?);
        let port = name.rsplit_once('.')?.1;
        let encoded = |c: char| match c.is_ascii_alphanumeric() || "-._~".contains(c) {
            true => c.to_string(),
            false => c.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect(),
        };
        let folder = std::path::absolute(folder).ok()?.to_str()?.chars().map(encoded).collect::<String>();
        return Some(format!("postgres://{folder}:{port}/diligence"));
    }
    let address = addresses.postgres?;
    let host = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    Some(format!("postgres://{}/diligence", SocketAddr::new(host, address.port())))
}

/// Prints one line for each listen address, which a supervising process can wait for.
fn announce(addresses: &Addresses, encrypted: bool) {
    // The server works without a reader of its output.
    let _ = stdout().write_all(lines(addresses, encrypted).as_bytes()).and_then(|()| stdout().flush());
}

fn lines(addresses: &Addresses, encrypted: bool) -> String {
    let mut lines = String::new();
    if let Some(address) = addresses.postgres {
        lines.push_str(&format!("postgres://{address}/diligence\n"));
    }
    if let Some(path) = &addresses.socket {
        lines.push_str(&format!("{}\n", path.display()));
    }
    if let Some(address) = addresses.http {
        let scheme = if encrypted { "https" } else { "http" };
        lines.push_str(&format!("{scheme}://{address}/\n"));
    }
    if let Some(address) = addresses.flight {
        let scheme = if encrypted { "grpc+tls" } else { "grpc" };
        lines.push_str(&format!("{scheme}://{address}\n"));
    }
    lines
}

fn hash_password() -> Done {
    let mut password = String::new();
    stdin()
        .lock()
        .read_line(&mut password)
        .map_err(|error| Failure::Other(format!("cannot read the password: {error}")))?;
    let password = password.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(Failure::Usage("expected the password as one line on standard input".to_owned()));
    }
    println!("{}", Verifier::of_password(password).map_err(failed)?.text());
    Ok(())
}

fn failed(error: diligence_base::Error) -> Failure {
    match error.kind() {
        ErrorKind::Input => Failure::Usage(error.to_string()),
        _ => Failure::Other(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_door_is_the_socket_or_an_address_of_this_machine() {
        let postgres = Some("0.0.0.0:5433".parse().unwrap());
        let of = |addresses: Addresses| {
            let url = door(&addresses).unwrap();
            let read = diligence_client::Url::parse(&url).unwrap();
            (read.host.clone(), read.port)
        };
        assert_eq!(of(Addresses { postgres, ..Addresses::default() }), ("127.0.0.1".to_owned(), 5433));
        let socket = Some("/var/run/a b/.s.PGSQL.5434".into());
        assert_eq!(of(Addresses { socket, postgres, ..Addresses::default() }), ("/var/run/a b".to_owned(), 5434));
        assert_eq!(door(&Addresses::default()), None);
    }

    #[test]
    fn with_a_certificate_doors_are_announced_as_encrypted() {
        let http = Some("127.0.0.1:8123".parse().unwrap());
        let postgres = Some("127.0.0.1:5433".parse().unwrap());
        let flight = Some("127.0.0.1:31337".parse().unwrap());
        let addresses = Addresses { postgres, http, flight, ..Addresses::default() };
        let expected = "postgres://127.0.0.1:5433/diligence\nhttp://127.0.0.1:8123/\ngrpc://127.0.0.1:31337\n";
        assert_eq!(lines(&addresses, false), expected);
        let expected = expected.replace("http:", "https:").replace("grpc:", "grpc+tls:");
        assert_eq!(lines(&addresses, true), expected);
    }
}

//! The clients of a bad day. Each is a future that ends when the day does; what must not be is its error.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use diligence_base::seams::Random;
use diligence_client::{Address, Connection, Error, message};
use tokio::time::{Instant, sleep};

use super::day::Day;

/// What clients with memory ask, the expected answers beside them.
pub struct Heavy {
    pub sql: String,
    pub expected: Vec<Vec<Option<Vec<u8>>>>,
}

/// Sorts some ten megabytes, in an order that depends on `factor`. Every client has a factor of its own, so that
/// nothing is shared.
pub fn heavy(factor: usize) -> String {
    format!(
        "SELECT count(*), sum(r * value) FROM (SELECT value, row_number() OVER (ORDER BY s) AS r FROM \
         (SELECT value, lpad(CAST(value * {factor} % 100000 AS VARCHAR), 100, 'x') AS s FROM generate_series(1::BIGINT, 100000) AS g(value)))"
    )
}

/// The SQLSTATEs that a server announces: too many queries or sessions, a statement beyond the limits.
fn is_announced(error: &Error) -> bool {
    matches!(error.code(), Some("53300" | "54000" | "54001"))
}

async fn pause(random: &mut Random, at_least: usize, at_most: usize) {
    sleep(Duration::from_millis((at_least + random.below(at_most - at_least)) as u64)).await;
}

pub async fn connect(day: &Day) -> Result<Connection, String> {
    let opened = Connection::open(&day.address, "ann", "diligence", &[]).await;
    opened.map_err(|error| format!("a client is not let in: {error}"))
}

/// Sits there; at the end of the day its session still works.
pub async fn idle(day: Rc<Day>) -> Result<(), String> {
    let mut connection = connect(&day).await?;
    day.until_the_end().await;
    let answers = connection.simple("SELECT 40 + 2").await.map_err(|error| format!("an idle session: {error}"))?;
    if answers[0].rows != [[Some(b"42".to_vec())]] {
        return Err(format!("an idle session answers {answers:?}"));
    }
    connection.close().await.map_err(|error| format!("an idle session cannot end: {error}"))
}

/// Asks short questions whose answers it knows, with pauses as people and pages make them.
pub async fn asking(day: Rc<Day>, number: usize) -> Result<(), String> {
    let mut random = day.random(number);
    let mut connection = connect(&day).await?;
    let prepared = "SELECT $1::bigint * value FROM generate_series(1::BIGINT, 3) AS g(value) ORDER BY value";
    connection.prepare("p", prepared).await.map_err(|error| format!("preparing: {error}"))?;
    while !day.is_over() {
        let n = random.below(1_000_000);
        let began = Instant::now();
        let wrong = |found: String| format!("a wrong answer for {n}: {found}");
        let asked = if random.below(2) == 0 {
            let sql = format!("SELECT {n} * 2, count(*) FROM generate_series(1::BIGINT, 1000) AS g(value)");
            connection.simple(&sql).await.and_then(|answers| {
                let expected = [[(n * 2).to_string(), "1000".to_owned()].map(|text| Some(text.into_bytes())).to_vec()];
                match answers[0].rows == expected {
                    true => Ok(()),
                    false => Err(Error::Protocol(wrong(format!("{answers:?}")))),
                }
            })
        } else {
            let mut found = Vec::new();
            let value = n.to_string();
            let values = [Some(value.as_str())];
            let ran = connection.run("p", &values, false, |row| {
                let values = message::Message { kind: b'D', body: row }.values();
                let text =
                    values.and_then(|values| Some(String::from_utf8_lossy(values.first().copied()??).into_owned()));
                found.push(text.unwrap_or_default());
            });
            match ran.await {
                Ok(_) if found == [n, n * 2, n * 3].map(|value| value.to_string()) => Ok(()),
                Ok(_) => Err(Error::Protocol(wrong(format!("{found:?}")))),
                Err(error) => Err(error),
            }
        };
        match asked {
            Ok(()) => day.short(began.elapsed()),
            Err(error) if is_announced(&error) => day.count("announced refusals", 1),
            Err(error) => return Err(format!("a short question: {error}")),
        }
        pause(&mut random, 200, 1000).await;
    }
    connection.close().await.map_err(|error| format!("a session cannot end: {error}"))
}

/// Wants memory, all at the same time as its likes; again as long as the day is young.
pub async fn with_memory(day: Rc<Day>, number: usize, heavy: Rc<Vec<Heavy>>) -> Result<(), String> {
    let mut connection = connect(&day).await?;
    let mut turn = number;
    loop {
        let Heavy { sql, expected } = &heavy[turn % heavy.len()];
        let began = Instant::now();
        match connection.simple(sql).await {
            Ok(answers) if answers[0].rows == *expected => day.count("heavy answers", 1),
            Ok(answers) => return Err(format!("a wrong answer of {sql}: {:?}", answers[0].rows)),
            Err(error) if is_announced(&error) => day.count("announced refusals", 1),
            Err(error) => return Err(format!("{sql}: {error}")),
        }
        day.longest_heavy(began.elapsed());
        if day.is_late() {
            break;
        }
        turn += 1;
    }
    connection.close().await.map_err(|error| format!("a session cannot end: {error}"))
}

/// Asks for hundreds of megabytes and takes some kilobytes now and then.
pub async fn slow_reader(day: Rc<Day>, number: usize) -> Result<(), String> {
    let mut random = day.random(number);
    while !day.is_over() {
        let mut connection = connect(&day).await?;
        let mut query = Vec::new();
        message::query(
            &mut query,
            "SELECT value, repeat('x', 100) FROM generate_series(1::BIGINT, 2000000) AS g(value)",
        );
        connection.send(&query).await.map_err(|error| format!("a slow reader: {error}"))?;
        let mut seen = HashSet::new();
        for _ in 0..20 + random.below(60) {
            for _ in 0..100 {
                let message = match connection.next().await {
                    Ok(message) => message,
                    Err(error) => return Err(format!("a slow reader: {error}")),
                };
                match message.kind {
                    // Where it stands in line is a notice.
                    b'T' | b'N' => {}
                    b'D' => {
                        let values = message.values().unwrap_or_default();
                        let [Some(value), Some(text)] = values[..] else {
                            return Err("a row without values".to_owned());
                        };
                        if text.len() != 100 || !seen.insert(value.to_vec()) {
                            return Err(format!("a slow reader gets a wrong row: {}", value.escape_ascii()));
                        }
                    }
                    b'E' => {
                        let failure = message.failure().unwrap_or_default();
                        let error = Error::Server(failure);
                        match is_announced(&error) {
                            true => break,
                            false => return Err(format!("a slow reader: {error}")),
                        }
                    }
                    kind => return Err(format!("a slow reader gets '{}'", kind.escape_ascii())),
                }
            }
            if day.is_over() {
                break;
            }
            sleep(Duration::from_millis(100)).await;
        }
        day.count("slow reads", 1);
        // Without a word: the server has to notice.
    }
    Ok(())
}

/// Begins something and leaves without a word, whenever.
pub async fn leaver(day: Rc<Day>, number: usize) -> Result<(), String> {
    let mut random = day.random(number);
    while !day.is_over() {
        let mut connection = connect(&day).await?;
        let mut begun = Vec::new();
        match random.below(4) {
            0 => message::query(&mut begun, "SELECT * FROM generate_series(1::BIGINT, 3000000) AS g(value)"),
            1 => message::query(&mut begun, &heavy(7 + 2 * number)),
            2 => {
                message::parse(&mut begun, "", "SELECT count(*) FROM generate_series(1::BIGINT, 100000) AS g(value)");
                message::bind(&mut begun, "", &[], true);
                message::execute(&mut begun, 0);
            }
            _ => {
                message::query(&mut begun, "SELECT count(*) FROM generate_series(1::BIGINT, 1000000) AS g(value)");
                let end = random.below(begun.len());
                begun.truncate(end);
            }
        }
        // The server may have gone only if it is dead, and others notice that.
        let _ = connection.send(&begun).await;
        pause(&mut random, 0, 300).await;
        day.count("departures", 1);
        drop(connection);
        pause(&mut random, 0, 200).await;
    }
    Ok(())
}

/// Sends what is no session, or no longer one.
pub async fn stranger(day: Rc<Day>, number: usize) -> Result<(), String> {
    let mut random = day.random(number);
    while !day.is_over() {
        let bytes = diligence_tests::strangers::session(&mut random);
        let opened = Connection::open_silently(&day.address).await;
        let mut connection = opened.map_err(|error| format!("a stranger does not come in: {error}"))?;
        let _ = connection.send(&bytes).await;
        pause(&mut random, 0, 20).await;
        day.count("malformed sessions", 1);
    }
    Ok(())
}

/// Sends statements of megabytes: those within the limits are answered, others are refused.
pub async fn huge(day: Rc<Day>, number: usize) -> Result<(), String> {
    let mut random = day.random(number);
    let mut connection = connect(&day).await?;
    while !day.is_over() {
        let (sql, expected) = match random.below(4) {
            0 => (format!("SELECT length('{}')", "é".repeat(2 << 20)), Some((2 << 20).to_string())),
            1 => {
                let list: Vec<_> = (1..=5000).map(|n| n.to_string()).collect();
                let sql = format!(
                    "SELECT count(*) FROM generate_series(1::BIGINT, 20000) AS g(value) WHERE value IN ({})",
                    list.join(", ")
                );
                (sql, Some("5000".to_owned()))
            }
            2 => (format!("SELECT '{}'", "x".repeat(20 << 20)), None),
            _ => (format!("SELECT {}1{}", "(".repeat(200_000), ")".repeat(200_000)), None),
        };
        let answered = connection.simple(&sql).await;
        let shown: String = sql.chars().take(40).collect();
        match (answered, expected) {
            (Ok(answers), Some(expected)) if answers[0].rows == [[Some(expected.clone().into_bytes())]] => {}
            (Ok(answers), Some(expected)) => {
                return Err(format!("{shown}… is {:?} rather than {expected}", answers[0].rows));
            }
            (Ok(_), None) => return Err(format!("{shown}… is beyond the limits and was answered")),
            // What is too long or too deep is refused in one way or another, but the session goes on.
            (Err(Error::Server(_)), None) => day.count("announced refusals", 1),
            (Err(error), _) if is_announced(&error) => day.count("announced refusals", 1),
            (Err(error), _) => return Err(format!("{shown}…: {error}")),
        }
        day.count("huge statements", 1);
        pause(&mut random, 500, 2000).await;
    }
    // A message that says it is larger than any may be ends the session.
    let _ = connection.send(b"Q\x7f\xff\xff\xffSELECT").await;
    loop {
        match connection.next().await {
            Ok(message) if message.kind == b'E' => {
                let code = message.failure().unwrap_or_default().code;
                return if code == "54000" { Ok(()) } else { Err(format!("a message of 2 GiB: {code}")) };
            }
            Ok(_) => {}
            Err(error) => return Err(format!("a message of 2 GiB: {error}")),
        }
    }
}

/// Asks `SELECT 1` on a session of its own, again and again until the day ends; the milliseconds.
pub fn prober(address: &Address, ends: Instant) -> Result<Vec<f64>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    let probing = async {
        let mut connection = Connection::open(address, "ann", "diligence", &[]).await?;
        connection.prepare("one", "SELECT 1").await?;
        let mut took = Vec::new();
        while Instant::now() < ends {
            let began = Instant::now();
            let done = connection.run("one", &[], false, |_| {}).await?;
            if done.rows != 1 {
                return Err(Error::Protocol(format!("{} rows", done.rows)));
            }
            took.push(began.elapsed().as_secs_f64() * 1e3);
            sleep(Duration::from_millis(20)).await;
        }
        connection.close().await?;
        Ok(took)
    };
    runtime.block_on(probing).map_err(|error| format!("SELECT 1: {error}"))
}

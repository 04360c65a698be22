//! Many clients at once get what each would get alone, and what they share is seen.

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use diligence_base::Error;
use diligence_base::seams::Random;
use diligence_db::{Database, DatabaseOptions, Session};

const CLIENTS: usize = 16;
const QUERIES_PER_CLIENT: usize = 12;

fn database(inline_seed: Option<u64>, retained: bool) -> Database {
    let settings = vec![("sharing_rows".to_owned(), "0".to_owned())];
    let database = DatabaseOptions { workers: Some(2), inline_seed, settings, ..DatabaseOptions::default() };
    let database = Database::open(database).unwrap();
    database.session().set("sharing_retained", if retained { "10" } else { "0" }).unwrap();
    let session = database.session();
    for sql in [
        "CREATE TABLE sales AS SELECT value AS id, value % 13 AS shop, date '2024-01-01' + CAST(value % 366 AS INT) AS day,
            CAST(value % 9973 / 4.0 AS DECIMAL(12, 2)) AS amount, CASE value % 3 WHEN 0 THEN 'web' WHEN 1 THEN 'phone' ELSE 'desk' END AS door
         FROM generate_series(1::BIGINT, 20000) AS g(value)",
        "CREATE TABLE shops AS SELECT value AS shop, 'town ' || (value % 5) AS town, value % 4 AS size FROM generate_series(0::BIGINT, 11) AS g(value)",
    ] {
        session.execute(sql).unwrap().collect().unwrap();
    }
    database
}

fn text(batches: &[RecordBatch]) -> String {
    pretty_format_batches(batches).unwrap().to_string()
}

fn answer(session: &Session, sql: &str) -> Result<String, Error> {
    Ok(text(&session.execute(sql)?.collect()?))
}

/// A statement with constants of its own. The last kind fails for some constants.
fn statement(random: &mut Random) -> String {
    let first = random.below(300);
    let day = |day: usize| format!("date '2024-01-01' + {day}");
    let (from, to) = (day(first), day(first + 1 + random.below(60)));
    let door = ["web", "phone", "desk", "none"][random.below(4)];
    let size = random.below(4);
    match random.below(5) {
        0 => format!(
            "SELECT door, count(*), sum(amount), avg(amount), min(day), max(id) FROM sales WHERE day <= {to} GROUP BY door ORDER BY door"
        ),
        1 => format!("SELECT sum(amount), count(*) FROM sales WHERE day >= {from} AND day < {to} AND door = '{door}'"),
        2 => format!(
            "SELECT town, sum(amount) AS s FROM sales JOIN shops ON sales.shop = shops.shop
             WHERE day BETWEEN {from} AND {to} AND size >= {size} GROUP BY town HAVING count(*) > 3 ORDER BY s DESC, town LIMIT 3"
        ),
        3 => format!(
            "SELECT shop, count(*) FROM sales WHERE door IN ('{door}', 'web') AND amount < {first}
             AND shop IN (SELECT shop FROM shops WHERE size <> 2) GROUP BY shop ORDER BY shop"
        ),
        _ => format!("SELECT sum(1000 / (id - 77)) FROM sales WHERE id >= {} AND id < 5000", first / 2),
    }
}

#[test]
fn many_clients_get_what_each_would_get_alone() {
    let database = database(None, true);
    let alone = database.session();
    alone.set("sharing", "off").unwrap();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (session, alone) = (database.session(), &alone);
            scope.spawn(move || {
                let mut random = Random::new(client as u64);
                for _ in 0..QUERIES_PER_CLIENT {
                    let sql = statement(&mut random);
                    if random.below(8) == 0 {
                        // Asked for, and given up.
                        drop(session.start(&sql));
                    }
                    let (got, expected) = (answer(&session, &sql), answer(alone, &sql));
                    match (got, expected) {
                        (Ok(got), Ok(expected)) => assert_eq!(got, expected, "{sql}"),
                        (Err(got), Err(expected)) => assert_eq!(got.message(), expected.message(), "{sql}"),
                        (got, expected) => panic!("{sql}\n{got:?}\n{expected:?}"),
                    }
                }
            });
        }
    });
    let sharing = database.engine().sharing();
    assert!(sharing.merged_queries_total > 0, "{sharing:?}");
}

#[test]
fn on_one_thread_too() {
    for seed in 0..20 {
        let database = database(Some(seed), seed % 2 == 1);
        let (session, alone) = (database.session(), database.session());
        alone.set("sharing", "off").unwrap();
        let mut random = Random::new(seed);
        let statements: Vec<_> = (0..20).map(|_| statement(&mut random)).collect();
        let started: Vec<_> = statements.iter().map(|sql| session.start(sql).unwrap()).collect();
        for (sql, result) in statements.iter().zip(started) {
            match (result.collect(), answer(&alone, sql)) {
                (Ok(got), Ok(expected)) => assert_eq!(text(&got), expected, "seed {seed}: {sql}"),
                (Err(_), Err(_)) => {}
                (got, expected) => panic!("seed {seed}: {sql}\n{got:?}\n{expected:?}"),
            }
        }
        assert!(database.engine().sharing().merged_builds_total > 0);
    }
}

#[test]
fn joins_share_a_hash_table_whatever_else_their_queries_do() {
    let database = database(Some(5), true);
    let (session, alone) = (database.session(), database.session());
    alone.set("sharing", "off").unwrap();
    let large = "(SELECT shop AS s, town, size FROM shops WHERE size >= 1)";
    // Of one table, they would be a page, which is answered by one run.
    for other in ["returns", "visits"] {
        session.execute(&format!("CREATE TABLE {other} AS SELECT * FROM sales")).unwrap().collect().unwrap();
    }
    let statements = [
        format!("SELECT town, sum(amount) FROM sales JOIN {large} ON shop = s GROUP BY town ORDER BY town"),
        format!("SELECT count(*), max(day), min(town) FROM returns JOIN {large} ON shop = s WHERE door = 'web'"),
        format!(
            "WITH large AS {large} SELECT l.town, count(*) FROM visits JOIN large l ON shop = l.s GROUP BY l.town ORDER BY l.town LIMIT 2"
        ),
    ];
    for sql in &statements {
        assert!(answer(&session, &format!("EXPLAIN {sql}")).unwrap().contains("hash tables of 1 joins"), "{sql}");
    }
    let started: Vec<_> = statements.iter().map(|sql| session.start(sql).unwrap()).collect();
    for (sql, result) in statements.iter().zip(started) {
        assert_eq!(text(&result.collect().unwrap()), answer(&alone, sql).unwrap(), "{sql}");
    }
    let sharing = database.engine().sharing();
    assert_eq!((sharing.tables_built_total, sharing.tables_read_total), (1, 2), "{sharing:?}");
    let shown = answer(&session, "SELECT state, readers FROM system.sharing WHERE bytes > 0 ORDER BY state").unwrap();
    assert!(shown.contains("| retained table | 0 "), "{shown}");
    // Other rows are another table.
    session.execute("INSERT INTO shops VALUES (12, 'town 9', 3)").unwrap();
    assert_eq!(answer(&session, &statements[1]).unwrap(), answer(&alone, &statements[1]).unwrap());
    assert_eq!(database.engine().sharing().tables_read_total, 2);
}

#[test]
fn a_later_query_sees_what_was_changed_before_it() {
    let database = database(Some(1), true);
    let session = database.session();
    let sql = "SELECT count(*) FROM sales WHERE shop >= 0";
    let before = session.start(sql).unwrap();
    session.execute("INSERT INTO sales SELECT * FROM sales WHERE id <= 10").unwrap();
    let after = session.start(sql).unwrap();
    assert!(text(&after.collect().unwrap()).contains("20010"));
    assert!(text(&before.collect().unwrap()).contains("20000"));
    // What is kept is of one state of the table.
    assert!(answer(&session, sql).unwrap().contains("20010"));
    assert_eq!(database.engine().sharing().retained_hits_total, 1);
    session.execute("DROP TABLE sales").unwrap();
    assert_eq!(database.engine().sharing().retained_bytes, 0);
}

#[test]
fn what_is_kept_for_later_is_shown_and_belongs_to_everybody() {
    let database = database(Some(3), true);
    let (session, other) = (database.session(), database.session());
    let fine = "SELECT door, day, count(*), sum(amount) FROM sales GROUP BY door, day ORDER BY door, day";
    answer(&session, fine).unwrap();
    let shown = "SELECT state, queries, readers, uses, statement FROM system.sharing";
    assert!(answer(&session, shown).unwrap().contains(&format!("| retained | 1       | 0       | 0    | {fine} |")));
    let held = "SELECT query, revocable FROM system.memory WHERE operator = 'Shared states'";
    assert!(answer(&session, held).unwrap().contains("|       | yes       |"));
    // A question that needs less of it, with other names, in another session.
    let coarse =
        "SELECT s.door AS d, sum(s.amount) FROM sales AS s WHERE s.day < date '2024-03-01' GROUP BY d ORDER BY d";
    let explained = answer(&other, &format!("EXPLAIN {coarse}")).unwrap();
    assert!(
        explained
            .contains("more than it is retained, and can be filtered by one more condition, grouped by 1 of 2 keys")
    );
    let found = answer(&other, coarse).unwrap();
    let explained = answer(&other, &format!("EXPLAIN ANALYZE {coarse}")).unwrap();
    assert!(
        explained.contains("Sharing: a state from ") && explained.contains("used 2 times; filtered by"),
        "{explained}"
    );
    assert_eq!(database.engine().sharing().subsumed_total, 2);
    other.set("sharing", "off").unwrap();
    assert_eq!(answer(&other, coarse).unwrap(), found);
    assert_eq!(database.engine().sharing().subsumed_total, 2);
    session.set("sharing_retained", "0").unwrap();
    assert_eq!(other.setting("sharing_retained").unwrap(), "0");
    assert!(!answer(&session, shown).unwrap().contains("retained"));
    assert!(session.set("sharing_retained", "51").is_err());
}

#[test]
fn the_first_rows_of_an_order_are_kept_for_whoever_wants_fewer() {
    let database = database(Some(3), true);
    let (session, alone) = (database.session(), database.session());
    alone.set("sharing", "off").unwrap();
    let first = |columns: &str, keys: &str, limit: &str| {
        format!("SELECT {columns} FROM sales WHERE door = 'web' ORDER BY {keys} {limit}")
    };
    answer(&session, &first("id, shop, day, amount", "amount DESC, shop, id", "LIMIT 100")).unwrap();
    let pages = [
        (
            first("id, amount", "amount DESC, shop, id", "LIMIT 10"),
            "limited to the first 10 of 100 rows, in the same order",
        ),
        (
            first("amount, shop AS s", "amount DESC, shop", "LIMIT 10 OFFSET 20"),
            "limited to the 10 rows after the first 20 of 100, in the order of a longer key",
        ),
    ];
    for (place, (sql, residual)) in pages.iter().enumerate() {
        let explained = answer(&session, &format!("EXPLAIN {sql}")).unwrap();
        assert!(explained.contains(&format!("more than it is retained, and can be {residual}")), "{explained}");
        assert_eq!(answer(&session, sql).unwrap(), answer(&alone, sql).unwrap(), "{sql}");
        assert_eq!(database.engine().sharing().subsumed_total, place as u64 + 1);
    }
    let others = [
        first("id", "amount DESC, shop, id", "LIMIT 101"),
        first("id", "amount, shop, id", "LIMIT 10"),
        first("id", "amount DESC, shop, id, day", "LIMIT 10"),
        first("id", "amount DESC, shop, id", "LIMIT 10").replace("web", "desk"),
    ];
    for sql in &others {
        assert_eq!(answer(&session, sql).unwrap(), answer(&alone, sql).unwrap(), "{sql}");
    }
    assert_eq!(database.engine().sharing().subsumed_total, 2);
}

#[test]
fn what_waits_and_what_was_shared_is_shown() {
    let database = database(Some(2), false);
    let session = database.session();
    let sql = |shop| format!("SELECT count(*), sum(amount) FROM sales WHERE shop = {shop}");
    let mut started: Vec<_> = (0..4).map(|shop| session.start(&sql(shop)).unwrap()).collect();
    let explained = session.start(&format!("EXPLAIN ANALYZE {}", sql(3))).unwrap();
    let shown = answer(&session, "SELECT state, queries, readers FROM system.sharing ORDER BY state, readers").unwrap();
    assert_eq!(shown.matches("waiting").count(), 3, "{shown}");
    let explained = text(&explained.collect().unwrap());
    assert!(explained.contains("Sharing: merged, one run for 3 different queries; this is a satellite"), "{explained}");
    assert!(explained.contains("Mask by shop"), "{explained}");
    started.drain(..).for_each(|result| drop(result.collect().unwrap()));
    assert!(!answer(&session, "SELECT * FROM system.sharing").unwrap().contains("ing "));
    session.set("sharing", "off").unwrap();
    assert!(!answer(&session, &format!("EXPLAIN ANALYZE {}", sql(3))).unwrap().contains("Sharing"));
    assert!(session.set("sharing", "sometimes").is_err());
}

#[test]
fn queries_with_scalar_subqueries_and_common_parts_are_shared_whole() {
    let of = |least: usize, most: &str| {
        format!(
            "WITH d AS (SELECT shop, door, sum(amount) AS total FROM sales WHERE id > {least} GROUP BY shop, door)
             SELECT shop, door, total FROM d WHERE total = (SELECT {most}(total) FROM d) ORDER BY shop, door"
        )
    };
    for seed in 0..6 {
        let database = database(Some(seed), false);
        let (session, alone) = (database.session(), database.session());
        alone.set("sharing", "off").unwrap();
        // The same, three times; and others, of which only the subquery differs, or what it is of.
        let statements = [of(5, "max"), of(5, "max"), of(5, "min"), of(6, "max"), of(5, "max")];
        let started: Vec<_> = statements.iter().map(|sql| session.start(sql).unwrap()).collect();
        for (sql, result) in statements.iter().zip(started) {
            assert_eq!(text(&result.collect().unwrap()), answer(&alone, sql).unwrap(), "seed {seed}: {sql}");
        }
        assert_eq!(database.engine().sharing().satellites_total, 2, "seed {seed}");
        let satellites =
            "SELECT count(*) AS n FROM system.queries WHERE sharing LIKE 'satellite, one run for this and %'";
        assert!(answer(&alone, satellites).unwrap().contains("| 2 |"), "seed {seed}");
    }
    let database = database(None, false);
    let plan = answer(&database.session(), &format!("EXPLAIN {}", of(5, "max"))).unwrap();
    assert!(
        plan.contains("Common part 0 for 2 places") && plan.contains("Sharing: all of it, with equal queries"),
        "{plan}"
    );
}

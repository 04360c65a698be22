//! Roles that statements have made, and channels, as clients meet them.

use std::sync::Arc;

use diligence_client::{Address, Connection};
use diligence_db::{Database, DatabaseOptions};

use crate::config::{ServerOptions, Users, user_named};
use crate::server::Server;

async fn serve() -> (Arc<Server>, Address) {
    let options = DatabaseOptions { workers: Some(2), ..DatabaseOptions::default() };
    let postgres = Some("127.0.0.1:0".parse().unwrap());
    let options = (Database::open(options).unwrap(), ServerOptions { postgres, ..ServerOptions::default() });
    let server = Server::start(options.0, options.1).await.unwrap();
    let address = Address::Tcp(server.addresses().postgres.unwrap());
    (server, address)
}

async fn connect(address: &Address, user: &str) -> Connection {
    Connection::open(address, user, "diligence", &[]).await.unwrap()
}

/// The code of a statement's error; nothing without one.
async fn code(connection: &mut Connection, sql: &str) -> String {
    match connection.simple(sql).await {
        Ok(_) => String::new(),
        Err(error) => error.code().unwrap_or_default().to_owned(),
    }
}

#[tokio::test]
async fn who_comes_as_a_role_has_its_rights_alone() {
    let (_server, address) = serve().await;
    let mut root = connect(&address, "whoever").await;
    for sql in [
        "CREATE ROLE ann LOGIN",
        "CREATE ROLE nobody",
        "CREATE TABLE t (a INT)",
        "CREATE TABLE other (a INT)",
        "GRANT SELECT ON t TO ann",
    ] {
        root.simple(sql).await.unwrap();
    }
    assert!(Connection::open(&address, "nobody", "diligence", &[]).await.is_err());
    let mut ann = connect(&address, "ann").await;
    for (sql, wanted) in [
        ("SELECT * FROM t", ""),
        ("SELECT * FROM other", "42501"),
        ("INSERT INTO t VALUES (1)", "42501"),
        ("CREATE TABLE mine (a INT)", "42501"),
        ("CREATE ROLE carl", "42501"),
        ("SET ROLE diligence", "42501"),
        ("SET SESSION AUTHORIZATION diligence", "42501"),
        ("COPY t TO '/tmp/nowhere.csv'", "42501"),
        ("SET memory = '1GB'", "42501"),
        ("DO $$ BEGIN EXECUTE 'DROP TABLE t'; END $$", "42501"),
    ] {
        assert_eq!(code(&mut ann, sql).await, wanted, "{sql}");
    }
    // What is revoked is gone in sessions that go on, and in plans that are kept.
    root.simple("REVOKE SELECT ON t FROM ann").await.unwrap();
    assert_eq!(code(&mut ann, "SELECT * FROM t").await, "42501");
    root.simple("GRANT INSERT ON t TO ann").await.unwrap();
    assert_eq!(code(&mut ann, "INSERT INTO t VALUES (1)").await, "");
}

#[test]
fn roles_with_a_password_log_in_beside_the_users_of_a_file() {
    let users = Users::parse("[users.ann]\npassword = 'file'").unwrap();
    let database = Database::in_memory().unwrap();
    let session = database.session();
    for sql in [
        "CREATE ROLE bob LOGIN PASSWORD 'secret'",
        "CREATE ROLE carl PASSWORD 'secret'",
        "CREATE ROLE dora LOGIN",
        "CREATE ROLE erin LOGIN PASSWORD 'secret' VALID UNTIL '2001-01-01'",
        "CREATE ROLE fay LOGIN PASSWORD 'secret' VALID UNTIL 'infinity' SUPERUSER",
    ] {
        session.execute(sql).unwrap();
    }
    let known = |name: &str| user_named(Some(&users), &database, name);
    assert!(known("ann").unwrap().verifier.fits("file"));
    let bob = known("bob").unwrap();
    assert!(bob.verifier.fits("secret") && !bob.verifier.fits("file") && !bob.role.admin && !bob.role.files);
    assert!(known("fay").unwrap().role.admin && !known("fay").unwrap().role.files);
    for nobody in ["carl", "dora", "erin", "nobody"] {
        assert!(known(nobody).is_none(), "{nobody}");
    }
}

#[tokio::test]
async fn what_is_said_in_a_channel_comes_to_clients_that_rest() {
    let (_server, address) = serve().await;
    let (mut ann, mut bob) = (connect(&address, "ann").await, connect(&address, "bob").await);
    ann.simple("LISTEN news").await.unwrap();
    let heard = async |connection: &mut Connection| {
        let message = connection.next().await.unwrap();
        assert_eq!(message.kind, b'A');
        let texts = String::from_utf8_lossy(&message.body[4..]).into_owned();
        texts.trim_end_matches('\0').replace('\0', "=")
    };
    bob.simple("NOTIFY news, 'first'").await.unwrap();
    assert_eq!(heard(&mut ann).await, "news=first");
    bob.simple("BEGIN; NOTIFY news, 'second'; NOTIFY others; COMMIT").await.unwrap();
    bob.simple("SELECT pg_notify('news', 'third')").await.unwrap();
    assert_eq!(heard(&mut ann).await, "news=second");
    assert_eq!(heard(&mut ann).await, "news=third");
}

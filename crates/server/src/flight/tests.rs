//! The door as its clients see it, call by call.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int64Type, Schema};
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{
    ActionBeginSavepointRequest, ActionBeginSavepointResult, ActionEndSavepointRequest, Any, CommandGetDbSchemas,
    CommandGetExportedKeys, CommandGetPrimaryKeys, CommandGetTables, CommandStatementIngest, EndTransaction,
    ProstMessageExt, SqlInfo, TableDefinitionOptions, TableExistsOption, TableNotExistOption,
};
use arrow_flight::{
    Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightData, FlightDescriptor, FlightInfo,
    IpcMessage,
};
use bytes::Bytes;
use diligence_db::{Database, DatabaseOptions};
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::messages::{
    CloseSessionResult, ErrorInfo, GetSessionOptionsResult, OptionError, OptionValue, RpcStatus, SessionOptionValue,
    SetSessionOptionsRequest, SetSessionOptionsResult,
};
use crate::config::{ServerOptions, Users};
use crate::server::Server;

type Client = FlightSqlServiceClient<Channel>;

const ENDLESS: &str =
    "SELECT count(*) FROM generate_series(1::bigint, 10000000) a(v), generate_series(1::bigint, 1000000) b(w)";

async fn serve_with(users: Option<&str>) -> Arc<Server> {
    let options = DatabaseOptions { workers: Some(2), ..DatabaseOptions::default() };
    let database = Database::open(options).unwrap();
    let flight = Some("127.0.0.1:0".parse().unwrap());
    let users = users.map(|text| Users::parse(text).unwrap());
    let options = ServerOptions { postgres: None, flight, users, ..ServerOptions::default() };
    Server::start(database, options).await.unwrap()
}

async fn connect(server: &Server) -> Client {
    let address = server.addresses().flight.unwrap();
    let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    FlightSqlServiceClient::new(channel)
}

async fn one() -> (Arc<Server>, Client) {
    let server = serve_with(None).await;
    let client = connect(&server).await;
    (server, client)
}

/// The rows behind a FlightInfo.
async fn fetch(client: &mut Client, info: FlightInfo) -> Result<Vec<RecordBatch>, FlightError> {
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    client.do_get(ticket).await?.try_collect().await
}

async fn query(client: &mut Client, sql: &str) -> Result<Vec<RecordBatch>, FlightError> {
    let info = client.execute(sql.to_owned(), None).await?;
    fetch(client, info).await
}

/// The rows of a query as texts: columns by commas, rows by semicolons.
async fn said(client: &mut Client, sql: &str) -> String {
    texts(&query(client, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")))
}

fn texts(batches: &[RecordBatch]) -> String {
    let rows = batches.iter().flat_map(|batch| crate::texts(batch).unwrap());
    let row = |row: Vec<Option<String>>| {
        row.into_iter().map(|value| value.unwrap_or_else(|| "NULL".to_owned())).collect::<Vec<_>>().join(",")
    };
    rows.map(row).collect::<Vec<_>>().join(";")
}

fn status(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => *status,
        other => panic!("no status: {other}"),
    }
}

/// The SQLSTATE of an error, with gRPC's code.
fn failed(error: FlightError) -> (String, Code) {
    let status = status(error);
    let details = RpcStatus::decode(status.details()).unwrap();
    let info = ErrorInfo::decode(details.details[0].value.clone()).unwrap();
    assert!(status.message().ends_with(&format!("(SQLSTATE {})", info.reason)), "{status}");
    (info.reason, status.code())
}

async fn fails(client: &mut Client, sql: &str) -> (String, Code) {
    match query(client, sql).await {
        Ok(rows) => panic!("{sql} has not failed but given {}", texts(&rows)),
        Err(error) => failed(error),
    }
}

async fn act(client: &mut Client, name: &str, body: Vec<u8>) -> Result<Vec<Bytes>, FlightError> {
    let action = Action { r#type: name.to_owned(), body: body.into() };
    let results = client.do_action(action).await?;
    Ok(results.map_ok(|result| result.body).try_collect().await?)
}

fn state(code: &str, grpc: Code) -> (String, Code) {
    (code.to_owned(), grpc)
}

#[tokio::test]
async fn statements_without_rows_are_done_when_they_are_answered() {
    let (server, mut ann) = one().await;
    let mut bob = connect(&server).await;
    // Nobody shows the tickets.
    let info = ann.execute("CREATE TABLE t (a BIGINT PRIMARY KEY, b TEXT)".into(), None).await.unwrap();
    assert_eq!(info.clone().try_decode_schema().unwrap(), Schema::empty());
    ann.execute("INSERT INTO t VALUES (1, 'x'), (2, NULL)".into(), None).await.unwrap();
    assert_eq!(said(&mut bob, "SELECT * FROM t ORDER BY a").await, "1,x;2,NULL");
    assert_eq!(fetch(&mut ann, info).await.unwrap().len(), 0);
    assert_eq!(
        ann.execute_update("UPDATE t SET a = a + 10; DELETE FROM t WHERE a = 12".into(), None).await.unwrap(),
        1
    );
    // One that writes and gives rows is run once, when they are fetched, and tells no columns before.
    let info = ann.execute("INSERT INTO t VALUES (3, 'z') RETURNING a".into(), None).await.unwrap();
    assert!(info.schema.is_empty());
    assert_eq!(said(&mut bob, "SELECT count(*) FROM t").await, "1");
    assert_eq!(texts(&fetch(&mut ann, info.clone()).await.unwrap()), "3");
    assert_eq!(failed(fetch(&mut ann, info).await.unwrap_err()), state("26000", Code::NotFound));
    assert_eq!(said(&mut bob, "SELECT count(*) FROM t").await, "2");
    // A query tells its columns before it runs, also where it gives no rows.
    let info = ann.execute("SELECT a, b FROM t WHERE a < 0".into(), None).await.unwrap();
    let told = info.clone().try_decode_schema().unwrap();
    assert_eq!(told.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let stream = ann.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    let (schema, batches) = (stream.schema().cloned(), stream.try_collect::<Vec<_>>().await.unwrap());
    assert!(schema.is_none_or(|schema| *schema == told) && batches.is_empty());
    assert!(server.drain().await);
}

#[tokio::test]
async fn errors_have_the_code_that_fits() {
    let (_server, mut ann) = one().await;
    said(&mut ann, "CREATE TABLE t (a BIGINT PRIMARY KEY)").await;
    said(&mut ann, "INSERT INTO t VALUES (1)").await;
    for (sql, code, grpc) in [
        ("SELECT * FROM nope", "42P01", Code::NotFound),
        ("SELECT nothing FROM t", "42703", Code::NotFound),
        ("SELEC 1", "42601", Code::InvalidArgument),
        ("SELECT 1 / (a - 1) FROM t", "22012", Code::InvalidArgument),
        ("INSERT INTO t VALUES (1)", "23505", Code::AlreadyExists),
        ("CREATE TABLE t (a INT)", "42P07", Code::AlreadyExists),
        ("SELECT 1; SELECT 2", "42601", Code::InvalidArgument),
        ("", "42601", Code::InvalidArgument),
        ("COPY t TO STDOUT", "0A000", Code::Unimplemented),
        ("DECLARE c CURSOR FOR SELECT 1", "0A000", Code::Unimplemented),
        ("COMMIT", "25P01", Code::FailedPrecondition),
        ("SELECT '/etc/passwd'::text FROM '/etc/passwd'", "42P01", Code::NotFound),
    ] {
        assert_eq!(fails(&mut ann, sql).await, state(code, grpc), "{sql}");
    }
    let error = ann.execute("SELECT nothing\nFROM t".into(), None).await.unwrap_err();
    let details = RpcStatus::decode(status(error).details()).unwrap();
    let info = ErrorInfo::decode(details.details[0].value.clone()).unwrap();
    assert_eq!((info.metadata["line"].as_str(), info.metadata["position"].as_str()), ("1", "8"));
}

#[tokio::test]
async fn a_connection_is_a_session() {
    let (server, mut ann) = one().await;
    let mut bob = connect(&server).await;
    said(&mut ann, "CREATE TEMP TABLE own (a INT)").await;
    said(&mut ann, "SET TIME ZONE 'Europe/Berlin'").await;
    said(&mut ann, "SET statement_timeout = '7s'").await;
    assert_eq!(said(&mut ann, "SELECT count(*) FROM own").await, "0");
    assert_eq!(said(&mut ann, "SHOW timezone").await, "Europe/Berlin");
    assert_eq!(said(&mut ann, "SHOW statement_timeout").await, "7s");
    assert_eq!(fails(&mut bob, "SELECT * FROM own").await.0, "42P01");
    assert_eq!(said(&mut bob, "SHOW statement_timeout").await, "0");
    assert_eq!(said(&mut bob, "SELECT count(*) FROM system.sessions WHERE door = 'flight'").await, "2");
    drop(ann);
    while said(&mut bob, "SELECT count(*) FROM system.sessions WHERE door = 'flight'").await != "1" {}
    // Options of the session are settings.
    let text = |text: &str| SessionOptionValue { value: Some(OptionValue::Text(text.to_owned())) };
    let options =
        [("schema", text("s")), ("lock_timeout", text("3s")), ("nonsense", text("1")), ("catalog", text("x"))];
    let options = options.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let set = SetSessionOptionsRequest { options }.encode_to_vec();
    let set = act(&mut bob, "SetSessionOptions", set).await.unwrap();
    let errors = SetSessionOptionsResult::decode(set[0].clone()).unwrap().errors;
    assert_eq!(
        (errors.len(), errors["nonsense"].value, errors["catalog"].value),
        (2, OptionError::NAME, OptionError::VALUE)
    );
    let known = act(&mut bob, "GetSessionOptions", vec![]).await.unwrap();
    let known = GetSessionOptionsResult::decode(known[0].clone()).unwrap().options;
    assert_eq!(
        (&known["schema"], &known["lock_timeout"], &known["catalog"]),
        (&text("s"), &text("3s"), &text("diligence"))
    );
    assert_eq!(failed(act(&mut bob, "Nonsense", vec![]).await.unwrap_err()), state("0A000", Code::Unimplemented));
}

#[tokio::test]
async fn who_has_logged_in_has_a_token_for_a_session() {
    let users = "[users.ann]\npassword = 'pw'\n[roles.some]\ntables = ['public.seen']\nresult_rows_max = 2\n\
                 [users.bob]\npassword = 'x'\nrole = 'some'";
    let server = serve_with(Some(users)).await;
    let mut ann = connect(&server).await;
    assert_eq!(fails(&mut ann, "SELECT 1").await, state("28000", Code::Unauthenticated));
    assert!(ann.handshake("ann", "wrong").await.is_err() && ann.handshake("eve", "pw").await.is_err());
    ann.handshake("ann", "pw").await.unwrap();
    let token = ann.token().unwrap().clone();
    said(&mut ann, "CREATE TEMP TABLE own (a INT)").await;
    for table in ["seen", "hidden"] {
        said(&mut ann, &format!("CREATE TABLE {table} AS SELECT * FROM generate_series(1, 3) s(a)")).await;
    }
    assert_eq!(said(&mut ann, "SELECT current_user, count(*) FROM own").await, "ann,0");
    // Over another connection it is the same session.
    let mut again = connect(&server).await;
    again.set_token(token.clone());
    assert_eq!(said(&mut again, "SELECT count(*) FROM own").await, "0");
    drop(ann);
    assert_eq!(said(&mut again, "SELECT count(*) FROM own").await, "0");
    // Until it is closed.
    let closed = act(&mut again, "CloseSession", vec![]).await.unwrap();
    assert_eq!(CloseSessionResult::decode(closed[0].clone()).unwrap().status, CloseSessionResult::CLOSED);
    assert_eq!(fails(&mut again, "SELECT 1").await, state("28P01", Code::Unauthenticated));
    // A password does as well, with each call.
    let mut bob = connect(&server).await;
    bob.set_header("authorization", "Basic Ym9iOng=");
    assert_eq!(said(&mut bob, "SELECT count(*) FROM seen").await, "3");
    assert_eq!(fails(&mut bob, "SELECT * FROM hidden").await, state("42501", Code::PermissionDenied));
    assert_eq!(fails(&mut bob, "INSERT INTO seen VALUES (4)").await, state("42501", Code::PermissionDenied));
    assert_eq!(fails(&mut bob, "SELECT * FROM seen").await, state("54000", Code::ResourceExhausted));
    let (command, rows) = ingestion("seen", TableNotExistOption::Fail, TableExistsOption::Append, vec![1]);
    assert_eq!(failed(bob.execute_ingest(command, rows).await.unwrap_err()), state("42501", Code::PermissionDenied));
    let mut eve = connect(&server).await;
    eve.set_token("guessed".to_owned());
    assert_eq!(fails(&mut eve, "SELECT 1").await, state("28P01", Code::Unauthenticated));
    assert!(server.drain().await);
}

#[tokio::test]
async fn a_session_has_one_transaction_and_all_its_statements_are_in_it() {
    let (server, mut ann) = one().await;
    let mut bob = connect(&server).await;
    said(&mut ann, "CREATE TABLE t (a BIGINT)").await;
    let transaction = ann.begin_transaction().await.unwrap();
    let named = Some(transaction.clone());
    assert_eq!(ann.execute_update("INSERT INTO t VALUES (1)".into(), named.clone()).await.unwrap(), 1);
    assert_eq!(
        (said(&mut ann, "SELECT sum(a) FROM t").await, said(&mut bob, "SELECT sum(a) FROM t").await),
        ("1".into(), "NULL".into())
    );
    assert_eq!(failed(bob.execute("SELECT 1".into(), named.clone()).await.unwrap_err()).0, "25P01");
    assert_eq!(failed(ann.begin_transaction().await.unwrap_err()), state("25001", Code::FailedPrecondition));
    // PostgreSQL only warns.
    said(&mut ann, "BEGIN").await;
    ann.end_transaction(transaction.clone(), EndTransaction::Commit).await.unwrap();
    assert_eq!(said(&mut bob, "SELECT sum(a) FROM t").await, "1");
    assert_eq!(failed(ann.execute("SELECT 1".into(), named).await.unwrap_err()).0, "25P01");
    // What has failed is not committed, and says so; its settings go with it.
    let transaction = ann.begin_transaction().await.unwrap();
    said(&mut ann, "INSERT INTO t VALUES (10)").await;
    said(&mut ann, "SET statement_timeout = '9s'").await;
    assert_eq!(fails(&mut ann, "SELECT nothing").await.0, "42703");
    for sql in ["SELECT 1", "INSERT INTO t VALUES (11)", "SET jit = on"] {
        assert_eq!(fails(&mut ann, sql).await, state("25P02", Code::FailedPrecondition), "{sql}");
    }
    let commit = ann.end_transaction(transaction.clone(), EndTransaction::Commit).await;
    assert_eq!(failed(commit.unwrap_err()), state("25P02", Code::FailedPrecondition));
    // It is over; clients may roll back what they could not commit.
    ann.end_transaction(transaction.clone(), EndTransaction::Rollback).await.unwrap();
    assert_eq!(failed(ann.end_transaction(transaction, EndTransaction::Commit).await.unwrap_err()).0, "25P01");
    assert_eq!(said(&mut ann, "SELECT sum(a) FROM t").await, "1");
    assert_eq!(said(&mut ann, "SHOW statement_timeout").await, "0");
    // Savepoints, by actions and by statements.
    let transaction_id = ann.begin_transaction().await.unwrap();
    said(&mut ann, "INSERT INTO t VALUES (100)").await;
    let begin = ActionBeginSavepointRequest { transaction_id: transaction_id.clone(), name: "s".into() };
    let begun = act(&mut ann, "BeginSavepoint", begin.as_any().encode_to_vec()).await.unwrap();
    let begun: ActionBeginSavepointResult = Any::decode(begun[0].clone()).unwrap().unpack().unwrap().unwrap();
    said(&mut ann, "INSERT INTO t VALUES (1000)").await;
    assert_eq!(fails(&mut ann, "SELECT nothing").await.0, "42703");
    let back = ActionEndSavepointRequest { savepoint_id: begun.savepoint_id, action: 2 };
    act(&mut ann, "EndSavepoint", back.as_any().encode_to_vec()).await.unwrap();
    assert_eq!(said(&mut ann, "SELECT sum(a) FROM t").await, "101");
    for sql in ["SAVEPOINT x", "DELETE FROM t", "ROLLBACK TO x", "COMMIT"] {
        said(&mut ann, sql).await;
    }
    assert_eq!(said(&mut bob, "SELECT sum(a) FROM t").await, "101");
    // One that is read-only, and one whose client has left.
    for sql in ["BEGIN READ ONLY", "SELECT 1"] {
        said(&mut ann, sql).await;
    }
    assert_eq!(fails(&mut ann, "DELETE FROM t").await, state("25006", Code::FailedPrecondition));
    for sql in ["ROLLBACK", "BEGIN", "DELETE FROM t"] {
        said(&mut ann, sql).await;
    }
    drop(ann);
    // It waits for the rows that were locked.
    assert_eq!(bob.execute_update("UPDATE t SET a = a + 1".into(), None).await.unwrap(), 2);
    assert_eq!(said(&mut bob, "SELECT sum(a) FROM t").await, "103");
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

#[tokio::test]
async fn prepared_statements_are_run_with_each_row_of_values() {
    let (_server, mut ann) = one().await;
    said(&mut ann, "CREATE TABLE t (a INT PRIMARY KEY, b TEXT, d DATE)").await;
    let mut insert = ann.prepare("INSERT INTO t VALUES ($1, $2, $3)".into(), None).await.unwrap();
    let types = insert.parameter_schema().unwrap().fields().iter().map(|field| field.data_type().clone());
    assert_eq!(types.collect::<Vec<_>>(), [DataType::Int32, DataType::Utf8View, DataType::Date32]);
    assert_eq!(insert.dataset_schema().unwrap().fields().len(), 0);
    let error = insert.execute_update().await.unwrap_err();
    assert_eq!(failed(error), state("08P01", Code::InvalidArgument));
    let values = |numbers: Vec<i64>| {
        let texts =
            numbers.iter().map(|number| (number % 2 == 0).then(|| format!("t{number}"))).collect::<StringArray>();
        let days = StringArray::from(vec!["2024-02-29"; numbers.len()]);
        batch(vec![
            ("x", Arc::new(Int64Array::from(numbers)) as ArrayRef),
            ("y", Arc::new(texts)),
            ("z", Arc::new(days)),
        ])
    };
    insert.set_parameters(values((1..=100).collect())).unwrap();
    assert_eq!(insert.execute_update().await.unwrap(), 100);
    // All of them or none.
    insert.set_parameters(values(vec![101, 102, 50, 103])).unwrap();
    assert_eq!(failed(insert.execute_update().await.unwrap_err()), state("23505", Code::AlreadyExists));
    insert.set_parameters(values(vec![1 << 40])).unwrap();
    assert_eq!(failed(insert.execute_update().await.unwrap_err()), state("22003", Code::InvalidArgument));
    insert.close().await.unwrap();
    assert_eq!(said(&mut ann, "SELECT count(*), count(b), max(d)::text FROM t").await, "100,50,2024-02-29");
    // A query with several rows of values gives the rows of all.
    let mut select = ann.prepare("SELECT a, b FROM t WHERE a = $1".into(), None).await.unwrap();
    assert_eq!(select.dataset_schema().unwrap().fields().len(), 2);
    select.set_parameters(batch(vec![("x", Arc::new(Int32Array::from(vec![7, 500, 8])) as ArrayRef)])).unwrap();
    let info = select.execute().await.unwrap();
    assert_eq!(texts(&fetch(&mut ann, info).await.unwrap()), "7,NULL;8,t8");
    select.set_parameters(batch(vec![("x", Arc::new(Int32Array::from(Vec::<i32>::new())) as ArrayRef)])).unwrap();
    let info = select.execute().await.unwrap();
    assert_eq!(fetch(&mut ann, info).await.unwrap().len(), 0);
    // Where the statement leaves the type open, it is the client's.
    let mut open = ann.prepare("SELECT $1 AS v".into(), None).await.unwrap();
    open.set_parameters(batch(vec![("x", Arc::new(Int64Array::from(vec![42])) as ArrayRef)])).unwrap();
    let info = open.execute().await.unwrap();
    let rows = fetch(&mut ann, info).await.unwrap();
    assert_eq!(rows[0].column(0).as_primitive::<Int64Type>().value(0), 42);
    let mut text = ann.prepare("SELECT a FROM t WHERE b = $1".into(), None).await.unwrap();
    text.set_parameters(batch(vec![("x", Arc::new(StringArray::from(vec!["t8"])) as ArrayRef)])).unwrap();
    let info = text.execute().await.unwrap();
    assert_eq!(texts(&fetch(&mut ann, info).await.unwrap()), "8");
}

/// An ingestion of numbers, in batches of thousand.
fn ingestion(
    table: &str,
    if_not_exist: TableNotExistOption,
    if_exists: TableExistsOption,
    numbers: Vec<i64>,
) -> (CommandStatementIngest, impl futures::Stream<Item = Result<RecordBatch, FlightError>> + Send + 'static) {
    let options = TableDefinitionOptions { if_not_exist: if_not_exist as i32, if_exists: if_exists as i32 };
    let command = CommandStatementIngest {
        table_definition_options: Some(options),
        table: table.to_owned(),
        schema: None,
        catalog: None,
        temporary: false,
        transaction_id: None,
        options: Default::default(),
    };
    let batches = numbers.chunks(1000).map(|numbers| {
        let texts = StringArray::from_iter_values(numbers.iter().map(i64::to_string));
        Ok(batch(vec![("a", Arc::new(Int64Array::from(numbers.to_vec())) as ArrayRef), ("b", Arc::new(texts))]))
    });
    (command, futures::stream::iter(batches.collect::<Vec<_>>()))
}

#[tokio::test]
async fn rows_are_ingested_all_or_none() {
    use TableExistsOption::{Append, Fail, Replace};
    use TableNotExistOption::{Create, Fail as Absent};
    let (server, mut ann) = one().await;
    let mut bob = connect(&server).await;
    let many = (0..20_000).collect::<Vec<i64>>();
    let sum = "SELECT count(*), sum(a), max(length(b)) FROM t";
    for (absent, exists, expected) in [
        (Absent, Append, Err("42P01")),
        (Create, Fail, Ok("20000,199990000,5")),
        (Create, Fail, Err("42P07")),
        (Absent, Append, Ok("40000,399980000,5")),
        (Create, Append, Ok("60000,599970000,5")),
        (Create, Replace, Ok("20000,199990000,5")),
    ] {
        let (command, rows) = ingestion("t", absent, exists, many.clone());
        match (ann.execute_ingest(command, rows).await, expected) {
            (Ok(count), Ok(expected)) => {
                assert_eq!(count, 20_000);
                assert_eq!(said(&mut bob, sum).await, expected);
            }
            (Err(error), Err(code)) => assert_eq!(failed(error).0, code),
            (other, _) => panic!("{absent:?} {exists:?}: {other:?}"),
        }
    }
    // A table that refuses a row has none of them; one that was to be made, or replaced, is as it was.
    said(&mut ann, "CREATE TABLE small (a SMALLINT CHECK (a < 30000), b TEXT)").await;
    let (command, rows) = ingestion("small", Absent, Append, many.iter().map(|number| number * 2).collect());
    let code = failed(ann.execute_ingest(command, rows).await.unwrap_err()).0;
    assert!(["23514", "22003"].contains(&code.as_str()), "{code}");
    assert_eq!(said(&mut ann, "SELECT count(*) FROM small").await, "0");
    let (mut command, rows) = ingestion("t", Create, Replace, many.clone());
    command.catalog = Some("other".into());
    assert_eq!(failed(ann.execute_ingest(command, rows).await.unwrap_err()).0, "3D000");
    for (table, expected) in [("t", "20000"), ("new", "none")] {
        // Rows, and then what nobody can read.
        let (command, rows) = ingestion(table, Create, Replace, many[..2000].to_vec());
        let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
        let messages = FlightDataEncoderBuilder::new().with_flight_descriptor(Some(descriptor)).build(rows);
        let mut messages = messages.try_collect::<Vec<_>>().await.unwrap();
        messages.push(FlightData { data_header: Bytes::from_static(b"nonsense"), ..FlightData::default() });
        let error = ann.do_put(futures::stream::iter(messages)).await.unwrap_err();
        assert_eq!(failed(error), state("08P01", Code::InvalidArgument));
        match query(&mut ann, &format!("SELECT count(*) FROM {table}")).await {
            Ok(rows) => assert_eq!(texts(&rows), expected),
            Err(error) => assert_eq!((failed(error).0.as_str(), expected), ("42P01", "none")),
        }
    }
    // Temporary tables, schemas, transactions.
    let (mut command, rows) = ingestion("own", Create, Fail, vec![1, 2]);
    command.temporary = true;
    assert_eq!(ann.execute_ingest(command, rows).await.unwrap(), 2);
    assert_eq!(said(&mut ann, "SELECT sum(a) FROM own").await, "3");
    assert_eq!(fails(&mut bob, "SELECT * FROM own").await.0, "42P01");
    said(&mut ann, "CREATE SCHEMA s").await;
    let transaction = ann.begin_transaction().await.unwrap();
    let (mut command, rows) = ingestion("t", Create, Fail, vec![5]);
    (command.schema, command.transaction_id) = (Some("s".into()), Some(transaction.clone()));
    assert_eq!(ann.execute_ingest(command, rows).await.unwrap(), 1);
    assert_eq!(
        (said(&mut ann, "SELECT sum(a) FROM s.t").await, fails(&mut bob, "SELECT * FROM s.t").await.0),
        ("5".into(), "42P01".into())
    );
    ann.end_transaction(transaction, EndTransaction::Rollback).await.unwrap();
    assert_eq!(fails(&mut ann, "SELECT * FROM s.t").await.0, "42P01");
    let (command, rows) = ingestion("small", Absent, Append, vec![]);
    let rows =
        rows.chain(futures::stream::iter([Ok(batch(vec![("c", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]))]));
    assert_eq!(failed(ann.execute_ingest(command, rows).await.unwrap_err()).0, "42703");
}

#[tokio::test]
async fn the_catalog_is_told() {
    let (_server, mut ann) = one().await;
    for sql in [
        "CREATE TABLE parents (id INT PRIMARY KEY, name TEXT)",
        "CREATE TABLE children (parent INT REFERENCES parents (id) ON DELETE CASCADE, number INT, \
             PRIMARY KEY (parent, number))",
        "CREATE VIEW both_kinds AS SELECT * FROM parents",
        "CREATE TEMP TABLE passing (a INT)",
        "CREATE SCHEMA other",
    ] {
        said(&mut ann, sql).await;
    }
    let info = ann.get_catalogs().await.unwrap();
    assert_eq!(texts(&fetch(&mut ann, info).await.unwrap()), "diligence");
    let schemas = CommandGetDbSchemas { catalog: None, db_schema_filter_pattern: Some("%o%er".into()) };
    let info = ann.get_db_schemas(schemas).await.unwrap();
    assert_eq!(texts(&fetch(&mut ann, info).await.unwrap()), "diligence,other");
    let asked = |pattern: &str, types: &[&str], include_schema| CommandGetTables {
        catalog: Some("diligence".into()),
        db_schema_filter_pattern: None,
        table_name_filter_pattern: Some(pattern.into()),
        table_types: types.iter().map(|name| (*name).to_owned()).collect(),
        include_schema,
    };
    for (pattern, types, expected) in [
        ("%aren%", vec![], "diligence,public,parents,TABLE"),
        ("p_s%", vec!["TEMPORARY TABLE"], "diligence,pg_temp"),
        ("b%", vec!["VIEW"], "diligence,public,both_kinds,VIEW"),
        ("b%", vec!["TABLE"], ""),
    ] {
        let info = ann.get_tables(asked(pattern, &types, false)).await.unwrap();
        let found = texts(&fetch(&mut ann, info).await.unwrap());
        assert!(found.starts_with(expected) && found.is_empty() == expected.is_empty(), "{pattern}: {found}");
    }
    let info = ann.get_tables(asked("children", &[], true)).await.unwrap();
    let rows = fetch(&mut ann, info).await.unwrap();
    let schema = rows[0].column(4).as_binary::<i32>().value(0);
    let schema = Schema::try_from(IpcMessage(Bytes::copy_from_slice(schema))).unwrap();
    let column = schema.field(0);
    assert_eq!((column.name().as_str(), column.data_type()), ("parent", &DataType::Int32));
    assert_eq!(column.metadata()["ARROW:FLIGHT:SQL:TYPE_NAME"], "integer");
    let keys = CommandGetPrimaryKeys { catalog: None, db_schema: None, table: "children".into() };
    let info = ann.get_primary_keys(keys).await.unwrap();
    let expected = "diligence,public,children,parent,children_pkey,1;diligence,public,children,number,children_pkey,2";
    assert_eq!(texts(&fetch(&mut ann, info).await.unwrap()), expected);
    let keys = CommandGetExportedKeys { catalog: None, db_schema: Some("public".into()), table: "parents".into() };
    let info = ann.get_exported_keys(keys).await.unwrap();
    let rows = fetch(&mut ann, info).await.unwrap();
    let expected =
        "diligence,public,parents,id,diligence,public,children,parent,1,children_parent_fkey,parents_pkey,3,0";
    assert_eq!(texts(&rows), expected);
    let info = ann.get_sql_info(vec![SqlInfo::FlightSqlServerName, SqlInfo::FlightSqlServerCancel]).await.unwrap();
    assert_eq!(fetch(&mut ann, info).await.unwrap()[0].num_rows(), 2);
}

/// How many queries run beside the one that asks.
async fn running(client: &mut Client) -> String {
    let sql = "SELECT count(*) FROM system.queries WHERE state = 'running' AND statement NOT LIKE '%system.queries%'";
    said(client, sql).await
}

#[tokio::test]
async fn a_query_ends_with_its_stream_or_when_it_is_told() {
    let (server, mut ann) = one().await;
    let mut bob = connect(&server).await;
    // A stream that is dropped between its rows.
    let info = ann.execute("SELECT i FROM generate_series(1::bigint, 1000000000) s(i)".into(), None).await.unwrap();
    let mut stream = ann.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    assert!(stream.next().await.unwrap().unwrap().num_rows() > 0);
    assert_eq!(running(&mut bob).await, "1");
    drop(stream);
    while running(&mut bob).await != "0" {}
    // A call that is given up before the first row.
    let info = ann.execute(ENDLESS.into(), None).await.unwrap();
    let mut own = FlightSqlServiceClient::new_from_inner(ann.inner().clone());
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let call = tokio::spawn(async move { own.do_get(ticket).await.map(drop) });
    while running(&mut bob).await != "1" {}
    call.abort();
    while running(&mut bob).await != "0" {}
    // One that is told to end.
    let info = ann.execute(ENDLESS.into(), None).await.unwrap();
    let mut own = FlightSqlServiceClient::new_from_inner(ann.inner().clone());
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let call = tokio::spawn(async move { own.do_get(ticket).await.map(drop) });
    while running(&mut bob).await != "1" {}
    let mut cancelled = async |info: &FlightInfo| {
        let body = CancelFlightInfoRequest::new(info.clone()).encode_to_vec();
        let told = act(&mut ann, "CancelFlightInfo", body).await.unwrap();
        CancelFlightInfoResult::decode(told[0].clone()).unwrap().status
    };
    assert_eq!(cancelled(&info).await, CancelStatus::Cancelled as i32);
    assert_eq!(failed(call.await.unwrap().unwrap_err()), state("57014", Code::Cancelled));
    assert_eq!(cancelled(&info).await, CancelStatus::NotCancellable as i32);
    // One that takes longer than it may.
    said(&mut ann, "SET statement_timeout = '50ms'").await;
    assert_eq!(fails(&mut ann, ENDLESS).await, state("57014", Code::Cancelled));
    // One that is running when the server ends.
    said(&mut ann, "SET statement_timeout = 0").await;
    let call = tokio::spawn(async move { query(&mut ann, ENDLESS).await.map(drop) });
    while running(&mut bob).await != "1" {}
    server.stop().await;
    assert!(call.await.unwrap().is_err());
}

#[tokio::test]
async fn large_results_come_whole_in_messages_that_any_client_takes() {
    let (_server, mut ann) = one().await;
    let sql = "SELECT i, repeat('x', 100) || i FROM generate_series(1, 300000) s(i)";
    let rows = query(&mut ann, sql).await.unwrap();
    assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 300_000);
    // The client takes 4 MiB at a time.
    let rows = query(&mut ann, "SELECT repeat('x', 1000000) || i FROM generate_series(1, 40) s(i)").await.unwrap();
    assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 40);
}

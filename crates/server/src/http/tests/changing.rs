//! Endpoints that change something, and those that show it.

use serde_json::json;

use super::Door;

const SHOP: [&str; 3] = [
    "CREATE TABLE items (id BIGINT PRIMARY KEY, name TEXT NOT NULL, stock BIGINT CHECK (stock >= 0))",
    "CREATE TABLE orders (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item BIGINT REFERENCES items, amount BIGINT)",
    "INSERT INTO items VALUES (1, 'pen', 10), (2, 'ink', 3)",
];

const ENDPOINTS: [(&str, &str); 8] = [
    ("list.sql", "-- endpoint: GET /api/items\nSELECT id, name, stock FROM items ORDER BY id"),
    (
        "scarce.sql",
        "-- endpoint: GET /api/scarce\n-- param: least integer = 5\nSELECT name FROM scarce WHERE stock < $least",
    ),
    ("other.sql", "-- endpoint: GET /api/other\nSELECT count(*) AS n FROM other"),
    (
        "order.sql",
        "-- endpoint: POST /api/orders\n-- param: item integer\n-- param: amount integer = 1\n-- status: 201\n\
         INSERT INTO orders (item, amount) VALUES ($item, $amount) RETURNING id, amount;\n\
         UPDATE items SET stock = stock - $amount WHERE id = $item",
    ),
    (
        "item.sql",
        "-- endpoint: PUT /api/items/{id}\n-- param: id integer\n-- param: name text\n-- param: stock integer = null\n\
         -- body: 100\nINSERT INTO items VALUES ($id, $name, $stock)",
    ),
    (
        "renamed.sql",
        "-- endpoint: PATCH /api/items/{id}\n-- param: id integer\n-- param: name text\n-- status: 204\n\
         UPDATE items SET name = $name WHERE id = $id",
    ),
    ("gone.sql", "-- endpoint: DELETE /api/items/{id}\n-- param: id integer\nDELETE FROM items WHERE id = $id"),
    ("one.sql", "-- endpoint: GET /api/items/{id}\n-- param: id integer\nSELECT name FROM items WHERE id = $id"),
];

async fn shop(is_kept: bool) -> Door {
    let door = Door::open(is_kept, &ENDPOINTS, None).await;
    door.run(&SHOP);
    door.run(&["CREATE VIEW scarce AS SELECT name, stock FROM items", "CREATE TABLE other AS SELECT 1 AS a"]);
    door
}

#[tokio::test]
async fn a_page_changes_with_what_is_sent_and_then_stays() {
    for is_kept in [false, true] {
        let door = shop(is_kept).await;
        let first = door.get("/api/items", &[]).await;
        assert_eq!((first.status, first.rows()), (200, json!([[1, "pen", 10], [2, "ink", 3]])));
        let scarce = door.get("/api/scarce", &[]).await;
        let other = door.get("/api/other", &[]).await;
        let shows = async |path: &str, tag: &str| door.get(path, &[("If-None-Match", tag)]).await.status;
        let worked = |door: &Door| door.server.execution().stages().iter().map(|stage| stage.done_total).sum::<u64>();
        // What was asked before may be counted only now: one of several times nothing is.
        let mut is_idle = false;
        for _ in 0..10 {
            let before = worked(&door);
            for _ in 0..3 {
                assert_eq!(shows("/api/items", first.tag()).await, 304);
                assert_eq!(shows("/api/scarce", scarce.tag()).await, 304);
            }
            is_idle |= worked(&door) == before;
        }
        assert!(is_idle, "the versions of the tables are all that was looked at");
        let ordered = door.send("POST /api/orders", r#"{"item": 1, "amount": 4}"#).await;
        assert_eq!((ordered.status, ordered.rows()), (201, json!([[1, 4]])), "{ordered:?}");
        // What reads the table has changed, also through a view; nothing else has.
        let second = door.get("/api/items", &[("If-None-Match", first.tag())]).await;
        assert_eq!((second.status, second.rows()[0].clone()), (200, json!([1, "pen", 6])));
        assert_eq!(shows("/api/scarce", scarce.tag()).await, 200);
        assert_eq!(shows("/api/other", other.tag()).await, 304);
        let head = door.ask("HEAD /api/items", &[], "").await;
        assert_eq!((head.status, head.tag(), head.body.as_str()), (200, second.tag(), ""));
        // What fails changes nothing, nor does what finds no row, nor what the database does by itself.
        let failed = door.send("POST /api/orders", r#"{"item": 1, "amount": 7}"#).await;
        assert_eq!((failed.status, failed.code()), (422, "23514".to_owned()), "{failed:?}");
        assert_eq!(door.get("/api/items/1", &[]).await.rows(), json!([["pen"]]));
        let nothing = door.send("DELETE /api/items/77", "").await;
        assert_eq!((nothing.status, nothing.json()), (200, json!({ "command": "DELETE", "rows": 0 })));
        door.run(&["CHECKPOINT", "INSERT INTO other VALUES (2)"]);
        for _ in 0..3 {
            assert_eq!(shows("/api/items", second.tag()).await, 304);
        }
        assert_eq!(shows("/api/other", other.tag()).await, 200);
        assert_eq!(door.get("/api/other", &[]).await.rows(), json!([[2]]));
        let orders = door.database.session().execute("SELECT * FROM orders").unwrap().collect().unwrap();
        assert_eq!(orders.iter().map(|rows| rows.num_rows()).sum::<usize>(), 1);
        door.close().await;
    }
}

#[tokio::test]
async fn what_the_tables_refuse_has_its_status() {
    let door = shop(false).await;
    door.run(&["INSERT INTO orders (item, amount) VALUES (2, 1)"]);
    for (line, body, status, code, constraint) in [
        ("PUT /api/items/1", r#"{"name": "pen"}"#, 409, "23505", json!("items_pkey")),
        ("POST /api/orders", r#"{"item": 9}"#, 409, "23503", json!("orders_item_fkey")),
        ("DELETE /api/items/2", "", 409, "23503", json!("orders_item_fkey")),
        ("PUT /api/items/3", r#"{"name": null}"#, 422, "23502", json!(null)),
        ("PUT /api/items/3", r#"{"name": "x", "stock": -1}"#, 422, "23514", json!("items_stock_check")),
        ("PUT /api/items/x", r#"{"name": "x"}"#, 400, "22P02", json!(null)),
        ("PUT /api/items/3", r#"{}"#, 400, "22023", json!(null)),
        ("PUT /api/items/3?typo=1", r#"{"name": "x"}"#, 400, "22023", json!(null)),
    ] {
        let answer = door.send(line, body).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{line} {body} {answer:?}");
        assert_eq!(answer.json()["error"]["constraint"], constraint, "{line} {body}");
    }
    let answer = door.send("PUT /api/items/3", r#"{"name": "x"}"#).await;
    assert_eq!(answer.json(), json!({ "command": "INSERT", "rows": 1 }));
    let answer = door.send("PATCH /api/items/3", r#"{"name": "y"}"#).await;
    assert_eq!((answer.status, answer.body.as_str(), answer.header("content-type")), (204, "", None));
    assert_eq!(door.get("/api/items/3", &[]).await.rows(), json!([["y"]]));
    door.close().await;
}

#[tokio::test]
async fn requests_that_do_not_fit_are_refused() {
    let door = shop(false).await;
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let json = ("Content-Type", "application/json");
    let (large, order) = (format!(r#"{{"name": "{}"}}"#, "x".repeat(100)), r#"{"item": 1}"#);
    for (line, headers, body, status) in [
        ("POST /api/orders", vec![form], "item=1&amount=2", 201),
        ("POST /api/orders?amount=2", vec![json], order, 201),
        ("POST /api/orders?item=1", vec![], "", 201),
        ("POST /api/orders", vec![("Content-Type", "text/plain")], order, 415),
        ("PUT /api/items/3", vec![json], large.as_str(), 413),
        ("POST /api/orders", vec![json, ("Accept", "image/png")], order, 406),
        ("POST /api/orders?format=html", vec![json], order, 406),
        // Pages of this server may, those of others may not, whatever they send.
        ("POST /api/orders", vec![form, ("Sec-Fetch-Site", "same-origin")], "item=1", 201),
        ("POST /api/orders", vec![form, ("Sec-Fetch-Site", "cross-site")], "item=1", 403),
        ("POST /api/orders", vec![form, ("Origin", "http://evil.example")], "item=1", 403),
        ("DELETE /api/items/2", vec![("Origin", "null")], "", 403),
        ("GET /api/items", vec![("Sec-Fetch-Site", "cross-site")], "", 200),
        ("GET /api/items/", vec![], "", 404),
    ] {
        let answer = door.ask(line, &headers, body).await;
        assert_eq!(answer.status, status, "{line} {headers:?} {answer:?}");
    }
    for (line, status, allowed) in [
        ("POST /api/items", 405, "GET, HEAD, OPTIONS"),
        ("TRACE /api/orders", 405, "POST, OPTIONS"),
        ("GET /api/orders", 405, "POST, OPTIONS"),
        ("OPTIONS /api/items/1", 204, "DELETE, PUT, GET, PATCH, HEAD, OPTIONS"),
    ] {
        let answer = door.ask(line, &[], "").await;
        assert_eq!((answer.status, answer.header("allow")), (status, Some(allowed)), "{line}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    assert_eq!(door.get("/api/items", &[]).await.rows()[0], json!([1, "pen", 4]), "six of ten are sold");
    door.close().await;
}

#[tokio::test]
async fn files_that_make_no_sense_together_are_told_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("a.sql", "-- endpoint: PUT /api/{id}/x\n-- param: id integer\nSELECT $id");
    write("b.sql", "-- endpoint: GET /api/{name}/x\n-- param: name text\nSELECT $name");
    assert_eq!(super::super::endpoints::Endpoints::read(Some(folder.path())).unwrap().routes().len(), 1);
    write("c.sql", "-- endpoint: PUT /api/{name}/x\n-- param: name text\nSELECT $name");
    let error = super::super::endpoints::Endpoints::read(Some(folder.path())).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("PUT /api/{id}/x"), "{error}");
}

#[tokio::test]
async fn who_may_call_an_endpoint_may_change_what_it_changes_and_no_more() {
    let users = "[roles.buyer]\nendpoints = ['/api/orders', 'GET /api/*']\n[users.ann]\npassword = 'x'\nrole = 'buyer'";
    let door = Door::open(false, &ENDPOINTS, Some(users)).await;
    door.run(&SHOP);
    let ann = ("Authorization", "Basic YW5uOng=");
    let json = ("Content-Type", "application/json");
    for (line, headers, body, status) in [
        ("POST /api/orders", vec![ann, json], r#"{"item": 1}"#, 201),
        ("POST /api/orders", vec![json], r#"{"item": 1}"#, 401),
        ("POST /api/orders", vec![ann, json, ("Origin", "http://evil.example")], r#"{"item": 1}"#, 403),
        ("GET /api/items", vec![ann], "", 200),
        ("DELETE /api/items/1", vec![ann], "", 403),
        ("POST /v1/sql", vec![ann, json], r#"{"sql": "INSERT INTO orders (item) VALUES (1)"}"#, 403),
        ("POST /v1/sql", vec![ann, json], r#"{"sql": "DELETE FROM orders", "transaction": true}"#, 403),
    ] {
        let answer = door.ask(line, &headers, body).await;
        assert_eq!(answer.status, status, "{line} {headers:?} {answer:?}");
    }
    // A plan that the endpoint has left is no right of the caller.
    for _ in 0..3 {
        assert_eq!(door.ask("POST /api/orders", &[ann, json], r#"{"item": 1}"#).await.status, 201);
        let sql = r#"{"sql": "UPDATE items SET stock = stock - $1 WHERE id = $2", "parameters": [1, 1]}"#;
        assert_eq!(door.ask("POST /v1/sql", &[ann, json], sql).await.status, 403);
    }
    door.close().await;
}

#[tokio::test]
async fn a_browser_goes_on_where_the_file_says() {
    let file = "-- endpoint: POST /notes\n-- param: name text\n-- redirect: /notes/{id}?of={name}\n-- status: 201\n\
                INSERT INTO notes (name) SELECT $name WHERE $name <> 'none' RETURNING id";
    let door = Door::open(false, &[("note.sql", file)], None).await;
    door.run(&["CREATE TABLE notes (id BIGINT GENERATED ALWAYS AS IDENTITY, name TEXT)"]);
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let browser = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    let sent = door.ask("POST /notes", &[form, browser], "name=a+b").await;
    assert_eq!((sent.status, sent.header("location")), (303, Some("/notes/1?of=a%20b")), "{sent:?}");
    let sent = door.ask("POST /notes", &[form], "name=c").await;
    assert_eq!((sent.status, sent.rows()), (201, json!([[2]])), "{sent:?}");
    let sent = door.ask("POST /notes", &[form, browser], "name=none").await;
    assert_eq!(sent.status, 400, "there is no id: {sent:?}");
    door.close().await;
}

#[tokio::test]
async fn a_template_makes_a_page_of_what_was_done_or_nothing_is_done() {
    let files = [
        (
            "new.sql",
            "-- endpoint: POST /new\n-- param: name text\n-- template: new.html\n\
                     INSERT INTO notes VALUES ($name) RETURNING upper(name) AS name; SELECT count(*) AS n FROM notes",
        ),
        ("new.html", "{% for row in rows %}{{ parameters.name }}: {{ row.n }}{{ row.n / row.absent }}{% endfor %}"),
        ("few.sql", "-- endpoint: POST /few\n-- template: few.html\nDELETE FROM notes"),
        ("few.html", "<p>{{ rows | length }} {{ columns | length }}</p>"),
    ];
    let door = Door::open(false, &files, None).await;
    door.run(&["CREATE TABLE notes (name TEXT)", "INSERT INTO notes VALUES ('a')"]);
    let html = ("Accept", "text/html");
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let page = door.ask("POST /new", &[html, form], "name=b").await;
    assert_eq!(page.status, 400, "the template divides by nothing: {page:?}");
    let rows = door.ask("POST /new", &[form], "name=b").await;
    assert_eq!(rows.rows(), json!([[2]]), "the page that was not made has left nothing");
    let page = door.ask("POST /few", &[html], "").await;
    assert_eq!((page.status, page.body.as_str()), (200, "<p>0 0</p>"));
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    door.close().await;
}

//! Files beside the endpoints.

use super::Door;

const FILES: [(&str, &str); 6] = [
    ("list.sql", "-- endpoint: GET /api/list\nSELECT 1 AS a"),
    ("public/index.html", "<p>first</p>"),
    ("public/shop/index.html", "<p>shop</p>"),
    ("public/shop/style.CSS", "p { color: red }"),
    ("public/.hidden", "secret"),
    ("public/data", "bytes"),
];

#[tokio::test]
async fn files_are_served_and_nothing_else() {
    let door = Door::open(false, &FILES, None).await;
    for (path, kind, body) in [
        ("/index.html", "text/html; charset=utf-8", "<p>first</p>"),
        ("/shop/", "text/html; charset=utf-8", "<p>shop</p>"),
        ("/shop/style.CSS", "text/css; charset=utf-8", "p { color: red }"),
        ("/shop/style%2ECSS?x=1", "text/css; charset=utf-8", "p { color: red }"),
        ("/data", "application/octet-stream", "bytes"),
    ] {
        let answer = door.get(path, &[]).await;
        assert_eq!(
            (answer.status, answer.header("content-type"), answer.body.as_str()),
            (200, Some(kind), body),
            "{path}"
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(door.get(path, &[("If-None-Match", answer.tag())]).await.status, 304);
        let head = door.ask(&format!("HEAD {path}"), &[], "").await;
        let length = body.len().to_string();
        assert_eq!((head.status, head.header("content-length"), head.body.as_str()), (200, Some(length.as_str()), ""));
    }
    let answer = door.get("/shop", &[]).await;
    assert_eq!((answer.status, answer.header("location")), (308, Some("/shop/")));
    for path in ["/.hidden", "/absent", "/list.sql", "/../list.sql", "/%2e%2e/list.sql", "/shop//", "/api/"] {
        assert_eq!(door.get(path, &[]).await.status, 404, "{path}");
    }
    let answer = door.ask("POST /index.html", &[], "").await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")));
    assert_eq!(door.ask("POST /absent", &[], "").await.status, 404, "a path that is not there takes no method");
    assert_eq!(door.get("/api/list", &[]).await.status, 200);
    assert!(door.get("/", &[]).await.body.contains("Diligence"), "the console keeps its place");
    // What changes is served as it is.
    let before = door.get("/data", &[]).await;
    std::fs::write(door.folder().join("public/data"), "other bytes").unwrap();
    let after = door.get("/data", &[("If-None-Match", before.tag())]).await;
    assert_eq!((after.status, after.body.as_str()), (200, "other bytes"));
    door.close().await;
}

#[cfg(unix)]
#[tokio::test]
async fn links_lead_nowhere_outside() {
    let door = Door::open(false, &FILES, None).await;
    let public = door.folder().join("public");
    std::os::unix::fs::symlink(public.join("data"), public.join("inside")).unwrap();
    std::os::unix::fs::symlink(door.folder().join("list.sql"), public.join("outside")).unwrap();
    std::os::unix::fs::symlink(door.folder(), public.join("all")).unwrap();
    assert_eq!(door.get("/inside", &[]).await.body, "bytes");
    for path in ["/outside", "/all/list.sql", "/all/", "/all"] {
        assert_eq!(door.get(path, &[]).await.status, 404, "{path}");
    }
    door.close().await;
}

#[tokio::test]
async fn roles_say_which_files_are_for_whom() {
    let users = "[roles.guest]\nendpoints = ['/shop/*']\n[users.ann]\npassword = 'x'\nrole = 'guest'";
    let door = Door::open(false, &FILES, Some(users)).await;
    let ann = ("Authorization", "Basic YW5uOng=");
    assert_eq!(door.get("/shop/", &[ann]).await.status, 200);
    assert_eq!(door.get("/data", &[ann]).await.status, 403);
    assert_eq!(door.get("/%64ata", &[ann]).await.status, 403);
    assert_eq!(door.get("/shop/", &[]).await.status, 401);
    door.close().await;
}

//! The web page: its files, its policy, and what needs no key.

use crate::app::{Setup, app};

#[tokio::test(flavor = "multi_thread")]
async fn the_page_and_its_files_are_served_under_a_strict_policy() {
    let app = app("");
    let page = app.get("/").await;
    assert_eq!(
        (page.status.as_u16(), &page.headers["content-type"]),
        (200, &"text/html; charset=utf-8".parse().expect("a value"))
    );
    let mut files = 0;
    for path in page.body.split('"').filter(|word| word.starts_with("/web/")) {
        let file = app.get(path).await;
        assert_eq!(file.status, 200, "{path}");
        let policy = file.headers["content-security-policy"].to_str().expect("text");
        for rule in
            ["default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'", "trusted-types 'none'"]
        {
            assert!(policy.contains(rule), "{path}: {rule}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(file.headers["x-content-type-options"], "nosniff");
        files += 1;
    }
    assert!(files >= 4, "{files}");
    for path in ["/web/", "/web/nothing.js", "/web/..%2fCargo.toml", "/web/mod.rs"] {
        assert_eq!(app.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_needs_no_key_and_says_that_requests_do() {
    assert_eq!(app("").get("/web/config.json").await.json()["needs_key"], false);
    let mut setup = Setup::new("");
    setup.config.api_keys = vec!["secret".to_owned()];
    let app = setup.start();
    assert_eq!(app.get("/").await.status, 200);
    assert_eq!(app.get("/web/main.js").await.status, 200);
    let config = app.get("/web/config.json").await.json();
    assert_eq!(config["needs_key"], true);
    assert!(config["defaults"]["temperature"].is_number(), "{config}");
    assert_eq!(app.get("/v1/models").await.status, 401);
}

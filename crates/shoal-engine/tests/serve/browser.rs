//! Requests of browsers: what a page of another site may not do, and which names the service has.

use crate::client::{Client, serve, synthetic};
use shoal_engine::serve::{Content, Options, Server};
use std::fs;

#[test]
fn requests_for_pages_of_other_sites_are_refused_and_begin_no_walk() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("config.js"), "secret").unwrap();
    let (server, mut client) = serve(root.path());
    let port = server.address().port();
    for (headers, status) in [
        ("Sec-Fetch-Site: cross-site\r\n", 403),
        ("Sec-Fetch-Site: same-site\r\n", 403),
        ("Origin: http://elsewhere.example\r\n", 403),
        ("Origin: null\r\n", 403),
        (&format!("Origin: http://localhost:{port}\r\n"), 403),
        ("Sec-Fetch-Site: same-origin\r\nOrigin: http://localhost\r\n", 200),
        ("Sec-Fetch-Site: none\r\n", 200),
    ] {
        for target in ["/get/config.js", "/list"] {
            let reply = client.ask("GET", target, headers);
            assert_eq!(reply.status, status, "{target} {headers}");
            assert_eq!(reply.text().contains("secret"), status == 200 && target != "/list");
        }
    }
    assert_eq!(server.stats().walks, 2);
}

#[test]
fn a_browser_is_told_not_to_let_other_pages_have_an_object_and_a_program_is_spared_that() {
    let server = synthetic(1, 1);
    let mut client = Client::new(server.address());
    for target in ["/get/object-000000000", "/list", "/nothing"] {
        let reply = client.ask("GET", target, "User-Agent: Mozilla/5.0 (X11)\r\n");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{target}");
        assert_eq!(reply.header("cross-origin-resource-policy"), Some("same-origin"), "{target}");
        let reply = client.ask("GET", target, "User-Agent: shoal\r\n");
        assert!(!reply.head.to_ascii_lowercase().contains("x-content"), "{}", reply.head);
    }
}

#[test]
fn beyond_loopback_a_foreign_name_is_refused_unless_it_is_allowed() {
    let ask = |options: &Options, host: &str| {
        let content = Content::Synthetic { count: 1, size: 1 };
        let server = Server::start(content, options.clone()).unwrap();
        let mut client = Client::new(([127, 0, 0, 1], server.address().port()).into());
        client.send(&format!("GET /list HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let reply = client.reply(false);
        assert_eq!(reply.status == 403, reply.text().contains("allow_host="), "{}", reply.text());
        reply.status
    };
    let open = Options { bind: [0, 0, 0, 0].into(), ..Options::default() };
    let allowing = Options { allow_hosts: vec!["files.example".to_owned()], ..open.clone() };
    assert_eq!(ask(&open, "192.168.7.7:8080"), 200);
    assert_eq!(ask(&open, "localhost"), 200);
    assert_eq!(ask(&open, rustix::system::uname().nodename().to_str().unwrap()), 200);
    assert_eq!(ask(&open, "files.example"), 403);
    assert_eq!(ask(&allowing, "files.example:9"), 200);
    assert_eq!(ask(&allowing, "rebound.example"), 403);
}

//! What a daemon counts, as commands show it.

use crate::store::Store;
use serde_json::Value;

fn text(store: &Store, args: &[&str]) -> String {
    let out = store.clio(args);
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(out.stdout).expect("utf-8")
}

#[test]
fn figures_are_those_of_what_was_done() {
    let store = Store::new();
    let [mut a, mut b] = store.processes();
    a.tell("open /f wide");
    a.tell("write /f 0 300000 1");
    a.tell("sync /f");
    b.tell("open /f");
    assert_eq!(b.ask("read /f 0 400000"), "300000x1");

    let figures: Value = serde_json::from_str(&text(&store, &["stats", "--json"])).expect("JSON");
    let sum = |name: &str| {
        figures["targets"].as_array().expect("targets").iter().map(|t| t[name].as_u64().expect(name)).sum::<u64>()
    };
    assert_eq!(sum("written_bytes"), 300_000);
    assert!((300_000..=2 << 20).contains(&sum("read_bytes")), "{figures}");
    assert!(sum("locks_granted") >= 2, "each stripe's: {figures}");
    assert!(sum("promised_bytes") > 0 && sum("free_bytes") <= sum("total_bytes") && sum("free_bytes") > 0);
    assert_eq!(figures["open_files"], 1, "one file, open twice");
    let kinds: std::collections::BTreeMap<String, u64> =
        serde_json::from_value::<Vec<(String, u64)>>(figures["requests"].clone()).expect("pairs").into_iter().collect();
    assert!(
        kinds["write"] >= 2 && kinds["read"] >= 2 && kinds["lock"] >= 4 && kinds["sync"] >= 2 && kinds["names"] >= 4
    );

    let prometheus = text(&store, &["stats", "--prometheus"]);
    for line in
        ["clio_clients 2", "clio_open_files 1", &format!("clio_requests_total{{kind=\"write\"}} {}", kinds["write"])]
    {
        assert!(prometheus.lines().any(|l| l == line), "{line}: {prometheus}");
    }
    let watched = text(&store, &["stats", "--watch", "0.05", "--count", "3"]);
    let lines: Vec<&str> = watched.lines().collect();
    assert!(lines.len() == 4 && lines[0].contains("requests/s"), "{watched}");
    assert!(lines[1..].iter().all(|l| l.split_whitespace().take(2).eq(["2", "1"])), "{watched}");
    let top = text(&store, &["top", "-d", "0.05", "-n", "2"]);
    assert!(
        top.contains("requests:") && top.contains("requests/s:") && top.contains("2 clients, 1 open files"),
        "{top}"
    );
    let status: Value = serde_json::from_str(&text(&store, &["status", "--json"])).expect("JSON");
    let granted = status["locks"].as_array().expect("locks").iter().map(|t| t["granted"].as_u64().expect("granted"));
    assert!(granted.sum::<u64>() >= 2, "{status}");
}

#[test]
fn without_a_daemon_there_are_no_figures() {
    let store = Store::new();
    for args in [&["stats"][..], &["stats", "--watch", "1", "--count", "1"], &["top", "-n", "1"]] {
        let out = store.clio(args);
        assert_eq!(out.status.code(), Some(1), "{out:?}");
    }
    assert_eq!(store.daemon(), None, "to look starts none");
    let embedded = format!("dir:{}", store.path().display());
    for args in [&["--store", &embedded, "top"][..], &["--store", &embedded, "stats", "--prometheus"]] {
        let out = std::process::Command::new(env!("CARGO_BIN_EXE_clio")).args(args).output().expect("clio");
        assert_eq!(out.status.code(), Some(2), "{out:?}");
    }
}

//! More files than a client keeps objects of: what goes to make room takes nothing along that somebody wrote.

use super::*;

const LIMIT: usize = 8;
const FILES: u32 = 1000;
const LEN: usize = 3000;

/// What round `round` leaves in file `n`: of a length of its own, so that sizes are told apart too.
fn content(n: u32, round: u8) -> Vec<u8> {
    pattern(LEN + n as usize % 100, (n % 251) as u8 ^ round)
}

/// The whole file, as `client` sees it.
fn read(client: &Client, env: &Env, n: u32) -> Vec<u8> {
    let mut got = vec![0xA5; 2 * LEN];
    let len = client.open(n).read_at(env, &mut got, 0).expect("read");
    got.truncate(len);
    got
}

fn assert_few(client: &Client) {
    let (objects, locks) = (client.site.len(), client.device.stats().locks as usize);
    assert!(objects <= LIMIT, "{objects} objects");
    assert!(locks <= LIMIT, "{locks} locks, which go with their objects");
}

#[test]
fn a_thousand_files_in_turn_with_few_objects() {
    let target = Setup::default().target();
    let (c, d) = (Client::with_idle_objects(&target, config(), LIMIT), Client::new(&target, config()));
    for n in 0..FILES {
        c.open(n).write_at(&c.env, &content(n, 0), 0).expect("write");
        assert_few(&c);
    }
    // In an order of which no file comes again soon, and over what it has.
    for n in (0..FILES).map(|n| n * 389 % FILES) {
        assert!(read(&c, &c.env, n) == content(n, 0), "file {n}");
        c.open(n).write_at(&c.env, &content(n, 1), 0).expect("write");
        assert_few(&c);
    }
    // Files that are open stay, however many.
    let open: Vec<_> = (0..3 * LIMIT as u32).map(|n| c.open(n)).collect();
    for (n, file) in (0..).zip(&open) {
        file.write_at(&c.env, &content(n, 2), 0).expect("write");
    }
    for n in 500..600 {
        assert!(read(&c, &c.env, n) == content(n, 1), "file {n}");
    }
    for (n, file) in (0..).zip(&open) {
        assert!(!file.object().is_dying() && read(&c, &c.env, n) == content(n, 2), "file {n} was open");
    }
    drop(open);
    assert_few(&c);
    c.check();
    for n in 0..FILES {
        let round = if n < 3 * LIMIT as u32 { 2 } else { 1 };
        assert!(read(&d, &d.env, n) == content(n, round), "file {n} at another client");
    }
    c.end(&target);
    d.end(&target);
}

/// Threads push each other's objects out, also those that another one is just coming to use.
#[test]
fn threads_with_few_objects_lose_nothing() {
    const THREADS: u32 = 4;
    let target = Setup::default().threaded();
    let c = Client::with_idle_objects(&target, config(), LIMIT / 4);
    let open = c.opener();
    std::thread::scope(|s| {
        for t in 0..THREADS {
            let open = &open;
            s.spawn(move || {
                let env = Env::get(EnvTags::IO);
                for n in 0..200u32 {
                    // All are at the same few files at about the same time, each at a place of its own.
                    let (file, at) = (open(&env, n / 4), u64::from(n % 4 * THREADS + t) * 100);
                    file.write_at(&env, &[t as u8 + 1; 100], at).expect("write");
                    drop(file);
                    let mut got = [0; 100];
                    assert_eq!(open(&env, n / 4).read_at(&env, &mut got, at).expect("read"), 100);
                    assert_eq!(got, [t as u8 + 1; 100], "thread {t}, step {n}");
                }
            });
        }
    });
    drop(open);
    assert_few(&c);
    c.check();
    for n in 0..50 {
        let want: Vec<u8> = (0..16).flat_map(|place| [(place % THREADS) as u8 + 1; 100]).collect();
        assert!(read(&c, &c.env, n) == want, "file {n}");
    }
    c.end(&target);
}

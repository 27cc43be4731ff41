//! Every way to use a file beside every other, in two processes at a time: what each has seen, and what is left, must be
//! what one order of all that they did explains.

use crate::history::{Event, What, explain};
use crate::rng;
use crate::roles::Role;
use crate::store::{Process, Store};

/// Things that each process does to a file.
const COUNT: u64 = 160;

fn files() -> u64 {
    if std::env::var_os("TEST_FULL").is_some() { 15 } else { 3 }
}

fn events(answer: &str, what: &str) -> Vec<Event> {
    let events = answer.strip_prefix("events").unwrap_or_else(|| panic!("{what}: {answer}"));
    events.split_whitespace().map(Event::parse).collect()
}

/// Has two processes play on a file that both have open, while `meanwhile` goes on; then one of them tells all of it.
fn play(players: [(&mut Process, Role); 2], file: &str, layout: &str, seed: u64, meanwhile: impl FnOnce()) {
    let what = format!("{:?} and {:?},{layout} TEST_SEED={seed}", players[0].1, players[1].1);
    let [(one, first), (other, second)] = players;
    let command =
        |role: Role, seed: u64, count: u64, stamps: u64| format!("play {file} {role:?} {seed} {count} {stamps}");
    let mut answers = Vec::new();
    // So that both have something to see, and hold locks.
    for (i, (process, role)) in [(&mut *one, first), (&mut *other, second)].into_iter().enumerate() {
        process.tell(&format!("open {file}{}{layout}", role.options()));
        let role = if role == Role::Reader { Role::Writer } else { role };
        answers.push(process.ask(&command(role, !seed, 24, (i as u64 + 3) << 32)));
    }
    one.begin(&command(first, seed, COUNT, 1 << 32));
    other.begin(&command(second, seed + 1, COUNT, 2 << 32));
    meanwhile();
    answers.extend([one.answer(), other.answer()]);
    answers.push(other.ask(&format!("look {file}")));
    let history: Vec<_> = answers.iter().map(|answer| events(answer, &what)).collect();
    let history = promised(&history, &[first, second, first, second, second], !layout.is_empty());
    if let Err(stuck) = explain(&history) {
        panic!("{what}: no order explains it; {stuck}");
    }
}

/// What was seen that has to fit in. While a truncate is under way that somebody else does, two things need not:
///
/// - the size of a file of several stripes: it is asked of each stripe, of which some have been cut and others not;
/// - what a lazy handle reads: it takes the size when it synchronizes, and what the targets hold later.
fn promised(history: &[Vec<Event>], roles: &[Role], is_striped: bool) -> Vec<Vec<Event>> {
    let meets_a_cut =
        |p: usize, event: &Event| {
            history.iter().enumerate().filter(|(q, _)| *q != p).flat_map(|(_, events)| events).any(|other| {
                matches!(other.what, What::Cut { .. }) && other.start <= event.end && event.start <= other.end
            })
        };
    let counts = |p: usize, event: &Event| match event.what {
        What::Size { .. } => !is_striped || !meets_a_cut(p, event),
        What::Read { .. } => roles[p] != Role::Lazy || !meets_a_cut(p, event),
        What::Wrote { .. } | What::Appended { .. } | What::Cut { .. } => true,
    };
    let kept = |p: usize, events: &[Event]| events.iter().filter(|event| counts(p, event)).copied().collect();
    history.iter().enumerate().map(|(p, events)| kept(p, events)).collect()
}

fn pair(one: Role, other: Role) {
    let store = Store::new();
    let [mut a, mut b] = store.processes();
    for n in 0..files() {
        play(
            [(&mut a, one), (&mut b, other)],
            &format!("/f{n}"),
            ["", " wide"][n as usize % 2],
            rng::seed(1000 * n),
            || {},
        );
    }
}

macro_rules! pairs {
    ($($name:ident: $one:ident, $other:ident;)*) => {
        $(#[test] fn $name() { pair(Role::$one, Role::$other); })*

        #[test]
        fn no_pair_is_left_out() {
            let all = [$((Role::$one, Role::$other)),*];
            for one in Role::ALL {
                for other in Role::ALL {
                    assert!(all.contains(&(one, other)) || all.contains(&(other, one)), "{one:?} and {other:?}");
                }
            }
        }
    };
}

pairs! {
    readers: Reader, Reader;
    reader_and_writer: Reader, Writer;
    reader_and_appender: Reader, Appender;
    reader_and_truncater: Reader, Truncater;
    reader_and_lazy: Reader, Lazy;
    reader_and_direct: Reader, Direct;
    writers: Writer, Writer;
    writer_and_appender: Writer, Appender;
    writer_and_truncater: Writer, Truncater;
    writer_and_lazy: Writer, Lazy;
    writer_and_direct: Writer, Direct;
    appenders: Appender, Appender;
    appender_and_truncater: Appender, Truncater;
    appender_and_lazy: Appender, Lazy;
    appender_and_direct: Appender, Direct;
    truncaters: Truncater, Truncater;
    truncater_and_lazy: Truncater, Lazy;
    truncater_and_direct: Truncater, Direct;
    lazies: Lazy, Lazy;
    lazy_and_direct: Lazy, Direct;
    directs: Direct, Direct;
}

/// The file gets another name again and again, then another file its place, then it has no name: it stays one file.
#[test]
fn names_change_while_the_file_is_used() {
    let store = Store::new();
    let [mut a, mut b, mut names] = store.processes();
    let roles = [(Role::Writer, Role::Reader), (Role::Appender, Role::Truncater), (Role::Direct, Role::Lazy)];
    for (n, (one, other)) in roles.into_iter().enumerate() {
        let (file, spare) = (format!("/f{n}"), format!("/spare{n}"));
        names.tell(&format!("open {spare}"));
        names.tell(&format!("write {spare} 0 3 9"));
        play([(&mut a, one), (&mut b, other)], &file, "", rng::seed(n as u64), || {
            for _ in 0..10 {
                names.tell(&format!("rename {file} {file}.renamed"));
                names.tell(&format!("rename {file}.renamed {file}"));
            }
            // Its last name goes.
            names.tell(&format!("rename {spare} {file}"));
        });
        names.tell(&format!("open {file}"));
        assert_eq!(names.ask(&format!("read {file} 0 100")), "3x9", "the file that has the name now is another");
        a.tell(&format!("close {file}"));
        let left = events(&b.ask(&format!("look {file}")), "after all");
        assert!(matches!(left[0].what, What::Size { slots: 1.. }), "it is gone: {:?}", left[0]);
    }
}

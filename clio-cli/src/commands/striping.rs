//! Striping options in the habits of `lfs setstripe`: what follows an -E is about the component that ends there.

use crate::size;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use clio::Layout;
use std::str::FromStr;

/// One option, as it was given.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Choice {
    /// A component begins, which ends before this byte; `None`: at the end of file.
    End(Option<u64>),
    /// Number of stripes; 0: one on each target.
    Count(u16),
    /// Number of stripes, also more than there are targets.
    Overstripe(u16),
    /// Stripe size in bytes.
    Size(u64),
    /// The first target; `None` leaves it to the store.
    Index(Option<u16>),
    /// The pool.
    Pool(String),
}

impl Choice {
    /// The letter of the option.
    fn short(&self) -> char {
        match self {
            Choice::End(_) => 'E',
            Choice::Count(_) => 'c',
            Choice::Overstripe(_) => 'C',
            Choice::Size(_) => 'S',
            Choice::Index(_) => 'i',
            Choice::Pool(_) => 'p',
        }
    }

    /// What it says about its component: the letter, but that both counts answer one question.
    fn question(&self) -> char {
        self.short().to_ascii_lowercase()
    }
}

/// The options in the order of the command line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct StripeOptions(Vec<Choice>);

/// Reads one kind of option.
struct Kind {
    id: &'static str,
    short: char,
    value: &'static str,
    help: &'static str,
    read: fn(&str) -> Result<Choice, String>,
}

const KINDS: [Kind; 6] = [
    Kind {
        id: "component-end",
        short: 'E',
        value: "END",
        help: "Begin a component that ends there: a size, or -1 or eof for the end of file. Repeat for more",
        read: |t| size::parse_end(t).map(Choice::End),
    },
    Kind {
        id: "stripe-count",
        short: 'c',
        value: "N",
        help: "Number of stripes; -1 or 0: one on each target",
        read: |t| count(t).map(Choice::Count),
    },
    Kind {
        id: "overstripe-count",
        short: 'C',
        value: "N",
        help: "Number of stripes, also more than there are targets",
        read: |t| count(t).map(Choice::Overstripe),
    },
    Kind {
        id: "stripe-size",
        short: 'S',
        value: "SIZE",
        help: "Bytes on one stripe before the next one's turn: a multiple of 64K, with K, M or G",
        read: |t| size::parse(t).map(Choice::Size),
    },
    Kind {
        id: "stripe-index",
        short: 'i',
        value: "IDX",
        help: "The target of the first stripe; -1 leaves it to the store",
        read: |t| if t == "-1" { Ok(Choice::Index(None)) } else { number(t).map(|n| Choice::Index(Some(n))) },
    },
    Kind {
        id: "pool",
        short: 'p',
        value: "POOL",
        help: "The pool that targets are taken from",
        read: |t| Ok(Choice::Pool(t.to_string())),
    },
];

fn number(text: &str) -> Result<u16, String> {
    u16::from_str(text).map_err(|_| format!("'{text}' is no number from 0 to {}", u16::MAX))
}

fn count(text: &str) -> Result<u16, String> {
    if text == "-1" { Ok(0) } else { number(text) }
}

impl StripeOptions {
    /// The layout that the options ask for. What they leave open is as in `usual`: the layout that new files there get.
    ///
    /// # Errors
    /// A sentence for options that contradict each other. Whether the layout can be is for the store to say.
    pub(super) fn layout(&self, usual: &Layout) -> Result<Layout, String> {
        let ends = self.0.iter().filter(|c| matches!(c, Choice::End(_))).count();
        let mut layout = if ends == 0 { usual.clone() } else { composite_from(usual) };
        let mut begun = 0;
        // What was said of the component so far: of two answers to one question, one would be lost.
        let mut said: Vec<&Choice> = Vec::new();
        for choice in &self.0 {
            match said.iter().find(|other| other.question() == choice.question()) {
                _ if matches!(choice, Choice::End(_)) => said.clear(),
                Some(other) if other.short() == choice.short() => {
                    return Err(format!("-{} is given twice for one component", choice.short()));
                }
                Some(other) => {
                    return Err(format!("-{} and -{} contradict each other", other.short(), choice.short()));
                }
                None => said.push(choice),
            }
            layout = match choice.clone() {
                Choice::End(None) if begun + 1 < ends => {
                    return Err("an -E follows the one that ends at the end of file; put that one last".into());
                }
                Choice::End(end) => {
                    begun += 1;
                    end.map_or_else(|| layout.clone().to_eof(), |end| layout.clone().until(end))
                }
                Choice::Count(n) => layout.stripe_count(n).overstriping(false),
                Choice::Overstripe(n) => layout.overstripe_count(n),
                Choice::Size(bytes) => layout.stripe_size(bytes),
                Choice::Index(Some(i)) => layout.first_target(i),
                Choice::Index(None) => layout,
                Choice::Pool(name) => layout.pool(name),
            };
        }
        Ok(layout)
    }
}

/// A layout without components yet, the first of which will start from the striping of `usual`.
fn composite_from(usual: &Layout) -> Layout {
    let Some(first) = usual.components().first() else { return Layout::composite() };
    let s = &first.striping;
    let layout = Layout::composite().stripe_count(s.stripe_count.raw()).stripe_size(s.stripe_size);
    match &s.pool {
        Some(pool) => layout.pool(pool),
        None => layout,
    }
}

impl FromArgMatches for StripeOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut placed = Vec::new();
        for kind in &KINDS {
            let choices = matches.get_many::<Choice>(kind.id).into_iter().flatten();
            placed.extend(matches.indices_of(kind.id).into_iter().flatten().zip(choices.cloned()));
        }
        placed.sort_by_key(|(index, _)| *index);
        Ok(Self(placed.into_iter().map(|(_, choice)| choice).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for StripeOptions {
    fn augment_args(command: Command) -> Command {
        KINDS.iter().fold(command, |command, kind| {
            let arg = Arg::new(kind.id).short(kind.short).long(kind.id).value_name(kind.value).help(kind.help);
            let arg = arg.action(ArgAction::Append).allow_hyphen_values(true).value_parser(kind.read);
            command.arg(arg)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clio::Config;
    use proptest::prelude::*;
    use std::path::Path;

    fn parse(args: &[&str]) -> Result<StripeOptions, clap::Error> {
        let command = StripeOptions::augment_args(Command::new("setstripe"));
        let matches = command.try_get_matches_from(std::iter::once(&"setstripe").chain(args))?;
        StripeOptions::from_arg_matches(&matches)
    }

    fn layout(args: &[&str]) -> Layout {
        parse(args).unwrap().layout(&usual()).unwrap()
    }

    /// What the built-in settings give to new files.
    fn usual() -> Layout {
        Config::default().layout_for(Path::new("/f"))
    }

    #[test]
    fn plain_layouts_start_from_the_settings() {
        assert_eq!(layout(&[]), Layout::raid0().stripe_count(0).stripe_size(1 << 20));
        assert_eq!(layout(&["-c", "4", "-S", "4M"]), Layout::raid0().stripe_count(4).stripe_size(4 << 20));
        assert_eq!(layout(&["-c-1", "-i", "2"]), Layout::raid0().stripe_count(0).stripe_size(1 << 20).first_target(2));
        assert_eq!(layout(&["-i", "-1", "-p", "fast"]), layout(&["--pool=fast"]));
        let rule = Layout::raid0().stripe_count(3).stripe_size(4 << 20).pool("fast");
        let under_rule = |args: &[&str]| parse(args).unwrap().layout(&rule).unwrap();
        assert_eq!(under_rule(&["-S", "64k"]), rule.clone().stripe_size(64 << 10));
        let composite = Layout::composite().stripe_count(3).stripe_size(4 << 20).pool("fast");
        assert_eq!(under_rule(&["-E1M", "-c1", "-Eeof"]), composite.until(1 << 20).stripe_count(1).to_eof());
    }

    #[test]
    fn options_are_about_the_component_whose_end_came_before() {
        let got = layout(&["-E", "1M", "-c", "1", "-E", "64M", "-c", "4", "-S", "4M", "-E", "-1", "-C", "8"]);
        let expected = Layout::composite()
            .stripe_size(1 << 20)
            .until(1 << 20)
            .stripe_count(1)
            .until(64 << 20)
            .stripe_count(4)
            .stripe_size(4 << 20)
            .to_eof()
            .overstripe_count(8);
        assert_eq!(got, expected);
        assert_ne!(got, layout(&["-E", "1M", "-c", "4", "-E", "64M", "-c", "1", "-S", "4M", "-E", "eof", "-C", "8"]));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for args in [["-c", "x"], ["-c", "70000"], ["-S", "1X"], ["-E", "-2"], ["-i", "-2"], ["-S", "-1"]] {
            assert!(parse(&args).is_err(), "{args:?}");
        }
        let e = parse(&["-E", "eof", "-E", "1M"]).unwrap().layout(&usual()).unwrap_err();
        assert!(e.contains("put that one last"), "{e}");
    }

    #[test]
    fn nothing_is_said_twice_of_one_component() {
        let refused = |args: &[&str]| parse(args).unwrap().layout(&usual()).unwrap_err();
        for (letter, value) in [("-c", "2"), ("-C", "2"), ("-S", "1M"), ("-i", "0"), ("-p", "fast")] {
            for args in [
                &[letter, value, letter, value][..],
                &["-E", "1M", letter, value, "-E", "-1", letter, value, letter, value],
            ] {
                assert_eq!(refused(args), format!("{letter} is given twice for one component"), "{args:?}");
            }
            layout(&["-E", "1M", letter, value, "-E", "eof", letter, value]);
        }
        assert_eq!(refused(&["-c", "2", "-C", "4"]), "-c and -C contradict each other");
        assert_eq!(layout(&["-S", "1M", "-c", "2", "-i", "0"]).components().len(), 1);
    }

    proptest! {
        #[test]
        fn every_end_makes_one_component(parts in proptest::collection::vec((1u64..4, 1u16..9), 1..20)) {
            let (mut args, mut end) = (Vec::new(), 0);
            for (mib, count) in &parts {
                end += mib;
                args.extend([format!("-E{end}M"), format!("-c{count}")]);
            }
            let got = layout(&args.iter().map(String::as_str).collect::<Vec<_>>());
            let shown: Vec<_> = got.components().iter().map(|c| (c.extent.end, c.striping.stripe_count.raw())).collect();
            let mut end = 0;
            let wanted = parts.iter().map(|(mib, count)| { end += mib << 20; (end, *count) });
            prop_assert_eq!(shown, wanted.collect::<Vec<_>>());
        }
    }
}

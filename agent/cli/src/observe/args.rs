//! The arguments of `volvox observe`, by the names of Hubble's client. Which filters are behind a `--not`
//! is said by their order, so they are read by place.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use volvox_hubble::filter::{FLAGS, FlagFilter};

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObserveArguments {
    pub(super) server: Option<String>,
    pub(super) agent_events: bool,
    pub(super) print_policy_names: bool,
    pub(super) span: Span,
    /// Filters in their order.
    pub(super) filters: Vec<FlagFilter>,
}

/// How many, and of when.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Span {
    /// The newest so many [default: 20]
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["first", "all"])]
    pub(super) last: Option<u64>,

    /// The oldest so many
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["all", "follow"])]
    pub(super) first: Option<u64>,

    /// All that are kept
    #[arg(long)]
    pub(super) all: bool,

    /// And those that come
    #[arg(short, long)]
    pub(super) follow: bool,

    /// From then on: a time ago, as 5m, or a moment, as 2026-11-28T09:30:00Z
    #[arg(long, value_name = "TIME")]
    pub(super) since: Option<String>,

    /// Until then
    #[arg(long, value_name = "TIME")]
    pub(super) until: Option<String>,
}

impl Args for ObserveArguments {
    fn augment_args(command: Command) -> Command {
        let server = Arg::new("server")
            .long("server")
            .value_name("SOCKET")
            .help("Hubble's socket [default: hubble.sock beside the agent's socket]");
        let flag = |name: &'static str, help: &'static str| {
            Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
        };
        let command = Span::augment_args(command)
            .arg(server.env("HUBBLE_SERVER"))
            .arg(flag("agent-events", "What the agent says of itself, instead of flows"))
            .arg(flag("print-policy-names", "Name the policies that decided"))
            .arg(
                Arg::new("not")
                    .long("not")
                    .action(ArgAction::Append)
                    .num_args(0)
                    .default_missing_value("true")
                    .help("None of what the next filter selects"),
            );
        FLAGS.iter().fold(command, |command, (name, value, help)| {
            let arg = Arg::new(*name).long(*name).value_name(*value).help(*help);
            let short = match *name {
                "namespace" => Some('n'),
                "label" => Some('l'),
                "type" => Some('t'),
                _ => None,
            };
            command.arg(arg.short(short).action(ArgAction::Append).help_heading("Filters"))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ObserveArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let nots: Vec<usize> = matches.indices_of("not").into_iter().flatten().collect();
        let mut found = Vec::new();
        for (name, ..) in FLAGS {
            let values = matches.get_many::<String>(name).into_iter().flatten();
            let places = matches.indices_of(name).into_iter().flatten();
            found.extend(places.zip(values).map(|(place, value)| (place, *name, value.clone())));
        }
        found.sort();
        let mut before = 0;
        let filters = found.into_iter().map(|(place, flag, value)| {
            let not = nots.iter().any(|not| (before..place).contains(not));
            before = place;
            FlagFilter { flag, value, not }
        });
        Ok(Self {
            server: matches.get_one("server").cloned(),
            agent_events: matches.get_flag("agent-events"),
            print_policy_names: matches.get_flag("print-policy-names"),
            span: Span::from_arg_matches(matches)?,
            filters: filters.collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

//! `volvox connectivity` and `volvox probe`: whether everything in a cluster reaches what it shall.

use std::{collections::BTreeMap, fs, io, net::IpAddr, path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use tokio::sync::oneshot;
use volvox_connectivity::{
    ConnectivityError, Options, Outcome, Part, Report, junit, names,
    probe::{Ports, Target, ask, input_ended, serve, watch},
};
use volvox_system::{complain, duration::parse_duration};

use super::{
    error::ClientError,
    install::Target as ClusterTarget,
    output::{Output, count},
};

/// So many failures of a test are shown; JSON and JUnit have all.
const SHOWN: usize = 8;

#[derive(Debug, Subcommand)]
pub(super) enum ConnectivityCommand {
    /// Make pods and policies in a namespace of their own, and try what reaches what
    ///
    /// Everything that was made is removed afterwards. Exit codes: 0 all passed, 1 something failed,
    /// 2 wrong arguments, 3 the cluster cannot be asked.
    Test(Box<TestArguments>),
    /// The tests, each with what must hold; asks no cluster
    List,
}

/// What may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Skipped {
    /// Somebody outside of the cluster
    World,
    /// Names
    Dns,
    /// Replacing agents
    Restart,
}

/// Where and by whom it is tried.
#[derive(Debug, Args)]
pub(super) struct Place {
    /// The namespace; another one has this name and `-other`
    #[arg(long, value_name = "NAME", default_value = "volvox-test")]
    namespace: String,
    /// What pods run, if not the image of the agent
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Only one node takes part
    #[arg(long)]
    single_node: bool,
    /// A node that takes part; twice at most. If none is named, the first two that are ready
    #[arg(long = "node", value_name = "NAME", conflicts_with = "single_node")]
    nodes: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct TestArguments {
    #[command(flatten)]
    target: ClusterTarget,
    #[command(flatten)]
    place: Place,
    /// Only tests of that name: a part of it, or with `*`; repeated: any of them
    #[arg(long = "test", value_name = "PATTERN")]
    tests: Vec<String>,
    /// Leave something out; repeated
    #[arg(long, value_enum)]
    skip: Vec<Skipped>,
    /// Somebody outside of the cluster who takes TCP connections
    #[arg(long, value_name = "HOST:PORT")]
    external_target: Option<String>,
    /// Also replace the agents of the nodes that take part, while everything is probed
    #[arg(long)]
    restart_agents: bool,
    /// How long pods may take to be ready
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = parse_duration)]
    timeout: Duration,
    /// Also write the result as JUnit's XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Leave pods and policies for looking at them; the next run removes them
    #[arg(long)]
    keep: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum ProbeCommand {
    /// Echo and say who asked, until SIGTERM
    Serve {
        /// Who answers
        #[arg(long)]
        name: String,
        /// The addresses
        #[arg(long, required = true, value_delimiter = ',')]
        listen: Vec<IpAddr>,
        #[arg(long)]
        tcp: Vec<u16>,
        #[arg(long)]
        udp: Vec<u16>,
        #[arg(long)]
        http: Vec<u16>,
    },
    /// Ask all targets at once; a line of JSON for each answer
    Ask {
        #[arg(required = true)]
        targets: Vec<Target>,
    },
    /// Ask all targets until standard input ends; a line of JSON for each second
    Watch {
        /// Times a second
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        rate: u32,
        #[arg(required = true)]
        targets: Vec<Target>,
    },
}

impl TestArguments {
    fn options(&self) -> Options {
        let part = |it: &Skipped| match it {
            Skipped::World => Part::World,
            Skipped::Dns => Part::Dns,
            Skipped::Restart => Part::Restart,
        };
        Options {
            namespace: self.place.namespace.clone(),
            tests: self.tests.clone(),
            image: self.place.image.clone(),
            timeout: self.timeout,
            single_node: self.place.single_node,
            nodes: self.place.nodes.clone(),
            skip: self.skip.iter().map(part).collect(),
            external: self.external_target.clone(),
            restart_agents: self.restart_agents,
            keep: self.keep,
        }
    }
}

/// Tries it, or says what there is.
pub(super) async fn run(
    out: &mut Output<'_>,
    command: ConnectivityCommand,
) -> Result<(), ClientError> {
    match command {
        ConnectivityCommand::Test(arguments) => test(out, *arguments).await,
        ConnectivityCommand::List => {
            let all = names();
            let json: Vec<_> = all
                .iter()
                .map(|(name, about)| serde_json::json!({ "name": name, "about": about }))
                .collect();
            out.answer(&json, |out, _| {
                let row = |(name, about): &(&str, &str)| [(*name).to_owned(), (*about).to_owned()];
                out.table(["TEST", "WHAT MUST HOLD"], all.iter().map(row))
            })
        }
    }
}

async fn test(out: &mut Output<'_>, arguments: TestArguments) -> Result<(), ClientError> {
    let options = arguments.options();
    if let Some(file) = &arguments.junit {
        // Whoever cannot write it hears of it before anything is done.
        fs::write(file, "").map_err(|error| unwritten(file, &error))?;
    }
    let opened = arguments.target.access().open().await;
    let (mut report, outcome) = match opened {
        Ok(cluster) => {
            let json = out.is_for_programs();
            let mut say = |line: &str| {
                // Nobody may read it any more, which costs the line and never the work.
                if json { complain!("{line}") } else { drop(out.line(line)) }
            };
            volvox_connectivity::test(&cluster, &options, &mut say).await
        }
        Err(error) => (Report::default(), Err(ConnectivityError::from(error))),
    };
    report.error = outcome.as_ref().err().map(ToString::to_string);
    if let Some(file) = &arguments.junit {
        fs::write(file, junit(&report)).map_err(|error| unwritten(file, &error))?;
    }
    if outcome.is_ok() || !report.tests.is_empty() {
        out.answer(&report, show)?;
    }
    outcome?;
    match report.count(Outcome::Failed) {
        0 => Ok(()),
        failed => Err(ClientError::Failed(format!(
            "{failed} of {} failed",
            count(report.tests.len(), "test")
        ))),
    }
}

fn unwritten(file: &std::path::Path, error: &io::Error) -> ClientError {
    ClientError::Usage(format!(
        "{} cannot be written ({error}): name another by --junit",
        file.display()
    ))
}

/// For people.
fn show(out: &mut Output<'_>, report: &Report) -> Result<(), ClientError> {
    out.line("")?;
    let rows = report.tests.iter().map(|it| {
        let number = |number: u64| if it.probes == 0 { String::new() } else { number.to_string() };
        [
            it.name.clone(),
            it.outcome.words().to_owned(),
            number(it.probes),
            number(it.failed),
            if it.outcome == Outcome::NotTried {
                String::new()
            } else {
                format!("{:.1} s", it.seconds)
            },
        ]
    });
    out.table(["TEST", "RESULT", "PROBES", "FAILED", "TIME"], rows)?;
    for test in report.tests.iter().filter(|it| it.outcome == Outcome::Failed) {
        out.line("")?;
        out.line(format!("{}: {}", test.name, test.about))?;
        for failure in test.failures.iter().take(SHOWN) {
            out.line(format!("  {}", failure.line()))?;
            if !failure.hint.is_empty() {
                out.line(format!("    see: {}", failure.hint))?;
            }
        }
        let more = test.failures.len().saturating_sub(SHOWN);
        if more > 0 {
            out.line(format!("  and {more} more: -o json has all"))?;
        }
    }
    let mut notes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for test in &report.tests {
        test.notes.iter().for_each(|it| notes.entry(it).or_default().push(&test.name));
    }
    let of_tests = notes.iter().map(|(note, tests)| format!("{}: {note}", tests.join(", ")));
    let notes: Vec<_> = of_tests.chain(report.notes.iter().cloned()).collect();
    if !notes.is_empty() {
        out.line("")?;
        notes.iter().try_for_each(|it| out.line(it))?;
    }
    out.line("")?;
    out.line(format!(
        "{} passed, {} failed, {} not tried, in {:.0} s",
        report.count(Outcome::Passed),
        report.count(Outcome::Failed),
        report.count(Outcome::NotTried),
        report.seconds
    ))
}

/// What the pods of a test run.
pub(super) async fn probe(out: &mut Output<'_>, command: ProbeCommand) -> Result<(), ClientError> {
    let mut failed = Ok(());
    match command {
        ProbeCommand::Serve { name, listen, tcp, udp, http } => {
            let ports = Ports { tcp, udp, http };
            serve(&name, &listen, &ports)
                .await
                .map_err(|error| ClientError::Failed(error.to_string()))?;
        }
        ProbeCommand::Ask { targets } => {
            ask(targets, |it| {
                if failed.is_ok() {
                    failed = out.record(it);
                }
            })
            .await;
        }
        ProbeCommand::Watch { rate, targets } => {
            let until: oneshot::Receiver<()> = input_ended()?;
            watch(targets, rate, until, |it| {
                if failed.is_ok() {
                    failed = out.record(it);
                }
            })
            .await;
        }
    }
    failed
}

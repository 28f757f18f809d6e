//! The command line of `cargo testbed chaos`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::Subcommand;
use comfy_table::{Table, presets};
use serde_json::json;
use volvox_sim::history::scenarios;

use super::{
    explain, gauntlet, html, learn,
    library::{self, Source},
    manual,
    outcome::{Outcome, Place},
    report,
    run::{self, Asked},
    schema::schema,
    sim,
};
use crate::{judge::Verdict, lab};

/// What could not be judged, and what is no history.
const NOT_JUDGED: i32 = 2;

/// `cargo testbed chaos VERB`.
#[derive(Clone, Debug, Subcommand)]
pub enum Verb {
    /// Name the histories that there are, and where each can happen
    List {
        /// One JSON line each
        #[arg(long)]
        json: bool,
    },
    /// Tell histories in plain words, step by step
    Explain {
        /// Names, or files
        #[arg(required = true, value_name = "NAME|FILE")]
        histories: Vec<String>,
    },
    /// Have histories happen, and judge them
    ///
    /// The exit status is 0 if all is well, 1 if a guarantee was broken, and 2 if something could not be
    /// judged or is no history.
    Run {
        /// Names, or files
        #[arg(required = true, value_name = "NAME|FILE")]
        histories: Vec<String>,
        /// Where: real processes, or in memory
        #[arg(long = "in", value_enum, default_value_t = Place::Lab)]
        place: Place,
        /// Where random moments come from; the simulator takes twenty seeds from this one on
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Shrink each that fails to the shortest one that still does, and keep it as NAME.shrunk.yaml
        #[arg(long)]
        shrink: bool,
        /// One JSON line each
        #[arg(long)]
        json: bool,
        /// Write JUnit's XML to this file
        #[arg(long, value_name = "FILE")]
        junit: Option<PathBuf>,
        /// Write a page to this file, and what the agents recorded into FILE.recordings beside it
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
    /// Die before every system call, under traffic, one after the other
    Gauntlet {
        /// Of what
        walk: gauntlet::Walk,
        /// How
        #[command(flatten)]
        options: gauntlet::Options,
    },
    /// Make a history of a flight recording, and perturb it in the simulator
    ///
    /// It dies at each message that followed from each event, delays events, repeats them, and changes their
    /// order. The exit status is 0 if all is well, 1 if a guarantee was broken, 2 if a ring cannot be read.
    Learn(learn::Options),
    /// Print the JSON Schema of histories
    Schema,
    /// Print completions for a shell
    Completions {
        /// Which one
        shell: clap_complete::Shell,
    },
    /// Print the manual page, as man reads it
    Manual,
    /// Within a lab: live through the history on stdin
    #[command(hide = true, name = run::INSIDE)]
    Inside {
        /// What its file is called
        name: String,
        /// Where random moments come from
        #[arg(long)]
        seed: u64,
        /// Where what its agents recorded is put
        #[arg(long)]
        recordings: Option<PathBuf>,
    },
}

/// Does it; the exit status.
pub fn run(verb: &Verb) -> Result<i32> {
    let outcome = match verb {
        Verb::List { json } => list(*json),
        Verb::Explain { histories } => explain(histories),
        Verb::Run { histories, place, seed, shrink, json, junit, html } => {
            let asked = Asked { place: *place, seed: *seed };
            let files = Files { json: *json, junit: junit.as_deref(), html: html.as_deref() };
            live(histories, asked, files).and_then(|(sources, outcomes)| {
                if *shrink {
                    shrink_all(&sources, &outcomes, asked)?;
                }
                Ok(report::status(&outcomes))
            })
        }
        Verb::Gauntlet { walk, options } => gauntlet::run(*walk, options),
        Verb::Learn(options) => learn::run(options),
        Verb::Schema => {
            volvox_system::say!("{}", serde_json::to_string_pretty(&schema())?);
            Ok(0)
        }
        Verb::Completions { shell } => manual::completions(*shell),
        Verb::Manual => manual::page(),
        Verb::Inside { name, seed, recordings } => {
            lab::inside(|| run::inside(name, *seed, recordings.as_deref()))
        }
    };
    // Whatever went wrong, nothing was judged.
    outcome.or_else(|error| {
        volvox_system::complain!("testbed chaos: {error:#}");
        Ok(NOT_JUDGED)
    })
}

fn found(names: &[String]) -> Result<Vec<Source>> {
    names.iter().map(|name| library::find(name)).collect()
}

fn explain(names: &[String]) -> Result<i32> {
    for history in run::read(&found(names)?)? {
        volvox_system::say!("{}", explain::history(&history));
    }
    Ok(0)
}

fn shrink_all(sources: &[Source], outcomes: &[Outcome], asked: Asked) -> Result<()> {
    let broken = |(_, outcome): &(&Source, &Outcome)| outcome.verdict == Verdict::Broken;
    for (source, outcome) in sources.iter().zip(outcomes).filter(broken) {
        let place = PathBuf::from(format!("{}.shrunk.yaml", outcome.history));
        run::shrink_to(source, asked, &place)?;
    }
    Ok(())
}

/// How it is told what histories came to.
#[derive(Clone, Copy)]
struct Files<'a> {
    json: bool,
    junit: Option<&'a Path>,
    html: Option<&'a Path>,
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn live(names: &[String], asked: Asked, files: Files<'_>) -> Result<(Vec<Source>, Vec<Outcome>)> {
    let sources = found(names)?;
    // Before hours of work: can they be written?
    files.junit.into_iter().chain(files.html).try_for_each(|file| write(file, ""))?;
    let recordings = files.html.map(|file| lab::seen_inside(&file.with_extension("recordings")));
    let recordings = recordings.transpose()?;
    let outcomes = run::recorded(&sources, asked, recordings.as_deref(), |outcome| {
        if files.json {
            let line = serde_json::to_string(outcome).unwrap_or_default();
            volvox_system::say!("{line}");
        } else {
            volvox_system::say!("{}", report::table(outcome));
        }
    })?;
    if let Some(file) = files.junit {
        write(file, &report::junit(&outcomes))?;
    }
    if let Some((file, recordings)) = files.html.zip(recordings) {
        write(file, &html::page(&outcomes, &recordings))?;
    }
    Ok((sources, outcomes))
}

/// A history as the list has it.
struct Row {
    name: String,
    places: &'static str,
    about: String,
    reported: String,
}

fn rows() -> Result<Vec<Row>> {
    let sources: Vec<_> = library::all().collect();
    let mut rows = Vec::new();
    for history in run::read(&sources)? {
        let simulated = sim::refused(&history).is_empty();
        let real = run::refused_by_the_lab(&history).is_empty();
        rows.push(Row {
            name: history.name,
            places: match (real, simulated) {
                (true, true) => "lab, sim",
                (false, true) => "sim",
                _ => "lab",
            },
            about: history.about,
            reported: history.reported.unwrap_or_default(),
        });
    }
    // Those that the language cannot say yet.
    rows.extend(scenarios::ALL.iter().map(|scenario| Row {
        name: scenario.name.to_owned(),
        places: "cargo testbed sim --scenario",
        about: scenario.name.replace('_', " "),
        reported: String::new(),
    }));
    Ok(rows)
}

fn list(json: bool) -> Result<i32> {
    let rows = rows()?;
    if json {
        for Row { name, places, about, reported } in rows {
            volvox_system::say!(
                "{}",
                json!({ "name": name, "in": places, "about": about, "reported": reported })
            );
        }
        return Ok(0);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["history", "in", "about", "reported"]);
    for Row { name, places, about, reported } in rows {
        table.add_row([name, places.to_owned(), about, reported]);
    }
    volvox_system::say!("{table}");
    Ok(0)
}

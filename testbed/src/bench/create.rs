//! Endpoints made through REST, one after the other.

use anyhow::Result;

use super::{Figure, Options, Unit};
use crate::{
    lab::{Pod, Through},
    progress::Progress,
};

/// Makes a fleet, then measures as many pods again as there are rounds, ten each.
pub(super) fn run(options: &Options) -> Result<Vec<Figure>> {
    let progress = Progress::new(options.json);
    let mut created = Figure::new("create.rest", Unit::Seconds).below(0.025);
    let fleet = options.launch(&progress)?;
    let count = usize::from(options.rounds) * 10;
    let bar = progress.bar("measuring creations", count);
    for number in 0..count {
        let app = format!("app-{}", number % 10);
        let name = format!("fleet/more-{number}");
        let pod = Pod::create(&fleet.node, &name, &[("app", &app)], Through::Rest)?;
        created.push_time(pod.created_in);
        bar.inc(1);
    }
    bar.finish();
    Ok(vec![created])
}

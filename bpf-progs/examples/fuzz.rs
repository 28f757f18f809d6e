//! The fuzzer of frames: `cargo run --release -p volvox-bpf-progs --example fuzz -- --frames 10000000 --seed 1`, as
//! root. It prints how many frames were put where and what became of them, and fails if one became what it may not.

#![allow(clippy::print_stdout, reason = "somebody reads what it found")]

#[path = "../tests/datapath/common/mod.rs"]
mod common;

use common::{fuzz, stay_here};
use std::process::ExitCode;
use std::time::Instant;
use volvox_bpf_progs::Features;

const FRAMES: u64 = 10_000_000;

fn main() -> ExitCode {
    stay_here();
    let arguments: Vec<_> = std::env::args().collect();
    let option = |name: &str, otherwise: u64| {
        let at = arguments.iter().position(|it| it == name);
        let value = at.and_then(|at| arguments.get(at + 1));
        value.map_or(otherwise, |it| it.parse().expect("a number"))
    };
    let (frames, seed) = (option("--frames", FRAMES), option("--seed", 1));
    let start = Instant::now();
    let report = fuzz::run(Features::default(), seed, frames);
    let seconds = start.elapsed().as_secs_f64();
    println!("{}", report.text());
    println!(
        "{frames} frames, {} runs of programs, {seconds:.0} s, {:.0} frames a second",
        report.runs,
        frames as f64 / seconds
    );
    if report.fault_count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

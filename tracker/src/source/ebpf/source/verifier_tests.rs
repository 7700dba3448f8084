//! How much of each program the kernel's verifier has to look at, on the live
//! kernel: docs/architecture.md has the figures.

use super::*;
use tracker_tests::{Need, able};

/// About twice what any tested kernel needed, and far below the million
/// instructions that it looks at before it gives up.
const CEILINGS: [(&str, u32); 6] = [
    ("tracker_fork", 2500),
    ("tracker_exec", 3000),
    ("tracker_exit", 1000),
    ("tracker_free", 200),
    ("tracker_census", 200),
    ("tracker_newborn", 200),
];

#[test]
fn every_program_stays_below_its_ceiling() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    for options in [LoadOptions::standalone(), LoadOptions::daemon()] {
        let source = EbpfSource::load(options).unwrap();
        let mut seen = 0;
        for (name, program) in source.ebpf.programs() {
            // Kernels before 5.16 do not tell.
            let Some(count) = program.info().unwrap().verified_instruction_count() else {
                continue;
            };
            seen += 1;
            println!("verified {count:5} instructions of {name}, {options:?}");
            let ceiling = CEILINGS.iter().find(|(of, _)| *of == name);
            let (_, ceiling) = ceiling.unwrap_or_else(|| panic!("{name} has no ceiling"));
            assert!(count <= *ceiling, "{name}: {count} of at most {ceiling}");
        }
        assert!(seen == CEILINGS.len() || seen == 0, "{seen}");
    }
}

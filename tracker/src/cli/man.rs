//! `tracker man`.

use super::args;
use super::exit::{Exit, Failure};
use super::output;

pub(super) fn run() -> Result<Exit, Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(args::definition()).render(&mut page)?;
    output::print(String::from_utf8_lossy(&page).trim_end())?;
    Ok(Exit::SUCCESS)
}

//! The `tracker` program. What it does is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    tracker::cli::main()
}

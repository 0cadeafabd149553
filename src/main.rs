//! The `trainhead` program: hands the command line to [`trainhead::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    trainhead::cli::main()
}

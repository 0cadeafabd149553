//! The `trainhead` program: hands the command line to [`trainhead::cli`].

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Small objects that one thread makes and another one drops are most of what a head does with memory.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    trainhead::cli::main()
}

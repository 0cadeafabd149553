//! The controller with real processes and real threads.

mod agent;
mod closures;

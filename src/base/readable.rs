//! An owned descriptor that a task can wait for.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use tokio::io::{Interest, unix::AsyncFd};

/// A descriptor that becomes readable: inotify, an epoll.
#[derive(Debug)]
pub struct Readable(AsyncFd<OwnedFd>);

impl Readable {
    /// Takes a descriptor; must be called on a runtime.
    ///
    /// # Errors
    /// When the kernel cannot wait for it.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        #[expect(
            deprecated,
            reason = "its successor is `unsafe` for types that may change their descriptor; an `OwnedFd` cannot"
        )]
        AsyncFd::with_interest(fd, Interest::READABLE).map(Self)
    }

    /// Waits until it is readable, then lets `read` take what there is. It must take all, or the next wait is in vain.
    /// Cancel-safe.
    ///
    /// # Errors
    /// When the runtime is gone.
    pub async fn wait(&self, read: impl FnOnce(BorrowedFd<'_>)) -> io::Result<()> {
        let mut ready = self.0.readable().await?;
        ready.clear_ready();
        read(self.0.get_ref().as_fd());
        Ok(())
    }
}

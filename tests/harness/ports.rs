//! Loopback ports that nobody uses.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Below the ephemeral range of Linux (32768 and up): a port given out here is not taken by some
/// outgoing connection in the moment before its server binds it.
const FIRST: u32 = 15_000;
const COUNT: u32 = 17_000;

static NEXT: AtomicU32 = AtomicU32::new(0);
static PROBING: Mutex<()> = Mutex::new(());

pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// An address that was free a moment ago and is given to nobody else in this process.
pub fn free() -> SocketAddr {
    // Test programs that run side by side start at different places.
    let start = std::process::id().wrapping_mul(311) % COUNT;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + (start + step) % COUNT;
        let address = loopback(u16::try_from(port).unwrap_or_default());
        if is_free(address) {
            return address;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}

pub fn is_free(address: SocketAddr) -> bool {
    let _alone = while_none_is_probed();
    TcpListener::bind(address).is_ok()
}

/// Whoever starts a process holds this: between fork and exec a child has its parent's sockets, and a
/// port that was only looked at would stay taken for as long.
pub(crate) fn while_none_is_probed() -> MutexGuard<'static, ()> {
    PROBING.lock().unwrap_or_else(PoisonError::into_inner)
}

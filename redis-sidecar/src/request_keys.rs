//! What is kept of the keys that a request carries: hashes. Nothing that a client sent reaches Redis,
//! a log or a list.

use admission::id::{KeyHash, PoolName};
use admission::message::{AdmitRequest, KEY_BYTES_MAX};

#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestKeys {
    pub(crate) client: Option<KeyHash>,
    pub(crate) affinity: Option<KeyHash>,
}

impl RequestKeys {
    pub(crate) fn of(request: &AdmitRequest) -> Self {
        let hash = |key: &String| hash(&request.pool, key);
        Self {
            client: request.client.as_ref().map(hash),
            affinity: (request.affinity.as_ref()).map(|affinity| hash(&affinity.key)),
        }
    }
}

/// Differs from pool to pool, so that nobody can be followed from one to the next.
pub(crate) fn hash(pool: &PoolName, key: &str) -> KeyHash {
    let mut sha1 = sha1_smol::Sha1::new();
    sha1.update(pool.as_str().as_bytes());
    sha1.update(b"\0");
    let bytes = key.as_bytes();
    sha1.update(bytes.get(..KEY_BYTES_MAX).unwrap_or(bytes));
    let [
        first,
        second,
        third,
        fourth,
        fifth,
        sixth,
        seventh,
        eighth,
        ..,
    ] = sha1.digest().bytes();
    KeyHash::from_bytes([first, second, third, fourth, fifth, sixth, seventh, eighth])
}

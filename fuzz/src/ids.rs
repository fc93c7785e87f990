//! Names and ids: what is parsed is printed and parsed as the same, and has one spelling.

use admission::id::{
    Address, Epoch, HolderId, IdError, Incarnation, KeyHash, LeaseId, Origin, PoolName, ProxyId,
    WorkerId,
};
use admission::policy::Rate;
use redis_sidecar::atomic::{CountKey, Owner};
use std::fmt::{Debug, Display};
use std::str::FromStr;

pub(crate) fn run(input: &[u8]) {
    let proxy = ProxyId::lossy(input);
    assert_eq!(ProxyId::parse(proxy.as_str()), Ok(proxy));
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    one_spelling::<PoolName>(text);
    one_spelling::<WorkerId>(text);
    one_spelling::<Incarnation>(text);
    one_spelling::<ProxyId>(text);
    one_spelling::<HolderId>(text);
    one_spelling::<LeaseId>(text);
    one_spelling::<KeyHash>(text);
    one_spelling::<Origin>(text);
    if let Some(epoch) = one_spelling::<Epoch>(text) {
        assert!(
            !format!("{epoch:?}").contains(&*epoch.text()),
            "it is a secret"
        );
    }
    if let Ok(address) = Address::parse(text) {
        assert_eq!(Address::parse(&address.to_string()), Ok(address));
        let host = address.socket().ip().to_canonical();
        assert!(
            address.socket().port() != 0 && !host.is_unspecified(),
            "{text}"
        );
    }
    if let Ok(rate) = text.parse::<Rate>() {
        assert_eq!(rate.to_string().parse(), Ok(rate), "{text}");
    }
    if let Ok(key) = CountKey::parse(text) {
        // It stands between the braces of a Redis key.
        assert!(!key.to_string().contains(['{', '}', ' ', '\n']));
    }
    if let Ok(owner) = Owner::parse(text) {
        assert_eq!(owner.as_str(), text);
    }
}

fn one_spelling<T>(text: &str) -> Option<T>
where
    T: FromStr<Err = IdError> + Display + PartialEq + Debug,
{
    let id: T = text.parse().ok()?;
    assert_eq!(id.to_string(), text);
    let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
    assert!(printable, "it goes into headers, keys and logs");
    Some(id)
}

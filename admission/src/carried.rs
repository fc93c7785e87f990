//! What a request carries that is not for its worker alone: keys, and how often it was sent elsewhere.
//! All as the bytes that the client sent; what is no text is read as far as it is.

use crate::message::KEY_BYTES_MAX;
use std::net::{IpAddr, SocketAddr};

/// The parameter by which a redirected request tells how often it was redirected.
const HOP_PARAMETER: &str = "berth-hop";
/// So often a client is sent elsewhere; then the workers do not agree, and it is told to wait.
pub const HOPS_MAX: u32 = 2;

/// A key as it is sent on.
pub fn key(bytes: &[u8]) -> String {
    let bytes = bytes.get(..KEY_BYTES_MAX).unwrap_or(bytes);
    String::from_utf8_lossy(bytes).into_owned()
}

/// The value of one of the cookies in a `Cookie` header.
pub fn cookie<'a>(header: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let cookies = header.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    named(cookies, name)
}

/// The value of one of the parameters behind a path's question mark.
pub fn parameter<'a>(path: &'a [u8], name: &str) -> Option<&'a [u8]> {
    named(parameters(path)?, name)
}

fn parameters(path: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let start = path.iter().position(|&byte| byte == b'?')?;
    let query = path.get(start.saturating_add(1)..)?;
    Some(query.split(|&byte| byte == b'&'))
}

fn named<'a>(pairs: impl Iterator<Item = &'a [u8]>, name: &str) -> Option<&'a [u8]> {
    let value = |pair: &'a [u8]| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    pairs.filter_map(value).find(|value| !value.is_empty())
}

/// Whom an address belongs to: an IPv6 network of 64 bits is one client's, who may use any of its
/// addresses.
pub fn peer(address: &[u8]) -> String {
    let text = String::from_utf8_lossy(address);
    let ip = match text.parse::<SocketAddr>() {
        Ok(address) => Some(address.ip()),
        Err(_) => text.parse::<IpAddr>().ok(),
    };
    match ip.map(|ip| ip.to_canonical()) {
        Some(IpAddr::V4(ip)) => ip.to_string(),
        Some(IpAddr::V6(ip)) => {
            let [a, b, c, d, ..] = ip.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
        None => text.into_owned(),
    }
}

/// How often the request was redirected before.
pub fn hops(path: &[u8]) -> u32 {
    let number = parameter(path, HOP_PARAMETER).and_then(|value| std::str::from_utf8(value).ok());
    number.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The path as its worker is to see it.
pub fn without_hops(path: &[u8]) -> Vec<u8> {
    let Some(parameters) = parameters(path) else {
        return path.to_vec();
    };
    let is_hop = |pair: &&[u8]| {
        pair.strip_prefix(HOP_PARAMETER.as_bytes())
            .is_some_and(|rest| rest.first() == Some(&b'='))
    };
    let kept: Vec<&[u8]> = parameters.filter(|pair| !is_hop(pair)).collect();
    let mut whole: Vec<u8> = path
        .iter()
        .copied()
        .take_while(|&byte| byte != b'?')
        .collect();
    if !kept.is_empty() {
        whole.push(b'?');
        whole.extend(kept.join(&b'&'));
    }
    whole
}

/// The same, redirected once more, as a header may carry it.
pub fn with_hop(path: &[u8]) -> String {
    let hops = hops(path).saturating_add(1);
    let mut whole = String::new();
    for byte in without_hops(path) {
        if byte.is_ascii_graphic() {
            whole.push(char::from(byte));
        } else {
            whole.push_str(&format!("%{byte:02X}"));
        }
    }
    let joint = if whole.contains('?') { '&' } else { '?' };
    whole.push_str(&format!("{joint}{HOP_PARAMETER}={hops}"));
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn a_cookie_is_found_among_others() {
        let header = b"a=1; sid=x=y;b=2; sidx=3";
        assert_eq!(cookie(header, "sid"), Some(&b"x=y"[..]));
        assert_eq!(cookie(header, "b"), Some(&b"2"[..]));
        assert_eq!(cookie(header, "c"), None);
        assert_eq!(cookie(b"sid=", "sid"), None, "nothing is no key");
    }

    #[test]
    fn a_parameter_is_found_behind_the_question_mark_only() {
        assert_eq!(parameter(b"/a?tx=1&b", "tx"), Some(&b"1"[..]));
        assert_eq!(parameter(b"/a?b&tx=1", "tx"), Some(&b"1"[..]));
        assert_eq!(parameter(b"/tx=1", "tx"), None);
        assert_eq!(parameter(b"/a?xtx=1", "tx"), None);
    }

    #[test]
    fn a_long_key_is_cut_and_no_byte_is_too_strange() {
        assert_eq!(key(&[b'x'; 5000]).len(), KEY_BYTES_MAX);
        assert_eq!(key(b"a\xffb"), "a\u{fffd}b");
    }

    #[test]
    fn a_peer_is_a_host_or_a_network_of_64_bits() {
        assert_eq!(peer(b"10.0.0.1:1234"), "10.0.0.1");
        assert_eq!(peer(b"[::ffff:10.0.0.1]:1234"), "10.0.0.1");
        assert_eq!(peer(b"[2001:db8:1:2:3::4]:1"), "2001:db8:1:2::/64");
        assert_eq!(peer(b"@pipe"), "@pipe");
    }

    #[test]
    fn hops_are_counted_in_the_path_and_hidden_from_the_worker() {
        assert_eq!(with_hop(b"/a"), "/a?berth-hop=1");
        assert_eq!(with_hop(b"/a?x=1&berth-hop=1&y"), "/a?x=1&y&berth-hop=2");
        assert_eq!(with_hop(b"/\xc3\xa4\r"), "/%C3%A4%0D?berth-hop=1");
        assert_eq!(without_hops(b"/a?berth-hop=1"), b"/a");
        assert_eq!(without_hops(b"/a?x=1&berth-hop=1"), b"/a?x=1");
        assert_eq!(hops(b"/a?berth-hop=2"), 2);
        assert_eq!(hops(b"/a?berth-hop=many"), 0);
        assert_eq!(hops(b"/a"), 0);
    }
}

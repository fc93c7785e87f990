use super::*;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const EPOCH: &str = "00112233445566778899aabbccddeeff";

#[test]
fn names_keep_to_their_alphabet_and_length() {
    assert!(PoolName::parse("browsers-eu_1.x").is_ok());
    assert!(PoolName::parse("").is_err());
    assert!(PoolName::parse("{browsers}").is_err());
    assert!(PoolName::parse(&"a".repeat(POOL_BYTES_MAX + 1)).is_err());
}

#[test]
fn a_keys_hash_has_one_spelling() {
    let zeros = "0".repeat(16);
    let least = KeyHash::from_bytes([0; 8]);
    assert_eq!(KeyHash::parse(&least.to_string()), Ok(least));
    assert_ne!(least.to_string(), zeros);
    for other in [zeros.as_str(), "1", "000000000000000A", "+000000000000001"] {
        assert!(KeyHash::parse(other).is_err(), "{other}");
    }
}

#[test]
fn a_lease_id_has_one_spelling() {
    let id = LeaseId::parse(&format!("{EPOCH}.17")).unwrap();
    assert_eq!(id.seq, 17);
    assert_eq!(id.to_string(), format!("{EPOCH}.17"));
    for other in ["+17", "017", "", "-1", "1.7", "9007199254740993"] {
        assert!(
            LeaseId::parse(&format!("{EPOCH}.{other}")).is_err(),
            "{other}"
        );
    }
}

#[test]
fn a_holder_is_proxy_and_epoch() {
    let holder = HolderId::parse(&format!("envoy-1/{EPOCH}")).unwrap();
    assert_eq!(holder.proxy.as_str(), "envoy-1");
    assert_eq!(holder.to_string(), format!("envoy-1/{EPOCH}"));
    assert!(HolderId::parse("envoy-1").is_err());
}

#[test]
fn random_bytes_make_an_epoch_that_parses() {
    let epoch = Epoch::from_random([0xAB; 16]);
    assert_eq!(Epoch::parse(&epoch.text()), Ok(epoch));
}

#[test]
fn debug_output_hides_the_epoch() {
    let shown = format!("{:?}", Epoch::parse(EPOCH).unwrap());
    assert!(!shown.contains(EPOCH));
}

#[test]
fn any_node_id_becomes_a_proxy_id() {
    assert_eq!(
        ProxyId::lossy("sidecar~10.0.0.1~ü".as_bytes()).as_str(),
        "sidecar-10.0.0.1---"
    );
    assert_eq!(ProxyId::lossy(b"").as_str(), "envoy");
}

#[test]
fn addresses_are_numeric_and_complete() {
    assert!(Address::parse("127.0.0.1:80").is_ok());
    assert!(Address::parse("[::1]:80").is_ok());
    for wrong in [
        "worker:80",
        "127.0.0.1",
        "127.0.0.1:0",
        "0.0.0.0:80",
        "[::]:80",
        "[::ffff:0.0.0.0]:80",
        "",
    ] {
        assert!(Address::parse(wrong).is_err(), "{wrong}");
    }
}

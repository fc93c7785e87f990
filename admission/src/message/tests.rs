use super::*;
use serde_json::json;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const EPOCH: &str = "00112233445566778899aabbccddeeff";

#[test]
fn a_denial_reads_as_documented() {
    let answer = AdmitAnswer::Denied(Denied {
        reason: DenyReason::PoolFull,
        retry_after_ms: 1000,
    });
    assert_eq!(
        serde_json::to_value(&answer).unwrap(),
        json!({"decision": "denied", "reason": "pool_full", "retry_after_ms": 1000})
    );
}

#[test]
fn an_admission_reads_as_documented() {
    let text = json!({"decision": "admitted", "worker": "w1", "incarnation": "a", "address": "10.0.0.1:80",
        "lease": format!("{EPOCH}.1"), "active": 1, "lifetime": 5});
    let AdmitAnswer::Admitted(admitted) = serde_json::from_value(text).unwrap() else {
        panic!("not admitted");
    };
    assert_eq!(
        (admitted.active, admitted.lifetime, admitted.probe),
        (1, 5, false)
    );
}

#[test]
fn a_load_report_has_the_field_names_that_workers_use() {
    let text = json!({"incarnation": "a", "report": {"status": "SERVING",
        "runningHttpSession": 1, "runningSql": 2, "runningTx": 3, "maxHttpSessions": 4,
        "maxOpenConns": 5, "maxTransactionConns": 6, "openConns": 7, "idleConns": 8,
        "waitConnCount": 9, "p95LatencyMs": 10.5, "errorRate1m": 0.01, "timeouts1m": 11,
        "uptimeSec": 12.5}});
    let request: HeartbeatRequest = serde_json::from_value(text.clone()).unwrap();
    assert_eq!(serde_json::to_value(&request).unwrap(), text);
}

#[test]
fn a_load_that_cannot_be_is_refused_by_name() {
    let report = |figures: serde_json::Value| {
        let mut text = json!({"status": "SERVING"});
        text.as_object_mut()
            .unwrap()
            .extend(figures.as_object().unwrap().clone());
        serde_json::from_value::<LoadReport>(text).unwrap()
    };
    assert_eq!(report(json!({})).validate(), Ok(()));
    for (field, value) in [
        ("p95LatencyMs", -1.0),
        ("uptimeSec", -0.5),
        ("errorRate1m", 5.0),
    ] {
        let sentence = report(json!({ field: value })).validate().unwrap_err();
        assert!(
            sentence.starts_with(&format!("report.{field} ")),
            "{sentence}"
        );
    }
}

#[test]
fn operations_are_spelled_alike_in_json_and_text() {
    for operation in Operation::ALL {
        assert_eq!(serde_json::to_value(operation).unwrap(), operation.as_str());
    }
}

#[test]
fn reasons_and_advice_are_spelled_alike_in_json_and_text() {
    for reason in DenyReason::ALL {
        assert_eq!(
            serde_json::to_value(reason).unwrap(),
            json!(reason.as_str())
        );
        assert_eq!(DenyReason::parse(reason.as_str()), Some(reason));
    }
    for advice in Advice::ALL {
        assert_eq!(
            serde_json::to_value(advice).unwrap(),
            json!(advice.as_str())
        );
        assert_eq!(Advice::parse(advice.as_str()), Some(advice));
    }
}

#[test]
fn a_full_batch_fits_the_body_limit() {
    let release = Release {
        lease: LeaseId::parse(&format!("{EPOCH}.9007199254740992")).unwrap(),
        r#use: Use::Unused,
        outcome: Outcome::ResetBeforeHeaders,
        status: Some(503),
        handshake_us: Some(86_400_000_000),
        upgrade_us: None, // one of the two
        session_us: Some(86_400_000_000),
        bytes_read: 1 << 50,
        bytes_written: 1 << 50,
        unbind: Some(KeyHash::from_bytes([255; 8])),
    };
    let request = ReleaseRequest {
        pool: PoolName::parse(&"p".repeat(64)).unwrap(),
        holder: HolderId::parse(&format!("{}/{EPOCH}", "e".repeat(64))).unwrap(),
        releases: vec![release; BATCH_MAX],
    };
    assert!(serde_json::to_vec(&request).unwrap().len() < 20 * 1024);
}

//! Whatever is kept can be counted anew, and is told when it is off.

use crate::support::{Pool, Vm};

async fn busy() -> Pool {
    let pool = Pool::with(|policy| policy.max_concurrent = 3).await;
    for worker in ["w1", "w2", "w3"] {
        pool.register(worker, "a").await;
    }
    pool
}

async fn drift(pool: &Pool, figure: &str) -> u64 {
    let found = pool.store.audit(&pool.name).await.expect("an audit");
    found.drift[figure]
}

#[tokio::test]
async fn figures_that_were_kept_agree_with_the_leases() {
    let pool = busy().await;
    let (mut vm, mut other) = (Vm::new(&pool, 7), Vm::new(&pool, 8));
    for _ in 0..4 {
        vm.admit().await;
        other.admit().await;
    }
    vm.renew().await;
    pool.register("w1", "b").await;
    let found = pool.store.audit(&pool.name).await.expect("an audit");
    assert_eq!((found.leases, found.workers, found.holders), (8, 3, 2));
    assert_eq!(found.total(), 0, "{found:?}");
}

#[tokio::test]
async fn a_lease_that_vanished_is_missed_everywhere() {
    let pool = busy().await;
    let mut vm = Vm::new(&pool, 7);
    let number = vm.admit().await;
    let key = format!("ws:{{demo}}:holder:{}", vm.holder.epoch);
    pool.redis
        .command(&["HDEL", &key, &number.to_string()])
        .await;
    for figure in ["connections", "active", "held"] {
        assert_eq!(drift(&pool, figure).await, 1, "{figure}");
    }
}

#[tokio::test]
async fn a_worker_out_of_its_place_is_noticed() {
    let pool = busy().await;
    let out_of_index = ["ZPOPMIN", "ws:{demo}:index"];
    pool.redis.command(&out_of_index).await;
    assert!(drift(&pool, "index").await > 0);
    let stale = ["ZADD", "ws:{demo}:absent", "1", "w2"];
    pool.redis.command(&stale).await;
    assert!(drift(&pool, "heartbeats").await > 0);
    let exiled = ["ZADD", "ws:{demo}:ejected", "99999999", "w2"];
    pool.redis.command(&exiled).await;
    assert_eq!(drift(&pool, "ejected").await, 1);
}

#[tokio::test]
async fn an_audit_changes_nothing() {
    let pool = busy().await;
    Vm::new(&pool, 7).admit().await;
    let keys = redis_sidecar::pool_keys(&pool.name);
    let live = keys[1].as_str();
    // Only the clock goes on, by the look after the pool that comes first.
    let dump = async || {
        pool.redis.command(&["HDEL", live, "head"]).await;
        pool.redis.digest().await
    };
    let head = pool.redis.command(&["HGET", live, "head"]).await;
    let redis::Value::BulkString(head) = head else {
        panic!("no head");
    };
    let before = dump().await;
    let mut connection = pool.redis.connection().await;
    let mut put = redis::cmd("HSET");
    put.arg(live).arg("head").arg(head);
    put.exec_async(&mut connection).await.unwrap();
    pool.assert_no_drift().await;
    assert_eq!(dump().await, before);
}

use crate::support::{Pool, Vm};
use admission::message::Verdict;
use redis_sidecar::lease_view::LeaseState;
use redis_sidecar::store::Sign;

#[tokio::test]
async fn leases_are_listed_without_a_word_that_would_give_power_over_them() {
    let pool = Pool::with(|policy| policy.max_concurrent = 10).await;
    pool.register("w1", "a").await;
    let (mut vm, mut silent) = (Vm::new(&pool, 7), Vm::new(&pool, 8));
    vm.admit().await;
    silent.admit().await;
    silent.presence(Sign::Opened, 1).await;
    pool.clock().await.advance(15_000.0).await;
    vm.renew().await;
    silent.presence(Sign::Vouched, 1).await;
    pool.look_after().await;
    vm.admit().await;
    let leases = pool.store.leases(&pool.name).await.unwrap();
    let states: Vec<LeaseState> = leases.iter().map(|lease| lease.state).collect();
    use LeaseState::{Held, Quarantined, Reserved};
    assert_eq!(states, [Held, Reserved, Quarantined]);
    let text = serde_json::to_string(&leases).unwrap();
    for holder in [&vm.holder, &silent.holder] {
        assert!(!text.contains(&*holder.epoch.text()));
    }
    let first = &leases[0];
    assert!(first.holder.starts_with("envoy-7/"), "{first:?}");
    let hash = first.holder.strip_prefix("envoy-7/").unwrap();
    assert_eq!((hash.len(), &first.lease), (12, &format!("{hash}:1")));
    assert_eq!(first.incarnation.as_ref().unwrap().as_str(), "a");
    assert!(first.age_ms.is_some_and(|age| age >= 15_000.0));
}

#[tokio::test]
async fn leases_of_former_lives_and_reasserted_ones_are_listed_too() {
    let pool = Pool::with(|policy| policy.max_concurrent = 1_000).await;
    pool.register("w1", "a").await;
    let mut vm = Vm::new(&pool, 7);
    for _ in 0..3 {
        vm.admit().await;
    }
    pool.wipe().await;
    pool.register("w1", "b").await;
    assert_eq!(vm.list().await.verdict, Verdict::Kept);
    let leases = pool.store.leases(&pool.name).await.unwrap();
    assert_eq!(leases.len(), 3);
    for lease in leases {
        assert_eq!(lease.incarnation.unwrap().as_str(), "a");
        assert_eq!(lease.age_ms, None);
    }
}

#[tokio::test]
async fn a_long_list_is_whole() {
    let pool = Pool::with(|policy| {
        policy.max_concurrent = 2_000;
        policy.max_lifetime = 10_000;
    })
    .await;
    pool.register("w1", "a").await;
    let mut vm = Vm::new(&pool, 7);
    for _ in 0..1_000 {
        vm.admit().await;
    }
    let leases = pool.store.leases(&pool.name).await.unwrap();
    assert_eq!(leases.len(), 1_000);
}

//! Row 11: the primary changes.

use super::desk::{Desk, at};
use harness::SentinelGroup;

/// Three places are taken and have reached the replicas.
async fn with_leases() -> (SentinelGroup, Desk) {
    let group = SentinelGroup::start().await;
    let desk = Desk::open(&at(group.url())).await;
    desk.take(3).await;
    for replica in &group.servers[1..] {
        replica.catches_up_with(&group.servers[0]).await;
    }
    (group, desk)
}

#[tokio::test]
async fn a_primary_that_dies_is_followed_by_the_next() {
    let (group, desk) = with_leases().await;
    let rebuilds = desk.rebuilds().await;
    group.servers[0].process.kill();
    group.promoted(0).await;
    desk.settled().await;
    assert_eq!(desk.rebuilds().await, rebuilds + 1, "data may be lost");
    desk.assert_exact(3).await;
}

#[tokio::test]
async fn a_primary_that_stands_still_is_left_and_not_returned_to() {
    let (group, desk) = with_leases().await;
    group.servers[0].process.freeze().await;
    let (primary, _) = group.promoted(0).await;
    desk.settled().await;
    // It still believes that it is the primary, until the Sentinels tell it.
    group.servers[0].process.thaw();
    desk.settled().await;
    desk.assert_exact(3).await;
    let role = group.servers[primary].info("role").await;
    assert_eq!(role.as_deref(), Some("master"));
}

#[tokio::test]
async fn a_failover_by_an_operator_is_followed() {
    let (group, desk) = with_leases().await;
    let losses = desk.store.losses();
    group.fail_over().await;
    let (primary, _) = group.promoted(0).await;
    harness::eventually("the former primary is left", async || {
        desk.decides().await;
        desk.store.losses() > losses
    })
    .await;
    desk.settled().await;
    let scripts = group.servers[primary].told("FUNCTION FLUSH").await;
    assert_eq!(scripts, "OK");
    desk.assert_exact(3).await;
}

#[tokio::test]
async fn an_unknown_name_is_told() {
    let group = SentinelGroup::start().await;
    let url = group.url().replace("/main", "/other");
    let store = redis_sidecar::store::Store::start(&at(url), [].into()).expect("a store");
    let pool = admission::id::PoolName::parse("demo").expect("a pool name");
    harness::eventually("it says what is wrong", async || {
        let error = store.reap(&pool).await.expect_err("nobody to ask");
        error.to_string().contains("No such master") || error.to_string().contains("\"other\"")
    })
    .await;
}

#[tokio::test]
async fn sentinels_are_entered_by_their_own_user() {
    const LINE: &str = "ACL SETUSER watch on >sesame resetchannels -@all \
         +sentinel|get-master-addr-by-name +sentinel|master";
    let group = SentinelGroup::start().await;
    for sentinel in &group.sentinels {
        sentinel.command(LINE).await.expect("a user");
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "barley").expect("a password");
    let mut settings = at(group.url());
    settings.sentinel.user = Some("watch".into());
    settings.sentinel.password_file = Some(file.path().into());
    let store = redis_sidecar::store::Store::start(&settings, [].into()).expect("a store");
    let pool = admission::id::PoolName::parse("demo").expect("a pool name");
    harness::eventually("the password is refused", async || {
        let error = store.reap(&pool).await.expect_err("nobody to ask");
        error.to_string().contains("redis.sentinel.password_file")
    })
    .await;
    std::fs::write(file.path(), "sesame").expect("a password");
    harness::eventually("the right one is read", async || store.is_up()).await;
}

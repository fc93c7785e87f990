//! The line that `berth acl` prints is enough, and no more than enough.

use crate::support::{Pool, Redis, Vm, default_policy, eventually, holder};
use admission::id::PoolName;
use admission::message::AffinityRequest;
use admission::outcome::Outcome;
use redis_sidecar::acl;
use redis_sidecar::atomic::{CountKey, Operation, Owner, Tenure};
use redis_sidecar::explain::ExplainRequest;
use redis_sidecar::settings::RedisSettings;
use redis_sidecar::store::{Sign, Store};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use tempfile::NamedTempFile;

const PASSWORD: &str = "open-sesame";

fn password_file(password: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a file");
    writeln!(file, "{password}").expect("a password");
    file
}

/// Only `berth` may enter this Redis, and only do what this line says.
async fn guarded(line: &str) -> Redis {
    let redis = Redis::start();
    let line = line.replace(">PASSWORD", &format!(">{PASSWORD}"));
    let mut words = vec!["ACL", "SETUSER"];
    words.extend(line.split_whitespace().skip(1));
    eventually(async || redis.answers().await).await;
    redis.command(&words).await;
    redis.command(&["ACL", "SETUSER", "default", "off"]).await;
    redis
}

fn settings(redis: &Redis, password_file: &Path) -> RedisSettings {
    RedisSettings {
        user: Some("berth".into()),
        password_file: Some(password_file.into()),
        ..redis.settings()
    }
}

/// A pool that is asked by this user.
async fn pool(redis: Redis, password_file: &Path) -> Pool {
    let name = PoolName::parse("demo").expect("a pool name");
    let mut policy = default_policy();
    policy.client.max_concurrent = 3;
    let pools = [(name.clone(), policy)].into();
    let store = Store::start(&settings(&redis, password_file), pools).expect("a store");
    eventually(async || match store.apply_pools().await {
        Ok(()) => true,
        Err(error) => {
            let forbidden = error.to_string().contains("berth acl");
            assert!(!forbidden, "{error}");
            false
        }
    })
    .await;
    Pool {
        redis,
        store,
        name,
        holder: holder(1),
        minted: AtomicU64::new(0),
    }
}

/// Everything that a sidecar ever does; a refusal is a panic.
async fn whole_work(pool: &Pool) {
    for worker in ["w1", "w2"] {
        pool.register(worker, "a").await;
        pool.heartbeat(worker, "a").await;
    }
    let held = pool
        .admit_for(|request| {
            request.client = Some("somebody".into());
            let (key, bind) = ("session".into(), true);
            request.affinity = Some(AffinityRequest { key, bind });
        })
        .await;
    pool.observe(&held.lease, Outcome::Success).await;
    pool.release(&held.lease).await;
    // At once, so that they are a group.
    let together = [pool.mint(), pool.mint(), pool.mint()];
    let [first, second, third] = together.each_ref().map(|lease| pool.ask(lease));
    tokio::join!(first, second, third);
    for lease in &together {
        pool.release(lease).await;
    }
    let mut vm = Vm::new(pool, 7);
    vm.presence(Sign::Opened, 1).await;
    let (kept, lost) = (vm.admit().await, vm.admit().await);
    vm.held.remove(&lost); // told by the next list
    vm.list().await;
    vm.list().await;
    vm.release(kept).await;
    vm.presence(Sign::Ended, 1).await;
    pool.look_after().await;
    let (store, name) = (&pool.store, &pool.name);
    pool.view().await;
    pool.explain(&ExplainRequest::default()).await;
    store.leases(name).await.expect("the leases");
    pool.assert_no_drift().await;
    let policy = pool.view().await.policy;
    for weight in [10, 20] {
        let mut policy = policy.clone();
        policy.max_concurrent = weight;
        store.apply(name, &policy).await.expect("a policy");
    }
    let worker = crate::support::id("w1");
    store.drain(name, &worker).await.expect("a drain");
    store.remove(name, &worker).await.expect("a removal");
    counts(store).await;
}

async fn counts(store: &Store) {
    let owner = Owner::parse("request-1").expect("an owner");
    let tenure = Some(Tenure {
        owner: owner.clone(),
        ttl_ms: 60_000,
    });
    let increment = |tenure| Operation::CheckAndIncrement { limit: 5, tenure };
    let ttl_ms = None;
    for operation in [
        increment(tenure),
        increment(None),
        Operation::Renew { owner, ttl_ms },
        Operation::Decrement { owner: None },
        Operation::CheckRateLimit {
            limit: 5,
            window_s: 60,
        },
        Operation::Get,
    ] {
        let key = CountKey::parse("gpu").expect("a key");
        store.atomic(&key, &operation).await.expect("a count");
    }
}

#[tokio::test]
async fn the_printed_line_is_enough_for_the_whole_work() {
    let password = password_file(PASSWORD);
    let line = acl::line(&RedisSettings::default()).expect("a line");
    let pool = pool(guarded(&line).await, password.path()).await;
    whole_work(&pool).await;
}

#[tokio::test]
async fn without_any_one_of_its_commands_something_is_refused() {
    let password = password_file(PASSWORD);
    let line = acl::line(&RedisSettings::default()).expect("a line");
    for command in acl::commands(&RedisSettings::default()).expect("commands") {
        let words = line
            .split(' ')
            .filter(|word| *word != format!("+{command}"));
        let redis = guarded(&words.collect::<Vec<_>>().join(" ")).await;
        let password_file = password.path().to_owned();
        // By itself, so that its panic is its own.
        let work = async move { whole_work(&pool(redis, &password_file).await).await };
        let here = tokio::task::LocalSet::new();
        let work = here.spawn_local(work);
        let done = here.run_until(work).await;
        assert!(done.is_err(), "{command} is not needed");
    }
}

#[tokio::test]
async fn that_user_reaches_nothing_else() {
    let line = acl::line(&RedisSettings::default()).expect("a line");
    let redis = guarded(&line).await;
    let mut connection = redis.connection_as("berth", PASSWORD).await;
    for words in [
        "GET secret",
        "SET secret 1",
        "KEYS *",
        "FLUSHALL",
        "CONFIG GET *",
        "FUNCTION FLUSH",
        "ACL LIST",
        "PUBLISH news 1",
        "DEBUG SLEEP 0",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let mut command = redis::cmd(words[0]);
        let refused = command.arg(&words[1..]).exec_async(&mut connection).await;
        let error = refused.expect_err("refused");
        let forbidden = redis::ServerErrorKind::NoPerm;
        assert_eq!(error.kind(), forbidden.into(), "{words:?}: {error}");
    }
}

#[tokio::test]
async fn a_wrong_password_is_told_and_not_shown_and_a_right_one_heals() {
    let line = acl::line(&RedisSettings::default()).expect("a line");
    let redis = guarded(&line).await;
    let password = password_file("open-barley");
    let store = Store::start(&settings(&redis, password.path()), [].into()).expect("a store");
    let pool = PoolName::parse("demo").expect("a pool name");
    eventually(async || {
        let error = store.reap(&pool).await.expect_err("no entry").to_string();
        assert!(!error.contains("barley"), "{error}");
        error.contains("redis.password_file")
    })
    .await;
    std::fs::write(password.path(), PASSWORD).expect("a password");
    eventually(async || store.is_up()).await;
}

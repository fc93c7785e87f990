//! The scripts alone, with arguments that no sidecar passes. They may be refused, but never half obeyed.

use super::words::{OUTCOMES, Words};
use super::{BATCH, Run, policies};
use crate::support::{Pool, library, mutated};
use admission::policy::Policy;
use redis::aio::MultiplexedConnection;
use redis_sidecar::library::{KeysOf, Library, VERBS};

/// What a worker reports, and the same with a figure that is a text.
const LOAD: &str = r#"{"status":"SERVING","runningHttpSession":1,"maxHttpSessions":9,"runningSql":0,"openConns":1,
    "maxOpenConns":9,"idleConns":1,"waitConnCount":0,"runningTx":0,"maxTransactionConns":9,"p95LatencyMs":5,
    "errorRate1m":0,"timeouts1m":0,"uptimeSec":99}"#;
const NO_LOAD: &str = r#"{"status":"SERVING","runningHttpSession":1,"maxHttpSessions":9,"runningSql":0,"openConns":1,
    "maxOpenConns":9,"idleConns":1,"waitConnCount":0,"runningTx":0,"maxTransactionConns":9,"p95LatencyMs":"5 ms",
    "errorRate1m":0,"timeouts1m":0,"uptimeSec":99}"#;

/// What a sidecar would pass.
fn arguments(dice: &mut fastrand::Rng, verb: &str) -> Vec<String> {
    let epoch = dice.epoch();
    let (number, worker, key) = (dice.lease_number(), dice.worker(), "00ff00ff00ff00ff");
    let lease = format!("{epoch}.{number}");
    let number = number.to_string();
    let words: Vec<&str> = match verb {
        "admit" => vec![
            &number,
            &lease,
            "0",
            dice.of(&["query", "execute", "begin"]),
            dice.of(&["", &worker]),
            "envoy",
            key,
            "",
            "1",
            "0",
        ],
        "release" => {
            let outcome = dice.of(&OUTCOMES);
            vec![&number, &lease, "used", outcome, "5", "", "7", "1", "2", ""]
        }
        "observe" => vec![&number, dice.of(&OUTCOMES), "5"],
        "bind" => vec![&number, key],
        "renew" => vec![
            dice.of(&["1", "2", "3"]),
            "envoy",
            "beat",
            "1",
            "5",
            "",
            "1",
            &number,
        ],
        "reassert" => vec!["2", &number, "3", &worker, "a", "10.0.0.1:80", ""],
        "renounce" => vec!["2", &number],
        "presence" => vec![dice.of(&["opened", "vouched", "ended"]), "1", "envoy"],
        "register" => vec![
            &worker,
            dice.incarnation(),
            "10.0.0.1:80",
            "0",
            "1",
            "0",
            "",
            dice.of(&["", "token"]),
        ],
        "heartbeat" => vec![
            &worker,
            dice.incarnation(),
            dice.of(&["", LOAD, NO_LOAD]),
            "3",
            dice.of(&["", "token"]),
        ],
        "drain" | "remove" => vec![&worker, dice.of(&["", "token"])],
        "explain" => vec!["0", "0", "query", ""],
        "view" | "reclaim" | "inventory" | "holders" | "leases" => vec!["0"],
        "atomic_check_and_increment" => vec!["3", dice.of(&["", "me"]), "60000"],
        "atomic_check_rate_limit" => vec!["3", "60"],
        "atomic_decrement" => vec![dice.of(&["", "me"])],
        "atomic_renew" => vec!["me", "60000"],
        "policy" => {
            let policy: Policy = serde_json::from_value(policies::any(dice)).expect("a policy");
            let text = serde_json::to_string(&policy).expect("a policy is JSON");
            return vec![text, "7".into()];
        }
        "reap" | "audit" | "atomic_get" => vec![],
        other => panic!("what does {other} take?"),
    };
    words.into_iter().map(str::to_owned).collect()
}

/// One argument is another, is missing, or there are more.
fn spoil(dice: &mut fastrand::Rng, args: &mut Vec<String>) {
    let at = dice.usize(..=args.len());
    match dice.u8(..6) {
        0 => args.truncate(at),
        1 => args.insert(at, dice.hostile_text()),
        2 => args.extend(args.clone()),
        _ if at < args.len() => args[at] = dice.hostile_text(),
        _ => {}
    }
}

struct Scripts {
    pool: Pool,
    connection: MultiplexedConnection,
    server: String,
    library: Library,
}

impl Scripts {
    async fn new() -> Self {
        let pool = Pool::with(|_| {}).await;
        Self {
            connection: pool.redis.connection().await,
            server: pool.redis.run_id().await,
            library: library(),
            pool,
        }
    }

    /// An error of the script is an answer, too. One of the connection is not.
    async fn call(&mut self, run: &mut Run) {
        let verb = run.dice.of(&VERBS);
        let name = verb.source.name;
        let mut args = arguments(&mut run.dice, name);
        // A policy is checked by the sidecar, every setting of it, and by nobody else.
        if name != "policy" && run.dice.one_in(2) {
            spoil(&mut run.dice, &mut args);
        }
        let keys = match verb.keys {
            KeysOf::Pool => {
                let holder = format!("ws:{{demo}}:holder:{}", run.dice.epoch());
                let keys = redis_sidecar::pool_keys(&self.pool.name);
                keys.into_iter().chain([holder]).collect()
            }
            KeysOf::Count if name == "atomic_check_rate_limit" => {
                vec!["ws:atomic:{k}:rate_limit:60".to_owned()]
            }
            KeysOf::Count => count_keys().to_vec(),
        };
        run.story
            .add(format!("{name} {args:?} of {:?}", keys.last()));
        let mut command = redis::cmd("FCALL");
        let function = self.library.function(name);
        command.arg(function).arg(keys.len()).arg(keys).arg(args);
        let reply = command
            .arg(&self.server)
            .query_async::<redis::Value>(&mut self.connection);
        if let Err(error) = reply.await
            && error.kind() != redis::ServerErrorKind::ResponseError.into()
        {
            run.story.fail(&error.to_string());
        }
        run.executions += 1;
    }

    /// A count is what its owners hold, and each owner but nobody has a deadline.
    async fn audit_count(&mut self, run: &Run) {
        let [count, owners, deadlines] = count_keys();
        let (total, held, due): Kept = redis::pipe()
            .get(count)
            .hgetall(owners)
            .zrange(deadlines, 0, -1)
            .query_async(&mut self.connection)
            .await
            .expect("a count");
        let share = |text: &str| {
            text.split(' ')
                .next()
                .and_then(|held| held.parse::<u64>().ok())
        };
        let sum: Option<u64> = held.iter().map(|(_, text)| share(text)).sum();
        let owners = held.iter().filter(|(owner, _)| !owner.is_empty()).count();
        if sum != Some(total.unwrap_or(0)) || owners != due.len() {
            run.story.fail(&format!("{total:?} {held:?} {due:?}"));
        }
    }
}

/// The total, what each owner holds, and whose time is running.
type Kept = (Option<u64>, Vec<(String, String)>, Vec<String>);

fn count_keys() -> [String; 3] {
    ["count", "owners", "deadlines"].map(|name| format!("ws:atomic:{{k}}:{name}"))
}

#[tokio::test]
async fn hostile_arguments_are_never_half_obeyed() {
    let mut run = Run::new();
    let mut scripts = Scripts::new().await;
    while run.goes_on() {
        for _ in 0..BATCH {
            scripts.call(&mut run).await;
        }
        run.audit(&scripts.pool).await;
        scripts.audit_count(&run).await;
    }
    run.tell("scripts");
}

#[test]
fn without_the_check_of_arguments_the_fuzzer_finds_something() {
    let (with, without) = ("if not is[i](args[from + at[i]]) then", "if false then");
    let found = mutated(with, without, || {
        std::panic::catch_unwind(hostile_arguments_are_never_half_obeyed).is_err()
    });
    assert!(found);
}

//! What each part's figures are, and what they mean to an operator.

use super::charts::DOORS;
use super::of;
use super::table::{Table, grouped};
use serde_json::Value;

pub(super) fn proxy(figures: &Value) -> String {
    let mut table = Table::new(&[
        "",
        "requests/s",
        "p50, ms",
        "p99, ms (from, to)",
        "Envoy's CPU",
        "answerer's",
        "Redis'",
        "together",
        "to ext_authz",
    ]);
    let together = |door: &str| of(&figures[door], "all_cpu_s_per_1000") * 1000.0;
    for door in DOORS {
        let row = &figures[door];
        let us = |name: &str| grouped(of(row, &format!("{name}_cpu_s_per_1000")) * 1000.0);
        table.row([
            format!("`{door}`"),
            grouped(of(row, "rps")),
            grouped(of(row, "p50_ms")),
            format!(
                "{} ({}, {})",
                grouped(of(row, "p99_ms")),
                grouped(of(row, "p99_ms_min")),
                grouped(of(row, "p99_ms_max"))
            ),
            us("envoy"),
            us("answerer"),
            us("redis"),
            us("all"),
            format!("{:.2}", together(door) / together("ext_authz")),
        ]);
    }
    format!(
        "## Requests through a proxy\n\n\
         One Envoy with one thread before a backend that answers at once; {} clients that ask again as soon as they are \
         answered; {} interleaved rounds, medians. CPU in µs for a request; backend and clients are not in it.\n\n{table}\n\
         ![Envoy's CPU for a request](plots/bench-proxy.svg)\n\n\
         With fewer clients questions seldom meet, and fewer go together; ratios are to `ext_authz` with as many \
         clients, medians of three rounds, told and not judged:\n\n{}\n{PEERS}",
        figures["clients"],
        figures["rounds"],
        few(figures)
    )
}

/// What it is with few clients, told by ratios.
fn few(figures: &Value) -> Table {
    let mut table = Table::new(&[
        "clients",
        "",
        "requests/s",
        "p50, ms",
        "p50, to ext_authz",
        "Envoy's CPU, to ext_authz",
        "together, to ext_authz",
    ]);
    for row in figures["few"].as_array().into_iter().flatten() {
        for door in DOORS.into_iter().filter(|door| row[*door].is_object()) {
            let to = |name: &str| {
                let ratio = of(&row[door], name) / of(&row["ext_authz"], name);
                format!("{ratio:.2}")
            };
            table.row([
                grouped(of(row, "clients")),
                format!("`{door}`"),
                grouped(of(&row[door], "rps")),
                grouped(of(&row[door], "p50_ms")),
                to("p50_ms"),
                to("envoy_cpu_s_per_1000"),
                to("all_cpu_s_per_1000"),
            ]);
        }
    }
    table
}

const PEERS: &str = "What each does, and what it cannot:

- `plain`: nobody is asked. No limit holds across proxies.
- `ext_authz_trivial`: Envoy's ext_authz filter, and a service that answers at once. No callout costs less; it decides
  nothing.
- `ext_authz`: the same, and a service on the sidecar's library, which takes the same lease by the same script and
  names the worker in a header. It is told nothing of a request's end, so it cannot release: every lease stays until
  its holder is given up. It is the price of admission alone.
- `lua_admit_only`: Envoy's Lua filter asks the sidecar for the same lease. It does not release either.
- `lua`: the same, and it releases when the response has passed, with a call for each. It is not told of a client that
  leaves earlier, of a WebSocket's end, or of its own proxy's death.
- `berth`: the filter, before the cluster that the peers have. Every lease is taken and given back, releases in
  batches, and beats speak for what is held. After each round the pool is empty.
- `berth_unix_socket`: the same with a Unix socket between filter and sidecar, as `berth_sidecar` in
  [envoy.yaml](../envoy/envoy.yaml) may have it, in place of loopback TCP.
- `plain_connection_each`: nobody is asked, and each request has a connection of its own to the backend.
- `berth_as_shipped`: as [envoy.yaml](../envoy/envoy.yaml) has it, where every lease has a connection of its own to its
  worker. Its peer is `plain_connection_each`: what it costs above `berth` is the price of these connections, and not of
  admission. A WebSocket has one anyway. For many short requests take the cluster's `max_requests_per_connection` out, if you can live
  with what [check.md](check.md) says of it.

`ext_authz`'s service and Berth's sidecar have the same runtime, and both ask Redis in groups.

What it means to an operator: take your requests per second, and the difference to `plain` times that is the CPU
you add. Redis' part of it is that of an admission and its release, as the filter asks for them: size Redis by it. It is paid once for each request or session, however long that lasts. For short requests, compare with what
your present callout costs, not with none. p99 is that of a machine with all cores busy: look at its spread before you
compare.
";

pub(super) fn sidecar(figures: &Value) -> String {
    let mut table = Table::new(&[
        "at once",
        "sidecar, a script call for each",
        "as shipped, in groups",
        "and asked together, as the filter does",
        "in groups, with their releases",
        "redis-benchmark, same script",
        "script that does nothing",
        "the first three to redis-benchmark",
        "sidecar's CPU, µs",
        "Redis'",
        "Redis', by redis-benchmark",
    ]);
    for row in figures["concurrencies"].as_array().into_iter().flatten() {
        let together = |text: String| match of(row, "sidecar_together_admissions_per_s") {
            figure if figure.is_finite() => text,
            _ => "–".into(),
        };
        table.row([
            grouped(of(row, "concurrency")),
            grouped(of(row, "sidecar_alone_admissions_per_s")),
            grouped(of(row, "sidecar_admissions_per_s")),
            together(grouped(of(row, "sidecar_together_admissions_per_s"))),
            grouped(of(row, "sidecar_pairs_per_s")),
            grouped(of(row, "redis_benchmark_admissions_per_s")),
            grouped(of(row, "redis_benchmark_nothing_per_s")),
            format!(
                "{:.2}, {:.2}, {}",
                of(row, "alone_to_ceiling"),
                of(row, "to_ceiling"),
                together(format!("{:.2}", of(row, "together_to_ceiling")))
            ),
            grouped(of(row, "sidecar_us")),
            grouped(of(row, "redis_us")),
            grouped(of(row, "redis_us_of_redis_benchmark")),
        ]);
    }
    let (script, nothing) = (
        &figures["script_us_pipeline_16"],
        &figures["nothing_us_pipeline_16"],
    );
    let counting = &figures["counting_us_pipeline_16"];
    let calls = &figures["redis_calls"];
    format!(
        "## The sidecar\n\n\
         Admissions over HTTP/1.1, each client with a connection of its own, beside redis-benchmark with as many \
         connections and pipelines of one: the same script with nothing between, the ceiling of any service that asks \
         Redis one question at a time; {} interleaved rounds, medians. As it is shipped, the sidecar asks for admissions that come at \
         once with one script call (`redis.group_max`), and the filter has several in one HTTP call: 8 in this table. Ratios are medians \
         of what each round says, so they are not quite those of the medians beside them. CPU is that of admissions as shipped, in groups.\n\n{table}\n\
         ![Admissions per second](plots/bench-sidecar.svg)\n\n\
         The script itself, asked in pipelines of 16 so that Redis is never idle: {} µs of Redis' CPU for an admission \
         ({} to {}), beside {} for a script that does nothing and {} for one that counts to 1,000, which tells how fast this \
         machine's Lua is. It makes {} calls; {} with every limit, a client and an \
         affinity key that is bound; {} with a key that is not bound yet and a strategy in the shadow.\n\n\
         With their releases each release is a call and a script of its own here; the filter sends many with one. Those at 16 and 64 are judged; \
         at 1 and 4 the sidecar waits for answers most of the time, and what it gets less than redis-benchmark is the price of a hop.\n\n\
         What it means to an operator: a Redis admits as often per second as redis-benchmark shows when questions \
         come one by one, and more often when they come in groups, which is when there are many. What a release adds is in the \
         table of proxies, where Redis' CPU is that of both. The sidecar's CPU is beside each Envoy and grows with what that Envoy asks.\n",
        figures["rounds"],
        grouped(of(script, "median")),
        grouped(of(script, "min")),
        grouped(of(script, "max")),
        grouped(of(nothing, "median")),
        grouped(of(counting, "median")),
        grouped(of(calls, "base")),
        grouped(of(calls, "limits_client_affinity")),
        grouped(of(calls, "everything")),
    )
}

pub(super) fn websocket(figures: &Value) -> String {
    let (plain, berth) = (&figures["plain"], &figures["berth"]);
    let mut table = Table::new(&["", "without Berth", "with Berth", "ratio"]);
    let rows = [
        ("opened per second", "opened_per_s"),
        ("opening, p50 ms", "p50_ms"),
        ("opening, p99 ms", "p99_ms"),
        (
            "opening, µs of the Envoys' CPU for each",
            "opening_envoys_us",
        ),
        (
            "opening, µs of the sidecars' CPU for each",
            "opening_sidecars_us",
        ),
        ("opening, µs of Redis' CPU for each", "opening_redis_us"),
        (
            "idle, ms of the Envoys' CPU in a second",
            "idle_envoys_ms_per_s",
        ),
        (
            "idle, ms of the sidecars' CPU in a second",
            "idle_sidecars_ms_per_s",
        ),
        ("idle, ms of Redis' CPU in a second", "idle_redis_ms_per_s"),
        (
            "all leave at once: ms until none is left anywhere",
            "gone_ms",
        ),
        (
            "leaving, µs of the Envoys' CPU for each",
            "closing_envoys_us",
        ),
        (
            "leaving, µs of the sidecars' CPU for each",
            "closing_sidecars_us",
        ),
        ("leaving, µs of Redis' CPU for each", "closing_redis_us"),
        ("bytes of an Envoy for each, all in all", "envoy_bytes_each"),
        ("of these in the filter's own memory", "filter_bytes_each"),
        ("bytes of a sidecar for each", "sidecar_bytes_each"),
        ("bytes of Redis for each", "redis_bytes_each"),
    ];
    for (what, name) in rows {
        let (without, with) = (of(plain, name), of(berth, name));
        let ratio = with / without;
        table.row([
            what.to_owned(),
            grouped(without),
            grouped(with),
            // Beside next to nothing a ratio says nothing.
            if without * 10.0 > with {
                format!("{ratio:.2}")
            } else {
                "–".into()
            },
        ]);
    }
    format!(
        "## WebSockets\n\n\
         {} WebSockets through two Envoys with one thread each, 32 opened at a time, then idle, then all gone at once; \
         through a listener without Berth, and through the shipped one; {} rounds, each with a fleet of its own, \
         medians.\n\n{table}\n\
         An Envoy's bytes are its resident memory (`VmRSS`), buffers and the filter's context in Envoy included; the filter's \
         own are the resident pages of its VM's linear memory (`/proc/PID/smaps`). Redis' are its `used_memory`, and contain \
         what is kept of handshakes. Both kinds of memory grow in steps, so \
         small figures are rough.\n\n\
         What it means to an operator: opening a session costs one question. What keeping all of them costs is what the \
         rows about idle time have above those without Berth, where sidecars and Redis hear from workers and look after pools all the \
         same; around 1 it is no more than noise: a beat speaks for all of a holder's leases by a count and a \
         digest. What an Envoy takes more for each session is the difference of its bytes, {} here; the filter's own are a part of it. When all leave at once, releases go out in batches, and the places are free at the time shown.\n",
        grouped(of(figures, "sessions")),
        figures["rounds"],
        grouped(of(berth, "envoy_bytes_each") - of(plain, "envoy_bytes_each")),
    )
}

pub(super) fn scale(figures: &Value) -> String {
    let rows = |name: &str| figures[name].as_array().cloned().unwrap_or_default();
    let grown = |rows: &[Value], what: &str| {
        let mut table = Table::new(&[
            what,
            "CPU µs for a decision",
            "to the first",
            "a script call for each admission",
            "to the first",
            "on its busiest shard",
            "share of each shard",
        ]);
        let to_first = |row: &Value, name: &str| {
            let first = rows.first().map_or(f64::NAN, |row| of(row, name));
            format!("{:.2}", of(row, name) / first)
        };
        for row in rows {
            let shares = row["shares"].as_array().into_iter().flatten();
            let shares: Vec<String> = shares
                .filter_map(Value::as_f64)
                .map(|share| format!("{share:.2}"))
                .collect();
            table.row([
                grouped(of(row, "count")),
                grouped(of(row, "us")),
                to_first(row, "us"),
                grouped(of(row, "us_alone")),
                to_first(row, "us_alone"),
                grouped(of(row, "us_max")),
                shares.join(", "),
            ]);
        }
        table.to_string()
    };
    let mut leases = Table::new(&[
        "leases",
        "decisions/s",
        "for a second of Redis' CPU",
        "to the first",
    ]);
    let levels = rows("leases");
    let first = levels.first().map_or(f64::NAN, |row| of(row, "per_cpu_s"));
    for row in &levels {
        leases.row([
            grouped(of(row, "leases")),
            grouped(of(row, "per_second")),
            grouped(of(row, "per_cpu_s")),
            format!("{:.2}", of(row, "per_cpu_s") / first),
        ]);
    }
    format!(
        "## Growth\n\n\
         A decision is an admission with its release, 30 of them at once. Over a Redis Cluster of three primaries, each with a \
         replica, all on this machine; so what is told is the CPU time of the primary that makes the decision. Of one pool, \
         admissions that come at once go together; among a hundred pools hardly two meet, and each is a script call of its own. The \
         fourth column has all of them alone (`redis.group_max = 1`), so that pools can be compared.\n\n\
         {}\n{}\n![Redis' CPU for a decision](plots/bench-scale.svg)\n\n\
         And against the leases that one Redis already holds, for 1,000 workers and 10,000 leases of each holder:\n\n\
         {leases}\n![Decisions for a second of Redis' CPU](plots/bench-leases.svg)\n\n\
         A lease takes {} bytes of Redis, everything counted, {} with a client key of its own; a key with an expiry, set by \
         hand for each session, takes {}, and counts nothing.\n\n\
         What it means to an operator: size Redis by decisions per second, not by how many workers or sessions there \
         are; where many pools take turns on a shard, by the second table: \
         what is kept in caches for one pool is not for a hundred. A pool lives on one shard; more pools use more shards, and a pool that needs more than one core's worth \
         of decisions must be split. Memory is leases times bytes.\n",
        grown(&rows("workers"), "workers of one pool"),
        grown(&rows("pools"), "pools of 100 workers"),
        grouped(of(figures, "redis_bytes_each")),
        grouped(of(figures, "redis_bytes_each_with_client")),
        grouped(of(figures, "redis_bytes_of_a_plain_key")),
    )
}

use super::{Setting, settings};

pub(super) const SETTINGS: &[Setting] = settings! {
    "strategy", "random, round_robin, least_connections, sewt, score, nodeads, noerrors, lifetime_first",
        "sewt", "who is chosen: [choosing-a-strategy.md](choosing-a-strategy.md)";
    "max_concurrent", "1 to 2097151 sessions", "2",
        "sessions a worker may have at once; a worker may ask for less when it registers";
    "max_lifetime", "0 to 4294967295 sessions", "1000",
        "sessions a worker may have before it is told to restart; 0: no limit";
    "global_conn", "0 to 4294967295 sessions", "500",
        "sessions the whole pool may have at once; 0: no limit but the workers'";
    "workers_max", "1 to 1000000 workers", "10000",
        "workers the pool may have, those included that are gone but not forgotten";
    "requests.rate", "count/time: ms, s, min, h, d", "60/min",
        "how often the pool admits, in the whole fleet; left out: no limit";
    "requests.burst", "1 to 1000000", "60",
        "how many may come at once after a quiet time; gcra only";
    "requests.algorithm", "gcra, fixed_window", "gcra",
        "evenly, or counted anew in each window of the clock";
    "client.max_concurrent", "0 to 4294967295 sessions", "3",
        "sessions a client may have at once; 0: no limit";
    "client.rate", "count/time: ms, s, min, h, d", "10/s",
        "how often a client is admitted; left out: no limit";
    "client.burst", "1 to 1000000", "20", "as `requests.burst`";
    "client.algorithm", "gcra, fixed_window", "gcra", "as `requests.algorithm`";
    "client.keys_max", "1 to 1000000 clients", "100000",
        "clients told apart at a time; those beyond share one place";
    "affinity.mode", "require, prefer", "prefer",
        "whether a bound worker must, or should, get the requests with its key";
    "affinity.ttl_ms", "100 to 86400000 ms", "600000",
        "a key that nobody used for this long is unbound";
    "affinity.keys_max", "1 to 1000000 keys", "100000",
        "keys bound at a time; those beyond are not bound";
    "shadow", "a list of max_concurrent, global_conn, requests.rate, client.rate, client.max_concurrent, all",
        "[\"requests.rate\"]", "limits that decide and count but deny nobody";
    "shadow_strategy", "another strategy", "sewt",
        "runs beside the pool's own and tells how often it would have chosen otherwise";
    "heartbeat_ttl_ms", "10 to 86400000 ms", "60000",
        "a worker whose last heartbeat is older gets nothing new";
    "lease_ttl_ms", "100 to 86400000 ms", "15000",
        "how long a silent proxy keeps its places: [leases.md](leases.md)";
    "rebuild_ms", "0 to lease_ttl_ms", "1500",
        "when Redis may have lost data, how long to wait at least for the proxies to tell what they hold";
    "ejection_ms", "1 to 86400000 ms", "1000",
        "how long a worker that cannot be reached is left alone at first; it doubles";
    "ejection_max_ms", "ejection_ms to 86400000 ms", "30000", "and at most";
    "retry_after_ms", "0 to 86400000 ms", "1000",
        "when a client that was denied for want of places is told to come back";
    "forget_ms", "heartbeat_ttl_ms to 2592000000 ms", "3600000",
        "a worker without heartbeats and sessions is forgotten after this";
    "service_time", "response, session, handshake", "response",
        "what is timed, for the strategies that learn";
    "sewt.estimator", "ema, p95, p99", "p95", "what a request is expected to take";
    "sewt.alpha", "above 0, at most 1", "0.2", "the newest observation's weight in the average";
    "sewt.adaptive_alpha", "true, false", "true", "lets that weight follow the variance";
    "sewt.alpha_min", "above 0, at most sewt.alpha_max", "0.05", "between this";
    "sewt.alpha_max", "sewt.alpha_min to 1", "0.5", "and this";
    "sewt.size_buckets", "at most 2 sizes in bytes, the smaller first", "[1048575, 104857600]",
        "requests of different sizes are estimated apart";
    "score.top_k", "1 to 100 workers", "3", "the draw is among this many of the best";
    "score.relative_latency", "true, false", "true", "judges a latency by the pool's median";
    "score.relative_k", "above 0", "2.0", "how fast that part falls above the median";
    "score.latency_max_ms", "above 0 ms", "2000.0", "a latency from here on counts as the worst";
    "score.errors_max", "above 0", "0.05", "the same for the ratio of errors";
    "score.timeouts_max", "above 0", "20.0", "the same for timeouts in a minute";
    "score.wait_max", "above 0", "10.0", "the same for waiting connections";
    "score.uptime_full_s", "above 0 s", "300.0", "from here on an uptime counts as the best";
    "score.min_uptime_s", "0 or more s", "30.0", "a worker that is up for less gets nothing";
    "score.begin_tx_free_min", "0 to 1", "0.05", "a transaction needs this part of them free";
    "score.begin_wait_max", "1 or more", "20", "and fewer than this waiting";
    "score.query", "nine weights, 0 or more", "db_free = 0.22",
        "what each part counts for: db_free, http_free, tx_free, latency, errors, timeouts, wait, idle, uptime";
    "score.execute", "nine weights, 0 or more", "db_free = 0.30", "the same for writes";
    "score.begin", "nine weights, 0 or more", "tx_free = 0.42", "the same for transactions";
    "karma.rule", "cumulative, memoryless", "cumulative", "how shares follow the time workers take";
    "karma.period_ms", "10 to 86400000 ms", "60000", "shares change once in this time";
    "karma.floor", "0.001 to 1", "0.1", "no worker falls below this part of an equal share";
    "nodeads.dead_after", "0 to 63 failures", "3", "failures in a row that are tolerated";
    "noerrors.tolerance", "0 to 1", "0.03", "error ratios up to this count as none";
};

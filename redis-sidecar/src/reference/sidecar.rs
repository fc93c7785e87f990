use super::{Setting, settings};

pub(super) const SETTINGS: &[Setting] = settings! {
    "listen", "a list of ip:port and unix:/path", "[\"unix:/run/berth/berth.sock\"]",
        "where the whole API is served to everybody on this host; a Unix socket gets mode 0600";
    "listeners", "a list of address, serves, tokens, tls", "{address = \"10.0.0.5:7443\", serves = [\"worker\"]}",
        "doors that ask who comes, or serve a part of the API: [listeners.md](listeners.md)";
    "tokens.filter_file", "a file", "/etc/berth/filter.tokens",
        "tokens of the filter, one on each line of 32 characters or more; read again when it changes";
    "tokens.operator_file", "a file", "/etc/berth/operator.tokens", "the same for operators, who may do all but what filters do";
    "tokens.metrics_file", "a file", "/etc/berth/metrics.tokens", "the same for who reads metrics only";
    "worker_tokens", "a list of name, file, pools, cidrs", "{name = \"team-a\", file = \"a.tokens\", pools = [\"demo\"]}",
        "tokens of workers, and what each is for; no pools, no cidrs: for all";
    "workers.allow", "a list of networks", "[\"127.0.0.0/8\"]",
        "workers may be there, although it is loopback, link-local or the like";
    "workers.refuse", "a list of ip, ip:port, network/bits", "[\"10.0.0.5:9901\"]",
        "no worker may be there: Envoy itself, its admin interface, Redis";
    "workers.weight_max", "0.001 to 1000", "10.0", "the largest weight that a worker may ask for";
    "limits.connections_max", "1 to 1000000", "10000",
        "connections of each listener, fewer if there are fewer file descriptors; more are closed at once";
    "limits.requests_max", "1 to 1000000", "1024",
        "questions to Redis under way; more are answered 503 `overloaded` at once";
    "limits.header_timeout_ms", "10 to 600000 ms", "10000",
        "how long a caller may take to send a header, or to send another over HTTP/1.1";
    "limits.body_timeout_ms", "10 to 600000 ms", "5000", "how long a body may take to come, or an answer to be taken";
    "log_format", "text, json", "json", "what a line of the log looks like";
    "threads", "1 to 64", "2",
        "threads that answer; one costs the least, more help where TLS or very large pools keep one busy";
    "answer_timeout_ms", "10 to 60000 ms", "250",
        "how long a question may take; keep it below the filter's `ask_timeout_ms`";
    "reap_ms", "1 to 600 ms", "500",
        "how often pools are looked after when nobody asks for a place";
    "audit_s", "0 to 86400 s", "60",
        "how often pools are counted anew from their leases (metric `berth_drift`); 0: never";
    "redis.url", "redis://, rediss://, redis+unix://, redis+sentinel://, redis+cluster://: [redis.md](redis.md)",
        "redis+sentinel://10.0.0.5,10.0.0.6,10.0.0.7/main", "where Redis is, and in which shape";
    "redis.timeout_ms", "1 to 60000 ms", "150",
        "how long Redis may take to answer or to accept a connection; keep it below `answer_timeout_ms`";
    "redis.user", "a name", "\"berth\"", "the user of Redis' access list: `berth acl`";
    "redis.password_file", "a path", "\"/run/secrets/redis\"", "a file whose first line is the password";
    "redis.wait_replicas", "0 to 100 replicas", "1",
        "how many replicas must have a lease before it is given; 0: none is waited for";
    "redis.group_max", "1 to 32 admissions", "1",
        "how many admissions to a pool that come at once go to Redis by one call; 1: each by its own";
    "redis.sentinel.user", "a name", "\"berth\"", "the Sentinels' own user; left out: their default user";
    "redis.sentinel.password_file", "a path", "\"/run/secrets/sentinel\"", "and the file with its password";
    "redis.tls.ca_file", "a path", "\"/etc/berth/ca.pem\"",
        "who may have signed the server's certificate; left out: whom this machine trusts";
    "redis.tls.cert_file", "a path", "\"/etc/berth/berth.pem\"",
        "the sidecar's own certificate, for a Redis that asks for one";
    "redis.tls.key_file", "a path", "\"/etc/berth/berth.key\"", "and its key";
    "pools", "a section for each pool", "[pools.demo]",
        "policies that are applied when a sidecar starts: the next table";
};

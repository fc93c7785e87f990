use super::{Setting, settings};

pub(super) const SETTINGS: &[Setting] = settings! {
    "listen", "a list of ip:port and unix:/path", "[\"unix:/run/berth/berth.sock\"]",
        "where the API is served; a Unix socket gets mode 0600";
    "allow_remote", "true, false", "true",
        "lets `listen` name an address that other hosts can reach";
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

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
    "redis.url", "redis://[user:password@]host:port[/db], redis+unix:///path", "redis://10.0.0.5:6379",
        "where Redis is";
    "redis.timeout_ms", "1 to 60000 ms", "150",
        "how long Redis may take to answer or to accept a connection; keep it below `answer_timeout_ms`";
    "pools", "a section for each pool", "[pools.demo]",
        "policies that are applied when a sidecar starts: the next table";
};

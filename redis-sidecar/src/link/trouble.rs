//! What an error of Redis means.

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Whether the connection is of no more use. A timeout counts: behind a dead peer every later call
/// would time out as well. So does READONLY: the server is no longer the primary.
pub(super) fn is_fatal(error: &RedisError) -> bool {
    let kind = error.kind();
    let elsewhere = [
        ServerErrorKind::ReadOnly,
        ServerErrorKind::BusyLoading,
        ServerErrorKind::MasterDown,
    ];
    let broken = [
        ErrorKind::Io,
        ErrorKind::Parse,
        ErrorKind::AuthenticationFailed,
    ];
    elsewhere.map(ErrorKind::Server).contains(&kind)
        || broken.contains(&kind)
        || error.is_unrecoverable_error()
}

/// What to look at when the door stays shut.
pub(super) fn explain(error: &RedisError) -> String {
    let text = error.to_string();
    if is_refused_entry(error) {
        return format!("{text}; see redis.user and redis.password_file");
    }
    if error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm) {
        return format!("{text}; give its user the line that `berth acl` prints");
    }
    text
}

pub(super) fn is_refused_entry(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || ["NOAUTH", "WRONGPASS"]
            .iter()
            .any(|code| error.to_string().contains(code))
}

/// The access list forbids the function, or what it does: Redis 7.0 says the latter in one way, later ones
/// and Valkey in another.
pub(crate) fn is_forbidden(error: &RedisError) -> bool {
    let inside = ["The user executing the script", "ACL failure in script"];
    let detail = error.detail().unwrap_or_default();
    error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
        || inside.iter().any(|words| detail.contains(words))
}

pub(super) fn is_unknown_function(error: &RedisError) -> bool {
    error
        .detail()
        .is_some_and(|detail| detail.contains("Function not found"))
}

/// A node of a cluster sends its caller elsewhere.
pub(super) fn is_of_a_cluster(error: &RedisError) -> bool {
    use ServerErrorKind::{Ask, ClusterDown, Moved, TryAgain};
    let kinds = [Ask, ClusterDown, Moved, TryAgain];
    kinds.map(ErrorKind::Server).contains(&error.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> RedisError {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes());
        let value = value.expect("an answer").extract_error();
        value.expect_err("an error")
    }

    /// A restart, a failover and a replica that lost its primary heal by another connection.
    #[test]
    fn who_cannot_serve_now_is_left() {
        for line in [
            "READONLY You can't write against a read only replica.",
            "LOADING Redis is loading the dataset in memory",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "NOAUTH Authentication required.",
        ] {
            assert!(
                is_fatal(&told(line)) || is_refused_entry(&told(line)),
                "{line}"
            );
        }
    }

    #[test]
    fn an_answer_is_no_reason_to_leave() {
        for line in [
            "ERR Function not found",
            "NOPERM this user has no permissions to run the 'fcall' command",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "MOVED 7365 10.0.0.1:6379",
            "NOREPLICAS Not enough good replicas to write.",
        ] {
            assert!(!is_fatal(&told(line)), "{line}");
        }
        assert!(is_unknown_function(&told("ERR Function not found")));
        assert!(is_of_a_cluster(&told("MOVED 7365 10.0.0.1:6379")));
        assert!(is_forbidden(&told("NOPERM this user has no permissions")));
    }
}

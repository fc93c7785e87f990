-- `make lint` checks the assembled library, as Redis gets it: see scripts/lint.sh.
std = "lua51"
max_line_length = 120

-- Libraries that Redis 7 gives to every function. Naming the fields of `redis`
-- turns a misspelt one into a finding here, not into an error in production.
read_globals = {
    "bit",
    "cjson",
    "cmsgpack",
    "struct",
    redis = {
        fields = {
            "call",
            "pcall",
            "error_reply",
            "register_function",
            "status_reply",
            "sha1hex",
            "setresp",
            "log",
            "LOG_DEBUG",
            "LOG_VERBOSE",
            "LOG_NOTICE",
            "LOG_WARNING",
            "REDIS_VERSION",
            "REDIS_VERSION_NUM",
        },
    },
}

-- Plain Lua 5.1 has these; Redis takes them away.
not_globals = {
    "debug",
    "dofile",
    "getfenv",
    "io",
    "loadfile",
    "module",
    "newproxy",
    "os",
    "package",
    "print",
    "require",
    "setfenv",
}

-- Every verb is called with keys and arguments; not every verb has arguments.
ignore = { "212/ARGV" }

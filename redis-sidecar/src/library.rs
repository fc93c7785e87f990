//! The Lua files, joined into the one library that Redis loads and keeps. Each module and strategy
//! becomes a local of the library, in the order they build on each other; each verb a function.

use std::fmt::Write as _;

/// A Lua file: its name, and what is in it.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    pub name: &'static str,
    pub code: &'static str,
}

/// A function of the library, and what Redis may let it do: `allow-oom` for what gives back and
/// tidies up, because a full Redis would stay full otherwise; `no-writes` for what only reads.
#[derive(Debug, Clone, Copy)]
pub struct Verb {
    pub source: Source,
    pub flag: Option<&'static str>,
    pub keys: KeysOf,
}

/// Whose keys a function gets.
#[derive(Debug, Clone, Copy)]
pub enum KeysOf {
    /// A pool's: they are named for all modules before the verb begins.
    Pool,
    /// A count's, which has nothing to do with any pool: the verb names them itself.
    Count,
}

macro_rules! sources {
    ($directory:literal: $($name:literal)+) => {
        [$(Source {
            name: $name,
            code: include_str!(concat!("../../lua/", $directory, $name, ".lua")),
        }),+]
    };
}

macro_rules! verbs {
    (@keys) => { KeysOf::Pool };
    (@keys COUNT) => { KeysOf::Count };
    ($($name:literal $flag:ident $($keys:ident)?,)+) => {
        [$(Verb {
            source: Source {
                name: $name,
                code: include_str!(concat!("../../lua/", $name, ".lua")),
            },
            flag: $flag,
            keys: verbs!(@keys $($keys)?),
        }),+]
    };
}

/// What strategies build on.
pub const FOUNDATION: [Source; 11] = sources!("lib/": "keys" "args" "memory" "dice" "worker" "rank"
    "estimate" "rate" "policy" "karma" "conduct");
pub const STRATEGIES: [Source; 8] = sources!("strategies/": "lifetime_first" "round_robin"
    "least_connections" "random" "sewt" "score" "nodeads" "noerrors");
/// What builds on strategies.
pub const MODULES: [Source; 20] = sources!("lib/": "repair" "holder" "rebuild" "shadow" "pool"
    "index" "former" "crew" "visit" "client" "limits" "affinity" "lease" "ejection" "decision" "sweep"
    "report" "advice" "page" "count");

/// What Redis offers to functions and the scripts use. They are locals of the library, because Redis looks for a
/// global in two tables; and the first call fills them in, because Redis shows them to no library that is being
/// loaded.
const OFFERED: &str = "bit, cjson, cmsgpack, math, string, struct, table,\n\
    error, ipairs, next, pairs, tonumber, tostring, type, unpack";

const ALLOW_OOM: Option<&str> = Some("allow-oom");
const NO_WRITES: Option<&str> = Some("no-writes");

pub const VERBS: [Verb; 26] = verbs! {
    "admit" None,
    "release" ALLOW_OOM,
    "observe" ALLOW_OOM,
    "bind" None,
    "renew" ALLOW_OOM,
    "reassert" None,
    "renounce" ALLOW_OOM,
    "presence" ALLOW_OOM,
    "reclaim" ALLOW_OOM,
    "register" None,
    "heartbeat" ALLOW_OOM,
    "drain" ALLOW_OOM,
    "remove" ALLOW_OOM,
    "reap" ALLOW_OOM,
    "policy" None,
    "inventory" NO_WRITES,
    "holders" NO_WRITES,
    "leases" NO_WRITES,
    "audit" NO_WRITES,
    "view" NO_WRITES,
    "explain" NO_WRITES,
    "atomic_check_and_increment" None COUNT,
    "atomic_check_rate_limit" None COUNT,
    "atomic_decrement" ALLOW_OOM COUNT,
    "atomic_renew" ALLOW_OOM COUNT,
    "atomic_get" ALLOW_OOM COUNT,
};

/// The library as Redis gets it. Its name is made from its text, and so are its functions' names:
/// sidecars of different versions share a Redis, each with its own.
#[derive(Debug, Clone)]
pub struct Library {
    prefix: String,
    /// Everything but its name.
    body: String,
    text: String,
}

impl Library {
    pub fn new(verbs: &[Verb]) -> Self {
        Self::of(join(verbs))
    }

    /// The same library with a part of its text replaced, to see what becomes of it. `None` unless
    /// that part is there exactly once.
    pub fn edited(&self, from: &str, to: &str) -> Option<Self> {
        let once = self.body.matches(from).count() == 1;
        once.then(|| Self::of(self.body.replace(from, to)))
    }

    fn of(body: String) -> Self {
        let hash = sha1_smol::Sha1::from(&body).hexdigest();
        let prefix = format!("berth_{}", &hash[..12]);
        let text = format!("#!lua name={prefix}\nlocal PREFIX = '{prefix}_'\n{body}");
        Self { prefix, body, text }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name by which Redis knows a verb.
    pub fn function(&self, verb: &str) -> String {
        format!("{}_{verb}", self.prefix)
    }
}

fn join(verbs: &[Verb]) -> String {
    let mut text = format!(
        "local function offered()\nreturn redis, {OFFERED}\nend\n\
         local redis, {OFFERED} = redis\n\
         local function begin()\nredis, {OFFERED} = offered()\nend\n\n"
    );
    // Writing to a String cannot fail.
    for Source { name, code } in FOUNDATION {
        let _ = writeln!(text, "local {} = (function()\n{code}end)()\n", module(name));
    }
    text.push_str("local Strategies = {}\n");
    for Source { name, code } in STRATEGIES {
        let _ = writeln!(text, "Strategies.{name} = (function()\n{code}end)()\n");
    }
    for Source { name, code } in MODULES {
        let _ = writeln!(text, "local {} = (function()\n{code}end)()\n", module(name));
    }
    for Verb { source, flag, keys } in verbs {
        let Source { name, code } = source;
        let flags = flag.map(|flag| format!("'{flag}'")).unwrap_or_default();
        // The last argument is the server's id, always: see lua/lib/keys.lua.
        let begin = match keys {
            KeysOf::Pool => "Keys.name(KEYS, table.remove(ARGV))",
            KeysOf::Count => "table.remove(ARGV)",
        };
        let _ = writeln!(
            text,
            "redis.register_function({{ function_name = PREFIX .. '{name}', flags = {{ {flags} }},\n\
             callback = function(KEYS, ARGV) if not table then begin() end {begin}\n{code}end }})\n"
        );
    }
    text
}

/// `worker` is the file of the module `Worker`.
fn module(file: &str) -> String {
    file[..1].to_ascii_uppercase() + &file[1..]
}

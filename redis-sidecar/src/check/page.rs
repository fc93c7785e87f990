//! Every rule on one page: `berth check --rules` writes docs/check.md.

use super::rule::{About, Rule, all};
use std::fmt::Write as _;

const INTRODUCTION: &str = "\
# berth check

<!-- Written by `berth check --rules`; `make test` fails when it is out of date. -->

Envoy, the sidecar and Redis accept many a setting with which Berth's promises do not hold, and say nothing.
`berth check` reads what you have and says it before your users do:

```
berth check --envoy envoy.yaml --config berth.toml
```

`--envoy` may be given several times, for listeners, clusters and routes in files of their own; what
comes over the network (xDS) is not seen. Both YAML and JSON are read. Redis is asked where the settings
say it is, with `INFO`; `--offline` leaves that out. `-o json` is for programs.

What is found has a rule's name, the place, the reason, and what to write instead. An **error** is refused: a
promise would be broken, or nothing would work. A **warning** is not: it may be meant. What nobody looked at, a file
that was not given or a Redis that was not asked, is listed as not judged, and changes no exit code but that of a Redis
that cannot be asked.

| exit code | means |
|---|---|
| 0 | fine, warnings at most |
| 2 | a file cannot be read |
| 4 | Redis cannot be asked; nothing else is refused |
| 5 | refused |

There is no rule for what Envoy or the sidecar refuse themselves, nor for what is no setting: that three beats fit
into `lease_ttl_ms`, for one, is so by itself, because they are a quarter of it apart at most. Each rule has a bad
example and a good one in redis-sidecar/tests/check/; a test shows that Envoy accepts the bad ones too.
";

pub fn page() -> String {
    let mut page = String::from(INTRODUCTION);
    for (about, title) in [
        (About::Envoy, "Envoy"),
        (About::Settings, "The sidecar, and Envoy together with it"),
        (About::Redis, "Redis"),
    ] {
        // Writing to a String cannot fail.
        let _ = write!(page, "\n## {title}\n");
        for rule in all().filter(|rule| rule.about == about) {
            let Rule {
                id,
                severity,
                why,
                instead,
                ..
            } = rule;
            let severity = severity.as_str();
            let _ = write!(page, "\n### {id}\n\n*{severity}.* {why}\n\n{instead}\n");
        }
    }
    page
}

use super::load::{Loaded, load};
use super::redis::without_password;
use super::*;
use std::io::Write;

mod doors;

fn load_text(file: &str, environment: &[(&str, &str)]) -> Result<Loaded, SettingsError> {
    let mut config = tempfile::NamedTempFile::new().unwrap();
    config.write_all(file.as_bytes()).unwrap();
    let environment = environment
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()));
    load(Some(config.path()), environment)
}

fn refused(file: &str, environment: &[(&str, &str)]) -> String {
    load_text(file, environment).unwrap_err().to_string()
}

#[test]
fn the_environment_overrides_the_file() {
    let file = "[redis]\nurl = \"redis://a\"\n[pools.demo]\nmax_concurrent = 3";
    let environment = [
        ("BERTH__REDIS__URL", "redis://b"),
        ("BERTH__POOLS__DEMO__MAX_LIFETIME", "7"),
        ("BERTH__LISTEN", r#"["unix:/tmp/b.sock"]"#),
    ];
    let settings = load_text(file, &environment).unwrap().settings;
    assert_eq!(settings.redis.url, "redis://b");
    assert_eq!(settings.listen, [Listen::Unix("/tmp/b.sock".into())]);
    let demo = &settings.pools[&PoolName::parse("demo").unwrap()];
    assert_eq!((demo.max_concurrent, demo.max_lifetime), (3, 7));
}

#[test]
fn the_shipped_file_shows_every_setting_with_its_default() {
    let text = include_str!("../../berth.toml");
    let shipped = load_text(text, &[]).unwrap();
    let pool = PoolName::parse("demo").unwrap();
    let expected = Settings {
        pools: BTreeMap::from([(pool, Policy::default())]),
        ..Settings::default()
    };
    assert_eq!(shipped.settings, expected);
    assert!(
        !shipped.describe().contains("# default"),
        "{}",
        shipped.describe()
    );
}

#[test]
fn a_bad_setting_is_named() {
    assert!(refused("lisen = []", &[]).contains("lisen"));
    assert!(refused("[pools.demo]\nmax_concurrent = -1", &[]).contains("max_concurrent"));
    assert!(refused("[pools.demo]\nstrategy = \"best\"", &[]).contains("best"));
    let file = "[pools.demo]\nstrategy = \"lifetime_first\"\nmax_lifetime = 0";
    assert!(refused(file, &[]).contains("pools.demo: max_lifetime"));
    assert!(refused("reap_ms = 0", &[]).contains("reap_ms"));
}

#[test]
fn a_bad_variable_is_named() {
    let message = refused("", &[("BERTH__REAP_MS", "soon")]);
    assert!(
        message.contains("BERTH__REAP_MS") && message.contains("reap_ms"),
        "{message}"
    );
    assert!(
        message.contains("a whole number") && !message.contains('['),
        "{message}"
    );
    assert!(refused("", &[("BERTH__REAP", "1")]).contains("BERTH__REAP"));
    let message = refused("", &[("BERTH__LISTEN", "127.0.0.1:7070")]);
    assert!(message.contains("a list, as [\"a\", \"b\"]"), "{message}");
}

#[test]
fn a_variable_means_the_pool_that_the_file_has_in_another_case() {
    let file = "[pools.Demo]\nmax_concurrent = 3";
    let environment = [("BERTH__POOLS__DEMO__MAX_CONCURRENT", "7")];
    let settings = load_text(file, &environment).unwrap().settings;
    let pools: Vec<_> = settings.pools.iter().collect();
    assert_eq!(pools.len(), 1);
    assert_eq!(
        (pools[0].0.as_str(), pools[0].1.max_concurrent),
        ("Demo", 7)
    );
}

#[test]
fn passwords_are_never_shown() {
    for url in [
        "redis://u:secret@h:1",
        "redis://:secret@h",
        "redis+unix:///s?pass=secret",
        "redis://u:sec?secret@h:1",
        "u:secret@h:1",
        "redis:/u:secret@h",
    ] {
        assert!(!without_password(url).contains("sec"), "{url}");
    }
    for text in [
        "[redis]\npassword = \"secret\"",
        "redis = \"redis://:secret@h\"",
        "[redis]\nurl = \"redis://:secret@h\" x",
    ] {
        let error = load_text(text, &[]).unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
        assert!(error.contains("line "), "{error}");
    }
    let variable = [("BERTH__REDIS", "redis://:secret@h")];
    let error = load_text("", &variable).unwrap_err().to_string();
    assert!(!error.contains("secret"), "{error}");
    assert_eq!(without_password("redis://h:1/0"), "redis://h:1/0");
}

#[test]
fn the_description_tells_origins_and_hides_passwords() {
    let file = "[redis]\nurl = \"redis://berth:secret@db:6379\"";
    let text = load_text(file, &[("BERTH__REAP_MS", "50")])
        .unwrap()
        .describe();
    assert!(text.contains("reap_ms = 50  # $BERTH__REAP_MS"), "{text}");
    assert!(
        text.contains("answer_timeout_ms = 250  # default"),
        "{text}"
    );
    assert!(
        text.contains("redis://berth:***@db:6379") && !text.contains("secret"),
        "{text}"
    );
}

#[test]
fn what_does_not_fit_together_is_refused() {
    for (redis, part) in [
        ("url = \"redis+sentinel://a:1\"", "redis.url"),
        (
            "url = \"redis://u:secret@h\"\nuser = \"berth\"\npassword_file = \"/p\"",
            "one place",
        ),
        ("user = \"berth\"", "redis.password_file"),
        ("sentinel.user = \"berth\"", "redis.sentinel.password_file"),
        ("tls.ca_file = \"/ca\"", "rediss://"),
        (
            "url = \"rediss://h\"\ntls.cert_file = \"/c\"",
            "redis.tls.key_file",
        ),
        ("wait_replicas = 101", "redis.wait_replicas"),
        ("group_max = 0", "redis.group_max"),
        ("group_max = 33", "redis.group_max"),
        ("timeout_ms = 0", "redis.timeout_ms"),
        ("tls.insecure = true", "insecure"),
    ] {
        let message = refused(&format!("[redis]\n{redis}"), &[]);
        assert!(message.contains(part), "{redis}: {message}");
        assert!(!message.contains("secret"), "{message}");
    }
}

#[test]
fn redis_may_not_take_longer_than_an_answer() {
    let message = refused("answer_timeout_ms = 100", &[]);
    for part in ["redis.timeout_ms is 150", "answer_timeout_ms, 100"] {
        assert!(message.contains(part), "{message}");
    }
    let equal = "answer_timeout_ms = 100\nredis.timeout_ms = 100";
    assert!(load_text(equal, &[]).is_ok());
}

#[test]
fn a_settings_debug_text_hides_passwords() {
    let redis = RedisSettings {
        url: "redis://u:secret@h".into(),
        ..RedisSettings::default()
    };
    assert!(!format!("{redis:?}").contains("secret"));
}

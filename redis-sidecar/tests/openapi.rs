//! docs/openapi.yaml, held to what the sidecar does: in these tests, and by `assert_described` in all that
//! call a route.

use crate::support::Pool;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use jsonschema::Validator;
use redis_sidecar::{App, app};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use tower::ServiceExt;

static DESCRIPTION: LazyLock<Value> =
    LazyLock::new(|| serde_saphyr::from_str(redis_sidecar::OPENAPI).expect("docs/openapi.yaml"));

static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

/// A call that was answered.
pub(crate) struct Called<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    /// Where it was JSON.
    pub(crate) request: Option<&'a Value>,
    pub(crate) status: StatusCode,
    pub(crate) content_type: &'a str,
    pub(crate) answer: &'a Value,
}

/// Fails unless the description has this answer, and, if it is a good one, the request too.
pub(crate) fn assert_described(called: &Called<'_>) {
    let Called {
        method,
        path,
        status,
        answer,
        ..
    } = called;
    let Some(template) = template_of(path) else {
        assert_eq!(answer["error"], "no_such_path", "{path} is not described");
        return;
    };
    let name = format!("{method} {template} {}", status.as_u16());
    let Some(operation) = operation(template, method) else {
        assert_eq!(answer["error"], "no_such_method", "{name} is not described");
        return;
    };
    let response = resolved(&operation["responses"][status.as_str()]);
    let content = &response["content"][called.content_type];
    assert!(
        content.is_object(),
        "{name} {} is not described",
        called.content_type
    );
    if called.content_type == "application/json" {
        check(&name, &content["schema"], answer);
    }
    let wanted = &operation["requestBody"]["content"]["application/json"]["schema"];
    if let (true, true, Some(request)) = (status.is_success(), wanted.is_object(), called.request) {
        check(&format!("{method} {template}"), wanted, request);
    }
}

fn check(name: &str, schema: &Value, value: &Value) {
    let validator = {
        let mut validators = VALIDATORS.lock().expect("no test has failed here");
        let made = validators.entry(name.to_owned()).or_insert_with(|| {
            let mut whole = schema.clone();
            whole["components"] = DESCRIPTION["components"].clone();
            Arc::new(jsonschema::validator_for(&whole).expect("a schema"))
        });
        made.clone()
    };
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{name}: {value}\n{}", errors.join("\n"));
}

/// What a `$ref` leads to.
fn resolved(value: &'static Value) -> &'static Value {
    match value["$ref"]
        .as_str()
        .and_then(|name| name.strip_prefix('#'))
    {
        Some(pointer) => DESCRIPTION.pointer(pointer).expect("a component"),
        None => value,
    }
}

fn paths() -> impl Iterator<Item = &'static String> {
    let paths = DESCRIPTION["paths"].as_object().expect("paths");
    paths.keys()
}

fn operation(template: &str, method: &str) -> Option<&'static Value> {
    DESCRIPTION["paths"][template].get(method.to_ascii_lowercase())
}

/// `/v1/pools/{pool}` for `/v1/pools/demo`.
fn template_of(path: &str) -> Option<&'static String> {
    let path = path.split('?').next().unwrap_or_default();
    paths().find(|template| {
        let (mut parts, mut pattern) = (path.split('/'), template.split('/'));
        loop {
            match (parts.next(), pattern.next()) {
                (None, None) => return true,
                (Some(part), Some(name)) if name.starts_with('{') && !part.is_empty() => {}
                (Some(part), Some(name)) if part == name => {}
                (_, _) => return false,
            }
        }
    })
}

fn described() -> BTreeSet<(String, String)> {
    paths()
        .flat_map(|path| METHODS.map(|method| (path, method)))
        .filter(|(path, method)| operation(path, method).is_some())
        .map(|(path, method)| (path.clone(), method.to_owned()))
        .collect()
}

fn source(directory: &str) -> String {
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let files = std::fs::read_dir(format!("{top}/{directory}")).expect("a directory");
    files
        .filter_map(|file| std::fs::read_to_string(file.expect("a file").path()).ok())
        .collect()
}

/// The path that stands first in `.route(path, …)`: a text, or the name of a constant.
fn path_of(argument: &str, sources: &str) -> String {
    let name = argument.trim();
    if let Some(text) = name.strip_prefix('"') {
        return text.trim_end_matches('"').to_owned();
    }
    let name = name.rsplit("::").next().unwrap_or(name);
    let constant = format!("const {name}: &str = \"");
    let value = sources
        .split_once(&constant)
        .and_then(|(_, rest)| rest.split_once('"'));
    value
        .unwrap_or_else(|| panic!("where is {name}?"))
        .0
        .to_owned()
}

/// Every `.route(path, get(…).put(…))` of the sources.
fn routed() -> BTreeSet<(String, String)> {
    let routes = source("redis-sidecar/src/routes");
    let sources = routes.clone() + &source("admission/src") + &source("admission/src/message");
    let mut found = BTreeSet::new();
    for rest in routes.split(".route(").skip(1) {
        let (argument, rest) = rest.split_once(',').expect("a path and its methods");
        let methods = rest
            .split([';', '\n'])
            .take_while(|line| !line.contains(".fallback("));
        let methods: String = methods.take(3).collect();
        let methods = methods.split(".layer(").next().unwrap_or_default();
        for method in METHODS.into_iter().filter(|method| {
            methods.contains(&format!(" {method}(")) || methods.contains(&format!(".{method}("))
        }) {
            found.insert((path_of(argument, &sources), method.to_owned()));
        }
    }
    found
}

#[test]
fn every_route_is_described_and_nothing_else() {
    assert_eq!(described(), routed());
}

#[tokio::test]
async fn what_is_described_is_there_and_no_other_method_is() {
    let pool = Pool::with(|_| {}).await;
    let router = app(App::new(pool.store.clone(), Duration::from_secs(10)));
    for (template, method) in paths().flat_map(|path| METHODS.map(|method| (path, method))) {
        let path = template.replace("{pool}", "demo").replace("{worker}", "w1");
        let request = Request::builder()
            .method(method.to_uppercase().as_str())
            .uri(&path);
        let request = request.body(Body::from("")).expect("a request");
        let response = router.clone().oneshot(request).await.expect("an answer");
        let status = response.status();
        let body = response
            .into_body()
            .collect()
            .await
            .expect("a body")
            .to_bytes();
        let answer = serde_json::from_slice(&body).unwrap_or(json!(null));
        let there = answer["error"] != "no_such_method" && answer["error"] != "no_such_path";
        assert_eq!(
            there,
            operation(template, method).is_some(),
            "{method} {path}: {status}"
        );
    }
}

#[test]
fn a_wrong_answer_is_noticed() {
    let wrong = json!({"advice": "rest", "active": 1, "lifetime": 1});
    let noticed = std::panic::catch_unwind(|| {
        assert_described(&Called {
            method: "POST",
            path: "/v1/pools/demo/workers/w1/drain",
            request: None,
            status: StatusCode::OK,
            content_type: "application/json",
            answer: &wrong,
        });
    });
    assert!(noticed.is_err());
}

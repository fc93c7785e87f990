//! A value inside a file, with the path that leads to it. Whatever the file says, looking into it finds
//! something or nothing, and never fails.

use serde_json::Value;

/// What a rule found, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    pub file: String,
    /// `static_resources.listeners[0].address`; empty for a file as a whole.
    pub path: String,
    /// What is there, as the end of a sentence that begins with the path: `is FAIL_OPEN`.
    pub found: String,
}

#[derive(Debug, Clone)]
pub(super) struct Place<'a> {
    pub(super) file: &'a str,
    pub(super) path: String,
    pub(super) value: &'a Value,
}

impl<'a> Place<'a> {
    pub(super) fn root(file: &'a str, value: &'a Value) -> Self {
        Self {
            file,
            path: String::new(),
            value,
        }
    }

    /// Protobuf's JSON knows every field by two names: `route_config` and `routeConfig`.
    pub(super) fn get(&self, name: &str) -> Option<Self> {
        let fields = self.value.as_object()?;
        let camel = camel_case(name);
        let (name, value) = fields
            .get_key_value(name)
            .or_else(|| fields.get_key_value(&camel))?;
        Some(Self {
            path: self.below(name),
            value,
            ..*self
        })
    }

    /// Follows several names: `original_dst_lb_config.use_http_header`.
    pub(super) fn find(&self, names: &str) -> Option<Self> {
        let mut place = self.clone();
        for name in names.split('.') {
            place = place.get(name)?;
        }
        Some(place)
    }

    /// The elements of a list, itself a field; none if there is no such list.
    pub(super) fn items(&self, names: &str) -> Vec<Self> {
        self.find(names)
            .map(|list| list.elements())
            .unwrap_or_default()
    }

    pub(super) fn elements(&self) -> Vec<Self> {
        let elements = self.value.as_array().into_iter().flatten().enumerate();
        elements
            .map(|(index, value)| Self {
                path: format!("{}[{index}]", self.path),
                value,
                ..*self
            })
            .collect()
    }

    /// The fields of a map whose names are not known beforehand.
    pub(super) fn entries(&self) -> Vec<(&'a str, Self)> {
        let entries = self.value.as_object().into_iter().flatten();
        entries
            .map(|(name, value)| {
                let path = self.below(name);
                (
                    name.as_str(),
                    Self {
                        path,
                        value,
                        ..*self
                    },
                )
            })
            .collect()
    }

    pub(super) fn text(&self, names: &str) -> Option<&'a str> {
        self.find(names)?.value.as_str()
    }

    pub(super) fn is_true(&self, names: &str) -> bool {
        self.find(names)
            .is_some_and(|place| place.value.as_bool() == Some(true))
    }

    /// A duration as protobuf writes it: `0.25s`.
    pub(super) fn duration_ms(&self, names: &str) -> Option<f64> {
        let seconds = self.text(names)?.strip_suffix('s')?;
        let seconds: f64 = seconds.parse().ok()?;
        (seconds.is_finite() && seconds >= 0.0).then_some(seconds * 1000.0)
    }

    /// An enum's value by its name, also where the file has its number.
    pub(super) fn word(&self, name: &str, words: &[&'static str]) -> Option<&'a str> {
        let value = self.get(name)?.value;
        let number = value
            .as_u64()
            .and_then(|number| usize::try_from(number).ok());
        value.as_str().or_else(|| words.get(number?).copied())
    }

    /// An extension's message and the last part of its type, `Router`.
    pub(super) fn typed_config(&self) -> Option<(&'a str, Self)> {
        let (url, config) = self.extension()?;
        Some((url.rsplit(['.', '/']).next().unwrap_or(url), config))
    }

    /// An extension's whole type, and its message. A TypedStruct is looked into.
    pub(super) fn extension(&self) -> Option<(&'a str, Self)> {
        let config = self.get("typed_config")?;
        let url = config.text("@type")?;
        if url.ends_with(".TypedStruct") {
            return Some((config.text("type_url")?, config.get("value")?));
        }
        Some((url, config))
    }

    /// Whether some text below mentions these words.
    pub(super) fn mentions(&self, words: &str) -> bool {
        fn mentions(value: &Value, words: &str) -> bool {
            match value {
                Value::String(text) => text.contains(words),
                Value::Array(items) => items.iter().any(|item| mentions(item, words)),
                Value::Object(fields) => (fields.iter())
                    .any(|(name, value)| name.contains(words) || mentions(value, words)),
                Value::Null | Value::Bool(_) | Value::Number(_) => false,
            }
        }
        mentions(self.value, words)
    }

    pub(super) fn spot(&self, found: impl Into<String>) -> Spot {
        Spot {
            file: self.file.to_owned(),
            path: self.path.clone(),
            found: found.into(),
        }
    }

    /// Says that a field is not there.
    pub(super) fn lacks(&self, names: &str) -> Spot {
        Spot {
            path: self.below(names),
            ..self.spot("is missing")
        }
    }

    fn below(&self, name: &str) -> String {
        if self.path.is_empty() {
            return name.to_owned();
        }
        format!("{}.{name}", self.path)
    }
}

fn camel_case(name: &str) -> String {
    let mut camel = String::with_capacity(name.len());
    for part in name.split('_') {
        let mut letters = part.chars();
        match letters.next() {
            Some(first) if !camel.is_empty() => camel.push(first.to_ascii_uppercase()),
            Some(first) => camel.push(first),
            None => {}
        }
        camel.push_str(letters.as_str());
    }
    camel
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_found_by_both_of_their_names_and_nothing_else_fails() {
        let value = json!({"routeConfig": {"virtual_hosts": [{"name": "a"}, 7]}, "t": "0.25s"});
        let place = Place::root("envoy.yaml", &value);
        let hosts = place.items("route_config.virtual_hosts");
        assert_eq!(hosts[0].path, "routeConfig.virtual_hosts[0]");
        assert_eq!(hosts[0].text("name"), Some("a"));
        assert!(hosts[1].get("name").is_none());
        assert_eq!(place.duration_ms("t"), Some(250.0));
        assert_eq!(
            hosts[0].lacks("domains").path,
            "routeConfig.virtual_hosts[0].domains"
        );
        for odd in ["", ".", "t.t", "routeConfig.virtual_hosts.name"] {
            assert!(place.find(odd).is_none(), "{odd:?}");
        }
    }

    #[test]
    fn a_typed_struct_is_looked_into() {
        let value = json!({"typed_config": {
            "@type": "type.googleapis.com/xds.type.v3.TypedStruct",
            "type_url": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
            "value": {"config": {"name": "berth"}},
        }});
        let (name, config) = Place::root("f", &value).typed_config().unwrap();
        assert_eq!((name, config.text("config.name")), ("Wasm", Some("berth")));
    }
}

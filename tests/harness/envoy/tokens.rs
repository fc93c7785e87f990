//! Tokens for clients that Envoy tells apart by a claim, and the filter that verifies them.

use serde_json::{Value, json};

/// Signed with the key below (HS256): `{"iss": "berth-tests", "sub": "tenant-a"}`.
pub const TENANT_A: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6InRlc3QiLCJ0eXAiOiJKV1QifQ.\
    eyJpc3MiOiJiZXJ0aC10ZXN0cyIsInN1YiI6InRlbmFudC1hIn0.\
    1p7rytrOl2sQxExw65NBzsoG1vig-lxt1u5zgAG3_nA";
/// The same for `tenant-b`.
pub const TENANT_B: &str = "eyJhbGciOiJIUzI1NiIsImtpZCI6InRlc3QiLCJ0eXAiOiJKV1QifQ.\
    eyJpc3MiOiJiZXJ0aC10ZXN0cyIsInN1YiI6InRlbmFudC1iIn0.\
    O-0Q14HK1O0QbgnYSwDi5CBi4iwINcFETNSXEz1ZUJo";

const KEY: &str = "YmVydGggdGVzdHMgc2lnbiB0aGVpciB0b2tlbnMgd2l0aCB0aGlz";

/// Puts the verified claims into the stream's metadata, as `claims`.
pub(super) fn filter() -> Value {
    let keys = json!({"keys": [{"kty": "oct", "alg": "HS256", "kid": "test", "k": KEY}]});
    json!({
        "name": "envoy.filters.http.jwt_authn",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
            "providers": {"tests": {
                "issuer": "berth-tests",
                "payload_in_metadata": "claims",
                "local_jwks": {"inline_string": keys.to_string()},
            }},
            "rules": [{"match": {"prefix": "/"}, "requires": {"provider_name": "tests"}}],
        },
    })
}

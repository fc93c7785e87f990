//! What the demo prints once everything is ready: addresses, and lines to paste.

use crate::settings::Settings;
use std::path::Path;

/// The handshake of any WebSocket client, spelled out for curl; the key is the RFC's own example.
const UPGRADE: &str = "-H 'Connection: Upgrade' -H 'Upgrade: websocket' \
    -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='";

pub(crate) fn greeting(settings: &Settings, logs: &Path) -> String {
    let Settings {
        envoy_1_port,
        envoy_2_port,
        sidecar_1_port,
        admin_1_port,
        ..
    } = settings;
    let Settings {
        max_concurrent,
        max_lifetime,
        ..
    } = settings;
    let logs = logs.display();
    format!(
        "
The fleet is up: 4 workers, {max_concurrent} sessions each at once, {max_lifetime} before a restart.
The logs are in {logs}.

Lines to paste into another terminal:

  A WebSocket through each Envoy. It stays open and holds its place until Ctrl-C; x-worker names
  the worker. When all places are taken, the answer is 503 with x-berth-reason: pool_full.
    curl -i -N {UPGRADE} http://127.0.0.1:{envoy_1_port}/chat
    curl -i -N {UPGRADE} http://127.0.0.1:{envoy_2_port}/chat

  The same with a client that speaks (Node 20.10 or later; websocat ws://127.0.0.1:{envoy_1_port}/chat does too).
    node --experimental-websocket -e 'const w = new WebSocket(\"ws://127.0.0.1:{envoy_1_port}/chat\"); w.onopen = () => w.send(\"hello\"); w.onmessage = m => console.log(m.data); w.onerror = e => console.log(\"refused\")'

  A request that needs no lease goes to the plain backend.
    curl http://127.0.0.1:{envoy_1_port}/

  The pool, the metrics, and what the filter counts in Envoy.
    curl -s http://127.0.0.1:{sidecar_1_port}/v1/pools/demo | python3 -m json.tool
    curl -s http://127.0.0.1:{sidecar_1_port}/metrics
    curl -s 'http://127.0.0.1:{admin_1_port}/stats?filter=wasmcustom'

Ctrl-C ends everything."
    )
}

//! The demo's ports and limits, and whether the ports are free.

use clap::Parser;
use harness::ports::{is_free, loopback};
use std::net::SocketAddr;

pub(crate) const WORKERS: u16 = 4;

/// Raises a small Berth fleet on this machine and keeps it until Ctrl-C: Redis, two sidecars, two
/// Envoys, four workers, and a plain backend for requests that need no lease.
#[derive(Debug, Parser)]
#[command(name = "demo", version)]
pub(crate) struct Settings {
    /// Port of Redis
    #[arg(long, env = "BERTH_DEMO_REDIS_PORT", default_value_t = 16379)]
    pub(crate) redis_port: u16,
    /// Port of the first sidecar
    #[arg(long, env = "BERTH_DEMO_SIDECAR_1_PORT", default_value_t = 7071)]
    pub(crate) sidecar_1_port: u16,
    /// Port of the second sidecar
    #[arg(long, env = "BERTH_DEMO_SIDECAR_2_PORT", default_value_t = 7072)]
    pub(crate) sidecar_2_port: u16,
    /// Port of the first Envoy
    #[arg(long, env = "BERTH_DEMO_ENVOY_1_PORT", default_value_t = 10000)]
    pub(crate) envoy_1_port: u16,
    /// Port of the second Envoy
    #[arg(long, env = "BERTH_DEMO_ENVOY_2_PORT", default_value_t = 10001)]
    pub(crate) envoy_2_port: u16,
    /// Port of the first Envoy's admin interface
    #[arg(long, env = "BERTH_DEMO_ADMIN_1_PORT", default_value_t = 9901)]
    pub(crate) admin_1_port: u16,
    /// Port of the second Envoy's admin interface
    #[arg(long, env = "BERTH_DEMO_ADMIN_2_PORT", default_value_t = 9902)]
    pub(crate) admin_2_port: u16,
    /// Port of the plain backend
    #[arg(long, env = "BERTH_DEMO_BACKEND_PORT", default_value_t = 8080)]
    pub(crate) backend_port: u16,
    /// Port of the first worker; the others take the three that follow
    #[arg(long, env = "BERTH_DEMO_WORKER_PORT", default_value_t = 8081,
          value_parser = clap::value_parser!(u16).range(1..=65_532))]
    pub(crate) worker_port: u16,
    /// Sessions a worker may hold at once
    #[arg(long, env = "BERTH_DEMO_MAX_CONCURRENT", default_value_t = 2)]
    pub(crate) max_concurrent: u32,
    /// Sessions a worker may serve before it must restart
    #[arg(long, env = "BERTH_DEMO_MAX_LIFETIME", default_value_t = 100)]
    pub(crate) max_lifetime: u32,
}

impl Settings {
    /// The four workers' addresses, in order.
    pub(crate) fn workers(&self) -> Vec<SocketAddr> {
        (0..WORKERS)
            .map(|number| loopback(self.worker_port + number))
            .collect()
    }

    /// Every port the demo needs, with the setting that changes it.
    fn ports(&self) -> Vec<(u16, &'static str)> {
        let mut ports = vec![
            (self.redis_port, "BERTH_DEMO_REDIS_PORT"),
            (self.sidecar_1_port, "BERTH_DEMO_SIDECAR_1_PORT"),
            (self.sidecar_2_port, "BERTH_DEMO_SIDECAR_2_PORT"),
            (self.envoy_1_port, "BERTH_DEMO_ENVOY_1_PORT"),
            (self.envoy_2_port, "BERTH_DEMO_ENVOY_2_PORT"),
            (self.admin_1_port, "BERTH_DEMO_ADMIN_1_PORT"),
            (self.admin_2_port, "BERTH_DEMO_ADMIN_2_PORT"),
            (self.backend_port, "BERTH_DEMO_BACKEND_PORT"),
        ];
        ports.extend(
            self.workers()
                .iter()
                .map(|worker| (worker.port(), "BERTH_DEMO_WORKER_PORT")),
        );
        ports
    }

    /// A sentence for each port that cannot be had.
    pub(crate) fn port_complaints(&self) -> Vec<String> {
        let ports = self.ports();
        let twice = |index: usize, port: u16| ports[..index].iter().find(|(used, _)| *used == port);
        let complaint = |(index, &(port, setting)): (usize, &(u16, &str))| {
            if port == 0 {
                return Some(format!(
                    "{setting} is 0: the parts must know each other's ports, so choose one"
                ));
            }
            if let Some((_, other)) = twice(index, port) {
                return Some(format!(
                    "{setting} and {other} are both {port}: change one of them"
                ));
            }
            let taken = !is_free(loopback(port));
            taken.then(|| format!("port {port} is taken: set {setting} to another"))
        };
        ports.iter().enumerate().filter_map(complaint).collect()
    }
}

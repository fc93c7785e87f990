# The table of contents of the work; each target is a script in scripts/.
#
# scripts/env.sh says where Envoy, the filter and the programs are (ENVOY_BIN,
# BERTH_FILTER_WASM, BERTH_BIN_DIR); set one in the environment to use another.

.DEFAULT_GOAL := help
.PHONY: help setup build run images test test-full test-nightly test-valkey test-compose simulate-leases mutants fuzz chaos recoveries bench bench-choose bench-sewt bench-proxy bench-sidecar bench-websocket bench-scale bench-page plots settings lint fmt check clean
# The targets share target/ and .tools/, and cargo uses all cores by itself.
.NOTPARALLEL:

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what building, running, testing and linting need
	@scripts/setup.sh all

build: ## Build the programs and the filter
	@scripts/setup.sh build
	@scripts/build.sh

# exec: the demo itself gets Ctrl-C, and make waits until it has stopped its fleet.
run: ## Raise a small fleet here and keep it until Ctrl-C
	@scripts/setup.sh run
	@scripts/build.sh
	@exec scripts/run.sh

images: ## Build the container images: see docs/docker.md
	@scripts/setup.sh images
	@scripts/images.sh

test: ## Run all tests, with real Envoys and a real Redis
	@scripts/setup.sh test
	@scripts/test.sh

test-full: ## Run all tests and the long ones
	@scripts/setup.sh test
	@scripts/test.sh full

test-nightly: ## Every strategy against its model over 100,000 events for each seed; a million clients
	@scripts/setup.sh test
	@BERTH_MODEL_EVENTS=100000 BERTH_CLIENTS=1000000 cargo test --release --test sidecar -- \
		--nocapture model:: limits::however_many

# Without TLS: this build of Valkey has none.
test-valkey: ## Run the store's tests against Valkey
	@scripts/setup.sh valkey
	@REDIS_SERVER_BIN=$(CURDIR)/.tools/bin/valkey cargo test --release --test sidecar --test topologies \
		-- --skip tls::

test-compose: ## Break a fleet of containers, with Docker (10 minutes)
	@scripts/setup.sh compose
	@scripts/test-compose.sh

mutants: ## Remove guards of core, sidecar and filter one at a time; a test must notice each
	@scripts/setup.sh test
	@scripts/mutants.sh

fuzz: MINUTES = 10
fuzz: ## Look for input that harms: every target for MINUTES=10
	@scripts/setup.sh fuzz
	@scripts/fuzz.sh $(MINUTES)

# What is drawn is the seed's; see tests/chaos/main.rs.
SEED ?= 1
MINUTES ?= 5

chaos: ## Break a fleet again and again and judge it: SEED=1 MINUTES=5
	@scripts/setup.sh run
	@scripts/build.sh
	@scripts/chaos.sh --seed $(SEED) --minutes $(MINUTES)

recoveries: ## Show how long the fleet took to be well again, as the tests last measured it
	@cargo run --quiet --release --bin recoveries

simulate-leases: ## Try the lease protocol in 100,000 worlds full of faults (BERTH_SEEDS=n; 15 minutes)
	@scripts/setup.sh build
	@BERTH_SEEDS=$${BERTH_SEEDS:-100000} cargo test -p admission --release --test simulation -- --nocapture leases

bench-choose: ## Measure decisions per second against the number of workers (3 minutes)
	@scripts/setup.sh test
	@cargo bench --bench choose

bench-sewt: ## Measure strategies on real backends of unlike speed (3 minutes)
	@scripts/setup.sh test
	@scripts/build.sh
	@cargo bench --bench sewt

bench: ## Measure everything; write docs/benchmarks.md: what Berth costs beside its peers (20 minutes)
	@scripts/setup.sh test
	@scripts/build.sh
	@scripts/bench.sh

bench-proxy: ## Requests through Envoy: plain, ext_authz, Lua, Berth (3 minutes)
	@scripts/setup.sh test
	@scripts/build.sh
	@scripts/bench.sh proxy

bench-sidecar: ## Admissions through the sidecar, beside redis-benchmark (2 minutes)
	@scripts/setup.sh test
	@scripts/build.sh
	@scripts/bench.sh sidecar

bench-websocket: ## 10,000 idle WebSockets, with Berth and without (3 minutes)
	@scripts/setup.sh test
	@scripts/build.sh
	@scripts/bench.sh websocket

bench-scale: ## Decisions against workers, pools and leases (3 minutes)
	@scripts/setup.sh test
	@scripts/build.sh
	@scripts/bench.sh scale

bench-page: ## Write docs/benchmarks.md from what the parts have left in target/bench
	@scripts/setup.sh test
	@scripts/bench.sh page

plots: ## Simulate every scenario; draw docs/plots/ and fill the tables of docs/choosing-a-strategy.md
	@scripts/setup.sh build
	@scripts/plots.sh

settings: ## Write docs/settings.md and docs/check.md
	@scripts/setup.sh build
	@cargo run --quiet --release --bin berth -- settings >docs/settings.md
	@cargo run --quiet --release --bin berth -- check --rules >docs/check.md

lint: ## Check format, lints, Lua and dependencies
	@scripts/setup.sh lint
	@scripts/lint.sh

fmt: ## Format the Rust code
	@scripts/setup.sh build
	@cargo fmt --all

check: ## Run exactly what continuous integration runs
	@.ci/run

clean: ## Remove build products (.tools/ stays; it is slow to bring back)
	@cargo clean

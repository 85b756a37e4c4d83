# Millpond. `make run` and `make test` need nothing before them but Rust, a C compiler and, for the tests,
# Node and Python.

LISTEN ?= 127.0.0.1:8400
DATA_DIR ?= ./data

.PHONY: run check test soak bench bench-peers bench-postgres

# Builds, prints lines to paste, and serves.
run:
	cargo build --release --package millpond-cli
	@scripts/first-minute $(LISTEN)
	@exec target/release/millpond serve --listen $(LISTEN) --data-dir $(DATA_DIR)

# The quick gate before a commit: under five minutes once built.
check:
	@scripts/parts check

# Everything that is bounded; what CI runs. Prints the time of each part at its end.
test:
	@scripts/parts test

# The long form: all seeds, hundreds of kills, fuzzers. Writes its report to docs/soak/.
soak:
	@scripts/soak

# The figures of docs/benchmarks/, on an otherwise idle machine.
bench:
	cargo build --release --package millpond-bench
	target/release/millpond-bench report > target/bench.json

# Millpond beside other queue servers, which it installs; writes docs/benchmarks/peers.md. OPTIONS="--rounds 1" is shorter.
bench-peers:
	@scripts/bench-peers $(OPTIONS)

# Millpond on PostgreSQL beside other queues there; writes docs/benchmarks/postgresql.md. OPTIONS="--rounds 1" is shorter.
bench-postgres:
	@scripts/bench-postgres $(OPTIONS)

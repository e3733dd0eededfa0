# The few commands people need; each calls plain cargo or a script under ci/.

# The main job: every check against the facade over an embedded Queen, then the report.
matrix *args:
    cargo run --release -- {{ args }}

# Every test.
test:
    cargo test --workspace

# Format, clippy, licences, documentation.
lint:
    ci/lint

# Everything the gate runs.
gate:
    ci/test

# Benchmarks; the result page is written to target/bench.
bench *args:
    ci/bench {{ args }}

# Generated pages: API tables, variables.
docs:
    cargo run --release -- docs

# Records queues, lanes and offsets in ./data, speaks Kafka on 9092.
facade:
    QUEEN_URL=embedded:./data QUEEN_KAFKA_ADVERTISED_ADDR=127.0.0.1:9092 cargo run --release -p facade --bin queen-kafka

//! One deterministic world: clients, doors and fakes over a simulated network.

//! Empty: this package exists for its dependencies. See Cargo.toml.

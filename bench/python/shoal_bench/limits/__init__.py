"""What the machine can do, as scripts like a strategy. The bare loops in Rust are in `bench/limits`."""

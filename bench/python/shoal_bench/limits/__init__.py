"""What the machine can do at the most: bare loops in Rust (crates/shoal-limits), each a script like a strategy."""

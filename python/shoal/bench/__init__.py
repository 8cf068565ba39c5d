"""The bench: shoal measured beside programs that do the same job in other ways."""

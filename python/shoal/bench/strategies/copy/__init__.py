"""x."""

ORDER: tuple[str, ...] = ()

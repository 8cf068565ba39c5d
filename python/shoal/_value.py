"""`Value`: the base of results and of descriptions of sources. Not here: the classes themselves.

`dataclasses` would do the same, but importing it takes as long as all of `import shoal`.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Value:
    """An immutable object with named fields, which are its annotations.

    Two values are equal if they are of one class and their fields are equal. Values can be hashed and pickled.
    """

    _fields: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}
    _shown: ClassVar[tuple[str, ...]] = ()  # the fields in `repr`, the most important first; by default every field

    def __init_subclass__(cls) -> None:
        """Takes the fields from the annotations, and their defaults."""
        cls._fields = tuple(cls.__annotations__)
        cls._defaults = {name: cls.__dict__[name] for name in cls._fields if name in cls.__dict__}

    def __init__(self, **fields: Any) -> None:
        """Takes every field by its name.

        Raises:
            TypeError: A field without a default is missing, or one is not of this class.
        """
        fields = self._defaults | fields
        if wrong := fields.keys() ^ set(self._fields):
            raise TypeError(f"{type(self).__name__}() needs exactly its fields; missing or unknown: {sorted(wrong)}")
        self.__dict__.update(fields)

    def __repr__(self) -> str:
        """Shows the main fields on one line."""
        shown = [f"{name}={_short(getattr(self, name))}" for name in self._shown or self._fields]
        return f"{type(self).__name__}({', '.join(shown)}{', …' if self._shown else ''})"

    def __eq__(self, other: object) -> bool:
        """Compares by value; values of two classes are never equal."""
        return self.__dict__ == other.__dict__ if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        """Returns a hash of the fields."""
        return hash((type(self), *(_hashable(self.__dict__[name]) for name in self._fields)))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Raises, because values are immutable."""
        raise AttributeError(f"{type(self).__name__} cannot be changed: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        """Raises, because values are immutable."""
        raise AttributeError(f"{type(self).__name__} cannot be changed: {name}")


def _short(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else repr(value)


def _hashable(value: object) -> object:
    return frozenset(value.items()) if isinstance(value, dict) else value

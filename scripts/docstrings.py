"""How the API reference shows functions: an extension of griffe, which mkdocs.yml names."""

from typing import Any

import griffe

from shoal import _options


class Functions(griffe.Extension):
    """Shows the lines of `Example:` as code, which griffe only knows as `Examples:`, and defaults as values."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Changes what griffe has read of an object."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
        for parameter in obj.parameters if isinstance(obj, griffe.Function) else ():
            value = getattr(_options, str(parameter.default), None)
            if value is not None:
                parameter.default = repr(value)

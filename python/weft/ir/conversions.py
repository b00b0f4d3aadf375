"""Keeps what conversion patterns call: MLIR's bindings keep neither the functions of a type converter nor the
converter of a pattern, and end the process when they call one that is gone.
"""

from collections.abc import Callable
from typing import Any


def kept_conversions(rewrite: Any) -> Any:
    """The bindings' module `rewrite`, whose type converters and patterns keep what they call."""
    if hasattr(rewrite, "TypeConverter"):
        add = rewrite.RewritePatternSet.add_conversion

        class TypeConverter(rewrite.TypeConverter):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.kept: list[Any] = []

            def add_conversion(self, convert: Callable[[Any], Any]) -> None:
                self.kept.append(convert)
                super().add_conversion(convert)

        def add_conversion(self: Any, root: Any, fn: Any, type_converter: Any, benefit: int = 1) -> None:
            def convert(op: Any, adaptor: Any, _: Any, rewriter: Any) -> Any:
                return fn(op, adaptor, type_converter, rewriter)

            add(self, root, convert, type_converter, benefit)

        rewrite.TypeConverter = TypeConverter
        rewrite.RewritePatternSet.add_conversion = add_conversion
    return rewrite

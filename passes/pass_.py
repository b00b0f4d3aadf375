"""What a pass is: a flag, its options, and a function from an operation to nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.errors import WeftError


@dataclass(frozen=True)
class Pass:
    """`--flag{option=value …}`: `run(op, **options)` rewrites everything below `op` in place.

    `options` maps each option's name to its default. `run` raises WeftError for what it can't lower.
    """

    flag: str
    summary: str
    run: Callable[..., None]
    options: Mapping[str, str] = field(default_factory=dict)

    def configured(self, given: Mapping[str, str]) -> Callable[[Any, Any], None]:
        """The pass with its options, as MLIR's pass manager takes it. Raises WeftError for an option that it
        hasn't.
        """
        if unknown := sorted(set(given) - set(self.options)):
            known = ", ".join(self.options) or "none"
            raise WeftError(f"pass '{self.flag}' has no option '{unknown[0]}': its options are {known}")
        options = {name.replace("-", "_"): given.get(name, default) for name, default in self.options.items()}

        def run(op: Any, _: Any) -> None:
            with op.location:
                self.run(op, **options)

        return run

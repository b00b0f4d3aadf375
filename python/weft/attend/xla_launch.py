"""A launch of one of attention's kernels as text that XLA keeps in its programs: enough to prepare it in any
process. `weft.multiply.xla_target` has XLA's handler, which launches it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.attend.kernels.backward import gradients
from weft.attend.kernels.combine import combine
from weft.attend.kernels.decode import decode
from weft.attend.kernels.forward import forward
from weft.attend.kernels.forward_fp8 import forward_fp8
from weft.attend.kernels.sums import products_of_outputs
from weft.errors import WeftError
from weft.language.calls.kernels import KernelFunction
from weft.launch.arrays import ArrayView, Planned
from weft.launch.kernel import Kernel
from weft.launch.runtime import Prepared

KERNELS: Mapping[str, KernelFunction] = {
    each.signature.name: each
    for each in (forward, forward_fp8, decode, combine, products_of_outputs, gradients)
}
BEGINNING = '{"launch":'
"""Of the texts."""
_VERSION = 9

Described = tuple[tuple[int, ...], tuple[int, ...], str]
"""The shape and the strides of an array, and MLIR's name of its elements."""


@dataclass(frozen=True)
class KernelLaunch:
    """A kernel with meta-parameters, arrays and numbers, in the order of its arguments. XLA's operands are
    the arrays that it reads, its results those that it writes.
    """

    kernel: str
    arguments: tuple[Described | float, ...]
    meta: tuple[tuple[str, Any], ...]

    @property
    def text(self) -> str:
        """What `of` reads."""
        # JSON has no exact floats.
        given = [each.hex() if isinstance(each, float) else each for each in self.arguments]
        fields = {"launch": self.kernel, "version": _VERSION, "arguments": given, "meta": dict(self.meta)}
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def of(cls, text: str) -> "KernelLaunch":
        """Raises WeftError for a text of another version of Weft."""
        fields = json.loads(text)
        if fields["version"] != _VERSION or fields["launch"] not in KERNELS:
            got = f"{fields['launch']} of format {fields['version']}"
            what = f"expected a launch of a kernel of format {_VERSION}, got {got}"
            raise WeftError(f"weft.jax.attention: {what}: trace or export the program again")
        arguments = tuple(map(_argument, fields["arguments"]))
        return cls(fields["launch"], arguments, tuple(fields["meta"].items()))

    def prepared(self, ordinal: int) -> Prepared:
        """The launch on a GPU. Raises WeftError where the kernel can't be compiled for it."""
        arguments: list[Any] = [
            Planned.of(number, each[0], each[2], ordinal, each[1]) if isinstance(each, tuple) else each
            for number, each in enumerate(self.arguments)
        ]
        kernel: Kernel = KERNELS[self.kernel].compile(*arguments, **dict(self.meta))
        return kernel.plan(arguments)

    def emulate(self, addresses: Sequence[int]) -> None:
        """Runs the kernel in the emulator, on arrays of the CPU at these addresses."""
        left = iter(addresses)
        arguments = [
            ArrayView(next(left), *each, "cpu", 0, False, None) if isinstance(each, tuple) else each
            for each in self.arguments
        ]
        KERNELS[self.kernel](*arguments, on="emulator", **dict(self.meta))


def _argument(given: Any) -> Described | float:
    if isinstance(given, list):
        shape, strides, dtype = given
        return tuple(shape), tuple(strides), dtype
    return float.fromhex(given) if isinstance(given, str) else given

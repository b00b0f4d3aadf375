"""Calls with PyTorch's tensors: a launch is prepared once for all tensors of equal types, sizes, strides and
alignment, so that later calls only fill in addresses.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.language.calls.signatures import ArrayArgument
from weft.language.capture.contents import content
from weft.language.values.dtypes import DType
from weft.launch import libraries, plans
from weft.launch.arrays import ArrayView
from weft.launch.kernel import Kernel
from weft.launch.kernel_arguments import checked

_EXACT = (int, bool, str, type(None))  # types of which equal values are the same
_MOST = 1024  # launches that a kernel keeps


@dataclass(frozen=True, slots=True)
class Plan:
    """A prepared launch. `stream` returns the handle for a call's stream, or None where PyTorch records calls
    or differentiates them, so that the arguments must be checked again.
    """

    launch: Callable[..., None]
    stream: Callable[[object], int | None]
    written: tuple[int, ...]
    count_write: Callable[[object], None]


class Plans:
    """The plans of a kernel with these arguments, for any number of threads."""

    def __init__(self, kinds: Sequence[ArrayArgument | DType]) -> None:
        arrays = {n: kind for n, kind in enumerate(kinds) if isinstance(kind, ArrayArgument)}
        self._tensors, self._count = list(arrays), len(kinds)
        self._numbers = [n for n in range(len(kinds)) if n not in arrays]
        self._written = tuple(n for n, kind in arrays.items() if kind.writes)
        self._known = plans.Plans(_MOST)

    def found(self, args: Sequence[object], meta: Mapping[str, object]) -> plans.Found | None:
        """Looks up the plan of a call with plain tensors; None for other arguments."""
        if len(args) != self._count:
            return None
        # Meta-parameters with their types, as 1 and 1.0 are equal, and with the contents of objects.
        pairs = meta.items() if meta else ()
        options: tuple[Hashable, ...] = tuple(
            [(name, type(v), v if type(v) in _EXACT else content(v)) for name, v in pairs]
        )
        if self._numbers:
            options = (*[args[n] or repr(args[n]) for n in self._numbers], *options)  # -0.0 is equal to 0.0
            args = [args[n] for n in self._tensors]
        return self._known.found(args, options)

    def queue(self, call: plans.Found, args: Sequence[object], stream: object) -> bool:
        """Queues a launch if it is known; False if the arguments must be checked."""
        _, addresses, plan = call
        if plan is None or (handle := plan.stream(stream)) is None:
            return False
        for number in plan.written:
            plan.count_write(args[number])
        plan.launch(handle, *addresses)
        return True

    def add(self, key: Hashable, kernel: Kernel, args: Sequence[Any], values: Sequence[Any]) -> Plan | None:
        """Prepares the launch of a kernel for arguments like these, which it takes as `values`; None for
        arrays of the CPU.
        """
        views, aligned = checked(kernel.launch, values)
        of_arrays = [view for view in views if isinstance(view, ArrayView)]
        if not aligned or any(view.device != "cuda" for view in of_arrays):
            return None
        stream = libraries.stream_finder(
            [args[n] for n in self._tensors], args[self._tensors[0]].device.index, of_arrays
        )
        plan = Plan(kernel.plan(views).launch, stream, self._written, libraries.TORCH.writer())
        self._known.add(key, plan)
        return plan


def current_stream(args: Sequence[Any]) -> int:
    """The handle of PyTorch's current stream on the GPU of the first tensor."""
    tensor = next(arg for arg in args if hasattr(arg, "data_ptr"))
    return libraries.TORCH.current_stream(tensor.device.index)()

"""Calls with PyTorch's tensors: a launch is prepared once for all tensors of equal types, sizes, strides and
alignment, so that later calls only fill in addresses.
"""

import operator
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.language.calls.signatures import ArrayArgument
from weft.language.capture.contents import content
from weft.launch import libraries, plans, torch_keys
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
    stream: Callable[[Any], int | None]
    written: tuple[int, ...]
    count_write: Callable[[Any], None]


class Plans:
    """The plans of a kernel with these arguments, for any number of threads."""

    def __init__(self, kinds: Sequence[Any]) -> None:
        self._tensors = [n for n, kind in enumerate(kinds) if isinstance(kind, ArrayArgument)]
        self._numbers = [n for n in range(len(kinds)) if n not in self._tensors]
        self._written = tuple(n for n in self._tensors if kinds[n].writes)
        self._count = len(kinds)
        self._tensors_of = _getter(self._tensors)
        self._describe: torch_keys.Describe | None = None
        self._known = plans.Plans(_MOST)

    def key(self, args: Sequence[Any], meta: dict[str, Any]) -> tuple[Hashable, Sequence[int]] | None:
        """What the launch for plain tensors depends on, and their addresses; None for other arguments."""
        if len(args) != self._count:
            return None
        describe = self._describe or torch_keys.describer()
        if describe is None:
            return None
        self._describe = describe
        described = describe(*(self._tensors_of(args) if self._numbers else args))
        if described is None:
            return None
        parts: list[Any] = [described[0]]
        for number in self._numbers:
            each = args[number]
            # With its type: 1 and 1.0 are equal. A zero by its text, as -0.0 is equal to 0.0.
            parts += [type(each), each or repr(each)]
        return (*parts, *(_contents(meta) if meta else ())), described[1:]

    def queue(self, key: Hashable, args: Sequence[Any], addresses: Sequence[int], stream: Any) -> bool:
        """Queues a launch if it is known; False if the arguments must be checked."""
        try:
            plan = self._known.get(key)
        except TypeError:  # of a meta-parameter that can't be hashed, which the kernel refuses
            return False
        if plan is None or (handle := plan.stream(stream)) is None:
            return False
        for number in plan.written:
            plan.count_write(args[number])
        plan.launch(handle, *addresses)
        return True

    def add(self, key: Hashable, kernel: Kernel, args: Sequence[Any]) -> bool:
        """Prepares the launch of a kernel for arguments like these, and returns whether it did: not for those
        in the memory of the CPU.
        """
        views, aligned = checked(kernel.launch, args)
        of_arrays = [view for view in views if isinstance(view, ArrayView)]
        if not aligned or any(view.device != "cuda" for view in of_arrays):
            return False
        stream = libraries.stream_finder(
            [args[n] for n in self._tensors], args[self._tensors[0]].device.index, of_arrays
        )
        plan = Plan(kernel.plan(views).launch, stream, self._written, libraries.TORCH.writer())
        self._known.add(key, plan)
        return True


def _contents(meta: dict[str, Any]) -> list[Hashable]:
    """Meta-parameters with their types, as 1 and 1.0 are equal, and with the contents of objects."""
    return [(name, type(v), v if type(v) in _EXACT else content(v)) for name, v in meta.items()]


def _getter(numbers: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A function that returns these elements of a sequence, as a sequence."""
    if len(numbers) > 1:
        return operator.itemgetter(*numbers)
    return lambda values: [values[n] for n in numbers]


def current_stream(args: Sequence[Any]) -> int:
    """The handle of PyTorch's current stream on the GPU of the first tensor."""
    tensor = next(arg for arg in args if hasattr(arg, "data_ptr"))
    return libraries.TORCH.current_stream(tensor.device.index)()

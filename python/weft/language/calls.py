"""Calls with PyTorch's tensors: a launch is prepared once for all tensors of equal types, sizes, strides and
alignment, so that later calls only fill in addresses.
"""

import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from weft import locks
from weft.language.arguments import ArrayArgument
from weft.language.signatures import ALIGNMENT
from weft.launch import libraries
from weft.launch.arrays import ArrayView
from weft.launch.kernel import Kernel
from weft.launch.kernel_arguments import checked

_MOST = 1024  # launches that a kernel keeps
_NUMBERS = (int, float)


@dataclass(frozen=True, slots=True)
class Plan:
    """A prepared launch. `stream` returns the handle for a call's stream, or None where PyTorch records calls
    or differentiates them, so that the arguments must be checked again.
    """

    launch: Callable[..., None]
    stream: Callable[[Any], int | None]
    tensors: tuple[int, ...]
    written: tuple[int, ...]
    count_write: Callable[[Any], None]

    def queue(self, args: Sequence[Any], stream: Any) -> bool:
        """Queues the launch with these tensors; False if their arguments must be checked again."""
        handle = self.stream(stream)
        if handle is None:
            return False
        for number in self.written:
            self.count_write(args[number])
        self.launch(handle, *[args[number].data_ptr() for number in self.tensors])
        return True


class Plans:
    """The plans of a kernel, for any number of threads."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Plan] = {}
        self._lock = locks.lock()
        self.get = self._known.get
        """`get(key)` is the plan of a key, or None."""

    def add(self, key: Hashable, kernel: Kernel, args: Sequence[Any], kinds: Sequence[Any]) -> Plan:
        """Prepares the launch of a kernel for arguments like these."""
        views, _ = checked(kernel.launch, args)
        tensors = tuple(n for n, kind in enumerate(kinds) if isinstance(kind, ArrayArgument))
        written = tuple(n for n in tensors if kinds[n].writes)
        arrays = [args[n] for n in tensors]
        of_tensors = [view for view in views if isinstance(view, ArrayView)]
        stream = libraries.stream_finder(arrays, arrays[0].device.index, of_tensors)
        writer = libraries.TORCH.writer()
        plan = Plan(kernel.plan(views).launch, stream, tensors, written, writer)
        with self._lock:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = plan
        return plan


def key_of(args: Sequence[Any], meta: dict[str, Any]) -> Hashable | None:
    """What a prepared launch depends on, for tensors of a GPU and numbers; None for any other arguments."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    tensor, parts = torch.Tensor, list[Hashable]()
    for arg in args:
        if type(arg) is tensor:
            device = arg.device
            if device.type != "cuda":
                return None
            parts += (arg.dtype, arg.shape, arg.stride(), arg.data_ptr() % ALIGNMENT, device.index)
        elif type(arg) in _NUMBERS:
            parts.append((type(arg), arg))
        else:
            return None
    parts += meta.items()
    try:
        key = tuple(parts)
        hash(key)
    except TypeError:  # of a meta-parameter, which the kernel refuses
        return None
    return key

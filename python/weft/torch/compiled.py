"""Products in programs that Inductor compiled, without a call of PyTorch's dispatcher.

Inductor's cache keeps programs, so programs of earlier releases call `Product` too: its parameters must stay.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from weft.launch import cuda_driver, torch_tensors
from weft.launch.launcher import OVERLAP
from weft.launch.plans import describer
from weft.multiply import plans, product
from weft.system import locks
from weft.torch import lowering
from weft.torch.operators import PRODUCTS, readable, run

_ROLES = tuple("alphas" if role == "alpha" else role for role in product.ROLES)
"""The operands after `a` and `b`, in the order in which programs pass them to a `Product`."""


class Product:
    """A product in a compiled program: `product(a, b, *more, out=out)`, whose further operands are those of
    `roles`, in the order of `_ROLES`. It queues the launch on PyTorch's current stream.

    The options are those of the operators, except `out_dtype`. Raises WeftError as `weft.matmul` does.
    """

    __slots__ = ("_describe", "_number", "_options", "_roles")

    def __init__(self, *roles: str, **options: Any) -> None:
        self._roles, self._options = roles, options
        self._describe = describer() or _undescribed
        with _lock:  # a number is hashed in less time than the options
            self._number = _numbers.setdefault((roles, *sorted(options.items())), len(_numbers))

    def __call__(self, *arrays: Tensor, out: Tensor) -> None:
        a, b, *more = arrays
        described = self._describe(a, b, out, *more)
        if described is None:
            return self._unplanned(arrays, out)
        key, *addresses = described
        plan = plans.kept.get((key, self._number))
        if plan is None:
            return self._planned((key, self._number), arrays, out)
        handle = plan.current()
        status = plan.queue(handle, *addresses)
        if status == OVERLAP:
            return self._unplanned(arrays, out)
        if status:
            plan.launch.settle(status, handle, *addresses)
        cuda_driver.launched = plan.launch.action
        return None

    def _planned(self, key: Hashable, arrays: Sequence[Tensor], out: Tensor) -> None:
        """The first product of such arrays, whose launch is kept by the key."""
        a, b, *more = arrays
        if readable(a) is not a or readable(b) is not b:
            return self._unplanned(arrays, out)
        added = {"alpha" if role == "alphas" else role: x for role, x in zip(self._roles, more, strict=True)}
        options = dict(self._options)
        kinds = options.pop("kind_a", None), options.pop("kind_b", None)
        kind = None if kinds == (None, None) else kinds
        with torch.no_grad():
            plans.planned(key, a, b, out, added, product.Product(tuple(added), kind=kind, **options), None)
        return None

    def _unplanned(self, arrays: Sequence[Tensor], out: Tensor) -> None:
        """A product of arrays that are checked in each call."""
        a, b, *more = arrays
        named = {"a": a, "b": b, **dict(zip(self._roles, more, strict=True))}
        with torch.no_grad():
            run(named, out=out, **self._options)


_numbers: dict[Hashable, int] = {}
_lock = locks.lock()


def _undescribed(*_: object) -> None:
    """Describes no tensors, where PyTorch is too old."""


def _lowered(arguments: dict[str, Any]) -> lowering.Made | None:
    """The object for a product, from the operator's arguments."""
    options = {name: x for name, x in arguments.items() if name not in (*_ROLES, "a", "b", "out_dtype")}
    is_f32 = arguments["a"].get_dtype() == torch.float32
    by_pytorch = is_f32 and not torch_tensors.allows_tf32()
    if by_pytorch or ("alphas" in arguments and "alpha" in options):
        return None
    roles = [role for role in _ROLES if role in arguments]
    inputs = [arguments[name] for name in ("a", "b", *roles)]
    return lowering.Made(__name__, "Product", inputs, roles, options, matrices=2)


for _name in PRODUCTS:
    lowering.add(getattr(torch.ops.weft, _name).default, _lowered)

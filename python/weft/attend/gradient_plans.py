"""The launches of attention's gradients that are prepared for PyTorch's tensors, as those of `plans`: later
calls only allocate results and fill in addresses.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from weft.attend import gradients, plans
from weft.attend.launches import Call
from weft.attend.problem import Options
from weft.launch import libraries
from weft.multiply.plans import Plans

_COMPUTED = ("o", "lse", "do", "d_lse")
ARRAYS = ("q", "k", "none", "v", *_COMPUTED, "lengths", "cu_seqlens_q", "cu_seqlens_k")
"""The order in which a call's arrays are described. There is no third one."""
_NAMES = {
    "starts_q": "cu_seqlens_q",
    "starts_k": "cu_seqlens_k",
    "later_delta": "delta",
}
"""The arrays that the kernels have other names for."""
_RESULTS = ("dq", "dk", "dv")
_New = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """The launches of all calls with one key. `stream` and `queue` are those of `plans.Plan`. `results` make
    the results, which are zeros before the launches with `zeroed`, and `between` the memory for arrays that
    one kernel writes for the next, which begin at `offsets`. `unread` are arguments that the kernels don't
    read.
    """

    stream: Callable[[Any], int | None]
    results: tuple[_New, ...]
    between: _New
    offsets: tuple[int, ...]
    zeroed: bool
    address: Callable[[Any], int]
    unread: tuple[Any, ...]
    constants: tuple[int, ...]
    queue: plans.Queue

    def run(self, handle: int, addresses: Sequence[int]) -> list[Any]:
        """The gradients of q, k and v."""
        made = [new() for new in self.results]
        if self.zeroed:
            for each in made:
                each.zero_()
        between = self.between()  # PyTorch may use its memory again once the launches are queued
        start = self.address(between)
        at = [*addresses, *map(self.address, made), *(start + each for each in self.offsets), *self.constants]
        for launch, pick in self.queue:
            launch(handle, *pick(at))
        return made

    @classmethod
    def of(
        cls, call: Call, arrays: Sequence[Any], results: Sequence[Any], launched: Sequence[plans.Launched]
    ) -> "Plan | None":
        """The plan of a call that had these results; None if one of its launches can't be prepared."""
        torch, q = libraries.TORCH, call.given["q"]
        ordinal = call.views["q"].device_id
        given = {*call.given, *(n for n, each in zip(_COMPUTED, arrays, strict=True) if each is not None)}
        slots = [name for name in ARRAYS if name in given or name == "none"]
        first, second = launched[0], launched[1].options
        names = (
            "base",
            "delta",
            "peaks",
            *["sums_q"] * first.options["adding"],
            *["done"] * (second["beside"] or second["clears"]),
        )
        between = {name: first.arrays[name] for name in names}
        made = dict(zip(_RESULTS, results[:3], strict=True)) | between
        slots += made

        def slot_of(_: plans.Launched, name: str, array: Any) -> str | None:
            of_call = name not in made or array.data_ptr() == made[name].data_ptr()
            return _NAMES.get(name, name) if of_call else None

        found = plans.prepared(launched, slots, slot_of)
        if found is None:
            return None
        queue, unread = found
        makers = [torch.maker(q, ordinal, tuple(a.shape), call.views["q"].dtype) for a in results[:3]]
        address = makers[0][1]
        sizes = [each.numel() for each in between.values()]  # of 4 bytes; before the last, whole SUMS_STEPs
        return cls(
            libraries.stream_finder([*call.given.values()], ordinal, [*call.views.values()]),
            tuple(new for new, _ in makers),
            torch.maker(q, ordinal, (sum(sizes),), "f32")[0],
            tuple(4 * sum(sizes[:number]) for number in range(len(sizes))),
            call.flags["packed"] or call.flags["limited"],
            address,
            unread,
            tuple(address(each) for each in unread),
            queue,
        )


_plans: Any = Plans(plans.MOST)
_DEFAULTS = {each.name: each.default for each in fields(Options)}


def found(given: Sequence[Any], options: dict[str, Any]) -> plans.Found | None:
    """What is known of a call with these arrays, in the order of `ARRAYS`, and options; None unless all
    arrays are plain tensors.
    """
    described = plans.described(given)
    if described is None:
        return None
    values = tuple((_DEFAULTS | options).values())
    key: Hashable = described[0], values, tuple(map(type, values))
    return key, described[1:], _plans.get(key)


def queued(known: plans.Found | None) -> list[Any] | None:
    """The results of a call that has a plan; None if its arguments must be checked."""
    if known is None or known[2] is None:
        return None
    _, addresses, plan = known
    handle = plan.stream(None)
    return None if handle is None else plan.run(handle, addresses)


def run(known: plans.Found | None, call: Call, arrays: Sequence[Any]) -> list[Any]:
    """The gradients of q, k and v of a call, and delta, from `arrays`: the output, lse and their gradients.
    Keeps a plan for calls with the same key if the arrays are on a GPU.
    """
    launched: list[plans.Launched] = []
    if known is not None:
        call = replace(call, launch=plans.recorder(launched))
    results = gradients.backward(call, *arrays)
    plans.launch_all(launched, call)
    if known is not None and launched and call.views["q"].device == "cuda":
        plan = Plan.of(call, arrays, results, launched)
        if plan is not None:
            _plans.add(known[0], plan)
    return [*results]

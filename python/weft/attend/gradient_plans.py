"""The plans of attention's gradients, which `plans` describes."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from weft.attend import gradients, plans
from weft.attend.launches import KERNEL_NAMES, Call
from weft.attend.problem import Options
from weft.launch.plans import Found, Plans

_COMPUTED = ("o", "lse", "do", "d_lse")
ARRAYS = ("q", "k", "none", "v", *_COMPUTED, "lengths", "cu_seqlens_q", "cu_seqlens_k")
"""The order in which a call's arrays are described. There is no third one."""
_NAMES = KERNEL_NAMES | {"later_delta": "delta"}
_plans: Any = Plans(plans.MOST)
_DEFAULTS = {each.name: each.default for each in fields(Options)}


def found(given: Sequence[object], options: Mapping[str, object]) -> Found | None:
    """What is known of a call with these arrays, in the order of `ARRAYS`."""
    return _plans.found(given, tuple({**_DEFAULTS, **options}.values()))


def run(known: Found | None, call: Call, arrays: Sequence[object]) -> list[Any]:
    """The gradients of q, k and v of a call, and delta, from `arrays`: the output, lse and their gradients.
    Keeps a plan for calls with the same key if the arrays are on a GPU.
    """
    launched: list[plans.Launched] = []
    if known is not None:
        call = replace(call, launch=plans.recorder(launched))
    results = gradients.backward(call, *arrays)
    plans.launch_all(launched, call)
    if known is not None and launched and call.views["q"].device == "cuda":
        plan = _plan_of(call, arrays, results, launched)
        if plan is not None:
            _plans.add(known[0], plan)
    return [*results]


def _plan_of(
    call: Call, arrays: Sequence[Any], results: Sequence[Any], launched: Sequence[plans.Launched]
) -> plans.Plan | None:
    given = {*call.given, *(n for n, each in zip(_COMPUTED, arrays, strict=True) if each is not None)}
    slots = [name for name in ARRAYS if name in given or name == "none"]
    first, second = launched[0], launched[1].options
    names = ["base", "delta", "peaks", *["sums_q"] * first.options["adding"]]
    names += ["done"] * (second["beside"] or second["clears"])
    between = {name: first.arrays[name] for name in names}
    of_results = dict(zip(("dq", "dk", "dv"), results[:3], strict=True))
    made = of_results | between

    def slot_of(_: plans.Launched, name: str, array: Any) -> str | None:
        of_call = name not in made or array.data_ptr() == made[name].data_ptr()
        return _NAMES.get(name, name) if of_call else None

    typed = {name: (each, call.views["q"].dtype) for name, each in of_results.items()}
    zeroed = call.flags["packed"] or call.flags["limited"]
    return plans.Plan.of(call, launched, slots, typed, between, slot_of, zeroed=zeroed)

"""The launches that `weft.attention` has prepared for PyTorch's tensors, by their types, sizes, strides and
alignment, and by the options. Later calls only allocate results and fill in addresses.
"""

import operator
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from weft.attend import fp8_launch, launches
from weft.attend.kernels.combine import combine
from weft.attend.problem import Options
from weft.launch import graph, libraries
from weft.launch.launcher import Extents
from weft.multiply import torch_keys
from weft.multiply.plans import Plans

ARRAYS = (
    *("q", "k", "out", "v", "sinks", "lengths", "cu_seqlens_q", "cu_seqlens_k", "page_table"),
    *fp8_launch.SCALES,
)
"""The order in which a call's arrays are described. The third one may be new in each call."""
_OUT, _SINKS = ARRAYS.index("out"), ARRAYS.index("sinks")
MOST = 1024
"""Plans that are kept, and as many of gradients."""
_NAMES = {"starts_q": "cu_seqlens_q", "starts_k": "cu_seqlens_k", "pages": "page_table", "o": "out"}
"""The arrays that the kernels have other names for."""
_New = Callable[[], Any]
Queue = tuple[tuple[Callable[..., None], Callable[[Sequence[int]], Sequence[int]]], ...]
"""Launches in order, each with what picks its addresses from a call's."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The launches of all calls with one key. `stream` returns the handle for a call's stream, or None where
    PyTorch records, casts or differentiates calls, so that they must be checked again.

    Each launch takes its addresses from a list: those of the arrays given, of lse, of the arrays between two
    launches (which `between` creates), and of `unread`, which are arguments that the kernels don't read.
    `sinks` is the index of sinks that must be converted to f32. `extents` are those of the arrays given, for
    calls with an `out`.
    """

    stream: Callable[[Any], int | None]
    new_out: _New
    new_lse: _New
    between: tuple[_New, ...]
    address: Callable[[Any], int]
    write: Callable[[Any], None]
    sinks: int | None
    unread: tuple[Any, ...]
    constants: tuple[int, ...]
    queue: Queue
    extents: Extents | None

    def run(
        self, handle: int, addresses: Sequence[int], given: Sequence[Any], stream: Any = None
    ) -> tuple[Any, Any] | None:
        """The output and lse of the arrays given, in the order of `ARRAYS`, at these addresses. None if the
        output may overlap one of the others, so that they must be checked again. `handle` is that of
        `stream`, or of PyTorch's current one for None.
        """
        if self.extents is not None and self.extents.overlap(addresses):
            return None
        at, address, out, lse = [*addresses], self.address, given[_OUT], self.new_lse()
        if out is None:
            out = self.new_out()
            at[_OUT] = address(out)
        else:
            self.write(out)
        at.append(address(lse))
        if self.sinks is not None or self.between:
            made = self._made(given, stream)
            if self.sinks is not None:
                at[self.sinks] = address(made[0])
            at += map(address, made[self.sinks is not None :])
        at += self.constants
        for launch, pick in self.queue:
            launch(handle, *pick(at))
        return out, lse

    def _made(self, given: Sequence[Any], stream: Any) -> list[Any]:
        """Sinks in f32 if they must be converted, and the arrays between the launches, made on a stream.
        PyTorch may use their memory again once the launches are queued.
        """
        if stream is not None:
            with graph.queued_on(stream, given[0]):
                return self._made(given, None)
        converted = [] if self.sinks is None else [given[_SINKS].float()]
        return converted + [new() for new in self.between]

    @classmethod
    def of(
        cls, call: launches.Call, out: Any, results: tuple[Any, Any], launched: Sequence["Launched"]
    ) -> "Plan | None":
        """The plan of a call that had these results; None if one of its launches can't be prepared. `out` is
        the array that the caller gave.
        """
        torch, q = libraries.TORCH, call.given["q"]
        ordinal = call.views["q"].device_id
        slots = [name for name in ARRAYS if name in call.given or name == "out"]
        extents = None if out is None else launches.extents(call, out, slots)
        slots.append("lse")
        between: tuple[_New, ...] = ()
        if len(launched) > 1:
            slots += ["parts", "sums"]
            named = launched[1].arrays
            between = tuple(torch.maker(q, ordinal, tuple(named[n].shape), "f32")[0] for n in slots[-2:])
        split = len(launched) > 1
        found = prepared(launched, slots, lambda each, name, array: each.slot(name, split))
        if found is None:
            return None
        queue, unread = found
        converted = "sinks" in call.given and call.views["sinks"].dtype != "f32"
        new_out, address = torch.maker(q, ordinal, tuple(results[0].shape), call.result_types[0])
        arrays = [*call.given.values(), *([] if out is None else [out])]
        return cls(
            libraries.stream_finder(arrays, ordinal, [*call.views.values()]),
            new_out,
            torch.maker(q, ordinal, tuple(results[1].shape), "f32")[0],
            between,
            address,
            torch.writer(),
            slots.index("sinks") if converted else None,
            unread,
            tuple(address(each) for each in unread),
            queue,
            extents,
        )


@dataclass(frozen=True, slots=True)
class Launched:
    """A launch of a kernel, with its arguments in order and its meta-parameters."""

    kernel: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    @property
    def arrays(self) -> dict[str, Any]:
        """The arrays by the kernel's names."""
        pairs = zip(self.kernel.signature.arguments, self.arguments, strict=True)
        return {name: each for name, each in pairs if not isinstance(each, (int, float))}

    def slot(self, name: str, split: bool) -> str:
        """What a kernel's argument is in a call. If that is split, the first kernel writes parts."""
        if split and self.kernel is not combine and name in ("o", "lse"):
            return "parts" if name == "o" else "sums"
        return _NAMES.get(name, name)


def prepared(
    launched: Sequence[Launched], slots: list[str], slot_of: Callable[[Launched, str, Any], str | None]
) -> tuple[Queue, tuple[Any, ...]] | None:
    """The prepared launches, and the arguments for which `slot_of`, called with a launch and the name and
    array of an argument, returns none of `slots`: optional arrays that aren't given. They get slots of their
    own at the end. None if a launch can't be prepared.
    """
    unread: list[Any] = []
    queue = []
    for each in launched:
        numbers = []
        for name, array in each.arrays.items():
            slot = slot_of(each, name, array)
            if slot is None or slot not in slots:
                slot = f"unread {len(unread)}"
                slots.append(slot)
                unread.append(array)
            numbers.append(slots.index(slot))
        if (launch := each.kernel.planned(*each.arguments, **each.options)) is None:
            return None
        queue.append((launch.launch, operator.itemgetter(*numbers)))
    return tuple(queue), tuple(unread)


def recorder(launched: list[Launched]) -> Callable[..., None]:
    """What adds a launch to a list, for `launch_all`."""

    def launch(kernel: Any, *arguments: Any, stream: Any, **meta: Any) -> None:
        launched.append(Launched(kernel, arguments, meta))

    return launch


def launch_all(launched: Sequence[Launched], call: launches.Call, stream: Any = None) -> None:
    """Makes the launches of a call in order, on a GPU once all their kernels are compiled."""
    if call.views["q"].device == "cuda":
        compile_all(launched)
    for each in launched:
        each.kernel(*each.arguments, stream=stream, **each.options)


def compile_all(launched: Sequence[Launched], arch: str | None = None) -> None:
    """Compiles the kernels of several launches: while this thread lowers one, LLVM and ptxas, in processes of
    their own, compile those before. A mistake that these find is raised when the kernel is launched.
    """
    if len(launched) > 1:
        with ThreadPoolExecutor(len(launched)) as threads:
            # Kernels with more arguments take longer, so they come first.
            for each in sorted(launched, key=lambda each: len(each.arguments), reverse=True):
                kernel = each.kernel.compile(*each.arguments, arch=arch, **each.options)
                threads.submit(getattr, kernel, "cubin")


_plans: Any = Plans(MOST)
Found = tuple[Hashable, Sequence[int], Any]
"""The key of a call, the addresses of its arrays, and its plan or None."""


def described(given: Sequence[Any]) -> Any:
    """The key of arrays and their addresses, as `torch_keys.describer` returns them; None unless all of them
    are plain tensors.
    """
    describe = torch_keys.describer() if "torch" in sys.modules else None
    return None if describe is None else describe(*given)


def found(given: Sequence[Any], options: tuple[Any, ...], window: Any = None) -> Found | None:
    """What is known of a call with these arrays, in the order of `ARRAYS`, and options; None unless all
    arrays are plain tensors.
    """
    known = described(given)
    if known is None:
        return None
    if window.__class__ is tuple or window.__class__ is list:
        options += (len(window), *window)
    else:
        options += (window,)
    # With the types: True and 1.0 are equal, but not both are legal.
    key = known[0], options, tuple(map(type, options))
    try:
        return key, known[1:], _plans.get(key)
    except TypeError:  # of an option that can't be hashed
        return None


def queued(known: Found | None, given: Sequence[Any], stream: Any) -> tuple[Any, Any] | None:
    """The results of a call that has a plan; None if its arguments must be checked."""
    if known is None or known[2] is None:
        return None
    _, addresses, plan = known
    handle = plan.stream(stream)
    return None if handle is None else plan.run(handle, addresses, given, stream)


def run(
    known: Found | None, given: Mapping[str, Any], options: Options, out: Any = None, stream: Any = None
) -> tuple[Any, Any]:
    """Checks a call and runs it. Keeps a plan for calls with the same key if the arrays are on a GPU."""
    launched: list[Launched] = []
    call = launches.Call.of(given, options, None if known is None else recorder(launched))
    call.check_values()
    results = launches.run(call, out, stream)
    launch_all(launched, call, stream)
    if known is not None and launched and call.views["q"].device == "cuda":
        plan = Plan.of(call, out, results, launched)
        if plan is not None:
            _plans.add(known[0], plan)
    return results

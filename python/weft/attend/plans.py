"""The launches that attention and its gradients have prepared for PyTorch's tensors, by their types, sizes,
strides and alignment, and by the options. Later calls only allocate arrays and fill in addresses.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod
from typing import Any

from weft.attend import fp8_launch, launches
from weft.attend.kernels.combine import combine
from weft.attend.problem import Options
from weft.launch import libraries
from weft.launch.arrays import Array
from weft.launch.launcher import Extents
from weft.launch.plans import Found, Plans

ARRAYS = (
    *("q", "k", "out", "v", "sinks", "lengths", "cu_seqlens_q", "cu_seqlens_k", "page_table"),
    *fp8_launch.SCALES,
)
"""The order in which a call's arrays are described. The third one may be new in each call."""
_OUT, _SINKS = ARRAYS.index("out"), ARRAYS.index("sinks")
MOST = 1024
"""Plans that are kept, and as many of gradients."""
_NAMES = launches.KERNEL_NAMES | {"o": "out"}
_APART = 512  # bytes, at a multiple of which each array in one memory begins
_New = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """The launches of all calls with one key. `stream` returns the handle for a call's stream, or None where
    PyTorch records, casts or differentiates calls, so that they must be checked again.

    Each launch picks its addresses from a list: those of the arrays given, of the `results` that each call
    makes (zeros before the launches with `zeroed`), of arrays that one kernel writes for the next, which
    begin at `offsets` of one memory `between`, and of `unread`, arguments that the kernels don't read.
    `sinks` is the index of sinks that must be converted to f32. `extents` are those of the arrays given, for
    calls with an `out`.
    """

    stream: Callable[[Any], int | None]
    results: tuple[_New, ...]
    zeroed: bool
    between: _New | None
    offsets: tuple[int, ...]
    address: Callable[[Any], int]
    write: Callable[[Any], None]
    sinks: int | None
    unread: tuple[Any, ...]
    constants: tuple[int, ...]
    queue: tuple[tuple[Callable[..., None], Callable[[Sequence[int]], Sequence[int]]], ...]
    extents: Extents | None

    def run(
        self, handle: int, addresses: Sequence[int], given: Sequence[object], stream: object = None
    ) -> tuple[Array, ...] | None:
        """The results of the arrays given, at these addresses, an `out` among them first. None if that may
        overlap one of the others, so that they must be checked again. `handle` is that of `stream`, or of
        PyTorch's current one for None.
        """
        results, at, address = [new() for new in self.results], [*addresses], self.address
        if self.extents is not None:
            if self.extents.overlap(addresses):
                return None
            self.write(given[_OUT])
        if self.zeroed:
            for each in results:
                each.zero_()
        at += map(address, results)
        if self.between is not None or self.sinks is not None:
            sinks, between = self._made(given, stream)
            if self.sinks is not None:
                at[self.sinks] = address(sinks)
            start = 0 if between is None else address(between)
            at += (start + each for each in self.offsets)
        at += self.constants
        for launch, pick in self.queue:
            launch(handle, *pick(at))
        return tuple(results) if self.extents is None else (given[_OUT], *results)

    def _made(self, given: Sequence[Any], stream: Any) -> tuple[Any, Any]:
        """Sinks in f32 if they must be converted, and the memory between the launches, made on a stream.
        PyTorch may use their memory again once the launches are queued.
        """
        if stream is not None:
            with libraries.queued_on(stream, given[0]):
                return self._made(given, None)
        sinks = None if self.sinks is None else given[_SINKS].float()
        return sinks, None if self.between is None else self.between()

    @classmethod
    def of(
        cls,
        call: launches.Call,
        launched: Sequence["Launched"],
        slots: Sequence[str],
        results: Mapping[str, tuple[Any, str]],
        between: Mapping[str, Any],
        slot_of: Callable[["Launched", str, Any], str | None],
        *,
        zeroed: bool = False,
        out: Array = None,
    ) -> "Plan | None":
        """The plan of a call with these launches; None if one can't be prepared. `slots` name the arrays that
        are described, `results` those that a call makes, with their types, and `between` those that one
        kernel writes for the next. `slot_of` returns the name for an argument of a launch. Arguments without
        one are optional arrays that aren't given. `out` is the array that the caller gave.
        """
        torch, q = libraries.TORCH, call.given["q"]
        ordinal = call.views["q"].device_id
        names, unread, queue = [*slots, *results, *between], list[Any](), []
        for each in launched:
            numbers = []
            for name, array in each.arrays.items():
                slot = slot_of(each, name, array)
                if slot is None or slot not in names:
                    names.append(slot := f"unread {len(unread)}")
                    unread.append(array)
                numbers.append(names.index(slot))
            if (launch := each.kernel.planned(*each.arguments, **each.options)) is None:
                return None
            queue.append((launch.launch, operator.itemgetter(*numbers)))
        makers = [torch.maker(q, ordinal, tuple(a.shape), dtype) for a, dtype in results.values()]
        address, offsets, size = makers[0][1], [], 0
        for each in between.values():  # with elements of 4 bytes
            offsets.append(size)
            size += -(-4 * prod(each.shape) // _APART) * _APART
        arrays = [*call.given.values(), *([] if out is None else [out])]
        converted = "sinks" in call.given and call.views["sinks"].dtype != "f32"
        return cls(
            libraries.stream_finder(arrays, ordinal, [*call.views.values()]),
            tuple(new for new, _ in makers),
            zeroed,
            torch.maker(q, ordinal, (size // 4,), "f32")[0] if between else None,
            tuple(offsets),
            address,
            torch.writer(),
            names.index("sinks") if converted else None,
            tuple(unread),
            tuple(map(address, unread)),
            tuple(queue),
            None if out is None else launches.extents(call, out, slots),
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


def recorder(launched: list[Launched]) -> Callable[..., None]:
    """What adds a launch to a list, for `launch_all`."""

    def launch(kernel: object, *arguments: object, stream: object, **meta: object) -> None:
        launched.append(Launched(kernel, arguments, meta))

    return launch


def launch_all(launched: Sequence[Launched], call: launches.Call, stream: object = None) -> None:
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


def found(given: Sequence[object], options: tuple[object, ...], window: object = None) -> Found | None:
    """What is known of a call with these arrays, in the order of `ARRAYS`."""
    of_window = (len(window), *window) if window.__class__ in (tuple, list) else (window,)
    return _plans.found(given, (*options, *of_window))


def queued(known: Found | None, given: Sequence[object], stream: object = None) -> tuple[Array, ...] | None:
    """The results of a call that has a plan; None if its arguments must be checked."""
    if known is None or known[2] is None:
        return None
    _, addresses, plan = known
    handle = plan.stream(stream)
    return None if handle is None else plan.run(handle, addresses, given, stream)


def run(
    known: Found | None,
    given: Mapping[str, object],
    options: Options,
    out: object = None,
    stream: object = None,
) -> tuple[Array, Array]:
    """Checks a call and runs it. Keeps a plan for calls with the same key if the arrays are on a GPU."""
    launched: list[Launched] = []
    call = launches.Call.of(given, options, None if known is None else recorder(launched))
    call.check_values()
    results = launches.run(call, out, stream)
    launch_all(launched, call, stream)
    if known is not None and launched and call.views["q"].device == "cuda":
        plan = _plan_of(call, out, results, launched)
        if plan is not None:
            _plans.add(known[0], plan)
    return results


def _plan_of(
    call: launches.Call, out: object, results: tuple[object, object], launched: Sequence[Launched]
) -> Plan | None:
    slots = [name for name in ARRAYS if name in call.given or name == "out"]
    made = {"out": (results[0], call.result_types[0])} if out is None else {}
    if out is None:
        slots[_OUT] = "no out"
    split = len(launched) > 1
    between = {name: launched[1].arrays[name] for name in ("parts", "sums")} if split else {}

    def slot_of(launch: Launched, name: str, _: object) -> str:
        """The first kernel of a call that is split writes parts."""
        if split and launch.kernel is not combine and name in ("o", "lse"):
            return "parts" if name == "o" else "sums"
        return _NAMES.get(name, name)

    return Plan.of(call, launched, slots, made | {"lse": (results[1], "f32")}, between, slot_of, out=out)

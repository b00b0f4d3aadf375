"""Kernel functions: traced and compiled once for each combination of types and meta-parameters. Those of Weft
are also kept on disk: a process that finds one there doesn't trace.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from weft.compiler import kept_kernels
from weft.errors import WeftError, shown, warn
from weft.ir import callers
from weft.isa.chips import CHIPS, unknown_chip
from weft.isa.computed import computed
from weft.language.calls import array_arguments, exporting, plans, tuning
from weft.language.calls.signatures import Count, Options, Signature, Specialization, checked_threads
from weft.language.capture import contents, tracing_state
from weft.language.capture.reads import Read, Reads, after_trace, have_changed, reads_of
from weft.language.capture.rewriting import captured
from weft.language.messages import mistakes
from weft.language.messages.mistakes import REMEDIES
from weft.language.values.dtypes import DType
from weft.launch import kernel_page, runtime, torch_tensors
from weft.launch.kernel import Kernel, compile_own, compiled_before
from weft.launch.runtime import Bound, Prepared
from weft.system import locks

if TYPE_CHECKING:
    from weft.construction.module import Module
    from weft.emulator import Report


def _described(
    function: Callable[..., object], special: Specialization, chip: str, reads: Iterable[Read]
) -> list[str | bytes] | None:
    """The cache's key for the trace of a function, besides Weft's files; None where it has none."""
    if tracing_state.keeps_variables():
        return None
    try:
        values = contents.as_text(tuple((each.name, each.steps, each.content) for each in reads))
        special_text = contents.as_text(contents.content(special))
    except TypeError:
        return None
    return [f"{function.__module__}.{function.__qualname__}", chip, values, special_text]


_WITHOUT_GPU = "sm_90a"


class KernelFunction:
    """A kernel. Call it with arrays and numbers, and meta-parameters by name."""

    __wrapped__: Callable[..., object]
    signature: Signature

    def __init__(self, function: Callable[..., object], options: Options, arch: str | None) -> None:
        functools.update_wrapper(self, function)
        if not self._is_own:  # mistakes are those of the definition, and Weft's kernels have none
            _ = self._function
        self.signature = Signature.of(function)
        self._options, self._arch = options, arch
        self._compiled: dict[tuple[Specialization, object, str, bool], Kernel] = {}
        self._lock = locks.reentrant()
        self._plans = plans.Plans(list(self.signature.arguments.values()))
        self._reads: Reads = {}  # of what is compiled
        torch_tensors.run_untraced(KernelFunction.__call__)

    @computed
    def _function(self) -> Callable[..., object]:
        """The function with its control flow captured, which takes as long as an import of ten modules."""
        return captured(self.__wrapped__, kernel=True)

    @property
    def _is_own(self) -> bool:
        """Whether the function is in a file of Weft."""
        return callers.is_hidden(self.__wrapped__.__code__.co_filename)

    def __repr__(self) -> str:
        meta = [
            name if value is inspect.Parameter.empty else f"{name}={shown(value)}"
            for name, value in self.signature.meta.items()
        ]
        parameters = [*self.signature.arguments, *(["*", *meta] if meta else [])]
        return f"<kernel {self.signature.name}({', '.join(parameters)})>"

    @torch_tensors.outside_of_graphs(
        "Weft launches kernels that torch.compile can't trace: make this one an operator with w.torch_op"
    )
    def __call__(
        self,
        *args: object,
        stream: object = None,
        on: str | None = None,
        findings: str = "error",
        **named: object,
    ) -> None:
        """Runs the kernel: on the GPU if there is one, otherwise in the emulator.

        `args` are its arguments, by position or by name; the rest are meta-parameters. What the emulator's
        sanitizer finds is an error. `stream`, `on` and `findings` are as for `weft.Kernel`; with PyTorch's
        tensors, the stream is by default its current one.
        """
        if self._reads and have_changed(self._reads.values()):
            self._forget()
        call = self._plans.found(args, named) if on in (None, "gpu") else None
        if call is not None and self._plans.queue(call, args, stream):
            return
        with mistakes.of_users():
            values, meta = self._arguments(args, named)
            if array_arguments.has_no_tile(self.signature, values, meta, self._options.grid):
                return
            with array_arguments.contiguous(self.signature, values) as taken:
                kernel = self._compiled_for(taken, meta)
                if call is not None and (plan := self._plans.add(call[0], kernel, args, taken)) is not None:
                    stream = plans.current_stream(args) if stream is None else stream
                    if self._plans.queue((*call[:2], plan), taken, stream):
                        return
                kernel(*taken, stream=stream, on=on, findings=findings)

    def __getitem__(self, grid: object) -> NoReturn:
        raise WeftError(
            f"kernel {self.signature.name} can't be subscripted by a grid: set it by w.kernel(grid=…), as a "
            "function of the arrays, and call the kernel"
        )

    def __reduce__(self) -> str:
        """Copies are the kernel itself. Pickles have its module and name, as those of functions."""
        return str(self.__wrapped__.__qualname__)

    def _repr_html_(self) -> str:
        return kernel_page.of_function(self, [*self._compiled.values()])

    def compile(self, *args: object, arch: str | None = None, **named: object) -> Kernel:
        """The compiled kernel, for these arrays, or for these element types in place of arrays.

        It has the IR at every stage, PTX, SASS and resources. Arguments whose annotation has a type may be
        left out. `arch` is the chip, by default that of the GPU, or sm_90a.
        """
        with mistakes.of_users():
            return self._for_call(args, self._or_annotated(args, named), arch)[1]

    def emulate(self, *args: object, arch: str | None = None, **named: Any) -> "Report":
        """Runs the kernel in the emulator, and returns its report. Options are those of
        `weft.Kernel.emulate`; other names are meta-parameters.
        """
        own = {*self.signature.arguments, *self.signature.meta}
        options = {name: named.pop(name) for name in list(named) if name in _OPTIONS and name not in own}
        with mistakes.of_users():
            values, meta = self._arguments(args, named)
            if array_arguments.has_no_tile(self.signature, values, meta, self._options.grid):
                from weft.emulator import Report

                return Report(0)
            with array_arguments.contiguous(self.signature, values) as taken:
                return self._compiled_for(taken, meta, arch).emulate(*taken, **options)

    def prepare(self, *args: object, **named: object) -> Bound:
        """A launch with these arguments that can be queued any number of times, as `weft.Kernel.prepare`."""
        with mistakes.of_users():
            values, kernel = self._for_call(args, named)
            self._warn_of_spills(kernel)
            return kernel.prepare(*values)

    def planned(self, *args: object, **named: object) -> Prepared | None:
        """A launch with any arrays of a GPU that are like these ones, whose addresses are given to it; None
        where a call launches nothing, or a kernel for other rows.
        """
        values, meta = self._arguments(args, named)
        if array_arguments.has_no_tile(self.signature, values, meta, self._options.grid):
            return None
        kernel = self._compiled_for(values, meta)
        self._warn_of_spills(kernel)
        return kernel.plan(values) if kernel.taking(*values) is kernel else None

    def _warn_of_spills(self, kernel: Kernel) -> None:
        if not self._is_own and (stored := kernel.resources.spill_stores):
            warn(
                f"kernel {self.signature.name} spills: each thread keeps {stored} bytes in memory, as it "
                "lacks registers: use more threads or warpgroups, smaller tiles, or fewer values at once"
            )

    def show(self, *args: object, stage: str = "source", arch: str | None = None, **named: object) -> None:
        """Prints the kernel for arguments as those of `compile`: its IR as traced ("source") or after a pass
        of `compile().stages`, or its "llvm", "ptx" or "sass".
        """
        print(exporting.text(self.compile(*args, arch=arch, **named), stage))

    def export(self, path: object, *args: object, arch: str | None = None, **named: object) -> list[Path]:
        """Writes the kernel for arguments as those of `compile` to `path`.cubin and `path`.ptx, and what a
        launch of it needs to `path`.json (docs/launch.md). Returns the paths.
        """
        return exporting.export(self.compile(*args, arch=arch, **named), path)

    def tune(
        self,
        *args: object,
        space: object,
        measure: Callable[..., float] | None = None,
        check: Callable[[], object] | None = None,
        again: bool = False,
        **named: object,
    ) -> dict[str, Any]:
        """The fastest meta-parameters of a space, `{"stages": (2, 3), "N": (64, 128)}` or a list of choices,
        for these arguments. `kernel(…, **kernel.tune(…))` runs with them.

        Each choice runs with the arguments several times, and writes its results. `measure` is a function of
        a compiled kernel and arguments that runs it and returns a time: by default, milliseconds on the GPU.
        `check` is called after each choice, and returns whether the results are right. Choices that fail are
        skipped. The cache on disk keeps the result for this source, these types and sizes, and this GPU;
        `again` measures in any case.
        """
        for name, each in (("measure", measure), ("check", check)):
            if each is not None and not callable(each):
                raise WeftError(f"{name} must be a function, got {shown(each)}")
        values, meta = self._arguments(args, named)
        choices = tuning.choices(space, [name for name in self.signature.meta if name not in meta])
        parts = tuning.key(self.__wrapped__, values, meta, choices, self._chip())
        if not again and (kept := tuning.known(parts, choices)) is not None:
            return dict(kept)
        if measure is None and (reason := runtime.available()) is not None:
            first = reason.splitlines()[0]
            raise WeftError(
                f"tune measures on a GPU ({first}): pass measure=, a function of a kernel and arguments"
            )
        best = tuning.fastest(
            self.signature.name,
            choices,
            lambda choice: self._compiled_for(values, {**meta, **choice}),
            values,
            measure or tuning.milliseconds,
            check,
        )
        tuning.keep(parts, choices, best)
        return dict(best)

    def module(self, *args: object, **named: object) -> "Module":
        """The module that the kernel is traced to, for arguments as those of `compile`."""
        values, meta = self._arguments(args, self._or_annotated(args, named))
        return self._build(self.signature.specialization(values, meta), self._chip())

    def _or_annotated(self, args: Sequence[object], named: dict[str, object]) -> dict[str, object]:
        """The arguments of `compile` by name, with None for those that aren't passed and whose annotation has
        a type, or for all where nothing is passed.
        """
        kinds = self.signature.arguments
        passed = {*list(kinds)[: len(args)], *named}
        left = [name for name in kinds if name not in passed]
        nothing = len(left) == len(kinds)
        typed = {name for name, kind in kinds.items() if isinstance(kind, DType) or kind.dtype is not None}
        return {name: None for name in left if nothing or name in typed} | named

    def _for_call(
        self, args: Sequence[object], named: Mapping[str, object], arch: str | None = None
    ) -> tuple[list[Any], Kernel]:
        values, meta = self._arguments(args, named)
        return values, self._compiled_for(values, meta, arch)

    def _arguments(
        self, args: Sequence[object], named: Mapping[str, object]
    ) -> tuple[list[object], dict[str, object]]:
        """The arguments of a call in order, and its meta-parameters."""
        tracing_state.refuse_within(f"a kernel can't call kernel {self.signature.name}")
        values, meta = self.signature.positional(args, named)
        return array_arguments.as_elements(self.signature, values), meta

    def _compiled_for(
        self, values: Sequence[object], meta: Mapping[str, object], arch: str | None = None
    ) -> Kernel:
        special = self.signature.specialization(values, meta)
        if have_changed(self._reads.values()):
            self._forget()
        return self._kernel(special, self._chip(arch))

    def _chip(self, arch: str | None = None) -> str:
        """The chip to compile for. Raises WeftError for one that doesn't exist."""
        chip = arch or self._arch or _default_chip()
        if chip not in CHIPS:
            raise WeftError(f"arch {unknown_chip(chip if isinstance(chip, str) else shown(chip))}")
        return chip

    def _kernel(self, special: Specialization, chip: str) -> Kernel:
        meta = dict(special.meta).values()
        # The contents, as equal numbers may have different types.
        key = special, tuple(map(contents.content, meta)), chip, tracing_state.keeps_variables()
        if (kernel := self._compiled.get(key)) is not None:
            return kernel
        with self._lock:
            if key not in self._compiled:
                values = self.__wrapped__, *self._options.functions, *meta
                before = reads_of(*values)
                made = self._made(special, chip, before)
                # Another thread may loop over the old ones.
                self._reads = self._reads | after_trace(before, *values)
                made.launch = replace(made.launch, names=tuple(self.signature.arguments))
                made.remedies = REMEDIES
                self._compiled[key] = made
            return self._compiled[key]

    def _made(self, special: Specialization, chip: str, reads: Reads) -> Kernel:
        """The kernel for a chip, which reads these values. Operations of Weft's own functions would have the
        line of their call: they have no location, so that all programs share the cache's entries. Errors have
        one.
        """
        if self._is_own:
            with contextlib.suppress(WeftError):
                return kept_kernels.found_or_made(
                    "traced",
                    _described(self.__wrapped__, special, chip, reads.values()),
                    load=lambda bytecode: compiled_before(bytecode, chip),
                    make=lambda: compile_own(self._build(special, chip, located=False), chip),
                    entry_of=lambda made: made.compiled.bytecode,
                )
        return compile_own(self._build(special, chip), chip)

    def _forget(self) -> None:
        """Forgets what was compiled with other values of global variables and closures."""
        with self._lock:
            self._compiled, self._reads = {}, {}
            self._plans = plans.Plans(list(self.signature.arguments.values()))

    def _build(self, special: Specialization, chip: str, *, located: bool = True) -> "Module":
        from weft.language.calls import building

        return building.build(self._function, self.signature, special, self._options, chip, located=located)


_OPTIONS = (
    *("sanitize", "arithmetic", "max_instructions", "seed", "chip", "trace", "progress", "dependent"),
    *("ignore", "max_seconds", "strict", "threads", "grid"),
)


def kernel(
    function: Callable[..., object] | None = None,
    *,
    grid: object = 1,
    threads: Count = None,
    persistent: Count = None,
    cluster: object = None,
    dependent: bool | str = False,
    pairs: object = False,
    arch: str | None = None,
) -> object:
    """Makes a kernel of a function: `@w.kernel(grid=lambda a, **_: w.ceil_div(a.rows, 64))`.

    `grid` is one to three numbers, or a function of arrays and meta-parameters by their names that returns
    them. `threads` is the number of threads of a CTA without roles, by default 128, or a function of
    meta-parameters that returns it. `persistent` is the largest number of CTAs for each multiprocessor, or a
    function of meta-parameters that returns it or None; the grid then counts tiles, and each CTA computes the
    tiles of `w.tiles`. `cluster` is the number of CTAs
    in a cluster, in one to three dimensions of the grid, which must be multiples of them, or a function of
    meta-parameters that returns them or None. With `dependent`, the kernel begins while the launch before it
    in the stream still runs, and waits for its end before its first role, or at its beginning if it has none.
    The next launch, if dependent, may then begin, or with `dependent="early"` even before that.
    With `pairs`, or if this function of meta-parameters returns True, products are those of two CTAs, whose
    ranks in the cluster are 2 i and 2 i + 1 (PTX ISA, "tcgen05", `.cta_group::2`): see `w.one_thread`.
    `arch` is the chip to compile for: by default that of the GPU, or sm_90a without a GPU.
    """
    if function is None:
        options: dict[str, Any] = {
            "grid": grid,
            "threads": threads,
            "persistent": persistent,
            "cluster": cluster,
            "pairs": pairs,
        }
        return functools.partial(kernel, **options, dependent=dependent, arch=arch)
    if not callable(function) or not hasattr(function, "__code__"):
        raise WeftError(f"w.kernel must be applied to a function, got {shown(function)}")
    if not callable(threads):
        checked_threads(threads)
    if not isinstance(dependent, bool) and dependent != "early":
        raise WeftError(f"dependent must be True, False or 'early', got {shown(dependent)}")
    return KernelFunction(function, Options(grid, threads, persistent, cluster, dependent, pairs), arch)


def inline(function: Callable[..., object]) -> Callable[..., object]:
    """Lets the loops and branches of a function depend on values of the GPU, as in a kernel. The function is
    traced where it is called.
    """
    if not callable(function) or not hasattr(function, "__code__"):
        raise WeftError(f"w.inline must be applied to a function, got {shown(function)}")
    return captured(function)


def _default_chip() -> str:
    """The GPU's chip. Without a GPU, the chip that the emulator runs kernels for."""
    chip = runtime.default_chip() if runtime.available() is None else None
    return str(chip or _WITHOUT_GPU)

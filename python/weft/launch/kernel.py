"""A compiled kernel that is called with arrays, on a GPU or in the emulator."""

import itertools
import os
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from weft.compiler.compiled import Compiled, kept
from weft.compiler.launch_record import Launch, ScalarArgument
from weft.compiler.ptxas import Resources
from weft.errors import WeftError, shown
from weft.isa.computed import computed
from weft.isa.suggest import did_you_mean
from weft.launch import arrays, cuda_driver, emulated, kernel_handle, kernel_page, runtime, torch_tensors
from weft.launch.arrays import ArrayView
from weft.launch.kernel_arguments import (
    Space,
    checked,
    dimensions,
    emulator_number,
    gpu_number,
    map_of,
    map_parameter,
    packed,
    parameters_of,
    within,
    workspaces_of,
)
from weft.launch.launcher import Extents, Parameter
from weft.launch.plans import ALIGNMENT, Plans
from weft.launch.workspace import PerStream, Pool

if TYPE_CHECKING:
    from weft import emulator
    from weft.construction.module import Module

_MOST_EMULATED_AT_ONCE = 8  # launches in the emulator whose workspaces a kernel keeps
_MOST_LAUNCHES = 1024  # prepared launches that a kernel keeps


def compile(module: Any, arch: str | None = None, kernel: str | None = None) -> "Kernel":
    """Compiles one kernel of a module: a `weft.Module`, an MLIR module, .mlir text, or the Path of a .mlir
    file.

    The chip is `arch` (such as "sm_90a"), otherwise the module's, otherwise the GPU's, otherwise sm_80.
    `kernel` selects one of several kernels. Raises WeftError with source locations for a module that can't be
    compiled, and WeftInternalError with a reproducer if MLIR crashes. Any number of threads may compile.
    """
    check_text(module)
    if arch is not None and not isinstance(arch, str):
        raise WeftError(f"arch must be the name of a chip, such as 'sm_90a', got {shown(arch)}")
    if kernel is not None and not isinstance(kernel, str):
        raise WeftError(f"kernel must be the name of a kernel in the module, got {shown(kernel)}")
    from weft.compiler.apart import compile_input
    from weft.construction.module import Module

    default = None if arch else runtime.default_chip()
    source = module.finished() if isinstance(module, Module) else module
    return _selected(compile_input(source, arch, default=default, kernel=kernel), kernel)


def compile_shared(module: "Module", arch: str) -> "Kernel":
    """As `compile`, for a module that Weft itself makes. It has no source locations, so that all programs
    share its entries of the cache. Errors have locations.
    """
    from weft import passes

    copy = module.mlir.operation.clone()
    passes.manager("strip-debuginfo", module.context).run(copy)
    try:
        return _compiled(copy.opview, arch)
    except WeftError:
        return compile(module, arch=arch)


def compile_own(module: "Module", arch: str) -> "Kernel":
    """As `compile`, for a module that nobody else has, which this changes."""
    return _compiled(module.finished(), arch)


def compiled_before(bytecode: bytes, arch: str) -> "Kernel | None":
    """The kernel of a module without locations, by its bytecode, if it was compiled before and is on disk."""
    compiled = kept(bytecode, arch)
    return None if compiled is None else _selected(compiled, None)


def _compiled(module: Any, arch: str) -> "Kernel":
    from weft.compiler.apart import compile_input

    return _selected(compile_input(module, arch, default=None, own=True), None)


def _selected(compiled: Compiled, kernel: str | None) -> "Kernel":
    """The kernel of this name of a module, or its only one. Raises WeftError if there is none."""
    names = list(compiled.launches)
    if kernel is None and len(names) > 1:
        raise WeftError(f"{compiled.name}: kernel must name one of the module's: {', '.join(names)}")
    if kernel is not None and kernel not in names:
        suggestion = did_you_mean(kernel, names)
        raise WeftError(
            f"{compiled.name}: kernel must be one of {', '.join(names)}, got '{kernel}'{suggestion}"
        )
    return Kernel(compiled, compiled.launches[kernel or names[0]])


def check_text(module: object) -> None:
    """Raises WeftError for the name of a file in the place of text."""
    if isinstance(module, str) and module.endswith(".mlir") and not set("{(\n").intersection(module):
        raise WeftError(f"module must be .mlir text or a Path, got a file name: pass Path({module!r})")


class Kernel:
    """A compiled kernel. Call it with arrays; its attributes are its IR at every stage, PTX and resources."""

    def __init__(self, compiled: Compiled, launch: Launch) -> None:
        self.compiled = compiled
        self.launch = launch
        self.remedies: Mapping[str, str] = {}
        """What to do about findings of the emulator, by their rules: notes of what calls report."""
        self._loaded: dict[int, runtime.Loaded] = {}
        self._pools: dict[int, Pool] = {}
        self._launches = Plans(_MOST_LAUNCHES)
        self._emulated: deque[list[npt.NDArray[np.uint8]]] = deque(maxlen=_MOST_EMULATED_AT_ONCE)

    def __repr__(self) -> str:
        return f"<kernel {self.name} for {self.chip}>"

    @property
    def name(self) -> str:
        """The kernel's name in the PTX."""
        return self.launch.name

    @property
    def chip(self) -> str:
        """The chip that the kernel is compiled for, such as "sm_90a"."""
        return str(self.compiled.target)

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of the passes that ran: the arguments of `ir`."""
        return self.compiled.stages()

    def _repr_html_(self) -> str:
        return kernel_page.page(self)

    def ir(self, after: str = "source") -> str:
        """The module's IR after a pass of `stages`, or before all. Raises WeftError for other names."""
        if not isinstance(after, str):
            raise WeftError(f"kernel {self.name}: after must be the name of a stage, got {shown(after)}")
        return self.compiled.ir(after)

    @property
    def llvm(self) -> str:
        """The LLVM IR, not optimized."""
        return self.compiled.llvm

    @property
    def ptx(self) -> str:
        """The PTX."""
        return self.compiled.ptx

    @property
    def cubin(self) -> bytes:
        """The machine code."""
        return self.compiled.cubin

    @property
    def sass(self) -> str:
        """The machine code, disassembled."""
        return self.compiled.sass

    @property
    def resources(self) -> Resources:
        """Registers and spills as ptxas reports them, and a CTA's static and dynamic shared memory."""
        reported = self.compiled.assembled.kernels[self.name]
        return replace(reported, shared_bytes=reported.shared_bytes + self.shared_bytes)

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a launch, in bytes."""
        return self.launch.shared_bytes

    @computed
    def _module(self) -> "emulator.Module":
        from weft import emulator

        return emulator.Module(self.ptx)

    @torch_tensors.outside_of_graphs("Weft launches kernels that torch.compile can't trace")
    def __call__(
        self,
        *args: object,
        grid: Sequence[int] | None = None,
        block: Sequence[int] | None = None,
        stream: object = None,
        on: str | None = None,
        findings: str = "warn",
    ) -> None:
        """Runs the kernel with one array or number for each argument. It writes its results to the arrays.

        CPU arrays are copied to the GPU and back, and the call waits for the kernel. With GPU arrays, the
        launch is queued on `stream` of the arrays' GPU. The call then waits only for arrays of JAX, which may
        reuse memory as soon as an array is dropped. `on` is "gpu" or "emulator"; by default it is the GPU if
        there is one. `grid` and `block` are required if the kernel doesn't specify them; a block that it
        specifies can't be changed. `findings` selects what happens to mistakes that the emulator's sanitizer
        finds: "warn", "error" (after the arrays are written) or "ignore". Nothing looks for mistakes on a
        GPU. Raises WeftError for arguments that don't fit.
        """
        if on is not None and not (isinstance(on, str) and on in ("gpu", "emulator")):
            raise WeftError(f"on must be 'gpu' or 'emulator', got {shown(on)}")
        if findings not in emulated.ACTIONS:
            raise WeftError(f"findings must be one of {', '.join(emulated.ACTIONS)}, got {shown(findings)}")
        on = on or ("gpu" if runtime.available() is None else "emulator")
        runtime.stream_handle(stream)
        if on == "emulator":
            with emulated.told(self.remedies) as reports:
                reports.append(self.emulate(*args, grid=grid, block=block, sanitize=findings != "ignore"))
            emulated.report(self.name, reports[0].findings, findings, self.remedies)
            return
        views, aligned = checked(self.launch, args)
        if not aligned:
            self.for_any_rows(*args, grid=grid, block=block, stream=stream, on=on, findings=findings)
            return
        with runtime.on(runtime.holder(views)):
            grid_, block_ = dimensions(self.launch, views, grid, block, self.multiprocessors())
            self._run_on_gpu(views, grid_, block_, stream)
            if any(arrays.library(type(arg)) == "jax" for arg in args):
                runtime.synchronize()

    @computed
    def for_any_rows(self) -> "Kernel":
        """A kernel for matrices with rows that aren't aligned enough for this one; this kernel if it has no
        such requirement.

        Raises WeftError if the program itself requires aligned rows.
        """
        from weft.compiler.stages import compile_module

        source = self.compiled
        compiled = compile_module(source.module(), self.chip, name=source.name, rows="any", own=True)
        launch = replace(compiled.launches[self.name], names=self.launch.names)
        if launch.aligned:
            raise WeftError(
                f"kernel {self.name}: rows of its arguments must begin at multiples of "
                f"{', '.join(map(str, launch.aligned))} bytes"
            )
        return Kernel(compiled, launch)

    def taking(self, *args: object) -> "Kernel":
        """The kernel that a call with these arguments runs: this or, for unaligned rows, `for_any_rows`."""
        _, aligned = checked(self.launch, args)
        return self if aligned else self.for_any_rows

    def emulate(
        self,
        *args: object,
        grid: Sequence[int] | None = None,
        block: Sequence[int] | None = None,
        sanitize: bool = True,
        arithmetic: str = "hardware",
        max_instructions: int | None = None,
        seed: int | None = None,
        chip: str | None = None,
        trace: "str | os.PathLike[str] | None" = None,
        progress: "emulator.Progress | None" = None,
        dependent: bool | None = None,
        ignore: Sequence[str] = (),
        max_seconds: float | None = None,
        strict: bool = True,
        threads: int | None = None,
    ) -> "emulator.Report":
        """Runs the kernel's PTX in the emulator on CPU arrays, which it updates, and returns its report.

        The options are those of `emulator.Module.launch`: `sanitize` looks for mistakes; `arithmetic="exact"`
        adds in double precision and rounds once; `max_instructions` raises Fault after that many warp
        instructions; `seed` interleaves warps at random; `chip` is the emulated GPU, by default the PTX's
        target; `trace` is the file for a timeline; `progress` is called with the number of finished CTAs and
        the total; `dependent` sets whether the previous launch may still run, by default as the kernel
        specifies; `ignore` lists sanitizer rules to disable; `max_seconds` raises TimeLimit;
        `strict` reports all that PTX requires, which `Module.launch` doesn't by default; `threads` is the
        number of CPU cores for a long launch.
        """
        options: dict[str, Any] = {
            "sanitize": sanitize,
            "arithmetic": arithmetic,
            "max_instructions": max_instructions,
            "seed": seed,
            "chip": chip,
            "trace": trace,
            "progress": progress,
            "dependent": self.launch.dependent if dependent is None else dependent,
            "ignore": ignore,
            "max_seconds": max_seconds,
            "strict": strict,
            "threads": threads,
        }
        views, aligned = checked(self.launch, args)
        if not aligned:
            options["dependent"] = dependent  # `for_any_rows` has its own default
            return self.for_any_rows.emulate(*args, grid=grid, block=block, **options)
        return self._emulate(views, grid, block, options)

    def _emulate(
        self,
        views: Sequence[Any],
        grid: Sequence[int] | None,
        block: Sequence[int] | None,
        options: Mapping[str, Any],
    ) -> "emulator.Report":
        grid_, block_ = dimensions(self.launch, views, grid, block)
        spaces = workspaces_of(self.launch, views, grid_)
        memories = self._memories(spaces)
        report = self._module.launch(
            self.name,
            grid=grid_,
            block=block_,
            args=self._emulator_arguments(views, spaces, memories),
            shared_bytes=self.shared_bytes,
            **options,
        )
        self._emulated.append(memories)  # unless it has failed
        return report

    def _memories(self, spaces: Sequence[Space]) -> list[npt.NDArray[np.uint8]]:
        """The memory of workspaces: that of an earlier launch, which no other thread uses, or new memory."""
        with suppress(IndexError):
            memories = self._emulated.pop()
            if all(memory.nbytes >= space.nbytes for memory, space in zip(memories, spaces, strict=True)):
                return memories
        return [np.zeros(space.nbytes, np.uint8) for space in spaces]

    def emulate_on(self, stream: "emulator.Stream", *args: ArrayView) -> None:
        """Adds a launch to a stream of an `emulator.World`. Raises WeftError for arguments that don't fit."""
        views, aligned = checked(self.launch, args)
        if not aligned:
            self.for_any_rows.emulate_on(stream, *args)
            return
        grid, block = dimensions(self.launch, views)
        spaces = workspaces_of(self.launch, views, grid)
        memories = [np.zeros(s.nbytes, np.uint8) for s in spaces]
        arguments = self._emulator_arguments(views, spaces, memories)
        stream.launch(
            self._module, self.name, grid=grid, block=block, args=arguments, shared_bytes=self.shared_bytes
        )

    def _emulator_arguments(
        self, views: Sequence[Any], spaces: Sequence[Space], memories: Sequence[Any]
    ) -> list[Any]:
        """The kernel's parameters for the emulator, with the memory of its workspaces."""
        from weft import emulator

        buffers = {id(v): v.numpy() for v in views if isinstance(v, ArrayView)}
        passed: dict[int, Any] = dict(buffers)
        if names := self.launch.names:
            passed = {
                id(v): emulator.Named(passed[id(v)], name)
                for v, name in zip(views, names, strict=True)
                if isinstance(v, ArrayView)
            }
        parameters = parameters_of(self.launch, views, lambda view: passed[id(view)], emulator_number)
        for memory, space in zip(memories, spaces, strict=True):
            parameters += [memory, memory, *(emulator_number("index", n) for n in space.layout)]
        maps = [
            emulator.TensorMap(
                map_of(views[m.matrix], m, 0), buffers[id(views[m.matrix])], any_address=m.any_rows
            )
            for m in self.launch.maps
        ]
        return [*parameters, *maps]

    def _run_on_gpu(self, views: Sequence[Any], grid: Any, block: Any, stream: Any) -> None:
        copies = [
            runtime.DeviceArray.from_numpy(packed(v))
            if isinstance(v, ArrayView) and v.device == "cpu"
            else None
            for v in views
        ]
        on_gpu = [
            v
            if c is None
            else replace(v, address=c.address, device="cuda", device_id=c.device.ordinal, owner=c)
            for v, c in zip(views, copies, strict=True)
        ]
        bound, handle = self._known_launch(on_gpu, grid, block).bound(on_gpu), runtime.stream_handle(stream)
        waited = {v.stream for v in views if isinstance(v, ArrayView) and v.stream is not None}
        cuda_driver.order_streams(None, handle, waited)  # on the current GPU
        bound.launch(handle)
        if any(c is not None for c in copies):
            runtime.synchronize()
        for view, copy, want in zip(views, copies, self.launch.arguments, strict=True):
            if copy is not None and not isinstance(want, ScalarArgument) and want.writes:
                view.numpy()[...] = within(copy.to_numpy(), view)

    def prepare(self, *args: ArrayView) -> runtime.Bound:
        """A launch with these arrays, of one GPU, and numbers. It can be queued any number of times.

        The arrays must outlive the launch. Raises WeftError for arguments that don't fit.
        """
        views, _ = checked(self.launch, args)
        return self.plan(views).bound(views)

    def plan(
        self, args: Sequence[object], extents: Extents | None = None, grid: Sequence[int] | None = None
    ) -> runtime.Prepared:
        """A launch with these numbers and with arrays like these, of one GPU. The addresses of the arrays, in
        order, are arguments of each launch.

        The address of an array must be that of `args` modulo 32. `extents` are checked by
        the launch's `queue_apart`. `grid` is required if the kernel doesn't specify it. Raises WeftError for
        arguments that don't fit.
        """
        views, aligned = checked(self.launch, args)
        if not aligned:
            return self.for_any_rows.plan(views, extents, grid)
        with runtime.on(runtime.holder(views)):
            ctas, block = dimensions(self.launch, views, grid, multiprocessors=self.multiprocessors())
            return self._prepared(views, ctas, block, extents)

    def multiprocessors(self) -> int:
        """How many multiprocessors of the current GPU can hold a CTA at once: clusters can't use them all."""
        launch = self.launch
        if launch.persistent is None or launch.cluster == (1, 1, 1) or launch.block is None:
            return runtime.current().multiprocessors
        return self.loaded().resident_ctas(self.name, launch.block, launch.shared_bytes, launch.cluster)

    def _prepared(
        self, views: Sequence[Any], grid: runtime.Dim, block: runtime.Dim, extents: Extents | None = None
    ) -> runtime.Prepared:
        spaces, workspaces = workspaces_of(self.launch, views, grid), None
        numbers = itertools.count()
        args: list[kernel_handle.Argument] = parameters_of(
            self.launch, views, lambda view: Parameter(bytes(8), next(numbers)), gpu_number
        )
        of_argument = {n: i for i, n in enumerate(n for n, v in enumerate(views) if isinstance(v, ArrayView))}
        for number, space in enumerate(spaces, next(numbers)):
            pointer = Parameter(bytes(8), number)
            args += [pointer, pointer, *(gpu_number("index", n) for n in space.layout)]
        for m in self.launch.maps:
            args.append(map_parameter(views[m.matrix], m, of_argument[m.matrix]))
        if spaces:
            pool = self._pools.setdefault(runtime.current().ordinal, Pool())
            workspaces = PerStream(pool, [s.nbytes for s in spaces])
        return self.loaded().prepare(
            self.name,
            grid,
            block,
            args,
            shared_bytes=self.shared_bytes,
            dependent=self.launch.dependent,
            workspaces=workspaces,
            extents=extents,
        )

    def _known_launch(
        self, views: Sequence[object], grid: runtime.Dim, block: runtime.Dim
    ) -> runtime.Prepared:
        """`_prepared`, cached by grid, block, sizes, strides and alignment."""
        layouts = tuple(
            (v.shape, v.strides, v.address % ALIGNMENT) if isinstance(v, ArrayView) else (type(v), repr(v))
            for v in views
        )
        key = (runtime.current().ordinal, grid, block, layouts)
        prepared: runtime.Prepared | None = self._launches.get(key)
        if prepared is None:
            prepared = self._prepared(views, grid, block)
            self._launches.add(key, prepared)
        return prepared

    def loaded(self) -> runtime.Loaded:
        """The cubin on the current GPU. It is loaded once on each GPU."""
        ordinal = runtime.current().ordinal
        if ordinal not in self._loaded:
            self._loaded[ordinal] = runtime.load(self.cubin)
        return self._loaded[ordinal]

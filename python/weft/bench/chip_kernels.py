"""Kernels for a chip that isn't the GPU's, measured on the GPU: their PTX is assembled for the GPU."""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from typing import TYPE_CHECKING

from weft.bench.compiling import chosen, default_jobs, product_of
from weft.bench.implementation import Call, Implementation, Refusal, milliseconds
from weft.bench.problem import INPUTS, Buffers, Problem
from weft.compiler import ptxas
from weft.dialects.product_types import Types
from weft.errors import WeftError
from weft.isa.computed import computed
from weft.launch import runtime
from weft.launch.kernel import Kernel
from weft.multiply import product_kernel

if TYPE_CHECKING:
    from weft.bench.triton_pointers import Compiled, Config


class ForGpu(Kernel):
    """A kernel whose PTX is assembled for the current GPU."""

    @computed
    def cubin(self) -> bytes:
        """The machine code for the GPU."""
        return _assembled(self.ptx, self.chip)


def weft(chip: str, schedule: str | None = None) -> Implementation:
    """Weft's kernel for `chip`, with its own choice of a schedule, or with `schedule` as it is written."""
    kernels: dict[tuple[Types, str], ForGpu] = {}

    def used(problem: Problem) -> str:
        return schedule or chosen(product_of(problem, chip))

    def prepare(problem: Problem, sets: Sequence[Buffers]) -> list[Call]:
        from weft.dialects.schedule import read_schedule

        if problem.groups is not None or INPUTS[problem.inputs].block_scales or INPUTS[problem.inputs].format:
            raise Refusal("products for another chip must be without groups and scales")
        product = product_of(problem, chip)
        key = product.types, used(problem)
        if key not in kernels:
            plain = product_kernel.plain(product.types, read_schedule(key[1]), chip)
            kernels[key] = ForGpu(plain.compiled, plain.launch)
        bound = [kernels[key].prepare(each.a, each.b, each.d) for each in sets]
        return [partial(_queue, each.launch) for each in bound]

    return Implementation("weft", prepare, schedule=lambda problem, sets: used(problem))


def _queue(launch: Callable[[int], None]) -> None:
    import torch

    # Asked for at each call: while a graph is captured, the stream is another.
    launch(torch.cuda.current_stream().cuda_stream)


def _assembled(ptx: str, chip: str) -> bytes:
    """Machine code for the current GPU from PTX for a chip."""
    target = runtime.current().chip
    try:
        return ptxas.assemble(ptx, target).cubin
    except WeftError as error:
        reason = error.diagnostics[0].message
        raise Refusal(f"ptxas doesn't assemble PTX of {chip} for {target}: {reason}") from None


@dataclass
class _Triton:
    """Triton's kernels for a chip, each compiled once."""

    chip: str
    loaded: dict[tuple[str, "Config", bool, bool], tuple["Compiled", runtime.Loaded] | None] = field(
        default_factory=dict
    )

    def prepare(self, problem: Problem, sets: Sequence[Buffers]) -> list[Call]:
        """The calls of the configuration that is fastest for this problem. Raises Refusal if none runs."""
        if find_spec("triton") is None:
            raise Refusal("Triton isn't installed")
        from weft.bench import triton_pointers

        row = INPUTS[problem.inputs]
        if problem.layout != "nt" or row.promoted or problem.inputs not in triton_pointers.INPUTS:
            raise Refusal(f"A must be M x K, B N x K, and types one of {', '.join(triton_pointers.INPUTS)}")
        if problem.groups is not None or problem.output != row.output:
            raise Refusal(f"D must be {row.output}, without groups")
        if problem.n % 16 or problem.k % 16:
            raise Refusal("N and K must be multiples of 16")
        timed = [
            (milliseconds(calls), calls)
            for calls in (self._calls(problem, sets, config) for config in triton_pointers.CONFIGS)
            if calls
        ]
        if not timed:
            raise Refusal("no configuration of the Triton kernel runs")
        return min(timed, key=lambda entry: entry[0])[1]

    def _calls(self, problem: Problem, sets: Sequence[Buffers], config: "Config") -> list[Call]:
        """The calls of a configuration; none if it doesn't fit the GPU."""
        from weft.bench import triton_pointers

        if (entry := self._kernel(problem, config)) is None:
            return []
        kernel, loaded = entry
        sizes = [("i", n) for n in (problem.m, problem.n, problem.k, problem.k, problem.k, problem.n)]
        grid = triton_pointers.tiles(config, problem.m, problem.n), 1, 1
        calls = list[Call]()
        for each in sets:
            pointers = [each.a.data_ptr().to_bytes(8, "little"), each.b.data_ptr().to_bytes(8, "little")]
            pointers.append(each.d.data_ptr().to_bytes(8, "little"))
            arguments = [*pointers, *sizes, *[bytes(8)] * kernel.scratch]
            prepared = loaded.prepare(
                kernel.name, grid, (kernel.threads, 1, 1), arguments, shared_bytes=kernel.shared_bytes
            )
            calls.append(partial(_queue, prepared.launch))
        return calls

    def _kernel(self, problem: Problem, config: "Config") -> "tuple[Compiled, runtime.Loaded] | None":
        from weft.bench import triton_pointers

        size = INPUTS[problem.inputs].element.bits // 8
        kinds = {
            each: (problem.inputs, each, problem.k % (each.block_k_bytes // size) == 0, problem.m % 16 != 0)
            for each in triton_pointers.CONFIGS
        }
        missing = [kind for kind in kinds.values() if kind not in self.loaded]
        if missing:
            with ProcessPoolExecutor(min(default_jobs(), len(missing)), get_context("spawn")) as pool:
                target = runtime.current().chip
                made = pool.map(
                    _compiled, *zip(*((*kind, self.chip, target) for kind in missing), strict=True)
                )
                for kind, entry in zip(missing, made, strict=True):
                    self.loaded[kind] = entry and (entry[0], runtime.load(entry[1]))
        return self.loaded[kinds[config]]


def _compiled(
    inputs: str, config: "Config", even_k: bool, one_row: bool, chip: str, target: str
) -> "tuple[Compiled, bytes] | None":
    """A configuration's kernel and its machine code for a GPU of chip `target`; None if it doesn't fit."""
    import triton

    from weft.bench import triton_pointers

    try:
        kernel = triton_pointers.compiled(inputs, config, chip, even_k=even_k, one_row=one_row)
    except triton.TritonError:
        return None
    return kernel, ptxas.assemble(kernel.ptx, target).cubin


def triton(chip: str) -> Implementation:
    """Triton's kernel for `chip`, in the fastest configuration."""
    return Implementation("triton", _Triton(chip).prepare)

"""Traces a kernel function into a module."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from weft.construction import launch_extents
from weft.construction.module import Module
from weft.construction.module_arguments import memref
from weft.dialects import launch_contract as contract
from weft.errors import Diagnostic, Location, WeftError, shown
from weft.isa.chips import WARPGROUP, register_share
from weft.isa.dependent_launch import GRIDDEPCONTROL
from weft.isa.tcgen05.mma_rows import MMA
from weft.isa.tcgen05.pairs import PAIR
from weft.isa.wgmma import MMA_ASYNC
from weft.language.calls.grids import ArraySizes, Size, call_with, expressions_of, numbers_of
from weft.language.calls.signatures import (
    ALIGNMENT,
    ArrayArgument,
    Options,
    Signature,
    Specialization,
    checked_threads,
)
from weft.language.capture import debug_variables, mutation_lines
from weft.language.capture.mutation import check_fixed
from weft.language.capture.reads import Around
from weft.language.capture.trace import Trace, tracing
from weft.language.messages import python_errors
from weft.language.messages.mistakes import Unseen
from weft.language.operations.multipliers import WarpProducts, WgmmaProducts
from weft.language.operations.tensor_products import TensorProducts
from weft.language.values.dtypes import DType, i32
from weft.language.values.matrices import Matrix
from weft.language.values.scalars import Scalar, as_scalar
from weft.mlir import ir

_NOT_DOMINATED = "does not dominate this use"  # MLIR's verifier


def build(
    function: Callable[..., object],
    signature: Signature,
    special: Specialization,
    options: Options,
    chip: str,
    *,
    located: bool = True,
) -> Module:
    """The module of a kernel, for these types and meta-parameters, on a chip. Its operations have source
    locations if they are `located`.
    """

    def traced() -> Module:
        return _traced(function, signature, special, options, chip, Module(located=located))

    try:
        return traced()
    except Unseen as error:
        raise mutation_lines.located(error, traced) from None
    except RecursionError:
        message = (
            f"kernel {signature.name}: functions call each other without end: tracing takes both sides of a "
            "condition of the GPU, so use a loop, or end the calls by a number of Python"
        )
        code = function.__code__
        raise WeftError(Diagnostic(message, Location(code.co_filename, code.co_firstlineno, 1))) from None
    except (TypeError, AttributeError) as error:
        if (complaint := python_errors.complaint(error)) is None:
            raise
        raise complaint from None
    except WeftError as error:
        first = error.diagnostics[0]
        if first.location is None:
            code = function.__code__
            where = Location(code.co_filename, code.co_firstlineno, 1)
            raise WeftError(replace(first, location=where), *error.diagnostics[1:]) from None
        if not first.message.endswith(_NOT_DOMINATED):
            raise
        message = (
            "a value that is made in a role, loop or branch of the GPU, or in w.one_thread, can't be used "
            "outside of it: make it where it is used, or assign it to a name before the loop or branch; "
            "another role gets it through a buffer, of w.shared or w.ring"
        )
        raise WeftError(Diagnostic(message, first.location)) from None


def _traced(
    function: Callable[..., object],
    signature: Signature,
    special: Specialization,
    options: Options,
    chip: str,
    module: Module,
) -> Module:
    """The module, with the kernel."""
    meta = dict(special.meta)
    kinds = list(signature.arguments.values())
    writes = [n for n, kind in enumerate(kinds) if isinstance(kind, ArrayArgument) and kind.writes]
    with module:
        types = [_type(kind, dtype) for kind, dtype in zip(kinds, special.dtypes, strict=True)]
        threads = options.threads
        if callable(threads):
            threads = checked_threads(call_with("threads", threads, meta))
        block = (threads or WARPGROUP, 1, 1)
        with module.kernel(signature.name, types, block=block, writes=writes) as values:
            kernel = ir.InsertionPoint.current.block.owner.opview
            with tracing(Trace(signature.name, kernel, chip, threads)) as trace:
                if chip in MMA.chips():
                    trace.multiplier = TensorProducts(trace)
                else:
                    trace.multiplier = WgmmaProducts() if chip in MMA_ASYNC.chips() else WarpProducts(chip)
                arguments = _arguments(signature, special, values)
                _set_launch(kernel, signature, special, options, trace)
                pairs = zip(signature.arguments, arguments, strict=True)
                named = dict(pairs) | meta
                trace.tile_counts = lambda: tuple(
                    each.to(i32) if isinstance(each, Scalar) else as_scalar(each, i32)
                    for each in numbers_of(options.grid, named)
                )
                trace.around = Around(function, meta)
                with debug_variables.named():
                    result = function(*arguments, **meta)
                check_fixed(at_end=True)
                _finish(trace, result)
                debug_variables.name_undecided()
            if module.located:
                _place(kernel, function)
            kernel.operation.attributes["known_block_size"] = ir.DenseI32ArrayAttr.get([trace.threads, 1, 1])
    return module


def _place(kernel: ir.OpView, function: Callable[..., object]) -> None:
    """Gives the kernel and its return the line of its definition, not that of its call."""
    code = function.__code__
    name = code.co_filename.encode("utf-8", "backslashreplace").decode()
    definition = ir.Location.file(name, code.co_firstlineno, 1)
    kernel.operation.location = definition
    for block in kernel.operation.regions[0].blocks:
        for operation in block.operations:
            if operation.operation.name == "gpu.return":
                operation.operation.location = definition


def _type(kind: ArrayArgument | DType, dtype: DType) -> ir.Type:
    """The MLIR type of an argument."""
    if not isinstance(kind, ArrayArgument):
        return dtype.type
    strides = None if kind.rank == 1 else ["?"] * (kind.rank - 1) + [1]
    return memref(["?"] * kind.rank, dtype.name, strides)


def _known(kind: ArrayArgument, meta: dict[str, Any]) -> tuple[int | None, ...]:
    """The sizes that are known when the kernel is compiled: numbers, and meta-parameters."""
    return tuple(int(size) if size.isdigit() else meta.get(size) for size in kind.sizes)


def _arguments(
    signature: Signature, special: Specialization, values: Sequence[ir.Value]
) -> list[Matrix | Scalar]:
    """The arguments of the kernel function."""
    meta, result = dict(special.meta), list[Matrix | Scalar]()
    for number, (name, kind) in enumerate(signature.arguments.items()):
        value = values[number]
        if isinstance(kind, ArrayArgument):
            rows = special.aligned[number], special.whole[number]
            result.append(
                Matrix(value, name, kind.sizes, _known(kind, meta), *rows, kind.writes, kind.scaled)
            )
        else:
            result.append(Scalar(value))
    return result


def _finish(trace: Trace, result: object) -> None:
    """Checks the whole trace, and removes what turned out to be unused."""
    if result is not None:
        raise WeftError(f"kernel {trace.name} must not return a value: write it to a w.Out argument")
    if trace.persistent is not None and not trace.counts_ctas:
        raise WeftError(
            f"kernel {trace.name} is persistent: its CTAs must loop over their tiles, 'for x, y in "
            "w.tiles():', or over w.tile_queue"
        )
    trace.multiplier.finish()
    for ring in trace.rings:
        ring.check()
    trace.finish_waiting()
    for value, operations in reversed(trace.removable):
        if not list(value.uses):
            for op in operations:
                op.operation.erase()
    share = register_share(trace.threads)
    if any(role.registers for role in trace.roles):
        total = sum(role.threads * (role.registers or share) for role in trace.roles)
        if total > share * trace.threads:
            each = ", ".join(f"{r.warpgroups} x {r.registers or share}" for r in trace.roles)
            message = (
                f"a CTA has {share * trace.threads // WARPGROUP} registers for a thread of each of its "
                f"warpgroups together, got {total // WARPGROUP} ({each}): give a role fewer"
            )
            raise WeftError(Diagnostic(message, trace.roles[-1].where))


def _set_cluster(kernel: ir.OpView, cluster: object, meta: dict[str, object], trace: Trace) -> None:
    """Writes the CTAs of a cluster in x, y and z, if the kernel has clusters."""
    ctas = call_with("cluster", cluster, meta) if callable(cluster) else cluster
    if ctas is None:
        return
    extents = list(ctas) if isinstance(ctas, (tuple, list)) else [ctas]
    trace.cluster = tuple(launch_extents.cluster([*extents, *[1] * (3 - len(extents))], None))
    if trace.persistent is not None and trace.cluster[1:] != (1, 1):
        raise WeftError(
            f"kernel {trace.name}: cluster of a persistent kernel must be along the grid's first axis, got "
            f"{tuple(extents)}: its CTAs take neighboring tiles, whose first coordinate differs"
        )
    if not trace.has_tma:  # each CTA copies all for itself
        trace.cluster = (1, 1, 1)
        return
    kernel.operation.attributes["known_cluster_size"] = ir.DenseI32ArrayAttr.get(trace.cluster)


def _set_pairs(pairs: object, meta: dict[str, object], trace: Trace) -> None:
    """Notes whether products are those of pairs of CTAs."""
    pairs = call_with("pairs", pairs, meta) if callable(pairs) else pairs
    if not isinstance(pairs, bool):
        raise WeftError(f"kernel {trace.name}: pairs must be True or False, got {shown(pairs)}")
    if not pairs:
        return
    if trace.cluster is None or trace.cluster[0] % PAIR:
        got = "none" if trace.cluster is None else f"a cluster of {trace.cluster[0]}"
        raise WeftError(
            f"kernel {trace.name}: pairs need a cluster of whole pairs along the grid's first axis, got "
            f"{got}: write cluster={PAIR}"
        )
    trace.cta_group = PAIR


def _set_launch(
    kernel: ir.OpView, signature: Signature, special: Specialization, options: Options, trace: Trace
) -> None:
    """Writes what a launch needs: the grid and the requirements as functions of the arrays' sizes."""
    meta, count = dict(special.meta), 0
    named, seen, differences = dict[str, object](), dict[str, object](), list[object]()
    alignments = list[int]()
    numbers = list[str]()
    for (name, kind), aligned in zip(signature.arguments.items(), special.aligned, strict=True):
        alignments.append(ALIGNMENT if aligned else 1)
        if not isinstance(kind, ArrayArgument):
            numbers += [name] * (not kind.is_float)
            continue
        expressions = [ir.AffineExpr.get_symbol(count + n) for n in range(kind.rank)]
        count += kind.rank
        constants = _known(kind, meta)
        for size, number, expression in zip(kind.sizes, constants, expressions, strict=True):
            first = seen.setdefault(size, expression)
            if number is not None:
                differences.append(expression - number)
            elif first is not expression:
                differences.append(expression - first)
        sizes = [Size(each) if n is None else n for each, n in zip(expressions, constants, strict=True)]
        named[name] = ArraySizes(name, kind.sizes, tuple(sizes))
    named |= {name: Size(ir.AffineExpr.get_symbol(count + n)) for n, name in enumerate(numbers)}
    trace.grid_rank = len(numbers_of(options.grid, {**named, **meta}))
    grid = ir.AffineMap.get(0, count + len(numbers), expressions_of(options.grid, {**named, **meta}))
    contract.GRID.set(kernel, ir.AffineMapAttr.get(grid))
    persistent = options.persistent
    trace.persistent = call_with("persistent", persistent, meta) if callable(persistent) else persistent
    if trace.persistent is not None and (type(trace.persistent) is not int or trace.persistent < 1):
        raise WeftError(
            "persistent must be a positive number of CTAs of each multiprocessor, or None, got "
            f"{shown(trace.persistent)}"
        )
    _set_cluster(kernel, options.cluster, meta, trace)
    _set_pairs(options.pairs, meta, trace)
    if options.dependent and trace.chip in GRIDDEPCONTROL:
        contract.DEPENDENT.set(kernel, ir.UnitAttr.get())
        trace.dependent = True
        trace.precedes_early = options.dependent == "early"
    if trace.persistent is not None:
        limit = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), trace.persistent)
        contract.PERSISTENT.set(kernel, limit)
    pairs = zip(grid.results, trace.cluster or (), strict=False)
    remainders = [ir.AffineExpr.get_mod(number, ctas) for number, ctas in pairs if ctas > 1]
    differences += [each for each in remainders if each != ir.AffineExpr.get_constant(0)]
    if differences:
        contract.REQUIRES.set(kernel, ir.AffineMapAttr.get(ir.AffineMap.get(0, count, differences)))
    contract.ALIGNED.set(kernel, ir.DenseI32ArrayAttr.get(alignments))
    if any(special.whole):
        bytes_ = [ALIGNMENT if each else 1 for each in special.whole]
        contract.WHOLE.set(kernel, ir.DenseI32ArrayAttr.get(bytes_))

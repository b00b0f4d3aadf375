"""`weft predict`: the predicted time of a product's kernels on a GPU, what bounds it, and its parts."""

from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.tools import bench, cli
from weft.tools.command import Command

if TYPE_CHECKING:
    from weft.dialects.schedule import AnySchedule
    from weft.dialects.tile import MatmulOp
    from weft.mlir import ir
    from weft.schedules.gpu import Gpu
    from weft.schedules.predict import Prediction
    from weft.target import Target
    from weft.tools.product import Shape


_OPTIONS = """
[file] FILE.mlir  a file with a function of one tile.matmul; - is stdin
--arch CHIP  the chip, such as sm_100a
--gpu NAME  the GPU, of several with that chip (default: the first, a B200, say)
--shape MxNxK  the sizes that the types of tile.matmul leave open
--schedule TEXT*  a schedule to predict; may be repeated (default: the file's,
    otherwise the chosen one)
--kernel NAME  the function, if the file has several
--burst  after a rest, where the limits of that were measured (H200)
--measured FILE.json+  compare the times in files of weft bench --json with the predicted ones
--json  print the predictions as one JSON object
"""


def _run(options: Namespace) -> int:
    if options.measured:
        return _compare(options)
    if options.file is None or options.arch is None:
        missing = "FILE.mlir" if options.file is None else "--arch"
        raise WeftError(f"weft predict needs {missing}, or --measured with files of weft bench --json")
    from weft.schedules.gpus import gpu_of
    from weft.schedules.predict import predict_schedule
    from weft.target import Target
    from weft.tools import source

    target = Target.of(options.arch)
    gpu = gpu_of(target.chip.name, options.gpu)
    module, name = source.load(options.file, options.kernel), cli.name_of(options.file)
    with cli.speaking_of(name):
        op, shape = _product(module, name, options.shape)
        schedules = _schedules(options, op, shape, target)
        how = {"members": _members(op), "burst": options.burst}
        predictions = [(s, predict_schedule(s, *shape, op.types, gpu, **how)) for s in schedules]
    report = {
        "gpu": gpu.name,
        "chip": target.chip.name,
        "shape": list(shape),
        "predictions": [{"schedule": str(s), **asdict(p), "tflops": p.tflops} for s, p in predictions],
    }
    if options.json:
        cli.say_json(report)
    else:
        _print(gpu, shape, op, predictions)
    return 0


def _product(module: "ir.Module", name: str, text: str | None) -> "tuple[MatmulOp, Shape]":
    """The only tile.matmul of a module, and its sizes. Raises WeftError where it isn't one product."""
    from weft.dialects.op import refuse
    from weft.dialects.tile import MatmulOp
    from weft.mlir import operations
    from weft.tools.product import check_shape, shape_of

    products = operations(module, MatmulOp)
    if len(products) != 1:
        raise WeftError(f"{name} must have one tile.matmul, got {len(products)}")
    op = products[0]
    asked = op.static_mnk if text is None else shape_of(text)
    if op.grouping is not None:
        raise refuse(op, f"must not have {op.grouping} with weft predict")
    check_shape(op, asked)
    for axis, size in zip("MNK", asked, strict=True):
        if not size:
            raise refuse(op, f"leaves {axis} open: set it with --shape MxNxK")
    m, n, k = asked
    return op, (m or 0, n or 0, k or 0)


def _members(op: "MatmulOp") -> int:
    """The products of a batch; 1 for a single one, or where the types leave the number open."""
    sizes = [v.type.shape[0] for v in (op.a, op.b, op.d) if v.type.rank == 3 and v.type.shape[0] > 0]
    return max(sizes, default=1)


def _schedules(options: Namespace, op: "MatmulOp", shape: "Shape", target: "Target") -> "list[AnySchedule]":
    """Those that were named, otherwise the op's, otherwise the chosen one; all are legal."""
    from weft.dialects.op import refuse
    from weft.schedules import choice

    named = [bench.schedule_of(text) for text in options.schedule]
    if not named and op.schedule is not None:
        named = [op.schedule]
    if not named:
        chip = target.chip.name
        if complaint := choice.complaint(op.types, chip) or choice.layout_complaint(op.types, chip):
            raise refuse(op, complaint)
        needed = op.needs.registers
        named = [choice.choose(*shape, op.types, chip, _members(op), registers=needed)]
    for schedule in named:
        if complaint := schedule.complaint(op.types, target):
            raise refuse(op, complaint)
    return named


def _print(
    gpu: "Gpu", shape: "Shape", op: "MatmulOp", predictions: "list[tuple[AnySchedule, Prediction]]"
) -> None:
    (m, n, k), types = shape, op.types
    a = f"A[{k},{m}]ᵀ" if op.attribute("transpose_a") else f"A[{m},{k}]"
    b = f"B[{n},{k}]ᵀ" if op.attribute("transpose_b") else f"B[{k},{n}]"
    cli.say(f"product    D[{m},{n}] {types.d} = {a} {types.a} * {b} {types.b}")
    cli.say(f"gpu        {gpu.name}: {gpu.multiprocessors} multiprocessors at {gpu.clock_ghz:g} GHz")
    for schedule, p in sorted(predictions, key=lambda each: each[1].microseconds):
        parts = ", ".join(f"{name} {time:.4g}" for name, time in p.parts.items())
        c = p.counts
        rate = f"{p.tflops:.0f}" if p.tflops >= 100 else f"{p.tflops:.3g}"
        cli.say(f"schedule   {schedule}")
        cli.say(f"predicted  {p.microseconds:.2f} us, {rate} TFLOP/s, bound by {p.bound}")
        cli.say(f"parts      {parts} us")
        cli.say(
            f"kernel     {_counted(c.tiles, 'tile')} in {_counted(c.waves, 'wave')}, "
            f"{_counted(c.k_blocks, 'K block')} each; {c.instructions:,} "
            f"instructions; {c.l2_bytes / 1e6:.4g} MB copied, {c.dram_bytes / 1e6:.4g} MB of memory"
        )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _compare(options: Namespace) -> int:
    from weft.tools.predict_measured import comparisons, lines

    if options.file is not None:
        raise WeftError("--measured can't be used with FILE.mlir: its files state the products")
    compared = [each for path in options.measured for each in comparisons(bench.report_of(path))]
    if options.json:
        keys = ("mode", "microseconds", "error")
        cli.say_json(
            [
                {"shape": c.problem.shape, "types": c.problem.types}
                | {key: getattr(c, key) for key in keys}
                | {"predicted": c.predicted.microseconds, "bound": c.predicted.bound}
                | {"schedule": str(c.schedule), "recorded": c.recorded}
                for c in compared
            ]
        )
    else:
        for line in lines(compared):
            cli.say(line)
    return 0


_SUMMARY = "predict the time of a product on a GPU that need not be present, and what bounds it"
PREDICT = Command("predict", _SUMMARY, _OPTIONS, _run)

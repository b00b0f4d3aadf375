"""`weft run`: compiles a product, launches it on random inputs and compares the result with float64."""

import time
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.tools import cli
from weft.tools.bar import Bar
from weft.tools.command import Command

if TYPE_CHECKING:
    from weft.kernel import Kernel
    from weft.tools.product import Array, Product

_REPEATS = 10


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE.mlir",
        help="a function of one tile.matmul, without batch, groups and scales; - is stdin",
    )
    parser.add_argument("--on", choices=("gpu", "emulator"), help="where (default: the GPU, if there is one)")
    parser.add_argument(
        "--arch", metavar="CHIP", help="sm_90a, say (default: the module's, the GPU's, sm_80)"
    )
    parser.add_argument("--shape", metavar="MxNxK", help="the sizes that the types leave open (256x256x256)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random inputs (0)")
    parser.add_argument("--kernel", metavar="NAME", help="the function to run, where the file has several")


def _run(options: Namespace) -> int:
    if options.seed < 0:
        raise WeftError(f"--seed expects a number from 0, got {options.seed}")
    from weft import runtime
    from weft.kernel import Kernel
    from weft.stages import compile_module
    from weft.tools import source
    from weft.tools.product import Product, shape_of

    shape = shape_of(options.shape) if options.shape is not None else None
    module = source.load(options.file, options.kernel)
    name = cli.name_of(options.file)
    with cli.speaking_of(name):
        product = Product.of(module, name, shape)
        if options.on == "gpu" and (reason := runtime.available()) is not None:
            raise _no_gpu(reason)  # before a chip is taken that isn't there
        default = None if options.arch else runtime.default_chip()
        compiled = compile_module(module, options.arch, name=name, default=default)
        (launch,) = compiled.launches.values()
        kernel = Kernel(compiled, launch)
        on, note = _place(options.on, kernel)
        operands = product.operands(launch, options.seed)
        if note:
            cli.say(note)
        return _check(kernel.taking(*operands), product, operands, on)


def _place(asked: str | None, kernel: "Kernel") -> tuple[str, str]:
    """Where to run, and what to say about it where that is the emulator for want of a fitting GPU."""
    from weft import runtime

    if asked == "emulator":
        return asked, ""
    reason = runtime.available()
    if reason is None:
        reason = _misfit(kernel)
    if reason is None:
        return "gpu", ""
    if asked == "gpu":
        raise _no_gpu(reason)
    return "emulator", f"no GPU: {reason.removeprefix('no GPU: ')}; running in the emulator"


def _no_gpu(reason: str) -> WeftError:
    return WeftError(f"no GPU to run on: {reason.removeprefix('no GPU: ')}")


def _misfit(kernel: "Kernel") -> str | None:
    """Why the GPU can't run the kernel's code; the driver knows."""
    from weft import runtime

    device = runtime.device()
    if not kernel.cubin or kernel.chip == device.chip:
        return None
    try:
        kernel.loaded()
    except WeftError:
        return f"{device.name} is {device.chip} and takes no code for {kernel.chip}"
    return None


def _check(kernel: "Kernel", product: "Product", operands: "list[Array]", on: str) -> int:
    """Runs the kernel, prints the report and returns 0 if the result is right."""
    expected = product.expected(operands)
    run = _on_gpu if on == "gpu" else _in_emulator
    spent = run(kernel, product, operands)
    found = expected.compare(operands[product.places["D"]])
    where = f"{kernel.chip} on the GPU" if on == "gpu" else f"{kernel.chip} in the emulator"
    error = "some elements aren't finite"
    if found.finite:
        error = f"{found.error:.3g} at most (bound {found.bound:.3g}); {found.ratio:.2g} of the bound at most"
    if kernel.compiled.rows == "any":
        where += ", for rows that begin anywhere"
    rows = {"product": str(product), "kernel": f"{kernel.name} for {where}", "schedule": _schedule(kernel)}
    rows |= _launched(kernel, operands, on) | _resources(kernel) | spent | {"error": error}
    passed = found.passed and "findings" not in spent
    _print(rows, passed)
    return 0 if passed else 1


def _on_gpu(kernel: "Kernel", product: "Product", operands: "list[Array]") -> dict[str, str]:
    from weft import runtime

    resident = [_resident(operand) for operand in operands]
    kernel(*resident, on="gpu")
    place = product.places["D"]
    operands[place][...] = resident[place].owner.to_numpy()[:, : operands[place].shape[1]]
    # With a beta, D changes from here on.
    milliseconds = runtime.time(lambda: kernel(*resident, on="gpu"), _REPEATS)
    rate = product.flops / milliseconds / 1e9
    device = runtime.current()
    return {"time": f"{milliseconds:.4g} ms, {rate:.4g} TFLOP/s (median of {_REPEATS} on {device.name})"}


def _resident(operand: "Array") -> Any:
    """A copy on the GPU, its rows as far apart."""
    from weft import arrays
    from weft.runtime import DeviceArray

    whole = operand if operand.base is None else operand.base
    return replace(arrays.view(DeviceArray.from_numpy(whole)), shape=operand.shape)


def _in_emulator(kernel: "Kernel", _: "Product", operands: "list[Array]") -> dict[str, str]:
    start = time.perf_counter()
    with Bar(f"emulating {kernel.name}") as bar:
        report = kernel.emulate(*operands, progress=bar)
    seconds = time.perf_counter() - start
    spent = {"emulated": f"{report.instructions:,} warp instructions in {seconds:.1f} s"}
    if report.findings:
        first = report.findings[0]
        spent["findings"] = (
            f"{len(report.findings)}, the first at line {first.line} of the PTX: {first.message}"
        )
    return spent


def _schedule(kernel: "Kernel") -> str:
    from weft import mlir
    from weft.dialects import context
    from weft.dialects.tile import MatmulOp

    module = mlir.parse(kernel.ir("select-schedule"), context())
    (op,) = mlir.operations(module, MatmulOp)
    return str(op.schedule)


def _launched(kernel: "Kernel", operands: "list[Array]", on: str) -> dict[str, str]:
    from weft import arrays

    views = [arrays.view(operand) for operand in operands]
    if on == "gpu":
        grid, block = kernel.dimensions(views, multiprocessors=kernel.multiprocessors())
    else:
        grid, block = kernel.dimensions(views)
    threads = block[0] * block[1] * block[2]
    return {"launch": f"grid {'x'.join(map(str, grid))}, {threads} threads ({threads // 32} warps) each"}


def _resources(kernel: "Kernel") -> dict[str, str]:
    """What ptxas says; the emulator runs without it."""
    try:
        taken = kernel.resources
    except WeftError as error:
        return {"registers": f"unknown: {error.diagnostics[0].message}"}
    spills = f"{taken.spill_stores} bytes stored, {taken.spill_loads} loaded"
    if not taken.spill_stores + taken.spill_loads:
        spills = "no spills"
    shared = f"{taken.shared_bytes} bytes of shared memory"
    return {"resources": f"{taken.registers} registers, {spills}, {shared}"}


def _print(rows: dict[str, str], passed: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Where nobody looks, nothing need be wrapped.
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    table = Table.grid(padding=(0, 2))
    for name, text in rows.items():
        table.add_row(Text(name, "bold"), Text(text))
    with console.capture() as report:
        console.print(table)
        console.print("[bold green]PASS[/]" if passed else "[bold red]FAIL[/]", end="")
    cli.say("\n".join(line.rstrip() for line in report.get().split("\n")))


RUN = Command("run", "run a product on random inputs and compare it with float64", _arguments, _run)

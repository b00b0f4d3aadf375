"""`weft run`: compiles a kernel, launches it on random or given arrays, compares a product with float64. With
`--entry`, it runs a host function.
"""

import math
import time
from argparse import ArgumentParser, Namespace
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.tools import cli, pass_printing, values
from weft.tools.bar import Bar
from weft.tools.command import Command

if TYPE_CHECKING:
    from weft.launch.kernel import Kernel
    from weft.reference import Array
    from weft.tools.inputs import Prepared

Dims = tuple[int, ...] | None
_REPEATS = 10


def _arguments(parser: ArgumentParser) -> None:
    cli.declare(
        parser,
        """
        file FILE.mlir  a file with a function of one tile.matmul, or with any kernel; - is stdin
        --entry NAME  run this host function of the file, which launches the file's kernels, instead of
            one kernel
        --on {gpu,emulator}  where to run (default: the GPU, if there is one)
        --arch CHIP  the chip, such as sm_90a (default: the module's or the GPU's, otherwise sm_80)
        --shape MxNxK  the sizes that the types of tile.matmul leave open (default: 256x256x256)
        --seed N:int = 0  the seed of the random inputs (default: 0)
        --kernel NAME  the function to run, if the file has several
        """,
    )
    values.add_to(parser)
    pass_printing.add_explain(parser)
    cli.declare(parser, "--json  print the report as one JSON object")


def _run(options: Namespace) -> int:
    cli.check_least(options, seed=0)
    from weft.ir.instrumentation import Instrumentation, instrumented
    from weft.launch import runtime
    from weft.tools import inputs

    if options.on == "gpu" and (reason := runtime.available()) is not None:
        raise _no_gpu(reason)  # before a chip is taken that isn't there
    if options.entry is not None:
        from weft.tools import run_entry

        return run_entry.run(options)
    asked = values.grid_and_block(options)
    name = cli.name_of(options.file)
    with instrumented(Instrumentation(explain=pass_printing.explaining(options, name))):
        prepared = inputs.prepare(options, options.seed)
    files = values.saved(options, prepared.arguments)
    with cli.speaking_of(name):
        on, note = _target(options.on, prepared.kernel)
        with instrumented(Instrumentation(explain=pass_printing.explaining(options, None))):
            prepared = replace(prepared, kernel=prepared.kernel.taking(*prepared.operands))
        if note and not options.json:
            cli.say(note)
        report = _launched(prepared, on, asked, as_json=options.json)
    values.keep(prepared.arguments, options.out, files)
    if options.json:
        cli.say_json({**report, "note": note or None})
    else:
        _print(report)
    return 0 if report["passed"] else 1


def _target(asked: str | None, kernel: "Kernel") -> tuple[str, str]:
    """Where to run, and a message if that is the emulator because no GPU fits."""
    from weft.launch import runtime

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
    from weft.launch import runtime

    device = runtime.device()
    if not kernel.cubin or kernel.chip == device.chip:
        return None
    try:
        kernel.loaded()
    except WeftError:
        return f"{device.name} is {device.chip} and takes no code for {kernel.chip}"
    return None


def _launched(prepared: "Prepared", on: str, asked: tuple[Dims, Dims], *, as_json: bool) -> cli.Record:
    """Runs the kernel; what ends it in the emulator is reported as JSON, too, before it is raised."""
    from weft.emulator import Deadlock, Fault
    from weft.tools.emulate import error_json

    try:
        return _launch(prepared, on, *asked)
    except (Fault, Deadlock) as error:
        if as_json:
            kernel = prepared.kernel
            cli.say_json({"kernel": kernel.name, "chip": kernel.chip, "on": on} | error_json(error))
        raise


def _launch(prepared: "Prepared", on: str, grid: Dims, block: Dims) -> cli.Record:
    """Runs the kernel, and returns the report as JSON has it."""
    kernel, product, operands = prepared.kernel, prepared.product, prepared.operands
    expected = product.expected(operands) if product else None
    run = _on_gpu if on == "gpu" else _in_emulator
    spent = run(prepared, grid, block)
    report: cli.Record = {
        "kernel": kernel.name,
        "chip": kernel.chip,
        "on": on,
        "rows": kernel.compiled.rows,
        "product": str(product) if product else None,
        "schedule": _schedule(kernel) if product else None,
    }
    from weft.launch import arrays, kernel_arguments

    views = [arrays.view(operand) if hasattr(operand, "shape") else operand for operand in operands]
    multiprocessors = kernel.multiprocessors() if on == "gpu" else None
    ctas, threads = kernel_arguments.dimensions(kernel.launch, views, grid, block, multiprocessors)
    report |= {"grid": list(ctas), "block": list(threads), "cluster": list(kernel.launch.cluster)}
    report |= _resources(kernel) | spent
    report["arguments"] = values.described(prepared.arguments)
    report["passed"] = not spent.get("findings")
    if product and expected:
        result = expected.compare(operands[product.argument_numbers["D"]])
        report["passed"] = result.passed and report["passed"]
        report |= {"finite": bool(result.finite), "error": result.error}
        report |= {"bound": result.bound, "ratio": result.ratio}
    return report


def _on_gpu(prepared: "Prepared", grid: Dims, block: Dims) -> cli.Record:
    from weft.launch import runtime

    kernel, product, operands = prepared.kernel, prepared.product, prepared.operands
    if product is None:  # which may not be run twice on the same arrays
        kernel(*operands, grid=grid, block=block, on="gpu")
        return {"device": runtime.current().name}
    resident = [_resident(operand) for operand in operands]
    kernel(*resident, grid=grid, block=block, on="gpu")
    number = product.argument_numbers["D"]
    operands[number][...] = resident[number].owner.to_numpy()[:, : operands[number].shape[1]]
    # With a beta, D changes from here on.
    milliseconds = runtime.time(lambda: kernel(*resident, grid=grid, block=block, on="gpu"), _REPEATS)
    rate = product.flops / milliseconds / 1e9
    return {"device": runtime.current().name, "milliseconds": milliseconds, "tflops": rate}


def _resident(operand: "Array") -> Any:
    """A copy on the GPU, its rows as far apart."""
    import numpy as np

    from weft.launch import arrays
    from weft.launch.runtime import DeviceArray

    whole, base = operand, operand.base
    if operand.ndim > 1:
        shape = (len(operand), operand.strides[0] // operand.itemsize)
        if isinstance(base, np.ndarray) and (base.shape, base.dtype) == (shape, operand.dtype):
            whole = base  # what lies between its rows must not be read
        else:
            whole = np.zeros(shape, operand.dtype)
            whole[:, : operand.shape[1]] = operand
    return replace(arrays.view(DeviceArray.from_numpy(whole)), shape=operand.shape)


def _in_emulator(prepared: "Prepared", grid: Dims, block: Dims) -> cli.Record:
    from weft.tools.emulate import LIMIT, finding_json

    start, kernel = time.perf_counter(), prepared.kernel
    with Bar(f"emulating {kernel.name}", "CTAs") as bar:
        operands = prepared.operands
        report = kernel.emulate(*operands, grid=grid, block=block, progress=bar, max_instructions=LIMIT)
    seconds = time.perf_counter() - start
    findings = [finding_json(finding) for finding in report.findings]
    return {"instructions": report.instructions, "seconds": seconds, "findings": findings}


def _schedule(kernel: "Kernel") -> str:
    from weft import mlir
    from weft.dialects import context
    from weft.dialects.tile import MatmulOp

    module = mlir.parse(kernel.ir("select-schedule"), context())
    (op,) = mlir.operations(module, MatmulOp)
    return str(op.schedule)


def _resources(kernel: "Kernel") -> cli.Record:
    """What ptxas reports; the emulator runs without it."""
    try:
        return {"resources": asdict(kernel.resources)}
    except WeftError as error:
        return {"resources": None, "no_resources": error.diagnostics[0].message}


def _rows(report: cli.Record) -> dict[str, str]:
    """The report as lines with a name each."""
    where = f"{report['chip']} on the GPU" if report["on"] == "gpu" else f"{report['chip']} in the emulator"
    where += ", for rows of any alignment" if report["rows"] == "any" else ""
    rows = {
        "product": report["product"],
        "kernel": f"{report['kernel']} for {where}",
        "schedule": report["schedule"],
    }
    threads = math.prod(report["block"])
    grid = "x".join(map(str, report["grid"]))
    warps = -(-threads // 32)
    rows["launch"] = f"grid {grid}, {threads} threads ({warps} warp{'' if warps == 1 else 's'}) each"
    if (taken := report["resources"]) is None:
        rows["registers"] = f"unknown: {report['no_resources']}"
    else:
        spills = f"{taken['spill_stores']} bytes stored, {taken['spill_loads']} loaded"
        if not taken["spill_stores"] + taken["spill_loads"]:
            spills = "no spills"
        shared = f"{taken['shared_bytes']} bytes of shared memory"
        rows["resources"] = f"{taken['registers']} registers, {spills}, {shared}"
    return {name: text for name, text in (rows | _spent(report) | _results(report)).items() if text}


def _spent(report: cli.Record) -> dict[str, str]:
    if "milliseconds" in report:
        rate = f"{report['milliseconds']:.4g} ms, {report['tflops']:.4g} TFLOP/s"
        return {"time": f"{rate} (median of {_REPEATS} on {report['device']})"}
    if "instructions" not in report:
        return {"device": report["device"]}
    spent = {"emulated": f"{report['instructions']:,} warp instructions in {report['seconds']:.1f} s"}
    if findings := report["findings"]:
        first = findings[0]
        source = f" ({first['source']})" if first["source"] else ""
        said = f"the first at line {first['line']} of the PTX{source}: {first['rule']}: {first['message']}"
        spent["findings"] = f"{len(findings)}, {said}"
    return spent


def _results(report: cli.Record) -> dict[str, str]:
    if "error" not in report:
        return values.rows(report["arguments"])
    if not report["finite"]:
        return {"error": "some elements aren't finite"}
    error, bound = f"{report['error']:.3g} at most", f"(bound {report['bound']:.3g})"
    return {"error": f"{error} {bound}; {report['ratio']:.2g} of the bound at most"}


def _print(report: cli.Record) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # Lines are not wrapped unless a terminal shows them.
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    table = Table.grid(padding=(0, 2))
    for name, text in _rows(report).items():
        table.add_row(Text(name, "bold"), Text(text))
    verdict = "[bold green]PASS[/]" if report["passed"] else "[bold red]FAIL[/]"
    if report["passed"] and report["product"] is None:
        verdict = "[bold]RAN[/]; no reference is known"
    with console.capture() as captured:
        console.print(table)
        console.print(verdict, end="")
    cli.say("\n".join(line.rstrip() for line in captured.get().split("\n")))


_SUMMARY = "run a kernel on random arrays or your own, or a host function; compare a product with float64"
RUN = Command("run", _SUMMARY, _arguments, _run)

"""What `weft run --entry` does: it runs a host function, which launches the kernels of its file."""

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import WeftError
from weft.tools import cli
from weft.tools.emulate import LIMIT, error_json, finding_json

if TYPE_CHECKING:
    from weft.host.lowered import Launched

_OF_KERNELS = ("arg", "out", "save", "grid", "block", "shape", "kernel")


def run(options: Namespace) -> int:
    """Runs the function and reports on its launches; returns the exit status."""
    from weft import mlir
    from weft.dialects import context
    from weft.emulator import Deadlock, Fault
    from weft.host import entry, lowering
    from weft.launch import runtime

    for option in _OF_KERNELS:
        if getattr(options, option):
            raise WeftError(f"--{option} is for one kernel, and --entry runs a host function: leave one out")
    name = cli.name_of(options.file)
    text = cli.read(options.file)
    is_file = Path(options.file).is_file()
    module = mlir.parse_file(options.file, context()) if is_file else mlir.parse(text, context(), name)
    reason = None if options.on == "emulator" else runtime.available()
    on = "emulator" if options.on == "emulator" or reason is not None else "gpu"
    with cli.speaking_of(name):
        lowered = lowering.lower(
            module, options.entry, options.arch, runtime.default_chip(), name, machine_code=on == "gpu"
        )
    printed: list[str] = []
    report: cli.Record = {"entry": options.entry, "on": on, "chips": list(lowered.chips)}
    if reason is not None and not options.json:
        cli.say(f"no GPU: {reason.removeprefix('no GPU: ')}; running in the emulator")
    say = printed.append if options.json else _say
    try:
        ran = entry.run(lowered, on, say, {"max_instructions": LIMIT})
    except (Fault, Deadlock) as error:
        if options.json:
            cli.say_json(report | {"printed": "".join(printed)} | error_json(error))
        raise
    launches = [_described(each) for each in ran.launches]
    passed = not any(each.get("findings") for each in launches)
    report |= {"launches": launches, "result": ran.result, "seconds": ran.seconds, "passed": passed}
    if options.json:
        cli.say_json(report | {"printed": "".join(printed)})
    else:
        cli.say("\n".join(_lines(report)))
    return 0 if passed else 1


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()  # what kernels on a GPU print goes past Python's buffer


def _described(launched: "Launched") -> cli.Record:
    described = {"kernel": launched.kernel, "grid": list(launched.grid), "block": list(launched.block)}
    if launched.report is not None:
        described["instructions"] = launched.report.instructions
        described["findings"] = [finding_json(each) for each in launched.report.findings]
    return described


def _lines(report: cli.Record) -> list[str]:
    """The report: the function, its launches, and what the emulator found in each."""
    where = "on the GPU" if report["on"] == "gpu" else "in the emulator"
    chips = f" for {', '.join(report['chips'])}" if report["chips"] else ""
    result = "" if report["result"] is None else f", returned {report['result']}"
    lines = [f"ran {report['entry']}{chips} {where} in {report['seconds']:.2g} s{result}"]
    for launch in report["launches"]:
        grid, block = ("x".join(map(str, launch[each])) for each in ("grid", "block"))
        count = f", {launch['instructions']:,} warp instructions" if "instructions" in launch else ""
        lines.append(f"  {launch['kernel']}: grid {grid}, block {block}{count}")
        for found in launch.get("findings", ()):
            at = f"{found['source']}: " if found["source"] else ""
            lines.append(f"    {at}{found['rule']}: {found['message']}")
    return [*lines, "RAN" if report["passed"] else "FAIL"]

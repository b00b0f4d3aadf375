"""`weft emulate`: runs a kernel of any PTX or .mlir file on the CPU, and reports what GPUs let pass."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, cast

from weft.errors import Diagnostic, WeftError, warn
from weft.tools import cli, sarif, values
from weft.tools.bar import Bar
from weft.tools.command import Command

if TYPE_CHECKING:
    from weft.emulator import Deadlock, Fault, Finding, Report


LIMIT = 100_000_000
"""The warp instructions after which the tools end a launch: minutes for a loop without end."""


def _arguments(parser: ArgumentParser) -> None:
    add_launch(parser, "PTX, or a .mlir file, which is compiled first; - is stdin", f"{LIMIT:,}")
    cli.declare(
        parser,
        """
        --seeds N  launch without a seed, then with N seeds, and print each distinct finding with its seed
        --trace FILE.json  write a timeline for chrome://tracing or Perfetto
        --threads N  CPU cores for a long launch (all of them); 1 runs CTAs in a fixed order
        --sarif FILE  write the findings as SARIF 2.1.0
        --json  print findings, counters and arrays as one JSON object
        """,
    )


def add_launch(parser: ArgumentParser, file: str, most: str) -> None:
    """Declares the file, of which `file` is the help, and the options of one launch. `most` is the default
    limit of instructions.
    """
    parser.set_defaults(seeds=None, trace=None, threads=None, sarif=None, json=False, bar=True)
    cli.declare(parser, f"file FILE  {file}\n--kernel NAME  the kernel to run, if the file has several")
    values.add_to(parser)
    cli.declare(
        parser,
        f"""
        --arch CHIP  the chip to compile a .mlir file for (default: as in weft compile)
        --shape MxNxK  the sizes that the types of a .mlir file's product leave open
        --cluster X[,Y[,Z]]  the CTAs of a cluster, for PTX (default: 1)
        --shared BYTES  dynamic shared memory, for PTX (default: 0)
        --seed N  schedule warps at random with this seed; it is the seed of random arrays, too
        --no-sanitize  do not look for mistakes
        --ignore RULE*  leave out the findings of a rule
        --strict  hold PTX to all rules that .mlir files are held to
        --arithmetic {{hardware,exact}} = hardware  of matrix instructions (hardware)
        --dependent  launch as a dependent kernel, which may begin before the previous launch has ended
        --chip CHIP  the GPU to run as, for what differs (default: the PTX's target)
        --max-instructions N  stop after N warp instructions ({most}); 0 sets no limit
        --time-limit SECONDS  stop after this time
        """,
    )


def run(options: Namespace) -> int:
    """Launches the kernel of a file and reports on it; returns the exit status."""
    from weft.emulator import Deadlock, Fault

    name = cli.name_of(options.file)
    try:
        text = cli.read(options.file)
        if options.file.endswith(".mlir") or (options.file == "-" and not cli.is_ptx(options.file, text)):
            name = f"PTX of {name}"
            report, arguments = _emulate_program(options, text)
        else:
            report, arguments = _emulate_ptx(options, text, name)
    except (Fault, Deadlock) as error:
        cli.report(_of_file(error, name), "weft")
        findings = cast("tuple[Finding, ...]", error.findings)
        _tell_findings(error, findings, name, options)
        if options.sarif is not None:
            sarif.write(options.sarif, findings, name)
        return 1
    except WeftError as error:
        cli.report(_of_file(error, name), "weft")
        return 2
    status = _tell(report, name, arguments, options)
    if options.sarif is not None:
        sarif.write(options.sarif, report.findings, name)
    return status


def _emulate_program(options: Namespace, text: str) -> "tuple[Report, list[values.Argument]]":
    """Compiles the kernel of a .mlir file, and runs that."""
    from weft.tools import inputs

    for option in ("cluster", "shared"):
        if getattr(options, option) is not None:
            raise WeftError(f"--{option} is for PTX: a .mlir file's kernel sets it itself")
    limits = _options(options)
    grid, block = values.grid_and_block(options)
    prepared = inputs.prepare(options, limits["seed"] or 0, text)
    files = values.saved(options, prepared.arguments)
    if not limits["dependent"]:
        del limits["dependent"]  # the kernel knows
    launch = partial(prepared.kernel.emulate, *prepared.operands, grid=grid, block=block)
    report = _launched(launch, prepared.arguments, options, limits)
    values.keep(prepared.arguments, options.out, files)
    return report, prepared.arguments


def _emulate_ptx(options: Namespace, text: str, name: str) -> "tuple[Report, list[values.Argument]]":
    from weft import emulator

    for option in ("arch", "shape"):
        if getattr(options, option) is not None:
            raise WeftError(f"--{option} is for .mlir files, which are compiled first")
    shared = 0 if options.shared is None else _number(options.shared, "--shared")
    limits = _options(options)
    arguments = values.in_order(options.arg, limits["seed"] or 0)
    files = values.saved(options, arguments)
    module = emulator.Module(text)
    kernel = options.kernel
    if kernel is None:
        if len(module.kernels) != 1:
            listed = ", ".join(module.kernels) or "none"
            raise WeftError(
                f"'{name}' has {len(module.kernels)} kernels ({listed}): select one with --kernel"
            )
        (kernel,) = module.kernels
    grid, block = values.grid_and_block(options)
    launch = partial(
        module.launch,
        kernel,
        grid=grid or 1,
        block=block,
        cluster=1 if options.cluster is None else values.dims(options.cluster, "cluster"),
        args=[argument.value for argument in arguments],
        shared_bytes=shared,
    )
    report = _launched(launch, arguments, options, limits)
    values.keep(arguments, options.out, files)
    return report, arguments


def _launched(
    launch: "Callable[..., Report]", arguments: list[values.Argument], options: Namespace, limits: cli.Record
) -> "Report":
    """Launches once, or with `--seeds` in many interleavings, whose findings are the report's."""
    if not options.bar:
        return launch(**limits)
    if options.seeds is None:
        with Bar("emulating", "CTAs") as bar:
            return launch(**limits, progress=bar)
    import numpy as np

    from weft.emulator import explore

    if limits["seed"] is not None or options.no_sanitize or options.trace:
        raise WeftError("--seeds can't be used with --seed, --no-sanitize or --trace")
    count = _number(options.seeds, "--seeds")
    arrays = [argument.value for argument in arguments if isinstance(argument.value, np.ndarray)]

    def run(seed: int | None, seconds: float | None) -> "Report":
        return launch(**{**limits, "seed": seed, "max_seconds": seconds})

    exploration = explore(run, arrays, count, limits["max_seconds"])
    if exploration.seeds < count:
        warn(f"the time limit ended the search after {exploration.seeds} of {count} seeds")
    if exploration.report is None:
        assert exploration.error is not None
        exploration.error.findings = exploration.findings
        raise exploration.error
    return replace(exploration.report, findings=exploration.findings)


def _options(options: Namespace) -> cli.Record:
    """The options of a launch in the emulator that are the same for PTX and .mlir files."""
    if options.dependent and options.no_sanitize:
        raise WeftError("--dependent can't be used with --no-sanitize: it is for the sanitizer")
    if options.trace in ("", "-"):
        raise WeftError(f"--trace must be a file; got '{options.trace}'")
    if options.sarif == "-":
        raise WeftError("--sarif must be a file; got '-': the findings go to stdout as text, or with --json")
    if options.sarif is not None:
        cli.check_writable(options.sarif)
    limit = options.max_instructions
    return {
        **({"strict": True} if options.strict else {}),
        "sanitize": not options.no_sanitize,
        "seed": None if options.seed is None else _number(options.seed, "--seed"),
        "arithmetic": options.arithmetic,
        "trace": options.trace,
        "max_instructions": (LIMIT if limit is None else _number(limit, "--max-instructions")) or None,
        "chip": options.chip,
        "dependent": options.dependent,
        "ignore": options.ignore,
        "threads": None if options.threads is None else _number(options.threads, "--threads"),
        "max_seconds": None if options.time_limit is None else _seconds(options.time_limit),
    }


def finding_json(finding: "Finding") -> cli.Record:
    """A finding as JSON has it."""
    record = asdict(finding)
    return record | {"thread": finding.thread and str(finding.thread)}


def error_json(error: "Fault | Deadlock") -> cli.Record:
    """What ended a launch, and what was found before, as JSON has it."""
    findings = cast("tuple[Finding, ...]", error.findings)
    records = [finding_json(finding) for finding in findings]
    return {"error": error.diagnostics[0].message, "passed": False, "findings": records}


def _tell(report: "Report", name: str, arguments: list[values.Argument], options: Namespace) -> int:
    """Prints what the kernel printed, what was found and what was counted."""
    sanitized, described = not options.no_sanitize, values.described(arguments)
    if options.json:
        findings = [finding_json(finding) for finding in report.findings]
        counted = {"instructions": report.instructions, "counters": dict(report.counters)}
        record = {"printed": report.printed, "findings": findings if sanitized else None}
        cli.say_json({**record, **counted, "arguments": described})
        return 1 if report.findings else 0
    if report.printed:
        cli.say(report.printed.removesuffix("\n"))
    for finding in report.findings:
        cli.say(f"{name}: {finding}")
    lines = [f"{number}  {text}" for number, text in values.rows(described).items()]
    lines += [f"{report.instructions:,} warp instructions"]
    lines += [f"  {what:<24} {count:,}" for what, count in report.counters.items()]
    count = f"{len(report.findings) or 'no'} finding{'' if len(report.findings) == 1 else 's'}"
    lines.append(count if sanitized else "mistakes weren't looked for (--no-sanitize)")
    cli.say("\n".join(lines))
    return 1 if report.findings else 0


def _tell_findings(
    error: "Fault | Deadlock", findings: "tuple[Finding, ...]", name: str, options: Namespace
) -> None:
    """Prints what was found before an error ended the launch: its cause, often."""
    from weft.emulator import Deadlock

    if options.json:
        cli.say_json(error_json(error) | ({"findings": None} if options.no_sanitize else {}))
        return
    rule = "deadlock" if isinstance(error, Deadlock) else error.rule
    for finding in findings:
        if finding.rule != rule:  # the error itself has been reported
            cli.say(f"{name}: {finding}")


def _of_file(error: WeftError, name: str) -> list[Diagnostic]:
    """The error's messages, with locations in the file that was read."""
    return [cli.renamed(diagnostic, "<ptx>", name) for diagnostic in error.diagnostics]


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise WeftError(f"--time-limit expects a number of seconds, got '{text}'")
    return value


def _number(text: str, option: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if value < 0:
        raise WeftError(f"{option} must be a whole number of at least 0; got '{text}'")
    return value


EMULATE = Command(
    "emulate", "run a kernel of any PTX or .mlir file on the CPU and look for mistakes", _arguments, run
)

"""`weft-opt`: reads .mlir, verifies it, runs passes over it and prints the result, as `mlir-opt` does."""

import functools
import re
import sys
from argparse import Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence

from weft.errors import WeftError
from weft.registry.opt_flags import OPTIONS, OUTPUT, SWITCHES, VALUED_SWITCHES
from weft.tools import cli, supervisor
from weft.tools.versions import PrintVersions

_EPILOGUE = """\
Passes and named pipelines run in the order of their flags: --lower-mma, --canonicalize,
'--select-schedule=chip=sm_90a rows=any'. --list-passes shows Weft's; upstream's go by their upstream names.

A mistake in the input is printed as file:line:col: error: … and gives exit status 1; no file is written then.
"""


def _boolean(flag: str, text: str) -> bool:
    values = {"1": True, "true": True, "0": False, "false": False}
    if text.lower() not in values:
        raise WeftError(f"{flag} must be true or false, got '{text}'")
    return values[text.lower()]


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise WeftError(f"'{text}' must be a number of at least 0")
    return int(text)


class _Parser(cli.Parser):
    """A parser whose help lists the passes of installed extensions."""

    def format_help(self) -> str:
        from weft.registry import extensions

        text = super().format_help()
        if not extensions.installed():  # which needs no MLIR
            return text
        from weft.tools import opt

        try:
            return f"{text}\n{opt.extensions_listing()}\n"
        except WeftError as error:
            return f"{text}\n{error}\n"


def parser() -> cli.Parser:
    """The parser of the options; passes are what it doesn't know."""
    created = _Parser(
        "weft-opt",
        usage="weft-opt [FILE.mlir | -] [-o FILE] [--PASS[=OPTIONS] … | --pass-pipeline=TEXT] [FLAGS]",
        description="Verifies and transforms MLIR with Weft's dialects and passes, and upstream's.",
        epilog=_EPILOGUE,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    created.add_argument(
        "input", nargs="?", default="-", metavar="FILE.mlir", help="the input (default: stdin)"
    )
    created.add_argument(
        "-o", dest="output", default="-", metavar="FILE", help="the output (default: stdout)"
    )
    for names, (metavar, summary) in OPTIONS.items():
        created.add_argument(*names, metavar=metavar, help=summary)
    for flag, (metavar, summary) in OUTPUT.items():
        kind = _count if metavar == "N" else str
        created.add_argument(flag, metavar=metavar, help=summary, type=kind)
    for flag, summary in SWITCHES.items():
        default = flag == "--verify-each"
        kind = functools.partial(_boolean, flag)
        created.add_argument(flag, nargs="?", default=default, type=kind, metavar="BOOL", help=summary)
    for flag, (metavar, _, summary) in VALUED_SWITCHES.items():
        created.add_argument(flag, metavar=f"[{metavar}]", help=summary)
    created.add_argument("--version", action=PrintVersions)
    return created


def parse(arguments: Sequence[str]) -> tuple[Namespace, list[tuple[str, str]]]:
    """The options, and the passes that flags ask for: (name, options) in order. Raises WeftError."""
    # As in LLVM's tools, one dash does, and a flag takes a value only with '=', since a file may follow.
    spelled = [f"-{a}" if a.startswith("-") and len(a) > 2 and a[1] != "-" else a for a in arguments]
    values = {**dict.fromkeys(SWITCHES, "true"), **{flag: each[1] for flag, each in VALUED_SWITCHES.items()}}
    options, rest = parser().parse_known_args([f"{a}={values[a]}" if a in values else a for a in spelled])
    if extra := [a for a in rest if not a.startswith("--")]:
        raise WeftError(f"there must be one input file; got '{options.input}' and '{extra[0]}'")
    flags = [_flag(a[2:]) for a in rest]
    if flags and options.pass_pipeline is not None:
        raise WeftError(f"--pass-pipeline and the flag --{flags[0][0]} both select passes: use one of them")
    if options.emit_bytecode and options.split_input_file:
        raise WeftError("--emit-bytecode writes one module: leave out --split-input-file")
    if options.run_reproducer and (flags or options.pass_pipeline is not None):
        raise WeftError("--run-reproducer runs the file's own pipeline: leave out passes and --pass-pipeline")
    _check_output(options)
    return options, flags


def _check_output(options: Namespace) -> None:
    """Raises WeftError for values of options that don't fit."""
    display = options.mlir_pass_statistics_display
    if display not in (None, *DISPLAYS):
        raise WeftError(f"--mlir-pass-statistics-display must be list or pipeline; got '{display}'")
    if options.verify_diagnostics not in (None, *EXPECTED):
        raise WeftError(
            f"--verify-diagnostics must be all or only-expected; got '{options.verify_diagnostics}'"
        )
    if options.split_input_file == "":
        raise WeftError("--split-input-file must have a marker after '='")
    if options.remarks_filter is not None:
        try:
            re.compile(options.remarks_filter)
        except re.error as failure:
            what = f"--remarks-filter must be a regular expression; got '{options.remarks_filter}': {failure}"
            raise WeftError(what) from None


DISPLAYS = ("list", "pipeline")
EXPECTED = ("all", "only-expected")
_BRACED = re.compile(r"([^={]*)=?\{(.*?)\}?")


def _flag(argument: str) -> tuple[str, str]:
    """A pass and its options. Raises WeftError for options in braces, as --pass-pipeline has them."""
    if braced := _BRACED.fullmatch(argument):
        legal = "=".join(filter(None, braced.groups()))
        raise WeftError(f"braces are for --pass-pipeline; the options of a flag follow '=': '--{legal}'")
    name, _, text = argument.partition("=")
    return name, text


def _run(arguments: Sequence[str]) -> int:
    options, flags = parse(arguments)
    # Imported here: --help needs no MLIR, and where MLIR is missing, the import reports it with a WeftError.
    from weft.tools import opt

    if options.list_passes:
        cli.say(opt.listing())
    elif options.show_dialects:
        cli.say(opt.dialects())
    elif options.dump_irdl:
        from weft.dialects.registered import definitions

        cli.write(options.output, f"{definitions()}\n")
    else:
        return opt.run(options, flags)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tool with `arguments` and returns its exit status.

    With the process's own arguments, the default, the work is done in a process of its own.
    """
    if arguments is None:
        return supervisor.supervised("weft-opt", lambda: cli.guarded("weft-opt", lambda: _run(sys.argv[1:])))
    return cli.guarded("weft-opt", lambda: _run(arguments))

"""The options by which `weft-opt` and `weft compile` show passes at work, named as in `mlir-opt`."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import replace

from weft.errors import Diagnostic, WeftError
from weft.ir.instrumentation import Instrumentation
from weft.registry.opt_flags import OPTIONS, SWITCHES
from weft.tools import cli

_EXPLAIN = "--tile-explain-dispatch"
_SWITCHES = (_EXPLAIN, "--mlir-print-ir-before-all", "--mlir-print-ir-after-all", "--dump-pass-pipeline")


def add_arguments(parser: ArgumentParser) -> None:
    """Declares the options for a subcommand of `weft`."""
    for names, (metavar, summary) in OPTIONS.items():
        if names != ("--pass-pipeline",):
            parser.add_argument(*names, metavar=metavar, help=summary)
    for flag in _SWITCHES:
        parser.add_argument(flag, action="store_true", help=SWITCHES[flag])


def add_explain(parser: ArgumentParser) -> None:
    """Declares the option for remarks alone."""
    parser.add_argument(_EXPLAIN, action="store_true", help=SWITCHES[_EXPLAIN])


def printing(options: Namespace) -> Instrumentation:
    """What these options want to see of passes, except remarks about candidates."""
    path = options.mlir_pass_pipeline_crash_reproducer
    return Instrumentation(
        before=_names(options.mlir_print_ir_before, "before"),
        after=_names(options.mlir_print_ir_after, "after"),
        before_all=bool(options.mlir_print_ir_before_all),
        after_all=bool(options.mlir_print_ir_after_all),
        dump=bool(options.dump_pass_pipeline),
        directory=options.mlir_print_ir_tree_dir,
        reproducer=None if path is None else _File(path),
    )


def explaining(options: Namespace, name: str | None) -> Callable[[Diagnostic], None] | None:
    """What prints the remarks about a file of this name, if the options ask for them. Without a name, they
    are about text that no file has, and get no locations.
    """

    def explain(remark: Diagnostic) -> None:
        bare = replace(remark, location=None, notes=tuple(replace(n, location=None) for n in remark.notes))
        placed = bare if name is None else cli.renamed(remark, "-", name)
        cli.report([placed], "weft")

    return explain if options.tile_explain_dispatch else None


def _names(text: str | None, when: str) -> frozenset[str]:
    names = frozenset() if text is None else frozenset(name.strip() for name in text.split(","))
    if "" in names:
        raise WeftError(f"--mlir-print-ir-{when} must be names of passes with ',' between them; got '{text}'")
    return names


class _File:
    """A reproducer in a file of the user's."""

    def __init__(self, path: str) -> None:
        """Raises WeftError where the file can't be written."""
        if path == "-":
            raise WeftError("--mlir-pass-pipeline-crash-reproducer must be a file; got '-'")
        cli.check_writable(path)
        self._path = path
        self._text = ""

    def begin(self, text: str) -> None:
        self._text = text
        cli.keep_reproducer(self._path, text)

    def end(self, succeeded: bool) -> Diagnostic | None:
        cli.keep_reproducer(self._path, None)
        if succeeded:
            return None
        cli.write(self._path, self._text)
        return remark(self._path)


def remark(path: str) -> Diagnostic:
    """The note about a reproducer that was written."""
    return Diagnostic(f"reproducer generated at '{path}'", severity="note")

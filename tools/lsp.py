"""`weft lsp`: a language server for .mlir and .ptx files, which editors start."""

import sys
from argparse import Namespace

from weft.errors import Diagnostic, WeftError
from weft.tools import cli
from weft.tools.command import Command

INSTALL = "pip install 'weft[lsp]'"


_OPTIONS = """
--stdio  speak on stdin and stdout (always so)
--arch CHIP  the chip to check for (default: the files')
"""


def _run(options: Namespace) -> int:
    from weft.isa.chips import CHIPS, unknown_chip

    if options.arch is not None and options.arch not in CHIPS:
        raise WeftError(f"--arch {unknown_chip(options.arch)}")
    for name in ("stdin", "stdout"):
        if getattr(sys, name) is None:
            raise WeftError(f"the language server needs {name}, which is closed")
    try:
        import pygls  # noqa: F401
    except ModuleNotFoundError:
        raise WeftError(f"the language server needs pygls, which isn't installed: {INSTALL}") from None
    from weft.tools.language_server import server

    if sys.stdin.isatty():
        hint = "an editor starts this program and speaks LSP with it: see docs/editors.md; Ctrl-D ends it"
        cli.report([Diagnostic(hint, severity="remark")], "weft lsp")
    return server.serve(options.arch)


LSP = Command("lsp", "serve diagnostics, hovers and fixes to editors (LSP)", _OPTIONS, _run)

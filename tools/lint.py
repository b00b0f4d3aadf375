"""`weft lint`: which tensor-core instructions are legal on a chip, why others aren't, and what is near."""

from argparse import Namespace

from weft.errors import WeftError
from weft.tools import cli
from weft.tools.command import Command

_OPTIONS = """
file FILE.mlir|FILE.ptx  the input; - is stdin
--arch CHIP  the chip to check for (default: the file's)
--json  print one line of JSON for each instruction
"""


def _run(options: Namespace) -> int:
    from weft.tools.findings import lint

    name = cli.name_of(options.file)
    try:
        findings, where = lint(options.file, options.arch)
    except WeftError as error:
        cli.report(error.diagnostics, "weft")
        return 2
    illegal = [finding for finding in findings if finding.verdict]
    if options.json:
        lines = [finding.json() for finding in findings]
    else:
        count = f"{len(findings)} instruction{'' if len(findings) == 1 else 's'}"
        summary = f"{name}: {count}, {len(illegal) or 'none'} illegal {where}"
        if not findings:
            summary = f"{name}: no tensor-core instruction to judge {where}"
        said = (finding.text(name) for finding in findings if finding.verdict or finding.remark)
        lines = [*said, summary]
    if lines:
        cli.say("\n".join(lines))
    return 1 if illegal else 0


LINT = Command(
    "lint", "check tensor-core instructions for a chip, and list legal alternatives", _OPTIONS, _run
)

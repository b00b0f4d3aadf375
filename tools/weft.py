"""`weft`: compiles, runs and explains programs of tensor-core operations. One file here per subcommand."""

import sys
from collections.abc import Sequence

from weft.tools import cli, supervisor
from weft.tools.bench import BENCH
from weft.tools.command import Command
from weft.tools.compile import COMPILE
from weft.tools.completion import COMPLETION
from weft.tools.debug import DEBUG
from weft.tools.doctor import DOCTOR
from weft.tools.emulate import EMULATE
from weft.tools.isa import ISA
from weft.tools.kernels import KERNELS
from weft.tools.lint import LINT
from weft.tools.lsp import LSP
from weft.tools.predict import PREDICT
from weft.tools.run import RUN
from weft.tools.tune import TUNE
from weft.tools.versions import PrintVersions

COMMANDS = (COMPILE, RUN, EMULATE, DEBUG, BENCH, TUNE, KERNELS, PREDICT, ISA, LINT, LSP, DOCTOR, COMPLETION)


def _parser() -> cli.Parser:
    parser = cli.Parser("weft", description="Tensor-core programs, from one matrix product down to PTX.")
    parser.add_argument("--version", action=PrintVersions)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        sentence = f"{command.summary[0].upper()}{command.summary[1:]}."
        subparser = commands.add_parser(
            command.name, help=command.summary, description=sentence, allow_abbrev=False
        )
        if isinstance(command.arguments, str):
            cli.declare(subparser, command.arguments)
        else:
            command.arguments(subparser)
        subparser.set_defaults(command=command, parser=subparser, root=parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the tool with `arguments` and returns its exit status.

    With the process's own arguments, the default, the work is done in a process of its own.
    """

    interactive = {command.name for command in COMMANDS if command.interactive}

    def body() -> int:
        words = list(sys.argv[1:] if arguments is None else arguments)
        after: list[str] = []
        if words[:1] and words[0] in interactive and "--" in words:
            words, after = words[: words.index("--")], words[words.index("--") + 1 :]
        options, rest = _parser().parse_known_args(words)
        options.following = after
        if rest:  # which argparse would have the whole tool complain about
            options.parser.unknown(rest)
        command: Command = options.command
        return command.run(options)

    if arguments is None and not interactive.intersection(sys.argv[1:2]):
        return supervisor.supervised("weft", lambda: cli.guarded("weft", body))
    return cli.guarded("weft", body)

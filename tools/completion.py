"""`weft completion`: completions of `weft` and `weft-opt` for shells, made from their parsers."""

import shlex
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weft.tools import cli
from weft.tools.command import Command


@dataclass(frozen=True)
class Option:
    """One option: its spellings, what it is for, and what follows it.

    `values` are None where nothing follows it, and empty where anything may, such as a file.
    """

    names: tuple[str, ...]
    help: str
    values: tuple[str, ...] | None


@dataclass(frozen=True)
class Part:
    """A command, or a subcommand of `weft`: its options, and the words that its other arguments may be."""

    name: str
    help: str
    options: tuple[Option, ...]
    words: tuple[str, ...] = ()


def _run(options: Namespace) -> int:
    cli.say(SHELLS[options.shell](weft_parts(options.root), opt_part()))
    return 0


def _known(metavar: str) -> tuple[str, ...]:
    """The words that an argument may be whose name in the help is `metavar`, where they are few."""
    from weft.bench.suites import suites
    from weft.isa.chips import CHIPS
    from weft.isa.tables import FAMILIES, TABLES

    names = [*(table.name for table in TABLES), *(family.name for family in FAMILIES)]
    return {
        "CHIP": tuple(CHIPS),
        "FAMILY": tuple(dict.fromkeys(names)),
        "SUITE|SHAPE": tuple(suites(True)),
    }.get(metavar, ())


def _part(name: str, help_: str, parser: ArgumentParser) -> Part:
    options: list[Option] = []
    words: list[str] = []
    for action in parser._actions:
        if isinstance(action, _SubParsersAction):
            continue
        values = tuple(map(str, action.choices or ())) or _known(str(action.metavar))
        if action.option_strings:
            follows = None if action.nargs in (0, "?") else values
            options.append(Option(tuple(action.option_strings), action.help or "", follows))
        else:
            words += values
    return Part(name, help_, tuple(options), tuple(words))


def weft_parts(root: ArgumentParser) -> list[Part]:
    """`weft` itself, with its subcommands as words, and each of these."""
    (commands,) = (action for action in root._actions if isinstance(action, _SubParsersAction))
    summaries = {each.dest: each.help or "" for each in commands._choices_actions}
    parts = [_part(name, summaries[name], parser) for name, parser in commands.choices.items()]
    whole = _part("weft", "", root)
    return [Part("weft", "", whole.options, tuple(part.name for part in parts)), *parts]


def opt_part() -> Part:
    """`weft-opt`, whose passes and pipelines are options, too."""
    from weft import passes
    from weft.tools.weft_opt import parser

    part = _part("weft-opt", "", parser())
    summaries = {chosen.flag: chosen.summary for chosen in passes.every().values()}
    summaries |= {pipeline.flag: pipeline.summary for pipeline in passes.PIPELINES.values()}
    run = (Option((f"--{flag}",), summary, None) for flag, summary in summaries.items())
    return Part("weft-opt", "", (*part.options, *run))


def bash(parts: Sequence[Part], opt: Part) -> str:
    """Completions for bash."""
    return "\n".join([_BASH, *_bash_function("_weft", parts), *_bash_function("_weft_opt", [opt])]) + (
        "\ncomplete -o default -F _weft weft\ncomplete -o default -F _weft_opt weft-opt"
    )


# Words that aren't completed here are completed as files: `complete -o default`.
_BASH = """\
_weft_words() {  # the words that begin with $1
    local word
    COMPREPLY=()
    for word in "${@:2}"; do [[ $word == "$1"* ]] && COMPREPLY+=("$word"); done
    return 0
}
_weft_option() {  # the option before the word that is completed: bash splits at '='
    previous=${COMP_WORDS[COMP_CWORD-1]} current=${COMP_WORDS[COMP_CWORD]}
    [[ $previous == = ]] && previous=${COMP_WORDS[COMP_CWORD-2]}
    [[ $current == = ]] && current=
    return 0
}"""


def _bash_function(name: str, parts: Sequence[Part]) -> list[str]:
    lines = [f"{name}() {{", "    local previous current command=${COMP_WORDS[1]}", "    _weft_option"]
    if len(parts) == 1:
        lines += ["    command=weft-opt"]
    lines += ["    (( COMP_CWORD == 1 )) && command=weft"] if len(parts) > 1 else []
    lines += ['    case "$command $previous" in']
    for part in parts:
        for option in part.options:
            if option.values is not None:
                patterns = "|".join(shlex.quote(f"{part.name} {each}") for each in option.names)
                lines += [f'        {patterns}) _weft_words "$current" {shlex.join(option.values)}; return;;']
    lines += ["    esac", '    case "$command" in']
    for part in parts:
        names = [name for option in part.options for name in option.names]
        lines += [
            f'        {part.name}) if [[ $current == -* ]]; then _weft_words "$current" {shlex.join(names)}'
        ]
        lines += [f'            else _weft_words "$current" {shlex.join(part.words)}; fi;;']
    return [*lines, "    esac", "}"]


def zsh(parts: Sequence[Part], opt: Part) -> str:
    """Completions for zsh."""
    whole, *commands = parts
    described = shlex.join(f"{part.name}:{part.help.replace(':', ' ')}" for part in commands)
    lines = ["#compdef weft weft-opt", "_weft() {", "    local -a commands", "    local state line"]
    lines += [
        f"    commands=({described})",
        f"    _arguments -C {_zsh(whole, ())} '1: :->command' '*:: :->rest'",
    ]
    lines += [
        "    case $state in",
        "        command) _describe command commands;;",
        "        rest) case $words[1] in",
    ]
    lines += [f"            {part.name}) _arguments {_zsh(part, part.words)};;" for part in commands]
    lines += ["        esac;;", "    esac", "}", f"_weft_opt() {{ _arguments {_zsh(opt, ())} }}"]
    lines += [
        # A file in $fpath is called as the function of its name; otherwise the text is sourced.
        "if [[ $funcstack[1] == _weft ]]; then",
        '    [[ $service == weft-opt ]] && _weft_opt "$@" || _weft "$@"',
    ]
    return "\n".join([*lines, "else", "    compdef _weft weft", "    compdef _weft_opt weft-opt", "fi"])


def _zsh(part: Part, words: Sequence[str]) -> str:
    """The arguments of zsh's `_arguments`."""
    specs = []
    for option in part.options:
        text = "".join(f"\\{c}" if c in "[]:\\" else c for c in option.help.replace("%%", "%"))
        for name in option.names:
            follows = "" if option.values is None else f":value:{_zsh_values(option.values)}"
            specs.append(f"*{name}[{text}]{follows}")
    rest = [] if part.name == "weft" else [f"*:argument:{_zsh_values(words)}"]
    return shlex.join([*specs, *rest])


def _zsh_values(values: Sequence[str]) -> str:
    return f"({' '.join(values)})" if values else "_files"


def fish(parts: Sequence[Part], opt: Part) -> str:
    """Completions for fish."""
    whole, *commands = parts
    lines = _fish("weft", whole, "__fish_use_subcommand")
    for part in commands:
        name, text = shlex.quote(part.name), _fish_quoted(part.help)
        lines += [f"complete -c weft -n __fish_use_subcommand -f -a {name} -d {text}"]
        seen = f"__fish_seen_subcommand_from {part.name}"
        lines += _fish("weft", part, seen)
        lines += (
            [f"complete -c weft -n '{seen}' -f -a {_fish_quoted(' '.join(part.words))}"] if part.words else []
        )
    return "\n".join([*lines, *_fish("weft-opt", opt, "true")])


def _fish(command: str, part: Part, condition: str) -> list[str]:
    lines = []
    for option in part.options:
        names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names)
        follows = "" if option.values is None else f" -x -a {_fish_quoted(' '.join(option.values))}"
        follows = " -r" if option.values == () else follows
        text = _fish_quoted(option.help)
        lines.append(f"complete -c {command} -n '{condition}' {names}{follows} -d {text}")
    return lines


def _fish_quoted(text: str) -> str:
    escaped = text.replace("%%", "%").replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SHELLS: dict[str, Callable[[Sequence[Part], Part], str]] = {"bash": bash, "zsh": zsh, "fish": fish}

_OPTIONS = f"shell {{{','.join(SHELLS)}}}  the shell whose completions to print"
COMPLETION = Command(
    "completion", "print completions of weft and weft-opt for bash, zsh or fish", _OPTIONS, _run
)

"""The commands of the debugger."""

import cmd
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from inspect import cleandoc
from typing import TextIO

from weft.emulator.watching.hooks import PTX
from weft.errors import WeftError
from weft.isa.suggest import did_you_mean
from weft.tools import cli
from weft.tools.debugger import inspection, source_files
from weft.tools.debugger.breakpoints import Breakpoint, Point, Watchpoint, pending, place_of
from weft.tools.debugger.session import Focus, Quit, Session
from weft.tools.debugger.steps import Step

_FOCUS = re.compile(r"(cta|block|warp|lane|thread)\s+\(?\s*(\d+(?:\s*,\s*\d+){0,2})\s*\)?\s*")
_LINES = re.compile(r"(?:(.+?):)?(\d+)(?:\s*,\s*(\d+))?|(ptx)", re.IGNORECASE)
_WORD = re.compile(r"\w+|.")
_MEMORY = "shared ADDRESS [BYTES], global ADDRESS [BYTES], tensor COLUMN or ARRAY[INDEX]"


class OutputError(WeftError):
    """Stdout takes nothing, so the session ends."""


class Prompt(cmd.Cmd):
    """Reads commands: first those of `commands`, then those of `stdin`."""

    prompt = "(weft) "

    def __init__(self, commands: Iterable[str], stdin: TextIO, *, echo: bool) -> None:
        super().__init__(stdin=stdin)
        self.session: Session
        self._queue, self._echo = list(commands), echo
        self.use_rawinput = stdin.isatty() and stdin is sys.stdin

    def say(self, text: str) -> None:
        """Prints a text. Raises OutputError where nothing takes it."""
        try:
            cli.say(text.rstrip())
        except WeftError as error:
            raise OutputError(*error.diagnostics) from None

    def interact(self) -> None:
        """Carries out commands until one lets the kernel go on."""
        while True:
            try:
                self.cmdloop()
                return
            except KeyboardInterrupt:
                self.say("quit ends the session")

    def cmdloop(self, intro: str | None = None) -> None:
        while self._queue:
            if self._carried_out(self._queue.pop(0), self._echo):
                return
        if self.use_rawinput or self.stdin.isatty():
            super().cmdloop(intro)
            return
        while line := self.stdin.readline():
            if self._carried_out(line, True):
                return
        self.onecmd("EOF")

    def _carried_out(self, line: str, echo: bool) -> bool:
        """Carries out a line of a file, unless it is a comment. Whether the kernel goes on."""
        line = line.strip()
        if not line or line.startswith("#"):
            return False
        if echo:
            self.say(f"{self.prompt}{line}")
        return self.onecmd(line)

    def onecmd(self, line: str) -> bool:
        line = line.strip()
        if not line:
            return self.emptyline()
        if line == "EOF":
            self.say("end of input: the session ends")
            line = "quit"
        self.lastcmd = line
        match = _WORD.match(line)
        assert match is not None
        try:
            name = _full_name("help" if match[0] == "?" else match[0])
            COMMANDS[name].run(self, line[match.end() :].strip())
        except OutputError:
            raise
        except WeftError as error:
            self.say(f"error: {error.diagnostics[0].message}")
            return False
        return name in _RESUMING

    def completenames(self, text: str, *ignored: object) -> list[str]:
        return [name for name in COMMANDS if name.startswith(text)]


_Run = Callable[[Prompt, str], None]


@dataclass(frozen=True)
class Command:
    """A command: its usage, its short names, what else there is to know, and what carries it out."""

    usage: str
    short: tuple[str, ...]
    about: str
    run: _Run


def _full_name(word: str) -> str:
    for name, command in COMMANDS.items():
        if word == name or word in command.short:
            return name
    raise WeftError(f"no command '{word}'{did_you_mean(word, sorted(COMMANDS))}: help lists them")


def _quit(prompt: Prompt, argument: str) -> None:
    prompt.session.ends = True
    raise Quit


def _help(prompt: Prompt, argument: str) -> None:
    if not argument:
        for _, command in sorted(COMMANDS.items()):
            also = f"   ({', '.join(command.short)})" if command.short else ""
            prompt.say(f"  {command.usage}{also}")
        return
    name = _full_name(argument)
    if name == "info":
        prompt.say("\n".join(["info WHAT:", *(f"  {key:<12} {text}" for key, (text, _) in _INFO.items())]))
    else:
        prompt.say(f"{COMMANDS[name].usage}\n\n{COMMANDS[name].about}")


def _count(argument: str) -> int:
    """How often a command goes on."""
    if not argument.isdigit() or int(argument) < 1:
        raise WeftError(f"expects a number of at least 1, got '{argument}'")
    return int(argument)


# Breakpoints


def _break(prompt: Prompt, argument: str, *, temporary: bool = False) -> None:
    session = prompt.session
    place, _, condition = (
        part.strip() for part in re.sub(r"(?:^|\s)if\s", "\0if\0", argument, count=1).partition("\0if\0")
    )
    if not place:
        stopped = session.thread()[0]
        source = stopped.source
        place = f"{source.file}:{source.line}" if source is not None else f"ptx:{stopped.line}"
    point, why = session.add_breakpoint(place, condition, temporary=temporary)
    kind = "temporary breakpoint" if temporary else "breakpoint"
    prompt.say(f"{kind} {point.number} at {point.place}{f', pending: {why}' if why else ''}")


def _points(prompt: Prompt, argument: str) -> list[Point]:
    known = {str(point.number): point for point in prompt.session.points}
    for word in argument.split():
        if word not in known:
            raise WeftError(f"no breakpoint '{word}': there are {', '.join(known) or 'none'}")
    if not argument:
        raise WeftError("expects the number of a breakpoint: info breakpoints lists them")
    return [known[word] for word in argument.split()]


def _delete(prompt: Prompt, argument: str) -> None:
    for point in _points(prompt, argument) if argument else [*prompt.session.points]:
        prompt.session.delete(point)


def _each(prompt: Prompt, argument: str, *, method: Callable[[Session, Point], None]) -> None:
    for point in _points(prompt, argument):
        method(prompt.session, point)


def _condition(prompt: Prompt, argument: str) -> None:
    number, _, condition = argument.partition(" ")
    for point in _points(prompt, number):
        if not isinstance(point, Breakpoint):
            raise WeftError("only breakpoints have conditions")
        point.condition = prompt.session.condition(condition.strip())
        point.text = condition.strip()


def _ignore(prompt: Prompt, argument: str) -> None:
    words = argument.split()
    if len(words) != 2 or not words[1].isdigit():
        raise WeftError("expects ignore NUMBER COUNT")
    for point in _points(prompt, words[0]):
        if isinstance(point, Breakpoint):
            point.ignore = int(words[1])


def _watch(prompt: Prompt, argument: str, *, kind: str) -> None:
    session = prompt.session
    stopped, words, dtype = session.thread()[0], argument.split(), None
    if not words:
        raise WeftError(f"expects {_MEMORY}")
    if words[0] in ("shared", "global", "tensor") and len(words) in (2, 3):
        space, first = words[0], session.number_of(words[1])
        size = session.number_of(words[2]) if len(words) == 3 else 1 if space == "tensor" else 4
        where = f"{space} 0x{first:x}" if space != "tensor" else f"tensor column {first}"
    else:
        space, where = "global", argument
        first, dtype = inspection.element(session, argument)
        size = dtype.itemsize
    if size < 1 or first < 0:
        raise WeftError(f"expects at least one byte from an address of at least 0, got {first} and {size}")
    cta = None if space == "global" else session.focus.cta
    where += f" of cta {cta}" if cta is not None else ""
    point = Watchpoint(session.number(), kind, space, cta, first, size, where, dtype=dtype)
    point.content(stopped)  # raises WeftError where there is no memory
    session.add_watchpoint(point)
    prompt.say(f"watchpoint {point.number}: {kind} {where}")


def _findings(prompt: Prompt, argument: str) -> None:
    if argument not in ("on", "off"):
        raise WeftError("expects findings on, or findings off")
    prompt.session.stops_at_findings = argument == "on"


# Going on


def _continue(prompt: Prompt, argument: str) -> None:
    count = _count(argument) if argument else None
    for point in prompt.session.points if count else ():
        if isinstance(point, Breakpoint) and prompt.session.is_at(point):
            point.ignore = (count or 1) - 1


def _step(prompt: Prompt, argument: str, *, kind: str) -> None:
    session, count = prompt.session, _count(argument) if argument else 1
    stopped = session.thread()[0] if session.stopped is not None else None
    session.step(Step(kind, stopped, count=count))


def _finish(prompt: Prompt, argument: str) -> None:
    stopped = prompt.session.thread()[0]
    source = stopped.source
    inside = source_files.function_at(source.file, source.line) if source is not None else None
    outer = stopped.frame is None or stopped.frame.parent is None
    if outer and (inside is None or inside.name == stopped.function):
        raise WeftError("the thread is in the kernel itself: continue runs it to its end")
    prompt.session.step(Step("finish", stopped))


def _until(prompt: Prompt, argument: str) -> None:
    session = prompt.session
    place = place_of(argument, session.launched, session.default_file())
    if why := pending(place, session.launched):
        raise WeftError(f"{place} isn't in this kernel: {why}")
    stopped = session.thread()[0] if session.stopped is not None else None
    session.step(Step("until", stopped, place.file, place.line))


# The thread in focus


def _focus(prompt: Prompt, argument: str, *, what: str = "") -> None:
    if argument:
        _set_focus(prompt.session, f"{what} {argument}".strip())
    prompt.say(prompt.session.where())


def _set_focus(session: Session, rest: str) -> None:
    stopped = session.here()
    cta, warp, lane = session.focus.cta, session.focus.warp, session.focus.lane
    while rest:
        match = _FOCUS.match(rest)
        if match is None:
            raise WeftError(f"expects cta X[,Y[,Z]], warp N or lane N, got '{rest}'")
        numbers = [int(each) for each in match[2].split(",")]
        if match[1] in ("cta", "block"):
            cta = stopped.ctas()[stopped.cta_number(numbers)]
        elif match[1] == "thread":
            warp, lane = divmod(numbers[0], 32)
        elif match[1] == "warp":
            warp = numbers[0]
        else:
            lane = numbers[0]
        rest = rest[match.end() :]
    threads = stopped.wave.launch.threads
    if lane > 31:
        raise WeftError(f"lane must be in 0..31, got {lane}")
    if warp * 32 + lane >= threads:
        raise WeftError(
            f"a CTA has {threads} threads, in warps 0..{(threads - 1) // 32}, got warp {warp} lane {lane}"
        )
    session.focus = Focus(cta, warp, lane)


# Looking


def _print(prompt: Prompt, argument: str) -> None:
    formats, text = "", argument
    if match := re.match(r"/(\w+)\s+", argument):
        formats, text = match[1], argument[match.end() :]
        if unknown := set(formats) - set(inspection.FORMATS):
            listed = ", ".join(f"{key} ({what})" for key, what in inspection.FORMATS.items())
            raise WeftError(f"no format '{sorted(unknown)[0]}': there are {listed}")
    if not text:
        raise WeftError("expects an expression: info locals lists variables, info registers registers")
    prompt.say(inspection.printed(prompt.session, text, formats))


def _list(prompt: Prompt, argument: str) -> None:
    session, file, first, last = prompt.session, "", None, None
    if session.launched is None:
        raise WeftError("no kernel has been launched")
    match = _LINES.fullmatch(argument)
    if match is not None and match[4]:
        file = PTX
    elif argument:
        place = place_of(
            argument.partition(",")[0] if match else argument, session.launched, session.default_file()
        )
        file, first = place.file, place.line
        last = int(match[3]) if match and match[3] else None
    known = [each for each in session.launched.map.files if file and file != PTX and each.endswith(file)]
    prompt.say(
        inspection.listing(session, first, last, known[0] if known else file or session.default_file())
    )


def _where(prompt: Prompt, argument: str) -> None:
    prompt.say(prompt.session.where())
    prompt.say(inspection.backtrace(prompt.session))


_INFO: dict[str, tuple[str, Callable[..., str]]] = {
    "warps": ("all warps of the CTAs that run, and what they wait for", inspection.warps),
    "threads": ("the lanes of the warp in focus", inspection.threads),
    "barriers": (
        "mbarriers of the CTA in focus: phase, arrivals, bytes, who waits; other barriers",
        inspection.barriers,
    ),
    "cta": ("the CTA in focus, and its memory", inspection.cta),
    "breakpoints": ("breakpoints and watchpoints", inspection.points),
    "locals": ("the variables that have values here", inspection.variables),
    "registers": (
        "registers of the thread in focus: info registers [REGULAR EXPRESSION]",
        inspection.registers,
    ),
    "findings": ("what the sanitizer has found so far", inspection.findings),
    "source": ("the source files of the kernel, and their lines with code", inspection.sources),
}


def _info(prompt: Prompt, argument: str) -> None:
    what, _, rest = argument.partition(" ")
    names = [name for name in _INFO if name.startswith(what)] if what else []
    names = [what] if what in _INFO else ["barriers"] if what == "mbarriers" else names
    if len(names) != 1:
        raise WeftError(f"expects info {' | '.join(_INFO)}, got '{what}'{did_you_mean(what, _INFO)}")
    _, show = _INFO[names[0]]
    prompt.say(show(prompt.session, rest.strip()) if show is inspection.registers else show(prompt.session))


def _show(prompt: Prompt, argument: str, *, what: Callable[[Session, list[str]], str]) -> None:
    prompt.say(what(prompt.session, argument.split()))


_USAGE = """\
break [FILE:]LINE | ptx:LINE | FUNCTION [if CONDITION]   (b)
    Stops threads at a line. In the condition, cta, warp, lane and tid are the thread's, and variables and
    registers have its values: break 30 if cta == (1, 0) and warp == 2 and k > 3
tbreak …: as break, once.   (tb)
delete [NUMBER…]: removes breakpoints and watchpoints; by default all.   (d, cl)
disable NUMBER…: lets kernels pass breakpoints.
enable NUMBER…: the opposite of disable.
condition NUMBER [CONDITION]: sets or removes a breakpoint's condition.
ignore NUMBER COUNT: passes a breakpoint COUNT times.
watch shared ADDRESS [BYTES] | global ADDRESS [BYTES] | tensor COLUMN [COLUMNS] | ARRAY[INDEX]
    Stops when the memory changes. Shared and tensor memory are those of the CTA in focus. ARRAY is an
    array argument of the kernel: watch d[3, 5]
rwatch …: as watch, stops when the memory is read.
awatch …: as watch, stops at any access.
findings on | off: whether the sanitizer's findings stop the kernel (on).
continue [COUNT]: goes on to the next breakpoint, passing the current one COUNT - 1 times.   (c, cont)
step [COUNT]: goes on to the next line of the thread in focus, also in functions that it calls.   (s)
next [COUNT]: as step, but functions that it calls run as a whole.   (n)
stepi [COUNT]: goes on to the next PTX instruction of the thread in focus.   (si)
nexti [COUNT]: as stepi, but PTX functions that it calls run as a whole.   (ni)
finish: goes on until the function of the thread in focus has returned.   (fin)
until [FILE:]LINE | ptx:LINE: goes on until the thread in focus is at a line.   (u, advance)
focus [cta X[,Y[,Z]]] [warp N] [lane N]: selects the thread that commands are about.   (thread)
cta X[,Y[,Z]]: as focus cta.
warp N: as focus warp.
lane N: as focus lane.
print[/FORMATS] EXPRESSION   (p)
    The value in the thread in focus: a variable, a register (%r5), cta, warp, lane, tid, an array of the
    launch (d[0:4, 0:4]), sums and comparisons of these, f32(%r5) for bits as a float. A fragment or a
    buffer is shown as a matrix; sums[0:8, 3] is a part of it. Formats: x hexadecimal, f float, w all
    lanes of the warp: print/xw %r5
matrix [a | b | c | d] [PTX LINE] [TYPE]   (fragment, m)
    An operand of a tensor-core instruction as the matrix that it is, by its layout or descriptor: by
    default of the last instruction up to where the thread in focus is. Without an operand: which there
    are.
tile shared ADDRESS ROWSxCOLUMNSxTYPE [SWIZZLE] | tensor COLUMN ROWSxCOLUMNSxTYPE
    A tile in memory: tile shared 0x400 64x64xbf16 128B
x shared ADDRESS [BYTES] | global ADDRESS [BYTES]: the bytes of memory.
list [[FILE:]LINE[,LAST] | ptx[:LINE]]: lines of the source, with * at those that have code.   (l)
where: where the thread in focus is, and the calls that it is in.   (w, bt, backtrace)
info WHAT: see help info.   (i)
quit: ends the kernel and the program.   (q, exit)
help [COMMAND]: what commands there are, and what one does.   (h)
"""
"""The commands: usage, and in brackets the short names of each; what some do is in the lines below."""
_RESUMING: dict[str, _Run] = {
    "continue": _continue,
    **{kind: partial(_step, kind=kind) for kind in ("step", "next", "stepi", "nexti")},
    "finish": _finish,
    "until": _until,
}
"""Those that let the kernel go on."""
_RUN: dict[str, _Run] = _RESUMING | {
    "break": _break,
    "tbreak": partial(_break, temporary=True),
    "delete": _delete,
    "disable": partial(_each, method=Session.disable),
    "enable": partial(_each, method=Session.enable),
    "condition": _condition,
    "ignore": _ignore,
    **{kind: partial(_watch, kind=kind) for kind in ("watch", "rwatch", "awatch")},
    "findings": _findings,
    "focus": _focus,
    **{what: partial(_focus, what=what) for what in ("cta", "warp", "lane")},
    "print": _print,
    "matrix": partial(_show, what=inspection.operand),
    "tile": partial(_show, what=inspection.tile),
    "x": partial(_show, what=inspection.memory),
    "list": _list,
    "where": _where,
    "info": _info,
    "quit": _quit,
    "help": _help,
}
_ENTRIES: list[tuple[str, str, str, str]] = re.findall(
    r"^(([a-z]+).*?)(?:   \(([a-z, ]+)\))?\n((?: .*\n)*)", _USAGE, re.MULTILINE
)
COMMANDS = {
    name: Command(usage, tuple(filter(None, short.split(", "))), cleandoc(about), _RUN[name])
    for usage, name, short, about in _ENTRIES
}

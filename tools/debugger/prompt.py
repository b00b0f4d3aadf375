"""The commands of the debugger."""

import re
from collections.abc import Callable
from functools import wraps

from weft.emulator.watching.hooks import PTX
from weft.errors import WeftError
from weft.isa.suggest import did_you_mean
from weft.tools.debugger import expressions, inspection, source_files
from weft.tools.debugger.breakpoints import Breakpoint, Watchpoint, pending, place_of
from weft.tools.debugger.names import Threads
from weft.tools.debugger.reader import SHORT, Reader
from weft.tools.debugger.session import Focus
from weft.tools.debugger.steps import Step

_FOCUS = re.compile(r"(cta|block|warp|lane|thread)\s+\(?\s*(\d+(?:\s*,\s*\d+){0,2})\s*\)?\s*")
_INFO = {
    "warps": "all warps of the CTAs that run, and what they wait for",
    "threads": "the lanes of the warp in focus",
    "barriers": "mbarriers of the CTA in focus: phase, arrivals, bytes, who waits; other barriers",
    "cta": "the CTA in focus, and its memory",
    "breakpoints": "breakpoints and watchpoints",
    "locals": "the variables that have values here",
    "registers": "registers of the thread in focus: info registers [REGULAR EXPRESSION]",
    "findings": "what the sanitizer has found so far",
    "source": "the source files of the kernel, and their lines with code",
}

_Method = Callable[["Prompt", str], bool | None]


def _goes_on(method: _Method) -> _Method:
    """A command that lets the kernel go on."""

    @wraps(method)
    def run(self: "Prompt", argument: str) -> bool | None:
        method(self, argument)
        return True

    return run


def _count(argument: str) -> int:
    """How often a command goes on."""
    if not argument.isdigit() or int(argument) < 1:
        raise WeftError(f"expects a number of at least 1, got '{argument}'")
    return int(argument)


class Prompt(Reader):
    """The commands, as methods."""

    # Breakpoints

    def do_break(self, argument: str) -> None:
        """break [FILE:]LINE | ptx:LINE | FUNCTION [if CONDITION]

        Stops threads at a line. In the condition, cta, warp, lane and tid are the thread's, and variables and
        registers have its values: break 30 if cta == (1, 0) and warp == 2 and k > 3"""
        self._break(argument, temporary=False)

    def do_tbreak(self, argument: str) -> None:
        """tbreak …: as break, once."""
        self._break(argument, temporary=True)

    def _break(self, argument: str, *, temporary: bool) -> None:
        place, _, condition = (
            part.strip() for part in re.sub(r"(?:^|\s)if\s", "\0if\0", argument, count=1).partition("\0if\0")
        )
        if not place:
            stopped = self.session.thread()[0]
            source = stopped.source
            place = f"{source.file}:{source.line}" if source is not None else f"ptx:{stopped.line}"
        point, why = self.session.add_breakpoint(place, condition, temporary=temporary)
        pending = f", pending: {why}" if why else ""
        kind = "temporary breakpoint" if temporary else "breakpoint"
        self.say(f"{kind} {point.number} at {point.place}{pending}")

    def do_delete(self, argument: str) -> None:
        """delete [NUMBER…]: removes breakpoints and watchpoints; by default all."""
        for point in self._points(argument) if argument else [*self.session.points]:
            self.session.delete(point)

    def do_disable(self, argument: str) -> None:
        """disable NUMBER…: lets kernels pass breakpoints."""
        for point in self._points(argument):
            self.session.disable(point)

    def do_enable(self, argument: str) -> None:
        """enable NUMBER…: the opposite of disable."""
        for point in self._points(argument):
            self.session.enable(point)

    def do_condition(self, argument: str) -> None:
        """condition NUMBER [CONDITION]: sets or removes a breakpoint's condition."""
        number, _, condition = argument.partition(" ")
        for point in self._points(number):
            if not isinstance(point, Breakpoint):
                raise WeftError("only breakpoints have conditions")
            point.condition = self.session.condition(condition.strip())
            point.text = condition.strip()

    def do_ignore(self, argument: str) -> None:
        """ignore NUMBER COUNT: passes a breakpoint COUNT times."""
        words = argument.split()
        if len(words) != 2 or not words[1].isdigit():
            raise WeftError("expects ignore NUMBER COUNT")
        for point in self._points(words[0]):
            if isinstance(point, Breakpoint):
                point.ignore = int(words[1])

    def _points(self, argument: str) -> list[Breakpoint | Watchpoint]:
        known = {str(point.number): point for point in self.session.points}
        words = argument.split()
        for word in words:
            if word not in known:
                listed = ", ".join(known) or "none"
                raise WeftError(f"no breakpoint '{word}': there are {listed}")
        if not words:
            raise WeftError("expects the number of a breakpoint: info breakpoints lists them")
        return [known[word] for word in words]

    def do_watch(self, argument: str) -> None:
        """watch shared ADDRESS [BYTES] | global ADDRESS [BYTES] | tensor COLUMN [COLUMNS] | ARRAY[INDEX]

        Stops when the memory changes. Shared and tensor memory are those of the CTA in focus. ARRAY is an
        array argument of the kernel: watch d[3, 5]"""
        self._watch("watch", argument)

    def do_rwatch(self, argument: str) -> None:
        """rwatch …: as watch, stops when the memory is read."""
        self._watch("rwatch", argument)

    def do_awatch(self, argument: str) -> None:
        """awatch …: as watch, stops at any access."""
        self._watch("awatch", argument)

    def _watch(self, kind: str, argument: str) -> None:
        session = self.session
        stopped, row, lane = session.thread()
        names = session.names(Threads.one(stopped, row, lane))

        def number(text: str) -> int:
            return inspection.number_of(expressions.evaluated(expressions.parsed(text), names), text)

        words, dtype = argument.split(), None
        if not words:
            raise WeftError(
                "expects shared ADDRESS [BYTES], global ADDRESS [BYTES], tensor COLUMN or ARRAY[INDEX]"
            )
        if words[0] in ("shared", "global", "tensor") and len(words) in (2, 3):
            space, first = words[0], number(words[1])
            size = number(words[2]) if len(words) == 3 else 1 if space == "tensor" else 4
            where = f"{space} 0x{first:x}" if space != "tensor" else f"tensor column {first}"
        else:
            space = "global"
            first, dtype = inspection.element(session, argument)
            size = dtype.itemsize
            where = argument
        if size < 1 or first < 0:
            raise WeftError(
                f"expects at least one byte from an address of at least 0, got {first} and {size}"
            )
        cta = None if space == "global" else session.focus.cta
        where += f" of cta {cta}" if cta is not None else ""
        point = Watchpoint(session.number(), kind, space, cta, first, size, where, dtype=dtype)
        point.content(stopped)  # raises WeftError where there is no memory
        session.add_watchpoint(point)
        self.say(f"watchpoint {point.number}: {kind} {where}")

    def do_findings(self, argument: str) -> None:
        """findings on | off: whether the sanitizer's findings stop the kernel (on)."""
        if argument not in ("on", "off"):
            raise WeftError("expects findings on, or findings off")
        self.session.stops_at_findings = argument == "on"

    # Going on

    @_goes_on
    def do_continue(self, argument: str) -> None:
        """continue [COUNT]: goes on to the next breakpoint, passing the current one COUNT - 1 times."""
        if argument:
            count = _count(argument)
            for point in self.session.points:
                if isinstance(point, Breakpoint) and self.session.is_at(point):
                    point.ignore = count - 1

    @_goes_on
    def do_step(self, argument: str) -> None:
        """step [COUNT]: goes on to the next line of the thread in focus, also in functions that it calls."""
        self._step("step", argument)

    @_goes_on
    def do_next(self, argument: str) -> None:
        """next [COUNT]: as step, but functions that it calls run as a whole."""
        self._step("next", argument)

    @_goes_on
    def do_stepi(self, argument: str) -> None:
        """stepi [COUNT]: goes on to the next PTX instruction of the thread in focus."""
        self._step("stepi", argument)

    @_goes_on
    def do_nexti(self, argument: str) -> None:
        """nexti [COUNT]: as stepi, but PTX functions that it calls run as a whole."""
        self._step("nexti", argument)

    def _step(self, kind: str, argument: str) -> None:
        count = _count(argument) if argument else 1
        stopped = self.session.thread()[0] if self.session.stopped is not None else None
        self.session.step(Step.of(kind, stopped, count=count))

    @_goes_on
    def do_finish(self, argument: str) -> None:
        """finish: goes on until the function of the thread in focus has returned."""
        stopped = self.session.thread()[0]
        source = stopped.source
        inside = source_files.function_at(source.file, source.line) if source is not None else None
        outer = stopped.frame is None or stopped.frame.parent is None
        if outer and (inside is None or inside.name == stopped.function):
            raise WeftError("the thread is in the kernel itself: continue runs it to its end")
        self.session.step(Step.of("finish", stopped))

    @_goes_on
    def do_until(self, argument: str) -> None:
        """until [FILE:]LINE | ptx:LINE: goes on until the thread in focus is at a line."""
        session = self.session
        place = place_of(argument, session.launched, session.default_file())
        if why := pending(place, session.launched):
            raise WeftError(f"{place} isn't in this kernel: {why}")
        stopped = session.thread()[0] if session.stopped is not None else None
        session.step(Step.of("until", stopped, place.file, place.line))

    # The thread in focus

    def do_focus(self, argument: str) -> None:
        """focus [cta X[,Y[,Z]]] [warp N] [lane N]: selects the thread that commands are about."""
        if argument:
            self._focus(argument)
        self.say(self.session.where())

    def do_cta(self, argument: str) -> None:
        """cta X[,Y[,Z]]: as focus cta."""
        self.do_focus(f"cta {argument}" if argument else "")

    def do_warp(self, argument: str) -> None:
        """warp N: as focus warp."""
        self.do_focus(f"warp {argument}" if argument else "")

    def do_lane(self, argument: str) -> None:
        """lane N: as focus lane."""
        self.do_focus(f"lane {argument}" if argument else "")

    def _focus(self, argument: str) -> None:
        session = self.session
        stopped = session.here()
        focus = Focus(session.focus.cta, session.focus.warp, session.focus.lane)
        rest = argument
        while rest:
            match = _FOCUS.match(rest)
            if match is None:
                raise WeftError(f"expects cta X[,Y[,Z]], warp N or lane N, got '{rest}'")
            numbers = [int(each) for each in match[2].split(",")]
            if match[1] in ("cta", "block"):
                stopped.cta_number(numbers)
                x, y, z = (*numbers, 0, 0)[:3]
                focus.cta = (x, y, z)
            elif match[1] == "thread":
                focus.warp, focus.lane = divmod(numbers[0], 32)
            else:
                setattr(focus, match[1], numbers[0])
            rest = rest[match.end() :]
        threads = stopped.wave.launch.threads
        if focus.lane > 31:
            raise WeftError(f"lane must be in 0..31, got {focus.lane}")
        if focus.warp * 32 + focus.lane >= threads:
            most = (threads - 1) // 32
            raise WeftError(
                f"a CTA has {threads} threads, in warps 0..{most}, got warp {focus.warp} lane {focus.lane}"
            )
        session.focus = focus

    # Looking

    def do_print(self, argument: str) -> None:
        """print[/FORMATS] EXPRESSION

        The value in the thread in focus: a variable, a register (%r5), cta, warp, lane, tid, an array of the
        launch (d[0:4, 0:4]), sums and comparisons of these, f32(%r5) for bits as a float. A fragment or a
        buffer is shown as a matrix; sums[0:8, 3] is a part of it. Formats: x hexadecimal, f float, w all
        lanes of the warp: print/xw %r5"""
        formats, text = "", argument
        if match := re.match(r"/(\w+)\s+", argument):
            formats, text = match[1], argument[match.end() :]
            if unknown := set(formats) - set(inspection.FORMATS):
                listed = ", ".join(f"{key} ({what})" for key, what in inspection.FORMATS.items())
                raise WeftError(f"no format '{sorted(unknown)[0]}': there are {listed}")
        if not text:
            raise WeftError("expects an expression: info locals lists variables, info registers registers")
        self.say(inspection.printed(self.session, text, formats))

    def do_matrix(self, argument: str) -> None:
        """matrix [a | b | c | d] [PTX LINE] [TYPE]

        An operand of a tensor-core instruction as the matrix that it is, by its layout or descriptor: by
        default of the last instruction up to where the thread in focus is. Without an operand: which there
        are."""
        self.say(inspection.operand(self.session, argument.split()))

    def do_tile(self, argument: str) -> None:
        """tile shared ADDRESS ROWSxCOLUMNSxTYPE [SWIZZLE] | tensor COLUMN ROWSxCOLUMNSxTYPE

        A tile in memory: tile shared 0x400 64x64xbf16 128B"""
        self.say(inspection.tile(self.session, argument.split()))

    def do_x(self, argument: str) -> None:
        """x shared ADDRESS [BYTES] | global ADDRESS [BYTES]: the bytes of memory."""
        self.say(inspection.memory(self.session, argument.split()))

    def do_list(self, argument: str) -> None:
        """list [[FILE:]LINE[,LAST] | ptx[:LINE]]: lines of the source, with * at those that have code."""
        session, file, first, last = self.session, None, None, None
        if session.launched is None:
            raise WeftError("no kernel has been launched")
        match = re.fullmatch(r"(?:(.+?):)?(\d+)(?:\s*,\s*(\d+))?|(ptx)", argument.strip(), re.IGNORECASE)
        if argument and match is None:
            place = place_of(argument, session.launched, session.default_file())
            file, first = place.file, place.line
        elif match is not None and match[4] is None:
            place = place_of(
                f"{match[1]}:{match[2]}" if match[1] else match[2], session.launched, session.default_file()
            )
            file, first = place.file, place.line
            last = int(match[3]) if match[3] else None
        elif match is not None:
            file = PTX
        known = [each for each in session.launched.map.files if file and file != PTX and each.endswith(file)]
        file = known[0] if known else file or session.default_file()
        self.say(inspection.listing(session, first, last, file))

    def do_where(self, argument: str) -> None:
        """where: where the thread in focus is, and the calls that it is in."""
        self.say(self.session.where())
        self.say(inspection.backtrace(self.session))

    def do_info(self, argument: str) -> None:
        """info WHAT: see help info."""
        what, _, rest = argument.partition(" ")
        found = [name for name in _INFO if name.startswith(what)] if what else []
        if what in ("mbarriers",):
            found = ["barriers"]
        if what not in _INFO and len(found) != 1:
            raise WeftError(f"expects info {' | '.join(_INFO)}, got '{what}'{did_you_mean(what, _INFO)}")
        name, session = what if what in _INFO else found[0], self.session
        if name == "breakpoints":
            self.say("\n".join(map(str, session.points)) or "no breakpoints")
        elif name == "findings":
            self.say("\n".join(map(str, session.findings)) or "the sanitizer has found nothing so far")
        elif name == "source":
            self.say(inspection.sources(session))
        else:
            show: dict[str, Callable[[], str]] = {
                "warps": lambda: inspection.warps(session),
                "threads": lambda: inspection.threads(session),
                "barriers": lambda: inspection.barriers(session),
                "cta": lambda: inspection.cta(session),
                "locals": lambda: inspection.variables(session),
                "registers": lambda: inspection.registers(session, rest.strip()),
            }
            self.say(show[name]())

    def help_info(self) -> None:
        self.say("\n".join(["info WHAT:", *(f"  {name:<12} {text}" for name, text in _INFO.items())]))

    def do_help(self, arg: str) -> None:
        """help [COMMAND]: what commands there are, and what one does."""
        if arg:
            arg = SHORT.get(arg, arg)
            if hasattr(self, f"help_{arg}"):
                getattr(self, f"help_{arg}")()
                return
            method = getattr(self, f"do_{arg}", None)
            if method is None:
                self.default(arg)
            text = method.__doc__ or ""
            self.say("\n".join(line.strip() for line in text.split("\n")))
            return
        short: dict[str, list[str]] = {}
        for key, name in SHORT.items():
            short.setdefault(name, []).append(key)
        for name in sorted(
            each[3:] for each in self.get_names() if each.startswith("do_") and each != "do_EOF"
        ):
            first = (getattr(self, f"do_{name}").__doc__ or "").split("\n")[0]
            also = f"   ({', '.join(short[name])})" if name in short else ""
            self.say(f"  {first}{also}")

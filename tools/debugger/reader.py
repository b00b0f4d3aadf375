"""Reads the commands of the debugger: those of scripts first, then those of a terminal or a file."""

import cmd
import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from weft.errors import WeftError
from weft.isa.suggest import did_you_mean
from weft.tools import cli
from weft.tools.debugger.session import Quit, Session

SHORT = {
    "b": "break",
    "tb": "tbreak",
    "c": "continue",
    "cont": "continue",
    "s": "step",
    "n": "next",
    "si": "stepi",
    "ni": "nexti",
    "fin": "finish",
    "u": "until",
    "advance": "until",
    "p": "print",
    "l": "list",
    "w": "where",
    "bt": "where",
    "backtrace": "where",
    "i": "info",
    "d": "delete",
    "cl": "delete",
    "q": "quit",
    "exit": "quit",
    "h": "help",
    "fragment": "matrix",
    "m": "matrix",
    "thread": "focus",
    "EOF": "EOF",
}


class OutputError(WeftError):
    """Stdout takes nothing, so the session ends."""


class Reader(cmd.Cmd):
    """Reads commands: first those of `commands`, then those of `stdin`."""

    prompt = "(weft) "

    def __init__(self, commands: Iterable[str], stdin: TextIO, *, echo: bool) -> None:
        super().__init__(stdin=stdin)
        self.session: Session
        self._queue, self._echo = list(commands), echo
        self.use_rawinput = stdin.isatty() and stdin is sys.stdin

    # Front

    def say(self, text: str) -> None:
        """Prints a text. Raises OutputError where nothing takes it."""
        try:
            cli.say(text.rstrip())
        except WeftError as error:
            raise OutputError(*error.diagnostics) from None

    def interact(self) -> None:
        while True:
            try:
                self.cmdloop()
                return
            except KeyboardInterrupt:
                self.say("quit ends the session")

    # Reading

    def cmdloop(self, intro: Any = None) -> None:
        while self._queue:
            line = self._queue.pop(0).strip()
            if line and not line.startswith("#"):
                if self._echo:
                    self.say(f"{self.prompt}{line}")
                if self.onecmd(line):
                    return
        if not self.use_rawinput and not self.stdin.isatty():
            self._read()
            return
        super().cmdloop(intro)

    def _read(self) -> None:
        """Carries out lines of a file, with each shown."""
        while line := self.stdin.readline():
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            self.say(f"{self.prompt}{line}")
            if self.onecmd(line):
                return
        self.do_EOF("")

    def onecmd(self, line: str) -> bool:
        try:
            return bool(super().onecmd(line))
        except OutputError:
            raise
        except WeftError as error:
            self.say(f"error: {error.diagnostics[0].message}")
            return False

    def parseline(self, line: str) -> tuple[str | None, str | None, str]:
        line = line.strip()
        word = re.match(r"[A-Za-z]+", line)
        if word is not None and word[0] in SHORT and word[0] != "EOF":
            line = SHORT[word[0]] + line[word.end() :]
        if line.startswith("print/"):
            line = f"print {line[5:]}"
        return super().parseline(line)

    def default(self, line: str) -> None:
        word = line.split()[0]
        known = sorted(name[3:] for name in self.get_names() if name.startswith("do_") and name != "do_EOF")
        raise WeftError(f"no command '{word}'{did_you_mean(word, known)}: help lists them")

    def do_quit(self, argument: str) -> None:
        """quit: ends the kernel and the program."""
        self.session.ends = True
        raise Quit

    def do_EOF(self, argument: str) -> None:
        """The end of the input ends the session."""
        self.say("end of input: the session ends")
        self.do_quit("")

"""Random kernels of Python's statements over integers, lists, dictionaries and objects.

They compute what Python does for each thread, or are refused at a line.
"""

import random
import sys
import traceback
import types
from typing import Any

import everywhere
import numpy as np
from everywhere import begin

__all__ = ["attempt", "begin", "make"]

THREADS = 32
MOST = 2**30
"""Programs with larger numbers aren't compared: those of a GPU wrap around."""
ROWS = 40
"""The most values that a program stores in each thread."""
HEAD = """from __future__ import annotations

import contextlib
import dataclasses


class Plain:
    def __init__(self, f, g):
        self.f, self.g = f, g

    def step(self, by):
        self.f = self.f + by

    @w.inline
    def grow(self, by):
        if by > 1:
            self.g = self.g + by
        return self.g


@dataclasses.dataclass
class Data:
    f: object
    g: object

    def step(self, by):
        self.f = self.f + by

    @w.inline
    def grow(self, by):
        for _ in w.range(2):
            self.g = self.g + by
        return self.g


class Slots:
    __slots__ = ("f", "g")

    def __init__(self, f, g):
        self.f, self.g = f, g

    def step(self, by):
        self.f = self.f + by

    @w.inline
    def grow(self, by):
        self.g = self.g + (1 if by > 2 else 0)
        return self.g


def plainly(s, v):
    s[0] = s[0] + v
    return s


def twice(v, kept=None):
    kept = [v] if kept is None else kept
    return kept[0] + v


@w.inline
def early(s, v):
    if v > 2:
        s[1] = s[1] + v
        return s[0]
    if v > 0:
        return v
    s[0] = v
    return s[1]


@w.inline
def first(s, v):
    for z in s:
        v = v + (z if z > v else 1)
    return v


@w.inline
def loops(s, v):
    for k in w.range(2):
        s[0] = s[0] + k
        v = v + s[0]
    return v


@contextlib.contextmanager
def doubled(s):
    s[1] = s[1] + 1
    yield s
    s[1] = s[1] - 2


@w.kernel(threads=32)
def kernel(x: w.In["n", w.i32], y: w.Out["k n", w.i32]):
    i = w.thread()
"""
_START = [
    ("a", ["x[i]", "w.i32(0)", "i % 5"]),
    ("b", ["x[i] - 3", "w.i32(2)", "x[i] * i", "x[i]"]),
    ("c", ["i", "w.i32(1)", "i - 2"]),
    ("s", ["[a, b]", "[c, w.i32(0)]"]),
    ("q", ["s", "[c, b]", "s", "list(s)"]),
    ("t", ["[x[i], i % 3]", "q"]),
    ("rows", ["[s, [b, c]]", "[[a, b], [c, a]]", "[[c, c], [b, a]]", "[s, s]"]),
    ("r", ["rows[0]", "rows[1]"]),
    ("d", ["{'u': a, 'v': b}", "{'u': c, 'v': c}"]),
    ("e", ["{'l': s, 'm': [a, b]}", "{'l': [c, c], 'm': t}"]),
    ("o", ["Plain(a, b)", "Data(a, c)", "Plain(c, b)", "Slots(c, c)"]),
    ("p", ["o", "type(o)(b, a)"]),
    ("h", ["Plain(s, q)", "Data(t, [a, c])"]),
    ("pair", ["(s, a)", "([c, b], b)"]),
    ("n", ["0", "3"]),
]

_PLACES = "a b c s[0] s[1] q[0] q[1] t[0] rows[0][1] rows[1][0] r[0] r[1] d['u'] d['v'] e['l'][0] e['m'][1]"
_PLACES = f"{_PLACES} o.f o.g p.f p.g h.f[0] h.g[1] pair[0][1] a b c a b c s[0] q[0] o.f a b c n".split()
_LISTS = ["s", "q", "t", "rows[0]", "rows[1]", "h.f", "h.g", "pair[0]"]
_SWAPPED = ["a b", "s q", "s[0] s[1]", "rows[0] rows[1]", "o.f o.g", "o p", "d['u'] d['v']", "q[0] t[0]"]
_SWAPPED += ["h.f h.g"]
_CALLS = ["changes({v})", "inner({v})", "early({l}, {v})", "plainly({l}, {v})", "o.step({v})", "p.grow({v})"]
_CALLS += ["a = loops({l}, {v})", "{l}.__setitem__(0, {v})", "d.update(u={v})", "setattr(o, 'f', {v})"]
_SIZED = [
    "s.append({v})",
    "s.pop()",
    "t += [{v}]",
    "q.reverse()",
    "q.insert(0, {v})",
    "del s[0]",
    "del d['u']",
]
_SIZED += ["o.extra = {v}", "q[:] = [{v}, a]", "s[0:1] = [{v}]", "rows.reverse()", "d['w'] = {v}"]
_SIZED += ["d |= {{'u': {v}}}", "rows.append(s)"]


class Program:
    """A random program; `text` is its source."""

    def __init__(self, chance, calm):
        self._random = chance
        self._count = 0
        self._calm = calm  # most programs seldom assign objects, so that they aren't refused
        lines = [f"{name} = {self._one(values)}" for name, values in _START]
        lines += self._functions()
        for _ in range(self._random.randint(3, 7)):
            lines += self._statement(0)
        lines += self._ends()
        self.text = HEAD + "".join(f"    {line}\n" for line in lines)

    def _one(self, among):
        return self._random.choice(among)

    def _functions(self):
        number = self._one(["a", "b"])
        kept = self._one(["s", "t", "rows[1]", "e"])
        key = "'m'" if kept == "e" else "0"
        changed = f"{kept}[{key}]{'[1]' if kept == 'e' else ''}"
        return [
            *("def inner(v):", f"    nonlocal {number}", f"    {number} = {number} + v", "    return v + 1"),
            *("def changes(v):", f"    {changed} = {changed} + v", "    if v > 1:"),
            f"        {changed} = {changed} + 1",
            *("def keeps(v, seen=[0, 0]):", f"    seen = {self._one(['q', 'seen[:]', '[v, v]'])}"),
            *("    seen[0] = seen[0] + v", "    return seen[0]"),
        ]

    # Expressions

    def _place(self):
        """A number that can be assigned."""
        return self._one(_PLACES)

    def _value(self, depth=0):
        if depth > 1 or self._random.random() < 0.35:
            number = self._random.randint(-2, 4)
            constant = str(number) if self._random.random() < 0.2 else f"w.i32({number})"
            return self._one([self._place(), self._place(), "i", "x[i]", constant])
        value = lambda: self._value(depth + 1)  # noqa: E731
        kind = self._random.randrange(16)
        if kind < 6:
            return f"({value()} {self._one(['+', '-', '+', '&', '|', '^'])} {value()})"
        if kind == 6:
            return f"({value()} % {self._random.randint(2, 7)})"
        if kind == 7:
            return f"({value()} // {self._random.randint(2, 4)})"
        if kind == 8:
            return f"({value()} if {self._condition(depth + 1)} else {value()})"
        if kind == 9:
            name = self._one(["s", "q", "t", "h.f", "rows[0]"])
            return f"sum([z + {value()} for z in {name}])"
        if kind == 10:
            return f"{self._one(['early', 'first', 'loops'])}({self._one(_LISTS[:4])}, {value()})"
        if kind == 11:
            return f"{self._one(['inner', 'keeps', 'twice'])}({value()})"
        if kind == 12:
            return f"{self._one(['o', 'p'])}.grow({value()})"
        if kind == 13:
            return f"({value()} {self._one(['and', 'or'])} {value()})"
        if kind == 14:
            return f"{self._one(['plainly'])}({self._one(['s', 'q', 't'])}, {value()})[0]"
        return f"-{value()}"

    def _condition(self, depth=0):
        value = lambda: self._value(depth + 1)  # noqa: E731
        compare = self._one(["<", "<=", ">", ">=", "==", "!="])
        kind = self._random.randrange(10) if depth < 2 else 0
        if kind < 4:
            return f"({value()} {compare} {value()})"
        if kind == 4:
            return f"({value()} < {value()} <= {value()})"
        if kind == 5:
            return f"({self._condition(depth + 1)} {self._one(['and', 'or'])} {self._condition(depth + 1)})"
        if kind == 6:
            return f"(not {self._condition(depth + 1)})"
        if kind == 7:
            return self._one(["q is s", "p is o", "len(s) > 1", "t is not q", "r is rows[0]", "n in (1, 3)"])
        if kind == 8:
            among = [
                f"(1, {value()})",
                f"[{value()}, 0, 3]",
                "{0, 2, 3}",
                "range(-1, 4, 2)",
                "[*s, *d.values()]",
            ]
            return f"({value()} {self._one(['in', 'not in'])} {self._one(among)})"
        return self._value(1)

    # Statements

    def _block(self, depth):
        lines = []
        for _ in range(self._random.randint(1, 3)):
            lines += self._statement(depth + 1)
        return [f"    {line}" for line in lines]

    def _fresh(self):
        self._count += 1
        return f"z{self._count}"

    def _statement(self, depth):
        kind = self._random.randrange(24 if depth < 3 else 14)
        if self._calm and kind in (6, 7, 8, 11):
            kind = 0
        if kind < 4:
            return [f"{self._place()} = {self._value()}"]
        if kind < 6:
            return [f"{self._place()} {self._one(['+=', '-='])} {self._value()}"]
        if kind < 8:
            return [self._alias()]
        if kind < 9:
            return [self._swap()]
        if kind < 11:
            return [self._call()]
        if kind < 12:
            return [self._sized()]
        if kind < 13:
            return [f"y[{self._random.randrange(8)}, i] = {self._value()}"]
        if kind < 14:
            return self._local()
        if kind < 17:
            return self._if(depth)
        if kind < 19:
            bound = self._one(["2", "3", "1", "x[i] % 3", "i % 3", "a % 3", "s[0] % 2"])
            unroll = self._one(["", "", ", unroll=2"]) if bound.isdigit() else ""
            name = self._one(["k", "k", "c"])
            return [f"for {name} in w.range({bound}{unroll}):", *self._block(depth)]
        if kind < 20:
            return self._while(depth)
        if kind < 21:
            over = self._one(
                [
                    "range(2)",
                    "list(s)",
                    "list(rows)",
                    "zip(list(s), q)",
                    "enumerate(t[:])",
                    "d",
                    "q[::-1]",
                    "[s, q]",
                ]
            )
            name = self._one(["j", "j", "b"])
            use = [f"    {line}" for line in self._of_item(over)]
            return [
                f"for {name} in {over}:",
                *[each.replace("ITEM", name) for each in use],
                *self._block(depth),
            ]
        if kind < 22:
            return self._with(depth)
        if kind < 23:
            return self._match(depth)
        return ["try:", *self._block(depth), "finally:", *self._block(depth)]

    def _of_item(self, over):
        if over in ("list(rows)", "[s, q]"):
            return [f"ITEM[{self._random.randrange(2)}] = {self._value()}"]
        if over in ("zip(list(s), q)", "enumerate(t[:])"):
            return ["a = a + ITEM[1]"]
        return ["d[ITEM] = d[ITEM] + 1"] if over == "d" else ["a = a + ITEM"]

    def _if(self, depth):
        condition = self._condition()
        if self._random.random() < 0.15:
            name = self._fresh()
            condition = f"({name} := {self._value()}) > 1"
        lines = [f"if {condition}:", *self._block(depth)]
        if self._random.random() < 0.3:
            lines += [f"elif {self._condition()}:", *self._block(depth)]
        return lines + (["else:", *self._block(depth)] if self._random.random() < 0.6 else [])

    def _while(self, depth):
        name = self._fresh()
        limit = self._one(["2", "i % 3", "x[i] % 2 + 1"])
        more = self._one(["", "", f" and {self._condition(1)}"])
        body = self._block(depth)
        return [f"{name} = w.i32(0)", f"while {name} < {limit}{more}:", *body, f"    {name} += 1"]

    def _with(self, depth):
        name = self._one(["s", "q", "t", "rows[0]"])
        inside = f"    z = {self._value()}"
        return [f"with doubled({name}) as held:", "    held[0] = held[0] + 1", inside, *self._block(depth)]

    def _match(self, depth):
        if self._random.random() < 0.5:
            return self._match_numbers(depth)
        subject = self._one(["n", "s", "pair", "len(q)", "d"])
        patterns = {"s": "[b, *_]", "pair": "(_, c)", "d": "{'u': a}"}
        lines = [f"match {subject}:", f"    case {patterns.get(subject, '3')}:"]
        lines += [f"    {line}" for line in self._block(depth)]
        lines += ["    case _:", *[f"    {line}" for line in self._block(depth)]]
        return lines

    def _match_numbers(self, depth):
        """A match of numbers that the GPU knows, alone or in a sequence."""
        subject, first, *cases = self._one(
            [
                ("{}", "0", "1 | 2", "-1 | 3 as c"),
                ("{}", "2", "b if b > 2", "1"),
                ("{} > 1", "True"),
                ("({}, {})", "(0, 1)", "(1, b)", "[c, 2 | 3]"),
            ]
        )
        cases = [first, *cases, *self._random.sample(["_"], self._random.randrange(2))]
        lines = [f"match {subject.format(self._value(1), self._value(1))}:"]
        for each in cases:
            lines += [f"    case {each}:", *[f"    {line}" for line in self._block(depth)]]
        return lines

    def _local(self):
        """A name for an object inside others, which then changes it."""
        of = self._one(["rows[0]", "e['l']", "h.f", "pair[0]", "s", "q", "rows[1]", "h.g"])
        return [f"row = {of}", f"row[{self._random.randrange(2)}] = {self._value()}"]

    def _alias(self):
        lists = ["s", "q", "t", "rows[0]", "rows[1]", "h.f", "h.g", "pair[0]", "[a, b]", "list(q)", "[c, 1]"]
        lists += ["[z + 1 for z in s]", "s[:]", "e['m']", "sorted([2, 1])", f"plainly(t, {self._value(1)})"]
        return self._one(
            [
                f"{self._one(['s', 'q', 't', 'r', 'rows[0]', 'h.f', 'h.g'])} = {self._one(lists)}",
                f"{self._one(['q', 't'])} = {self._one(['s', 'q', 'rows[1]'])}",
                f"e['{self._one('lm')}'] = {self._one(lists)}",
                f"{self._one(['o', 'p'])} = {self._one(['o', 'p', 'type(o)(a, b)'])}",
                f"pair = ({self._one(lists)}, {self._value(1)})",
                f"rows = [{self._one(lists)}, {self._one(lists)}]",
                f"d = {{'u': {self._value(1)}, 'v': {self._value(1)}}}",
                f"q = s if {self._condition(1)} else t",
                f"s, t = {self._one(lists)}, {self._one(lists)}",
            ]
        )

    def _swap(self):
        one, other = self._one(_SWAPPED).split()
        return f"{one}, {other} = {other}, {one}"

    def _call(self):
        return self._one(_CALLS).format(l=self._one(_LISTS), v=self._value(1))

    def _sized(self):
        return self._one(_SIZED).format(v=self._value(1))

    def _ends(self):
        places = ["a", "b", "c", "n", "o.f", "o.g", "p.f", "p.g", "sum(d.values())"]
        places += [f"sum({each})" for each in ("s", "q", "t", "rows[0]", "rows[1]", "h.f", "h.g", "pair[0]")]
        places += [f"{each}[0]" for each in ("s", "q", "t", "rows[0]", "rows[1]", "h.f", "h.g", "pair[0]")]
        return [f"y[{8 + number}, i] = {place}" for number, place in enumerate(places)]


class InPython:
    """What stands for `weft.language` where Python runs a program, for one thread after the other."""

    number = 0
    i32 = int

    def __getattr__(self, name):
        return _Type

    def thread(self):
        """The number of the thread."""
        return self.number

    def inline(self, function):
        """The function as it is."""
        return function

    def kernel(self, **_):
        """A decorator that returns the function as it is."""
        return lambda function: function

    def range(self, count, unroll=1):
        """The numbers of a loop."""
        return range(count)


class _Type:
    def __class_getitem__(cls, _):
        return None


def _given() -> Any:
    return (np.arange(THREADS, dtype=np.int32) * 7) % 9 - 3


def in_python(text: str) -> Any:
    """What a program stores, run by Python; None where that raises an error, or numbers are too large."""
    stored: dict[Any, int] = {}
    language, result = InPython(), np.zeros((ROWS, THREADS), np.int64)
    try:
        for language.number in range(THREADS):
            # Dataclasses look for the module of their class.
            module = sys.modules["random_statements"] = types.ModuleType("random_statements")
            module.__dict__["w"] = language
            exec(compile(text, everywhere.FILE, "exec"), module.__dict__)
            module.kernel(_given().tolist(), stored)
        for where, value in stored.items():
            result[where] = value
    except (ArithmeticError, AttributeError, LookupError, NameError, RuntimeError, TypeError, ValueError):
        return None
    return result if np.abs(result).max() < MOST else None


def make(number: int) -> str:
    """The input of this number."""
    chance = random.Random(number)
    return f"{everywhere.chip_line(chance)}\n{Program(chance, number % 4 > 0).text}"


def attempt(text: str) -> str:
    """Runs it, and compares what it stores."""
    import weft.language as w
    from weft.errors import WeftError

    expected = in_python(text)
    if expected is None:
        return "not run by Python"

    def run(module: Any, launch: Any) -> list[str]:
        found = np.zeros((ROWS, THREADS), np.int32)
        launch(module.kernel, _given(), found)
        return [f"y[{row}, {thread}]" for row, thread in np.argwhere(found != expected)[:1]]

    try:
        return everywhere.check(text, run, w=w)
    except WeftError as error:
        where = error.diagnostics[0].location
        assert where is not None and where.file.endswith(everywhere.FILE), error
        return "refused"
    except (AttributeError, LookupError, TypeError) as error:  # in a branch that Python leaves out
        if traceback.extract_tb(error.__traceback__)[-1].filename.endswith(everywhere.FILE):
            return "refused by Python"
        raise

"""Faults in the protocol of a kernel for tensor memory: changes of each step of its PTX.

Each step of the protocol is a line of PTX: a commit, a fence, a wait, an arrival, a count, a number of bytes,
an allocation. `of` yields every change of each of them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_DROPPED = {
    "tcgen05.commit": "no commit",
    "tcgen05.fence::before": "no fence before",
    "tcgen05.fence::after": "no fence after",
    "tcgen05.wait": "no wait for tcgen05.ld or st",
    "tcgen05.dealloc": "no dealloc",
    "tcgen05.relinquish": "no relinquish",
    "fence.mbarrier_init": "no fence of inits",
    "fence.proxy.async": "no proxy fence",
    "mbarrier.arrive": "no arrival",
    "mbarrier.try_wait": "no wait in its loop",
    "bar.sync": "no barrier",
    "barrier.sync": "no barrier",
    "bar.warp.sync": "no barrier of a warp",
    "cp.async.bulk.tensor": "no copy",
    "cp.async.bulk.commit_group": "no group of stores",
    "cp.async.bulk.wait_group": "no wait for stores",
    "clusterlaunchcontrol.try_cancel": "no request for a launch",
    "griddepcontrol.wait": "no wait for the previous launch",
}
_CLUSTER = ("barrier.cluster.arrive", "barrier.cluster.wait")
STEPS = (
    *sorted(set(_DROPPED.values())),
    "another mask",
    "a wait that always passes",
    "a wait for the other phase",
    "another number of bytes",
    "another count",
    "another number of columns",
    "no barrier of a cluster",
)
"""All kinds of changes."""


@dataclass(frozen=True)
class ProtocolFault:
    """A change of a kernel, of the step that a line of its PTX makes."""

    step: str
    line: int
    was: str
    text: str

    def __str__(self) -> str:
        return f"{self.step}: line {self.line}: {self.was}"


def of(ptx: str, step: str) -> Iterator[ProtocolFault]:
    """The faults of one kind in a kernel's PTX."""
    lines = ptx.splitlines()
    for at, line in enumerate(lines):
        words = re.sub(r"^@!?%\w+\s+", "", line.strip())
        for change in _changes(lines, at, words, step):
            text = "\n".join([*lines[:at], *change, *lines[at + len(change) :]])
            yield ProtocolFault(step, at + 1, words, text)


def _changes(lines: list[str], at: int, words: str, step: str) -> Iterator[list[str]]:
    """What replaces as many lines from `at` on."""
    if any(words.startswith(opcode) and step == kind for opcode, kind in _DROPPED.items()):
        yield [""]
    if words.startswith("tcgen05.commit") and "multicast" in words and step == "another mask":
        yield from ([_with(lines[at], r"(%rs\d+);", "b16", f"xor.b16 {{}}, {{}}, {bit};")] for bit in (1, 2))
    if words.startswith("mbarrier.try_wait"):
        result = re.search(r"%p\d+", words)
        assert result is not None
        if step == "a wait that always passes":
            yield [f"mov.pred {result[0]}, 1;"]
        if step == "a wait for the other phase":
            yield [_with(lines[at], r"(%r\d+);", "b32", "xor.b32 {}, {}, 1;")]
    if "expect_tx" in words and words.startswith("mbarrier") and step == "another number of bytes":
        for change in ("shr.u32 {}, {}, 1;", "add.u32 {}, {}, 16;", "sub.u32 {}, {}, 16;"):
            yield [_with(lines[at], r"(%r\d+|\d+);", "b32", change)]
    if words.startswith("mbarrier.init") and step == "another count":
        yield [_with(lines[at], r"(%r\d+|\d+);", "b32", "add.u32 {}, {}, 1;")]
        if _constant(lines, words) != 1:
            yield [_with(lines[at], r"(%r\d+|\d+);", "b32", "sub.u32 {}, {}, 1;")]
    if words.startswith("tcgen05.alloc") and step == "another number of columns":
        yield [_with(lines[at], r"(%r\d+|\d+);", "b32", "shr.u32 {}, {}, 1;")]
    if words.startswith(_CLUSTER[0]) and step == "no barrier of a cluster":
        wait = next(n for n in range(at, len(lines)) if _CLUSTER[1] in lines[n])
        yield ["", *lines[at + 1 : wait], ""]


def _with(line: str, operand: str, kind: str, change: str) -> str:
    """A line whose last operand is changed first."""
    found = re.search(operand + "$", line.strip())
    assert found is not None, line
    changed = line.strip()[: found.start(1)] + "%fault;"
    return f"{{ .reg .{kind} %fault; {change.format('%fault', found[1])} {changed} }}"


def _constant(lines: list[str], words: str) -> int | None:
    """The last operand, if it is a constant."""
    operand = words.rstrip(";").split()[-1]
    if operand.isdigit():
        return int(operand)
    values = {m[1] for m in (re.search(rf"mov\.b32\s+{operand}, (\d+);", line) for line in lines) if m}
    return int(values.pop()) if len(values) == 1 else None

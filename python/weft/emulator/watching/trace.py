"""The trace of a launch: a timeline for Chrome's and Perfetto's viewers, and counters."""

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.emulator.decoding.program import Program
from weft.emulator.memory.segments import Access
from weft.emulator.reading.syntax import Bools
from weft.emulator.running.ctas import Launch
from weft.emulator.running.wave import Wave
from weft.emulator.watch import Cells, Chunks, UnitAccess, Watch
from weft.emulator.watching.variables import instructions
from weft.isa.chips import CHIPS
from weft.system import output_files, processes

_BANKS = 32
_BANK_BYTES = 4
_MOST_EVENTS = 1_000_000
_CLASSES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("tensor", ("mma", "wmma", "wgmma", "tcgen05")),
    ("async", ("cp", "mbarrier", "multimem", "clusterlaunchcontrol")),
    ("memory", ("ld", "ldu", "st", "atom", "red", "prefetch", "ldmatrix", "stmatrix")),
    ("barrier", ("bar", "barrier", "fence", "membar", "griddepcontrol")),
    ("exchange", ("shfl", "vote", "match", "redux", "elect", "activemask", "movmatrix")),
    ("control", ("bra", "brx", "call", "ret", "exit", "trap", "nanosleep", "setmaxnreg")),
)
_CLASS = {opcode: name for name, opcodes in _CLASSES for opcode in opcodes}
_RANK = ("tensor", "async", "barrier", "memory", "exchange", "control", "arithmetic")
_LEAVING = ("ret", "exit", "trap")
_UNTOLD_SPACES = {"global", "const", "param", "local"}
_TENSOR = ("mma", "wmma.mma", "wgmma.mma_async", "tcgen05.mma")


def instruction_class(opcode: str) -> str:
    """The class of an opcode: tensor, async, memory, barrier, exchange, control or arithmetic."""
    return _CLASS.get(opcode.partition(".")[0], "arithmetic")


def bank_wavefronts(address: npt.NDArray[np.uint64], mask: Bools, width: int) -> tuple[int, int]:
    """The number of passes that a warp's shared accesses take, and the number without bank conflicts.

    Lanes that access the same 4-byte word share its pass. Accesses of 8 bytes are executed by half warps, of
    16 bytes by quarter warps.
    """
    words = max(1, width // _BANK_BYTES)
    passes = least = 0
    for part in range(0, 32, 32 // words):
        chosen = mask[part : part + 32 // words]
        if not chosen.any():
            continue
        first = address[part : part + 32 // words][chosen] // np.uint64(_BANK_BYTES)
        distinct = np.unique(first[:, None] + np.arange(words, dtype=np.uint64))
        passes += int(np.bincount((distinct % np.uint64(_BANKS)).astype(np.intp)).max())
        least += 1
    return passes, least


class Recorder:
    """Records all waves of a launch; times are in executed instructions of the wave, as microseconds.

    Raises WeftError at once for a file that can't be written, because a launch takes long.
    """

    def __init__(self, path: "str | os.PathLike[str]", program: Program, launch: Launch) -> None:
        self.path, self.program, self.launch = Path(path), program, launch
        self._written(output_files.check_writable)
        self.events: list[dict[str, Any]] = []
        self.dropped = 0
        self.counts: Counter[str] = Counter()
        self.tensor = [sum(op.startswith(_TENSOR) for op in block.opcodes) for block in program.blocks]
        self.classes = [Counter(map(instruction_class, block.opcodes)) for block in program.blocks]
        self.labels = [next((name for name in _RANK if name in own), "arithmetic") for own in self.classes]
        """The most significant class of each block."""
        self.told = told_blocks(program)
        """The blocks that the interpreter must run for the trace."""

    def watch(self, wave: Wave) -> Watch:
        """The observer that records a wave."""
        return _Trace(self, wave)

    def add(self, event: dict[str, Any]) -> None:
        """Records an event, up to a limit."""
        if len(self.events) < _MOST_EVENTS:
            self.events.append(event)
        else:
            self.dropped += 1

    def counters(self) -> dict[str, int]:
        """Instructions by class, tensor operations, bank conflicts, and CTAs on a multiprocessor."""
        return dict(sorted(self.counts.items())) | _occupancy(self.program.chip, self.launch)

    def write(self) -> None:
        """Writes the file, completely or not at all. Raises WeftError if it can't be written."""
        other = {"counters": self.counters(), "dropped events": self.dropped, "target": self.program.target}
        other |= {"chip": self.program.chip}
        content = {"traceEvents": self.events, "displayTimeUnit": "ns", "otherData": other}
        self._written(lambda path: output_files.write(path, json.dumps(content).encode()))

    def _written(self, action: Callable[[Path], None]) -> None:
        try:
            action(self.path)
        except OSError as error:
            raise processes.refusal(f"cannot write the trace '{self.path}'", error) from None


def told_blocks(program: Program) -> Bools:
    """The blocks in which something happens that a trace records, beside that they are executed."""
    told = np.zeros(len(program.blocks), np.bool_)
    for (at, _), instruction in instructions(program):
        words = instruction.opcode.split(".")
        kind = instruction_class(instruction.opcode)
        own = not _UNTOLD_SPACES.isdisjoint(words)
        told[at] |= kind in ("tensor", "async", "barrier") or (kind == "memory" and not own)
        told[at] |= words[0] in _LEAVING
    for at, block in enumerate(program.blocks):
        told[at] |= not block.waits and not block.end.targets
    return told


class _Trace(Watch):
    """The trace of one wave. Each warp is a track; a span is the time in which it ran blocks of one class."""

    def __init__(self, recorder: Recorder, wave: Wave) -> None:
        self.recorder, self.wave = recorder, wave
        self.clock = 0
        self.open: dict[int, tuple[str, int, int, int]] = {}
        self.tracks = [
            (int(wave.cta_numbers[c]), int(w)) for c, w in zip(wave.cta_of_row, wave.warp_of_row, strict=True)
        ]
        for cta, warp in self.tracks:
            if warp == 0:
                self._name("process_name", cta, 0, f"block {cta}")
            self._name("thread_name", cta, warp, f"warp {warp}")

    def _name(self, kind: str, cta: int, warp: int, name: str) -> None:
        self.recorder.add({"ph": "M", "name": kind, "pid": cta, "tid": warp, "args": {"name": name}})

    def executed(self, block: int, warps: npt.NDArray[np.intp], clock: int) -> None:
        recorder, began = self.recorder, self.clock
        self.clock = clock
        count = len(warps)
        for name, times in recorder.classes[block].items():
            recorder.counts[f"class.{name}"] += times * count
        if recorder.tensor[block]:
            recorder.counts["tensor_operations"] += recorder.tensor[block] * count
        label, line = recorder.labels[block], recorder.program.blocks[block].line
        for row in warps.tolist():
            known = self.open.get(row)
            if known is not None and known[0] == label and known[2] == began:
                self.open[row] = label, known[1], clock, known[3]
                continue
            self._close(row, known, began)
            self.open[row] = label, began, clock, line

    def _close(self, row: int, span: tuple[str, int, int, int] | None, now: int) -> None:
        """Ends a warp's span; the time from there to `now` is a wait."""
        if span is None:
            return
        label, began, ended, line = span
        self._span(row, label, began, ended, line)
        if now > ended:
            self._span(row, "wait", ended, now, line)

    def _span(self, row: int, name: str, began: int, ended: int, line: int) -> None:
        cta, warp = self.tracks[row]
        self.recorder.add(
            {"ph": "X", "name": name, "cat": name, "pid": cta, "tid": warp, "ts": began, "dur": ended - began}
            | {"args": {"line": line}}
        )

    def _instant(self, row: int, name: str, category: str, args: dict[str, Any]) -> None:
        cta, warp = self.tracks[row]
        self.recorder.add(
            {"ph": "i", "s": "t", "name": name, "cat": category, "pid": cta, "tid": warp, "ts": self.clock}
            | {"args": args}
        )

    def access(self, access: Access) -> None:
        if access.space != "shared":
            return
        lanes, counts = access.lanes, self.recorder.counts
        enabled = lanes.enabled()
        for at in range(lanes.warps):
            passes, least = bank_wavefronts(access.address[at], enabled[at], access.width)
            counts["shared.accesses"] += 1 if least else 0
            counts["shared.wavefronts"] += passes
            counts["shared.bank_conflicts"] += passes - least
            if passes > least:
                counts[f"shared.bank_conflicts.line_{access.line}"] += passes - least

    def async_access(self, access: UnitAccess) -> None:
        row, offsets = int(access.threads.argmax()) // 32, access.offsets
        size = len(offsets) if isinstance(offsets, Chunks | Cells) else int(np.size(offsets))
        self.recorder.counts[f"async.{access.proxy}.{access.space}.{access.kind}"] += size
        args = {"line": access.line, "space": access.space, "elements": size}
        self._instant(row, f"{access.proxy} {access.kind}", "async", args)

    def async_done(self, proxy: str, threads: Bools, line: int, pending: int = 0) -> None:
        for row in np.flatnonzero(threads.any(axis=1)).tolist():
            self._instant(row, f"{proxy} waited", "async", {"line": line, "pending": pending})

    def barrier(self, name: str, arrived: Bools, released: Bools, line: int) -> None:
        for row in np.flatnonzero(released.any(axis=1)).tolist():
            self._instant(row, name, "barrier", {"line": line})

    def mbarrier(self, event: str, cta: int, offset: int, threads: Bools | None, line: int) -> None:
        if event in ("init", "phase", "observe", "observe_relaxed"):
            row = self.wave.rows_of(cta).start if threads is None else int(threads.argmax()) // 32
            self._instant(row, f"mbarrier {event}", "barrier", {"line": line, "offset": offset})

    def done(self) -> None:
        for row, span in self.open.items():
            self._close(row, span, span[2])
        self.open = {}


def _occupancy(target: str, launch: Launch) -> dict[str, int]:
    """The CTAs of a launch that a multiprocessor holds at most, by its threads and its shared memory."""
    chip = CHIPS.get(target)
    if chip is None:
        return {}
    by_threads = chip.sm_threads // (launch.warps * 32)
    limits = {"occupancy.blocks_by_threads": by_threads}
    blocks = by_threads
    if launch.shared_bytes:
        by_shared = chip.sm_shared_bytes // launch.shared_bytes
        limits["occupancy.blocks_by_shared"] = by_shared
        blocks = min(blocks, by_shared)
    most = blocks * launch.warps * 32 * 100 // chip.sm_threads
    return limits | {"occupancy.blocks": blocks, "occupancy.percent": most}

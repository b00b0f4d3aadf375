"""What the commands of the debugger show: threads, registers, memory, barriers."""

import re
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from weft.emulator.errors import inlined_of_lines
from weft.emulator.running.lanes import lanes_in_words, ranges
from weft.emulator.watching.stopped import Cta, MbarrierState, Stopped, WarpState
from weft.errors import WeftError
from weft.isa.suggest import did_you_mean
from weft.tools.debugger import expressions, matrices, operands, source_files
from weft.tools.debugger.expressions import Tile
from weft.tools.debugger.names import Threads, visible
from weft.tools.debugger.session import Session
from weft.tools.debugger.source_files import shown_path

_AROUND = 5
_MOST_REGISTERS = 24
_SWIZZLES = ("128B", "64B", "32B", "128B_32B")
_TILE = re.compile(r"(\d+)x(\d+)x([A-Za-z]\w*)")
FORMATS = {"x": "hexadecimal", "d": "decimal", "f": "as a float", "w": "of all lanes of the warp"}


def printed(session: Session, text: str, formats: str) -> str:
    """The value of an expression, of the thread or the warp in focus."""
    node = expressions.parsed(text)
    stopped, row, lane = session.thread()
    whole = "w" in formats
    threads = Threads.warp(stopped, row) if whole else Threads.one(stopped, row, lane)
    value = expressions.evaluated(node, session.names(threads))
    if isinstance(value, Tile):
        title = f"{value.title}\n" if value.title else ""
        return title + matrices.text_of(value.matrix)
    if isinstance(value, tuple):
        parts = [_number(np.asarray(part).reshape(-1)[0], "") for part in value]
        return f"{expressions.shown(node)} = ({', '.join(parts)})"
    name = expressions.shown(node)
    if not whole:
        return f"{name} = {_number(np.asarray(value).reshape(-1)[0], formats)}"
    values = np.broadcast_to(np.asarray(value), 32)
    rows = [
        f"  lanes {first:>2}-{first + 7:<2} "
        + "  ".join(_number(each, formats) for each in values[first : first + 8])
        for first in range(0, 32, 8)
    ]
    return "\n".join([f"{name} in cta {session.focus.cta} warp {session.focus.warp}", *rows])


def _number(value: npt.ArrayLike, formats: str) -> str:
    """A number in text."""
    value = np.asarray(value)[()]
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if "x" in formats and value.dtype.kind in "iu":
        width = value.dtype.itemsize
        return f"0x{int(value) % (1 << 8 * width):0{2 * width}x}"
    if "f" in formats and value.dtype.kind in "iu" and value.dtype.itemsize in (4, 8):
        value = value.view(np.dtype(f"f{value.dtype.itemsize}"))
    if value.dtype.kind == "f":
        return f"{float(value):.7g}"
    if value.dtype.kind == "V":
        return f"0x{int.from_bytes(value.tobytes(), 'little'):032x}"
    return str(value)


def variables(session: Session) -> str:
    """The variables that have values here."""
    stopped, row, lane = session.thread()
    names = session.names(Threads.one(stopped, row, lane))
    rows = []
    for name, variable in visible(session.variables(), stopped).items():
        if name == f"{variable.function}.{variable.name}":
            continue  # of a function that has returned
        if variable.kind == "pending":
            rows.append(f"{name}: {variable.text}")
        elif variable.kind in ("constant", "scalar"):
            rows.append(f"{name} = {_number(np.asarray(names.value(name)).reshape(-1)[0], '')}")
        else:
            tile = names.value(name)
            assert isinstance(tile, Tile)
            rows.append(tile.title)
    assert session.launched is not None
    for name, array in session.launched.arrays.items():
        if name in visible(session.variables(), stopped):
            continue
        rows.append(f"{name}: array of {matrices.size_of(array.shape)} {array.dtype}")
    return "\n".join(rows) or "no variables have values here: info registers shows registers"


def registers(session: Session, pattern: str) -> str:
    """Registers of the thread in focus whose names match a pattern; by default those of the block."""
    stopped, row, lane = session.thread()
    known = stopped.registers()
    if pattern:
        try:
            chosen = [name for name in known if re.fullmatch(pattern.replace("%", ""), name.lstrip("%"))]
        except re.error as error:
            raise WeftError(
                f"expects a regular expression such as r[0-9]+, got '{pattern}': {error}"
            ) from None
        if not chosen:
            raise WeftError(f"no register matches '{pattern}'{did_you_mean(pattern, known)}")
    else:
        program = stopped.machine.program
        code = program.codes[stopped.function]
        slots = {code.base + register.index: name for name, register in known.items()}
        traffic = program.blocks[stopped.position[0]].traffic
        used = [slot for each in traffic for slot in (*each.reads, *each.writes)]
        chosen = [slots[slot] for slot in dict.fromkeys(used) if slot in slots]
    names = session.names(Threads.one(stopped, row, lane))
    rows = []
    for name in chosen[: None if pattern else _MOST_REGISTERS]:
        bits, size = names.bits(name)
        value = np.asarray(names.value(name))
        float_ = f"  f32 {_number(bits[0], 'f')}" if size == 32 else ""
        hexadecimal = "" if size == 1 else f"  {_number(bits[0], 'x')}"
        rows.append(f"{name:<8} .{known[name].type.name:<5} {_number(value[0], '')}{hexadecimal}{float_}")
    left = 0 if pattern else len(chosen) - _MOST_REGISTERS
    return "\n".join(rows + ([f"and {left} more: info registers PATTERN"] if left > 0 else []))


def points(session: Session) -> str:
    """Breakpoints and watchpoints."""
    return "\n".join(map(str, session.points)) or "no breakpoints"


def findings(session: Session) -> str:
    """What the sanitizer has found."""
    return "\n".join(map(str, session.findings)) or "the sanitizer has found nothing so far"


def operand(session: Session, words: Sequence[str]) -> str:
    """Operands of a tensor-core instruction as matrices: `[NAME] [LINE] [TYPE]`."""
    stopped, row, lane = session.thread()
    line = next((int(word) for word in words if word.isdigit()), None)
    rest = [word for word in words if not word.isdigit()]
    at = operands.site(stopped, operands.nearest(stopped, line), row, lane)
    here = f"PTX line {at.line}: {session.ptx_line(at.line).split(' {')[0]}"
    if not rest:
        return f"{here}\nmatrices: {', '.join(operands.names(at)) or 'none'}"
    tile = operands.matrix(at, rest[0], rest[1] if len(rest) > 1 else None)
    return f"{here}\n{tile.title}\n{matrices.text_of(tile.matrix)}"


def tile(session: Session, words: Sequence[str]) -> str:
    """A tile in memory: `shared ADDRESS ROWSxCOLUMNSxTYPE [SWIZZLE]`, or `tensor COLUMN …`."""
    usage = "tile shared ADDRESS 64x64xbf16 [128B], or tile tensor COLUMN 128x64xf32"
    if len(words) not in (3, 4) or words[0] not in ("shared", "tensor"):
        raise WeftError(f"expects {usage}")
    stopped, row, _ = session.thread()
    address = session.number_of(words[1])
    match = _TILE.fullmatch(words[2])
    if match is None:
        raise WeftError(f"expects ROWSxCOLUMNSxTYPE such as 64x64xbf16, got '{words[2]}'")
    shape, kind = (int(match[1]), int(match[2])), matrices.type_named(match[3])
    cta = int(stopped.wave.cta_of_row[row])
    size = f"{shape[0]} x {shape[1]} {kind}"
    if words[0] == "tensor":
        layout = f"S[({shape[0]},{shape[1]}):(1@TLane,1@TCol)]"
        found = matrices.from_tensor(stopped.tensor_memory(cta), layout, shape, kind, address)
        return f"{size} in {matrices.at_tensor(address)}\n{matrices.text_of(found)}"
    swizzle = words[3] if len(words) == 4 else ""
    if swizzle and swizzle not in _SWIZZLES:
        raise WeftError(f"swizzle must be one of {', '.join(_SWIZZLES)}, got '{swizzle}'")
    found = _swizzled(stopped, cta, address, shape, kind, swizzle)
    note = f", swizzle {swizzle} undone" if swizzle else ""
    return f"{size} in shared memory at 0x{address:x}{note}\n{matrices.text_of(found)}"


def _swizzled(
    stopped: Stopped, cta: int, address: int, shape: tuple[int, int], kind: str, swizzle: str
) -> matrices.Matrix:
    """A tile with contiguous rows, of which a swizzle may be wider than one: then in panels."""
    rows, columns = shape
    width = (int(swizzle.split("B")[0]) * 8 // matrices.bits_of(kind)) if swizzle else columns
    if columns > width and columns % width == 0:
        layout = f"S[({rows},{columns // width},{width}):({width},{rows * width},1)] xor {swizzle}"
    else:
        layout = f"S[({rows},{columns}):({columns},1)]" + (f" xor {swizzle}" if swizzle else "")
    # The swizzle is one of addresses: the memory before the tile is a part of its pattern.
    begin = address // 1024 * 1024 if swizzle else address
    if address != begin:
        shift = (address - begin) * 8 // matrices.bits_of(kind)
        layout = layout.replace("]", f"] + O[{shift}]", 1)
    return matrices.from_bytes(stopped.shared(cta)[begin:], layout, shape, kind)


def memory(session: Session, words: Sequence[str]) -> str:
    """Bytes of memory: `SPACE ADDRESS [BYTES]`."""
    if len(words) not in (2, 3) or words[0] not in ("shared", "global"):
        raise WeftError("expects x shared ADDRESS [BYTES], or x global ADDRESS [BYTES]")
    stopped, row, _ = session.thread()
    address, size = session.number_of(words[1]), session.number_of(words[2]) if words[2:] else 64
    if not 0 < size <= 4096:
        raise WeftError(f"expects 1 to 4096 bytes, got {size}")
    if words[0] == "shared":
        data = stopped.shared(int(stopped.wave.cta_of_row[row]))[address : address + size]
        if len(data) < size or address < 0:
            whole = len(stopped.shared(int(stopped.wave.cta_of_row[row])))
            raise WeftError(f"the CTA has {whole} bytes of shared memory, got 0x{address:x} and {size} bytes")
    else:
        data = stopped.global_bytes(address, size)
    rows = [data[at : at + 16] for at in range(0, size, 16)]
    return "\n".join(
        f"0x{address + 16 * at:08x}  {bytes(part[:8]).hex(' '):<23}  {bytes(part[8:]).hex(' ')}".rstrip()
        for at, part in enumerate(rows)
    )


# Threads and barriers


def warps(session: Session) -> str:
    """All warps of the CTAs that run, those with the same state together."""
    stopped, focus = session.here(), session.focus
    rows, groups = [], dict[tuple[Cta, str, int, str], list[WarpState]]()
    for state in stopped.warps():
        key = state.cta, lanes_in_words(state.lanes), state.line, state.waits
        groups.setdefault(key, []).append(state)
    for (cta, lanes, line, waits), states in groups.items():
        mine = any(s.cta == focus.cta and s.warp == focus.warp and s.lanes[focus.lane] for s in states)
        numbers = ranges([state.warp for state in states])
        place = _place(states[0]) if line else ""
        what = ", ".join(part for part in (place, waits) if part)
        rows.append(
            f"{'*' if mine else ' '} cta {cta} warp{'s' if len(states) > 1 else ''} {numbers} {lanes}: {what}"
        )
    return "\n".join(rows)


def _place(state: WarpState) -> str:
    if state.source is None:
        return f"PTX line {state.line}"
    return f"{shown_path(state.source.file).rsplit('/', 1)[-1]}:{state.source.line}"


def threads(session: Session) -> str:
    """The lanes of the warp in focus."""
    stopped, row, _ = session.thread()
    whole = session.here()
    states = [state for state in whole.warps() if state.row == row]
    tids = stopped.wave.tid[row]
    rows = []
    for state in states:
        first, last = (np.flatnonzero(state.lanes)[at] for at in (0, -1))
        begin, end = (tuple(map(int, tids[at, :3])) for at in (first, last))
        where = f"threads {begin} to {end}" if first != last else f"thread {begin}"
        what = ", ".join(part for part in (_place(state) if state.line else "", state.waits) if part)
        rows.append(f"{lanes_in_words(state.lanes)} ({where}): {what}")
    return "\n".join([f"cta {session.focus.cta} warp {session.focus.warp}:", *rows])


def barriers(session: Session) -> str:
    """The mbarriers of the CTA in focus, and barriers at which threads wait."""
    stopped, row, _ = session.thread()
    cta = int(stopped.wave.cta_of_row[row])
    rows = [_mbarrier(session, stopped, each) for each in stopped.mbarriers(cta)]
    rows += [str(wait) for wait in stopped.barriers() if wait.block == session.focus.cta]
    return "\n".join(rows) or f"CTA {session.focus.cta} has no mbarriers, and no thread waits at a barrier"


def _mbarrier(session: Session, stopped: Stopped, barrier: MbarrierState) -> str:
    state = barrier.state
    source = stopped.source_of(barrier.line)
    place = f"{shown_path(source.file).rsplit('/', 1)[-1]}:{source.line}" if source else ""
    made = f"made at {place or f'PTX line {barrier.line}'}"
    stage = ""
    if barrier.stage is not None:
        stage = f" stage {barrier.stage.number} {'full' if barrier.stage.full else 'empty'},"
    arrived = f"{state.expected - state.pending} of {state.expected} arrived"
    pending = f", {state.tx} bytes pending" if state.tx else ""
    waiting = ""
    if barrier.waiting:
        wave = stopped.wave
        ctas: dict[Cta, list[int]] = {}
        for row in barrier.waiting:
            ctas.setdefault(wave.cta(row), []).append(int(wave.warp_of_row[row]))
        own = ctas.pop(session.focus.cta, [])
        parts = [f"warp{'s' if len(own) > 1 else ''} {ranges(own)}"] if own else []
        parts += [f"cta {other} warps {ranges(rows)}" for other, rows in ctas.items()]
        verb = "wait" if len(barrier.waiting) > 1 else "waits"
        waiting = f"; {', '.join(parts)} {verb}"
    return f"mbarrier 0x{barrier.offset:x}:{stage} phase {state.parity}, {arrived}{pending}{waiting} ({made})"


def cta(session: Session) -> str:
    """The CTA in focus: its threads, its memory, its place in the grid."""
    stopped, row, _ = session.thread()
    wave, launch = stopped.wave, stopped.wave.launch
    number = int(wave.cta_of_row[row])
    live = int(np.count_nonzero(wave.live[wave.rows_of(number)]))
    rows = [
        f"cta {session.focus.cta} of grid {launch.grid}",
        f"{launch.threads} threads in {launch.warps} warps, {live} live",
        f"{launch.shared_bytes} bytes of shared memory",
    ]
    if launch.cluster_size > 1:
        rows.append(f"rank {wave.cluster_rank(number)} in a cluster of {launch.cluster}")
    if columns := stopped.tensor_allocations(number):
        listed = ", ".join(f"{count} from column {first}" for first, count in sorted(columns.items()))
        rows.append(f"tensor memory: {listed}")
    for name, variable in stopped.variables().items():
        size = f"{variable.size} bytes" if variable.size else "the rest"
        rows.append(f"  {name}: {size} at 0x{variable.offset:x}")
    ctas = stopped.ctas()
    rows.append(f"CTAs that run: {len(ctas)}, {ctas[0]} to {ctas[-1]}")
    return "\n".join(rows)


def backtrace(session: Session) -> str:
    """The calls that the thread in focus is in."""
    stopped, _, _ = session.thread()
    frame, rows = stopped.frame, _frame_texts(stopped, stopped.line, stopped.function)
    while frame is not None and frame.parent is not None and frame.site is not None:
        program = stopped.machine.program
        line = program.blocks[frame.site.block].line
        rows += _frame_texts(stopped, line, frame.parent.code.function.name)
        frame = frame.parent
    return "\n".join(f"#{number}  {row}" for number, row in enumerate(rows))


def _frame_texts(stopped: Stopped, line: int, function: str) -> list[str]:
    """A frame of a function of the PTX, and where the functions that are inlined in it are called."""
    rows = [_frame_text(stopped, line, function)]
    inlined = inlined_of_lines(stopped.launched.text).get(line, [])
    if inlined:
        rows[0] = f"{inlined[0].function} in {rows[0].removeprefix(f'{inlined[0].function} in ')}"
        names = [*(each.function for each in inlined[1:]), function]
        for name, (_, caller) in zip(names, inlined, strict=True):
            rows.append(f"{name} at {shown_path(caller.file)}:{caller.line}:{caller.column}")
        return rows
    source = stopped.source_of(line)
    inside = source_files.function_at(source.file, source.line) if source is not None else None
    passed: set[str] = set()
    while source is not None and inside is not None and inside.name not in (function, *passed):
        passed.add(inside.name)
        calls = source_files.calls_of(source.file, inside.name)
        callers = {each.name: each for _, each in calls}
        if len(callers) != 1:
            break
        lines = [f"{shown_path(source.file)}:{number}" for number, _ in calls]
        (inside,) = callers.values()
        rows.append(f"{inside.name} at {' or '.join(lines)}")
    return rows


def _frame_text(stopped: Stopped, line: int, function: str) -> str:
    source = stopped.source_of(line)
    if source is None:
        return f"{function} at PTX line {line}"
    inside = source_files.function_at(source.file, source.line)
    own = f"{inside.name} in " if inside is not None and inside.name != function else ""
    return f"{own}{function} at {shown_path(source.file)}:{source.line}:{source.column + 1}, PTX line {line}"


# Source


def listing(session: Session, first: int | None, last: int | None, file: str) -> str:
    """Lines of the source; `*` marks those with code, `->` where the thread in focus is."""
    assert session.launched is not None
    map_ = session.launched.map
    here = session.thread()[0] if session.stopped is not None else None
    if file == "<ptx>":
        lines, own = session.launched.text.split("\n"), set(map_.positions)
        now = here.line if here is not None else 0
    else:
        lines = source_files.lines_of(file)
        own = set(map_.lines_of(file))
        now = here.source.line if here is not None and here.source and here.source.file == file else 0
    if not lines:
        raise WeftError(f"the source file '{file}' can't be read: list ptx:LINE shows the PTX")
    first = max(1, (now or min(own, default=1)) - _AROUND) if first is None else first
    last = first + 2 * _AROUND if last is None else last
    if first > len(lines):
        raise WeftError(f"{shown_path(file)} has {len(lines)} lines, got {first}")
    return "\n".join(_listed(lines, range(first, min(last, len(lines)) + 1), own, now))


def _listed(lines: Sequence[str], numbers: range, own: set[int], now: int) -> Iterator[str]:
    for number in numbers:
        mark = "->" if number == now else " *" if number in own else "  "
        yield f"{mark}{number:>5}  {lines[number - 1].expandtabs(4)}".rstrip()


def sources(session: Session) -> str:
    """The source files of the kernel."""
    launched = session.launched
    if launched is None:
        raise WeftError("no kernel has been launched")
    if not launched.map.files:
        return "the PTX has no lines of source files (.loc)"
    return "\n".join(
        f"{shown_path(file)}: lines {ranges(launched.map.lines_of(file))}" for file in launched.map.files
    )


def element(session: Session, text: str) -> tuple[int, np.dtype[np.generic]]:
    """The address and the type of an element of an array argument: `d[3, 5]`."""
    launched = session.launched
    assert launched is not None
    name, bracket, _ = text.partition("[")
    array = launched.arrays.get(name.strip())
    if array is None or not bracket:
        there = ", ".join(f"{each}[…]" for each in launched.arrays) or "none"
        raise WeftError(
            "expects shared ADDRESS [BYTES], global ADDRESS [BYTES], tensor COLUMN, or an element of an "
            f"array: {there}"
        )
    node = expressions.parsed(text)
    stopped, row, lane = session.thread()
    names = session.names(Threads.one(stopped, row, lane))
    offsets = np.arange(array.size).reshape(array.shape)
    index = expressions.indices(node, names)
    try:
        flat = offsets[index]
    except IndexError as error:
        raise WeftError(f"{name.strip()} has {matrices.size_of(array.shape)} elements: {error}") from None
    if np.ndim(flat):
        raise WeftError(f"expects one element of {array.ndim} indices, got '{text}'")
    at = np.unravel_index(int(flat), array.shape)
    address = launched.address_of(stopped.wave.device, name.strip())
    return address + int(np.dot(at, array.strides)), array.dtype

"""Holds the emulator's arithmetic to a GPU's, bit for bit: every form of `wmma.mma`, `mma.sync`, `mma.sp` and
`wgmma.mma_async` that the GPU has, on tiles of several adversarial kinds.

    python test/gpu/compare_arithmetic.py [--tiles N] [--group NAME] [--save FILE.npz] [--table FILE.md]

prints how many tiles agree, and writes the first that don't to FILE.npz. All of it takes ten minutes on
16 cores. The table has one row for all N of `wgmma`.
"""

import os
import re
import sys
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from row_kernels import CHIP, WARPGROUP, Kernels, Thread, axes
from row_operands import LANES, packed, stage, to_registers

from weft import emulator
from weft.bench import scripts
from weft.dialects import mma as mma_dialect
from weft.dialects import wgmma as wgmma_dialect
from weft.dialects import wmma as wmma_dialect
from weft.isa import mma, wgmma, wmma
from weft.isa.mma.fragments import mnk
from weft.isa.types import ELEMENT_TYPES
from weft.mlir import arith, ir

REGIMES = ("normal", "wide", "canceling", "subnormal", "special", "bits")
WARPS = 4
KEPT = 8
# As many kernels go through the compiler at once.
AT_ONCE = 12
_OPERATIONS = {"wmma": wmma_dialect.MmaOp, "mma.sync": mma_dialect.SyncOp, "mma.sp": mma_dialect.SpSyncOp}
_FLOATS = {
    "f16": (np.float16, 65504.0, 2.0**-24),
    "bf16": (ml_dtypes.bfloat16, 1e38, 2.0**-133),
    "tf32": (np.float32, 1e38, 2.0**-149),
    "f32": (np.float32, 1e38, 2.0**-149),
    "f64": (np.float64, 1e300, 5e-324),
    "e4m3": (ml_dtypes.float8_e4m3fn, 448.0, 2.0**-9),
    "e5m2": (ml_dtypes.float8_e5m2, 57344.0, 2.0**-16),
}


def codes(rng: Any, shape: tuple[int, ...], name: str, regime: str) -> Any:
    """Random elements of a type, as bits in uint64."""
    element = ELEMENT_TYPES[name]
    if element.kind != "float" or regime == "bits":
        return rng.integers(0, (1 << element.bits) - 1, shape, np.uint64, endpoint=True)
    kind, largest, least = _FLOATS[name]
    value = rng.standard_normal(shape)
    if regime == "wide":
        reach = 3 if element.bits == 8 else 6 if name == "f16" else 14
        value *= 2.0 ** rng.integers(-reach, reach + 1, shape)
    elif regime == "subnormal":
        value *= least * 2.0 ** rng.integers(0, 6, shape)
    elif regime == "special":
        odd = rng.random(shape)
        value = np.where(odd < 0.02, np.inf, np.where(odd < 0.04, -np.inf, value))
        value = np.where((odd > 0.04) & (odd < 0.05), np.nan, value)
        value = np.where((odd > 0.1) & (odd < 0.3), -0.0, value)
        value = np.where(odd > 0.97, largest, value)
    with np.errstate(all="ignore"):
        encoded = value.astype(kind)
    return encoded.view(f"u{encoded.dtype.itemsize}").astype(np.uint64)


def matrices(form: Any, regime: str, tiles: int) -> tuple[Any, Any, Any]:
    """A (what is stored of it), B and C of so many tiles, as bits."""
    m, n, k = mnk(form.shape)
    stored = k // 2 if any(o.name == "metadata" for o in form.operands) else k
    # An instruction may be several products at once.
    batch = next(o for o in form.operands if o.name == "d").shape[:-2]
    rng = np.random.default_rng(zlib.crc32(f"{form.ptx} {regime}".encode()))
    c_type = getattr(form, "c_type", form.d_type)
    a = codes(rng, (tiles, *batch, m, stored), form.a_type, regime)
    b = codes(rng, (tiles, *batch, k, n), form.b_type, regime)
    c = codes(rng, (tiles, *batch, m, n), c_type, regime)
    if regime == "canceling" and ELEMENT_TYPES[form.a_type].kind == "float":
        a[..., 1::2] = a[..., ::2]
        sign = np.uint64(1 << (ELEMENT_TYPES[form.b_type].bits - 1))
        b[..., 1::2, :] = b[..., ::2, :] ^ sign
        # Every other pair cancels except for the last bit.
        b[..., 1::4, :] ^= np.uint64(1 << (13 if form.b_type == "tf32" else 0))
    return a, b, c


def metadata(form: Any, tiles: int, operand: Any) -> Any:
    """Legal metadata of sparse tiles."""
    rng = np.random.default_rng(zlib.crc32(form.ptx.encode()))
    pairs = [i | j << 2 for i in range(4) for j in range(i + 1, 4)]
    legal = np.array([0b0100, 0b1110] if form.a_type == "tf32" else pairs, np.uint64)
    return legal[rng.integers(0, len(legal), (tiles, *operand.shape))]


@dataclass(frozen=True)
class Tiles:
    """A kernel that runs one form on many tiles, with the words it takes and how many it gives."""

    name: str
    form: Any
    group: str
    tiles: int

    @property
    def label(self) -> str:
        """The form as its row of the table says it: PTX's opcode doesn't tell where A is."""
        return self.form.ptx + (", A in registers" if getattr(self.form, "a_registers", False) else "")

    @property
    def threads(self) -> int:
        return WARPGROUP if self.group.startswith("wgmma") else LANES * WARPS

    @property
    def ctas(self) -> int:
        return self.tiles // (1 if self.group.startswith("wgmma") else WARPS)

    @property
    def operands(self) -> dict[str, Any]:
        return {o.name: o for o in self.form.operands}

    def layout(self, name: str) -> Any:
        """The registers of an operand with the layout that the GPU has."""
        operand = self.operands[name]
        if self.group == "wmma":
            kind = getattr(self.form, f"{name}_type")
            return replace(operand, layout=wmma.h200_layout(self.form.shape, name, kind))
        return operand

    def bits(self, name: str) -> int:
        kind = getattr(self.form, f"{name}_type", None) or self.form.d_type
        return ELEMENT_TYPES[kind].bits

    def inputs(self, regime: str) -> list[Any]:
        """The words of A, B, C and the metadata of all tiles, as the kernel takes them."""
        a, b, c = matrices(self.form, regime, self.tiles)
        if self.group.startswith("wgmma"):
            return self._wgmma_inputs(a, b, c)
        given = [(a, "a"), (b, "b"), (c, "c")]
        words = [self._registers(value, name) for value, name in given]
        if "metadata" in self.operands:
            codes = metadata(self.form, self.tiles, self.operands["metadata"])
            words.append(registers(codes, self.operands["metadata"], 4, LANES))
        return words

    def _registers(self, value: Any, name: str) -> Any:
        return registers(value, self.layout(name), self.bits(name), LANES)

    def _wgmma_inputs(self, a: Any, b: Any, c: Any) -> list[Any]:
        d = self.operands["d"]
        images = []
        for tile in range(self.tiles):
            rows_b = packed(b[tile].T, self.bits("b"))
            image = stage(rows_b, "none").image
            if not self.form.a_registers:
                image = np.concatenate([image, stage(packed(a[tile], self.bits("a")), "none").image])
            images.append(np.concatenate([image, np.zeros(-image.size % (16 * WARPGROUP), np.uint8)]))
        words = [np.stack(images).reshape(-1).view(np.uint32)]
        words.append(registers(c, d, self.bits("d"), WARPGROUP))
        if self.form.a_registers:
            words.append(registers(a, self.operands["a"], self.bits("a"), WARPGROUP))
        if self.form.sparse:
            codes = metadata(self.form, self.tiles, self.operands["metadata"])
            words.append(registers(codes, self.operands["metadata"], 4, WARPGROUP))
        return words

    @property
    def outputs(self) -> int:
        d = self.operands["d"]
        return self.ctas * self.threads * d.count * (2 if d.type == "f64" else 1)

    def body(self, thread: Thread) -> None:
        if self.group.startswith("wgmma"):
            return self._wgmma(thread)
        named = {name: self.layout(name) for name in "abcd"}
        loaded: dict[str, Any] = {name: thread.load(i, named[name]) for i, name in enumerate("abc")}
        output = 3
        if "metadata" in self.operands:
            (loaded["metadata"],), loaded["selector"] = thread.load(3, self.operands["metadata"]), 0
            output = 4
        kind = _OPERATIONS[self.group]
        thread.store(output, named["d"], kind.make(**loaded, **axes(kind, self.form)))
        return None

    def _wgmma(self, thread: Thread) -> None:
        form, named = self.form, self.operands
        m, n, k = mnk(form.shape)
        b = stage(np.zeros((n, k * self.bits("b") // 8), np.uint8), "none")
        a = None
        size = b.image.size
        if not form.a_registers:
            a = stage(np.zeros((m, (k // 2 if form.sparse else k) * self.bits("a") // 8), np.uint8), "none")
            size += a.image.size
        size += -size % (16 * WARPGROUP)
        thread.copy_to_shared(0, size)
        more: dict[str, Any] = {}
        if a is None:
            more["a"] = thread.load(2, named["a"])
        else:
            more["a"] = _descriptor(thread, a, b.image.size)
        output = 2 if a is not None else 3
        if form.sparse:
            (more["metadata"],) = thread.load(output, named["metadata"])
            output += 1
        immediates = [o.name for o in form.operands if o.role == "immediate"]
        flags = {name: int(name.startswith("scale")) for name in immediates}
        operation = wgmma_dialect.SpMmaAsyncOp if form.sparse else wgmma_dialect.MmaAsyncOp
        accumulators = thread.load_struct(1, named["d"])
        wgmma_dialect.fence()
        one = arith.constant(ir.IntegerType.get_signless(1), 1)
        value = operation.make(
            inouts=accumulators,
            b=_descriptor(thread, b, 0),
            scale_d=one,
            **more,
            **flags,
            **axes(operation, form),
        )
        wgmma_dialect.commit_group()
        wgmma_dialect.wait_group(group=0)
        thread.store(output, named["d"], value)

    @property
    def shared(self) -> int:
        if not self.group.startswith("wgmma"):
            return 0
        m, n, k = mnk(self.form.shape)
        size = stage(np.zeros((n, k * self.bits("b") // 8), np.uint8), "none").image.size
        if not self.form.a_registers:
            stored = (k // 2 if self.form.sparse else k) * self.bits("a") // 8
            size += stage(np.zeros((m, stored), np.uint8), "none").image.size
        return size + -size % (16 * WARPGROUP)


def _descriptor(thread: Thread, staged: Any, offset: int) -> Any:
    return wgmma_dialect.descriptor(
        thread.shared(offset + staged.start),
        leading_byte_offset=staged.leading,
        stride_byte_offset=staged.stride,
        swizzle=staged.swizzle,
    )


def registers(values: Any, operand: Any, bits: int, threads: int) -> Any:
    """The words of the registers of many tiles, tile after tile."""
    number = np.arange(int(np.prod(operand.shape)), dtype=np.uint64) + np.uint64(1)
    # Where each element goes, found once: its number in place of its bits, in elements of 32.
    wide = to_places(number, operand, bits, threads)
    flat = np.concatenate([np.zeros((len(values), 1), np.uint64), values.reshape(len(values), -1)], axis=1)
    return packed(flat[:, wide].reshape(len(values), -1), bits).reshape(-1).view(np.uint32)


def to_places(number: Any, operand: Any, bits: int, threads: int) -> Any:
    """The number of the element that each place of the registers holds, 0 for none."""
    per_thread = operand.count * (64 if operand.type == "f64" else 32) // bits
    words = to_registers(number, operand, 32 if bits < 32 else bits, threads)
    found = words.view(np.uint64 if bits == 64 else np.uint32).reshape(threads, -1).astype(np.int64)
    out = np.zeros((threads, per_thread), np.int64)
    out[:, : found.shape[1]] = found
    return out.reshape(-1)


def groups(tiles: int) -> Iterator[Tiles]:
    """Every form that the chip has."""
    families = {"wmma": wmma.MMA, "mma.sync": mma.SYNC, "mma.sp": mma.SPARSE}
    for group, family in families.items():
        for number, form in enumerate(family.forms(CHIP)):
            yield Tiles(f"k{number}", form, group, tiles)
    for group, family in {"wgmma": wgmma.MMA_ASYNC, "wgmma.sp": wgmma.MMA_ASYNC_SPARSE}.items():
        for number, form in enumerate(family.forms(CHIP)):
            yield Tiles(f"k{number}", form, group, tiles)


def compare(chosen: list[Tiles]) -> list[tuple[str, str, str, int, int, Any]]:
    """Group, form, regime, tiles, tiles that agree, and the first that don't, of kernels of one group."""
    kernels = Kernels()
    for case in chosen:
        words = [len(w) for w in case.inputs("normal")] + [case.outputs]
        kernels.add(case.name, words, case.threads, case.body, case.shared, case.ctas)
    compiled = kernels.compile()
    module = emulator.Module(compiled[chosen[0].name].ptx)
    found = []
    for case in chosen:
        kernel = compiled[case.name]
        for regime in REGIMES:
            inputs = [w.view(np.int32) for w in case.inputs(regime)]
            outs = [np.zeros(case.outputs, np.int32) for _ in range(2)]
            kernel(*inputs, outs[0], on="gpu")
            arrays = [*inputs, outs[1]]
            args = [word for array in arrays for word in (array, array, *map(np.int64, (0, array.size, 1)))]
            module.launch(case.name, grid=case.ctas, block=case.threads, args=args, sanitize=False)
            gpu, ours = (out.view(np.uint32).reshape(case.tiles, -1) for out in outs)
            wrong = np.flatnonzero((gpu != ours).any(axis=1))
            kept = [(int(t), gpu[t], ours[t]) for t in wrong[:KEPT]]
            found.append((case.group, case.label, regime, case.tiles, case.tiles - len(wrong), kept))
    return found


def main() -> int:
    parser = scripts.parser(__doc__)
    parser.add_argument("--tiles", type=int, default=172, help="for each form and kind, a multiple of 4")
    parser.add_argument("--group", action="append", help="only this one (may be repeated)")
    parser.add_argument("--form", default="", help="only forms whose PTX has this")
    parser.add_argument("--save", help="where to write the first tiles that differ, as .npz")
    parser.add_argument("--table", help="where to write the table, as Markdown")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = scripts.parsed(parser, seen=1)
    chosen = [t for t in groups(options.tiles) if not options.group or t.group in options.group]
    chosen = [t for t in chosen if options.form in t.form.ptx]
    parts: list[list[Tiles]] = []
    for name in dict.fromkeys(t.group for t in chosen):
        of_group = [t for t in chosen if t.group == name]
        count = -(-len(of_group) // AT_ONCE)
        parts += [of_group[i::count] for i in range(count)]
    results = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for number, part in enumerate(pool.map(compare, parts), 1):
            results += part
            print(f"{number} of {len(parts)} parts", file=sys.stderr, flush=True)
    return 1 if report(results, options) else 0


def report(results: list[Any], options: Any) -> int:
    """Prints which forms differ, and writes what was asked for; how many they are."""
    rows: dict[tuple[str, str], list[Any]] = {}
    saved: dict[str, Any] = {}
    wrong = set()
    for group, label, regime, tiles, same, kept in results:
        opcode = re.sub(r"m64n\d+k", "m64nNk", label) if group.startswith("wgmma") else label
        rows.setdefault((group, opcode), []).append((label, regime, tiles, same))
        if same != tiles:
            wrong.add(label)
            print(f"{label}: {tiles - same} of {tiles} tiles differ ({regime})")
        for number, (tile, gpu, ours) in enumerate(kept):
            saved[f"{label}|{regime}|{number}"] = np.concatenate([[tile], gpu, ours]).astype(np.uint32)
    lines = [f"| opcode | forms | {' | '.join(REGIMES)} |", f"| --- | ---: |{' ---: |' * len(REGIMES)}"]
    for (_, opcode), cases in sorted(rows.items()):
        cells = [str(len({label for label, *_ in cases}))]
        for wanted in REGIMES:
            of_regime = [(tiles, same) for _, regime, tiles, same in cases if regime == wanted]
            tiles, same = (sum(column) for column in zip(*of_regime, strict=True))
            cells.append(f"{tiles:,}" if same == tiles else f"**{same:,} of {tiles:,}**")
        text, _, where = opcode.partition(", ")
        lines.append(f"| `{text}`{', ' + where if where else ''} | {' | '.join(cells)} |")
    forms = len({(group, label) for group, label, *_ in results})
    total = sum(tiles for _, _, _, tiles, _, _ in results)
    print(f"{forms} forms, {total:,} tiles; {len(wrong)} forms differ")
    if options.save:
        np.savez_compressed(options.save, **saved)
    if options.table:
        Path(options.table).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())

"""Kernels that run many forms of scalar instructions on many inputs, on a GPU and in the emulator."""

import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from special_forms import VERSION, Form
from special_inputs import inputs

from weft import emulator
from weft.compiler import ptxas
from weft.launch import runtime

BLOCK = 256
AT_ONCE = 24
"""The forms of one kernel."""
_PART = 1500
_HEAD_LINES = 3
_FIELDS = {"f16": (16, 10), "bf16": (16, 7), "f32": (32, 23), "tf32": (32, 23), "f64": (64, 52)}
"""The bits of each format, and of its fraction."""
_CLOSE = 64
Results = npt.NDArray[np.uint64]


@dataclass(eq=False)
class Kernel:
    """Forms with the same inputs. Each thread takes one element of every input, and writes 8 bytes for each
    result: `[results, elements]`; the first is the own memory of atomic operations.
    """

    forms: list[Form]
    chip: str

    @property
    def registers(self) -> tuple[str, ...]:
        return self.forms[0].inputs

    def values(self) -> list[Results]:
        return inputs(self.registers, BLOCK)

    def ptx(self) -> str:
        lines = [*_begin(self.registers)]
        first = 1
        for number, form in enumerate(self.forms):
            form.first = first
            names = {f"r{i}": f"%y{number}_{i}" for i in range(len(form.results))}
            lines += [f".reg .{width} {names[f'r{i}']};" for i, (_, width) in enumerate(form.results)]
            form.line = len(lines) + 1 + _HEAD_LINES
            lines.append(form.text.format(*(f"%x{i}" for i in range(len(self.registers))), **names))
            for name, (_, width) in zip(names.values(), form.results, strict=True):
                lines.append("add.u64 %o, %o, %n;")
                stored = f"st.global.{width} [%o], {name};"
                lines.append(
                    f"selp.b32 %t, 1, 0, {name}; st.global.b32 [%o], %t;" if width == "pred" else stored
                )
            first += len(form.results)
        head = [f".version {VERSION}", f".target {self.chip}", ".address_size 64"]
        return "\n".join([*head, *lines, "ret;", "}"])

    @property
    def results(self) -> int:
        return 1 + sum(len(form.results) for form in self.forms)

    def emulated(self) -> Results:
        values = self.values()
        out = np.zeros((self.results, len(values[0])), np.uint64)
        args = [out, np.uint64(8 * len(values[0])), *values]
        module = emulator.Module(self.ptx())
        grid = len(values[0]) // BLOCK
        module.launch("k", grid=grid, block=BLOCK, args=args, sanitize=False, compiled=False, threads=1)
        return out

    def on_gpu(self) -> Results:
        values = self.values()
        out = np.zeros((self.results, len(values[0])), np.uint64)
        loaded = runtime.load(ptxas.assemble(self.ptx(), self.chip).cubin)
        held = [runtime.DeviceArray.from_numpy(each.view(np.int64)) for each in (out, *values)]
        args = [
            ("P", held[0].address),
            ("Q", 8 * len(values[0])),
            *(("P", each.address) for each in held[1:]),
        ]
        loaded.launch("k", (len(values[0]) // BLOCK, 1, 1), (BLOCK, 1, 1), args)
        result: Results = held[0].to_numpy().view(np.uint64)
        loaded.close()
        return result


def _begin(registers: tuple[str, ...]) -> Iterator[str]:
    more = "".join(f", .param .u64 in{i}" for i in range(len(registers)))
    yield f".visible .entry k(.param .u64 out, .param .u64 n{more})"
    yield "{"
    yield ".reg .b32 %t, %i, %c, %s; .reg .b64 %o, %n, %a0, %p, %g; .reg .pred %q;"
    yield f".shared .align 16 .b8 room[{16 * BLOCK}];"
    yield f"mov.u32 %i, %tid.x; mov.u32 %c, %ctaid.x; mad.lo.s32 %c, %c, {BLOCK}, %i;"
    yield "ld.param.u64 %o, [out]; ld.param.u64 %n, [n]; mad.wide.u32 %o, %c, 8, %o; mov.u64 %a0, %o;"
    yield "mov.u32 %s, room; mad.lo.s32 %s, %i, 16, %s; cvt.u64.u32 %g, %s; cvta.shared.u64 %g, %g;"
    for i, width in enumerate(registers):
        yield f".reg .{width} %x{i}; ld.param.u64 %p, [in{i}]; mad.wide.u32 %p, %c, 8, %p;"
        if width == "pred":
            yield f"ld.global.b32 %t, [%p]; setp.ne.u32 %x{i}, %t, 0;"
        else:
            yield f"ld.global.{width} %x{i}, [%p];"


def kernels(forms: Iterable[Form], chip: str) -> Iterator[Kernel]:
    """The kernels of the forms that ptxas takes."""
    for group in _by_inputs(forms):
        taken = [form for at in range(0, len(group), _PART) for form in _taken(group[at : at + _PART], chip)]
        for at in range(0, len(taken), AT_ONCE):
            yield Kernel(taken[at : at + AT_ONCE], chip)


def _by_inputs(forms: Iterable[Form]) -> list[list[Form]]:
    groups: dict[tuple[str, ...], list[Form]] = {}
    for form in forms:
        groups.setdefault(form.inputs, []).append(form)
    return list(groups.values())


def _taken(forms: list[Form], chip: str) -> list[Form]:
    """The forms that ptxas takes, which complains of the lines of all others."""
    while forms:
        text = Kernel(forms, chip).ptx()
        with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
            file.write(text)
            file.flush()
            command = [str(ptxas.find("ptxas")), f"-arch={chip}", "-O0", file.name, "-o", "/dev/null"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not done.returncode:
            break
        wrong = set(map(int, re.findall(r"line (\d+)", done.stderr)))
        left = [form for form in forms if form.line not in wrong]
        assert len(left) < len(forms), done.stderr
        forms = left
    return forms


def differences(form: Form, gpu: Results, ours: Results) -> Iterator[tuple[str, Any]]:
    """How results of a form differ, and in which elements: NaN bits, zero's sign, ulp or other."""
    for number, (kind, _) in enumerate(form.results):
        yield from _differ(kind, gpu[form.first + number], ours[form.first + number])


def _differ(kind: str, gpu: Results, ours: Results) -> Iterator[tuple[str, Any]]:
    element = kind.removesuffix("x2")
    if element not in _FIELDS:
        if (gpu != ours).any():
            yield "bits", gpu != ours
        return
    width, fraction = _FIELDS[element]
    shifts = [np.uint64(width * i) for i in range(2 if kind.endswith("x2") else 1)]
    mask = np.uint64((1 << width) - 1 if width < 64 else 0xFFFFFFFFFFFFFFFF)
    a, b = (np.stack([each >> s & mask for s in shifts]) for each in (gpu, ours))
    size, infinity = mask >> np.uint64(1), np.uint64((1 << (width - 1)) - (1 << fraction))
    differ, (sa, sb) = a != b, (a & size, b & size)
    nan, zero = (sa > infinity) & (sb > infinity), (sa == 0) & (sb == 0)
    ulps = np.maximum(sa, sb) - np.minimum(sa, sb)
    same_sign = a >> np.uint64(width - 1) == b >> np.uint64(width - 1)
    close = same_sign & (sa <= infinity) & (sb <= infinity) & (ulps <= _CLOSE) & ~zero
    words = {"NaN bits": nan, "zero's sign": zero, "ulp": close, "other": ~(nan | zero | close)}
    for word, where in words.items():
        if (differ & where).any():
            yield word, (differ & where).any(axis=0)

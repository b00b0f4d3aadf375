"""Every form of the emulator's scalar and conversion instructions, as text with registers to be named.

The templates have the order of PTX's modifiers; which of their forms exist is decided by the emulator's
decoders, and then by ptxas.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from weft.emulator.decoding.decode import Op
from weft.emulator.errors import PtxError
from weft.emulator.instructions import TABLE, bits, compare, convert, floating, integer, video
from weft.emulator.launch import Module
from weft.emulator.reading.syntax import TYPES, Instruction, Name, Pair, Type
from weft.isa.chips import NEWEST_PTX

VERSION = "9.0"
PARTS = (integer, bits, floating, floating, video, compare, convert, convert)
CHAINED = {"addc", "subc", "madc"}
"""The instructions that only CHAINS have."""
_LISTS = {
    "INT": "{u16,u32,u64,s16,s32,s64}",
    "INTS": "{u16,u32,u64,s16,s32,s64,u16x2,s16x2,u8x4,s8x4}",
    "B": "{b16,b32,b64}",
    "US": "{u32,s32}",
    "FL": "{f16,f16x2,bf16,bf16x2,f32,f32x2,f64}",
    "RND": "{,.rn,.rz,.rm,.rp}",
    "CMPI": "{eq,ne,lt,le,gt,ge,lo,ls,hi,hs}",
    "CMPF": "{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}",
    "WITH": "{,.and,.or,.xor}",
    "ANY": "{u8,u16,u32,u64,s8,s16,s32,s64,f16,bf16,f32,f64}",
    "SMALL": "{e4m3x2,e5m2x2,e2m3x2,e3m2x2,e2m1x2,ue8m0x2}",
}
_TEMPLATES = """
{add,sub}{,.sat}.INTS
{mul,mad}.{lo,hi,wide}{,.sat}.INT
{mul24,mad24}.{lo,hi}{,.sat}.US
{sad,div,rem,abs}.INT
neg.INTS
{min,max}{,.relu}.INTS
dp4a.US.US
dp2a.{lo,hi}.US.US
{and,or,xor,not}.{pred,b16,b32,b64}
{cnot,popc,clz,brev}.B
bfind{,.shiftamt}.INT
{shl,shr}.{b16,b32,b64,u16,u32,u64,s16,s32,s64}
shf.{l,r}.{clamp,wrap}.b32
bfe.INT
bfi.B
fns.b32
bmsk.{clamp,wrap}.b32
szext.{clamp,wrap}.US
prmt.b32{,.f4e,.b4e,.rc8,.ecl,.ecr,.rc16}
lop3{,.and,.or}.b32
setp.CMPIWITH.{u16,u32,u64,s16,s32,s64,b16,b32,b64}
setp.CMPFWITH{,.ftz}.{f16,bf16,f32,f64,f16x2,bf16x2}
set.CMPIWITH.{u32,s32,f32}.{u16,u32,u64,s16,s32,s64,b16,b32,b64}
set.CMPFWITH{,.ftz}.{u16,s16,u32,s32,f32,f16,bf16,f16x2,bf16x2}.{f16,bf16,f32,f64,f16x2,bf16x2}
selp.{b16,b32,b64,u16,s32,f32,f64}
slct{,.ftz}.{b16,b32,b64,u16,s32,f32,f64}.{s32,f32}
{add,sub,mul}RND{,.ftz}{,.sat}.FL
{add,sub}RND{,.sat}.f32.{f16,bf16}
{fma,mad}RND{,.ftz}{,.sat}{,.relu}.FL
fma{.rn,.rz,.rm,.rp}{,.sat}.f32.{f16,bf16}
{div,rcp,sqrt}{.approx,.full,.rn,.rz,.rm,.rp}{,.ftz}.{f32,f64}
{rsqrt,sin,cos,lg2,ex2,tanh}.approx{,.ftz}.FL
{abs,neg}{,.ftz}.FL
{min,max}{,.ftz}{,.NaN}{,.xorsign.abs,.abs}.FL
copysign.{f32,f64}
testp.{finite,infinite,number,notanumber,normal,subnormal}.{f32,f64}
cvt{,.rn,.rz,.rm,.rp,.rni,.rzi,.rmi,.rpi}{,.ftz}{,.sat}.ANY.ANY
cvt{.rn,.rz}{,.relu}{,.satfinite}.{f16,bf16,f16x2,bf16x2}.f32
cvt{.rn,.rz}{,.satfinite}{,.relu}.tf32.f32
cvt.rna{,.satfinite}.tf32.f32
cvt.{rn,rz,rp}.satfinite{,.relu}.SMALL.{f32,f16x2,bf16x2}
cvt.{rz,rp}.ue8m0x2.{f32,bf16x2}
cvt.rn{,.relu}.{f16x2,bf16x2}.SMALL
cvt.pack.sat.{u16,s16}.s32
cvt.pack.sat.{u8,s8,u4,s4,u2,s2}.s32.b32
{vadd,vsub,vabsdiff,vmin,vmax}.US.US.US{,.sat}{,.add,.min,.max}
{vshl,vshr}.US.US.u32{,.sat}.{clamp,wrap}{,.add,.min,.max}
vmad.US.US.US{,.po}{,.sat}{,.shr7,.shr15}
vset.US.US.{eq,ne,lt,le,gt,ge}{,.add,.min,.max}
{vadd,vsub,vabsdiff,vmin,vmax,vavrg}{2,4}.US.US.US{,.sat,.add}
vset{2,4}.US.US.{eq,ne,lt,le,gt,ge}{,.add}
"""
_TRUTHS = (0x80, 0xFE, 0x96, 0xF8, 0xEA, 0xCA, 0xE8, 0x1E, 0x69, 0x17, 0x01, 0xB2, 0xD8, 0x40, 0x55)
_CHAINS = (
    "add.cc.T {r0}, {0}, {1}; addc.cc.T {r0}, {2}, {3}; addc.T {r1}, {0}, {2};",
    "sub.cc.T {r0}, {0}, {1}; subc.cc.T {r0}, {2}, {3}; subc.T {r1}, {0}, {2};",
    "mad.lo.cc.T {r0}, {0}, {1}, {2}; madc.hi.T {r1}, {0}, {1}, {3};",
    "mad.hi.cc.T {r0}, {0}, {1}, {2}; madc.lo.cc.T {r0}, {0}, {1}, {3}; addc.T {r1}, {0}, {3};",
)
_ATOMICS = (
    *(f"add.{kind}" for kind in ("u32", "s32", "u64", "f32", "f64")),
    *(f"{o}.noftz.{k}" for o in ("add", "min", "max") for k in ("f16", "f16x2", "bf16", "bf16x2")),
    *(f"{o}.{k}" for o in ("min", "max") for k in ("u32", "s32", "u64", "s64")),
    *(f"{o}.{k}" for o in ("and", "or", "xor", "exch") for k in ("b32", "b64")),
    "inc.u32",
    "dec.u32",
)
_WHERE = {"global": "%a0", "shared": "%s", "generic": "%a0", "generic shared": "%g"}
"""The address of each thread's own memory by the space of the instruction, in a kernel of the test."""


@dataclass(eq=False)
class Form:
    """`text` has the inputs as {0}, {1}, …, in registers of the types `inputs`, and the results as {r0}, …:
    each one's type in PTX and that of its register. `line` and `first` are set by the kernel: the line of the
    text, and the number of the first result.
    """

    name: str
    inputs: tuple[str, ...]
    results: list[tuple[str, str]]
    text: str
    line: int = 0
    first: int = 0


class _Probe(Op):
    """Records what a decoder asks of its operands."""

    def __init__(self, opcode: str, prefix: str, count: int, code: Any, pair: bool, chip: str) -> None:
        location = code.function.location
        names: list[Any] = [Name(f"x{i}", location) for i in range(count)]
        if pair:
            names[0] = Pair(names[0], Name("xp", location), location)
        instruction = Instruction(location, opcode, tuple(names), None, False, code.function.scope)
        super().__init__(instruction, prefix, code, chip, chip, NEWEST_PTX)
        self.asked: dict[str, tuple[str, Type]] = {}

    def _ask(self, operand: Any, kind: Type, role: str) -> int:
        operand = self.operand(operand) if isinstance(operand, int) else operand
        if not isinstance(operand, Name):
            self.fail("expects a register")
        self.asked[operand.text] = role, kind
        return self.slots.new(kind)

    def source(self, operand: Any, kind: Type, any_width: bool = False) -> int:
        return self._ask(operand, kind, "in")

    def destination(self, operand: Any, kind: Type, any_width: bool = False) -> int:
        return self._ask(operand, kind, "out")

    def immediate(self, operand: Any) -> int:
        self._ask(operand, TYPES["u32"], "immediate")
        return _TRUTHS[0]


def opcodes() -> Iterator[str]:
    """Every opcode of the templates."""
    for template in _TEMPLATES.split():
        for name in sorted(_LISTS, key=len, reverse=True):
            template = template.replace(name, _LISTS[name])
        parts = re.split(r"\{([^{}]*)\}", template)
        for chosen in itertools.product(*(p.split(",") if i % 2 else [p] for i, p in enumerate(parts))):
            yield "".join(chosen)


def forms(chip: str, only: str = "") -> Iterator[Form]:
    """The forms that the emulator knows on a chip, those whose name has `only`."""
    head = f".version {VERSION}\n.target {chip}\n.address_size 64\n"
    code = Module(f"{head}.visible .entry k() {{ ret; }}")._program("k", chip).entry
    for opcode in dict.fromkeys(opcodes()):
        if only in opcode:
            yield from _decoded(opcode, code, chip)
    for text, width in itertools.product(_CHAINS, (32, 64)):
        name = re.sub(r"\.T.*?;", "", text.replace(" ", ""))
        if only in name:
            yield Form(
                f"{name} of {width} bits",
                (f"b{width}",) * 4,
                [(f"u{width}", f"b{width}")] * 2,
                text.replace("T", f"u{width}"),
            )
    yield from _atomics(only)


def _decoded(opcode: str, code: Any, chip: str) -> Iterator[Form]:
    found = TABLE.find(opcode)
    if found is None:
        return
    prefix, decoder = found
    pairs = (False, True) if prefix == "setp" else (opcode.startswith(("lop3.and", "lop3.or")),)
    for count, pair in itertools.product(range(1, 7), pairs):
        op = _Probe(opcode, prefix, count, code, pair, chip)
        try:
            decoder(op)
            op.done()
        except (PtxError, AttributeError):  # no such form
            continue
        if op.asked:
            yield from _written(opcode, op.asked, count, pair)


def _written(opcode: str, asked: dict[str, tuple[str, Type]], count: int, pair: bool) -> Iterator[Form]:
    """The texts of a form, with its operands in registers as wide as its types; integers of conversions also
    in wider ones.
    """
    wider = re.match(r"cvt\.(?!pack)(?!.*x2)", opcode) and re.search(r"\.[us](8|16|32)\b", opcode)
    for wide in (False, True) if wider else (False,):
        inputs: list[str] = []
        results: list[tuple[str, str]] = []
        operands = []
        for i in range(count):
            texts = []
            for name in (f"x{i}", "xp") if pair and i == 0 else (f"x{i}",):
                if name not in asked:
                    return
                role, kind = asked[name]
                least = 8 if kind.name == "e2m1x2" else 64 if wide and kind.kind in "us" else 16
                width = "pred" if kind.bits == 1 else f"b{max(least, kind.bits)}"
                if role == "in":
                    texts.append(f"{{{len(inputs)}}}")
                    inputs.append(width)
                elif role == "out":
                    texts.append(f"{{r{len(results)}}}")
                    results.append((kind.name, width))
                else:
                    texts.append("TRUTH")
            operands.append("|".join(texts))
        text = f"{opcode} {', '.join(operands)};"
        name = opcode + "|p" * pair + " in 64 bits" * wide
        truths = _TRUTHS if "TRUTH" in text else (0,)
        for truth in truths:
            of = f" {truth:#x}" if truth else ""
            yield Form(name + of, tuple(inputs), results, text.replace("TRUTH", hex(truth)))
        yield from _parts(name, tuple(inputs), results, text)


def _parts(name: str, inputs: tuple[str, ...], results: list[tuple[str, str]], text: str) -> Iterator[Form]:
    """Video instructions on parts of registers, into parts of registers, and with negated operands."""
    if not re.match(r"v(add|sub|absdiff|min|max|set|shl|shr|mad)\.", name):
        return
    picked = text.replace("{0}", "{0}.b1", 1).replace("{1}", "{1}.h1", 1)
    yield Form(f"{name} of parts", inputs, results, picked)
    if name.startswith("vmad") and ".po" not in name:
        yield Form(f"{name} -a", inputs, results, picked.replace("{0}", "-{0}"))
        yield Form(f"{name} -c", inputs, results, text.replace("{2}", "-{2}"))
    elif len(inputs) == 2:
        for part in ("b2", "h1"):
            merged = text.replace("{r0}", f"{{r0}}.{part}").replace("{1};", "{1}, {2};")
            yield Form(f"{name} into {part}", (*inputs, "b32"), results, merged)


def _atomics(only: str) -> Iterator[Form]:
    """Atomic operations on a thread's own memory, which the first input is stored to."""
    for name, opcode, (space, at) in itertools.product(_ATOMICS, ("atom", "red"), _WHERE.items()):
        where = "" if space.startswith("generic") else f".{space}"
        kind = name.rpartition(".")[2]
        width, full = f"b{TYPES[kind].bits}", f"{opcode}{where}.{name}"
        if only not in full or (opcode == "red" and name.startswith("exch")):
            continue
        returned = "{r1}, " if opcode == "atom" else ""
        text = f"st{where}.{width} [{at}], {{0}}; {full} {returned}[{at}], {{1}};"
        text += f" ld{where}.{width} {{r0}}, [{at}];"
        yield Form(f"{full} ({space})", (width,) * 2, [(kind, width)] * (2 if returned else 1), text)

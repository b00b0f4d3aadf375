"""What PTX text may look like: constants, layouts of tokens, special registers, and moves of vectors."""

import dataclasses
import random
import re

import numpy as np
import pytest
from emulator_corpus import PTX, chips, text
from emulator_ptx import kernel, module, run

from weft import emulator
from weft.compiler import ptxas
from weft.emulator.reading import parser
from weft.emulator.reading.syntax import Scope, SourceLocation
from weft.errors import WeftError

FILES = sorted({path.name.partition(".sm_")[0] for path in PTX.glob("*.ptx.xz")})
CONSTANTS = {
    "1 + 2 * 3": 7,
    "(1 + 2) * 3": 9,
    "7 / 2 * -1": -3,
    "-8 / 3": -2,
    "-8 % 3": 2,  # of unsigned values
    "1 << 4 | 3": 19,
    "0xFF & ~0xF0 ^ 1": 14,
    "-16 >> 2": -4,
    "1 == 1 && 2 != 2": 0,
    "3 >= 2 ? 5 : 6": 5,
    "!5": 0,
    "-(5)": -5,
    "(.s64) 5 - (.u64) 7": -2,
    "WARP_SZ * 2": 64,
    "0b101 + 017 + 0x1FU": 51,
}


@pytest.mark.parametrize("written", CONSTANTS)
def test_constants_are_expressions(written):
    """These values are those that ptxas computes."""
    x = np.zeros(1, np.uint32)
    for blanks in (written, written.replace(" ", "").replace("%3", "% 3")):
        got = run(f"mov.b32 %d0, {blanks}; add.u32 %d0, %d0, %a0;", x, out=np.int32)
        assert got.tolist() == [CONSTANTS[written]]


@pytest.mark.parametrize(("written", "value"), [("1.5 + 2.25", 3.75), (".5", 0.5), ("(1.5) * 4.0", 6.0)])
def test_constants_of_floats(written, value):
    assert run(f"mov.f32 %d0, {written};", np.zeros(1, np.uint32), out=np.float32).tolist() == [value]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("1 + ", "expected an operand, got ';'"),
        ("(1 + 2", r"expected '\)'"),
        ("1 / 0", "'1 / 0' has no value"),
    ],
)
def test_expressions_that_are_none(written, said):
    with pytest.raises(emulator.PtxError, match=said):
        run(f"mov.b32 %d0, {written};", np.zeros(1, np.uint32), out=np.uint32)


def test_elements_of_arrays():
    """`array[i]` is an address, in elements; v.r, v.g, v.b and v.a are other names of v's elements."""
    body = """
      .shared .b32 own[2][1 + 1];
      .reg .v4 .b32 v;
      mov.u32 %r1, own[2 - 1]; st.shared.b32 [%r1 + 2 * 2], 7; st.shared.b32 [own + 3 * 4], 9;
      ld.shared.b32 %d0, own[2]; ld.shared.v2.b32 {v.r, v.g}, [own + (8)]; mov.b32 %d1, v.x; mov.b32 %d2, v.y;
    """
    got = run(body, np.zeros(1), out=(np.uint32,) * 3, target="sm_90")
    assert [int(x[0]) for x in got] == [7, 7, 9]
    with pytest.raises(
        emulator.PtxError, match=r"the index of 'own' must be a constant: .*, got the register '%r1'"
    ):
        run(body.replace("own[2 - 1]", "own[%r1]"), np.zeros(1), out=(np.uint32,) * 3)
    with pytest.raises(
        emulator.PtxError, match="only variables in global or const space have initial values"
    ):
        run(body.replace("own[2][1 + 1]", "own = 3"), np.zeros(1), out=(np.uint32,) * 3)


@pytest.mark.parametrize("compiled", [False, True])
def test_moves_of_vectors(compiled):
    """Element by element, from before the move; 64 bits of a vector register are its elements."""
    body = """
      .reg .v2 .b32 v; .reg .v4 .b32 w;
      mov.v2.u32 v, {%a0, 5}; mov.v2.u32 v, {v.y, v.x}; mov.b64 %d0, v; mov.b64 {%d1, _}, %d0;
      mov.v4.u32 w, %tid; mov.v2.f32 {%d2, _}, {w.x, w.y}; mov.b64 v, %d0; mov.b32 %d3, v.y;
    """
    a, out = (
        np.arange(10, 14, dtype=np.uint32),
        [np.zeros(4, kind) for kind in (np.uint64, *(np.uint32,) * 3)],
    )
    emulator.Module(kernel(body, [a], out)).launch("k", block=4, args=[a, *out], compiled=compiled)
    assert out[0].tolist() == [5 | int(x) << 32 for x in a]
    assert [x.tolist() for x in out[1:]] == [[5] * 4, [0, 1, 2, 3], a.tolist()]
    with pytest.raises(emulator.PtxError, match="expects 4 elements, got 2"):
        run("mov.v4.u32 {%r1, %r2}, {%r3, %r4};", a, out=np.uint32)


def test_special_registers_of_no_use_here():
    names = [f"%pm{i}" for i in range(8)] + ["%reserved_smem_offset_cap", "%reserved_smem_offset_begin"]
    body = "".join(f"mov.u32 %r1, {name}; add.u32 %d0, %d0, %r1;" for name in names)
    assert run(f"mov.u32 %d0, 0; {body}", np.zeros(1), out=np.uint32, target="sm_90").tolist() == [0]
    assert run("mov.u64 %d0, %pm7_64;", np.zeros(1), out=np.uint64).tolist() == [0]
    for name in ("%reserved_smem_offset_0", "%reserved_smem_offset_1"):
        with pytest.raises(emulator.Fault, match="out-of-bounds shared access"):
            run(f"mov.u32 %r1, {name}; st.shared.u32 [%r1], 1;", np.zeros(1), out=np.uint32, target="sm_90")


def test_declarations_that_ptxas_reads():
    """Alignment before the space, expressions as values, and a definition after `.extern`."""
    declared = """
      .extern .global .b32 late; .align 8 .global .b32 first = WARP_SZ * 2;
      .visible .global .b32 late = 5; .const .f32 table[][2] = {{.05, .5}, {1., 2e1}};
      .global .align 8192 .b8 wide;
    """
    body = """.align 16 .shared .b32 mine; st.shared.b32 [mine], 9;
      ld.global.u32 %r1, [late]; ld.global.u32 %r2, [first]; ld.const.f32 %f1, [table + 3 * 4];
      st.global.v2.u32 [%d1], {%r1, %r2}; ld.shared.u32 %r3, [mine]; st.global.u32 [%d1 + 8], %r3;
      mov.b32 %r3, %f1; st.global.u32 [%d1 + 12], %r3;
    """
    ptx = kernel_of(body).replace(".visible .entry", f"{declared}\n.visible .entry")
    ptxas.assemble(ptx, "sm_90", options=("-O0",))
    out = np.zeros(4, np.uint32)
    emulator.Module(ptx).launch("k", args=[out])
    assert out[:3].tolist() == [5, 64, 9] and out.view(np.float32)[3] == 20
    with pytest.raises(emulator.PtxError, match="'first' is declared twice"):
        emulator.Module(ptx.replace("late", "first"))


def test_an_entry_without_a_body_is_no_kernel():
    given = module('.extern .entry other();\n.visible .entry k() { ret; }\n# 5 "a.cu"\n')
    assert given.kernels == ("k",)
    with pytest.raises(WeftError, match="no kernel 'other'"):
        given.launch("other")


STATEMENTS = """
ld .global .b32 %r1, [%d1]; ld/**/.global/* .b8 */.b32 %r1,[%d1]; ld.global.b32 %r1, [%d1].unified;
mov.u32 %r1, %tid .x; mov.u32 %r1, %ctaid/**/.y; mov.u32 %r1, %pm3; mov.u32 %r1, %reserved_smem_offset_1;
ld.global.b32 %r1, [%d1 + 2*4]; ld.shared.b32 %r1, [own+1<<4]; ld.shared.b32 %r1, own[3];
st.shared.b32 own[1+1], %r1;
mov.u32 %r1, own[2]; mov.u32 %r1, own + 3 * 4; mov.u32 %r1, %r2+20; mov.u64 %d2, %d1+-8;
cvta.shared.u64 %d2, own+4;
cvta.to.param::entry.u64 %d2, %d1; cvta.param::entry.u64 %d2, %d1; isspacep.param::entry %p, %d1;
isspacep.shared %p, %r1; getctarank.shared::cluster.u32 %r1, own+4;
mapa.shared::cluster.u32 %r1, own+8, %r2;
@ %p mov.b32 %r1, 0; @ ! /**/ %p mov.b32 %r1, 0; setp.eq.u32 %p | %q, %r1, 0;
setp.eq.and.u32 %p,%r1,0, ! %q;
{ .reg .v4 .f32 v; mov.f32 v.r, .5; mov.f32 %f1, v .a; } { } { { } } .pragma "nounroll", "nounroll";
mov.v2.u32 {%r1, _}, {%r3, 5}; mov.v4.u32 {%r1, %r2, %r3, %r4}, %tid; A: B: mov.b32 %r1, -(1 ? 2 : 3);
vmax.s32.s32.s32 %r3.h1, %r1, %r2, %r4; vmad.s32.s32.s32.shr7 %r3, %r1.b0, -%r2.b1, %r4;
vadd.u32.u32.u32 %r3,%r1,%r2,%r4;
vset.u32.s32.lt %r3.b0, %r1, %r2, %r4; vmad.u32.s32.u32.po %r3, -%r1, - %r2.h1, %r4;
vshl.u32.u32.u32.sat.clamp %r3.b2, %r1, %r2, %r4;
cp.async.bulk.global.shared::cta.bulk_group .L2::cache_hint [%d1], [%r1], 16, %d2; atom .global
.add
.u32 %r1
, [ %d1 ] , 1
; mov.b32 %r1, 0; .reg .b32 late; mov.b32 late, 1; bra.uni C; C: membar .gl; exit;
"""
WIDE = "st.global.v8.f32 [%d1], {%f1, _, %f2, %f3, _, _, %f1, %f2};"


def kernel_of(statements, chip="sm_90"):
    registers = ".reg .pred %p, %q; .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .b16 %h<4>; .reg .f32 %f<4>;"
    declared = f"{registers} .shared .align 16 .b32 own[64]; ld.param.u64 %d1, [out];"
    entry = f".visible .entry k(.param .u64 out)\n{{\n{declared}\n{statements}\nret;\n}}\n"
    return f".version 9.0\n.target {chip}\n.address_size 64\n{entry}"


@pytest.mark.parametrize(("statements", "chip"), [(STATEMENTS, "sm_90"), (WIDE, "sm_100")])
def test_what_ptxas_reads_is_read(statements, chip):
    ptxas.assemble(kernel_of(statements, chip), chip, options=("-O0",))
    emulator.Module(kernel_of(statements, chip))._program("k", chip)


def test_sums_of_registers_and_constants_are_values():
    x = np.arange(4, dtype=np.uint32)
    assert run("mov.u32 %d0, %a0+-2;", x, out=np.int32).tolist() == [-2, -1, 0, 1]
    with pytest.raises(
        emulator.PtxError, match="expects a register or a constant, got a sum: compute it first"
    ):
        run("add.u32 %d0, %a0+2, %a0;", x, out=np.int32)


def test_a_vector_of_eight_may_leave_elements():
    out = np.zeros((2, 8), np.float32)
    body = WIDE.replace("%d1", "%d2").replace("%f3, _", "0f40400000, _")
    body = f"mov.f32 %f1, 1.0; mov.f32 %f2, 2.0; mov.u32 %r1, %tid.x; mad.wide.u32 %d2, %r1, 32, %d1; {body}"
    emulator.Module(kernel_of(body, "sm_100")).launch("k", block=2, args=[out])
    assert out.tolist() == [[1, 0, 2, 3, 0, 0, 1, 2]] * 2
    with pytest.raises(emulator.PtxError, match="must store every element of fewer than 8"):
        emulator.Module(kernel_of("st.global.v2.f32 [%d1], {%f1, _};")).launch("k", args=[out])


@pytest.mark.parametrize("indirect", [False, True])
def test_arguments_and_results_may_be_registers_and_constants(indirect):
    """Of parameters in .param space, too; a result may be discarded."""
    head = ".func (.param .b32 r) f(.param .b32 a, .param .b16 b)"
    inside = (
        "ld.param.b32 x, [a]; ld.param.b16 y, [b]; cvt.u32.u16 z, y; shl.b32 x, x, z; st.param.b32 [r], x;"
    )
    function = f"{head} {{ .reg .b32 x, z; .reg .b16 y; {inside} ret; }}\n"
    called, proto = ("f", "") if not indirect else ("%d2", ", P")
    calls = f"""
      {"mov.u64 %d2, f; P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b16 _);" * indirect}
      mov.u32 %r1, %tid.x; mov.u32 %r2, 0; setp.ge.u32 %p, %r1, 3; mov.b16 %h1, 4;
      @%p bra DONE;
      call (%r2), {called}, (%r1, 3){proto}; call (_), {called}, (7, %h1){proto};
      call (%r3), {called}, (5, %h1){proto}; add.u32 %r2, %r2, %r3;
    DONE:
      mad.wide.u32 %d3, %r1, 4, %d1; st.global.u32 [%d3], %r2;
    """
    text = kernel_of(calls).replace(".visible", function + ".visible")
    ptxas.assemble(text, "sm_90", options=("-O0",))
    out = np.zeros(40, np.uint32)
    report = emulator.Module(text).launch("k", block=40, args=[out])
    assert out.tolist() == [80, 88, 96] + [0] * 37 and not report.findings


# Mutations

_PIECES = re.compile(
    r"""(?P<line>[^\S\n]*\.(?:loc|file|version|target|address_size|section)\b[^\n]*\n)
    | (?P<hidden>//[^\n]*|/\*.*?\*/|"[^"\n]*") | (?P<blank>\s+) | (?P<modifier>\.\w+(?:::\w+)*)
    | (?P<word>[\w$%]+(?:\.(?=\d)\d*)?) | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_BLANKS = (" ", "\t", "\n", " \n ", "/**/", " /* ; { */ ", "// x.y;\n", "\r\n", "\n\n")
_CLOSE = {".wide", ".lo", ".hi", ".to"}  # for ptxas these belong to the word before them
_STATEMENTS = ('.pragma "nounroll";', "{ }", ".reg .b32 %added#;", "ADDED#:", '.pragma "a", "b" ;')


def mutated(ptx, source, rate=0.2):
    """The same program with other blanks between its tokens, and with statements that do nothing."""
    out, depth, count = [], 0, 0
    before = ""
    for match in _PIECES.finditer(ptx):
        kind, piece = match.lastgroup, match[0]
        if kind == "line":
            out.append(piece)
            before = "line"
            continue
        joins = before in ("word", "modifier") and kind in ("word", "modifier") and kind != "modifier"
        signed = kind in ("word", "mark") and out and out[-1] in ("-", "+", "<", ">", "=", "&", "|", ":")
        apart = kind not in ("blank", "hidden") and before and piece not in _CLOSE
        if apart and not joins and not signed and source.random() < rate:
            out.append(source.choice(_BLANKS))
        other = kind == "blank" and "\n" not in piece and source.random() < rate
        out.append(source.choice(_BLANKS) if other else piece)
        depth += (piece == "{") - (piece == "}")
        if piece == ";" and depth == 1 and source.random() < rate / 4:
            count += 1
            out.append("\n" + source.choice(_STATEMENTS).replace("#", str(count)))
        before = kind
    return "".join(out)


def shape(tree):
    """The tree without locations and without the names that a mutation adds."""

    def of(value):
        if isinstance(value, SourceLocation | Scope):
            return None
        if dataclasses.is_dataclass(value):
            named = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
            return type(value).__name__, *(of(each) for name, each in named.items() if name != "location")
        return [of(each) for each in value] if isinstance(value, list | tuple) else value

    functions = {name: (of(f.params), f.directives, of(f.body)) for name, f in tree.functions.items()}
    return tree.version, tree.target, functions, of(tree.variables)


@pytest.mark.each_value(3)
@pytest.mark.parametrize(("name", "chip"), [(name, chip) for name in FILES for chip in chips(name)[-1:]])
def test_blanks_comments_and_directives_change_nothing(name, chip):
    ptx = text(name, chip)
    changed = mutated(ptx, random.Random(name))
    assert changed != ptx
    assert shape(parser.parse(changed)) == shape(parser.parse(ptx))


def test_ptxas_takes_such_text():
    name = FILES[0]
    chip = chips(name)[-1]
    for seed in range(3):
        ptxas.assemble(mutated(text(name, chip), random.Random(seed)), chip, options=("-O0",))


def test_a_reader_that_joins_no_modifiers_is_noticed(monkeypatch):
    monkeypatch.setattr(parser._Reader, "with_suffixes", lambda self, name: name)
    name = FILES[0]
    with pytest.raises(emulator.PtxError):
        parser.parse(mutated(text(name, chips(name)[-1]), random.Random(1)))

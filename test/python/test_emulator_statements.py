"""Instructions that are read whole give the same tree, and the same errors, as their tokens. What is known of
them is looked up once.
"""

import dataclasses
import random

import pytest
from emulator_corpus import PTX, chips, text

from weft.emulator.decoding.program import Program
from weft.emulator.errors import PtxError
from weft.emulator.instructions import TABLE, mma
from weft.emulator.reading import lexer, parser
from weft.emulator.reading.syntax import Scope
from weft.isa.family import Family

FILES = sorted({path.name.partition(".sm_")[0] for path in PTX.glob("*.ptx.xz")})
TEXT = """.version 8.6
.target sm_90a
.address_size 64
.global .align 4 .b32 counter;
.func (.reg .b32 %out) f(.reg .b32 %in)
{
  add.s32 %out, %in, 1; mov.b32 %out,
    %in;
  ret
  ;
}
.visible .entry k(.param .u64 p)
{
\t.reg .pred \t%p<3>;
\t.reg .b32 \t%r<20>;
\t.reg .b64 \t%rd<9>;
\t.file 1 "a.py"
\t.loc\t1 7 0 // a comment
\tld.param.b64 \t%rd1, [p+0];
\t.loc\t1 8 3, function_name $L__info_string0, inlined_at 1 9 5
\tld.global.L1::no_allocate.v4.b32 {%r1, %r2, _, %r4}, [%rd1+-16];
$L__BB0_1:
\t.loc 1 10 2
\tsetp.lt.s32 %p1|%p2, %r1, -5;
\t@!%p1 bra \t$L__BB0_1;
\t@%p2 mov.b32 %r5, %tid.x;  @%p1 mov.b32 %r6, 0x7f;
\tmov.b32 %r7, 0f3F800000;
\tadd.f64 %rd2, %rd2, 0d3FF0000000000000;
\tmov.b32 %r8, 1.5;
\tmov.b64 %rd3, 18446744073709551615;
\tmov.b64 %rd4, -9223372036854775808;
\tmov.b32 %r9, 010; mov.b32 %r9, 5U; mov.b32 %r9, ~5; mov.b32 %r9, - 5;
\tselp.b32 %r1, %r2, %r3, !%p1;
\tatom.add.u32 %r1, [counter], 1;
\tatom.add.u32 _, [ counter + 4 ], 1;
\tst.shared.b32 [16], %r1;
\tmma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32
\t\t{%r1, %r2, %r3, %r4},
\t\t{%r5,%r6} ,
\t\t{ %r7 }, {%r1, %r2, %r3, %r4};
\tld.global.v2.b32 {%r1,
\t\t%r2}, [%rd1];
\tcp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {%r1, %r2}], [%rd2];
\tcall.uni (%r1), f, (%r2);
\tcall.uni
\t(%r1), f,
\t(%r2);
\tadd.s32 %r1, /* a comment
\tof two lines */ %r2, %r3;
\t{ .reg .b32 %r1; mov.b32 %r1, %laneid; // inner
\t}
\tbrx.idx %r1, table; table: .branchtargets $L__BB0_1, $L__BB0_1;
\tbar.sync 0;membar.gl;
\tret;
}
"""


def described(value, scopes):
    """A value of a tree as tuples; scopes are numbered as they are first seen."""
    if isinstance(value, Scope):
        seen = value not in scopes
        number = scopes.setdefault(value, len(scopes))
        inner = (value.parent, value.registers, value.names, value.ranges) if seen else ()
        return "scope", number, *(described(each, scopes) for each in inner)
    if dataclasses.is_dataclass(value):
        fields = [getattr(value, field.name) for field in dataclasses.fields(value)]
        return type(value).__name__, *(described(each, scopes) for each in fields)
    if isinstance(value, dict):
        return [(key, described(each, scopes)) for key, each in value.items() if key not in scopes]
    if isinstance(value, list | tuple):
        return [described(each, scopes) for each in value]
    return value


def outcome(make):
    """The functions and variables of a tree, or an error."""
    try:
        tree = make()
    except PtxError as error:
        return str(error)
    scopes = {}
    functions = {}
    for name, function in tree.functions.items():
        functions[name] = described(dataclasses.replace(function, body=None), scopes)
        body = function.body and [described(each, scopes) for each in function.body]
        functions[name] = functions[name], body
    return tree.target, functions, described(tree.variables, scopes)


def check(ptx):
    assert outcome(lambda: parser.parse(ptx)) == outcome(lambda: parser._Reader(ptx).module())


def test_every_operand_and_layout_of_lines():
    whole = parser._Reader(TEXT, whole=True)
    read = [token.instruction.opcode for token in whole.tokens if token.instruction]
    tree = whole.module()
    body = tree.functions["k"].body
    assert len(read) > 15
    assert {"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", "selp.b32", "bra", "ret"} <= set(read)
    assert not {"call.uni", "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"} & set(read)
    assert len(body) == len(parser._Reader(TEXT).module().functions["k"].body)
    check(TEXT)


@pytest.mark.each_value(2)
@pytest.mark.parametrize(("name", "chip"), [(name, chip) for name in FILES for chip in chips(name)[-1:]])
@pytest.mark.sampled(7)
def test_text_of_other_compilers(name, chip):
    check(text(name, chip))


def test_most_instructions_of_compilers_are_read_whole():
    ptx = text("matmul", "sm_90a")
    read = sum(token.instruction is not None for token in lexer.tokens(ptx, Scope()))
    tree = parser.parse(ptx)
    assert read > 0.9 * sum(len(function.body or ()) for function in tree.functions.values())


@pytest.mark.each_value(1)
@pytest.mark.parametrize("seed", range(8))
def test_changed_text(seed):
    """Errors and trees are those of the tokens, wherever characters are missing, doubled or others."""
    source = random.Random(seed)
    start = TEXT.index(".func")
    for _ in range(30):
        changed = list(TEXT)
        for _ in range(source.choice((1, 1, 2))):
            at = source.randrange(start, len(changed))
            changed[at] = source.choice(("", changed[at] * 2, *';,{}[]()@!:|_.%-+/\n x1"', "\x00", "\t"))
        check("".join(changed))


def test_the_fuzz_of_this_test_finds_a_fault(monkeypatch):
    """A reader that accepts a trailing comma."""
    pattern = lexer._OPERAND.pattern.replace("(?!;)", "")
    monkeypatch.setattr(lexer, "_OPERAND", lexer.re.compile(pattern, lexer._OPERAND.flags))
    broken = TEXT.replace("%r2, %r3, !%p1;", "%r2, %r3, !%p1,;")
    with pytest.raises(AssertionError):
        check(broken)


MMA = (
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%r1,%r2,%r3,%r4}, {%r5,%r6}, {%r7}, {%r1,%r2,%r3,%r4};"
)


def decoded(body):
    """The blocks of a kernel with this body."""
    registers = ".reg .b32 %r<20>; .reg .pred %p<2>;"
    tree = parser.parse(f".version 8.6\n.target sm_90a\n.visible .entry k() {{ {registers}\n{body}\nret; }}")
    return Program(tree, tree.functions["k"], "sm_90a", TABLE).blocks


def test_a_form_of_matrix_instructions_is_judged_once(monkeypatch):
    judged = []
    judge = Family.judge
    monkeypatch.setattr(Family, "judge", lambda *given: judged.append(given) or judge(*given))
    mma._judged.cache_clear()
    blocks = decoded(f"{MMA}\n" * 30)
    assert sum(block.waits == "mma" for block in blocks) == 30
    assert len(judged) == 1
    with pytest.raises(PtxError, match="m16n8k8"):
        decoded(MMA.replace("m16n8k8.row.col.f32", "m16n8k8.row.col.f64"))


@pytest.mark.parametrize(
    ("register", "pure"), [("%clock", False), ("%globaltimer_lo", False), ("%tid.x", True)]
)
def test_blocks_that_read_a_clock_are_not_pure(register, pure):
    block, *_ = decoded(f"mov.b32 %r1, {register};")
    assert block.pure is pure


def test_names_are_looked_up_once_before_decoding(monkeypatch):
    """Once for the registers, targets and variables of a program, and once for each operand."""
    found = []
    find = Scope.find
    monkeypatch.setattr(Scope, "find", lambda *given: found.append(given) or find(*given))
    decoded("add.s32 %r1, %r2, %r3;\n" * 100)
    assert len(found) <= 600

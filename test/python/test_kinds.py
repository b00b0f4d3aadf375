"""Instructions of one kind are verified and lowered once, and alike."""

import gc
import time
import weakref

import pytest

from weft import mlir, passes
from weft.dialects import context
from weft.dialects.instruction import InstructionOp
from weft.dialects.mma import SyncOp
from weft.dialects.op import judged_on, unchecked
from weft.dialects.tile import StageOp
from weft.errors import WeftError
from weft.layout import Layout

HALF = "vector<2xf16>"
TYPES = f"({HALF}, {HALF}, {HALF}, f32, f32, f32, f32)"
STRUCT = "!llvm.struct<(f32, f32, f32, f32)>"


def sync(
    chip: str, attributes: str = "", operands: str = "%h, %h, %h, %f, %f, %f, %f", count: int = 1
) -> str:
    """A module with instructions that are all alike."""
    given = (
        'shape = "m16n8k8", a_type = "f16", b_type = "f16", c_type = "f32", d_type = "f32", '
        f"operandSegmentSizes = array<i32: 2, 1, 4>{attributes}"
    )
    line = f'"mma.sync"(%h, %h, %h, %f, %f, %f, %f) {{{given}}} : {TYPES} -> {STRUCT}'
    body = "\n".join(f"%{i} = {line}" for i in range(count))
    return (
        f'gpu.module @m_{chip} [#nvvm.target<chip = "{chip}">] {{\n'
        f"llvm.func @f(%h: vector<2xf16>, %f: f32) {{\n{body}\nllvm.return\n}}\n}}\n"
    )


def test_one_instruction_of_each_kind_is_looked_up(monkeypatch):
    judged = []
    check = InstructionOp.check
    monkeypatch.setattr(InstructionOp, "check", lambda op: judged.append(op) or check(op))
    made = context()
    module = mlir.parse(sync("sm_80", count=50), made)
    module.operation.verify()
    mlir.parse(sync("sm_80", count=20), made)
    assert len(judged) == 1
    mlir.parse(sync("sm_90", count=20), made)
    assert len(judged) == 2
    mlir.parse(sync("sm_80", ", satfinite = false", count=20), made)
    assert len(judged) == 3


@pytest.mark.parametrize(
    ("second", "complaint"),
    [
        (sync("sm_70"), "needs sm_75"),
        (sync("sm_90", ", satfinite = true"), "satfinite"),
        (sync("sm_90").replace("2, 1, 4", "1, 2, 4"), "expects 2 A registers"),
        (sync("sm_90").replace("2, 1, 4", "2, 1, 3"), "that sum to 7"),
        (sync("sm_90").replace("c_type = ", "c_tpye = "), "expects the attribute 'c_type'"),
        (
            sync("sm_90")
            .replace("%f: f32", "%f: f64")
            .replace("f32, f32, f32, f32) ->", "f64, f64, f64, f64) ->"),
            "expects 4 C registers of f32, got 4 of f64",
        ),
    ],
)
def test_what_differs_is_judged_by_itself(second, complaint):
    made = context()
    mlir.parse(sync("sm_80"), made)
    mlir.parse(sync("sm_90"), made)
    with pytest.raises(WeftError, match=complaint):
        mlir.parse(second, made)


def test_a_chip_of_judged_on_makes_another_kind():
    made = context()
    module = mlir.parse(sync("sm_80"), made)
    with judged_on("sm_70"), pytest.raises(WeftError, match="sm_70 has no"), mlir.located():
        module.operation.verify()
    module.operation.verify()


def test_what_was_left_unchecked_is_not_taken_for_sound():
    made = context()
    with unchecked():
        module = mlir.parse(sync("sm_70"), made)
    with pytest.raises(WeftError, match="needs sm_75"), mlir.located():
        module.operation.verify()


BYTES = """
gpu.module @m [#nvvm.target<chip = "sm_120a">] {
  llvm.func @f(%a: i32, %f: f32, %s: i32) {
    %t = llvm.mlir.constant(0 : i16) : i16
    %good = llvm.mlir.constant(0 : i16) : i16
    %bad = llvm.mlir.constant(7 : i16) : i16
    BODY
    llvm.return
  }
}
"""
SCALED = """
    %NAME = "mma.block_scale"(%a, %a, %a, %a, %a, %a, %f, %f, %f, %f, %s, %NAME_byte, %t, %s, %t, %t) {
      shape = "m16n8k32", kind = "mxf8f6f4", scale_vec = "1X", scale_type = "ue8m0", a_type = "e4m3",
      b_type = "e4m3", c_type = "f32", d_type = "f32",
      operandSegmentSizes = array<i32: 4, 2, 4, 1, 1, 1, 1, 1, 1>
    } : (i32, i32, i32, i32, i32, i32, f32, f32, f32, f32, i32, i16, i16, i32, i16, i16)
      -> !llvm.struct<(f32, f32, f32, f32)>
"""


def scaled(name: str, byte: str) -> str:
    return SCALED.replace("%NAME_byte", byte).replace("NAME", name)


def lowered(text, flag):
    module = mlir.parse(text, context())
    passes.manager(flag, module.context).run(module.operation)


def test_constants_are_looked_at_in_every_instruction():
    lowered(BYTES.replace("BODY", scaled("x", "%good") + scaled("y", "%good")), "lower-mma")
    with pytest.raises(WeftError, match=r"byte_id_a must be in 0\.\.3, got 7"):
        lowered(BYTES.replace("BODY", scaled("x", "%good") + scaled("y", "%bad")), "lower-mma")


def test_what_is_known_ends_with_its_context():
    made = context()
    module = mlir.parse(sync("sm_80"), made)
    gone = weakref.ref(made)
    del made, module
    gc.collect()
    assert gone() is None


def test_addresses_tell_attributes_and_types_apart():
    with context():
        texts = [f'"{i}"' for i in range(200)] + [f"{i} : i64" for i in range(200)]
        attributes = [mlir.ir.Attribute.parse(text) for text in texts]
        again = [mlir.ir.Attribute.parse(text) for text in texts]
        types = [mlir.ir.Type.parse(f"vector<{i}xf32>") for i in range(1, 200)]
        assert list(map(hash, attributes)) == list(map(hash, again))
        assert len(set(map(hash, [*attributes, *types]))) == len(attributes) + len(types)


def test_verifying_and_lowering_takes_microseconds():
    """2,000 take a tenth of a second of a free core; it was eight tenths."""
    made = context()
    module = mlir.parse(sync("sm_80", count=500), made)
    manager = passes.manager("lower-mma", made)
    manager.enable_verifier(False)
    start = time.process_time()
    module.operation.verify()
    manager.run(module.operation)
    assert time.process_time() - start < 0.15
    assert not mlir.operations(module, SyncOp)


RING = '!tile.buffer<array<i64: 4, 64, 64>, f16, #tile.layout<"S[(4,64,64):(4096,64,1)]">, "shared">'
SHARED = '!tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">, "shared">'
STAGES = f"""
func.func @f(%b: {RING}) {{
  %good = arith.constant 3 : i32
  %bad = arith.constant 4 : i32
  BODY
  return
}}
"""
STAGE = f'"tile.stage"(%b, %INDEX) : ({RING}, i32) -> {SHARED}\n'


def test_constant_coordinates_are_looked_at_in_every_tile_operation(monkeypatch):
    checked = []
    check = StageOp.check
    monkeypatch.setattr(StageOp, "check", lambda op: checked.append(op) or check(op))
    good, bad = (STAGE.replace("INDEX", name) for name in ("good", "bad"))
    mlir.parse(STAGES.replace("BODY", good * 20), context())
    assert len(checked) == 1
    with pytest.raises(WeftError, match=r"index must be in 0\.\.3, got 4"):
        lowered(STAGES.replace("BODY", good + bad), "lower-buffers")


@pytest.mark.parametrize(
    "name, flag",
    [("load", "lower-copies"), ("store", "lower-copies"), ("slice", "lower-buffers"), ("copy_async", "cse")],
)
def test_operands_of_a_kind_that_was_verified_are_looked_at(name, flag):
    """A second operation with bad operands is refused, though one of its kind with good ones was verified."""
    good, bad, complaint = REFUSED[name]
    mlir.parse(BUFFERS.replace("BODY", good * 2), context())
    with pytest.raises(WeftError, match=complaint):
        lowered(BUFFERS.replace("BODY", good + bad), flag)


PART = '!tile.buffer<array<i64: 16, 16>, f16, #tile.layout<"S[(16,16):(64,1)]">, "shared">'
LAYOUT = '#tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">'
FRAGMENT = f"tensor<16x16xf16, {LAYOUT}>"
MAP = '!tile.map<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)]">>'
BUFFERS = f"""
func.func @f(%b: {SHARED}, %g: {FRAGMENT}, %m: {MAP}) {{
  %zero = arith.constant 0 : i32
  %bad = arith.constant 3 : i32
  %threads = "tile.make_ring"() {{consumers = 1, filled_by = "threads"}} : () -> !tile.ring<2>
  %tma = "tile.make_ring"() {{consumers = 1}} : () -> !tile.ring<2>
  %good_barrier = "tile.full_barrier"(%tma, %zero) : (!tile.ring<2>, i32) -> !llvm.ptr<3>
  %bad_barrier = "tile.full_barrier"(%threads, %zero) : (!tile.ring<2>, i32) -> !llvm.ptr<3>
  BODY
  return
}}
"""


def refused(operation, good, bad, complaint):
    return operation.replace("X", good), operation.replace("X", bad), complaint


REFUSED = {
    "load": refused(
        f'"tile.load"(%b, %X, %zero) : ({SHARED}, i32, i32) -> {FRAGMENT}\n',
        *("zero", "bad", "row must be a multiple of 16"),
    ),
    "store": refused(
        f'"tile.store"(%g, %b, %zero, %X) : ({FRAGMENT}, {SHARED}, i32, i32) -> ()\n',
        *("zero", "bad", "column must be a multiple of 16"),
    ),
    "slice": refused(
        f'"tile.slice"(%b, %X, %zero) : ({SHARED}, i32, i32) -> {PART}\n',
        *("zero", "bad", "row must be a multiple of 16"),
    ),
    "copy_async": refused(
        f'"tile.copy_async"(%m, %zero, %zero, %b, %X) : ({MAP}, i32, i32, {SHARED}, !llvm.ptr<3>) -> ()\n',
        *("good_barrier", "bad_barrier", "ring whose filled_by is tma"),
    ),
}


def test_facts_about_a_type_are_computed_once(monkeypatch):
    grouped = []
    group = Layout.group
    monkeypatch.setattr(Layout, "group", lambda *given: grouped.append(given) or group(*given))
    made = context()
    with made:
        one, other = (mlir.ir.Type.parse(SHARED) for _ in range(2))
        assert one.groups == other.groups == group(one.layout, (64, 64))
        assert (one.shape, one.space, one.element_bits) == ((64, 64), "shared", 16)
        assert one.complaint() is other.complaint() is None
    assert len(grouped) == 1
    with context():
        assert mlir.ir.Type.parse(SHARED).shape == (64, 64)

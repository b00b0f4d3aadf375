"""Properties of all passes: loops of nesting end, and no lowered operation remains."""

from pathlib import Path

import pytest

from weft import mlir, passes
from weft.dialects import context
from weft.dialects.mma import Mma, SyncOp
from weft.errors import WeftError
from weft.passes.registry import pipeline
from weft.passes.registry.pass_ import Pass

SYNC = """gpu.module @m {
  gpu.func @k(%a: vector<2xf16>, %c: f32) kernel {
    %d = "mma.sync"(%a, %a, %a, %c, %c, %c, %c) {shape = "m16n8k8", a_type = "f16", b_type = "f16",
      c_type = "f32", d_type = "f32", operandSegmentSizes = array<i32: 2, 1, 4>}
      : (vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32)
      -> !llvm.struct<(f32, f32, f32, f32)>
    gpu.return
  }
}
"""


@pytest.mark.parametrize("lowers", [(Mma,), (SyncOp,)])
def test_an_op_that_survives_its_pass_is_an_error_with_its_source_location(lowers):
    module = mlir.parse(SYNC, context())
    forgetful = Pass("lower-nothing", "forget to lower", lambda op: None, lowers=lowers)
    with pytest.raises(WeftError) as caught:
        forgetful.configured({})(module.operation, None)
    assert str(caught.value) == "-:3:10: error: 'mma.sync' op survives --lower-nothing"
    passes.PASSES["lower-mma"].configured({})(module.operation, None)


OF_UPSTREAM = {"lower-conversions", "lower-math", "lower-subgroups"}
"""Lowerings of a part of upstream's dialects, whose own passes lower the rest."""


def test_every_lowering_names_what_it_lowers():
    unnamed = {p.flag for p in passes.PASSES.values() if p.flag.startswith("lower-") and not p.lowers}
    assert unnamed == OF_UPSTREAM


def test_every_pass_has_a_lit_test_of_its_name():
    tests = Path(__file__).parents[1] / "passes"
    files = {flag: tests / f"{flag.replace('-', '_')}.mlir" for flag in passes.PASSES}
    assert not [
        f for f, file in files.items() if not file.exists() or f"--{f}" not in file.read_text("utf-8")
    ]


def test_pipelines_nested_too_deeply_are_refused_at_the_parenthesis():
    deep = "builtin.module(" * 5000 + "cse" + ")" * 5000
    with pytest.raises(WeftError, match=r"^pass pipeline, column 495: .* nested deeper than 32\n"):
        passes.manager(deep, context())
    nested = "builtin.module(" * 32 + "cse" + ")" * 32
    assert len(pipeline.parse(nested)) == 1

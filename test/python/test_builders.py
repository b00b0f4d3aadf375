"""The functions that build instructions answer every mistake with the verifier's words and a place."""

from pathlib import Path

import pytest

import weft
from weft.dialects import mma, tcgen05, wgmma, wmma
from weft.dialects.op import Op

BUILDERS = [
    pytest.param(value, id=f"{dialect.__name__.rpartition('.')[2]}.{name}")
    for dialect in (wmma, mma, wgmma, tcgen05)
    for name, value in vars(dialect).items()
    if isinstance(kind := getattr(value, "__self__", None), type) and issubclass(kind, Op)
]
WHOLE = ("wgmma.fence", "wgmma.commit_group", "wgmma.wait_group")

MISTAKES = [
    {},
    {"shape": "m1n1k1"},
    {"shape": 17},
    {"shape": [1, 2]},
    {"cta_group": Ellipsis},
    {"no_such_attribute": 1},
    {"a": 3, "address": "somewhere"},
    {"shape": "m16n8k16", "a_type": "x", "b_type": "f16", "c_type": "f32", "d_type": "f32"},
]


def test_every_builder_is_tried():
    assert len(BUILDERS) >= 30


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
@pytest.mark.parametrize("builder", BUILDERS)
def test_a_mistake_is_told_where_it_was_made(builder, mistake):
    name = builder.__self__.OPERATION_NAME
    if not mistake and name in WHOLE:
        return
    with weft.Module(), pytest.raises(weft.WeftError) as caught:
        builder(**mistake)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message.startswith(f"'{name}' op ")
    assert diagnostic.location is not None
    assert Path(diagnostic.location.file).name == "test_builders.py"

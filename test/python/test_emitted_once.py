"""Numbers that a pass computes for many copies are built once for each basic block."""

from collections import Counter

import pytest

import weft
from weft import mlir, passes
from weft.dialects import context
from weft.mlir import arith, ir
from weft.passes.builders import emit

SHARED = '!tile.buffer<array<i64: 64, 64>, f16, #tile.layout<"S[(64,64):(64,1)] xor 128B">, "shared">'
LAYOUT = '#tile.layout<"S[(2,8,2,4,2):(2,4@laneid,4,1@laneid,1)]">'
FRAGMENT = f"!tile.fragment<array<i64: 16, 16>, f16, {LAYOUT}>"
LOADS = 16


def numbers():
    """Values of each builder, of the same operands."""
    x = emit.thread()
    made = [
        emit.add(x, 3),
        emit.sub(x, 3),
        emit.mul(x, 5),
        emit.div(x, 5),
        emit.rem(x, 5),
        emit.bit_and(x, 6),
    ]
    made += [emit.xor(x, 3), emit.shift_right(x, 2), emit.minimum(x, 9), emit.maximum(x, 9), emit.value(7)]
    return [x, *made, emit.as_i32(emit.as_index(x))]


def test_the_same_numbers_are_one_operation():
    with weft.Module() as module, module.kernel("k", [], block=(32, 1, 1)):
        with emit.each_once():
            first = numbers()
            assert numbers() == first
            assert len({hash(value) for value in first}) == len(first)
            with emit.when(emit.less(first[0], 4)):
                inner = numbers()
                assert not set(map(hash, inner)) & set(map(hash, first))
                assert numbers() == inner
            with emit.when(emit.less(first[0], 5)):  # the other branch has none of these
                assert not set(map(hash, numbers())) & set(map(hash, inner))
            assert numbers() == first
        assert not set(map(hash, numbers())) & set(map(hash, first))
    module.mlir.operation.verify()


@pytest.mark.parametrize("copies", ["load", "copy_async"])
def test_copies_share_what_they_compute(copies):
    body = "\n".join(
        f'%{i} = "tile.load"(%b, %zero, %c{i % 3 + 1}) : ({SHARED}, i32, i32) -> {FRAGMENT}'
        if copies == "load"
        else f'"tile.copy_async"(%m, %c{i % 3 + 1}, %zero, %b) {{vector_bytes = 16}} '
        f": (memref<?x?xf16>, i32, i32, {SHARED}) -> ()"
        for i in range(LOADS)
    )
    coordinates = "\n".join(f"%c{i} = arith.constant {16 * i} : i32" for i in range(1, 4))
    text = f"""gpu.module @m [#nvvm.target<chip = "sm_80">] {{
      gpu.func @k(%b: {SHARED}, %m: memref<?x?xf16>) kernel
          attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
        %zero = arith.constant 0 : i32
        {coordinates}
        {body}
        gpu.return
      }}
    }}"""
    module = mlir.parse(text, context())
    manager = passes.manager("lower-copies", module.context)
    manager.run(module.operation)
    module.operation.verify()
    numbers = Counter()

    def visit(op):
        if op.name.startswith("arith.") and op.results and str(op.results[0].type) == "i32":
            numbers[op.name, *map(hash, op.operands), *map(str, op.attributes.values())] += 1
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    # The module's own constants are apart.
    repeated = [key for key, count in numbers.items() if count > 2]
    assert len(numbers) > 10
    assert not repeated, repeated
    assert arith.ConstantOp.OPERATION_NAME in {name for name, *_ in numbers}

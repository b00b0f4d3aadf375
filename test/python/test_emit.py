"""What `emit` builds of numbers and values."""

import weft
from weft.mlir import gpu, operations
from weft.passes.builders import emit


def test_a_sum_is_built_once_where_it_is_reused():
    with weft.Module() as module, module.kernel("k", [], block=(32, 1, 1)):
        thread = emit.thread()
        with emit.reused():
            first = emit.add(thread, 7)
            assert emit.add(thread, 7) == first
            assert emit.mul(thread, 7) != first
            assert emit.value(7) == emit.value(7)
        assert emit.add(thread, 7) != first


def test_nothing_of_a_branch_is_reused_outside():
    with weft.Module() as module, module.kernel("k", [], block=(32, 1, 1)):
        thread = emit.thread()
        condition = emit.less(thread, 3)
        with emit.reused():
            before = emit.add(thread, 5)
            with emit.when(condition):
                inside = emit.add(thread, 9)
            assert emit.add(thread, 9) != inside
            assert emit.add(thread, 5) == before
    module.mlir.operation.verify()
    assert operations(module.mlir, gpu.GPUFuncOp)

"""Gluon kernels for the emulator's tests; compile_gluon.py makes their PTX."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import hopper
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    clc,
    tcgen05_commit,
    tcgen05_mma,
)
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma


@gluon.jit
def softmax(x, y, columns, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    row, at = gl.program_id(0), gl.arange(0, BLOCK, layout)
    v = gl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    e = gl.exp(v - gl.max(v, 0))
    gl.store(y + row * columns + at, e / gl.sum(e, 0), mask=at < columns)


@gluon.jit
def transpose(x, y, rows, columns, BLOCK: gl.constexpr):
    """Through shared memory, read along rows and written along columns."""
    across: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [gl.num_warps(), 1], [1, 0])
    down: gl.constexpr = gl.BlockedLayout([4, 1], [8, 4], [1, gl.num_warps()], [0, 1])
    shared: gl.constexpr = gl.SwizzledSharedLayout(4, 1, 8, [1, 0])
    r = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(1, across))
    c = gl.program_id(1) * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(0, across))
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    tile = gl.load(x + r[:, None] * columns + c[None, :], mask=inside, other=0.0)
    memory = gl.allocate_shared_memory(x.dtype.element_ty, [BLOCK, BLOCK], shared, tile)
    turned = memory.load(down)
    r = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(1, down))
    c = gl.program_id(1) * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(0, down))
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    gl.store(y + c[None, :] * rows + r[:, None], turned, mask=inside)


@gluon.jit
def wgmma_matmul(a, b, c, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr):
    """Copies by TMA run STAGES - 1 blocks of K ahead of wgmma, issued by the same warps."""
    m, n = gl.program_id(0) * BM, gl.program_id(1) * BN
    xs = gl.allocate_shared_memory(a.dtype, [STAGES, BM, BK], a.layout)
    ys = gl.allocate_shared_memory(b.dtype, [STAGES, BN, BK], b.layout)
    full = mbarrier.allocate_mbarrier(batch=STAGES)
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
    blocks = gl.cdiv(K, BK)
    for i in gl.static_range(STAGES - 1):
        mbarrier.expect(full.index(i), a.nbytes_per_cta + b.nbytes_per_cta, pred=i < blocks)
        tma.async_load(a, [m, i * BK], full.index(i), xs.index(i), pred=i < blocks)
        tma.async_load(b, [n, i * BK], full.index(i), ys.index(i), pred=i < blocks)
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, BN, 16])
    acc = hopper.warpgroup_mma_init(gl.zeros([BM, BN], gl.float32, layout))
    for i in range(blocks):
        stage = i % STAGES
        mbarrier.wait(full.index(stage), (i // STAGES) & 1)
        acc = hopper.warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
        after = i + STAGES - 1
        slot = after % STAGES
        mbarrier.expect(full.index(slot), a.nbytes_per_cta + b.nbytes_per_cta, pred=after < blocks)
        tma.async_load(a, [m, after * BK], full.index(slot), xs.index(slot), pred=after < blocks)
        tma.async_load(b, [n, after * BK], full.index(slot), ys.index(slot), pred=after < blocks)
        y = ys.index(stage).permute((1, 0))
        acc = hopper.warpgroup_mma(xs.index(stage), y, acc, is_async=True)
    acc = hopper.warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
    for i in gl.static_range(STAGES):
        mbarrier.invalidate(full.index(i))
    out = gl.allocate_shared_memory(c.dtype, [BM, BN], c.layout, acc.to(c.dtype))
    hopper.fence_async_shared()
    tma.async_store(c, [m, n], out)
    tma.store_wait(0)


@gluon.jit
def _load(a, b, xs, ys, full, empty, m, n, blocks, BK: gl.constexpr, STAGES: gl.constexpr):
    for i in range(blocks):
        stage = i % STAGES
        mbarrier.wait(empty.index(stage), ((i // STAGES) & 1) ^ 1)
        mbarrier.expect(full.index(stage), a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [m, i * BK], full.index(stage), xs.index(stage))
        tma.async_load(b, [n, i * BK], full.index(stage), ys.index(stage))


@gluon.jit
def _multiply(c, xs, ys, full, empty, m, n, blocks, BM: gl.constexpr, BN: gl.constexpr, STAGES: gl.constexpr):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [gl.num_warps(), 1], [16, BN, 16])
    acc = gl.zeros([BM, BN], gl.float32, layout)
    for i in range(blocks):
        stage = i % STAGES
        mbarrier.wait(full.index(stage), (i // STAGES) & 1)
        y = ys.index(stage).permute((1, 0))
        acc = hopper.warpgroup_mma(xs.index(stage), y, acc, is_async=True)
        acc = hopper.warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
        mbarrier.arrive(empty.index(stage), count=1)
    out = gl.allocate_shared_memory(c.dtype, [BM, BN], c.layout, acc.to(c.dtype))
    hopper.fence_async_shared()
    tma.async_store(c, [m, n], out)
    tma.store_wait(0)


@gluon.jit
def wgmma_roles(a, b, c, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr):
    """One warp copies, the others multiply; registers move to these."""
    m, n = gl.program_id(0) * BM, gl.program_id(1) * BN
    xs = gl.allocate_shared_memory(a.dtype, [STAGES, BM, BK], a.layout)
    ys = gl.allocate_shared_memory(b.dtype, [STAGES, BN, BK], b.layout)
    full, empty = mbarrier.allocate_mbarrier(batch=STAGES), mbarrier.allocate_mbarrier(batch=STAGES)
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    blocks = gl.cdiv(K, BK)
    gl.warp_specialize(
        [
            (_multiply, (c, xs, ys, full, empty, m, n, blocks, BM, BN, STAGES)),
            (_load, (a, b, xs, ys, full, empty, m, n, blocks, BK, STAGES)),
        ],
        [1],
        [24],
    )


@gluon.jit
def tcgen05_matmul(a, b, c, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """A stage for each block of K, awaited before the next one."""
    m, n = gl.program_id(0) * BM, gl.program_id(1) * BN
    x = gl.allocate_shared_memory(a.dtype, [BM, BK], a.layout)
    y = gl.allocate_shared_memory(b.dtype, [BN, BK], b.layout)
    full, done = mbarrier.allocate_mbarrier(), mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=1)
    acc = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout([BM, BN], col_stride=1))
    for i in range(gl.cdiv(K, BK)):
        mbarrier.expect(full, a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [m, i * BK], full, x)
        tma.async_load(b, [n, i * BK], full, y)
        mbarrier.wait(full, i & 1)
        tcgen05_mma(x, y.permute((1, 0)), acc, use_acc=i > 0)
        tcgen05_commit(done)
        mbarrier.wait(done, i & 1)
    mbarrier.invalidate(full)
    mbarrier.invalidate(done)
    out = gl.allocate_shared_memory(c.dtype, [BM, BN], c.layout, acc.load().to(c.dtype))
    hopper.fence_async_shared()
    tma.async_store(c, [m, n], out)
    tma.store_wait(0)


@gluon.jit
def _tcgen05_multiply(xs, ys, full, empty, acc, ready, blocks, STAGES: gl.constexpr):
    for i in range(blocks):
        stage = i % STAGES
        mbarrier.wait(full.index(stage), (i // STAGES) & 1)
        tcgen05_mma(xs.index(stage), ys.index(stage).permute((1, 0)), acc, use_acc=i > 0)
        tcgen05_commit(empty.index(stage))
    tcgen05_commit(ready)


@gluon.jit
def _tcgen05_write(c, acc, ready, m, n, BM: gl.constexpr, BN: gl.constexpr):
    mbarrier.wait(ready, 0)
    out = gl.allocate_shared_memory(c.dtype, [BM, BN], c.layout, acc.load().to(c.dtype))
    hopper.fence_async_shared()
    tma.async_store(c, [m, n], out)
    tma.store_wait(0)


@gluon.jit
def tcgen05_roles(a, b, c, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr):
    """A warp copies, a warp multiplies, and four warps write the result."""
    m, n = gl.program_id(0) * BM, gl.program_id(1) * BN
    xs = gl.allocate_shared_memory(a.dtype, [STAGES, BM, BK], a.layout)
    ys = gl.allocate_shared_memory(b.dtype, [STAGES, BN, BK], b.layout)
    full, empty = mbarrier.allocate_mbarrier(batch=STAGES), mbarrier.allocate_mbarrier(batch=STAGES)
    ready = mbarrier.allocate_mbarrier()
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    mbarrier.init(ready, count=1)
    acc = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout([BM, BN], col_stride=1))
    blocks = gl.cdiv(K, BK)
    gl.warp_specialize(
        [
            (_tcgen05_write, (c, acc, ready, m, n, BM, BN)),
            (_load, (a, b, xs, ys, full, empty, m, n, blocks, BK, STAGES)),
            (_tcgen05_multiply, (xs, ys, full, empty, acc, ready, blocks, STAGES)),
        ],
        [1, 1],
        [24, 24],
    )


@gluon.jit
def cancelled(x, count, BLOCK: gl.constexpr):
    """Adds one to each block; a program also does the blocks of the programs that it cancels."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    response = gl.allocate_shared_memory(gl.int64, [2], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    told = mbarrier.allocate_mbarrier()
    mbarrier.init(told, count=1)
    block, phase, more = gl.program_id(0), 0, True
    while more:
        mbarrier.expect(told, 16)
        clc.try_cancel(response, told)
        at = block * BLOCK + gl.arange(0, BLOCK, layout)
        gl.store(x + at, gl.load(x + at, mask=at < count) + 1, mask=at < count)
        mbarrier.wait(told, phase)
        result = clc.load_result(response)
        more = result.is_canceled()
        block = result.program_id(0)
        phase ^= 1
    mbarrier.invalidate(told)

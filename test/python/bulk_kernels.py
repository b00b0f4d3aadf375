"""Kernels of one CTA with bulk copies, for tests."""

import ml_dtypes
import numpy as np
from emulator_ptx import module

from weft import emulator

RNG = np.random.default_rng(11)
BF16 = ml_dtypes.bfloat16
SIZE = 1024
TYPES = {
    "u32": np.uint32,
    "s32": np.int32,
    "u64": np.uint64,
    "s64": np.int64,
    "f16": np.float16,
    "bf16": BF16,
    "f32": np.float32,
    "f64": np.float64,
    "b32": np.uint32,
    "b64": np.uint64,
}
WAIT = "@%l cp.async.bulk.commit_group;\n@%l cp.async.bulk.wait_group 0;"
ARRIVED = "W: mbarrier.try_wait.parity.shared::cta.b64 %q, [bar], 0;\n@!%q bra W;"
EXPECT = "@%l mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {};"


def map_of(array, box, dtype="UINT16", **more):
    """The tensor map of a whole matrix; `box` has columns first."""
    rows, columns = array.shape
    return emulator.TensorMap.tiled(
        array,
        dtype=dtype,
        dims=(columns, rows),
        strides_bytes=(columns * array.itemsize,),
        box=box,
        **more,
    )


def kernel(body, params, fill="", cluster=1, align=1024):
    """A block of 128 threads; %l is thread 0's. `fill` names the array that shared memory begins with."""
    declared = ", ".join(
        f".param .align 64 .b8 p_{name}[128]" if kind == "map" else f".param .u64 p_{name}"
        for name, kind in params
    )
    loads = "\n".join(
        f"mov.b64 %{name}, p_{name}; cvta.param.u64 %{name}, %{name};"
        if kind == "map"
        else f"ld.param.u64 %{name}, [p_{name}];"
        for name, kind in params
    )
    filled = f"""
      mad.wide.u32 %d0, %t, 8, %{fill}; ld.global.b64 %d1, [%d0]; shl.b32 %r1, %t, 3; add.u32 %r1, %r1, %s;
      st.shared.b64 [%r1], %d1; fence.proxy.async.shared::cta;"""
    directive = f".explicitcluster .reqnctapercluster {cluster}" if cluster > 1 else ""
    both = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if cluster > 1 else "bar.sync 0;"
    return f"""
.visible .entry k({declared}) {directive}
{{
  .shared .align {align} .b8 smem[{4 * SIZE}]; .shared .align 8 .b64 bar;
  .reg .b32 %t, %s, %c, %r<8>; .reg .b64 %d<8>; .reg .b16 %h<8>; .reg .pred %l, %q, %p<4>;
  {"".join(f".reg .b64 %{name}; " for name, _ in params)}
  {loads}
  mov.u32 %t, %tid.x; mov.u32 %s, smem; mov.u32 %c, %cluster_ctarank; setp.eq.u32 %l, %t, 0;
  @%l mbarrier.init.shared::cta.b64 [bar], 1;
  @%l fence.mbarrier_init.release.cluster;
  {filled if fill else ""}
  {both}
  {body}
  {both}
  ret;
}}
"""


def run(body, arrays, *, fill="", target="sm_90a", cluster=1, findings=False, **more):
    """Runs a kernel on arrays and maps by name."""
    kinds = [
        (name, "map" if isinstance(value, emulator.TensorMap) else "array") for name, value in arrays.items()
    ]
    report = module(kernel(body, kinds, fill, cluster), target).launch(
        "k", grid=cluster, block=128, args=list(arrays.values()), **more
    )
    if not findings:
        assert not report.findings, report.findings
    return report


def out_of_shared(count=SIZE):
    """Writes shared memory to %out, 8 bytes a thread."""
    return f"""
      mad.wide.u32 %d0, %t, 8, %out; shl.b32 %r1, %t, 3; setp.lt.u32 %p3, %r1, {count}; add.u32 %r1, %r1, %s;
      @%p3 ld.shared.b64 %d1, [%r1];
      @%p3 st.global.b64 [%d0], %d1;"""


def octets(count=SIZE):
    return RNG.integers(0, 256, count, dtype=np.uint8)


def values(kind, count):
    dtype = np.dtype(TYPES[kind])
    if kind in ("f16", "bf16", "f32", "f64"):
        return (RNG.standard_normal(count) * 8).astype(dtype)
    low, high = (-1000, 1000) if kind.startswith("s") else (0, 2000)
    return RNG.integers(low, high, count).astype(dtype)


def reduced(op, old, new):
    """The operation as the ISA defines it; sums of halves are rounded once."""
    if op == "add" and old.dtype in (np.dtype(np.float16), np.dtype(BF16)):
        return (old.astype(np.float64) + new.astype(np.float64)).astype(old.dtype)
    if op == "inc":
        return np.where(old >= new, 0, old + 1).astype(old.dtype)
    if op == "dec":
        return np.where((old == 0) | (old > new), new, old - 1).astype(old.dtype)
    named = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    function = named.get(op) or {"add": np.add, "min": np.minimum, "max": np.maximum}[op]
    return function(old, new).astype(old.dtype)

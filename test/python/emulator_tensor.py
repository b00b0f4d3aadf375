"""PTX kernels of one warpgroup that use tensor memory, for the emulator's tests."""

import numpy as np
from emulator_ptx import module

LANES, COLUMNS = 128, 512
TARGET = "sm_100a"


def kernel(body, columns=COLUMNS, params=("data", "out"), declare="", cluster="", group=1):
    """A kernel of four warps whose first allocates `columns` and gives them back; their address is %t.

    Of `params`, all arrays, `name` is in %name; %i is the thread, %w its warp, %b its first lane << 16.
    """
    loads = "\n".join(f"ld.param.u64 %{name}, [p_{name}];" for name in params)
    return f"""
.visible .entry k({", ".join(f".param .u64 p_{name}" for name in params)}) {cluster}
{{
  .reg .pred %p<16>; .reg .b32 %r<300>, %t, %i, %w, %b, %c; .reg .b64 %rd<32>; .reg .b16 %h<8>;
  {"".join(f".reg .b64 %{name}; " for name in params)}
  .shared .align 8 .b64 bar; .shared .align 4 .b32 slot;
  {declare}
  {loads}
  mov.u32 %i, %tid.x; shr.u32 %w, %i, 5; shl.b32 %b, %w, 21; mov.u32 %c, %cluster_ctarank;
  setp.eq.u32 %p0, %w, 0;
  @!%p0 bra READY;
  tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [slot], {columns};
  tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;
  setp.eq.u32 %p1, %i, 0;
  @%p1 mbarrier.init.shared::cta.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
READY:
  bar.sync 0;
  {"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if cluster else ""}
  tcgen05.fence::after_thread_sync;
  ld.shared.u32 %t, [slot];
  setp.eq.u32 %p1, %i, 0;
  {body}
  tcgen05.fence::before_thread_sync;
  {"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if cluster else ""}
  bar.sync 0;
  @!%p0 bra DONE;
  tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %t, {columns};
DONE:
  ret;
}}
"""


def registers(count, first=0):
    return "{" + ", ".join(f"%r{first + n}" for n in range(count)) + "}"


def thread_words(count, array, first=0, load=True):
    """Loads or stores `count` words of each thread: element `n * 128 + thread` of an array."""
    lines = [f"mad.wide.u32 %rd0, %i, 4, %{array};"]
    for n in range(count):
        at = f"[%rd0+{512 * n}]"
        lines.append(f"ld.global.u32 %r{first + n}, {at};" if load else f"st.global.u32 {at}, %r{first + n};")
    return "\n".join(lines)


def cells(first, count, array, load=True):
    """Moves columns from `first` on between tensor memory and an array [count, 128] of words."""
    lines, done = [], 0
    while done < count:
        step = next(n for n in (64, 32, 16, 8, 4, 2, 1) if n <= count - done)
        lines += [f"add.u32 %r299, %t, {first + done};", "add.u32 %r299, %r299, %b;"]
        offset = f"add.u64 %rd1, %{array}, {512 * done}; mad.wide.u32 %rd1, %i, 4, %rd1;"
        data = registers(step)
        if load:
            lines.append(offset)
            lines += [f"ld.global.u32 %r{n}, [%rd1+{512 * n}];" for n in range(step)]
            lines += [f"tcgen05.st.sync.aligned.32x32b.x{step}.b32 [%r299], {data};"]
            lines += ["tcgen05.wait::st.sync.aligned;"]
        else:
            lines += [f"tcgen05.ld.sync.aligned.32x32b.x{step}.b32 {data}, [%r299];"]
            lines += ["tcgen05.wait::ld.sync.aligned;", offset]
            lines += [f"st.global.u32 [%rd1+{512 * n}], %r{n};" for n in range(step)]
        done += step
    return "\n".join(lines)


def launch(body, arrays, *, target=TARGET, grid=1, findings=False, cluster=(1, 1, 1), **options):
    """Runs the kernel on arrays by name; without `findings` the sanitizer must have none."""
    shape = f".explicitcluster .reqnctapercluster {cluster[0]}" if cluster != (1, 1, 1) else ""
    text = kernel(body, params=tuple(arrays), cluster=shape, **options)
    report = module(text, target).launch("k", grid=grid, block=LANES, args=list(arrays.values()))
    if not findings:
        assert not report.findings, report.findings
    return report


def words(rng, shape):
    return rng.integers(0, 1 << 32, shape, dtype=np.uint64).astype(np.uint32)

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
  {"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if cluster else ""}
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


STEP = 32


def cells(first, count, array, load=True):
    """Moves columns from `first` on between tensor memory and an array [count, 128] of words."""
    whole = count // STEP * STEP
    text = ""
    if whole:
        text = f"""
        {{
          .reg .pred %more; .reg .b32 %at, %done; .reg .b64 %place;
          add.u32 %at, %t, {first}; add.u32 %at, %at, %b; mov.u32 %done, 0;
          mad.wide.u32 %place, %i, 4, %{array};
        NEXT:
          {_block(STEP, "%at", "%place", load)}
          add.u32 %at, %at, {STEP}; add.u64 %place, %place, {512 * STEP}; add.u32 %done, %done, {STEP};
          setp.lt.u32 %more, %done, {whole};
          @%more bra NEXT;
        }}"""
    while whole < count:
        step = next(n for n in (16, 8, 4, 2, 1) if n <= count - whole)
        text += f"""
          add.u32 %r299, %t, {first + whole}; add.u32 %r299, %r299, %b;
          add.u64 %rd1, %{array}, {512 * whole}; mad.wide.u32 %rd1, %i, 4, %rd1;
          {_block(step, "%r299", "%rd1", load)}"""
        whole += step
    return text


def _block(step, address, place, load):
    """One `tcgen05.ld` or `st` of so many columns."""
    data = registers(step)
    if load:
        moves = " ".join(f"ld.global.u32 %r{n}, [{place}+{512 * n}];" for n in range(step))
        stored = f"tcgen05.st.sync.aligned.32x32b.x{step}.b32 [{address}], {data};"
        return f"{moves} {stored} tcgen05.wait::st.sync.aligned;"
    loaded = f"tcgen05.ld.sync.aligned.32x32b.x{step}.b32 {data}, [{address}];"
    moves = " ".join(f"st.global.u32 [{place}+{512 * n}], %r{n};" for n in range(step))
    return f"{loaded} tcgen05.wait::ld.sync.aligned; {moves}"


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

"""Kernels that run in clusters of the emulator."""

import numpy as np
from emulator_ptx import module

SEEDS = (None, 1, 2, 3)


def launch(body, grid, cluster, block=32, words=1, directives="", count=None, **options):
    """Runs a body with `words` results of each thread at %rd2, in the order of CTA numbers in the grid.

    %r0 is tid, %r1 the CTA's number, %r2 its rank in the cluster; [bar] is a barrier, [data] has 4 KiB.
    """
    text = f"""
    .visible .entry k(.param .u64 p_out) {directives}
    {{
      .reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %rd<40>; .reg .f32 %f<8>; .reg .b128 %q<4>;
      .shared .align 16 .b8 data[4096]; .shared .align 8 .b64 bar;
      ld.param.u64 %rd1, [p_out];
      mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.z; mov.u32 %r3, %nctaid.y; mov.u32 %r4, %ctaid.y;
      mad.lo.u32 %r1, %r1, %r3, %r4; mov.u32 %r3, %nctaid.x; mov.u32 %r4, %ctaid.x;
      mad.lo.u32 %r1, %r1, %r3, %r4; mov.u32 %r3, %ntid.x; mad.lo.u32 %r3, %r1, %r3, %r0;
      mad.wide.u32 %rd2, %r3, {4 * words}, %rd1;
      mov.u32 %r2, %cluster_ctarank;
      {body}
    }}"""
    total = count or int(np.prod(grid)) * block
    out = np.zeros((total, words) if words > 1 else total, np.uint32)
    report = module(text, "sm_100a").launch(
        "k", grid=grid, block=block, args=[out], cluster=cluster, **options
    )
    assert not report.findings
    return out, report


SYNC = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n"

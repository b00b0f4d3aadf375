"""With `strict`, the sanitizer also reports what PTX requires and other compilers leave to the hardware."""

import re

import emulator_ptx
import numpy as np
import planted_faults
import pytest

from weft import WeftError, emulator

INIT_FENCE = "fence.mbarrier_init.release.cluster;"


def rules(text, **options):
    options = {"max_instructions": 100_000, "strict": True, **options}
    module = emulator.Module(text)
    launch = planted_faults.launch_options("accumulate.sm_100a")
    found = module.launch("k", args=[np.zeros(128, np.uint32)], **launch, **options).findings
    return {finding.rule for finding in found}


def product():
    """A product whose only fence for its mbarrier is fence.mbarrier_init."""
    text = planted_faults.source("accumulate.sm_100a")
    assert text.count(INIT_FENCE) == 1
    return text


@pytest.mark.parametrize("kernel", planted_faults.KERNELS)
def test_correct_kernels_have_no_finding(kernel):
    options = planted_faults.launch_options(kernel)
    arguments = planted_faults.arguments(kernel)
    report = emulator.Module(planted_faults.source(kernel)).launch(
        "k", args=arguments, strict=True, **options
    )
    assert report.findings == ()


def test_units_use_an_mbarrier_after_a_fence():
    text = product().replace(INIT_FENCE, "").replace("fence.proxy.async.shared::cta;", "")
    assert rules(text, ignore=["missing-proxy-fence"]) == {"mbarrier-init-fence"}
    assert rules(text, ignore=["missing-proxy-fence"], strict=False) == set()


def test_a_proxy_fence_after_the_init_is_enough():
    text = product().replace(INIT_FENCE, "fence.proxy.async.shared::cta;")
    assert rules(text) == set()


def test_fences_of_tensor_memory_are_needed_in_kernels_that_have_none():
    text = re.sub(r"tcgen05\.fence.*;", "", product())
    assert rules(text) == {"tcgen05-fence"}
    assert rules(text, strict=False) == set()


def test_loads_are_waited_for_in_kernels_without_fences():
    text = re.sub(r"tcgen05\.(wait::ld|fence).*;", "", product())
    assert "tcgen05-in-flight" in rules(text)
    assert "tcgen05-in-flight" not in rules(text, strict=False)


def test_strict_is_a_flag():
    with pytest.raises(WeftError, match="strict must be True or False"):
        rules(product(), strict="yes")


# Lane 0 tells the other warp that all lanes have written or read; then it waits, and its warp reads.
ONE_LANE = """
  .shared .b64 bar[2]; .shared .b32 data[32];
  mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 31; shl.b32 %r2, %r1, 2; mov.u32 %r3, data; add.u32 %r3, %r3, %r2;
  mov.u64 %l0, bar; shr.u32 %r4, %r0, 5;
  setp.eq.u32 %q0, %r0, 0; setp.eq.u32 %q1, %r1, 0; setp.eq.u32 %q2, %r4, 0;
  @%q0 mbarrier.init.shared.b64 [%l0], COUNT; @%q0 mbarrier.init.shared.b64 [%l0+8], COUNT;
  bar.sync 0;
  @!%q2 bra SECOND;
  st.shared.u32 [%r3], %r0;
  RELEASE
  ARRIVES mbarrier.arrive.shared.b64 %l1, [%l0];
  bra.uni DONE;
SECOND:
  @!%q1 bra READ;
WAIT:
  mbarrier.try_wait.parity.shared.b64 %q3, [%l0], 0; @!%q3 bra WAIT;
READ:
  ACQUIRE
  ld.shared.u32 %r5, [%r3];
DONE:
"""


def of_lanes(release="bar.warp.sync -1;", acquire="bar.warp.sync -1;", arrives="@%q1", **options):
    """The rules of what is found where a warp passes 32 words to another."""
    replaced = {"RELEASE": release, "ACQUIRE": acquire, "ARRIVES": arrives}
    replaced["COUNT"] = "1" if arrives else "32"
    body = ONE_LANE
    for name, text in replaced.items():
        body = body.replace(name, text)
    module = emulator.Module(emulator_ptx.kernel(body, [], [], target="sm_90"))
    launch = {"grid": 1, "block": 64, "strict": True, **options}
    return {finding.rule for finding in module.launch("k", args=[], **launch).findings}


def test_a_lane_arrives_for_its_warp_after_a_barrier():
    assert of_lanes(release="") == {"shared-race"}
    assert of_lanes(release="", strict=False) == set()


def test_a_lane_waits_for_its_warp_before_a_barrier():
    assert of_lanes(acquire="") == {"shared-race"}
    assert of_lanes(acquire="", strict=False) == set()


@pytest.mark.parametrize("seed", [None, *range(6)])
@pytest.mark.parametrize("arrives", ["", "@%q1"])
def test_barriers_of_warps_and_arrivals_of_all_lanes_are_enough(arrives, seed):
    release = "bar.warp.sync -1;" if arrives else ""
    assert of_lanes(release, arrives=arrives, seed=seed) == set()
    assert of_lanes("bar.sync 1, 32;", "bar.sync 2, 32;", arrives=arrives, seed=seed) == set()


@pytest.mark.parametrize(("synced", "found"), [("", {"global-race"}), ("bar.warp.sync -1;", set())])
def test_a_lane_counts_for_its_warp_after_a_barrier(synced, found):
    """The warp that counts last reads what the other has written."""
    body = f"""
      .reg .pred %done;
      mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 31; setp.eq.u32 %q1, %r1, 0;
      ld.param.u64 %l0, [p_d0]; ld.param.u64 %l2, [p_d1];
      mad.wide.u32 %l1, %r0, 4, %l0; st.global.u32 [%l1], %r0;
      {synced} fence.acq_rel.gpu; mov.u32 %r2, 0;
      @%q1 atom.global.add.u32 %r2, [%l2], 1;
      shfl.sync.idx.b32 %r3, %r2, 0, 31, -1;
      bar.warp.sync -1; fence.acq_rel.gpu;
      setp.ne.u32 %done, %r3, 1; @%done bra END;
      xor.b32 %r4, %r0, 32; mad.wide.u32 %l1, %r4, 4, %l0; ld.global.u32 %r5, [%l1];
    END:
    """
    text = emulator_ptx.kernel(body, [], [np.zeros(64, np.uint32), np.zeros(1, np.uint32)])
    text = text[: text.index("END:")] + "END:\nret;\n}"
    arrays = [np.zeros(64, np.uint32), np.zeros(1, np.uint32)]
    report = emulator.Module(text).launch("k", grid=1, block=64, args=arrays, strict=True)
    assert {finding.rule for finding in report.findings} == found

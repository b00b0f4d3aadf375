"""The sanitizer finds every planted fault without a seed, and reports nothing for the correct kernels."""

from dataclasses import replace

import numpy as np
import planted_faults
import pytest

from weft import emulator
from weft.emulator.sanitizer import RULES, Finding
from weft.isa.tcgen05 import descriptors as tcgen05_descriptors

FAULTS = planted_faults.faults()
FOR_EACH_CHIP = 20
IN_ALL = 80


def findings(kernel, text, **more):
    """What a launch of a kernel of the catalog finds."""
    options = {"max_instructions": 100_000, **planted_faults.launch_options(kernel), **more}
    try:
        return emulator.Module(text).launch("k", args=planted_faults.arguments(kernel), **options).findings
    except (emulator.Fault, emulator.Deadlock) as error:
        return error.findings


@pytest.mark.parametrize("kernel", planted_faults.KERNELS)
def test_kernels_without_a_fault_have_no_finding(kernel):
    assert findings(kernel, planted_faults.source(kernel)) == ()


@pytest.mark.each_value(6)
@pytest.mark.sampled(10)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_every_fault_is_found(fault):
    assert set(fault.rules) <= set(RULES)
    found = findings(fault.kernel, fault.text())
    for seed in range(fault.seeds):
        found += findings(fault.kernel, fault.text(), seed=seed, strict=True)
    assert {f.rule for f in found} >= set(fault.rules), found


@pytest.mark.parametrize("limit", [".minnctapersm 1", ".maxnreg 168"])
def test_a_kernel_begins_with_no_more_registers_than_its_increases_ask_for(limit):
    """384 threads could have 168 registers each; ptxas allocates 160."""
    text = planted_faults.source("pool.sm_90a").replace(".maxnreg 168", limit)
    assert findings("pool.sm_90a", text.replace("inc.sync.aligned.u32 232", "inc.sync.aligned.u32 160")) == ()


EIGHT = "st.shared.v2.u32 [%r3], {%r4, %r4};"
TWELVE = f"{EIGHT} st.shared.u32 [%r3+8], %r4;"


@pytest.mark.parametrize(
    ("element", "filled", "rules"),
    [
        ("e2m1", EIGHT, set()),
        ("e3m2", TWELVE, set()),
        ("e3m2", EIGHT, {"uninitialized-shared"}),
        ("e4m3", TWELVE, {"uninitialized-shared"}),
    ],
)
def test_a_product_reads_no_padding_of_packed_elements(element, filled, rules):
    """Sixteen elements of 4 bits have eight of sixteen bytes, of 6 bits twelve."""
    kernel = "accumulate.sm_100a"
    descriptor = tcgen05_descriptors.InstructionDescriptor("f8f6f4", 128, 16, element, element, "f32")
    text = planted_faults.source(kernel).replace("kind::f16", "kind::f8f6f4")
    text = text.replace("st.shared.v4.u32 [%r3], {%r4, %r4, %r4, %r4};", filled)
    text = text.replace("0x08040490", hex(descriptor.encode()))
    assert {f.rule for f in findings(kernel, text)} == rules


def test_every_fault_changes_its_kernel():
    """The fast tests run only some faults. The others must fit a changed kernel, too."""
    for fault in FAULTS:
        assert fault.text() != planted_faults.source(fault.kernel), fault


def test_there_are_faults_for_every_rule_and_chip():
    planted = {rule for fault in FAULTS for rule in fault.rules}
    assert len(FAULTS) >= IN_ALL
    # These have tests of their own.
    assert set(RULES) - planted <= {
        "fault",
        "griddepcontrol-wait",
        "mbarrier-arrivals",
        "uninitialized-global",
    }
    for chip in ("sm_80", "sm_90a", "sm_100a"):
        assert sum(fault.kernel.endswith(chip) for fault in FAULTS) >= FOR_EACH_CHIP


@pytest.mark.parametrize(
    ("written", "found"), [("st.global.u32 [%d0], 7;", ()), ("", ("uninitialized-global",))]
)
def test_unwritten_arrays_are_written_before_they_are_read(written, found):
    text = f"""
    .version 8.6
    .target sm_80
    .address_size 64
    .visible .entry k(.param .u64 p_x) {{
      .reg .b32 %r<4>; .reg .b64 %d<4>; ld.param.u64 %d0, [p_x];
      {written}
      ld.global.u32 %r0, [%d0]; st.global.u32 [%d0+4], %r0; ret;
    }}"""
    array = emulator.Unwritten(np.zeros(8, np.uint32))
    assert tuple(f.rule for f in emulator.Module(text).launch("k", args=[array]).findings) == found


def test_a_finding_names_its_seed():
    found = Finding("shared-race", "shared memory at 0x0 is read", 7, "gemm.cu:3")
    assert str(found) == "line 7 (gemm.cu:3): shared-race: shared memory at 0x0 is read"
    assert (
        str(replace(found, source="", seed=0)) == "line 7: shared-race: shared memory at 0x0 is read (seed 0)"
    )


@pytest.mark.slow
@pytest.mark.parametrize("kernel", planted_faults.KERNELS)
def test_kernels_without_a_fault_have_no_finding_in_any_order(kernel):
    module, arguments = emulator.Module(planted_faults.source(kernel)), planted_faults.arguments(kernel)

    def run(seed, seconds):
        options = {"strict": True, **planted_faults.launch_options(kernel)}
        return module.launch("k", args=arguments, seed=seed, max_seconds=seconds, **options)

    found = emulator.explore(run, arguments[:1], 6)
    assert (found.findings, found.error, found.seeds) == ((), None, 6)

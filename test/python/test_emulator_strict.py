"""With `strict`, the sanitizer also reports what PTX requires and other compilers leave to the hardware."""

import re

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

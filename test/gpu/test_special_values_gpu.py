"""Every scalar and conversion instruction on special values, bit for bit as on the GPU."""

import os
import re
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from gpu_marks import CHIP, GPU
from special_forms import forms
from special_kernels import Kernel, differences, kernels

pytestmark = GPU
_PRECISION = "the emulator is more precise than PTX requires"
_VIDEO = "ptxas 12.9 and 13.0 compute these otherwise than PTX defines, and 13.5 doesn't"
KNOWN: dict[str, tuple[str, str]] = {
    r"(sin|cos|lg2|tanh)\.approx\..*": ("ulp other", _PRECISION),
    r".*\.(approx|full)\..*": ("ulp", _PRECISION),
    r"(rcp|rsqrt)\.approx\.ftz\.f64": ("other", "the last of the 20 bits of the fraction may differ"),
    r"fns\.b32": ("bits", "PTX defines no result for the least offset and a base beyond 31"),
    r"v\w+\..* into h1": ("bits", _VIDEO),
    r"v(add|sub|absdiff|min|max)\..*\.sat into b2": ("bits", _VIDEO),
}
"""Forms that differ on an H200 with ptxas 13.0, how, and why."""


def is_known(name: str, how: str) -> bool:
    return any(re.fullmatch(pattern, name) and how in allowed for pattern, (allowed, _) in KNOWN.items())


def test_special_values_have_the_results_of_the_gpu():
    found = []
    every = list(kernels(forms(CHIP), CHIP))
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 16)) as pool:
        for kernel, ours in zip(every, pool.map(Kernel.emulated, every), strict=True):
            gpu, values = kernel.on_gpu(), kernel.values()
            for form in kernel.forms:
                for how, where in differences(form, gpu, ours):
                    if not is_known(form.name, how):
                        at = int(where.argmax())
                        results = range(form.first, form.first + len(form.results))
                        got = [[hex(int(each[r, at])) for r in results] for each in (gpu, ours)]
                        given = [hex(int(each[at])) for each in values]
                        count = int(np.count_nonzero(where))
                        found.append(
                            f"{form.name}: {how} in {count}, such as {given}: {got[0]}, not {got[1]}"
                        )
    assert len(every) > 100
    assert not found, "\n".join([f"{len(found)} forms differ:", *found])

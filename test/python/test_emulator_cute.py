"""Kernels that NVIDIA's CuTe DSL 4.8.1 made of its examples, with the parameters of its host code.

Each was compiled without a driver, and its launch recorded: test/emulator/cute has the PTX, the bytes of
the parameters (tensor maps as CuTe encodes them, addresses as zeros) and how the arrays are filled. The
SHA-256 is that of NumPy's result in float64, rounded once.
"""

import hashlib
import json
import lzma
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from weft import emulator
from weft.isa import tensor_map

FOLDER = Path(__file__).resolve().parents[1] / "emulator" / "cute"
KERNELS = sorted(path.name.removesuffix(".json.xz") for path in FOLDER.glob("*.json.xz"))
# What the sanitizer says of them, and why that is so.
FINDINGS = {
    "copy.sm_100a": {"async-at-exit"},  # ends before its last store has read shared memory
    "transpose.sm_100a": {"async-at-exit"},
    "nvf4_pair.sm_100a": {"tmem-permit-kept"},  # doesn't give up the permit
}


def record(name):
    return json.loads(lzma.decompress((FOLDER / f"{name}.json.xz").read_bytes()))


def filled(array):
    kind = np.dtype(getattr(ml_dtypes, array["dtype"], array["dtype"]))
    rng = np.random.default_rng(array.get("seed"))
    if "choices" in array:
        return rng.choice(np.array(array["choices"], kind), array["shape"])
    if "seed" in array:
        return rng.integers(array["low"], array["high"], array["shape"]).astype(kind)
    return np.zeros(array["shape"], kind)


def parameter(given, arrays):
    """The bytes of a parameter with the arrays' addresses in their places."""
    raw, fields, at = bytes.fromhex(given["bytes"]), {}, 0
    for offset, number in sorted((int(offset), number) for offset, number in given["arrays"].items()):
        fields |= {at: raw[at:offset], offset: arrays[number]}
        at = offset + 8
    return emulator.Struct(len(raw), fields | ({at: raw[at:]} if at < len(raw) else {}))


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_gives_the_right_result(name):
    found = record(name)
    arrays = [filled(array) for array in found["arrays"]]
    arguments = [parameter(given, arrays) for given in found["parameters"]]
    sizes = {size: found[size] for size in ("grid", "block", "cluster", "shared_bytes")}
    report = emulator.Module(found["ptx"]).launch("k", args=arguments, **sizes)
    assert hashlib.sha256(arrays[found["result"]].tobytes()).hexdigest() == found["sha256"]
    assert {finding.rule for finding in report.findings} == FINDINGS.get(name, set())


def test_every_map_is_read():
    """Maps of tensors of 128 KiB and more have a bit of their own."""
    maps = [
        (name, bytes.fromhex(given["bytes"]))
        for name in KERNELS
        for given in record(name)["parameters"]
        if len(given["bytes"]) == 256
    ]
    assert len(maps) > 40
    large = set()
    for name, data in maps:
        found = tensor_map.TensorMap.decode(data)
        assert found.rank >= 2 and not found.is_im2col
        if data[10] >> 5 & 1:
            large.add(name)
            assert found.dims[0] * found.element.bits // 8 * found.dims[1] >= 1 << 17
    assert large >= {"dense_cluster.sm_90a", "tutorial_5_multicast.sm_100a"}

"""Rings of the two CTAs of a pair, in the emulator: what they compute, and faults in their protocol."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import weft
from weft import emulator
from weft.dialects import tile
from weft.dialects.tile import BufferType, FragmentType
from weft.isa.tcgen05 import tensor_layouts
from weft.mlir import ir
from weft.passes.builders import emit, thread_ids

PRODUCT = (Path(__file__).parent / "data" / "tcgen05_pair.mlir").read_text()


@cache
def ptx():
    return weft.compile(PRODUCT, arch="sm_100a").ptx


def multiply(text=None, seed=None):
    """A * B^T, what `PRODUCT` computed, and the findings; `text` is changed PTX."""
    kernel = weft.compile(PRODUCT, arch="sm_100a")
    if text is not None:
        kernel._module = emulator.Module(text)
    chance = np.random.default_rng(0)
    a, b = (chance.integers(-4, 5, (rows, 192)).astype(np.float16) for rows in (512, 64))
    d = np.full((512, 64), np.nan, np.float32)
    try:
        found = kernel.emulate(a, b, d, seed=seed, max_instructions=50_000).findings
    except (emulator.Fault, emulator.Deadlock) as error:
        found = error.findings
    return a.astype(np.float32) @ b.T.astype(np.float32), d, {finding.rule for finding in found}


@pytest.mark.each_value(1)
@pytest.mark.parametrize("seed", [None, 1])
def test_a_pair_multiplies_what_both_of_its_ctas_copied(seed):
    wanted, d, rules = multiply(seed=seed)
    assert not rules
    assert (d == wanted).all()


# A pattern of a step in the PTX, what replaces it, and the rules that report that.
LAST_WAIT = r"barrier\.cluster\.wait;(?![\s\S]*barrier\.cluster\.wait;)"
BYTES = r"(mov\.b32 \t%r\d+, )40960;"
MASK, COUNT = r"(mov\.b16 \t%rs\d+, )3;", r"(mov\.b32 \t%r\d+, )8;"
FAULTS = {
    "a commit to the leader alone": (MASK, r"\g<1>1;", {"deadlock"}),
    "a commit to the peer alone": (MASK, r"\g<1>2;", {"deadlock"}),
    "bytes of one CTA": (BYTES, r"\g<1>20480;", {"deadlock"}),
    "bytes of three CTAs": (BYTES, r"\g<1>61440;", {"deadlock"}),
    "arrivals of one CTA": (COUNT, r"\g<1>4;", {"deadlock"}),
    "arrivals of three CTAs": (COUNT, r"\g<1>12;", {"deadlock"}),
    "copies that signal their own CTA": (", 4278190072;", ", 4294967288;", {"deadlock"}),
    "copies of single CTAs to the leader's barrier": (r"\.cta_group::2 \[%rd", " [%rd", {"fault"}),
    "releases to the own CTA": (
        r"mapa\.shared::cluster\.u64 \t(%rd\d+), (%rd\d+), 0;",
        r"mov.b64 \1, \2;",
        {"deadlock"},
    ),
    "no wait for the loads": (r"tcgen05\.wait::ld\.sync\.aligned;", "", {"tmem-race"}),
    "no wait for the peer": (LAST_WAIT, "", {"cluster-exit", "tmem-race"}),
}


@pytest.mark.each_value(1)
@pytest.mark.sampled(3)
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_in_the_protocol_of_a_pair_are_found(fault):
    pattern, new, rules = FAULTS[fault]
    text, count = re.subn(pattern, new, ptx())
    assert count
    assert rules <= multiply(text)[-1]


def threads_to_mma():
    """A kernel in which the threads of both CTAs of a pair write A and B, and read the sums."""
    with weft.Module() as module:
        matrices = [weft.memref("?x?", element) for element in ("f16", "f16", "f32")]
        sizes = {"block": (128, 1, 1), "grid": (2, 1, 1), "cluster": (2, 1, 1)}
        with module.kernel("product", matrices, **sizes) as (a, b, d):
            f16, f32, zero = ir.F16Type.get(), ir.F32Type.get(), emit.value(0)
            halves = [
                tile.alloc(BufferType.of((rows, 64), f16, f"S[({rows},64):(64,1)] xor 128B"))
                for rows in (128, 16)
            ]
            ring = tile.make_ring(
                1, filled_by="threads", producers=128, emptied_by="mma", consumers=1, cta_group=2
            )
            sums = tile.make_ring(1, filled_by="mma", emptied_by="threads", consumers=128, cta_group=2)
            rank = thread_ids.cluster_rank()
            with tile.tensor_memory(cta_group=2):
                layout = tensor_layouts.accumulator(256, 32, 2)
                accumulator = tile.alloc(BufferType.of((128, 32), f32, layout, "tmem"))

                def block(number, phase):
                    tile.acquire(ring, zero, *phase)
                    for matrix, half, rows in zip((a, b), halves, (128, 16), strict=True):
                        start = emit.value(emit.mul(rank, rows))
                        tile.copy(matrix, start, emit.value(emit.mul(number, 64)), half)
                    tile.commit(ring, zero)
                    with thread_ids.leader(), tile.role(0, warps=1), thread_ids.elected():
                        tile.await_(ring, zero, *phase)
                        more = emit.less(0, number)
                        tile.gemm_async(*halves, accumulator, more, transpose_b=True, cta_group=2)
                        tile.release(ring, zero)
                    return [tile.advance(ring, zero, *phase)[1]]

                emit.loop(0, 3, 1, [zero], block)
                with thread_ids.leader(), tile.role(0, warps=1), thread_ids.elected():
                    tile.commit(sums, zero)
                tile.await_(sums, zero, zero)
                kind = FragmentType.of((128, 32), f32, "S[(4,32,32):(1@warpid,1@laneid,1)]")
                values = tile.load(accumulator, zero, zero, kind)
                tile.release(sums, zero)
                tile.store(values, d, emit.value(emit.mul(rank, 128)), zero, vector_bytes=16)
    return module


@pytest.mark.each_value(1)
@pytest.mark.parametrize(
    ("fault", "rules"), [(None, set()), (r"fence\.proxy\.async\.shared::cta;", {"missing-proxy-fence"})]
)
def test_threads_of_both_ctas_fill_what_the_leader_multiplies(fault, rules):
    kernel = weft.compile(threads_to_mma(), arch="sm_100a")
    if fault is not None:
        assert re.search(fault, kernel.ptx)
        kernel._module = emulator.Module(re.sub(fault, "", kernel.ptx))
    chance = np.random.default_rng(0)
    a, b = (chance.integers(-4, 5, (rows, 192)).astype(np.float16) for rows in (256, 32))
    d = np.full((256, 32), np.nan, np.float32)
    report = kernel.emulate(a, b, d)
    assert rules <= {finding.rule for finding in report.findings}
    if fault is None:
        assert not report.findings
        np.testing.assert_array_equal(d, a.astype(np.float32) @ b.T.astype(np.float32))

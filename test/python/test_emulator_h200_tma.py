"""Bytes that an H200's TMA copied to shared memory, and maps that its driver encoded, byte for byte."""

import functools
import hashlib
import json
import lzma
from pathlib import Path

import numpy as np
import pytest

from weft import WeftError, emulator
from weft.isa import tensor_map as isa

DATA = Path(__file__).parent / "data"
MAPS = json.loads(lzma.decompress((DATA / "h200_tensor_maps.json.xz").read_bytes()))
LOADS = json.loads(lzma.decompress((DATA / "h200_tma.json.xz").read_bytes()))
BASE = 0x7F0000000000
UNTOUCHED = 0xEE
# The driver was called with no strides for these, which the C API doesn't allow; and what H200 hasn't.
NOT_RULES = ("16U4_ALIGN8B", "16U4_ALIGN16B", "16U6_ALIGN16B")


def made(record, buffer):
    """The map of a record."""
    common = {
        "dtype": record["dtype"],
        "dims": record["dims"],
        "strides_bytes": record["strides"],
        "element_strides": record["element_strides"],
        "interleave": record["interleave"],
        "swizzle": record["swizzle"],
        "l2_promotion": record.get("l2", "none"),
        "oob_fill": record["fill"],
    }
    if "box" in record:
        return emulator.TensorMap.tiled(buffer, box=record["box"], **common)
    return emulator.TensorMap.im2col(
        buffer,
        lower_corner=record["lower"],
        upper_corner=record["upper"],
        channels_per_pixel=record["channels"],
        pixels_per_column=record["pixels"],
        **common,
    )


def test_maps_are_the_drivers():
    legal = [record for record in MAPS if record["legal"]]
    assert len(legal) == 232
    for record in legal:
        data = made(record, BASE + record["at"]).encode(BASE + record["at"])
        words = np.frombuffer(data, np.uint64)
        assert int(words[0]) == BASE + record["at"]
        assert [f"{int(w):016x}" for w in words[1:]] == record["words"], record


def test_maps_are_read_back():
    for record in MAPS:
        if record["legal"]:
            fields = made(record, BASE + record["at"]).fields
            assert isa.TensorMap.decode(fields.encode()) == fields


def test_what_the_driver_refuses_is_refused():
    refused = [r for r in MAPS if not r["legal"] and len(r["dims"]) > 1]
    refused = [r for r in refused if r["dtype"] not in NOT_RULES and "ATOM" not in r["swizzle"]]
    assert len(refused) == 31
    for record in refused:
        with pytest.raises(WeftError, match="a tensor map"):
            made(record, BASE + record["at"])


@functools.cache
def module(rank, im2col, size):
    """One thread copies a box into shared memory that was filled before; all write it out."""
    coordinates = ", ".join(f"%c{i}" for i in range(rank))
    offsets = ", {" + ", ".join(f"%o{i}" for i in range(rank - 2)) + "}" if im2col else ""
    reads = "".join(f"ld.param.b32 %c{i}, [p+{4 * i}]; " for i in range(rank))
    reads += "".join(f"ld.param.b16 %o{i}, [p+{32 + 2 * i}]; " for i in range(3))
    return emulator.Module(
        f"""
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out, .param .align 8 .b8 p[64])
{{
  .shared .align 1024 .b8 smem[{size}];
  .shared .align 8 .b64 bar;
  .reg .b32 %c<6>, %s, %t, %v, %a, %w; .reg .b16 %o<4>; .reg .b64 %m, %q, %g; .reg .pred %p0, %p1;
  {reads}
  ld.param.b32 %w, [p+48];
  mov.u32 %s, smem; mov.u32 %t, %tid.x; mov.u32 %a, %t;
F:
  shl.b32 %v, %a, 2; add.u32 %v, %v, %s; st.shared.b32 [%v], 0xEEEEEEEE;
  add.u32 %a, %a, 256; setp.lt.u32 %p0, %a, {size // 4}; @%p0 bra F;
  setp.eq.u32 %p1, %t, 0;
  @%p1 mbarrier.init.shared.b64 [bar], 1;
  bar.sync 0;
  mov.b64 %m, map; cvta.param.u64 %m, %m; add.u32 %v, %s, %w;
  @%p1 cp.async.bulk.tensor.{rank}d.shared::cluster.global{".im2col" if im2col else ".tile"}
    .mbarrier::complete_tx::bytes [%v], [%m, {{{coordinates}}}], [bar]{offsets};
  bar.sync 0;
  ld.param.u64 %q, [out]; mov.u32 %a, %t;
G:
  shl.b32 %v, %a, 2; add.u32 %v, %v, %s; ld.shared.b32 %c5, [%v];
  mul.wide.u32 %g, %a, 4; add.u64 %g, %g, %q; st.global.b32 [%g], %c5;
  add.u32 %a, %a, 256; setp.lt.u32 %p0, %a, {size // 4}; @%p0 bra G;
  ret;
}}
""".replace("\n    .mbarrier", ".mbarrier")
    )


NUMBERS = np.arange(1 << 21).astype(np.uint16)
VALUES = np.load(DATA / "h200_tma_values.npy")


def load(record):
    """The shared memory after a load."""
    size = 1 << max(record.get("used", 0) + 1024, 4096).bit_length()
    words = np.zeros(16, np.int32)
    words[: len(record["coordinates"])] = record["coordinates"]
    offsets = record.get("offsets", [])
    words.view(np.uint16)[16 : 16 + len(offsets)] = offsets
    words[12] = record["at"]
    out = np.zeros(size, np.uint8)
    run = module(len(record["dims"]), "box" not in record, size)
    source = made(record, VALUES if record.get("values") else NUMBERS)
    run.launch("k", grid=1, block=256, args=[source, out, words.tobytes()], sanitize=False)
    return out


@pytest.mark.slow
def test_loads_are_the_gpus():
    right = [record for record in LOADS if "fault" not in record]
    assert len(right) == 546
    for record in right:
        found, used = load(record), record["used"]
        assert hashlib.sha256(found[:used].tobytes()).hexdigest()[:16] == record["sha256"], record
        assert (found[used:] == UNTOUCHED).all()


def test_what_the_gpu_faults_on_is_a_fault():
    wrong = [record for record in LOADS if "fault" in record]
    assert len(wrong) == 111
    for record in wrong:
        with pytest.raises(emulator.Fault) as caught:
            load(record)
        assert caught.value.rule in ("misaligned", "descriptor")

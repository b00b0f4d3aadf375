"""Claims about the instructions in documents that ptxas contradicts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """A wrong statement about the table `table`, and the instruction that shows it: `legal` is whether
    `chip` has it. `operands` are those from which the form is read.
    """

    table: str
    said: str
    opcode: str
    chip: str
    legal: bool = False
    operands: tuple[str, ...] = ()


_WMMA = "wmma.mma.sync.aligned.row.col"
_MMA = "mma.sync.aligned"
_TCGEN05 = "tcgen05.mma.cta_group::1"
_SCALED_D = ("[%r1]", "%rd1", "%rd2", "%r2", "%p1", "3")

CLAIMS = (
    Claim("wmma", "tf32 has the shape m8n32k8", f"{_WMMA}.m8n32k8.f32.tf32.tf32.f32", "sm_80"),
    Claim("wmma", "tf32 has the shape m32n8k8", f"{_WMMA}.m32n8k8.f32.tf32.tf32.f32", "sm_80"),
    Claim("wmma", "tf32 has the shape m16n16k16", f"{_WMMA}.m16n16k16.f32.tf32.tf32.f32", "sm_80"),
    Claim("wmma", "f16 has the shape m16n16k8", f"{_WMMA}.m16n16k8.f32.f32", "sm_70"),
    Claim("wmma", "f16 in m32n8k16 needs sm_80", f"{_WMMA}.m32n8k16.f32.f32", "sm_70", True),
    Claim("wmma", "f16 in m16n16k16 needs sm_90", f"{_WMMA}.m16n16k16.f32.f32", "sm_70", True),
    Claim("wmma", "C and D of f16 products have one type", f"{_WMMA}.m16n16k16.f32.f16", "sm_70", True),
    Claim("wmma", "f16 can have satfinite", f"{_WMMA}.m16n16k16.f16.f16.satfinite", "sm_70"),
    Claim(
        "wmma",
        "and.popc exists wherever b1 does",
        "wmma.mma.and.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32",
        "sm_75",
    ),
    Claim("wmma", "b1 has a default operation", f"{_WMMA}.m8n8k128.s32.b1.b1.s32", "sm_80"),
    Claim(
        "wmma",
        "only shared memory is addressed",
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f16",
        "sm_70",
        True,
        ("{%r1}", "[%rd1]"),
    ),
    Claim("mma", "tf32 has the shape m16n8k16", f"{_MMA}.m16n8k16.row.col.f32.tf32.tf32.f32", "sm_80"),
    Claim("mma", "f64 in m16n8k4 needs only sm_80", f"{_MMA}.m16n8k4.row.col.f64.f64.f64.f64", "sm_80"),
    Claim("mma", "s8 in m16n8k16 needs only sm_75", f"{_MMA}.m16n8k16.row.col.s32.s8.s8.s32", "sm_75"),
    Claim("mma", "s8 in m16n8k32 needs only sm_75", f"{_MMA}.m16n8k32.row.col.s32.s8.s8.s32", "sm_75"),
    Claim("mma", "s8 in m8n8k16 needs only sm_72", f"{_MMA}.m8n8k16.row.col.s32.s8.s8.s32", "sm_72"),
    Claim("mma", "s4 in m16n8k64 needs only sm_75", f"{_MMA}.m16n8k64.row.col.s32.s4.s4.s32", "sm_75"),
    Claim("mma", "s4 has the shape m8n8k64", f"{_MMA}.m8n8k64.row.col.s32.s4.s4.s32", "sm_80"),
    Claim("mma", "s4 has the shape m16n8k128", f"{_MMA}.m16n8k128.row.col.s32.s4.s4.s32", "sm_80"),
    Claim(
        "mma",
        "b1 in m16n8k256 needs only sm_75",
        f"{_MMA}.m16n8k256.row.col.s32.b1.b1.s32.xor.popc",
        "sm_75",
    ),
    Claim("mma", "f16 has the shape m16n8k4", f"{_MMA}.m16n8k4.row.col.f32.f16.f16.f32", "sm_75"),
    Claim("mma", "bf16 accumulates in bf16", f"{_MMA}.m16n8k16.row.col.bf16.bf16.bf16.bf16", "sm_80"),
    Claim("mma", "C and D of m16n8k16 may differ", f"{_MMA}.m16n8k16.row.col.f16.f16.f16.f32", "sm_80"),
    Claim("mma", "satfinite clamps floats", f"{_MMA}.m16n8k16.row.col.satfinite.f32.f16.f16.f32", "sm_80"),
    Claim("mma", "fp8 needs block scaling", f"{_MMA}.m16n8k32.row.col.f32.e4m3.e4m3.f32", "sm_89", True),
    Claim(
        "wgmma",
        "N is a power of two",
        "wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16",
        "sm_90a",
        True,
        ("{%f1}", "%rd1", "%rd2", "%p1", "1", "1", "0", "0"),
    ),
    Claim(
        "wgmma",
        "chips after sm_90a have wgmma",
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16",
        "sm_100a",
        False,
        ("{%f1}", "%rd1", "%rd2", "%p1", "1", "1", "0", "0"),
    ),
    Claim("tcgen05", "sm_120a has tcgen05", f"{_TCGEN05}.kind::f16", "sm_120a", False, _SCALED_D[:-1]),
    Claim(
        "tcgen05",
        "sm_100 without suffix has tcgen05",
        f"{_TCGEN05}.kind::f16",
        "sm_100",
        False,
        _SCALED_D[:-1],
    ),
    Claim("tcgen05", "sm_100a has no scale-input-d", f"{_TCGEN05}.kind::f16", "sm_100a", True, _SCALED_D),
    Claim("tcgen05", "sm_103a has no scale-input-d", f"{_TCGEN05}.kind::f16", "sm_103a", True, _SCALED_D),
    Claim("tcgen05", "sm_110a has scale-input-d", f"{_TCGEN05}.kind::f16", "sm_110a", False, _SCALED_D),
    Claim(
        "tcgen05",
        "every architecture-specific chip has kind i8",
        f"{_TCGEN05}.kind::i8",
        "sm_103a",
        False,
        _SCALED_D[:-1],
    ),
    Claim(
        "tcgen05",
        "fp8 needs block scaling",
        f"{_TCGEN05}.kind::f8f6f4",
        "sm_100a",
        True,
        _SCALED_D[:-1],
    ),
    Claim(
        "tcgen05",
        "a commit's multicast mask may have 32 bits (from sm_107 on it may)",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster::32b.b64",
        "sm_100a",
        False,
        ("[%r1]", "%r2"),
    ),
    Claim(
        "tcgen05",
        "b6x16_p32 is the format of a copy's destination",
        "tcgen05.cp.cta_group::1.128x256b.b6x16_p32.b8x16",
        "sm_100a",
        False,
        ("[%r1]", "%rd1"),
    ),
    Claim(
        "tcgen05",
        "the allocation permit is given up with relinquish.alloc",
        "tcgen05.relinquish.alloc",
        "sm_100a",
    ),
)

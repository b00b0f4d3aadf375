"""`weft lint` checks operands against the declarations in the text, as ptxas does."""

import lzma
import random
import re
import time
from collections import Counter, defaultdict
from itertools import product
from pathlib import Path

import assembler
import pytest
from assembling import assembles

from weft.isa import tables
from weft.isa.family import number_choice, operand_text
from weft.isa.text import alike, reader, written
from weft.isa.text.scope import Scope
from weft.tools import findings

CORPUS = sorted((Path(__file__).parents[1] / "emulator" / "ptx").glob("*.ptx.xz"))

TYPES = ("pred", "b16", "s16", "u16", "f16", "f16x2", "b32", "s32", "u32", "f32", "b64", "s64", "u64", "f64")
REGISTERS = "".join(f".reg .{kind} %{kind}_<{8 if kind == 'pred' else 150}>;" for kind in TYPES) + (
    ".reg .v2 .b32 pair; .reg .v4 .b32 four; .reg .v4 .f32 fours; .shared .align 128 .b8 shared[1024];"
)
F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
D = "{%f32_0, %f32_1, %f32_2, %f32_3}"
A = "{%b32_0, %b32_1, %b32_2, %b32_3}"
B = "{%b32_4, %b32_5}"
WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
MMA = "tcgen05.mma.cta_group::1.kind::f16"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"
WS = "tcgen05.mma.ws.cta_group::1.kind::f16"
LONG = "{%b64_0, %b64_1, %b64_2, %b64_3}"
F64 = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"
DOUBLES = "{%f64_0, %f64_1}"
ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"
MASKED = "tcgen05.commit.cta_group::2.mbarrier::arrive::one.multicast::cluster::32b.b64"
S8 = "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32"
FP8 = "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.e4m3.e5m2.f32"
LDMATRIX = "ldmatrix.sync.aligned.m8n8.x1.shared.b16"
MOVMATRIX = "movmatrix.sync.aligned.m8n8.trans.b16"
SPARSE = "wgmma.mma_async.sp.sync.aligned.m64n8k64.f32.e5m2.e4m3"
WMMA_S4 = "wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32"
DENSE_FP8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
M8N8K16 = "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32"
WMMA = "wmma.mma.sync.aligned.row.col.m16n16k16"
WMMA_LOAD = "wmma.load.c.sync.aligned.row.m16n16k16.f16"
WMMA_STORE = "wmma.store.d.sync.aligned.row.m16n16k16"
WMMA_TF32 = "wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32"
DISCARDING = "{_, %b32_1, %b32_2, %b32_3}"
EIGHT = f"{{{', '.join(f'%b32_{i}' for i in range(8))}}}"
EIGHT_FLOATS = EIGHT.replace("b32", "f32")
FLOAT_AMONG = "{%b32_0, 1.0, %b32_2, %b32_3}"
SEVEN_FLOATS = EIGHT_FLOATS.replace("%f32_0", "_")
WITH_A_DOUBLE = EIGHT_FLOATS.replace("%f32_0", "1.0")
F64_WIDE = "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64"
THREE_DOUBLES = "{_, %f64_1, %f64_2, %f64_3}"
FOUR_DOUBLES = "{%f64_0, %f64_1, %f64_2, %f64_3}"
STORE = "tcgen05.st.sync.aligned.32x32b.x2.b32"

# fmt: off
LINES = [
    # What fits: the operand's own type, registers without a type, and lists that mix those with one other.
    ("sm_90a", f"{F16} {D}, {A}, {B}, {D};", None),
    ("sm_90a", f"{F16} {A}, {A}, {B}, {A};", None),
    ("sm_90a", f"{F16} {D}, {{%f16x2_0, %f16x2_1, %f16x2_2, %f16x2_3}}, {B}, {D};", None),
    ("sm_90a", f"{F16} {D}, {{%f32_0, %b32_1, %b32_2, %b32_3}}, {B}, {D};", None),
    ("sm_90a", f"{F16} {{_, %f32_1, %f32_2, _}}, {A}, {B}, {D};", None),
    ("sm_90a", "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {_, %b32_1}, [%b32_0];", None),
    ("sm_90a", f"{F16} {D}, four, {B}, fours;", None),
    ("sm_90a", f"{F16} {D}, {{four.x, four.y, four.z, four.w}}, {{pair.x, pair.y}}, {D};", None),
    ("sm_90a", f"{{ .reg .b32 x, y; {F16} {D}, {A}, {{x, y}}, {D}; }}", None),
    ("sm_90a", f"{WGMMA} {D}, %u64_0, %s64_1, %pred_0, 1, 1, 0, 0;", None),
    ("sm_90a", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%f32_0}, [%u32_1+-16];", None),
    ("sm_100a", f"{MMA} [%b32_0 + 16], %b64_0, %b64_1, %u32_1, !%pred_0;", None),
    ("sm_100a", f"{COMMIT} [shared+8], %u16_0;", None),
    # 32 bits where 64 belong, and the other way round.
    ("sm_90a", f"{WGMMA} {D}, %b32_0, %b64_1, %pred_0, 1, 1, 0, 0;", "register"),
    ("sm_90a", f"{WGMMA} {D}, %b64_0, %f64_1, %pred_0, 1, 1, 0, 0;", "register"),
    ("sm_100a", f"{MMA} [%b32_0], %b64_0, %u32_1, %b32_1, %pred_0;", "register"),
    ("sm_100a", f"{MMA} [%b64_0], %b64_0, %b64_1, %b32_1, %pred_0;", "register"),
    ("sm_100a", f"{MMA} [%u32_0], %b64_0, %b64_1, %b32_1, %pred_0;", "register"),
    ("sm_100a", f"{MMA} [%b32_0], %b64_0, %b64_1, %b64_1, %pred_0;", "register"),
    ("sm_100a", "tcgen05.cp.cta_group::1.128x256b [%b32_0], %b32_1;", "register"),
    ("sm_90a", f"{F16} {D}, {{%b64_0, %b32_1, %b32_2, %b32_3}}, {B}, {D};", "register"),
    # Masks.
    ("sm_100a", f"{COMMIT} [%b32_0], %b32_1;", "register"),
    ("sm_100a", f"{WS} [%b32_0], %b64_0, %b64_1, %b32_1, %pred_0, %b32_1;", "register"),
    ("sm_100a", f"{MMA} [%b32_0], %b64_0, %b64_1, %b32_1, {LONG}, %pred_0;", "register"),
    # Types of fragments.
    ("sm_90a", f"{F16} {D}, {D}, {B}, {D};", "register"),
    ("sm_90a", f"{F16} {D}, {A}, {B}, {{%s32_0, %s32_1, %s32_2, %s32_3}};", "register"),
    ("sm_90a", f"{F16} {D}, {A}, {B}, {{%f32_0, %s32_1, %b32_2, %b32_3}};", "register"),
    ("sm_90a", f"{F16} {D}, {A}, {B}, {{%f32_0, 0, %f32_2, %f32_3}};", "register"),
    ("sm_90a", f"{F16} {D}, fours, {B}, {D};", "register"),
    ("sm_80", f"{F64} {DOUBLES}, {{%f64_0}}, {{%f32_0}}, {DOUBLES};", "register"),
    ("sm_90a", "wmma.load.a.sync.aligned.row.m8n8k32.s4 {%f32_0}, [%b64_0];", None),
    ("sm_90a", "wmma.load.a.sync.aligned.row.m16n16k16.s8 {%f32_0, %f32_1}, [%b64_0];", "register"),
    ("sm_90a", f"{WMMA_S4} {{%s32_0, %s32_1}}, {{%f32_0}}, {{%b32_1}}, {{%s32_0, %s32_1}};", "register"),
    # Names without a declaration, or before it.
    ("sm_90a", f"{F16} {D}, {A}, {{%b32_4, %q}}, {D};", "undeclared"),
    ("sm_90a", f"{F16} {D}, {A}, {{%b32_4, %b32_150}}, {D};", "undeclared"),
    ("sm_90a", f"{{ .reg .b32 x; }} {F16} {D}, {A}, {{%b32_4, x}}, {D};", "undeclared"),
    ("sm_90a", f"{F16} {D}, {A}, {{%b32_4, x}}, {D}; .reg .b32 x;", "undeclared"),
    ("sm_90a", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%b32_0}, [nowhere];", "undeclared"),
    # Ranges: their bounds, and which of several has a name.
    ("sm_90a", f".reg .b32 x<0x5>, y<010>; {LDMATRIX} {{x4}}, [y7];", None),
    ("sm_90a", f".reg .b32 x<0b11>, y<5U>; {LDMATRIX} {{x2}}, [y4];", None),
    ("sm_90a", f".reg .b32 x<WARP_SZ>; {LDMATRIX} {{x31}}, [x007];", None),
    ("sm_90a", f".reg .b32 x<010>; {LDMATRIX} {{x8}}, [%b32_0];", "undeclared"),
    ("sm_90a", f".reg .b32 x1<5>; {LDMATRIX} {{x10}}, [%b32_0];", "undeclared"),
    ("sm_90a", f".reg .b32 x<3>; {{ .reg .b64 x<2>; {LDMATRIX} {{x2}}, [x1]; }}", None),
    ("sm_90a", f".reg .b64 x1; {{ .reg .b32 x<3>; {LDMATRIX} {{x1}}, [%b32_0]; }}", None),
    ("sm_90a", f".reg .b32 x<3>; {{ .reg .b64 x1; {LDMATRIX} {{x1}}, [%b32_0]; }}", "register"),
    ("sm_90a", f"{LDMATRIX} {{%b32_{'9' * 5000}}}, [%b32_0];", "undeclared"),
    # Declarations in other shapes, and those that aren't any.
    ("sm_90a", f".reg.b32 x; .reg .align 4 .v2 .b32 y; {LDMATRIX} {{y.x}}, [x];", None),
    ("sm_90a", f".reg .b32 x, .b32 y; {LDMATRIX} {{x}}, [y];", "undeclared"),
    ("sm_90a", f".reg .b32 x[2]; {LDMATRIX} {{x}}, [%b32_0];", "undeclared"),
    ("sm_90a", f"{LDMATRIX} {{%b32_0.x}}, [%b32_0];", "undeclared"),
    # Variables belong to blocks, too.
    ("sm_90a", f"{{ .shared .b8 s[16]; }} {LDMATRIX} {{%b32_0}}, [s];", "undeclared"),
    ("sm_90a", f"{{ .shared .b8 s[16]; {LDMATRIX} {{%b32_0}}, [s]; }} {{ .local .b8 s[16]; }}", None),
    ("sm_90a", f"{{ .local .b8 s[16]; }} {{ .shared .b8 s[16]; {LDMATRIX} {{%b32_0}}, [s]; }}", None),
    ("sm_90a", f"{{ .local .b8 s[16]; {LDMATRIX} {{%b32_0}}, [s]; }} {{ .shared .b8 s[16]; }}", "operands"),
    ("sm_90a", f".shared .u32 s<3>, t[2]; {LDMATRIX} {{%b32_0}}, [s1]; {{ .local .b8 t; }}", None),
    ("sm_90a", f".shared .u32 s<3>; {LDMATRIX} {{%b32_0}}, [s3];", "undeclared"),
    ("sm_90a", f"{LDMATRIX} {{%b32_0}}, [s]; .shared .b8 s[16];", "undeclared"),
    ("sm_90a", f"{{ .shared .b8 %b32_5[16]; {LDMATRIX} {{%b32_5}}, [shared]; }}", "register"),
    # `_` and constants where a register must be.
    ("sm_90a", f"{F16} {D}, {A}, {{%b32_4, _}}, {D};", "register"),
    ("sm_90a", f"{F16} {{_, _, _, _}}, {A}, {B}, {D};", "register"),
    ("sm_90a", f"{WGMMA} {{_, %f32_1, %f32_2, %f32_3}}, %b64_0, %b64_1, %pred_0, 1, 1, 0, 0;", "register"),
    ("sm_90a", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {_}, [%b32_0];", "register"),
    ("sm_90a", "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {0, %b32_1}, [%b32_0];", "register"),
    ("sm_100a", "tcgen05.ld.sync.aligned.32x32b.x2.b32 {_, %b32_1}, [%b32_0];", "register"),
    # Predicates.
    ("sm_90a", f"{WGMMA} {D}, %b64_0, %b64_1, %b32_0, 1, 1, 0, 0;", "register"),
    ("sm_100a", f"{MMA} [%b32_0], %b64_0, %b64_1, %b32_1, %b32_2;", "register"),
    # Braces and brackets.
    ("sm_90a", f"{F16} {D}, {A}, %b32_4, {D};", "operands"),
    ("sm_90a", f"{F16} {D}, pair, {B}, {D};", "operands"),
    ("sm_90a", f"{WGMMA} {D}, {{%b64_0}}, %b64_1, %pred_0, 1, 1, 0, 0;", "operands"),
    ("sm_90a", f"{WGMMA} {D}, %b64_0, {{%b64_1}}, %pred_0, 1, 1, 0, 0;", "operands"),
    ("sm_90a", f"{WGMMA} {D}, %b64_0, [%b64_1], %pred_0, 1, 1, 0, 0;", "operands"),
    ("sm_90a", "movmatrix.sync.aligned.m8n8.trans.b16 {%b32_0}, %b32_1;", "operands"),
    ("sm_100a", "tcgen05.dealloc.cta_group::1.sync.aligned.b32 [%b32_0], 32;", "operands"),
    # Addresses.
    ("sm_90a", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%b32_0}, [%f32_1];", "register"),
    ("sm_90a", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%b32_0}, [64];", "register"),
    ("sm_90a", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%b32_0}, [shared+%b32_1];", "operands"),
    ("sm_90a", "wmma.load.a.sync.aligned.row.m16n16k16.global.s8 {%b32_0, %b32_1}, [shared];", "operands"),
    ("sm_90a", "wmma.load.a.sync.aligned.row.m16n16k16.s8 {%b32_0, %b32_1}, [shared];", None),
    ("sm_100a", f"{ALLOC} [%b16_0], 32;", "register"),
    # Expressions of constants have values.
    ("sm_100a", f"{ALLOC} [%b64_0], WARP_SZ;", None),
    ("sm_100a", f"{ALLOC} [%b64_0], 1 << (4 + !0);", None),
    ("sm_100a", f"{ALLOC} [%b64_0], 16+17;", "columns"),
    ("sm_100a", f"{ALLOC} [%b64_0], 5 % 3 * 16;", None),
    ("sm_100a", f"{ALLOC} [%b64_0], (32;", "register"),
    ("sm_90a", f"{WGMMA} {D}, %b64_0, %b64_1, %pred_0, WARP_SZ-31, ~0, 1?1:0, 3/2 == 0;", None),
    ("sm_90a", f"{WGMMA} {D}, %b64_0, %b64_1, %pred_0, WARP_SZ, 1, 0, 0;", "scale_a"),
    ("sm_90a", f"{WGMMA} {D}, %b64_0, %b64_1, %pred_0, {{1}}, 1, 0, 0;", "operands"),
    ("sm_90a", f"{WGMMA} {D}, 18446744073709551615, %b64_1, %pred_0, 1, 1, 0, 0;", None),
    ("sm_90a", f"{WGMMA} {D}, 99999999999999999999, %b64_1, %pred_0, 1, 1, 0, 0;", "register"),
    ("sm_90a", f"{WGMMA} {D}, %b64_0, %b64_1, %pred_0, 08-7, 1, 0, 0;", "scale_a"),
    ("sm_107a", f"{MASKED} [%b64_0], 4294967295;", None),
    ("sm_107a", f"{MASKED} [%b64_0], 4294967296;", "mask"),
    # What is added to a register or a variable.
    ("sm_90a", f"{LDMATRIX} {{%b32_0}}, [%b32_1 + 4 * (2 + 1)];", None),
    ("sm_90a", f"{LDMATRIX} {{%b32_0}}, [shared+8+-4];", None),
    ("sm_90a", f"{LDMATRIX} {{%b32_0}}, [%b32_1-4];", "register"),
    ("sm_90a", f"{LDMATRIX} {{%b32_0}}, [%b32_1+1.0];", "operands"),
    ("sm_90a", f"{WGMMA} {D}, %b64_0+16, %b64_1, %pred_0, 1, 1, 0, 0;", None),
    ("sm_90a", f"{WGMMA} {D}, shared+16, %b64_1, %pred_0, 1, 1, 0, 0;", "register"),
    ("sm_90a", f"{MOVMATRIX} %b32_0, shared+16;", None),
    ("sm_90a", f"{MOVMATRIX} %b32_0, %q+16;", "undeclared"),
    ("sm_100a", f"{MMA} [%b32_0], %b64_0, %b64_1, %b32_1+1, %pred_0;", "register"),
    # Lists of constants alone are integers' or floats'; beside registers of their type, or of none, all fit.
    ("sm_90a", f"{F16} {D}, {{0, 0, 0, 0}}, {B}, {D};", "register"),
    ("sm_90a", f"{F16} {D}, {A}, {B}, {{0.0, 0.0, 0.0, 0.0}};", "register"),
    ("sm_90a", f"{F16} {D}, {A}, {B}, {{0f00000000, 0f00000000, 0f00000000, 0f00000000}};", None),
    ("sm_90a", f"{F16} {D}, {A}, {B}, {{%f32_0, 1.0, 0f00000000, 0.0}};", None),
    ("sm_90a", f"{F16} {D}, {{0, %b32_1, 1.0, %b32_3}}, {B}, {D};", None),
    ("sm_90a", f"{S8} {A}, {B}, {{%b32_0}}, {{0, WARP_SZ, 2, -1}};", None),
    ("sm_90a", f"{S8} {A}, {B}, {{0}}, {A};", "register"),
    ("sm_90a", f"{S8} {A}, {B}, {{%tid.x}}, {A};", None),
    ("sm_90a", f"{S8} {A}, {{%tid.x, 1}}, {{%b32_0}}, {A};", "register"),
    ("sm_100a", f"{STORE} [%b32_0], {{%b32_1, 0}};", None),
    ("sm_100a", f"{STORE} [%b32_0], {{%b32_1, 1.0}};", "register"),
    ("sm_100a", f"{STORE} [%b32_0], {{%b32_1, %tid.x}};", "register"),
    ("sm_100a", f"{STORE} [%b32_0], {{0, 0}};", "register"),
    # ptxas packs lists of several types word by word.
    ("sm_90a", f"{F16} {D}, {A}, {B}, {{%f32_0, %b32_1, %s32_2, %b32_3}};", None),
    ("sm_90a", f"{F16} {D}, {A}, {B}, {{%b32_0, %f32_1, %s32_2, %b32_3}};", "register"),
    ("sm_90a", f"{F16} {D}, {A}, {B}, {{%s32_0, %u32_1, %s32_2, %u32_3}};", None),
    # Others.
    ("sm_90a", f"{FP8} {D}, {A}, {A}, {D}, %f32_9, 0;", "register"),
    ("sm_90a", f"{FP8} {D}, {A}, {A}, {D}, %s32_9, 0;", None),
    ("sm_89", f"{FP8} {D}, {A}, {A}, {D}, %f32_9, 0;", None),
    # What ptxas makes of other instructions, which take less.
    ("sm_89", f"{DENSE_FP8} {D}, {A}, {B}, {{0, %b32_1, %b32_2, %b32_3}};", None),
    ("sm_89", f"{DENSE_FP8} {D}, {A}, {B}, {{%s32_0, %b32_1, %b32_2, %b32_3}};", None),
    ("sm_89", f"{DENSE_FP8} {D}, {A}, {B}, {{%tid.x, %b32_1, %b32_2, %b32_3}};", None),
    ("sm_89", f"{DENSE_FP8} {D}, {{1.0, %b32_1, %b32_2, %b32_3}}, {B}, {D};", None),
    ("sm_89", f"{DENSE_FP8} {D}, {A}, {B}, {{%f32_0, 1.0, %b32_2, %b32_3}};", None),
    ("sm_90a", f"{DENSE_FP8} {D}, {A}, {B}, {{0, %b32_1, %b32_2, %b32_3}};", "register"),
    ("sm_90a", f"{DENSE_FP8} {D}, {A}, {B}, {{%s32_0, %b32_1, %b32_2, %b32_3}};", "register"),
    ("sm_90a", f"{DENSE_FP8} {D}, {A}, {B}, {{%tid.x, %b32_1, %b32_2, %b32_3}};", "register"),
    ("sm_90a", f"{DENSE_FP8} {D}, {{1.0, %b32_1, %b32_2, %b32_3}}, {B}, {D};", "register"),
    ("sm_90a", f"{DENSE_FP8} {D}, {A}, {B}, {{%f32_0, 1.0, %b32_2, %b32_3}};", None),
    ("sm_110", f"{DENSE_FP8} {D}, {A}, {B}, {{0, %b32_1, %b32_2, %b32_3}};", "register"),
    ("sm_110", f"{DENSE_FP8} {D}, {A}, {B}, {{%s32_0, %b32_1, %b32_2, %b32_3}};", "register"),
    ("sm_110", f"{DENSE_FP8} {D}, {A}, {B}, {{%tid.x, %b32_1, %b32_2, %b32_3}};", "register"),
    ("sm_110", f"{DENSE_FP8} {D}, {{1.0, %b32_1, %b32_2, %b32_3}}, {B}, {D};", "register"),
    ("sm_110", f"{DENSE_FP8} {D}, {A}, {B}, {{%f32_0, 1.0, %b32_2, %b32_3}};", None),
    ("sm_120a", f"{DENSE_FP8} {D}, {A}, {B}, {{0, %b32_1, %b32_2, %b32_3}};", None),
    ("sm_120a", f"{DENSE_FP8} {D}, {A}, {B}, {{%s32_0, %b32_1, %b32_2, %b32_3}};", None),
    ("sm_120a", f"{DENSE_FP8} {D}, {A}, {B}, {{%tid.x, %b32_1, %b32_2, %b32_3}};", None),
    ("sm_120a", f"{DENSE_FP8} {D}, {{1.0, %b32_1, %b32_2, %b32_3}}, {B}, {D};", None),
    ("sm_120a", f"{DENSE_FP8} {D}, {A}, {B}, {{%f32_0, 1.0, %b32_2, %b32_3}};", None),
    ("sm_90a", f"{M8N8K16} {B}, {{%tid.x}}, {{%b32_0}}, {B};", None),
    ("sm_90a", f"{M8N8K16} {B}, {{%b32_1}}, {{%f32_0}}, {B};", "register"),
    ("sm_90a", f"{M8N8K16} {B}, {{%b32_1}}, {{%b32_0}}, {{%b32_0, %tid.x}};", None),
    ("sm_90a", f"{M8N8K16} {B}, {{%b32_1}}, {{%b32_0}}, {{%b32_0, 1.0}};", None),
    ("sm_110", f"{M8N8K16} {B}, {{%tid.x}}, {{%b32_0}}, {B};", "register"),
    ("sm_110", f"{M8N8K16} {B}, {{%b32_1}}, {{%f32_0}}, {B};", None),
    ("sm_110", f"{M8N8K16} {B}, {{%b32_1}}, {{%b32_0}}, {{%b32_0, %tid.x}};", "register"),
    ("sm_110", f"{M8N8K16} {B}, {{%b32_1}}, {{%b32_0}}, {{%b32_0, 1.0}};", "register"),
    ("sm_70", f"{WMMA}.f32.f16 {EIGHT_FLOATS}, {EIGHT}, {EIGHT}, {FLOAT_AMONG};", None),
    ("sm_75", f"{WMMA}.f32.f16 {EIGHT_FLOATS}, {EIGHT}, {EIGHT}, {FLOAT_AMONG};", "register"),
    # Constants and special registers aren't in one list.
    ("sm_80", f"{F16} {D}, {{0, %b32_1, %tid.x, %b32_3}}, {B}, {D};", "register"),
    ("sm_80", f"{F16} {D}, {{%laneid, %b32_1, %tid.x, %s32_3}}, {B}, {D};", None),
    # A float of 32 bits in front makes the list one of those.
    ("sm_80", f"{F16} {D}, {{%b32_0, 0f3F800000, 1.0, %b32_3}}, {B}, {D};", None),
    ("sm_80", f"{F16} {D}, {A}, {B}, {{0f3F800000, %b32_1, 1.0, %b32_3}};", "register"),
    ("sm_80", f"{F16} {D}, {{0f3F800000, 1.0, %b32_2, %b32_3}}, {B}, {D};", "register"),
    ("sm_80", f"{F16} {D}, {{1.0, 0f3F800000, %b32_2, %b32_3}}, {B}, {D};", None),
    ("sm_120a", f"{DENSE_FP8} {D}, {A}, {B}, {{0f3F800000, 1.0, %f32_2, %f32_3}};", None),
    # What ptxas makes of other instructions, which read the results.
    ("sm_70", f"{WMMA_LOAD.replace('row', 'col')} {DISCARDING}, [%b64_0];", "register"),
    ("sm_70", f"{WMMA_LOAD} {DISCARDING}, [%b64_0];", None),
    ("sm_75", f"{WMMA_LOAD.replace('row', 'col')} {DISCARDING}, [%b64_0];", None),
    ("sm_75", f"{WMMA}.f16.f16 {DISCARDING}, {EIGHT}, {EIGHT}, {A};", "register"),
    ("sm_75", f"{WMMA}.f16.f32 {DISCARDING}, {EIGHT}, {EIGHT}, {EIGHT_FLOATS};", None),
    ("sm_70", f"{WMMA}.f16.f16 {DISCARDING}, {EIGHT}, {EIGHT}, {A};", None),
    ("sm_80", f"{WMMA}.f16.f16 {DISCARDING}, {EIGHT}, {EIGHT}, {A};", None),
    ("sm_80", f"{WMMA_TF32} {SEVEN_FLOATS}, {A}, {A}, {EIGHT_FLOATS};", "register"),
    ("sm_90a", f"{F64_WIDE} {THREE_DOUBLES}, {DOUBLES}, {{%f64_2}}, {FOUR_DOUBLES};", None),
    ("sm_110", f"{F64_WIDE} {THREE_DOUBLES}, {DOUBLES}, {{%f64_2}}, {FOUR_DOUBLES};", "register"),
    ("sm_110", f"{F64} {{_, %f64_1}}, {{%f64_0}}, {{%f64_1}}, {DOUBLES};", None),
    ("sm_70", f"{WMMA_STORE}.f16 [%b64_0], {{%b32_0, %b32_1, %b32_2, %tid.x}};", None),
    ("sm_80", f"{WMMA_STORE}.f16 [%b64_0], {{%b32_0, %b32_1, %b32_2, %tid.x}};", "register"),
    ("sm_70", f"{WMMA_STORE}.f32 [%b64_0], {WITH_A_DOUBLE};", None),
    ("sm_75", f"{WMMA_STORE}.f32 [%b64_0], {WITH_A_DOUBLE};", "register"),
    ("sm_70", f"{WMMA_STORE.replace('row', 'col')}.f32 [%b64_0], {WITH_A_DOUBLE};", "register"),
    ("sm_110", f"{FP8} {D}, {A}, {A}, {D}, %f32_9, 0;", "register"),
    ("sm_120", f"{FP8} {D}, {A}, {A}, {D}, %f32_9, 0;", None),
    ("sm_121a", f"{FP8.replace('::ordered_metadata', '')} {D}, {A}, {A}, {D}, %f32_9, 0;", None),
    ("sm_120a", f"{FP8.replace('f32', 'f16')} {B}, {A}, {A}, {B}, %f32_9, 0;", None),
    ("sm_90a", f"{FP8} {D}, {A}, {A}, {D}, 1.0, 0;", "register"),
    ("sm_90a", f"{SPARSE} {D}, four, %b64_0, %b32_9, 0, %pred_0, 1, 1;", None),
    ("sm_100a", "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%b32_1, %b32_1}, [%b32_0];", "register"),
]
# fmt: on


def judged(chip, line):
    """lint's verdict on the one tensor-core instruction of a line that stands in a kernel."""
    text = f".visible .entry k(.param .u64 p) {{ {REGISTERS}\n{line}\nret; }}"
    (found,) = reader.instructions(text)
    return written.judge(found, chip, (9, 4))


def assembled(chip, lines):
    """What ptxas says of each line in a kernel of its own."""
    entries = [assembler.Entry(line, {}, (), ()) for line in lines]
    return assembler.assemble(entries, chip, prologue=REGISTERS)


@pytest.mark.each_value(1)
@pytest.mark.parametrize("chip", dict.fromkeys(chip for chip, _, _ in LINES))
def test_registers_are_judged_as_ptxas_does(chip):
    lines = {line: rule for where, line, rule in LINES if where == chip}
    for (line, rule), complaint in zip(lines.items(), assembled(chip, list(lines)), strict=True):
        verdict = judged(chip, line)
        assert (verdict and verdict.rule) == rule, (line, verdict)
        assert (complaint is None) == (rule is None), (line, complaint)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_kernels_of_other_compilers_have_no_findings(path):
    found = findings.lint_ptx(lzma.decompress(path.read_bytes()).decode())
    assert [finding.text(path.name) for finding in found if finding.verdict] == []


FUNCTIONS = [
    (f".func (.reg .b32 d) f(.reg .b32 a, .reg .b64 b) {{ {LDMATRIX} {{d}}, [b]; ret; }}", None),
    (f".func (.reg .b32 d) f(.reg .b32 a, .reg .b64 b) {{ {LDMATRIX} {{b}}, [a]; ret; }}", "register"),
    (f".func (.reg .v2 .b32 d) f(.reg .v4 .b32 a, .reg .b32 b) {{ {LDMATRIX} {{d.y}}, [b]; ret; }}", None),
    (f".func (.reg .b32 d) f(.reg .b32 a); .func g() {{ {LDMATRIX} {{d}}, [a]; ret; }}", "undeclared"),
    (f".func f(.reg .b32 a) {{ ret; }} .func g() {{ {LDMATRIX} {{a}}, [a]; ret; }}", "undeclared"),
    (f".shared .b8 s[16]; .func f() {{ .reg .b32 d; {LDMATRIX} {{d}}, [s]; ret; }}"
     " .func g(.param .b32 s) { ret; }", None),
    (".global .u32 s[2][2] = {{1, 2}, {3, 4}}; .const .u32 u = 1;"
     f" .func f() {{ .reg .b32 d; {LDMATRIX} {{d}}, [s]; ret; }}", "operands"),
    (f".extern .shared .align 16 .b8 s[]; .func f() {{ .reg .b32 d; {LDMATRIX} {{d}}, [s]; ret; }}", None),
]  # fmt: skip


@pytest.mark.parametrize("text, rule", FUNCTIONS)
def test_names_of_functions_are_judged_as_ptxas_does(text, rule):
    text = f".version 9.0\n.target sm_90a\n.address_size 64\n{text}\n"
    (finding,) = findings.lint_ptx(text)
    assert (finding.verdict and finding.verdict.rule) == rule
    assert assembles(text, "sm_90a") == (rule is None)


def test_thousands_of_declarations_are_read_quickly():
    """The names before are not copied at each."""
    text = "".join(f".global .u32 x{i}; .reg .b32 y{i};\n" for i in range(3000))
    started = time.process_time()
    assert findings.lint_ptx(f"{text}{LDMATRIX} {{y2999}}, [x2999];", "sm_90a")[0].verdict.rule == "operands"
    assert time.process_time() - started < 1


def test_judging_many_gives_the_verdicts_of_judging_one():
    """Of lines that differ in names alone, and of those that are right in one block and wrong in the next."""
    block = f"{{ .reg .b32 x<2>; {F16} {D}, {A}, {{x0, x1}}, {D}; }}"
    text = "\n".join([block, block.replace(".b32 x", ".b64 x"), block.replace("x<2>", "x<1>"), block])
    text = f".visible .entry k() {{ {REGISTERS}\n{text}\n}}"
    rules = [finding.verdict and finding.verdict.rule for finding in findings.lint_ptx(text, "sm_90a")]
    assert rules == [None, "register", "undeclared", None]
    expected = [written.judge(found, "sm_90a") for found in reader.instructions(text)]
    assert [verdict and verdict.rule for verdict in expected] == rules


SAME = f"{F16} {{%f0, %f1, %f2, %f3}}, {{%r0, %r1, %r2, %r3}}, {{%r4, %r5}}, {{%f0, %f1, %f2, %f3}};"
LOAD = "tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r0, %r1, %r2, %r3}, [%r4+16];"
# What is declared beside %r<12>, a legal line, and the rules that others like it break.
ALIKE = [
    ("", SAME, {SAME.replace("%r5", f"%r{i}"): None for i in (0, 9, 10, 11)}),
    ("", SAME, {SAME.replace("%r5", f"%r{i}"): "undeclared" for i in ("12", "20", "100", "012")}),
    ("", SAME, {SAME.replace("%r5", "%r05"): None}),
    ("", SAME, {SAME.replace("%r5", "%r5 %r6"): "register", f"{{ {SAME[:-1]}}}": "syntax"}),
    (".reg .b64 %d<12>;", SAME, {SAME.replace("%r5", "%d5"): "register"}),
    (".reg .b64 %r20;", SAME, {SAME.replace("%r5", "%r20"): "register"}),
    (".reg .b64 %r7;", SAME, {SAME.replace("%r5", "%r7"): "register"}),
    (".reg .b64 %r1<9>;", SAME, {SAME.replace("%r5", "%r17"): "undeclared"}),
    ("", SAME, {f"{{ .reg .b64 %r<12>; {SAME} }}": "register"}),
    ("", SAME, {f"{{ .reg .b64 %r4; {SAME} }}": "register"}),
    ("", SAME, {f"{{ .reg .b32 %r<5>; {SAME} }}": None}),
    ("", SAME, {f"{{ .reg .b64 %r<5>; {SAME} }}": "register"}),
    ("", LOAD, {LOAD.replace("%r2", "%r11"): None, LOAD.replace("%r2", "%r3"): "register"}),
    ("", LOAD, {LOAD.replace("16", "4096"): None, LOAD.replace("16", "9" * 20): "operands"}),
    ("", LOAD.replace("+16", "+5/+16"), {LOAD.replace("+16", "+5/+0"): "operands"}),
]


@pytest.mark.parametrize("declared, legal, others", ALIKE)
def test_what_looks_like_a_legal_line_is_judged_by_its_own_registers(monkeypatch, declared, legal, others):
    monkeypatch.setattr(alike, "_FIRST", 1)
    for line, rule in others.items():
        text = f".reg .b32 %r<12>; .reg .f32 %f<12>; {declared}\n{legal}\n{line}\nret;"
        rules = [finding.verdict and finding.verdict.rule for finding in findings.lint_ptx(text, "sm_100a")]
        assert rules == [None, rule], line
        assert rules == [
            v and v.rule for v in (written.judge(i, "sm_100a") for i in reader.instructions(text))
        ]


def test_the_numbers_of_a_declared_range_are_those_below_its_bound():
    for bound in (1, 2, 9, 10, 11, 20, 99, 100, 110, 999, 1000, 1090, 1777):
        pattern = re.compile(Scope().declaring(f".reg .b32 %r<{bound}>").alike("%r0"))
        assert [i for i in range(2000) if pattern.fullmatch(f"%r{i}")] == list(range(bound))
        assert not pattern.fullmatch("%r00") and not pattern.fullmatch("%r")


def test_an_undeclared_register_is_told_apart_by_what_is_declared():
    (verdict,) = [f.verdict for f in findings.lint_ptx(f".reg .b32 %r<4>; {ONE.format('%r4')}", "sm_90a")]
    assert verdict.reason == "%r4 must be declared: %r<4> declares %r0 to %r3"
    (verdict,) = [f.verdict for f in findings.lint_ptx(f".reg .b32 row; {ONE.format('rov')}", "sm_90a")]
    assert verdict.reason == "rov must be declared before it is used; did you mean 'row'?"


@pytest.mark.parametrize(
    "values, said",
    [
        ((0, 1), "0 or 1"),
        ((0, 1, 2, 3), "in 0..3"),
        ((1, 2, 3), "in 1..3"),
        ((8, 16, 24, 32), "in 8..32 by 8"),
        ((32, 64, 128), "one of 32, 64, 128"),
        ((4, 4, 4), "one of 4, 4, 4"),
        ((3, 2, 1), "one of 3, 2, 1"),
    ],
)
def test_constants_at_one_distance_are_told_as_a_range(values, said):
    assert number_choice(values) == said


ONE = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{{}}}, [0];"


def uniform(form, operand, kind):
    """The line of a form with all registers of one operand declared with one type."""
    texts, used = {}, Counter()
    for other in form.operands:
        if other.role == "immediate":
            texts[other.name] = [str(other.values[0])]
            continue
        own, count = assembler.ptx_registers(other)
        own = kind if other.name == operand.name else own
        texts[other.name] = [
            f"%{own}_{(used[own] + i) % (8 if own == 'pred' else 150)}" for i in range(count)
        ]
        used[own] += count
    return f"{form.ptx} {operand_text(form, texts)};"


@pytest.mark.slow
@pytest.mark.parametrize("family", tables.FAMILIES, ids=lambda family: family.name)
def test_each_type_of_each_operand_is_judged_as_ptxas_does(family):
    """Of forms taken at random; predicates for data aside, which ptxas takes here and there."""
    forms = random.Random(0).sample(list(family.forms()), min(12, len(family.table)))
    lines = defaultdict(dict)
    for form in forms:
        chip = max(family.table[form].chips, key=lambda name: (name == "sm_90a", name))
        for operand, kind in product(form.operands, TYPES):
            if operand.role != "immediate" and (kind != "pred" or operand.type == "i1"):
                lines[chip][uniform(form, operand, kind)] = None
    for chip, at in lines.items():
        for line, complaint in zip(
            at, (one for part in parts(list(at)) for one in assembled(chip, part)), strict=True
        ):
            verdict = judged(chip, line)
            assert (verdict is None) == (complaint is None), (line, verdict, complaint)


def parts(lines, size=assembler.KERNELS):
    return [lines[i : i + size] for i in range(0, len(lines), size)]

// weft isa shows the tables: all instructions, the rows of one, or every form as JSON.

// RUN: weft isa | FileCheck %s
// CHECK:     table {{ +}}instruction {{ +}}forms {{ +}}first in PTX
// CHECK:     wmma {{ +}}wmma.load
// CHECK:     mma {{ +}}mma.sync {{ +}}160 {{ +}}6.4 {{ +}}sm_70 or later
// CHECK:     wgmma {{ +}}wgmma.mma_async {{.*}} sm_90a
// CHECK:     tcgen05 {{ +}}tcgen05.mma.ws.sp

// RUN: weft isa --arch sm_75 | FileCheck %s --check-prefix=TURING
// TURING:     mma.sync
// TURING-NOT: {{stmatrix|wgmma|tcgen05}}

// RUN: weft isa mma | FileCheck %s --check-prefix=MMA
// MMA:      mma.sync  160 forms
// MMA-NEXT: PTX   mma.sync.aligned.SHAPE.{row,col}.{row,col}
// MMA-NEXT: LLVM  llvm.nvvm.mma
// MMA:      m16n8k8 {{ +}}A,B f16; C,D f32 {{ +}}d 4 f32, a 2 f16x2
// MMA-SAME: sm_75 or later {{ +}}6.5
// MMA:      movmatrix  1 form
// MMA:      LLVM  none: inline PTX

// RUN: weft isa wgmma.mma_async | FileCheck %s --check-prefix=WGMMA
// WGMMA: m64nNk16 (N 8…256 by 8) {{ +}}A,B bf16; D f32 {{ +}}d N/2 f32, a i64

// RUN: weft isa movmatrix --json | FileCheck %s --check-prefix=JSON
// JSON: {"family": "movmatrix", "ptx": "movmatrix.sync.aligned.m8n8.trans.b16", "axes": {"shape": "m8n8", "trans": true, "type": "b16"}, "operands": [{"name": "d", "count": 1, "type": "i32", "role": "out",
// JSON-SAME: "intrinsic": null, "chips": ["sm_75",
// JSON-SAME: "ptx_version": "7.8"}

// RUN: not weft isa wgmma --arch sm_100a 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not weft isa wgmma --arch sm_100a --json 2>&1 | FileCheck %s --check-prefix=EMPTY
// EMPTY: weft: error: sm_100a has no form of wgmma, which needs sm_90a
// RUN: not weft isa hmma 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: weft: error: family must be one of wmma, mma, wgmma, tcgen05, wmma.load
// RUN: not weft isa mma --arch sm_1 2>&1 | FileCheck %s --check-prefix=CHIP
// CHIP: weft: error: --arch must be a known chip (sm_70

// RUN: weft isa --matmul --arch sm_80 --types f32 | FileCheck %s --check-prefix=MATMUL
// MATMUL: f32 {{ +}}mma, wmma {{ +}}mma.sync {{ +}}all {{ +}}f32, f16, bf16
// RUN: weft isa --matmul --arch sm_70 | FileCheck %s --check-prefix=LACKING
// LACKING: no bf16; f32; f64; i1, and.popc: needs sm_80 or later, or A and B of f16
// RUN: weft isa --matmul --arch sm_75 --types bf16 --json | FileCheck %s --check-prefix=NO
// NO: "complaint": "has no schedule for sm_75 that multiplies bf16 and bf16: it needs sm_80 or later, or A and B of f16"
// RUN: not weft isa --matmul --types bf17 2>&1 | FileCheck %s --check-prefix=TYPES
// TYPES: weft: error: --types must be one of f16, bf16, {{.*}}, got 'bf17'
// RUN: not weft isa mma --types bf16 2>&1 | FileCheck %s --check-prefix=ONLY
// ONLY: weft: error: --types needs --matmul
// RUN: not weft isa mma --matmul 2>&1 | FileCheck %s --check-prefix=FAMILIES
// FAMILIES: weft: error: --matmul shows all families, got 'mma'

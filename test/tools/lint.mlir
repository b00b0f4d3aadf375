// weft lint says of each instruction whether a chip has it, and what is near.

// RUN: not weft lint %S/Inputs/lint.ptx | FileCheck %s
// CHECK:      lint.ptx:9:3: error: 'mma.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32' shape must be m16n8k4 or m16n8k8 on sm_90a
// CHECK-SAME, got m16n8k16; nearest legal: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3}; or mma
// CHECK-NEXT: lint.ptx:10:8: error: 'mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32' b must have 2 registers, got 1; nearest
// CHECK-NEXT: lint.ptx:12:3: error: 'tcgen05.wait::ld.sync.aligned' needs sm_100f, sm_100a,
// CHECK-NEXT: lint.ptx:13:3: error: 'ldmatrix.sync.m8n8.x1.shared.b16' isn't the spelling of an instruction: compared with ldmatrix
// CHECK-SAME: it lacks .aligned
// CHECK-NEXT: lint.ptx: 6 instructions, 4 illegal on sm_90a

// RUN: not weft lint %S/Inputs/lint.ptx --arch sm_100a | FileCheck %s --check-prefix=BLACKWELL
// BLACKWELL:     lint.ptx:11:3: error: 'wgmma.fence.sync.aligned' needs sm_90a: sm_100a has no form of wgmma.fence
// BLACKWELL-NOT: tcgen05
// BLACKWELL:     4 illegal on sm_100a

// RUN: not weft lint --json - --arch sm_90a < %S/Inputs/lint.ptx | FileCheck %s --check-prefix=JSON
// JSON:      {"line": 8, "instruction": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "legal": true, "rule": null, "reason": null, "nearest": []}
// JSON-NEXT: {"line": 9, "instruction": "mma.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32", "legal": false, "rule": "shape", "reason": "shape must be m16n8k4 or m16n8k8 on sm_90a
// JSON-SAME: "nearest": ["mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};",
// JSON-NEXT: {"line": 10,
// JSON-SAME: "rule": "registers"
// JSON-NEXT: {"line": 11, "instruction": "wgmma.fence.sync.aligned", "legal": true,
// JSON-NEXT: {"line": 12,
// JSON-SAME: "rule": "chip"
// JSON-NEXT: {"line": 13,
// JSON-SAME: "rule": "spelling"

// A file without a mistake, and one that can't be read.
// RUN: weft compile %examples/matmul.mlir --arch sm_80 | weft lint - | FileCheck %s --check-prefix=LEGAL
// LEGAL: {{^}}<stdin>: {{[0-9]+}} instructions, none illegal on sm_80
// RUN: not weft lint %t/none.ptx 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not weft lint %S/Inputs/lint.ptx --arch sm_1 2>> %t.log
// NONE: weft: error: cannot read '{{.*}}none.ptx': No such file or directory

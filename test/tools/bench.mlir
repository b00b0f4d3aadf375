// weft bench shows a run that was kept, and tells what is wrong with a command line before it looks for a GPU.

// RUN: weft bench --help | FileCheck %s --check-prefix=HELP
// HELP: [SUITE|SHAPE ...]
// HELP: Compare the times of products with those of cuBLAS and others.
// HELP: square, llm, deepgemm, odd, deepgemm-grouped, random,
// HELP-NEXT: MxNxK, G@MxNxK (G groups of about M rows)
// HELP: types of A and B, from
// HELP-SAME: bf16,f16,tf32,e4m3,e4m3-
// HELP-NEXT: promoted,e4m3-block,s8,mxfp8,mxfp6,mxfp4,nvfp4
// HELP: libraries to compare with, from cublas,cublaslt-
// HELP-NEXT: tuned,triton,deepgemm; the first has speed 1

// RUN: not weft bench --show %S/Inputs/bench.json --svg %t.svg | FileCheck %s --match-full-lines
// CHECK:      weft bench 512x512x512 1024x512x512 --against cublas,triton --sustained
// CHECK-NEXT: A GPU, 2026-11-21T08:00:00+00:00
// CHECK-NEXT: M x N x K {{ +}}types {{ +}}by {{ +}}µs {{ +}}TFLOP/s {{ +}}± % {{ +}}speed {{ +}}µs {{ +}}sustained {{.*}} error
// CHECK-NEXT: 512x512x512 {{ +}}bf16 to bf16 {{ +}}weft [[NUMBERS:( +[0-9.]+)+]] {{ +[0-9.]+e-[0-9]+}}
// CHECK-NEXT: {{ +}}cublas {{[ 0-9.]+e-[0-9]+}}
// CHECK-NEXT: {{ +}}triton {{ +}}not measured: Triton isn't installed
// CHECK-NEXT: 1024x512x512 {{.*}}
// CHECK-NEXT: {{ +}}cublas {{.*}}
// CHECK-NEXT: {{ +}}triton {{ +}}WRONG: {{.*}}, where {{.*}} is allowed
// CHECK-NEXT: bf16 to bf16, burst: weft is {{[0-9.]+}} times as fast as cublas (geometric mean of 2)
// CHECK-NEXT: bf16 to bf16, sustained: weft is {{[0-9.]+}} times as fast as cublas (geometric mean of 2)
// CHECK-NEXT: 1 of 6 results are WRONG

// RUN: FileCheck %s --check-prefix=SVG < %t.svg
// SVG:     <svg xmlns="http://www.w3.org/2000/svg"
// SVG:     <text {{.*}}>bf16 to bf16: speed over cublas</text>
// SVG:     <circle class="ratio"
// SVG:     <text {{.*}}>bf16 to bf16: TFLOP/s over operations a byte</text>
// SVG:     <polyline
// SVG:     <circle class="roof"
// SVG:     </svg>

// RUN: rm -rf %t && mkdir %t
// RUN: not weft bench 4096x4096 2> %t/log
// RUN: not weft bench square 64x64x0 2>> %t/log
// RUN: not weft bench --types bf16,fp8 2>> %t/log
// RUN: not weft bench --out-type e4m3 2>> %t/log
// RUN: not weft bench --against cublas, 2>> %t/log
// RUN: not weft bench --samples 1 2>> %t/log
// RUN: not weft bench --json - 2>> %t/log
// RUN: not weft bench --json %t/none/kept 2>> %t/log
// RUN: not weft bench --svg %t 2>> %t/log
// RUN: not weft bench --schedule "{block = 3}" 2>> %t/log
// RUN: not weft bench --schedule "" 2>> %t/log
// RUN: not weft bench llm --show %S/Inputs/bench.json 2>> %t/log
// RUN: not weft bench --show %S/Inputs/broken.txt 2>> %t/log
// RUN: FileCheck %s --check-prefix=LOG < %t/log
// LOG:      weft: error: shape must be MxNxK, three sizes in 1..2**31 - 1 (such as 4096x4096x4096), 4@8192x4096x7168 for 4 groups of about 8192 rows, 4@256/4096x4096x7168 for as many with room for 4096 rows each, or one of square, llm, deepgemm, odd, deepgemm-grouped, random
// LOG-NEXT: weft: error: shape must be MxNxK,{{.*}} got '64x64x0'
// LOG-NEXT: weft: error: --types must be among bf16,f16,tf32,e4m3,e4m3-promoted,e4m3-block,s8,mxfp8,mxfp6,mxfp4,nvfp4, got 'fp8'; did you mean 'mxfp8'?
// LOG-NEXT: weft: error: argument --out-type: invalid choice: 'e4m3'
// LOG-NEXT: weft: error: --against must be among cublas,cublaslt-tuned,triton,deepgemm, got ''
// LOG-NEXT: weft: error: --samples must be at least 2; got 1
// LOG-NEXT: weft: error: --json and --svg must be files: the table goes to stdout
// LOG-NEXT: weft: error: cannot write '{{.*}}kept': No such file or directory
// LOG-NEXT: weft: error: cannot write '{{.*}}': Is a directory
// LOG-NEXT: weft: error: --schedule '{block = 3}': schedule must have one of 'warp_grid' (for wmma.mma), 'warps' (for mma.sync), 'readers' (for mma.sync from registers), 'consumers' (for mma.sync with TMA), 'warpgroups' (for wgmma), 'accumulators' (for tcgen05)
// LOG-NEXT: weft: error: --schedule '': schedule must not be empty{{$}}
// LOG-NEXT: weft: error: --show can be used with --svg only: it measures nothing
// LOG-NEXT: weft: error: cannot read '{{.*}}broken.txt': must be a file from weft bench --json{{.*}}
// LOG-NOT:  {{.+}}

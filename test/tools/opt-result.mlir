// The form of the result, as the options of mlir-opt select it.

// RUN: weft-opt %s --mlir-elide-elementsattrs-if-larger=2 | FileCheck %s --check-prefix=ELIDE
// ELIDE: dense_resource<__elided__> : tensor<4xi32>
// ELIDE: dense<[1, 2]> : tensor<2xi32>
// RUN: weft-opt %s --mlir-elide-resource-strings-if-larger=10 | FileCheck %s --check-prefix=RESOURCE
// RESOURCE: dense<[1, 2, 3, 4]>
// RESOURCE-NOT: 0x04000000
// RUN: weft-opt %s | FileCheck %s --check-prefix=WHOLE
// WHOLE: #[[MAP:.*]] = affine_map<(d0) -> (d0 + 1)>
// WHOLE: affine.apply #[[MAP]](
// WHOLE: numbers: "0x040000000100000002000000"
// RUN: weft-opt %s --mlir-print-local-scope | FileCheck %s --check-prefix=LOCAL
// LOCAL-NOT: #map
// LOCAL: affine.apply affine_map<(d0) -> (d0 + 1)>(
// RUN: weft-opt %s --mlir-print-local-scope --mlir-print-debuginfo | FileCheck %s --check-prefix=INLINE
// INLINE: arith.constant dense<[1, 2]> : tensor<2xi32> loc("{{.*}}opt-result.mlir":{{[0-9]+}}:
// RUN: weft-opt %s --mlir-pretty-debuginfo | FileCheck %s --check-prefix=PRETTY
// PRETTY: dense<[1, 2]> : tensor<2xi32> {{.*}}opt-result.mlir:{{[0-9]+}}:
// RUN: weft-opt %s --mlir-print-skip-regions | FileCheck %s --check-prefix=SKIP
// SKIP-NOT: arith.constant
// SKIP: module {...}
// RUN: weft-opt %s --mlir-use-nameloc-as-prefix | FileCheck %s --check-prefix=NAMES
// NAMES: %next = affine.apply

// RUN: weft-opt %s --cse --verify-roundtrip --mlir-disable-threading | FileCheck %s --check-prefix=WHOLE
// RUN: weft-opt %s --cse --mlir-pass-statistics 2>&1 >%t | FileCheck %s --check-prefix=STATISTICS
// STATISTICS: Pass statistics report
// RUN: weft-opt %s --cse --mlir-pass-statistics --mlir-pass-statistics-display=list 2>&1 >%t | FileCheck %s --check-prefix=LIST
// LIST: Pass statistics report

// RUN: not weft-opt %s --mlir-elide-elementsattrs-if-larger=few 2>%t
// RUN: not weft-opt %s --mlir-pass-statistics-display=table 2>>%t
// RUN: not weft-opt %s --remarks-filter='(' 2>>%t
// RUN: FileCheck %s --check-prefix=MISTAKES < %t
// MISTAKES: 'few' must be a number of at least 0
// MISTAKES: --mlir-pass-statistics-display must be list or pipeline; got 'table'
// MISTAKES: --remarks-filter must be a regular expression; got '(': missing )

func.func @constants(%i: index) -> (tensor<4xi32>, tensor<2xi32>, tensor<2xi32>, index) {
  %0 = arith.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
  %1 = arith.constant dense<[1, 2]> : tensor<2xi32>
  %2 = arith.constant dense_resource<numbers> : tensor<2xi32>
  %3 = affine.apply affine_map<(d0) -> (d0 + 1)>(%i) loc("next")
  return %0, %1, %2, %3 : tensor<4xi32>, tensor<2xi32>, tensor<2xi32>, index
}

{-#
  dialect_resources: {
    builtin: {
      numbers: "0x040000000100000002000000"
    }
  }
#-}

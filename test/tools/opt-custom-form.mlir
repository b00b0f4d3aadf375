// An operation of Weft's is written in quotes; without them MLIR's parser gives up and says nothing.

// RUN: not weft-opt %s 2>&1 | FileCheck %s
// RUN: not weft-opt - < %s 2>&1 | FileCheck %s
// RUN: not weft lint %s 2>&1 | FileCheck %s

func.func @bare() {
  // CHECK: :[[# @LINE + 1]]:3: error: custom op 'wgmma.fence' has no custom assembly format: write "wgmma.fence"(…) : (…) -> (…)
  wgmma.fence
  return
}

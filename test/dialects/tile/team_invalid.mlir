// RUN: weft-opt %s --split-input-file --verify-diagnostics

func.func @only_gathered(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xbf16>, %others: memref<?x?x?xbf16>) {
  // expected-error @below {{expects gathered, arrivals, team together, got only gathered}}
  "tile.matmul"(%a, %b, %d, %others) {roles = ["gathered"], transpose_b = true}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xbf16>, memref<?x?x?xbf16>) -> ()
  return
}

// -----

func.func @of_another_type(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xbf16>, %others: memref<?x?x?xf16>,
                           %arrivals: memref<?x?xi32>, %team: memref<?xi32>) {
  %0 = "tile.operand"(%others) : (memref<?x?x?xf16>) -> !tile.any
  %1 = "tile.operand"(%arrivals) : (memref<?x?xi32>) -> !tile.any
  %2 = "tile.operand"(%team) : (memref<?xi32>) -> !tile.any
  // expected-error @below {{expects gathered to be a batch of matrices like A, of memref<?x?xbf16>, got memref<?x?x?xf16>}}
  "tile.matmul"(%a, %b, %d, %0, %1, %2) {roles = ["gathered", "arrivals", "team"], transpose_b = true}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xbf16>, !tile.any, !tile.any, !tile.any) -> ()
  return
}

// -----

func.func @of_a_batch(%a: memref<?x?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xbf16>, %others: memref<?x?x?xbf16>,
                      %arrivals: memref<?x?xi32>, %team: memref<?xi32>) {
  %0 = "tile.operand"(%others) : (memref<?x?x?xbf16>) -> !tile.any
  %1 = "tile.operand"(%arrivals) : (memref<?x?xi32>) -> !tile.any
  %2 = "tile.operand"(%team) : (memref<?xi32>) -> !tile.any
  // expected-error @below {{expects A of rank 2 and D of rank 3 with gathered, got memref<?x?x?xbf16> and memref<?x?x?xbf16>}}
  "tile.matmul"(%a, %b, %d, %0, %1, %2) {roles = ["gathered", "arrivals", "team"], transpose_b = true}
    : (memref<?x?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xbf16>, !tile.any, !tile.any, !tile.any) -> ()
  return
}

// -----

func.func @transposed(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xbf16>, %others: memref<?x?x?xbf16>,
                      %arrivals: memref<?x?xi32>, %team: memref<?xi32>) {
  %0 = "tile.operand"(%others) : (memref<?x?x?xbf16>) -> !tile.any
  %1 = "tile.operand"(%arrivals) : (memref<?x?xi32>) -> !tile.any
  %2 = "tile.operand"(%team) : (memref<?xi32>) -> !tile.any
  // expected-error @below {{transpose_a must be false with gathered, got true}}
  "tile.matmul"(%a, %b, %d, %0, %1, %2) {roles = ["gathered", "arrivals", "team"], transpose_a = true}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xbf16>, !tile.any, !tile.any, !tile.any) -> ()
  return
}

// -----

func.func @without_tma(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xbf16>, %others: memref<?x?x?xbf16>,
                       %arrivals: memref<?x?xi32>, %team: memref<?xi32>) {
  %0 = "tile.operand"(%others) : (memref<?x?x?xbf16>) -> !tile.any
  %1 = "tile.operand"(%arrivals) : (memref<?x?xi32>) -> !tile.any
  %2 = "tile.operand"(%team) : (memref<?xi32>) -> !tile.any
  // expected-error @below {{schedule must copy A by TMA (wgmma, tcgen05) with a team, got block 64x64x32}}
  "tile.matmul"(%a, %b, %d, %0, %1, %2) {roles = ["gathered", "arrivals", "team"], transpose_b = true,
    schedule = {block = array<i64: 64, 64, 32>, warps = array<i64: 2, 2>, stages = 2}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xbf16>, !tile.any, !tile.any, !tile.any) -> ()
  return
}

// -----

func.func @only_partials(%a: memref<?x?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>, %sums: memref<?xf32>) {
  // expected-error @below {{expects partials, signals, peers, team together, got only partials}}
  "tile.matmul"(%a, %b, %d, %sums) {roles = ["partials"], transpose_b = true}
    : (memref<?x?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>, memref<?xf32>) -> ()
  return
}

// -----

func.func @sums_of_a_batch(%a: memref<?x?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xbf16>, %sums: memref<?xf32>,
                           %signals: memref<?xi32>, %peers: memref<?x?xi64>, %team: memref<?xi32>) {
  %0 = "tile.operand"(%sums) : (memref<?xf32>) -> !tile.any
  %1 = "tile.operand"(%signals) : (memref<?xi32>) -> !tile.any
  %2 = "tile.operand"(%peers) : (memref<?x?xi64>) -> !tile.any
  %3 = "tile.operand"(%team) : (memref<?xi32>) -> !tile.any
  // expected-error @below {{expects A of rank 2 or 3, and B and D of rank 2, with partials, got}}
  "tile.matmul"(%a, %b, %d, %0, %1, %2, %3) {roles = ["partials", "signals", "peers", "team"], transpose_b = true}
    : (memref<?x?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xbf16>, !tile.any, !tile.any, !tile.any, !tile.any) -> ()
  return
}

// -----

func.func @sums_with_splits(%a: memref<?x?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>, %sums: memref<?xf32>,
                            %signals: memref<?xi32>, %peers: memref<?x?xi64>, %team: memref<?xi32>) {
  %0 = "tile.operand"(%sums) : (memref<?xf32>) -> !tile.any
  %1 = "tile.operand"(%signals) : (memref<?xi32>) -> !tile.any
  %2 = "tile.operand"(%peers) : (memref<?x?xi64>) -> !tile.any
  %3 = "tile.operand"(%team) : (memref<?xi32>) -> !tile.any
  // expected-error @below {{schedule must be one of wgmma without splits with peers, got block 64x64x64}}
  "tile.matmul"(%a, %b, %d, %0, %1, %2, %3) {roles = ["partials", "signals", "peers", "team"], transpose_b = true,
    schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 2, global_splits = 2}}
    : (memref<?x?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>, !tile.any, !tile.any, !tile.any, !tile.any) -> ()
  return
}

// -----

func.func @scales_that_are_not_gathered(%a: memref<?x?xf8E4M3FN>, %b: memref<?x?xf8E4M3FN>, %d: memref<?x?x?xbf16>,
    %others: memref<?x?x?xf8E4M3FN>, %arrivals: memref<?x?xi32>, %team: memref<?xi32>, %scales: memref<?x?xf32>) {
  %0 = "tile.operand"(%others) : (memref<?x?x?xf8E4M3FN>) -> !tile.any
  %1 = "tile.operand"(%arrivals) : (memref<?x?xi32>) -> !tile.any
  %2 = "tile.operand"(%team) : (memref<?xi32>) -> !tile.any
  %3 = "tile.operand"(%scales) : (memref<?x?xf32>) -> !tile.any
  // expected-error @below {{expects gathered_scales if and only if there are gathered and scales of f32}}
  "tile.matmul"(%a, %b, %d, %0, %1, %2, %3, %3) {roles = ["gathered", "arrivals", "team", "scale_a", "scale_b"],
    transpose_b = true} : (memref<?x?xf8E4M3FN>, memref<?x?xf8E4M3FN>, memref<?x?x?xbf16>,
    !tile.any, !tile.any, !tile.any, !tile.any, !tile.any) -> ()
  return
}

// -----

func.func @only_gathered_scales(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xbf16>, %scales: memref<?x?x?xf32>) {
  %0 = "tile.operand"(%scales) : (memref<?x?x?xf32>) -> !tile.any
  // expected-error @below {{expects gathered with gathered_scales}}
  "tile.matmul"(%a, %b, %d, %0) {roles = ["gathered_scales"], transpose_b = true}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xbf16>, !tile.any) -> ()
  return
}

// -----

func.func @bytes_are_not_sent(%a: memref<?x?xf8E4M3FN>, %b: memref<?x?xf8E4M3FN>, %d: memref<?x?x?xbf16>,
    %others: memref<?x?x?xf8E4M3FN>, %arrivals: memref<?x?xi32>, %peers: memref<?x?xi64>, %team: memref<?xi32>) {
  %0 = "tile.operand"(%others) : (memref<?x?x?xf8E4M3FN>) -> !tile.any
  %1 = "tile.operand"(%arrivals) : (memref<?x?xi32>) -> !tile.any
  %2 = "tile.operand"(%peers) : (memref<?x?xi64>) -> !tile.any
  %3 = "tile.operand"(%team) : (memref<?xi32>) -> !tile.any
  // expected-error @below {{expects A of 16 bits without scales with gathered and peers, got memref<?x?xf8E4M3FN>}}
  "tile.matmul"(%a, %b, %d, %0, %1, %2, %3) {roles = ["gathered", "arrivals", "peers", "team"], transpose_b = true}
    : (memref<?x?xf8E4M3FN>, memref<?x?xf8E4M3FN>, memref<?x?x?xbf16>, !tile.any, !tile.any, !tile.any, !tile.any) -> ()
  return
}

// -----

func.func @loaded_rows_are_not_sent(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xbf16>,
    %others: memref<?x?x?xbf16>, %arrivals: memref<?x?xi32>, %peers: memref<?x?xi64>, %team: memref<?xi32>) {
  %0 = "tile.operand"(%others) : (memref<?x?x?xbf16>) -> !tile.any
  %1 = "tile.operand"(%arrivals) : (memref<?x?xi32>) -> !tile.any
  %2 = "tile.operand"(%peers) : (memref<?x?xi64>) -> !tile.any
  %3 = "tile.operand"(%team) : (memref<?xi32>) -> !tile.any
  // expected-error @below {{schedule must be one of wgmma without splits with peers, got block 64x64x64}}
  "tile.matmul"(%a, %b, %d, %0, %1, %2, %3) {roles = ["gathered", "arrivals", "peers", "team"], transpose_b = true,
    schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 2, loaders = 1}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xbf16>, !tile.any, !tile.any, !tile.any, !tile.any) -> ()
  return
}

// -----

func.func @bands_of_all_rows(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>, %sums: memref<?xf32>,
                             %signals: memref<?xi32>, %peers: memref<?x?xi64>, %bands: memref<?x?xi32>, %team: memref<?xi32>) {
  %0 = "tile.operand"(%sums) : (memref<?xf32>) -> !tile.any
  %1 = "tile.operand"(%signals) : (memref<?xi32>) -> !tile.any
  %2 = "tile.operand"(%peers) : (memref<?x?xi64>) -> !tile.any
  %3 = "tile.operand"(%bands) : (memref<?x?xi32>) -> !tile.any
  %4 = "tile.operand"(%team) : (memref<?xi32>) -> !tile.any
  // expected-error @below {{expects A of rank 3 with bands, got memref<?x?xbf16>}}
  "tile.matmul"(%a, %b, %d, %0, %1, %2, %3, %4) {roles = ["partials", "signals", "peers", "bands", "team"], transpose_b = true}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>, !tile.any, !tile.any, !tile.any, !tile.any, !tile.any) -> ()
  return
}

// -----

func.func @only_bands(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>, %bands: memref<?x?xi32>) {
  // expected-error @below {{expects partials, signals, peers, team, bands together, got only bands}}
  "tile.matmul"(%a, %b, %d, %bands) {roles = ["bands"], transpose_b = true}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xi32>) -> ()
  return
}

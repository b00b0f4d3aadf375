// RUN: weft-opt %s --split-input-file --verify-diagnostics

func.func @only_gathered(%state: memref<?xi32>, %a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xbf16>, %others: memref<?x?x?xbf16>) {
  // expected-error @below {{expects (gathered, arrivals) or (gathered, arrivals, peers) or (partials, signals, peers) or (partials, signals, peers, bands), got (gathered)}}
  %t = "tile.team"(%state, %others) {operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0>}
    : (memref<?xi32>, memref<?x?x?xbf16>) -> !tile.exchange
  "tile.matmul"(%a, %b, %d, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0>, transpose_b = true}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xbf16>, !tile.exchange) -> ()
  return
}

// -----

func.func @of_another_type(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xbf16>, %others: memref<?x?x?xf16>,
                           %arrivals: memref<?x?xi32>, %team: memref<?xi32>) {
  %t = "tile.team"(%team, %others, %arrivals) {operandSegmentSizes = array<i32: 1, 1, 0, 1, 0, 0, 0, 0>}
    : (memref<?xi32>, memref<?x?x?xf16>, memref<?x?xi32>) -> !tile.exchange
  // expected-error @below {{expects gathered to be a batch of matrices like A, of memref<?x?xbf16>, got memref<?x?x?xf16>}}
  "tile.matmul"(%a, %b, %d, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0>, transpose_b = true}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xbf16>, !tile.exchange) -> ()
  return
}

// -----

func.func @of_a_batch(%a: memref<?x?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xbf16>, %others: memref<?x?x?xbf16>,
                      %arrivals: memref<?x?xi32>, %team: memref<?xi32>) {
  %t = "tile.team"(%team, %others, %arrivals) {operandSegmentSizes = array<i32: 1, 1, 0, 1, 0, 0, 0, 0>}
    : (memref<?xi32>, memref<?x?x?xbf16>, memref<?x?xi32>) -> !tile.exchange
  // expected-error @below {{expects A of rank 2 and D of rank 3 with gathered, got memref<?x?x?xbf16> and memref<?x?x?xbf16>}}
  "tile.matmul"(%a, %b, %d, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0>, transpose_b = true}
    : (memref<?x?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xbf16>, !tile.exchange) -> ()
  return
}

// -----

func.func @transposed(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xbf16>, %others: memref<?x?x?xbf16>,
                      %arrivals: memref<?x?xi32>, %team: memref<?xi32>) {
  %t = "tile.team"(%team, %others, %arrivals) {operandSegmentSizes = array<i32: 1, 1, 0, 1, 0, 0, 0, 0>}
    : (memref<?xi32>, memref<?x?x?xbf16>, memref<?x?xi32>) -> !tile.exchange
  // expected-error @below {{transpose_a must be false with gathered, got true}}
  "tile.matmul"(%a, %b, %d, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0>, transpose_a = true}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xbf16>, !tile.exchange) -> ()
  return
}

// -----

func.func @without_tma(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xbf16>, %others: memref<?x?x?xbf16>,
                       %arrivals: memref<?x?xi32>, %team: memref<?xi32>) {
  %t = "tile.team"(%team, %others, %arrivals) {operandSegmentSizes = array<i32: 1, 1, 0, 1, 0, 0, 0, 0>}
    : (memref<?xi32>, memref<?x?x?xbf16>, memref<?x?xi32>) -> !tile.exchange
  // expected-error @below {{schedule must copy A by TMA (wgmma, tcgen05) with a team, got block 64x64x32}}
  "tile.matmul"(%a, %b, %d, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0>, transpose_b = true,
    schedule = {block = array<i64: 64, 64, 32>, warps = array<i64: 2, 2>, stages = 2}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xbf16>, !tile.exchange) -> ()
  return
}

// -----

func.func @only_partials(%state: memref<?xi32>, %a: memref<?x?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>, %sums: memref<?xf32>) {
  // expected-error @below {{expects (gathered, arrivals) or (gathered, arrivals, peers) or (partials, signals, peers) or (partials, signals, peers, bands), got (partials)}}
  %t = "tile.team"(%state, %sums) {operandSegmentSizes = array<i32: 1, 0, 0, 0, 1, 0, 0, 0>}
    : (memref<?xi32>, memref<?xf32>) -> !tile.exchange
  "tile.matmul"(%a, %b, %d, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0>, transpose_b = true}
    : (memref<?x?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>, !tile.exchange) -> ()
  return
}

// -----

func.func @sums_of_a_batch(%a: memref<?x?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xbf16>, %sums: memref<?xf32>,
                           %signals: memref<?xi32>, %peers: memref<?x?xi64>, %team: memref<?xi32>) {
  %t = "tile.team"(%team, %sums, %signals, %peers) {operandSegmentSizes = array<i32: 1, 0, 0, 0, 1, 1, 1, 0>}
    : (memref<?xi32>, memref<?xf32>, memref<?xi32>, memref<?x?xi64>) -> !tile.exchange
  // expected-error @below {{expects A of rank 2 or 3, and B and D of rank 2, with partials, got}}
  "tile.matmul"(%a, %b, %d, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0>, transpose_b = true}
    : (memref<?x?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xbf16>, !tile.exchange) -> ()
  return
}

// -----

func.func @sums_with_splits(%a: memref<?x?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>, %sums: memref<?xf32>,
                            %signals: memref<?xi32>, %peers: memref<?x?xi64>, %team: memref<?xi32>) {
  %t = "tile.team"(%team, %sums, %signals, %peers) {operandSegmentSizes = array<i32: 1, 0, 0, 0, 1, 1, 1, 0>}
    : (memref<?xi32>, memref<?xf32>, memref<?xi32>, memref<?x?xi64>) -> !tile.exchange
  // expected-error @below {{schedule must be one of wgmma without splits with peers, got block 64x64x64}}
  "tile.matmul"(%a, %b, %d, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0>, transpose_b = true,
    schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 2, global_splits = 2}}
    : (memref<?x?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>, !tile.exchange) -> ()
  return
}

// -----

func.func @scales_that_are_not_gathered(%a: memref<?x?xf8E4M3FN>, %b: memref<?x?xf8E4M3FN>, %d: memref<?x?x?xbf16>,
    %others: memref<?x?x?xf8E4M3FN>, %arrivals: memref<?x?xi32>, %team: memref<?xi32>, %scales: memref<?x?xf32>) {
  %t = "tile.team"(%team, %others, %arrivals) {operandSegmentSizes = array<i32: 1, 1, 0, 1, 0, 0, 0, 0>}
    : (memref<?xi32>, memref<?x?x?xf8E4M3FN>, memref<?x?xi32>) -> !tile.exchange
  // expected-error @below {{expects gathered_scales if and only if there are scales of f32}}
  "tile.matmul"(%a, %b, %d, %scales, %scales, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0>, transpose_b = true} : (memref<?x?xf8E4M3FN>, memref<?x?xf8E4M3FN>, memref<?x?x?xbf16>, memref<?x?xf32>, memref<?x?xf32>, !tile.exchange) -> ()
  return
}

// -----

func.func @only_gathered_scales(%state: memref<?xi32>, %a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xbf16>, %scales: memref<?x?x?xf32>) {
  // expected-error @below {{expects gathered with gathered_scales}}
  %t = "tile.team"(%state, %scales) {operandSegmentSizes = array<i32: 1, 0, 1, 0, 0, 0, 0, 0>}
    : (memref<?xi32>, memref<?x?x?xf32>) -> !tile.exchange
  "tile.matmul"(%a, %b, %d, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0>, transpose_b = true}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xbf16>, !tile.exchange) -> ()
  return
}

// -----

func.func @bytes_are_not_sent(%a: memref<?x?xf8E4M3FN>, %b: memref<?x?xf8E4M3FN>, %d: memref<?x?x?xbf16>,
    %others: memref<?x?x?xf8E4M3FN>, %arrivals: memref<?x?xi32>, %peers: memref<?x?xi64>, %team: memref<?xi32>) {
  %t = "tile.team"(%team, %others, %arrivals, %peers) {operandSegmentSizes = array<i32: 1, 1, 0, 1, 0, 0, 1, 0>}
    : (memref<?xi32>, memref<?x?x?xf8E4M3FN>, memref<?x?xi32>, memref<?x?xi64>) -> !tile.exchange
  // expected-error @below {{expects A of 16 bits without scales with gathered and peers, got memref<?x?xf8E4M3FN>}}
  "tile.matmul"(%a, %b, %d, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0>, transpose_b = true}
    : (memref<?x?xf8E4M3FN>, memref<?x?xf8E4M3FN>, memref<?x?x?xbf16>, !tile.exchange) -> ()
  return
}

// -----

func.func @loaded_rows_are_not_sent(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?x?xbf16>,
    %others: memref<?x?x?xbf16>, %arrivals: memref<?x?xi32>, %peers: memref<?x?xi64>, %team: memref<?xi32>) {
  %t = "tile.team"(%team, %others, %arrivals, %peers) {operandSegmentSizes = array<i32: 1, 1, 0, 1, 0, 0, 1, 0>}
    : (memref<?xi32>, memref<?x?x?xbf16>, memref<?x?xi32>, memref<?x?xi64>) -> !tile.exchange
  // expected-error @below {{schedule must be one of wgmma without splits with peers, got block 64x64x64}}
  "tile.matmul"(%a, %b, %d, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0>, transpose_b = true,
    schedule = {block = array<i64: 64, 64, 64>, warpgroups = 1, stages = 2, loaders = 1}}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?x?xbf16>, !tile.exchange) -> ()
  return
}

// -----

func.func @bands_of_all_rows(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>, %sums: memref<?xf32>,
                             %signals: memref<?xi32>, %peers: memref<?x?xi64>, %bands: memref<?x?xi32>, %team: memref<?xi32>) {
  %t = "tile.team"(%team, %sums, %signals, %peers, %bands) {operandSegmentSizes = array<i32: 1, 0, 0, 0, 1, 1, 1, 1>}
    : (memref<?xi32>, memref<?xf32>, memref<?xi32>, memref<?x?xi64>, memref<?x?xi32>) -> !tile.exchange
  // expected-error @below {{expects A of rank 3 with bands, got memref<?x?xbf16>}}
  "tile.matmul"(%a, %b, %d, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0>, transpose_b = true}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>, !tile.exchange) -> ()
  return
}

// -----

func.func @only_bands(%state: memref<?xi32>, %a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>, %bands: memref<?x?xi32>) {
  // expected-error @below {{expects (gathered, arrivals) or (gathered, arrivals, peers) or (partials, signals, peers) or (partials, signals, peers, bands), got (bands)}}
  %t = "tile.team"(%state, %bands) {operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 1>}
    : (memref<?xi32>, memref<?x?xi32>) -> !tile.exchange
  "tile.matmul"(%a, %b, %d, %t) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0>, transpose_b = true}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>, !tile.exchange) -> ()
  return
}

// -----

func.func @other_elements(%rows: memref<?x?x?xbf16>, %arrivals: memref<?x?xi64>, %state: memref<?xi32>) {
  // expected-error @below {{'tile.team' op expects arrivals of element type i32, got memref<?x?xi64>}}
  %t = "tile.team"(%state, %rows, %arrivals) {operandSegmentSizes = array<i32: 1, 1, 0, 1, 0, 0, 0, 0>}
    : (memref<?xi32>, memref<?x?x?xbf16>, memref<?x?xi64>) -> !tile.exchange
  return
}

// -----

func.func @no_team(%a: memref<?x?xbf16>, %b: memref<?x?xbf16>, %d: memref<?x?xbf16>, %state: memref<?xi32>) {
  // expected-error @below {{expects team to be the result of a tile.team, got memref<?xi32>}}
  "tile.matmul"(%a, %b, %d, %state) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0>}
    : (memref<?x?xbf16>, memref<?x?xbf16>, memref<?x?xbf16>, memref<?xi32>) -> ()
  return
}

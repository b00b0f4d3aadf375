// What a host function may use beside kernels: memrefs, loops, numbers and printing.

// RUN: weft run %s --entry main --on emulator | FileCheck %s
// CHECK:      rank = 1 offset = 0 sizes = [2] strides = [1] data = 
// CHECK-NEXT: [2, 5]
// CHECK:      [1, 2, 3, 4, 5, 6]
// CHECK:      [0, 1, 2, 9]
// CHECK-NEXT: 7.38906
// CHECK-NEXT: 167.621
// CHECK-NEXT: ( 2, 4, 6 )
// CHECK:      {{\[\[}}7.375]]
// CHECK:      [2, 2, 2, 2]
// CHECK-NEXT: done
// CHECK-NEXT: ran main in the emulator in {{.*}} s, returned 5
// CHECK-NEXT: RAN
memref.global "private" constant @table : memref<2x3xf32> = dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]>
memref.global @counter : memref<1xi32> = dense<5>
func.func private @printMemrefF32(memref<*xf32>)
func.func private @printMemrefI32(memref<*xi32>) attributes {llvm.emit_c_interface}
func.func private @printMemrefBF16(memref<*xbf16>)
func.func @main() -> i32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c10 = arith.constant 10 : index
  %t = memref.get_global @table : memref<2x3xf32>
  %copy = memref.alloc() : memref<2x3xf32>
  memref.copy %t, %copy : memref<2x3xf32> to memref<2x3xf32>
  %column = memref.subview %copy[0, 1] [2, 1] [1, 1] : memref<2x3xf32> to memref<2xf32, strided<[3], offset: 1>>
  %other = memref.alloc() : memref<2xf32>
  memref.copy %column, %other : memref<2xf32, strided<[3], offset: 1>> to memref<2xf32>
  %u = memref.cast %other : memref<2xf32> to memref<*xf32>
  call @printMemrefF32(%u) : (memref<*xf32>) -> ()
  %flat = memref.reinterpret_cast %copy to offset: [0], sizes: [6], strides: [1] : memref<2x3xf32> to memref<6xf32>
  %uf = memref.cast %flat : memref<6xf32> to memref<*xf32>
  call @printMemrefF32(%uf) : (memref<*xf32>) -> ()
  %bytes = memref.alloc() : memref<16xi8>
  %ints = memref.view %bytes[%c0][] : memref<16xi8> to memref<4xi32>
  %n = scf.while (%i = %c0) : (index) -> index {
    %go = arith.cmpi slt, %i, %c3 : index
    scf.condition(%go) %i : index
  } do {
  ^bb0(%i: index):
    %v = arith.index_cast %i : index to i32
    memref.store %v, %ints[%i] : memref<4xi32>
    %next = arith.addi %i, %c1 : index
    scf.yield %next : index
  }
  %nine = arith.constant 9 : i32
  memref.store %nine, %ints[%n] : memref<4xi32>
  %ui = memref.cast %ints : memref<4xi32> to memref<*xi32>
  call @printMemrefI32(%ui) : (memref<*xi32>) -> ()
  %f = arith.constant 2.0 : f32
  %e = math.exp %f : f32
  vector.print %e : f32
  %p = math.powf %f, %e : f32
  vector.print %p : f32
  %v = vector.load %copy[%c0, %c0] : memref<2x3xf32>, vector<3xf32>
  %w = arith.addf %v, %v : vector<3xf32>
  vector.print %w : vector<3xf32>
  %h = arith.truncf %e : f32 to bf16
  %b = memref.alloca() : memref<1x1xbf16>
  memref.store %h, %b[%c0, %c0] : memref<1x1xbf16>
  %ub = memref.cast %b : memref<1x1xbf16> to memref<*xbf16>
  call @printMemrefBF16(%ub) : (memref<*xbf16>) -> ()
  %g = gpu.alloc () : memref<4xf32>
  gpu.memset %g, %f : memref<4xf32>, f32
  %four = memref.alloc() : memref<4xf32>
  gpu.memcpy %four, %g : memref<4xf32>, memref<4xf32>
  gpu.dealloc %g : memref<4xf32>
  %u4 = memref.cast %four : memref<4xf32> to memref<*xf32>
  call @printMemrefF32(%u4) : (memref<*xf32>) -> ()
  memref.dealloc %four : memref<4xf32>
  %cnt = memref.get_global @counter : memref<1xi32>
  %r = memref.load %cnt[%c0] : memref<1xi32>
  vector.print str "done\n"
  return %r : i32
}

// D = alpha * A * B + beta * C by CUTLASS 2, with cp.async and mma.sync, and K in slices that CTAs add up in turn.

#include <cutlass/cutlass.h>
#include <cutlass/epilogue/thread/linear_combination.h>
#include <cutlass/gemm/device/gemm_universal.h>

#include "host.h"

using LayoutA = cutlass::layout::LAYOUT_A;
using LayoutB = cutlass::layout::LAYOUT_B;
using LayoutD = cutlass::layout::LAYOUT_D;

constexpr int elements = 128 / cutlass::sizeof_bits<ELEMENT_D>::value;
using Epilogue = cutlass::epilogue::thread::LinearCombination<ELEMENT_D, elements, ACCUMULATOR, ACCUMULATOR>;
using Kernel = cutlass::gemm::device::GemmUniversal<
    ELEMENT_A, LayoutA, ELEMENT_B, LayoutB, ELEMENT_D, LayoutD, ACCUMULATOR, cutlass::arch::OpClassTensorOp,
    cutlass::arch::Sm80, cutlass::gemm::GemmShape<TILE>, cutlass::gemm::GemmShape<WARP_TILE>,
    cutlass::gemm::GemmShape<INSTRUCTION>, Epilogue, cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<4>,
    STAGES>::GemmKernel;

extern "C" int prepare(const int *sizes, void *const *pointers, float alpha, float beta, int multiprocessors,
                       Launch *launch, void *parameters) {
  int m = sizes[0], n = sizes[1], k = sizes[2];
  typename Kernel::Arguments arguments(cutlass::gemm::GemmUniversalMode::kGemm, {m, n, k}, SLICES, {ACCUMULATOR(alpha), ACCUMULATOR(beta)},
                                       pointers[OF_A], pointers[OF_B], pointers[OF_C], pointers[OF_D], 0, 0, 0, 0,
                                       LayoutA::packed({m, k}).stride(0), LayoutB::packed({k, n}).stride(0),
                                       LayoutD::packed({m, n}).stride(0), LayoutD::packed({m, n}).stride(0));
  if (Kernel::can_implement(arguments) != cutlass::Status::kSuccess) return 1;
  typename Kernel::Params params(arguments, multiprocessors, 1);
  params.semaphore = static_cast<int *>(pointers[WORKSPACE]);
  launch->workspace_bytes = params.get_workspace_size();
  launch->parameter_bytes = sizeof params;
  launch->shared_bytes = sizeof(typename Kernel::SharedStorage);
  if (!parameters) return 0;
  std::memcpy(parameters, &params, sizeof params);
  copy_dimensions(launch->grid, params.get_grid_dims());
  copy_dimensions(launch->block, dim3(Kernel::kThreadCount, 1, 1));
  copy_dimensions(launch->cluster, dim3(1, 1, 1));
  return 0;
}

// Has the kernel compiled, which nothing launches.
extern "C" void const *kernel() { return reinterpret_cast<void const *>(&cutlass::Kernel2<Kernel>); }

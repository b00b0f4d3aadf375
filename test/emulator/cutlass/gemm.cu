// D = alpha * A * B + beta * C by a collective of CUTLASS 3. The macros are those of a case in cutlass_cases.py.

#include <cute/tensor.hpp>
#include <cutlass/cutlass.h>
#include <cutlass/device_kernel.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/util/packed_stride.hpp>

#include <array>

#include "host.h"

using namespace cute;

using LayoutA = cutlass::layout::LAYOUT_A;
using LayoutB = cutlass::layout::LAYOUT_B;
using LayoutD = cutlass::layout::LAYOUT_D;
using CtaTile = Shape<TILE>;
using CtaCluster = Shape<CLUSTER>;

template <class Element>
constexpr int alignment = 128 / cutlass::sizeof_bits<Element>::value;

using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::ARCH, cutlass::arch::OPERATION, CtaTile, CtaCluster,
    cutlass::epilogue::collective::EpilogueTileAuto, ACCUMULATOR, ACCUMULATOR, ELEMENT_D, LayoutD,
    alignment<ELEMENT_D>, ELEMENT_D, LayoutD, alignment<ELEMENT_D>,
    cutlass::epilogue::EPILOGUE>::CollectiveOp;

using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::ARCH, cutlass::arch::OPERATION, ELEMENT_A, LayoutA, ALIGNMENT, ELEMENT_B, LayoutB,
    ALIGNMENT, ACCUMULATOR, CtaTile, CtaCluster,
    cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
        sizeof(typename Epilogue::SharedStorage))>,
    cutlass::gemm::MAINLOOP>::CollectiveOp;

using Kernel =
    cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Mainloop, Epilogue, SCHEDULER>;

extern "C" int prepare(const int *sizes, void *const *pointers, float alpha, float beta, int multiprocessors,
                       Launch *launch, void *parameters) {
  auto [m, n, k, l] = std::array<int, 4>{sizes[0], sizes[1], sizes[2], sizes[3]};
  typename Kernel::Arguments arguments{};
  arguments.mode = cutlass::gemm::GemmUniversalMode::kGemm;
  arguments.problem_shape = {m, n, k, l};
  arguments.mainloop.ptr_A = static_cast<decltype(arguments.mainloop.ptr_A)>(pointers[OF_A]);
  arguments.mainloop.ptr_B = static_cast<decltype(arguments.mainloop.ptr_B)>(pointers[OF_B]);
  arguments.mainloop.dA = cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, {m, k, l});
  arguments.mainloop.dB = cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, {n, k, l});
#ifdef SCALED
  using Config = typename Mainloop::Sm1xxBlkScaledConfig;
  auto problem = cute::make_shape(m, n, k, l);
  arguments.mainloop.ptr_SFA = static_cast<decltype(arguments.mainloop.ptr_SFA)>(pointers[SCALES_A]);
  arguments.mainloop.ptr_SFB = static_cast<decltype(arguments.mainloop.ptr_SFB)>(pointers[SCALES_B]);
  arguments.mainloop.layout_SFA = Config::tile_atom_to_shape_SFA(problem);
  arguments.mainloop.layout_SFB = Config::tile_atom_to_shape_SFB(problem);
#endif
  arguments.epilogue.ptr_C = static_cast<ELEMENT_D const *>(pointers[OF_C]);
  arguments.epilogue.ptr_D = static_cast<ELEMENT_D *>(pointers[OF_D]);
  arguments.epilogue.dC = cutlass::make_cute_packed_stride(typename Kernel::StrideC{}, {m, n, l});
  arguments.epilogue.dD = cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, {m, n, l});
  arguments.epilogue.thread.alpha = alpha;
  arguments.epilogue.thread.beta = beta;
  arguments.hw_info.sm_count = multiprocessors;
  arguments.hw_info.max_active_clusters = multiprocessors / size(CtaCluster{});
  return describe<Kernel, CtaCluster>(arguments, pointers[WORKSPACE], launch, parameters);
}

// Has the kernel compiled, which nothing launches.
extern "C" void const *kernel() { return reinterpret_cast<void const *>(&cutlass::device_kernel<Kernel>); }

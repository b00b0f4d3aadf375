// What a test asks of a kernel: the bytes of its parameters and the sizes of its launch, without a driver.
#pragma once

#include <cuda.h>
#include <cute/tensor.hpp>

#include <cstdint>
#include <cstring>

struct Launch {
  uint32_t grid[3], block[3], cluster[3];
  uint32_t shared_bytes, parameter_bytes;
  uint64_t workspace_bytes;
};

using Encode = int (*)(void *map, int type, uint32_t rank, uint64_t address, const uint64_t *dims,
                       const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                       int swizzle, int l2, int fill);

static Encode encode_map = nullptr;

extern "C" void use_encoder(Encode function) { encode_map = function; }

// CUTLASS calls this function of the driver; the test encodes the map.
extern "C" CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                           void *address, const cuuint64_t *dims, const cuuint64_t *strides,
                                           const cuuint32_t *box, const cuuint32_t *steps,
                                           CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                           CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill) {
  auto made = encode_map(map, type, rank, reinterpret_cast<uint64_t>(address),
                         reinterpret_cast<const uint64_t *>(dims), reinterpret_cast<const uint64_t *>(strides),
                         box, steps, interleave, swizzle, l2, fill);
  return static_cast<CUresult>(made);
}

// The arrays of a launch, as `prepare` takes them.
enum Pointer { OF_A, OF_B, OF_C, OF_D, WORKSPACE, SCALES_A, SCALES_B };

template <class Dimensions>
void copy_dimensions(uint32_t (&to)[3], Dimensions const &from) {
  to[0] = from.x, to[1] = from.y, to[2] = from.z;
}

// 0, or 1 if a kernel of CUTLASS 3 can't take the arguments. With `parameters`, writes the parameters.
template <class Kernel, class CtaCluster>
int describe(typename Kernel::Arguments const &arguments, void *workspace, Launch *launch, void *parameters) {
  if (!Kernel::can_implement(arguments)) return 1;
  launch->workspace_bytes = Kernel::get_workspace_size(arguments);
  launch->parameter_bytes = sizeof(typename Kernel::Params);
  launch->shared_bytes = Kernel::SharedStorageSize;
  if (!parameters) return 0;
  auto params = Kernel::to_underlying_arguments(arguments, workspace);
  std::memcpy(parameters, &params, sizeof params);
  copy_dimensions(launch->grid, Kernel::get_grid_shape(params));
  copy_dimensions(launch->block, Kernel::get_block_shape());
  launch->cluster[0] = cute::size<0>(CtaCluster{});
  launch->cluster[1] = cute::size<1>(CtaCluster{});
  launch->cluster[2] = 1;
  return 0;
}

// What the lanes of a warp do together, by intrinsics and by cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <stdint.h>
namespace cg = cooperative_groups;

extern "C" __global__ void shuffles(const int *a, int *out) {
  int lane = threadIdx.x & 31, i = blockIdx.x * blockDim.x + threadIdx.x, x = a[i], *o = out + i * 10;
  o[0] = __shfl_sync(~0u, x, (lane * 7) & 31); o[1] = __shfl_up_sync(~0u, x, 3); o[2] = __shfl_down_sync(~0u, x, 5, 8);
  o[3] = __shfl_xor_sync(~0u, x, 9); o[4] = __shfl_sync(~0u, x, 2, 4); o[5] = __ballot_sync(~0u, x & 1);
  o[6] = __any_sync(~0u, x == 3) + 2 * __all_sync(~0u, x < 1000); o[7] = __match_any_sync(~0u, x & 3);
  int same; o[8] = __match_all_sync(~0u, lane < 32, &same) + same;
  long long wide = __shfl_xor_sync(~0u, (long long)x << 33, 1); o[9] = (int)(wide >> 33);
}
extern "C" __global__ void scan(const int *a, int *out) {
  int lane = threadIdx.x & 31, i = blockIdx.x * blockDim.x + threadIdx.x, x = a[i];
  for (int d = 1; d < 32; d *= 2) { int y = __shfl_up_sync(~0u, x, d); if (lane >= d) x += y; }
  out[i] = x;
}
extern "C" __global__ void groups(const int *a, int *out) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<8>(block);
  auto warp = cg::tiled_partition<32>(block);
  int i = blockIdx.x * blockDim.x + threadIdx.x, x = a[i], *o = out + i * 6;
  o[0] = cg::reduce(tile, x, cg::plus<int>()); o[1] = cg::inclusive_scan(warp, x); o[2] = tile.shfl(x, 3) + tile.meta_group_rank();
  o[3] = -1;
  if (x & 1) { auto odd = cg::coalesced_threads(); o[3] = odd.thread_rank() * 100 + odd.size() + cg::reduce(odd, 1, cg::plus<int>()); }
  auto alike = cg::labeled_partition(warp, x & 3);
  o[4] = alike.size(); o[5] = cg::reduce(warp, x, cg::greater<int>());
  block.sync();
}
extern "C" __global__ void aggregated(const int *a, int *count, int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && a[i] > 0) {
    auto active = cg::coalesced_threads();
    int base = 0;
    if (active.thread_rank() == 0) base = atomicAdd(count, active.size());
    out[active.shfl(base, 0) + active.thread_rank()] = a[i];
  }
}
#if __CUDA_ARCH__ >= 800
extern "C" __global__ void redux(const int *a, int *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, x = a[i], *o = out + i * 5;
  o[0] = __reduce_add_sync(~0u, x); o[1] = __reduce_min_sync(~0u, x); o[2] = __reduce_max_sync(~0u, (unsigned)x);
  o[3] = __reduce_xor_sync(~0u, x); o[4] = __reduce_or_sync(~0u, x) ^ __reduce_and_sync(~0u, x);
}
#endif
// A grid that waits for itself.
extern "C" __global__ void grid_sync(int *a, int *out, int n) {
  auto grid = cg::this_grid();
  int i = grid.thread_rank();
  if (i < n) a[i] = a[i] * 2;
  grid.sync();
  if (i < n) out[i] = a[n - 1 - i];
}
extern "C" __global__ void named_barriers(int *out) {
  __shared__ int box[64];
  int lane = threadIdx.x & 31;
  if (threadIdx.x < 32) {
    for (int j = 0; j < 4; ++j) {
      asm volatile("bar.sync 2, 64;" ::: "memory");
      out[j * 32 + lane] = box[lane] + j;
      asm volatile("bar.arrive 1, 64;" ::: "memory");
    }
  } else {
    for (int j = 0; j < 4; ++j) {
      if (j) asm volatile("bar.sync 1, 64;" ::: "memory");
      box[lane] = lane * 10 + j;
      asm volatile("bar.arrive 2, 64;" ::: "memory");
    }
    asm volatile("bar.sync 1, 64;" ::: "memory");
  }
  int odd = __syncthreads_count(lane & 1) + 1000 * __syncthreads_or(lane == 40) + 100 * __syncthreads_and(lane < 32);
  if (threadIdx.x == 0) out[128] = odd;
}

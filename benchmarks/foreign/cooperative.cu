// Cooperative groups and CUB on small arrays, for cuda_cases.py.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_reduce.cuh>
namespace cg = cooperative_groups;

extern "C" __global__ void group_reduce(const int *x, int *y) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = cg::reduce(tile, x[i], cg::plus<int>()) + cg::reduce(tile, x[i], cg::greater<int>());
}

extern "C" __global__ void group_scan(const int *x, int *y) {
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = cg::inclusive_scan(tile, x[i]);
}

extern "C" __global__ void coalesced(const int *x, int *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = -1;
  if (x[i] > 0) {
    auto active = cg::coalesced_threads();
    y[i] = active.size() * 100 + active.thread_rank();
  }
}

extern "C" __global__ void labels(const int *x, int *y) {
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  auto same = cg::labeled_partition(tile, x[i] & 3);
  y[i] = cg::reduce(same, x[i], cg::plus<int>());
}

extern "C" __global__ void copied(const int *x, int *y) {
  __shared__ int part[128];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, part, x + blockIdx.x * 128, sizeof(part));
  cg::wait(block);
  y[blockIdx.x * 128 + threadIdx.x] = part[127 - threadIdx.x];
}

extern "C" __global__ void block_reduce(const int *x, int *y) {
  using Reduce = cub::BlockReduce<int, 128>;
  __shared__ typename Reduce::TempStorage room;
  int sum = Reduce(room).Sum(x[blockIdx.x * 128 + threadIdx.x]);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

extern "C" __global__ void block_scan(const int *x, int *y) {
  using Scan = cub::BlockScan<int, 128, cub::BLOCK_SCAN_WARP_SCANS>;
  __shared__ typename Scan::TempStorage room;
  int i = blockIdx.x * 128 + threadIdx.x, sum;
  Scan(room).ExclusiveSum(x[i], sum);
  y[i] = sum;
}

extern "C" __global__ void block_sort(const int *x, int *y) {
  using Sort = cub::BlockRadixSort<int, 128, 2>;
  __shared__ typename Sort::TempStorage room;
  int keys[2];
  for (int k = 0; k < 2; ++k) keys[k] = x[threadIdx.x * 2 + k];
  Sort(room).Sort(keys);
  for (int k = 0; k < 2; ++k) y[threadIdx.x * 2 + k] = keys[k];
}

extern "C" __global__ void warp_max(const int *x, int *y) {
  using Reduce = cub::WarpReduce<int>;
  __shared__ typename Reduce::TempStorage room[4];
  int i = blockIdx.x * 128 + threadIdx.x;
  int most = Reduce(room[threadIdx.x / 32]).Reduce(x[i], [](int a, int b) { return a > b ? a : b; });
  if (threadIdx.x % 32 == 0) y[i / 32] = most;
}

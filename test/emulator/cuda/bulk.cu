// Bulk copies and mbarriers through cuda::ptx.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/ptx>
#include <stdint.h>
namespace ptx = cuda::ptx;

extern "C" __global__ void copy(const int *a, int *out, int tiles) {
  __shared__ alignas(128) int box[2][64];
  __shared__ uint64_t full[2];
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full[0], 1);
    ptx::mbarrier_init(&full[1], 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  auto fetch = [&](int tile) {
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[tile % 2], sizeof(box[0]));
      ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, box[tile % 2], a + tile * 64, sizeof(box[0]), &full[tile % 2]);
    }
  };
  fetch(0);
  int sum = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) fetch(tile + 1);
    while (!ptx::mbarrier_try_wait_parity(&full[tile % 2], tile / 2 & 1)) {}
    sum += box[tile % 2][63 - threadIdx.x] * (tile + 1);
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
  }
  box[0][threadIdx.x] = sum;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out, box[0], sizeof(box[0]));
    ptx::cp_reduce_async_bulk(ptx::space_global, ptx::space_shared, ptx::op_add, out + 64, box[0], sizeof(box[0]));
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
  }
}
extern "C" __global__ void library(const int *a, int *out) {
  __shared__ alignas(16) int box[64];
  __shared__ cuda::barrier<cuda::thread_scope_block> ready;
  if (threadIdx.x == 0) {
    init(&ready, blockDim.x);
    cuda::device::experimental::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  cuda::barrier<cuda::thread_scope_block>::arrival_token token;
  if (threadIdx.x == 0) {
    cuda::device::memcpy_async_tx(box, a, cuda::aligned_size_t<16>(sizeof(box)), ready);
    token = cuda::device::barrier_arrive_tx(ready, 1, sizeof(box));
  } else {
    token = ready.arrive();
  }
  ready.wait(cuda::std::move(token));
  out[threadIdx.x] = box[63 - threadIdx.x];
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) remote(const int *a, int *out) {
  __shared__ alignas(16) int from[64], to[64];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof(to));
  }
  from[threadIdx.x] = a[blockIdx.x * 64 + threadIdx.x];
  ptx::fence_proxy_async(ptx::space_shared);
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
  auto cluster = cooperative_groups::this_cluster();
  uint32_t peer = ptx::get_sreg_cluster_ctarank() ^ 1;
  if (threadIdx.x == 0)
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_shared,
                       cluster.map_shared_rank(to, peer), from, sizeof(to), cluster.map_shared_rank(&full, peer));
  while (!ptx::mbarrier_try_wait_parity(&full, 0)) {}
  out[blockIdx.x * 64 + threadIdx.x] = to[63 - threadIdx.x];
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
}

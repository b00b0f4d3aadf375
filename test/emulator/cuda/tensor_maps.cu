// Tensor maps through cuda::ptx: a transpose by tiles, a multicast, a reduction.
#include <cuda.h>
#include <cuda/ptx>
#include <stdint.h>
namespace ptx = cuda::ptx;

extern "C" __global__ void tiles(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to) {
  __shared__ alignas(128) float box[16][16], turned[16][16];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    int32_t at[2] = {(int)blockIdx.x * 16, (int)blockIdx.y * 16};
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof(box));
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, box, &from, at, &full);
  }
  __syncthreads();
  while (!ptx::mbarrier_try_wait_parity(&full, 0)) {}
  for (int i = threadIdx.x; i < 256; i += blockDim.x) turned[i % 16][i / 16] = box[i / 16][i % 16] + 1;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    int32_t at[2] = {(int)blockIdx.y * 16, (int)blockIdx.x * 16};
    ptx::cp_async_bulk_tensor(ptx::space_global, ptx::space_shared, &to, at, turned);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) multicast(const __grid_constant__ CUtensorMap from, float *out) {
  __shared__ alignas(128) float box[16][16];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof(box));
  }
  ptx::barrier_cluster_arrive();
  ptx::barrier_cluster_wait();
  if (threadIdx.x == 0 && ptx::get_sreg_cluster_ctarank() == 0) {
    int32_t at[2] = {-4, 8};
    ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, box, &from, at, &full, (uint16_t)3);
  }
  while (!ptx::mbarrier_try_wait_parity(&full, 0)) {}
  for (int i = threadIdx.x; i < 256; i += blockDim.x) out[blockIdx.x * 256 + i] = box[i / 16][i % 16];
}

// Clusters: shared memory of other blocks, their barriers, and reductions over them.
#include <cooperative_groups.h>
#include <stdint.h>
namespace cg = cooperative_groups;

extern "C" __global__ void __cluster_dims__(4, 1, 1) ring(const int *a, int *out) {
  __shared__ int box[64];
  auto cluster = cg::this_cluster();
  box[threadIdx.x] = a[blockIdx.x * blockDim.x + threadIdx.x];
  cluster.sync();
  int *other = cluster.map_shared_rank(box, (cluster.block_rank() + 1) % cluster.num_blocks());
  out[blockIdx.x * blockDim.x + threadIdx.x] = other[blockDim.x - 1 - threadIdx.x] + 1000 * cluster.block_rank();
  cluster.sync();
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) histogram(const unsigned char *a, int *bins, int n) {
  __shared__ int own[128];
  auto cluster = cg::this_cluster();
  for (int j = threadIdx.x; j < 128; j += blockDim.x) own[j] = 0;
  cluster.sync();
  for (int i = cluster.thread_rank(); i < n; i += cluster.num_threads()) atomicAdd(cluster.map_shared_rank(own, a[i] >> 7) + (a[i] & 127), 1);
  cluster.sync();
  for (int j = threadIdx.x; j < 128; j += blockDim.x) bins[cluster.block_rank() * 128 + j] = own[j];
}
extern "C" __global__ void split_arrival(const int *a, int *out) {
  __shared__ int total;
  uint32_t rank, count;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
  if (threadIdx.x == 0) total = 0;
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  uint32_t here = (uint32_t)__cvta_generic_to_shared(&total), there;
  asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(there) : "r"(here));
  asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;" ::"r"(there), "r"(a[blockIdx.x * blockDim.x + threadIdx.x]) : "memory");
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (rank == 0 && threadIdx.x == 0) out[blockIdx.x / count] = total;
}

// Asynchronous copies by the library: cuda::pipeline, cuda::barrier, memcpy_async.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
namespace cg = cooperative_groups;

extern "C" __global__ void group_copy(const int *a, int *out, int n) {
  __shared__ alignas(16) int box[256];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, box, a + blockIdx.x * n, sizeof(int) * n);
  cg::wait(block);
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = box[n - 1 - i];
}
#if __CUDA_ARCH__ >= 800
extern "C" __global__ void two_stages(const int *a, int *out, int tiles) {
  __shared__ alignas(16) int box[2][64];
  auto pipe = cuda::make_pipeline();
  int sum = 0;
  auto fetch = [&](int tile) {
    pipe.producer_acquire();
    cuda::memcpy_async(&box[tile % 2][threadIdx.x], a + tile * 64 + threadIdx.x, cuda::aligned_size_t<4>(4), pipe);
    pipe.producer_commit();
  };
  fetch(0);
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) fetch(tile + 1);
    if (tile + 1 < tiles) cuda::pipeline_consumer_wait_prior<1>(pipe); else cuda::pipeline_consumer_wait_prior<0>(pipe);
    __syncthreads();
    sum += box[tile % 2][63 - threadIdx.x] * (tile + 1);
    __syncthreads();
    pipe.consumer_release();
  }
  out[threadIdx.x] = sum;
}
extern "C" __global__ void barriers(const int *a, int *out, int rounds) {
  __shared__ cuda::barrier<cuda::thread_scope_block> ready;
  __shared__ int box[64];
  if (threadIdx.x == 0) init(&ready, blockDim.x);
  __syncthreads();
  int sum = 0;
  for (int r = 0; r < rounds; ++r) {
    box[threadIdx.x] = a[threadIdx.x] * (r + 1);
    auto token = ready.arrive();
    sum += r;
    ready.wait(cuda::std::move(token));
    sum += box[(threadIdx.x + r + 1) % blockDim.x];
    ready.arrive_and_wait();
  }
  out[threadIdx.x] = sum;
}
extern "C" __global__ void barrier_copy(const int *a, int *out) {
  __shared__ cuda::barrier<cuda::thread_scope_block> ready;
  __shared__ alignas(16) int box[128];
  if (threadIdx.x == 0) init(&ready, blockDim.x);
  __syncthreads();
  cuda::memcpy_async(&box[threadIdx.x * 4], a + threadIdx.x * 4, cuda::aligned_size_t<16>(16), ready);
  ready.arrive_and_wait();
  for (int j = 0; j < 4; ++j) out[threadIdx.x * 4 + j] = box[127 - threadIdx.x * 4 - j];
}
// Producer warps and consumer warps around a shared pipeline.
extern "C" __global__ void roles(const int *a, int *out, int tiles) {
  constexpr int stages = 2;
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, stages> state;
  __shared__ alignas(16) int box[stages][32];
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state, (size_t)32);
  if (threadIdx.x < 32) {
    for (int tile = 0; tile < tiles; ++tile) {
      pipe.producer_acquire();
      cuda::memcpy_async(&box[tile % stages][threadIdx.x], a + tile * 32 + threadIdx.x, sizeof(int), pipe);
      pipe.producer_commit();
    }
  } else {
    int sum = 0, lane = threadIdx.x % 32;
    for (int tile = 0; tile < tiles; ++tile) {
      pipe.consumer_wait();
      sum += box[tile % stages][31 - lane] * (tile + 1);
      pipe.consumer_release();
    }
    out[lane] = sum;
  }
}
#endif

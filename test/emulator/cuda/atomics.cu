// Atomic operations of every kind that CUDA C++ has.
#include <cuda/atomic>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
typedef unsigned long long u64;

extern "C" __global__ void integers(const int *a, int *o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int x = a[i];
  atomicAdd(&o[0], x); atomicSub(&o[1], x); atomicMin(&o[2], x); atomicMax(&o[3], x); atomicAnd(&o[4], x);
  atomicOr(&o[5], x); atomicXor(&o[6], x); atomicInc((unsigned *)&o[7], 17u); atomicDec((unsigned *)&o[8], 17u);
  o[16 + atomicAdd(&o[9], 1)] = x;
}
extern "C" __global__ void longs(const u64 *a, u64 *o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u64 x = a[i];
  atomicAdd(&o[0], x); atomicMin(&o[1], x); atomicMax((long long *)&o[2], (long long)x); atomicXor(&o[3], x);
  u64 old = o[4], seen;
  do { seen = old; old = atomicCAS(&o[4], seen, seen * 1 + x); } while (old != seen);
}
extern "C" __global__ void histogram(const unsigned char *a, int *bins, int n) {
  __shared__ int own[256];
  for (int j = threadIdx.x; j < 256; j += blockDim.x) own[j] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&own[a[i]], 1);
  __syncthreads();
  for (int j = threadIdx.x; j < 256; j += blockDim.x) atomicAdd(&bins[j], own[j]);
}
extern "C" __global__ void reals(const float *a, float *f, double *d, half2 *h, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicAdd(f, a[i]); atomicAdd(d, (double)a[i]); atomicAdd(h, __floats2half2_rn(a[i], 1.f)); atomicExch(f + 1, 3.f);
  atomicAdd_block(f + 2, a[i]); atomicAdd_system(f + 3, a[i]); atomicAdd((half *)(h + 1), __float2half(a[i]));
#if __CUDA_ARCH__ >= 800
  atomicAdd((__nv_bfloat162 *)(h + 2), __floats2bfloat162_rn(1.f, a[i]));
#endif
}
// A maximum of floats by compare and swap.
extern "C" __global__ void float_max(const float *a, int *most, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int old = *most, seen;
  do {
    seen = old;
    if (__int_as_float(seen) >= a[i]) break;
    old = atomicCAS(most, seen, __float_as_int(a[i]));
  } while (old != seen);
}
extern "C" __global__ void locked(int *lock, int *count, int n) {
  if (threadIdx.x % 32 == 0) {
    for (int j = 0; j < n; ++j) {
      while (atomicCAS(lock, 0, 1)) {}
      __threadfence();
      *(volatile int *)count = *(volatile int *)count + 1;
      __threadfence();
      atomicExch(lock, 0);
    }
  }
}
extern "C" __global__ void ordered(int *o, int *out) {
  cuda::atomic_ref<int, cuda::thread_scope_device> flag(o[0]);
  cuda::atomic_ref<unsigned char, cuda::thread_scope_block> byte(((unsigned char *)o)[5]);
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) { o[2] = 42; flag.store(1, cuda::memory_order_release); }
    byte.fetch_add(1, cuda::memory_order_relaxed);
  } else if (threadIdx.x == 0) {
    while (flag.load(cuda::memory_order_acquire) == 0) {}
    out[blockIdx.x] = o[2];
    flag.fetch_add(10);
  }
}
// Sums by the block that finishes last.
__device__ unsigned finished = 0;
extern "C" __global__ void last_block(const float *a, float *parts, float *total, int n) {
  __shared__ float s[64];
  __shared__ bool last;
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += a[i];
  s[threadIdx.x] = sum;
  for (int d = 32; d; d >>= 1) { __syncthreads(); if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d]; }
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = s[0];
    __threadfence();
    last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) { sum = 0; for (int j = 0; j < gridDim.x; ++j) sum += ((volatile float *)parts)[j]; *total = sum; }
}
#if __CUDA_ARCH__ >= 900
struct alignas(16) Wide { u64 a, b; };
extern "C" __global__ void swap128(Wide *o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Wide seen = {0, 0};
  while (true) {
    Wide next = {seen.a + i, seen.b + 1};
    Wide old = atomicCAS(o, seen, next);
    if (old.a == seen.a && old.b == seen.b) break;
    seen = old;
  }
  Wide was = atomicExch(o + 1 + i, Wide{(u64)i, 7});
  o[1 + i].a += was.a;
}
extern "C" __global__ void vectors(const float4 *a, float4 *o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { atomicAdd(o, a[i]); atomicAdd((float2 *)(o + 1), make_float2(a[i].x, a[i].w)); }
}
#endif

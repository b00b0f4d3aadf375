// CUB's and libcu++'s collectives, and what else programs use.
#include <assert.h>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cuda/std/array>
#include <cuda/std/complex>
#include <cuda_fp16.h>
#include <stdint.h>

extern "C" __global__ void __launch_bounds__(64) radix_sort(const unsigned *in, unsigned *out) {
  using Sort = cub::BlockRadixSort<unsigned, 64, 4>;
  __shared__ typename Sort::TempStorage storage;
  unsigned keys[4];
  for (int j = 0; j < 4; ++j) keys[j] = in[threadIdx.x * 4 + j];
  Sort(storage).Sort(keys);
  for (int j = 0; j < 4; ++j) out[threadIdx.x * 4 + j] = keys[j];
}
extern "C" __global__ void __launch_bounds__(64) reductions(const float *in, float *out) {
  using Reduce = cub::BlockReduce<float, 64>;
  using Scan = cub::BlockScan<int, 64>;
  using Warp = cub::WarpReduce<int>;
  __shared__ union { typename Reduce::TempStorage reduce; typename Scan::TempStorage scan; typename Warp::TempStorage warp[2]; } storage;
  float x = in[threadIdx.x];
  float total = Reduce(storage.reduce).Sum(x);
  if (threadIdx.x == 0) out[0] = total;
  __syncthreads();
  int before, all;
  Scan(storage.scan).ExclusiveSum((int)x, before, all);
  __syncthreads();
  int most = Warp(storage.warp[threadIdx.x / 32]).Reduce((int)x, cuda::maximum<int>{});
  out[1 + threadIdx.x] = before;
  if (threadIdx.x % 32 == 0) out[65 + threadIdx.x / 32] = most;
  if (threadIdx.x == 0) out[67] = all;
}
extern "C" __global__ void complex_numbers(const float2 *a, const float2 *b, float2 *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  cuda::std::complex<float> x(a[i].x, a[i].y), y(b[i].x, b[i].y), z = x * y + x / y;
  out[i] = make_float2(z.real(), z.imag());
}

struct Node { const char *name; int value; const Node *next; };
__device__ const Node tail = {"end", 7, nullptr};
__device__ const Node second = {"second", 2, &tail};
__device__ const Node list[2] = {{"first", 1, &second}, {"other", 3, &tail}};
__constant__ struct { short a; const int *p; double d; } settings = {3, &tail.value, 2.5};
extern "C" __global__ void linked(int *out) {
  int at = 0;
  for (const Node *n = &list[threadIdx.x % 2]; n; n = n->next) out[threadIdx.x * 8 + at++] = n->value * 256 + n->name[0];
  out[threadIdx.x * 8 + at] = *settings.p + settings.a + (int)(settings.d * 2);
}
__managed__ int shared_count = 3;
extern "C" __global__ void cached(const int *__restrict__ a, int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  assert(n < 1000);
  if (i >= n) return;
  int x = __ldg(a + i) + __ldcg(a + i) + __ldcs(a + i) + __ldca(a + i) + __ldlu(a + i) + __ldcv(a + i);
  __stcs(out + i, x + shared_count);
  long long begin = clock64();
  __nanosleep(20);
  if (clock64() <= begin) __trap();
}
extern "C" __global__ void vectors(const int4 *a, const uchar4 *b, const ushort2 *c, int4 *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int4 x = a[i];
  uchar4 y = b[i];
  ushort2 z = c[i];
  out[i] = make_int4(x.x + y.x, x.y * y.y - z.x, x.z ^ y.z, x.w + y.w + z.y);
}
extern "C" __global__ void variable_arrays(const int *a, int *out, int n) {
  int i = threadIdx.x, count = i % 5 + 1;
  int *list = (int *)alloca(count * sizeof(int));
  for (int j = 0; j < count; ++j) list[j] = a[(i + j) % n];
  int sum = 0;
  for (int j = count - 1; j >= 0; --j) sum = sum * 3 + list[j];
  out[i] = sum;
}
template <class F> __device__ void apply(int n, F f) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) f(i);
}
struct Bits { unsigned a : 5, b : 11, c : 16; };
extern "C" __global__ void fields(const unsigned *a, Bits *out, int n) {
  apply(n, [=](int i) { Bits x = {a[i] & 31, a[i] >> 7 & 2047, 0}; x.c = x.a * x.b; out[i] = x; });
}
extern "C" __global__ void scalar_halves(const half *a, const half *b, half *out, int *ints, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  half x = a[i], y = b[i];
  out[i] = hexp(x) + hsqrt(__habs(y)) * x / y - hfloor(y);
  ints[i] = __half2int_rd(x) + __half2short_rn(y) + (x < y) + (__hisnan(x) ? 100 : 0);
}

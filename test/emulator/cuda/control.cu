// Control and memory: tables, recursion, function pointers, structs by value, local arrays, printf, malloc.
#include <stdint.h>
#include <stdio.h>

__constant__ float weights[8] = {0.5f, 1.f, 2.f, 4.f, 8.f, 16.f, 32.f, 64.f};
__device__ int counter = 5;
__device__ const char *const names[3] = {"zero", "one", "two"};

extern "C" __global__ void tables(const int *a, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = weights[a[i] & 7] * names[(a[i] >> 3) % 3][0];
}

extern "C" __global__ void dense_switch(const int *a, int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int x = a[i];
  switch (x) {
    case 0: x = i * 3; break;
    case 1: x = i + 100; break;
    case 2: x = -i;
    case 3: x ^= 0x55; break;
    case 4: x = i * i * i; break;
    case 5: for (int j = 0; j < i % 7; ++j) x = x * 31 + j; break;
    case 6: x = __popc(i); break;
    case 7: x = i / 3; break;
    default: x = -1;
  }
  out[i] = x;
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ __noinline__ int ackermann(int m, int n) {
  return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
extern "C" __global__ void recursion(const int *a, int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = fibonacci(a[i] & 7) * 100 + ackermann(a[i] & 1, a[i] & 3);
}

typedef float (*Operation)(float, float);
__device__ __noinline__ float plus(float x, float y) { return x + y; }
__device__ __noinline__ float minus(float x, float y) { return x - y; }
__device__ __noinline__ float times(float x, float y) { return x * y; }
__device__ Operation operations[3] = {plus, minus, times};
extern "C" __global__ void pointers(const int *which, const float *a, const float *b, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = operations[which[i] % 3](a[i], b[i]);
}

struct Shape {
  virtual __device__ float area() const = 0;
};
struct Square : Shape {
  float side;
  __device__ Square(float s) : side(s) {}
  __device__ float area() const override { return side * side; }
};
struct Circle : Shape {
  float radius;
  __device__ Circle(float r) : radius(r) {}
  __device__ float area() const override { return 3.f * radius * radius; }
};
extern "C" __global__ void virtuals(const float *a, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Square square(a[i]);
  Circle circle(a[i]);
  const Shape *shape = i & 1 ? (const Shape *)&square : &circle;
  out[i] = shape->area();
}

struct Pack {
  char tag;
  double scale;
  int counts[5];
  const float *data;
};
struct Result {
  double x;
  int y[3];
};
__device__ __noinline__ Result combine(Pack pack, int i) {
  Result r;
  r.x = pack.scale * pack.data[i];
  for (int j = 0; j < 3; ++j) r.y[j] = pack.counts[j] + pack.counts[j + 2] * i + pack.tag;
  return r;
}
extern "C" __global__ void by_value(Pack pack, double *x, int *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  pack.counts[i % 5] += 1;
  Result r = combine(pack, i);
  x[i] = r.x;
  y[i] = r.y[i % 3];
}

// A local array that stays in memory: insertion sort with indices known only when it runs.
extern "C" __global__ void local_sort(const int *a, int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int list[16];
  for (int j = 0; j < 16; ++j) {
    int value = a[(i * 7 + j * 5) % n], at = j;
    while (at > 0 && list[at - 1] > value) { list[at] = list[at - 1]; --at; }
    list[at] = value;
  }
  for (int j = 0; j < 16; ++j) out[i * 16 + j] = list[j];
}

extern "C" __global__ void says(int n) {
  if (threadIdx.x < n)
    printf("thread %d of %u: %5.2f %s %c %lld 0x%08x %%\n", threadIdx.x, blockDim.x, threadIdx.x * 1.5, "text", 'x', -5000000000ll, 48879);
}

extern "C" __global__ void heap(int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int *list = (int *)malloc((i % 4 + 1) * sizeof(int));
  for (int j = 0; j <= i % 4; ++j) list[j] = i * j;
  int sum = 0;
  for (int j = 0; j <= i % 4; ++j) sum += list[j];
  free(list);
  out[i] = sum + atomicAdd(&counter, 0);
}

extern "C" __global__ void divergent(const int *a, int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned x = a[i], steps = 0;
  while (x != 1 && steps < 200) { x = x & 1 ? 3 * x + 1 : x / 2; ++steps; }
  out[i] = steps;
}
extern __shared__ double dynamic[];
extern "C" __global__ void reversed(const double *in, double *out, int n) {
  if (threadIdx.x < n) dynamic[threadIdx.x] = in[blockIdx.x * n + threadIdx.x];
  __syncthreads();
  if (threadIdx.x < n) out[blockIdx.x * n + threadIdx.x] = dynamic[n - 1 - threadIdx.x];
}

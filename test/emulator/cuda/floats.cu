// Floating-point arithmetic: math functions, directed rounding, half and bf16, softmax and norms.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

extern "C" __global__ void single(const float *a, const float *b, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = a[i], y = b[i], *o = out + i * 24;
  o[0] = expf(x); o[1] = logf(fabsf(x)); o[2] = sinf(x); o[3] = cosf(x); o[4] = tanf(x); o[5] = powf(fabsf(x), y);
  o[6] = sqrtf(fabsf(x)); o[7] = rsqrtf(fabsf(x)); o[8] = x / y; o[9] = tanhf(x); o[10] = erff(x); o[11] = atan2f(x, y);
  o[12] = fmodf(x, y); o[13] = cbrtf(x); o[14] = exp2f(x); o[15] = log10f(fabsf(x)); o[16] = floorf(x) + rintf(y);
  o[17] = fmaxf(x, y) - fminf(x, y); o[18] = hypotf(x, y); o[19] = expm1f(x); o[20] = copysignf(x, y);
  o[21] = ldexpf(x, 5) + roundf(y); o[22] = lgammaf(fabsf(x) + 1.f); o[23] = remainderf(x, y);
}

extern "C" __global__ void fast(const float *a, const float *b, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = a[i], y = b[i], *o = out + i * 8;
  o[0] = __expf(x); o[1] = __logf(fabsf(x)); o[2] = __sinf(x); o[3] = __cosf(x); o[4] = __fdividef(x, y);
  o[5] = __powf(fabsf(x), y); o[6] = __frsqrt_rn(fabsf(x)); o[7] = __saturatef(x);
}

extern "C" __global__ void large_angles(const float *a, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = sinf(a[i] * 1e20f);
}

extern "C" __global__ void rounded(const float *a, const float *b, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = a[i], y = b[i], *o = out + i * 16;
  o[0] = __fadd_rz(x, y); o[1] = __fadd_ru(x, y); o[2] = __fadd_rd(x, y); o[3] = __fmul_rz(x, y); o[4] = __fmul_ru(x, y);
  o[5] = __fdiv_rd(x, y); o[6] = __fdiv_ru(x, y); o[7] = __fsqrt_rz(fabsf(x)); o[8] = __fmaf_rd(x, y, x);
  o[9] = __fmaf_ru(x, y, -x); o[10] = __frcp_rz(x); o[11] = __int_as_float(__float2int_rd(x));
  o[12] = __uint_as_float(__float2uint_ru(y)); o[13] = __int2float_rz(__float_as_int(x)); o[14] = __double2float_ru(x * 1.1);
  o[15] = __uint2float_rd(__float_as_uint(y));
}

extern "C" __global__ void doubled(const double *a, const double *b, double *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double x = a[i], y = b[i], *o = out + i * 20;
  o[0] = exp(x); o[1] = log(fabs(x)); o[2] = sin(x); o[3] = cos(x); o[4] = pow(fabs(x), y); o[5] = sqrt(fabs(x));
  o[6] = rsqrt(fabs(x)); o[7] = x / y; o[8] = tanh(x); o[9] = erf(x); o[10] = atan(x); o[11] = fmod(x, y); o[12] = 1 / x;
  o[13] = fma(x, y, -x * y); o[14] = floor(x) + rint(y); o[15] = cbrt(x); o[16] = fmax(x, y); o[17] = (double)(long long)(x * 100);
  o[18] = __dadd_rz(x, y); o[19] = __dmul_ru(x, y);
}

extern "C" __global__ void halves(const half2 *a, const half2 *b, half2 *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  half2 x = a[i], y = b[i], *o = out + i * 14;
  o[0] = __hadd2(x, y); o[1] = __hmul2(x, y); o[2] = __hfma2(x, y, x); o[3] = __h2div(x, y); o[4] = h2exp(x); o[5] = h2sqrt(__habs2(x));
  o[6] = __hmax2(x, y); o[7] = __hmin2(x, y); o[8] = __hadd2_sat(x, y); o[9] = h2rcp(x); o[10] = __hneg2(x); o[11] = __hgt2(x, y);
  o[12] = __lowhigh2highlow(x); o[13] = __floats2half2_rn(__low2float(x) * 2.f, __high2float(y));
}

#if __CUDA_ARCH__ >= 800
extern "C" __global__ void brains(const __nv_bfloat162 *a, const __nv_bfloat162 *b, __nv_bfloat162 *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __nv_bfloat162 x = a[i], y = b[i], *o = out + i * 8;
  o[0] = __hadd2(x, y); o[1] = __hmul2(x, y); o[2] = __hfma2(x, y, x); o[3] = __hmax2(x, y); o[4] = __hmin2(x, y);
  o[5] = __floats2bfloat162_rn(__low2float(x) * 1.5f, __high2float(y)); o[6] = __hsub2(x, y); o[7] = __hle2(x, y);
}
#endif

// One block a row.
extern "C" __global__ void softmax(const float *in, float *out, int columns) {
  __shared__ float part[32];
  const float *row = in + blockIdx.x * columns;
  float most = -INFINITY, sum = 0;
  for (int j = threadIdx.x; j < columns; j += blockDim.x) most = fmaxf(most, row[j]);
  for (int d = 16; d; d >>= 1) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = most;
  __syncthreads();
  for (int w = 0; w < blockDim.x / 32; ++w) most = fmaxf(most, part[w]);
  __syncthreads();
  for (int j = threadIdx.x; j < columns; j += blockDim.x) sum += __expf(row[j] - most);
  for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int w = 0; w < blockDim.x / 32; ++w) sum += part[w];
  for (int j = threadIdx.x; j < columns; j += blockDim.x) out[blockIdx.x * columns + j] = __expf(row[j] - most) / sum;
}

#if __CUDA_ARCH__ >= 1000
// Arithmetic on pairs of float32.
extern "C" __global__ void pairs(const float2 *a, const float2 *b, float2 *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 x = a[i], y = b[i], *o = out + i * 4;
  o[0] = __fadd2_rn(x, y); o[1] = __fmul2_rn(x, y); o[2] = __ffma2_rn(x, y, x); o[3] = __ffma2_rz(x, y, y);
}
#endif

// Conversions to and from the small formats.
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>
#include <stdint.h>

extern "C" __global__ void fp8(const float2 *a, uint16_t *out, half2 *back, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 x = a[i];
  uint16_t *o = out + i * 6;
  o[0] = __nv_cvt_float2_to_fp8x2(x, __NV_SATFINITE, __NV_E4M3); o[1] = __nv_cvt_float2_to_fp8x2(x, __NV_SATFINITE, __NV_E5M2);
  o[2] = __nv_cvt_halfraw2_to_fp8x2(__float22half2_rn(x), __NV_SATFINITE, __NV_E4M3);
  o[3] = __nv_cvt_bfloat16raw2_to_fp8x2(__float22bfloat162_rn(x), __NV_SATFINITE, __NV_E5M2);
  o[4] = __nv_cvt_float2_to_e8m0x2(x, __NV_SATFINITE, cudaRoundPosInf);
  o[5] = __nv_cvt_float_to_fp8(x.x, __NV_SATFINITE, __NV_E4M3);
  back[i * 2] = half2(__nv_cvt_fp8x2_to_halfraw2(o[0], __NV_E4M3));
  back[i * 2 + 1] = half2(__nv_cvt_fp8x2_to_halfraw2(o[1], __NV_E5M2));
}
extern "C" __global__ void fp6_fp4(const float2 *a, uint16_t *out, half2 *back, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float2 x = a[i];
  uint16_t *o = out + i * 3;
  o[0] = __nv_cvt_float2_to_fp6x2(x, __NV_E2M3, cudaRoundNearest); o[1] = __nv_cvt_float2_to_fp6x2(x, __NV_E3M2, cudaRoundNearest);
  o[2] = __nv_cvt_float2_to_fp4x2(x, __NV_E2M1, cudaRoundNearest);
  back[i * 3] = half2(__nv_cvt_fp6x2_to_halfraw2(o[0], __NV_E2M3)); back[i * 3 + 1] = half2(__nv_cvt_fp6x2_to_halfraw2(o[1], __NV_E3M2));
  back[i * 3 + 2] = half2(__nv_cvt_fp4x2_to_halfraw2(o[2], __NV_E2M1));
}

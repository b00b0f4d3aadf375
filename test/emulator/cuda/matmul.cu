// Matrix products: through shared memory, through wmma in every type, and through mma with ldmatrix and cp.async.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <stdint.h>
using namespace nvcuda;

extern "C" __global__ void classic(const float *a, const float *b, float *c, int m, int n, int k) {
  __shared__ float sa[16][17], sb[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int k0 = 0; k0 < k; k0 += 16) {
    sa[threadIdx.y][threadIdx.x] = row < m && k0 + threadIdx.x < k ? a[row * k + k0 + threadIdx.x] : 0.f;
    sb[threadIdx.y][threadIdx.x] = k0 + threadIdx.y < k && col < n ? b[(k0 + threadIdx.y) * n + col] : 0.f;
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += sa[threadIdx.y][i] * sb[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}

template <class T, class Acc, class Frag, int M, int N, int K>
__device__ void wmma_product(const T *a, const T *b, Acc *c, int n, int k) {
  wmma::fragment<wmma::matrix_a, M, N, K, Frag, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, Frag, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, M, N, K, Acc> fc;
  wmma::fill_fragment(fc, Acc(0));
  int row = blockIdx.y * M, col = blockIdx.x * N;
  for (int k0 = 0; k0 < k; k0 += K) {
    wmma::load_matrix_sync(fa, a + row * k + k0, k);
    wmma::load_matrix_sync(fb, b + col * k + k0, k);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::store_matrix_sync(c + row * n + col, fc, n, wmma::mem_row_major);
}

extern "C" __global__ void wmma_f16(const half *a, const half *b, float *c, int n, int k) {
  wmma_product<half, float, half, 16, 16, 16>(a, b, c, n, k);
}
extern "C" __global__ void wmma_f16_f16(const half *a, const half *b, half *c, int n, int k) {
  wmma_product<half, half, half, 32, 8, 16>(a, b, c, n, k);
}
extern "C" __global__ void wmma_s8(const signed char *a, const signed char *b, int *c, int n, int k) {
  wmma_product<signed char, int, signed char, 16, 16, 16>(a, b, c, n, k);
}
extern "C" __global__ void wmma_u8(const unsigned char *a, const unsigned char *b, int *c, int n, int k) {
  wmma_product<unsigned char, int, unsigned char, 8, 32, 16>(a, b, c, n, k);
}
#if __CUDA_ARCH__ >= 800
extern "C" __global__ void wmma_bf16(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, int n, int k) {
  wmma_product<__nv_bfloat16, float, __nv_bfloat16, 16, 16, 16>(a, b, c, n, k);
}
extern "C" __global__ void wmma_tf32(const float *a, const float *b, float *c, int n, int k) {
  wmma_product<float, float, wmma::precision::tf32, 16, 16, 8>(a, b, c, n, k);
}
extern "C" __global__ void wmma_f64(const double *a, const double *b, double *c, int n, int k) {
  wmma_product<double, double, double, 8, 8, 4>(a, b, c, n, k);
}

// One warp: 16 x 8 of c, with two stages of cp.async.
extern "C" __global__ void mma_async(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c, int n, int k) {
  __shared__ __align__(16) __nv_bfloat16 sa[2][16][24], sb[2][8][24];
  int lane = threadIdx.x, row = blockIdx.y * 16, col = blockIdx.x * 8;
  auto copy = [&](int stage, int k0) {
    const void *from = a + (row + lane / 2) * k + k0 + lane % 2 * 8;
    uint32_t to = (uint32_t)__cvta_generic_to_shared(&sa[stage][lane / 2][lane % 2 * 8]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    if (lane < 16) {
      from = b + (col + lane / 2) * k + k0 + lane % 2 * 8;
      to = (uint32_t)__cvta_generic_to_shared(&sb[stage][lane / 2][lane % 2 * 8]);
      asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  float d[4] = {};
  copy(0, 0);
  for (int k0 = 0, stage = 0; k0 < k; k0 += 16, stage ^= 1) {
    if (k0 + 16 < k) {
      copy(stage ^ 1, k0 + 16);
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_all;" ::: "memory");
    }
    __syncwarp();
    uint32_t ra[4], rb[2];
    uint32_t from = (uint32_t)__cvta_generic_to_shared(&sa[stage][lane % 16][lane / 16 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(from));
    from = (uint32_t)__cvta_generic_to_shared(&sb[stage][lane % 8][lane / 8 % 2 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(rb[0]), "=r"(rb[1]) : "r"(from));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    __syncwarp();
  }
  int r = row + lane / 4, q = col + lane % 4 * 2;
  *(float2 *)&c[r * n + q] = make_float2(d[0], d[1]);
  *(float2 *)&c[(r + 8) * n + q] = make_float2(d[2], d[3]);
}
#endif

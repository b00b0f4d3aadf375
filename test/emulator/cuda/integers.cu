// Integer arithmetic of every width, bits, bytes and carries.
#include <stdint.h>
typedef unsigned long long u64;
typedef unsigned __int128 u128;

extern "C" __global__ void wide(const u64 *a, const u64 *b, u64 *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u64 x = a[i], y = b[i] | 1;
  u128 product = (u128)x * y;
  u128 sum = product + ((u128)y << 64 | x);
  __int128 quotient = (__int128)sum / (long long)(y >> 7 | 3);
  u128 rest = sum % (((u128)1 << 64) + y);
  u64 *o = out + i * 12;
  o[0] = (u64)product; o[1] = (u64)(product >> 64); o[2] = (u64)sum; o[3] = (u64)(sum >> 64);
  o[4] = (u64)quotient; o[5] = (u64)(quotient >> 64); o[6] = (u64)rest; o[7] = (u64)(rest >> 64);
  o[8] = x / y; o[9] = (u64)((long long)x % (long long)y); o[10] = __umul64hi(x, y); o[11] = (u64)__mul64hi(x, y);
}

extern "C" __global__ void bits(const uint32_t *a, const uint32_t *b, uint32_t *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint32_t x = a[i], y = b[i], *o = out + i * 24;
  o[0] = __brev(x); o[1] = __clz(x); o[2] = __popc(x); o[3] = __ffs(x); o[4] = __byte_perm(x, y, y & 0x7777);
  o[5] = __funnelshift_l(x, y, y & 63); o[6] = __funnelshift_r(x, y, y & 63); o[7] = __funnelshift_lc(x, y, y & 63);
  o[8] = __funnelshift_rc(x, y, y & 63); o[9] = __dp4a((int)x, (int)y, 7); o[10] = __dp4a(x, y, 7u);
  o[11] = __dp2a_lo((int)x, (int)y, 7); o[12] = __dp2a_hi(x, y, 7u); o[13] = __usad(x, y, 5u);
  o[14] = __sad((int)x, (int)y, 5u); o[15] = __uhadd(x, y); o[16] = __rhadd((int)x, (int)y); o[17] = __umulhi(x, y);
  o[18] = __mul24((int)x, (int)y); o[19] = (x & y) ^ (~x | (y >> 3)); o[20] = x / (y | 1); o[21] = (int)x % (int)(y | 1);
  o[22] = (uint32_t)((int)x >> (y & 31)); o[23] = x << (y & 31) | x >> (32 - (y & 31) & 31);
}

extern "C" __global__ void lanes_of_a_word(const uint32_t *a, const uint32_t *b, uint32_t *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint32_t x = a[i], y = b[i], *o = out + i * 16;
  o[0] = __vadd4(x, y); o[1] = __vsub2(x, y); o[2] = __vmaxs2(x, y); o[3] = __vminu2(x, y); o[4] = __vabsdiffu4(x, y);
  o[5] = __vavgu4(x, y); o[6] = __vaddss2(x, y); o[7] = __vaddus4(x, y); o[8] = __vcmpgtu4(x, y); o[9] = __vseteq2(x, y);
  o[10] = __vsads4(x, y); o[11] = __vmins4(x, y); o[12] = __vabsss2(x); o[13] = __vneg4(x);
  o[14] = __vimax_s16x2_relu(x, y); o[15] = __vimin3_s32(x, y, 17);
}

// 256-bit sum and product through the carry flag.
extern "C" __global__ void carries(const uint32_t *a, const uint32_t *b, uint32_t *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const uint32_t *x = a + i * 4, *y = b + i * 4;
  uint32_t *o = out + i * 12, s[4], d[4], m[4];
  asm("add.cc.u32 %0, %4, %8; addc.cc.u32 %1, %5, %9; addc.cc.u32 %2, %6, %10; addc.u32 %3, %7, %11;"
      : "=r"(s[0]), "=r"(s[1]), "=r"(s[2]), "=r"(s[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]));
  asm("sub.cc.u32 %0, %4, %8; subc.cc.u32 %1, %5, %9; subc.cc.u32 %2, %6, %10; subc.u32 %3, %7, %11;"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]));
  asm("mul.lo.u32 %0, %4, %6; mul.hi.u32 %1, %4, %6; mad.lo.cc.u32 %1, %5, %6, %1; madc.hi.u32 %2, %5, %6, 0;\n"
      "mad.lo.cc.u32 %1, %4, %7, %1; madc.hi.cc.u32 %2, %4, %7, %2; addc.u32 %3, 0, 0;\n"
      "mad.lo.cc.u32 %2, %5, %7, %2; madc.hi.u32 %3, %5, %7, %3;"
      : "=&r"(m[0]), "=&r"(m[1]), "=&r"(m[2]), "=&r"(m[3]) : "r"(x[0]), "r"(x[1]), "r"(y[0]), "r"(y[1]));
  for (int j = 0; j < 4; ++j) { o[j] = s[j]; o[4 + j] = d[j]; o[8 + j] = m[j]; }
}

extern "C" __global__ void narrow(const int8_t *a, const uint16_t *b, int64_t *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int8_t x = a[i]; uint16_t y = b[i]; int64_t *o = out + i * 6;
  o[0] = (int8_t)(x * 3); o[1] = (uint16_t)(y * y); o[2] = x / 7 + y % 11; o[3] = (int16_t)(y << 1) >> 2;
  o[4] = x < 0 ? -x : ~y; o[5] = (int64_t)x << 40 | y;
}

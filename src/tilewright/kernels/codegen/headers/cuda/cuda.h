// Top of a CUDA translation unit for NVRTC. No CUDA header is included: what is used is built in.
#pragma nv_diag_suppress 1046  // printed constants are exact doubles, rounded to float here
#define TW_DEVICE static __device__ __forceinline__ __attribute__((unused))
#define TW_KERNEL(threads, blocks) extern "C" __global__ __launch_bounds__(threads, blocks)
#define TW_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
#define TW_SHARED(name) extern __shared__ __align__(128) unsigned char name[]
#define TW_TENSOR_MAP(name) const __grid_constant__ tw::tensor_map name
#define TW_UNROLL _Pragma("unroll")
#define TW_KEEP_LOOP _Pragma("unroll 1")
// Literals as the expression printer writes them, which NVRTC does not know on the device.
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000LL)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000LL)
namespace tw {
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
TW_DEVICE u32 float_bits(float x) { return __float_as_uint(x); }
TW_DEVICE float bits_float(u32 b) { return __uint_as_float(b); }
// One rounding each: never contracted, whatever the compiler's flags.
TW_DEVICE float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
TW_DEVICE float fmul(float a, float b) { return __fmul_rn(a, b); }
TW_DEVICE float fadd(float a, float b) { return __fadd_rn(a, b); }
TW_DEVICE float fdiv(float a, float b) { return __fdiv_rn(a, b); }
TW_DEVICE double fma(double a, double b, double c) { return __fma_rn(a, b, c); }
TW_DEVICE double fmul(double a, double b) { return __dmul_rn(a, b); }
TW_DEVICE double fdiv(double a, double b) { return __ddiv_rn(a, b); }
TW_DEVICE float sqrt(float x) { return __fsqrt_rn(x); }
TW_DEVICE double sqrt(double x) { return __dsqrt_rn(x); }
TW_DEVICE float floor(float x) { return ::floorf(x); }
TW_DEVICE double floor(double x) { return ::floor(x); }
TW_DEVICE float abs(float x) { return ::fabsf(x); }
TW_DEVICE float max_number(float a, float b) { return ::fmaxf(a, b); }
TW_DEVICE double abs(double x) { return ::fabs(x); }
TW_DEVICE double exp(double x) { return ::exp(x); }
TW_DEVICE double log(double x) { return ::log(x); }
TW_DEVICE double tanh(double x) { return ::tanh(x); }
TW_DEVICE double erf(double x) { return ::erf(x); }
TW_DEVICE double sin(double x) { return ::sin(x); }
TW_DEVICE double cos(double x) { return ::cos(x); }
TW_DEVICE double log1p(double x) { return ::log1p(x); }
TW_DEVICE float fmod(float x, float y) { return ::fmodf(x, y); }
TW_DEVICE double fmod(double x, double y) { return ::fmod(x, y); }
TW_DEVICE double pow(double x, double y) { return ::pow(x, y); }
}  // namespace tw

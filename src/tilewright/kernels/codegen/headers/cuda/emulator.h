// Top of the same translation unit for the emulator: plain C++ on the runtime's execution model.
#include "emu.h"
namespace tw {
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
TW_DEVICE u32 float_bits(float x) { u32 b; __builtin_memcpy(&b, &x, 4); return b; }
TW_DEVICE float bits_float(u32 b) { float x; __builtin_memcpy(&x, &b, 4); return x; }
TW_DEVICE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TW_DEVICE float fmul(float a, float b) { return a * b; }
TW_DEVICE float fadd(float a, float b) { return a + b; }
TW_DEVICE float fdiv(float a, float b) { return a / b; }
TW_DEVICE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
TW_DEVICE double fmul(double a, double b) { return a * b; }
TW_DEVICE double fdiv(double a, double b) { return a / b; }
TW_DEVICE float sqrt(float x) { return __builtin_sqrtf(x); }
TW_DEVICE double sqrt(double x) { return __builtin_sqrt(x); }
TW_DEVICE float floor(float x) { return __builtin_floorf(x); }
TW_DEVICE double floor(double x) { return __builtin_floor(x); }
TW_DEVICE float abs(float x) { return __builtin_fabsf(x); }
TW_DEVICE float max_number(float a, float b) { return __builtin_fmaxf(a, b); }
TW_DEVICE double abs(double x) { return __builtin_fabs(x); }
TW_DEVICE double exp(double x) { return __builtin_exp(x); }
TW_DEVICE double log(double x) { return __builtin_log(x); }
TW_DEVICE double tanh(double x) { return __builtin_tanh(x); }
TW_DEVICE double erf(double x) { return __builtin_erf(x); }
TW_DEVICE double sin(double x) { return __builtin_sin(x); }
TW_DEVICE double cos(double x) { return __builtin_cos(x); }
TW_DEVICE double log1p(double x) { return __builtin_log1p(x); }
TW_DEVICE float fmod(float x, float y) { return __builtin_fmodf(x, y); }
TW_DEVICE double fmod(double x, double y) { return __builtin_fmod(x, y); }
TW_DEVICE double pow(double x, double y) { return __builtin_pow(x, y); }
}  // namespace tw

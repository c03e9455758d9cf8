// Top of an OpenCL C translation unit: what the CUDA prelude offers, under the names that translate.py gives.
#define TW_OVER __attribute__((overloadable))
#define TW_DEVICE static inline TW_OVER
#define TW_UNROLL _Pragma("unroll")
#define TW_KEEP_LOOP _Pragma("unroll 1")
#define __builtin_inff() as_float(0x7f800000u)
#define __builtin_nanf(text) as_float(0x7fc00000u)
#define __builtin_inf() ((double)as_float(0x7f800000u))
#define __builtin_nan(text) ((double)as_float(0x7fc00000u))
#define tw_grid_wait()
#define tw_grid_launch()
typedef uint tw_u32;
typedef struct { ushort bits; } tw_f16;
typedef struct { ushort bits; } tw_bf16;
#define TW_ACCESS(T, name) \
    static inline T tw_load_global_##name(__global const void *p) { return *(__global const T *)p; } \
    static inline T tw_load_written_##name(__global const void *p) { return *(__global const T *)p; } \
    static inline T tw_load_shared_##name(__local const void *p) { return *(__local const T *)p; } \
    static inline void TW_OVER tw_store_global(__global void *p, T v) { *(__global T *)p = v; } \
    static inline void TW_OVER tw_store_shared(__local void *p, T v) { *(__local T *)p = v; }
TW_ACCESS(float, float)
TW_ACCESS(int, int)
TW_ACCESS(uint, uint)
TW_ACCESS(long, long)
TW_ACCESS(short, short)
TW_ACCESS(char, char)
TW_ACCESS(uchar, uchar)
TW_ACCESS(tw_f16, f16)
TW_ACCESS(tw_bf16, bf16)
// NaN wins in max and min. Division rounds down, by a positive constant; the rest has the divisor's sign.
#define TW_NUMBER(T) \
    static inline T tw_max_##T(T a, T b) { T m = a > b ? a : b; return a != a ? a : m; } \
    static inline T tw_min_##T(T a, T b) { T m = a < b ? a : b; return a != a ? a : m; }
#define TW_WHOLE(T) \
    TW_NUMBER(T) \
    static inline T tw_floordiv_##T(T a, T b) { T q = a / b; return q - (T)(a - q * b < 0); } \
    static inline T tw_mod_##T(T a, T b) { T r = a % b; return r < 0 ? r + b : r; } \
    TW_DEVICE T tw_idiv(T a, T b) { \
        return b == 0 ? 0 : b == -1 ? (T)(0ul - (ulong)a) : a / b - (T)(a % b != 0 && (a < 0) != (b < 0)); \
    } \
    TW_DEVICE T tw_imod(T a, T b) { \
        T r = b == 0 || b == -1 ? 0 : a % b; \
        return r != 0 && (r < 0) != (b < 0) ? r + b : r; \
    } \
    TW_DEVICE T tw_abs(T x) { return x < 0 ? -x : x; }
#define TW_REAL(T) \
    TW_NUMBER(T) \
    TW_DEVICE T tw_sqrt(T x) { return sqrt(x); } \
    TW_DEVICE T tw_rsqrt(T x) { return 1 / sqrt(x); } \
    TW_DEVICE T tw_floor(T x) { return floor(x); } \
    TW_DEVICE T tw_abs(T x) { return fabs(x); } \
    TW_DEVICE T tw_exp(T x) { return exp(x); } \
    TW_DEVICE T tw_log(T x) { return log(x); } \
    TW_DEVICE T tw_tanh(T x) { return tanh(x); } \
    TW_DEVICE T tw_erf(T x) { return erf(x); } \
    TW_DEVICE T tw_sin(T x) { return sin(x); } \
    TW_DEVICE T tw_cos(T x) { return cos(x); } \
    TW_DEVICE T tw_log1p(T x) { return log1p(x); } \
    TW_DEVICE T tw_fmod(T x, T y) { return fmod(x, y); } \
    TW_DEVICE T tw_pow(T x, T y) { return pow(x, y); }
TW_WHOLE(int)
TW_WHOLE(long)
TW_REAL(float)
TW_DEVICE float tw_exp_approx(float x) { return exp(x); }
TW_DEVICE float tw_truncate_tf32(float x) { return as_float(as_uint(x) & 0xffffe000u); }
TW_DEVICE float tw_round_tf32(float x) { return as_float(x != x ? 0x7fffe000u : (as_uint(x) + 0x1000u) & 0xffffe000u); }
// Four signed bytes by four; bytes of four words brought into that order.
#ifdef __opencl_c_integer_dot_product_input_4x8bit_packed
#define tw_dp4a(a, b, sum) ((sum) + dot_4x8packed_ss_int(as_uint(a), as_uint(b)))
#else
static inline int tw_sum4(int4 d) { return d.x + d.y + d.z + d.w; }
#define tw_dp4a(a, b, sum) ((sum) + tw_sum4(convert_int4(as_char4(a)) * convert_int4(as_char4(b))))
#endif
#define tw_transpose_bytes(w) vstore4(as_int4(as_char16(vload4(0, w)).s048c159d26ae37bf), 0, w)
// Sixteen bits, to nearest even; vload_half and vstore_half need no extension.
TW_DEVICE float tw_to_float(tw_f16 h) { return vload_half(0, (const half *)&h.bits); }
TW_DEVICE float tw_to_float(tw_bf16 h) { return as_float((uint)h.bits << 16); }
static inline tw_f16 tw_to_f16(float x) { tw_f16 h; vstore_half_rte(x, 0, (half *)&h.bits); return h; }
static inline tw_bf16 tw_to_bf16(float x) {
    return (tw_bf16){ x != x ? 0x7fff : (ushort)((as_uint(x) + 0x7fffu + (as_uint(x) >> 16 & 1u)) >> 16) };
}
#define tw_sync() barrier(CLK_LOCAL_MEM_FENCE)
// The value of the thread whose number differs by some bits: through local memory, which every device has.
#define tw_exchange(v, mask) tw_exchange_(tw_lanes, v, mask)
#define TW_EXCHANGE(T) \
    TW_DEVICE T tw_exchange_(__local ulong *lanes, T v, int mask) { \
        __local T *const s = (__local T *)lanes; \
        const int t = (int)get_local_id(0); \
        s[t] = v; \
        tw_sync(); \
        v = s[t ^ mask]; \
        tw_sync(); \
        return v; \
    }
TW_EXCHANGE(float)
TW_EXCHANGE(int)
TW_EXCHANGE(long)
#ifdef cl_khr_fp64
TW_ACCESS(double, double)
TW_REAL(double)
TW_EXCHANGE(double)
// Toward zero, and odd where not exact: what rounds it further then rounds the double once.
TW_DEVICE float tw_to_odd(double x) { float f = convert_float_rtz(x); return f == x ? f : as_float(as_uint(f) | 1u); }
#endif

// What both sides share: packs, whole numbers, comparisons. NaN wins in max and min; numbers win in max_number.
namespace tw {
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
template <class T, int N> struct alignas(sizeof(T) * N) pack { T v[N]; };
TW_DEVICE int imin(int a, int b) { return a < b ? a : b; }
TW_DEVICE long imin(long a, long b) { return a < b ? a : b; }
TW_DEVICE int imax(int a, int b) { return a > b ? a : b; }
TW_DEVICE long imax(long a, long b) { return a > b ? a : b; }
TW_DEVICE int ceildiv(int a, int b) { return (a + b - 1) / b; }
TW_DEVICE long ceildiv(long a, long b) { return (a + b - 1) / b; }
template <class T> TW_DEVICE T max(T a, T b) { T m = a > b ? a : b; return a != a ? a : m; }
template <class T> TW_DEVICE T min(T a, T b) { T m = a < b ? a : b; return a != a ? a : m; }
TW_DEVICE int abs(int x) { return x < 0 ? (int)(0u - (u32)x) : x; }
TW_DEVICE long abs(long x) { return x < 0 ? (long)(0ul - (unsigned long)x) : x; }
// Whole-number division that rounds down, by a positive constant; the rest has the divisor's sign.
template <class T> TW_DEVICE T floordiv(T a, T b) { T q = a / b; return q - (T)(a - q * b < 0); }
template <class T> TW_DEVICE T mod(T a, T b) { T r = a % b; return r < 0 ? r + b : r; }
// By any number: 0 where the divisor is 0.
template <class T> TW_DEVICE T idiv(T a, T b) {
    if (b == 0) return 0;
    if (b == -1) return (T)(0ul - (unsigned long)a);
    T q = a / b;
    return q - (T)(a % b != 0 && (a < 0) != (b < 0));
}
template <class T> TW_DEVICE T imod(T a, T b) {
    if (b == 0 || b == -1) return 0;
    T r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
}  // namespace tw

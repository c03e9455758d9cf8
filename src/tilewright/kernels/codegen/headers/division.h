// Whole-number division by any number, rounded down, and its rest: 0 where the divisor is 0, as in NumPy. Processors trap
// there, and where the quotient is one more than the largest number. fmod: the rest of reals, exact, signed as the dividend.
namespace tw {
template <class V> TW_INLINE V idiv(V a, V b) {
    if constexpr (scalar_<V>::value) {
        if (b == 0) return 0;
        if (b == -1) return (V)(0ul - (unsigned long)a);
        V q = a / b;
        return q - (V)(a % b != 0 && (a < 0) != (b < 0));
    } else {
        typedef vec<elem<V>, lanes<V>> I;
        V d = (b == V{}) | (b == V{} - 1) ? V{} + 1 : b;
        V q = a / d, r = a - q * d;
        q += (I)((r != V{}) & ((a < V{}) ^ (d < V{})));
        q = b == V{} - 1 ? V{} - a : q;
        return b == V{} ? V{} : q;
    }
}
template <class V> TW_INLINE V imod(V a, V b) {
    if constexpr (scalar_<V>::value) {
        if (b == 0 || b == -1) return 0;
        V r = a % b;
        return r + (V)(r != 0 && (r < 0) != (b < 0)) * b;
    } else {
        V d = (b == V{}) | (b == V{} - 1) ? V{} + 1 : b;
        V r = a % d;
        return (r != V{}) & ((r < V{}) ^ (d < V{})) ? r + d : r;
    }
}
TW_INLINE float fmod(float x, float y) { return __builtin_fmodf(x, y); }
TW_INLINE double fmod(double x, double y) { return __builtin_fmod(x, y); }
template <class V> TW_NOINLINE V fmod(V x, V y) {
    V r;
    for (int l = 0; l < lanes<V>; l++) r[l] = fmod((elem<V>)x[l], (elem<V>)y[l]);
    return r;
}
}  // namespace tw

// Vectors of neighbours: S elements side by side in each of lanes<V> places, taken apart into S vectors, and put together
// again. Where Ordered, lane l of each is of place l; else S elements, a power of 2, fit 16 bytes, and the places are in an
// order that takes fewer instructions, the same one for all vectors of one S and size of element.
namespace tw {
template <class V, bool Ordered> constexpr int block_ =
    Ordered || 16 / (int)sizeof(elem<V>) >= lanes<V> ? lanes<V> : 16 / (int)sizeof(elem<V>);
#if TW_HAS(__builtin_shufflevector)
// Lane i of every second element of two vectors, and of their elements in turn, by blocks of B lanes of L.
constexpr int unzip_(int i, int B, int L) { return i / B * B + i % B * 2 % B + i % B * 2 / B * L; }
constexpr int zip_(int i, int B, int L) { return i / B * B + i % B / 2 + i % 2 * L; }
template <int B, class V, int... I> TW_INLINE void unzip(V &a, V &b, list_<int, I...>) {
    constexpr int L = lanes<V>;
    V even = __builtin_shufflevector(a, b, unzip_(I, B, L)...), odd = __builtin_shufflevector(a, b, unzip_(I, B, L) + 1 ...);
    a = even; b = odd;
}
template <int B, class V, int... I> TW_INLINE void zip(V &a, V &b, list_<int, I...>) {
    constexpr int L = lanes<V>;
    V low = __builtin_shufflevector(a, b, zip_(I, B, L)...), high = __builtin_shufflevector(a, b, zip_(I, B, L) + B / 2 ...);
    a = low; b = high;
}
// Of three vectors in turn: the lanes of one component lie at distinct lanes, so they are blended, then permuted once.
constexpr int third_(int m, int k, int L, int v) { return (v * L + m - k + 3 * L) % 3 == 0 ? v : third_(m, k, L, v + 1); }
template <int K, class V, int... I> TW_INLINE V third(V a, V b, V c, list_<int, I...>) {
    constexpr int L = lanes<V>;
    V t = __builtin_shufflevector(a, b, (third_(I, K, L, 0) == 1 ? I + L : I)...);
    t = __builtin_shufflevector(t, c, (third_(I, K, L, 0) == 2 ? I + L : I)...);
    return __builtin_shufflevector(t, t, (3 * I + K) % L ...);
}
// The place whose component k goes to lane m, and which vector of three that is a lane of.
constexpr int placed_(int m, int k, int L) { return (third_(m, k, L, 0) * L + m - k) / 3; }
template <int K, class V, int... I> TW_INLINE V spread(V v, list_<int, I...>) {
    return __builtin_shufflevector(v, v, placed_(I, K, lanes<V>)...);
}
template <int J, class V, int... I> TW_INLINE V blended(V a, V b, V c, list_<int, I...>) {
    constexpr int L = lanes<V>;
    V t = __builtin_shufflevector(a, b, ((J * L + I) % 3 == 1 ? I + L : I)...);
    return __builtin_shufflevector(t, c, ((J * L + I) % 3 == 2 ? I + L : I)...);
}
template <class V> TW_INLINE void thirds(V &a, V &b, V &c) {
    count_<lanes<V>> all;
    V x = third<0>(a, b, c, all), y = third<1>(a, b, c, all), z = third<2>(a, b, c, all);
    a = x; b = y; c = z;
}
template <class V> TW_INLINE void unthirds(V &a, V &b, V &c) {
    count_<lanes<V>> all;
    V x = spread<0>(a, all), y = spread<1>(b, all), z = spread<2>(c, all);
    a = blended<0>(x, y, z, all); b = blended<1>(x, y, z, all); c = blended<2>(x, y, z, all);
}
template <bool Ordered, int S, class V> TW_INLINE void apart(V (&v)[S]) {
    if constexpr (S == 3) thirds(v[0], v[1], v[2]);
    else {
        static_assert(S % 2 == 0, "a power of 2, or three times one");
        V even[S / 2], odd[S / 2];
        for (int j = 0; j < S / 2; j++) {
            even[j] = v[2 * j]; odd[j] = v[2 * j + 1];
            unzip<block_<V, Ordered>>(even[j], odd[j], count_<lanes<V>>());
        }
        if constexpr (S > 2) { apart<Ordered>(even); apart<Ordered>(odd); }
        for (int j = 0; j < S / 2; j++) { v[2 * j] = even[j]; v[2 * j + 1] = odd[j]; }
    }
}
template <bool Ordered, int S, class V> TW_INLINE void together(V (&v)[S]) {
    if constexpr (S == 3) unthirds(v[0], v[1], v[2]);
    else {
        V even[S / 2], odd[S / 2];
        for (int j = 0; j < S / 2; j++) { even[j] = v[2 * j]; odd[j] = v[2 * j + 1]; }
        if constexpr (S > 2) { together<Ordered>(even); together<Ordered>(odd); }
        for (int j = 0; j < S / 2; j++) {
            zip<block_<V, Ordered>>(even[j], odd[j], count_<lanes<V>>());
            v[2 * j] = even[j]; v[2 * j + 1] = odd[j];
        }
    }
}
// The lanes of v from D on.
template <int D, class V, int... I> TW_INLINE V from(V v, list_<int, I...>) {
    return __builtin_shufflevector(v, v, (I + D) % lanes<V> ...);
}
// In each group of as many lanes as there are P, the lanes P of that group.
template <int... P, class V, int... I> TW_INLINE V regrouped_(V v, list_<int, I...>) {
    constexpr int p[] = {P...}, n = sizeof...(P);
    return __builtin_shufflevector(v, v, (I / n * n + p[I % n])...);
}
template <int... P, class V> TW_INLINE V regrouped(V v) { return regrouped_<P...>(v, count_<lanes<V>>()); }
#else
template <int... P, class V> TW_INLINE V regrouped(V v) {
    constexpr int p[] = {P...}, n = sizeof...(P);
    V r = v;
    for (int i = 0; i < lanes<V>; i++) r[i] = v[i / n * n + p[i % n]];
    return r;
}
template <bool Ordered, int S, class V> TW_INLINE void apart(V (&v)[S]) {
    V r[S];
    for (int k = 0; k < S; k++)
        for (int l = 0; l < lanes<V>; l++) r[k][l] = v[(l * S + k) / lanes<V>][(l * S + k) % lanes<V>];
    for (int k = 0; k < S; k++) v[k] = r[k];
}
template <bool Ordered, int S, class V> TW_INLINE void together(V (&v)[S]) {
    V r[S];
    for (int k = 0; k < S; k++)
        for (int l = 0; l < lanes<V>; l++) r[(l * S + k) / lanes<V>][(l * S + k) % lanes<V>] = v[k][l];
    for (int k = 0; k < S; k++) v[k] = r[k];
}
#endif
// From memory: all places, or the first n. Of the last place the Spare last elements are not touched.
template <bool Ordered, int Spare, int S, class V, class T> TW_INLINE void load_apart(V (&v)[S], const T *p) {
    constexpr int L = lanes<V>;
    for (int j = 0; j < S; j++) v[j] = load<V>(p + j * L - (j == S - 1 ? Spare : 0));
#if TW_HAS(__builtin_shufflevector)
    if constexpr (Spare > 0) v[S - 1] = from<Spare>(v[S - 1], count_<L>());
#else
    if constexpr (Spare > 0) v[S - 1] = load_n<V>(p + (S - 1) * L, L - Spare);
#endif
    apart<Ordered>(v);
}
template <bool Ordered, int Spare, int S, class V, class T> TW_INLINE void load_apart(V (&v)[S], const T *p, long n) {
    for (int j = 0; j < S; j++) v[j] = load_n<V>(p + j * lanes<V>, n * S - Spare - j * lanes<V>);
    apart<Ordered>(v);
}
}  // namespace tw

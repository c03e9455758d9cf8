// Kernels of the measuring child's own that look for mistakes where a result lies (check_kernels.py).
// Each sets a word to 1 where something may be wrong.

// `places`: where an output's elements are that bounds are known of; null where they are all of them, in order.
// `table`: values of the bit patterns of a type of one or two bytes. A low bound that is NaN asks for NaN.
template <class T> struct tw_check_plain { TW_DEVICE T get(T x, const float *) { return x; } };
template <class T> struct tw_check_coded { TW_DEVICE float get(T x, const float *table) { return table[x]; } };

template <class C, class T, class V>
TW_DEVICE void tw_check_all(const T *out, const V *low, const V *high, const long long *places, long long n,
                            const float *table, unsigned *wrong) {
    const long long step = (long long)gridDim.x * TW_THREADS;
    for (long long i = (long long)blockIdx.x * TW_THREADS + threadIdx.x; i < n; i += step) {
        const V x = C::get(out[places ? places[i] : i], table), a = low[i], b = high[i];
        if (!(a != a ? x != x : x >= a && x <= b)) *wrong = 1;
    }
}

// Sums along an axis of `length` elements, `inner` apart, with whole weights. They are exact, in any order, where
// elements are whole numbers and the sum of all sizes is far below 2^53; anything else is left to the host.
// `bits`: larger elements than 2^bits may have been rounded, by half a unit of their last place.
template <class C, class T>
TW_DEVICE void tw_project_all(const T *out, const double *weights, const double *wanted, const double *rest,
                              long long length, long long inner, int bits, const float *table, unsigned *wrong,
                              double *sums) {
    const double largest = (double)(1ll << bits);
    const long long row = blockIdx.x, first = row / inner * length * inner + row % inner;
    double sum = 0.0, size = 0.0, allowed = 0.0;
    bool whole = true;
    for (long long k = threadIdx.x; k < length; k += TW_THREADS) {
        const long long at = first + k * inner;
        const double x = (double)C::get(out[at], table), more = rest ? rest[at] : 0.0, w = weights[k];
        const double big = x < 0.0 ? -x : x, less = more < 0.0 ? -more : more, by = w < 0.0 ? -w : w;
        whole = whole && big < 4503599627370496.0 && less < 4503599627370496.0 && (double)(long long)x == x &&
                (double)(long long)more == more;
        if (!whole) break;
        sum += (x - more) * w;
        size += (big + less) * by;
        union { double value; unsigned long long word; } unit;
        unit.value = big;
        unit.word = ((unit.word >> 52) - bits) << 52;
        if (big > largest) allowed += unit.value * by;
    }
    sums[threadIdx.x] = sum;
    sums[TW_THREADS + threadIdx.x] = size;
    sums[2 * TW_THREADS + threadIdx.x] = allowed;
    if (!whole) *wrong = 1;
    tw::sync();
    if (threadIdx.x != 0) return;
    for (int t = 1; t < TW_THREADS; t++) {
        sum += sums[t];
        size += sums[TW_THREADS + t];
        allowed += sums[2 * TW_THREADS + t];
    }
    const double apart = sum - wanted[row];
    if (!(size < 4503599627370496.0 && (apart < 0.0 ? -apart : apart) <= allowed)) *wrong = 1;
}

// The two kernels of a format: elements T, of values V, which C gives.
#define TW_CHECKS(NAME, T, V, C)                                                                                       \
    TW_KERNEL(TW_THREADS, 1) void tw_check_##NAME(const T *out, const V *low, const V *high, const long long *places,  \
                                                  long long n, const float *table, unsigned *wrong) {                  \
        tw_check_all<C<T>>(out, low, high, places, n, table, wrong);                                                   \
    }                                                                                                                  \
    TW_KERNEL(TW_THREADS, 1) void tw_project_##NAME(const T *out, const double *weights, const double *wanted,         \
                                                    const double *rest, long long length, long long inner, int bits,   \
                                                    const float *table, unsigned *wrong) {                             \
        TW_SHARED(shared);                                                                                             \
        tw_project_all<C<T>>(out, weights, wanted, rest, length, inner, bits, table, wrong, (double *)shared);         \
    }
TW_CHECKS(u8, unsigned char, float, tw_check_coded)
TW_CHECKS(u16, unsigned short, float, tw_check_coded)
TW_CHECKS(f32, float, float, tw_check_plain)
TW_CHECKS(f64, double, double, tw_check_plain)
TW_CHECKS(i32, int, int, tw_check_plain)
TW_CHECKS(i64, long long, long long, tw_check_plain)

// Bytes are compared in words as far as they are aligned.
TW_KERNEL(TW_THREADS, 1) void tw_check_filled(const unsigned char *at, long long n, int byte, unsigned *wrong) {
    const long long step = (long long)gridDim.x * TW_THREADS, first = (long long)blockIdx.x * TW_THREADS + threadIdx.x;
    const long long before = -(unsigned long long)at & 7, head = before < n ? before : n, words = (n - head) / 8;
    const unsigned long long filled = 0x0101010101010101ull * (unsigned)byte;
    for (long long i = first; i < words; i += step)
        if (((const unsigned long long *)(at + head))[i] != filled) *wrong = 1;
    if (first < head && at[first] != byte) *wrong = 1;
    if (first < n - head - 8 * words && at[head + 8 * words + first] != byte) *wrong = 1;
}
TW_KERNEL(TW_THREADS, 1) void tw_check_same(const unsigned char *a, const unsigned char *b, long long n,
                                           unsigned *wrong) {
    const long long step = (long long)gridDim.x * TW_THREADS, first = (long long)blockIdx.x * TW_THREADS + threadIdx.x;
    long long done = 0;
    if ((((unsigned long long)a | (unsigned long long)b) & 7) == 0) {
        done = n / 8 * 8;
        for (long long i = first; i < n / 8; i += step)
            if (((const unsigned long long *)a)[i] != ((const unsigned long long *)b)[i]) *wrong = 1;
    }
    for (long long i = done + first; i < n; i += step)
        if (a[i] != b[i]) *wrong = 1;
}
// Each word times an odd number of its own, summed: a word that changes changes the sum.
TW_KERNEL(TW_THREADS, 1) void tw_checksum(const unsigned long long *at, long long n, unsigned long long *parts) {
    TW_SHARED(shared);
    unsigned long long *sums = (unsigned long long *)shared, sum = 0;
    const long long step = (long long)gridDim.x * TW_THREADS;
    for (long long i = (long long)blockIdx.x * TW_THREADS + threadIdx.x; i < n; i += step)
        sum += at[i] * (2 * (unsigned long long)i + 1);
    sums[threadIdx.x] = sum;
    tw::sync();
    if (threadIdx.x != 0) return;
    for (int t = 1; t < TW_THREADS; t++) sum += sums[t];
    parts[blockIdx.x] = sum;
}

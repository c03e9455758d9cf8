// cuda_simt version 5, cuda:sm_80
#line 1 "kernel"
namespace tw_golden_ {
TW_DEVICE float finish(const float *x2, float v, int n) {
    const float s0 = v;
    const float s1 = (s0 + tw::load_global<float>(x2 + (((n)))));
    const float t2 = s1;
    return (float)(((t2 * 0.5f) * (1.0f + tw::erf(float((t2 * 0x1.6a09e65dc27dfp-1f))))));
}
TW_DEVICE void store(const float *x2, float *out, const float (&v)[4], int m, int n) {
    if (m >= 18) return;
    TW_UNROLL
    for (int i = 0; i < 4; i += 1) {
        if (n + i >= 33) continue;
        tw::store_global(out + ((m) * 33 + ((n + i))), finish(x2, v[i], n + i));
    }
}
TW_DEVICE void fetch_a(const float *x0, float (&r)[2][1], int m0, int k0, int tid) {
    TW_UNROLL
    for (int i = 0; i < 2; i++) {
        const int e = tid + i * 64;
        const int mn = m0 + (e / 8);
        const int k = k0 + (e % 8);
        const float p = mn < 18 && k < 7 ? tw::load_global<float>(x0 + ((mn) * 7 + (k))) : (float)0;
        r[i][0] = (float)(p);
    }
}
TW_DEVICE void stash_a(float *s, const float (&r)[2][1], int tid) {
    TW_UNROLL
    for (int i = 0; i < 2; i++) {
        const int e = tid + i * 64;
        float *to = s + ((e % 8)) * 20 + ((e / 8));
        TW_UNROLL
        for (int j = 0; j < 1; j++) tw::store_shared(to + j * 20, r[i][j]);
    }
}
TW_DEVICE void fetch_b(const float *x1, float (&r)[2][1], int n0, int k0, int tid) {
    TW_UNROLL
    for (int i = 0; i < 2; i++) {
        const int e = tid + i * 64;
        const int mn = n0 + (e / 8);
        const int k = k0 + (e % 8);
        const float p = mn < 33 && k < 7 ? tw::load_global<float>(x1 + ((mn) * 7 + (k))) : (float)0;
        r[i][0] = (float)(p);
    }
}
TW_DEVICE void stash_b(float *s, const float (&r)[2][1], int tid) {
    TW_UNROLL
    for (int i = 0; i < 2; i++) {
        const int e = tid + i * 64;
        float *to = s + ((e % 8)) * 20 + ((e / 8));
        TW_UNROLL
        for (int j = 0; j < 1; j++) tw::store_shared(to + j * 20, r[i][j]);
    }
}
TW_DEVICE void read_a(const float *s, float (&f)[1][1], int k, int at) {
    TW_UNROLL
    for (int q = 0; q < 1; q++) {
        const tw::pack<float, 1> p = tw::load_shared<tw::pack<float, 1>>(s + k * 20 + q * 16 + at * 1);
        TW_UNROLL
        for (int j = 0; j < 1; j++) f[q][j] = p.v[j];
    }
}
TW_DEVICE void read_b(const float *s, float (&f)[1][4], int k, int at) {
    TW_UNROLL
    for (int q = 0; q < 1; q++) {
        const tw::pack<float, 4> p = tw::load_shared<tw::pack<float, 4>>(s + k * 20 + q * 16 + at * 4);
        TW_UNROLL
        for (int j = 0; j < 4; j++) f[q][j] = p.v[j];
    }
}
TW_DEVICE void step(const float (&a)[1][1], const float (&b)[1][4], float (&acc)[1][1][1][4]) {
    TW_UNROLL
    for (int q = 0; q < 1; q++)
        TW_UNROLL
        for (int i = 0; i < 1; i++)
            TW_UNROLL
            for (int r = 0; r < 1; r++)
                TW_UNROLL
                for (int j = 0; j < 4; j++)
                    acc[q][i][r][j] = (acc[q][i][r][j] + (a[q][i] * b[r][j]));
}
TW_DEVICE void compute(const float *sa, const float *sb, float (&acc)[1][1][1][4], int ty, int tx) {
    float a0[1][1], a1[1][1];
    float b0[1][4], b1[1][4];
    read_a(sa, a0, 0, ty); read_b(sb, b0, 0, tx);
    TW_UNROLL
    for (int k0 = 0; k0 < 8; k0 += 8) {
        TW_UNROLL
        for (int u = 0; u < 8; u += 2) {
            const int k = k0 + u;
            read_a(sa, a1, k + 1, ty); read_b(sb, b1, k + 1, tx);
            step(a0, b0, acc);
            if (u + 2 < 8 || k0 + 8 < 8) { read_a(sa, a0, k + 2, ty); read_b(sb, b0, k + 2, tx); }
            step(a1, b1, acc);
        }
    }
}
}
TW_KERNEL(64, 2) void tw_golden(const float *__restrict__ x0, const float *__restrict__ x1, const float *__restrict__ x2, float *__restrict__ out, unsigned char *__restrict__ ws, int GROUP) {
    using namespace tw_golden_;
    TW_SHARED(smem);
    (void)ws; (void)out; (void)GROUP;
    int tile = (int)blockIdx.x;
    const int first = tile / (GROUP * 3) * GROUP;
    const int rows = 2 - first < GROUP ? 2 - first : GROUP;
    const int inside = tile - first * 3;
    const int tile_m = first + inside % rows, tile_n = inside / rows;
    const int tid = (int)threadIdx.x;
    const int ty = tid / 4;
    const int tx = tid % 4;
    const int m0 = tile_m * 16;
    const int n0 = tile_n * 16;
    float *const sa = (float *)(smem + 0);
    float *const sb = (float *)(smem + 640);
    float acc[1][1][1][4];
    TW_UNROLL
    for (int q = 0; q < 1; q++)
        TW_UNROLL
        for (int i = 0; i < 1; i++)
            TW_UNROLL
            for (int r = 0; r < 1; r++)
                TW_UNROLL
                for (int j = 0; j < 4; j++)
                    acc[q][i][r][j] = 0.0f;
    for (int t = 0; t < 1; t++) {
        float ra[2][1];
        float rb[2][1];
        fetch_a(x0, ra, m0, t * 8, tid);
        fetch_b(x1, rb, n0, t * 8, tid);
        tw::sync();
        stash_a(sa, ra, tid);
        stash_b(sb, rb, tid);
        tw::sync();
        compute(sa, sb, acc, ty, tx);
    }
    TW_UNROLL
    for (int q = 0; q < 1; q++)
        TW_UNROLL
        for (int i = 0; i < 1; i++) {
            const int m = m0 + q * 16 + ty * 1 + i;
            TW_UNROLL
            for (int r = 0; r < 1; r++) {
                const int n = n0 + r * 16 + tx * 4;
                store(x2, out, acc[q][i][r], m, n);
            }
        }
}

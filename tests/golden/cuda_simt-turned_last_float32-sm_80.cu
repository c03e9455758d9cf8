// cuda_simt version 2, cuda:sm_80
#line 1 "kernel"
namespace tw_golden_ {
TW_DEVICE float finish(float v) {
    return (float)(v);
}
TW_DEVICE void store(float *out, const float (&v)[1], int batch, int m, int n) {
    if (m >= 24) return;
    if (n >= 5) return;
    tw::store_global(out + ((int(unsigned(batch) % 2u)) * 5 + (int(unsigned(batch) / 2u)) * 30 + (int(unsigned(m) % 3u)) * 10 + (int(unsigned(m) / 3u % 4u)) * 60 + (int(unsigned(m) / 12u)) * 240 + ((n))), finish(v[0]));
}
TW_DEVICE void fetch_a(const float *x0, float (&r)[1][4], int batch, int m0, int k0, int tid) {
    TW_UNROLL
    for (int i = 0; i < 1; i++) {
        const int e = tid + i * 256;
        const int mn = m0 + ((e / 2) % 16);
        const int k = k0 + ((e / 32) * 2 + (e % 2)) * 4;
        const tw::pack<float, 4> p = e < 128 && mn < 24 && ((((((int(unsigned(mn) / 3u % 4u) + int(unsigned((int(unsigned(batch) / 2u) + 1)) / 2u)) - int(unsigned(k) / 16u)) >= 0) && (((int(unsigned(mn) / 3u % 4u) + int(unsigned((int(unsigned(batch) / 2u) + 1)) / 2u)) - int(unsigned(k) / 16u)) < 4)) && ((((int(unsigned(mn) % 3u) + int(unsigned((int(unsigned(batch) % 2u) + 1)) / 2u)) - int(unsigned(k) / 8u % 2u)) >= 0) && (((int(unsigned(mn) % 3u) + int(unsigned((int(unsigned(batch) % 2u) + 1)) / 2u)) - int(unsigned(k) / 8u % 2u)) < 3)))) ? tw::load_global<tw::pack<float, 4>>(x0 + ((mn) * 8 + (int(unsigned(k) % 8u)) + (int(unsigned(k) / 8u % 2u)) * -8 + (int(unsigned(k) / 16u)) * -24 + (int(unsigned((int(unsigned(batch) / 2u) + 1)) / 2u)) * 24 + (int(unsigned((int(unsigned(batch) % 2u) + 1)) / 2u)) * 8)) : tw::pack<float, 4>{};
        TW_UNROLL
        for (int j = 0; j < 4; j++) r[i][j] = (float)(p.v[j]);
    }
}
TW_DEVICE void stash_a(float *s, const float (&r)[1][4], int tid) {
    TW_UNROLL
    for (int i = 0; i < 1; i++) {
        const int e = tid + i * 256;
        if (e >= 128) continue;
        float *to = s + (((e / 32) * 2 + (e % 2)) * 4) * 20 + (((e / 2) % 16));
        TW_UNROLL
        for (int j = 0; j < 4; j++) tw::store_shared(to + j * 20, r[i][j]);
    }
}
TW_DEVICE void fetch_b(const float *x1, float (&r)[2][1], int batch, int n0, int k0, int tid) {
    TW_UNROLL
    for (int i = 0; i < 2; i++) {
        const int e = tid + i * 256;
        const int mn = n0 + (e % 16);
        const int k = k0 + (e / 16);
        const float p = mn < 5 ? tw::load_global<float>(x1 + ((mn) + (int(unsigned(k) % 8u)) * 5 + (int(unsigned(k) / 8u % 2u)) * 80 + (int(unsigned(k) / 16u)) * 320 + (int(unsigned((int(unsigned(batch) / 2u) + 1)) % 2u)) * 160 + (int(unsigned((int(unsigned(batch) % 2u) + 1)) % 2u)) * 40)) : (float)0;
        r[i][0] = (float)(p);
    }
}
TW_DEVICE void stash_b(float *s, const float (&r)[2][1], int tid) {
    TW_UNROLL
    for (int i = 0; i < 2; i++) {
        const int e = tid + i * 256;
        float *to = s + ((e / 16)) * 16 + ((e % 16));
        TW_UNROLL
        for (int j = 0; j < 1; j += 1) {
            tw::pack<float, 1> p;
            TW_UNROLL
            for (int h = 0; h < 1; h++) p.v[h] = r[i][j + h];
            tw::store_shared(to + j, p);
        }
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
TW_DEVICE void read_b(const float *s, float (&f)[1][1], int k, int at) {
    TW_UNROLL
    for (int q = 0; q < 1; q++) {
        const tw::pack<float, 1> p = tw::load_shared<tw::pack<float, 1>>(s + k * 16 + q * 16 + at * 1);
        TW_UNROLL
        for (int j = 0; j < 1; j++) f[q][j] = p.v[j];
    }
}
TW_DEVICE void step(const float (&a)[1][1], const float (&b)[1][1], float (&acc)[1][1][1][1]) {
    TW_UNROLL
    for (int q = 0; q < 1; q++)
        TW_UNROLL
        for (int i = 0; i < 1; i++)
            TW_UNROLL
            for (int r = 0; r < 1; r++)
                TW_UNROLL
                for (int j = 0; j < 1; j++)
                    acc[q][i][r][j] = (acc[q][i][r][j] + (a[q][i] * b[r][j]));
}
TW_DEVICE void compute(const float *sa, const float *sb, float (&acc)[1][1][1][1], int ty, int tx) {
    float a0[1][1], a1[1][1];
    float b0[1][1], b1[1][1];
    read_a(sa, a0, 0, ty); read_b(sb, b0, 0, tx);
    TW_UNROLL
    for (int k0 = 0; k0 < 32; k0 += 32) {
        TW_UNROLL
        for (int u = 0; u < 32; u += 2) {
            const int k = k0 + u;
            read_a(sa, a1, k + 1, ty); read_b(sb, b1, k + 1, tx);
            step(a0, b0, acc);
            if (u + 2 < 32 || k0 + 32 < 32) { read_a(sa, a0, k + 2, ty); read_b(sb, b0, k + 2, tx); }
            step(a1, b1, acc);
        }
    }
}
}
TW_KERNEL(256, 2) void tw_golden(const float *__restrict__ x0, const float *__restrict__ x1, float *__restrict__ out, unsigned char *__restrict__ ws, int GROUP) {
    using namespace tw_golden_;
    TW_SHARED(smem);
    (void)ws; (void)out; (void)GROUP;
    int tile = (int)blockIdx.x;
    const int batch = int(unsigned(tile) / 2u);
    tile = int(unsigned(tile) % 2u);
    const int tile_m = tile;
    const int tile_n = 0;
    const int tid = (int)threadIdx.x;
    const int warp = tid / 32;
    const int lane = tid % 32;
    const int ty = warp / 2 * 4 + lane / 8;
    const int tx = warp % 2 * 8 + lane % 8;
    const int m0 = tile_m * 16;
    const int n0 = tile_n * 16;
    float *const sa = (float *)(smem + 0);
    float *const sb = (float *)(smem + 2560);
    float acc[1][1][1][1];
    TW_UNROLL
    for (int q = 0; q < 1; q++)
        TW_UNROLL
        for (int i = 0; i < 1; i++)
            TW_UNROLL
            for (int r = 0; r < 1; r++)
                TW_UNROLL
                for (int j = 0; j < 1; j++)
                    acc[q][i][r][j] = 0.0f;
    for (int t = 0; t < 1; t++) {
        float ra[1][4];
        float rb[2][1];
        fetch_a(x0, ra, batch, m0, t * 32, tid);
        fetch_b(x1, rb, batch, n0, t * 32, tid);
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
                const int n = n0 + r * 16 + tx * 1;
                store(out, acc[q][i][r], batch, m, n);
            }
        }
}

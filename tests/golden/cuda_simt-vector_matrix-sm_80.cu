// cuda_simt version 2, cuda:sm_80
#line 1 "kernel"
namespace tw_golden_ {
TW_DEVICE float finish(float v) {
    return (float)(v);
}
TW_DEVICE void store(float *out, const float (&v)[1], int n) {
    if (n >= 40) return;
    tw::store_global(out + (((n))), finish(v[0]));
}
TW_DEVICE void fetch_a(const float *x0, float (&r)[1][2], int m0, int k0, int tid) {
    TW_UNROLL
    for (int i = 0; i < 1; i++) {
        const int e = tid + i * 64;
        const int k = k0 + ((e / 4) * 4 + (e % 4)) * 2;
        const tw::pack<float, 2> p = e < 16 && k < 70 ? tw::load_global<tw::pack<float, 2>>(x0 + ((k))) : tw::pack<float, 2>{};
        TW_UNROLL
        for (int j = 0; j < 2; j++) r[i][j] = (float)(p.v[j]);
    }
}
TW_DEVICE void stash_a(float *s, const float (&r)[1][2], int tid) {
    TW_UNROLL
    for (int i = 0; i < 1; i++) {
        const int e = tid + i * 64;
        if (e >= 16) continue;
        float *to = s + (((e / 4) * 4 + (e % 4)) * 2) * 5 + (0);
        TW_UNROLL
        for (int j = 0; j < 2; j++) tw::store_shared(to + j * 5, r[i][j]);
    }
}
TW_DEVICE void fetch_b(const float *x1, float (&r)[8][4], int n0, int k0, int tid) {
    TW_UNROLL
    for (int i = 0; i < 8; i++) {
        const int e = tid + i * 64;
        const int mn = n0 + (e % 16) * 4;
        const int k = k0 + (e / 16);
        const tw::pack<float, 4> p = mn < 40 && k < 70 ? tw::load_global<tw::pack<float, 4>>(x1 + ((mn) + (k) * 40)) : tw::pack<float, 4>{};
        TW_UNROLL
        for (int j = 0; j < 4; j++) r[i][j] = (float)(p.v[j]);
    }
}
TW_DEVICE void stash_b(float *s, const float (&r)[8][4], int tid) {
    TW_UNROLL
    for (int i = 0; i < 8; i++) {
        const int e = tid + i * 64;
        float *to = s + ((e / 16)) * 64 + ((e % 16) * 4);
        TW_UNROLL
        for (int j = 0; j < 4; j += 4) {
            tw::pack<float, 4> p;
            TW_UNROLL
            for (int h = 0; h < 4; h++) p.v[h] = r[i][j + h];
            tw::store_shared(to + j, p);
        }
    }
}
TW_DEVICE void read_a(const float *s, float (&f)[1][1], int k, int at) {
    TW_UNROLL
    for (int q = 0; q < 1; q++) {
        const tw::pack<float, 1> p = tw::load_shared<tw::pack<float, 1>>(s + k * 5 + q * 1 + at * 1);
        TW_UNROLL
        for (int j = 0; j < 1; j++) f[q][j] = p.v[j];
    }
}
TW_DEVICE void read_b(const float *s, float (&f)[1][1], int k, int at) {
    TW_UNROLL
    for (int q = 0; q < 1; q++) {
        const tw::pack<float, 1> p = tw::load_shared<tw::pack<float, 1>>(s + k * 64 + q * 64 + at * 1);
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
TW_KERNEL(64, 2) void tw_golden(const float *__restrict__ x0, const float *__restrict__ x1, float *__restrict__ out, unsigned char *__restrict__ ws, int GROUP) {
    using namespace tw_golden_;
    TW_SHARED(smem);
    (void)ws; (void)out; (void)GROUP;
    int tile = (int)blockIdx.x;
    const int tile_n = tile;
    const int tile_m = 0;
    const int tid = (int)threadIdx.x;
    const int warp = tid / 32;
    const int lane = tid % 32;
    const int ty = 0;
    const int tx = warp * 32 + lane;
    const int m0 = tile_m * 1;
    const int n0 = tile_n * 64;
    float *const sa = (float *)(smem + 0);
    float *const sb = (float *)(smem + 1280);
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
    float ra[1][2];
    float rb[8][4];
    fetch_a(x0, ra, m0, 0, tid);
    fetch_b(x1, rb, n0, 0, tid);
    stash_a(sa, ra, tid);
    stash_b(sb, rb, tid);
    tw::sync();
    for (int t = 0; t < 3; t++) {
        const bool odd = t % 2 != 0;
        float *const now_a = odd ? sa + 160 : sa;
        float *const next_a = odd ? sa : sa + 160;
        float *const now_b = odd ? sb + 2048 : sb;
        float *const next_b = odd ? sb : sb + 2048;
        fetch_a(x0, ra, m0, (t + 1) * 32, tid);
        fetch_b(x1, rb, n0, (t + 1) * 32, tid);
        compute(now_a, now_b, acc, ty, tx);
        stash_a(next_a, ra, tid);
        stash_b(next_b, rb, tid);
        tw::sync();
    }
    TW_UNROLL
    for (int q = 0; q < 1; q++)
        TW_UNROLL
        for (int i = 0; i < 1; i++) {
            TW_UNROLL
            for (int r = 0; r < 1; r++) {
                const int n = n0 + r * 64 + tx * 1;
                store(out, acc[q][i][r], n);
            }
        }
}

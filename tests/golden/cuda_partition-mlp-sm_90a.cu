// cuda_partition version 10, cuda:sm_90a
#line 1 "kernel"
namespace tw_golden_ {
TW_DEVICE float finish(float v) {
    return (float)(v);
}
TW_DEVICE void store(float *out, const float (&v)[2], int m, int n) {
    if (m >= 20) return;
    TW_UNROLL
    for (int i = 0; i < 2; i += 1) {
        if (n + i >= 33) continue;
        tw::store_global(out + ((m) * 33 + ((n + i))), finish(v[i]));
    }
}
TW_DEVICE void fetch_a(const float *x0, float (&r)[2][1], int m0, int k0, int tid) {
    TW_UNROLL
    for (int i = 0; i < 2; i++) {
        const int e = tid + i * 256;
        const int mn = m0 + ((e / 8) % 16);
        const int k = k0 + ((e / 128) * 8 + (e % 8));
        const float p = mn < 20 && k < 17 ? tw::load_global<float>(x0 + ((mn) * 17 + (k))) : (float)0;
        r[i][0] = (float)(p);
    }
}
TW_DEVICE void stash_a(float *s, const float (&r)[2][1], int tid) {
    TW_UNROLL
    for (int i = 0; i < 2; i++) {
        const int e = tid + i * 256;
        float *to = s + (((e / 128) * 8 + (e % 8))) * 20 + (((e / 8) % 16));
        TW_UNROLL
        for (int j = 0; j < 1; j++) tw::store_shared(to + j * 20, r[i][j]);
    }
}
TW_DEVICE void fetch_b(const float *x1, float (&r)[4][1], int n0, int k0, int tid) {
    TW_UNROLL
    for (int i = 0; i < 4; i++) {
        const int e = tid + i * 256;
        const int mn = n0 + (e % 32);
        const int k = k0 + (e / 32);
        const float p = mn < 33 && k < 17 ? tw::load_global<float>(x1 + ((mn) + (k) * 33)) : (float)0;
        r[i][0] = (float)(p);
    }
}
TW_DEVICE void stash_b(float *s, const float (&r)[4][1], int tid) {
    TW_UNROLL
    for (int i = 0; i < 4; i++) {
        const int e = tid + i * 256;
        float *to = s + ((e / 32)) * 32 + ((e % 32));
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
TW_DEVICE void read_b(const float *s, float (&f)[1][2], int k, int at) {
    TW_UNROLL
    for (int q = 0; q < 1; q++) {
        const tw::pack<float, 2> p = tw::load_shared<tw::pack<float, 2>>(s + k * 32 + q * 32 + at * 2);
        TW_UNROLL
        for (int j = 0; j < 2; j++) f[q][j] = p.v[j];
    }
}
TW_DEVICE void step(const float (&a)[1][1], const float (&b)[1][2], float (&acc)[1][1][1][2]) {
    TW_UNROLL
    for (int q = 0; q < 1; q++)
        TW_UNROLL
        for (int i = 0; i < 1; i++)
            TW_UNROLL
            for (int r = 0; r < 1; r++)
                TW_UNROLL
                for (int j = 0; j < 2; j++)
                    acc[q][i][r][j] = (acc[q][i][r][j] + (a[q][i] * b[r][j]));
}
TW_DEVICE void compute(const float *sa, const float *sb, float (&acc)[1][1][1][2], int ty, int tx) {
    float a0[1][1], a1[1][1];
    float b0[1][2], b1[1][2];
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
    const int first = tile / (GROUP * 2) * GROUP;
    const int rows = 2 - first < GROUP ? 2 - first : GROUP;
    const int inside = tile - first * 2;
    const int tile_m = first + inside % rows, tile_n = inside / rows;
    const int tid = (int)threadIdx.x;
    const int warp = tid / 32;
    const int lane = tid % 32;
    const int ty = warp / 2 * 4 + lane / 8;
    const int tx = warp % 2 * 8 + lane % 8;
    const int m0 = tile_m * 16;
    const int n0 = tile_n * 32;
    float *const sa = (float *)(smem + 0);
    float *const sb = (float *)(smem + 2560);
    float acc[1][1][1][2];
    TW_UNROLL
    for (int q = 0; q < 1; q++)
        TW_UNROLL
        for (int i = 0; i < 1; i++)
            TW_UNROLL
            for (int r = 0; r < 1; r++)
                TW_UNROLL
                for (int j = 0; j < 2; j++)
                    acc[q][i][r][j] = 0.0f;
    for (int t = 0; t < 1; t++) {
        float ra[2][1];
        float rb[4][1];
        fetch_a(x0, ra, m0, t * 32, tid);
        fetch_b(x1, rb, n0, t * 32, tid);
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
                const int n = n0 + r * 32 + tx * 2;
                store(out, acc[q][i][r], m, n);
            }
        }
}
#line 1 "kernel"
namespace tw_golden_p1_ {
TW_DEVICE float finish(float v) {
    return (float)(v);
}
TW_DEVICE void store(float *out, const float (&v)[2], int m, int n) {
    if (m >= 20) return;
    TW_UNROLL
    for (int i = 0; i < 2; i += 1) {
        if (n + i >= 9) continue;
        tw::store_global(out + ((m) * 9 + ((n + i))), finish(v[i]));
    }
}
TW_DEVICE void fetch_a(const float *x0, const float *x2, float (&r)[2][1], int m0, int k0, int tid) {
    TW_UNROLL
    for (int i = 0; i < 2; i++) {
        const int e = tid + i * 256;
        const int mn = m0 + ((e / 8) % 16);
        const int k = k0 + ((e / 128) * 8 + (e % 8));
        r[i][0] = mn < 20 && k < 33 ? (float)(tw::max<float>((tw::load_global<float>(x2 + (((mn)) * 33 + ((k)))) + tw::load_global<float>(x0 + (((k))))), 0.0f)) : (float)0;
    }
}
TW_DEVICE void stash_a(float *s, const float (&r)[2][1], int tid) {
    TW_UNROLL
    for (int i = 0; i < 2; i++) {
        const int e = tid + i * 256;
        float *to = s + (((e / 128) * 8 + (e % 8))) * 20 + (((e / 8) % 16));
        TW_UNROLL
        for (int j = 0; j < 1; j++) tw::store_shared(to + j * 20, r[i][j]);
    }
}
TW_DEVICE void fetch_b(const float *x1, float (&r)[4][1], int n0, int k0, int tid) {
    TW_UNROLL
    for (int i = 0; i < 4; i++) {
        const int e = tid + i * 256;
        const int mn = n0 + (e % 32);
        const int k = k0 + (e / 32);
        const float p = mn < 9 && k < 33 ? tw::load_global<float>(x1 + ((mn) + (k) * 9)) : (float)0;
        r[i][0] = (float)(p);
    }
}
TW_DEVICE void stash_b(float *s, const float (&r)[4][1], int tid) {
    TW_UNROLL
    for (int i = 0; i < 4; i++) {
        const int e = tid + i * 256;
        float *to = s + ((e / 32)) * 32 + ((e % 32));
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
TW_DEVICE void read_b(const float *s, float (&f)[1][2], int k, int at) {
    TW_UNROLL
    for (int q = 0; q < 1; q++) {
        const tw::pack<float, 2> p = tw::load_shared<tw::pack<float, 2>>(s + k * 32 + q * 32 + at * 2);
        TW_UNROLL
        for (int j = 0; j < 2; j++) f[q][j] = p.v[j];
    }
}
TW_DEVICE void step(const float (&a)[1][1], const float (&b)[1][2], float (&acc)[1][1][1][2]) {
    TW_UNROLL
    for (int q = 0; q < 1; q++)
        TW_UNROLL
        for (int i = 0; i < 1; i++)
            TW_UNROLL
            for (int r = 0; r < 1; r++)
                TW_UNROLL
                for (int j = 0; j < 2; j++)
                    acc[q][i][r][j] = (acc[q][i][r][j] + (a[q][i] * b[r][j]));
}
TW_DEVICE void compute(const float *sa, const float *sb, float (&acc)[1][1][1][2], int ty, int tx) {
    float a0[1][1], a1[1][1];
    float b0[1][2], b1[1][2];
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
TW_KERNEL(256, 2) void tw_golden_p1(const float *__restrict__ x0, const float *__restrict__ x1, const float *__restrict__ x2, float *__restrict__ out, unsigned char *__restrict__ ws, int GROUP) {
    using namespace tw_golden_p1_;
    TW_SHARED(smem);
    (void)ws; (void)out; (void)GROUP;
    int tile = (int)blockIdx.x;
    const int tile_m = tile;
    const int tile_n = 0;
    const int tid = (int)threadIdx.x;
    const int warp = tid / 32;
    const int lane = tid % 32;
    const int ty = warp / 2 * 4 + lane / 8;
    const int tx = warp % 2 * 8 + lane % 8;
    const int m0 = tile_m * 16;
    const int n0 = tile_n * 32;
    float *const sa = (float *)(smem + 0);
    float *const sb = (float *)(smem + 5120);
    float acc[1][1][1][2];
    TW_UNROLL
    for (int q = 0; q < 1; q++)
        TW_UNROLL
        for (int i = 0; i < 1; i++)
            TW_UNROLL
            for (int r = 0; r < 1; r++)
                TW_UNROLL
                for (int j = 0; j < 2; j++)
                    acc[q][i][r][j] = 0.0f;
    float ra[2][1];
    float rb[4][1];
    fetch_a(x0, x2, ra, m0, 0, tid);
    fetch_b(x1, rb, n0, 0, tid);
    stash_a(sa, ra, tid);
    stash_b(sb, rb, tid);
    tw::sync();
    for (int t = 0; t < 2; t++) {
        const bool odd = t % 2 != 0;
        float *const now_a = odd ? sa + 640 : sa;
        float *const next_a = odd ? sa : sa + 640;
        float *const now_b = odd ? sb + 1024 : sb;
        float *const next_b = odd ? sb : sb + 1024;
        fetch_a(x0, x2, ra, m0, (t + 1) * 32, tid);
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
            const int m = m0 + q * 16 + ty * 1 + i;
            TW_UNROLL
            for (int r = 0; r < 1; r++) {
                const int n = n0 + r * 32 + tx * 2;
                store(out, acc[q][i][r], m, n);
            }
        }
}

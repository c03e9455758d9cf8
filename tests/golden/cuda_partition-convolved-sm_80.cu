// cuda_partition version 80, cuda:sm_80
#line 1 "kernel"
namespace tw_golden_ {
TW_DEVICE float finish(float v) {
    return (float)(v);
}
TW_DEVICE void store(float *out, const float (&v)[1], int m, int n) {
    if (m >= 108) return;
    if (n >= 5) return;
    tw::store_global(out + ((m) * 5 + ((n))), finish(v[0]));
}
TW_DEVICE void fetch_a(const float *x0, float (&r)[2][1], int m0, int k0, int tid) {
    TW_UNROLL
    for (int i = 0; i < 2; i++) {
        const int e = tid + i * 256;
        const int mn = m0 + (e % 16);
        const int k = k0 + (e / 16);
        const float p = mn < 108 && k < 27 ? tw::load_global<float>(x0 + ((int(unsigned(mn) % 12u)) + (int(unsigned(mn) / 12u)) * 14 + (int(unsigned(k) % 3u)) + (int(unsigned(k) / 3u % 3u)) * 14 + (int(unsigned(k) / 9u)) * 154)) : (float)0;
        r[i][0] = (float)(p);
    }
}
TW_DEVICE void stash_a(float *s, const float (&r)[2][1], int tid) {
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
TW_DEVICE void fetch_b(const float *x1, float (&r)[2][1], int n0, int k0, int tid) {
    TW_UNROLL
    for (int i = 0; i < 2; i++) {
        const int e = tid + i * 256;
        const int mn = n0 + ((e / 8) % 16);
        const int k = k0 + ((e / 128) * 8 + (e % 8));
        const float p = mn < 5 && k < 27 ? tw::load_global<float>(x1 + ((mn) * 27 + (k))) : (float)0;
        r[i][0] = (float)(p);
    }
}
TW_DEVICE void stash_b(float *s, const float (&r)[2][1], int tid) {
    TW_UNROLL
    for (int i = 0; i < 2; i++) {
        const int e = tid + i * 256;
        float *to = s + (((e / 128) * 8 + (e % 8))) * 20 + (((e / 8) % 16));
        TW_UNROLL
        for (int j = 0; j < 1; j++) tw::store_shared(to + j * 20, r[i][j]);
    }
}
TW_DEVICE void read_a(const float *s, float (&f)[1][1], int k, int at) {
    TW_UNROLL
    for (int q = 0; q < 1; q++) {
        const tw::pack<float, 1> p = tw::load_shared<tw::pack<float, 1>>(s + k * 16 + q * 16 + at * 1);
        TW_UNROLL
        for (int j = 0; j < 1; j++) f[q][j] = p.v[j];
    }
}
TW_DEVICE void read_b(const float *s, float (&f)[1][1], int k, int at) {
    TW_UNROLL
    for (int q = 0; q < 1; q++) {
        const tw::pack<float, 1> p = tw::load_shared<tw::pack<float, 1>>(s + k * 20 + q * 16 + at * 1);
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
    float *const sb = (float *)(smem + 2048);
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
        float ra[2][1];
        float rb[2][1];
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
                const int n = n0 + r * 16 + tx * 1;
                store(out, acc[q][i][r], m, n);
            }
        }
}
#line 1 "kernel"
TW_KERNEL(128, 1) void tw_golden_p1(const float *__restrict__ x0, float *__restrict__ out, unsigned char *__restrict__ ws) {
    (void)ws; (void)out;
    const int lane = (int)threadIdx.x % 8;
    const int group = (int)threadIdx.x / 8;
    const int place = (int)blockIdx.x * 16 + group;
    const int row = place < 108 ? place : 107;
    const int i1 = row;
    float s1k[1][1];
    float c0k[1][1];
    float s0a0 = -__builtin_inff();
    for (int k = 0; k < 1; k++) {
        const int col = lane;
        if (col < 5) {
            const int r0 = col;
            const float c0 = tw::load_global<float>(x0 + ((((i1 * 5) + r0))));
            c0k[k][0] = c0;
            const float s0av0 = c0;
            s0a0 = tw::max<float>(s0a0, s0av0);
        }
    }
    TW_UNROLL
    for (int mask = 1; mask < 8; mask *= 2) {
        const float s0ao0 = tw::exchange(s0a0, mask);
        s0a0 = tw::max<float>(s0a0, s0ao0);
    }
    const float s0 = s0a0;
    float s2a0 = 0.0f;
    for (int k = 0; k < 1; k++) {
        const int col = lane;
        if (col < 5) {
            const float c0 = c0k[k][0];
            const float s1 = tw::exp(float((c0 - s0)));
            const float s2av0 = s1;
            s2a0 = (s2a0 + s2av0);
            s1k[k][0] = s1;
        }
    }
    TW_UNROLL
    for (int mask = 1; mask < 8; mask *= 2) {
        const float s2ao0 = tw::exchange(s2a0, mask);
        s2a0 = (s2a0 + s2ao0);
    }
    const float s2 = s2a0;
    for (int k = 0; k < 1; k++) {
        const int col = lane;
        if (col < 5) {
            const int r0 = col;
            const float s1 = s1k[k][0];
            if (place < 108) tw::store_global(out + (((i1 * 5) + r0)), (float)((s1 / s2)));
        }
    }
}

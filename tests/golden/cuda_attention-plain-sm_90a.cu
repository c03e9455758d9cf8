// cuda_attention version 1, cuda:sm_90a
#line 1 "kernel"
namespace tw_golden_ {
TW_DEVICE float finish(float o, int o_i0, int o_i1, int i, int e) {
    (void)o_i0; (void)o_i1; (void)i; (void)e;
    return (float)(o);
}
}
TW_KERNEL(32, 1) void tw_golden(const float *__restrict__ x0, const float *__restrict__ x1, const float *__restrict__ x2, float *__restrict__ out, unsigned char *__restrict__ ws) {
    TW_SHARED(smem);
    using namespace tw_golden_;
    const int tid = (int)threadIdx.x, lane = tid % 32, warp = tid / 32;
    const int block = (int)blockIdx.x / 11;
    const int i0 = (10 - (int)blockIdx.x % 11) * 2;
    (void)ws; (void)lane; (void)warp; (void)block; (void)i0;
    const int o_i0 = int(unsigned(block) / 2u);
    const int o_i1 = int(unsigned(block) % 2u);
    const int lane_k = tid % 16, first = tid / 16 * 1;
    float *const q = (float *)smem;
    float *const weights = (float *)(smem + 4736);
    unsigned char *const ring = smem + 128;
    const auto copy = [&](int slot, int t) {
        (void)slot;
        TW_UNROLL
        for (int n = 0; n < 2; n++) {
            const int at = tid + n * 32;
            if (at < 48) {
                const int row = t * 16 + at / 3, col = at % 3 * 4;
                tw::cp_async<16>(tw::shared_address(ring) + slot * 2304 + (at / 3 * 16 + col) * 4, x1 + (((((o_i0 * 888) + (o_i1 * 444)) + (row * 12)) + col)), row < 37 ? 16 : 0);
            }
        }
        TW_UNROLL
        for (int n = 0; n < 8; n++) {
            const int low = tid / 16 + n * 2;
            const int row = t * 16 + low, col = tid % 16;
            tw::cp_async<4>(tw::shared_address(ring) + slot * 2304 + 1024 + (low * 20 + col) * 4, x2 + (((((o_i0 * 814) + (o_i1 * 407)) + (row * 11)) + col)), row < 37 && col < 11 ? 4 : 0);
        }
    };
    const auto next = [&](int t) { return t; };
    float o[1][1][1], top[1], sum[1];
    TW_UNROLL
    for (int r = 0; r < 1; r++)
    {
        TW_UNROLL
        for (int g = 0; g < 1; g++)
            TW_UNROLL
            for (int c = 0; c < 1; c++)
                o[r][g][c] = 0.0f;
        top[r] = -__builtin_inff();
        sum[r] = 0.0f;
    }
    {
        const int at = tid;
        if (at < 6) {
            const int row = i0 + at / 3, col = at % 3 * 4;
            tw::cp_async<16>(tw::shared_address(q) + (at / 3 * 16 + col) * 4, x0 + (((((o_i0 * 504) + (o_i1 * 252)) + (row * 12)) + col)), row < 21 ? 16 : 0);
        }
    }
    int now = next(0), ahead = now, slot = 0;
    if (ahead < 3) copy(0, ahead);
    tw::cp_commit();
    while (now < 3) {
        tw::cp_wait<0>();
        tw::sync();
        ahead = next(ahead + 1);
        if (ahead < 3) copy(1 - slot, ahead);
        tw::cp_commit();
        const float *const k = (const float *)(ring + slot * 2304);
        const float *const v = k + 256;
        const int j0 = now * 16;
        float s[1][1];
        TW_UNROLL
        for (int r = 0; r < 1; r++)
            TW_UNROLL
            for (int n = 0; n < 1; n++)
                s[r][n] = 0.0f;
        TW_UNROLL
        for (int d = 0; d < 12; d += 4) {
            tw::pack<float, 4> a[1], b[1];
            TW_UNROLL
            for (int r = 0; r < 1; r++)
                a[r] = tw::load_shared<tw::pack<float, 4>>(q + (first + r) * 16 + d);
            TW_UNROLL
            for (int n = 0; n < 1; n++)
                b[n] = tw::load_shared<tw::pack<float, 4>>(k + (n * 16 + lane_k) * 16 + d);
            TW_UNROLL
            for (int r = 0; r < 1; r++)
                TW_UNROLL
                for (int n = 0; n < 1; n++)
                    TW_UNROLL
                    for (int c = 0; c < 4; c++)
                        s[r][n] = tw::fma(a[r].v[c], b[n].v[c], s[r][n]);
        }
        if (j0 + 16 <= 37) {
            TW_UNROLL
            for (int r = 0; r < 1; r++)
                TW_UNROLL
                for (int n = 0; n < 1; n++) {
                const float x = s[r][n];
                (void)x;
                s[r][n] = (x * 0x1.279a74590331dp-2f);
            }
        } else {
            TW_UNROLL
            for (int r = 0; r < 1; r++)
                TW_UNROLL
                for (int n = 0; n < 1; n++) {
                const int j = j0 + n * 16 + lane_k;
                const float x = s[r][n];
                (void)x;
                s[r][n] = -__builtin_inff();
                if (j < 37) {
                    s[r][n] = (x * 0x1.279a74590331dp-2f);
                }
            }
        }
        tw::sync_warp();  // the weights of the block before have been read
        TW_UNROLL
        for (int r = 0; r < 1; r++)
        {
            float most = top[r];
            TW_UNROLL
            for (int n = 0; n < 1; n++)
                most = tw::max(most, s[r][n]);
            most = tw::max(most, tw::shuffle_xor(most, 1));
            most = tw::max(most, tw::shuffle_xor(most, 2));
            most = tw::max(most, tw::shuffle_xor(most, 4));
            most = tw::max(most, tw::shuffle_xor(most, 8));
            const float base = most == -__builtin_inff() ? 0.0f : most, scale = tw::exp(top[r] - base);
            top[r] = most;
            sum[r] *= scale;
            TW_UNROLL
            for (int n = 0; n < 1; n++)
            {
                const float w = tw::exp(s[r][n] - base);
                sum[r] += w;
                tw::store_shared(weights + (first + r) * 20 + n * 16 + lane_k, w);
            }
            TW_UNROLL
            for (int g = 0; g < 1; g++)
                TW_UNROLL
                for (int c = 0; c < 1; c++)
                    o[r][g][c] *= scale;
        }
        tw::sync_warp();
        TW_KEEP_LOOP
        for (int j = 0; j < 16; j += 4) {
            tw::pack<float, 4> a[1];
            TW_UNROLL
            for (int r = 0; r < 1; r++)
                a[r] = tw::load_shared<tw::pack<float, 4>>(weights + (first + r) * 20 + j);
            TW_UNROLL
            for (int u = 0; u < 4; u++)
            {
                TW_UNROLL
                for (int g = 0; g < 1; g++)
                {
                    const tw::pack<float, 1> b = tw::load_shared<tw::pack<float, 1>>(v + (j + u) * 20 + (g * 16 + lane_k) * 1);
                    TW_UNROLL
                    for (int r = 0; r < 1; r++)
                        TW_UNROLL
                        for (int c = 0; c < 1; c++)
                            o[r][g][c] = tw::fma(a[r].v[u], b.v[c], o[r][g][c]);
                }
            }
        }
        slot = 1 - slot;
        now = next(now + 1);
    }
    tw::cp_wait<0>();
    TW_UNROLL
    for (int r = 0; r < 1; r++)
    {
        sum[r] += tw::shuffle_xor(sum[r], 1);
        sum[r] += tw::shuffle_xor(sum[r], 2);
        sum[r] += tw::shuffle_xor(sum[r], 4);
        sum[r] += tw::shuffle_xor(sum[r], 8);
        const int i = i0 + first + r;
        if (i < 21) {
            TW_UNROLL
            for (int g = 0; g < 1; g++)
                TW_UNROLL
                for (int c = 0; c < 1; c++)
                {
                    const int e = (g * 16 + lane_k) * 1 + c;
                    if (e < 11) tw::store_global(out + (((((o_i0 * 462) + (o_i1 * 231)) + (i * 11)) + e)), finish(o[r][g][c] / sum[r], o_i0, o_i1, i, e));
                }
        }
    }
}

// cuda_attention version 17, cuda:sm_80
#line 1 "kernel"
namespace tw_golden_ {
TW_DEVICE void parts(tw::u32 &high, tw::u32 &low, float a, float b) {
    high = tw::pack_bf16(a, b);
    tw::bf16 x, y;
    x.bits = (tw::u16)high;
    y.bits = (tw::u16)(high >> 16);
    low = tw::pack_bf16(a - tw::to_float(x), b - tw::to_float(y));
}
TW_DEVICE float power(float score, float shift) { return (score + shift) * 1.44269504f; }
TW_DEVICE tw::bf16 finish(float o, int o_i0, int o_i1, int i, int e) {
    (void)o_i0; (void)o_i1; (void)i; (void)e;
    return tw::to_bf16((float)(o));
}
}
TW_KERNEL(32, 1) void tw_golden(const tw::bf16 *__restrict__ x0, const tw::bf16 *__restrict__ x1, const tw::bf16 *__restrict__ x2, tw::bf16 *__restrict__ out, unsigned char *__restrict__ ws) {
    TW_SHARED(smem);
    using namespace tw_golden_;
    const int tid = (int)threadIdx.x, lane = tid % 32, warp = tid / 32;
    (void)ws; (void)lane; (void)warp;
    const unsigned tile = blockIdx.x;
    const unsigned inside = tile % 1u;
    const int block = int(tile / 1u * 1u + inside % 1u);
    const int i0 = int(0u - inside / 1u) * 16;
    (void)block; (void)i0;
    const int o_i0 = int(unsigned(block) / 4u);
    const int o_i1 = int(unsigned(block) % 4u);
    const tw::u32 sq = tw::shared_address(smem), ring = sq + 768;
    const tw::u32 at_q = sq + (warp * 384 + (lane % 16) * 24 + lane / 16 * 8) * 2;
    const tw::u32 at_k = ring + ((lane % 8 + lane / 16 * 8) * 24 + lane / 8 % 2 * 8) * 2, at_v = ring + 1536 + ((lane % 16) * 24 + lane / 16 * 8) * 2;
    // Block t of the keys, or of their values, to a slot of the ring, which is named by its distance from the first.
    const auto copy_keys = [&](tw::u32 slot, int t) {
        TW_UNROLL
        for (int n = 0; n < 8; n++) {
            const int low = warp * 32 + lane / 8 + n * 4;
            const int row = t * 32 + low;
            const int col = tid % 8 * 2;
            tw::cp_async<4>(ring + slot + (low * 24 + col) * 2, x1 + (((((o_i0 * 380) + (int(unsigned(o_i1) / 2u) * 190)) + ((warp * 32 + lane / 8) * 10)) + col) + (t * 32) * 10) + n * 40, row < 19 && col < 10 ? 4 : 0);
        }
    };
    const auto copy_values = [&](tw::u32 slot, int t) {
        TW_UNROLL
        for (int n = 0; n < 8; n++) {
            const int low = warp * 32 + lane / 8 + n * 4;
            const int row = t * 32 + low;
            const int col = tid % 8 * 2;
            tw::cp_async<4>(ring + slot + 1536 + (low * 24 + col) * 2, x2 + (((((o_i0 * 228) + (int(unsigned(o_i1) / 2u) * 114)) + ((warp * 32 + lane / 8) * 6)) + col) + (t * 32) * 6) + n * 24, row < 19 && col < 6 ? 4 : 0);
        }
    };
    const auto next = [&](int t) { return t; };
    TW_UNROLL
    for (int n = 0; n < 4; n++) {
        const int low = warp * 16 + lane / 8 + n * 4;
        const int row = i0 + low;
        const int col = tid % 8 * 2;
        tw::cp_async<4>(sq + (low * 24 + col) * 2, x0 + (((((o_i0 * 200) + (o_i1 * 50)) + ((warp * 16 + lane / 8) * 10)) + col) + (i0) * 10) + n * 40, row < 5 && col < 10 ? 4 : 0);
    }
    tw::cp_commit();
    int now = next(0);
    int ahead = now;
    tw::u32 slot = 0, free = 0;
    TW_UNROLL
    for (; free < 3072; free += 3072) {
        if (ahead < 1) copy_keys(free, ahead), copy_values(free, ahead);
        tw::cp_commit();
        ahead = next(ahead + 1);
    }
    float o[1][2][4], shift[1][2], sum[1][2];
    TW_UNROLL
    for (int m = 0; m < 1; m++)
    {
        TW_UNROLL
        for (int n = 0; n < 2; n++) o[m][n][0] = o[m][n][1] = o[m][n][2] = o[m][n][3] = 0.0f;
        shift[m][0] = shift[m][1] = 0x1.fffffep127f;
        sum[m][0] = sum[m][1] = 0.0f;
    }
    tw::cp_wait<1>();
    tw::sync();
    tw::u32 fq[1][1][4];
    TW_UNROLL
    for (int m = 0; m < 1; m++)
        TW_UNROLL
        for (int d = 0; d < 1; d++)
            tw::ldmatrix_x4(fq[m][d], at_q + (m * 384 + d * 16) * 2);
    while (now < 1) {
        tw::cp_wait<0>();
        tw::sync();
        if (ahead < 1) copy_keys(free, ahead), copy_values(free, ahead);
        tw::cp_commit();
        ahead = next(ahead + 1);
        const int j0 = now * 32;
        float s[1][4][4];
        TW_UNROLL
        for (int m = 0; m < 1; m++)
            TW_UNROLL
            for (int n = 0; n < 4; n++)
                s[m][n][0] = s[m][n][1] = s[m][n][2] = s[m][n][3] = 0.0f;
        TW_UNROLL
        for (int d = 0; d < 1; d++)
        {
            TW_UNROLL
            for (int n = 0; n < 2; n++)
            {
                tw::u32 r[4];
                tw::ldmatrix_x4(r, at_k + slot + (n * 384 + d * 16) * 2);
                const tw::u32 first[2] = {r[0], r[1]}, second[2] = {r[2], r[3]};
                TW_UNROLL
                for (int m = 0; m < 1; m++)
                {
                    tw::mma_bf16(s[m][2 * n], fq[m][d], first);
                    tw::mma_bf16(s[m][2 * n + 1], fq[m][d], second);
                }
            }
        }
        if (j0 + 32 <= 19) {
            TW_UNROLL
            for (int m = 0; m < 1; m++)
                TW_UNROLL
                for (int n = 0; n < 4; n++)
                    TW_UNROLL
                    for (int c = 0; c < 4; c++) {
                const float x = s[m][n][c];
                (void)x;
                s[m][n][c] = (x * 0x1.43d136248490fp-2f);
            }
        } else {
            TW_UNROLL
            for (int m = 0; m < 1; m++)
                TW_UNROLL
                for (int n = 0; n < 4; n++)
                    TW_UNROLL
                    for (int c = 0; c < 4; c++) {
                const int j = j0 + n * 8 + lane % 4 * 2 + c % 2;
                const float x = s[m][n][c];
                (void)x;
                s[m][n][c] = -__builtin_inff();
                if (j < 19) {
                    s[m][n][c] = (x * 0x1.43d136248490fp-2f);
                }
            }
        }
        float most[1][2];
        bool above = false;
        TW_UNROLL
        for (int m = 0; m < 1; m++)
            TW_UNROLL
            for (int h = 0; h < 2; h++)
            {
                most[m][h] = tw::max_number(s[m][0][2 * h], s[m][0][2 * h + 1]);
                TW_UNROLL
                for (int n = 1; n < 4; n++)
                    most[m][h] = tw::max_number(most[m][h], tw::max_number(s[m][n][2 * h], s[m][n][2 * h + 1]));
                above |= power(most[m][h], shift[m][h]) > 7.0f;
            }
        if (tw::any_lane(above)) {
            TW_UNROLL
            for (int m = 0; m < 1; m++)
                TW_UNROLL
                for (int h = 0; h < 2; h++)
                {
                    float top = most[m][h];
                    top = tw::max_number(top, tw::shuffle_xor(top, 1));
                    top = tw::max_number(top, tw::shuffle_xor(top, 2));
                    const float raised = power(top, shift[m][h]) > 7.0f ? -top : shift[m][h];
                    const float scale = tw::exp2_approx((raised - shift[m][h]) * 1.44269504f);
                    shift[m][h] = raised;
                    sum[m][h] *= scale;
                    TW_UNROLL
                    for (int n = 0; n < 2; n++)
                    {
                        o[m][n][2 * h] *= scale;
                        o[m][n][2 * h + 1] *= scale;
                    }
                }
        }
        TW_UNROLL
        for (int k = 0; k < 2; k++)
        {
            tw::u32 high[1][4];
            tw::u32 low[1][4];
            TW_UNROLL
            for (int m = 0; m < 1; m++)
                TW_UNROLL
                for (int w = 0; w < 4; w++)
                {
                    const int n = 2 * k + w / 2, h = w % 2;
                    const float a = tw::exp2_approx(power(s[m][n][2 * h], shift[m][h]));
                    const float b = tw::exp2_approx(power(s[m][n][2 * h + 1], shift[m][h]));
                    sum[m][h] += a;
                    sum[m][h] += b;
                    parts(high[m][w], low[m][w], a, b);
                }
            TW_UNROLL
            for (int n = 0; n < 1; n++)
            {
                tw::u32 r[4];
                tw::ldmatrix_x4_trans(r, at_v + slot + (k * 384 + n * 16) * 2);
                const tw::u32 first[2] = {r[0], r[1]}, second[2] = {r[2], r[3]};
                TW_UNROLL
                for (int m = 0; m < 1; m++)
                {
                    tw::mma_bf16(o[m][2 * n], high[m], first);
                    tw::mma_bf16(o[m][2 * n + 1], high[m], second);
                    tw::mma_bf16(o[m][2 * n], low[m], first);
                    tw::mma_bf16(o[m][2 * n + 1], low[m], second);
                }
            }
        }
        free = slot;
        slot = 3072 - slot;
        now = next(now + 1);
    }
    tw::cp_wait<0>();
    TW_UNROLL
    for (int m = 0; m < 1; m++)
        TW_UNROLL
        for (int h = 0; h < 2; h++)
        {
            float total = sum[m][h];
            total += tw::shuffle_xor(total, 1);
            total += tw::shuffle_xor(total, 2);
            const float share = 1.0f / total;
            const int i = i0 + (warp * 1 + m) * 16 + h * 8 + lane / 4;
            if (i < 5) {
                TW_UNROLL
                for (int n = 0; n < 2; n++)
                {
                    const int e = n * 8 + lane % 4 * 2;
                    if (e < 6) {
                        tw::pack<tw::bf16, 2> two;
                        two.v[0] = finish(o[m][n][2 * h] * share, o_i0, o_i1, i, e);
                        two.v[1] = finish(o[m][n][2 * h + 1] * share, o_i0, o_i1, i, e + 1);
                        tw::store_global(out + (((((o_i0 * 120) + (o_i1 * 30)) + (i * 6)) + e)), two);
                    }
                }
            }
        }
}

// cuda_mma version 6, cuda:sm_80
#line 1 "kernel"
namespace tw_golden_ {
TW_DEVICE tw::bf16 finish(float v) {
    const float s0 = v;
    return tw::to_bf16((float)(s0));
}
TW_DEVICE void store(tw::bf16 *out, const float (&v)[8], int m, int n) {
    if (m >= 9) return;
    TW_UNROLL
    for (int i = 0; i < 8; i += 1) {
        if (n + i >= 17) continue;
        tw::store_global(out + ((m) * 17 + ((n + i))), finish(v[i]));
    }
}
}
TW_KERNEL(256, 1) void tw_golden_pack_a(const tw::bf16 *__restrict__ x0, const tw::bf16 *__restrict__ x1, tw::bf16 *__restrict__ out, unsigned char *__restrict__ ws) {
    const long long e = (long long)blockIdx.x * 256 + threadIdx.x;
    if (e >= 36LL) return;
    const int row = int(e % 9), c = int(e / 9);
    tw::bf16 *packed_a = (tw::bf16 *)(ws + 0LL);
    tw::pack<tw::u32, 4> v;
    TW_UNROLL
    for (int w = 0; w < 4; w++) {
        v.v[w] = 0;
        TW_UNROLL
        for (int i = 0; i < 2; i++) {
            const int k = c * 8 + w * 2 + i;
            if (k < 31) v.v[w] |= (tw::u32)tw::load_global<tw::u16>(x0 + ((row) + (k) * 9)) << (i * 16);
        }
    }
    tw::store_global(packed_a + (long long)row * 32 + c * 8, v);
}
TW_KERNEL(32, 1) void tw_golden(const tw::bf16 *__restrict__ x0, const tw::bf16 *__restrict__ x1, tw::bf16 *__restrict__ out, unsigned char *__restrict__ ws, int GROUP) {
    TW_SHARED(smem);
    using namespace tw_golden_;
    int tile = (int)blockIdx.x;
    const int tile_n = tile;
    const int m0 = 0, n0 = tile_n * 16;
    const int tid = (int)threadIdx.x, lane = tid;
    const tw::u32 sa = tw::shared_address(smem), sb = sa + 4096;
    tw::bf16 *packed_a = (tw::bf16 *)(ws + 0LL);
    const int r_a = tid / 4, k_a = (tid % 4) * 8;
    const tw::bf16 *from_a = packed_a + ((m0 + r_a) * 32LL + k_a);
    const tw::u32 to_a = sa + ((((r_a)*32+k_a)^(((((r_a)*32+k_a)>>6)&3)<<3))) * 2;
    tw::u32 held_b[8];
    const tw::u32 at_a = (((((lane % 16))*32+(lane / 16 * 8))^((((((lane % 16))*32+(lane / 16 * 8))>>6)&3)<<3))) * 2;
    const tw::u32 at_b = (((((lane % 8 + lane / 16 * 8))*32+(lane / 8 % 2 * 8))^((((((lane % 8 + lane / 16 * 8))*32+(lane / 8 % 2 * 8))>>6)&3)<<3))) * 2;
    float acc[1][2][4];
    TW_UNROLL
    for (int i = 0; i < 1; i++)
        TW_UNROLL
        for (int j = 0; j < 2; j++)
            TW_UNROLL
            for (int e = 0; e < 4; e++) acc[i][j][e] = 0;
    // Tile t of k, from global memory to slot of the ring.
    const auto copy = [&](int slot, int t) {
        TW_UNROLL
        for (int i = 0; i < 2; i++) {
            tw::cp_async<16>(to_a + slot * 1024 + i * 512, from_a + (t * 32LL + i * 256LL), (m0 + r_a + i * 8) < 9 && (t * 32 + k_a) < 31 ? 16 : 0);
        }
    };
    // The same through registers, in two steps.
    const auto fetch = [&](int t) {
        TW_UNROLL
        for (int i = 0; i < 2; i++) {
            const int r = tid % 16, k = (tid / 16 + i * 2) * 8;
            TW_UNROLL
            for (int w = 0; w < 4; w++) {
                tw::u32 word = 0;
                TW_UNROLL
                for (int e = 0; e < 2; e++) {
                    const int kk = t * 32 + k + w * 2 + e;
                    if ((n0 + r) < 17 && kk < 31) word |= (tw::u32)tw::load_global<tw::u16>(x1 + (((n0 + r)) + (kk) * 17)) << (e * 16);
                }
                held_b[i * 4 + w] = word;
            }
        }
    };
    const auto put = [&](int slot) {
        TW_UNROLL
        for (int i = 0; i < 2; i++) {
            const int r = tid % 16, k = (tid / 16 + i * 2) * 8;
            tw::pack<tw::u32, 4> v;
            TW_UNROLL
            for (int w = 0; w < 4; w++) v.v[w] = held_b[i * 4 + w];
            tw::store_shared(smem + 4096 + slot * 1024 + ((((r)*32+k)^(((((r)*32+k)>>6)&3)<<3))) * 2, v);
        }
    };
    // Step q of the tile in slot, from shared memory to registers.
    const auto read = [&](tw::u32 (&fa)[1][4], tw::u32 (&fb)[2][2], int slot, int q) {
        TW_UNROLL
        for (int i = 0; i < 1; i++) tw::ldmatrix_x4(fa[i], sa + slot * 1024 + i * 1024 + (at_a ^ (q * 32)));
        TW_UNROLL
        for (int j = 0; j < 1; j++) {
            tw::u32 r[4];
            tw::ldmatrix_x4(r, sb + slot * 1024 + j * 1024 + (at_b ^ (q * 32)));
            fb[2 * j][0] = r[0]; fb[2 * j][1] = r[1]; fb[2 * j + 1][0] = r[2]; fb[2 * j + 1][1] = r[3];
        }
    };
    const auto multiply = [&](const tw::u32 (&fa)[1][4], const tw::u32 (&fb)[2][2]) {
        TW_UNROLL
        for (int j = 0; j < 2; j++) tw::mma_bf16(acc[0][j], fa[0], fb[j]);
    };
    copy(0, 0);
    tw::cp_commit();
    fetch(0);
    put(0);
    tw::u32 fa[2][1][4], fb[2][2][2];
    tw::cp_wait<0>();
    tw::sync();
    read(fa[0], fb[0], 0, 0);
    for (int t = 0; t < 1; t++) {
        tw::cp_commit();
        read(fa[1], fb[1], t, 1);
        multiply(fa[0], fb[0]);
        tw::cp_wait<0>();
        tw::sync();
        read(fa[0], fb[0], t + 1, 0);
        multiply(fa[1], fb[1]);
    }
    tw::sync();  // the ring is free
    float *strip = (float *)smem;
    TW_UNROLL
    for (int i = 0; i < 1; i++) {
        TW_UNROLL
        for (int j = 0; j < 2; j++) {
            TW_UNROLL
            for (int h = 0; h < 2; h++) {
                tw::pack<float, 2> two;
                two.v[0] = acc[i][j][2 * h]; two.v[1] = acc[i][j][2 * h + 1];
                tw::store_shared(strip + ((h * 8 + lane / 4) * 24 + j * 8 + lane % 4 * 2), two);
            }
        }
        tw::sync_warp();
        {
            const int r = lane / 2, c = lane % 2 * 8;
            float v[8];
            TW_UNROLL
            for (int q = 0; q < 8; q += 4) {
                const tw::pack<float, 4> four = tw::load_shared<tw::pack<float, 4>>(strip + r * 24 + c + q);
                TW_UNROLL
                for (int g = 0; g < 4; g++) v[q + g] = four.v[g];
            }
            store(out, v, m0 + i * 16 + r, n0 + c);
        }
    }
}

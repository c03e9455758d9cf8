// cuda_mma version 2, cuda:sm_80
#line 1 "kernel"
namespace tw_golden_ {
TW_DEVICE tw::bf16 finish(float v) {
    return tw::to_bf16((float)(v));
}
TW_DEVICE void store(tw::bf16 *out, const float (&v)[8], int batch, int m, int n) {
    if (m >= 24) return;
    TW_UNROLL
    for (int i = 0; i < 8; i += 1) {
        if (n + i >= 5) continue;
        tw::store_global(out + ((int(unsigned(batch) % 2u)) * 5 + (int(unsigned(batch) / 2u)) * 30 + (int(unsigned(m) % 3u)) * 10 + (int(unsigned(m) / 3u % 4u)) * 60 + (int(unsigned(m) / 12u)) * 240 + ((n + i))), finish(v[i]));
    }
}
}
TW_KERNEL(256, 1) void tw_golden_pack_b(const tw::bf16 *__restrict__ x0, const tw::bf16 *__restrict__ x1, tw::bf16 *__restrict__ out, unsigned char *__restrict__ ws) {
    const long long e = (long long)blockIdx.x * 256 + threadIdx.x;
    if (e >= 80LL) return;
    const int row = int(e % 5), c = int(e / 5 % 4), batch = int(e / 20LL);
    tw::bf16 *packed_b = (tw::bf16 *)(ws + 0LL);
    tw::pack<tw::u32, 4> v;
    TW_UNROLL
    for (int w = 0; w < 4; w++) {
        v.v[w] = 0;
        TW_UNROLL
        for (int i = 0; i < 2; i++) {
            const int k = c * 8 + w * 2 + i;
            v.v[w] |= (tw::u32)tw::load_global<tw::u16>(x1 + ((row) + (int(unsigned(k) % 8u)) * 5 + (int(unsigned(k) / 8u % 2u)) * 80 + (int(unsigned(k) / 16u)) * 320 + (int(unsigned((int(unsigned(batch) / 2u) + 1)) % 2u)) * 160 + (int(unsigned((int(unsigned(batch) % 2u) + 1)) % 2u)) * 40)) << (i * 16);
        }
    }
    tw::store_global(packed_b + ((long long)batch * 5 + row) * 32 + c * 8, v);
}
TW_KERNEL(32, 1) void tw_golden(const tw::bf16 *__restrict__ x0, const tw::bf16 *__restrict__ x1, tw::bf16 *__restrict__ out, unsigned char *__restrict__ ws, int GROUP) {
    TW_SHARED(smem);
    using namespace tw_golden_;
    int tile = (int)blockIdx.x;
    const int batch = int(unsigned(tile) / 2u);
    tile = int(unsigned(tile) % 2u);
    const int tile_m = tile;
    const int m0 = tile_m * 16, n0 = 0;
    const int tid = (int)threadIdx.x, lane = tid;
    const tw::u32 sa = tw::shared_address(smem), sb = sa + 5120;
    tw::bf16 *packed_b = (tw::bf16 *)(ws + 0LL);
    const int r_a = tid / 4, k_a = (tid % 4) * 8;
    const tw::u32 to_a = sa + ((((r_a)*32+k_a)^(((((r_a)*32+k_a)>>6)&3)<<3))) * 2;
    const int r_b = tid / 4, k_b = (tid % 4) * 8;
    const tw::bf16 *from_b = packed_b + (batch * 160LL + (n0 + r_b) * 32LL + k_b);
    const tw::u32 to_b = sb + ((((r_b)*32+k_b)^(((((r_b)*32+k_b)>>6)&3)<<3))) * 2;
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
            tw::cp_async<16>(to_a + slot * 1024 + i * 512, x0 + (((m0 + r_a + i * 8)) * 8 + (int(unsigned((t * 32 + k_a)) % 8u)) + (int(unsigned((t * 32 + k_a)) / 8u % 2u)) * -8 + (int(unsigned((t * 32 + k_a)) / 16u)) * -24 + (int(unsigned((int(unsigned(batch) / 2u) + 1)) / 2u)) * 24 + (int(unsigned((int(unsigned(batch) % 2u) + 1)) / 2u)) * 8), (m0 + r_a + i * 8) < 24 && ((((((int(unsigned((m0 + r_a + i * 8)) / 3u % 4u) + int(unsigned((int(unsigned(batch) / 2u) + 1)) / 2u)) - int(unsigned((t * 32 + k_a)) / 16u)) >= 0) && (((int(unsigned((m0 + r_a + i * 8)) / 3u % 4u) + int(unsigned((int(unsigned(batch) / 2u) + 1)) / 2u)) - int(unsigned((t * 32 + k_a)) / 16u)) < 4)) && ((((int(unsigned((m0 + r_a + i * 8)) % 3u) + int(unsigned((int(unsigned(batch) % 2u) + 1)) / 2u)) - int(unsigned((t * 32 + k_a)) / 8u % 2u)) >= 0) && (((int(unsigned((m0 + r_a + i * 8)) % 3u) + int(unsigned((int(unsigned(batch) % 2u) + 1)) / 2u)) - int(unsigned((t * 32 + k_a)) / 8u % 2u)) < 3)))) ? 16 : 0);
        }
        TW_UNROLL
        for (int i = 0; i < 2; i++) {
            tw::cp_async<16>(to_b + slot * 1024 + i * 512, from_b + (t * 32LL + i * 256LL), (n0 + r_b + i * 8) < 5 ? 16 : 0);
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
            store(out, v, batch, m0 + i * 16 + r, n0 + c);
        }
    }
}

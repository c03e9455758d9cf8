// cuda_mma version 2, cuda:sm_80
#line 1 "kernel"
namespace tw_golden_ {
TW_DEVICE tw::f16 finish(float v) {
    const float s0 = v;
    return tw::to_f16((float)(s0));
}
TW_DEVICE void store(tw::f16 *out, const float (&v)[8], int m, int n) {
    if (n >= 40) return;
    tw::pack<tw::f16, 8> p;
    TW_UNROLL
    for (int j = 0; j < 8; j++) p.v[j] = finish(v[j]);
    tw::store_global(out + ((m) * 40 + ((n))), p);
}
}
TW_KERNEL(32, 1) void tw_golden(const tw::f16 *__restrict__ x0, const tw::f16 *__restrict__ x1, tw::f16 *__restrict__ out, unsigned char *__restrict__ ws, int GROUP) {
    TW_SHARED(smem);
    using namespace tw_golden_;
    int tile = (int)blockIdx.x;
    const int tile_n = tile;
    const int m0 = 0, n0 = tile_n * 16;
    const int tid = (int)threadIdx.x, lane = tid;
    const tw::u32 sa = tw::shared_address(smem), sb = sa + 4096;
    const int r_a = tid / 4, k_a = (tid % 4) * 8;
    const tw::f16 *from_a = x0 + ((m0 + r_a) * 24LL + k_a);
    const tw::u32 to_a = sa + ((((r_a)*32+k_a)^(((((r_a)*32+k_a)>>6)&3)<<3))) * 2;
    const int r_b = (tid % 2) * 8, k_b = tid / 2;
    const tw::f16 *from_b = x1 + ((n0 + r_b) + k_b * 40LL);
    const tw::u32 to_b = sb + (((r_b+(k_b)*16)^((((r_b+(k_b)*16)>>6)&1)<<3))) * 2;
    const tw::u32 at_a = (((((lane % 16))*32+(lane / 16 * 8))^((((((lane % 16))*32+(lane / 16 * 8))>>6)&3)<<3))) * 2;
    const tw::u32 at_b = ((((lane / 16 * 8)+((lane % 16))*16)^(((((lane / 16 * 8)+((lane % 16))*16)>>6)&1)<<3))) * 2;
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
            tw::cp_async<16>(to_a + slot * 1024 + i * 512, from_a + (t * 32LL + i * 192LL), (t * 32 + k_a) < 24 ? 16 : 0);
        }
        TW_UNROLL
        for (int i = 0; i < 2; i++) {
            tw::cp_async<16>(to_b + slot * 1024 + i * 512, from_b + (t * 1280LL + i * 640LL), (n0 + r_b) < 40 && (t * 32 + k_b + i * 16) < 24 ? 16 : 0);
        }
    };
    // Step q of the tile in slot, from shared memory to registers.
    const auto read = [&](tw::u32 (&fa)[1][4], tw::u32 (&fb)[2][2], int slot, int q) {
        TW_UNROLL
        for (int i = 0; i < 1; i++) tw::ldmatrix_x4(fa[i], sa + slot * 1024 + i * 1024 + (at_a ^ (q * 32)));
        TW_UNROLL
        for (int j = 0; j < 1; j++) {
            tw::u32 r[4];
            tw::ldmatrix_x4_trans(r, sb + slot * 1024 + q * 512 + (at_b ^ (j * 32)));
            fb[2 * j][0] = r[0]; fb[2 * j][1] = r[1]; fb[2 * j + 1][0] = r[2]; fb[2 * j + 1][1] = r[3];
        }
    };
    const auto multiply = [&](const tw::u32 (&fa)[1][4], const tw::u32 (&fb)[2][2]) {
        TW_UNROLL
        for (int j = 0; j < 2; j++) tw::mma_f16(acc[0][j], fa[0], fb[j]);
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
            store(out, v, m0 + i * 16 + r, n0 + c);
        }
    }
}

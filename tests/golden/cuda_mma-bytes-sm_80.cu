// cuda_mma version 2, cuda:sm_80
#line 1 "kernel"
namespace tw_golden_ {
TW_DEVICE int finish(int v) {
    return (int)(v);
}
TW_DEVICE void store(int *out, const int (&v)[2], int m, int n) {
    if (n >= 48) return;
    tw::pack<int, 2> p;
    TW_UNROLL
    for (int j = 0; j < 2; j++) p.v[j] = finish(v[j]);
    tw::store_global(out + ((m) * 48 + ((n))), p);
}
}
TW_KERNEL(64, 1) void tw_golden(const signed char *__restrict__ x0, const signed char *__restrict__ x1, int *__restrict__ out, unsigned char *__restrict__ ws, int GROUP) {
    TW_SHARED(smem);
    using namespace tw_golden_;
    int tile = (int)blockIdx.x;
    const int tile_n = tile;
    const int m0 = 0, n0 = tile_n * 32;
    const int tid = (int)threadIdx.x, lane = tid % 32, warp = tid / 32;
    const tw::u32 sa = tw::shared_address(smem), sb = sa + 4096;
    const int r_a = tid / 4, k_a = (tid % 4) * 16;
    const signed char *from_a = x0 + ((m0 + r_a) * 64LL + k_a);
    const tw::u32 to_a = sa + (((r_a)*64+k_a)^(((((r_a)*64+k_a)>>7)&3)<<4));
    tw::u32 held_b[8];
    const tw::u32 at_a = ((((lane % 16))*64+(lane / 16 * 16))^((((((lane % 16))*64+(lane / 16 * 16))>>7)&3)<<4));
    const tw::u32 at_b = ((((warp * 16 + lane % 8 + lane / 16 * 8))*64+(lane / 8 % 2 * 16))^((((((warp * 16 + lane % 8 + lane / 16 * 8))*64+(lane / 8 % 2 * 16))>>7)&3)<<4));
    int acc[1][2][4];
    TW_UNROLL
    for (int i = 0; i < 1; i++)
        TW_UNROLL
        for (int j = 0; j < 2; j++)
            TW_UNROLL
            for (int e = 0; e < 4; e++) acc[i][j][e] = 0;
    // Tile t of k, from global memory to slot of the ring.
    const auto copy = [&](int slot, int t) {
        tw::cp_async<16>(to_a + slot * 1024, from_a + (t * 64LL));
    };
    // The same through registers, in two steps.
    const auto fetch = [&](int t) {
        TW_UNROLL
        for (int i = 0; i < 2; i++) {
            const int r = tid % 32, k = (tid / 32 + i * 2) * 16;
            TW_UNROLL
            for (int w = 0; w < 4; w++) {
                tw::u32 word = 0;
                TW_UNROLL
                for (int e = 0; e < 4; e++) {
                    const int kk = t * 64 + k + w * 4 + e;
                    if ((n0 + r) < 48) word |= (tw::u32)tw::load_global<tw::u8>(x1 + (((n0 + r)) + (kk) * 48)) << (e * 8);
                }
                held_b[i * 4 + w] = word;
            }
        }
    };
    const auto put = [&](int slot) {
        TW_UNROLL
        for (int i = 0; i < 2; i++) {
            const int r = tid % 32, k = (tid / 32 + i * 2) * 16;
            tw::pack<tw::u32, 4> v;
            TW_UNROLL
            for (int w = 0; w < 4; w++) v.v[w] = held_b[i * 4 + w];
            tw::store_shared(smem + 4096 + slot * 2048 + (((r)*64+k)^(((((r)*64+k)>>7)&3)<<4)), v);
        }
    };
    // Step q of the tile in slot, from shared memory to registers.
    const auto read = [&](tw::u32 (&fa)[1][4], tw::u32 (&fb)[2][2], int slot, int q) {
        TW_UNROLL
        for (int i = 0; i < 1; i++) tw::ldmatrix_x4(fa[i], sa + slot * 1024 + i * 1024 + (at_a ^ (q * 32)));
        TW_UNROLL
        for (int j = 0; j < 1; j++) {
            tw::u32 r[4];
            tw::ldmatrix_x4(r, sb + slot * 2048 + j * 1024 + (at_b ^ (q * 32)));
            fb[2 * j][0] = r[0]; fb[2 * j][1] = r[1]; fb[2 * j + 1][0] = r[2]; fb[2 * j + 1][1] = r[3];
        }
    };
    const auto multiply = [&](const tw::u32 (&fa)[1][4], const tw::u32 (&fb)[2][2]) {
        TW_UNROLL
        for (int j = 0; j < 2; j++) tw::mma_s8(acc[0][j], fa[0], fb[j]);
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
    TW_UNROLL
    for (int i = 0; i < 1; i++) {
        TW_UNROLL
        for (int j = 0; j < 2; j++) {
            TW_UNROLL
            for (int h = 0; h < 2; h++) {
                const int v[2] = {acc[i][j][2 * h], acc[i][j][2 * h + 1]};
                store(out, v, m0 + i * 16 + h * 8 + lane / 4, n0 + warp * 16 + j * 8 + lane % 4 * 2);
            }
        }
    }
}

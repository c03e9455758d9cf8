// cuda_relaid version 80, cuda:sm_80
#line 1 "kernel"
TW_DEVICE void tw_golden_p0_0(const tw::bf16 *__restrict__ x0, tw::bf16 *__restrict__ out, unsigned char *__restrict__ ws, int own_block) {
    (void)ws;
    TW_SHARED(smem);
    const int block = (int)own_block;
    const int i0 = int(unsigned(block) / 2u);
    const int i20 = (int(unsigned(block) % 2u)) * 32;
    const int i30 = (0) * 32;
    tw::bf16 *const s0 = (tw::bf16 *)(smem);
    TW_UNROLL
    for (int u = 0; u < 8; u++) {
        const int e = (int)threadIdx.x + u * 128;
        const int row = e / 32, at = e % 32;
        const int i3 = i30 + row, i2 = i20 + at;
        if (i3 < 16 && i2 < 63) {
            const tw::bf16 vs0 = tw::load_global<tw::bf16>(x0 + ((((i0 * 1008) + (i3 * 63)) + i2)));
            tw::store_shared(s0 + row * 34 + at, vs0);
        }
    }
    tw::sync();
    TW_UNROLL
    for (int u = 0; u < 1; u++) {
        const int e = (int)threadIdx.x + u * 128;
        const int at = e / 4, row = e % 4 * 8;
        const int i2 = i20 + at, i3b = i30 + row;
        if (i2 < 63 && i3b < 16) {
            tw::pack<tw::bf16, 8> op[1];
            TW_UNROLL
            for (int j = 0; j < 8; j++) {
                op[0].v[j] = tw::to_bf16((float)(tw::to_float(tw::load_shared<tw::bf16>(s0 + (row + j) * 34 + at))));
            }
            tw::store_global(out + ((((i0 * 1008) + (i2 * 16)) + i3b)), op[0]);
        }
    }
}
#line 1 "kernel"
TW_DEVICE void tw_golden_p0_1(const tw::bf16 *__restrict__ x0, tw::bf16 *__restrict__ out, unsigned char *__restrict__ ws, int own_block) {
    (void)ws;
    const int e = (int)own_block * 128 + (int)threadIdx.x;
    if (e >= 1728) return;
    const int e0 = e;
    const int i0 = int(unsigned(e0) / 72u);
    const int i2 = int(unsigned(e0) / 8u % 9u);
    const int i3b = (int(unsigned(e0) % 8u)) * 2;
    tw::pack<tw::bf16, 2> op[1];
    TW_UNROLL
    for (int j = 0; j < 2; j++) {
        const int i3 = i3b + j;
        op[0].v[j] = tw::to_bf16((float)(tw::to_float(tw::load_global<tw::bf16>(x0 + (((((i0 * 144) + (i3 * 9)) + i2)))))));
    }
    tw::store_global(out + ((((i0 * 144) + (i2 * 16)) + i3b)), op[0]);
}
TW_KERNEL(128, 1) void tw_golden_p0(const tw::bf16 *__restrict__ x0_0, tw::bf16 *__restrict__ out_0, unsigned char *__restrict__ ws_0, const tw::bf16 *__restrict__ x0_1, tw::bf16 *__restrict__ out_1, unsigned char *__restrict__ ws_1) {
    if ((int)blockIdx.x < 4) return tw_golden_p0_0(x0_0, out_0, ws_0, (int)blockIdx.x - 0);
    if ((int)blockIdx.x < 18) return tw_golden_p0_1(x0_1, out_1, ws_1, (int)blockIdx.x - 4);
}
#line 1 "kernel"
namespace tw_golden_ {
TW_DEVICE tw::bf16 finish(const tw::bf16 *x0, float v, int m) {
    const float s0 = v;
    return tw::to_bf16((float)((s0 + tw::to_float(tw::load_global<tw::bf16>(x0 + (((m))))))));
}
TW_DEVICE void store(const tw::bf16 *x0, tw::bf16 *out, const float (&v)[8], int m, int n) {
    if (m >= 24) return;
    TW_UNROLL
    for (int i = 0; i < 8; i += 1) {
        if (n + i >= 126) continue;
        tw::store_global(out + ((m) * 63 + (int(unsigned((n + i)) % 9u)) + (int(unsigned((n + i)) / 9u % 7u)) * 9 + (int(unsigned((n + i)) / 63u)) * 1512), finish(x0, v[i], m));
    }
}
}
TW_KERNEL(32, 1) void tw_golden(const tw::bf16 *__restrict__ x0, const tw::bf16 *__restrict__ x1, const tw::bf16 *__restrict__ x2, tw::bf16 *__restrict__ out, unsigned char *__restrict__ ws, int GROUP) {
    TW_SHARED(smem);
    using namespace tw_golden_;
    int tile = (int)blockIdx.x;
    const int first = tile / (GROUP * 8) * GROUP;
    const int rows = 2 - first < GROUP ? 2 - first : GROUP;
    const int inside = tile - first * 8;
    const int tile_m = first + inside % rows, tile_n = inside / rows;
    const int m0 = tile_m * 16, n0 = tile_n * 16;
    const int tid = (int)threadIdx.x, lane = tid;
    const tw::u32 sa = tw::shared_address(smem), sb = sa + 4096;
    const int r_a = tid / 4, k_a = (tid % 4) * 8;
    const tw::bf16 *from_a = x2 + ((m0 + r_a) * 144LL + k_a);
    const tw::u32 to_a = sa + ((((r_a)*32+k_a)^(((((r_a)*32+k_a)>>6)&3)<<3))) * 2;
    const int r_b = tid / 4, k_b = (tid % 4) * 8;
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
            tw::cp_async<16>(to_a + slot * 1024 + i * 512, from_a + (t * 32LL + i * 1152LL), (m0 + r_a + i * 8) < 24 && (t * 32 + k_a) < 144 ? 16 : 0);
        }
        TW_UNROLL
        for (int i = 0; i < 2; i++) {
            tw::cp_async<16>(to_b + slot * 1024 + i * 512, x1 + (((n0 + r_b + i * 8)) * 16 + (int(unsigned((t * 32 + k_b)) % 16u)) + (int(unsigned((t * 32 + k_b)) / 16u % 3u)) * 16 + (int(unsigned((t * 32 + k_b)) / 48u)) * 144 + (-160)), (n0 + r_b + i * 8) < 126 && (t * 32 + k_b) < 144 && ((((((int(unsigned((n0 + r_b + i * 8)) / 9u % 7u) + int(unsigned((t * 32 + k_b)) / 48u)) - 1) >= 0) && (((int(unsigned((n0 + r_b + i * 8)) / 9u % 7u) + int(unsigned((t * 32 + k_b)) / 48u)) - 1) < 7)) && ((((int(unsigned((n0 + r_b + i * 8)) % 9u) + int(unsigned((t * 32 + k_b)) / 16u % 3u)) - 1) >= 0) && (((int(unsigned((n0 + r_b + i * 8)) % 9u) + int(unsigned((t * 32 + k_b)) / 16u % 3u)) - 1) < 9)))) ? 16 : 0);
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
    int slot = 0, fill = 0;
    TW_UNROLL
    for (; fill < 3; fill++) {
        copy(fill, fill);
        tw::cp_commit();
    }
    tw::u32 fa[2][1][4], fb[2][2][2];
    tw::cp_wait<2>();
    tw::sync();
    read(fa[0], fb[0], 0, 0);
    for (int t = 0; t < 5; t++) {
        if (t + 3 < 5) copy(fill, t + 3);
        tw::cp_commit();
        const int next = slot + 1 == 4 ? 0 : slot + 1;
        read(fa[1], fb[1], slot, 1);
        multiply(fa[0], fb[0]);
        tw::cp_wait<2>();
        tw::sync();
        read(fa[0], fb[0], next, 0);
        multiply(fa[1], fb[1]);
        slot = next;
        fill = fill + 1 == 4 ? 0 : fill + 1;
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
            store(x0, out, v, m0 + i * 16 + r, n0 + c);
        }
    }
}

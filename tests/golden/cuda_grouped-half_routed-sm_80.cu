// cuda_grouped version 13, cuda:sm_80
#line 1 "kernel"
namespace tw_golden_ {
TW_DEVICE tw::bf16 finish(const float *x2, const float *x3, float v, int batch, int m, int n) {
    const float s0 = v;
    return tw::to_bf16((float)((tw::load_global<float>(x3 + ((int(unsigned((m)) / 2u)) * 2 + (int(unsigned((m)) % 2u)))) * tw::max<float>((s0 + tw::load_global<float>(x2 + (((batch)) * 24 + ((n))))), 0.0f))));
}
TW_DEVICE void store(const float *x2, const float *x3, tw::bf16 *out, const float (&v)[8], int batch, int m, int n) {
    if (m >= 34) return;
    if (n >= 24) return;
    tw::pack<tw::bf16, 8> p;
    TW_UNROLL
    for (int j = 0; j < 8; j++) p.v[j] = finish(x2, x3, v[j], batch, m, n + j);
    tw::store_global(out + ((m) * 24 + ((n))), p);
}
}
TW_KERNEL(32, 1) void tw_golden_sort(const tw::bf16 *__restrict__ x0, const tw::bf16 *__restrict__ x1, const float *__restrict__ x2, const float *__restrict__ x3, const int *__restrict__ x4, tw::bf16 *__restrict__ out, unsigned char *__restrict__ ws) {
    TW_SHARED(smem);
    tw::grid_launch();
    int *const own = (int *)smem;
    int *const before = own + 32;
    const int batch = (int)blockIdx.x, tid = (int)threadIdx.x;
    int less = 0;
    int equal = 0;
    for (int m = tid; m < 34; m += 32) {
        const int of = (int)(tw::min<long>(tw::max<long>((int)(tw::load_global<int>(x4 + ((int(unsigned((m)) / 2u)) * 2 + (int(unsigned((m)) % 2u))))), 0), 3));
        less += of < batch;
        equal += of == batch;
    }
    tw::store_shared(before + tid, less);
    tw::store_shared(own + tid, equal);
    tw::sync();
    // Sums over this thread and those before it.
    for (int step = 1; step < 32; step *= 2) {
        const int more_less = tid >= step ? tw::load_shared<int>(before + tid - step) : 0;
        const int more_equal = tid >= step ? tw::load_shared<int>(own + tid - step) : 0;
        tw::sync();
        tw::store_shared(before + tid, less += more_less);
        tw::store_shared(own + tid, equal += more_equal);
        tw::sync();
    }
    const int count = tw::load_shared<int>(own + 32 - 1), used = (count + 16 - 1) / 16;
    const int first = tw::load_shared<int>(before + 32 - 1);
    const int tile = first / 16 + batch, next = (first + count) / 16 + batch + 1;
    int *const order = (int *)(ws + 0LL) + tile * 16;
    int at = tid ? tw::load_shared<int>(own + tid - 1) : 0;
    for (int m = tid; m < 34; m += 32)
        if ((int)(tw::min<long>(tw::max<long>((int)(tw::load_global<int>(x4 + ((int(unsigned((m)) / 2u)) * 2 + (int(unsigned((m)) % 2u))))), 0), 3)) == batch) tw::store_global(order + at++, m);
    for (int e = count + tid; e < used * 16; e += 32) tw::store_global(order + e, 34);
    int *const batches = (int *)(ws + 384LL);
    for (int t = tid; t < next - tile; t += 32)
        tw::store_global(batches + tile + t, t < used ? batch : -1);
}
TW_KERNEL(32, 1) void tw_golden(const tw::bf16 *__restrict__ x0, const tw::bf16 *__restrict__ x1, const float *__restrict__ x2, const float *__restrict__ x3, const int *__restrict__ x4, tw::bf16 *__restrict__ out, unsigned char *__restrict__ ws, int GROUP) {
    TW_SHARED(smem);
    using namespace tw_golden_;
    int tile = (int)blockIdx.x;
    const int first = tile / (GROUP * 2) * GROUP;
    const int rows = 6 - first < GROUP ? 6 - first : GROUP;
    const int inside = tile - first * 2;
    const int tile_m = first + inside % rows, tile_n = inside / rows;
    tw::grid_wait();
    const int *order = (const int *)(ws + 0LL);
    const int batch = tw::load_written<int>((const int *)(ws + 384LL) + tile_m);
    if (batch < 0) return;
    const int m0 = tile_m * 16, n0 = tile_n * 16;
    const int tid = (int)threadIdx.x, lane = tid;
    const tw::u32 sa = tw::shared_address(smem), sb = sa + 5120;
    int row_a[2];
    TW_UNROLL
    for (int i = 0; i < 2; i++) {
        row_a[i] = tw::load_written<int>(order + (m0 + tid / 4 + i * 8)); row_a[i] -= row_a[i] == 34;
    }
    const int r_a = tid / 4, k_a = (tid % 4) * 8;
    const tw::u32 to_a = sa + ((((r_a)*32+k_a)^(((((r_a)*32+k_a)>>6)&3)<<3))) * 2;
    const int r_b = (tid % 2) * 8, k_b = tid / 2;
    const tw::bf16 *from_b = x1 + (batch * 3264LL + (n0 + r_b) + k_b * 24LL);
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
            const int row = row_a[i];
            tw::cp_async<16>(to_a + slot * 1024 + i * 512, x0 + (((t * 32 + k_a)) + (int(unsigned((row)) / 2u)) * 136), (t * 32 + k_a) < 136 ? 16 : 0);
        }
        TW_UNROLL
        for (int i = 0; i < 2; i++) {
            tw::cp_async<16>(to_b + slot * 1024 + i * 512, from_b + (t * 768LL + i * 384LL), (n0 + r_b) < 24 && (t * 32 + k_b + i * 16) < 136 ? 16 : 0);
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
        for (int j = 0; j < 2; j++) tw::mma_bf16(acc[0][j], fa[0], fb[j]);
    };
    int slot = 0, fill = 0;
    TW_UNROLL
    for (; fill < 4; fill++) {
        copy(fill, fill);
        tw::cp_commit();
    }
    tw::u32 fa[2][1][4], fb[2][2][2];
    tw::cp_wait<3>();
    tw::sync();
    read(fa[0], fb[0], 0, 0);
    for (int t = 0; t < 5; t++) {
        if (t + 4 < 5) copy(fill, t + 4);
        tw::cp_commit();
        const int next = slot + 1 == 5 ? 0 : slot + 1;
        read(fa[1], fb[1], slot, 1);
        multiply(fa[0], fb[0]);
        tw::cp_wait<3>();
        tw::sync();
        read(fa[0], fb[0], next, 0);
        multiply(fa[1], fb[1]);
        slot = next;
        fill = fill + 1 == 5 ? 0 : fill + 1;
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
            store(x2, x3, out, v, batch, tw::load_written<int>(order + (m0 + i * 16 + r)), n0 + c);
        }
    }
}

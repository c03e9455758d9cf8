// cuda_grouped_wgmma version 17, cuda:sm_90a
#line 1 "kernel"
namespace tw_golden_ {
TW_DEVICE tw::bf16 finish(const float *x2, const float *x3, float v, int batch, int m, int n) {
    const float s0 = v;
    return tw::to_bf16((float)((tw::load_global<float>(x3 + ((int(unsigned((m)) / 2u)) * 2 + (int(unsigned((m)) % 2u)))) * tw::max<float>((s0 + tw::load_global<float>(x2 + (((batch)) * 24 + ((n))))), 0.0f))));
}
TW_DEVICE void store(const float *x2, const float *x3, tw::bf16 *out, const float (&v)[4], int batch, int m, int n) {
    if (m >= 34) return;
    if (n >= 24) return;
    tw::pack<tw::bf16, 4> p;
    TW_UNROLL
    for (int j = 0; j < 4; j++) p.v[j] = finish(x2, x3, v[j], batch, m, n + j);
    tw::store_global(out + ((m) * 24 + ((n))), p);
}
}
TW_KERNEL(32, 1) void tw_golden_sort(const tw::bf16 *__restrict__ x0, const tw::bf16 *__restrict__ x1, const float *__restrict__ x2, const float *__restrict__ x3, const int *__restrict__ x4, tw::bf16 *__restrict__ out, unsigned char *__restrict__ ws) {
    TW_SHARED(smem);
    tw::grid_launch();
    int *const own = (int *)smem;
    const int batch = (int)blockIdx.x, tid = (int)threadIdx.x;
    int *const counts = own + 32;
    int *const sums = counts + 4;
    for (int b = tid; b < 4 + 2; b += 32) tw::store_shared(counts + b, 0);
    tw::sync();
    int equal = 0;
    for (int m = tid; m < 34; m += 32) {
        const int of = (int)(tw::min<long>(tw::max<long>((int)(tw::load_global<int>(x4 + ((int(unsigned((m)) / 2u)) * 2 + (int(unsigned((m)) % 2u))))), 0), 3));
        tw::atomic_add(counts + of, 1);
        equal += of == batch;
    }
    tw::store_shared(own + tid, equal);
    tw::sync();
    // Tiles of the batches before this one, and of all.
    for (int b = tid; b < 4; b += 32) {
        const int tiles = (tw::load_shared<int>(counts + b) + 64 - 1) / 64;
        if (b < batch) tw::atomic_add(sums, tiles);
        tw::atomic_add(sums + 1, tiles);
    }
    // Sums over this thread and those before it.
    for (int step = 1; step < 32; step *= 2) {
        const int more_equal = tid >= step ? tw::load_shared<int>(own + tid - step) : 0;
        tw::sync();
        tw::store_shared(own + tid, equal += more_equal);
        tw::sync();
    }
    const int count = tw::load_shared<int>(own + 32 - 1), used = (count + 64 - 1) / 64;
    const int tile = tw::load_shared<int>(sums);
    int *const order = (int *)(ws + 0LL) + tile * 64;
    int at = tid ? tw::load_shared<int>(own + tid - 1) : 0;
    for (int m = tid; m < 34; m += 32)
        if ((int)(tw::min<long>(tw::max<long>((int)(tw::load_global<int>(x4 + ((int(unsigned((m)) / 2u)) * 2 + (int(unsigned((m)) % 2u))))), 0), 3)) == batch) tw::store_global(order + at++, m);
    for (int e = count + tid; e < used * 64; e += 32) tw::store_global(order + e, 34);
    int *const batches = (int *)(ws + 1024LL);
    for (int t = tid; t < used; t += 32) tw::store_global(batches + tile + t, batch);
    if (batch == 0 && tid == 0) tw::store_global(batches + 4, tw::load_shared<int>(sums + 1));
}
TW_KERNEL(256, 1) void tw_golden(TW_TENSOR_MAP(map_b), const tw::bf16 *__restrict__ x0, const tw::bf16 *__restrict__ x1, const float *__restrict__ x2, const float *__restrict__ x3, const int *__restrict__ x4, tw::bf16 *__restrict__ out, unsigned char *__restrict__ ws, int GROUP) {
    TW_SHARED(smem);
    using namespace tw_golden_;
    const int tid = (int)threadIdx.x, lane = tid % 32;
    const int group = tw::shuffle(tid / 128, 0);  // the same for a warp, which the compiler is told so
    const tw::u32 start = tw::shared_address(smem), ring = (start + 1023) & ~1023u;
    const tw::u32 full = ring + 212992, empty = full + 48;
    if (tid == 0) {
        for (int s = 0; s < 6; s++) {
            tw::mbarrier_init(full + 8 * s, 5);
            tw::mbarrier_init(empty + 8 * s, 4);
        }
        tw::mbarrier_fence();
    }
    tw::sync();
    const int used = tw::load_written<int>((const int *)(ws + 1024LL) + 4);
    int slot = 0;
    tw::u32 turn = 0;  // parity of the ring's round
    const auto next = [&]() {
        slot = slot + 1 == 6 ? 0 : slot + 1;
        turn ^= slot == 0;
    };
    if (group == 1) {
        const int own = tid % 128;
        if (own == 0) tw::tma_prefetch(map_b);
        const tw::u32 at = own / 8 * 128 + ((own % 8 ^ own / 8 % 8) << 4);
        int begun = 0, late = 0;  // slots that nobody was told of, and the first of them
        const auto tell = [&]() {
            tw::shared_fence();
            tw::sync_warp();
            if (lane == 0) tw::mbarrier_arrive(full + 8 * late);
            late = late + 1 == 6 ? 0 : late + 1;
        };
        for (int work = (int)blockIdx.x; work < used; work += (int)gridDim.x) {
            int tile = work;
            const int tile_m = tile;
            const int *order = (const int *)(ws + 0LL);
            const int batch = tw::load_written<int>((const int *)(ws + 1024LL) + tile_m);
            const int m0 = tile_m * 64, n0 = 0;
            int parts = 1;  // with rows
            TW_UNROLL
            for (int i = 1; i < 1; i++) parts += tw::load_written<int>(order + (m0 + i * 64)) < 34;
            int from[4];
            TW_UNROLL
            for (int i = 0; i < 4; i++) {
                int row = tw::load_written<int>(order + (m0 + i * 16 + own / 8));
                row -= row == 34;
                from[i] = (0) + (int(unsigned((row)) / 2u)) * 136 + own % 8 * 8;
            }
            for (int t = 0; t < 2; t++) {
                tw::mbarrier_wait(empty + 8 * slot, turn ^ 1);
                const tw::u32 bar = full + 8 * slot, to = ring + slot * 32768;
                if (own == 0) {
                    tw::mbarrier_expect(bar, 16384);
                    tw::tma_load_3d(to + 16384, map_b, bar, n0, t * 128, batch);
                }
                TW_UNROLL
                for (int d = 0; d < 2; d++) {
                    const int k = t * 128 + d * 64;
                    const int left = (136 - k - own % 8 * 8) * 2;
                    const int valid = left < 0 ? 0 : left < 16 ? left : 16;
                    TW_UNROLL
                    for (int i = 0; i < 4; i++) {
                        if (i * 16 < parts * 64)
                            tw::cp_async<16>(to + at + d * 8192 + i * 2048, x0 + (from[i] + k), valid);
                    }
                }
                tw::cp_commit();
                next();
                if (begun < 2) {
                    begun++;
                } else {
                    tw::cp_wait<2>();
                    tell();
                }
            }
        }
        tw::cp_wait<0>();
        for (; begun > 0; begun--) tell();
    } else {
        const int warp = tid / 32 % 4;
        const tw::u32 boxes_at = ring + 196608 + group * 16384;
        unsigned char *const boxes = smem + (boxes_at - start);
        int place = 0;
        const tw::u64 first_a = tw::wgmma_operand(ring + group * 8192, 0, 1024);
        const tw::u64 first_b = tw::wgmma_operand(ring + 16384, 16384, 1024);
        float acc[1][32];
        // The products of the tile in a slot. A descriptor counts in 16 bytes.
        const auto multiply = [&](int s, int add) {
            const tw::u64 oa = first_a + (tw::u64)(s * 2048), ob = first_b + (tw::u64)(s * 2048);
            tw::wgmma_fence();
            tw::wgmma_bf16<0, 1>(acc[0], oa, ob, add);
            tw::wgmma_bf16<0, 1>(acc[0], oa + 2, ob + 128, 1);
            tw::wgmma_bf16<0, 1>(acc[0], oa + 4, ob + 256, 1);
            tw::wgmma_bf16<0, 1>(acc[0], oa + 6, ob + 384, 1);
            tw::wgmma_bf16<0, 1>(acc[0], oa + 512, ob + 512, 1);
            tw::wgmma_bf16<0, 1>(acc[0], oa + 514, ob + 640, 1);
            tw::wgmma_bf16<0, 1>(acc[0], oa + 516, ob + 768, 1);
            tw::wgmma_bf16<0, 1>(acc[0], oa + 518, ob + 896, 1);
            tw::wgmma_commit();
        };
        const auto release = [&](int s) {
            if (lane == 0) tw::mbarrier_arrive(empty + 8 * s);
        };
        for (int work = (int)blockIdx.x; work < used; work += (int)gridDim.x) {
            int tile = work;
            const int tile_m = tile;
            const int *order = (const int *)(ws + 0LL);
            const int batch = tw::load_written<int>((const int *)(ws + 1024LL) + tile_m);
            const int m0 = tile_m * 64, n0 = 0;
            tw::mbarrier_wait(full + 8 * slot, turn);
            TW_UNROLL
            for (int i = 0; i < 1; i++) tw::wgmma_hold(acc[i]);
            multiply(slot, 0);
            int before = slot;
            next();
            for (int t = 0 + 1; t < 2; t++) {
                tw::mbarrier_wait(full + 8 * slot, turn);
                multiply(slot, 1);
                tw::wgmma_wait<1>();
                release(before);
                before = slot;
                next();
            }
            tw::wgmma_wait<0>();
            TW_UNROLL
            for (int i = 0; i < 1; i++) tw::wgmma_hold(acc[i]);
            release(before);
            TW_UNROLL
            for (int i = 0; i < 1; i++) {
                const int *const rows = order + (m0 + (group * 1 + i) * 64 + warp * 16);
                int to[4];
                TW_UNROLL
                for (int q = 0; q < 4; q++) to[q] = tw::load_written<int>(rows + (q * 32 + lane) / 8);
                TW_UNROLL
                for (int s = 0; s < 1; s++) {
                    TW_UNROLL
                    for (int j = 0; j < 8; j++) {
                        TW_UNROLL
                        for (int h = 0; h < 2; h++) {
                            const int r = warp * 16 + h * 8 + lane / 4, c = j * 8 + lane % 4 * 2, e = (s * 8 + j) * 4 + 2 * h;
                            const int m = tw::load_written<int>(order + (m0 + (group * 1 + i) * 64 + r));
                            const int n = n0 + s * 64 + c;
                            tw::pack<tw::bf16, 2> two = {};
                            if (m < 34 && n < 24) {
                                two.v[0] = finish(x2, x3, acc[i][e], batch, m, n);
                                two.v[1] = finish(x2, x3, acc[i][e + 1], batch, m, n + 1);
                            }
                            const int at = r * 128 + c * 2;
                            tw::store_shared(boxes + place * 8192 + (at ^ ((at >> 7 & 7) << 4)), two);
                        }
                    }
                    tw::sync_warp();
                    const int n = n0 + s * 64 + lane % 8 * 8;
                    TW_UNROLL
                    for (int q = 0; q < 4; q++) {
                        const int m = to[q], at = (warp * 16 + (q * 32 + lane) / 8) * 128 + lane % 8 * 16;
                        const auto piece = tw::load_shared<tw::pack<tw::u32, 4>>(boxes + place * 8192 + (at ^ ((at >> 7 & 7) << 4)));
                        if (m < 34 && n < 24) tw::store_global(out + ((m) * 24 + (n)), piece);
                    }
                    place ^= 1;
                }
            }
        }
    }
}

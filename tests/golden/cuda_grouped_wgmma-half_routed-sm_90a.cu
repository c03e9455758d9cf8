// cuda_grouped_wgmma version 9, cuda:sm_90a
#line 1 "kernel"
namespace tw_golden_ {
TW_DEVICE tw::bf16 finish(const float *x2, const float *x3, float v, int batch, int m, int n) {
    const float s0 = v;
    return tw::to_bf16((float)((tw::load_global<float>(x3 + ((int(unsigned((m)) / 2u)) * 2 + (int(unsigned((m)) % 2u)))) * tw::max<float>((s0 + tw::load_global<float>(x2 + (((batch)) * 24 + ((n))))), 0.0f))));
}
TW_DEVICE void store(const float *x2, const float *x3, tw::bf16 *out, const float (&v)[2], int batch, int m, int n) {
    if (m >= 34) return;
    if (n >= 24) return;
    tw::pack<tw::bf16, 2> p;
    TW_UNROLL
    for (int j = 0; j < 2; j++) p.v[j] = finish(x2, x3, v[j], batch, m, n + j);
    tw::store_global(out + ((m) * 24 + ((n))), p);
}
}
TW_KERNEL(32, 1) void tw_golden_sort(const tw::bf16 *__restrict__ x0, const tw::bf16 *__restrict__ x1, const float *__restrict__ x2, const float *__restrict__ x3, const int *__restrict__ x4, tw::bf16 *__restrict__ out, unsigned char *__restrict__ ws) {
    TW_SHARED(smem);
    int *const before = (int *)smem;
    int *const own = before + 32;
    const int batch = (int)blockIdx.x, tid = (int)threadIdx.x;
    const int begin = tid * 2, end = begin + 2 < 34 ? begin + 2 : 34;
    int less = 0, equal = 0;
    for (int m = begin; m < end; m++) {
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
    const int first = tw::load_shared<int>(before + 32 - 1), count = tw::load_shared<int>(own + 32 - 1);
    const int tile = first / 64 + batch, next = (first + count) / 64 + batch + 1, used = (count + 64 - 1) / 64;
    int *const order = (int *)(ws + 0LL) + tile * 64;
    int at = tid ? tw::load_shared<int>(own + tid - 1) : 0;
    for (int m = begin; m < end; m++)
        if ((int)(tw::min<long>(tw::max<long>((int)(tw::load_global<int>(x4 + ((int(unsigned((m)) / 2u)) * 2 + (int(unsigned((m)) % 2u))))), 0), 3)) == batch) tw::store_global(order + at++, m);
    for (int e = count + tid; e < used * 64; e += 32) tw::store_global(order + e, 34);
    int *const batches = (int *)(ws + 1024LL) + tile;
    for (int t = tid; t < next - tile; t += 32) tw::store_global(batches + t, t < used ? batch : -1);
}
TW_KERNEL(256, 1) void tw_golden_gather(const tw::bf16 *__restrict__ x0, const tw::bf16 *__restrict__ x1, const float *__restrict__ x2, const float *__restrict__ x3, const int *__restrict__ x4, tw::bf16 *__restrict__ out, unsigned char *__restrict__ ws) {
    const long long e = (long long)blockIdx.x * 256 + threadIdx.x;
    if (e >= 4352LL) return;
    const int c = int(e % 17), place = int(e / 17);
    const int *const batches = (const int *)(ws + 1024LL);
    const int tile = place / 64;
    const bool used = tw::load_global<int>(batches + tile) >= 0;
    if (c == 0 && place % 64 == 0) {
        int before = 0;
        for (int t = 0; t < tile; t++) before += tw::load_global<int>(batches + t) >= 0;
        int *const list = (int *)(ws + 1040LL);
        tw::store_global(list + (used ? before : 3 - (tile - before)), used ? tile : -1);
    }
    if (!used) return;
    const int row = tw::load_global<int>((const int *)(ws + 0LL) + place);
    tw::pack<tw::u32, 4> v = {};
    if (row < 34) {
        v = tw::load_global<tw::pack<tw::u32, 4>>(x0 + ((c * 8) + (int(unsigned((row)) / 2u)) * 136));
    }
    tw::store_global(ws + 1152LL + e * 16, v);
}
TW_KERNEL(256, 1) void tw_golden(TW_TENSOR_MAP(map_a), TW_TENSOR_MAP(map_b), const tw::bf16 *__restrict__ x0, const tw::bf16 *__restrict__ x1, const float *__restrict__ x2, const float *__restrict__ x3, const int *__restrict__ x4, tw::bf16 *__restrict__ out, unsigned char *__restrict__ ws, int GROUP) {
    TW_SHARED(smem);
    using namespace tw_golden_;
    const int tid = (int)threadIdx.x, lane = tid % 32;
    const int group = tw::shuffle(tid / 128, 0);  // the same for a warp, which the compiler is told so
    const tw::u32 start = tw::shared_address(smem), ring = (start + 1023) & ~1023u;
    const tw::u32 full = ring + 229376, empty = full + 56;
    if (tid == 0) {
        for (int s = 0; s < 7; s++) {
            tw::mbarrier_init(full + 8 * s, 1);
            tw::mbarrier_init(empty + 8 * s, 4);
        }
        tw::mbarrier_fence();
    }
    tw::sync();
    int slot = 0;
    tw::u32 turn = 0;  // parity of the ring's round
    const auto next = [&]() {
        slot = slot + 1 == 7 ? 0 : slot + 1;
        turn ^= slot == 0;
    };
    if (group == 1) {
        if (tid == 128) {
            tw::tma_prefetch(map_a);
            tw::tma_prefetch(map_b);
            for (int work = (int)blockIdx.x; work < 4; work += (int)gridDim.x) {
                int tile = work;
                const int tile_m = tile;
                const int place = tw::load_global<int>((const int *)(ws + 1040LL) + tile_m);
                if (place < 0) continue;
                const int *order = (const int *)(ws + 0LL);
                const int batch = tw::load_global<int>((const int *)(ws + 1024LL) + place);
                const int m0 = place * 64, n0 = 0;
                for (int t = 0; t < 2; t++) {
                    tw::mbarrier_wait(empty + 8 * slot, turn ^ 1);
                    const tw::u32 bar = full + 8 * slot, to = ring + slot * 32768;
                    tw::mbarrier_expect(bar, 32768);
                    tw::tma_load_2d(to, map_a, bar, t * 128, m0);
                    tw::tma_load_2d(to + 8192, map_a, bar, t * 128 + 64, m0);
                    tw::tma_load_3d(to + 16384, map_b, bar, n0, t * 128, batch);
                    next();
                }
            }
        }
    } else {
        const int warp = tid / 32 % 4;
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
        for (int work = (int)blockIdx.x; work < 4; work += (int)gridDim.x) {
            int tile = work;
            const int tile_m = tile;
            const int place = tw::load_global<int>((const int *)(ws + 1040LL) + tile_m);
            if (place < 0) continue;
            const int *order = (const int *)(ws + 0LL);
            const int batch = tw::load_global<int>((const int *)(ws + 1024LL) + place);
            const int m0 = place * 64, n0 = 0;
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
                TW_UNROLL
                for (int j = 0; j < 8; j++) {
                    TW_UNROLL
                    for (int h = 0; h < 2; h++) {
                        const float v[2] = {acc[i][4 * j + 2 * h], acc[i][4 * j + 2 * h + 1]};
                        store(x2, x3, out, v, batch, tw::load_global<int>(order + (m0 + (group * 1 + i) * 64 + warp * 16 + h * 8 + lane / 4)), n0 + j * 8 + lane % 4 * 2);
                    }
                }
            }
        }
    }
}

// cuda_map version 2, cuda:sm_80
#line 1 "kernel"
TW_KERNEL(256, 1) void tw_golden(const tw::f16 *__restrict__ x0, const tw::f16 *__restrict__ x1, tw::f16 *__restrict__ out, unsigned char *__restrict__ ws) {
    (void)ws;
    TW_SHARED(smem);
    const int block = (int)blockIdx.x;
    const int i0 = int(unsigned(block) / 2u);
    const int i10 = (int(unsigned(block) % 2u)) * 64;
    const int i20 = (0) * 64;
    tw::f16 *const s0 = (tw::f16 *)(smem);
    TW_UNROLL
    for (int u = 0; u < 8; u++) {
        const int e = (int)threadIdx.x + u * 256;
        const int row = e / 32, at = e % 32 * 2;
        const int i2 = i20 + row, i1 = i10 + at;
        if (i2 < 40 && i1 < 68) {
            const tw::pack<tw::f16, 2> vs0 = tw::load_global<tw::pack<tw::f16, 2>>(x0 + ((((i0 * 2720) + (i2 * 68)) + i1)));
            TW_UNROLL
            for (int j = 0; j < 2; j++) tw::store_shared(s0 + row * 65 + at + j, vs0.v[j]);
        }
    }
    tw::sync();
    TW_UNROLL
    for (int u = 0; u < 2; u++) {
        const int e = (int)threadIdx.x + u * 256;
        const int at = e / 8, row = e % 8 * 8;
        const int i1 = i10 + at, i2b = i20 + row;
        if (i1 < 68 && i2b < 40) {
            tw::pack<tw::f16, 8> q1p[1];
            q1p[0] = tw::load_global<tw::pack<tw::f16, 8>>(x1 + (((i1 * 40) + i2b)));
            tw::pack<tw::f16, 8> op[1];
            TW_UNROLL
            for (int j = 0; j < 8; j++) {
                op[0].v[j] = tw::to_f16((float)((tw::to_float(tw::load_shared<tw::f16>(s0 + (row + j) * 65 + at)) + tw::to_float(q1p[0].v[j]))));
            }
            tw::store_global(out + ((((i0 * 2720) + (i1 * 40)) + i2b)), op[0]);
        }
    }
}

// cuda_stencil version 1, cuda:sm_80
#line 1 "kernel"
TW_KERNEL(64, 1) void tw_golden(const tw::f16 *__restrict__ x0, const tw::f16 *__restrict__ x1, tw::f16 *__restrict__ out, unsigned char *__restrict__ ws) {
    (void)ws;
    const int e = (int)blockIdx.x * 64 + (int)threadIdx.x;
    if (e >= 100) return;
    const int i0 = 0;
    const int i1 = int(unsigned(e) / 20u);
    const int i2 = int(unsigned(e) / 2u % 10u);
    const int i3 = (int(unsigned(e) % 2u)) * 8;
    float a0[1][8];
    TW_UNROLL
    for (int i = 0; i < 1; i++)
        TW_UNROLL
        for (int j = 0; j < 8; j++) { a0[i][j] = 0.0f; }
    TW_UNROLL
    for (int r0 = 0; r0 < 3; r0++) {
        float g0_0[8];
        if (((((i1 * 2) + r0) - 1) >= 0) && ((((i1 * 2) + r0) - 1) < 9) && ((i2 - 2) >= 0)) {
            tw::pack<tw::f16, 8> g0_0q0[1];
            g0_0q0[0] = tw::load_global<tw::pack<tw::f16, 8>>(x0 + ((((((((i0 * 1440) + (i1 * 320)) + (r0 * 160)) + (i2 * 16)) + i3) + 0) - 192)));
            TW_UNROLL
            for (int j = 0; j < 8; j++) {
                g0_0[j] = tw::to_float(g0_0q0[0].v[j]);
            }
        } else {
            TW_UNROLL
            for (int j = 0; j < 8; j++) g0_0[j] = 0.0f;
        }
        float g0_2[8];
        if (((((i1 * 2) + r0) - 1) >= 0) && ((((i1 * 2) + r0) - 1) < 9)) {
            tw::pack<tw::f16, 8> g0_2q0[1];
            g0_2q0[0] = tw::load_global<tw::pack<tw::f16, 8>>(x0 + ((((((((i0 * 1440) + (i1 * 320)) + (r0 * 160)) + (i2 * 16)) + i3) + 0) - 160)));
            TW_UNROLL
            for (int j = 0; j < 8; j++) {
                g0_2[j] = tw::to_float(g0_2q0[0].v[j]);
            }
        } else {
            TW_UNROLL
            for (int j = 0; j < 8; j++) g0_2[j] = 0.0f;
        }
        float g0_4[8];
        if (((((i1 * 2) + r0) - 1) >= 0) && ((((i1 * 2) + r0) - 1) < 9) && ((i2 + 2) < 10)) {
            tw::pack<tw::f16, 8> g0_4q0[1];
            g0_4q0[0] = tw::load_global<tw::pack<tw::f16, 8>>(x0 + ((((((((i0 * 1440) + (i1 * 320)) + (r0 * 160)) + (i2 * 16)) + i3) + 0) - 128)));
            TW_UNROLL
            for (int j = 0; j < 8; j++) {
                g0_4[j] = tw::to_float(g0_4q0[0].v[j]);
            }
        } else {
            TW_UNROLL
            for (int j = 0; j < 8; j++) g0_4[j] = 0.0f;
        }
        {
            tw::pack<tw::f16, 8> wq0[1];
            wq0[0] = tw::load_global<tw::pack<tw::f16, 8>>(x1 + (((((r0 * 48) + (0 * 16)) + (0 * 16)) + i3)));
            TW_UNROLL
            for (int j = 0; j < 8; j++) {
                const float av0 = (g0_0[j] * tw::to_float(wq0[0].v[j]));
                a0[0][j] = (a0[0][j] + av0);
            }
        }
        {
            tw::pack<tw::f16, 8> wq0[1];
            wq0[0] = tw::load_global<tw::pack<tw::f16, 8>>(x1 + (((((r0 * 48) + (1 * 16)) + (0 * 16)) + i3)));
            TW_UNROLL
            for (int j = 0; j < 8; j++) {
                const float av0 = (g0_2[j] * tw::to_float(wq0[0].v[j]));
                a0[0][j] = (a0[0][j] + av0);
            }
        }
        {
            tw::pack<tw::f16, 8> wq0[1];
            wq0[0] = tw::load_global<tw::pack<tw::f16, 8>>(x1 + (((((r0 * 48) + (2 * 16)) + (0 * 16)) + i3)));
            TW_UNROLL
            for (int j = 0; j < 8; j++) {
                const float av0 = (g0_4[j] * tw::to_float(wq0[0].v[j]));
                a0[0][j] = (a0[0][j] + av0);
            }
        }
    }
    {
        tw::pack<tw::f16, 8> op[1];
        TW_UNROLL
        for (int j = 0; j < 8; j++) {
            op[0].v[j] = tw::to_f16((float)(a0[0][j]));
        }
        tw::store_global(out + (i1 * 160 + i2 * 16 + i3), op[0]);
    }
}

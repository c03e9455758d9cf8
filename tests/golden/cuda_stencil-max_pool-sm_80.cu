// cuda_stencil version 1, cuda:sm_80
#line 1 "kernel"
TW_KERNEL(128, 1) void tw_golden(const float *__restrict__ x0, float *__restrict__ out, unsigned char *__restrict__ ws) {
    (void)ws;
    const int e = (int)blockIdx.x * 128 + (int)threadIdx.x;
    if (e >= 252) return;
    const int i0 = int(unsigned(e) / 126u);
    const int i1 = int(unsigned(e) / 42u % 3u);
    const int i2 = int(unsigned(e) / 6u % 7u);
    const int i3 = int(unsigned(e) % 6u);
    float a0[1][1];
    TW_UNROLL
    for (int i = 0; i < 1; i++)
        TW_UNROLL
        for (int j = 0; j < 1; j++) { a0[i][j] = -__builtin_inff(); }
    TW_UNROLL
    for (int r1 = 0; r1 < 3; r1++) {
        float g0_0[1];
        if ((((i2 * 2) - 1) >= 0) && ((((i3 * 2) + r1) - 1) >= 0)) {
            g0_0[0] = tw::load_global<float>(x0 + ((((((((i0 * 468) + (i1 * 156)) + (i2 * 24)) + (i3 * 2)) + r1) - 13))));
        } else {
            g0_0[0] = -__builtin_inff();
        }
        float g0_1[1];
        if (((((i3 * 2) + r1) - 1) >= 0)) {
            g0_1[0] = tw::load_global<float>(x0 + ((((((((i0 * 468) + (i1 * 156)) + (i2 * 24)) + (i3 * 2)) + r1) - 1))));
        } else {
            g0_1[0] = -__builtin_inff();
        }
        float g0_2[1];
        if ((((i2 * 2) + 1) < 13) && ((((i3 * 2) + r1) - 1) >= 0)) {
            g0_2[0] = tw::load_global<float>(x0 + ((((((((i0 * 468) + (i1 * 156)) + (i2 * 24)) + (i3 * 2)) + r1) + 11))));
        } else {
            g0_2[0] = -__builtin_inff();
        }
        {
            {
                const float av0 = g0_0[0];
                a0[0][0] = tw::max<float>(a0[0][0], av0);
            }
        }
        {
            {
                const float av0 = g0_1[0];
                a0[0][0] = tw::max<float>(a0[0][0], av0);
            }
        }
        {
            {
                const float av0 = g0_2[0];
                a0[0][0] = tw::max<float>(a0[0][0], av0);
            }
        }
    }
    {
        tw::store_global(out + (i0 * 126 + i1 * 42 + i2 * 6 + i3), (float)(a0[0][0]));
    }
}

// cuda_stencil version 1, cuda:sm_90a
#line 1 "kernel"
TW_KERNEL(128, 1) void tw_golden(const float *__restrict__ x0, const float *__restrict__ x1, const float *__restrict__ x2, float *__restrict__ out, unsigned char *__restrict__ ws) {
    (void)ws;
    const int e = (int)blockIdx.x * 128 + (int)threadIdx.x;
    if (e >= 990) return;
    const int i0 = int(unsigned(e) / 495u);
    const int i1 = int(unsigned(e) / 99u % 5u);
    const int i2 = int(unsigned(e) / 11u % 9u);
    const int i3 = int(unsigned(e) % 11u);
    float a0[1][1];
    TW_UNROLL
    for (int i = 0; i < 1; i++)
        TW_UNROLL
        for (int j = 0; j < 1; j++) { a0[i][j] = 0.0f; }
    TW_UNROLL
    for (int r2 = 0; r2 < 3; r2++) {
        float g0_0[1];
        if (((i2 - 1) >= 0) && (((i3 + r2) - 1) >= 0) && (((i3 + r2) - 1) < 11)) {
            g0_0[0] = tw::load_global<float>(x0 + (((((((((i0 * 495) + (i1 * 99)) + (0 * 99)) + (i2 * 11)) + i3) + r2) - 12))));
        } else {
            g0_0[0] = 0.0f;
        }
        float g0_1[1];
        if ((((i3 + r2) - 1) >= 0) && (((i3 + r2) - 1) < 11)) {
            g0_1[0] = tw::load_global<float>(x0 + (((((((((i0 * 495) + (i1 * 99)) + (0 * 99)) + (i2 * 11)) + i3) + r2) - 1))));
        } else {
            g0_1[0] = 0.0f;
        }
        float g0_2[1];
        if (((i2 + 1) < 9) && (((i3 + r2) - 1) >= 0) && (((i3 + r2) - 1) < 11)) {
            g0_2[0] = tw::load_global<float>(x0 + (((((((((i0 * 495) + (i1 * 99)) + (0 * 99)) + (i2 * 11)) + i3) + r2) + 10))));
        } else {
            g0_2[0] = 0.0f;
        }
        {
            {
                const float av0 = (g0_0[0] * tw::load_global<float>(x1 + ((((((i1 * 9) + (0 * 9)) + (0 * 3)) + r2)))));
                a0[0][0] = (a0[0][0] + av0);
            }
        }
        {
            {
                const float av0 = (g0_1[0] * tw::load_global<float>(x1 + ((((((i1 * 9) + (0 * 9)) + (1 * 3)) + r2)))));
                a0[0][0] = (a0[0][0] + av0);
            }
        }
        {
            {
                const float av0 = (g0_2[0] * tw::load_global<float>(x1 + ((((((i1 * 9) + (0 * 9)) + (2 * 3)) + r2)))));
                a0[0][0] = (a0[0][0] + av0);
            }
        }
    }
    {
        tw::store_global(out + (i0 * 495 + i1 * 99 + i2 * 11 + i3), (float)(tw::max<float>((a0[0][0] + tw::load_global<float>(x2 + ((i1)))), 0.0f)));
    }
}

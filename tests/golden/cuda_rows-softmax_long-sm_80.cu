// cuda_rows version 2, cuda:sm_80
#line 1 "kernel"
TW_KERNEL(512, 1) void tw_golden(const float *__restrict__ x0, float *__restrict__ out, unsigned char *__restrict__ ws) {
    (void)ws; (void)out;
    TW_SHARED(smem);
    const int lane = (int)threadIdx.x;
    float s1k[1][4];
    float c0k[1][4];
    float s0a0 = -__builtin_inff();
    for (int k = 0; k < 1; k++) {
        const int col = lane * 4;
        if (col < 1300) {
            const int r0b = col;
            tw::pack<float, 4> c0p[1];
            c0p[0] = tw::load_global<tw::pack<float, 4>>(x0 + (r0b));
            TW_UNROLL
            for (int j = 0; j < 4; j++) {
                const float c0 = c0p[0].v[j];
                c0k[k][j] = c0;
                const float s0av0 = c0;
                s0a0 = tw::max<float>(s0a0, s0av0);
            }
        }
    }
    TW_UNROLL
    for (int mask = 1; mask < 32; mask *= 2) {
        const float s0ao0 = tw::exchange(s0a0, mask);
        s0a0 = tw::max<float>(s0a0, s0ao0);
    }
    if ((int)threadIdx.x % 32 == 0) {
        tw::store_shared((float *)(smem) + (int)threadIdx.x / 32, s0a0);
    }
    tw::sync();
    {
        const float s0ao0 = tw::load_shared<float>((const float *)(smem) + 0 + (int)threadIdx.x % 16);
        s0a0 = s0ao0;
    }
    TW_UNROLL
    for (int mask = 1; mask < 16; mask *= 2) {
        const float s0ao0 = tw::exchange(s0a0, mask);
        s0a0 = tw::max<float>(s0a0, s0ao0);
    }
    const float s0 = s0a0;
    float s2a0 = 0.0f;
    for (int k = 0; k < 1; k++) {
        const int col = lane * 4;
        if (col < 1300) {
            TW_UNROLL
            for (int j = 0; j < 4; j++) {
                const float c0 = c0k[k][j];
                const float s1 = tw::exp(float((c0 - s0)));
                const float s2av0 = s1;
                s2a0 = (s2a0 + s2av0);
                s1k[k][j] = s1;
            }
        }
    }
    TW_UNROLL
    for (int mask = 1; mask < 32; mask *= 2) {
        const float s2ao0 = tw::exchange(s2a0, mask);
        s2a0 = (s2a0 + s2ao0);
    }
    if ((int)threadIdx.x % 32 == 0) {
        tw::store_shared((float *)(smem + 64) + (int)threadIdx.x / 32, s2a0);
    }
    tw::sync();
    {
        const float s2ao0 = tw::load_shared<float>((const float *)(smem + 64) + 0 + (int)threadIdx.x % 16);
        s2a0 = s2ao0;
    }
    TW_UNROLL
    for (int mask = 1; mask < 16; mask *= 2) {
        const float s2ao0 = tw::exchange(s2a0, mask);
        s2a0 = (s2a0 + s2ao0);
    }
    const float s2 = s2a0;
    for (int k = 0; k < 1; k++) {
        const int col = lane * 4;
        if (col < 1300) {
            const int r0b = col;
            tw::pack<float, 4> op[1];
            TW_UNROLL
            for (int j = 0; j < 4; j++) {
                const float s1 = s1k[k][j];
                op[0].v[j] = (float)((s1 / s2));
            }
            tw::store_global(out + (r0b), op[0]);
        }
    }
}

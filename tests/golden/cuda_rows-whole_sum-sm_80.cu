// cuda_rows version 1, cuda:sm_80
#line 1 "kernel"
TW_KERNEL(128, 1) void tw_golden(const double *__restrict__ x0, double *__restrict__ out, unsigned char *__restrict__ ws) {
    (void)ws; (void)out;
    TW_SHARED(smem);
    const int lane = (int)threadIdx.x;
    const int row = (int)blockIdx.x / 2;
    const int piece = (int)blockIdx.x % 2;
    double s0a0 = 0.0;
    for (int k = 0; k < 5; k++) {
        const int col = ((piece * 5 + k) * 128 + lane) * 2;
        if (col < 2100) {
            const int r0b = col;
            tw::pack<double, 2> q0p[1];
            q0p[0] = tw::load_global<tw::pack<double, 2>>(x0 + (r0b));
            TW_UNROLL
            for (int j = 0; j < 2; j++) {
                const double q0 = q0p[0].v[j];
                const double s0av0 = tw::abs(double(q0));
                s0a0 = (s0a0 + s0av0);
            }
        }
    }
    TW_UNROLL
    for (int mask = 1; mask < 32; mask *= 2) {
        const double s0ao0 = tw::exchange(s0a0, mask);
        s0a0 = (s0a0 + s0ao0);
    }
    if ((int)threadIdx.x % 32 == 0) {
        tw::store_shared((double *)(smem) + (int)threadIdx.x / 32, s0a0);
    }
    tw::sync();
    {
        const double s0ao0 = tw::load_shared<double>((const double *)(smem) + 0 + (int)threadIdx.x % 4);
        s0a0 = s0ao0;
    }
    TW_UNROLL
    for (int mask = 1; mask < 4; mask *= 2) {
        const double s0ao0 = tw::exchange(s0a0, mask);
        s0a0 = (s0a0 + s0ao0);
    }
    if (lane == 0) {
        tw::store_global((double *)(ws) + row * 2 + piece, s0a0);
    }
}
TW_KERNEL(128, 1) void tw_golden_combine(const double *__restrict__ x0, double *__restrict__ out, unsigned char *__restrict__ ws) {
    const int lane = (int)threadIdx.x % 32;
    const int place = (int)blockIdx.x * 4 + (int)threadIdx.x / 32;
    const int row = place < 1 ? place : 0;
    double s0a0 = 0.0;
    for (int k = lane; k < 2; k += 32) {
        const double s0ao0 = tw::load_global<double>((double *)(ws) + row * 2 + k);
        s0a0 = (s0a0 + s0ao0);
    }
    TW_UNROLL
    for (int mask = 1; mask < 32; mask *= 2) {
        const double s0ao0 = tw::exchange(s0a0, mask);
        s0a0 = (s0a0 + s0ao0);
    }
    const double s0 = s0a0;
    if (lane == 0 && place < 1) tw::store_global(out + (0), (double)(s0));
}

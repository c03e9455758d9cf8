// cuda_generic version 1, cuda:sm_90a
#line 1 "kernel"
TW_KERNEL(256, 1) void tw_golden(const float *__restrict__ x0, float *__restrict__ out) {
    const int place = (int)blockIdx.x * 8 + (int)threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    const int e = place < 6 ? place : 5;
    const int i0 = e;
    float a0 = 0.0f;
    float a1 = 0.0f;
    float a2 = 0.0f;
    for (int k = lane; k < 75; k += 32) {
        const int r0 = k;
        const float av0 = 1.0f;
        const float av1 = tw::load_global<float>(x0 + ((i0) * 75 + (r0)));
        const float av2 = 0.0f;
        const float am0 = (a0 + av0);
        const float am1 = (av1 - a1);
        const float am2 = ((am0 > 0.0f) ? (av0 / am0) : 0.0f);
        const float an0 = am0;
        const float an1 = (a1 + (am1 * am2));
        const float an2 = ((a2 + av2) + (((am1 * am1) * a0) * am2));
        a0 = an0;
        a1 = an1;
        a2 = an2;
    }
    TW_UNROLL
    for (int mask = 1; mask < 32; mask *= 2) {
        const float ao0 = tw::exchange(a0, mask);
        const float ao1 = tw::exchange(a1, mask);
        const float ao2 = tw::exchange(a2, mask);
        if ((int)threadIdx.x & mask) {
            const float am0 = (ao0 + a0);
            const float am1 = (a1 - ao1);
            const float am2 = ((am0 > 0.0f) ? (a0 / am0) : 0.0f);
            const float an0 = am0;
            const float an1 = (ao1 + (am1 * am2));
            const float an2 = ((ao2 + a2) + (((am1 * am1) * ao0) * am2));
            a0 = an0;
            a1 = an1;
            a2 = an2;
        } else {
            const float am0 = (a0 + ao0);
            const float am1 = (ao1 - a1);
            const float am2 = ((am0 > 0.0f) ? (ao0 / am0) : 0.0f);
            const float an0 = am0;
            const float an1 = (a1 + (am1 * am2));
            const float an2 = ((a2 + ao2) + (((am1 * am1) * a0) * am2));
            a0 = an0;
            a1 = an1;
            a2 = an2;
        }
    }
    if (lane == 0 && place < 6) {
        tw::store_global(out + e, (float)((a2 / a0)));
    }
}

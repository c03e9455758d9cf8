// cuda_generic version 1, cuda:sm_90a
#line 1 "kernel"
TW_KERNEL(256, 1) void tw_golden(const float *__restrict__ x0, float *__restrict__ out) {
    const int place = (int)blockIdx.x * 16 + (int)threadIdx.x / 16;
    const int lane = (int)threadIdx.x % 16;
    const int e = place < 9 ? place : 8;
    const int i0 = e;
    float a0 = -__builtin_inff();
    for (int k = lane; k < 52; k += 16) {
        const int r0 = k;
        const float av0 = tw::load_global<float>(x0 + ((i0) * 52 + (r0)));
        a0 = tw::max<float>(a0, av0);
    }
    TW_UNROLL
    for (int mask = 1; mask < 16; mask *= 2) {
        const float ao0 = tw::exchange(a0, mask);
        a0 = tw::max<float>(a0, ao0);
    }
    if (lane == 0 && place < 9) {
        tw::store_global(out + e, (float)(a0));
    }
}
TW_KERNEL(256, 1) void tw_golden_s2(const float *__restrict__ x0, const float *__restrict__ s0, float *__restrict__ out) {
    const int place = (int)blockIdx.x * 16 + (int)threadIdx.x / 16;
    const int lane = (int)threadIdx.x % 16;
    const int e = place < 9 ? place : 8;
    const int i0 = e;
    float a0 = 0.0f;
    for (int k = lane; k < 52; k += 16) {
        const int r0 = k;
        const float av0 = tw::exp(float((tw::load_global<float>(x0 + ((i0) * 52 + (r0))) - tw::load_global<float>(s0 + ((i0))))));
        a0 = (a0 + av0);
    }
    TW_UNROLL
    for (int mask = 1; mask < 16; mask *= 2) {
        const float ao0 = tw::exchange(a0, mask);
        a0 = (a0 + ao0);
    }
    if (lane == 0 && place < 9) {
        tw::store_global(out + e, (float)(a0));
    }
}
TW_KERNEL(256, 1) void tw_golden_s3(const float *__restrict__ x0, const float *__restrict__ s0, const float *__restrict__ s2, float *__restrict__ out) {
    const int first = (int)blockIdx.x * 256 + (int)threadIdx.x;
    TW_UNROLL
    for (int u = 0; u < 1; u++) {
        const int e = first + u * 256;
        if (e >= 468) break;
        const int i0 = int(unsigned(e) / 52u);
        const int i1 = int(unsigned(e) % 52u);
        tw::store_global(out + e, (float)((tw::exp(float((tw::load_global<float>(x0 + ((i0) * 52 + (i1))) - tw::load_global<float>(s0 + ((i0)))))) / tw::load_global<float>(s2 + ((i0))))));
    }
}

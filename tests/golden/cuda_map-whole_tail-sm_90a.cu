// cuda_map version 1, cuda:sm_90a
#line 1 "kernel"
TW_KERNEL(256, 1) void tw_golden(const float *__restrict__ x0, const float *__restrict__ x1, float *__restrict__ out, unsigned char *__restrict__ ws) {
    (void)ws;
    const int e = (int)blockIdx.x * 256 + (int)threadIdx.x;
    if (e >= 1023) return;
    const int e0 = e;
    const int i0b = e0;
    const int i0 = i0b;
    tw::store_global(out + (i0), (float)((tw::load_global<float>(x0 + ((i0))) / (1.0f + tw::abs(float(tw::load_global<float>(x1 + ((i0)))))))));
}

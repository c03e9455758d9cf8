// cuda_map version 1, cuda:sm_90a
#line 1 "kernel"
TW_KERNEL(256, 1) void tw_golden(const float *__restrict__ x0, const float *__restrict__ x1, const float *__restrict__ x2, float *__restrict__ out, unsigned char *__restrict__ ws) {
    (void)ws;
    const int e = (int)blockIdx.x * 256 + (int)threadIdx.x;
    if (e >= 480) return;
    const int e0 = e;
    const int i0 = int(unsigned(e0) / 40u);
    const int i1b = int(unsigned(e0) % 40u);
    const int i1 = i1b;
    const float t0 = ((tw::load_global<float>(x0 + ((((i0 * 40) + i1)))) * tw::load_global<float>(x2 + ((i0)))) + tw::load_global<float>(x1 + ((i1))));
    tw::store_global(out + (((i0 * 40) + i1)), (float)((tw::max<float>(t0, 0.0f) + tw::tanh(float(t0)))));
}

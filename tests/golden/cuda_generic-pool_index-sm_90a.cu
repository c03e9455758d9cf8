// cuda_generic version 1, cuda:sm_90a
#line 1 "kernel"
TW_KERNEL(256, 1) void tw_golden(const float *__restrict__ x0, long long *__restrict__ out) {
    const int first = (int)blockIdx.x * 256 + (int)threadIdx.x;
    TW_UNROLL
    for (int u = 0; u < 1; u++) {
        const int e = first + u * 256;
        if (e >= 90) break;
        const int i0 = int(unsigned(e) / 10u);
        const int i1 = int(unsigned(e) % 10u);
        float a0 = -__builtin_inff();
        long a1 = -1L;
        for (int r0 = 0; r0 < 5; r0++) {
            const float av0 = tw::load_global<float>(x0 + ((i0) * 14 + ((i1 + r0))));
            const long av1 = r0;
            const float an0 = (((av1 >= 0L) && ((((av0 > a0) || ((av0 != av0) && (!(a0 != a0)))) || (((av0 == a0) || ((av0 != av0) && (a0 != a0))) && (av1 < a1))) || (a1 < 0L))) ? av0 : a0);
            const long an1 = (((av1 >= 0L) && ((((av0 > a0) || ((av0 != av0) && (!(a0 != a0)))) || (((av0 == a0) || ((av0 != av0) && (a0 != a0))) && (av1 < a1))) || (a1 < 0L))) ? av1 : a1);
            a0 = an0;
            a1 = an1;
        }
        tw::store_global(out + e, (long long)(a1));
    }
}

// cuda_rows version 1, cuda:sm_80
#line 1 "kernel"
TW_KERNEL(128, 1) void tw_golden(const tw::f16 *__restrict__ x0, long long *__restrict__ out, unsigned char *__restrict__ ws) {
    (void)ws; (void)out;
    TW_SHARED(smem);
    const int lane = (int)threadIdx.x;
    const int row = (int)blockIdx.x;
    const int i0 = row;
    float s0a0 = -__builtin_inff();
    long s0a1 = -1L;
    for (int k = 0; k < 1; k++) {
        const int col = lane * 2;
        if (col < 130) {
            const int r0b = col;
            tw::pack<tw::f16, 2> q0p[1];
            q0p[0] = tw::load_global<tw::pack<tw::f16, 2>>(x0 + (((i0 * 130) + r0b)));
            TW_UNROLL
            for (int j = 0; j < 2; j++) {
                const int c = col + j;
                const int r0 = c;
                const float q0 = tw::to_float(q0p[0].v[j]);
                const float s0av0 = q0;
                const long s0av1 = r0;
                const float s0an0 = (((s0av1 >= 0L) && ((((s0av0 > s0a0) || ((s0av0 != s0av0) && (!(s0a0 != s0a0)))) || (((s0av0 == s0a0) || ((s0av0 != s0av0) && (s0a0 != s0a0))) && (s0av1 < s0a1))) || (s0a1 < 0L))) ? s0av0 : s0a0);
                const long s0an1 = (((s0av1 >= 0L) && ((((s0av0 > s0a0) || ((s0av0 != s0av0) && (!(s0a0 != s0a0)))) || (((s0av0 == s0a0) || ((s0av0 != s0av0) && (s0a0 != s0a0))) && (s0av1 < s0a1))) || (s0a1 < 0L))) ? s0av1 : s0a1);
                s0a0 = s0an0;
                s0a1 = s0an1;
            }
        }
    }
    TW_UNROLL
    for (int mask = 1; mask < 32; mask *= 2) {
        const float s0ao0 = tw::exchange(s0a0, mask);
        const long s0ao1 = tw::exchange(s0a1, mask);
        const float s0an0 = (((s0ao1 >= 0L) && ((((s0ao0 > s0a0) || ((s0ao0 != s0ao0) && (!(s0a0 != s0a0)))) || (((s0ao0 == s0a0) || ((s0ao0 != s0ao0) && (s0a0 != s0a0))) && (s0ao1 < s0a1))) || (s0a1 < 0L))) ? s0ao0 : s0a0);
        const long s0an1 = (((s0ao1 >= 0L) && ((((s0ao0 > s0a0) || ((s0ao0 != s0ao0) && (!(s0a0 != s0a0)))) || (((s0ao0 == s0a0) || ((s0ao0 != s0ao0) && (s0a0 != s0a0))) && (s0ao1 < s0a1))) || (s0a1 < 0L))) ? s0ao1 : s0a1);
        s0a0 = s0an0;
        s0a1 = s0an1;
    }
    if ((int)threadIdx.x % 32 == 0) {
        tw::store_shared((float *)(smem) + (int)threadIdx.x / 32, s0a0);
        tw::store_shared((long *)(smem + 32) + (int)threadIdx.x / 32, s0a1);
    }
    tw::sync();
    {
        const float s0ao0 = tw::load_shared<float>((const float *)(smem) + 0 + (int)threadIdx.x % 4);
        const long s0ao1 = tw::load_shared<long>((const long *)(smem + 32) + 0 + (int)threadIdx.x % 4);
        s0a0 = s0ao0;
        s0a1 = s0ao1;
    }
    TW_UNROLL
    for (int mask = 1; mask < 4; mask *= 2) {
        const float s0ao0 = tw::exchange(s0a0, mask);
        const long s0ao1 = tw::exchange(s0a1, mask);
        const float s0an0 = (((s0ao1 >= 0L) && ((((s0ao0 > s0a0) || ((s0ao0 != s0ao0) && (!(s0a0 != s0a0)))) || (((s0ao0 == s0a0) || ((s0ao0 != s0ao0) && (s0a0 != s0a0))) && (s0ao1 < s0a1))) || (s0a1 < 0L))) ? s0ao0 : s0a0);
        const long s0an1 = (((s0ao1 >= 0L) && ((((s0ao0 > s0a0) || ((s0ao0 != s0ao0) && (!(s0a0 != s0a0)))) || (((s0ao0 == s0a0) || ((s0ao0 != s0ao0) && (s0a0 != s0a0))) && (s0ao1 < s0a1))) || (s0a1 < 0L))) ? s0ao1 : s0a1);
        s0a0 = s0an0;
        s0a1 = s0an1;
    }
    const long s0 = s0a1;
    if (lane == 0) tw::store_global(out + (i0), (long long)(s0));
}

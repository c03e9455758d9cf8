// cuda_rows version 1, cuda:sm_90a
#line 1 "kernel"
TW_KERNEL(512, 1) void tw_golden(const float *__restrict__ x0, float *__restrict__ out, unsigned char *__restrict__ ws) {
    (void)ws; (void)out;
    TW_SHARED(smem);
    const int lane = (int)threadIdx.x / 32;
    const int group = (int)threadIdx.x % 32;
    const int place = (int)blockIdx.x * 32 + group;
    const int row = place < 45 ? place : 44;
    const int i0 = row;
    float s0a0 = 0.0f;
    for (int k = 0; k < 5; k++) {
        const int col = (k * 16 + lane);
        if (col < 70) {
            const int r0 = col;
            const float s0av0 = tw::load_global<float>(x0 + ((((r0 * 45) + i0))));
            s0a0 = (s0a0 + s0av0);
        }
    }
    tw::store_shared((float *)(smem) + (int)threadIdx.x, s0a0);
    tw::sync();
    {
        const float s0ao0 = tw::load_shared<float>((const float *)(smem) + group);
        s0a0 = s0ao0;
    }
    for (int w = 1; w < 16; w++) {
        const float s0ao0 = tw::load_shared<float>((const float *)(smem) + group + w * 32);
        s0a0 = (s0a0 + s0ao0);
    }
    const float s0 = s0a0;
    if (lane == 0 && place < 45) tw::store_global(out + (i0), (float)(s0));
}

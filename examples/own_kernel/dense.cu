// A dense layer for CUDA: a block computes BM x BN elements, a thread TM x TN of them; BK steps of k lie in
// shared memory. The macros are the knobs; grid and block are given when it is tuned.
__global__ void __launch_bounds__((BM / TM) * (BN / TN))
dense(const float *__restrict__ a, const float *__restrict__ b, const float *__restrict__ bias,
      float *__restrict__ out, int m, int n, int k) {
    __shared__ float as[BK][BM], bs[BK][BN];
    const int threads = (BM / TM) * (BN / TN), t = threadIdx.y * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * BM, col = blockIdx.x * BN;
    float sum[TM][TN] = {};
    for (int r0 = 0; r0 < k; r0 += BK) {
        for (int e = t; e < BM * BK; e += threads) {
            const int i = e / BK, r = e % BK;
            as[r][i] = row + i < m && r0 + r < k ? a[(row + i) * k + r0 + r] : 0.0f;
        }
        for (int e = t; e < BK * BN; e += threads) {
            const int r = e / BN, j = e % BN;
            bs[r][j] = r0 + r < k && col + j < n ? b[(r0 + r) * n + col + j] : 0.0f;
        }
        __syncthreads();
        for (int r = 0; r < BK; r++)
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++) sum[i][j] += as[r][threadIdx.y * TM + i] * bs[r][threadIdx.x * TN + j];
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++) {
            const int y = row + threadIdx.y * TM + i, x = col + threadIdx.x * TN + j;
            if (y < m && x < n) out[y * n + x] = fmaxf(sum[i][j] + bias[x], 0.0f);
        }
}

// A dense layer for a CPU: BM x BN sums are kept in registers. Plain C++; BM and BN are the macros to tune.
static void block(const float *a, const float *b, const float *bias, float *out, long n, long k, long rows, long cols) {
    float sum[BM][BN] = {};
    for (long r = 0; r < k; r++)
        for (int i = 0; i < BM; i++)
            for (int j = 0; j < BN; j++)
                sum[i][j] += a[(i < rows ? i : 0) * k + r] * b[r * n + (j < cols ? j : 0)];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) {
            const float x = sum[i][j] + bias[j];
            out[i * n + j] = x > 0 ? x : 0;
        }
}

static void whole(const float *a, const float *b, const float *bias, float *out, long n, long k) {
    float sum[BM][BN] = {};
    for (long r = 0; r < k; r++)
        for (int i = 0; i < BM; i++)
            for (int j = 0; j < BN; j++) sum[i][j] += a[i * k + r] * b[r * n + j];
    for (int i = 0; i < BM; i++)
        for (int j = 0; j < BN; j++) {
            const float x = sum[i][j] + bias[j];
            out[i * n + j] = x > 0 ? x : 0;
        }
}

void dense(const float *a, const float *b, const float *bias, float *out, long m, long n, long k) {
    for (long i = 0; i < m; i += BM)
        for (long j = 0; j < n; j += BN)
            if (i + BM <= m && j + BN <= n) whole(a + i * k, b + j, bias + j, out + i * n + j, n, k);
            else block(a + i * k, b + j, bias + j, out + i * n + j, n, k, m - i < BM ? m - i : BM, n - j < BN ? n - j : BN);
}

// cpu_scatter version 1, cpu:avx512
namespace tw_golden_ {
struct tw_golden_task2_ctx {
 const tw_env * env;
 const int * x0;
 const float * x1;
 float * s0;
 float * sums;
 long piece;
 long units;
 long tasks_;
};
TW_NOINLINE void tw_golden_task2(void *ctx_, long task_, long worker_) {
 (void)worker_;
 const tw_golden_task2_ctx &c_ = *(const tw_golden_task2_ctx *)ctx_;
 const tw_env * const env = c_.env;
 const int * const x0 = c_.x0;
 const float * const x1 = c_.x1;
 float * const s0 = c_.s0;
 float * const sums = c_.sums;
 const long &piece = c_.piece;
 const long &units = c_.units;
 const long &tasks_ = c_.tasks_;
 const long u0 = task_ * units / tasks_, u1 = (task_ + 1) * units / tasks_;
 long q_ = u0;
 long i0_14 = q_;
 for (long u_ = u0; u_ < u1; u_++) {
  const long i0_15 = i0_14 * 4096L;
  const long i0_15e = tw::imin(i0_15 + 4096L, 7L);
  {
   long i0_16 = i0_15;
   for (; i0_16 + 16 <= i0_15e; i0_16 += 16) {
    {
     tw::vec<float, 16> total = tw::load<tw::vec<float, 16>>(sums + i0_16);
     for (long k_ = 1; k_ < 8; k_++) {
      const tw::vec<float, 16> more = tw::load<tw::vec<float, 16>>(sums + k_ * 64L + i0_16);
      total = (total + more);
     }
     tw::store(s0 + (i0_16), total);
    }
   }
   if (i0_16 < i0_15e) {
    {
     tw::vec<float, 16> total = tw::load_n<tw::vec<float, 16>>(sums + i0_16, (i0_15e - i0_16));
     for (long k_ = 1; k_ < 8; k_++) {
      const tw::vec<float, 16> more = tw::load_n<tw::vec<float, 16>>(sums + k_ * 64L + i0_16, (i0_15e - i0_16));
      total = (total + more);
     }
     tw::store_n(s0 + (i0_16), total, (i0_15e - i0_16));
    }
   }
  }
  i0_14++;
 }
}
struct tw_golden_task1_ctx {
 const tw_env * env;
 const int * x0;
 const float * x1;
 float * s0;
 float * sums;
 long piece;
 long units;
 long tasks_;
};
TW_NOINLINE void tw_golden_task1(void *ctx_, long task_, long worker_) {
 (void)worker_;
 const tw_golden_task1_ctx &c_ = *(const tw_golden_task1_ctx *)ctx_;
 const tw_env * const env = c_.env;
 const int * const x0 = c_.x0;
 const float * const x1 = c_.x1;
 float * const s0 = c_.s0;
 float * const sums = c_.sums;
 const long &piece = c_.piece;
 const long &units = c_.units;
 const long &tasks_ = c_.tasks_;
 const long u0 = task_ * units / tasks_, u1 = (task_ + 1) * units / tasks_;
 long q_ = u0;
 long r0_5 = q_;
 for (long u_ = u0; u_ < u1; u_++) {
  const long r0_6 = r0_5 * 32L;
  const long r0_6e = tw::imin(r0_6 + 32L, 60L);
  {
   long r0_7 = r0_6;
   for (; r0_7 + 4 <= r0_6e; r0_7 += 4) {
    {
     const long c0 = (long)(x0[r0_7]);
     if (c0 >= 0L && c0 < 7L) {
      float *const at8 = sums + (r0_7 / 32L * 4L + 0) * 64L + c0;
      const float b = (x1[r0_7] * 0.5f);
      *at8 = ((*at8) + b);
     }
    }
    {
     const long c0 = (long)(x0[(r0_7 + 1)]);
     if (c0 >= 0L && c0 < 7L) {
      float *const at9 = sums + (r0_7 / 32L * 4L + 1) * 64L + c0;
      const float b = (x1[(r0_7 + 1)] * 0.5f);
      *at9 = ((*at9) + b);
     }
    }
    {
     const long c0 = (long)(x0[(r0_7 + 2)]);
     if (c0 >= 0L && c0 < 7L) {
      float *const at10 = sums + (r0_7 / 32L * 4L + 2) * 64L + c0;
      const float b = (x1[(r0_7 + 2)] * 0.5f);
      *at10 = ((*at10) + b);
     }
    }
    {
     const long c0 = (long)(x0[(r0_7 + 3)]);
     if (c0 >= 0L && c0 < 7L) {
      float *const at11 = sums + (r0_7 / 32L * 4L + 3) * 64L + c0;
      const float b = (x1[(r0_7 + 3)] * 0.5f);
      *at11 = ((*at11) + b);
     }
    }
   }
   for (; r0_7 < r0_6e; r0_7++) {
    {
     const long c0 = (long)(x0[r0_7]);
     if (c0 >= 0L && c0 < 7L) {
      float *const at12 = sums + (r0_7 / 32L * 4L + 0) * 64L + c0;
      const float b = (x1[r0_7] * 0.5f);
      *at12 = ((*at12) + b);
     }
    }
   }
  }
  r0_5++;
 }
}
struct tw_golden_task0_ctx {
 const tw_env * env;
 const int * x0;
 const float * x1;
 float * s0;
 float * sums;
 long piece;
 long units;
 long tasks_;
};
TW_NOINLINE void tw_golden_task0(void *ctx_, long task_, long worker_) {
 (void)worker_;
 const tw_golden_task0_ctx &c_ = *(const tw_golden_task0_ctx *)ctx_;
 const tw_env * const env = c_.env;
 const int * const x0 = c_.x0;
 const float * const x1 = c_.x1;
 float * const s0 = c_.s0;
 float * const sums = c_.sums;
 const long &piece = c_.piece;
 const long &units = c_.units;
 const long &tasks_ = c_.tasks_;
 const long u0 = task_ * units / tasks_, u1 = (task_ + 1) * units / tasks_;
 long q_ = u0;
 long e_1 = q_;
 for (long u_ = u0; u_ < u1; u_++) {
  const long e_2 = e_1 * 16384L;
  const long e_2e = tw::imin(e_2 + 16384L, 512L);
  {
   long e_3 = e_2;
   for (; e_3 + 64 <= e_2e; e_3 += 64) {
    tw::store(sums + e_3, tw::splat<tw::vec<float, 16>>(0.0f));
    tw::store(sums + (e_3 + 16), tw::splat<tw::vec<float, 16>>(0.0f));
    tw::store(sums + (e_3 + 32), tw::splat<tw::vec<float, 16>>(0.0f));
    tw::store(sums + (e_3 + 48), tw::splat<tw::vec<float, 16>>(0.0f));
   }
   for (; e_3 + 16 <= e_2e; e_3 += 16) {
    tw::store(sums + e_3, tw::splat<tw::vec<float, 16>>(0.0f));
   }
   if (e_3 < e_2e) {
    tw::store_n(sums + e_3, tw::splat<tw::vec<float, 16>>(0.0f), (e_2e - e_3));
   }
  }
  e_1++;
 }
}
}
TW_ENTRY(tw_golden) {
 (void)tensors; (void)args; (void)workspace; (void)env;
 using namespace tw_golden_;
 const int *const x0 = (const int *)tensors[0];
 const float *const x1 = (const float *)tensors[1];
 float *const s0 = (float *)tensors[2];
 float *const sums = (float *)workspace;
 const long piece = args[0];
 {
  const long units = 1L, tasks_ = tw::imin(2L, units);
  {
   tw_golden_task0_ctx ctx4 = {env, x0, x1, s0, sums, piece, units, tasks_};
   tw::parallel_for(env, tasks_, tw_golden_task0, &ctx4);
  }
 }
 {
  const long units = 2L, tasks_ = tw::imin(2L, units);
  {
   tw_golden_task1_ctx ctx13 = {env, x0, x1, s0, sums, piece, units, tasks_};
   tw::parallel_for(env, tasks_, tw_golden_task1, &ctx13);
  }
 }
 {
  const long units = 1L, tasks_ = tw::imin(2L, units);
  {
   tw_golden_task2_ctx ctx17 = {env, x0, x1, s0, sums, piece, units, tasks_};
   tw::parallel_for(env, tasks_, tw_golden_task2, &ctx17);
  }
 }
 return 0;
}

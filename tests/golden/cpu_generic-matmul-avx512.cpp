// cpu_generic version 2, cpu:avx512
namespace tw_golden_ {
struct tw_golden_task0_ctx {
 const float * x0;
 const float * x1;
 float * s0;
 const tw_env * env;
};
static void tw_golden_task0(void *ctx_, long task_, long worker_) {
 (void)worker_;
 const tw_golden_task0_ctx &c_ = *(const tw_golden_task0_ctx *)ctx_;
 const float * const x0 = c_.x0;
 const float * const x1 = c_.x1;
 float * const s0 = c_.s0;
 const tw_env * const env = c_.env;
 const long i0_1 = (task_) * 4L;
 const long i0_1e = tw::imin(i0_1 + 4L, 13L);
 {
  long i0_2 = i0_1;
  for (; i0_2 + 4 <= i0_1e; i0_2 += 4) {
   {
    long i1_3 = 0;
    for (; i1_3 + 32 <= 37L; i1_3 += 32) {
     tw::vec<float, 16> a0_0_0 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> a0_0_1 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> a0_1_0 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> a0_1_1 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> a0_2_0 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> a0_2_1 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> a0_3_0 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> a0_3_1 = tw::splat<tw::vec<float, 16>>(0.0f);
     for (long r0_4 = 0; r0_4 < 19L; r0_4++) {
      {
       const tw::vec<float, 16> b0 = ((float)(x0[i0_2*19L + r0_4]) * tw::load<tw::vec<float, 16>>(x1 + (r0_4*37L + i1_3)));
       a0_0_0 = (a0_0_0 + b0);
      }
      {
       const tw::vec<float, 16> b0 = ((float)(x0[i0_2*19L + r0_4]) * tw::load<tw::vec<float, 16>>(x1 + (r0_4*37L + (i1_3 + 16))));
       a0_0_1 = (a0_0_1 + b0);
      }
      {
       const tw::vec<float, 16> b0 = ((float)(x0[(i0_2 + 1)*19L + r0_4]) * tw::load<tw::vec<float, 16>>(x1 + (r0_4*37L + i1_3)));
       a0_1_0 = (a0_1_0 + b0);
      }
      {
       const tw::vec<float, 16> b0 = ((float)(x0[(i0_2 + 1)*19L + r0_4]) * tw::load<tw::vec<float, 16>>(x1 + (r0_4*37L + (i1_3 + 16))));
       a0_1_1 = (a0_1_1 + b0);
      }
      {
       const tw::vec<float, 16> b0 = ((float)(x0[(i0_2 + 2)*19L + r0_4]) * tw::load<tw::vec<float, 16>>(x1 + (r0_4*37L + i1_3)));
       a0_2_0 = (a0_2_0 + b0);
      }
      {
       const tw::vec<float, 16> b0 = ((float)(x0[(i0_2 + 2)*19L + r0_4]) * tw::load<tw::vec<float, 16>>(x1 + (r0_4*37L + (i1_3 + 16))));
       a0_2_1 = (a0_2_1 + b0);
      }
      {
       const tw::vec<float, 16> b0 = ((float)(x0[(i0_2 + 3)*19L + r0_4]) * tw::load<tw::vec<float, 16>>(x1 + (r0_4*37L + i1_3)));
       a0_3_0 = (a0_3_0 + b0);
      }
      {
       const tw::vec<float, 16> b0 = ((float)(x0[(i0_2 + 3)*19L + r0_4]) * tw::load<tw::vec<float, 16>>(x1 + (r0_4*37L + (i1_3 + 16))));
       a0_3_1 = (a0_3_1 + b0);
      }
     }
     {
      tw::store(s0 + (i0_2*37L + i1_3), a0_0_0);
     }
     {
      tw::store(s0 + (i0_2*37L + (i1_3 + 16)), a0_0_1);
     }
     {
      tw::store(s0 + ((i0_2 + 1)*37L + i1_3), a0_1_0);
     }
     {
      tw::store(s0 + ((i0_2 + 1)*37L + (i1_3 + 16)), a0_1_1);
     }
     {
      tw::store(s0 + ((i0_2 + 2)*37L + i1_3), a0_2_0);
     }
     {
      tw::store(s0 + ((i0_2 + 2)*37L + (i1_3 + 16)), a0_2_1);
     }
     {
      tw::store(s0 + ((i0_2 + 3)*37L + i1_3), a0_3_0);
     }
     {
      tw::store(s0 + ((i0_2 + 3)*37L + (i1_3 + 16)), a0_3_1);
     }
    }
    if (i1_3 < 37L) {
     tw::vec<float, 16> a0_0_0 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> a0_1_0 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> a0_2_0 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> a0_3_0 = tw::splat<tw::vec<float, 16>>(0.0f);
     for (long r0_5 = 0; r0_5 < 19L; r0_5++) {
      {
       const tw::vec<float, 16> b0 = ((float)(x0[i0_2*19L + r0_5]) * tw::load_n<tw::vec<float, 16>>(x1 + (r0_5*37L + i1_3), (37L - i1_3)));
       a0_0_0 = (a0_0_0 + b0);
      }
      {
       const tw::vec<float, 16> b0 = ((float)(x0[(i0_2 + 1)*19L + r0_5]) * tw::load_n<tw::vec<float, 16>>(x1 + (r0_5*37L + i1_3), (37L - i1_3)));
       a0_1_0 = (a0_1_0 + b0);
      }
      {
       const tw::vec<float, 16> b0 = ((float)(x0[(i0_2 + 2)*19L + r0_5]) * tw::load_n<tw::vec<float, 16>>(x1 + (r0_5*37L + i1_3), (37L - i1_3)));
       a0_2_0 = (a0_2_0 + b0);
      }
      {
       const tw::vec<float, 16> b0 = ((float)(x0[(i0_2 + 3)*19L + r0_5]) * tw::load_n<tw::vec<float, 16>>(x1 + (r0_5*37L + i1_3), (37L - i1_3)));
       a0_3_0 = (a0_3_0 + b0);
      }
     }
     {
      tw::store_n(s0 + (i0_2*37L + i1_3), a0_0_0, (37L - i1_3));
     }
     {
      tw::store_n(s0 + ((i0_2 + 1)*37L + i1_3), a0_1_0, (37L - i1_3));
     }
     {
      tw::store_n(s0 + ((i0_2 + 2)*37L + i1_3), a0_2_0, (37L - i1_3));
     }
     {
      tw::store_n(s0 + ((i0_2 + 3)*37L + i1_3), a0_3_0, (37L - i1_3));
     }
    }
   }
  }
  for (; i0_2 < i0_1e; i0_2++) {
   {
    long i1_6 = 0;
    for (; i1_6 + 32 <= 37L; i1_6 += 32) {
     tw::vec<float, 16> a0_0_0 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> a0_0_1 = tw::splat<tw::vec<float, 16>>(0.0f);
     for (long r0_7 = 0; r0_7 < 19L; r0_7++) {
      {
       const tw::vec<float, 16> b0 = ((float)(x0[i0_2*19L + r0_7]) * tw::load<tw::vec<float, 16>>(x1 + (r0_7*37L + i1_6)));
       a0_0_0 = (a0_0_0 + b0);
      }
      {
       const tw::vec<float, 16> b0 = ((float)(x0[i0_2*19L + r0_7]) * tw::load<tw::vec<float, 16>>(x1 + (r0_7*37L + (i1_6 + 16))));
       a0_0_1 = (a0_0_1 + b0);
      }
     }
     {
      tw::store(s0 + (i0_2*37L + i1_6), a0_0_0);
     }
     {
      tw::store(s0 + (i0_2*37L + (i1_6 + 16)), a0_0_1);
     }
    }
    if (i1_6 < 37L) {
     tw::vec<float, 16> a0_0_0 = tw::splat<tw::vec<float, 16>>(0.0f);
     for (long r0_8 = 0; r0_8 < 19L; r0_8++) {
      {
       const tw::vec<float, 16> b0 = ((float)(x0[i0_2*19L + r0_8]) * tw::load_n<tw::vec<float, 16>>(x1 + (r0_8*37L + i1_6), (37L - i1_6)));
       a0_0_0 = (a0_0_0 + b0);
      }
     }
     {
      tw::store_n(s0 + (i0_2*37L + i1_6), a0_0_0, (37L - i1_6));
     }
    }
   }
  }
 }
}
}
TW_ENTRY(tw_golden) {
 (void)tensors; (void)args; (void)workspace; (void)env;
 using namespace tw_golden_;
 const float *x0 = (const float *)tensors[0];
 const float *x1 = (const float *)tensors[1];
 float *s0 = (float *)tensors[2];
 {
  {
   tw_golden_task0_ctx ctx9 = {x0, x1, s0, env};
   tw::parallel_for(env, (4L), tw_golden_task0, &ctx9);
  }
 }
 return 0;
}

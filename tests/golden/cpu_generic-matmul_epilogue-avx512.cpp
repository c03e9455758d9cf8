// cpu_generic version 2, cpu:avx512
namespace tw_golden_ {
struct tw_golden_task0_ctx {
 const float * x0;
 const float * x1;
 const float * x2;
 float * s2;
 const tw_env * env;
};
static void tw_golden_task0(void *ctx_, long task_, long worker_) {
 (void)worker_;
 const tw_golden_task0_ctx &c_ = *(const tw_golden_task0_ctx *)ctx_;
 const float * const x0 = c_.x0;
 const float * const x1 = c_.x1;
 const float * const x2 = c_.x2;
 float * const s2 = c_.s2;
 const tw_env * const env = c_.env;
 const long i0_1 = (task_) * 1L;
 {
  {
   long i1_2 = 0;
   for (; i1_2 + 32 <= 33L; i1_2 += 32) {
    tw::vec<float, 16> a0_0_0 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> a0_0_1 = tw::splat<tw::vec<float, 16>>(0.0f);
    for (long r0_3 = 0; r0_3 < 7L; r0_3++) {
     {
      const tw::vec<float, 16> b0 = ((float)(x0[i0_1*7L + r0_3]) * tw::load_step<tw::vec<float, 16>>(x1 + (i1_2*7L + r0_3), 7L));
      a0_0_0 = (a0_0_0 + b0);
     }
     {
      const tw::vec<float, 16> b0 = ((float)(x0[i0_1*7L + r0_3]) * tw::load_step<tw::vec<float, 16>>(x1 + ((i1_2 + 16)*7L + r0_3), 7L));
      a0_0_1 = (a0_0_1 + b0);
     }
    }
    {
     const tw::vec<float, 16> t4 = (a0_0_0 + tw::load<tw::vec<float, 16>>(x2 + (i1_2)));
     tw::store(s2 + (i0_1*33L + i1_2), ((t4 * (float)(0.5f)) * ((float)(1.0f) + tw::erf((t4 * (float)(0x1.6a09e65dc27dfp-1f))))));
    }
    {
     const tw::vec<float, 16> t5 = (a0_0_1 + tw::load<tw::vec<float, 16>>(x2 + ((i1_2 + 16))));
     tw::store(s2 + (i0_1*33L + (i1_2 + 16)), ((t5 * (float)(0.5f)) * ((float)(1.0f) + tw::erf((t5 * (float)(0x1.6a09e65dc27dfp-1f))))));
    }
   }
   if (i1_2 < 33L) {
    tw::vec<float, 16> a0_0_0 = tw::splat<tw::vec<float, 16>>(0.0f);
    for (long r0_6 = 0; r0_6 < 7L; r0_6++) {
     {
      const tw::vec<float, 16> b0 = ((float)(x0[i0_1*7L + r0_6]) * tw::load_step<tw::vec<float, 16>>(x1 + (i1_2*7L + r0_6), 7L, (33L - i1_2)));
      a0_0_0 = (a0_0_0 + b0);
     }
    }
    {
     const tw::vec<float, 16> t7 = (a0_0_0 + tw::load_n<tw::vec<float, 16>>(x2 + (i1_2), (33L - i1_2)));
     tw::store_n(s2 + (i0_1*33L + i1_2), ((t7 * (float)(0.5f)) * ((float)(1.0f) + tw::erf((t7 * (float)(0x1.6a09e65dc27dfp-1f))))), (33L - i1_2));
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
 const float *x2 = (const float *)tensors[2];
 float *s2 = (float *)tensors[3];
 {
  tw_golden_task0_ctx ctx8 = {x0, x1, x2, s2, env};
  tw::parallel_for(env, (18L), tw_golden_task0, &ctx8);
 }
 return 0;
}

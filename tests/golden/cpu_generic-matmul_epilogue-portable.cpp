// cpu_generic version 2, cpu:portable
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
   for (; i1_2 + 4 <= 33L; i1_2 += 4) {
    tw::vec<float, 4> a0_0_0 = tw::splat<tw::vec<float, 4>>(0.0f);
    tw::vec<float, 4> a0_1_0 = tw::splat<tw::vec<float, 4>>(0.0f);
    tw::vec<float, 4> a0_2_0 = tw::splat<tw::vec<float, 4>>(0.0f);
    tw::vec<float, 4> a0_3_0 = tw::splat<tw::vec<float, 4>>(0.0f);
    {
     long r0_3 = 0;
     for (; r0_3 + 4 <= 7L; r0_3 += 4) {
      {
       const tw::vec<float, 4> b0 = (tw::load<tw::vec<float, 4>>(x0 + (i0_1*7L + r0_3)) * tw::load<tw::vec<float, 4>>(x1 + (i1_2*7L + r0_3)));
       a0_0_0 = (a0_0_0 + b0);
      }
      {
       const tw::vec<float, 4> b0 = (tw::load<tw::vec<float, 4>>(x0 + (i0_1*7L + r0_3)) * tw::load<tw::vec<float, 4>>(x1 + ((i1_2 + 1)*7L + r0_3)));
       a0_1_0 = (a0_1_0 + b0);
      }
      {
       const tw::vec<float, 4> b0 = (tw::load<tw::vec<float, 4>>(x0 + (i0_1*7L + r0_3)) * tw::load<tw::vec<float, 4>>(x1 + ((i1_2 + 2)*7L + r0_3)));
       a0_2_0 = (a0_2_0 + b0);
      }
      {
       const tw::vec<float, 4> b0 = (tw::load<tw::vec<float, 4>>(x0 + (i0_1*7L + r0_3)) * tw::load<tw::vec<float, 4>>(x1 + ((i1_2 + 3)*7L + r0_3)));
       a0_3_0 = (a0_3_0 + b0);
      }
     }
     if (r0_3 < 7L) {
      {
       const tw::vec<float, 4> b0 = tw::select(tw::first<tw::mask<tw::vec<float, 4>>>((7L - r0_3)), (tw::load_n<tw::vec<float, 4>>(x0 + (i0_1*7L + r0_3), (7L - r0_3)) * tw::load_n<tw::vec<float, 4>>(x1 + (i1_2*7L + r0_3), (7L - r0_3))), tw::splat<tw::vec<float, 4>>(0.0f));
       a0_0_0 = (a0_0_0 + b0);
      }
      {
       const tw::vec<float, 4> b0 = tw::select(tw::first<tw::mask<tw::vec<float, 4>>>((7L - r0_3)), (tw::load_n<tw::vec<float, 4>>(x0 + (i0_1*7L + r0_3), (7L - r0_3)) * tw::load_n<tw::vec<float, 4>>(x1 + ((i1_2 + 1)*7L + r0_3), (7L - r0_3))), tw::splat<tw::vec<float, 4>>(0.0f));
       a0_1_0 = (a0_1_0 + b0);
      }
      {
       const tw::vec<float, 4> b0 = tw::select(tw::first<tw::mask<tw::vec<float, 4>>>((7L - r0_3)), (tw::load_n<tw::vec<float, 4>>(x0 + (i0_1*7L + r0_3), (7L - r0_3)) * tw::load_n<tw::vec<float, 4>>(x1 + ((i1_2 + 2)*7L + r0_3), (7L - r0_3))), tw::splat<tw::vec<float, 4>>(0.0f));
       a0_2_0 = (a0_2_0 + b0);
      }
      {
       const tw::vec<float, 4> b0 = tw::select(tw::first<tw::mask<tw::vec<float, 4>>>((7L - r0_3)), (tw::load_n<tw::vec<float, 4>>(x0 + (i0_1*7L + r0_3), (7L - r0_3)) * tw::load_n<tw::vec<float, 4>>(x1 + ((i1_2 + 3)*7L + r0_3), (7L - r0_3))), tw::splat<tw::vec<float, 4>>(0.0f));
       a0_3_0 = (a0_3_0 + b0);
      }
     }
    }
    {
     const float h = tw::hsum(a0_0_0);
     const float t4 = (h + x2[i1_2]);
     s2[i0_1*33L + i1_2] = (float)(((t4 * 0.5f) * (1.0f + tw::erf(float((t4 * 0x1.6a09e65dc27dfp-1f))))));
    }
    {
     const float h = tw::hsum(a0_1_0);
     const float t5 = (h + x2[(i1_2 + 1)]);
     s2[i0_1*33L + (i1_2 + 1)] = (float)(((t5 * 0.5f) * (1.0f + tw::erf(float((t5 * 0x1.6a09e65dc27dfp-1f))))));
    }
    {
     const float h = tw::hsum(a0_2_0);
     const float t6 = (h + x2[(i1_2 + 2)]);
     s2[i0_1*33L + (i1_2 + 2)] = (float)(((t6 * 0.5f) * (1.0f + tw::erf(float((t6 * 0x1.6a09e65dc27dfp-1f))))));
    }
    {
     const float h = tw::hsum(a0_3_0);
     const float t7 = (h + x2[(i1_2 + 3)]);
     s2[i0_1*33L + (i1_2 + 3)] = (float)(((t7 * 0.5f) * (1.0f + tw::erf(float((t7 * 0x1.6a09e65dc27dfp-1f))))));
    }
   }
   for (; i1_2 < 33L; i1_2++) {
    tw::vec<float, 4> a0_0_0 = tw::splat<tw::vec<float, 4>>(0.0f);
    {
     long r0_8 = 0;
     for (; r0_8 + 4 <= 7L; r0_8 += 4) {
      {
       const tw::vec<float, 4> b0 = (tw::load<tw::vec<float, 4>>(x0 + (i0_1*7L + r0_8)) * tw::load<tw::vec<float, 4>>(x1 + (i1_2*7L + r0_8)));
       a0_0_0 = (a0_0_0 + b0);
      }
     }
     if (r0_8 < 7L) {
      {
       const tw::vec<float, 4> b0 = tw::select(tw::first<tw::mask<tw::vec<float, 4>>>((7L - r0_8)), (tw::load_n<tw::vec<float, 4>>(x0 + (i0_1*7L + r0_8), (7L - r0_8)) * tw::load_n<tw::vec<float, 4>>(x1 + (i1_2*7L + r0_8), (7L - r0_8))), tw::splat<tw::vec<float, 4>>(0.0f));
       a0_0_0 = (a0_0_0 + b0);
      }
     }
    }
    {
     const float h = tw::hsum(a0_0_0);
     const float t9 = (h + x2[i1_2]);
     s2[i0_1*33L + i1_2] = (float)(((t9 * 0.5f) * (1.0f + tw::erf(float((t9 * 0x1.6a09e65dc27dfp-1f))))));
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
  tw_golden_task0_ctx ctx10 = {x0, x1, x2, s2, env};
  tw::parallel_for(env, (18L), tw_golden_task0, &ctx10);
 }
 return 0;
}

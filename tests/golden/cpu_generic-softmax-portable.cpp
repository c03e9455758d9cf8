// cpu_generic version 4, cpu:portable
namespace tw_golden_ {
struct tw_golden_task0_ctx {
 const tw_env * env;
 const float * x0;
 float * s3;
 float * s0;
 float * s1;
 float * s2;
};
TW_NOINLINE void tw_golden_task0(void *ctx_, long task_, long worker_) {
 (void)worker_;
 const tw_golden_task0_ctx &c_ = *(const tw_golden_task0_ctx *)ctx_;
 const tw_env * const env = c_.env;
 const float * const x0 = c_.x0;
 float * const s3 = c_.s3;
 float * const s0 = c_.s0;
 float * const s1 = c_.s1;
 float * const s2 = c_.s2;
 const long i0_1 = task_;
 {
  tw::vec<float, 4> a0_0_0 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
  tw::vec<float, 4> a0_0_1 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
  tw::vec<float, 4> a0_0_2 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
  tw::vec<float, 4> a0_0_3 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
  {
   long r0_2 = 0;
   for (; r0_2 + 16 <= 45L; r0_2 += 16) {
    {
     const tw::vec<float, 4> b0 = tw::load<tw::vec<float, 4>>(x0 + (i0_1*45L + r0_2));
     a0_0_0 = tw::max<tw::vec<float, 4>>(a0_0_0, b0);
    }
    {
     const tw::vec<float, 4> b0 = tw::load<tw::vec<float, 4>>(x0 + (i0_1*45L + (r0_2 + 4)));
     a0_0_1 = tw::max<tw::vec<float, 4>>(a0_0_1, b0);
    }
    {
     const tw::vec<float, 4> b0 = tw::load<tw::vec<float, 4>>(x0 + (i0_1*45L + (r0_2 + 8)));
     a0_0_2 = tw::max<tw::vec<float, 4>>(a0_0_2, b0);
    }
    {
     const tw::vec<float, 4> b0 = tw::load<tw::vec<float, 4>>(x0 + (i0_1*45L + (r0_2 + 12)));
     a0_0_3 = tw::max<tw::vec<float, 4>>(a0_0_3, b0);
    }
   }
   for (; r0_2 + 4 <= 45L; r0_2 += 4) {
    {
     const tw::vec<float, 4> b0 = tw::load<tw::vec<float, 4>>(x0 + (i0_1*45L + r0_2));
     a0_0_0 = tw::max<tw::vec<float, 4>>(a0_0_0, b0);
    }
   }
   {
    {
     const tw::vec<float, 4> b0 = tw::select(tw::first<tw::mask<tw::vec<float, 4>>>(1L), tw::load_n<tw::vec<float, 4>>(x0 + (i0_1*45L + r0_2), 1L), tw::splat<tw::vec<float, 4>>(-__builtin_inff()));
     a0_0_0 = tw::max<tw::vec<float, 4>>(a0_0_0, b0);
    }
   }
  }
  {
   const float h = tw::hmax(tw::max(tw::max(tw::max(a0_0_0, a0_0_1), a0_0_2), a0_0_3));
   s0[i0_1] = (float)(h);
  }
 }
 {
  {
   long i1_3 = 0;
   for (; i1_3 + 4 <= 45L; i1_3 += 4) {
    {
     tw::store(s1 + (i0_1*45L + i1_3), tw::exp((tw::load<tw::vec<float, 4>>(x0 + (i0_1*45L + i1_3)) - (float)(s0[i0_1]))));
    }
   }
   {
    {
     tw::store_n(s1 + (i0_1*45L + i1_3), tw::exp((tw::load_n<tw::vec<float, 4>>(x0 + (i0_1*45L + i1_3), 1L) - (float)(s0[i0_1]))), 1L);
    }
   }
  }
 }
 {
  tw::vec<float, 4> a0_0_0 = tw::splat<tw::vec<float, 4>>(0.0f);
  tw::vec<float, 4> a0_0_1 = tw::splat<tw::vec<float, 4>>(0.0f);
  tw::vec<float, 4> a0_0_2 = tw::splat<tw::vec<float, 4>>(0.0f);
  tw::vec<float, 4> a0_0_3 = tw::splat<tw::vec<float, 4>>(0.0f);
  {
   long r0_4 = 0;
   for (; r0_4 + 16 <= 45L; r0_4 += 16) {
    {
     const tw::vec<float, 4> b0 = tw::load<tw::vec<float, 4>>(s1 + (i0_1*45L + r0_4));
     a0_0_0 = (a0_0_0 + b0);
    }
    {
     const tw::vec<float, 4> b0 = tw::load<tw::vec<float, 4>>(s1 + (i0_1*45L + (r0_4 + 4)));
     a0_0_1 = (a0_0_1 + b0);
    }
    {
     const tw::vec<float, 4> b0 = tw::load<tw::vec<float, 4>>(s1 + (i0_1*45L + (r0_4 + 8)));
     a0_0_2 = (a0_0_2 + b0);
    }
    {
     const tw::vec<float, 4> b0 = tw::load<tw::vec<float, 4>>(s1 + (i0_1*45L + (r0_4 + 12)));
     a0_0_3 = (a0_0_3 + b0);
    }
   }
   for (; r0_4 + 4 <= 45L; r0_4 += 4) {
    {
     const tw::vec<float, 4> b0 = tw::load<tw::vec<float, 4>>(s1 + (i0_1*45L + r0_4));
     a0_0_0 = (a0_0_0 + b0);
    }
   }
   {
    {
     const tw::vec<float, 4> b0 = tw::select(tw::first<tw::mask<tw::vec<float, 4>>>(1L), tw::load_n<tw::vec<float, 4>>(s1 + (i0_1*45L + r0_4), 1L), tw::splat<tw::vec<float, 4>>(0.0f));
     a0_0_0 = (a0_0_0 + b0);
    }
   }
  }
  {
   const float h = tw::hsum((((a0_0_0 + a0_0_1) + a0_0_2) + a0_0_3));
   s2[i0_1] = (float)(h);
  }
 }
 {
  {
   long i1_5 = 0;
   for (; i1_5 + 4 <= 45L; i1_5 += 4) {
    {
     tw::store(s3 + (i0_1*45L + i1_5), (tw::load<tw::vec<float, 4>>(s1 + (i0_1*45L + i1_5)) / (float)(s2[i0_1])));
    }
   }
   {
    {
     tw::store_n(s3 + (i0_1*45L + i1_5), (tw::load_n<tw::vec<float, 4>>(s1 + (i0_1*45L + i1_5), 1L) / (float)(s2[i0_1])), 1L);
    }
   }
  }
 }
}
}
TW_ENTRY(tw_golden) {
 (void)tensors; (void)args; (void)workspace; (void)env;
 using namespace tw_golden_;
 const float *const x0 = (const float *)tensors[0];
 float *const s3 = (float *)tensors[1];
 float *const s0 = (float *)((char *)workspace + 0);
 float *const s1 = (float *)((char *)workspace + 64);
 float *const s2 = (float *)((char *)workspace + 1344);
 {
  tw_golden_task0_ctx ctx6 = {env, x0, s3, s0, s1, s2};
  tw::parallel_for(env, (7L), tw_golden_task0, &ctx6);
 }
 return 0;
}

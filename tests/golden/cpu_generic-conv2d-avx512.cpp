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
 const long i0_1 = (task_) * 1L;
 {
  long i1_2 = 0;
  for (; i1_2 + 4 <= 5L; i1_2 += 4) {
   for (long i2_3 = 0; i2_3 < 9L; i2_3++) {
    {
     long i3_4 = 0;
     for (; i3_4 + 16 <= 21L; i3_4 += 16) {
      tw::vec<float, 16> a0_0_0 = tw::splat<tw::vec<float, 16>>(0.0f);
      tw::vec<float, 16> a0_1_0 = tw::splat<tw::vec<float, 16>>(0.0f);
      tw::vec<float, 16> a0_2_0 = tw::splat<tw::vec<float, 16>>(0.0f);
      tw::vec<float, 16> a0_3_0 = tw::splat<tw::vec<float, 16>>(0.0f);
      for (long r0_5 = 0; r0_5 < 3L; r0_5++) {
       for (long r1_6 = 0; r1_6 < 3L; r1_6++) {
        for (long r2_7 = 0; r2_7 < 3L; r2_7++) {
         {
          const tw::vec<float, 16> b0 = ((((((i2_3 + r1_6) - 1L) >= 0L) && (((i2_3 + r1_6) - 1L) < 9L)) ? tw::select(tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_7)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_7)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L))), tw::load_if<tw::vec<float, 16>>(x0 + (i0_1*567L + r0_5*189L + ((i2_3 + r1_6) - 1L)*21L + ((i3_4 + r2_7) - 1L)), tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_7)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_7)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L)))), tw::splat<tw::vec<float, 16>>(0.0f)) : tw::splat<tw::vec<float, 16>>(0.0f)) * (float)(x1[i1_2*27L + r0_5*9L + r1_6*3L + r2_7]));
          a0_0_0 = (a0_0_0 + b0);
         }
         {
          const tw::vec<float, 16> b0 = ((((((i2_3 + r1_6) - 1L) >= 0L) && (((i2_3 + r1_6) - 1L) < 9L)) ? tw::select(tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_7)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_7)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L))), tw::load_if<tw::vec<float, 16>>(x0 + (i0_1*567L + r0_5*189L + ((i2_3 + r1_6) - 1L)*21L + ((i3_4 + r2_7) - 1L)), tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_7)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_7)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L)))), tw::splat<tw::vec<float, 16>>(0.0f)) : tw::splat<tw::vec<float, 16>>(0.0f)) * (float)(x1[(i1_2 + 1)*27L + r0_5*9L + r1_6*3L + r2_7]));
          a0_1_0 = (a0_1_0 + b0);
         }
         {
          const tw::vec<float, 16> b0 = ((((((i2_3 + r1_6) - 1L) >= 0L) && (((i2_3 + r1_6) - 1L) < 9L)) ? tw::select(tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_7)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_7)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L))), tw::load_if<tw::vec<float, 16>>(x0 + (i0_1*567L + r0_5*189L + ((i2_3 + r1_6) - 1L)*21L + ((i3_4 + r2_7) - 1L)), tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_7)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_7)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L)))), tw::splat<tw::vec<float, 16>>(0.0f)) : tw::splat<tw::vec<float, 16>>(0.0f)) * (float)(x1[(i1_2 + 2)*27L + r0_5*9L + r1_6*3L + r2_7]));
          a0_2_0 = (a0_2_0 + b0);
         }
         {
          const tw::vec<float, 16> b0 = ((((((i2_3 + r1_6) - 1L) >= 0L) && (((i2_3 + r1_6) - 1L) < 9L)) ? tw::select(tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_7)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_7)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L))), tw::load_if<tw::vec<float, 16>>(x0 + (i0_1*567L + r0_5*189L + ((i2_3 + r1_6) - 1L)*21L + ((i3_4 + r2_7) - 1L)), tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_7)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_7)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L)))), tw::splat<tw::vec<float, 16>>(0.0f)) : tw::splat<tw::vec<float, 16>>(0.0f)) * (float)(x1[(i1_2 + 3)*27L + r0_5*9L + r1_6*3L + r2_7]));
          a0_3_0 = (a0_3_0 + b0);
         }
        }
       }
      }
      {
       tw::store(s0 + (i0_1*945L + i1_2*189L + i2_3*21L + i3_4), a0_0_0);
      }
      {
       tw::store(s0 + (i0_1*945L + (i1_2 + 1)*189L + i2_3*21L + i3_4), a0_1_0);
      }
      {
       tw::store(s0 + (i0_1*945L + (i1_2 + 2)*189L + i2_3*21L + i3_4), a0_2_0);
      }
      {
       tw::store(s0 + (i0_1*945L + (i1_2 + 3)*189L + i2_3*21L + i3_4), a0_3_0);
      }
     }
     if (i3_4 < 21L) {
      tw::vec<float, 16> a0_0_0 = tw::splat<tw::vec<float, 16>>(0.0f);
      tw::vec<float, 16> a0_1_0 = tw::splat<tw::vec<float, 16>>(0.0f);
      tw::vec<float, 16> a0_2_0 = tw::splat<tw::vec<float, 16>>(0.0f);
      tw::vec<float, 16> a0_3_0 = tw::splat<tw::vec<float, 16>>(0.0f);
      for (long r0_8 = 0; r0_8 < 3L; r0_8++) {
       for (long r1_9 = 0; r1_9 < 3L; r1_9++) {
        for (long r2_10 = 0; r2_10 < 3L; r2_10++) {
         {
          const tw::vec<float, 16> b0 = ((((((i2_3 + r1_9) - 1L) >= 0L) && (((i2_3 + r1_9) - 1L) < 9L)) ? tw::select(tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_10)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_10)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L))), tw::load_if<tw::vec<float, 16>>(x0 + (i0_1*567L + r0_8*189L + ((i2_3 + r1_9) - 1L)*21L + ((i3_4 + r2_10) - 1L)), tw::both(tw::first<tw::vec<int, 16>>((21L - i3_4)), tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_10)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_10)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L))))), tw::splat<tw::vec<float, 16>>(0.0f)) : tw::splat<tw::vec<float, 16>>(0.0f)) * (float)(x1[i1_2*27L + r0_8*9L + r1_9*3L + r2_10]));
          a0_0_0 = (a0_0_0 + b0);
         }
         {
          const tw::vec<float, 16> b0 = ((((((i2_3 + r1_9) - 1L) >= 0L) && (((i2_3 + r1_9) - 1L) < 9L)) ? tw::select(tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_10)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_10)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L))), tw::load_if<tw::vec<float, 16>>(x0 + (i0_1*567L + r0_8*189L + ((i2_3 + r1_9) - 1L)*21L + ((i3_4 + r2_10) - 1L)), tw::both(tw::first<tw::vec<int, 16>>((21L - i3_4)), tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_10)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_10)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L))))), tw::splat<tw::vec<float, 16>>(0.0f)) : tw::splat<tw::vec<float, 16>>(0.0f)) * (float)(x1[(i1_2 + 1)*27L + r0_8*9L + r1_9*3L + r2_10]));
          a0_1_0 = (a0_1_0 + b0);
         }
         {
          const tw::vec<float, 16> b0 = ((((((i2_3 + r1_9) - 1L) >= 0L) && (((i2_3 + r1_9) - 1L) < 9L)) ? tw::select(tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_10)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_10)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L))), tw::load_if<tw::vec<float, 16>>(x0 + (i0_1*567L + r0_8*189L + ((i2_3 + r1_9) - 1L)*21L + ((i3_4 + r2_10) - 1L)), tw::both(tw::first<tw::vec<int, 16>>((21L - i3_4)), tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_10)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_10)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L))))), tw::splat<tw::vec<float, 16>>(0.0f)) : tw::splat<tw::vec<float, 16>>(0.0f)) * (float)(x1[(i1_2 + 2)*27L + r0_8*9L + r1_9*3L + r2_10]));
          a0_2_0 = (a0_2_0 + b0);
         }
         {
          const tw::vec<float, 16> b0 = ((((((i2_3 + r1_9) - 1L) >= 0L) && (((i2_3 + r1_9) - 1L) < 9L)) ? tw::select(tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_10)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_10)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L))), tw::load_if<tw::vec<float, 16>>(x0 + (i0_1*567L + r0_8*189L + ((i2_3 + r1_9) - 1L)*21L + ((i3_4 + r2_10) - 1L)), tw::both(tw::first<tw::vec<int, 16>>((21L - i3_4)), tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_10)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_4)) + (int)(r2_10)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L))))), tw::splat<tw::vec<float, 16>>(0.0f)) : tw::splat<tw::vec<float, 16>>(0.0f)) * (float)(x1[(i1_2 + 3)*27L + r0_8*9L + r1_9*3L + r2_10]));
          a0_3_0 = (a0_3_0 + b0);
         }
        }
       }
      }
      {
       tw::store_n(s0 + (i0_1*945L + i1_2*189L + i2_3*21L + i3_4), a0_0_0, (21L - i3_4));
      }
      {
       tw::store_n(s0 + (i0_1*945L + (i1_2 + 1)*189L + i2_3*21L + i3_4), a0_1_0, (21L - i3_4));
      }
      {
       tw::store_n(s0 + (i0_1*945L + (i1_2 + 2)*189L + i2_3*21L + i3_4), a0_2_0, (21L - i3_4));
      }
      {
       tw::store_n(s0 + (i0_1*945L + (i1_2 + 3)*189L + i2_3*21L + i3_4), a0_3_0, (21L - i3_4));
      }
     }
    }
   }
  }
  for (; i1_2 < 5L; i1_2++) {
   for (long i2_11 = 0; i2_11 < 9L; i2_11++) {
    {
     long i3_12 = 0;
     for (; i3_12 + 16 <= 21L; i3_12 += 16) {
      tw::vec<float, 16> a0_0_0 = tw::splat<tw::vec<float, 16>>(0.0f);
      for (long r0_13 = 0; r0_13 < 3L; r0_13++) {
       for (long r1_14 = 0; r1_14 < 3L; r1_14++) {
        for (long r2_15 = 0; r2_15 < 3L; r2_15++) {
         {
          const tw::vec<float, 16> b0 = ((((((i2_11 + r1_14) - 1L) >= 0L) && (((i2_11 + r1_14) - 1L) < 9L)) ? tw::select(tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_12)) + (int)(r2_15)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_12)) + (int)(r2_15)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L))), tw::load_if<tw::vec<float, 16>>(x0 + (i0_1*567L + r0_13*189L + ((i2_11 + r1_14) - 1L)*21L + ((i3_12 + r2_15) - 1L)), tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_12)) + (int)(r2_15)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_12)) + (int)(r2_15)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L)))), tw::splat<tw::vec<float, 16>>(0.0f)) : tw::splat<tw::vec<float, 16>>(0.0f)) * (float)(x1[i1_2*27L + r0_13*9L + r1_14*3L + r2_15]));
          a0_0_0 = (a0_0_0 + b0);
         }
        }
       }
      }
      {
       tw::store(s0 + (i0_1*945L + i1_2*189L + i2_11*21L + i3_12), a0_0_0);
      }
     }
     if (i3_12 < 21L) {
      tw::vec<float, 16> a0_0_0 = tw::splat<tw::vec<float, 16>>(0.0f);
      for (long r0_16 = 0; r0_16 < 3L; r0_16++) {
       for (long r1_17 = 0; r1_17 < 3L; r1_17++) {
        for (long r2_18 = 0; r2_18 < 3L; r2_18++) {
         {
          const tw::vec<float, 16> b0 = ((((((i2_11 + r1_17) - 1L) >= 0L) && (((i2_11 + r1_17) - 1L) < 9L)) ? tw::select(tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_12)) + (int)(r2_18)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_12)) + (int)(r2_18)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L))), tw::load_if<tw::vec<float, 16>>(x0 + (i0_1*567L + r0_16*189L + ((i2_11 + r1_17) - 1L)*21L + ((i3_12 + r2_18) - 1L)), tw::both(tw::first<tw::vec<int, 16>>((21L - i3_12)), tw::both(((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_12)) + (int)(r2_18)) - (int)(1L)) >= tw::splat<tw::vec<int, 16>>(0L)), ((((tw::iota<tw::vec<int, 16>>() + tw::splat<tw::vec<int, 16>>(i3_12)) + (int)(r2_18)) - (int)(1L)) < tw::splat<tw::vec<int, 16>>(21L))))), tw::splat<tw::vec<float, 16>>(0.0f)) : tw::splat<tw::vec<float, 16>>(0.0f)) * (float)(x1[i1_2*27L + r0_16*9L + r1_17*3L + r2_18]));
          a0_0_0 = (a0_0_0 + b0);
         }
        }
       }
      }
      {
       tw::store_n(s0 + (i0_1*945L + i1_2*189L + i2_11*21L + i3_12), a0_0_0, (21L - i3_12));
      }
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
   tw_golden_task0_ctx ctx19 = {x0, x1, s0, env};
   tw::parallel_for(env, (2L), tw_golden_task0, &ctx19);
  }
 }
 return 0;
}

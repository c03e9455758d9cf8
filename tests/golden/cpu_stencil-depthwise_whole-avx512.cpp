// cpu_stencil version 4, cpu:avx512
namespace tw_golden_ {
struct tw_golden_task0_ctx {
 const tw_env * env;
 const float * x0;
 const float * x1;
 const float * x2;
 const float * x3;
 const float * x4;
 const float * x5;
 float * s1;
 long tasks;
 long units;
 long tasks_;
};
TW_NOINLINE void tw_golden_task0(void *ctx_, long task_, long worker_) {
 (void)worker_;
 const tw_golden_task0_ctx &c_ = *(const tw_golden_task0_ctx *)ctx_;
 const tw_env * const env = c_.env;
 const float * const x0 = c_.x0;
 const float * const x1 = c_.x1;
 const float * const x2 = c_.x2;
 const float * const x3 = c_.x3;
 const float * const x4 = c_.x4;
 const float * const x5 = c_.x5;
 float * const s1 = c_.s1;
 const long &tasks = c_.tasks;
 const long &units = c_.units;
 const long &tasks_ = c_.tasks_;
 const long u0 = task_ * units / tasks_, u1 = (task_ + 1) * units / tasks_;
 long q_ = u0;
 long i2_1 = q_;
 for (long u_ = u0; u_ < u1; u_++) {
  const long i2 = i2_1;
  {
   for (long v_ = 0L; v_ < 32L; v_ += 16L) {
    const auto h2 = tw::load<tw::vec<float, 16>>(x2 + (v_));
    const auto h3 = (tw::load<tw::vec<float, 16>>(x4 + (v_)) * tw::rsqrt((tw::abs(tw::load<tw::vec<float, 16>>(x3 + (v_))) + (float)(0x1.4f8b588e368f1p-17f))));
    const auto h4 = tw::load<tw::vec<float, 16>>(x5 + (v_));
    tw::vec<float, 16> acc5 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc6 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc7 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc8 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc9 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc10 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc11 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc12 = tw::splat<tw::vec<float, 16>>(0.0f);
    if (i2 >= 1L && i2 * -1L >= -19L) {
     const tw::vec<float, 16> q13 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q14 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 0L));
     acc5 = (acc5 + (q13 * q14));
     const tw::vec<float, 16> q15 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + -32L));
     const tw::vec<float, 16> q16 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 96L));
     acc5 = (acc5 + (q15 * q16));
     acc6 = (acc6 + (q15 * q14));
     const tw::vec<float, 16> q17 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 576L));
     const tw::vec<float, 16> q18 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 192L));
     acc5 = (acc5 + (q17 * q18));
     acc6 = (acc6 + (q17 * q16));
     acc7 = (acc7 + (q17 * q14));
     const tw::vec<float, 16> q19 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1184L));
     acc6 = (acc6 + (q19 * q18));
     acc7 = (acc7 + (q19 * q16));
     acc8 = (acc8 + (q19 * q14));
     const tw::vec<float, 16> q20 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1792L));
     acc7 = (acc7 + (q20 * q18));
     acc8 = (acc8 + (q20 * q16));
     acc9 = (acc9 + (q20 * q14));
     const tw::vec<float, 16> q21 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 2400L));
     acc8 = (acc8 + (q21 * q18));
     acc9 = (acc9 + (q21 * q16));
     acc10 = (acc10 + (q21 * q14));
     const tw::vec<float, 16> q22 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3008L));
     acc9 = (acc9 + (q22 * q18));
     acc10 = (acc10 + (q22 * q16));
     acc11 = (acc11 + (q22 * q14));
     const tw::vec<float, 16> q23 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3616L));
     acc10 = (acc10 + (q23 * q18));
     acc11 = (acc11 + (q23 * q16));
     acc12 = (acc12 + (q23 * q14));
     const tw::vec<float, 16> q24 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 4224L));
     acc11 = (acc11 + (q24 * q18));
     acc12 = (acc12 + (q24 * q16));
     acc12 = (acc12 + (q13 * q18));
    }
    else {
     const tw::vec<float, 16> q25 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q26 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 0L));
     acc5 = (acc5 + (q25 * q26));
     acc6 = (acc6 + (q25 * q26));
     acc7 = (acc7 + (q25 * q26));
     acc8 = (acc8 + (q25 * q26));
     acc9 = (acc9 + (q25 * q26));
     acc10 = (acc10 + (q25 * q26));
     acc11 = (acc11 + (q25 * q26));
     acc12 = (acc12 + (q25 * q26));
     const tw::vec<float, 16> q27 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 96L));
     acc5 = (acc5 + (q25 * q27));
     acc6 = (acc6 + (q25 * q27));
     acc7 = (acc7 + (q25 * q27));
     acc8 = (acc8 + (q25 * q27));
     acc9 = (acc9 + (q25 * q27));
     acc10 = (acc10 + (q25 * q27));
     acc11 = (acc11 + (q25 * q27));
     acc12 = (acc12 + (q25 * q27));
     const tw::vec<float, 16> q28 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 192L));
     acc5 = (acc5 + (q25 * q28));
     acc6 = (acc6 + (q25 * q28));
     acc7 = (acc7 + (q25 * q28));
     acc8 = (acc8 + (q25 * q28));
     acc9 = (acc9 + (q25 * q28));
     acc10 = (acc10 + (q25 * q28));
     acc11 = (acc11 + (q25 * q28));
     acc12 = (acc12 + (q25 * q28));
    }
    if (i2 >= 0L && i2 * -1L >= -18L) {
     const tw::vec<float, 16> q29 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q30 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 32L));
     acc5 = (acc5 + (q29 * q30));
     const tw::vec<float, 16> q31 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 0L));
     const tw::vec<float, 16> q32 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 128L));
     acc5 = (acc5 + (q31 * q32));
     acc6 = (acc6 + (q31 * q30));
     const tw::vec<float, 16> q33 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 608L));
     const tw::vec<float, 16> q34 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 224L));
     acc5 = (acc5 + (q33 * q34));
     acc6 = (acc6 + (q33 * q32));
     acc7 = (acc7 + (q33 * q30));
     const tw::vec<float, 16> q35 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1216L));
     acc6 = (acc6 + (q35 * q34));
     acc7 = (acc7 + (q35 * q32));
     acc8 = (acc8 + (q35 * q30));
     const tw::vec<float, 16> q36 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1824L));
     acc7 = (acc7 + (q36 * q34));
     acc8 = (acc8 + (q36 * q32));
     acc9 = (acc9 + (q36 * q30));
     const tw::vec<float, 16> q37 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 2432L));
     acc8 = (acc8 + (q37 * q34));
     acc9 = (acc9 + (q37 * q32));
     acc10 = (acc10 + (q37 * q30));
     const tw::vec<float, 16> q38 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3040L));
     acc9 = (acc9 + (q38 * q34));
     acc10 = (acc10 + (q38 * q32));
     acc11 = (acc11 + (q38 * q30));
     const tw::vec<float, 16> q39 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3648L));
     acc10 = (acc10 + (q39 * q34));
     acc11 = (acc11 + (q39 * q32));
     acc12 = (acc12 + (q39 * q30));
     const tw::vec<float, 16> q40 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 4256L));
     acc11 = (acc11 + (q40 * q34));
     acc12 = (acc12 + (q40 * q32));
     acc12 = (acc12 + (q29 * q34));
    }
    else {
     const tw::vec<float, 16> q41 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q42 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 32L));
     acc5 = (acc5 + (q41 * q42));
     acc6 = (acc6 + (q41 * q42));
     acc7 = (acc7 + (q41 * q42));
     acc8 = (acc8 + (q41 * q42));
     acc9 = (acc9 + (q41 * q42));
     acc10 = (acc10 + (q41 * q42));
     acc11 = (acc11 + (q41 * q42));
     acc12 = (acc12 + (q41 * q42));
     const tw::vec<float, 16> q43 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 128L));
     acc5 = (acc5 + (q41 * q43));
     acc6 = (acc6 + (q41 * q43));
     acc7 = (acc7 + (q41 * q43));
     acc8 = (acc8 + (q41 * q43));
     acc9 = (acc9 + (q41 * q43));
     acc10 = (acc10 + (q41 * q43));
     acc11 = (acc11 + (q41 * q43));
     acc12 = (acc12 + (q41 * q43));
     const tw::vec<float, 16> q44 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 224L));
     acc5 = (acc5 + (q41 * q44));
     acc6 = (acc6 + (q41 * q44));
     acc7 = (acc7 + (q41 * q44));
     acc8 = (acc8 + (q41 * q44));
     acc9 = (acc9 + (q41 * q44));
     acc10 = (acc10 + (q41 * q44));
     acc11 = (acc11 + (q41 * q44));
     acc12 = (acc12 + (q41 * q44));
    }
    if (i2 >= -1L && i2 * -1L >= -17L) {
     const tw::vec<float, 16> q45 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q46 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 64L));
     acc5 = (acc5 + (q45 * q46));
     const tw::vec<float, 16> q47 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 32L));
     const tw::vec<float, 16> q48 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 160L));
     acc5 = (acc5 + (q47 * q48));
     acc6 = (acc6 + (q47 * q46));
     const tw::vec<float, 16> q49 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 640L));
     const tw::vec<float, 16> q50 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 256L));
     acc5 = (acc5 + (q49 * q50));
     acc6 = (acc6 + (q49 * q48));
     acc7 = (acc7 + (q49 * q46));
     const tw::vec<float, 16> q51 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1248L));
     acc6 = (acc6 + (q51 * q50));
     acc7 = (acc7 + (q51 * q48));
     acc8 = (acc8 + (q51 * q46));
     const tw::vec<float, 16> q52 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1856L));
     acc7 = (acc7 + (q52 * q50));
     acc8 = (acc8 + (q52 * q48));
     acc9 = (acc9 + (q52 * q46));
     const tw::vec<float, 16> q53 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 2464L));
     acc8 = (acc8 + (q53 * q50));
     acc9 = (acc9 + (q53 * q48));
     acc10 = (acc10 + (q53 * q46));
     const tw::vec<float, 16> q54 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3072L));
     acc9 = (acc9 + (q54 * q50));
     acc10 = (acc10 + (q54 * q48));
     acc11 = (acc11 + (q54 * q46));
     const tw::vec<float, 16> q55 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3680L));
     acc10 = (acc10 + (q55 * q50));
     acc11 = (acc11 + (q55 * q48));
     acc12 = (acc12 + (q55 * q46));
     const tw::vec<float, 16> q56 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 4288L));
     acc11 = (acc11 + (q56 * q50));
     acc12 = (acc12 + (q56 * q48));
     acc12 = (acc12 + (q45 * q50));
    }
    else {
     const tw::vec<float, 16> q57 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q58 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 64L));
     acc5 = (acc5 + (q57 * q58));
     acc6 = (acc6 + (q57 * q58));
     acc7 = (acc7 + (q57 * q58));
     acc8 = (acc8 + (q57 * q58));
     acc9 = (acc9 + (q57 * q58));
     acc10 = (acc10 + (q57 * q58));
     acc11 = (acc11 + (q57 * q58));
     acc12 = (acc12 + (q57 * q58));
     const tw::vec<float, 16> q59 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 160L));
     acc5 = (acc5 + (q57 * q59));
     acc6 = (acc6 + (q57 * q59));
     acc7 = (acc7 + (q57 * q59));
     acc8 = (acc8 + (q57 * q59));
     acc9 = (acc9 + (q57 * q59));
     acc10 = (acc10 + (q57 * q59));
     acc11 = (acc11 + (q57 * q59));
     acc12 = (acc12 + (q57 * q59));
     const tw::vec<float, 16> q60 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 256L));
     acc5 = (acc5 + (q57 * q60));
     acc6 = (acc6 + (q57 * q60));
     acc7 = (acc7 + (q57 * q60));
     acc8 = (acc8 + (q57 * q60));
     acc9 = (acc9 + (q57 * q60));
     acc10 = (acc10 + (q57 * q60));
     acc11 = (acc11 + (q57 * q60));
     acc12 = (acc12 + (q57 * q60));
    }
    {
     tw::store(s1 + ((((0 * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc5 - h2) * h3) + h4), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + (((((0 + 1) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc6 - h2) * h3) + h4), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + (((((0 + 2) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc7 - h2) * h3) + h4), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + (((((0 + 3) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc8 - h2) * h3) + h4), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + (((((0 + 4) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc9 - h2) * h3) + h4), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + (((((0 + 5) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc10 - h2) * h3) + h4), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + (((((0 + 6) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc11 - h2) * h3) + h4), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + (((((0 + 7) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc12 - h2) * h3) + h4), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
   }
  }
  i2_1++;
 }
}
}
TW_ENTRY(tw_golden) {
 (void)tensors; (void)args; (void)workspace; (void)env;
 using namespace tw_golden_;
 const float *const x0 = (const float *)tensors[0];
 const float *const x1 = (const float *)tensors[1];
 const float *const x2 = (const float *)tensors[2];
 const float *const x3 = (const float *)tensors[3];
 const float *const x4 = (const float *)tensors[4];
 const float *const x5 = (const float *)tensors[5];
 float *const s1 = (float *)tensors[6];
 const long tasks = args[0];
 {
  const long units = 19L, tasks_ = tw::imin(tasks, units);
  {
   tw_golden_task0_ctx ctx61 = {env, x0, x1, x2, x3, x4, x5, s1, tasks, units, tasks_};
   tw::parallel_for(env, tasks_, tw_golden_task0, &ctx61);
  }
 }
 return 0;
}

// cpu_stencil version 2, cpu:avx512
namespace tw_golden_ {
struct Ctx { const float *x0; const float *x1; const float *x2; const float *x3; const float *x4; const float *x5; float *s1; long strips, tasks; };
TW_NOINLINE void task(void *ctx, long task_, long) {
 const Ctx &c = *(const Ctx *)ctx;
 const float *const x0 = c.x0; (void)x0;
 const float *const x1 = c.x1; (void)x1;
 const float *const x2 = c.x2; (void)x2;
 const float *const x3 = c.x3; (void)x3;
 const float *const x4 = c.x4; (void)x4;
 const float *const x5 = c.x5; (void)x5;
 float *const s1 = c.s1; (void)s1;
 const long u0 = task_ * (19L) / c.tasks, u1 = (task_ + 1) * (19L) / c.tasks;
 long q_ = u0;
 long i2 = q_;
 for (long u_ = u0; u_ < u1; u_++) {
  {
   for (long v_ = 0L; v_ < 32L; v_ += 16L) {
    const auto h1 = tw::load<tw::vec<float, 16>>(x2 + (v_));
    const auto h2 = (tw::load<tw::vec<float, 16>>(x4 + (v_)) * tw::rsqrt((tw::abs(tw::load<tw::vec<float, 16>>(x3 + (v_))) + (float)(0x1.4f8b588e368f1p-17f))));
    const auto h3 = tw::load<tw::vec<float, 16>>(x5 + (v_));
    tw::vec<float, 16> acc4 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc5 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc6 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc7 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc8 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc9 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc10 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc11 = tw::splat<tw::vec<float, 16>>(0.0f);
    if (i2 >= 1L && i2 * -1L >= -19L) {
     const tw::vec<float, 16> q12 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q13 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 0L));
     acc4 = (acc4 + (q12 * q13));
     const tw::vec<float, 16> q14 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + -32L));
     const tw::vec<float, 16> q15 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 96L));
     acc4 = (acc4 + (q14 * q15));
     acc5 = (acc5 + (q14 * q13));
     const tw::vec<float, 16> q16 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 576L));
     const tw::vec<float, 16> q17 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 192L));
     acc4 = (acc4 + (q16 * q17));
     acc5 = (acc5 + (q16 * q15));
     acc6 = (acc6 + (q16 * q13));
     const tw::vec<float, 16> q18 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1184L));
     acc5 = (acc5 + (q18 * q17));
     acc6 = (acc6 + (q18 * q15));
     acc7 = (acc7 + (q18 * q13));
     const tw::vec<float, 16> q19 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1792L));
     acc6 = (acc6 + (q19 * q17));
     acc7 = (acc7 + (q19 * q15));
     acc8 = (acc8 + (q19 * q13));
     const tw::vec<float, 16> q20 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 2400L));
     acc7 = (acc7 + (q20 * q17));
     acc8 = (acc8 + (q20 * q15));
     acc9 = (acc9 + (q20 * q13));
     const tw::vec<float, 16> q21 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3008L));
     acc8 = (acc8 + (q21 * q17));
     acc9 = (acc9 + (q21 * q15));
     acc10 = (acc10 + (q21 * q13));
     const tw::vec<float, 16> q22 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3616L));
     acc9 = (acc9 + (q22 * q17));
     acc10 = (acc10 + (q22 * q15));
     acc11 = (acc11 + (q22 * q13));
     const tw::vec<float, 16> q23 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 4224L));
     acc10 = (acc10 + (q23 * q17));
     acc11 = (acc11 + (q23 * q15));
     acc11 = (acc11 + (q12 * q17));
    }
    else {
     const tw::vec<float, 16> q24 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q25 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 0L));
     acc4 = (acc4 + (q24 * q25));
     acc5 = (acc5 + (q24 * q25));
     acc6 = (acc6 + (q24 * q25));
     acc7 = (acc7 + (q24 * q25));
     acc8 = (acc8 + (q24 * q25));
     acc9 = (acc9 + (q24 * q25));
     acc10 = (acc10 + (q24 * q25));
     acc11 = (acc11 + (q24 * q25));
     const tw::vec<float, 16> q26 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 96L));
     acc4 = (acc4 + (q24 * q26));
     acc5 = (acc5 + (q24 * q26));
     acc6 = (acc6 + (q24 * q26));
     acc7 = (acc7 + (q24 * q26));
     acc8 = (acc8 + (q24 * q26));
     acc9 = (acc9 + (q24 * q26));
     acc10 = (acc10 + (q24 * q26));
     acc11 = (acc11 + (q24 * q26));
     const tw::vec<float, 16> q27 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 192L));
     acc4 = (acc4 + (q24 * q27));
     acc5 = (acc5 + (q24 * q27));
     acc6 = (acc6 + (q24 * q27));
     acc7 = (acc7 + (q24 * q27));
     acc8 = (acc8 + (q24 * q27));
     acc9 = (acc9 + (q24 * q27));
     acc10 = (acc10 + (q24 * q27));
     acc11 = (acc11 + (q24 * q27));
    }
    if (i2 >= 0L && i2 * -1L >= -18L) {
     const tw::vec<float, 16> q28 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q29 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 32L));
     acc4 = (acc4 + (q28 * q29));
     const tw::vec<float, 16> q30 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 0L));
     const tw::vec<float, 16> q31 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 128L));
     acc4 = (acc4 + (q30 * q31));
     acc5 = (acc5 + (q30 * q29));
     const tw::vec<float, 16> q32 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 608L));
     const tw::vec<float, 16> q33 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 224L));
     acc4 = (acc4 + (q32 * q33));
     acc5 = (acc5 + (q32 * q31));
     acc6 = (acc6 + (q32 * q29));
     const tw::vec<float, 16> q34 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1216L));
     acc5 = (acc5 + (q34 * q33));
     acc6 = (acc6 + (q34 * q31));
     acc7 = (acc7 + (q34 * q29));
     const tw::vec<float, 16> q35 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1824L));
     acc6 = (acc6 + (q35 * q33));
     acc7 = (acc7 + (q35 * q31));
     acc8 = (acc8 + (q35 * q29));
     const tw::vec<float, 16> q36 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 2432L));
     acc7 = (acc7 + (q36 * q33));
     acc8 = (acc8 + (q36 * q31));
     acc9 = (acc9 + (q36 * q29));
     const tw::vec<float, 16> q37 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3040L));
     acc8 = (acc8 + (q37 * q33));
     acc9 = (acc9 + (q37 * q31));
     acc10 = (acc10 + (q37 * q29));
     const tw::vec<float, 16> q38 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3648L));
     acc9 = (acc9 + (q38 * q33));
     acc10 = (acc10 + (q38 * q31));
     acc11 = (acc11 + (q38 * q29));
     const tw::vec<float, 16> q39 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 4256L));
     acc10 = (acc10 + (q39 * q33));
     acc11 = (acc11 + (q39 * q31));
     acc11 = (acc11 + (q28 * q33));
    }
    else {
     const tw::vec<float, 16> q40 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q41 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 32L));
     acc4 = (acc4 + (q40 * q41));
     acc5 = (acc5 + (q40 * q41));
     acc6 = (acc6 + (q40 * q41));
     acc7 = (acc7 + (q40 * q41));
     acc8 = (acc8 + (q40 * q41));
     acc9 = (acc9 + (q40 * q41));
     acc10 = (acc10 + (q40 * q41));
     acc11 = (acc11 + (q40 * q41));
     const tw::vec<float, 16> q42 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 128L));
     acc4 = (acc4 + (q40 * q42));
     acc5 = (acc5 + (q40 * q42));
     acc6 = (acc6 + (q40 * q42));
     acc7 = (acc7 + (q40 * q42));
     acc8 = (acc8 + (q40 * q42));
     acc9 = (acc9 + (q40 * q42));
     acc10 = (acc10 + (q40 * q42));
     acc11 = (acc11 + (q40 * q42));
     const tw::vec<float, 16> q43 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 224L));
     acc4 = (acc4 + (q40 * q43));
     acc5 = (acc5 + (q40 * q43));
     acc6 = (acc6 + (q40 * q43));
     acc7 = (acc7 + (q40 * q43));
     acc8 = (acc8 + (q40 * q43));
     acc9 = (acc9 + (q40 * q43));
     acc10 = (acc10 + (q40 * q43));
     acc11 = (acc11 + (q40 * q43));
    }
    if (i2 >= -1L && i2 * -1L >= -17L) {
     const tw::vec<float, 16> q44 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q45 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 64L));
     acc4 = (acc4 + (q44 * q45));
     const tw::vec<float, 16> q46 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 32L));
     const tw::vec<float, 16> q47 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 160L));
     acc4 = (acc4 + (q46 * q47));
     acc5 = (acc5 + (q46 * q45));
     const tw::vec<float, 16> q48 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 640L));
     const tw::vec<float, 16> q49 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 256L));
     acc4 = (acc4 + (q48 * q49));
     acc5 = (acc5 + (q48 * q47));
     acc6 = (acc6 + (q48 * q45));
     const tw::vec<float, 16> q50 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1248L));
     acc5 = (acc5 + (q50 * q49));
     acc6 = (acc6 + (q50 * q47));
     acc7 = (acc7 + (q50 * q45));
     const tw::vec<float, 16> q51 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1856L));
     acc6 = (acc6 + (q51 * q49));
     acc7 = (acc7 + (q51 * q47));
     acc8 = (acc8 + (q51 * q45));
     const tw::vec<float, 16> q52 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 2464L));
     acc7 = (acc7 + (q52 * q49));
     acc8 = (acc8 + (q52 * q47));
     acc9 = (acc9 + (q52 * q45));
     const tw::vec<float, 16> q53 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3072L));
     acc8 = (acc8 + (q53 * q49));
     acc9 = (acc9 + (q53 * q47));
     acc10 = (acc10 + (q53 * q45));
     const tw::vec<float, 16> q54 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3680L));
     acc9 = (acc9 + (q54 * q49));
     acc10 = (acc10 + (q54 * q47));
     acc11 = (acc11 + (q54 * q45));
     const tw::vec<float, 16> q55 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 4288L));
     acc10 = (acc10 + (q55 * q49));
     acc11 = (acc11 + (q55 * q47));
     acc11 = (acc11 + (q44 * q49));
    }
    else {
     const tw::vec<float, 16> q56 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q57 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 64L));
     acc4 = (acc4 + (q56 * q57));
     acc5 = (acc5 + (q56 * q57));
     acc6 = (acc6 + (q56 * q57));
     acc7 = (acc7 + (q56 * q57));
     acc8 = (acc8 + (q56 * q57));
     acc9 = (acc9 + (q56 * q57));
     acc10 = (acc10 + (q56 * q57));
     acc11 = (acc11 + (q56 * q57));
     const tw::vec<float, 16> q58 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 160L));
     acc4 = (acc4 + (q56 * q58));
     acc5 = (acc5 + (q56 * q58));
     acc6 = (acc6 + (q56 * q58));
     acc7 = (acc7 + (q56 * q58));
     acc8 = (acc8 + (q56 * q58));
     acc9 = (acc9 + (q56 * q58));
     acc10 = (acc10 + (q56 * q58));
     acc11 = (acc11 + (q56 * q58));
     const tw::vec<float, 16> q59 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 256L));
     acc4 = (acc4 + (q56 * q59));
     acc5 = (acc5 + (q56 * q59));
     acc6 = (acc6 + (q56 * q59));
     acc7 = (acc7 + (q56 * q59));
     acc8 = (acc8 + (q56 * q59));
     acc9 = (acc9 + (q56 * q59));
     acc10 = (acc10 + (q56 * q59));
     acc11 = (acc11 + (q56 * q59));
    }
    {
     tw::store(s1 + ((((0 * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc4 - h1) * h2) + h3), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + (((((0 + 1) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc5 - h1) * h2) + h3), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + (((((0 + 2) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc6 - h1) * h2) + h3), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + (((((0 + 3) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc7 - h1) * h2) + h3), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + (((((0 + 4) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc8 - h1) * h2) + h3), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + (((((0 + 5) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc9 - h1) * h2) + h3), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + (((((0 + 6) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc10 - h1) * h2) + h3), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + (((((0 + 7) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc11 - h1) * h2) + h3), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
   }
  }
  i2++;
 }
}
}
TW_ENTRY(tw_golden) {
 (void)args; (void)workspace; using namespace tw_golden_;
 Ctx c;
 c.x0 = (const float *)tensors[0];
 c.x1 = (const float *)tensors[1];
 c.x2 = (const float *)tensors[2];
 c.x3 = (const float *)tensors[3];
 c.x4 = (const float *)tensors[4];
 c.x5 = (const float *)tensors[5];
 c.s1 = (float *)tensors[6];
 c.strips = 1;
 c.tasks = tw::imin(args[0], 19L);
 tw::parallel_for(env, c.tasks, task, &c);
 return 0;
}

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
 const long u0 = task_ * (9L) / c.tasks, u1 = (task_ + 1) * (9L) / c.tasks;
 long q_ = u0;
 long i1 = q_;
 for (long u_ = u0; u_ < u1; u_++) {
  {
   {
    const auto h1 = tw::load<tw::vec<float, 16>>(x2 + (0));
    const auto h2 = (tw::load<tw::vec<float, 16>>(x4 + (0)) * tw::rsqrt((tw::abs(tw::load<tw::vec<float, 16>>(x3 + (0))) + (float)(0x1.4f8b588e368f1p-17f))));
    const auto h3 = tw::load<tw::vec<float, 16>>(x5 + (0));
    tw::vec<float, 16> acc4 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc5 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc6 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc7 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc8 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc9 = tw::splat<tw::vec<float, 16>>(0.0f);
    if (i1 >= 1L && i1 * -1L >= -9L) {
     const tw::vec<float, 16> q10 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q11 = tw::load<tw::vec<float, 16>>(x1 + 0L);
     acc4 = (acc4 + (q10 * q11));
     const tw::vec<float, 16> q12 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + -231L));
     const tw::vec<float, 16> q13 = tw::load<tw::vec<float, 16>>(x1 + 21L);
     acc4 = (acc4 + (q12 * q13));
     acc5 = (acc5 + (q12 * q11));
     const tw::vec<float, 16> q14 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + -210L));
     const tw::vec<float, 16> q15 = tw::load<tw::vec<float, 16>>(x1 + 42L);
     acc4 = (acc4 + (q14 * q15));
     acc5 = (acc5 + (q14 * q13));
     acc6 = (acc6 + (q14 * q11));
     const tw::vec<float, 16> q16 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + -189L));
     acc5 = (acc5 + (q16 * q15));
     acc6 = (acc6 + (q16 * q13));
     acc7 = (acc7 + (q16 * q11));
     const tw::vec<float, 16> q17 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + -168L));
     acc6 = (acc6 + (q17 * q15));
     acc7 = (acc7 + (q17 * q13));
     acc8 = (acc8 + (q17 * q11));
     const tw::vec<float, 16> q18 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + -147L));
     acc7 = (acc7 + (q18 * q15));
     acc8 = (acc8 + (q18 * q13));
     acc9 = (acc9 + (q18 * q11));
     const tw::vec<float, 16> q19 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + -126L));
     acc8 = (acc8 + (q19 * q15));
     acc9 = (acc9 + (q19 * q13));
     const tw::vec<float, 16> q20 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + -105L));
     acc9 = (acc9 + (q20 * q15));
    }
    else {
     const tw::vec<float, 16> q21 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q22 = tw::load<tw::vec<float, 16>>(x1 + 0L);
     acc4 = (acc4 + (q21 * q22));
     acc5 = (acc5 + (q21 * q22));
     acc6 = (acc6 + (q21 * q22));
     acc7 = (acc7 + (q21 * q22));
     acc8 = (acc8 + (q21 * q22));
     acc9 = (acc9 + (q21 * q22));
     const tw::vec<float, 16> q23 = tw::load<tw::vec<float, 16>>(x1 + 21L);
     acc4 = (acc4 + (q21 * q23));
     acc5 = (acc5 + (q21 * q23));
     acc6 = (acc6 + (q21 * q23));
     acc7 = (acc7 + (q21 * q23));
     acc8 = (acc8 + (q21 * q23));
     acc9 = (acc9 + (q21 * q23));
     const tw::vec<float, 16> q24 = tw::load<tw::vec<float, 16>>(x1 + 42L);
     acc4 = (acc4 + (q21 * q24));
     acc5 = (acc5 + (q21 * q24));
     acc6 = (acc6 + (q21 * q24));
     acc7 = (acc7 + (q21 * q24));
     acc8 = (acc8 + (q21 * q24));
     acc9 = (acc9 + (q21 * q24));
    }
    if (i1 >= 0L && i1 * -1L >= -8L) {
     const tw::vec<float, 16> q25 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q26 = tw::load<tw::vec<float, 16>>(x1 + 63L);
     acc4 = (acc4 + (q25 * q26));
     const tw::vec<float, 16> q27 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 0L));
     const tw::vec<float, 16> q28 = tw::load<tw::vec<float, 16>>(x1 + 84L);
     acc4 = (acc4 + (q27 * q28));
     acc5 = (acc5 + (q27 * q26));
     const tw::vec<float, 16> q29 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 21L));
     const tw::vec<float, 16> q30 = tw::load<tw::vec<float, 16>>(x1 + 105L);
     acc4 = (acc4 + (q29 * q30));
     acc5 = (acc5 + (q29 * q28));
     acc6 = (acc6 + (q29 * q26));
     const tw::vec<float, 16> q31 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 42L));
     acc5 = (acc5 + (q31 * q30));
     acc6 = (acc6 + (q31 * q28));
     acc7 = (acc7 + (q31 * q26));
     const tw::vec<float, 16> q32 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 63L));
     acc6 = (acc6 + (q32 * q30));
     acc7 = (acc7 + (q32 * q28));
     acc8 = (acc8 + (q32 * q26));
     const tw::vec<float, 16> q33 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 84L));
     acc7 = (acc7 + (q33 * q30));
     acc8 = (acc8 + (q33 * q28));
     acc9 = (acc9 + (q33 * q26));
     const tw::vec<float, 16> q34 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 105L));
     acc8 = (acc8 + (q34 * q30));
     acc9 = (acc9 + (q34 * q28));
     const tw::vec<float, 16> q35 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 126L));
     acc9 = (acc9 + (q35 * q30));
    }
    else {
     const tw::vec<float, 16> q36 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q37 = tw::load<tw::vec<float, 16>>(x1 + 63L);
     acc4 = (acc4 + (q36 * q37));
     acc5 = (acc5 + (q36 * q37));
     acc6 = (acc6 + (q36 * q37));
     acc7 = (acc7 + (q36 * q37));
     acc8 = (acc8 + (q36 * q37));
     acc9 = (acc9 + (q36 * q37));
     const tw::vec<float, 16> q38 = tw::load<tw::vec<float, 16>>(x1 + 84L);
     acc4 = (acc4 + (q36 * q38));
     acc5 = (acc5 + (q36 * q38));
     acc6 = (acc6 + (q36 * q38));
     acc7 = (acc7 + (q36 * q38));
     acc8 = (acc8 + (q36 * q38));
     acc9 = (acc9 + (q36 * q38));
     const tw::vec<float, 16> q39 = tw::load<tw::vec<float, 16>>(x1 + 105L);
     acc4 = (acc4 + (q36 * q39));
     acc5 = (acc5 + (q36 * q39));
     acc6 = (acc6 + (q36 * q39));
     acc7 = (acc7 + (q36 * q39));
     acc8 = (acc8 + (q36 * q39));
     acc9 = (acc9 + (q36 * q39));
    }
    if (i1 >= -1L && i1 * -1L >= -7L) {
     const tw::vec<float, 16> q40 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q41 = tw::load<tw::vec<float, 16>>(x1 + 126L);
     acc4 = (acc4 + (q40 * q41));
     const tw::vec<float, 16> q42 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 231L));
     const tw::vec<float, 16> q43 = tw::load<tw::vec<float, 16>>(x1 + 147L);
     acc4 = (acc4 + (q42 * q43));
     acc5 = (acc5 + (q42 * q41));
     const tw::vec<float, 16> q44 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 252L));
     const tw::vec<float, 16> q45 = tw::load<tw::vec<float, 16>>(x1 + 168L);
     acc4 = (acc4 + (q44 * q45));
     acc5 = (acc5 + (q44 * q43));
     acc6 = (acc6 + (q44 * q41));
     const tw::vec<float, 16> q46 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 273L));
     acc5 = (acc5 + (q46 * q45));
     acc6 = (acc6 + (q46 * q43));
     acc7 = (acc7 + (q46 * q41));
     const tw::vec<float, 16> q47 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 294L));
     acc6 = (acc6 + (q47 * q45));
     acc7 = (acc7 + (q47 * q43));
     acc8 = (acc8 + (q47 * q41));
     const tw::vec<float, 16> q48 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 315L));
     acc7 = (acc7 + (q48 * q45));
     acc8 = (acc8 + (q48 * q43));
     acc9 = (acc9 + (q48 * q41));
     const tw::vec<float, 16> q49 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 336L));
     acc8 = (acc8 + (q49 * q45));
     acc9 = (acc9 + (q49 * q43));
     const tw::vec<float, 16> q50 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 357L));
     acc9 = (acc9 + (q50 * q45));
    }
    else {
     const tw::vec<float, 16> q51 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q52 = tw::load<tw::vec<float, 16>>(x1 + 126L);
     acc4 = (acc4 + (q51 * q52));
     acc5 = (acc5 + (q51 * q52));
     acc6 = (acc6 + (q51 * q52));
     acc7 = (acc7 + (q51 * q52));
     acc8 = (acc8 + (q51 * q52));
     acc9 = (acc9 + (q51 * q52));
     const tw::vec<float, 16> q53 = tw::load<tw::vec<float, 16>>(x1 + 147L);
     acc4 = (acc4 + (q51 * q53));
     acc5 = (acc5 + (q51 * q53));
     acc6 = (acc6 + (q51 * q53));
     acc7 = (acc7 + (q51 * q53));
     acc8 = (acc8 + (q51 * q53));
     acc9 = (acc9 + (q51 * q53));
     const tw::vec<float, 16> q54 = tw::load<tw::vec<float, 16>>(x1 + 168L);
     acc4 = (acc4 + (q51 * q54));
     acc5 = (acc5 + (q51 * q54));
     acc6 = (acc6 + (q51 * q54));
     acc7 = (acc7 + (q51 * q54));
     acc8 = (acc8 + (q51 * q54));
     acc9 = (acc9 + (q51 * q54));
    }
    {
     tw::store(s1 + ((((i1 * 231L) + (0 * 21L)) + 0)), tw::max<tw::vec<float, 16>>((((acc4 - h1) * h2) + h3), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + ((((i1 * 231L) + ((0 + 1) * 21L)) + 0)), tw::max<tw::vec<float, 16>>((((acc5 - h1) * h2) + h3), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + ((((i1 * 231L) + ((0 + 2) * 21L)) + 0)), tw::max<tw::vec<float, 16>>((((acc6 - h1) * h2) + h3), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + ((((i1 * 231L) + ((0 + 3) * 21L)) + 0)), tw::max<tw::vec<float, 16>>((((acc7 - h1) * h2) + h3), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + ((((i1 * 231L) + ((0 + 4) * 21L)) + 0)), tw::max<tw::vec<float, 16>>((((acc8 - h1) * h2) + h3), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + ((((i1 * 231L) + ((0 + 5) * 21L)) + 0)), tw::max<tw::vec<float, 16>>((((acc9 - h1) * h2) + h3), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
   }
   {
    const auto h55 = tw::load_n<tw::vec<float, 16>>(x2 + (16), 5);
    const auto h56 = (tw::load_n<tw::vec<float, 16>>(x4 + (16), 5) * tw::rsqrt((tw::abs(tw::load_n<tw::vec<float, 16>>(x3 + (16), 5)) + (float)(0x1.4f8b588e368f1p-17f))));
    const auto h57 = tw::load_n<tw::vec<float, 16>>(x5 + (16), 5);
    tw::vec<float, 16> acc58 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc59 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc60 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc61 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc62 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc63 = tw::splat<tw::vec<float, 16>>(0.0f);
    if (i1 >= 1L && i1 * -1L >= -9L) {
     const tw::vec<float, 16> q64 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q65 = tw::load_n<tw::vec<float, 16>>(x1 + 16L, 5);
     acc58 = (acc58 + (q64 * q65));
     const tw::vec<float, 16> q66 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + -215L), 5);
     const tw::vec<float, 16> q67 = tw::load_n<tw::vec<float, 16>>(x1 + 37L, 5);
     acc58 = (acc58 + (q66 * q67));
     acc59 = (acc59 + (q66 * q65));
     const tw::vec<float, 16> q68 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + -194L), 5);
     const tw::vec<float, 16> q69 = tw::load_n<tw::vec<float, 16>>(x1 + 58L, 5);
     acc58 = (acc58 + (q68 * q69));
     acc59 = (acc59 + (q68 * q67));
     acc60 = (acc60 + (q68 * q65));
     const tw::vec<float, 16> q70 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + -173L), 5);
     acc59 = (acc59 + (q70 * q69));
     acc60 = (acc60 + (q70 * q67));
     acc61 = (acc61 + (q70 * q65));
     const tw::vec<float, 16> q71 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + -152L), 5);
     acc60 = (acc60 + (q71 * q69));
     acc61 = (acc61 + (q71 * q67));
     acc62 = (acc62 + (q71 * q65));
     const tw::vec<float, 16> q72 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + -131L), 5);
     acc61 = (acc61 + (q72 * q69));
     acc62 = (acc62 + (q72 * q67));
     acc63 = (acc63 + (q72 * q65));
     const tw::vec<float, 16> q73 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + -110L), 5);
     acc62 = (acc62 + (q73 * q69));
     acc63 = (acc63 + (q73 * q67));
     const tw::vec<float, 16> q74 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + -89L), 5);
     acc63 = (acc63 + (q74 * q69));
    }
    else {
     const tw::vec<float, 16> q75 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q76 = tw::load_n<tw::vec<float, 16>>(x1 + 16L, 5);
     acc58 = (acc58 + (q75 * q76));
     acc59 = (acc59 + (q75 * q76));
     acc60 = (acc60 + (q75 * q76));
     acc61 = (acc61 + (q75 * q76));
     acc62 = (acc62 + (q75 * q76));
     acc63 = (acc63 + (q75 * q76));
     const tw::vec<float, 16> q77 = tw::load_n<tw::vec<float, 16>>(x1 + 37L, 5);
     acc58 = (acc58 + (q75 * q77));
     acc59 = (acc59 + (q75 * q77));
     acc60 = (acc60 + (q75 * q77));
     acc61 = (acc61 + (q75 * q77));
     acc62 = (acc62 + (q75 * q77));
     acc63 = (acc63 + (q75 * q77));
     const tw::vec<float, 16> q78 = tw::load_n<tw::vec<float, 16>>(x1 + 58L, 5);
     acc58 = (acc58 + (q75 * q78));
     acc59 = (acc59 + (q75 * q78));
     acc60 = (acc60 + (q75 * q78));
     acc61 = (acc61 + (q75 * q78));
     acc62 = (acc62 + (q75 * q78));
     acc63 = (acc63 + (q75 * q78));
    }
    if (i1 >= 0L && i1 * -1L >= -8L) {
     const tw::vec<float, 16> q79 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q80 = tw::load_n<tw::vec<float, 16>>(x1 + 79L, 5);
     acc58 = (acc58 + (q79 * q80));
     const tw::vec<float, 16> q81 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 16L), 5);
     const tw::vec<float, 16> q82 = tw::load_n<tw::vec<float, 16>>(x1 + 100L, 5);
     acc58 = (acc58 + (q81 * q82));
     acc59 = (acc59 + (q81 * q80));
     const tw::vec<float, 16> q83 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 37L), 5);
     const tw::vec<float, 16> q84 = tw::load_n<tw::vec<float, 16>>(x1 + 121L, 5);
     acc58 = (acc58 + (q83 * q84));
     acc59 = (acc59 + (q83 * q82));
     acc60 = (acc60 + (q83 * q80));
     const tw::vec<float, 16> q85 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 58L), 5);
     acc59 = (acc59 + (q85 * q84));
     acc60 = (acc60 + (q85 * q82));
     acc61 = (acc61 + (q85 * q80));
     const tw::vec<float, 16> q86 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 79L), 5);
     acc60 = (acc60 + (q86 * q84));
     acc61 = (acc61 + (q86 * q82));
     acc62 = (acc62 + (q86 * q80));
     const tw::vec<float, 16> q87 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 100L), 5);
     acc61 = (acc61 + (q87 * q84));
     acc62 = (acc62 + (q87 * q82));
     acc63 = (acc63 + (q87 * q80));
     const tw::vec<float, 16> q88 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 121L), 5);
     acc62 = (acc62 + (q88 * q84));
     acc63 = (acc63 + (q88 * q82));
     const tw::vec<float, 16> q89 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 142L), 5);
     acc63 = (acc63 + (q89 * q84));
    }
    else {
     const tw::vec<float, 16> q90 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q91 = tw::load_n<tw::vec<float, 16>>(x1 + 79L, 5);
     acc58 = (acc58 + (q90 * q91));
     acc59 = (acc59 + (q90 * q91));
     acc60 = (acc60 + (q90 * q91));
     acc61 = (acc61 + (q90 * q91));
     acc62 = (acc62 + (q90 * q91));
     acc63 = (acc63 + (q90 * q91));
     const tw::vec<float, 16> q92 = tw::load_n<tw::vec<float, 16>>(x1 + 100L, 5);
     acc58 = (acc58 + (q90 * q92));
     acc59 = (acc59 + (q90 * q92));
     acc60 = (acc60 + (q90 * q92));
     acc61 = (acc61 + (q90 * q92));
     acc62 = (acc62 + (q90 * q92));
     acc63 = (acc63 + (q90 * q92));
     const tw::vec<float, 16> q93 = tw::load_n<tw::vec<float, 16>>(x1 + 121L, 5);
     acc58 = (acc58 + (q90 * q93));
     acc59 = (acc59 + (q90 * q93));
     acc60 = (acc60 + (q90 * q93));
     acc61 = (acc61 + (q90 * q93));
     acc62 = (acc62 + (q90 * q93));
     acc63 = (acc63 + (q90 * q93));
    }
    if (i1 >= -1L && i1 * -1L >= -7L) {
     const tw::vec<float, 16> q94 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q95 = tw::load_n<tw::vec<float, 16>>(x1 + 142L, 5);
     acc58 = (acc58 + (q94 * q95));
     const tw::vec<float, 16> q96 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 247L), 5);
     const tw::vec<float, 16> q97 = tw::load_n<tw::vec<float, 16>>(x1 + 163L, 5);
     acc58 = (acc58 + (q96 * q97));
     acc59 = (acc59 + (q96 * q95));
     const tw::vec<float, 16> q98 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 268L), 5);
     const tw::vec<float, 16> q99 = tw::load_n<tw::vec<float, 16>>(x1 + 184L, 5);
     acc58 = (acc58 + (q98 * q99));
     acc59 = (acc59 + (q98 * q97));
     acc60 = (acc60 + (q98 * q95));
     const tw::vec<float, 16> q100 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 289L), 5);
     acc59 = (acc59 + (q100 * q99));
     acc60 = (acc60 + (q100 * q97));
     acc61 = (acc61 + (q100 * q95));
     const tw::vec<float, 16> q101 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 310L), 5);
     acc60 = (acc60 + (q101 * q99));
     acc61 = (acc61 + (q101 * q97));
     acc62 = (acc62 + (q101 * q95));
     const tw::vec<float, 16> q102 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 331L), 5);
     acc61 = (acc61 + (q102 * q99));
     acc62 = (acc62 + (q102 * q97));
     acc63 = (acc63 + (q102 * q95));
     const tw::vec<float, 16> q103 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 352L), 5);
     acc62 = (acc62 + (q103 * q99));
     acc63 = (acc63 + (q103 * q97));
     const tw::vec<float, 16> q104 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 373L), 5);
     acc63 = (acc63 + (q104 * q99));
    }
    else {
     const tw::vec<float, 16> q105 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q106 = tw::load_n<tw::vec<float, 16>>(x1 + 142L, 5);
     acc58 = (acc58 + (q105 * q106));
     acc59 = (acc59 + (q105 * q106));
     acc60 = (acc60 + (q105 * q106));
     acc61 = (acc61 + (q105 * q106));
     acc62 = (acc62 + (q105 * q106));
     acc63 = (acc63 + (q105 * q106));
     const tw::vec<float, 16> q107 = tw::load_n<tw::vec<float, 16>>(x1 + 163L, 5);
     acc58 = (acc58 + (q105 * q107));
     acc59 = (acc59 + (q105 * q107));
     acc60 = (acc60 + (q105 * q107));
     acc61 = (acc61 + (q105 * q107));
     acc62 = (acc62 + (q105 * q107));
     acc63 = (acc63 + (q105 * q107));
     const tw::vec<float, 16> q108 = tw::load_n<tw::vec<float, 16>>(x1 + 184L, 5);
     acc58 = (acc58 + (q105 * q108));
     acc59 = (acc59 + (q105 * q108));
     acc60 = (acc60 + (q105 * q108));
     acc61 = (acc61 + (q105 * q108));
     acc62 = (acc62 + (q105 * q108));
     acc63 = (acc63 + (q105 * q108));
    }
    {
     tw::store_n(s1 + ((((i1 * 231L) + (0 * 21L)) + 16)), tw::max<tw::vec<float, 16>>((((acc58 - h55) * h56) + h57), tw::splat<tw::vec<float, 16>>(0.0f)), 5);
    }
    {
     tw::store_n(s1 + ((((i1 * 231L) + ((0 + 1) * 21L)) + 16)), tw::max<tw::vec<float, 16>>((((acc59 - h55) * h56) + h57), tw::splat<tw::vec<float, 16>>(0.0f)), 5);
    }
    {
     tw::store_n(s1 + ((((i1 * 231L) + ((0 + 2) * 21L)) + 16)), tw::max<tw::vec<float, 16>>((((acc60 - h55) * h56) + h57), tw::splat<tw::vec<float, 16>>(0.0f)), 5);
    }
    {
     tw::store_n(s1 + ((((i1 * 231L) + ((0 + 3) * 21L)) + 16)), tw::max<tw::vec<float, 16>>((((acc61 - h55) * h56) + h57), tw::splat<tw::vec<float, 16>>(0.0f)), 5);
    }
    {
     tw::store_n(s1 + ((((i1 * 231L) + ((0 + 4) * 21L)) + 16)), tw::max<tw::vec<float, 16>>((((acc62 - h55) * h56) + h57), tw::splat<tw::vec<float, 16>>(0.0f)), 5);
    }
    {
     tw::store_n(s1 + ((((i1 * 231L) + ((0 + 5) * 21L)) + 16)), tw::max<tw::vec<float, 16>>((((acc63 - h55) * h56) + h57), tw::splat<tw::vec<float, 16>>(0.0f)), 5);
    }
   }
  }
  {
   {
    const auto h109 = tw::load<tw::vec<float, 16>>(x2 + (0));
    const auto h110 = (tw::load<tw::vec<float, 16>>(x4 + (0)) * tw::rsqrt((tw::abs(tw::load<tw::vec<float, 16>>(x3 + (0))) + (float)(0x1.4f8b588e368f1p-17f))));
    const auto h111 = tw::load<tw::vec<float, 16>>(x5 + (0));
    tw::vec<float, 16> acc112 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc113 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc114 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc115 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc116 = tw::splat<tw::vec<float, 16>>(0.0f);
    if (i1 >= 1L && i1 * -1L >= -9L) {
     const tw::vec<float, 16> q117 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + -126L));
     const tw::vec<float, 16> q118 = tw::load<tw::vec<float, 16>>(x1 + 0L);
     acc112 = (acc112 + (q117 * q118));
     const tw::vec<float, 16> q119 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + -105L));
     const tw::vec<float, 16> q120 = tw::load<tw::vec<float, 16>>(x1 + 21L);
     acc112 = (acc112 + (q119 * q120));
     acc113 = (acc113 + (q119 * q118));
     const tw::vec<float, 16> q121 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + -84L));
     const tw::vec<float, 16> q122 = tw::load<tw::vec<float, 16>>(x1 + 42L);
     acc112 = (acc112 + (q121 * q122));
     acc113 = (acc113 + (q121 * q120));
     acc114 = (acc114 + (q121 * q118));
     const tw::vec<float, 16> q123 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + -63L));
     acc113 = (acc113 + (q123 * q122));
     acc114 = (acc114 + (q123 * q120));
     acc115 = (acc115 + (q123 * q118));
     const tw::vec<float, 16> q124 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + -42L));
     acc114 = (acc114 + (q124 * q122));
     acc115 = (acc115 + (q124 * q120));
     acc116 = (acc116 + (q124 * q118));
     const tw::vec<float, 16> q125 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + -21L));
     acc115 = (acc115 + (q125 * q122));
     acc116 = (acc116 + (q125 * q120));
     const tw::vec<float, 16> q126 = tw::splat<tw::vec<float, 16>>(0.0f);
     acc116 = (acc116 + (q126 * q122));
    }
    else {
     const tw::vec<float, 16> q127 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q128 = tw::load<tw::vec<float, 16>>(x1 + 0L);
     acc112 = (acc112 + (q127 * q128));
     acc113 = (acc113 + (q127 * q128));
     acc114 = (acc114 + (q127 * q128));
     acc115 = (acc115 + (q127 * q128));
     acc116 = (acc116 + (q127 * q128));
     const tw::vec<float, 16> q129 = tw::load<tw::vec<float, 16>>(x1 + 21L);
     acc112 = (acc112 + (q127 * q129));
     acc113 = (acc113 + (q127 * q129));
     acc114 = (acc114 + (q127 * q129));
     acc115 = (acc115 + (q127 * q129));
     acc116 = (acc116 + (q127 * q129));
     const tw::vec<float, 16> q130 = tw::load<tw::vec<float, 16>>(x1 + 42L);
     acc112 = (acc112 + (q127 * q130));
     acc113 = (acc113 + (q127 * q130));
     acc114 = (acc114 + (q127 * q130));
     acc115 = (acc115 + (q127 * q130));
     acc116 = (acc116 + (q127 * q130));
    }
    if (i1 >= 0L && i1 * -1L >= -8L) {
     const tw::vec<float, 16> q131 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 105L));
     const tw::vec<float, 16> q132 = tw::load<tw::vec<float, 16>>(x1 + 63L);
     acc112 = (acc112 + (q131 * q132));
     const tw::vec<float, 16> q133 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 126L));
     const tw::vec<float, 16> q134 = tw::load<tw::vec<float, 16>>(x1 + 84L);
     acc112 = (acc112 + (q133 * q134));
     acc113 = (acc113 + (q133 * q132));
     const tw::vec<float, 16> q135 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 147L));
     const tw::vec<float, 16> q136 = tw::load<tw::vec<float, 16>>(x1 + 105L);
     acc112 = (acc112 + (q135 * q136));
     acc113 = (acc113 + (q135 * q134));
     acc114 = (acc114 + (q135 * q132));
     const tw::vec<float, 16> q137 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 168L));
     acc113 = (acc113 + (q137 * q136));
     acc114 = (acc114 + (q137 * q134));
     acc115 = (acc115 + (q137 * q132));
     const tw::vec<float, 16> q138 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 189L));
     acc114 = (acc114 + (q138 * q136));
     acc115 = (acc115 + (q138 * q134));
     acc116 = (acc116 + (q138 * q132));
     const tw::vec<float, 16> q139 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 210L));
     acc115 = (acc115 + (q139 * q136));
     acc116 = (acc116 + (q139 * q134));
     const tw::vec<float, 16> q140 = tw::splat<tw::vec<float, 16>>(0.0f);
     acc116 = (acc116 + (q140 * q136));
    }
    else {
     const tw::vec<float, 16> q141 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q142 = tw::load<tw::vec<float, 16>>(x1 + 63L);
     acc112 = (acc112 + (q141 * q142));
     acc113 = (acc113 + (q141 * q142));
     acc114 = (acc114 + (q141 * q142));
     acc115 = (acc115 + (q141 * q142));
     acc116 = (acc116 + (q141 * q142));
     const tw::vec<float, 16> q143 = tw::load<tw::vec<float, 16>>(x1 + 84L);
     acc112 = (acc112 + (q141 * q143));
     acc113 = (acc113 + (q141 * q143));
     acc114 = (acc114 + (q141 * q143));
     acc115 = (acc115 + (q141 * q143));
     acc116 = (acc116 + (q141 * q143));
     const tw::vec<float, 16> q144 = tw::load<tw::vec<float, 16>>(x1 + 105L);
     acc112 = (acc112 + (q141 * q144));
     acc113 = (acc113 + (q141 * q144));
     acc114 = (acc114 + (q141 * q144));
     acc115 = (acc115 + (q141 * q144));
     acc116 = (acc116 + (q141 * q144));
    }
    if (i1 >= -1L && i1 * -1L >= -7L) {
     const tw::vec<float, 16> q145 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 336L));
     const tw::vec<float, 16> q146 = tw::load<tw::vec<float, 16>>(x1 + 126L);
     acc112 = (acc112 + (q145 * q146));
     const tw::vec<float, 16> q147 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 357L));
     const tw::vec<float, 16> q148 = tw::load<tw::vec<float, 16>>(x1 + 147L);
     acc112 = (acc112 + (q147 * q148));
     acc113 = (acc113 + (q147 * q146));
     const tw::vec<float, 16> q149 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 378L));
     const tw::vec<float, 16> q150 = tw::load<tw::vec<float, 16>>(x1 + 168L);
     acc112 = (acc112 + (q149 * q150));
     acc113 = (acc113 + (q149 * q148));
     acc114 = (acc114 + (q149 * q146));
     const tw::vec<float, 16> q151 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 399L));
     acc113 = (acc113 + (q151 * q150));
     acc114 = (acc114 + (q151 * q148));
     acc115 = (acc115 + (q151 * q146));
     const tw::vec<float, 16> q152 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 420L));
     acc114 = (acc114 + (q152 * q150));
     acc115 = (acc115 + (q152 * q148));
     acc116 = (acc116 + (q152 * q146));
     const tw::vec<float, 16> q153 = tw::load<tw::vec<float, 16>>(x0 + (i1 * 231L + 441L));
     acc115 = (acc115 + (q153 * q150));
     acc116 = (acc116 + (q153 * q148));
     const tw::vec<float, 16> q154 = tw::splat<tw::vec<float, 16>>(0.0f);
     acc116 = (acc116 + (q154 * q150));
    }
    else {
     const tw::vec<float, 16> q155 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q156 = tw::load<tw::vec<float, 16>>(x1 + 126L);
     acc112 = (acc112 + (q155 * q156));
     acc113 = (acc113 + (q155 * q156));
     acc114 = (acc114 + (q155 * q156));
     acc115 = (acc115 + (q155 * q156));
     acc116 = (acc116 + (q155 * q156));
     const tw::vec<float, 16> q157 = tw::load<tw::vec<float, 16>>(x1 + 147L);
     acc112 = (acc112 + (q155 * q157));
     acc113 = (acc113 + (q155 * q157));
     acc114 = (acc114 + (q155 * q157));
     acc115 = (acc115 + (q155 * q157));
     acc116 = (acc116 + (q155 * q157));
     const tw::vec<float, 16> q158 = tw::load<tw::vec<float, 16>>(x1 + 168L);
     acc112 = (acc112 + (q155 * q158));
     acc113 = (acc113 + (q155 * q158));
     acc114 = (acc114 + (q155 * q158));
     acc115 = (acc115 + (q155 * q158));
     acc116 = (acc116 + (q155 * q158));
    }
    {
     tw::store(s1 + ((((i1 * 231L) + (6 * 21L)) + 0)), tw::max<tw::vec<float, 16>>((((acc112 - h109) * h110) + h111), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + ((((i1 * 231L) + ((6 + 1) * 21L)) + 0)), tw::max<tw::vec<float, 16>>((((acc113 - h109) * h110) + h111), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + ((((i1 * 231L) + ((6 + 2) * 21L)) + 0)), tw::max<tw::vec<float, 16>>((((acc114 - h109) * h110) + h111), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + ((((i1 * 231L) + ((6 + 3) * 21L)) + 0)), tw::max<tw::vec<float, 16>>((((acc115 - h109) * h110) + h111), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
    {
     tw::store(s1 + ((((i1 * 231L) + ((6 + 4) * 21L)) + 0)), tw::max<tw::vec<float, 16>>((((acc116 - h109) * h110) + h111), tw::splat<tw::vec<float, 16>>(0.0f)));
    }
   }
   {
    const auto h159 = tw::load_n<tw::vec<float, 16>>(x2 + (16), 5);
    const auto h160 = (tw::load_n<tw::vec<float, 16>>(x4 + (16), 5) * tw::rsqrt((tw::abs(tw::load_n<tw::vec<float, 16>>(x3 + (16), 5)) + (float)(0x1.4f8b588e368f1p-17f))));
    const auto h161 = tw::load_n<tw::vec<float, 16>>(x5 + (16), 5);
    tw::vec<float, 16> acc162 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc163 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc164 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc165 = tw::splat<tw::vec<float, 16>>(0.0f);
    tw::vec<float, 16> acc166 = tw::splat<tw::vec<float, 16>>(0.0f);
    if (i1 >= 1L && i1 * -1L >= -9L) {
     const tw::vec<float, 16> q167 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + -110L), 5);
     const tw::vec<float, 16> q168 = tw::load_n<tw::vec<float, 16>>(x1 + 16L, 5);
     acc162 = (acc162 + (q167 * q168));
     const tw::vec<float, 16> q169 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + -89L), 5);
     const tw::vec<float, 16> q170 = tw::load_n<tw::vec<float, 16>>(x1 + 37L, 5);
     acc162 = (acc162 + (q169 * q170));
     acc163 = (acc163 + (q169 * q168));
     const tw::vec<float, 16> q171 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + -68L), 5);
     const tw::vec<float, 16> q172 = tw::load_n<tw::vec<float, 16>>(x1 + 58L, 5);
     acc162 = (acc162 + (q171 * q172));
     acc163 = (acc163 + (q171 * q170));
     acc164 = (acc164 + (q171 * q168));
     const tw::vec<float, 16> q173 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + -47L), 5);
     acc163 = (acc163 + (q173 * q172));
     acc164 = (acc164 + (q173 * q170));
     acc165 = (acc165 + (q173 * q168));
     const tw::vec<float, 16> q174 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + -26L), 5);
     acc164 = (acc164 + (q174 * q172));
     acc165 = (acc165 + (q174 * q170));
     acc166 = (acc166 + (q174 * q168));
     const tw::vec<float, 16> q175 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + -5L), 5);
     acc165 = (acc165 + (q175 * q172));
     acc166 = (acc166 + (q175 * q170));
     const tw::vec<float, 16> q176 = tw::splat<tw::vec<float, 16>>(0.0f);
     acc166 = (acc166 + (q176 * q172));
    }
    else {
     const tw::vec<float, 16> q177 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q178 = tw::load_n<tw::vec<float, 16>>(x1 + 16L, 5);
     acc162 = (acc162 + (q177 * q178));
     acc163 = (acc163 + (q177 * q178));
     acc164 = (acc164 + (q177 * q178));
     acc165 = (acc165 + (q177 * q178));
     acc166 = (acc166 + (q177 * q178));
     const tw::vec<float, 16> q179 = tw::load_n<tw::vec<float, 16>>(x1 + 37L, 5);
     acc162 = (acc162 + (q177 * q179));
     acc163 = (acc163 + (q177 * q179));
     acc164 = (acc164 + (q177 * q179));
     acc165 = (acc165 + (q177 * q179));
     acc166 = (acc166 + (q177 * q179));
     const tw::vec<float, 16> q180 = tw::load_n<tw::vec<float, 16>>(x1 + 58L, 5);
     acc162 = (acc162 + (q177 * q180));
     acc163 = (acc163 + (q177 * q180));
     acc164 = (acc164 + (q177 * q180));
     acc165 = (acc165 + (q177 * q180));
     acc166 = (acc166 + (q177 * q180));
    }
    if (i1 >= 0L && i1 * -1L >= -8L) {
     const tw::vec<float, 16> q181 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 121L), 5);
     const tw::vec<float, 16> q182 = tw::load_n<tw::vec<float, 16>>(x1 + 79L, 5);
     acc162 = (acc162 + (q181 * q182));
     const tw::vec<float, 16> q183 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 142L), 5);
     const tw::vec<float, 16> q184 = tw::load_n<tw::vec<float, 16>>(x1 + 100L, 5);
     acc162 = (acc162 + (q183 * q184));
     acc163 = (acc163 + (q183 * q182));
     const tw::vec<float, 16> q185 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 163L), 5);
     const tw::vec<float, 16> q186 = tw::load_n<tw::vec<float, 16>>(x1 + 121L, 5);
     acc162 = (acc162 + (q185 * q186));
     acc163 = (acc163 + (q185 * q184));
     acc164 = (acc164 + (q185 * q182));
     const tw::vec<float, 16> q187 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 184L), 5);
     acc163 = (acc163 + (q187 * q186));
     acc164 = (acc164 + (q187 * q184));
     acc165 = (acc165 + (q187 * q182));
     const tw::vec<float, 16> q188 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 205L), 5);
     acc164 = (acc164 + (q188 * q186));
     acc165 = (acc165 + (q188 * q184));
     acc166 = (acc166 + (q188 * q182));
     const tw::vec<float, 16> q189 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 226L), 5);
     acc165 = (acc165 + (q189 * q186));
     acc166 = (acc166 + (q189 * q184));
     const tw::vec<float, 16> q190 = tw::splat<tw::vec<float, 16>>(0.0f);
     acc166 = (acc166 + (q190 * q186));
    }
    else {
     const tw::vec<float, 16> q191 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q192 = tw::load_n<tw::vec<float, 16>>(x1 + 79L, 5);
     acc162 = (acc162 + (q191 * q192));
     acc163 = (acc163 + (q191 * q192));
     acc164 = (acc164 + (q191 * q192));
     acc165 = (acc165 + (q191 * q192));
     acc166 = (acc166 + (q191 * q192));
     const tw::vec<float, 16> q193 = tw::load_n<tw::vec<float, 16>>(x1 + 100L, 5);
     acc162 = (acc162 + (q191 * q193));
     acc163 = (acc163 + (q191 * q193));
     acc164 = (acc164 + (q191 * q193));
     acc165 = (acc165 + (q191 * q193));
     acc166 = (acc166 + (q191 * q193));
     const tw::vec<float, 16> q194 = tw::load_n<tw::vec<float, 16>>(x1 + 121L, 5);
     acc162 = (acc162 + (q191 * q194));
     acc163 = (acc163 + (q191 * q194));
     acc164 = (acc164 + (q191 * q194));
     acc165 = (acc165 + (q191 * q194));
     acc166 = (acc166 + (q191 * q194));
    }
    if (i1 >= -1L && i1 * -1L >= -7L) {
     const tw::vec<float, 16> q195 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 352L), 5);
     const tw::vec<float, 16> q196 = tw::load_n<tw::vec<float, 16>>(x1 + 142L, 5);
     acc162 = (acc162 + (q195 * q196));
     const tw::vec<float, 16> q197 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 373L), 5);
     const tw::vec<float, 16> q198 = tw::load_n<tw::vec<float, 16>>(x1 + 163L, 5);
     acc162 = (acc162 + (q197 * q198));
     acc163 = (acc163 + (q197 * q196));
     const tw::vec<float, 16> q199 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 394L), 5);
     const tw::vec<float, 16> q200 = tw::load_n<tw::vec<float, 16>>(x1 + 184L, 5);
     acc162 = (acc162 + (q199 * q200));
     acc163 = (acc163 + (q199 * q198));
     acc164 = (acc164 + (q199 * q196));
     const tw::vec<float, 16> q201 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 415L), 5);
     acc163 = (acc163 + (q201 * q200));
     acc164 = (acc164 + (q201 * q198));
     acc165 = (acc165 + (q201 * q196));
     const tw::vec<float, 16> q202 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 436L), 5);
     acc164 = (acc164 + (q202 * q200));
     acc165 = (acc165 + (q202 * q198));
     acc166 = (acc166 + (q202 * q196));
     const tw::vec<float, 16> q203 = tw::load_n<tw::vec<float, 16>>(x0 + (i1 * 231L + 457L), 5);
     acc165 = (acc165 + (q203 * q200));
     acc166 = (acc166 + (q203 * q198));
     const tw::vec<float, 16> q204 = tw::splat<tw::vec<float, 16>>(0.0f);
     acc166 = (acc166 + (q204 * q200));
    }
    else {
     const tw::vec<float, 16> q205 = tw::splat<tw::vec<float, 16>>(0.0f);
     const tw::vec<float, 16> q206 = tw::load_n<tw::vec<float, 16>>(x1 + 142L, 5);
     acc162 = (acc162 + (q205 * q206));
     acc163 = (acc163 + (q205 * q206));
     acc164 = (acc164 + (q205 * q206));
     acc165 = (acc165 + (q205 * q206));
     acc166 = (acc166 + (q205 * q206));
     const tw::vec<float, 16> q207 = tw::load_n<tw::vec<float, 16>>(x1 + 163L, 5);
     acc162 = (acc162 + (q205 * q207));
     acc163 = (acc163 + (q205 * q207));
     acc164 = (acc164 + (q205 * q207));
     acc165 = (acc165 + (q205 * q207));
     acc166 = (acc166 + (q205 * q207));
     const tw::vec<float, 16> q208 = tw::load_n<tw::vec<float, 16>>(x1 + 184L, 5);
     acc162 = (acc162 + (q205 * q208));
     acc163 = (acc163 + (q205 * q208));
     acc164 = (acc164 + (q205 * q208));
     acc165 = (acc165 + (q205 * q208));
     acc166 = (acc166 + (q205 * q208));
    }
    {
     tw::store_n(s1 + ((((i1 * 231L) + (6 * 21L)) + 16)), tw::max<tw::vec<float, 16>>((((acc162 - h159) * h160) + h161), tw::splat<tw::vec<float, 16>>(0.0f)), 5);
    }
    {
     tw::store_n(s1 + ((((i1 * 231L) + ((6 + 1) * 21L)) + 16)), tw::max<tw::vec<float, 16>>((((acc163 - h159) * h160) + h161), tw::splat<tw::vec<float, 16>>(0.0f)), 5);
    }
    {
     tw::store_n(s1 + ((((i1 * 231L) + ((6 + 2) * 21L)) + 16)), tw::max<tw::vec<float, 16>>((((acc164 - h159) * h160) + h161), tw::splat<tw::vec<float, 16>>(0.0f)), 5);
    }
    {
     tw::store_n(s1 + ((((i1 * 231L) + ((6 + 3) * 21L)) + 16)), tw::max<tw::vec<float, 16>>((((acc165 - h159) * h160) + h161), tw::splat<tw::vec<float, 16>>(0.0f)), 5);
    }
    {
     tw::store_n(s1 + ((((i1 * 231L) + ((6 + 4) * 21L)) + 16)), tw::max<tw::vec<float, 16>>((((acc166 - h159) * h160) + h161), tw::splat<tw::vec<float, 16>>(0.0f)), 5);
    }
   }
  }
  i1++;
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
 c.tasks = tw::imin(args[0], 9L);
 tw::parallel_for(env, c.tasks, task, &c);
 return 0;
}

// cpu_stencil version 6, cpu:portable
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
 long strips;
 long tasks;
 long trips1;
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
 const long &strips = c_.strips;
 const long &tasks = c_.tasks;
 const long &trips1 = c_.trips1;
 const long &units = c_.units;
 const long &tasks_ = c_.tasks_;
 const long u0 = task_ * units / tasks_, u1 = (task_ + 1) * units / tasks_;
 long q_ = u0;
 long i1_3 = q_ % 2L;
 q_ /= 2L;
 long strip_2 = q_;
 for (long u_ = u0; u_ < u1; u_++) {
  const long i1_4 = i1_3 * 4L;
  const long i1 = i1_4;
  const long strip = strip_2;
  if (i1 == 0L) {
   if (strip == 0) {
    for (long v_ = 0L; v_ < 32L; v_ += 4L) {
     const auto h5 = tw::load<tw::vec<float, 4>>(x2 + (v_));
     const auto h6 = (tw::load<tw::vec<float, 4>>(x4 + (v_)) * tw::rsqrt((tw::abs(tw::load<tw::vec<float, 4>>(x3 + (v_))) + (float)(0x1.4f8b588e368f1p-17f))));
     const auto h7 = tw::load<tw::vec<float, 4>>(x5 + (v_));
     tw::vec<float, 4> acc8 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc9 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc10 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc11 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc12 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc13 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc14 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc15 = tw::splat<tw::vec<float, 4>>(0.0f);
     {
      const tw::vec<float, 4> q16 = tw::splat<tw::vec<float, 4>>(0.0f);
      const tw::vec<float, 4> q17 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 0L));
      acc8 = (acc8 + (q16 * q17));
      const tw::vec<float, 4> q18 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 32L));
      acc8 = (acc8 + (q16 * q18));
      acc9 = (acc9 + (q16 * q17));
      const tw::vec<float, 4> q19 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 64L));
      acc8 = (acc8 + (q16 * q19));
      acc9 = (acc9 + (q16 * q18));
      acc9 = (acc9 + (q16 * q19));
      const tw::vec<float, 4> q20 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 96L));
      acc8 = (acc8 + (q16 * q20));
      acc10 = (acc10 + (q16 * q17));
      const tw::vec<float, 4> q21 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 0L));
      const tw::vec<float, 4> q22 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 128L));
      acc8 = (acc8 + (q21 * q22));
      acc9 = (acc9 + (q21 * q20));
      acc10 = (acc10 + (q21 * q18));
      acc11 = (acc11 + (q21 * q17));
      const tw::vec<float, 4> q23 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 32L));
      const tw::vec<float, 4> q24 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 160L));
      acc8 = (acc8 + (q23 * q24));
      acc9 = (acc9 + (q23 * q22));
      acc10 = (acc10 + (q23 * q19));
      acc11 = (acc11 + (q23 * q18));
      const tw::vec<float, 4> q25 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 64L));
      acc9 = (acc9 + (q25 * q24));
      acc11 = (acc11 + (q25 * q19));
      const tw::vec<float, 4> q26 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 192L));
      acc8 = (acc8 + (q16 * q26));
      acc10 = (acc10 + (q16 * q20));
      acc12 = (acc12 + (q16 * q17));
      const tw::vec<float, 4> q27 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 608L));
      const tw::vec<float, 4> q28 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 224L));
      acc8 = (acc8 + (q27 * q28));
      acc9 = (acc9 + (q27 * q26));
      acc10 = (acc10 + (q27 * q22));
      acc11 = (acc11 + (q27 * q20));
      acc12 = (acc12 + (q27 * q18));
      acc13 = (acc13 + (q27 * q17));
      const tw::vec<float, 4> q29 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 640L));
      const tw::vec<float, 4> q30 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 256L));
      acc8 = (acc8 + (q29 * q30));
      acc9 = (acc9 + (q29 * q28));
      acc10 = (acc10 + (q29 * q24));
      acc11 = (acc11 + (q29 * q22));
      acc12 = (acc12 + (q29 * q19));
      acc13 = (acc13 + (q29 * q18));
      const tw::vec<float, 4> q31 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 672L));
      acc9 = (acc9 + (q31 * q30));
      acc11 = (acc11 + (q31 * q24));
      acc13 = (acc13 + (q31 * q19));
      acc10 = (acc10 + (q16 * q26));
      acc12 = (acc12 + (q16 * q20));
      acc14 = (acc14 + (q16 * q17));
      const tw::vec<float, 4> q32 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 1216L));
      acc10 = (acc10 + (q32 * q28));
      acc11 = (acc11 + (q32 * q26));
      acc12 = (acc12 + (q32 * q22));
      acc13 = (acc13 + (q32 * q20));
      acc14 = (acc14 + (q32 * q18));
      acc15 = (acc15 + (q32 * q17));
      const tw::vec<float, 4> q33 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 1248L));
      acc10 = (acc10 + (q33 * q30));
      acc11 = (acc11 + (q33 * q28));
      acc12 = (acc12 + (q33 * q24));
      acc13 = (acc13 + (q33 * q22));
      acc14 = (acc14 + (q33 * q19));
      acc15 = (acc15 + (q33 * q18));
      const tw::vec<float, 4> q34 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 1280L));
      acc11 = (acc11 + (q34 * q30));
      acc13 = (acc13 + (q34 * q24));
      acc15 = (acc15 + (q34 * q19));
      acc12 = (acc12 + (q16 * q26));
      acc14 = (acc14 + (q16 * q20));
      const tw::vec<float, 4> q35 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 1824L));
      acc12 = (acc12 + (q35 * q28));
      acc13 = (acc13 + (q35 * q26));
      acc14 = (acc14 + (q35 * q22));
      acc15 = (acc15 + (q35 * q20));
      const tw::vec<float, 4> q36 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 1856L));
      acc12 = (acc12 + (q36 * q30));
      acc13 = (acc13 + (q36 * q28));
      acc14 = (acc14 + (q36 * q24));
      acc15 = (acc15 + (q36 * q22));
      const tw::vec<float, 4> q37 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 1888L));
      acc13 = (acc13 + (q37 * q30));
      acc15 = (acc15 + (q37 * q24));
      acc14 = (acc14 + (q16 * q26));
      const tw::vec<float, 4> q38 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 2432L));
      acc14 = (acc14 + (q38 * q28));
      acc15 = (acc15 + (q38 * q26));
      const tw::vec<float, 4> q39 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 2464L));
      acc14 = (acc14 + (q39 * q30));
      acc15 = (acc15 + (q39 * q28));
      const tw::vec<float, 4> q40 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 2496L));
      acc15 = (acc15 + (q40 * q30));
     }
     {
      tw::store(s1 + ((((0 * 608L) + (0 * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc8 - h5) * h6) + h7), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + ((((0 * 608L) + ((0 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc9 - h5) * h6) + h7), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 1) * 608L) + (0 * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc10 - h5) * h6) + h7), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 1) * 608L) + ((0 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc11 - h5) * h6) + h7), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 2) * 608L) + (0 * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc12 - h5) * h6) + h7), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 2) * 608L) + ((0 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc13 - h5) * h6) + h7), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 3) * 608L) + (0 * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc14 - h5) * h6) + h7), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 3) * 608L) + ((0 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc15 - h5) * h6) + h7), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
    }
   }
   for (long b_ = 2L + (strip) * 8L / strips * 2L; b_ < 2L + (strip + 1) * 8L / strips * 2L; b_ += 2L) {
    for (long v_ = 0L; v_ < 32L; v_ += 4L) {
     const auto h41 = tw::load<tw::vec<float, 4>>(x2 + (v_));
     const auto h42 = (tw::load<tw::vec<float, 4>>(x4 + (v_)) * tw::rsqrt((tw::abs(tw::load<tw::vec<float, 4>>(x3 + (v_))) + (float)(0x1.4f8b588e368f1p-17f))));
     const auto h43 = tw::load<tw::vec<float, 4>>(x5 + (v_));
     tw::vec<float, 4> acc44 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc45 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc46 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc47 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc48 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc49 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc50 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc51 = tw::splat<tw::vec<float, 4>>(0.0f);
     {
      const tw::vec<float, 4> q52 = tw::splat<tw::vec<float, 4>>(0.0f);
      const tw::vec<float, 4> q53 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 0L));
      acc44 = (acc44 + (q52 * q53));
      const tw::vec<float, 4> q54 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 32L));
      acc44 = (acc44 + (q52 * q54));
      acc45 = (acc45 + (q52 * q53));
      const tw::vec<float, 4> q55 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 64L));
      acc44 = (acc44 + (q52 * q55));
      acc45 = (acc45 + (q52 * q54));
      acc45 = (acc45 + (q52 * q55));
      const tw::vec<float, 4> q56 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + -32L));
      const tw::vec<float, 4> q57 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 96L));
      acc44 = (acc44 + (q56 * q57));
      acc46 = (acc46 + (q56 * q53));
      const tw::vec<float, 4> q58 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 0L));
      const tw::vec<float, 4> q59 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 128L));
      acc44 = (acc44 + (q58 * q59));
      acc45 = (acc45 + (q58 * q57));
      acc46 = (acc46 + (q58 * q54));
      acc47 = (acc47 + (q58 * q53));
      const tw::vec<float, 4> q60 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 32L));
      const tw::vec<float, 4> q61 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 160L));
      acc44 = (acc44 + (q60 * q61));
      acc45 = (acc45 + (q60 * q59));
      acc46 = (acc46 + (q60 * q55));
      acc47 = (acc47 + (q60 * q54));
      const tw::vec<float, 4> q62 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 64L));
      acc45 = (acc45 + (q62 * q61));
      acc47 = (acc47 + (q62 * q55));
      const tw::vec<float, 4> q63 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 576L));
      const tw::vec<float, 4> q64 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 192L));
      acc44 = (acc44 + (q63 * q64));
      acc46 = (acc46 + (q63 * q57));
      acc48 = (acc48 + (q63 * q53));
      const tw::vec<float, 4> q65 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 608L));
      const tw::vec<float, 4> q66 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 224L));
      acc44 = (acc44 + (q65 * q66));
      acc45 = (acc45 + (q65 * q64));
      acc46 = (acc46 + (q65 * q59));
      acc47 = (acc47 + (q65 * q57));
      acc48 = (acc48 + (q65 * q54));
      acc49 = (acc49 + (q65 * q53));
      const tw::vec<float, 4> q67 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 640L));
      const tw::vec<float, 4> q68 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 256L));
      acc44 = (acc44 + (q67 * q68));
      acc45 = (acc45 + (q67 * q66));
      acc46 = (acc46 + (q67 * q61));
      acc47 = (acc47 + (q67 * q59));
      acc48 = (acc48 + (q67 * q55));
      acc49 = (acc49 + (q67 * q54));
      const tw::vec<float, 4> q69 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 672L));
      acc45 = (acc45 + (q69 * q68));
      acc47 = (acc47 + (q69 * q61));
      acc49 = (acc49 + (q69 * q55));
      const tw::vec<float, 4> q70 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 1184L));
      acc46 = (acc46 + (q70 * q64));
      acc48 = (acc48 + (q70 * q57));
      acc50 = (acc50 + (q70 * q53));
      const tw::vec<float, 4> q71 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 1216L));
      acc46 = (acc46 + (q71 * q66));
      acc47 = (acc47 + (q71 * q64));
      acc48 = (acc48 + (q71 * q59));
      acc49 = (acc49 + (q71 * q57));
      acc50 = (acc50 + (q71 * q54));
      acc51 = (acc51 + (q71 * q53));
      const tw::vec<float, 4> q72 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 1248L));
      acc46 = (acc46 + (q72 * q68));
      acc47 = (acc47 + (q72 * q66));
      acc48 = (acc48 + (q72 * q61));
      acc49 = (acc49 + (q72 * q59));
      acc50 = (acc50 + (q72 * q55));
      acc51 = (acc51 + (q72 * q54));
      const tw::vec<float, 4> q73 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 1280L));
      acc47 = (acc47 + (q73 * q68));
      acc49 = (acc49 + (q73 * q61));
      acc51 = (acc51 + (q73 * q55));
      const tw::vec<float, 4> q74 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 1792L));
      acc48 = (acc48 + (q74 * q64));
      acc50 = (acc50 + (q74 * q57));
      const tw::vec<float, 4> q75 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 1824L));
      acc48 = (acc48 + (q75 * q66));
      acc49 = (acc49 + (q75 * q64));
      acc50 = (acc50 + (q75 * q59));
      acc51 = (acc51 + (q75 * q57));
      const tw::vec<float, 4> q76 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 1856L));
      acc48 = (acc48 + (q76 * q68));
      acc49 = (acc49 + (q76 * q66));
      acc50 = (acc50 + (q76 * q61));
      acc51 = (acc51 + (q76 * q59));
      const tw::vec<float, 4> q77 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 1888L));
      acc49 = (acc49 + (q77 * q68));
      acc51 = (acc51 + (q77 * q61));
      const tw::vec<float, 4> q78 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 2400L));
      acc50 = (acc50 + (q78 * q64));
      const tw::vec<float, 4> q79 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 2432L));
      acc50 = (acc50 + (q79 * q66));
      acc51 = (acc51 + (q79 * q64));
      const tw::vec<float, 4> q80 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 2464L));
      acc50 = (acc50 + (q80 * q68));
      acc51 = (acc51 + (q80 * q66));
      const tw::vec<float, 4> q81 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 2496L));
      acc51 = (acc51 + (q81 * q68));
     }
     {
      tw::store(s1 + ((((0 * 608L) + (b_ * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc44 - h41) * h42) + h43), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + ((((0 * 608L) + ((b_ + 1) * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc45 - h41) * h42) + h43), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 1) * 608L) + (b_ * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc46 - h41) * h42) + h43), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 1) * 608L) + ((b_ + 1) * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc47 - h41) * h42) + h43), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 2) * 608L) + (b_ * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc48 - h41) * h42) + h43), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 2) * 608L) + ((b_ + 1) * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc49 - h41) * h42) + h43), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 3) * 608L) + (b_ * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc50 - h41) * h42) + h43), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 3) * 608L) + ((b_ + 1) * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc51 - h41) * h42) + h43), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
    }
   }
   if (strip == strips - 1) {
    for (long v_ = 0L; v_ < 32L; v_ += 4L) {
     const auto h82 = tw::load<tw::vec<float, 4>>(x2 + (v_));
     const auto h83 = (tw::load<tw::vec<float, 4>>(x4 + (v_)) * tw::rsqrt((tw::abs(tw::load<tw::vec<float, 4>>(x3 + (v_))) + (float)(0x1.4f8b588e368f1p-17f))));
     const auto h84 = tw::load<tw::vec<float, 4>>(x5 + (v_));
     tw::vec<float, 4> acc85 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc86 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc87 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc88 = tw::splat<tw::vec<float, 4>>(0.0f);
     {
      const tw::vec<float, 4> q89 = tw::splat<tw::vec<float, 4>>(0.0f);
      const tw::vec<float, 4> q90 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 0L));
      acc85 = (acc85 + (q89 * q90));
      const tw::vec<float, 4> q91 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 32L));
      acc85 = (acc85 + (q89 * q91));
      const tw::vec<float, 4> q92 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 64L));
      acc85 = (acc85 + (q89 * q92));
      const tw::vec<float, 4> q93 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 544L));
      const tw::vec<float, 4> q94 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 96L));
      acc85 = (acc85 + (q93 * q94));
      acc86 = (acc86 + (q93 * q90));
      const tw::vec<float, 4> q95 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 576L));
      const tw::vec<float, 4> q96 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 128L));
      acc85 = (acc85 + (q95 * q96));
      acc86 = (acc86 + (q95 * q91));
      const tw::vec<float, 4> q97 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 160L));
      acc85 = (acc85 + (q89 * q97));
      acc86 = (acc86 + (q89 * q92));
      const tw::vec<float, 4> q98 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 1152L));
      const tw::vec<float, 4> q99 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 192L));
      acc85 = (acc85 + (q98 * q99));
      acc86 = (acc86 + (q98 * q94));
      acc87 = (acc87 + (q98 * q90));
      const tw::vec<float, 4> q100 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 1184L));
      const tw::vec<float, 4> q101 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 224L));
      acc85 = (acc85 + (q100 * q101));
      acc86 = (acc86 + (q100 * q96));
      acc87 = (acc87 + (q100 * q91));
      const tw::vec<float, 4> q102 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 256L));
      acc85 = (acc85 + (q89 * q102));
      acc86 = (acc86 + (q89 * q97));
      acc87 = (acc87 + (q89 * q92));
      const tw::vec<float, 4> q103 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 1760L));
      acc86 = (acc86 + (q103 * q99));
      acc87 = (acc87 + (q103 * q94));
      acc88 = (acc88 + (q103 * q90));
      const tw::vec<float, 4> q104 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 1792L));
      acc86 = (acc86 + (q104 * q101));
      acc87 = (acc87 + (q104 * q96));
      acc88 = (acc88 + (q104 * q91));
      acc86 = (acc86 + (q89 * q102));
      acc87 = (acc87 + (q89 * q97));
      acc88 = (acc88 + (q89 * q92));
      const tw::vec<float, 4> q105 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 2368L));
      acc87 = (acc87 + (q105 * q99));
      acc88 = (acc88 + (q105 * q94));
      const tw::vec<float, 4> q106 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 2400L));
      acc87 = (acc87 + (q106 * q101));
      acc88 = (acc88 + (q106 * q96));
      acc87 = (acc87 + (q89 * q102));
      acc88 = (acc88 + (q89 * q97));
      const tw::vec<float, 4> q107 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 2976L));
      acc88 = (acc88 + (q107 * q99));
      const tw::vec<float, 4> q108 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 3008L));
      acc88 = (acc88 + (q108 * q101));
      acc88 = (acc88 + (q89 * q102));
     }
     {
      tw::store(s1 + ((((0 * 608L) + (18 * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc85 - h82) * h83) + h84), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 1) * 608L) + (18 * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc86 - h82) * h83) + h84), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 2) * 608L) + (18 * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc87 - h82) * h83) + h84), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 3) * 608L) + (18 * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc88 - h82) * h83) + h84), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
    }
   }
  }
  if (i1 == 4L) {
   if (strip == 0) {
    for (long v_ = 0L; v_ < 32L; v_ += 4L) {
     const auto h109 = tw::load<tw::vec<float, 4>>(x2 + (v_));
     const auto h110 = (tw::load<tw::vec<float, 4>>(x4 + (v_)) * tw::rsqrt((tw::abs(tw::load<tw::vec<float, 4>>(x3 + (v_))) + (float)(0x1.4f8b588e368f1p-17f))));
     const auto h111 = tw::load<tw::vec<float, 4>>(x5 + (v_));
     tw::vec<float, 4> acc112 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc113 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc114 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc115 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc116 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc117 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc118 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc119 = tw::splat<tw::vec<float, 4>>(0.0f);
     {
      const tw::vec<float, 4> q120 = tw::splat<tw::vec<float, 4>>(0.0f);
      const tw::vec<float, 4> q121 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 0L));
      acc112 = (acc112 + (q120 * q121));
      const tw::vec<float, 4> q122 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 1824L));
      const tw::vec<float, 4> q123 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 32L));
      acc112 = (acc112 + (q122 * q123));
      acc113 = (acc113 + (q122 * q121));
      const tw::vec<float, 4> q124 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 1856L));
      const tw::vec<float, 4> q125 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 64L));
      acc112 = (acc112 + (q124 * q125));
      acc113 = (acc113 + (q124 * q123));
      const tw::vec<float, 4> q126 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 1888L));
      acc113 = (acc113 + (q126 * q125));
      const tw::vec<float, 4> q127 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 96L));
      acc112 = (acc112 + (q120 * q127));
      acc114 = (acc114 + (q120 * q121));
      const tw::vec<float, 4> q128 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 2432L));
      const tw::vec<float, 4> q129 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 128L));
      acc112 = (acc112 + (q128 * q129));
      acc113 = (acc113 + (q128 * q127));
      acc114 = (acc114 + (q128 * q123));
      acc115 = (acc115 + (q128 * q121));
      const tw::vec<float, 4> q130 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 2464L));
      const tw::vec<float, 4> q131 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 160L));
      acc112 = (acc112 + (q130 * q131));
      acc113 = (acc113 + (q130 * q129));
      acc114 = (acc114 + (q130 * q125));
      acc115 = (acc115 + (q130 * q123));
      const tw::vec<float, 4> q132 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 2496L));
      acc113 = (acc113 + (q132 * q131));
      acc115 = (acc115 + (q132 * q125));
      const tw::vec<float, 4> q133 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 192L));
      acc112 = (acc112 + (q120 * q133));
      acc114 = (acc114 + (q120 * q127));
      acc116 = (acc116 + (q120 * q121));
      const tw::vec<float, 4> q134 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 3040L));
      const tw::vec<float, 4> q135 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 224L));
      acc112 = (acc112 + (q134 * q135));
      acc113 = (acc113 + (q134 * q133));
      acc114 = (acc114 + (q134 * q129));
      acc115 = (acc115 + (q134 * q127));
      acc116 = (acc116 + (q134 * q123));
      acc117 = (acc117 + (q134 * q121));
      const tw::vec<float, 4> q136 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 3072L));
      const tw::vec<float, 4> q137 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 256L));
      acc112 = (acc112 + (q136 * q137));
      acc113 = (acc113 + (q136 * q135));
      acc114 = (acc114 + (q136 * q131));
      acc115 = (acc115 + (q136 * q129));
      acc116 = (acc116 + (q136 * q125));
      acc117 = (acc117 + (q136 * q123));
      const tw::vec<float, 4> q138 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 3104L));
      acc113 = (acc113 + (q138 * q137));
      acc115 = (acc115 + (q138 * q131));
      acc117 = (acc117 + (q138 * q125));
      acc114 = (acc114 + (q120 * q133));
      acc116 = (acc116 + (q120 * q127));
      acc118 = (acc118 + (q120 * q121));
      const tw::vec<float, 4> q139 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 3648L));
      acc114 = (acc114 + (q139 * q135));
      acc115 = (acc115 + (q139 * q133));
      acc116 = (acc116 + (q139 * q129));
      acc117 = (acc117 + (q139 * q127));
      acc118 = (acc118 + (q139 * q123));
      acc119 = (acc119 + (q139 * q121));
      const tw::vec<float, 4> q140 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 3680L));
      acc114 = (acc114 + (q140 * q137));
      acc115 = (acc115 + (q140 * q135));
      acc116 = (acc116 + (q140 * q131));
      acc117 = (acc117 + (q140 * q129));
      acc118 = (acc118 + (q140 * q125));
      acc119 = (acc119 + (q140 * q123));
      const tw::vec<float, 4> q141 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 3712L));
      acc115 = (acc115 + (q141 * q137));
      acc117 = (acc117 + (q141 * q131));
      acc119 = (acc119 + (q141 * q125));
      acc116 = (acc116 + (q120 * q133));
      acc118 = (acc118 + (q120 * q127));
      const tw::vec<float, 4> q142 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 4256L));
      acc116 = (acc116 + (q142 * q135));
      acc117 = (acc117 + (q142 * q133));
      acc118 = (acc118 + (q142 * q129));
      acc119 = (acc119 + (q142 * q127));
      const tw::vec<float, 4> q143 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 4288L));
      acc116 = (acc116 + (q143 * q137));
      acc117 = (acc117 + (q143 * q135));
      acc118 = (acc118 + (q143 * q131));
      acc119 = (acc119 + (q143 * q129));
      const tw::vec<float, 4> q144 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 4320L));
      acc117 = (acc117 + (q144 * q137));
      acc119 = (acc119 + (q144 * q131));
      acc118 = (acc118 + (q120 * q133));
      acc118 = (acc118 + (q120 * q135));
      acc119 = (acc119 + (q120 * q133));
      acc118 = (acc118 + (q120 * q137));
      acc119 = (acc119 + (q120 * q135));
      acc119 = (acc119 + (q120 * q137));
     }
     {
      tw::store(s1 + ((((4 * 608L) + (0 * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc112 - h109) * h110) + h111), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + ((((4 * 608L) + ((0 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc113 - h109) * h110) + h111), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((4 + 1) * 608L) + (0 * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc114 - h109) * h110) + h111), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((4 + 1) * 608L) + ((0 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc115 - h109) * h110) + h111), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((4 + 2) * 608L) + (0 * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc116 - h109) * h110) + h111), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((4 + 2) * 608L) + ((0 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc117 - h109) * h110) + h111), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((4 + 3) * 608L) + (0 * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc118 - h109) * h110) + h111), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((4 + 3) * 608L) + ((0 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc119 - h109) * h110) + h111), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
    }
   }
   for (long b_ = 2L + (strip) * 8L / strips * 2L; b_ < 2L + (strip + 1) * 8L / strips * 2L; b_ += 2L) {
    for (long v_ = 0L; v_ < 32L; v_ += 4L) {
     const auto h145 = tw::load<tw::vec<float, 4>>(x2 + (v_));
     const auto h146 = (tw::load<tw::vec<float, 4>>(x4 + (v_)) * tw::rsqrt((tw::abs(tw::load<tw::vec<float, 4>>(x3 + (v_))) + (float)(0x1.4f8b588e368f1p-17f))));
     const auto h147 = tw::load<tw::vec<float, 4>>(x5 + (v_));
     tw::vec<float, 4> acc148 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc149 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc150 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc151 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc152 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc153 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc154 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc155 = tw::splat<tw::vec<float, 4>>(0.0f);
     {
      const tw::vec<float, 4> q156 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 1792L));
      const tw::vec<float, 4> q157 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 0L));
      acc148 = (acc148 + (q156 * q157));
      const tw::vec<float, 4> q158 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 1824L));
      const tw::vec<float, 4> q159 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 32L));
      acc148 = (acc148 + (q158 * q159));
      acc149 = (acc149 + (q158 * q157));
      const tw::vec<float, 4> q160 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 1856L));
      const tw::vec<float, 4> q161 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 64L));
      acc148 = (acc148 + (q160 * q161));
      acc149 = (acc149 + (q160 * q159));
      const tw::vec<float, 4> q162 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 1888L));
      acc149 = (acc149 + (q162 * q161));
      const tw::vec<float, 4> q163 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 2400L));
      const tw::vec<float, 4> q164 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 96L));
      acc148 = (acc148 + (q163 * q164));
      acc150 = (acc150 + (q163 * q157));
      const tw::vec<float, 4> q165 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 2432L));
      const tw::vec<float, 4> q166 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 128L));
      acc148 = (acc148 + (q165 * q166));
      acc149 = (acc149 + (q165 * q164));
      acc150 = (acc150 + (q165 * q159));
      acc151 = (acc151 + (q165 * q157));
      const tw::vec<float, 4> q167 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 2464L));
      const tw::vec<float, 4> q168 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 160L));
      acc148 = (acc148 + (q167 * q168));
      acc149 = (acc149 + (q167 * q166));
      acc150 = (acc150 + (q167 * q161));
      acc151 = (acc151 + (q167 * q159));
      const tw::vec<float, 4> q169 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 2496L));
      acc149 = (acc149 + (q169 * q168));
      acc151 = (acc151 + (q169 * q161));
      const tw::vec<float, 4> q170 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 3008L));
      const tw::vec<float, 4> q171 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 192L));
      acc148 = (acc148 + (q170 * q171));
      acc150 = (acc150 + (q170 * q164));
      acc152 = (acc152 + (q170 * q157));
      const tw::vec<float, 4> q172 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 3040L));
      const tw::vec<float, 4> q173 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 224L));
      acc148 = (acc148 + (q172 * q173));
      acc149 = (acc149 + (q172 * q171));
      acc150 = (acc150 + (q172 * q166));
      acc151 = (acc151 + (q172 * q164));
      acc152 = (acc152 + (q172 * q159));
      acc153 = (acc153 + (q172 * q157));
      const tw::vec<float, 4> q174 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 3072L));
      const tw::vec<float, 4> q175 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 256L));
      acc148 = (acc148 + (q174 * q175));
      acc149 = (acc149 + (q174 * q173));
      acc150 = (acc150 + (q174 * q168));
      acc151 = (acc151 + (q174 * q166));
      acc152 = (acc152 + (q174 * q161));
      acc153 = (acc153 + (q174 * q159));
      const tw::vec<float, 4> q176 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 3104L));
      acc149 = (acc149 + (q176 * q175));
      acc151 = (acc151 + (q176 * q168));
      acc153 = (acc153 + (q176 * q161));
      const tw::vec<float, 4> q177 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 3616L));
      acc150 = (acc150 + (q177 * q171));
      acc152 = (acc152 + (q177 * q164));
      acc154 = (acc154 + (q177 * q157));
      const tw::vec<float, 4> q178 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 3648L));
      acc150 = (acc150 + (q178 * q173));
      acc151 = (acc151 + (q178 * q171));
      acc152 = (acc152 + (q178 * q166));
      acc153 = (acc153 + (q178 * q164));
      acc154 = (acc154 + (q178 * q159));
      acc155 = (acc155 + (q178 * q157));
      const tw::vec<float, 4> q179 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 3680L));
      acc150 = (acc150 + (q179 * q175));
      acc151 = (acc151 + (q179 * q173));
      acc152 = (acc152 + (q179 * q168));
      acc153 = (acc153 + (q179 * q166));
      acc154 = (acc154 + (q179 * q161));
      acc155 = (acc155 + (q179 * q159));
      const tw::vec<float, 4> q180 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 3712L));
      acc151 = (acc151 + (q180 * q175));
      acc153 = (acc153 + (q180 * q168));
      acc155 = (acc155 + (q180 * q161));
      const tw::vec<float, 4> q181 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 4224L));
      acc152 = (acc152 + (q181 * q171));
      acc154 = (acc154 + (q181 * q164));
      const tw::vec<float, 4> q182 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 4256L));
      acc152 = (acc152 + (q182 * q173));
      acc153 = (acc153 + (q182 * q171));
      acc154 = (acc154 + (q182 * q166));
      acc155 = (acc155 + (q182 * q164));
      const tw::vec<float, 4> q183 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 4288L));
      acc152 = (acc152 + (q183 * q175));
      acc153 = (acc153 + (q183 * q173));
      acc154 = (acc154 + (q183 * q168));
      acc155 = (acc155 + (q183 * q166));
      const tw::vec<float, 4> q184 = tw::load<tw::vec<float, 4>>(x0 + (b_ * 32L + v_ + 4320L));
      acc153 = (acc153 + (q184 * q175));
      acc155 = (acc155 + (q184 * q168));
      const tw::vec<float, 4> q185 = tw::splat<tw::vec<float, 4>>(0.0f);
      acc154 = (acc154 + (q185 * q171));
      acc154 = (acc154 + (q185 * q173));
      acc155 = (acc155 + (q185 * q171));
      acc154 = (acc154 + (q185 * q175));
      acc155 = (acc155 + (q185 * q173));
      acc155 = (acc155 + (q185 * q175));
     }
     {
      tw::store(s1 + ((((4 * 608L) + (b_ * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc148 - h145) * h146) + h147), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + ((((4 * 608L) + ((b_ + 1) * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc149 - h145) * h146) + h147), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((4 + 1) * 608L) + (b_ * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc150 - h145) * h146) + h147), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((4 + 1) * 608L) + ((b_ + 1) * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc151 - h145) * h146) + h147), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((4 + 2) * 608L) + (b_ * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc152 - h145) * h146) + h147), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((4 + 2) * 608L) + ((b_ + 1) * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc153 - h145) * h146) + h147), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((4 + 3) * 608L) + (b_ * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc154 - h145) * h146) + h147), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((4 + 3) * 608L) + ((b_ + 1) * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc155 - h145) * h146) + h147), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
    }
   }
   if (strip == strips - 1) {
    for (long v_ = 0L; v_ < 32L; v_ += 4L) {
     const auto h186 = tw::load<tw::vec<float, 4>>(x2 + (v_));
     const auto h187 = (tw::load<tw::vec<float, 4>>(x4 + (v_)) * tw::rsqrt((tw::abs(tw::load<tw::vec<float, 4>>(x3 + (v_))) + (float)(0x1.4f8b588e368f1p-17f))));
     const auto h188 = tw::load<tw::vec<float, 4>>(x5 + (v_));
     tw::vec<float, 4> acc189 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc190 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc191 = tw::splat<tw::vec<float, 4>>(0.0f);
     tw::vec<float, 4> acc192 = tw::splat<tw::vec<float, 4>>(0.0f);
     {
      const tw::vec<float, 4> q193 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 2368L));
      const tw::vec<float, 4> q194 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 0L));
      acc189 = (acc189 + (q193 * q194));
      const tw::vec<float, 4> q195 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 2400L));
      const tw::vec<float, 4> q196 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 32L));
      acc189 = (acc189 + (q195 * q196));
      const tw::vec<float, 4> q197 = tw::splat<tw::vec<float, 4>>(0.0f);
      const tw::vec<float, 4> q198 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 64L));
      acc189 = (acc189 + (q197 * q198));
      const tw::vec<float, 4> q199 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 2976L));
      const tw::vec<float, 4> q200 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 96L));
      acc189 = (acc189 + (q199 * q200));
      acc190 = (acc190 + (q199 * q194));
      const tw::vec<float, 4> q201 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 3008L));
      const tw::vec<float, 4> q202 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 128L));
      acc189 = (acc189 + (q201 * q202));
      acc190 = (acc190 + (q201 * q196));
      const tw::vec<float, 4> q203 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 160L));
      acc189 = (acc189 + (q197 * q203));
      acc190 = (acc190 + (q197 * q198));
      const tw::vec<float, 4> q204 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 3584L));
      const tw::vec<float, 4> q205 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 192L));
      acc189 = (acc189 + (q204 * q205));
      acc190 = (acc190 + (q204 * q200));
      acc191 = (acc191 + (q204 * q194));
      const tw::vec<float, 4> q206 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 3616L));
      const tw::vec<float, 4> q207 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 224L));
      acc189 = (acc189 + (q206 * q207));
      acc190 = (acc190 + (q206 * q202));
      acc191 = (acc191 + (q206 * q196));
      const tw::vec<float, 4> q208 = tw::load<tw::vec<float, 4>>(x1 + (v_ + 256L));
      acc189 = (acc189 + (q197 * q208));
      acc190 = (acc190 + (q197 * q203));
      acc191 = (acc191 + (q197 * q198));
      const tw::vec<float, 4> q209 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 4192L));
      acc190 = (acc190 + (q209 * q205));
      acc191 = (acc191 + (q209 * q200));
      acc192 = (acc192 + (q209 * q194));
      const tw::vec<float, 4> q210 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 4224L));
      acc190 = (acc190 + (q210 * q207));
      acc191 = (acc191 + (q210 * q202));
      acc192 = (acc192 + (q210 * q196));
      acc190 = (acc190 + (q197 * q208));
      acc191 = (acc191 + (q197 * q203));
      acc192 = (acc192 + (q197 * q198));
      const tw::vec<float, 4> q211 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 4800L));
      acc191 = (acc191 + (q211 * q205));
      acc192 = (acc192 + (q211 * q200));
      const tw::vec<float, 4> q212 = tw::load<tw::vec<float, 4>>(x0 + (v_ + 4832L));
      acc191 = (acc191 + (q212 * q207));
      acc192 = (acc192 + (q212 * q202));
      acc191 = (acc191 + (q197 * q208));
      acc192 = (acc192 + (q197 * q203));
      acc192 = (acc192 + (q197 * q205));
      acc192 = (acc192 + (q197 * q207));
      acc192 = (acc192 + (q197 * q208));
     }
     {
      tw::store(s1 + ((((4 * 608L) + (18 * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc189 - h186) * h187) + h188), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((4 + 1) * 608L) + (18 * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc190 - h186) * h187) + h188), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((4 + 2) * 608L) + (18 * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc191 - h186) * h187) + h188), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
     {
      tw::store(s1 + (((((4 + 3) * 608L) + (18 * 32L)) + v_)), tw::max<tw::vec<float, 4>>((((acc192 - h186) * h187) + h188), tw::splat<tw::vec<float, 4>>(0.0f)));
     }
    }
   }
  }
  if (++i1_3 == 2L) { i1_3 = 0; strip_2++; }
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
 const long strips = args[0];
 const long tasks = args[1];
 {
  const long trips1 = tw::ceildiv(strips, 1L);
  const long units = trips1 * 2L, tasks_ = tw::imin(tasks, units);
  {
   tw_golden_task0_ctx ctx213 = {env, x0, x1, x2, x3, x4, x5, s1, strips, tasks, trips1, units, tasks_};
   tw::parallel_for(env, tasks_, tw_golden_task0, &ctx213);
  }
 }
 return 0;
}

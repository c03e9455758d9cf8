// cpu_stencil version 6, cpu:avx512
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
  const long i2_2 = i2_1 * 3L;
  const long i2_2e = tw::imin(i2_2 + 3L, 19L);
  const long i2 = i2_2;
  if (i2 == 0L) {
   {
    for (long v_ = 0L; v_ < 32L; v_ += 16L) {
     const auto h3 = tw::load<tw::vec<float, 16>>(x2 + (v_));
     const auto h4 = (tw::load<tw::vec<float, 16>>(x4 + (v_)) * tw::rsqrt((tw::abs(tw::load<tw::vec<float, 16>>(x3 + (v_))) + (float)(0x1.4f8b588e368f1p-17f))));
     const auto h5 = tw::load<tw::vec<float, 16>>(x5 + (v_));
     tw::vec<float, 16> acc6 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc7 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc8 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc9 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc10 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc11 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc12 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc13 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc14 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc15 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc16 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc17 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc18 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc19 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc20 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc21 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc22 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc23 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc24 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc25 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc26 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc27 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc28 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc29 = tw::splat<tw::vec<float, 16>>(0.0f);
     {
      const tw::vec<float, 16> q30 = tw::splat<tw::vec<float, 16>>(0.0f);
      const tw::vec<float, 16> q31 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 0L));
      acc6 = (acc6 + (q30 * q31));
      const tw::vec<float, 16> q32 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 32L));
      acc6 = (acc6 + (q30 * q32));
      acc14 = (acc14 + (q30 * q31));
      const tw::vec<float, 16> q33 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 64L));
      acc6 = (acc6 + (q30 * q33));
      acc14 = (acc14 + (q30 * q32));
      acc22 = (acc22 + (q30 * q31));
      acc14 = (acc14 + (q30 * q33));
      acc22 = (acc22 + (q30 * q32));
      acc22 = (acc22 + (q30 * q33));
      const tw::vec<float, 16> q34 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 96L));
      acc6 = (acc6 + (q30 * q34));
      acc7 = (acc7 + (q30 * q31));
      const tw::vec<float, 16> q35 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 0L));
      const tw::vec<float, 16> q36 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 128L));
      acc6 = (acc6 + (q35 * q36));
      acc7 = (acc7 + (q35 * q32));
      acc14 = (acc14 + (q35 * q34));
      acc15 = (acc15 + (q35 * q31));
      const tw::vec<float, 16> q37 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 32L));
      const tw::vec<float, 16> q38 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 160L));
      acc6 = (acc6 + (q37 * q38));
      acc7 = (acc7 + (q37 * q33));
      acc14 = (acc14 + (q37 * q36));
      acc15 = (acc15 + (q37 * q32));
      acc22 = (acc22 + (q37 * q34));
      acc23 = (acc23 + (q37 * q31));
      const tw::vec<float, 16> q39 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 64L));
      acc14 = (acc14 + (q39 * q38));
      acc15 = (acc15 + (q39 * q33));
      acc22 = (acc22 + (q39 * q36));
      acc23 = (acc23 + (q39 * q32));
      const tw::vec<float, 16> q40 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 96L));
      acc22 = (acc22 + (q40 * q38));
      acc23 = (acc23 + (q40 * q33));
      const tw::vec<float, 16> q41 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 192L));
      acc6 = (acc6 + (q30 * q41));
      acc7 = (acc7 + (q30 * q34));
      acc8 = (acc8 + (q30 * q31));
      const tw::vec<float, 16> q42 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 608L));
      const tw::vec<float, 16> q43 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 224L));
      acc6 = (acc6 + (q42 * q43));
      acc7 = (acc7 + (q42 * q36));
      acc8 = (acc8 + (q42 * q32));
      acc14 = (acc14 + (q42 * q41));
      acc15 = (acc15 + (q42 * q34));
      acc16 = (acc16 + (q42 * q31));
      const tw::vec<float, 16> q44 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 640L));
      const tw::vec<float, 16> q45 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 256L));
      acc6 = (acc6 + (q44 * q45));
      acc7 = (acc7 + (q44 * q38));
      acc8 = (acc8 + (q44 * q33));
      acc14 = (acc14 + (q44 * q43));
      acc15 = (acc15 + (q44 * q36));
      acc16 = (acc16 + (q44 * q32));
      acc22 = (acc22 + (q44 * q41));
      acc23 = (acc23 + (q44 * q34));
      acc24 = (acc24 + (q44 * q31));
      const tw::vec<float, 16> q46 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 672L));
      acc14 = (acc14 + (q46 * q45));
      acc15 = (acc15 + (q46 * q38));
      acc16 = (acc16 + (q46 * q33));
      acc22 = (acc22 + (q46 * q43));
      acc23 = (acc23 + (q46 * q36));
      acc24 = (acc24 + (q46 * q32));
      const tw::vec<float, 16> q47 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 704L));
      acc22 = (acc22 + (q47 * q45));
      acc23 = (acc23 + (q47 * q38));
      acc24 = (acc24 + (q47 * q33));
      acc7 = (acc7 + (q30 * q41));
      acc8 = (acc8 + (q30 * q34));
      acc9 = (acc9 + (q30 * q31));
      const tw::vec<float, 16> q48 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 1216L));
      acc7 = (acc7 + (q48 * q43));
      acc8 = (acc8 + (q48 * q36));
      acc9 = (acc9 + (q48 * q32));
      acc15 = (acc15 + (q48 * q41));
      acc16 = (acc16 + (q48 * q34));
      acc17 = (acc17 + (q48 * q31));
      const tw::vec<float, 16> q49 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 1248L));
      acc7 = (acc7 + (q49 * q45));
      acc8 = (acc8 + (q49 * q38));
      acc9 = (acc9 + (q49 * q33));
      acc15 = (acc15 + (q49 * q43));
      acc16 = (acc16 + (q49 * q36));
      acc17 = (acc17 + (q49 * q32));
      acc23 = (acc23 + (q49 * q41));
      acc24 = (acc24 + (q49 * q34));
      acc25 = (acc25 + (q49 * q31));
      const tw::vec<float, 16> q50 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 1280L));
      acc15 = (acc15 + (q50 * q45));
      acc16 = (acc16 + (q50 * q38));
      acc17 = (acc17 + (q50 * q33));
      acc23 = (acc23 + (q50 * q43));
      acc24 = (acc24 + (q50 * q36));
      acc25 = (acc25 + (q50 * q32));
      const tw::vec<float, 16> q51 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 1312L));
      acc23 = (acc23 + (q51 * q45));
      acc24 = (acc24 + (q51 * q38));
      acc25 = (acc25 + (q51 * q33));
      acc8 = (acc8 + (q30 * q41));
      acc9 = (acc9 + (q30 * q34));
      acc10 = (acc10 + (q30 * q31));
      const tw::vec<float, 16> q52 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 1824L));
      acc8 = (acc8 + (q52 * q43));
      acc9 = (acc9 + (q52 * q36));
      acc10 = (acc10 + (q52 * q32));
      acc16 = (acc16 + (q52 * q41));
      acc17 = (acc17 + (q52 * q34));
      acc18 = (acc18 + (q52 * q31));
      const tw::vec<float, 16> q53 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 1856L));
      acc8 = (acc8 + (q53 * q45));
      acc9 = (acc9 + (q53 * q38));
      acc10 = (acc10 + (q53 * q33));
      acc16 = (acc16 + (q53 * q43));
      acc17 = (acc17 + (q53 * q36));
      acc18 = (acc18 + (q53 * q32));
      acc24 = (acc24 + (q53 * q41));
      acc25 = (acc25 + (q53 * q34));
      acc26 = (acc26 + (q53 * q31));
      const tw::vec<float, 16> q54 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 1888L));
      acc16 = (acc16 + (q54 * q45));
      acc17 = (acc17 + (q54 * q38));
      acc18 = (acc18 + (q54 * q33));
      acc24 = (acc24 + (q54 * q43));
      acc25 = (acc25 + (q54 * q36));
      acc26 = (acc26 + (q54 * q32));
      const tw::vec<float, 16> q55 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 1920L));
      acc24 = (acc24 + (q55 * q45));
      acc25 = (acc25 + (q55 * q38));
      acc26 = (acc26 + (q55 * q33));
      acc9 = (acc9 + (q30 * q41));
      acc10 = (acc10 + (q30 * q34));
      acc11 = (acc11 + (q30 * q31));
      const tw::vec<float, 16> q56 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 2432L));
      acc9 = (acc9 + (q56 * q43));
      acc10 = (acc10 + (q56 * q36));
      acc11 = (acc11 + (q56 * q32));
      acc17 = (acc17 + (q56 * q41));
      acc18 = (acc18 + (q56 * q34));
      acc19 = (acc19 + (q56 * q31));
      const tw::vec<float, 16> q57 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 2464L));
      acc9 = (acc9 + (q57 * q45));
      acc10 = (acc10 + (q57 * q38));
      acc11 = (acc11 + (q57 * q33));
      acc17 = (acc17 + (q57 * q43));
      acc18 = (acc18 + (q57 * q36));
      acc19 = (acc19 + (q57 * q32));
      acc25 = (acc25 + (q57 * q41));
      acc26 = (acc26 + (q57 * q34));
      acc27 = (acc27 + (q57 * q31));
      const tw::vec<float, 16> q58 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 2496L));
      acc17 = (acc17 + (q58 * q45));
      acc18 = (acc18 + (q58 * q38));
      acc19 = (acc19 + (q58 * q33));
      acc25 = (acc25 + (q58 * q43));
      acc26 = (acc26 + (q58 * q36));
      acc27 = (acc27 + (q58 * q32));
      const tw::vec<float, 16> q59 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 2528L));
      acc25 = (acc25 + (q59 * q45));
      acc26 = (acc26 + (q59 * q38));
      acc27 = (acc27 + (q59 * q33));
      acc10 = (acc10 + (q30 * q41));
      acc11 = (acc11 + (q30 * q34));
      acc12 = (acc12 + (q30 * q31));
      const tw::vec<float, 16> q60 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 3040L));
      acc10 = (acc10 + (q60 * q43));
      acc11 = (acc11 + (q60 * q36));
      acc12 = (acc12 + (q60 * q32));
      acc18 = (acc18 + (q60 * q41));
      acc19 = (acc19 + (q60 * q34));
      acc20 = (acc20 + (q60 * q31));
      const tw::vec<float, 16> q61 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 3072L));
      acc10 = (acc10 + (q61 * q45));
      acc11 = (acc11 + (q61 * q38));
      acc12 = (acc12 + (q61 * q33));
      acc18 = (acc18 + (q61 * q43));
      acc19 = (acc19 + (q61 * q36));
      acc20 = (acc20 + (q61 * q32));
      acc26 = (acc26 + (q61 * q41));
      acc27 = (acc27 + (q61 * q34));
      acc28 = (acc28 + (q61 * q31));
      const tw::vec<float, 16> q62 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 3104L));
      acc18 = (acc18 + (q62 * q45));
      acc19 = (acc19 + (q62 * q38));
      acc20 = (acc20 + (q62 * q33));
      acc26 = (acc26 + (q62 * q43));
      acc27 = (acc27 + (q62 * q36));
      acc28 = (acc28 + (q62 * q32));
      const tw::vec<float, 16> q63 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 3136L));
      acc26 = (acc26 + (q63 * q45));
      acc27 = (acc27 + (q63 * q38));
      acc28 = (acc28 + (q63 * q33));
      acc11 = (acc11 + (q30 * q41));
      acc12 = (acc12 + (q30 * q34));
      acc13 = (acc13 + (q30 * q31));
      const tw::vec<float, 16> q64 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 3648L));
      acc11 = (acc11 + (q64 * q43));
      acc12 = (acc12 + (q64 * q36));
      acc13 = (acc13 + (q64 * q32));
      acc19 = (acc19 + (q64 * q41));
      acc20 = (acc20 + (q64 * q34));
      acc21 = (acc21 + (q64 * q31));
      const tw::vec<float, 16> q65 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 3680L));
      acc11 = (acc11 + (q65 * q45));
      acc12 = (acc12 + (q65 * q38));
      acc13 = (acc13 + (q65 * q33));
      acc19 = (acc19 + (q65 * q43));
      acc20 = (acc20 + (q65 * q36));
      acc21 = (acc21 + (q65 * q32));
      acc27 = (acc27 + (q65 * q41));
      acc28 = (acc28 + (q65 * q34));
      acc29 = (acc29 + (q65 * q31));
      const tw::vec<float, 16> q66 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 3712L));
      acc19 = (acc19 + (q66 * q45));
      acc20 = (acc20 + (q66 * q38));
      acc21 = (acc21 + (q66 * q33));
      acc27 = (acc27 + (q66 * q43));
      acc28 = (acc28 + (q66 * q36));
      acc29 = (acc29 + (q66 * q32));
      const tw::vec<float, 16> q67 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 3744L));
      acc27 = (acc27 + (q67 * q45));
      acc28 = (acc28 + (q67 * q38));
      acc29 = (acc29 + (q67 * q33));
      acc12 = (acc12 + (q30 * q41));
      acc13 = (acc13 + (q30 * q34));
      const tw::vec<float, 16> q68 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 4256L));
      acc12 = (acc12 + (q68 * q43));
      acc13 = (acc13 + (q68 * q36));
      acc20 = (acc20 + (q68 * q41));
      acc21 = (acc21 + (q68 * q34));
      const tw::vec<float, 16> q69 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 4288L));
      acc12 = (acc12 + (q69 * q45));
      acc13 = (acc13 + (q69 * q38));
      acc20 = (acc20 + (q69 * q43));
      acc21 = (acc21 + (q69 * q36));
      acc28 = (acc28 + (q69 * q41));
      acc29 = (acc29 + (q69 * q34));
      const tw::vec<float, 16> q70 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 4320L));
      acc20 = (acc20 + (q70 * q45));
      acc21 = (acc21 + (q70 * q38));
      acc28 = (acc28 + (q70 * q43));
      acc29 = (acc29 + (q70 * q36));
      const tw::vec<float, 16> q71 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 4352L));
      acc28 = (acc28 + (q71 * q45));
      acc29 = (acc29 + (q71 * q38));
      acc13 = (acc13 + (q30 * q41));
      acc13 = (acc13 + (q30 * q43));
      acc21 = (acc21 + (q30 * q41));
      acc13 = (acc13 + (q30 * q45));
      acc21 = (acc21 + (q30 * q43));
      acc29 = (acc29 + (q30 * q41));
      acc21 = (acc21 + (q30 * q45));
      acc29 = (acc29 + (q30 * q43));
      acc29 = (acc29 + (q30 * q45));
     }
     {
      tw::store(s1 + ((((0 * 608L) + (0 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc6 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 1) * 608L) + (0 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc7 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 2) * 608L) + (0 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc8 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 3) * 608L) + (0 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc9 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 4) * 608L) + (0 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc10 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 5) * 608L) + (0 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc11 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 6) * 608L) + (0 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc12 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 7) * 608L) + (0 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc13 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + ((((0 * 608L) + ((0 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc14 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 1) * 608L) + ((0 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc15 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 2) * 608L) + ((0 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc16 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 3) * 608L) + ((0 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc17 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 4) * 608L) + ((0 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc18 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 5) * 608L) + ((0 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc19 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 6) * 608L) + ((0 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc20 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 7) * 608L) + ((0 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc21 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + ((((0 * 608L) + ((0 + 2) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc22 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 1) * 608L) + ((0 + 2) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc23 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 2) * 608L) + ((0 + 2) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc24 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 3) * 608L) + ((0 + 2) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc25 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 4) * 608L) + ((0 + 2) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc26 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 5) * 608L) + ((0 + 2) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc27 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 6) * 608L) + ((0 + 2) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc28 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 7) * 608L) + ((0 + 2) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc29 - h3) * h4) + h5), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
    }
   }
  }
  if (i2 >= 3L && i2 < 18L) {
   {
    for (long v_ = 0L; v_ < 32L; v_ += 16L) {
     const auto h72 = tw::load<tw::vec<float, 16>>(x2 + (v_));
     const auto h73 = (tw::load<tw::vec<float, 16>>(x4 + (v_)) * tw::rsqrt((tw::abs(tw::load<tw::vec<float, 16>>(x3 + (v_))) + (float)(0x1.4f8b588e368f1p-17f))));
     const auto h74 = tw::load<tw::vec<float, 16>>(x5 + (v_));
     tw::vec<float, 16> acc75 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc76 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc77 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc78 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc79 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc80 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc81 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc82 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc83 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc84 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc85 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc86 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc87 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc88 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc89 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc90 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc91 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc92 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc93 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc94 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc95 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc96 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc97 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc98 = tw::splat<tw::vec<float, 16>>(0.0f);
     {
      const tw::vec<float, 16> q99 = tw::splat<tw::vec<float, 16>>(0.0f);
      const tw::vec<float, 16> q100 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 0L));
      acc75 = (acc75 + (q99 * q100));
      const tw::vec<float, 16> q101 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 32L));
      acc75 = (acc75 + (q99 * q101));
      acc83 = (acc83 + (q99 * q100));
      const tw::vec<float, 16> q102 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 64L));
      acc75 = (acc75 + (q99 * q102));
      acc83 = (acc83 + (q99 * q101));
      acc91 = (acc91 + (q99 * q100));
      acc83 = (acc83 + (q99 * q102));
      acc91 = (acc91 + (q99 * q101));
      acc91 = (acc91 + (q99 * q102));
      const tw::vec<float, 16> q103 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + -32L));
      const tw::vec<float, 16> q104 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 96L));
      acc75 = (acc75 + (q103 * q104));
      acc76 = (acc76 + (q103 * q100));
      const tw::vec<float, 16> q105 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 0L));
      const tw::vec<float, 16> q106 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 128L));
      acc75 = (acc75 + (q105 * q106));
      acc76 = (acc76 + (q105 * q101));
      acc83 = (acc83 + (q105 * q104));
      acc84 = (acc84 + (q105 * q100));
      const tw::vec<float, 16> q107 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 32L));
      const tw::vec<float, 16> q108 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 160L));
      acc75 = (acc75 + (q107 * q108));
      acc76 = (acc76 + (q107 * q102));
      acc83 = (acc83 + (q107 * q106));
      acc84 = (acc84 + (q107 * q101));
      acc91 = (acc91 + (q107 * q104));
      acc92 = (acc92 + (q107 * q100));
      const tw::vec<float, 16> q109 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 64L));
      acc83 = (acc83 + (q109 * q108));
      acc84 = (acc84 + (q109 * q102));
      acc91 = (acc91 + (q109 * q106));
      acc92 = (acc92 + (q109 * q101));
      const tw::vec<float, 16> q110 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 96L));
      acc91 = (acc91 + (q110 * q108));
      acc92 = (acc92 + (q110 * q102));
      const tw::vec<float, 16> q111 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 576L));
      const tw::vec<float, 16> q112 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 192L));
      acc75 = (acc75 + (q111 * q112));
      acc76 = (acc76 + (q111 * q104));
      acc77 = (acc77 + (q111 * q100));
      const tw::vec<float, 16> q113 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 608L));
      const tw::vec<float, 16> q114 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 224L));
      acc75 = (acc75 + (q113 * q114));
      acc76 = (acc76 + (q113 * q106));
      acc77 = (acc77 + (q113 * q101));
      acc83 = (acc83 + (q113 * q112));
      acc84 = (acc84 + (q113 * q104));
      acc85 = (acc85 + (q113 * q100));
      const tw::vec<float, 16> q115 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 640L));
      const tw::vec<float, 16> q116 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 256L));
      acc75 = (acc75 + (q115 * q116));
      acc76 = (acc76 + (q115 * q108));
      acc77 = (acc77 + (q115 * q102));
      acc83 = (acc83 + (q115 * q114));
      acc84 = (acc84 + (q115 * q106));
      acc85 = (acc85 + (q115 * q101));
      acc91 = (acc91 + (q115 * q112));
      acc92 = (acc92 + (q115 * q104));
      acc93 = (acc93 + (q115 * q100));
      const tw::vec<float, 16> q117 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 672L));
      acc83 = (acc83 + (q117 * q116));
      acc84 = (acc84 + (q117 * q108));
      acc85 = (acc85 + (q117 * q102));
      acc91 = (acc91 + (q117 * q114));
      acc92 = (acc92 + (q117 * q106));
      acc93 = (acc93 + (q117 * q101));
      const tw::vec<float, 16> q118 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 704L));
      acc91 = (acc91 + (q118 * q116));
      acc92 = (acc92 + (q118 * q108));
      acc93 = (acc93 + (q118 * q102));
      const tw::vec<float, 16> q119 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1184L));
      acc76 = (acc76 + (q119 * q112));
      acc77 = (acc77 + (q119 * q104));
      acc78 = (acc78 + (q119 * q100));
      const tw::vec<float, 16> q120 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1216L));
      acc76 = (acc76 + (q120 * q114));
      acc77 = (acc77 + (q120 * q106));
      acc78 = (acc78 + (q120 * q101));
      acc84 = (acc84 + (q120 * q112));
      acc85 = (acc85 + (q120 * q104));
      acc86 = (acc86 + (q120 * q100));
      const tw::vec<float, 16> q121 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1248L));
      acc76 = (acc76 + (q121 * q116));
      acc77 = (acc77 + (q121 * q108));
      acc78 = (acc78 + (q121 * q102));
      acc84 = (acc84 + (q121 * q114));
      acc85 = (acc85 + (q121 * q106));
      acc86 = (acc86 + (q121 * q101));
      acc92 = (acc92 + (q121 * q112));
      acc93 = (acc93 + (q121 * q104));
      acc94 = (acc94 + (q121 * q100));
      const tw::vec<float, 16> q122 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1280L));
      acc84 = (acc84 + (q122 * q116));
      acc85 = (acc85 + (q122 * q108));
      acc86 = (acc86 + (q122 * q102));
      acc92 = (acc92 + (q122 * q114));
      acc93 = (acc93 + (q122 * q106));
      acc94 = (acc94 + (q122 * q101));
      const tw::vec<float, 16> q123 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1312L));
      acc92 = (acc92 + (q123 * q116));
      acc93 = (acc93 + (q123 * q108));
      acc94 = (acc94 + (q123 * q102));
      const tw::vec<float, 16> q124 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1792L));
      acc77 = (acc77 + (q124 * q112));
      acc78 = (acc78 + (q124 * q104));
      acc79 = (acc79 + (q124 * q100));
      const tw::vec<float, 16> q125 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1824L));
      acc77 = (acc77 + (q125 * q114));
      acc78 = (acc78 + (q125 * q106));
      acc79 = (acc79 + (q125 * q101));
      acc85 = (acc85 + (q125 * q112));
      acc86 = (acc86 + (q125 * q104));
      acc87 = (acc87 + (q125 * q100));
      const tw::vec<float, 16> q126 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1856L));
      acc77 = (acc77 + (q126 * q116));
      acc78 = (acc78 + (q126 * q108));
      acc79 = (acc79 + (q126 * q102));
      acc85 = (acc85 + (q126 * q114));
      acc86 = (acc86 + (q126 * q106));
      acc87 = (acc87 + (q126 * q101));
      acc93 = (acc93 + (q126 * q112));
      acc94 = (acc94 + (q126 * q104));
      acc95 = (acc95 + (q126 * q100));
      const tw::vec<float, 16> q127 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1888L));
      acc85 = (acc85 + (q127 * q116));
      acc86 = (acc86 + (q127 * q108));
      acc87 = (acc87 + (q127 * q102));
      acc93 = (acc93 + (q127 * q114));
      acc94 = (acc94 + (q127 * q106));
      acc95 = (acc95 + (q127 * q101));
      const tw::vec<float, 16> q128 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 1920L));
      acc93 = (acc93 + (q128 * q116));
      acc94 = (acc94 + (q128 * q108));
      acc95 = (acc95 + (q128 * q102));
      const tw::vec<float, 16> q129 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 2400L));
      acc78 = (acc78 + (q129 * q112));
      acc79 = (acc79 + (q129 * q104));
      acc80 = (acc80 + (q129 * q100));
      const tw::vec<float, 16> q130 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 2432L));
      acc78 = (acc78 + (q130 * q114));
      acc79 = (acc79 + (q130 * q106));
      acc80 = (acc80 + (q130 * q101));
      acc86 = (acc86 + (q130 * q112));
      acc87 = (acc87 + (q130 * q104));
      acc88 = (acc88 + (q130 * q100));
      const tw::vec<float, 16> q131 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 2464L));
      acc78 = (acc78 + (q131 * q116));
      acc79 = (acc79 + (q131 * q108));
      acc80 = (acc80 + (q131 * q102));
      acc86 = (acc86 + (q131 * q114));
      acc87 = (acc87 + (q131 * q106));
      acc88 = (acc88 + (q131 * q101));
      acc94 = (acc94 + (q131 * q112));
      acc95 = (acc95 + (q131 * q104));
      acc96 = (acc96 + (q131 * q100));
      const tw::vec<float, 16> q132 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 2496L));
      acc86 = (acc86 + (q132 * q116));
      acc87 = (acc87 + (q132 * q108));
      acc88 = (acc88 + (q132 * q102));
      acc94 = (acc94 + (q132 * q114));
      acc95 = (acc95 + (q132 * q106));
      acc96 = (acc96 + (q132 * q101));
      const tw::vec<float, 16> q133 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 2528L));
      acc94 = (acc94 + (q133 * q116));
      acc95 = (acc95 + (q133 * q108));
      acc96 = (acc96 + (q133 * q102));
      const tw::vec<float, 16> q134 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3008L));
      acc79 = (acc79 + (q134 * q112));
      acc80 = (acc80 + (q134 * q104));
      acc81 = (acc81 + (q134 * q100));
      const tw::vec<float, 16> q135 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3040L));
      acc79 = (acc79 + (q135 * q114));
      acc80 = (acc80 + (q135 * q106));
      acc81 = (acc81 + (q135 * q101));
      acc87 = (acc87 + (q135 * q112));
      acc88 = (acc88 + (q135 * q104));
      acc89 = (acc89 + (q135 * q100));
      const tw::vec<float, 16> q136 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3072L));
      acc79 = (acc79 + (q136 * q116));
      acc80 = (acc80 + (q136 * q108));
      acc81 = (acc81 + (q136 * q102));
      acc87 = (acc87 + (q136 * q114));
      acc88 = (acc88 + (q136 * q106));
      acc89 = (acc89 + (q136 * q101));
      acc95 = (acc95 + (q136 * q112));
      acc96 = (acc96 + (q136 * q104));
      acc97 = (acc97 + (q136 * q100));
      const tw::vec<float, 16> q137 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3104L));
      acc87 = (acc87 + (q137 * q116));
      acc88 = (acc88 + (q137 * q108));
      acc89 = (acc89 + (q137 * q102));
      acc95 = (acc95 + (q137 * q114));
      acc96 = (acc96 + (q137 * q106));
      acc97 = (acc97 + (q137 * q101));
      const tw::vec<float, 16> q138 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3136L));
      acc95 = (acc95 + (q138 * q116));
      acc96 = (acc96 + (q138 * q108));
      acc97 = (acc97 + (q138 * q102));
      const tw::vec<float, 16> q139 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3616L));
      acc80 = (acc80 + (q139 * q112));
      acc81 = (acc81 + (q139 * q104));
      acc82 = (acc82 + (q139 * q100));
      const tw::vec<float, 16> q140 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3648L));
      acc80 = (acc80 + (q140 * q114));
      acc81 = (acc81 + (q140 * q106));
      acc82 = (acc82 + (q140 * q101));
      acc88 = (acc88 + (q140 * q112));
      acc89 = (acc89 + (q140 * q104));
      acc90 = (acc90 + (q140 * q100));
      const tw::vec<float, 16> q141 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3680L));
      acc80 = (acc80 + (q141 * q116));
      acc81 = (acc81 + (q141 * q108));
      acc82 = (acc82 + (q141 * q102));
      acc88 = (acc88 + (q141 * q114));
      acc89 = (acc89 + (q141 * q106));
      acc90 = (acc90 + (q141 * q101));
      acc96 = (acc96 + (q141 * q112));
      acc97 = (acc97 + (q141 * q104));
      acc98 = (acc98 + (q141 * q100));
      const tw::vec<float, 16> q142 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3712L));
      acc88 = (acc88 + (q142 * q116));
      acc89 = (acc89 + (q142 * q108));
      acc90 = (acc90 + (q142 * q102));
      acc96 = (acc96 + (q142 * q114));
      acc97 = (acc97 + (q142 * q106));
      acc98 = (acc98 + (q142 * q101));
      const tw::vec<float, 16> q143 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 3744L));
      acc96 = (acc96 + (q143 * q116));
      acc97 = (acc97 + (q143 * q108));
      acc98 = (acc98 + (q143 * q102));
      const tw::vec<float, 16> q144 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 4224L));
      acc81 = (acc81 + (q144 * q112));
      acc82 = (acc82 + (q144 * q104));
      const tw::vec<float, 16> q145 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 4256L));
      acc81 = (acc81 + (q145 * q114));
      acc82 = (acc82 + (q145 * q106));
      acc89 = (acc89 + (q145 * q112));
      acc90 = (acc90 + (q145 * q104));
      const tw::vec<float, 16> q146 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 4288L));
      acc81 = (acc81 + (q146 * q116));
      acc82 = (acc82 + (q146 * q108));
      acc89 = (acc89 + (q146 * q114));
      acc90 = (acc90 + (q146 * q106));
      acc97 = (acc97 + (q146 * q112));
      acc98 = (acc98 + (q146 * q104));
      const tw::vec<float, 16> q147 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 4320L));
      acc89 = (acc89 + (q147 * q116));
      acc90 = (acc90 + (q147 * q108));
      acc97 = (acc97 + (q147 * q114));
      acc98 = (acc98 + (q147 * q106));
      const tw::vec<float, 16> q148 = tw::load<tw::vec<float, 16>>(x0 + (i2 * 32L + v_ + 4352L));
      acc97 = (acc97 + (q148 * q116));
      acc98 = (acc98 + (q148 * q108));
      acc82 = (acc82 + (q99 * q112));
      acc82 = (acc82 + (q99 * q114));
      acc90 = (acc90 + (q99 * q112));
      acc82 = (acc82 + (q99 * q116));
      acc90 = (acc90 + (q99 * q114));
      acc98 = (acc98 + (q99 * q112));
      acc90 = (acc90 + (q99 * q116));
      acc98 = (acc98 + (q99 * q114));
      acc98 = (acc98 + (q99 * q116));
     }
     {
      tw::store(s1 + ((((0 * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc75 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 1) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc76 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 2) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc77 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 3) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc78 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 4) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc79 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 5) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc80 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 6) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc81 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 7) * 608L) + (i2 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc82 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + ((((0 * 608L) + ((i2 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc83 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 1) * 608L) + ((i2 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc84 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 2) * 608L) + ((i2 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc85 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 3) * 608L) + ((i2 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc86 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 4) * 608L) + ((i2 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc87 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 5) * 608L) + ((i2 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc88 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 6) * 608L) + ((i2 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc89 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 7) * 608L) + ((i2 + 1) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc90 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + ((((0 * 608L) + ((i2 + 2) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc91 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 1) * 608L) + ((i2 + 2) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc92 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 2) * 608L) + ((i2 + 2) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc93 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 3) * 608L) + ((i2 + 2) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc94 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 4) * 608L) + ((i2 + 2) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc95 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 5) * 608L) + ((i2 + 2) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc96 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 6) * 608L) + ((i2 + 2) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc97 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 7) * 608L) + ((i2 + 2) * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc98 - h72) * h73) + h74), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
    }
   }
  }
  if (i2 == 18L) {
   {
    for (long v_ = 0L; v_ < 32L; v_ += 16L) {
     const auto h149 = tw::load<tw::vec<float, 16>>(x2 + (v_));
     const auto h150 = (tw::load<tw::vec<float, 16>>(x4 + (v_)) * tw::rsqrt((tw::abs(tw::load<tw::vec<float, 16>>(x3 + (v_))) + (float)(0x1.4f8b588e368f1p-17f))));
     const auto h151 = tw::load<tw::vec<float, 16>>(x5 + (v_));
     tw::vec<float, 16> acc152 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc153 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc154 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc155 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc156 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc157 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc158 = tw::splat<tw::vec<float, 16>>(0.0f);
     tw::vec<float, 16> acc159 = tw::splat<tw::vec<float, 16>>(0.0f);
     {
      const tw::vec<float, 16> q160 = tw::splat<tw::vec<float, 16>>(0.0f);
      const tw::vec<float, 16> q161 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 0L));
      acc152 = (acc152 + (q160 * q161));
      const tw::vec<float, 16> q162 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 32L));
      acc152 = (acc152 + (q160 * q162));
      const tw::vec<float, 16> q163 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 64L));
      acc152 = (acc152 + (q160 * q163));
      const tw::vec<float, 16> q164 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 544L));
      const tw::vec<float, 16> q165 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 96L));
      acc152 = (acc152 + (q164 * q165));
      acc153 = (acc153 + (q164 * q161));
      const tw::vec<float, 16> q166 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 576L));
      const tw::vec<float, 16> q167 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 128L));
      acc152 = (acc152 + (q166 * q167));
      acc153 = (acc153 + (q166 * q162));
      const tw::vec<float, 16> q168 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 160L));
      acc152 = (acc152 + (q160 * q168));
      acc153 = (acc153 + (q160 * q163));
      const tw::vec<float, 16> q169 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 1152L));
      const tw::vec<float, 16> q170 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 192L));
      acc152 = (acc152 + (q169 * q170));
      acc153 = (acc153 + (q169 * q165));
      acc154 = (acc154 + (q169 * q161));
      const tw::vec<float, 16> q171 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 1184L));
      const tw::vec<float, 16> q172 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 224L));
      acc152 = (acc152 + (q171 * q172));
      acc153 = (acc153 + (q171 * q167));
      acc154 = (acc154 + (q171 * q162));
      const tw::vec<float, 16> q173 = tw::load<tw::vec<float, 16>>(x1 + (v_ + 256L));
      acc152 = (acc152 + (q160 * q173));
      acc153 = (acc153 + (q160 * q168));
      acc154 = (acc154 + (q160 * q163));
      const tw::vec<float, 16> q174 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 1760L));
      acc153 = (acc153 + (q174 * q170));
      acc154 = (acc154 + (q174 * q165));
      acc155 = (acc155 + (q174 * q161));
      const tw::vec<float, 16> q175 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 1792L));
      acc153 = (acc153 + (q175 * q172));
      acc154 = (acc154 + (q175 * q167));
      acc155 = (acc155 + (q175 * q162));
      acc153 = (acc153 + (q160 * q173));
      acc154 = (acc154 + (q160 * q168));
      acc155 = (acc155 + (q160 * q163));
      const tw::vec<float, 16> q176 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 2368L));
      acc154 = (acc154 + (q176 * q170));
      acc155 = (acc155 + (q176 * q165));
      acc156 = (acc156 + (q176 * q161));
      const tw::vec<float, 16> q177 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 2400L));
      acc154 = (acc154 + (q177 * q172));
      acc155 = (acc155 + (q177 * q167));
      acc156 = (acc156 + (q177 * q162));
      acc154 = (acc154 + (q160 * q173));
      acc155 = (acc155 + (q160 * q168));
      acc156 = (acc156 + (q160 * q163));
      const tw::vec<float, 16> q178 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 2976L));
      acc155 = (acc155 + (q178 * q170));
      acc156 = (acc156 + (q178 * q165));
      acc157 = (acc157 + (q178 * q161));
      const tw::vec<float, 16> q179 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 3008L));
      acc155 = (acc155 + (q179 * q172));
      acc156 = (acc156 + (q179 * q167));
      acc157 = (acc157 + (q179 * q162));
      acc155 = (acc155 + (q160 * q173));
      acc156 = (acc156 + (q160 * q168));
      acc157 = (acc157 + (q160 * q163));
      const tw::vec<float, 16> q180 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 3584L));
      acc156 = (acc156 + (q180 * q170));
      acc157 = (acc157 + (q180 * q165));
      acc158 = (acc158 + (q180 * q161));
      const tw::vec<float, 16> q181 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 3616L));
      acc156 = (acc156 + (q181 * q172));
      acc157 = (acc157 + (q181 * q167));
      acc158 = (acc158 + (q181 * q162));
      acc156 = (acc156 + (q160 * q173));
      acc157 = (acc157 + (q160 * q168));
      acc158 = (acc158 + (q160 * q163));
      const tw::vec<float, 16> q182 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 4192L));
      acc157 = (acc157 + (q182 * q170));
      acc158 = (acc158 + (q182 * q165));
      acc159 = (acc159 + (q182 * q161));
      const tw::vec<float, 16> q183 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 4224L));
      acc157 = (acc157 + (q183 * q172));
      acc158 = (acc158 + (q183 * q167));
      acc159 = (acc159 + (q183 * q162));
      acc157 = (acc157 + (q160 * q173));
      acc158 = (acc158 + (q160 * q168));
      acc159 = (acc159 + (q160 * q163));
      const tw::vec<float, 16> q184 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 4800L));
      acc158 = (acc158 + (q184 * q170));
      acc159 = (acc159 + (q184 * q165));
      const tw::vec<float, 16> q185 = tw::load<tw::vec<float, 16>>(x0 + (v_ + 4832L));
      acc158 = (acc158 + (q185 * q172));
      acc159 = (acc159 + (q185 * q167));
      acc158 = (acc158 + (q160 * q173));
      acc159 = (acc159 + (q160 * q168));
      acc159 = (acc159 + (q160 * q170));
      acc159 = (acc159 + (q160 * q172));
      acc159 = (acc159 + (q160 * q173));
     }
     {
      tw::store(s1 + ((((0 * 608L) + (18 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc152 - h149) * h150) + h151), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 1) * 608L) + (18 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc153 - h149) * h150) + h151), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 2) * 608L) + (18 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc154 - h149) * h150) + h151), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 3) * 608L) + (18 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc155 - h149) * h150) + h151), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 4) * 608L) + (18 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc156 - h149) * h150) + h151), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 5) * 608L) + (18 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc157 - h149) * h150) + h151), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 6) * 608L) + (18 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc158 - h149) * h150) + h151), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
     {
      tw::store(s1 + (((((0 + 7) * 608L) + (18 * 32L)) + v_)), tw::max<tw::vec<float, 16>>((((acc159 - h149) * h150) + h151), tw::splat<tw::vec<float, 16>>(0.0f)));
     }
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
  const long units = 7L, tasks_ = tw::imin(tasks, units);
  {
   tw_golden_task0_ctx ctx186 = {env, x0, x1, x2, x3, x4, x5, s1, tasks, units, tasks_};
   tw::parallel_for(env, tasks_, tw_golden_task0, &ctx186);
  }
 }
 return 0;
}

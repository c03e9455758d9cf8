// cpu_neighbours version 2, cpu:portable
namespace tw_golden_ {
struct tw_golden_task0_ctx {
 const tw_env * env;
 const float * x0;
 float * s3;
 char * scratch;
 long tasks;
 long units;
 long tasks_;
};
TW_NOINLINE void tw_golden_task0(void *ctx_, long task_, long worker_) {
 (void)worker_;
 const tw_golden_task0_ctx &c_ = *(const tw_golden_task0_ctx *)ctx_;
 const tw_env * const env = c_.env;
 const float * const x0 = c_.x0;
 float * const s3 = c_.s3;
 char * const scratch = c_.scratch;
 const long &tasks = c_.tasks;
 const long &units = c_.units;
 const long &tasks_ = c_.tasks_;
 const long u0 = task_ * units / tasks_, u1 = (task_ + 1) * units / tasks_;
 long q_ = u0;
 long i1_2 = q_ % 2L;
 q_ /= 2L;
 long i0_1 = q_;
 for (long u_ = u0; u_ < u1; u_++) {
  const long i0_3 = i0_1 * 4L;
  const long i0_3e = tw::imin(i0_3 + 4L, 21L);
  const long i1_4 = i1_2 * 64L;
  const long i1_4e = tw::imin(i1_4 + 64L, 83L);
  const long s3_first1 = i1_4, s3_last1 = i1_4e - 1;
  const long s2_first1 = tw::max<long>(tw::min<long>(tw::min<long>(tw::min<long>(s3_first1, (s3_first1 - 1L)), (s3_first1 + 1L)), 82L), 0L), s2_last1 = tw::max<long>(tw::min<long>(tw::max<long>(tw::max<long>(s3_last1, (s3_last1 - 1L)), (s3_last1 + 1L)), 82L), 0L);
  const long s1_first1 = tw::max<long>(tw::min<long>(tw::min<long>(tw::min<long>(s2_first1, (s2_first1 - 1L)), (s2_first1 + 1L)), 82L), 0L), s1_last1 = tw::max<long>(tw::min<long>(tw::max<long>(tw::max<long>(s2_last1, (s2_last1 - 1L)), (s2_last1 + 1L)), 82L), 0L);
  const long s0_first1 = tw::max<long>(tw::min<long>(tw::min<long>(tw::min<long>(s1_first1, (s1_first1 - 1L)), (s1_first1 + 1L)), 82L), 0L), s0_last1 = tw::max<long>(tw::min<long>(tw::max<long>(tw::max<long>(s1_last1, (s1_last1 - 1L)), (s1_last1 + 1L)), 82L), 0L);
  float *const s0 = (float *)(scratch + (worker_*11776L + 5632L - (s0_first1 & -16L)*4L));
  float *const s1 = (float *)(scratch + (worker_*11776L + 2560L - (s1_first1 & -16L)*4L));
  float *const s2 = (float *)(scratch + (worker_*11776L + 0L - (s2_first1 & -16L)*4L));
  long s0_next = 0;
  long s1_next = 0;
  long s2_next = 0;
  long s3_next = 0;
  for (long y5 = i0_3; y5 < i0_3e; y5 += 4) {
   const long s3_first0 = y5, s3_last0 = tw::imin(y5 + 4, i0_3e) - 1;
   const long s2_first0 = tw::max<long>(tw::min<long>(tw::min<long>(tw::min<long>(s3_first0, (s3_first0 - 1L)), (s3_first0 + 1L)), 20L), 0L), s2_last0 = tw::max<long>(tw::min<long>(tw::max<long>(tw::max<long>(s3_last0, (s3_last0 - 1L)), (s3_last0 + 1L)), 20L), 0L);
   const long s1_first0 = tw::max<long>(tw::min<long>(tw::min<long>(tw::min<long>(s2_first0, (s2_first0 - 1L)), (s2_first0 + 1L)), 20L), 0L), s1_last0 = tw::max<long>(tw::min<long>(tw::max<long>(tw::max<long>(s2_last0, (s2_last0 - 1L)), (s2_last0 + 1L)), 20L), 0L);
   const long s0_first0 = tw::max<long>(tw::min<long>(tw::min<long>(tw::min<long>(s1_first0, (s1_first0 - 1L)), (s1_first0 + 1L)), 20L), 0L), s0_last0 = tw::max<long>(tw::min<long>(tw::max<long>(tw::max<long>(s1_last0, (s1_last0 - 1L)), (s1_last0 + 1L)), 20L), 0L);
   {
    {
     long i6 = tw::imax(s0_first0, s0_next);
     for (; i6 + 3 <= s0_last0 && i6 >= 1 && i6 + 3 <= 19; i6 += 4) {
      const long a7 = tw::imin(tw::imax(s0_first1, 4), s0_last1 + 1);
      const long b8 = tw::imax(a7, tw::imin(s0_last1 + 1, 80));
      for (long j9 = s0_first1; j9 < a7; j9 += 4) {
       const long n_ = tw::imin(4L, a7 - j9);
       for (long i10 = i6; i10 < i6 + 4; i10++) {
        {
         tw::store_n(s0 + ((i10 % 16L)*96L + j9), tw::select(tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i10 > 0L) && (i10 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j9)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j9)) < tw::splat<tw::vec<int, 4>>(82L))), (((float)(0.5f) * tw::load_if<tw::vec<float, 4>>(x0 + (i10*83L + j9), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i10 > 0L) && (i10 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j9)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j9)) < tw::splat<tw::vec<int, 4>>(82L)))))) + ((float)(0.125f) * (((tw::load_if<tw::vec<float, 4>>(x0 + ((i10 - 1L)*83L + j9), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i10 > 0L) && (i10 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j9)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j9)) < tw::splat<tw::vec<int, 4>>(82L))))) + tw::load_if<tw::vec<float, 4>>(x0 + ((i10 + 1L)*83L + j9), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i10 > 0L) && (i10 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j9)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j9)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(x0 + (i10*83L + (j9 - 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i10 > 0L) && (i10 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j9)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j9)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(x0 + (i10*83L + (j9 + 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i10 > 0L) && (i10 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j9)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j9)) < tw::splat<tw::vec<int, 4>>(82L)))))))), tw::load_if<tw::vec<float, 4>>(x0 + (i10*83L + j9), tw::both(tw::first<tw::vec<int, 4>>(n_), (~tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i10 > 0L) && (i10 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j9)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j9)) < tw::splat<tw::vec<int, 4>>(82L))))))), n_);
        }
       }
      }
      {
       long j11 = a7;
       const long end_ = b8;
       if (end_ - j11 >= 4) {
        if (j11 & 3) {
         {
          const auto v12 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(x0 + (i6*83L + j11))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(x0 + ((i6 - 1L)*83L + j11)) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + j11))) + tw::load<tw::vec<float, 4>>(x0 + (i6*83L + (j11 - 1L)))) + tw::load<tw::vec<float, 4>>(x0 + (i6*83L + (j11 + 1L))))));
          const auto v13 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + j11))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(x0 + (((i6 + 1L) - 1L)*83L + j11)) + tw::load<tw::vec<float, 4>>(x0 + (((i6 + 1L) + 1L)*83L + j11))) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + (j11 - 1L)))) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + (j11 + 1L))))));
          const auto v14 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(x0 + ((i6 + 2L)*83L + j11))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(x0 + (((i6 + 2L) - 1L)*83L + j11)) + tw::load<tw::vec<float, 4>>(x0 + (((i6 + 2L) + 1L)*83L + j11))) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 2L)*83L + (j11 - 1L)))) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 2L)*83L + (j11 + 1L))))));
          const auto v15 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(x0 + ((i6 + 3L)*83L + j11))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(x0 + (((i6 + 3L) - 1L)*83L + j11)) + tw::load<tw::vec<float, 4>>(x0 + (((i6 + 3L) + 1L)*83L + j11))) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 3L)*83L + (j11 - 1L)))) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 3L)*83L + (j11 + 1L))))));
          tw::store(s0 + ((i6 % 16L)*96L + j11), v12);
          tw::store(s0 + (((i6 + 1L) % 16L)*96L + j11), v13);
          tw::store(s0 + (((i6 + 2L) % 16L)*96L + j11), v14);
          tw::store(s0 + (((i6 + 3L) % 16L)*96L + j11), v15);
         }
         j11 = (j11 + 3) & -4L;
        }
        for (; j11 + 4 <= end_; j11 += 4) {
         {
          const auto v16 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(x0 + (i6*83L + j11))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(x0 + ((i6 - 1L)*83L + j11)) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + j11))) + tw::load<tw::vec<float, 4>>(x0 + (i6*83L + (j11 - 1L)))) + tw::load<tw::vec<float, 4>>(x0 + (i6*83L + (j11 + 1L))))));
          const auto v17 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + j11))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(x0 + (((i6 + 1L) - 1L)*83L + j11)) + tw::load<tw::vec<float, 4>>(x0 + (((i6 + 1L) + 1L)*83L + j11))) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + (j11 - 1L)))) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + (j11 + 1L))))));
          const auto v18 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(x0 + ((i6 + 2L)*83L + j11))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(x0 + (((i6 + 2L) - 1L)*83L + j11)) + tw::load<tw::vec<float, 4>>(x0 + (((i6 + 2L) + 1L)*83L + j11))) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 2L)*83L + (j11 - 1L)))) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 2L)*83L + (j11 + 1L))))));
          const auto v19 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(x0 + ((i6 + 3L)*83L + j11))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(x0 + (((i6 + 3L) - 1L)*83L + j11)) + tw::load<tw::vec<float, 4>>(x0 + (((i6 + 3L) + 1L)*83L + j11))) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 3L)*83L + (j11 - 1L)))) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 3L)*83L + (j11 + 1L))))));
          tw::store(s0 + ((i6 % 16L)*96L + j11), v16);
          tw::store(s0 + (((i6 + 1L) % 16L)*96L + j11), v17);
          tw::store(s0 + (((i6 + 2L) % 16L)*96L + j11), v18);
          tw::store(s0 + (((i6 + 3L) % 16L)*96L + j11), v19);
         }
        }
        if (j11 < end_) {
         j11 = end_ - 4;
         {
          const auto v20 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(x0 + (i6*83L + j11))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(x0 + ((i6 - 1L)*83L + j11)) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + j11))) + tw::load<tw::vec<float, 4>>(x0 + (i6*83L + (j11 - 1L)))) + tw::load<tw::vec<float, 4>>(x0 + (i6*83L + (j11 + 1L))))));
          const auto v21 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + j11))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(x0 + (((i6 + 1L) - 1L)*83L + j11)) + tw::load<tw::vec<float, 4>>(x0 + (((i6 + 1L) + 1L)*83L + j11))) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + (j11 - 1L)))) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + (j11 + 1L))))));
          const auto v22 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(x0 + ((i6 + 2L)*83L + j11))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(x0 + (((i6 + 2L) - 1L)*83L + j11)) + tw::load<tw::vec<float, 4>>(x0 + (((i6 + 2L) + 1L)*83L + j11))) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 2L)*83L + (j11 - 1L)))) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 2L)*83L + (j11 + 1L))))));
          const auto v23 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(x0 + ((i6 + 3L)*83L + j11))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(x0 + (((i6 + 3L) - 1L)*83L + j11)) + tw::load<tw::vec<float, 4>>(x0 + (((i6 + 3L) + 1L)*83L + j11))) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 3L)*83L + (j11 - 1L)))) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 3L)*83L + (j11 + 1L))))));
          tw::store(s0 + ((i6 % 16L)*96L + j11), v20);
          tw::store(s0 + (((i6 + 1L) % 16L)*96L + j11), v21);
          tw::store(s0 + (((i6 + 2L) % 16L)*96L + j11), v22);
          tw::store(s0 + (((i6 + 3L) % 16L)*96L + j11), v23);
         }
        }
       }
       else if (j11 < end_) {
        const long n_ = end_ - j11;
        for (long i24 = i6; i24 < i6 + 4; i24++) {
         {
          tw::store_n(s0 + ((i24 % 16L)*96L + j11), (((float)(0.5f) * tw::load_n<tw::vec<float, 4>>(x0 + (i24*83L + j11), n_)) + ((float)(0.125f) * (((tw::load_n<tw::vec<float, 4>>(x0 + ((i24 - 1L)*83L + j11), n_) + tw::load_n<tw::vec<float, 4>>(x0 + ((i24 + 1L)*83L + j11), n_)) + tw::load_n<tw::vec<float, 4>>(x0 + (i24*83L + (j11 - 1L)), n_)) + tw::load_n<tw::vec<float, 4>>(x0 + (i24*83L + (j11 + 1L)), n_)))), n_);
         }
        }
       }
      }
      for (long j25 = b8; j25 < s0_last1 + 1; j25 += 4) {
       const long n_ = tw::imin(4L, s0_last1 + 1 - j25);
       for (long i26 = i6; i26 < i6 + 4; i26++) {
        {
         tw::store_n(s0 + ((i26 % 16L)*96L + j25), tw::select(tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i26 > 0L) && (i26 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j25)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j25)) < tw::splat<tw::vec<int, 4>>(82L))), (((float)(0.5f) * tw::load_if<tw::vec<float, 4>>(x0 + (i26*83L + j25), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i26 > 0L) && (i26 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j25)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j25)) < tw::splat<tw::vec<int, 4>>(82L)))))) + ((float)(0.125f) * (((tw::load_if<tw::vec<float, 4>>(x0 + ((i26 - 1L)*83L + j25), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i26 > 0L) && (i26 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j25)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j25)) < tw::splat<tw::vec<int, 4>>(82L))))) + tw::load_if<tw::vec<float, 4>>(x0 + ((i26 + 1L)*83L + j25), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i26 > 0L) && (i26 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j25)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j25)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(x0 + (i26*83L + (j25 - 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i26 > 0L) && (i26 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j25)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j25)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(x0 + (i26*83L + (j25 + 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i26 > 0L) && (i26 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j25)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j25)) < tw::splat<tw::vec<int, 4>>(82L)))))))), tw::load_if<tw::vec<float, 4>>(x0 + (i26*83L + j25), tw::both(tw::first<tw::vec<int, 4>>(n_), (~tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i26 > 0L) && (i26 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j25)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j25)) < tw::splat<tw::vec<int, 4>>(82L))))))), n_);
        }
       }
      }
     }
     for (; i6 <= s0_last0; i6++) {
      const long a27 = tw::imin(tw::imax(s0_first1, 4), s0_last1 + 1);
      const long b28 = tw::imax(a27, tw::imin(s0_last1 + 1, 80));
      for (long j29 = s0_first1; j29 < a27; j29 += 4) {
       const long n_ = tw::imin(4L, a27 - j29);
       {
        tw::store_n(s0 + ((i6 % 16L)*96L + j29), tw::select(tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i6 > 0L) && (i6 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j29)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j29)) < tw::splat<tw::vec<int, 4>>(82L))), (((float)(0.5f) * tw::load_if<tw::vec<float, 4>>(x0 + (i6*83L + j29), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i6 > 0L) && (i6 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j29)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j29)) < tw::splat<tw::vec<int, 4>>(82L)))))) + ((float)(0.125f) * (((tw::load_if<tw::vec<float, 4>>(x0 + ((i6 - 1L)*83L + j29), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i6 > 0L) && (i6 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j29)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j29)) < tw::splat<tw::vec<int, 4>>(82L))))) + tw::load_if<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + j29), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i6 > 0L) && (i6 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j29)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j29)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(x0 + (i6*83L + (j29 - 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i6 > 0L) && (i6 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j29)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j29)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(x0 + (i6*83L + (j29 + 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i6 > 0L) && (i6 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j29)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j29)) < tw::splat<tw::vec<int, 4>>(82L)))))))), tw::load_if<tw::vec<float, 4>>(x0 + (i6*83L + j29), tw::both(tw::first<tw::vec<int, 4>>(n_), (~tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i6 > 0L) && (i6 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j29)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j29)) < tw::splat<tw::vec<int, 4>>(82L))))))), n_);
       }
      }
      if (i6 >= 1 && i6 <= 19) {
       {
        long j30 = a27;
        const long end_ = b28;
        if (end_ - j30 >= 4) {
         if (j30 & 3) {
          {
           tw::store(s0 + ((i6 % 16L)*96L + j30), (((float)(0.5f) * tw::load<tw::vec<float, 4>>(x0 + (i6*83L + j30))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(x0 + ((i6 - 1L)*83L + j30)) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + j30))) + tw::load<tw::vec<float, 4>>(x0 + (i6*83L + (j30 - 1L)))) + tw::load<tw::vec<float, 4>>(x0 + (i6*83L + (j30 + 1L)))))));
          }
          j30 = (j30 + 3) & -4L;
         }
         for (; j30 + 4 <= end_; j30 += 4) {
          {
           tw::store(s0 + ((i6 % 16L)*96L + j30), (((float)(0.5f) * tw::load<tw::vec<float, 4>>(x0 + (i6*83L + j30))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(x0 + ((i6 - 1L)*83L + j30)) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + j30))) + tw::load<tw::vec<float, 4>>(x0 + (i6*83L + (j30 - 1L)))) + tw::load<tw::vec<float, 4>>(x0 + (i6*83L + (j30 + 1L)))))));
          }
         }
         if (j30 < end_) {
          j30 = end_ - 4;
          {
           tw::store(s0 + ((i6 % 16L)*96L + j30), (((float)(0.5f) * tw::load<tw::vec<float, 4>>(x0 + (i6*83L + j30))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(x0 + ((i6 - 1L)*83L + j30)) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + j30))) + tw::load<tw::vec<float, 4>>(x0 + (i6*83L + (j30 - 1L)))) + tw::load<tw::vec<float, 4>>(x0 + (i6*83L + (j30 + 1L)))))));
          }
         }
        }
        else if (j30 < end_) {
         const long n_ = end_ - j30;
         {
          tw::store_n(s0 + ((i6 % 16L)*96L + j30), (((float)(0.5f) * tw::load_n<tw::vec<float, 4>>(x0 + (i6*83L + j30), n_)) + ((float)(0.125f) * (((tw::load_n<tw::vec<float, 4>>(x0 + ((i6 - 1L)*83L + j30), n_) + tw::load_n<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + j30), n_)) + tw::load_n<tw::vec<float, 4>>(x0 + (i6*83L + (j30 - 1L)), n_)) + tw::load_n<tw::vec<float, 4>>(x0 + (i6*83L + (j30 + 1L)), n_)))), n_);
         }
        }
       }
      }
      else {
       {
        long j31 = a27;
        const long end_ = b28;
        if (end_ - j31 >= 4) {
         if (j31 & 3) {
          {
           tw::store(s0 + ((i6 % 16L)*96L + j31), (((i6 > 0L) && (i6 < 20L)) ? (((float)(0.5f) * tw::load<tw::vec<float, 4>>(x0 + (i6*83L + j31))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(x0 + ((i6 - 1L)*83L + j31)) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + j31))) + tw::load<tw::vec<float, 4>>(x0 + (i6*83L + (j31 - 1L)))) + tw::load<tw::vec<float, 4>>(x0 + (i6*83L + (j31 + 1L)))))) : tw::load<tw::vec<float, 4>>(x0 + (i6*83L + j31))));
          }
          j31 = (j31 + 3) & -4L;
         }
         for (; j31 + 4 <= end_; j31 += 4) {
          {
           tw::store(s0 + ((i6 % 16L)*96L + j31), (((i6 > 0L) && (i6 < 20L)) ? (((float)(0.5f) * tw::load<tw::vec<float, 4>>(x0 + (i6*83L + j31))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(x0 + ((i6 - 1L)*83L + j31)) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + j31))) + tw::load<tw::vec<float, 4>>(x0 + (i6*83L + (j31 - 1L)))) + tw::load<tw::vec<float, 4>>(x0 + (i6*83L + (j31 + 1L)))))) : tw::load<tw::vec<float, 4>>(x0 + (i6*83L + j31))));
          }
         }
         if (j31 < end_) {
          j31 = end_ - 4;
          {
           tw::store(s0 + ((i6 % 16L)*96L + j31), (((i6 > 0L) && (i6 < 20L)) ? (((float)(0.5f) * tw::load<tw::vec<float, 4>>(x0 + (i6*83L + j31))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(x0 + ((i6 - 1L)*83L + j31)) + tw::load<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + j31))) + tw::load<tw::vec<float, 4>>(x0 + (i6*83L + (j31 - 1L)))) + tw::load<tw::vec<float, 4>>(x0 + (i6*83L + (j31 + 1L)))))) : tw::load<tw::vec<float, 4>>(x0 + (i6*83L + j31))));
          }
         }
        }
        else if (j31 < end_) {
         const long n_ = end_ - j31;
         {
          tw::store_n(s0 + ((i6 % 16L)*96L + j31), (((i6 > 0L) && (i6 < 20L)) ? (((float)(0.5f) * tw::load_n<tw::vec<float, 4>>(x0 + (i6*83L + j31), n_)) + ((float)(0.125f) * (((tw::load_n<tw::vec<float, 4>>(x0 + ((i6 - 1L)*83L + j31), n_) + tw::load_n<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + j31), n_)) + tw::load_n<tw::vec<float, 4>>(x0 + (i6*83L + (j31 - 1L)), n_)) + tw::load_n<tw::vec<float, 4>>(x0 + (i6*83L + (j31 + 1L)), n_)))) : tw::load_n<tw::vec<float, 4>>(x0 + (i6*83L + j31), n_)), n_);
         }
        }
       }
      }
      for (long j32 = b28; j32 < s0_last1 + 1; j32 += 4) {
       const long n_ = tw::imin(4L, s0_last1 + 1 - j32);
       {
        tw::store_n(s0 + ((i6 % 16L)*96L + j32), tw::select(tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i6 > 0L) && (i6 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j32)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j32)) < tw::splat<tw::vec<int, 4>>(82L))), (((float)(0.5f) * tw::load_if<tw::vec<float, 4>>(x0 + (i6*83L + j32), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i6 > 0L) && (i6 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j32)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j32)) < tw::splat<tw::vec<int, 4>>(82L)))))) + ((float)(0.125f) * (((tw::load_if<tw::vec<float, 4>>(x0 + ((i6 - 1L)*83L + j32), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i6 > 0L) && (i6 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j32)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j32)) < tw::splat<tw::vec<int, 4>>(82L))))) + tw::load_if<tw::vec<float, 4>>(x0 + ((i6 + 1L)*83L + j32), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i6 > 0L) && (i6 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j32)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j32)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(x0 + (i6*83L + (j32 - 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i6 > 0L) && (i6 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j32)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j32)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(x0 + (i6*83L + (j32 + 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i6 > 0L) && (i6 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j32)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j32)) < tw::splat<tw::vec<int, 4>>(82L)))))))), tw::load_if<tw::vec<float, 4>>(x0 + (i6*83L + j32), tw::both(tw::first<tw::vec<int, 4>>(n_), (~tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i6 > 0L) && (i6 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j32)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j32)) < tw::splat<tw::vec<int, 4>>(82L))))))), n_);
       }
      }
     }
    }
   }
   s0_next = s0_last0 + 1;
   {
    {
     long i33 = tw::imax(s1_first0, s1_next);
     for (; i33 + 3 <= s1_last0 && i33 >= 1 && i33 + 3 <= 19; i33 += 4) {
      const long a34 = tw::imin(tw::imax(s1_first1, 4), s1_last1 + 1);
      const long b35 = tw::imax(a34, tw::imin(s1_last1 + 1, 80));
      for (long j36 = s1_first1; j36 < a34; j36 += 4) {
       const long n_ = tw::imin(4L, a34 - j36);
       for (long i37 = i33; i37 < i33 + 4; i37++) {
        {
         tw::store_n(s1 + ((i37 % 8L)*96L + j36), tw::select(tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i37 > 0L) && (i37 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j36)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j36)) < tw::splat<tw::vec<int, 4>>(82L))), (((float)(0.5f) * tw::load_if<tw::vec<float, 4>>(s0 + ((i37 % 16L)*96L + j36), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i37 > 0L) && (i37 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j36)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j36)) < tw::splat<tw::vec<int, 4>>(82L)))))) + ((float)(0.125f) * (((tw::load_if<tw::vec<float, 4>>(s0 + (((i37 - 1L) & 15)*96L + j36), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i37 > 0L) && (i37 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j36)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j36)) < tw::splat<tw::vec<int, 4>>(82L))))) + tw::load_if<tw::vec<float, 4>>(s0 + (((i37 + 1L) % 16L)*96L + j36), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i37 > 0L) && (i37 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j36)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j36)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s0 + ((i37 % 16L)*96L + (j36 - 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i37 > 0L) && (i37 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j36)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j36)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s0 + ((i37 % 16L)*96L + (j36 + 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i37 > 0L) && (i37 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j36)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j36)) < tw::splat<tw::vec<int, 4>>(82L)))))))), tw::load_if<tw::vec<float, 4>>(s0 + ((i37 % 16L)*96L + j36), tw::both(tw::first<tw::vec<int, 4>>(n_), (~tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i37 > 0L) && (i37 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j36)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j36)) < tw::splat<tw::vec<int, 4>>(82L))))))), n_);
        }
       }
      }
      {
       long j38 = a34;
       const long end_ = b35;
       if (end_ - j38 >= 4) {
        if (j38 & 3) {
         {
          const auto v39 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + j38))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s0 + (((i33 - 1L) & 15)*96L + j38)) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + j38))) + tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j38 - 1L)))) + tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j38 + 1L))))));
          const auto v40 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + j38))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s0 + ((((i33 + 1L) - 1L) & 15)*96L + j38)) + tw::load<tw::vec<float, 4>>(s0 + ((((i33 + 1L) + 1L) % 16L)*96L + j38))) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + (j38 - 1L)))) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + (j38 + 1L))))));
          const auto v41 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s0 + (((i33 + 2L) % 16L)*96L + j38))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s0 + ((((i33 + 2L) - 1L) & 15)*96L + j38)) + tw::load<tw::vec<float, 4>>(s0 + ((((i33 + 2L) + 1L) % 16L)*96L + j38))) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 2L) % 16L)*96L + (j38 - 1L)))) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 2L) % 16L)*96L + (j38 + 1L))))));
          const auto v42 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s0 + (((i33 + 3L) % 16L)*96L + j38))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s0 + ((((i33 + 3L) - 1L) & 15)*96L + j38)) + tw::load<tw::vec<float, 4>>(s0 + ((((i33 + 3L) + 1L) % 16L)*96L + j38))) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 3L) % 16L)*96L + (j38 - 1L)))) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 3L) % 16L)*96L + (j38 + 1L))))));
          tw::store(s1 + ((i33 % 8L)*96L + j38), v39);
          tw::store(s1 + (((i33 + 1L) % 8L)*96L + j38), v40);
          tw::store(s1 + (((i33 + 2L) % 8L)*96L + j38), v41);
          tw::store(s1 + (((i33 + 3L) % 8L)*96L + j38), v42);
         }
         j38 = (j38 + 3) & -4L;
        }
        for (; j38 + 4 <= end_; j38 += 4) {
         {
          const auto v43 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + j38))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s0 + (((i33 - 1L) & 15)*96L + j38)) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + j38))) + tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j38 - 1L)))) + tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j38 + 1L))))));
          const auto v44 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + j38))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s0 + ((((i33 + 1L) - 1L) & 15)*96L + j38)) + tw::load<tw::vec<float, 4>>(s0 + ((((i33 + 1L) + 1L) % 16L)*96L + j38))) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + (j38 - 1L)))) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + (j38 + 1L))))));
          const auto v45 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s0 + (((i33 + 2L) % 16L)*96L + j38))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s0 + ((((i33 + 2L) - 1L) & 15)*96L + j38)) + tw::load<tw::vec<float, 4>>(s0 + ((((i33 + 2L) + 1L) % 16L)*96L + j38))) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 2L) % 16L)*96L + (j38 - 1L)))) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 2L) % 16L)*96L + (j38 + 1L))))));
          const auto v46 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s0 + (((i33 + 3L) % 16L)*96L + j38))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s0 + ((((i33 + 3L) - 1L) & 15)*96L + j38)) + tw::load<tw::vec<float, 4>>(s0 + ((((i33 + 3L) + 1L) % 16L)*96L + j38))) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 3L) % 16L)*96L + (j38 - 1L)))) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 3L) % 16L)*96L + (j38 + 1L))))));
          tw::store(s1 + ((i33 % 8L)*96L + j38), v43);
          tw::store(s1 + (((i33 + 1L) % 8L)*96L + j38), v44);
          tw::store(s1 + (((i33 + 2L) % 8L)*96L + j38), v45);
          tw::store(s1 + (((i33 + 3L) % 8L)*96L + j38), v46);
         }
        }
        if (j38 < end_) {
         j38 = end_ - 4;
         {
          const auto v47 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + j38))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s0 + (((i33 - 1L) & 15)*96L + j38)) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + j38))) + tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j38 - 1L)))) + tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j38 + 1L))))));
          const auto v48 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + j38))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s0 + ((((i33 + 1L) - 1L) & 15)*96L + j38)) + tw::load<tw::vec<float, 4>>(s0 + ((((i33 + 1L) + 1L) % 16L)*96L + j38))) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + (j38 - 1L)))) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + (j38 + 1L))))));
          const auto v49 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s0 + (((i33 + 2L) % 16L)*96L + j38))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s0 + ((((i33 + 2L) - 1L) & 15)*96L + j38)) + tw::load<tw::vec<float, 4>>(s0 + ((((i33 + 2L) + 1L) % 16L)*96L + j38))) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 2L) % 16L)*96L + (j38 - 1L)))) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 2L) % 16L)*96L + (j38 + 1L))))));
          const auto v50 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s0 + (((i33 + 3L) % 16L)*96L + j38))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s0 + ((((i33 + 3L) - 1L) & 15)*96L + j38)) + tw::load<tw::vec<float, 4>>(s0 + ((((i33 + 3L) + 1L) % 16L)*96L + j38))) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 3L) % 16L)*96L + (j38 - 1L)))) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 3L) % 16L)*96L + (j38 + 1L))))));
          tw::store(s1 + ((i33 % 8L)*96L + j38), v47);
          tw::store(s1 + (((i33 + 1L) % 8L)*96L + j38), v48);
          tw::store(s1 + (((i33 + 2L) % 8L)*96L + j38), v49);
          tw::store(s1 + (((i33 + 3L) % 8L)*96L + j38), v50);
         }
        }
       }
       else if (j38 < end_) {
        const long n_ = end_ - j38;
        for (long i51 = i33; i51 < i33 + 4; i51++) {
         {
          tw::store_n(s1 + ((i51 % 8L)*96L + j38), (((float)(0.5f) * tw::load_n<tw::vec<float, 4>>(s0 + ((i51 % 16L)*96L + j38), n_)) + ((float)(0.125f) * (((tw::load_n<tw::vec<float, 4>>(s0 + (((i51 - 1L) & 15)*96L + j38), n_) + tw::load_n<tw::vec<float, 4>>(s0 + (((i51 + 1L) % 16L)*96L + j38), n_)) + tw::load_n<tw::vec<float, 4>>(s0 + ((i51 % 16L)*96L + (j38 - 1L)), n_)) + tw::load_n<tw::vec<float, 4>>(s0 + ((i51 % 16L)*96L + (j38 + 1L)), n_)))), n_);
         }
        }
       }
      }
      for (long j52 = b35; j52 < s1_last1 + 1; j52 += 4) {
       const long n_ = tw::imin(4L, s1_last1 + 1 - j52);
       for (long i53 = i33; i53 < i33 + 4; i53++) {
        {
         tw::store_n(s1 + ((i53 % 8L)*96L + j52), tw::select(tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i53 > 0L) && (i53 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j52)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j52)) < tw::splat<tw::vec<int, 4>>(82L))), (((float)(0.5f) * tw::load_if<tw::vec<float, 4>>(s0 + ((i53 % 16L)*96L + j52), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i53 > 0L) && (i53 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j52)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j52)) < tw::splat<tw::vec<int, 4>>(82L)))))) + ((float)(0.125f) * (((tw::load_if<tw::vec<float, 4>>(s0 + (((i53 - 1L) & 15)*96L + j52), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i53 > 0L) && (i53 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j52)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j52)) < tw::splat<tw::vec<int, 4>>(82L))))) + tw::load_if<tw::vec<float, 4>>(s0 + (((i53 + 1L) % 16L)*96L + j52), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i53 > 0L) && (i53 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j52)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j52)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s0 + ((i53 % 16L)*96L + (j52 - 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i53 > 0L) && (i53 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j52)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j52)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s0 + ((i53 % 16L)*96L + (j52 + 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i53 > 0L) && (i53 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j52)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j52)) < tw::splat<tw::vec<int, 4>>(82L)))))))), tw::load_if<tw::vec<float, 4>>(s0 + ((i53 % 16L)*96L + j52), tw::both(tw::first<tw::vec<int, 4>>(n_), (~tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i53 > 0L) && (i53 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j52)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j52)) < tw::splat<tw::vec<int, 4>>(82L))))))), n_);
        }
       }
      }
     }
     for (; i33 <= s1_last0; i33++) {
      const long a54 = tw::imin(tw::imax(s1_first1, 4), s1_last1 + 1);
      const long b55 = tw::imax(a54, tw::imin(s1_last1 + 1, 80));
      for (long j56 = s1_first1; j56 < a54; j56 += 4) {
       const long n_ = tw::imin(4L, a54 - j56);
       {
        tw::store_n(s1 + ((i33 % 8L)*96L + j56), tw::select(tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i33 > 0L) && (i33 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j56)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j56)) < tw::splat<tw::vec<int, 4>>(82L))), (((float)(0.5f) * tw::load_if<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + j56), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i33 > 0L) && (i33 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j56)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j56)) < tw::splat<tw::vec<int, 4>>(82L)))))) + ((float)(0.125f) * (((tw::load_if<tw::vec<float, 4>>(s0 + (((i33 - 1L) & 15)*96L + j56), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i33 > 0L) && (i33 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j56)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j56)) < tw::splat<tw::vec<int, 4>>(82L))))) + tw::load_if<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + j56), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i33 > 0L) && (i33 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j56)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j56)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j56 - 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i33 > 0L) && (i33 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j56)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j56)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j56 + 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i33 > 0L) && (i33 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j56)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j56)) < tw::splat<tw::vec<int, 4>>(82L)))))))), tw::load_if<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + j56), tw::both(tw::first<tw::vec<int, 4>>(n_), (~tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i33 > 0L) && (i33 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j56)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j56)) < tw::splat<tw::vec<int, 4>>(82L))))))), n_);
       }
      }
      if (i33 >= 1 && i33 <= 19) {
       {
        long j57 = a54;
        const long end_ = b55;
        if (end_ - j57 >= 4) {
         if (j57 & 3) {
          {
           tw::store(s1 + ((i33 % 8L)*96L + j57), (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + j57))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s0 + (((i33 - 1L) & 15)*96L + j57)) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + j57))) + tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j57 - 1L)))) + tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j57 + 1L)))))));
          }
          j57 = (j57 + 3) & -4L;
         }
         for (; j57 + 4 <= end_; j57 += 4) {
          {
           tw::store(s1 + ((i33 % 8L)*96L + j57), (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + j57))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s0 + (((i33 - 1L) & 15)*96L + j57)) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + j57))) + tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j57 - 1L)))) + tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j57 + 1L)))))));
          }
         }
         if (j57 < end_) {
          j57 = end_ - 4;
          {
           tw::store(s1 + ((i33 % 8L)*96L + j57), (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + j57))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s0 + (((i33 - 1L) & 15)*96L + j57)) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + j57))) + tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j57 - 1L)))) + tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j57 + 1L)))))));
          }
         }
        }
        else if (j57 < end_) {
         const long n_ = end_ - j57;
         {
          tw::store_n(s1 + ((i33 % 8L)*96L + j57), (((float)(0.5f) * tw::load_n<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + j57), n_)) + ((float)(0.125f) * (((tw::load_n<tw::vec<float, 4>>(s0 + (((i33 - 1L) & 15)*96L + j57), n_) + tw::load_n<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + j57), n_)) + tw::load_n<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j57 - 1L)), n_)) + tw::load_n<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j57 + 1L)), n_)))), n_);
         }
        }
       }
      }
      else {
       {
        long j58 = a54;
        const long end_ = b55;
        if (end_ - j58 >= 4) {
         if (j58 & 3) {
          {
           tw::store(s1 + ((i33 % 8L)*96L + j58), (((i33 > 0L) && (i33 < 20L)) ? (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + j58))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s0 + (((i33 - 1L) & 15)*96L + j58)) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + j58))) + tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j58 - 1L)))) + tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j58 + 1L)))))) : tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + j58))));
          }
          j58 = (j58 + 3) & -4L;
         }
         for (; j58 + 4 <= end_; j58 += 4) {
          {
           tw::store(s1 + ((i33 % 8L)*96L + j58), (((i33 > 0L) && (i33 < 20L)) ? (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + j58))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s0 + (((i33 - 1L) & 15)*96L + j58)) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + j58))) + tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j58 - 1L)))) + tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j58 + 1L)))))) : tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + j58))));
          }
         }
         if (j58 < end_) {
          j58 = end_ - 4;
          {
           tw::store(s1 + ((i33 % 8L)*96L + j58), (((i33 > 0L) && (i33 < 20L)) ? (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + j58))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s0 + (((i33 - 1L) & 15)*96L + j58)) + tw::load<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + j58))) + tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j58 - 1L)))) + tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j58 + 1L)))))) : tw::load<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + j58))));
          }
         }
        }
        else if (j58 < end_) {
         const long n_ = end_ - j58;
         {
          tw::store_n(s1 + ((i33 % 8L)*96L + j58), (((i33 > 0L) && (i33 < 20L)) ? (((float)(0.5f) * tw::load_n<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + j58), n_)) + ((float)(0.125f) * (((tw::load_n<tw::vec<float, 4>>(s0 + (((i33 - 1L) & 15)*96L + j58), n_) + tw::load_n<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + j58), n_)) + tw::load_n<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j58 - 1L)), n_)) + tw::load_n<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j58 + 1L)), n_)))) : tw::load_n<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + j58), n_)), n_);
         }
        }
       }
      }
      for (long j59 = b55; j59 < s1_last1 + 1; j59 += 4) {
       const long n_ = tw::imin(4L, s1_last1 + 1 - j59);
       {
        tw::store_n(s1 + ((i33 % 8L)*96L + j59), tw::select(tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i33 > 0L) && (i33 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j59)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j59)) < tw::splat<tw::vec<int, 4>>(82L))), (((float)(0.5f) * tw::load_if<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + j59), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i33 > 0L) && (i33 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j59)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j59)) < tw::splat<tw::vec<int, 4>>(82L)))))) + ((float)(0.125f) * (((tw::load_if<tw::vec<float, 4>>(s0 + (((i33 - 1L) & 15)*96L + j59), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i33 > 0L) && (i33 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j59)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j59)) < tw::splat<tw::vec<int, 4>>(82L))))) + tw::load_if<tw::vec<float, 4>>(s0 + (((i33 + 1L) % 16L)*96L + j59), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i33 > 0L) && (i33 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j59)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j59)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j59 - 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i33 > 0L) && (i33 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j59)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j59)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + (j59 + 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i33 > 0L) && (i33 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j59)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j59)) < tw::splat<tw::vec<int, 4>>(82L)))))))), tw::load_if<tw::vec<float, 4>>(s0 + ((i33 % 16L)*96L + j59), tw::both(tw::first<tw::vec<int, 4>>(n_), (~tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i33 > 0L) && (i33 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j59)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j59)) < tw::splat<tw::vec<int, 4>>(82L))))))), n_);
       }
      }
     }
    }
   }
   s1_next = s1_last0 + 1;
   {
    {
     long i60 = tw::imax(s2_first0, s2_next);
     for (; i60 + 3 <= s2_last0 && i60 >= 1 && i60 + 3 <= 19; i60 += 4) {
      const long a61 = tw::imin(tw::imax(s2_first1, 4), s2_last1 + 1);
      const long b62 = tw::imax(a61, tw::imin(s2_last1 + 1, 80));
      for (long j63 = s2_first1; j63 < a61; j63 += 4) {
       const long n_ = tw::imin(4L, a61 - j63);
       for (long i64 = i60; i64 < i60 + 4; i64++) {
        {
         tw::store_n(s2 + ((i64 % 8L)*80L + j63), tw::select(tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i64 > 0L) && (i64 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j63)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j63)) < tw::splat<tw::vec<int, 4>>(82L))), (((float)(0.5f) * tw::load_if<tw::vec<float, 4>>(s1 + ((i64 % 8L)*96L + j63), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i64 > 0L) && (i64 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j63)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j63)) < tw::splat<tw::vec<int, 4>>(82L)))))) + ((float)(0.125f) * (((tw::load_if<tw::vec<float, 4>>(s1 + (((i64 - 1L) & 7)*96L + j63), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i64 > 0L) && (i64 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j63)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j63)) < tw::splat<tw::vec<int, 4>>(82L))))) + tw::load_if<tw::vec<float, 4>>(s1 + (((i64 + 1L) % 8L)*96L + j63), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i64 > 0L) && (i64 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j63)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j63)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s1 + ((i64 % 8L)*96L + (j63 - 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i64 > 0L) && (i64 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j63)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j63)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s1 + ((i64 % 8L)*96L + (j63 + 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i64 > 0L) && (i64 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j63)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j63)) < tw::splat<tw::vec<int, 4>>(82L)))))))), tw::load_if<tw::vec<float, 4>>(s1 + ((i64 % 8L)*96L + j63), tw::both(tw::first<tw::vec<int, 4>>(n_), (~tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i64 > 0L) && (i64 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j63)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j63)) < tw::splat<tw::vec<int, 4>>(82L))))))), n_);
        }
       }
      }
      {
       long j65 = a61;
       const long end_ = b62;
       if (end_ - j65 >= 4) {
        if (j65 & 3) {
         {
          const auto v66 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + j65))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s1 + (((i60 - 1L) & 7)*96L + j65)) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + j65))) + tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j65 - 1L)))) + tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j65 + 1L))))));
          const auto v67 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + j65))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s1 + ((((i60 + 1L) - 1L) & 7)*96L + j65)) + tw::load<tw::vec<float, 4>>(s1 + ((((i60 + 1L) + 1L) % 8L)*96L + j65))) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + (j65 - 1L)))) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + (j65 + 1L))))));
          const auto v68 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s1 + (((i60 + 2L) % 8L)*96L + j65))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s1 + ((((i60 + 2L) - 1L) & 7)*96L + j65)) + tw::load<tw::vec<float, 4>>(s1 + ((((i60 + 2L) + 1L) % 8L)*96L + j65))) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 2L) % 8L)*96L + (j65 - 1L)))) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 2L) % 8L)*96L + (j65 + 1L))))));
          const auto v69 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s1 + (((i60 + 3L) % 8L)*96L + j65))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s1 + ((((i60 + 3L) - 1L) & 7)*96L + j65)) + tw::load<tw::vec<float, 4>>(s1 + ((((i60 + 3L) + 1L) % 8L)*96L + j65))) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 3L) % 8L)*96L + (j65 - 1L)))) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 3L) % 8L)*96L + (j65 + 1L))))));
          tw::store(s2 + ((i60 % 8L)*80L + j65), v66);
          tw::store(s2 + (((i60 + 1L) % 8L)*80L + j65), v67);
          tw::store(s2 + (((i60 + 2L) % 8L)*80L + j65), v68);
          tw::store(s2 + (((i60 + 3L) % 8L)*80L + j65), v69);
         }
         j65 = (j65 + 3) & -4L;
        }
        for (; j65 + 4 <= end_; j65 += 4) {
         {
          const auto v70 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + j65))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s1 + (((i60 - 1L) & 7)*96L + j65)) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + j65))) + tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j65 - 1L)))) + tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j65 + 1L))))));
          const auto v71 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + j65))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s1 + ((((i60 + 1L) - 1L) & 7)*96L + j65)) + tw::load<tw::vec<float, 4>>(s1 + ((((i60 + 1L) + 1L) % 8L)*96L + j65))) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + (j65 - 1L)))) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + (j65 + 1L))))));
          const auto v72 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s1 + (((i60 + 2L) % 8L)*96L + j65))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s1 + ((((i60 + 2L) - 1L) & 7)*96L + j65)) + tw::load<tw::vec<float, 4>>(s1 + ((((i60 + 2L) + 1L) % 8L)*96L + j65))) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 2L) % 8L)*96L + (j65 - 1L)))) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 2L) % 8L)*96L + (j65 + 1L))))));
          const auto v73 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s1 + (((i60 + 3L) % 8L)*96L + j65))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s1 + ((((i60 + 3L) - 1L) & 7)*96L + j65)) + tw::load<tw::vec<float, 4>>(s1 + ((((i60 + 3L) + 1L) % 8L)*96L + j65))) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 3L) % 8L)*96L + (j65 - 1L)))) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 3L) % 8L)*96L + (j65 + 1L))))));
          tw::store(s2 + ((i60 % 8L)*80L + j65), v70);
          tw::store(s2 + (((i60 + 1L) % 8L)*80L + j65), v71);
          tw::store(s2 + (((i60 + 2L) % 8L)*80L + j65), v72);
          tw::store(s2 + (((i60 + 3L) % 8L)*80L + j65), v73);
         }
        }
        if (j65 < end_) {
         j65 = end_ - 4;
         {
          const auto v74 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + j65))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s1 + (((i60 - 1L) & 7)*96L + j65)) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + j65))) + tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j65 - 1L)))) + tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j65 + 1L))))));
          const auto v75 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + j65))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s1 + ((((i60 + 1L) - 1L) & 7)*96L + j65)) + tw::load<tw::vec<float, 4>>(s1 + ((((i60 + 1L) + 1L) % 8L)*96L + j65))) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + (j65 - 1L)))) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + (j65 + 1L))))));
          const auto v76 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s1 + (((i60 + 2L) % 8L)*96L + j65))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s1 + ((((i60 + 2L) - 1L) & 7)*96L + j65)) + tw::load<tw::vec<float, 4>>(s1 + ((((i60 + 2L) + 1L) % 8L)*96L + j65))) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 2L) % 8L)*96L + (j65 - 1L)))) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 2L) % 8L)*96L + (j65 + 1L))))));
          const auto v77 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s1 + (((i60 + 3L) % 8L)*96L + j65))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s1 + ((((i60 + 3L) - 1L) & 7)*96L + j65)) + tw::load<tw::vec<float, 4>>(s1 + ((((i60 + 3L) + 1L) % 8L)*96L + j65))) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 3L) % 8L)*96L + (j65 - 1L)))) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 3L) % 8L)*96L + (j65 + 1L))))));
          tw::store(s2 + ((i60 % 8L)*80L + j65), v74);
          tw::store(s2 + (((i60 + 1L) % 8L)*80L + j65), v75);
          tw::store(s2 + (((i60 + 2L) % 8L)*80L + j65), v76);
          tw::store(s2 + (((i60 + 3L) % 8L)*80L + j65), v77);
         }
        }
       }
       else if (j65 < end_) {
        const long n_ = end_ - j65;
        for (long i78 = i60; i78 < i60 + 4; i78++) {
         {
          tw::store_n(s2 + ((i78 % 8L)*80L + j65), (((float)(0.5f) * tw::load_n<tw::vec<float, 4>>(s1 + ((i78 % 8L)*96L + j65), n_)) + ((float)(0.125f) * (((tw::load_n<tw::vec<float, 4>>(s1 + (((i78 - 1L) & 7)*96L + j65), n_) + tw::load_n<tw::vec<float, 4>>(s1 + (((i78 + 1L) % 8L)*96L + j65), n_)) + tw::load_n<tw::vec<float, 4>>(s1 + ((i78 % 8L)*96L + (j65 - 1L)), n_)) + tw::load_n<tw::vec<float, 4>>(s1 + ((i78 % 8L)*96L + (j65 + 1L)), n_)))), n_);
         }
        }
       }
      }
      for (long j79 = b62; j79 < s2_last1 + 1; j79 += 4) {
       const long n_ = tw::imin(4L, s2_last1 + 1 - j79);
       for (long i80 = i60; i80 < i60 + 4; i80++) {
        {
         tw::store_n(s2 + ((i80 % 8L)*80L + j79), tw::select(tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i80 > 0L) && (i80 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j79)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j79)) < tw::splat<tw::vec<int, 4>>(82L))), (((float)(0.5f) * tw::load_if<tw::vec<float, 4>>(s1 + ((i80 % 8L)*96L + j79), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i80 > 0L) && (i80 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j79)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j79)) < tw::splat<tw::vec<int, 4>>(82L)))))) + ((float)(0.125f) * (((tw::load_if<tw::vec<float, 4>>(s1 + (((i80 - 1L) & 7)*96L + j79), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i80 > 0L) && (i80 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j79)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j79)) < tw::splat<tw::vec<int, 4>>(82L))))) + tw::load_if<tw::vec<float, 4>>(s1 + (((i80 + 1L) % 8L)*96L + j79), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i80 > 0L) && (i80 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j79)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j79)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s1 + ((i80 % 8L)*96L + (j79 - 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i80 > 0L) && (i80 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j79)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j79)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s1 + ((i80 % 8L)*96L + (j79 + 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i80 > 0L) && (i80 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j79)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j79)) < tw::splat<tw::vec<int, 4>>(82L)))))))), tw::load_if<tw::vec<float, 4>>(s1 + ((i80 % 8L)*96L + j79), tw::both(tw::first<tw::vec<int, 4>>(n_), (~tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i80 > 0L) && (i80 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j79)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j79)) < tw::splat<tw::vec<int, 4>>(82L))))))), n_);
        }
       }
      }
     }
     for (; i60 <= s2_last0; i60++) {
      const long a81 = tw::imin(tw::imax(s2_first1, 4), s2_last1 + 1);
      const long b82 = tw::imax(a81, tw::imin(s2_last1 + 1, 80));
      for (long j83 = s2_first1; j83 < a81; j83 += 4) {
       const long n_ = tw::imin(4L, a81 - j83);
       {
        tw::store_n(s2 + ((i60 % 8L)*80L + j83), tw::select(tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i60 > 0L) && (i60 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j83)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j83)) < tw::splat<tw::vec<int, 4>>(82L))), (((float)(0.5f) * tw::load_if<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + j83), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i60 > 0L) && (i60 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j83)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j83)) < tw::splat<tw::vec<int, 4>>(82L)))))) + ((float)(0.125f) * (((tw::load_if<tw::vec<float, 4>>(s1 + (((i60 - 1L) & 7)*96L + j83), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i60 > 0L) && (i60 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j83)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j83)) < tw::splat<tw::vec<int, 4>>(82L))))) + tw::load_if<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + j83), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i60 > 0L) && (i60 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j83)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j83)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j83 - 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i60 > 0L) && (i60 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j83)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j83)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j83 + 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i60 > 0L) && (i60 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j83)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j83)) < tw::splat<tw::vec<int, 4>>(82L)))))))), tw::load_if<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + j83), tw::both(tw::first<tw::vec<int, 4>>(n_), (~tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i60 > 0L) && (i60 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j83)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j83)) < tw::splat<tw::vec<int, 4>>(82L))))))), n_);
       }
      }
      if (i60 >= 1 && i60 <= 19) {
       {
        long j84 = a81;
        const long end_ = b82;
        if (end_ - j84 >= 4) {
         if (j84 & 3) {
          {
           tw::store(s2 + ((i60 % 8L)*80L + j84), (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + j84))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s1 + (((i60 - 1L) & 7)*96L + j84)) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + j84))) + tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j84 - 1L)))) + tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j84 + 1L)))))));
          }
          j84 = (j84 + 3) & -4L;
         }
         for (; j84 + 4 <= end_; j84 += 4) {
          {
           tw::store(s2 + ((i60 % 8L)*80L + j84), (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + j84))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s1 + (((i60 - 1L) & 7)*96L + j84)) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + j84))) + tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j84 - 1L)))) + tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j84 + 1L)))))));
          }
         }
         if (j84 < end_) {
          j84 = end_ - 4;
          {
           tw::store(s2 + ((i60 % 8L)*80L + j84), (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + j84))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s1 + (((i60 - 1L) & 7)*96L + j84)) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + j84))) + tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j84 - 1L)))) + tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j84 + 1L)))))));
          }
         }
        }
        else if (j84 < end_) {
         const long n_ = end_ - j84;
         {
          tw::store_n(s2 + ((i60 % 8L)*80L + j84), (((float)(0.5f) * tw::load_n<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + j84), n_)) + ((float)(0.125f) * (((tw::load_n<tw::vec<float, 4>>(s1 + (((i60 - 1L) & 7)*96L + j84), n_) + tw::load_n<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + j84), n_)) + tw::load_n<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j84 - 1L)), n_)) + tw::load_n<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j84 + 1L)), n_)))), n_);
         }
        }
       }
      }
      else {
       {
        long j85 = a81;
        const long end_ = b82;
        if (end_ - j85 >= 4) {
         if (j85 & 3) {
          {
           tw::store(s2 + ((i60 % 8L)*80L + j85), (((i60 > 0L) && (i60 < 20L)) ? (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + j85))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s1 + (((i60 - 1L) & 7)*96L + j85)) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + j85))) + tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j85 - 1L)))) + tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j85 + 1L)))))) : tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + j85))));
          }
          j85 = (j85 + 3) & -4L;
         }
         for (; j85 + 4 <= end_; j85 += 4) {
          {
           tw::store(s2 + ((i60 % 8L)*80L + j85), (((i60 > 0L) && (i60 < 20L)) ? (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + j85))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s1 + (((i60 - 1L) & 7)*96L + j85)) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + j85))) + tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j85 - 1L)))) + tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j85 + 1L)))))) : tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + j85))));
          }
         }
         if (j85 < end_) {
          j85 = end_ - 4;
          {
           tw::store(s2 + ((i60 % 8L)*80L + j85), (((i60 > 0L) && (i60 < 20L)) ? (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + j85))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s1 + (((i60 - 1L) & 7)*96L + j85)) + tw::load<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + j85))) + tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j85 - 1L)))) + tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j85 + 1L)))))) : tw::load<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + j85))));
          }
         }
        }
        else if (j85 < end_) {
         const long n_ = end_ - j85;
         {
          tw::store_n(s2 + ((i60 % 8L)*80L + j85), (((i60 > 0L) && (i60 < 20L)) ? (((float)(0.5f) * tw::load_n<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + j85), n_)) + ((float)(0.125f) * (((tw::load_n<tw::vec<float, 4>>(s1 + (((i60 - 1L) & 7)*96L + j85), n_) + tw::load_n<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + j85), n_)) + tw::load_n<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j85 - 1L)), n_)) + tw::load_n<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j85 + 1L)), n_)))) : tw::load_n<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + j85), n_)), n_);
         }
        }
       }
      }
      for (long j86 = b82; j86 < s2_last1 + 1; j86 += 4) {
       const long n_ = tw::imin(4L, s2_last1 + 1 - j86);
       {
        tw::store_n(s2 + ((i60 % 8L)*80L + j86), tw::select(tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i60 > 0L) && (i60 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j86)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j86)) < tw::splat<tw::vec<int, 4>>(82L))), (((float)(0.5f) * tw::load_if<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + j86), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i60 > 0L) && (i60 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j86)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j86)) < tw::splat<tw::vec<int, 4>>(82L)))))) + ((float)(0.125f) * (((tw::load_if<tw::vec<float, 4>>(s1 + (((i60 - 1L) & 7)*96L + j86), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i60 > 0L) && (i60 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j86)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j86)) < tw::splat<tw::vec<int, 4>>(82L))))) + tw::load_if<tw::vec<float, 4>>(s1 + (((i60 + 1L) % 8L)*96L + j86), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i60 > 0L) && (i60 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j86)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j86)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j86 - 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i60 > 0L) && (i60 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j86)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j86)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + (j86 + 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i60 > 0L) && (i60 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j86)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j86)) < tw::splat<tw::vec<int, 4>>(82L)))))))), tw::load_if<tw::vec<float, 4>>(s1 + ((i60 % 8L)*96L + j86), tw::both(tw::first<tw::vec<int, 4>>(n_), (~tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i60 > 0L) && (i60 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j86)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j86)) < tw::splat<tw::vec<int, 4>>(82L))))))), n_);
       }
      }
     }
    }
   }
   s2_next = s2_last0 + 1;
   {
    {
     long i87 = tw::imax(s3_first0, s3_next);
     for (; i87 + 3 <= s3_last0 && i87 >= 1 && i87 + 3 <= 19; i87 += 4) {
      const long a88 = tw::imin(tw::imax(s3_first1, 4), s3_last1 + 1);
      const long b89 = tw::imax(a88, tw::imin(s3_last1 + 1, 80));
      for (long j90 = s3_first1; j90 < a88; j90 += 4) {
       const long n_ = tw::imin(4L, a88 - j90);
       for (long i91 = i87; i91 < i87 + 4; i91++) {
        {
         tw::store_n(s3 + (i91*83L + j90), tw::select(tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i91 > 0L) && (i91 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j90)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j90)) < tw::splat<tw::vec<int, 4>>(82L))), (((float)(0.5f) * tw::load_if<tw::vec<float, 4>>(s2 + ((i91 % 8L)*80L + j90), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i91 > 0L) && (i91 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j90)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j90)) < tw::splat<tw::vec<int, 4>>(82L)))))) + ((float)(0.125f) * (((tw::load_if<tw::vec<float, 4>>(s2 + (((i91 - 1L) & 7)*80L + j90), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i91 > 0L) && (i91 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j90)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j90)) < tw::splat<tw::vec<int, 4>>(82L))))) + tw::load_if<tw::vec<float, 4>>(s2 + (((i91 + 1L) % 8L)*80L + j90), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i91 > 0L) && (i91 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j90)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j90)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s2 + ((i91 % 8L)*80L + (j90 - 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i91 > 0L) && (i91 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j90)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j90)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s2 + ((i91 % 8L)*80L + (j90 + 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i91 > 0L) && (i91 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j90)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j90)) < tw::splat<tw::vec<int, 4>>(82L)))))))), tw::load_if<tw::vec<float, 4>>(s2 + ((i91 % 8L)*80L + j90), tw::both(tw::first<tw::vec<int, 4>>(n_), (~tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i91 > 0L) && (i91 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j90)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j90)) < tw::splat<tw::vec<int, 4>>(82L))))))), n_);
        }
       }
      }
      {
       long j92 = a88;
       const long end_ = b89;
       if (end_ - j92 >= 4) {
        if (j92 & 3) {
         {
          const auto v93 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + j92))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s2 + (((i87 - 1L) & 7)*80L + j92)) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + j92))) + tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j92 - 1L)))) + tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j92 + 1L))))));
          const auto v94 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + j92))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s2 + ((((i87 + 1L) - 1L) & 7)*80L + j92)) + tw::load<tw::vec<float, 4>>(s2 + ((((i87 + 1L) + 1L) % 8L)*80L + j92))) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + (j92 - 1L)))) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + (j92 + 1L))))));
          const auto v95 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s2 + (((i87 + 2L) % 8L)*80L + j92))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s2 + ((((i87 + 2L) - 1L) & 7)*80L + j92)) + tw::load<tw::vec<float, 4>>(s2 + ((((i87 + 2L) + 1L) % 8L)*80L + j92))) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 2L) % 8L)*80L + (j92 - 1L)))) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 2L) % 8L)*80L + (j92 + 1L))))));
          const auto v96 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s2 + (((i87 + 3L) % 8L)*80L + j92))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s2 + ((((i87 + 3L) - 1L) & 7)*80L + j92)) + tw::load<tw::vec<float, 4>>(s2 + ((((i87 + 3L) + 1L) % 8L)*80L + j92))) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 3L) % 8L)*80L + (j92 - 1L)))) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 3L) % 8L)*80L + (j92 + 1L))))));
          tw::store(s3 + (i87*83L + j92), v93);
          tw::store(s3 + ((i87 + 1L)*83L + j92), v94);
          tw::store(s3 + ((i87 + 2L)*83L + j92), v95);
          tw::store(s3 + ((i87 + 3L)*83L + j92), v96);
         }
         j92 = (j92 + 3) & -4L;
        }
        for (; j92 + 4 <= end_; j92 += 4) {
         {
          const auto v97 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + j92))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s2 + (((i87 - 1L) & 7)*80L + j92)) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + j92))) + tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j92 - 1L)))) + tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j92 + 1L))))));
          const auto v98 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + j92))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s2 + ((((i87 + 1L) - 1L) & 7)*80L + j92)) + tw::load<tw::vec<float, 4>>(s2 + ((((i87 + 1L) + 1L) % 8L)*80L + j92))) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + (j92 - 1L)))) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + (j92 + 1L))))));
          const auto v99 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s2 + (((i87 + 2L) % 8L)*80L + j92))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s2 + ((((i87 + 2L) - 1L) & 7)*80L + j92)) + tw::load<tw::vec<float, 4>>(s2 + ((((i87 + 2L) + 1L) % 8L)*80L + j92))) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 2L) % 8L)*80L + (j92 - 1L)))) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 2L) % 8L)*80L + (j92 + 1L))))));
          const auto v100 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s2 + (((i87 + 3L) % 8L)*80L + j92))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s2 + ((((i87 + 3L) - 1L) & 7)*80L + j92)) + tw::load<tw::vec<float, 4>>(s2 + ((((i87 + 3L) + 1L) % 8L)*80L + j92))) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 3L) % 8L)*80L + (j92 - 1L)))) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 3L) % 8L)*80L + (j92 + 1L))))));
          tw::store(s3 + (i87*83L + j92), v97);
          tw::store(s3 + ((i87 + 1L)*83L + j92), v98);
          tw::store(s3 + ((i87 + 2L)*83L + j92), v99);
          tw::store(s3 + ((i87 + 3L)*83L + j92), v100);
         }
        }
        if (j92 < end_) {
         j92 = end_ - 4;
         {
          const auto v101 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + j92))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s2 + (((i87 - 1L) & 7)*80L + j92)) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + j92))) + tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j92 - 1L)))) + tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j92 + 1L))))));
          const auto v102 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + j92))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s2 + ((((i87 + 1L) - 1L) & 7)*80L + j92)) + tw::load<tw::vec<float, 4>>(s2 + ((((i87 + 1L) + 1L) % 8L)*80L + j92))) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + (j92 - 1L)))) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + (j92 + 1L))))));
          const auto v103 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s2 + (((i87 + 2L) % 8L)*80L + j92))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s2 + ((((i87 + 2L) - 1L) & 7)*80L + j92)) + tw::load<tw::vec<float, 4>>(s2 + ((((i87 + 2L) + 1L) % 8L)*80L + j92))) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 2L) % 8L)*80L + (j92 - 1L)))) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 2L) % 8L)*80L + (j92 + 1L))))));
          const auto v104 = (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s2 + (((i87 + 3L) % 8L)*80L + j92))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s2 + ((((i87 + 3L) - 1L) & 7)*80L + j92)) + tw::load<tw::vec<float, 4>>(s2 + ((((i87 + 3L) + 1L) % 8L)*80L + j92))) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 3L) % 8L)*80L + (j92 - 1L)))) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 3L) % 8L)*80L + (j92 + 1L))))));
          tw::store(s3 + (i87*83L + j92), v101);
          tw::store(s3 + ((i87 + 1L)*83L + j92), v102);
          tw::store(s3 + ((i87 + 2L)*83L + j92), v103);
          tw::store(s3 + ((i87 + 3L)*83L + j92), v104);
         }
        }
       }
       else if (j92 < end_) {
        const long n_ = end_ - j92;
        for (long i105 = i87; i105 < i87 + 4; i105++) {
         {
          tw::store_n(s3 + (i105*83L + j92), (((float)(0.5f) * tw::load_n<tw::vec<float, 4>>(s2 + ((i105 % 8L)*80L + j92), n_)) + ((float)(0.125f) * (((tw::load_n<tw::vec<float, 4>>(s2 + (((i105 - 1L) & 7)*80L + j92), n_) + tw::load_n<tw::vec<float, 4>>(s2 + (((i105 + 1L) % 8L)*80L + j92), n_)) + tw::load_n<tw::vec<float, 4>>(s2 + ((i105 % 8L)*80L + (j92 - 1L)), n_)) + tw::load_n<tw::vec<float, 4>>(s2 + ((i105 % 8L)*80L + (j92 + 1L)), n_)))), n_);
         }
        }
       }
      }
      for (long j106 = b89; j106 < s3_last1 + 1; j106 += 4) {
       const long n_ = tw::imin(4L, s3_last1 + 1 - j106);
       for (long i107 = i87; i107 < i87 + 4; i107++) {
        {
         tw::store_n(s3 + (i107*83L + j106), tw::select(tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i107 > 0L) && (i107 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j106)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j106)) < tw::splat<tw::vec<int, 4>>(82L))), (((float)(0.5f) * tw::load_if<tw::vec<float, 4>>(s2 + ((i107 % 8L)*80L + j106), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i107 > 0L) && (i107 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j106)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j106)) < tw::splat<tw::vec<int, 4>>(82L)))))) + ((float)(0.125f) * (((tw::load_if<tw::vec<float, 4>>(s2 + (((i107 - 1L) & 7)*80L + j106), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i107 > 0L) && (i107 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j106)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j106)) < tw::splat<tw::vec<int, 4>>(82L))))) + tw::load_if<tw::vec<float, 4>>(s2 + (((i107 + 1L) % 8L)*80L + j106), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i107 > 0L) && (i107 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j106)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j106)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s2 + ((i107 % 8L)*80L + (j106 - 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i107 > 0L) && (i107 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j106)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j106)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s2 + ((i107 % 8L)*80L + (j106 + 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i107 > 0L) && (i107 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j106)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j106)) < tw::splat<tw::vec<int, 4>>(82L)))))))), tw::load_if<tw::vec<float, 4>>(s2 + ((i107 % 8L)*80L + j106), tw::both(tw::first<tw::vec<int, 4>>(n_), (~tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i107 > 0L) && (i107 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j106)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j106)) < tw::splat<tw::vec<int, 4>>(82L))))))), n_);
        }
       }
      }
     }
     for (; i87 <= s3_last0; i87++) {
      const long a108 = tw::imin(tw::imax(s3_first1, 4), s3_last1 + 1);
      const long b109 = tw::imax(a108, tw::imin(s3_last1 + 1, 80));
      for (long j110 = s3_first1; j110 < a108; j110 += 4) {
       const long n_ = tw::imin(4L, a108 - j110);
       {
        tw::store_n(s3 + (i87*83L + j110), tw::select(tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i87 > 0L) && (i87 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j110)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j110)) < tw::splat<tw::vec<int, 4>>(82L))), (((float)(0.5f) * tw::load_if<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + j110), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i87 > 0L) && (i87 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j110)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j110)) < tw::splat<tw::vec<int, 4>>(82L)))))) + ((float)(0.125f) * (((tw::load_if<tw::vec<float, 4>>(s2 + (((i87 - 1L) & 7)*80L + j110), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i87 > 0L) && (i87 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j110)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j110)) < tw::splat<tw::vec<int, 4>>(82L))))) + tw::load_if<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + j110), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i87 > 0L) && (i87 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j110)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j110)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j110 - 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i87 > 0L) && (i87 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j110)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j110)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j110 + 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i87 > 0L) && (i87 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j110)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j110)) < tw::splat<tw::vec<int, 4>>(82L)))))))), tw::load_if<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + j110), tw::both(tw::first<tw::vec<int, 4>>(n_), (~tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i87 > 0L) && (i87 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j110)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j110)) < tw::splat<tw::vec<int, 4>>(82L))))))), n_);
       }
      }
      if (i87 >= 1 && i87 <= 19) {
       {
        long j111 = a108;
        const long end_ = b109;
        if (end_ - j111 >= 4) {
         if (j111 & 3) {
          {
           tw::store(s3 + (i87*83L + j111), (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + j111))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s2 + (((i87 - 1L) & 7)*80L + j111)) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + j111))) + tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j111 - 1L)))) + tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j111 + 1L)))))));
          }
          j111 = (j111 + 3) & -4L;
         }
         for (; j111 + 4 <= end_; j111 += 4) {
          {
           tw::store(s3 + (i87*83L + j111), (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + j111))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s2 + (((i87 - 1L) & 7)*80L + j111)) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + j111))) + tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j111 - 1L)))) + tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j111 + 1L)))))));
          }
         }
         if (j111 < end_) {
          j111 = end_ - 4;
          {
           tw::store(s3 + (i87*83L + j111), (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + j111))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s2 + (((i87 - 1L) & 7)*80L + j111)) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + j111))) + tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j111 - 1L)))) + tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j111 + 1L)))))));
          }
         }
        }
        else if (j111 < end_) {
         const long n_ = end_ - j111;
         {
          tw::store_n(s3 + (i87*83L + j111), (((float)(0.5f) * tw::load_n<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + j111), n_)) + ((float)(0.125f) * (((tw::load_n<tw::vec<float, 4>>(s2 + (((i87 - 1L) & 7)*80L + j111), n_) + tw::load_n<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + j111), n_)) + tw::load_n<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j111 - 1L)), n_)) + tw::load_n<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j111 + 1L)), n_)))), n_);
         }
        }
       }
      }
      else {
       {
        long j112 = a108;
        const long end_ = b109;
        if (end_ - j112 >= 4) {
         if (j112 & 3) {
          {
           tw::store(s3 + (i87*83L + j112), (((i87 > 0L) && (i87 < 20L)) ? (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + j112))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s2 + (((i87 - 1L) & 7)*80L + j112)) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + j112))) + tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j112 - 1L)))) + tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j112 + 1L)))))) : tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + j112))));
          }
          j112 = (j112 + 3) & -4L;
         }
         for (; j112 + 4 <= end_; j112 += 4) {
          {
           tw::store(s3 + (i87*83L + j112), (((i87 > 0L) && (i87 < 20L)) ? (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + j112))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s2 + (((i87 - 1L) & 7)*80L + j112)) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + j112))) + tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j112 - 1L)))) + tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j112 + 1L)))))) : tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + j112))));
          }
         }
         if (j112 < end_) {
          j112 = end_ - 4;
          {
           tw::store(s3 + (i87*83L + j112), (((i87 > 0L) && (i87 < 20L)) ? (((float)(0.5f) * tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + j112))) + ((float)(0.125f) * (((tw::load<tw::vec<float, 4>>(s2 + (((i87 - 1L) & 7)*80L + j112)) + tw::load<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + j112))) + tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j112 - 1L)))) + tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j112 + 1L)))))) : tw::load<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + j112))));
          }
         }
        }
        else if (j112 < end_) {
         const long n_ = end_ - j112;
         {
          tw::store_n(s3 + (i87*83L + j112), (((i87 > 0L) && (i87 < 20L)) ? (((float)(0.5f) * tw::load_n<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + j112), n_)) + ((float)(0.125f) * (((tw::load_n<tw::vec<float, 4>>(s2 + (((i87 - 1L) & 7)*80L + j112), n_) + tw::load_n<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + j112), n_)) + tw::load_n<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j112 - 1L)), n_)) + tw::load_n<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j112 + 1L)), n_)))) : tw::load_n<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + j112), n_)), n_);
         }
        }
       }
      }
      for (long j113 = b109; j113 < s3_last1 + 1; j113 += 4) {
       const long n_ = tw::imin(4L, s3_last1 + 1 - j113);
       {
        tw::store_n(s3 + (i87*83L + j113), tw::select(tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i87 > 0L) && (i87 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j113)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j113)) < tw::splat<tw::vec<int, 4>>(82L))), (((float)(0.5f) * tw::load_if<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + j113), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i87 > 0L) && (i87 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j113)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j113)) < tw::splat<tw::vec<int, 4>>(82L)))))) + ((float)(0.125f) * (((tw::load_if<tw::vec<float, 4>>(s2 + (((i87 - 1L) & 7)*80L + j113), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i87 > 0L) && (i87 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j113)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j113)) < tw::splat<tw::vec<int, 4>>(82L))))) + tw::load_if<tw::vec<float, 4>>(s2 + (((i87 + 1L) % 8L)*80L + j113), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i87 > 0L) && (i87 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j113)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j113)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j113 - 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i87 > 0L) && (i87 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j113)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j113)) < tw::splat<tw::vec<int, 4>>(82L)))))) + tw::load_if<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + (j113 + 1L)), tw::both(tw::first<tw::vec<int, 4>>(n_), tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i87 > 0L) && (i87 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j113)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j113)) < tw::splat<tw::vec<int, 4>>(82L)))))))), tw::load_if<tw::vec<float, 4>>(s2 + ((i87 % 8L)*80L + j113), tw::both(tw::first<tw::vec<int, 4>>(n_), (~tw::both(tw::both(tw::splat<tw::vec<int, 4>>(((i87 > 0L) && (i87 < 20L)) ? -1 : 0), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j113)) > tw::splat<tw::vec<int, 4>>(0L))), ((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j113)) < tw::splat<tw::vec<int, 4>>(82L))))))), n_);
       }
      }
     }
    }
   }
   s3_next = s3_last0 + 1;
  }
  if (++i1_2 == 2L) { i1_2 = 0; i0_1++; }
 }
}
}
TW_ENTRY(tw_golden) {
 (void)tensors; (void)args; (void)workspace; (void)env;
 using namespace tw_golden_;
 const float *const x0 = (const float *)tensors[0];
 float *const s3 = (float *)tensors[1];
 char *const scratch = (char *)workspace;
 const long tasks = args[0];
 {
  const long units = 6L * 2L, tasks_ = tw::imin(tasks, units);
  {
   tw_golden_task0_ctx ctx114 = {env, x0, s3, scratch, tasks, units, tasks_};
   tw::parallel_for(env, tasks_, tw_golden_task0, &ctx114);
  }
 }
 return 0;
}

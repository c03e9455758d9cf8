// cpu_generic version 2, cpu:portable
namespace tw_golden_ {
struct tw_golden_task0_ctx {
 const float * x0;
 long * s0;
 const tw_env * env;
};
static void tw_golden_task0(void *ctx_, long task_, long worker_) {
 (void)worker_;
 const tw_golden_task0_ctx &c_ = *(const tw_golden_task0_ctx *)ctx_;
 const float * const x0 = c_.x0;
 long * const s0 = c_.s0;
 const tw_env * const env = c_.env;
 const long i0_1 = (task_) * 8L;
 const long i0_1e = tw::imin(i0_1 + 8L, 9L);
 {
  long i0_2 = i0_1;
  for (; i0_2 + 8 <= i0_1e; i0_2 += 8) {
   tw::vec<float, 4> a0_0_0 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
   tw::vec<long, 4> a1_0_0 = tw::splat<tw::vec<long, 4>>(-1L);
   tw::vec<float, 4> a0_0_1 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
   tw::vec<long, 4> a1_0_1 = tw::splat<tw::vec<long, 4>>(-1L);
   for (long r0_3 = 0; r0_3 < 50L; r0_3++) {
    {
     const tw::vec<float, 4> b0 = tw::load_step<tw::vec<float, 4>>(x0 + (i0_2*50L + r0_3), 50L);
     const tw::vec<long, 4> b1 = tw::splat<tw::vec<long, 4>>(r0_3);
     const tw::vec<float, 4> n0 = tw::select(tw::both((b1 >= tw::splat<tw::vec<long, 4>>(0L)), tw::either(tw::either(tw::either((b0 > a0_0_0), tw::both((b0 != b0), (~(a0_0_0 != a0_0_0)))), tw::both(tw::either((b0 == a0_0_0), tw::both((b0 != b0), (a0_0_0 != a0_0_0))), (b1 < a1_0_0))), (a1_0_0 < tw::splat<tw::vec<long, 4>>(0L)))), b0, a0_0_0);
     const tw::vec<long, 4> n1 = tw::select(tw::both((b1 >= tw::splat<tw::vec<long, 4>>(0L)), tw::either(tw::either(tw::either((b0 > a0_0_0), tw::both((b0 != b0), (~(a0_0_0 != a0_0_0)))), tw::both(tw::either((b0 == a0_0_0), tw::both((b0 != b0), (a0_0_0 != a0_0_0))), (b1 < a1_0_0))), (a1_0_0 < tw::splat<tw::vec<long, 4>>(0L)))), b1, a1_0_0);
     a0_0_0 = n0;
     a1_0_0 = n1;
    }
    {
     const tw::vec<float, 4> b0 = tw::load_step<tw::vec<float, 4>>(x0 + ((i0_2 + 4)*50L + r0_3), 50L);
     const tw::vec<long, 4> b1 = tw::splat<tw::vec<long, 4>>(r0_3);
     const tw::vec<float, 4> n0 = tw::select(tw::both((b1 >= tw::splat<tw::vec<long, 4>>(0L)), tw::either(tw::either(tw::either((b0 > a0_0_1), tw::both((b0 != b0), (~(a0_0_1 != a0_0_1)))), tw::both(tw::either((b0 == a0_0_1), tw::both((b0 != b0), (a0_0_1 != a0_0_1))), (b1 < a1_0_1))), (a1_0_1 < tw::splat<tw::vec<long, 4>>(0L)))), b0, a0_0_1);
     const tw::vec<long, 4> n1 = tw::select(tw::both((b1 >= tw::splat<tw::vec<long, 4>>(0L)), tw::either(tw::either(tw::either((b0 > a0_0_1), tw::both((b0 != b0), (~(a0_0_1 != a0_0_1)))), tw::both(tw::either((b0 == a0_0_1), tw::both((b0 != b0), (a0_0_1 != a0_0_1))), (b1 < a1_0_1))), (a1_0_1 < tw::splat<tw::vec<long, 4>>(0L)))), b1, a1_0_1);
     a0_0_1 = n0;
     a1_0_1 = n1;
    }
   }
   {
    tw::store(s0 + (i0_2), a1_0_0);
   }
   {
    tw::store(s0 + ((i0_2 + 4)), a1_0_1);
   }
  }
  for (; i0_2 + 4 <= i0_1e; i0_2 += 4) {
   tw::vec<float, 4> a0_0_0 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
   tw::vec<long, 4> a1_0_0 = tw::splat<tw::vec<long, 4>>(-1L);
   for (long r0_4 = 0; r0_4 < 50L; r0_4++) {
    {
     const tw::vec<float, 4> b0 = tw::load_step<tw::vec<float, 4>>(x0 + (i0_2*50L + r0_4), 50L);
     const tw::vec<long, 4> b1 = tw::splat<tw::vec<long, 4>>(r0_4);
     const tw::vec<float, 4> n0 = tw::select(tw::both((b1 >= tw::splat<tw::vec<long, 4>>(0L)), tw::either(tw::either(tw::either((b0 > a0_0_0), tw::both((b0 != b0), (~(a0_0_0 != a0_0_0)))), tw::both(tw::either((b0 == a0_0_0), tw::both((b0 != b0), (a0_0_0 != a0_0_0))), (b1 < a1_0_0))), (a1_0_0 < tw::splat<tw::vec<long, 4>>(0L)))), b0, a0_0_0);
     const tw::vec<long, 4> n1 = tw::select(tw::both((b1 >= tw::splat<tw::vec<long, 4>>(0L)), tw::either(tw::either(tw::either((b0 > a0_0_0), tw::both((b0 != b0), (~(a0_0_0 != a0_0_0)))), tw::both(tw::either((b0 == a0_0_0), tw::both((b0 != b0), (a0_0_0 != a0_0_0))), (b1 < a1_0_0))), (a1_0_0 < tw::splat<tw::vec<long, 4>>(0L)))), b1, a1_0_0);
     a0_0_0 = n0;
     a1_0_0 = n1;
    }
   }
   {
    tw::store(s0 + (i0_2), a1_0_0);
   }
  }
  if (i0_2 < i0_1e) {
   tw::vec<float, 4> a0_0_0 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
   tw::vec<long, 4> a1_0_0 = tw::splat<tw::vec<long, 4>>(-1L);
   for (long r0_5 = 0; r0_5 < 50L; r0_5++) {
    {
     const tw::vec<float, 4> b0 = tw::load_step<tw::vec<float, 4>>(x0 + (i0_2*50L + r0_5), 50L, (i0_1e - i0_2));
     const tw::vec<long, 4> b1 = tw::splat<tw::vec<long, 4>>(r0_5);
     const tw::vec<float, 4> n0 = tw::select(tw::both((b1 >= tw::splat<tw::vec<long, 4>>(0L)), tw::either(tw::either(tw::either((b0 > a0_0_0), tw::both((b0 != b0), (~(a0_0_0 != a0_0_0)))), tw::both(tw::either((b0 == a0_0_0), tw::both((b0 != b0), (a0_0_0 != a0_0_0))), (b1 < a1_0_0))), (a1_0_0 < tw::splat<tw::vec<long, 4>>(0L)))), b0, a0_0_0);
     const tw::vec<long, 4> n1 = tw::select(tw::both((b1 >= tw::splat<tw::vec<long, 4>>(0L)), tw::either(tw::either(tw::either((b0 > a0_0_0), tw::both((b0 != b0), (~(a0_0_0 != a0_0_0)))), tw::both(tw::either((b0 == a0_0_0), tw::both((b0 != b0), (a0_0_0 != a0_0_0))), (b1 < a1_0_0))), (a1_0_0 < tw::splat<tw::vec<long, 4>>(0L)))), b1, a1_0_0);
     a0_0_0 = n0;
     a1_0_0 = n1;
    }
   }
   {
    tw::store_n(s0 + (i0_2), a1_0_0, (i0_1e - i0_2));
   }
  }
 }
}
}
TW_ENTRY(tw_golden) {
 (void)tensors; (void)args; (void)workspace; (void)env;
 using namespace tw_golden_;
 const float *x0 = (const float *)tensors[0];
 long *s0 = (long *)tensors[1];
 {
  {
   tw_golden_task0_ctx ctx6 = {x0, s0, env};
   tw::parallel_for(env, (2L), tw_golden_task0, &ctx6);
  }
 }
 return 0;
}

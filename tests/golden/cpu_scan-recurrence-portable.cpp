// cpu_scan version 4, cpu:portable
namespace tw_golden_ {
struct tw_golden_task0_ctx {
 const tw_env * env;
 const float * x0;
 const float * x1;
 float * s1;
 long chunk;
 long piece;
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
 float * const s1 = c_.s1;
 const long &chunk = c_.chunk;
 const long &piece = c_.piece;
 const long &tasks = c_.tasks;
 const long &trips1 = c_.trips1;
 const long &units = c_.units;
 const long &tasks_ = c_.tasks_;
 const long u0 = task_ * units / tasks_, u1 = (task_ + 1) * units / tasks_;
 long q_ = u0;
 long i1_2 = q_;
 for (long u_ = u0; u_ < u1; u_++) {
  const long i1_3 = i1_2 * piece;
  const long i1_3e = tw::imin(i1_3 + piece, 18L);
  {
   long i1_4 = i1_3;
   for (; i1_4 + 8 <= i1_3e; i1_4 += 8) {
    {
    tw::vec<float, 4> s0_1_0_0;
    tw::vec<float, 4> s0_1_1_0;
    s0_1_0_0 = tw::splat<tw::vec<float, 4>>(0.0f);
    s0_1_1_0 = tw::splat<tw::vec<float, 4>>(0.0f);
    tw::vec<float, 4> a0_0 = tw::splat<tw::vec<float, 4>>(0.0f);
    tw::vec<float, 4> a0_1 = tw::splat<tw::vec<float, 4>>(0.0f);
    for (long i0_5 = 0; i0_5 < 9L; i0_5++) {
     {
      const tw::vec<float, 4> s0b06 = tw::tanh(tw::load<tw::vec<float, 4>>(x0 + (((i0_5 * 18L) + i1_4))));
      const tw::vec<float, 4> s0b17 = tw::load<tw::vec<float, 4>>(x1 + (((i0_5 * 18L) + i1_4)));
      {
       s0_1_0_0 = ((s0b06 * s0_1_0_0) + s0b17);
      }
      const tw::vec<float, 4> s0v8 = s0_1_0_0;
      const tw::vec<float, 4> e09 = s0v8;
      {
       a0_0 = (a0_0 + e09);
      }
     }
     {
      const tw::vec<float, 4> s0b010 = tw::tanh(tw::load<tw::vec<float, 4>>(x0 + (((i0_5 * 18L) + (i1_4 + 4)))));
      const tw::vec<float, 4> s0b111 = tw::load<tw::vec<float, 4>>(x1 + (((i0_5 * 18L) + (i1_4 + 4))));
      {
       s0_1_1_0 = ((s0b010 * s0_1_1_0) + s0b111);
      }
      const tw::vec<float, 4> s0v12 = s0_1_1_0;
      const tw::vec<float, 4> e013 = s0v12;
      {
       a0_1 = (a0_1 + e013);
      }
     }
    }
    {
     tw::store(s1 + (i1_4), a0_0);
    }
    {
     tw::store(s1 + ((i1_4 + 4)), a0_1);
    }
    }
   }
   for (; i1_4 + 4 <= i1_3e; i1_4 += 4) {
    {
    tw::vec<float, 4> s0_1_0_0;
    s0_1_0_0 = tw::splat<tw::vec<float, 4>>(0.0f);
    tw::vec<float, 4> a0_0 = tw::splat<tw::vec<float, 4>>(0.0f);
    for (long i0_14 = 0; i0_14 < 9L; i0_14++) {
     {
      const tw::vec<float, 4> s0b015 = tw::tanh(tw::load<tw::vec<float, 4>>(x0 + (((i0_14 * 18L) + i1_4))));
      const tw::vec<float, 4> s0b116 = tw::load<tw::vec<float, 4>>(x1 + (((i0_14 * 18L) + i1_4)));
      {
       s0_1_0_0 = ((s0b015 * s0_1_0_0) + s0b116);
      }
      const tw::vec<float, 4> s0v17 = s0_1_0_0;
      const tw::vec<float, 4> e018 = s0v17;
      {
       a0_0 = (a0_0 + e018);
      }
     }
    }
    {
     tw::store(s1 + (i1_4), a0_0);
    }
    }
   }
   if (i1_4 < i1_3e) {
    {
    tw::vec<float, 4> s0_1_0_0;
    s0_1_0_0 = tw::splat<tw::vec<float, 4>>(0.0f);
    tw::vec<float, 4> a0_0 = tw::splat<tw::vec<float, 4>>(0.0f);
    for (long i0_19 = 0; i0_19 < 9L; i0_19++) {
     {
      const tw::vec<float, 4> s0b020 = tw::tanh(tw::load_n<tw::vec<float, 4>>(x0 + (((i0_19 * 18L) + i1_4)), (i1_3e - i1_4)));
      const tw::vec<float, 4> s0b121 = tw::load_n<tw::vec<float, 4>>(x1 + (((i0_19 * 18L) + i1_4)), (i1_3e - i1_4));
      {
       s0_1_0_0 = ((s0b020 * s0_1_0_0) + s0b121);
      }
      const tw::vec<float, 4> s0v22 = s0_1_0_0;
      const tw::vec<float, 4> e023 = s0v22;
      {
       a0_0 = (a0_0 + e023);
      }
     }
    }
    {
     tw::store_n(s1 + (i1_4), a0_0, (i1_3e - i1_4));
    }
    }
   }
  }
  i1_2++;
 }
}
}
TW_ENTRY(tw_golden) {
 (void)tensors; (void)args; (void)workspace; (void)env;
 using namespace tw_golden_;
 const float *const x0 = (const float *)tensors[0];
 const float *const x1 = (const float *)tensors[1];
 float *const s1 = (float *)tensors[2];
 const long chunk = args[0];
 const long piece = args[1];
 const long tasks = args[2];
 {
  const long trips1 = tw::ceildiv(18L, piece);
  const long units = trips1, tasks_ = tw::imin(tasks, units);
  {
   tw_golden_task0_ctx ctx24 = {env, x0, x1, s1, chunk, piece, tasks, trips1, units, tasks_};
   tw::parallel_for(env, tasks_, tw_golden_task0, &ctx24);
  }
 }
 return 0;
}

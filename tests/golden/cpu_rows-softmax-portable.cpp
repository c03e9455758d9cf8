// cpu_rows version 5, cpu:portable
namespace tw_golden_ {
struct tw_golden_task0_ctx {
 const tw_env * env;
 const float * x0;
 float * out;
 char * space;
 long block;
};
TW_NOINLINE void tw_golden_task0(void *ctx_, long task_, long worker_) {
 (void)worker_;
 const tw_golden_task0_ctx &c_ = *(const tw_golden_task0_ctx *)ctx_;
 const tw_env * const env = c_.env;
 const float * const x0 = c_.x0;
 float * const out = c_.out;
 char * const space = c_.space;
 const long &block = c_.block;
 const long row_1 = task_;
 const long row_2 = row_1 * block;
 const long row_2e = tw::imin(row_2 + block, 7L);
 {
  long row_3 = row_2;
  for (; row_3 < row_2e; row_3++) {
   const long row = row_3;
   tw::vec<float, 4> s0a0_0_0 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
   tw::vec<float, 4> s0a0_0_1 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
   tw::vec<float, 4> s0a0_0_2 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
   tw::vec<float, 4> s0a0_0_3 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
   {
    long r0_4 = 0;
    for (; r0_4 + 16 <= 45L; r0_4 += 16) {
     {
      const tw::vec<float, 4> b5 = tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + r0_4)));
      s0a0_0_0 = tw::max(b5, s0a0_0_0);
     }
     {
      const tw::vec<float, 4> b6 = tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + (r0_4 + 4))));
      s0a0_0_1 = tw::max(b6, s0a0_0_1);
     }
     {
      const tw::vec<float, 4> b7 = tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + (r0_4 + 8))));
      s0a0_0_2 = tw::max(b7, s0a0_0_2);
     }
     {
      const tw::vec<float, 4> b8 = tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + (r0_4 + 12))));
      s0a0_0_3 = tw::max(b8, s0a0_0_3);
     }
    }
    for (; r0_4 + 4 <= 45L; r0_4 += 4) {
     {
      const tw::vec<float, 4> b9 = tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + r0_4)));
      s0a0_0_0 = tw::max(b9, s0a0_0_0);
     }
    }
    {
     {
      const tw::vec<float, 4> b10 = tw::select(tw::first<tw::mask<tw::vec<float, 4>>>(1L), tw::load_n<tw::vec<float, 4>>(x0 + (((row * 45L) + r0_4)), 1L), tw::splat<tw::vec<float, 4>>(-__builtin_inff()));
      s0a0_0_0 = tw::max(b10, s0a0_0_0);
     }
    }
   }
   s0a0_0_0 = tw::max(s0a0_0_2, s0a0_0_0);
   s0a0_0_1 = tw::max(s0a0_0_3, s0a0_0_1);
   s0a0_0_0 = tw::max(s0a0_0_1, s0a0_0_0);
   const float s0f0_0 = tw::hmax(s0a0_0_0);
   const float s0_0 = s0f0_0; (void)s0_0;
   tw::vec<float, 4> s2a0_0_0 = tw::splat<tw::vec<float, 4>>(0.0f);
   tw::vec<float, 4> s2a0_0_1 = tw::splat<tw::vec<float, 4>>(0.0f);
   tw::vec<float, 4> s2a0_0_2 = tw::splat<tw::vec<float, 4>>(0.0f);
   tw::vec<float, 4> s2a0_0_3 = tw::splat<tw::vec<float, 4>>(0.0f);
   {
    long r0_11 = 0;
    for (; r0_11 + 16 <= 45L; r0_11 += 16) {
     {
      const auto e12 = tw::exp((tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + r0_11))) - (float)(s0_0)));
      tw::store(out + ((row * 45L) + r0_11), e12);
      const tw::vec<float, 4> b13 = e12;
      s2a0_0_0 = s2a0_0_0 + b13;
     }
     {
      const auto e14 = tw::exp((tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + (r0_11 + 4)))) - (float)(s0_0)));
      tw::store(out + ((row * 45L) + (r0_11 + 4)), e14);
      const tw::vec<float, 4> b15 = e14;
      s2a0_0_1 = s2a0_0_1 + b15;
     }
     {
      const auto e16 = tw::exp((tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + (r0_11 + 8)))) - (float)(s0_0)));
      tw::store(out + ((row * 45L) + (r0_11 + 8)), e16);
      const tw::vec<float, 4> b17 = e16;
      s2a0_0_2 = s2a0_0_2 + b17;
     }
     {
      const auto e18 = tw::exp((tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + (r0_11 + 12)))) - (float)(s0_0)));
      tw::store(out + ((row * 45L) + (r0_11 + 12)), e18);
      const tw::vec<float, 4> b19 = e18;
      s2a0_0_3 = s2a0_0_3 + b19;
     }
    }
    for (; r0_11 + 4 <= 45L; r0_11 += 4) {
     {
      const auto e20 = tw::exp((tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + r0_11))) - (float)(s0_0)));
      tw::store(out + ((row * 45L) + r0_11), e20);
      const tw::vec<float, 4> b21 = e20;
      s2a0_0_0 = s2a0_0_0 + b21;
     }
    }
    {
     {
      const auto e22 = tw::exp((tw::load_n<tw::vec<float, 4>>(x0 + (((row * 45L) + r0_11)), 1L) - (float)(s0_0)));
      tw::store_n(out + ((row * 45L) + r0_11), e22, 1L);
      const tw::vec<float, 4> b23 = tw::select(tw::first<tw::mask<tw::vec<float, 4>>>(1L), e22, tw::splat<tw::vec<float, 4>>(0.0f));
      s2a0_0_0 = s2a0_0_0 + b23;
     }
    }
   }
   s2a0_0_0 = s2a0_0_0 + s2a0_0_2;
   s2a0_0_1 = s2a0_0_1 + s2a0_0_3;
   s2a0_0_0 = s2a0_0_0 + s2a0_0_1;
   const float s2f0_0 = tw::hsum(s2a0_0_0);
   const float s2_0 = s2f0_0; (void)s2_0;
   const float p2h0_0 = tw::balance<float>(s2_0);
   const float p2h1_0 = (float)1 / ((s2_0) * tw::balance<float>(s2_0));
   {
    long r0_24 = 0;
    for (; r0_24 + 16 <= 45L; r0_24 += 16) {
     __builtin_prefetch(x0 + (((row + 1) * 45L) + r0_24), 0, 3);
     {
      const tw::vec<float, 4> e25 = tw::load<tw::vec<float, 4>>(out + ((row * 45L) + r0_24));
      tw::store(out + (((row * 45L) + r0_24)), ((e25 * (float)(p2h0_0)) * (float)(p2h1_0)));
     }
     {
      const tw::vec<float, 4> e26 = tw::load<tw::vec<float, 4>>(out + ((row * 45L) + (r0_24 + 4)));
      tw::store(out + (((row * 45L) + (r0_24 + 4))), ((e26 * (float)(p2h0_0)) * (float)(p2h1_0)));
     }
     {
      const tw::vec<float, 4> e27 = tw::load<tw::vec<float, 4>>(out + ((row * 45L) + (r0_24 + 8)));
      tw::store(out + (((row * 45L) + (r0_24 + 8))), ((e27 * (float)(p2h0_0)) * (float)(p2h1_0)));
     }
     {
      const tw::vec<float, 4> e28 = tw::load<tw::vec<float, 4>>(out + ((row * 45L) + (r0_24 + 12)));
      tw::store(out + (((row * 45L) + (r0_24 + 12))), ((e28 * (float)(p2h0_0)) * (float)(p2h1_0)));
     }
    }
    for (; r0_24 + 4 <= 45L; r0_24 += 4) {
     {
      const tw::vec<float, 4> e29 = tw::load<tw::vec<float, 4>>(out + ((row * 45L) + r0_24));
      tw::store(out + (((row * 45L) + r0_24)), ((e29 * (float)(p2h0_0)) * (float)(p2h1_0)));
     }
    }
    {
     {
      const tw::vec<float, 4> e30 = tw::load_n<tw::vec<float, 4>>(out + ((row * 45L) + r0_24), 1L);
      tw::store_n(out + (((row * 45L) + r0_24)), ((e30 * (float)(p2h0_0)) * (float)(p2h1_0)), 1L);
     }
    }
   }
  }
  for (; row_3 < row_2e; row_3++) {
   const long row = row_3;
   tw::vec<float, 4> s0a0_0_0 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
   tw::vec<float, 4> s0a0_0_1 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
   tw::vec<float, 4> s0a0_0_2 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
   tw::vec<float, 4> s0a0_0_3 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
   {
    long r0_31 = 0;
    for (; r0_31 + 16 <= 45L; r0_31 += 16) {
     {
      const tw::vec<float, 4> b32 = tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + r0_31)));
      s0a0_0_0 = tw::max(b32, s0a0_0_0);
     }
     {
      const tw::vec<float, 4> b33 = tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + (r0_31 + 4))));
      s0a0_0_1 = tw::max(b33, s0a0_0_1);
     }
     {
      const tw::vec<float, 4> b34 = tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + (r0_31 + 8))));
      s0a0_0_2 = tw::max(b34, s0a0_0_2);
     }
     {
      const tw::vec<float, 4> b35 = tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + (r0_31 + 12))));
      s0a0_0_3 = tw::max(b35, s0a0_0_3);
     }
    }
    for (; r0_31 + 4 <= 45L; r0_31 += 4) {
     {
      const tw::vec<float, 4> b36 = tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + r0_31)));
      s0a0_0_0 = tw::max(b36, s0a0_0_0);
     }
    }
    {
     {
      const tw::vec<float, 4> b37 = tw::select(tw::first<tw::mask<tw::vec<float, 4>>>(1L), tw::load_n<tw::vec<float, 4>>(x0 + (((row * 45L) + r0_31)), 1L), tw::splat<tw::vec<float, 4>>(-__builtin_inff()));
      s0a0_0_0 = tw::max(b37, s0a0_0_0);
     }
    }
   }
   s0a0_0_0 = tw::max(s0a0_0_2, s0a0_0_0);
   s0a0_0_1 = tw::max(s0a0_0_3, s0a0_0_1);
   s0a0_0_0 = tw::max(s0a0_0_1, s0a0_0_0);
   const float s0f0_0 = tw::hmax(s0a0_0_0);
   const float s0_0 = s0f0_0; (void)s0_0;
   tw::vec<float, 4> s2a0_0_0 = tw::splat<tw::vec<float, 4>>(0.0f);
   tw::vec<float, 4> s2a0_0_1 = tw::splat<tw::vec<float, 4>>(0.0f);
   tw::vec<float, 4> s2a0_0_2 = tw::splat<tw::vec<float, 4>>(0.0f);
   tw::vec<float, 4> s2a0_0_3 = tw::splat<tw::vec<float, 4>>(0.0f);
   {
    long r0_38 = 0;
    for (; r0_38 + 16 <= 45L; r0_38 += 16) {
     {
      const auto e39 = tw::exp((tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + r0_38))) - (float)(s0_0)));
      tw::store(out + ((row * 45L) + r0_38), e39);
      const tw::vec<float, 4> b40 = e39;
      s2a0_0_0 = s2a0_0_0 + b40;
     }
     {
      const auto e41 = tw::exp((tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + (r0_38 + 4)))) - (float)(s0_0)));
      tw::store(out + ((row * 45L) + (r0_38 + 4)), e41);
      const tw::vec<float, 4> b42 = e41;
      s2a0_0_1 = s2a0_0_1 + b42;
     }
     {
      const auto e43 = tw::exp((tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + (r0_38 + 8)))) - (float)(s0_0)));
      tw::store(out + ((row * 45L) + (r0_38 + 8)), e43);
      const tw::vec<float, 4> b44 = e43;
      s2a0_0_2 = s2a0_0_2 + b44;
     }
     {
      const auto e45 = tw::exp((tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + (r0_38 + 12)))) - (float)(s0_0)));
      tw::store(out + ((row * 45L) + (r0_38 + 12)), e45);
      const tw::vec<float, 4> b46 = e45;
      s2a0_0_3 = s2a0_0_3 + b46;
     }
    }
    for (; r0_38 + 4 <= 45L; r0_38 += 4) {
     {
      const auto e47 = tw::exp((tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + r0_38))) - (float)(s0_0)));
      tw::store(out + ((row * 45L) + r0_38), e47);
      const tw::vec<float, 4> b48 = e47;
      s2a0_0_0 = s2a0_0_0 + b48;
     }
    }
    {
     {
      const auto e49 = tw::exp((tw::load_n<tw::vec<float, 4>>(x0 + (((row * 45L) + r0_38)), 1L) - (float)(s0_0)));
      tw::store_n(out + ((row * 45L) + r0_38), e49, 1L);
      const tw::vec<float, 4> b50 = tw::select(tw::first<tw::mask<tw::vec<float, 4>>>(1L), e49, tw::splat<tw::vec<float, 4>>(0.0f));
      s2a0_0_0 = s2a0_0_0 + b50;
     }
    }
   }
   s2a0_0_0 = s2a0_0_0 + s2a0_0_2;
   s2a0_0_1 = s2a0_0_1 + s2a0_0_3;
   s2a0_0_0 = s2a0_0_0 + s2a0_0_1;
   const float s2f0_0 = tw::hsum(s2a0_0_0);
   const float s2_0 = s2f0_0; (void)s2_0;
   const float p2h0_0 = tw::balance<float>(s2_0);
   const float p2h1_0 = (float)1 / ((s2_0) * tw::balance<float>(s2_0));
   {
    long r0_51 = 0;
    for (; r0_51 + 16 <= 45L; r0_51 += 16) {
     __builtin_prefetch(x0 + (((row + 1) * 45L) + r0_51), 0, 3);
     {
      const tw::vec<float, 4> e52 = tw::load<tw::vec<float, 4>>(out + ((row * 45L) + r0_51));
      tw::store(out + (((row * 45L) + r0_51)), ((e52 * (float)(p2h0_0)) * (float)(p2h1_0)));
     }
     {
      const tw::vec<float, 4> e53 = tw::load<tw::vec<float, 4>>(out + ((row * 45L) + (r0_51 + 4)));
      tw::store(out + (((row * 45L) + (r0_51 + 4))), ((e53 * (float)(p2h0_0)) * (float)(p2h1_0)));
     }
     {
      const tw::vec<float, 4> e54 = tw::load<tw::vec<float, 4>>(out + ((row * 45L) + (r0_51 + 8)));
      tw::store(out + (((row * 45L) + (r0_51 + 8))), ((e54 * (float)(p2h0_0)) * (float)(p2h1_0)));
     }
     {
      const tw::vec<float, 4> e55 = tw::load<tw::vec<float, 4>>(out + ((row * 45L) + (r0_51 + 12)));
      tw::store(out + (((row * 45L) + (r0_51 + 12))), ((e55 * (float)(p2h0_0)) * (float)(p2h1_0)));
     }
    }
    for (; r0_51 + 4 <= 45L; r0_51 += 4) {
     {
      const tw::vec<float, 4> e56 = tw::load<tw::vec<float, 4>>(out + ((row * 45L) + r0_51));
      tw::store(out + (((row * 45L) + r0_51)), ((e56 * (float)(p2h0_0)) * (float)(p2h1_0)));
     }
    }
    {
     {
      const tw::vec<float, 4> e57 = tw::load_n<tw::vec<float, 4>>(out + ((row * 45L) + r0_51), 1L);
      tw::store_n(out + (((row * 45L) + r0_51)), ((e57 * (float)(p2h0_0)) * (float)(p2h1_0)), 1L);
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
 const float *const x0 = (const float *)tensors[0];
 float *const out = (float *)tensors[1];
 char *const space = (char *)workspace;
 const long block = args[0];
 {
  tw_golden_task0_ctx ctx58 = {env, x0, out, space, block};
  tw::parallel_for(env, (tw::ceildiv(7L, block)), tw_golden_task0, &ctx58);
 }
 return 0;
}

// cpu_rows version 2, cpu:portable
namespace tw_golden_ {
struct rows_arguments {
 const float *x0;
 float *out;
 char *space;
 long block, row;
};
static void some(const rows_arguments &a, long row, long last, long worker) {
 (void)worker;
 const float *const x0 = a.x0;
 float *const out = a.out;
 (void)out;
 for (; row < last; row++) {
  tw::vec<float, 4> s0a0_0_0 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
  tw::vec<float, 4> s0a0_0_1 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
  tw::vec<float, 4> s0a0_0_2 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
  tw::vec<float, 4> s0a0_0_3 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
  {
   long j = 0L;
   for (; j + 16 <= 45L; j += 16) {
    {
     const tw::vec<float, 4> b1 = tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + j)));
     s0a0_0_0 = tw::max(b1, s0a0_0_0);
    }
    {
     const tw::vec<float, 4> b2 = tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + (j + 4))));
     s0a0_0_1 = tw::max(b2, s0a0_0_1);
    }
    {
     const tw::vec<float, 4> b3 = tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + (j + 8))));
     s0a0_0_2 = tw::max(b3, s0a0_0_2);
    }
    {
     const tw::vec<float, 4> b4 = tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + (j + 12))));
     s0a0_0_3 = tw::max(b4, s0a0_0_3);
    }
   }
   for (; j + 4 <= 45L; j += 4) {
    {
     const tw::vec<float, 4> b5 = tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + j)));
     s0a0_0_0 = tw::max(b5, s0a0_0_0);
    }
   }
   {
    {
     const tw::vec<float, 4> b6 = tw::select(tw::first<tw::mask<tw::vec<float, 4>>>(1L), tw::load_n<tw::vec<float, 4>>(x0 + (((row * 45L) + j)), 1L), tw::splat<tw::vec<float, 4>>(-__builtin_inff()));
     s0a0_0_0 = tw::max(b6, s0a0_0_0);
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
   long j = 0L;
   for (; j + 16 <= 45L; j += 16) {
    {
     const auto e7 = tw::exp((tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + j))) - (float)(s0_0)));
     tw::store(out + ((row * 45L) + j), e7);
     const tw::vec<float, 4> b8 = e7;
     s2a0_0_0 = s2a0_0_0 + b8;
    }
    {
     const auto e9 = tw::exp((tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + (j + 4)))) - (float)(s0_0)));
     tw::store(out + ((row * 45L) + (j + 4)), e9);
     const tw::vec<float, 4> b10 = e9;
     s2a0_0_1 = s2a0_0_1 + b10;
    }
    {
     const auto e11 = tw::exp((tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + (j + 8)))) - (float)(s0_0)));
     tw::store(out + ((row * 45L) + (j + 8)), e11);
     const tw::vec<float, 4> b12 = e11;
     s2a0_0_2 = s2a0_0_2 + b12;
    }
    {
     const auto e13 = tw::exp((tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + (j + 12)))) - (float)(s0_0)));
     tw::store(out + ((row * 45L) + (j + 12)), e13);
     const tw::vec<float, 4> b14 = e13;
     s2a0_0_3 = s2a0_0_3 + b14;
    }
   }
   for (; j + 4 <= 45L; j += 4) {
    {
     const auto e15 = tw::exp((tw::load<tw::vec<float, 4>>(x0 + (((row * 45L) + j))) - (float)(s0_0)));
     tw::store(out + ((row * 45L) + j), e15);
     const tw::vec<float, 4> b16 = e15;
     s2a0_0_0 = s2a0_0_0 + b16;
    }
   }
   {
    {
     const auto e17 = tw::exp((tw::load_n<tw::vec<float, 4>>(x0 + (((row * 45L) + j)), 1L) - (float)(s0_0)));
     tw::store_n(out + ((row * 45L) + j), e17, 1L);
     const tw::vec<float, 4> b18 = tw::select(tw::first<tw::mask<tw::vec<float, 4>>>(1L), e17, tw::splat<tw::vec<float, 4>>(0.0f));
     s2a0_0_0 = s2a0_0_0 + b18;
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
   long j = 0L;
   for (; j + 16 <= 45L; j += 16) {
    __builtin_prefetch(x0 + (((row + 1) * 45L) + j), 0, 3);
    {
     const tw::vec<float, 4> e19 = tw::load<tw::vec<float, 4>>(out + ((row * 45L) + j));
     tw::store(out + (((row * 45L) + j)), ((e19 * (float)(p2h0_0)) * (float)(p2h1_0)));
    }
    {
     const tw::vec<float, 4> e20 = tw::load<tw::vec<float, 4>>(out + ((row * 45L) + (j + 4)));
     tw::store(out + (((row * 45L) + (j + 4))), ((e20 * (float)(p2h0_0)) * (float)(p2h1_0)));
    }
    {
     const tw::vec<float, 4> e21 = tw::load<tw::vec<float, 4>>(out + ((row * 45L) + (j + 8)));
     tw::store(out + (((row * 45L) + (j + 8))), ((e21 * (float)(p2h0_0)) * (float)(p2h1_0)));
    }
    {
     const tw::vec<float, 4> e22 = tw::load<tw::vec<float, 4>>(out + ((row * 45L) + (j + 12)));
     tw::store(out + (((row * 45L) + (j + 12))), ((e22 * (float)(p2h0_0)) * (float)(p2h1_0)));
    }
   }
   for (; j + 4 <= 45L; j += 4) {
    {
     const tw::vec<float, 4> e23 = tw::load<tw::vec<float, 4>>(out + ((row * 45L) + j));
     tw::store(out + (((row * 45L) + j)), ((e23 * (float)(p2h0_0)) * (float)(p2h1_0)));
    }
   }
   {
    {
     const tw::vec<float, 4> e24 = tw::load_n<tw::vec<float, 4>>(out + ((row * 45L) + j), 1L);
     tw::store_n(out + (((row * 45L) + j)), ((e24 * (float)(p2h0_0)) * (float)(p2h1_0)), 1L);
    }
   }
  }
 }
}
static void task(void *context, long number, long worker) {
 const rows_arguments &a = *(const rows_arguments *)context;
 some(a, number * a.block, tw::imin((number + 1) * a.block, 7L), worker);
}
static void run(const tw_env *env, rows_arguments &a) {
 tw::parallel_for(env, tw::ceildiv(7L, a.block), task, &a);
}
}
TW_ENTRY(tw_golden) {
(void)args; (void)workspace;
tw_golden_::rows_arguments a = {};
a.x0 = (const float *)tensors[0];
a.out = (float *)tensors[1];
a.space = (char *)workspace;
a.block = args[0];
tw_golden_::run(env, a);
return 0;
}

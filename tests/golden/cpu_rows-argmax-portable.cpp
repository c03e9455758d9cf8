// cpu_rows version 2, cpu:portable
namespace tw_golden_ {
struct rows_arguments {
 const float *x0;
 long *out;
 char *space;
 long block, row;
};
template <int L> TW_INLINE void merge_s0(tw::vec<float, L> &a0, tw::vec<int, L> &a1, tw::vec<float, L> b0, tw::vec<int, L> b1) {
 const tw::vec<float, L> n0 = tw::select(tw::both((b1 >= tw::splat<tw::vec<int, L>>(0)), tw::either(tw::either(tw::either((b0 > a0), tw::both((b0 != b0), (~(a0 != a0)))), tw::both(tw::either((b0 == a0), tw::both((b0 != b0), (a0 != a0))), (b1 < a1))), (a1 < tw::splat<tw::vec<int, L>>(0)))), b0, a0);
 const tw::vec<int, L> n1 = tw::select(tw::both((b1 >= tw::splat<tw::vec<int, L>>(0)), tw::either(tw::either(tw::either((b0 > a0), tw::both((b0 != b0), (~(a0 != a0)))), tw::both(tw::either((b0 == a0), tw::both((b0 != b0), (a0 != a0))), (b1 < a1))), (a1 < tw::splat<tw::vec<int, L>>(0)))), b1, a1);
 a0 = n0; a1 = n1;
}
static void some(const rows_arguments &a, long row, long last, long worker) {
 (void)worker;
 const float *const x0 = a.x0;
 long *const out = a.out;
 (void)out;
 for (; row < last; row++) {
  tw::vec<float, 4> s0a0_0_0 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
  tw::vec<int, 4> s0a1_0_0 = tw::splat<tw::vec<int, 4>>(-1);
  tw::vec<float, 4> s0a0_0_1 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
  tw::vec<int, 4> s0a1_0_1 = tw::splat<tw::vec<int, 4>>(-1);
  tw::vec<float, 4> s0a0_0_2 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
  tw::vec<int, 4> s0a1_0_2 = tw::splat<tw::vec<int, 4>>(-1);
  tw::vec<float, 4> s0a0_0_3 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
  tw::vec<int, 4> s0a1_0_3 = tw::splat<tw::vec<int, 4>>(-1);
  tw::vec<float, 4> s0a0_0_4 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
  tw::vec<int, 4> s0a1_0_4 = tw::splat<tw::vec<int, 4>>(-1);
  tw::vec<float, 4> s0a0_0_5 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
  tw::vec<int, 4> s0a1_0_5 = tw::splat<tw::vec<int, 4>>(-1);
  tw::vec<float, 4> s0a0_0_6 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
  tw::vec<int, 4> s0a1_0_6 = tw::splat<tw::vec<int, 4>>(-1);
  tw::vec<float, 4> s0a0_0_7 = tw::splat<tw::vec<float, 4>>(-__builtin_inff());
  tw::vec<int, 4> s0a1_0_7 = tw::splat<tw::vec<int, 4>>(-1);
  {
   long j = 0L;
   for (; j + 32 <= 50L; j += 32) {
    __builtin_prefetch(x0 + (((row + 1) * 50L) + j), 0, 3);
    __builtin_prefetch(x0 + (((row + 1) * 50L) + (j + 16)), 0, 3);
    {
     const tw::vec<float, 4> b1 = tw::load<tw::vec<float, 4>>(x0 + (((row * 50L) + j)));
     const tw::vec<int, 4> b2 = tw::convert<tw::vec<int, 4>>((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j)));
     merge_s0<4>(s0a0_0_0, s0a1_0_0, b1, b2);
    }
    {
     const tw::vec<float, 4> b3 = tw::load<tw::vec<float, 4>>(x0 + (((row * 50L) + (j + 4))));
     const tw::vec<int, 4> b4 = tw::convert<tw::vec<int, 4>>((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>((j + 4))));
     merge_s0<4>(s0a0_0_1, s0a1_0_1, b3, b4);
    }
    {
     const tw::vec<float, 4> b5 = tw::load<tw::vec<float, 4>>(x0 + (((row * 50L) + (j + 8))));
     const tw::vec<int, 4> b6 = tw::convert<tw::vec<int, 4>>((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>((j + 8))));
     merge_s0<4>(s0a0_0_2, s0a1_0_2, b5, b6);
    }
    {
     const tw::vec<float, 4> b7 = tw::load<tw::vec<float, 4>>(x0 + (((row * 50L) + (j + 12))));
     const tw::vec<int, 4> b8 = tw::convert<tw::vec<int, 4>>((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>((j + 12))));
     merge_s0<4>(s0a0_0_3, s0a1_0_3, b7, b8);
    }
    {
     const tw::vec<float, 4> b9 = tw::load<tw::vec<float, 4>>(x0 + (((row * 50L) + (j + 16))));
     const tw::vec<int, 4> b10 = tw::convert<tw::vec<int, 4>>((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>((j + 16))));
     merge_s0<4>(s0a0_0_4, s0a1_0_4, b9, b10);
    }
    {
     const tw::vec<float, 4> b11 = tw::load<tw::vec<float, 4>>(x0 + (((row * 50L) + (j + 20))));
     const tw::vec<int, 4> b12 = tw::convert<tw::vec<int, 4>>((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>((j + 20))));
     merge_s0<4>(s0a0_0_5, s0a1_0_5, b11, b12);
    }
    {
     const tw::vec<float, 4> b13 = tw::load<tw::vec<float, 4>>(x0 + (((row * 50L) + (j + 24))));
     const tw::vec<int, 4> b14 = tw::convert<tw::vec<int, 4>>((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>((j + 24))));
     merge_s0<4>(s0a0_0_6, s0a1_0_6, b13, b14);
    }
    {
     const tw::vec<float, 4> b15 = tw::load<tw::vec<float, 4>>(x0 + (((row * 50L) + (j + 28))));
     const tw::vec<int, 4> b16 = tw::convert<tw::vec<int, 4>>((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>((j + 28))));
     merge_s0<4>(s0a0_0_7, s0a1_0_7, b15, b16);
    }
   }
   for (; j + 4 <= 50L; j += 4) {
    {
     const tw::vec<float, 4> b17 = tw::load<tw::vec<float, 4>>(x0 + (((row * 50L) + j)));
     const tw::vec<int, 4> b18 = tw::convert<tw::vec<int, 4>>((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j)));
     merge_s0<4>(s0a0_0_0, s0a1_0_0, b17, b18);
    }
   }
   {
    {
     const tw::vec<float, 4> b19 = tw::select(tw::first<tw::mask<tw::vec<float, 4>>>(2L), tw::load_n<tw::vec<float, 4>>(x0 + (((row * 50L) + j)), 2L), tw::splat<tw::vec<float, 4>>(-__builtin_inff()));
     const tw::vec<int, 4> b20 = tw::select(tw::first<tw::mask<tw::vec<int, 4>>>(2L), tw::convert<tw::vec<int, 4>>((tw::iota<tw::vec<int, 4>>() + tw::splat<tw::vec<int, 4>>(j))), tw::splat<tw::vec<int, 4>>(-1));
     merge_s0<4>(s0a0_0_0, s0a1_0_0, b19, b20);
    }
   }
  }
  merge_s0<4>(s0a0_0_0, s0a1_0_0, s0a0_0_4, s0a1_0_4);
  merge_s0<4>(s0a0_0_1, s0a1_0_1, s0a0_0_5, s0a1_0_5);
  merge_s0<4>(s0a0_0_2, s0a1_0_2, s0a0_0_6, s0a1_0_6);
  merge_s0<4>(s0a0_0_3, s0a1_0_3, s0a0_0_7, s0a1_0_7);
  merge_s0<4>(s0a0_0_0, s0a1_0_0, s0a0_0_2, s0a1_0_2);
  merge_s0<4>(s0a0_0_1, s0a1_0_1, s0a0_0_3, s0a1_0_3);
  merge_s0<4>(s0a0_0_0, s0a1_0_0, s0a0_0_1, s0a1_0_1);
  tw::vec<float, 2> m21 = tw::low(s0a0_0_0);
  tw::vec<int, 2> m22 = tw::low(s0a1_0_0);
  merge_s0<2>(m21, m22, tw::high(s0a0_0_0), tw::high(s0a1_0_0));
  tw::vec<float, 1> m23 = tw::low(m21);
  tw::vec<int, 1> m24 = tw::low(m22);
  merge_s0<1>(m23, m24, tw::high(m21), tw::high(m22));
  const float s0f0_0 = m23[0];
  const int s0f1_0 = m24[0];
  const long s0_0 = (long)(s0f1_0); (void)s0_0;
  out[row] = (long)(s0_0);
 }
}
static void task(void *context, long number, long worker) {
 const rows_arguments &a = *(const rows_arguments *)context;
 some(a, number * a.block, tw::imin((number + 1) * a.block, 9L), worker);
}
static void run(const tw_env *env, rows_arguments &a) {
 tw::parallel_for(env, tw::ceildiv(9L, a.block), task, &a);
}
}
TW_ENTRY(tw_golden) {
(void)args; (void)workspace;
tw_golden_::rows_arguments a = {};
a.x0 = (const float *)tensors[0];
a.out = (long *)tensors[1];
a.space = (char *)workspace;
a.block = args[0];
tw_golden_::run(env, a);
return 0;
}

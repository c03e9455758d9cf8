// cpu_generic version 2, cpu:avx512
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
 const long i0_1 = (task_) * 4L;
 const long i0_1e = tw::imin(i0_1 + 4L, 9L);
 {
  long i0_2 = i0_1;
  for (; i0_2 + 4 <= i0_1e; i0_2 += 4) {
   float a0_0_0 = -__builtin_inff();
   long a1_0_0 = -1L;
   float a0_1_0 = -__builtin_inff();
   long a1_1_0 = -1L;
   float a0_2_0 = -__builtin_inff();
   long a1_2_0 = -1L;
   float a0_3_0 = -__builtin_inff();
   long a1_3_0 = -1L;
   for (long r0_3 = 0; r0_3 < 50L; r0_3++) {
    {
     const float b0 = x0[i0_2*50L + r0_3];
     const long b1 = r0_3;
     const float n0 = (((b1 >= 0L) && ((((b0 > a0_0_0) || ((b0 != b0) && (!(a0_0_0 != a0_0_0)))) || (((b0 == a0_0_0) || ((b0 != b0) && (a0_0_0 != a0_0_0))) && (b1 < a1_0_0))) || (a1_0_0 < 0L))) ? b0 : a0_0_0);
     const long n1 = (((b1 >= 0L) && ((((b0 > a0_0_0) || ((b0 != b0) && (!(a0_0_0 != a0_0_0)))) || (((b0 == a0_0_0) || ((b0 != b0) && (a0_0_0 != a0_0_0))) && (b1 < a1_0_0))) || (a1_0_0 < 0L))) ? b1 : a1_0_0);
     a0_0_0 = n0;
     a1_0_0 = n1;
    }
    {
     const float b0 = x0[(i0_2 + 1)*50L + r0_3];
     const long b1 = r0_3;
     const float n0 = (((b1 >= 0L) && ((((b0 > a0_1_0) || ((b0 != b0) && (!(a0_1_0 != a0_1_0)))) || (((b0 == a0_1_0) || ((b0 != b0) && (a0_1_0 != a0_1_0))) && (b1 < a1_1_0))) || (a1_1_0 < 0L))) ? b0 : a0_1_0);
     const long n1 = (((b1 >= 0L) && ((((b0 > a0_1_0) || ((b0 != b0) && (!(a0_1_0 != a0_1_0)))) || (((b0 == a0_1_0) || ((b0 != b0) && (a0_1_0 != a0_1_0))) && (b1 < a1_1_0))) || (a1_1_0 < 0L))) ? b1 : a1_1_0);
     a0_1_0 = n0;
     a1_1_0 = n1;
    }
    {
     const float b0 = x0[(i0_2 + 2)*50L + r0_3];
     const long b1 = r0_3;
     const float n0 = (((b1 >= 0L) && ((((b0 > a0_2_0) || ((b0 != b0) && (!(a0_2_0 != a0_2_0)))) || (((b0 == a0_2_0) || ((b0 != b0) && (a0_2_0 != a0_2_0))) && (b1 < a1_2_0))) || (a1_2_0 < 0L))) ? b0 : a0_2_0);
     const long n1 = (((b1 >= 0L) && ((((b0 > a0_2_0) || ((b0 != b0) && (!(a0_2_0 != a0_2_0)))) || (((b0 == a0_2_0) || ((b0 != b0) && (a0_2_0 != a0_2_0))) && (b1 < a1_2_0))) || (a1_2_0 < 0L))) ? b1 : a1_2_0);
     a0_2_0 = n0;
     a1_2_0 = n1;
    }
    {
     const float b0 = x0[(i0_2 + 3)*50L + r0_3];
     const long b1 = r0_3;
     const float n0 = (((b1 >= 0L) && ((((b0 > a0_3_0) || ((b0 != b0) && (!(a0_3_0 != a0_3_0)))) || (((b0 == a0_3_0) || ((b0 != b0) && (a0_3_0 != a0_3_0))) && (b1 < a1_3_0))) || (a1_3_0 < 0L))) ? b0 : a0_3_0);
     const long n1 = (((b1 >= 0L) && ((((b0 > a0_3_0) || ((b0 != b0) && (!(a0_3_0 != a0_3_0)))) || (((b0 == a0_3_0) || ((b0 != b0) && (a0_3_0 != a0_3_0))) && (b1 < a1_3_0))) || (a1_3_0 < 0L))) ? b1 : a1_3_0);
     a0_3_0 = n0;
     a1_3_0 = n1;
    }
   }
   {
    s0[i0_2] = (long)(a1_0_0);
   }
   {
    s0[(i0_2 + 1)] = (long)(a1_1_0);
   }
   {
    s0[(i0_2 + 2)] = (long)(a1_2_0);
   }
   {
    s0[(i0_2 + 3)] = (long)(a1_3_0);
   }
  }
  for (; i0_2 < i0_1e; i0_2++) {
   float a0_0_0 = -__builtin_inff();
   long a1_0_0 = -1L;
   for (long r0_4 = 0; r0_4 < 50L; r0_4++) {
    {
     const float b0 = x0[i0_2*50L + r0_4];
     const long b1 = r0_4;
     const float n0 = (((b1 >= 0L) && ((((b0 > a0_0_0) || ((b0 != b0) && (!(a0_0_0 != a0_0_0)))) || (((b0 == a0_0_0) || ((b0 != b0) && (a0_0_0 != a0_0_0))) && (b1 < a1_0_0))) || (a1_0_0 < 0L))) ? b0 : a0_0_0);
     const long n1 = (((b1 >= 0L) && ((((b0 > a0_0_0) || ((b0 != b0) && (!(a0_0_0 != a0_0_0)))) || (((b0 == a0_0_0) || ((b0 != b0) && (a0_0_0 != a0_0_0))) && (b1 < a1_0_0))) || (a1_0_0 < 0L))) ? b1 : a1_0_0);
     a0_0_0 = n0;
     a1_0_0 = n1;
    }
   }
   {
    s0[i0_2] = (long)(a1_0_0);
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
   tw_golden_task0_ctx ctx5 = {x0, s0, env};
   tw::parallel_for(env, (3L), tw_golden_task0, &ctx5);
  }
 }
 return 0;
}

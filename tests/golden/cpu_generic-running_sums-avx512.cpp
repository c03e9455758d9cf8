// cpu_generic version 2, cpu:avx512
namespace tw_golden_ {
struct tw_golden_task0_ctx {
 const float * x0;
 float * s1;
 const tw_env * env;
};
static void tw_golden_task0(void *ctx_, long task_, long worker_) {
 (void)worker_;
 const tw_golden_task0_ctx &c_ = *(const tw_golden_task0_ctx *)ctx_;
 const float * const x0 = c_.x0;
 float * const s1 = c_.s1;
 const tw_env * const env = c_.env;
 const long i0_1 = (task_) * 1L;
 {
  float a0_0_0 = 0.0f;
  for (long i1_2 = 0; i1_2 < 33L; i1_2++) {
   {
    const float b0 = tw::exp(float(x0[i0_1*33L + i1_2]));
    a0_0_0 = (a0_0_0 + b0);
   }
   {
    s1[i0_1*33L + i1_2] = (float)(((a0_0_0 * 0.5f) + x0[i0_1*33L + i1_2]));
   }
  }
 }
}
}
TW_ENTRY(tw_golden) {
 (void)tensors; (void)args; (void)workspace; (void)env;
 using namespace tw_golden_;
 const float *x0 = (const float *)tensors[0];
 float *s1 = (float *)tensors[1];
 {
  tw_golden_task0_ctx ctx3 = {x0, s1, env};
  tw::parallel_for(env, (6L), tw_golden_task0, &ctx3);
 }
 return 0;
}

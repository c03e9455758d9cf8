// cpu_map version 3, cpu:portable
namespace tw_golden_ {
TW_INLINE void tile(const int *x0, int *d_, long i0, long i1) {
 (void)x0;
 const int *const p0 = x0 + ((i0 + (i1 * 22L)));
 const tw::vec<int, 4> r0_0 = tw::load<tw::vec<int, 4>>(p0);
 const tw::vec<int, 4> r0_1 = tw::load<tw::vec<int, 4>>(p0 + 22L);
 const tw::vec<int, 4> r0_2 = tw::load<tw::vec<int, 4>>(p0 + 44L);
 const tw::vec<int, 4> r0_3 = tw::load<tw::vec<int, 4>>(p0 + 66L);
 const tw::vec<int, 4> c0_0 = __builtin_shufflevector(r0_0, r0_1, 0, 4, 1, 5);
 const tw::vec<int, 4> c0_1 = __builtin_shufflevector(r0_0, r0_1, 2, 6, 3, 7);
 const tw::vec<int, 4> c0_2 = __builtin_shufflevector(r0_2, r0_3, 0, 4, 1, 5);
 const tw::vec<int, 4> c0_3 = __builtin_shufflevector(r0_2, r0_3, 2, 6, 3, 7);
 const tw::vec<int, 4> c0_4 = __builtin_shufflevector(c0_0, c0_2, 0, 1, 4, 5);
 const tw::vec<int, 4> c0_5 = __builtin_shufflevector(c0_0, c0_2, 2, 3, 6, 7);
 const tw::vec<int, 4> c0_6 = __builtin_shufflevector(c0_1, c0_3, 0, 1, 4, 5);
 const tw::vec<int, 4> c0_7 = __builtin_shufflevector(c0_1, c0_3, 2, 3, 6, 7);
 {
  tw::store(d_, c0_4);
 }
 {
  tw::store(d_ + 19L, c0_5);
 }
 {
  tw::store(d_ + 38L, c0_6);
 }
 {
  tw::store(d_ + 57L, c0_7);
 }
}
TW_NOINLINE void edge(const int *x0, int *d_, long i0, long i1, long ni, long no) {
 (void)x0;
 const int *const p0 = x0 + ((i0 + (i1 * 22L)));
 const tw::vec<int, 4> r0_0 = 0 < no ? tw::load_n<tw::vec<int, 4>>(p0, ni) : tw::vec<int, 4>{};
 const tw::vec<int, 4> r0_1 = 1 < no ? tw::load_n<tw::vec<int, 4>>(p0 + 22L, ni) : tw::vec<int, 4>{};
 const tw::vec<int, 4> r0_2 = 2 < no ? tw::load_n<tw::vec<int, 4>>(p0 + 44L, ni) : tw::vec<int, 4>{};
 const tw::vec<int, 4> r0_3 = 3 < no ? tw::load_n<tw::vec<int, 4>>(p0 + 66L, ni) : tw::vec<int, 4>{};
 const tw::vec<int, 4> c0_0 = __builtin_shufflevector(r0_0, r0_1, 0, 4, 1, 5);
 const tw::vec<int, 4> c0_1 = __builtin_shufflevector(r0_0, r0_1, 2, 6, 3, 7);
 const tw::vec<int, 4> c0_2 = __builtin_shufflevector(r0_2, r0_3, 0, 4, 1, 5);
 const tw::vec<int, 4> c0_3 = __builtin_shufflevector(r0_2, r0_3, 2, 6, 3, 7);
 const tw::vec<int, 4> c0_4 = __builtin_shufflevector(c0_0, c0_2, 0, 1, 4, 5);
 const tw::vec<int, 4> c0_5 = __builtin_shufflevector(c0_0, c0_2, 2, 3, 6, 7);
 const tw::vec<int, 4> c0_6 = __builtin_shufflevector(c0_1, c0_3, 0, 1, 4, 5);
 const tw::vec<int, 4> c0_7 = __builtin_shufflevector(c0_1, c0_3, 2, 3, 6, 7);
 if (0 < ni) {
  tw::store_n(d_, c0_4, no);
 }
 if (1 < ni) {
  tw::store_n(d_ + 19L, c0_5, no);
 }
 if (2 < ni) {
  tw::store_n(d_ + 38L, c0_6, no);
 }
 if (3 < ni) {
  tw::store_n(d_ + 57L, c0_7, no);
 }
}
struct tw_golden_task0_ctx {
 const tw_env * env;
 const int * x0;
 int * s0;
 long tile_in;
 long tile_out;
 long tasks;
 long si;
 long so;
 long trips1;
 long trips2;
 long units;
 long tasks_;
};
TW_NOINLINE void tw_golden_task0(void *ctx_, long task_, long worker_) {
 (void)worker_;
 const tw_golden_task0_ctx &c_ = *(const tw_golden_task0_ctx *)ctx_;
 const tw_env * const env = c_.env;
 const int * const x0 = c_.x0;
 int * const s0 = c_.s0;
 const long &tile_in = c_.tile_in;
 const long &tile_out = c_.tile_out;
 const long &tasks = c_.tasks;
 const long &si = c_.si;
 const long &so = c_.so;
 const long &trips1 = c_.trips1;
 const long &trips2 = c_.trips2;
 const long &units = c_.units;
 const long &tasks_ = c_.tasks_;
 const long u0 = task_ * units / tasks_, u1 = (task_ + 1) * units / tasks_;
 long q_ = u0;
 long i1_4 = q_ % trips2;
 q_ /= trips2;
 long i0_3 = q_;
 for (long u_ = u0; u_ < u1; u_++) {
  const long i0_5 = i0_3 ? si + i0_3 * tile_in : 0;
  const long i0_6 = tw::imin(22L, si + (i0_3 + 1) * tile_in);
  const long i1_7 = i1_4 ? so + i1_4 * tile_out : 0;
  const long i1_8 = tw::imin(19L, so + (i1_4 + 1) * tile_out);
  for (long i0 = i0_5, ni; i0 < i0_6; i0 += ni) {
   ni = i0 == 0 && si ? si : tw::imin(4L, i0_6 - i0);
  for (long i1 = i1_7, no; i1 < i1_8; i1 += no) {
   no = i1 == 0 && so ? so : tw::imin(4L, i1_8 - i1);
  if (ni == 4 && no == 4) tile(x0, s0 + (((i0 * 19L) + i1)), i0, i1); else edge(x0, s0 + (((i0 * 19L) + i1)), i0, i1, ni, no);
  } }
  if (++i1_4 == trips2) { i1_4 = 0; i0_3++; }
 }
}
}
TW_ENTRY(tw_golden) {
 (void)tensors; (void)args; (void)workspace; (void)env;
 using namespace tw_golden_;
 const int *const x0 = (const int *)tensors[0];
 int *const s0 = (int *)tensors[1];
 const long tile_in = args[0];
 const long tile_out = args[1];
 const long tasks = args[2];
 const long si = 0L;
 const long so = 0L;
 {
  const long trips1 = tw::imax(1, tw::ceildiv(22L - si, tile_in));
  const long trips2 = tw::imax(1, tw::ceildiv(19L - so, tile_out));
  const long units = trips1 * trips2, tasks_ = tw::imin(tasks, units);
  {
   tw_golden_task0_ctx ctx9 = {env, x0, s0, tile_in, tile_out, tasks, si, so, trips1, trips2, units, tasks_};
   tw::parallel_for(env, tasks_, tw_golden_task0, &ctx9);
  }
 }
 return 0;
}

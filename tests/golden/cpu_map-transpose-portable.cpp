// cpu_map version 1, cpu:portable
namespace tw_golden_ {
struct Ctx { const int *x0; int *s0; long units, tasks; long tile_in, tile_out, in_blocks, out_blocks, si, so; };
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
TW_NOINLINE void task(void *ctx, long task_, long) {
 const Ctx &c = *(const Ctx *)ctx;
 const int *const x0 = c.x0; (void)x0;
 int *const s0 = c.s0;
 const long u0 = task_ * c.units / c.tasks, u1 = (task_ + 1) * c.units / c.tasks;
 long q_ = u0;
 for (long u_ = u0; u_ < u1; u_++) {
  q_ = u_;
  const long ob = q_ % c.out_blocks;
  q_ /= c.out_blocks;
  const long ib = q_;
  const long i00 = ib ? c.si + ib * c.tile_in : 0;
  const long i01 = tw::imin(22L, c.si + (ib + 1) * c.tile_in);
  const long i10 = ob ? c.so + ob * c.tile_out : 0;
  const long i11 = tw::imin(19L, c.so + (ob + 1) * c.tile_out);
  for (long i0 = i00, ni; i0 < i01; i0 += ni) {
   ni = i0 == 0 && c.si ? c.si : tw::imin(4L, i01 - i0);
  for (long i1 = i10, no; i1 < i11; i1 += no) {
   no = i1 == 0 && c.so ? c.so : tw::imin(4L, i11 - i1);
  if (ni == 4 && no == 4) tile(x0, s0 + (((i0 * 19L) + i1)), i0, i1); else edge(x0, s0 + (((i0 * 19L) + i1)), i0, i1, ni, no);
  } }
 }
}
}
TW_ENTRY(tw_golden) {
 (void)args; (void)workspace; using namespace tw_golden_;
 Ctx c;
 c.x0 = (const int *)tensors[0];
 c.s0 = (int *)tensors[1];
 c.tile_in = args[0]; c.tile_out = args[1];
 c.si = 0;
 c.so = 0;
 c.in_blocks = tw::imax(1, tw::ceildiv(22L - c.si, c.tile_in));
 c.out_blocks = tw::imax(1, tw::ceildiv(19L - c.so, c.tile_out));
 c.units = 1L * c.in_blocks * c.out_blocks;
 c.tasks = tw::imin(args[2], c.units);
 tw::parallel_for(env, c.tasks, task, &c);
 return 0;
}

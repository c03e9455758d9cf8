// cpu_map version 3, cpu:avx512
namespace tw_golden_ {
TW_INLINE void tile(const int *x0, int *d_, long i0, long i1) {
 (void)x0;
 const int *const p0 = x0 + ((i0 + (i1 * 22L)));
 const tw::vec<int, 16> r0_0 = tw::load<tw::vec<int, 16>>(p0);
 const tw::vec<int, 16> r0_1 = tw::load<tw::vec<int, 16>>(p0 + 22L);
 const tw::vec<int, 16> r0_2 = tw::load<tw::vec<int, 16>>(p0 + 44L);
 const tw::vec<int, 16> r0_3 = tw::load<tw::vec<int, 16>>(p0 + 66L);
 const tw::vec<int, 16> r0_4 = tw::load<tw::vec<int, 16>>(p0 + 88L);
 const tw::vec<int, 16> r0_5 = tw::load<tw::vec<int, 16>>(p0 + 110L);
 const tw::vec<int, 16> r0_6 = tw::load<tw::vec<int, 16>>(p0 + 132L);
 const tw::vec<int, 16> r0_7 = tw::load<tw::vec<int, 16>>(p0 + 154L);
 const tw::vec<int, 16> r0_8 = tw::load<tw::vec<int, 16>>(p0 + 176L);
 const tw::vec<int, 16> r0_9 = tw::load<tw::vec<int, 16>>(p0 + 198L);
 const tw::vec<int, 16> r0_10 = tw::load<tw::vec<int, 16>>(p0 + 220L);
 const tw::vec<int, 16> r0_11 = tw::load<tw::vec<int, 16>>(p0 + 242L);
 const tw::vec<int, 16> r0_12 = tw::load<tw::vec<int, 16>>(p0 + 264L);
 const tw::vec<int, 16> r0_13 = tw::load<tw::vec<int, 16>>(p0 + 286L);
 const tw::vec<int, 16> r0_14 = tw::load<tw::vec<int, 16>>(p0 + 308L);
 const tw::vec<int, 16> r0_15 = tw::load<tw::vec<int, 16>>(p0 + 330L);
 const tw::vec<int, 16> c0_0 = __builtin_shufflevector(r0_0, r0_1, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
 const tw::vec<int, 16> c0_1 = __builtin_shufflevector(r0_0, r0_1, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
 const tw::vec<int, 16> c0_2 = __builtin_shufflevector(r0_2, r0_3, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
 const tw::vec<int, 16> c0_3 = __builtin_shufflevector(r0_2, r0_3, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
 const tw::vec<int, 16> c0_4 = __builtin_shufflevector(c0_0, c0_2, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
 const tw::vec<int, 16> c0_5 = __builtin_shufflevector(c0_0, c0_2, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
 const tw::vec<int, 16> c0_6 = __builtin_shufflevector(c0_1, c0_3, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
 const tw::vec<int, 16> c0_7 = __builtin_shufflevector(c0_1, c0_3, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
 const tw::vec<int, 16> c0_8 = __builtin_shufflevector(r0_4, r0_5, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
 const tw::vec<int, 16> c0_9 = __builtin_shufflevector(r0_4, r0_5, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
 const tw::vec<int, 16> c0_10 = __builtin_shufflevector(r0_6, r0_7, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
 const tw::vec<int, 16> c0_11 = __builtin_shufflevector(r0_6, r0_7, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
 const tw::vec<int, 16> c0_12 = __builtin_shufflevector(c0_8, c0_10, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
 const tw::vec<int, 16> c0_13 = __builtin_shufflevector(c0_8, c0_10, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
 const tw::vec<int, 16> c0_14 = __builtin_shufflevector(c0_9, c0_11, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
 const tw::vec<int, 16> c0_15 = __builtin_shufflevector(c0_9, c0_11, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
 const tw::vec<int, 16> c0_16 = __builtin_shufflevector(r0_8, r0_9, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
 const tw::vec<int, 16> c0_17 = __builtin_shufflevector(r0_8, r0_9, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
 const tw::vec<int, 16> c0_18 = __builtin_shufflevector(r0_10, r0_11, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
 const tw::vec<int, 16> c0_19 = __builtin_shufflevector(r0_10, r0_11, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
 const tw::vec<int, 16> c0_20 = __builtin_shufflevector(c0_16, c0_18, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
 const tw::vec<int, 16> c0_21 = __builtin_shufflevector(c0_16, c0_18, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
 const tw::vec<int, 16> c0_22 = __builtin_shufflevector(c0_17, c0_19, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
 const tw::vec<int, 16> c0_23 = __builtin_shufflevector(c0_17, c0_19, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
 const tw::vec<int, 16> c0_24 = __builtin_shufflevector(r0_12, r0_13, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
 const tw::vec<int, 16> c0_25 = __builtin_shufflevector(r0_12, r0_13, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
 const tw::vec<int, 16> c0_26 = __builtin_shufflevector(r0_14, r0_15, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
 const tw::vec<int, 16> c0_27 = __builtin_shufflevector(r0_14, r0_15, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
 const tw::vec<int, 16> c0_28 = __builtin_shufflevector(c0_24, c0_26, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
 const tw::vec<int, 16> c0_29 = __builtin_shufflevector(c0_24, c0_26, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
 const tw::vec<int, 16> c0_30 = __builtin_shufflevector(c0_25, c0_27, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
 const tw::vec<int, 16> c0_31 = __builtin_shufflevector(c0_25, c0_27, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
 const tw::vec<int, 16> c0_32 = __builtin_shufflevector(c0_4, c0_12, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_33 = __builtin_shufflevector(c0_20, c0_28, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_34 = __builtin_shufflevector(c0_4, c0_12, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_35 = __builtin_shufflevector(c0_20, c0_28, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_36 = __builtin_shufflevector(c0_32, c0_33, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_37 = __builtin_shufflevector(c0_32, c0_33, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_38 = __builtin_shufflevector(c0_34, c0_35, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_39 = __builtin_shufflevector(c0_34, c0_35, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_40 = __builtin_shufflevector(c0_5, c0_13, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_41 = __builtin_shufflevector(c0_21, c0_29, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_42 = __builtin_shufflevector(c0_5, c0_13, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_43 = __builtin_shufflevector(c0_21, c0_29, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_44 = __builtin_shufflevector(c0_40, c0_41, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_45 = __builtin_shufflevector(c0_40, c0_41, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_46 = __builtin_shufflevector(c0_42, c0_43, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_47 = __builtin_shufflevector(c0_42, c0_43, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_48 = __builtin_shufflevector(c0_6, c0_14, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_49 = __builtin_shufflevector(c0_22, c0_30, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_50 = __builtin_shufflevector(c0_6, c0_14, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_51 = __builtin_shufflevector(c0_22, c0_30, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_52 = __builtin_shufflevector(c0_48, c0_49, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_53 = __builtin_shufflevector(c0_48, c0_49, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_54 = __builtin_shufflevector(c0_50, c0_51, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_55 = __builtin_shufflevector(c0_50, c0_51, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_56 = __builtin_shufflevector(c0_7, c0_15, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_57 = __builtin_shufflevector(c0_23, c0_31, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_58 = __builtin_shufflevector(c0_7, c0_15, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_59 = __builtin_shufflevector(c0_23, c0_31, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_60 = __builtin_shufflevector(c0_56, c0_57, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_61 = __builtin_shufflevector(c0_56, c0_57, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_62 = __builtin_shufflevector(c0_58, c0_59, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_63 = __builtin_shufflevector(c0_58, c0_59, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 {
  tw::store(d_, c0_36);
 }
 {
  tw::store(d_ + 19L, c0_44);
 }
 {
  tw::store(d_ + 38L, c0_52);
 }
 {
  tw::store(d_ + 57L, c0_60);
 }
 {
  tw::store(d_ + 76L, c0_38);
 }
 {
  tw::store(d_ + 95L, c0_46);
 }
 {
  tw::store(d_ + 114L, c0_54);
 }
 {
  tw::store(d_ + 133L, c0_62);
 }
 {
  tw::store(d_ + 152L, c0_37);
 }
 {
  tw::store(d_ + 171L, c0_45);
 }
 {
  tw::store(d_ + 190L, c0_53);
 }
 {
  tw::store(d_ + 209L, c0_61);
 }
 {
  tw::store(d_ + 228L, c0_39);
 }
 {
  tw::store(d_ + 247L, c0_47);
 }
 {
  tw::store(d_ + 266L, c0_55);
 }
 {
  tw::store(d_ + 285L, c0_63);
 }
}
TW_NOINLINE void edge(const int *x0, int *d_, long i0, long i1, long ni, long no) {
 (void)x0;
 const int *const p0 = x0 + ((i0 + (i1 * 22L)));
 const tw::vec<int, 16> r0_0 = 0 < no ? tw::load_n<tw::vec<int, 16>>(p0, ni) : tw::vec<int, 16>{};
 const tw::vec<int, 16> r0_1 = 1 < no ? tw::load_n<tw::vec<int, 16>>(p0 + 22L, ni) : tw::vec<int, 16>{};
 const tw::vec<int, 16> r0_2 = 2 < no ? tw::load_n<tw::vec<int, 16>>(p0 + 44L, ni) : tw::vec<int, 16>{};
 const tw::vec<int, 16> r0_3 = 3 < no ? tw::load_n<tw::vec<int, 16>>(p0 + 66L, ni) : tw::vec<int, 16>{};
 const tw::vec<int, 16> r0_4 = 4 < no ? tw::load_n<tw::vec<int, 16>>(p0 + 88L, ni) : tw::vec<int, 16>{};
 const tw::vec<int, 16> r0_5 = 5 < no ? tw::load_n<tw::vec<int, 16>>(p0 + 110L, ni) : tw::vec<int, 16>{};
 const tw::vec<int, 16> r0_6 = 6 < no ? tw::load_n<tw::vec<int, 16>>(p0 + 132L, ni) : tw::vec<int, 16>{};
 const tw::vec<int, 16> r0_7 = 7 < no ? tw::load_n<tw::vec<int, 16>>(p0 + 154L, ni) : tw::vec<int, 16>{};
 const tw::vec<int, 16> r0_8 = 8 < no ? tw::load_n<tw::vec<int, 16>>(p0 + 176L, ni) : tw::vec<int, 16>{};
 const tw::vec<int, 16> r0_9 = 9 < no ? tw::load_n<tw::vec<int, 16>>(p0 + 198L, ni) : tw::vec<int, 16>{};
 const tw::vec<int, 16> r0_10 = 10 < no ? tw::load_n<tw::vec<int, 16>>(p0 + 220L, ni) : tw::vec<int, 16>{};
 const tw::vec<int, 16> r0_11 = 11 < no ? tw::load_n<tw::vec<int, 16>>(p0 + 242L, ni) : tw::vec<int, 16>{};
 const tw::vec<int, 16> r0_12 = 12 < no ? tw::load_n<tw::vec<int, 16>>(p0 + 264L, ni) : tw::vec<int, 16>{};
 const tw::vec<int, 16> r0_13 = 13 < no ? tw::load_n<tw::vec<int, 16>>(p0 + 286L, ni) : tw::vec<int, 16>{};
 const tw::vec<int, 16> r0_14 = 14 < no ? tw::load_n<tw::vec<int, 16>>(p0 + 308L, ni) : tw::vec<int, 16>{};
 const tw::vec<int, 16> r0_15 = 15 < no ? tw::load_n<tw::vec<int, 16>>(p0 + 330L, ni) : tw::vec<int, 16>{};
 const tw::vec<int, 16> c0_0 = __builtin_shufflevector(r0_0, r0_1, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
 const tw::vec<int, 16> c0_1 = __builtin_shufflevector(r0_0, r0_1, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
 const tw::vec<int, 16> c0_2 = __builtin_shufflevector(r0_2, r0_3, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
 const tw::vec<int, 16> c0_3 = __builtin_shufflevector(r0_2, r0_3, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
 const tw::vec<int, 16> c0_4 = __builtin_shufflevector(c0_0, c0_2, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
 const tw::vec<int, 16> c0_5 = __builtin_shufflevector(c0_0, c0_2, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
 const tw::vec<int, 16> c0_6 = __builtin_shufflevector(c0_1, c0_3, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
 const tw::vec<int, 16> c0_7 = __builtin_shufflevector(c0_1, c0_3, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
 const tw::vec<int, 16> c0_8 = __builtin_shufflevector(r0_4, r0_5, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
 const tw::vec<int, 16> c0_9 = __builtin_shufflevector(r0_4, r0_5, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
 const tw::vec<int, 16> c0_10 = __builtin_shufflevector(r0_6, r0_7, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
 const tw::vec<int, 16> c0_11 = __builtin_shufflevector(r0_6, r0_7, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
 const tw::vec<int, 16> c0_12 = __builtin_shufflevector(c0_8, c0_10, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
 const tw::vec<int, 16> c0_13 = __builtin_shufflevector(c0_8, c0_10, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
 const tw::vec<int, 16> c0_14 = __builtin_shufflevector(c0_9, c0_11, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
 const tw::vec<int, 16> c0_15 = __builtin_shufflevector(c0_9, c0_11, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
 const tw::vec<int, 16> c0_16 = __builtin_shufflevector(r0_8, r0_9, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
 const tw::vec<int, 16> c0_17 = __builtin_shufflevector(r0_8, r0_9, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
 const tw::vec<int, 16> c0_18 = __builtin_shufflevector(r0_10, r0_11, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
 const tw::vec<int, 16> c0_19 = __builtin_shufflevector(r0_10, r0_11, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
 const tw::vec<int, 16> c0_20 = __builtin_shufflevector(c0_16, c0_18, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
 const tw::vec<int, 16> c0_21 = __builtin_shufflevector(c0_16, c0_18, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
 const tw::vec<int, 16> c0_22 = __builtin_shufflevector(c0_17, c0_19, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
 const tw::vec<int, 16> c0_23 = __builtin_shufflevector(c0_17, c0_19, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
 const tw::vec<int, 16> c0_24 = __builtin_shufflevector(r0_12, r0_13, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
 const tw::vec<int, 16> c0_25 = __builtin_shufflevector(r0_12, r0_13, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
 const tw::vec<int, 16> c0_26 = __builtin_shufflevector(r0_14, r0_15, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
 const tw::vec<int, 16> c0_27 = __builtin_shufflevector(r0_14, r0_15, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
 const tw::vec<int, 16> c0_28 = __builtin_shufflevector(c0_24, c0_26, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
 const tw::vec<int, 16> c0_29 = __builtin_shufflevector(c0_24, c0_26, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
 const tw::vec<int, 16> c0_30 = __builtin_shufflevector(c0_25, c0_27, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
 const tw::vec<int, 16> c0_31 = __builtin_shufflevector(c0_25, c0_27, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
 const tw::vec<int, 16> c0_32 = __builtin_shufflevector(c0_4, c0_12, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_33 = __builtin_shufflevector(c0_20, c0_28, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_34 = __builtin_shufflevector(c0_4, c0_12, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_35 = __builtin_shufflevector(c0_20, c0_28, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_36 = __builtin_shufflevector(c0_32, c0_33, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_37 = __builtin_shufflevector(c0_32, c0_33, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_38 = __builtin_shufflevector(c0_34, c0_35, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_39 = __builtin_shufflevector(c0_34, c0_35, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_40 = __builtin_shufflevector(c0_5, c0_13, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_41 = __builtin_shufflevector(c0_21, c0_29, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_42 = __builtin_shufflevector(c0_5, c0_13, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_43 = __builtin_shufflevector(c0_21, c0_29, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_44 = __builtin_shufflevector(c0_40, c0_41, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_45 = __builtin_shufflevector(c0_40, c0_41, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_46 = __builtin_shufflevector(c0_42, c0_43, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_47 = __builtin_shufflevector(c0_42, c0_43, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_48 = __builtin_shufflevector(c0_6, c0_14, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_49 = __builtin_shufflevector(c0_22, c0_30, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_50 = __builtin_shufflevector(c0_6, c0_14, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_51 = __builtin_shufflevector(c0_22, c0_30, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_52 = __builtin_shufflevector(c0_48, c0_49, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_53 = __builtin_shufflevector(c0_48, c0_49, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_54 = __builtin_shufflevector(c0_50, c0_51, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_55 = __builtin_shufflevector(c0_50, c0_51, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_56 = __builtin_shufflevector(c0_7, c0_15, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_57 = __builtin_shufflevector(c0_23, c0_31, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_58 = __builtin_shufflevector(c0_7, c0_15, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_59 = __builtin_shufflevector(c0_23, c0_31, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_60 = __builtin_shufflevector(c0_56, c0_57, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_61 = __builtin_shufflevector(c0_56, c0_57, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 const tw::vec<int, 16> c0_62 = __builtin_shufflevector(c0_58, c0_59, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
 const tw::vec<int, 16> c0_63 = __builtin_shufflevector(c0_58, c0_59, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
 if (0 < ni) {
  tw::store_n(d_, c0_36, no);
 }
 if (1 < ni) {
  tw::store_n(d_ + 19L, c0_44, no);
 }
 if (2 < ni) {
  tw::store_n(d_ + 38L, c0_52, no);
 }
 if (3 < ni) {
  tw::store_n(d_ + 57L, c0_60, no);
 }
 if (4 < ni) {
  tw::store_n(d_ + 76L, c0_38, no);
 }
 if (5 < ni) {
  tw::store_n(d_ + 95L, c0_46, no);
 }
 if (6 < ni) {
  tw::store_n(d_ + 114L, c0_54, no);
 }
 if (7 < ni) {
  tw::store_n(d_ + 133L, c0_62, no);
 }
 if (8 < ni) {
  tw::store_n(d_ + 152L, c0_37, no);
 }
 if (9 < ni) {
  tw::store_n(d_ + 171L, c0_45, no);
 }
 if (10 < ni) {
  tw::store_n(d_ + 190L, c0_53, no);
 }
 if (11 < ni) {
  tw::store_n(d_ + 209L, c0_61, no);
 }
 if (12 < ni) {
  tw::store_n(d_ + 228L, c0_39, no);
 }
 if (13 < ni) {
  tw::store_n(d_ + 247L, c0_47, no);
 }
 if (14 < ni) {
  tw::store_n(d_ + 266L, c0_55, no);
 }
 if (15 < ni) {
  tw::store_n(d_ + 285L, c0_63, no);
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
   ni = i0 == 0 && si ? si : tw::imin(16L, i0_6 - i0);
  for (long i1 = i1_7, no; i1 < i1_8; i1 += no) {
   no = i1 == 0 && so ? so : tw::imin(16L, i1_8 - i1);
  if (ni == 16 && no == 16) tile(x0, s0 + (((i0 * 19L) + i1)), i0, i1); else edge(x0, s0 + (((i0 * 19L) + i1)), i0, i1, ni, no);
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

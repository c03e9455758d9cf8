// cpu_contraction version 3, cpu:portable
namespace tw_golden_ {
typedef float T; typedef tw::f32v V; enum { L=4 };
struct Ctx {
 void *const *t; char *ws; T *image, *tables; long chunk, KC, MT, NT, TM, TN, TK, bytes, a_bytes; bool skips; };
TW_NOINLINE void mk_13x1(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 __builtin_prefetch(c+0L,1,3);
 __builtin_prefetch(c+37L,1,3);
 __builtin_prefetch(c+74L,1,3);
 __builtin_prefetch(c+111L,1,3);
 __builtin_prefetch(c+148L,1,3);
 __builtin_prefetch(c+185L,1,3);
 __builtin_prefetch(c+222L,1,3);
 __builtin_prefetch(c+259L,1,3);
 __builtin_prefetch(c+296L,1,3);
 __builtin_prefetch(c+333L,1,3);
 __builtin_prefetch(c+370L,1,3);
 __builtin_prefetch(c+407L,1,3);
 __builtin_prefetch(c+444L,1,3);
 V c0_0={};
 V c1_0={};
 V c2_0={};
 V c3_0={};
 V c4_0={};
 V c5_0={};
 V c6_0={};
 V c7_0={};
 V c8_0={};
 V c9_0={};
 V c10_0={};
 V c11_0={};
 V c12_0={};
 for(;kc>=4;kc-=4){
 {
  __builtin_prefetch(b+8L,0,3);
  V b0=tw::load<V>(b+0L);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[38L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[57L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[76L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[95L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[114L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[133L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[152L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[171L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[190L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[209L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[228L]);
   c12_0=(c12_0 + (x * b0));
  }
 }
 {
  __builtin_prefetch(b+45L,0,3);
  V b0=tw::load<V>(b+37L);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[20L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[39L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[58L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[77L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[96L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[115L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[134L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[153L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[172L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[191L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[210L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[229L]);
   c12_0=(c12_0 + (x * b0));
  }
 }
 {
  __builtin_prefetch(b+82L,0,3);
  V b0=tw::load<V>(b+74L);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[21L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[40L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[59L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[78L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[97L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[116L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[135L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[154L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[173L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[192L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[211L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[230L]);
   c12_0=(c12_0 + (x * b0));
  }
 }
 {
  __builtin_prefetch(b+119L,0,3);
  V b0=tw::load<V>(b+111L);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[22L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[41L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[60L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[79L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[98L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[117L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[136L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[155L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[174L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[193L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[212L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[231L]);
   c12_0=(c12_0 + (x * b0));
  }
 }
  a+=4L; b+=148L; }
 for(;kc>0;kc--){
  V b0=tw::load<V>(b+0L);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[38L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[57L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[76L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[95L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[114L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[133L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[152L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[171L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[190L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[209L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[228L]);
   c12_0=(c12_0 + (x * b0));
  }
  a+=1L; b+=37L; }
 if(mode&1){
  if(tail==4){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c1_0=(tw::load<V>(c+37L) + c1_0);
   c2_0=(tw::load<V>(c+74L) + c2_0);
   c3_0=(tw::load<V>(c+111L) + c3_0);
   c4_0=(tw::load<V>(c+148L) + c4_0);
   c5_0=(tw::load<V>(c+185L) + c5_0);
   c6_0=(tw::load<V>(c+222L) + c6_0);
   c7_0=(tw::load<V>(c+259L) + c7_0);
   c8_0=(tw::load<V>(c+296L) + c8_0);
   c9_0=(tw::load<V>(c+333L) + c9_0);
   c10_0=(tw::load<V>(c+370L) + c10_0);
   c11_0=(tw::load<V>(c+407L) + c11_0);
   c12_0=(tw::load<V>(c+444L) + c12_0);
  } else {
   c0_0=(tw::load_n<V>(c+0L,tail) + c0_0);
   c1_0=(tw::load_n<V>(c+37L,tail) + c1_0);
   c2_0=(tw::load_n<V>(c+74L,tail) + c2_0);
   c3_0=(tw::load_n<V>(c+111L,tail) + c3_0);
   c4_0=(tw::load_n<V>(c+148L,tail) + c4_0);
   c5_0=(tw::load_n<V>(c+185L,tail) + c5_0);
   c6_0=(tw::load_n<V>(c+222L,tail) + c6_0);
   c7_0=(tw::load_n<V>(c+259L,tail) + c7_0);
   c8_0=(tw::load_n<V>(c+296L,tail) + c8_0);
   c9_0=(tw::load_n<V>(c+333L,tail) + c9_0);
   c10_0=(tw::load_n<V>(c+370L,tail) + c10_0);
   c11_0=(tw::load_n<V>(c+407L,tail) + c11_0);
   c12_0=(tw::load_n<V>(c+444L,tail) + c12_0);
  }
 }
 if(tail==4){
  tw::store(c+0L,c0_0);
  tw::store(c+37L,c1_0);
  tw::store(c+74L,c2_0);
  tw::store(c+111L,c3_0);
  tw::store(c+148L,c4_0);
  tw::store(c+185L,c5_0);
  tw::store(c+222L,c6_0);
  tw::store(c+259L,c7_0);
  tw::store(c+296L,c8_0);
  tw::store(c+333L,c9_0);
  tw::store(c+370L,c10_0);
  tw::store(c+407L,c11_0);
  tw::store(c+444L,c12_0);
 } else {
  tw::store_n(c+0L,c0_0,tail);
  tw::store_n(c+37L,c1_0,tail);
  tw::store_n(c+74L,c2_0,tail);
  tw::store_n(c+111L,c3_0,tail);
  tw::store_n(c+148L,c4_0,tail);
  tw::store_n(c+185L,c5_0,tail);
  tw::store_n(c+222L,c6_0,tail);
  tw::store_n(c+259L,c7_0,tail);
  tw::store_n(c+296L,c8_0,tail);
  tw::store_n(c+333L,c9_0,tail);
  tw::store_n(c+370L,c10_0,tail);
  tw::store_n(c+407L,c11_0,tail);
  tw::store_n(c+444L,c12_0,tail);
 }
}
TW_NOINLINE void mk_13x1t(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 __builtin_prefetch(c+0L,1,3);
 __builtin_prefetch(c+37L,1,3);
 __builtin_prefetch(c+74L,1,3);
 __builtin_prefetch(c+111L,1,3);
 __builtin_prefetch(c+148L,1,3);
 __builtin_prefetch(c+185L,1,3);
 __builtin_prefetch(c+222L,1,3);
 __builtin_prefetch(c+259L,1,3);
 __builtin_prefetch(c+296L,1,3);
 __builtin_prefetch(c+333L,1,3);
 __builtin_prefetch(c+370L,1,3);
 __builtin_prefetch(c+407L,1,3);
 __builtin_prefetch(c+444L,1,3);
 V c0_0={};
 V c1_0={};
 V c2_0={};
 V c3_0={};
 V c4_0={};
 V c5_0={};
 V c6_0={};
 V c7_0={};
 V c8_0={};
 V c9_0={};
 V c10_0={};
 V c11_0={};
 V c12_0={};
 for(;kc>=4;kc-=4){
 {
  __builtin_prefetch(b+8L,0,3);
  V b0=tw::load_n<V>(b+0L,tail);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[38L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[57L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[76L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[95L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[114L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[133L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[152L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[171L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[190L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[209L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[228L]);
   c12_0=(c12_0 + (x * b0));
  }
 }
 {
  __builtin_prefetch(b+45L,0,3);
  V b0=tw::load_n<V>(b+37L,tail);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[20L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[39L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[58L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[77L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[96L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[115L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[134L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[153L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[172L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[191L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[210L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[229L]);
   c12_0=(c12_0 + (x * b0));
  }
 }
 {
  __builtin_prefetch(b+82L,0,3);
  V b0=tw::load_n<V>(b+74L,tail);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[21L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[40L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[59L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[78L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[97L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[116L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[135L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[154L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[173L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[192L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[211L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[230L]);
   c12_0=(c12_0 + (x * b0));
  }
 }
 {
  __builtin_prefetch(b+119L,0,3);
  V b0=tw::load_n<V>(b+111L,tail);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[22L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[41L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[60L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[79L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[98L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[117L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[136L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[155L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[174L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[193L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[212L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[231L]);
   c12_0=(c12_0 + (x * b0));
  }
 }
  a+=4L; b+=148L; }
 for(;kc>0;kc--){
  V b0=tw::load_n<V>(b+0L,tail);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[38L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[57L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[76L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[95L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[114L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[133L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[152L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[171L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[190L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[209L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[228L]);
   c12_0=(c12_0 + (x * b0));
  }
  a+=1L; b+=37L; }
 if(mode&1){
   c0_0=(tw::load_n<V>(c+0L,tail) + c0_0);
   c1_0=(tw::load_n<V>(c+37L,tail) + c1_0);
   c2_0=(tw::load_n<V>(c+74L,tail) + c2_0);
   c3_0=(tw::load_n<V>(c+111L,tail) + c3_0);
   c4_0=(tw::load_n<V>(c+148L,tail) + c4_0);
   c5_0=(tw::load_n<V>(c+185L,tail) + c5_0);
   c6_0=(tw::load_n<V>(c+222L,tail) + c6_0);
   c7_0=(tw::load_n<V>(c+259L,tail) + c7_0);
   c8_0=(tw::load_n<V>(c+296L,tail) + c8_0);
   c9_0=(tw::load_n<V>(c+333L,tail) + c9_0);
   c10_0=(tw::load_n<V>(c+370L,tail) + c10_0);
   c11_0=(tw::load_n<V>(c+407L,tail) + c11_0);
   c12_0=(tw::load_n<V>(c+444L,tail) + c12_0);
 }
  tw::store_n(c+0L,c0_0,tail);
  tw::store_n(c+37L,c1_0,tail);
  tw::store_n(c+74L,c2_0,tail);
  tw::store_n(c+111L,c3_0,tail);
  tw::store_n(c+148L,c4_0,tail);
  tw::store_n(c+185L,c5_0,tail);
  tw::store_n(c+222L,c6_0,tail);
  tw::store_n(c+259L,c7_0,tail);
  tw::store_n(c+296L,c8_0,tail);
  tw::store_n(c+333L,c9_0,tail);
  tw::store_n(c+370L,c10_0,tail);
  tw::store_n(c+407L,c11_0,tail);
  tw::store_n(c+444L,c12_0,tail);
}
TW_NOINLINE void task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
 const long ti=t%x->TM; t/=x->TM; const long tj=t%x->TN; t/=x->TN;
 const long tk=t%x->TK, o=t/x->TK; (void)o;
 const long r0=ti*1L/x->TM, r1=(ti+1)*1L/x->TM, c0=tj*10L/x->TN, c1=(tj+1)*10L/x->TN;
 const long k0=tk*19L/x->TK, k1=(tk+1)*19L/x->TK;
 float *out=(float*)x->t[2]+0L;
 const T *A=(const T*)x->t[0]+0L;
 const T *B=(const T*)x->t[1]+0L;
 for(long cb0=c0;cb0<c1;cb0+=x->NT) { const long cb1=tw::imin(c1,cb0+x->NT);
  for(long pc=k0;pc<k1;pc+=x->KC) { const long kc=tw::imin(k1-pc,x->KC);
   const long mode=(pc>k0)|(pc+kc>=k1?2:0); (void)mode;
   for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);
    for(long cb=cb0;cb<cb1;cb++) for(long rb=rb0;rb<rb1;rb++) {
     const long l0=(rb)*13L;
     const T *a=A+l0*19L+pc*1L;
     const T *b=B+(cb)*1L*4L+pc*37L;
     T *c=out+l0*37L+(cb)*1L*4L;
     if(cb<9L) { mk_13x1(kc,a,b,c,mode,(cb==9L?1L:4L)); } else if(cb==9L) { mk_13x1t(kc,a,b,c,mode,(cb==9L?1L:4L)); }
    } } } } }
}
TW_ENTRY(tw_golden) { using namespace tw_golden_; (void)workspace;
 const long mt=tw::imin(tw::imax(1,args[1]/13),1L);
 const long nt=tw::imin(tw::imax(1,args[2]/4),10L);
 Ctx c{}; Ctx *x=&c; x->t=tensors; x->ws=(char*)workspace+0L; x->image=(T*)workspace;
 x->tables=(T*)((char*)workspace+0L); x->KC=args[0]; x->MT=mt; x->NT=nt; x->TM=args[3];x->TN=args[4];x->TK=args[5];
 x->a_bytes=0; x->bytes=x->a_bytes+0;
 for(x->chunk=0;x->chunk<1L;x->chunk++) {
  tw::parallel_for(env,1L*x->TM*x->TN*x->TK,task,x);
 }
 return 0; }
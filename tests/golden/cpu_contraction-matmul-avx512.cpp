// cpu_contraction version 3, cpu:avx512
namespace tw_golden_ {
typedef float T; typedef tw::f32v V; enum { L=16 };
struct Ctx {
 void *const *t; char *ws; T *image, *tables; long chunk, KC, MT, NT, TM, TN, TK, bytes, a_bytes; bool skips; };
TW_NOINLINE void mk_7x3t(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 __builtin_prefetch(c+0L,1,3); __builtin_prefetch(c+16L,1,3); __builtin_prefetch(c+32L,1,3);
 __builtin_prefetch(c+37L,1,3); __builtin_prefetch(c+53L,1,3); __builtin_prefetch(c+69L,1,3);
 __builtin_prefetch(c+74L,1,3); __builtin_prefetch(c+90L,1,3); __builtin_prefetch(c+106L,1,3);
 __builtin_prefetch(c+111L,1,3); __builtin_prefetch(c+127L,1,3); __builtin_prefetch(c+143L,1,3);
 __builtin_prefetch(c+148L,1,3); __builtin_prefetch(c+164L,1,3); __builtin_prefetch(c+180L,1,3);
 __builtin_prefetch(c+185L,1,3); __builtin_prefetch(c+201L,1,3); __builtin_prefetch(c+217L,1,3);
 __builtin_prefetch(c+222L,1,3); __builtin_prefetch(c+238L,1,3); __builtin_prefetch(c+254L,1,3);
 V c0_0={}, c0_1={}, c0_2={};
 V c1_0={}, c1_1={}, c1_2={};
 V c2_0={}, c2_1={}, c2_2={};
 V c3_0={}, c3_1={}, c3_2={};
 V c4_0={}, c4_1={}, c4_2={};
 V c5_0={}, c5_1={}, c5_2={};
 V c6_0={}, c6_1={}, c6_2={};
 for(;kc>=4;kc-=4){
 {
  __builtin_prefetch(b+96L,0,3);
  __builtin_prefetch(b+112L,0,3);
  __builtin_prefetch(b+128L,0,3);
  V b0=tw::load<V>(b+0L);
  V b1=tw::load<V>(b+16L);
  V b2=tw::load_n<V>(b+32L,tail);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[38L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[57L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[76L]);
   c4_0=(c4_0 + (x * b0));
   c4_1=(c4_1 + (x * b1));
   c4_2=(c4_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[95L]);
   c5_0=(c5_0 + (x * b0));
   c5_1=(c5_1 + (x * b1));
   c5_2=(c5_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[114L]);
   c6_0=(c6_0 + (x * b0));
   c6_1=(c6_1 + (x * b1));
   c6_2=(c6_2 + (x * b2));
  }
 }
 {
  __builtin_prefetch(b+133L,0,3);
  __builtin_prefetch(b+149L,0,3);
  __builtin_prefetch(b+165L,0,3);
  V b0=tw::load<V>(b+37L);
  V b1=tw::load<V>(b+53L);
  V b2=tw::load_n<V>(b+69L,tail);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[20L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[39L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[58L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[77L]);
   c4_0=(c4_0 + (x * b0));
   c4_1=(c4_1 + (x * b1));
   c4_2=(c4_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[96L]);
   c5_0=(c5_0 + (x * b0));
   c5_1=(c5_1 + (x * b1));
   c5_2=(c5_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[115L]);
   c6_0=(c6_0 + (x * b0));
   c6_1=(c6_1 + (x * b1));
   c6_2=(c6_2 + (x * b2));
  }
 }
 {
  __builtin_prefetch(b+170L,0,3);
  __builtin_prefetch(b+186L,0,3);
  __builtin_prefetch(b+202L,0,3);
  V b0=tw::load<V>(b+74L);
  V b1=tw::load<V>(b+90L);
  V b2=tw::load_n<V>(b+106L,tail);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[21L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[40L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[59L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[78L]);
   c4_0=(c4_0 + (x * b0));
   c4_1=(c4_1 + (x * b1));
   c4_2=(c4_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[97L]);
   c5_0=(c5_0 + (x * b0));
   c5_1=(c5_1 + (x * b1));
   c5_2=(c5_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[116L]);
   c6_0=(c6_0 + (x * b0));
   c6_1=(c6_1 + (x * b1));
   c6_2=(c6_2 + (x * b2));
  }
 }
 {
  __builtin_prefetch(b+207L,0,3);
  __builtin_prefetch(b+223L,0,3);
  __builtin_prefetch(b+239L,0,3);
  V b0=tw::load<V>(b+111L);
  V b1=tw::load<V>(b+127L);
  V b2=tw::load_n<V>(b+143L,tail);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[22L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[41L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[60L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[79L]);
   c4_0=(c4_0 + (x * b0));
   c4_1=(c4_1 + (x * b1));
   c4_2=(c4_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[98L]);
   c5_0=(c5_0 + (x * b0));
   c5_1=(c5_1 + (x * b1));
   c5_2=(c5_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[117L]);
   c6_0=(c6_0 + (x * b0));
   c6_1=(c6_1 + (x * b1));
   c6_2=(c6_2 + (x * b2));
  }
 }
  a+=4L; b+=148L; }
 for(;kc>0;kc--){
  V b0=tw::load<V>(b+0L);
  V b1=tw::load<V>(b+16L);
  V b2=tw::load_n<V>(b+32L,tail);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[38L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[57L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[76L]);
   c4_0=(c4_0 + (x * b0));
   c4_1=(c4_1 + (x * b1));
   c4_2=(c4_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[95L]);
   c5_0=(c5_0 + (x * b0));
   c5_1=(c5_1 + (x * b1));
   c5_2=(c5_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[114L]);
   c6_0=(c6_0 + (x * b0));
   c6_1=(c6_1 + (x * b1));
   c6_2=(c6_2 + (x * b2));
  }
  a+=1L; b+=37L; }
 if(mode&1){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+16L) + c0_1);
   c0_2=(tw::load_n<V>(c+32L,tail) + c0_2);
   c1_0=(tw::load<V>(c+37L) + c1_0);
   c1_1=(tw::load<V>(c+53L) + c1_1);
   c1_2=(tw::load_n<V>(c+69L,tail) + c1_2);
   c2_0=(tw::load<V>(c+74L) + c2_0);
   c2_1=(tw::load<V>(c+90L) + c2_1);
   c2_2=(tw::load_n<V>(c+106L,tail) + c2_2);
   c3_0=(tw::load<V>(c+111L) + c3_0);
   c3_1=(tw::load<V>(c+127L) + c3_1);
   c3_2=(tw::load_n<V>(c+143L,tail) + c3_2);
   c4_0=(tw::load<V>(c+148L) + c4_0);
   c4_1=(tw::load<V>(c+164L) + c4_1);
   c4_2=(tw::load_n<V>(c+180L,tail) + c4_2);
   c5_0=(tw::load<V>(c+185L) + c5_0);
   c5_1=(tw::load<V>(c+201L) + c5_1);
   c5_2=(tw::load_n<V>(c+217L,tail) + c5_2);
   c6_0=(tw::load<V>(c+222L) + c6_0);
   c6_1=(tw::load<V>(c+238L) + c6_1);
   c6_2=(tw::load_n<V>(c+254L,tail) + c6_2);
 }
  tw::store(c+0L,c0_0);
  tw::store(c+16L,c0_1);
  tw::store_n(c+32L,c0_2,tail);
  tw::store(c+37L,c1_0);
  tw::store(c+53L,c1_1);
  tw::store_n(c+69L,c1_2,tail);
  tw::store(c+74L,c2_0);
  tw::store(c+90L,c2_1);
  tw::store_n(c+106L,c2_2,tail);
  tw::store(c+111L,c3_0);
  tw::store(c+127L,c3_1);
  tw::store_n(c+143L,c3_2,tail);
  tw::store(c+148L,c4_0);
  tw::store(c+164L,c4_1);
  tw::store_n(c+180L,c4_2,tail);
  tw::store(c+185L,c5_0);
  tw::store(c+201L,c5_1);
  tw::store_n(c+217L,c5_2,tail);
  tw::store(c+222L,c6_0);
  tw::store(c+238L,c6_1);
  tw::store_n(c+254L,c6_2,tail);
}
TW_NOINLINE void mk_6x3t(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 __builtin_prefetch(c+0L,1,3); __builtin_prefetch(c+16L,1,3); __builtin_prefetch(c+32L,1,3);
 __builtin_prefetch(c+37L,1,3); __builtin_prefetch(c+53L,1,3); __builtin_prefetch(c+69L,1,3);
 __builtin_prefetch(c+74L,1,3); __builtin_prefetch(c+90L,1,3); __builtin_prefetch(c+106L,1,3);
 __builtin_prefetch(c+111L,1,3); __builtin_prefetch(c+127L,1,3); __builtin_prefetch(c+143L,1,3);
 __builtin_prefetch(c+148L,1,3); __builtin_prefetch(c+164L,1,3); __builtin_prefetch(c+180L,1,3);
 __builtin_prefetch(c+185L,1,3); __builtin_prefetch(c+201L,1,3); __builtin_prefetch(c+217L,1,3);
 V c0_0={}, c0_1={}, c0_2={};
 V c1_0={}, c1_1={}, c1_2={};
 V c2_0={}, c2_1={}, c2_2={};
 V c3_0={}, c3_1={}, c3_2={};
 V c4_0={}, c4_1={}, c4_2={};
 V c5_0={}, c5_1={}, c5_2={};
 for(;kc>=4;kc-=4){
 {
  __builtin_prefetch(b+96L,0,3);
  __builtin_prefetch(b+112L,0,3);
  __builtin_prefetch(b+128L,0,3);
  V b0=tw::load<V>(b+0L);
  V b1=tw::load<V>(b+16L);
  V b2=tw::load_n<V>(b+32L,tail);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[38L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[57L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[76L]);
   c4_0=(c4_0 + (x * b0));
   c4_1=(c4_1 + (x * b1));
   c4_2=(c4_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[95L]);
   c5_0=(c5_0 + (x * b0));
   c5_1=(c5_1 + (x * b1));
   c5_2=(c5_2 + (x * b2));
  }
 }
 {
  __builtin_prefetch(b+133L,0,3);
  __builtin_prefetch(b+149L,0,3);
  __builtin_prefetch(b+165L,0,3);
  V b0=tw::load<V>(b+37L);
  V b1=tw::load<V>(b+53L);
  V b2=tw::load_n<V>(b+69L,tail);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[20L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[39L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[58L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[77L]);
   c4_0=(c4_0 + (x * b0));
   c4_1=(c4_1 + (x * b1));
   c4_2=(c4_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[96L]);
   c5_0=(c5_0 + (x * b0));
   c5_1=(c5_1 + (x * b1));
   c5_2=(c5_2 + (x * b2));
  }
 }
 {
  __builtin_prefetch(b+170L,0,3);
  __builtin_prefetch(b+186L,0,3);
  __builtin_prefetch(b+202L,0,3);
  V b0=tw::load<V>(b+74L);
  V b1=tw::load<V>(b+90L);
  V b2=tw::load_n<V>(b+106L,tail);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[21L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[40L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[59L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[78L]);
   c4_0=(c4_0 + (x * b0));
   c4_1=(c4_1 + (x * b1));
   c4_2=(c4_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[97L]);
   c5_0=(c5_0 + (x * b0));
   c5_1=(c5_1 + (x * b1));
   c5_2=(c5_2 + (x * b2));
  }
 }
 {
  __builtin_prefetch(b+207L,0,3);
  __builtin_prefetch(b+223L,0,3);
  __builtin_prefetch(b+239L,0,3);
  V b0=tw::load<V>(b+111L);
  V b1=tw::load<V>(b+127L);
  V b2=tw::load_n<V>(b+143L,tail);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[22L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[41L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[60L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[79L]);
   c4_0=(c4_0 + (x * b0));
   c4_1=(c4_1 + (x * b1));
   c4_2=(c4_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[98L]);
   c5_0=(c5_0 + (x * b0));
   c5_1=(c5_1 + (x * b1));
   c5_2=(c5_2 + (x * b2));
  }
 }
  a+=4L; b+=148L; }
 for(;kc>0;kc--){
  V b0=tw::load<V>(b+0L);
  V b1=tw::load<V>(b+16L);
  V b2=tw::load_n<V>(b+32L,tail);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[38L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[57L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[76L]);
   c4_0=(c4_0 + (x * b0));
   c4_1=(c4_1 + (x * b1));
   c4_2=(c4_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[95L]);
   c5_0=(c5_0 + (x * b0));
   c5_1=(c5_1 + (x * b1));
   c5_2=(c5_2 + (x * b2));
  }
  a+=1L; b+=37L; }
 if(mode&1){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+16L) + c0_1);
   c0_2=(tw::load_n<V>(c+32L,tail) + c0_2);
   c1_0=(tw::load<V>(c+37L) + c1_0);
   c1_1=(tw::load<V>(c+53L) + c1_1);
   c1_2=(tw::load_n<V>(c+69L,tail) + c1_2);
   c2_0=(tw::load<V>(c+74L) + c2_0);
   c2_1=(tw::load<V>(c+90L) + c2_1);
   c2_2=(tw::load_n<V>(c+106L,tail) + c2_2);
   c3_0=(tw::load<V>(c+111L) + c3_0);
   c3_1=(tw::load<V>(c+127L) + c3_1);
   c3_2=(tw::load_n<V>(c+143L,tail) + c3_2);
   c4_0=(tw::load<V>(c+148L) + c4_0);
   c4_1=(tw::load<V>(c+164L) + c4_1);
   c4_2=(tw::load_n<V>(c+180L,tail) + c4_2);
   c5_0=(tw::load<V>(c+185L) + c5_0);
   c5_1=(tw::load<V>(c+201L) + c5_1);
   c5_2=(tw::load_n<V>(c+217L,tail) + c5_2);
 }
  tw::store(c+0L,c0_0);
  tw::store(c+16L,c0_1);
  tw::store_n(c+32L,c0_2,tail);
  tw::store(c+37L,c1_0);
  tw::store(c+53L,c1_1);
  tw::store_n(c+69L,c1_2,tail);
  tw::store(c+74L,c2_0);
  tw::store(c+90L,c2_1);
  tw::store_n(c+106L,c2_2,tail);
  tw::store(c+111L,c3_0);
  tw::store(c+127L,c3_1);
  tw::store_n(c+143L,c3_2,tail);
  tw::store(c+148L,c4_0);
  tw::store(c+164L,c4_1);
  tw::store_n(c+180L,c4_2,tail);
  tw::store(c+185L,c5_0);
  tw::store(c+201L,c5_1);
  tw::store_n(c+217L,c5_2,tail);
}
TW_NOINLINE void task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
 const long ti=t%x->TM; t/=x->TM; const long tj=t%x->TN; t/=x->TN;
 const long tk=t%x->TK, o=t/x->TK; (void)o;
 const long r0=ti*2L/x->TM, r1=(ti+1)*2L/x->TM, c0=tj*1L/x->TN, c1=(tj+1)*1L/x->TN;
 const long k0=tk*19L/x->TK, k1=(tk+1)*19L/x->TK;
 float *out=(float*)x->t[2]+0L;
 const T *A=(const T*)x->t[0]+0L;
 const T *B=(const T*)x->t[1]+0L;
 for(long cb0=c0;cb0<c1;cb0+=x->NT) { const long cb1=tw::imin(c1,cb0+x->NT);
  for(long pc=k0;pc<k1;pc+=x->KC) { const long kc=tw::imin(k1-pc,x->KC);
   const long mode=(pc>k0)|(pc+kc>=k1?2:0); (void)mode;
   for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);
    for(long cb=cb0;cb<cb1;cb++) for(long rb=rb0;rb<rb1;rb++) {
     const long l0=((rb)*7L-tw::imax(0,(rb)-1L));
     const T *a=A+l0*19L+pc*1L;
     const T *b=B+(cb)*3L*16L+pc*37L;
     T *c=out+l0*37L+(cb)*3L*16L;
     if(rb>=1L) { if(cb==0L) { mk_6x3t(kc,a,b,c,mode,(cb==0L?5L:16L)); } } else { if(cb==0L) { mk_7x3t(kc,a,b,c,mode,(cb==0L?5L:16L)); } }
    } } } } }
}
TW_ENTRY(tw_golden) { using namespace tw_golden_; (void)workspace;
 const long mt=tw::imin(tw::imax(1,args[1]/7),2L);
 const long nt=tw::imin(tw::imax(1,args[2]/48),1L);
 Ctx c{}; Ctx *x=&c; x->t=tensors; x->ws=(char*)workspace+0L; x->image=(T*)workspace;
 x->tables=(T*)((char*)workspace+0L); x->KC=args[0]; x->MT=mt; x->NT=nt; x->TM=args[3];x->TN=args[4];x->TK=args[5];
 x->a_bytes=0; x->bytes=x->a_bytes+0;
 for(x->chunk=0;x->chunk<1L;x->chunk++) {
  tw::parallel_for(env,1L*x->TM*x->TN*x->TK,task,x);
 }
 return 0; }
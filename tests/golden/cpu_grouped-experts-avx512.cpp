// cpu_grouped version 15, cpu:avx512
namespace tw_golden_group_ {
typedef float T; typedef tw::f32v V; enum { L=16 };
struct Ctx {
 void *const *t; char *ws; T *image, *tables; long chunk, KC, MT, NT, TM, TN, TK, bytes, a_bytes; bool skips; long extent_rows; long blocks, height, full; };
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
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+32L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[38L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[57L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[76L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   c4_2=(c4_2 + (x * b2)); TW_HOLD(c4_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[95L]);
   c5_0=(c5_0 + (x * b0)); TW_HOLD(c5_0);
   c5_1=(c5_1 + (x * b1)); TW_HOLD(c5_1);
   c5_2=(c5_2 + (x * b2)); TW_HOLD(c5_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  __builtin_prefetch(b+133L,0,3);
  __builtin_prefetch(b+149L,0,3);
  __builtin_prefetch(b+165L,0,3);
  V b0=tw::load<V>(b+37L); TW_HOLD(b0);
  V b1=tw::load<V>(b+53L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+69L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[20L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[39L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[58L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[77L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   c4_2=(c4_2 + (x * b2)); TW_HOLD(c4_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[96L]);
   c5_0=(c5_0 + (x * b0)); TW_HOLD(c5_0);
   c5_1=(c5_1 + (x * b1)); TW_HOLD(c5_1);
   c5_2=(c5_2 + (x * b2)); TW_HOLD(c5_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  __builtin_prefetch(b+170L,0,3);
  __builtin_prefetch(b+186L,0,3);
  __builtin_prefetch(b+202L,0,3);
  V b0=tw::load<V>(b+74L); TW_HOLD(b0);
  V b1=tw::load<V>(b+90L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+106L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[21L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[40L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[59L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[78L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   c4_2=(c4_2 + (x * b2)); TW_HOLD(c4_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[97L]);
   c5_0=(c5_0 + (x * b0)); TW_HOLD(c5_0);
   c5_1=(c5_1 + (x * b1)); TW_HOLD(c5_1);
   c5_2=(c5_2 + (x * b2)); TW_HOLD(c5_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  __builtin_prefetch(b+207L,0,3);
  __builtin_prefetch(b+223L,0,3);
  __builtin_prefetch(b+239L,0,3);
  V b0=tw::load<V>(b+111L); TW_HOLD(b0);
  V b1=tw::load<V>(b+127L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+143L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[22L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[41L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[60L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[79L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   c4_2=(c4_2 + (x * b2)); TW_HOLD(c4_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[98L]);
   c5_0=(c5_0 + (x * b0)); TW_HOLD(c5_0);
   c5_1=(c5_1 + (x * b1)); TW_HOLD(c5_1);
   c5_2=(c5_2 + (x * b2)); TW_HOLD(c5_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
  a+=4L; b+=148L; }
 for(;kc>0;kc--){
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+32L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[38L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[57L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[76L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   c4_2=(c4_2 + (x * b2)); TW_HOLD(c4_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[95L]);
   c5_0=(c5_0 + (x * b0)); TW_HOLD(c5_0);
   c5_1=(c5_1 + (x * b1)); TW_HOLD(c5_1);
   c5_2=(c5_2 + (x * b2)); TW_HOLD(c5_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
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
TW_NOINLINE void mk_5x3t(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 __builtin_prefetch(c+0L,1,3); __builtin_prefetch(c+16L,1,3); __builtin_prefetch(c+32L,1,3);
 __builtin_prefetch(c+37L,1,3); __builtin_prefetch(c+53L,1,3); __builtin_prefetch(c+69L,1,3);
 __builtin_prefetch(c+74L,1,3); __builtin_prefetch(c+90L,1,3); __builtin_prefetch(c+106L,1,3);
 __builtin_prefetch(c+111L,1,3); __builtin_prefetch(c+127L,1,3); __builtin_prefetch(c+143L,1,3);
 __builtin_prefetch(c+148L,1,3); __builtin_prefetch(c+164L,1,3); __builtin_prefetch(c+180L,1,3);
 V c0_0={}, c0_1={}, c0_2={};
 V c1_0={}, c1_1={}, c1_2={};
 V c2_0={}, c2_1={}, c2_2={};
 V c3_0={}, c3_1={}, c3_2={};
 V c4_0={}, c4_1={}, c4_2={};
 for(;kc>=4;kc-=4){
 {
  __builtin_prefetch(b+96L,0,3);
  __builtin_prefetch(b+112L,0,3);
  __builtin_prefetch(b+128L,0,3);
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+32L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[38L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[57L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[76L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   c4_2=(c4_2 + (x * b2)); TW_HOLD(c4_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  __builtin_prefetch(b+133L,0,3);
  __builtin_prefetch(b+149L,0,3);
  __builtin_prefetch(b+165L,0,3);
  V b0=tw::load<V>(b+37L); TW_HOLD(b0);
  V b1=tw::load<V>(b+53L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+69L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[20L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[39L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[58L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[77L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   c4_2=(c4_2 + (x * b2)); TW_HOLD(c4_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  __builtin_prefetch(b+170L,0,3);
  __builtin_prefetch(b+186L,0,3);
  __builtin_prefetch(b+202L,0,3);
  V b0=tw::load<V>(b+74L); TW_HOLD(b0);
  V b1=tw::load<V>(b+90L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+106L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[21L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[40L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[59L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[78L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   c4_2=(c4_2 + (x * b2)); TW_HOLD(c4_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  __builtin_prefetch(b+207L,0,3);
  __builtin_prefetch(b+223L,0,3);
  __builtin_prefetch(b+239L,0,3);
  V b0=tw::load<V>(b+111L); TW_HOLD(b0);
  V b1=tw::load<V>(b+127L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+143L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[22L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[41L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[60L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[79L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   c4_2=(c4_2 + (x * b2)); TW_HOLD(c4_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
  a+=4L; b+=148L; }
 for(;kc>0;kc--){
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+32L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[38L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[57L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[76L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   c4_2=(c4_2 + (x * b2)); TW_HOLD(c4_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
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
}
TW_NOINLINE void mk_4x3t(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 __builtin_prefetch(c+0L,1,3); __builtin_prefetch(c+16L,1,3); __builtin_prefetch(c+32L,1,3);
 __builtin_prefetch(c+37L,1,3); __builtin_prefetch(c+53L,1,3); __builtin_prefetch(c+69L,1,3);
 __builtin_prefetch(c+74L,1,3); __builtin_prefetch(c+90L,1,3); __builtin_prefetch(c+106L,1,3);
 __builtin_prefetch(c+111L,1,3); __builtin_prefetch(c+127L,1,3); __builtin_prefetch(c+143L,1,3);
 V c0_0={}, c0_1={}, c0_2={};
 V c1_0={}, c1_1={}, c1_2={};
 V c2_0={}, c2_1={}, c2_2={};
 V c3_0={}, c3_1={}, c3_2={};
 for(;kc>=4;kc-=4){
 {
  __builtin_prefetch(b+96L,0,3);
  __builtin_prefetch(b+112L,0,3);
  __builtin_prefetch(b+128L,0,3);
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+32L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[38L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[57L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  __builtin_prefetch(b+133L,0,3);
  __builtin_prefetch(b+149L,0,3);
  __builtin_prefetch(b+165L,0,3);
  V b0=tw::load<V>(b+37L); TW_HOLD(b0);
  V b1=tw::load<V>(b+53L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+69L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[20L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[39L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[58L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  __builtin_prefetch(b+170L,0,3);
  __builtin_prefetch(b+186L,0,3);
  __builtin_prefetch(b+202L,0,3);
  V b0=tw::load<V>(b+74L); TW_HOLD(b0);
  V b1=tw::load<V>(b+90L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+106L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[21L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[40L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[59L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  __builtin_prefetch(b+207L,0,3);
  __builtin_prefetch(b+223L,0,3);
  __builtin_prefetch(b+239L,0,3);
  V b0=tw::load<V>(b+111L); TW_HOLD(b0);
  V b1=tw::load<V>(b+127L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+143L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[22L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[41L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[60L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
  a+=4L; b+=148L; }
 for(;kc>0;kc--){
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+32L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[38L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[57L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
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
}
TW_NOINLINE void mk_3x3t(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 __builtin_prefetch(c+0L,1,3); __builtin_prefetch(c+16L,1,3); __builtin_prefetch(c+32L,1,3);
 __builtin_prefetch(c+37L,1,3); __builtin_prefetch(c+53L,1,3); __builtin_prefetch(c+69L,1,3);
 __builtin_prefetch(c+74L,1,3); __builtin_prefetch(c+90L,1,3); __builtin_prefetch(c+106L,1,3);
 V c0_0={}, c0_1={}, c0_2={};
 V c1_0={}, c1_1={}, c1_2={};
 V c2_0={}, c2_1={}, c2_2={};
 for(;kc>=4;kc-=4){
 {
  __builtin_prefetch(b+96L,0,3);
  __builtin_prefetch(b+112L,0,3);
  __builtin_prefetch(b+128L,0,3);
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+32L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[38L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  __builtin_prefetch(b+133L,0,3);
  __builtin_prefetch(b+149L,0,3);
  __builtin_prefetch(b+165L,0,3);
  V b0=tw::load<V>(b+37L); TW_HOLD(b0);
  V b1=tw::load<V>(b+53L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+69L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[20L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[39L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  __builtin_prefetch(b+170L,0,3);
  __builtin_prefetch(b+186L,0,3);
  __builtin_prefetch(b+202L,0,3);
  V b0=tw::load<V>(b+74L); TW_HOLD(b0);
  V b1=tw::load<V>(b+90L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+106L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[21L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[40L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  __builtin_prefetch(b+207L,0,3);
  __builtin_prefetch(b+223L,0,3);
  __builtin_prefetch(b+239L,0,3);
  V b0=tw::load<V>(b+111L); TW_HOLD(b0);
  V b1=tw::load<V>(b+127L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+143L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[22L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[41L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
  a+=4L; b+=148L; }
 for(;kc>0;kc--){
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+32L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[38L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
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
}
TW_NOINLINE void mk_2x3t(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 __builtin_prefetch(c+0L,1,3); __builtin_prefetch(c+16L,1,3); __builtin_prefetch(c+32L,1,3);
 __builtin_prefetch(c+37L,1,3); __builtin_prefetch(c+53L,1,3); __builtin_prefetch(c+69L,1,3);
 V c0_0={}, c0_1={}, c0_2={};
 V c1_0={}, c1_1={}, c1_2={};
 for(;kc>=4;kc-=4){
 {
  __builtin_prefetch(b+96L,0,3);
  __builtin_prefetch(b+112L,0,3);
  __builtin_prefetch(b+128L,0,3);
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+32L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  __builtin_prefetch(b+133L,0,3);
  __builtin_prefetch(b+149L,0,3);
  __builtin_prefetch(b+165L,0,3);
  V b0=tw::load<V>(b+37L); TW_HOLD(b0);
  V b1=tw::load<V>(b+53L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+69L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[20L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  __builtin_prefetch(b+170L,0,3);
  __builtin_prefetch(b+186L,0,3);
  __builtin_prefetch(b+202L,0,3);
  V b0=tw::load<V>(b+74L); TW_HOLD(b0);
  V b1=tw::load<V>(b+90L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+106L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[21L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  __builtin_prefetch(b+207L,0,3);
  __builtin_prefetch(b+223L,0,3);
  __builtin_prefetch(b+239L,0,3);
  V b0=tw::load<V>(b+111L); TW_HOLD(b0);
  V b1=tw::load<V>(b+127L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+143L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[22L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
  a+=4L; b+=148L; }
 for(;kc>0;kc--){
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+32L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
  a+=1L; b+=37L; }
 if(mode&1){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+16L) + c0_1);
   c0_2=(tw::load_n<V>(c+32L,tail) + c0_2);
   c1_0=(tw::load<V>(c+37L) + c1_0);
   c1_1=(tw::load<V>(c+53L) + c1_1);
   c1_2=(tw::load_n<V>(c+69L,tail) + c1_2);
 }
  tw::store(c+0L,c0_0);
  tw::store(c+16L,c0_1);
  tw::store_n(c+32L,c0_2,tail);
  tw::store(c+37L,c1_0);
  tw::store(c+53L,c1_1);
  tw::store_n(c+69L,c1_2,tail);
}
TW_NOINLINE void mk_1x3t(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 __builtin_prefetch(c+0L,1,3); __builtin_prefetch(c+16L,1,3); __builtin_prefetch(c+32L,1,3);
 V c0_0={}, c0_1={}, c0_2={};
 for(;kc>=4;kc-=4){
 {
  __builtin_prefetch(b+96L,0,3);
  __builtin_prefetch(b+112L,0,3);
  __builtin_prefetch(b+128L,0,3);
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+32L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  __builtin_prefetch(b+133L,0,3);
  __builtin_prefetch(b+149L,0,3);
  __builtin_prefetch(b+165L,0,3);
  V b0=tw::load<V>(b+37L); TW_HOLD(b0);
  V b1=tw::load<V>(b+53L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+69L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  __builtin_prefetch(b+170L,0,3);
  __builtin_prefetch(b+186L,0,3);
  __builtin_prefetch(b+202L,0,3);
  V b0=tw::load<V>(b+74L); TW_HOLD(b0);
  V b1=tw::load<V>(b+90L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+106L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  __builtin_prefetch(b+207L,0,3);
  __builtin_prefetch(b+223L,0,3);
  __builtin_prefetch(b+239L,0,3);
  V b0=tw::load<V>(b+111L); TW_HOLD(b0);
  V b1=tw::load<V>(b+127L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+143L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
  a+=4L; b+=148L; }
 for(;kc>0;kc--){
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  V b2=tw::load_n<V>(b+32L,tail); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
  a+=1L; b+=37L; }
 if(mode&1){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+16L) + c0_1);
   c0_2=(tw::load_n<V>(c+32L,tail) + c0_2);
 }
  tw::store(c+0L,c0_0);
  tw::store(c+16L,c0_1);
  tw::store_n(c+32L,c0_2,tail);
}
TW_NOINLINE void task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
 const long extent_rows=x->extent_rows; (void)extent_rows;
 const long ti=t%x->TM; t/=x->TM; const long tj=t%x->TN; t/=x->TN;
 const long tk=t%x->TK, o=t/x->TK; (void)o;
 const long r0=ti*x->blocks/x->TM, r1=(ti+1)*x->blocks/x->TM, c0=tj*1L/x->TN, c1=(tj+1)*1L/x->TN;
 const long k0=tk*19L/x->TK, k1=(tk+1)*19L/x->TK;
 float *out=(float*)x->t[2]+0L;
 const T *A=(const T*)x->t[0]+0L;
 const T *B=(const T*)x->t[1]+0L;
 for(long cb0=c0;cb0<c1;cb0+=x->NT) { const long cb1=tw::imin(c1,cb0+x->NT);
  for(long pc=k0;pc<k1;pc+=x->KC) { const long kc=tw::imin(k1-pc,x->KC);
   const long mode=(pc>k0)|(pc+kc>=k1?2:0); (void)mode;
   for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);
    for(long cb=cb0;cb<cb1;cb++) for(long rb=rb0;rb<rb1;rb++) {
     const long l0=((rb)*x->height-tw::imax(0,(rb)-x->full));
     const T *a=A+l0*19L+pc*1L;
     const T *b=B+(cb)*3L*16L+pc*37L;
     T *c=out+l0*37L+(cb)*3L*16L;
     switch((x->height-((rb)>=x->full))) { case 6: if(cb==0L) { mk_6x3t(kc,a,b,c,mode,(cb==0L?5L:16L)); } break; case 5: if(cb==0L) { mk_5x3t(kc,a,b,c,mode,(cb==0L?5L:16L)); } break; case 4: if(cb==0L) { mk_4x3t(kc,a,b,c,mode,(cb==0L?5L:16L)); } break; case 3: if(cb==0L) { mk_3x3t(kc,a,b,c,mode,(cb==0L?5L:16L)); } break; case 2: if(cb==0L) { mk_2x3t(kc,a,b,c,mode,(cb==0L?5L:16L)); } break; case 1: if(cb==0L) { mk_1x3t(kc,a,b,c,mode,(cb==0L?5L:16L)); } break; }
    } } } } }
}
TW_ENTRY(tw_golden_group) { using namespace tw_golden_group_; (void)workspace;
 Ctx c{}; Ctx *x=&c; x->extent_rows=args[6];
  const long extent_rows=x->extent_rows; (void)extent_rows; 
 { const long n=extent_rows; x->blocks=(n+5L)/6L; x->height=(n+x->blocks-1)/x->blocks; x->full=n-x->blocks*(x->height-1); }
 const long mt=tw::imin(tw::imax(1,args[1]/6),x->blocks);
 const long nt=tw::imin(tw::imax(1,args[2]/48),1L);
 x->t=tensors; x->ws=(char*)workspace+0L; x->image=(T*)workspace;
 x->tables=(T*)((char*)workspace+0L); x->KC=args[0]; x->MT=mt; x->NT=nt; x->TM=args[3];x->TN=args[4];x->TK=args[5];
 x->a_bytes=0; x->bytes=x->a_bytes+0;
 for(x->chunk=0;x->chunk<1L;x->chunk++) {
  tw::parallel_for(env,1L*x->TM*x->TN*x->TK,task,x);
 }
 return 0; }
namespace tw_golden_ {
struct tw_golden_task1_ctx {
 const tw_env * env;
 const float * x0;
 const float * x1;
 const int * x2;
 float * s0;
 long * order;
 long * first;
 float * rows0;
 float * sorted;
 long units;
 long tasks_;
};
TW_NOINLINE void tw_golden_task1(void *ctx_, long task_, long worker_) {
 (void)worker_;
 const tw_golden_task1_ctx &c_ = *(const tw_golden_task1_ctx *)ctx_;
 const tw_env * const env = c_.env;
 const float * const x0 = c_.x0;
 const float * const x1 = c_.x1;
 const int * const x2 = c_.x2;
 float * const s0 = c_.s0;
 long * const order = c_.order;
 long * const first = c_.first;
 float * const rows0 = c_.rows0;
 float * const sorted = c_.sorted;
 const long &units = c_.units;
 const long &tasks_ = c_.tasks_;
 const long u0 = task_ * units / tasks_, u1 = (task_ + 1) * units / tasks_;
 long q_ = u0;
 long row_3 = q_;
 for (long u_ = u0; u_ < u1; u_++) {
  __builtin_memcpy(s0 + order[row_3] * 37L, sorted + row_3 * 37L, 148L);
  row_3++;
 }
}
struct tw_golden_task0_ctx {
 const tw_env * env;
 const float * x0;
 const float * x1;
 const int * x2;
 float * s0;
 long * order;
 long * first;
 float * rows0;
 float * sorted;
 long units;
 long tasks_;
};
TW_NOINLINE void tw_golden_task0(void *ctx_, long task_, long worker_) {
 (void)worker_;
 const tw_golden_task0_ctx &c_ = *(const tw_golden_task0_ctx *)ctx_;
 const tw_env * const env = c_.env;
 const float * const x0 = c_.x0;
 const float * const x1 = c_.x1;
 const int * const x2 = c_.x2;
 float * const s0 = c_.s0;
 long * const order = c_.order;
 long * const first = c_.first;
 float * const rows0 = c_.rows0;
 float * const sorted = c_.sorted;
 const long &units = c_.units;
 const long &tasks_ = c_.tasks_;
 const long u0 = task_ * units / tasks_, u1 = (task_ + 1) * units / tasks_;
 long q_ = u0;
 long row_1 = q_;
 for (long u_ = u0; u_ < u1; u_++) {
  const long r_ = order[row_1];
  __builtin_memcpy(rows0 + row_1 * 19L, x0 + (r_*19L), 76L);
  row_1++;
 }
}
}
TW_ENTRY(tw_golden) {
 (void)tensors; (void)args; (void)workspace; (void)env;
 using namespace tw_golden_;
 const float *const x0 = (const float *)tensors[0];
 const float *const x1 = (const float *)tensors[1];
 const int *const x2 = (const int *)tensors[2];
 float *const s0 = (float *)tensors[3];
 long *const order = (long *)((char *)workspace + 0L);
 long *const first = (long *)((char *)workspace + 4096L);
 float *const rows0 = (float *)((char *)workspace + 8192L);
 float *const sorted = (float *)((char *)workspace + 12288L);
 for (long g_ = 0; g_ <= 5L; g_++) first[g_] = 0;
 for (long r_ = 0; r_ < 29L; r_++) first[tw::min<long>(tw::max<long>((long)(x2[r_]), 0L), 4L) + 1]++;
 for (long g_ = 0; g_ < 5L; g_++) first[g_ + 1] += first[g_];
 for (long r_ = 0; r_ < 29L; r_++) order[first[tw::min<long>(tw::max<long>((long)(x2[r_]), 0L), 4L)]++] = r_;
 for (long g_ = 5L; g_ > 0; g_--) first[g_] = first[g_ - 1];
 first[0] = 0;
 {
  const long units = 29L, tasks_ = tw::imin(2L, units);
  {
   tw_golden_task0_ctx ctx2 = {env, x0, x1, x2, s0, order, first, rows0, sorted, units, tasks_};
   tw::parallel_for(env, tasks_, tw_golden_task0, &ctx2);
  }
 }
 for (long g_ = 0; g_ < 5L; g_++) {
  const long from = first[g_], count = first[g_ + 1] - from;
  if (count == 0) continue;
  void *const of_group[] = {(void *)(rows0 + from * 19L), (void *)(x1 + g_ * 703L), (void *)(sorted + from * 37L)};
  const long long chosen[] = {args[0], args[1], args[2], args[3], args[4], args[5], count};
  if (const int code = tw_golden_group(of_group, chosen, (char *)workspace + 20480L, env)) return code;
 }
 {
  const long units = 29L, tasks_ = tw::imin(2L, units);
  {
   tw_golden_task1_ctx ctx4 = {env, x0, x1, x2, s0, order, first, rows0, sorted, units, tasks_};
   tw::parallel_for(env, tasks_, tw_golden_task1, &ctx4);
  }
 }
 return 0;
}

// cpu_contraction version 8, cpu:avx512
namespace tw_golden_ {
typedef float T; typedef tw::f32v V; enum { L=16 };
struct Ctx {
 void *const *t; char *ws; T *image, *tables; long chunk, KC, MT, NT, TM, TN, TK, bytes, a_bytes; bool skips; };
typedef tw::vec<T,4> V4;
TW_INLINE void turn4(const T *s0,const T *s1,const T *s2,const T *s3,T *d) {
 const V4 a=tw::load<V4>(s0),b=tw::load<V4>(s1),c=tw::load<V4>(s2),e=tw::load<V4>(s3);
 const V4 ab=__builtin_shufflevector(a,b,0,4,1,5),AB=__builtin_shufflevector(a,b,2,6,3,7);
 const V4 ce=__builtin_shufflevector(c,e,0,4,1,5),CE=__builtin_shufflevector(c,e,2,6,3,7);
 tw::store(d,__builtin_shufflevector(ab,ce,0,1,4,5)); tw::store(d+48,__builtin_shufflevector(ab,ce,2,3,6,7));
 tw::store(d+96,__builtin_shufflevector(AB,CE,0,1,4,5));
 tw::store(d+144,__builtin_shufflevector(AB,CE,2,3,6,7));
}
TW_NOINLINE void pack_b(const Ctx *x, long o, long cb, long ce, long k0, long kc, T *TW_RESTRICT q) {
 (void)o;
 const T *base=(const T*)x->t[1]+0L+k0*1L;
 for(;cb<ce;cb++) { const long j0=(cb)*3L*16L, n=tw::imin(48L,33L-j0);
  const T *s=base+j0*7L;
  long l=0;
  for(;l+4<=n;l+=4) { const T *s0=s+l*7L,*s1=s0+7L,*s2=s1+7L,*s3=s2+7L; T *d=q+l;
   long kk=0;
   for(;kk+4<=kc;kk+=4,d+=192) turn4(s0+kk,s1+kk,s2+kk,s3+kk,d);
   for(;kk<kc;kk++,d+=48) { d[0]=s0[kk*1L]; d[1]=s1[kk*1L]; d[2]=s2[kk*1L]; d[3]=s3[kk*1L]; } }
  for(;l<n;l++) for(long kk=0;kk<kc;kk++) q[kk*48+l]=s[l*7L+kk*1L];
  for(;l<48;l++) for(long kk=0;kk<kc;kk++) q[kk*48+l]=0;

  q+=kc*48L; } }
TW_NOINLINE void finish(const Ctx *x, long o, long m0, long n0, long rows, long cols, const T *s, long lds, float *d, const T *e0) {
 (void)x; (void)o; (void)m0; (void)n0;


 for(long j=0;j<cols;j+=L) { const long n=cols-j;
  const V e0_=(n>=L?tw::load<V>(e0+0L*0+1L*j):tw::load_n<V>(e0+0L*0+1L*j,n));
  for(long i=0;i<rows;i++) {
  V v=n>=L?tw::load<V>(s+i*lds+j):tw::load_n<V>(s+i*lds+j,n);
  const V f0=(v + e0_);
  v=((f0 * (float)(0.5f)) * ((float)(1.0f) + tw::erf((f0 * (float)(0x1.6a09e65dc27dfp-1f)))));
  float *q=d+i*33L+j; if(n>=L) tw::store(q,v); else tw::store_n(q,v,n); } }
}
TW_NOINLINE void mk_9x3(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 __builtin_prefetch(c+0L,1,3); __builtin_prefetch(c+16L,1,3); __builtin_prefetch(c+32L,1,3);
 __builtin_prefetch(c+33L,1,3); __builtin_prefetch(c+49L,1,3); __builtin_prefetch(c+65L,1,3);
 __builtin_prefetch(c+66L,1,3); __builtin_prefetch(c+82L,1,3); __builtin_prefetch(c+98L,1,3);
 __builtin_prefetch(c+99L,1,3); __builtin_prefetch(c+115L,1,3); __builtin_prefetch(c+131L,1,3);
 __builtin_prefetch(c+132L,1,3); __builtin_prefetch(c+148L,1,3); __builtin_prefetch(c+164L,1,3);
 __builtin_prefetch(c+165L,1,3); __builtin_prefetch(c+181L,1,3); __builtin_prefetch(c+197L,1,3);
 __builtin_prefetch(c+198L,1,3); __builtin_prefetch(c+214L,1,3); __builtin_prefetch(c+230L,1,3);
 __builtin_prefetch(c+231L,1,3); __builtin_prefetch(c+247L,1,3); __builtin_prefetch(c+263L,1,3);
 __builtin_prefetch(c+264L,1,3); __builtin_prefetch(c+280L,1,3); __builtin_prefetch(c+296L,1,3);
 V c0_0={}, c0_1={}, c0_2={};
 V c1_0={}, c1_1={}, c1_2={};
 V c2_0={}, c2_1={}, c2_2={};
 V c3_0={}, c3_1={}, c3_2={};
 V c4_0={}, c4_1={}, c4_2={};
 V c5_0={}, c5_1={}, c5_2={};
 V c6_0={}, c6_1={}, c6_2={};
 V c7_0={}, c7_1={}, c7_2={};
 V c8_0={}, c8_1={}, c8_2={};
 for(;kc>=4;kc-=4){
 {
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  V b2=tw::load<V>(b+32L); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[7L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[14L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[21L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[28L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   c4_2=(c4_2 + (x * b2)); TW_HOLD(c4_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[35L]);
   c5_0=(c5_0 + (x * b0)); TW_HOLD(c5_0);
   c5_1=(c5_1 + (x * b1)); TW_HOLD(c5_1);
   c5_2=(c5_2 + (x * b2)); TW_HOLD(c5_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[42L]);
   c6_0=(c6_0 + (x * b0)); TW_HOLD(c6_0);
   c6_1=(c6_1 + (x * b1)); TW_HOLD(c6_1);
   c6_2=(c6_2 + (x * b2)); TW_HOLD(c6_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[49L]);
   c7_0=(c7_0 + (x * b0)); TW_HOLD(c7_0);
   c7_1=(c7_1 + (x * b1)); TW_HOLD(c7_1);
   c7_2=(c7_2 + (x * b2)); TW_HOLD(c7_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[56L]);
   c8_0=(c8_0 + (x * b0)); TW_HOLD(c8_0);
   c8_1=(c8_1 + (x * b1)); TW_HOLD(c8_1);
   c8_2=(c8_2 + (x * b2)); TW_HOLD(c8_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  V b0=tw::load<V>(b+48L); TW_HOLD(b0);
  V b1=tw::load<V>(b+64L); TW_HOLD(b1);
  V b2=tw::load<V>(b+80L); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[8L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[15L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[22L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[29L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   c4_2=(c4_2 + (x * b2)); TW_HOLD(c4_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[36L]);
   c5_0=(c5_0 + (x * b0)); TW_HOLD(c5_0);
   c5_1=(c5_1 + (x * b1)); TW_HOLD(c5_1);
   c5_2=(c5_2 + (x * b2)); TW_HOLD(c5_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[43L]);
   c6_0=(c6_0 + (x * b0)); TW_HOLD(c6_0);
   c6_1=(c6_1 + (x * b1)); TW_HOLD(c6_1);
   c6_2=(c6_2 + (x * b2)); TW_HOLD(c6_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[50L]);
   c7_0=(c7_0 + (x * b0)); TW_HOLD(c7_0);
   c7_1=(c7_1 + (x * b1)); TW_HOLD(c7_1);
   c7_2=(c7_2 + (x * b2)); TW_HOLD(c7_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[57L]);
   c8_0=(c8_0 + (x * b0)); TW_HOLD(c8_0);
   c8_1=(c8_1 + (x * b1)); TW_HOLD(c8_1);
   c8_2=(c8_2 + (x * b2)); TW_HOLD(c8_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  V b0=tw::load<V>(b+96L); TW_HOLD(b0);
  V b1=tw::load<V>(b+112L); TW_HOLD(b1);
  V b2=tw::load<V>(b+128L); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[9L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[16L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[23L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[30L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   c4_2=(c4_2 + (x * b2)); TW_HOLD(c4_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[37L]);
   c5_0=(c5_0 + (x * b0)); TW_HOLD(c5_0);
   c5_1=(c5_1 + (x * b1)); TW_HOLD(c5_1);
   c5_2=(c5_2 + (x * b2)); TW_HOLD(c5_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[44L]);
   c6_0=(c6_0 + (x * b0)); TW_HOLD(c6_0);
   c6_1=(c6_1 + (x * b1)); TW_HOLD(c6_1);
   c6_2=(c6_2 + (x * b2)); TW_HOLD(c6_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[51L]);
   c7_0=(c7_0 + (x * b0)); TW_HOLD(c7_0);
   c7_1=(c7_1 + (x * b1)); TW_HOLD(c7_1);
   c7_2=(c7_2 + (x * b2)); TW_HOLD(c7_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[58L]);
   c8_0=(c8_0 + (x * b0)); TW_HOLD(c8_0);
   c8_1=(c8_1 + (x * b1)); TW_HOLD(c8_1);
   c8_2=(c8_2 + (x * b2)); TW_HOLD(c8_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
 {
  V b0=tw::load<V>(b+144L); TW_HOLD(b0);
  V b1=tw::load<V>(b+160L); TW_HOLD(b1);
  V b2=tw::load<V>(b+176L); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[10L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[17L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[24L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[31L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   c4_2=(c4_2 + (x * b2)); TW_HOLD(c4_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[38L]);
   c5_0=(c5_0 + (x * b0)); TW_HOLD(c5_0);
   c5_1=(c5_1 + (x * b1)); TW_HOLD(c5_1);
   c5_2=(c5_2 + (x * b2)); TW_HOLD(c5_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[45L]);
   c6_0=(c6_0 + (x * b0)); TW_HOLD(c6_0);
   c6_1=(c6_1 + (x * b1)); TW_HOLD(c6_1);
   c6_2=(c6_2 + (x * b2)); TW_HOLD(c6_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[52L]);
   c7_0=(c7_0 + (x * b0)); TW_HOLD(c7_0);
   c7_1=(c7_1 + (x * b1)); TW_HOLD(c7_1);
   c7_2=(c7_2 + (x * b2)); TW_HOLD(c7_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[59L]);
   c8_0=(c8_0 + (x * b0)); TW_HOLD(c8_0);
   c8_1=(c8_1 + (x * b1)); TW_HOLD(c8_1);
   c8_2=(c8_2 + (x * b2)); TW_HOLD(c8_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
 }
  a+=4L; b+=192L; }
 for(;kc>0;kc--){
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  V b2=tw::load<V>(b+32L); TW_HOLD(b2);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   c0_2=(c0_2 + (x * b2)); TW_HOLD(c0_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[7L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   c1_2=(c1_2 + (x * b2)); TW_HOLD(c1_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[14L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   c2_2=(c2_2 + (x * b2)); TW_HOLD(c2_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[21L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   c3_2=(c3_2 + (x * b2)); TW_HOLD(c3_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[28L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   c4_2=(c4_2 + (x * b2)); TW_HOLD(c4_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[35L]);
   c5_0=(c5_0 + (x * b0)); TW_HOLD(c5_0);
   c5_1=(c5_1 + (x * b1)); TW_HOLD(c5_1);
   c5_2=(c5_2 + (x * b2)); TW_HOLD(c5_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[42L]);
   c6_0=(c6_0 + (x * b0)); TW_HOLD(c6_0);
   c6_1=(c6_1 + (x * b1)); TW_HOLD(c6_1);
   c6_2=(c6_2 + (x * b2)); TW_HOLD(c6_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[49L]);
   c7_0=(c7_0 + (x * b0)); TW_HOLD(c7_0);
   c7_1=(c7_1 + (x * b1)); TW_HOLD(c7_1);
   c7_2=(c7_2 + (x * b2)); TW_HOLD(c7_2);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[56L]);
   c8_0=(c8_0 + (x * b0)); TW_HOLD(c8_0);
   c8_1=(c8_1 + (x * b1)); TW_HOLD(c8_1);
   c8_2=(c8_2 + (x * b2)); TW_HOLD(c8_2);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1); TW_KEEP(b2);
  a+=1L; b+=48L; }
 if(mode&1){
  if(tail==16){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+16L) + c0_1);
   c0_2=(tw::load<V>(c+32L) + c0_2);
   c1_0=(tw::load<V>(c+33L) + c1_0);
   c1_1=(tw::load<V>(c+49L) + c1_1);
   c1_2=(tw::load<V>(c+65L) + c1_2);
   c2_0=(tw::load<V>(c+66L) + c2_0);
   c2_1=(tw::load<V>(c+82L) + c2_1);
   c2_2=(tw::load<V>(c+98L) + c2_2);
   c3_0=(tw::load<V>(c+99L) + c3_0);
   c3_1=(tw::load<V>(c+115L) + c3_1);
   c3_2=(tw::load<V>(c+131L) + c3_2);
   c4_0=(tw::load<V>(c+132L) + c4_0);
   c4_1=(tw::load<V>(c+148L) + c4_1);
   c4_2=(tw::load<V>(c+164L) + c4_2);
   c5_0=(tw::load<V>(c+165L) + c5_0);
   c5_1=(tw::load<V>(c+181L) + c5_1);
   c5_2=(tw::load<V>(c+197L) + c5_2);
   c6_0=(tw::load<V>(c+198L) + c6_0);
   c6_1=(tw::load<V>(c+214L) + c6_1);
   c6_2=(tw::load<V>(c+230L) + c6_2);
   c7_0=(tw::load<V>(c+231L) + c7_0);
   c7_1=(tw::load<V>(c+247L) + c7_1);
   c7_2=(tw::load<V>(c+263L) + c7_2);
   c8_0=(tw::load<V>(c+264L) + c8_0);
   c8_1=(tw::load<V>(c+280L) + c8_1);
   c8_2=(tw::load<V>(c+296L) + c8_2);
  } else {
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+16L) + c0_1);
   c0_2=(tw::load_n<V>(c+32L,tail) + c0_2);
   c1_0=(tw::load<V>(c+33L) + c1_0);
   c1_1=(tw::load<V>(c+49L) + c1_1);
   c1_2=(tw::load_n<V>(c+65L,tail) + c1_2);
   c2_0=(tw::load<V>(c+66L) + c2_0);
   c2_1=(tw::load<V>(c+82L) + c2_1);
   c2_2=(tw::load_n<V>(c+98L,tail) + c2_2);
   c3_0=(tw::load<V>(c+99L) + c3_0);
   c3_1=(tw::load<V>(c+115L) + c3_1);
   c3_2=(tw::load_n<V>(c+131L,tail) + c3_2);
   c4_0=(tw::load<V>(c+132L) + c4_0);
   c4_1=(tw::load<V>(c+148L) + c4_1);
   c4_2=(tw::load_n<V>(c+164L,tail) + c4_2);
   c5_0=(tw::load<V>(c+165L) + c5_0);
   c5_1=(tw::load<V>(c+181L) + c5_1);
   c5_2=(tw::load_n<V>(c+197L,tail) + c5_2);
   c6_0=(tw::load<V>(c+198L) + c6_0);
   c6_1=(tw::load<V>(c+214L) + c6_1);
   c6_2=(tw::load_n<V>(c+230L,tail) + c6_2);
   c7_0=(tw::load<V>(c+231L) + c7_0);
   c7_1=(tw::load<V>(c+247L) + c7_1);
   c7_2=(tw::load_n<V>(c+263L,tail) + c7_2);
   c8_0=(tw::load<V>(c+264L) + c8_0);
   c8_1=(tw::load<V>(c+280L) + c8_1);
   c8_2=(tw::load_n<V>(c+296L,tail) + c8_2);
  }
 }
 if(tail==16){
  tw::store(c+0L,c0_0);
  tw::store(c+16L,c0_1);
  tw::store(c+32L,c0_2);
  tw::store(c+33L,c1_0);
  tw::store(c+49L,c1_1);
  tw::store(c+65L,c1_2);
  tw::store(c+66L,c2_0);
  tw::store(c+82L,c2_1);
  tw::store(c+98L,c2_2);
  tw::store(c+99L,c3_0);
  tw::store(c+115L,c3_1);
  tw::store(c+131L,c3_2);
  tw::store(c+132L,c4_0);
  tw::store(c+148L,c4_1);
  tw::store(c+164L,c4_2);
  tw::store(c+165L,c5_0);
  tw::store(c+181L,c5_1);
  tw::store(c+197L,c5_2);
  tw::store(c+198L,c6_0);
  tw::store(c+214L,c6_1);
  tw::store(c+230L,c6_2);
  tw::store(c+231L,c7_0);
  tw::store(c+247L,c7_1);
  tw::store(c+263L,c7_2);
  tw::store(c+264L,c8_0);
  tw::store(c+280L,c8_1);
  tw::store(c+296L,c8_2);
 } else {
  tw::store(c+0L,c0_0);
  tw::store(c+16L,c0_1);
  tw::store_n(c+32L,c0_2,tail);
  tw::store(c+33L,c1_0);
  tw::store(c+49L,c1_1);
  tw::store_n(c+65L,c1_2,tail);
  tw::store(c+66L,c2_0);
  tw::store(c+82L,c2_1);
  tw::store_n(c+98L,c2_2,tail);
  tw::store(c+99L,c3_0);
  tw::store(c+115L,c3_1);
  tw::store_n(c+131L,c3_2,tail);
  tw::store(c+132L,c4_0);
  tw::store(c+148L,c4_1);
  tw::store_n(c+164L,c4_2,tail);
  tw::store(c+165L,c5_0);
  tw::store(c+181L,c5_1);
  tw::store_n(c+197L,c5_2,tail);
  tw::store(c+198L,c6_0);
  tw::store(c+214L,c6_1);
  tw::store_n(c+230L,c6_2,tail);
  tw::store(c+231L,c7_0);
  tw::store(c+247L,c7_1);
  tw::store_n(c+263L,c7_2,tail);
  tw::store(c+264L,c8_0);
  tw::store(c+280L,c8_1);
  tw::store_n(c+296L,c8_2,tail);
 }
}
TW_NOINLINE void task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
 T *pb=(T*)(x->ws+w*x->bytes+x->a_bytes);
 const long ti=t%x->TM; t/=x->TM; const long tj=t%x->TN; t/=x->TN;
 const long tk=t%x->TK, o=t/x->TK; (void)o;
 const long r0=ti*2L/x->TM, r1=(ti+1)*2L/x->TM, c0=tj*1L/x->TN, c1=(tj+1)*1L/x->TN;
 const long k0=tk*7L/x->TK, k1=(tk+1)*7L/x->TK;
 float *out=(float*)x->t[3]+0L;
 const T *A=(const T*)x->t[0]+0L;
 const T *e0=(const T*)x->t[2]+0L;
 for(long cb0=c0;cb0<c1;cb0+=x->NT) { const long cb1=tw::imin(c1,cb0+x->NT);
  for(long pc=k0;pc<k1;pc+=x->KC) { const long kc=tw::imin(k1-pc,x->KC);
   const long mode=(pc>k0)|(pc+kc>=k1?2:0); (void)mode;
   pack_b(x,o,cb0,cb1,pc*1L,kc*1L,pb);
   for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);
    for(long cb=cb0;cb<cb1;cb++) for(long rb=rb0;rb<rb1;rb++) {
     const long l0=(rb)*9L;
     const T *a=A+l0*7L+pc*1L;
     const T *b=pb+(cb-cb0)*kc*48L;
     T *c=out+l0*33L+(cb)*3L*16L;
     { mk_9x3(kc,a,b,c,mode,(cb==0L?1L:16L)); }
     if(mode&2) finish(x,o,l0,(cb)*3L*16L,9L,tw::imin(48L,33L-(cb)*3L*16L),c+0L,33L,out+l0*33L+(cb)*3L*16L+0L,e0+0L+0L+1L*((cb)*3L*16L));
    } } } } }
}
TW_ENTRY(tw_golden) { using namespace tw_golden_; (void)workspace;
 const long mt=tw::imin(tw::imax(1,args[1]/9),2L);
 const long nt=tw::imin(tw::imax(1,args[2]/48),1L);
 Ctx c{}; Ctx *x=&c; x->t=tensors; x->ws=(char*)workspace+0L; x->image=(T*)workspace;
 x->tables=(T*)((char*)workspace+0L); x->KC=args[0]; x->MT=mt; x->NT=nt; x->TM=args[3];x->TN=args[4];x->TK=args[5];
 x->a_bytes=0; x->bytes=x->a_bytes+(nt*48L*tw::imin((args[0]+3)/4*4,8L)*4L+4095)/4096*4096;
 for(x->chunk=0;x->chunk<1L;x->chunk++) {
  tw::parallel_for(env,1L*x->TM*x->TN*x->TK,task,x);
 }
 return 0; }
// cpu_contraction version 8, cpu:portable
namespace tw_golden_ {
typedef float T; typedef tw::f32v V; enum { L=4 };
struct Ctx {
 void *const *t; char *ws; T *image, *tables; long chunk, KC, MT, NT, TM, TN, TK, bytes, a_bytes; bool skips; };
typedef tw::vec<T,4> V4;
TW_INLINE void turn4(const T *s0,const T *s1,const T *s2,const T *s3,T *d) {
 const V4 a=tw::load<V4>(s0),b=tw::load<V4>(s1),c=tw::load<V4>(s2),e=tw::load<V4>(s3);
 const V4 ab=__builtin_shufflevector(a,b,0,4,1,5),AB=__builtin_shufflevector(a,b,2,6,3,7);
 const V4 ce=__builtin_shufflevector(c,e,0,4,1,5),CE=__builtin_shufflevector(c,e,2,6,3,7);
 tw::store(d,__builtin_shufflevector(ab,ce,0,1,4,5)); tw::store(d+8,__builtin_shufflevector(ab,ce,2,3,6,7));
 tw::store(d+16,__builtin_shufflevector(AB,CE,0,1,4,5));
 tw::store(d+24,__builtin_shufflevector(AB,CE,2,3,6,7));
}
TW_NOINLINE void pack_b(const Ctx *x, long o, long cb, long ce, long k0, long kc, T *TW_RESTRICT q) {
 (void)o;
 const T *base=(const T*)x->t[1]+0L+k0*1L;
 for(;cb<ce;cb++) { const long j0=((cb)*2L-tw::imax(0,(cb)-4L))*4L, n=tw::imin(8L,33L-j0);
  const T *s=base+j0*7L;
  long l=0;
  for(;l+4<=n;l+=4) { const T *s0=s+l*7L,*s1=s0+7L,*s2=s1+7L,*s3=s2+7L; T *d=q+l;
   long kk=0;
   for(;kk+4<=kc;kk+=4,d+=32) turn4(s0+kk,s1+kk,s2+kk,s3+kk,d);
   for(;kk<kc;kk++,d+=8) { d[0]=s0[kk*1L]; d[1]=s1[kk*1L]; d[2]=s2[kk*1L]; d[3]=s3[kk*1L]; } }
  for(;l<n;l++) for(long kk=0;kk<kc;kk++) q[kk*8+l]=s[l*7L+kk*1L];
  for(;l<8;l++) for(long kk=0;kk<kc;kk++) q[kk*8+l]=0;

  q+=kc*8L; } }
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
TW_NOINLINE void mk_6x2(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 __builtin_prefetch(c+0L,1,3);
 __builtin_prefetch(c+33L,1,3);
 __builtin_prefetch(c+66L,1,3);
 __builtin_prefetch(c+99L,1,3);
 __builtin_prefetch(c+132L,1,3);
 __builtin_prefetch(c+165L,1,3);
 V c0_0={}, c0_1={};
 V c1_0={}, c1_1={};
 V c2_0={}, c2_1={};
 V c3_0={}, c3_1={};
 V c4_0={}, c4_1={};
 V c5_0={}, c5_1={};
 for(;kc>=4;kc-=4){
 {
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+4L); TW_HOLD(b1);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[7L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[14L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[21L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[28L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[35L]);
   c5_0=(c5_0 + (x * b0)); TW_HOLD(c5_0);
   c5_1=(c5_1 + (x * b1)); TW_HOLD(c5_1);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1);
 }
 {
  V b0=tw::load<V>(b+8L); TW_HOLD(b0);
  V b1=tw::load<V>(b+12L); TW_HOLD(b1);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[8L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[15L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[22L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[29L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[36L]);
   c5_0=(c5_0 + (x * b0)); TW_HOLD(c5_0);
   c5_1=(c5_1 + (x * b1)); TW_HOLD(c5_1);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1);
 }
 {
  V b0=tw::load<V>(b+16L); TW_HOLD(b0);
  V b1=tw::load<V>(b+20L); TW_HOLD(b1);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[9L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[16L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[23L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[30L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[37L]);
   c5_0=(c5_0 + (x * b0)); TW_HOLD(c5_0);
   c5_1=(c5_1 + (x * b1)); TW_HOLD(c5_1);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1);
 }
 {
  V b0=tw::load<V>(b+24L); TW_HOLD(b0);
  V b1=tw::load<V>(b+28L); TW_HOLD(b1);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[10L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[17L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[24L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[31L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[38L]);
   c5_0=(c5_0 + (x * b0)); TW_HOLD(c5_0);
   c5_1=(c5_1 + (x * b1)); TW_HOLD(c5_1);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1);
 }
  a+=4L; b+=32L; }
 for(;kc>0;kc--){
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+4L); TW_HOLD(b1);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[7L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[14L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[21L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[28L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[35L]);
   c5_0=(c5_0 + (x * b0)); TW_HOLD(c5_0);
   c5_1=(c5_1 + (x * b1)); TW_HOLD(c5_1);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1);
  a+=1L; b+=8L; }
 if(mode&1){
  if(tail==4){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+4L) + c0_1);
   c1_0=(tw::load<V>(c+33L) + c1_0);
   c1_1=(tw::load<V>(c+37L) + c1_1);
   c2_0=(tw::load<V>(c+66L) + c2_0);
   c2_1=(tw::load<V>(c+70L) + c2_1);
   c3_0=(tw::load<V>(c+99L) + c3_0);
   c3_1=(tw::load<V>(c+103L) + c3_1);
   c4_0=(tw::load<V>(c+132L) + c4_0);
   c4_1=(tw::load<V>(c+136L) + c4_1);
   c5_0=(tw::load<V>(c+165L) + c5_0);
   c5_1=(tw::load<V>(c+169L) + c5_1);
  } else {
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load_n<V>(c+4L,tail) + c0_1);
   c1_0=(tw::load<V>(c+33L) + c1_0);
   c1_1=(tw::load_n<V>(c+37L,tail) + c1_1);
   c2_0=(tw::load<V>(c+66L) + c2_0);
   c2_1=(tw::load_n<V>(c+70L,tail) + c2_1);
   c3_0=(tw::load<V>(c+99L) + c3_0);
   c3_1=(tw::load_n<V>(c+103L,tail) + c3_1);
   c4_0=(tw::load<V>(c+132L) + c4_0);
   c4_1=(tw::load_n<V>(c+136L,tail) + c4_1);
   c5_0=(tw::load<V>(c+165L) + c5_0);
   c5_1=(tw::load_n<V>(c+169L,tail) + c5_1);
  }
 }
 if(tail==4){
  tw::store(c+0L,c0_0);
  tw::store(c+4L,c0_1);
  tw::store(c+33L,c1_0);
  tw::store(c+37L,c1_1);
  tw::store(c+66L,c2_0);
  tw::store(c+70L,c2_1);
  tw::store(c+99L,c3_0);
  tw::store(c+103L,c3_1);
  tw::store(c+132L,c4_0);
  tw::store(c+136L,c4_1);
  tw::store(c+165L,c5_0);
  tw::store(c+169L,c5_1);
 } else {
  tw::store(c+0L,c0_0);
  tw::store_n(c+4L,c0_1,tail);
  tw::store(c+33L,c1_0);
  tw::store_n(c+37L,c1_1,tail);
  tw::store(c+66L,c2_0);
  tw::store_n(c+70L,c2_1,tail);
  tw::store(c+99L,c3_0);
  tw::store_n(c+103L,c3_1,tail);
  tw::store(c+132L,c4_0);
  tw::store_n(c+136L,c4_1,tail);
  tw::store(c+165L,c5_0);
  tw::store_n(c+169L,c5_1,tail);
 }
}
TW_NOINLINE void mk_6x1(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 __builtin_prefetch(c+0L,1,3);
 __builtin_prefetch(c+33L,1,3);
 __builtin_prefetch(c+66L,1,3);
 __builtin_prefetch(c+99L,1,3);
 __builtin_prefetch(c+132L,1,3);
 __builtin_prefetch(c+165L,1,3);
 V c0_0={};
 V c1_0={};
 V c2_0={};
 V c3_0={};
 V c4_0={};
 V c5_0={};
 for(;kc>=4;kc-=4){
 {
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[7L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[14L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[21L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[28L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[35L]);
   c5_0=(c5_0 + (x * b0));
  }
  TW_KEEP(b0);
 }
 {
  V b0=tw::load<V>(b+8L); TW_HOLD(b0);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[8L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[15L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[22L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[29L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[36L]);
   c5_0=(c5_0 + (x * b0));
  }
  TW_KEEP(b0);
 }
 {
  V b0=tw::load<V>(b+16L); TW_HOLD(b0);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[9L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[16L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[23L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[30L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[37L]);
   c5_0=(c5_0 + (x * b0));
  }
  TW_KEEP(b0);
 }
 {
  V b0=tw::load<V>(b+24L); TW_HOLD(b0);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[10L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[17L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[24L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[31L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[38L]);
   c5_0=(c5_0 + (x * b0));
  }
  TW_KEEP(b0);
 }
  a+=4L; b+=32L; }
 for(;kc>0;kc--){
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[7L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[14L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[21L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[28L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[35L]);
   c5_0=(c5_0 + (x * b0));
  }
  TW_KEEP(b0);
  a+=1L; b+=8L; }
 if(mode&1){
  if(tail==4){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c1_0=(tw::load<V>(c+33L) + c1_0);
   c2_0=(tw::load<V>(c+66L) + c2_0);
   c3_0=(tw::load<V>(c+99L) + c3_0);
   c4_0=(tw::load<V>(c+132L) + c4_0);
   c5_0=(tw::load<V>(c+165L) + c5_0);
  } else {
   c0_0=(tw::load_n<V>(c+0L,tail) + c0_0);
   c1_0=(tw::load_n<V>(c+33L,tail) + c1_0);
   c2_0=(tw::load_n<V>(c+66L,tail) + c2_0);
   c3_0=(tw::load_n<V>(c+99L,tail) + c3_0);
   c4_0=(tw::load_n<V>(c+132L,tail) + c4_0);
   c5_0=(tw::load_n<V>(c+165L,tail) + c5_0);
  }
 }
 if(tail==4){
  tw::store(c+0L,c0_0);
  tw::store(c+33L,c1_0);
  tw::store(c+66L,c2_0);
  tw::store(c+99L,c3_0);
  tw::store(c+132L,c4_0);
  tw::store(c+165L,c5_0);
 } else {
  tw::store_n(c+0L,c0_0,tail);
  tw::store_n(c+33L,c1_0,tail);
  tw::store_n(c+66L,c2_0,tail);
  tw::store_n(c+99L,c3_0,tail);
  tw::store_n(c+132L,c4_0,tail);
  tw::store_n(c+165L,c5_0,tail);
 }
}
TW_NOINLINE void task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
 T *pb=(T*)(x->ws+w*x->bytes+x->a_bytes);
 const long ti=t%x->TM; t/=x->TM; const long tj=t%x->TN; t/=x->TN;
 const long tk=t%x->TK, o=t/x->TK; (void)o;
 const long r0=ti*3L/x->TM, r1=(ti+1)*3L/x->TM, c0=tj*5L/x->TN, c1=(tj+1)*5L/x->TN;
 const long k0=tk*7L/x->TK, k1=(tk+1)*7L/x->TK;
 float *out=(float*)x->t[3]+0L;
 const T *A=(const T*)x->t[0]+0L;
 const T *e0=(const T*)x->t[2]+0L;
 for(long cb0=c0;cb0<c1;cb0+=x->NT) { const long cb1=tw::imin(c1,cb0+x->NT);
  for(long pc=k0;pc<k1;pc+=x->KC) { const long kc=tw::imin(k1-pc,x->KC);
   const long mode=(pc>k0)|(pc+kc>=k1?2:0); (void)mode;
   pack_b(x,o,cb0,cb1,pc*1L,kc*1L,pb);
   for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);
    for(long rb=rb0;rb<rb1;rb++) for(long cb=cb0;cb<cb1;cb++) {
     const long l0=(rb)*6L;
     const T *a=A+l0*7L+pc*1L;
     const T *b=pb+(cb-cb0)*kc*8L;
     T *c=out+l0*33L+((cb)*2L-tw::imax(0,(cb)-4L))*4L;
     if(cb<4L) { mk_6x2(kc,a,b,c,mode,(cb==4L?1L:4L)); } else if(cb>=4L) { mk_6x1(kc,a,b,c,mode,(cb==4L?1L:4L)); }
     if(mode&2) finish(x,o,l0,((cb)*2L-tw::imax(0,(cb)-4L))*4L,6L,tw::imin((8L-(cb>=4L?4L:0L)),33L-((cb)*2L-tw::imax(0,(cb)-4L))*4L),c+0L,33L,out+l0*33L+((cb)*2L-tw::imax(0,(cb)-4L))*4L+0L,e0+0L+0L+1L*(((cb)*2L-tw::imax(0,(cb)-4L))*4L));
    } } } } }
}
TW_ENTRY(tw_golden) { using namespace tw_golden_; (void)workspace;
 const long mt=tw::imin(tw::imax(1,args[1]/6),3L);
 const long nt=tw::imin(tw::imax(1,args[2]/8),5L);
 Ctx c{}; Ctx *x=&c; x->t=tensors; x->ws=(char*)workspace+0L; x->image=(T*)workspace;
 x->tables=(T*)((char*)workspace+0L); x->KC=args[0]; x->MT=mt; x->NT=nt; x->TM=args[3];x->TN=args[4];x->TK=args[5];
 x->a_bytes=0; x->bytes=x->a_bytes+(nt*8L*tw::imin((args[0]+3)/4*4,8L)*4L+4095)/4096*4096;
 for(x->chunk=0;x->chunk<1L;x->chunk++) {
  tw::parallel_for(env,1L*x->TM*x->TN*x->TK,task,x);
 }
 return 0; }
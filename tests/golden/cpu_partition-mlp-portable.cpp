// cpu_partition version 14, cpu:portable
namespace tw_golden_p0_ {
typedef float T; typedef tw::f32v V; enum { L=4 };
struct Ctx {
 void *const *t; char *ws; T *image, *tables; long chunk, KC, MT, NT, TM, TN, TK, bytes, a_bytes; bool skips; };
TW_NOINLINE void mk_4x3(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 __builtin_prefetch(c+0L,1,3);
 __builtin_prefetch(c+33L,1,3);
 __builtin_prefetch(c+66L,1,3);
 __builtin_prefetch(c+99L,1,3);
 V c0_0={}, c0_1={}, c0_2={};
 V c1_0={}, c1_1={}, c1_2={};
 V c2_0={}, c2_1={}, c2_2={};
 V c3_0={}, c3_1={}, c3_2={};
 for(;kc>=4;kc-=4){
 {
  __builtin_prefetch(b+24L,0,3);
  V b0=tw::load<V>(b+0L);
  V b1=tw::load<V>(b+4L);
  V b2=tw::load<V>(b+8L);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[17L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[34L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[51L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
 }
 {
  __builtin_prefetch(b+57L,0,3);
  V b0=tw::load<V>(b+33L);
  V b1=tw::load<V>(b+37L);
  V b2=tw::load<V>(b+41L);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[18L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[35L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[52L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
 }
 {
  __builtin_prefetch(b+90L,0,3);
  V b0=tw::load<V>(b+66L);
  V b1=tw::load<V>(b+70L);
  V b2=tw::load<V>(b+74L);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[36L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[53L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
 }
 {
  __builtin_prefetch(b+123L,0,3);
  V b0=tw::load<V>(b+99L);
  V b1=tw::load<V>(b+103L);
  V b2=tw::load<V>(b+107L);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[20L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[37L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[54L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
 }
  a+=4L; b+=132L; }
 for(;kc>0;kc--){
  V b0=tw::load<V>(b+0L);
  V b1=tw::load<V>(b+4L);
  V b2=tw::load<V>(b+8L);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[17L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[34L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[51L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
  a+=1L; b+=33L; }
 if(mode&1){
  if(tail==4){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+4L) + c0_1);
   c0_2=(tw::load<V>(c+8L) + c0_2);
   c1_0=(tw::load<V>(c+33L) + c1_0);
   c1_1=(tw::load<V>(c+37L) + c1_1);
   c1_2=(tw::load<V>(c+41L) + c1_2);
   c2_0=(tw::load<V>(c+66L) + c2_0);
   c2_1=(tw::load<V>(c+70L) + c2_1);
   c2_2=(tw::load<V>(c+74L) + c2_2);
   c3_0=(tw::load<V>(c+99L) + c3_0);
   c3_1=(tw::load<V>(c+103L) + c3_1);
   c3_2=(tw::load<V>(c+107L) + c3_2);
  } else {
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+4L) + c0_1);
   c0_2=(tw::load_n<V>(c+8L,tail) + c0_2);
   c1_0=(tw::load<V>(c+33L) + c1_0);
   c1_1=(tw::load<V>(c+37L) + c1_1);
   c1_2=(tw::load_n<V>(c+41L,tail) + c1_2);
   c2_0=(tw::load<V>(c+66L) + c2_0);
   c2_1=(tw::load<V>(c+70L) + c2_1);
   c2_2=(tw::load_n<V>(c+74L,tail) + c2_2);
   c3_0=(tw::load<V>(c+99L) + c3_0);
   c3_1=(tw::load<V>(c+103L) + c3_1);
   c3_2=(tw::load_n<V>(c+107L,tail) + c3_2);
  }
 }
 if(tail==4){
  tw::store(c+0L,c0_0);
  tw::store(c+4L,c0_1);
  tw::store(c+8L,c0_2);
  tw::store(c+33L,c1_0);
  tw::store(c+37L,c1_1);
  tw::store(c+41L,c1_2);
  tw::store(c+66L,c2_0);
  tw::store(c+70L,c2_1);
  tw::store(c+74L,c2_2);
  tw::store(c+99L,c3_0);
  tw::store(c+103L,c3_1);
  tw::store(c+107L,c3_2);
 } else {
  tw::store(c+0L,c0_0);
  tw::store(c+4L,c0_1);
  tw::store_n(c+8L,c0_2,tail);
  tw::store(c+33L,c1_0);
  tw::store(c+37L,c1_1);
  tw::store_n(c+41L,c1_2,tail);
  tw::store(c+66L,c2_0);
  tw::store(c+70L,c2_1);
  tw::store_n(c+74L,c2_2,tail);
  tw::store(c+99L,c3_0);
  tw::store(c+103L,c3_1);
  tw::store_n(c+107L,c3_2,tail);
 }
}
TW_NOINLINE void mk_4x3t(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 __builtin_prefetch(c+0L,1,3);
 __builtin_prefetch(c+33L,1,3);
 __builtin_prefetch(c+66L,1,3);
 __builtin_prefetch(c+99L,1,3);
 V c0_0={}, c0_1={}, c0_2={};
 V c1_0={}, c1_1={}, c1_2={};
 V c2_0={}, c2_1={}, c2_2={};
 V c3_0={}, c3_1={}, c3_2={};
 for(;kc>=4;kc-=4){
 {
  __builtin_prefetch(b+24L,0,3);
  V b0=tw::load<V>(b+0L);
  V b1=tw::load<V>(b+4L);
  V b2=tw::load_n<V>(b+8L,tail);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[17L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[34L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[51L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
 }
 {
  __builtin_prefetch(b+57L,0,3);
  V b0=tw::load<V>(b+33L);
  V b1=tw::load<V>(b+37L);
  V b2=tw::load_n<V>(b+41L,tail);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[18L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[35L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[52L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
 }
 {
  __builtin_prefetch(b+90L,0,3);
  V b0=tw::load<V>(b+66L);
  V b1=tw::load<V>(b+70L);
  V b2=tw::load_n<V>(b+74L,tail);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[36L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[53L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
 }
 {
  __builtin_prefetch(b+123L,0,3);
  V b0=tw::load<V>(b+99L);
  V b1=tw::load<V>(b+103L);
  V b2=tw::load_n<V>(b+107L,tail);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[20L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[37L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[54L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
 }
  a+=4L; b+=132L; }
 for(;kc>0;kc--){
  V b0=tw::load<V>(b+0L);
  V b1=tw::load<V>(b+4L);
  V b2=tw::load_n<V>(b+8L,tail);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[17L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[34L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[51L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
  a+=1L; b+=33L; }
 if(mode&1){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+4L) + c0_1);
   c0_2=(tw::load_n<V>(c+8L,tail) + c0_2);
   c1_0=(tw::load<V>(c+33L) + c1_0);
   c1_1=(tw::load<V>(c+37L) + c1_1);
   c1_2=(tw::load_n<V>(c+41L,tail) + c1_2);
   c2_0=(tw::load<V>(c+66L) + c2_0);
   c2_1=(tw::load<V>(c+70L) + c2_1);
   c2_2=(tw::load_n<V>(c+74L,tail) + c2_2);
   c3_0=(tw::load<V>(c+99L) + c3_0);
   c3_1=(tw::load<V>(c+103L) + c3_1);
   c3_2=(tw::load_n<V>(c+107L,tail) + c3_2);
 }
  tw::store(c+0L,c0_0);
  tw::store(c+4L,c0_1);
  tw::store_n(c+8L,c0_2,tail);
  tw::store(c+33L,c1_0);
  tw::store(c+37L,c1_1);
  tw::store_n(c+41L,c1_2,tail);
  tw::store(c+66L,c2_0);
  tw::store(c+70L,c2_1);
  tw::store_n(c+74L,c2_2,tail);
  tw::store(c+99L,c3_0);
  tw::store(c+103L,c3_1);
  tw::store_n(c+107L,c3_2,tail);
}
TW_NOINLINE void task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
 const long ti=t%x->TM; t/=x->TM; const long tj=t%x->TN; t/=x->TN;
 const long tk=t%x->TK, o=t/x->TK; (void)o;
 const long r0=ti*5L/x->TM, r1=(ti+1)*5L/x->TM, c0=tj*3L/x->TN, c1=(tj+1)*3L/x->TN;
 const long k0=tk*17L/x->TK, k1=(tk+1)*17L/x->TK;
 float *out=(float*)x->t[2]+0L;
 const T *A=(const T*)x->t[0]+0L;
 const T *B=(const T*)x->t[1]+0L;
 for(long cb0=c0;cb0<c1;cb0+=x->NT) { const long cb1=tw::imin(c1,cb0+x->NT);
  for(long pc=k0;pc<k1;pc+=x->KC) { const long kc=tw::imin(k1-pc,x->KC);
   const long mode=(pc>k0)|(pc+kc>=k1?2:0); (void)mode;
   for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);
    for(long cb=cb0;cb<cb1;cb++) for(long rb=rb0;rb<rb1;rb++) {
     const long l0=(rb)*4L;
     const T *a=A+l0*17L+pc*1L;
     const T *b=B+(cb)*3L*4L+pc*33L;
     T *c=out+l0*33L+(cb)*3L*4L;
     if(cb<2L) { mk_4x3(kc,a,b,c,mode,(cb==2L?1L:4L)); } else if(cb==2L) { mk_4x3t(kc,a,b,c,mode,(cb==2L?1L:4L)); }
    } } } } }
}
TW_ENTRY(tw_golden_p0) { using namespace tw_golden_p0_; (void)workspace;
 const long mt=tw::imin(tw::imax(1,args[1]/4),5L);
 const long nt=tw::imin(tw::imax(1,args[2]/12),3L);
 Ctx c{}; Ctx *x=&c; x->t=tensors; x->ws=(char*)workspace+0L; x->image=(T*)workspace;
 x->tables=(T*)((char*)workspace+0L); x->KC=args[0]; x->MT=mt; x->NT=nt; x->TM=args[3];x->TN=args[4];x->TK=args[5];
 x->a_bytes=0; x->bytes=x->a_bytes+0;
 for(x->chunk=0;x->chunk<1L;x->chunk++) {
  tw::parallel_for(env,1L*x->TM*x->TN*x->TK,task,x);
 }
 return 0; }
namespace tw_golden_p1_ {
typedef float T; typedef tw::f32v V; enum { L=4 };
struct Ctx {
 void *const *t; char *ws; T *image, *tables; long chunk, KC, MT, NT, TM, TN, TK, bytes, a_bytes; bool skips; };
TW_NOINLINE void pack_a(const Ctx *x, long o, long rb, long re, long k0, long kc, T *TW_RESTRICT q) {
 (void)o;
 for(;rb<re;rb++) { const long i0=(rb)*4L, n=4L; (void)n;
  for(long l=0;l<n;l++) { const long m=i0+l; (void)m; const long f_i0=m; long r0=k0;
   for(long kk=0;kk<kc;kk++) { q[(kk/4*4+l)*4+kk%4]=(T)(tw::max<float>((((const float*)x->t[2])[(f_i0)*33L+(r0)*1L] + ((const float*)x->t[0])[(r0)*1L]), 0.0f)); ++r0; } }

  q+=(kc+3)/4*16L; } }
TW_NOINLINE void mk_4x3t(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 __builtin_prefetch(c+0L,1,3);
 __builtin_prefetch(c+9L,1,3);
 __builtin_prefetch(c+18L,1,3);
 __builtin_prefetch(c+27L,1,3);
 V c0_0={}, c0_1={}, c0_2={};
 V c1_0={}, c1_1={}, c1_2={};
 V c2_0={}, c2_1={}, c2_2={};
 V c3_0={}, c3_1={}, c3_2={};
 for(;kc>=4;kc-=4){
 {
  __builtin_prefetch(b+24L,0,3);
  V b0=tw::load<V>(b+0L);
  V b1=tw::load<V>(b+4L);
  V b2=tw::load_n<V>(b+8L,tail);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[4L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[8L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[12L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
 }
 {
  __builtin_prefetch(b+33L,0,3);
  V b0=tw::load<V>(b+9L);
  V b1=tw::load<V>(b+13L);
  V b2=tw::load_n<V>(b+17L,tail);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[5L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[9L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[13L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
 }
 {
  __builtin_prefetch(b+42L,0,3);
  V b0=tw::load<V>(b+18L);
  V b1=tw::load<V>(b+22L);
  V b2=tw::load_n<V>(b+26L,tail);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[6L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[10L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[14L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
 }
 {
  __builtin_prefetch(b+51L,0,3);
  V b0=tw::load<V>(b+27L);
  V b1=tw::load<V>(b+31L);
  V b2=tw::load_n<V>(b+35L,tail);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[7L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[11L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[15L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
 }
  a+=16L; b+=36L; }
 for(;kc>0;kc--){
  V b0=tw::load<V>(b+0L);
  V b1=tw::load<V>(b+4L);
  V b2=tw::load_n<V>(b+8L,tail);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
   c0_1=(c0_1 + (x * b1));
   c0_2=(c0_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[4L]);
   c1_0=(c1_0 + (x * b0));
   c1_1=(c1_1 + (x * b1));
   c1_2=(c1_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[8L]);
   c2_0=(c2_0 + (x * b0));
   c2_1=(c2_1 + (x * b1));
   c2_2=(c2_2 + (x * b2));
  }
  { const V x=tw::splat<V>(a[12L]);
   c3_0=(c3_0 + (x * b0));
   c3_1=(c3_1 + (x * b1));
   c3_2=(c3_2 + (x * b2));
  }
  a+=1L; b+=9L; }
 if(mode&1){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+4L) + c0_1);
   c0_2=(tw::load_n<V>(c+8L,tail) + c0_2);
   c1_0=(tw::load<V>(c+9L) + c1_0);
   c1_1=(tw::load<V>(c+13L) + c1_1);
   c1_2=(tw::load_n<V>(c+17L,tail) + c1_2);
   c2_0=(tw::load<V>(c+18L) + c2_0);
   c2_1=(tw::load<V>(c+22L) + c2_1);
   c2_2=(tw::load_n<V>(c+26L,tail) + c2_2);
   c3_0=(tw::load<V>(c+27L) + c3_0);
   c3_1=(tw::load<V>(c+31L) + c3_1);
   c3_2=(tw::load_n<V>(c+35L,tail) + c3_2);
 }
  tw::store(c+0L,c0_0);
  tw::store(c+4L,c0_1);
  tw::store_n(c+8L,c0_2,tail);
  tw::store(c+9L,c1_0);
  tw::store(c+13L,c1_1);
  tw::store_n(c+17L,c1_2,tail);
  tw::store(c+18L,c2_0);
  tw::store(c+22L,c2_1);
  tw::store_n(c+26L,c2_2,tail);
  tw::store(c+27L,c3_0);
  tw::store(c+31L,c3_1);
  tw::store_n(c+35L,c3_2,tail);
}
TW_NOINLINE void task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
 T *pa=(T*)(x->ws+w*x->bytes);
 const long ti=t%x->TM; t/=x->TM; const long tj=t%x->TN; t/=x->TN;
 const long tk=t%x->TK, o=t/x->TK; (void)o;
 const long r0=ti*5L/x->TM, r1=(ti+1)*5L/x->TM, c0=tj*1L/x->TN, c1=(tj+1)*1L/x->TN;
 const long k0=tk*33L/x->TK, k1=(tk+1)*33L/x->TK;
 float *out=(float*)x->t[3]+0L;
 const T *B=(const T*)x->t[1]+0L;
 for(long cb0=c0;cb0<c1;cb0+=x->NT) { const long cb1=tw::imin(c1,cb0+x->NT);
  for(long pc=k0;pc<k1;pc+=x->KC) { const long kc=tw::imin(k1-pc,x->KC);
   const long mode=(pc>k0)|(pc+kc>=k1?2:0); (void)mode;
   for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);
    pack_a(x,o,rb0,rb1,pc*1L,kc*1L,pa);
    const long pstep=(kc+3)/4*16L;
    for(long cb=cb0;cb<cb1;cb++) for(long rb=rb0;rb<rb1;rb++) {
     const long l0=(rb)*4L;
     const T *a=pa+(rb-rb0)*pstep;
     const T *b=B+(cb)*3L*4L+pc*9L;
     T *c=out+l0*9L+(cb)*3L*4L;
     if(cb==0L) { mk_4x3t(kc,a,b,c,mode,(cb==0L?1L:4L)); }
    } } } } }
}
TW_ENTRY(tw_golden_p1) { using namespace tw_golden_p1_; (void)workspace;
 const long mt=tw::imin(tw::imax(1,args[1]/4),5L);
 const long nt=tw::imin(tw::imax(1,args[2]/12),1L);
 Ctx c{}; Ctx *x=&c; x->t=tensors; x->ws=(char*)workspace+0L; x->image=(T*)workspace;
 x->tables=(T*)((char*)workspace+0L); x->KC=args[0]; x->MT=mt; x->NT=nt; x->TM=args[3];x->TN=args[4];x->TK=args[5];
 x->a_bytes=(mt*4L*tw::imin((args[0]+3)/4*4,36L)*4L+4095)/4096*4096; x->bytes=x->a_bytes+0;
 for(x->chunk=0;x->chunk<1L;x->chunk++) {
  tw::parallel_for(env,1L*x->TM*x->TN*x->TK,task,x);
 }
 return 0; }
TW_ENTRY(tw_golden) { char *ws=(char*)workspace; int code; (void)ws; (void)args;
 { void *const t[]={tensors[0],tensors[2],ws+0L};
  code=tw_golden_p0(t,args+0,ws+4096L,env); if(code) return code;
 }
 { void *const t[]={tensors[1],tensors[3],ws+0L,tensors[4]};
  code=tw_golden_p1(t,args+6,ws+4096L,env); if(code) return code;
 }
 return 0; }

// cpu_contraction version 3, cpu:avx512
namespace tw_golden_ {
typedef float T; typedef tw::f32v V; enum { L=16 };
struct Ctx {
 void *const *t; char *ws; T *image, *tables; long chunk, KC, MT, NT, TM, TN, TK, bytes, a_bytes; bool skips; };
TW_NOINLINE void pack_b(const Ctx *x, long o, long cb, long ce, long k0, long kc, T *TW_RESTRICT q) {
 (void)o;
 const long o_i0=o; (void)o_i0;
 for(;cb<ce;cb++) { const long j0=(cb)*4L*16L, n=tw::imin(64L,189L-j0);
  for(long l=n;l<64;l++) for(long kk=0;kk<kc;kk++) q[kk*64+l]=0;
  for(long l=0;l<n;) { const long f=j0+l; long n_i3=(f)%21L; long n_i2=(f)/21L; long r2=(k0)%3L; long r1=((k0)/3L)%3L; long r0=(k0)/9L;
   const long len=tw::imin(n-l,21L-n_i3);
   T *d=q+l; const T *src=(const T*)x->t[0];
   for(long kk=0;kk<kc;kk++) { long lo=0,hi=len;
    if(-1L+1L*n_i2+1L*r1<0) hi=0;
    if(9L+-1L*n_i2+-1L*r1<0) hi=0;
    { const long v=-1L+1L*n_i3+1L*r2; if(v<0) lo=tw::imax(lo,(-v+0)/1); }
    { const long v=21L+-1L*n_i3+-1L*r2; hi=v<0?0:tw::imin(hi,v/1+1); }
    if(lo>hi) lo=hi;
    const T *s=src+(-22L+567L*o_i0+189L*r0+21L*n_i2+21L*r1+1L*n_i3+1L*r2);
    for(long y=0;y<lo;y++) d[y]=0.0f;
    for(long y=hi;y<len;y++) d[y]=0.0f;
    long y=lo;
    for(;y+L<=hi;y+=L) tw::store(d+y,tw::load<V>(s+y));
    if(y<hi) tw::store_n(d+y,tw::load_n<V>(s+y,hi-y),hi-y);
    d+=64; if(++r2==3L) { r2=0; if(++r1==3L) { r1=0; ++r0; } } }
   l+=len; }

  q+=kc*64L; } }
TW_NOINLINE void mk_5x4(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 __builtin_prefetch(c+0L,1,3); __builtin_prefetch(c+16L,1,3); __builtin_prefetch(c+32L,1,3); __builtin_prefetch(c+48L,1,3);
 __builtin_prefetch(c+189L,1,3); __builtin_prefetch(c+205L,1,3); __builtin_prefetch(c+221L,1,3); __builtin_prefetch(c+237L,1,3);
 __builtin_prefetch(c+378L,1,3); __builtin_prefetch(c+394L,1,3); __builtin_prefetch(c+410L,1,3); __builtin_prefetch(c+426L,1,3);
 __builtin_prefetch(c+567L,1,3); __builtin_prefetch(c+583L,1,3); __builtin_prefetch(c+599L,1,3); __builtin_prefetch(c+615L,1,3);
 __builtin_prefetch(c+756L,1,3); __builtin_prefetch(c+772L,1,3); __builtin_prefetch(c+788L,1,3); __builtin_prefetch(c+804L,1,3);
 V c0_0={}, c0_1={}, c0_2={}, c0_3={};
 V c1_0={}, c1_1={}, c1_2={}, c1_3={};
 V c2_0={}, c2_1={}, c2_2={}, c2_3={};
 V c3_0={}, c3_1={}, c3_2={}, c3_3={};
 V c4_0={}, c4_1={}, c4_2={}, c4_3={};
 for(;kc>=4;kc-=4){
 {
  V b0=tw::load<V>(b+0L);
  V b1=tw::load<V>(b+16L);
  V b2=tw::load<V>(b+32L);
  V b3=tw::load<V>(b+48L);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (b0 * x));
   c0_1=(c0_1 + (b1 * x));
   c0_2=(c0_2 + (b2 * x));
   c0_3=(c0_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[27L]);
   c1_0=(c1_0 + (b0 * x));
   c1_1=(c1_1 + (b1 * x));
   c1_2=(c1_2 + (b2 * x));
   c1_3=(c1_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[54L]);
   c2_0=(c2_0 + (b0 * x));
   c2_1=(c2_1 + (b1 * x));
   c2_2=(c2_2 + (b2 * x));
   c2_3=(c2_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[81L]);
   c3_0=(c3_0 + (b0 * x));
   c3_1=(c3_1 + (b1 * x));
   c3_2=(c3_2 + (b2 * x));
   c3_3=(c3_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[108L]);
   c4_0=(c4_0 + (b0 * x));
   c4_1=(c4_1 + (b1 * x));
   c4_2=(c4_2 + (b2 * x));
   c4_3=(c4_3 + (b3 * x));
  }
 }
 {
  V b0=tw::load<V>(b+64L);
  V b1=tw::load<V>(b+80L);
  V b2=tw::load<V>(b+96L);
  V b3=tw::load<V>(b+112L);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (b0 * x));
   c0_1=(c0_1 + (b1 * x));
   c0_2=(c0_2 + (b2 * x));
   c0_3=(c0_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[28L]);
   c1_0=(c1_0 + (b0 * x));
   c1_1=(c1_1 + (b1 * x));
   c1_2=(c1_2 + (b2 * x));
   c1_3=(c1_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[55L]);
   c2_0=(c2_0 + (b0 * x));
   c2_1=(c2_1 + (b1 * x));
   c2_2=(c2_2 + (b2 * x));
   c2_3=(c2_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[82L]);
   c3_0=(c3_0 + (b0 * x));
   c3_1=(c3_1 + (b1 * x));
   c3_2=(c3_2 + (b2 * x));
   c3_3=(c3_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[109L]);
   c4_0=(c4_0 + (b0 * x));
   c4_1=(c4_1 + (b1 * x));
   c4_2=(c4_2 + (b2 * x));
   c4_3=(c4_3 + (b3 * x));
  }
 }
 {
  V b0=tw::load<V>(b+128L);
  V b1=tw::load<V>(b+144L);
  V b2=tw::load<V>(b+160L);
  V b3=tw::load<V>(b+176L);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (b0 * x));
   c0_1=(c0_1 + (b1 * x));
   c0_2=(c0_2 + (b2 * x));
   c0_3=(c0_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[29L]);
   c1_0=(c1_0 + (b0 * x));
   c1_1=(c1_1 + (b1 * x));
   c1_2=(c1_2 + (b2 * x));
   c1_3=(c1_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[56L]);
   c2_0=(c2_0 + (b0 * x));
   c2_1=(c2_1 + (b1 * x));
   c2_2=(c2_2 + (b2 * x));
   c2_3=(c2_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[83L]);
   c3_0=(c3_0 + (b0 * x));
   c3_1=(c3_1 + (b1 * x));
   c3_2=(c3_2 + (b2 * x));
   c3_3=(c3_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[110L]);
   c4_0=(c4_0 + (b0 * x));
   c4_1=(c4_1 + (b1 * x));
   c4_2=(c4_2 + (b2 * x));
   c4_3=(c4_3 + (b3 * x));
  }
 }
 {
  V b0=tw::load<V>(b+192L);
  V b1=tw::load<V>(b+208L);
  V b2=tw::load<V>(b+224L);
  V b3=tw::load<V>(b+240L);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (b0 * x));
   c0_1=(c0_1 + (b1 * x));
   c0_2=(c0_2 + (b2 * x));
   c0_3=(c0_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[30L]);
   c1_0=(c1_0 + (b0 * x));
   c1_1=(c1_1 + (b1 * x));
   c1_2=(c1_2 + (b2 * x));
   c1_3=(c1_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[57L]);
   c2_0=(c2_0 + (b0 * x));
   c2_1=(c2_1 + (b1 * x));
   c2_2=(c2_2 + (b2 * x));
   c2_3=(c2_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[84L]);
   c3_0=(c3_0 + (b0 * x));
   c3_1=(c3_1 + (b1 * x));
   c3_2=(c3_2 + (b2 * x));
   c3_3=(c3_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[111L]);
   c4_0=(c4_0 + (b0 * x));
   c4_1=(c4_1 + (b1 * x));
   c4_2=(c4_2 + (b2 * x));
   c4_3=(c4_3 + (b3 * x));
  }
 }
  a+=4L; b+=256L; }
 for(;kc>0;kc--){
  V b0=tw::load<V>(b+0L);
  V b1=tw::load<V>(b+16L);
  V b2=tw::load<V>(b+32L);
  V b3=tw::load<V>(b+48L);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (b0 * x));
   c0_1=(c0_1 + (b1 * x));
   c0_2=(c0_2 + (b2 * x));
   c0_3=(c0_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[27L]);
   c1_0=(c1_0 + (b0 * x));
   c1_1=(c1_1 + (b1 * x));
   c1_2=(c1_2 + (b2 * x));
   c1_3=(c1_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[54L]);
   c2_0=(c2_0 + (b0 * x));
   c2_1=(c2_1 + (b1 * x));
   c2_2=(c2_2 + (b2 * x));
   c2_3=(c2_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[81L]);
   c3_0=(c3_0 + (b0 * x));
   c3_1=(c3_1 + (b1 * x));
   c3_2=(c3_2 + (b2 * x));
   c3_3=(c3_3 + (b3 * x));
  }
  { const V x=tw::splat<V>(a[108L]);
   c4_0=(c4_0 + (b0 * x));
   c4_1=(c4_1 + (b1 * x));
   c4_2=(c4_2 + (b2 * x));
   c4_3=(c4_3 + (b3 * x));
  }
  a+=1L; b+=64L; }
 if(mode&1){
  if(tail==16){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+16L) + c0_1);
   c0_2=(tw::load<V>(c+32L) + c0_2);
   c0_3=(tw::load<V>(c+48L) + c0_3);
   c1_0=(tw::load<V>(c+189L) + c1_0);
   c1_1=(tw::load<V>(c+205L) + c1_1);
   c1_2=(tw::load<V>(c+221L) + c1_2);
   c1_3=(tw::load<V>(c+237L) + c1_3);
   c2_0=(tw::load<V>(c+378L) + c2_0);
   c2_1=(tw::load<V>(c+394L) + c2_1);
   c2_2=(tw::load<V>(c+410L) + c2_2);
   c2_3=(tw::load<V>(c+426L) + c2_3);
   c3_0=(tw::load<V>(c+567L) + c3_0);
   c3_1=(tw::load<V>(c+583L) + c3_1);
   c3_2=(tw::load<V>(c+599L) + c3_2);
   c3_3=(tw::load<V>(c+615L) + c3_3);
   c4_0=(tw::load<V>(c+756L) + c4_0);
   c4_1=(tw::load<V>(c+772L) + c4_1);
   c4_2=(tw::load<V>(c+788L) + c4_2);
   c4_3=(tw::load<V>(c+804L) + c4_3);
  } else {
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+16L) + c0_1);
   c0_2=(tw::load<V>(c+32L) + c0_2);
   c0_3=(tw::load_n<V>(c+48L,tail) + c0_3);
   c1_0=(tw::load<V>(c+189L) + c1_0);
   c1_1=(tw::load<V>(c+205L) + c1_1);
   c1_2=(tw::load<V>(c+221L) + c1_2);
   c1_3=(tw::load_n<V>(c+237L,tail) + c1_3);
   c2_0=(tw::load<V>(c+378L) + c2_0);
   c2_1=(tw::load<V>(c+394L) + c2_1);
   c2_2=(tw::load<V>(c+410L) + c2_2);
   c2_3=(tw::load_n<V>(c+426L,tail) + c2_3);
   c3_0=(tw::load<V>(c+567L) + c3_0);
   c3_1=(tw::load<V>(c+583L) + c3_1);
   c3_2=(tw::load<V>(c+599L) + c3_2);
   c3_3=(tw::load_n<V>(c+615L,tail) + c3_3);
   c4_0=(tw::load<V>(c+756L) + c4_0);
   c4_1=(tw::load<V>(c+772L) + c4_1);
   c4_2=(tw::load<V>(c+788L) + c4_2);
   c4_3=(tw::load_n<V>(c+804L,tail) + c4_3);
  }
 }
 if(tail==16){
  tw::store(c+0L,c0_0);
  tw::store(c+16L,c0_1);
  tw::store(c+32L,c0_2);
  tw::store(c+48L,c0_3);
  tw::store(c+189L,c1_0);
  tw::store(c+205L,c1_1);
  tw::store(c+221L,c1_2);
  tw::store(c+237L,c1_3);
  tw::store(c+378L,c2_0);
  tw::store(c+394L,c2_1);
  tw::store(c+410L,c2_2);
  tw::store(c+426L,c2_3);
  tw::store(c+567L,c3_0);
  tw::store(c+583L,c3_1);
  tw::store(c+599L,c3_2);
  tw::store(c+615L,c3_3);
  tw::store(c+756L,c4_0);
  tw::store(c+772L,c4_1);
  tw::store(c+788L,c4_2);
  tw::store(c+804L,c4_3);
 } else {
  tw::store(c+0L,c0_0);
  tw::store(c+16L,c0_1);
  tw::store(c+32L,c0_2);
  tw::store_n(c+48L,c0_3,tail);
  tw::store(c+189L,c1_0);
  tw::store(c+205L,c1_1);
  tw::store(c+221L,c1_2);
  tw::store_n(c+237L,c1_3,tail);
  tw::store(c+378L,c2_0);
  tw::store(c+394L,c2_1);
  tw::store(c+410L,c2_2);
  tw::store_n(c+426L,c2_3,tail);
  tw::store(c+567L,c3_0);
  tw::store(c+583L,c3_1);
  tw::store(c+599L,c3_2);
  tw::store_n(c+615L,c3_3,tail);
  tw::store(c+756L,c4_0);
  tw::store(c+772L,c4_1);
  tw::store(c+788L,c4_2);
  tw::store_n(c+804L,c4_3,tail);
 }
}
TW_NOINLINE void task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
 T *pb=(T*)(x->ws+w*x->bytes+x->a_bytes);
 const long ti=t%x->TM; t/=x->TM; const long tj=t%x->TN; t/=x->TN;
 const long tk=t%x->TK, o=t/x->TK; (void)o;
 const long o_i0=o; (void)o_i0;
 const long r0=ti*1L/x->TM, r1=(ti+1)*1L/x->TM, c0=tj*3L/x->TN, c1=(tj+1)*3L/x->TN;
 const long k0=tk*27L/x->TK, k1=(tk+1)*27L/x->TK;
 float *out=(float*)x->t[2]+0L+945L*o_i0;
 const T *A=(const T*)x->t[1]+0L;
 for(long cb0=c0;cb0<c1;cb0+=x->NT) { const long cb1=tw::imin(c1,cb0+x->NT);
  for(long pc=k0;pc<k1;pc+=x->KC) { const long kc=tw::imin(k1-pc,x->KC);
   const long mode=(pc>k0)|(pc+kc>=k1?2:0); (void)mode;
   pack_b(x,o,cb0,cb1,pc*1L,kc*1L,pb);
   for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);
    for(long cb=cb0;cb<cb1;cb++) for(long rb=rb0;rb<rb1;rb++) {
     const long l0=(rb)*5L;
     const T *a=A+l0*27L+pc*1L;
     const T *b=pb+(cb-cb0)*kc*64L;
     T *c=out+l0*189L+(cb)*4L*16L;
     { mk_5x4(kc,a,b,c,mode,(cb==2L?13L:16L)); }
    } } } } }
}
TW_ENTRY(tw_golden) { using namespace tw_golden_; (void)workspace;
 const long mt=tw::imin(tw::imax(1,args[1]/5),1L);
 const long nt=tw::imin(tw::imax(1,args[2]/64),3L);
 Ctx c{}; Ctx *x=&c; x->t=tensors; x->ws=(char*)workspace+0L; x->image=(T*)workspace;
 x->tables=(T*)((char*)workspace+0L); x->KC=args[0]; x->MT=mt; x->NT=nt; x->TM=args[3];x->TN=args[4];x->TK=args[5];
 x->a_bytes=0; x->bytes=x->a_bytes+(nt*64L*tw::imin((args[0]+3)/4*4,28L)*4L+4095)/4096*4096;
 for(x->chunk=0;x->chunk<1L;x->chunk++) {
  tw::parallel_for(env,2L*x->TM*x->TN*x->TK,task,x);
 }
 return 0; }
// cpu_dot version 5, cpu:portable
namespace tw_golden_ {
typedef int T; typedef tw::i32v V; enum { L=4 };
typedef tw::i32v W; typedef short E; enum { G=2 };
TW_INLINE int unit(const void *p) { int v; __builtin_memcpy(&v,p,4); return v; }
typedef short Pair __attribute__((vector_size(16)));
TW_INLINE V step(V c,W a,W b) { return c+(V)__builtin_ia32_pmaddwd128((Pair)a,(Pair)b); }

struct Ctx {
 void *const *t; char *ws; T *image, *tables; long chunk, KC, MT, NT, TM, TN, TK, bytes, a_bytes; bool skips; };
TW_INLINE W as_unit(const signed char *p) { return (tw::load<W>(p)&0xffff); }
TW_INLINE W as_unit_n(const signed char *p,long n) { return (tw::load_n<W>(p,n)&0xffff); }
TW_INLINE E as_element(signed char x) { return (E)(x); }
TW_INLINE W as_unit(const unsigned char *p) { return (tw::load<W>(p)&0xffff); }
TW_INLINE W as_unit_n(const unsigned char *p,long n) { return (tw::load_n<W>(p,n)&0xffff); }
TW_INLINE E as_element(unsigned char x) { return (E)(x); }
TW_INLINE W as_unit(const short *p) { return (tw::load<W>(p)&0xffff); }
TW_INLINE W as_unit_n(const short *p,long n) { return (tw::load_n<W>(p,n)&0xffff); }
TW_INLINE E as_element(short x) { return (E)(x); }
template <class X> TW_INLINE W weave(const X *r0,const X *r1) { return as_unit(r0)|as_unit(r1)<<16; }
typedef tw::vec<int,4> Q;
TW_INLINE int bits(E e) { int v=0; __builtin_memcpy(&v,&e,sizeof e); return v; }
template <class X> TW_INLINE Q as_four(const X *p) {
 Q q; for(int i=0;i<4;i++) q[i]=bits(as_element(p[i]))&65535; return q; }
template <class X> TW_INLINE Q weave4(const X *r0,const X *r1) { return as_four(r0)|as_four(r1)<<16; }
template <class X> TW_INLINE Q four(const X *p) { E e[4*G]; for(int i=0;i<4*G;i++) e[i]=as_element(p[i]); return tw::get<Q>((const int*)e); }
template <class X> TW_INLINE int gather(const X *p,long step,long n) {
 E e[G]={}; for(long i=0;i<n;i++) e[i]=as_element(p[i*step]);
 int v; __builtin_memcpy(&v,e,4); return v; }
template <class X> TW_INLINE void copy(E *d,const X *s,long n) {
 if constexpr(sizeof(X)==sizeof(E) && sizeof(X)<4) __builtin_memcpy(d,s,n*sizeof(E));
 else { long i=0;
  if constexpr(sizeof(E)==4) for(;i+L<=n;i+=L) tw::put<W>((int*)d+i,as_unit(s+i));
  for(;i<n;i++) d[i]=as_element(s[i]); } }
TW_INLINE void turn(Q a,Q b,Q c,Q e,void *d0,void *d1,void *d2,void *d3) {
 const Q ab=__builtin_shufflevector(a,b,0,4,1,5),AB=__builtin_shufflevector(a,b,2,6,3,7);
 const Q ce=__builtin_shufflevector(c,e,0,4,1,5),CE=__builtin_shufflevector(c,e,2,6,3,7);
 tw::put<Q>((int*)d0,__builtin_shufflevector(ab,ce,0,1,4,5));
 tw::put<Q>((int*)d1,__builtin_shufflevector(ab,ce,2,3,6,7));
 tw::put<Q>((int*)d2,__builtin_shufflevector(AB,CE,0,1,4,5));
 tw::put<Q>((int*)d3,__builtin_shufflevector(AB,CE,2,3,6,7)); }

TW_NOINLINE void row_a(const Ctx *x,long o,long at,long f0,long n,E *d) { (void)o; (void)at;
 const long i0=at; (void)i0;
 for(long l=0;l<n;) { const long r0=(f0+l); (void)r0;
  const long len=tw::imin(n-l,12L-r0); long lo=0,hi=len;
  if(lo>hi) lo=hi;
  const signed char *s=(const signed char*)x->t[0]+(0L+12L*i0+1L*r0);
  if(hi>lo) copy(d+l+lo,s+lo,hi-lo);
  l+=len; } }

TW_NOINLINE void pack_a(const Ctx *x,long o,long rb,long re,long k0,long kc,T *TW_RESTRICT q) { (void)o;
 const long m0=(rb)*9L, rows=(re)*9L-m0; long r=0; (void)k0; (void)kc;
 const signed char *s=(const signed char*)x->t[0]+0L+m0*12L;
 for(;r<rows;r++) { E *d=(E*)(q+r*16L); copy(d,s+r*12L,12L); } }

TW_NOINLINE void mk_9x1(long kc, const T *TW_RESTRICT a, const unsigned char *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 V c0_0={};
 V c1_0={};
 V c2_0={};
 V c3_0={};
 V c4_0={};
 V c5_0={};
 V c6_0={};
 V c7_0={};
 V c8_0={};
 for(;kc>=2;kc-=2){
 {
  __builtin_prefetch(b+512L,0,3);
  __builtin_prefetch(b+537L,0,3);
  W b0=(as_unit(b+0L)|as_unit(b+25L)<<16); TW_HOLD(b0);
  { const W x=tw::splat<W>(unit(a+0L));
   c0_0=step(c0_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+16L));
   c1_0=step(c1_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+32L));
   c2_0=step(c2_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+48L));
   c3_0=step(c3_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+64L));
   c4_0=step(c4_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+80L));
   c5_0=step(c5_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+96L));
   c6_0=step(c6_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+112L));
   c7_0=step(c7_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+128L));
   c8_0=step(c8_0,x,b0);
  }
  TW_KEEP(b0);
 }
 {
  __builtin_prefetch(b+562L,0,3);
  __builtin_prefetch(b+587L,0,3);
  W b0=(as_unit(b+50L)|as_unit(b+75L)<<16); TW_HOLD(b0);
  { const W x=tw::splat<W>(unit(a+1L));
   c0_0=step(c0_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+17L));
   c1_0=step(c1_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+33L));
   c2_0=step(c2_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+49L));
   c3_0=step(c3_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+65L));
   c4_0=step(c4_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+81L));
   c5_0=step(c5_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+97L));
   c6_0=step(c6_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+113L));
   c7_0=step(c7_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+129L));
   c8_0=step(c8_0,x,b0);
  }
  TW_KEEP(b0);
 }
  a+=2L; b+=100L; }
 for(;kc>0;kc--){
  W b0=(as_unit(b+0L)|as_unit(b+25L)<<16); TW_HOLD(b0);
  { const W x=tw::splat<W>(unit(a+0L));
   c0_0=step(c0_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+16L));
   c1_0=step(c1_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+32L));
   c2_0=step(c2_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+48L));
   c3_0=step(c3_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+64L));
   c4_0=step(c4_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+80L));
   c5_0=step(c5_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+96L));
   c6_0=step(c6_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+112L));
   c7_0=step(c7_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+128L));
   c8_0=step(c8_0,x,b0);
  }
  TW_KEEP(b0);
  a+=1L; b+=50L; }
 if(mode&1){
  if(tail==4){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c1_0=(tw::load<V>(c+25L) + c1_0);
   c2_0=(tw::load<V>(c+50L) + c2_0);
   c3_0=(tw::load<V>(c+75L) + c3_0);
   c4_0=(tw::load<V>(c+100L) + c4_0);
   c5_0=(tw::load<V>(c+125L) + c5_0);
   c6_0=(tw::load<V>(c+150L) + c6_0);
   c7_0=(tw::load<V>(c+175L) + c7_0);
   c8_0=(tw::load<V>(c+200L) + c8_0);
  } else {
   c0_0=(tw::load_n<V>(c+0L,tail) + c0_0);
   c1_0=(tw::load_n<V>(c+25L,tail) + c1_0);
   c2_0=(tw::load_n<V>(c+50L,tail) + c2_0);
   c3_0=(tw::load_n<V>(c+75L,tail) + c3_0);
   c4_0=(tw::load_n<V>(c+100L,tail) + c4_0);
   c5_0=(tw::load_n<V>(c+125L,tail) + c5_0);
   c6_0=(tw::load_n<V>(c+150L,tail) + c6_0);
   c7_0=(tw::load_n<V>(c+175L,tail) + c7_0);
   c8_0=(tw::load_n<V>(c+200L,tail) + c8_0);
  }
 }
 if(tail==4){
  tw::store(c+0L,c0_0);
  tw::store(c+25L,c1_0);
  tw::store(c+50L,c2_0);
  tw::store(c+75L,c3_0);
  tw::store(c+100L,c4_0);
  tw::store(c+125L,c5_0);
  tw::store(c+150L,c6_0);
  tw::store(c+175L,c7_0);
  tw::store(c+200L,c8_0);
 } else {
  tw::store_n(c+0L,c0_0,tail);
  tw::store_n(c+25L,c1_0,tail);
  tw::store_n(c+50L,c2_0,tail);
  tw::store_n(c+75L,c3_0,tail);
  tw::store_n(c+100L,c4_0,tail);
  tw::store_n(c+125L,c5_0,tail);
  tw::store_n(c+150L,c6_0,tail);
  tw::store_n(c+175L,c7_0,tail);
  tw::store_n(c+200L,c8_0,tail);
 }
}
TW_NOINLINE void mk_9x1t(long kc, const T *TW_RESTRICT a, const unsigned char *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 V c0_0={};
 V c1_0={};
 V c2_0={};
 V c3_0={};
 V c4_0={};
 V c5_0={};
 V c6_0={};
 V c7_0={};
 V c8_0={};
 for(;kc>=2;kc-=2){
 {
  __builtin_prefetch(b+512L,0,3);
  __builtin_prefetch(b+537L,0,3);
  W b0=(as_unit_n(b+0L,tail)|as_unit_n(b+25L,tail)<<16); TW_HOLD(b0);
  { const W x=tw::splat<W>(unit(a+0L));
   c0_0=step(c0_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+16L));
   c1_0=step(c1_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+32L));
   c2_0=step(c2_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+48L));
   c3_0=step(c3_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+64L));
   c4_0=step(c4_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+80L));
   c5_0=step(c5_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+96L));
   c6_0=step(c6_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+112L));
   c7_0=step(c7_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+128L));
   c8_0=step(c8_0,x,b0);
  }
  TW_KEEP(b0);
 }
 {
  __builtin_prefetch(b+562L,0,3);
  __builtin_prefetch(b+587L,0,3);
  W b0=(as_unit_n(b+50L,tail)|as_unit_n(b+75L,tail)<<16); TW_HOLD(b0);
  { const W x=tw::splat<W>(unit(a+1L));
   c0_0=step(c0_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+17L));
   c1_0=step(c1_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+33L));
   c2_0=step(c2_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+49L));
   c3_0=step(c3_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+65L));
   c4_0=step(c4_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+81L));
   c5_0=step(c5_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+97L));
   c6_0=step(c6_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+113L));
   c7_0=step(c7_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+129L));
   c8_0=step(c8_0,x,b0);
  }
  TW_KEEP(b0);
 }
  a+=2L; b+=100L; }
 for(;kc>0;kc--){
  W b0=(as_unit_n(b+0L,tail)|as_unit_n(b+25L,tail)<<16); TW_HOLD(b0);
  { const W x=tw::splat<W>(unit(a+0L));
   c0_0=step(c0_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+16L));
   c1_0=step(c1_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+32L));
   c2_0=step(c2_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+48L));
   c3_0=step(c3_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+64L));
   c4_0=step(c4_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+80L));
   c5_0=step(c5_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+96L));
   c6_0=step(c6_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+112L));
   c7_0=step(c7_0,x,b0);
  }
  { const W x=tw::splat<W>(unit(a+128L));
   c8_0=step(c8_0,x,b0);
  }
  TW_KEEP(b0);
  a+=1L; b+=50L; }
 if(mode&1){
   c0_0=(tw::load_n<V>(c+0L,tail) + c0_0);
   c1_0=(tw::load_n<V>(c+25L,tail) + c1_0);
   c2_0=(tw::load_n<V>(c+50L,tail) + c2_0);
   c3_0=(tw::load_n<V>(c+75L,tail) + c3_0);
   c4_0=(tw::load_n<V>(c+100L,tail) + c4_0);
   c5_0=(tw::load_n<V>(c+125L,tail) + c5_0);
   c6_0=(tw::load_n<V>(c+150L,tail) + c6_0);
   c7_0=(tw::load_n<V>(c+175L,tail) + c7_0);
   c8_0=(tw::load_n<V>(c+200L,tail) + c8_0);
 }
  tw::store_n(c+0L,c0_0,tail);
  tw::store_n(c+25L,c1_0,tail);
  tw::store_n(c+50L,c2_0,tail);
  tw::store_n(c+75L,c3_0,tail);
  tw::store_n(c+100L,c4_0,tail);
  tw::store_n(c+125L,c5_0,tail);
  tw::store_n(c+150L,c6_0,tail);
  tw::store_n(c+175L,c7_0,tail);
  tw::store_n(c+200L,c8_0,tail);
}
TW_NOINLINE void task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
 T *pa=(T*)(x->ws+w*x->bytes);
 const long ti=t%x->TM; t/=x->TM; const long tj=t%x->TN; t/=x->TN;
 const long tk=t%x->TK, o=t/x->TK; (void)o;
 const long r0=ti*1L/x->TM, r1=(ti+1)*1L/x->TM, c0=tj*7L/x->TN, c1=(tj+1)*7L/x->TN;
 const long k0=tk*6L/x->TK, k1=(tk+1)*6L/x->TK;
 int *out=(int*)x->t[2]+0L;
 const unsigned char *B=(const unsigned char*)x->t[1]+0L;
 for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);
  pack_a(x,o,rb0,rb1,0,6L,pa);
 for(long cb0=c0;cb0<c1;cb0+=x->NT) { const long cb1=tw::imin(c1,cb0+x->NT);
  for(long pc=k0;pc<k1;pc+=x->KC) { const long kc=tw::imin(k1-pc,x->KC);
   const long mode=(pc>k0)|(pc+kc>=k1?2:0); (void)mode;
    for(long cb=cb0;cb<cb1;cb++) for(long rb=rb0;rb<rb1;rb++) {
     const long l0=(rb)*9L;
     const T *a=pa+(l0-(rb0)*9L)*16L+pc;
     const unsigned char *b=B+(cb)*1L*4L+pc*50L;
     T *c=out+l0*25L+(cb)*1L*4L;
     if(cb<6L) { mk_9x1(kc,a,b,c,mode,(cb==6L?1L:4L)); } else if(cb==6L) { mk_9x1t(kc,a,b,c,mode,(cb==6L?1L:4L)); }
    } } } } }
}
TW_ENTRY(tw_golden) { using namespace tw_golden_; (void)workspace;
 const long mt=tw::imin(tw::imax(1,args[1]/9),1L);
 const long nt=tw::imin(tw::imax(1,args[2]/4),7L);
 Ctx c{}; Ctx *x=&c; x->t=tensors; x->ws=(char*)workspace+0L; x->image=(T*)workspace;
 x->tables=(T*)((char*)workspace+0L); x->KC=(args[0]+1)/2; x->MT=mt; x->NT=nt; x->TM=args[3];x->TN=args[4];x->TK=args[5];
 x->a_bytes=(mt*9L*16L*4L+4095)/4096*4096; x->bytes=x->a_bytes+0;
 for(x->chunk=0;x->chunk<1L;x->chunk++) {
  tw::parallel_for(env,1L*x->TM*x->TN*x->TK,task,x);
 }
 return 0; }
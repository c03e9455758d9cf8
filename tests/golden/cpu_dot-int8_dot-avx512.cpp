// cpu_dot version 4, cpu:avx512
namespace tw_golden_ {
typedef tw::i32v V; typedef tw::i32v W; typedef int S; typedef short E;
enum { L=16, G=2 };
TW_INLINE int unit(const char *p) { int v; __builtin_memcpy(&v,p,4); return v; }
typedef short Pair __attribute__((vector_size(64)));
#if defined(__clang__)
TW_INLINE V step(V c,W a,W b) { return c+(V)__builtin_ia32_pmaddwd512((Pair)a,(Pair)b); }
#else
TW_INLINE V step(V c,W a,W b) { return c+(V)__builtin_ia32_pmaddwd512_mask((Pair)a,(Pair)b,W{},(unsigned short)-1); }
#endif

struct Ctx { void *const *t; char *packed, *ws; long KC,MT,NT,TM,TN,TK,a_bytes,b_bytes,bytes; };
TW_INLINE W as_unit(const short *p) { return (tw::load<W>(p)&0xffff); }
TW_INLINE W as_unit_n(const short *p,long n) { return (tw::load_n<W>(p,n)&0xffff); }
TW_INLINE E as_element(short x) { return (E)(x); }
TW_INLINE W as_unit(const unsigned char *p) { return (tw::convert<W>(tw::convert<tw::vec<short,L>>(tw::get<tw::vec<unsigned char,L>>((const unsigned char*)p)))&0xffff); }
TW_INLINE W as_unit_n(const unsigned char *p,long n) { return (tw::convert<W>(tw::convert<tw::vec<short,L>>(tw::get_n<tw::vec<unsigned char,L>>((const unsigned char*)p,n)))&0xffff); }
TW_INLINE E as_element(unsigned char x) { return (E)(x); }
TW_INLINE W as_unit(const signed char *p) { return (tw::convert<W>(tw::convert<tw::vec<short,L>>(tw::get<tw::vec<signed char,L>>((const signed char*)p)))&0xffff); }
TW_INLINE W as_unit_n(const signed char *p,long n) { return (tw::convert<W>(tw::convert<tw::vec<short,L>>(tw::get_n<tw::vec<signed char,L>>((const signed char*)p,n)))&0xffff); }
TW_INLINE E as_element(signed char x) { return (E)(x); }
template <class T> TW_INLINE W weave(const T *r0,const T *r1) { return as_unit(r0)|as_unit(r1)<<16; }
typedef tw::vec<int,4> Q;
TW_INLINE int bits(E e) { int v=0; __builtin_memcpy(&v,&e,sizeof e); return v; }
template <class T> TW_INLINE Q as_four(const T *p) {
 Q q; for(int i=0;i<4;i++) q[i]=bits(as_element(p[i]))&65535; return q; }
template <class T> TW_INLINE Q weave4(const T *r0,const T *r1) { return as_four(r0)|as_four(r1)<<16; }
template <class T> TW_INLINE int gather(const T *p,long step,long n) {
 E e[G]={}; for(long i=0;i<n;i++) e[i]=as_element(p[i*step]);
 int v; __builtin_memcpy(&v,e,4); return v; }
template <class T> TW_INLINE void copy(E *d,const T *s,long n) {
 if constexpr(sizeof(T)==sizeof(E) && sizeof(T)<4) __builtin_memcpy(d,s,n*sizeof(E));
 else { long i=0;
  if constexpr(sizeof(E)==4) for(;i+L<=n;i+=L) tw::put<W>((int*)d+i,as_unit(s+i));
  for(;i<n;i++) d[i]=as_element(s[i]); } }
TW_INLINE void turn(Q a,Q b,Q c,Q e,char *d0,char *d1,char *d2,char *d3) {
 const Q ab=__builtin_shufflevector(a,b,0,4,1,5),AB=__builtin_shufflevector(a,b,2,6,3,7);
 const Q ce=__builtin_shufflevector(c,e,0,4,1,5),CE=__builtin_shufflevector(c,e,2,6,3,7);
 tw::put<Q>((int*)d0,__builtin_shufflevector(ab,ce,0,1,4,5));
 tw::put<Q>((int*)d1,__builtin_shufflevector(ab,ce,2,3,6,7));
 tw::put<Q>((int*)d2,__builtin_shufflevector(AB,CE,0,1,4,5));
 tw::put<Q>((int*)d3,__builtin_shufflevector(AB,CE,2,3,6,7)); }

TW_INLINE Q four(const unsigned char *p) { E e[4*G]; for(int i=0;i<4*G;i++) e[i]=as_element(p[i]); return tw::get<Q>((const int*)e); }
TW_INLINE Q four(const signed char *p) { E e[4*G]; for(int i=0;i<4*G;i++) e[i]=as_element(p[i]); return tw::get<Q>((const int*)e); }

TW_NOINLINE void row_a(const Ctx *x,long o,long at,long f0,long n,E *d) { (void)o; (void)at;
 const long i0=at; (void)i0; 
 for(long l=0;l<n;) { const long r0=(f0+l); (void)r0; 
  const long len=tw::imin(n-l,12L-r0); long lo=0,hi=len;
  if(lo>hi) lo=hi;
  const signed char *s=(const signed char*)x->t[0]+(0L+12L*i0+1L*r0);
  if(hi>lo) copy(d+l+lo,s+lo,hi-lo);
  l+=len; } }

TW_NOINLINE void pack_a(const Ctx *x, long o, long m0, long rows, char *q) { (void)o;
 
 const signed char *s=(const signed char*)x->t[0]+0L+m0*12L; long r=0;
 for(;r<rows;r++) { E *d=(E*)(q+r*64L); copy(d,s+r*12L,12L); } }

TW_INLINE void finish(const Ctx *x,long o,long m,long n,V v,int *d) { (void)x; (void)o; (void)m; (void)n;
 const auto s0=v;
 tw::store(d,s0); }
TW_INLINE void finish_n(const Ctx *x,long o,long m,long n,V v,int *d,long count) { (void)x; (void)o; (void)m; (void)n;
 const auto s0=v;
 tw::store_n(d,s0,count); }

TW_NOINLINE void mk_9x2(const Ctx *x,long units,const char *a,const char *b,S *c,long ldc,long mode,long tail,long o,long m,long n) { (void)x; (void)o; (void)m; (void)n; (void)ldc;
 V c0_0={},c0_1={};
 V c1_0={},c1_1={};
 V c2_0={},c2_1={};
 V c3_0={},c3_1={};
 V c4_0={},c4_1={};
 V c5_0={},c5_1={};
 V c6_0={},c6_1={};
 V c7_0={},c7_1={};
 V c8_0={},c8_1={};
 for(;units>=1;units-=1) {
  {
   __builtin_prefetch(b+512L,0,3);
   __builtin_prefetch(b+537L,0,3);
   const W b0=(as_unit((const unsigned char*)(b+0L)+0)|as_unit((const unsigned char*)(b+25L)+0)<<16);
   const W b1=(as_unit((const unsigned char*)(b+0L)+16)|as_unit((const unsigned char*)(b+25L)+16)<<16);
   { const W y=tw::splat<W>(unit(a+0L));
    c0_0=step(c0_0,y,b0); c0_1=step(c0_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+64L));
    c1_0=step(c1_0,y,b0); c1_1=step(c1_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+128L));
    c2_0=step(c2_0,y,b0); c2_1=step(c2_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+192L));
    c3_0=step(c3_0,y,b0); c3_1=step(c3_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+256L));
    c4_0=step(c4_0,y,b0); c4_1=step(c4_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+320L));
    c5_0=step(c5_0,y,b0); c5_1=step(c5_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+384L));
    c6_0=step(c6_0,y,b0); c6_1=step(c6_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+448L));
    c7_0=step(c7_0,y,b0); c7_1=step(c7_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+512L));
    c8_0=step(c8_0,y,b0); c8_1=step(c8_1,y,b1); }
  }
  a+=4; b+=50L; }
 if(mode&1) {
  c0_0+=tw::load<V>(c+0*ldc+0);
  c0_1+=tw::load_n<V>(c+0*ldc+16,tail);
  c1_0+=tw::load<V>(c+1*ldc+0);
  c1_1+=tw::load_n<V>(c+1*ldc+16,tail);
  c2_0+=tw::load<V>(c+2*ldc+0);
  c2_1+=tw::load_n<V>(c+2*ldc+16,tail);
  c3_0+=tw::load<V>(c+3*ldc+0);
  c3_1+=tw::load_n<V>(c+3*ldc+16,tail);
  c4_0+=tw::load<V>(c+4*ldc+0);
  c4_1+=tw::load_n<V>(c+4*ldc+16,tail);
  c5_0+=tw::load<V>(c+5*ldc+0);
  c5_1+=tw::load_n<V>(c+5*ldc+16,tail);
  c6_0+=tw::load<V>(c+6*ldc+0);
  c6_1+=tw::load_n<V>(c+6*ldc+16,tail);
  c7_0+=tw::load<V>(c+7*ldc+0);
  c7_1+=tw::load_n<V>(c+7*ldc+16,tail);
  c8_0+=tw::load<V>(c+8*ldc+0);
  c8_1+=tw::load_n<V>(c+8*ldc+16,tail);
 }
 if(mode&2) {
  int *const out=(int*)x->t[2]+0L+m*25L+n; 
  finish(x,o,m+0,n+0,c0_0,out+(0)*25L+(0));
  finish(x,o,m+1,n+0,c1_0,out+(1)*25L+(0));
  finish(x,o,m+2,n+0,c2_0,out+(2)*25L+(0));
  finish(x,o,m+3,n+0,c3_0,out+(3)*25L+(0));
  finish(x,o,m+4,n+0,c4_0,out+(4)*25L+(0));
  finish(x,o,m+5,n+0,c5_0,out+(5)*25L+(0));
  finish(x,o,m+6,n+0,c6_0,out+(6)*25L+(0));
  finish(x,o,m+7,n+0,c7_0,out+(7)*25L+(0));
  finish(x,o,m+8,n+0,c8_0,out+(8)*25L+(0));
  if(tail==L) {
   finish(x,o,m+0,n+16,c0_1,out+(0)*25L+(16));
   finish(x,o,m+1,n+16,c1_1,out+(1)*25L+(16));
   finish(x,o,m+2,n+16,c2_1,out+(2)*25L+(16));
   finish(x,o,m+3,n+16,c3_1,out+(3)*25L+(16));
   finish(x,o,m+4,n+16,c4_1,out+(4)*25L+(16));
   finish(x,o,m+5,n+16,c5_1,out+(5)*25L+(16));
   finish(x,o,m+6,n+16,c6_1,out+(6)*25L+(16));
   finish(x,o,m+7,n+16,c7_1,out+(7)*25L+(16));
   finish(x,o,m+8,n+16,c8_1,out+(8)*25L+(16));
  } else {
   finish_n(x,o,m+0,n+16,c0_1,out+(0)*25L+(16),tail);
   finish_n(x,o,m+1,n+16,c1_1,out+(1)*25L+(16),tail);
   finish_n(x,o,m+2,n+16,c2_1,out+(2)*25L+(16),tail);
   finish_n(x,o,m+3,n+16,c3_1,out+(3)*25L+(16),tail);
   finish_n(x,o,m+4,n+16,c4_1,out+(4)*25L+(16),tail);
   finish_n(x,o,m+5,n+16,c5_1,out+(5)*25L+(16),tail);
   finish_n(x,o,m+6,n+16,c6_1,out+(6)*25L+(16),tail);
   finish_n(x,o,m+7,n+16,c7_1,out+(7)*25L+(16),tail);
   finish_n(x,o,m+8,n+16,c8_1,out+(8)*25L+(16),tail);
  }
  return; }
 tw::store(c+0*ldc+0,c0_0);
 tw::store_n(c+0*ldc+16,c0_1,tail);
 tw::store(c+1*ldc+0,c1_0);
 tw::store_n(c+1*ldc+16,c1_1,tail);
 tw::store(c+2*ldc+0,c2_0);
 tw::store_n(c+2*ldc+16,c2_1,tail);
 tw::store(c+3*ldc+0,c3_0);
 tw::store_n(c+3*ldc+16,c3_1,tail);
 tw::store(c+4*ldc+0,c4_0);
 tw::store_n(c+4*ldc+16,c4_1,tail);
 tw::store(c+5*ldc+0,c5_0);
 tw::store_n(c+5*ldc+16,c5_1,tail);
 tw::store(c+6*ldc+0,c6_0);
 tw::store_n(c+6*ldc+16,c6_1,tail);
 tw::store(c+7*ldc+0,c7_0);
 tw::store_n(c+7*ldc+16,c7_1,tail);
 tw::store(c+8*ldc+0,c8_0);
 tw::store_n(c+8*ldc+16,c8_1,tail);
}

TW_NOINLINE void mk_9x2t(const Ctx *x,long units,const char *a,const char *b,S *c,long ldc,long mode,long tail,long o,long m,long n) { (void)x; (void)o; (void)m; (void)n; (void)ldc;
 V c0_0={},c0_1={};
 V c1_0={},c1_1={};
 V c2_0={},c2_1={};
 V c3_0={},c3_1={};
 V c4_0={},c4_1={};
 V c5_0={},c5_1={};
 V c6_0={},c6_1={};
 V c7_0={},c7_1={};
 V c8_0={},c8_1={};
 for(;units>=1;units-=1) {
  {
   __builtin_prefetch(b+512L,0,3);
   __builtin_prefetch(b+537L,0,3);
   const W b0=(as_unit((const unsigned char*)(b+0L)+0)|as_unit((const unsigned char*)(b+25L)+0)<<16);
   const W b1=(as_unit_n((const unsigned char*)(b+0L)+16,tail)|as_unit_n((const unsigned char*)(b+25L)+16,tail)<<16);
   { const W y=tw::splat<W>(unit(a+0L));
    c0_0=step(c0_0,y,b0); c0_1=step(c0_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+64L));
    c1_0=step(c1_0,y,b0); c1_1=step(c1_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+128L));
    c2_0=step(c2_0,y,b0); c2_1=step(c2_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+192L));
    c3_0=step(c3_0,y,b0); c3_1=step(c3_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+256L));
    c4_0=step(c4_0,y,b0); c4_1=step(c4_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+320L));
    c5_0=step(c5_0,y,b0); c5_1=step(c5_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+384L));
    c6_0=step(c6_0,y,b0); c6_1=step(c6_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+448L));
    c7_0=step(c7_0,y,b0); c7_1=step(c7_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+512L));
    c8_0=step(c8_0,y,b0); c8_1=step(c8_1,y,b1); }
  }
  a+=4; b+=50L; }
 if(mode&1) {
  c0_0+=tw::load<V>(c+0*ldc+0);
  c0_1+=tw::load_n<V>(c+0*ldc+16,tail);
  c1_0+=tw::load<V>(c+1*ldc+0);
  c1_1+=tw::load_n<V>(c+1*ldc+16,tail);
  c2_0+=tw::load<V>(c+2*ldc+0);
  c2_1+=tw::load_n<V>(c+2*ldc+16,tail);
  c3_0+=tw::load<V>(c+3*ldc+0);
  c3_1+=tw::load_n<V>(c+3*ldc+16,tail);
  c4_0+=tw::load<V>(c+4*ldc+0);
  c4_1+=tw::load_n<V>(c+4*ldc+16,tail);
  c5_0+=tw::load<V>(c+5*ldc+0);
  c5_1+=tw::load_n<V>(c+5*ldc+16,tail);
  c6_0+=tw::load<V>(c+6*ldc+0);
  c6_1+=tw::load_n<V>(c+6*ldc+16,tail);
  c7_0+=tw::load<V>(c+7*ldc+0);
  c7_1+=tw::load_n<V>(c+7*ldc+16,tail);
  c8_0+=tw::load<V>(c+8*ldc+0);
  c8_1+=tw::load_n<V>(c+8*ldc+16,tail);
 }
 if(mode&2) {
  int *const out=(int*)x->t[2]+0L+m*25L+n; 
  finish(x,o,m+0,n+0,c0_0,out+(0)*25L+(0));
  finish(x,o,m+1,n+0,c1_0,out+(1)*25L+(0));
  finish(x,o,m+2,n+0,c2_0,out+(2)*25L+(0));
  finish(x,o,m+3,n+0,c3_0,out+(3)*25L+(0));
  finish(x,o,m+4,n+0,c4_0,out+(4)*25L+(0));
  finish(x,o,m+5,n+0,c5_0,out+(5)*25L+(0));
  finish(x,o,m+6,n+0,c6_0,out+(6)*25L+(0));
  finish(x,o,m+7,n+0,c7_0,out+(7)*25L+(0));
  finish(x,o,m+8,n+0,c8_0,out+(8)*25L+(0));
  if(tail==L) {
   finish(x,o,m+0,n+16,c0_1,out+(0)*25L+(16));
   finish(x,o,m+1,n+16,c1_1,out+(1)*25L+(16));
   finish(x,o,m+2,n+16,c2_1,out+(2)*25L+(16));
   finish(x,o,m+3,n+16,c3_1,out+(3)*25L+(16));
   finish(x,o,m+4,n+16,c4_1,out+(4)*25L+(16));
   finish(x,o,m+5,n+16,c5_1,out+(5)*25L+(16));
   finish(x,o,m+6,n+16,c6_1,out+(6)*25L+(16));
   finish(x,o,m+7,n+16,c7_1,out+(7)*25L+(16));
   finish(x,o,m+8,n+16,c8_1,out+(8)*25L+(16));
  } else {
   finish_n(x,o,m+0,n+16,c0_1,out+(0)*25L+(16),tail);
   finish_n(x,o,m+1,n+16,c1_1,out+(1)*25L+(16),tail);
   finish_n(x,o,m+2,n+16,c2_1,out+(2)*25L+(16),tail);
   finish_n(x,o,m+3,n+16,c3_1,out+(3)*25L+(16),tail);
   finish_n(x,o,m+4,n+16,c4_1,out+(4)*25L+(16),tail);
   finish_n(x,o,m+5,n+16,c5_1,out+(5)*25L+(16),tail);
   finish_n(x,o,m+6,n+16,c6_1,out+(6)*25L+(16),tail);
   finish_n(x,o,m+7,n+16,c7_1,out+(7)*25L+(16),tail);
   finish_n(x,o,m+8,n+16,c8_1,out+(8)*25L+(16),tail);
  }
  return; }
 tw::store(c+0*ldc+0,c0_0);
 tw::store_n(c+0*ldc+16,c0_1,tail);
 tw::store(c+1*ldc+0,c1_0);
 tw::store_n(c+1*ldc+16,c1_1,tail);
 tw::store(c+2*ldc+0,c2_0);
 tw::store_n(c+2*ldc+16,c2_1,tail);
 tw::store(c+3*ldc+0,c3_0);
 tw::store_n(c+3*ldc+16,c3_1,tail);
 tw::store(c+4*ldc+0,c4_0);
 tw::store_n(c+4*ldc+16,c4_1,tail);
 tw::store(c+5*ldc+0,c5_0);
 tw::store_n(c+5*ldc+16,c5_1,tail);
 tw::store(c+6*ldc+0,c6_0);
 tw::store_n(c+6*ldc+16,c6_1,tail);
 tw::store(c+7*ldc+0,c7_0);
 tw::store_n(c+7*ldc+16,c7_1,tail);
 tw::store(c+8*ldc+0,c8_0);
 tw::store_n(c+8*ldc+16,c8_1,tail);
}

TW_NOINLINE void task(void *ctx,long t,long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
 const long ti=t%x->TM; t/=x->TM; const long tj=t%x->TN; t/=x->TN;
 const long o=t, first=0, end=12L; (void)o;
 
 const long ob=0; (void)ob;
 const long r0=ti*1L/x->TM, r1=(ti+1)*1L/x->TM;
 const long c0=tj*1L/x->TN, c1=(tj+1)*1L/x->TN;
 char *const mine=x->ws+w*x->bytes;
 S *const out=(S*)x->t[2]+0L; const long ldc=25L;
 const char *const B=(const char*)x->t[1]+(0L)*1L;
 for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);
  pack_a(x,o,(rb0)*9L,(rb1)*9L-(rb0)*9L,mine);
  for(long cb0=c0;cb0<c1;cb0+=x->NT) { const long cb1=tw::imin(c1,cb0+x->NT);
   for(long k0=first;k0<end;k0+=x->KC) { const long kc=tw::imin(x->KC,end-k0);
    const long mode=(k0>first?1:0)|(k0+kc>=12L?6:0), panel=((kc+1L)/2L*64L);
    (void)panel;
    for(long cb=cb0;cb<cb1;cb++) for(long rb=rb0;rb<rb1;rb++) {
     const long m=(rb)*9L, v=(cb)*2L, n=v*16L;
     const char *a=mine+(m-(rb0)*9L)*64L+k0*2L;
     const char *b=B+k0*25L+n*1L;
     if(cb==0L) mk_9x2t(x,(kc+1L)/2L,a,b,out+m*ldc+n,ldc,mode,(cb==0L?9L:16L),o,m,n); else mk_9x2(x,(kc+1L)/2L,a,b,out+m*ldc+n,ldc,mode,(cb==0L?9L:16L),o,m,n);
    } } } } }

}
TW_ENTRY(tw_golden) { using namespace tw_golden_; (void)workspace;
 const long kc=tw::imin(args[0],12L); (void)kc;
 const long mt=tw::imin(tw::imax(1,args[1]/9),1L);
 const long nt=tw::imin(tw::imax(1,args[2]/32),1L);
 Ctx x; x.t=tensors; x.KC=args[0]; x.MT=mt; x.NT=nt; x.TM=args[3];x.TN=args[4];x.TK=args[5];
 x.a_bytes=mt*576L; x.b_bytes=0; x.bytes=x.a_bytes+x.b_bytes+0;
 x.packed=nullptr; x.ws=(char*)workspace;
 tw::parallel_for(env,1L*x.TM*x.TN*x.TK,task,&x);
 return 0; }
// cpu_dot version 4, cpu:avx512bf16
namespace tw_golden_ {
typedef tw::i32v V; typedef tw::i32v W; typedef int S; typedef unsigned char E;
enum { L=16, G=4 };
TW_INLINE int unit(const char *p) { int v; __builtin_memcpy(&v,p,4); return v; }
#if defined(__clang__)
TW_INLINE V dot4(V c,W u,W s) { return __builtin_ia32_vpdpbusd512(c,u,s); }
#else
TW_INLINE V dot4(V c,W u,W s) { return (V)__builtin_ia32_vpdpbusd_v16si((W)c,u,s); }
#endif
typedef tw::vec<int,4> Q; typedef tw::vec<unsigned char,64> B64;
TW_INLINE Q bytes16(const void *p) { return tw::get<Q>((const int*)p); }
TW_INLINE Q bytes16_n(const void *p,long n) {
 return (Q)tw::get_n<tw::vec<unsigned char,16>>((const unsigned char*)p,n); }
TW_INLINE W weave_bytes(Q a,Q b,Q c,Q d) {
 const W v=tw::join<W>(tw::join<tw::vec<int,8>>(a,b),tw::join<tw::vec<int,8>>(c,d));
 const B64 t=(B64)__builtin_shufflevector(v,v,0,4,8,12,1,5,9,13,2,6,10,14,3,7,11,15);
 return (W)__builtin_shufflevector(t,t,0,4,8,12,1,5,9,13,2,6,10,14,3,7,11,15,
  16,20,24,28,17,21,25,29,18,22,26,30,19,23,27,31,32,36,40,44,33,37,41,45,34,38,42,46,35,39,43,47,
  48,52,56,60,49,53,57,61,50,54,58,62,51,55,59,63); }
TW_INLINE V step(V c,W a,W b) { return dot4(c,b,a); }

struct Ctx { void *const *t; char *packed, *ws; long KC,MT,NT,TM,TN,TK,a_bytes,b_bytes,bytes; };
TW_INLINE W as_unit(const unsigned char *p) { return (W)tw::convert<V>(tw::convert<W>(tw::convert<tw::vec<short,L>>(tw::get<tw::vec<unsigned char,L>>((const unsigned char*)p)))); }
TW_INLINE W as_unit_n(const unsigned char *p,long n) { return (W)tw::convert<V>(tw::convert<W>(tw::convert<tw::vec<short,L>>(tw::get_n<tw::vec<unsigned char,L>>((const unsigned char*)p,n)))); }
TW_INLINE E as_element(unsigned char x) { return (E)(x); }
template <class T> TW_INLINE W weave(const T *r0,const T *r1,const T *r2,const T *r3) { return weave_bytes(bytes16(r0),bytes16(r1),bytes16(r2),bytes16(r3)); }
typedef tw::vec<int,4> Q;
TW_INLINE int bits(E e) { int v=0; __builtin_memcpy(&v,&e,sizeof e); return v; }
template <class T> TW_INLINE Q as_four(const T *p) {
 Q q; for(int i=0;i<4;i++) q[i]=bits(as_element(p[i]))&255; return q; }
template <class T> TW_INLINE Q weave4(const T *r0,const T *r1,const T *r2,const T *r3) { return as_four(r0)|as_four(r1)<<8|as_four(r2)<<16|as_four(r3)<<24; }
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

TW_INLINE Q four(const unsigned char *p) { return tw::get<Q>((const int*)p); }
TW_INLINE Q four(const signed char *p) { return tw::get<Q>((const int*)p); }

TW_NOINLINE void row_b(const Ctx *x,long o,long at,long f0,long n,E *d) { (void)o; (void)at;
 const long r0=at; (void)r0; 
 for(long l=0;l<n;) { const long i1=(f0+l); (void)i1; 
  const long len=tw::imin(n-l,25L-i1); long lo=0,hi=len;
  if(lo>hi) lo=hi;
  const unsigned char *s=(const unsigned char*)x->t[1]+(0L+25L*r0+1L*i1);
  if(hi>lo) copy(d+l+lo,s+lo,hi-lo);
  l+=len; } }

TW_NOINLINE void pack_b(const Ctx *x, long o, long cb, long ce, long k0, long kc, char *q) { (void)o;
 
 const long units=kc/4L, rest=kc-units*4L; (void)rest;
 for(;cb<ce;cb++) { const long v=2L, j0=(cb)*2L*16L;
  const long n=tw::imin(v*16L,25L-j0); (void)n;
  const unsigned char *s=(const unsigned char*)x->t[1]+0L+j0*1L+k0*25L;
  if(n==v*16L) {
   char *d=q;
   for(long u=0;u<units;u++,s+=100L) for(long i=0,l=0;i<v;i++,l+=L,d+=64) tw::put<W>((int*)(d),weave(s+0L+l,s+25L+l,s+50L+l,s+75L+l));
   if(rest) { const unsigned char none[L]={};
    for(long i=0,l=0;i<v;i++,l+=L,d+=64) tw::put<W>((int*)(d),weave((0<rest?s+0L+l:none),(1<rest?s+25L+l:none),(2<rest?s+50L+l:none),(3<rest?s+75L+l:none))); }
  } else {
   alignas(64) E rows[4][32]={}; char *d=q;
   for(long k=0;k<kc;) {
    if(k<kc) row_b(x,o,k0+k,j0,n,rows[0]); k++;
    if(k<kc) row_b(x,o,k0+k,j0,n,rows[1]); else __builtin_memset(rows[1],0,sizeof rows[1]); k++;
    if(k<kc) row_b(x,o,k0+k,j0,n,rows[2]); else __builtin_memset(rows[2],0,sizeof rows[2]); k++;
    if(k<kc) row_b(x,o,k0+k,j0,n,rows[3]); else __builtin_memset(rows[3],0,sizeof rows[3]); k++;
    for(long i=0,l=0;i<v;i++,l+=L,d+=64) tw::put<W>((int*)(d),weave(rows[0]+l,rows[1]+l,rows[2]+l,rows[3]+l)); }
  }
  q+=v*(units+(rest?1:0))*64L; } }

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
   __builtin_prefetch(b+2048L,0,3);
   __builtin_prefetch(b+2112L,0,3);
   const W b0=tw::get<W>((const int*)(b+0L));
   const W b1=tw::get<W>((const int*)(b+64L));
   { const W y=tw::splat<W>(unit(a+0L));
    c0_0=step(c0_0,y,b0); c0_1=step(c0_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+12L));
    c1_0=step(c1_0,y,b0); c1_1=step(c1_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+24L));
    c2_0=step(c2_0,y,b0); c2_1=step(c2_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+36L));
    c3_0=step(c3_0,y,b0); c3_1=step(c3_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+48L));
    c4_0=step(c4_0,y,b0); c4_1=step(c4_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+60L));
    c5_0=step(c5_0,y,b0); c5_1=step(c5_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+72L));
    c6_0=step(c6_0,y,b0); c6_1=step(c6_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+84L));
    c7_0=step(c7_0,y,b0); c7_1=step(c7_1,y,b1); }
   { const W y=tw::splat<W>(unit(a+96L));
    c8_0=step(c8_0,y,b0); c8_1=step(c8_1,y,b1); }
  }
  a+=4; b+=128L; }
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
 const char *const A=(const char*)x->t[0]+(0L)*1L;
 for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);
  for(long cb0=c0;cb0<c1;cb0+=x->NT) { const long cb1=tw::imin(c1,cb0+x->NT);
   for(long k0=first;k0<end;k0+=x->KC) { const long kc=tw::imin(x->KC,end-k0);
    const long mode=(k0>first?1:0)|(k0+kc>=12L?6:0), panel=((kc+3L)/4L*64L);
    char *const B=mine+x->a_bytes; pack_b(x,ob,cb0,cb1,k0,kc,B);
    for(long cb=cb0;cb<cb1;cb++) for(long rb=rb0;rb<rb1;rb++) {
     const long m=(rb)*9L, v=(cb)*2L, n=v*16L;
     const char *a=A+m*12L+k0*1L;
     const char *b=B+(v-(cb0)*2L)*panel;
     mk_9x2(x,(kc+3L)/4L,a,b,out+m*ldc+n,ldc,mode,(cb==0L?9L:16L),o,m,n);
    } } } } }

}
TW_ENTRY(tw_golden) { using namespace tw_golden_; (void)workspace;
 const long kc=tw::imin(args[0],12L); (void)kc;
 const long mt=tw::imin(tw::imax(1,args[1]/9),1L);
 const long nt=tw::imin(tw::imax(1,args[2]/32),1L);
 Ctx x; x.t=tensors; x.KC=args[0]; x.MT=mt; x.NT=nt; x.TM=args[3];x.TN=args[4];x.TK=args[5];
 x.a_bytes=0; x.b_bytes=nt*2L*((kc+3L)/4L*64L); x.bytes=x.a_bytes+x.b_bytes+0;
 x.packed=nullptr; x.ws=(char*)workspace;
 tw::parallel_for(env,1L*x.TM*x.TN*x.TK,task,&x);
 return 0; }
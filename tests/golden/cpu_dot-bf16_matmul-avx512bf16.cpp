// cpu_dot version 2, cpu:avx512bf16
namespace tw_golden_ {
typedef tw::f32v V; typedef tw::i32v W; typedef float S; typedef unsigned short E;
enum { L=16, G=2 };
TW_INLINE int unit(const char *p) { int v; __builtin_memcpy(&v,p,4); return v; }
#if defined(__clang__)
typedef __bf16 Pair __attribute__((vector_size(64)));
TW_INLINE V step(V c,W a,W b) { return __builtin_ia32_dpbf16ps_512(c,(Pair)a,(Pair)b); }
#elif __GNUC__ >= 13
typedef __bf16 Pair __attribute__((vector_size(64)));
TW_INLINE V step(V c,W a,W b) { return __builtin_ia32_dpbf16ps_v16sf(c,(Pair)a,(Pair)b); }
#else
typedef short Pair __attribute__((vector_size(64)));
TW_INLINE V step(V c,W a,W b) { return __builtin_ia32_dpbf16ps_v16sf(c,(Pair)a,(Pair)b); }
#endif
#if defined(__clang__)
TW_INLINE tw::vec<unsigned short,16> rounded(V v) {
 return (tw::vec<unsigned short,16>)__builtin_ia32_cvtneps2bf16_512(v); }
#else
TW_INLINE tw::vec<unsigned short,16> rounded(V v) {
 return (tw::vec<unsigned short,16>)__builtin_ia32_cvtneps2bf16_v16sf(v); }
#endif

struct Ctx { void *const *t; char *packed, *ws; long KC,MT,NT,TM,TN,a_bytes,b_bytes,bytes; };
TW_INLINE W as_unit(const unsigned short *p) { return tw::convert<W>(tw::get<tw::vec<unsigned short,L>>((const unsigned short*)p)); }
TW_INLINE W as_unit_n(const unsigned short *p,long n) { return tw::convert<W>(tw::get_n<tw::vec<unsigned short,L>>((const unsigned short*)p,n)); }
TW_INLINE E as_element(unsigned short x) { return (E)(x); }
TW_INLINE W as_unit(const tw::bf16 *p) { return tw::convert<W>(tw::get<tw::vec<unsigned short,L>>((const unsigned short*)p)); }
TW_INLINE W as_unit_n(const tw::bf16 *p,long n) { return tw::convert<W>(tw::get_n<tw::vec<unsigned short,L>>((const unsigned short*)p,n)); }
TW_INLINE E as_element(tw::bf16 x) { return x.bits; }
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

TW_INLINE Q four(const tw::bf16 *p) { return tw::get<Q>((const int*)p); }

TW_INLINE int last(const char *p) { int v=0; __builtin_memcpy(&v,p,2); return v; }

TW_INLINE void finish(const Ctx *x,long o,long m,long n,V v,tw::bf16 *d) { (void)x; (void)o; (void)m; (void)n;
 const auto s0=tw::convert<tw::vec<float, 16>>(v);
 tw::store((unsigned short*)d,rounded(s0)); }
TW_INLINE void finish_n(const Ctx *x,long o,long m,long n,V v,tw::bf16 *d,long count) { (void)x; (void)o; (void)m; (void)n;
 const auto s0=tw::convert<tw::vec<float, 16>>(v);
 tw::store_n((unsigned short*)d,rounded(s0),count); }

TW_NOINLINE void mk_9x3(const Ctx *x,long units,const char *a,const char *b,S *c,long ldc,long mode,long tail,long o,long m,long n) { (void)x; (void)o; (void)m; (void)n; (void)ldc;
 V c0_0={},c0_1={},c0_2={};
 V c1_0={},c1_1={},c1_2={};
 V c2_0={},c2_1={},c2_2={};
 V c3_0={},c3_1={},c3_2={};
 V c4_0={},c4_1={},c4_2={};
 V c5_0={},c5_1={},c5_2={};
 V c6_0={},c6_1={},c6_2={};
 V c7_0={},c7_1={},c7_2={};
 V c8_0={},c8_1={},c8_2={};
 for(;units>=1;units-=1) {
  {
   __builtin_prefetch(b+512L,0,3);
   __builtin_prefetch(b+576L,0,3);
   __builtin_prefetch(b+586L,0,3);
   __builtin_prefetch(b+650L,0,3);
   const W b0=(as_unit((const tw::bf16*)(b+0L)+0)|as_unit((const tw::bf16*)(b+74L)+0)<<16);
   const W b1=(as_unit((const tw::bf16*)(b+0L)+16)|as_unit((const tw::bf16*)(b+74L)+16)<<16);
   const W b2=(as_unit((const tw::bf16*)(b+0L)+32)|as_unit((const tw::bf16*)(b+74L)+32)<<16);
   { const W y=tw::splat<W>(unit(a+0L));
    c0_0=step(c0_0,y,b0); c0_1=step(c0_1,y,b1); c0_2=step(c0_2,y,b2); }
   { const W y=tw::splat<W>(unit(a+42L));
    c1_0=step(c1_0,y,b0); c1_1=step(c1_1,y,b1); c1_2=step(c1_2,y,b2); }
   { const W y=tw::splat<W>(unit(a+84L));
    c2_0=step(c2_0,y,b0); c2_1=step(c2_1,y,b1); c2_2=step(c2_2,y,b2); }
   { const W y=tw::splat<W>(unit(a+126L));
    c3_0=step(c3_0,y,b0); c3_1=step(c3_1,y,b1); c3_2=step(c3_2,y,b2); }
   { const W y=tw::splat<W>(unit(a+168L));
    c4_0=step(c4_0,y,b0); c4_1=step(c4_1,y,b1); c4_2=step(c4_2,y,b2); }
   { const W y=tw::splat<W>(unit(a+210L));
    c5_0=step(c5_0,y,b0); c5_1=step(c5_1,y,b1); c5_2=step(c5_2,y,b2); }
   { const W y=tw::splat<W>(unit(a+252L));
    c6_0=step(c6_0,y,b0); c6_1=step(c6_1,y,b1); c6_2=step(c6_2,y,b2); }
   { const W y=tw::splat<W>(unit(a+294L));
    c7_0=step(c7_0,y,b0); c7_1=step(c7_1,y,b1); c7_2=step(c7_2,y,b2); }
   { const W y=tw::splat<W>(unit(a+336L));
    c8_0=step(c8_0,y,b0); c8_1=step(c8_1,y,b1); c8_2=step(c8_2,y,b2); }
  }
  a+=4; b+=148L; }
 if(mode&2) {
  {
   __builtin_prefetch(b+512L,0,3);
   __builtin_prefetch(b+576L,0,3);
   __builtin_prefetch(b+586L,0,3);
   __builtin_prefetch(b+650L,0,3);
   const W b0=(as_unit((const tw::bf16*)(b+0L)+0));
   const W b1=(as_unit((const tw::bf16*)(b+0L)+16));
   const W b2=(as_unit((const tw::bf16*)(b+0L)+32));
   { const W y=tw::splat<W>(last(a+0L));
    c0_0=step(c0_0,y,b0); c0_1=step(c0_1,y,b1); c0_2=step(c0_2,y,b2); }
   { const W y=tw::splat<W>(last(a+42L));
    c1_0=step(c1_0,y,b0); c1_1=step(c1_1,y,b1); c1_2=step(c1_2,y,b2); }
   { const W y=tw::splat<W>(last(a+84L));
    c2_0=step(c2_0,y,b0); c2_1=step(c2_1,y,b1); c2_2=step(c2_2,y,b2); }
   { const W y=tw::splat<W>(last(a+126L));
    c3_0=step(c3_0,y,b0); c3_1=step(c3_1,y,b1); c3_2=step(c3_2,y,b2); }
   { const W y=tw::splat<W>(last(a+168L));
    c4_0=step(c4_0,y,b0); c4_1=step(c4_1,y,b1); c4_2=step(c4_2,y,b2); }
   { const W y=tw::splat<W>(last(a+210L));
    c5_0=step(c5_0,y,b0); c5_1=step(c5_1,y,b1); c5_2=step(c5_2,y,b2); }
   { const W y=tw::splat<W>(last(a+252L));
    c6_0=step(c6_0,y,b0); c6_1=step(c6_1,y,b1); c6_2=step(c6_2,y,b2); }
   { const W y=tw::splat<W>(last(a+294L));
    c7_0=step(c7_0,y,b0); c7_1=step(c7_1,y,b1); c7_2=step(c7_2,y,b2); }
   { const W y=tw::splat<W>(last(a+336L));
    c8_0=step(c8_0,y,b0); c8_1=step(c8_1,y,b1); c8_2=step(c8_2,y,b2); }
  }
 }
 if(mode&1) {
  c0_0+=tw::load<V>(c+0*ldc+0);
  c0_1+=tw::load<V>(c+0*ldc+16);
  c0_2+=tw::load_n<V>(c+0*ldc+32,tail);
  c1_0+=tw::load<V>(c+1*ldc+0);
  c1_1+=tw::load<V>(c+1*ldc+16);
  c1_2+=tw::load_n<V>(c+1*ldc+32,tail);
  c2_0+=tw::load<V>(c+2*ldc+0);
  c2_1+=tw::load<V>(c+2*ldc+16);
  c2_2+=tw::load_n<V>(c+2*ldc+32,tail);
  c3_0+=tw::load<V>(c+3*ldc+0);
  c3_1+=tw::load<V>(c+3*ldc+16);
  c3_2+=tw::load_n<V>(c+3*ldc+32,tail);
  c4_0+=tw::load<V>(c+4*ldc+0);
  c4_1+=tw::load<V>(c+4*ldc+16);
  c4_2+=tw::load_n<V>(c+4*ldc+32,tail);
  c5_0+=tw::load<V>(c+5*ldc+0);
  c5_1+=tw::load<V>(c+5*ldc+16);
  c5_2+=tw::load_n<V>(c+5*ldc+32,tail);
  c6_0+=tw::load<V>(c+6*ldc+0);
  c6_1+=tw::load<V>(c+6*ldc+16);
  c6_2+=tw::load_n<V>(c+6*ldc+32,tail);
  c7_0+=tw::load<V>(c+7*ldc+0);
  c7_1+=tw::load<V>(c+7*ldc+16);
  c7_2+=tw::load_n<V>(c+7*ldc+32,tail);
  c8_0+=tw::load<V>(c+8*ldc+0);
  c8_1+=tw::load<V>(c+8*ldc+16);
  c8_2+=tw::load_n<V>(c+8*ldc+32,tail);
 }
 if(mode&2) {
  tw::bf16 *const out=(tw::bf16*)x->t[2]+0L+m*37L+n; 
  finish(x,o,m+0,n+0,c0_0,out+(0)*37L+(0));
  finish(x,o,m+0,n+16,c0_1,out+(0)*37L+(16));
  finish(x,o,m+1,n+0,c1_0,out+(1)*37L+(0));
  finish(x,o,m+1,n+16,c1_1,out+(1)*37L+(16));
  finish(x,o,m+2,n+0,c2_0,out+(2)*37L+(0));
  finish(x,o,m+2,n+16,c2_1,out+(2)*37L+(16));
  finish(x,o,m+3,n+0,c3_0,out+(3)*37L+(0));
  finish(x,o,m+3,n+16,c3_1,out+(3)*37L+(16));
  finish(x,o,m+4,n+0,c4_0,out+(4)*37L+(0));
  finish(x,o,m+4,n+16,c4_1,out+(4)*37L+(16));
  finish(x,o,m+5,n+0,c5_0,out+(5)*37L+(0));
  finish(x,o,m+5,n+16,c5_1,out+(5)*37L+(16));
  finish(x,o,m+6,n+0,c6_0,out+(6)*37L+(0));
  finish(x,o,m+6,n+16,c6_1,out+(6)*37L+(16));
  finish(x,o,m+7,n+0,c7_0,out+(7)*37L+(0));
  finish(x,o,m+7,n+16,c7_1,out+(7)*37L+(16));
  finish(x,o,m+8,n+0,c8_0,out+(8)*37L+(0));
  finish(x,o,m+8,n+16,c8_1,out+(8)*37L+(16));
  if(tail==L) {
   finish(x,o,m+0,n+32,c0_2,out+(0)*37L+(32));
   finish(x,o,m+1,n+32,c1_2,out+(1)*37L+(32));
   finish(x,o,m+2,n+32,c2_2,out+(2)*37L+(32));
   finish(x,o,m+3,n+32,c3_2,out+(3)*37L+(32));
   finish(x,o,m+4,n+32,c4_2,out+(4)*37L+(32));
   finish(x,o,m+5,n+32,c5_2,out+(5)*37L+(32));
   finish(x,o,m+6,n+32,c6_2,out+(6)*37L+(32));
   finish(x,o,m+7,n+32,c7_2,out+(7)*37L+(32));
   finish(x,o,m+8,n+32,c8_2,out+(8)*37L+(32));
  } else {
   finish_n(x,o,m+0,n+32,c0_2,out+(0)*37L+(32),tail);
   finish_n(x,o,m+1,n+32,c1_2,out+(1)*37L+(32),tail);
   finish_n(x,o,m+2,n+32,c2_2,out+(2)*37L+(32),tail);
   finish_n(x,o,m+3,n+32,c3_2,out+(3)*37L+(32),tail);
   finish_n(x,o,m+4,n+32,c4_2,out+(4)*37L+(32),tail);
   finish_n(x,o,m+5,n+32,c5_2,out+(5)*37L+(32),tail);
   finish_n(x,o,m+6,n+32,c6_2,out+(6)*37L+(32),tail);
   finish_n(x,o,m+7,n+32,c7_2,out+(7)*37L+(32),tail);
   finish_n(x,o,m+8,n+32,c8_2,out+(8)*37L+(32),tail);
  }
  return; }
 tw::store(c+0*ldc+0,c0_0);
 tw::store(c+0*ldc+16,c0_1);
 tw::store_n(c+0*ldc+32,c0_2,tail);
 tw::store(c+1*ldc+0,c1_0);
 tw::store(c+1*ldc+16,c1_1);
 tw::store_n(c+1*ldc+32,c1_2,tail);
 tw::store(c+2*ldc+0,c2_0);
 tw::store(c+2*ldc+16,c2_1);
 tw::store_n(c+2*ldc+32,c2_2,tail);
 tw::store(c+3*ldc+0,c3_0);
 tw::store(c+3*ldc+16,c3_1);
 tw::store_n(c+3*ldc+32,c3_2,tail);
 tw::store(c+4*ldc+0,c4_0);
 tw::store(c+4*ldc+16,c4_1);
 tw::store_n(c+4*ldc+32,c4_2,tail);
 tw::store(c+5*ldc+0,c5_0);
 tw::store(c+5*ldc+16,c5_1);
 tw::store_n(c+5*ldc+32,c5_2,tail);
 tw::store(c+6*ldc+0,c6_0);
 tw::store(c+6*ldc+16,c6_1);
 tw::store_n(c+6*ldc+32,c6_2,tail);
 tw::store(c+7*ldc+0,c7_0);
 tw::store(c+7*ldc+16,c7_1);
 tw::store_n(c+7*ldc+32,c7_2,tail);
 tw::store(c+8*ldc+0,c8_0);
 tw::store(c+8*ldc+16,c8_1);
 tw::store_n(c+8*ldc+32,c8_2,tail);
}

TW_NOINLINE void mk_9x3t(const Ctx *x,long units,const char *a,const char *b,S *c,long ldc,long mode,long tail,long o,long m,long n) { (void)x; (void)o; (void)m; (void)n; (void)ldc;
 V c0_0={},c0_1={},c0_2={};
 V c1_0={},c1_1={},c1_2={};
 V c2_0={},c2_1={},c2_2={};
 V c3_0={},c3_1={},c3_2={};
 V c4_0={},c4_1={},c4_2={};
 V c5_0={},c5_1={},c5_2={};
 V c6_0={},c6_1={},c6_2={};
 V c7_0={},c7_1={},c7_2={};
 V c8_0={},c8_1={},c8_2={};
 for(;units>=1;units-=1) {
  {
   __builtin_prefetch(b+512L,0,3);
   __builtin_prefetch(b+576L,0,3);
   __builtin_prefetch(b+586L,0,3);
   __builtin_prefetch(b+650L,0,3);
   const W b0=(as_unit((const tw::bf16*)(b+0L)+0)|as_unit((const tw::bf16*)(b+74L)+0)<<16);
   const W b1=(as_unit((const tw::bf16*)(b+0L)+16)|as_unit((const tw::bf16*)(b+74L)+16)<<16);
   const W b2=(as_unit_n((const tw::bf16*)(b+0L)+32,tail)|as_unit_n((const tw::bf16*)(b+74L)+32,tail)<<16);
   { const W y=tw::splat<W>(unit(a+0L));
    c0_0=step(c0_0,y,b0); c0_1=step(c0_1,y,b1); c0_2=step(c0_2,y,b2); }
   { const W y=tw::splat<W>(unit(a+42L));
    c1_0=step(c1_0,y,b0); c1_1=step(c1_1,y,b1); c1_2=step(c1_2,y,b2); }
   { const W y=tw::splat<W>(unit(a+84L));
    c2_0=step(c2_0,y,b0); c2_1=step(c2_1,y,b1); c2_2=step(c2_2,y,b2); }
   { const W y=tw::splat<W>(unit(a+126L));
    c3_0=step(c3_0,y,b0); c3_1=step(c3_1,y,b1); c3_2=step(c3_2,y,b2); }
   { const W y=tw::splat<W>(unit(a+168L));
    c4_0=step(c4_0,y,b0); c4_1=step(c4_1,y,b1); c4_2=step(c4_2,y,b2); }
   { const W y=tw::splat<W>(unit(a+210L));
    c5_0=step(c5_0,y,b0); c5_1=step(c5_1,y,b1); c5_2=step(c5_2,y,b2); }
   { const W y=tw::splat<W>(unit(a+252L));
    c6_0=step(c6_0,y,b0); c6_1=step(c6_1,y,b1); c6_2=step(c6_2,y,b2); }
   { const W y=tw::splat<W>(unit(a+294L));
    c7_0=step(c7_0,y,b0); c7_1=step(c7_1,y,b1); c7_2=step(c7_2,y,b2); }
   { const W y=tw::splat<W>(unit(a+336L));
    c8_0=step(c8_0,y,b0); c8_1=step(c8_1,y,b1); c8_2=step(c8_2,y,b2); }
  }
  a+=4; b+=148L; }
 if(mode&2) {
  {
   __builtin_prefetch(b+512L,0,3);
   __builtin_prefetch(b+576L,0,3);
   __builtin_prefetch(b+586L,0,3);
   __builtin_prefetch(b+650L,0,3);
   const W b0=(as_unit((const tw::bf16*)(b+0L)+0));
   const W b1=(as_unit((const tw::bf16*)(b+0L)+16));
   const W b2=(as_unit_n((const tw::bf16*)(b+0L)+32,tail));
   { const W y=tw::splat<W>(last(a+0L));
    c0_0=step(c0_0,y,b0); c0_1=step(c0_1,y,b1); c0_2=step(c0_2,y,b2); }
   { const W y=tw::splat<W>(last(a+42L));
    c1_0=step(c1_0,y,b0); c1_1=step(c1_1,y,b1); c1_2=step(c1_2,y,b2); }
   { const W y=tw::splat<W>(last(a+84L));
    c2_0=step(c2_0,y,b0); c2_1=step(c2_1,y,b1); c2_2=step(c2_2,y,b2); }
   { const W y=tw::splat<W>(last(a+126L));
    c3_0=step(c3_0,y,b0); c3_1=step(c3_1,y,b1); c3_2=step(c3_2,y,b2); }
   { const W y=tw::splat<W>(last(a+168L));
    c4_0=step(c4_0,y,b0); c4_1=step(c4_1,y,b1); c4_2=step(c4_2,y,b2); }
   { const W y=tw::splat<W>(last(a+210L));
    c5_0=step(c5_0,y,b0); c5_1=step(c5_1,y,b1); c5_2=step(c5_2,y,b2); }
   { const W y=tw::splat<W>(last(a+252L));
    c6_0=step(c6_0,y,b0); c6_1=step(c6_1,y,b1); c6_2=step(c6_2,y,b2); }
   { const W y=tw::splat<W>(last(a+294L));
    c7_0=step(c7_0,y,b0); c7_1=step(c7_1,y,b1); c7_2=step(c7_2,y,b2); }
   { const W y=tw::splat<W>(last(a+336L));
    c8_0=step(c8_0,y,b0); c8_1=step(c8_1,y,b1); c8_2=step(c8_2,y,b2); }
  }
 }
 if(mode&1) {
  c0_0+=tw::load<V>(c+0*ldc+0);
  c0_1+=tw::load<V>(c+0*ldc+16);
  c0_2+=tw::load_n<V>(c+0*ldc+32,tail);
  c1_0+=tw::load<V>(c+1*ldc+0);
  c1_1+=tw::load<V>(c+1*ldc+16);
  c1_2+=tw::load_n<V>(c+1*ldc+32,tail);
  c2_0+=tw::load<V>(c+2*ldc+0);
  c2_1+=tw::load<V>(c+2*ldc+16);
  c2_2+=tw::load_n<V>(c+2*ldc+32,tail);
  c3_0+=tw::load<V>(c+3*ldc+0);
  c3_1+=tw::load<V>(c+3*ldc+16);
  c3_2+=tw::load_n<V>(c+3*ldc+32,tail);
  c4_0+=tw::load<V>(c+4*ldc+0);
  c4_1+=tw::load<V>(c+4*ldc+16);
  c4_2+=tw::load_n<V>(c+4*ldc+32,tail);
  c5_0+=tw::load<V>(c+5*ldc+0);
  c5_1+=tw::load<V>(c+5*ldc+16);
  c5_2+=tw::load_n<V>(c+5*ldc+32,tail);
  c6_0+=tw::load<V>(c+6*ldc+0);
  c6_1+=tw::load<V>(c+6*ldc+16);
  c6_2+=tw::load_n<V>(c+6*ldc+32,tail);
  c7_0+=tw::load<V>(c+7*ldc+0);
  c7_1+=tw::load<V>(c+7*ldc+16);
  c7_2+=tw::load_n<V>(c+7*ldc+32,tail);
  c8_0+=tw::load<V>(c+8*ldc+0);
  c8_1+=tw::load<V>(c+8*ldc+16);
  c8_2+=tw::load_n<V>(c+8*ldc+32,tail);
 }
 if(mode&2) {
  tw::bf16 *const out=(tw::bf16*)x->t[2]+0L+m*37L+n; 
  finish(x,o,m+0,n+0,c0_0,out+(0)*37L+(0));
  finish(x,o,m+0,n+16,c0_1,out+(0)*37L+(16));
  finish(x,o,m+1,n+0,c1_0,out+(1)*37L+(0));
  finish(x,o,m+1,n+16,c1_1,out+(1)*37L+(16));
  finish(x,o,m+2,n+0,c2_0,out+(2)*37L+(0));
  finish(x,o,m+2,n+16,c2_1,out+(2)*37L+(16));
  finish(x,o,m+3,n+0,c3_0,out+(3)*37L+(0));
  finish(x,o,m+3,n+16,c3_1,out+(3)*37L+(16));
  finish(x,o,m+4,n+0,c4_0,out+(4)*37L+(0));
  finish(x,o,m+4,n+16,c4_1,out+(4)*37L+(16));
  finish(x,o,m+5,n+0,c5_0,out+(5)*37L+(0));
  finish(x,o,m+5,n+16,c5_1,out+(5)*37L+(16));
  finish(x,o,m+6,n+0,c6_0,out+(6)*37L+(0));
  finish(x,o,m+6,n+16,c6_1,out+(6)*37L+(16));
  finish(x,o,m+7,n+0,c7_0,out+(7)*37L+(0));
  finish(x,o,m+7,n+16,c7_1,out+(7)*37L+(16));
  finish(x,o,m+8,n+0,c8_0,out+(8)*37L+(0));
  finish(x,o,m+8,n+16,c8_1,out+(8)*37L+(16));
  if(tail==L) {
   finish(x,o,m+0,n+32,c0_2,out+(0)*37L+(32));
   finish(x,o,m+1,n+32,c1_2,out+(1)*37L+(32));
   finish(x,o,m+2,n+32,c2_2,out+(2)*37L+(32));
   finish(x,o,m+3,n+32,c3_2,out+(3)*37L+(32));
   finish(x,o,m+4,n+32,c4_2,out+(4)*37L+(32));
   finish(x,o,m+5,n+32,c5_2,out+(5)*37L+(32));
   finish(x,o,m+6,n+32,c6_2,out+(6)*37L+(32));
   finish(x,o,m+7,n+32,c7_2,out+(7)*37L+(32));
   finish(x,o,m+8,n+32,c8_2,out+(8)*37L+(32));
  } else {
   finish_n(x,o,m+0,n+32,c0_2,out+(0)*37L+(32),tail);
   finish_n(x,o,m+1,n+32,c1_2,out+(1)*37L+(32),tail);
   finish_n(x,o,m+2,n+32,c2_2,out+(2)*37L+(32),tail);
   finish_n(x,o,m+3,n+32,c3_2,out+(3)*37L+(32),tail);
   finish_n(x,o,m+4,n+32,c4_2,out+(4)*37L+(32),tail);
   finish_n(x,o,m+5,n+32,c5_2,out+(5)*37L+(32),tail);
   finish_n(x,o,m+6,n+32,c6_2,out+(6)*37L+(32),tail);
   finish_n(x,o,m+7,n+32,c7_2,out+(7)*37L+(32),tail);
   finish_n(x,o,m+8,n+32,c8_2,out+(8)*37L+(32),tail);
  }
  return; }
 tw::store(c+0*ldc+0,c0_0);
 tw::store(c+0*ldc+16,c0_1);
 tw::store_n(c+0*ldc+32,c0_2,tail);
 tw::store(c+1*ldc+0,c1_0);
 tw::store(c+1*ldc+16,c1_1);
 tw::store_n(c+1*ldc+32,c1_2,tail);
 tw::store(c+2*ldc+0,c2_0);
 tw::store(c+2*ldc+16,c2_1);
 tw::store_n(c+2*ldc+32,c2_2,tail);
 tw::store(c+3*ldc+0,c3_0);
 tw::store(c+3*ldc+16,c3_1);
 tw::store_n(c+3*ldc+32,c3_2,tail);
 tw::store(c+4*ldc+0,c4_0);
 tw::store(c+4*ldc+16,c4_1);
 tw::store_n(c+4*ldc+32,c4_2,tail);
 tw::store(c+5*ldc+0,c5_0);
 tw::store(c+5*ldc+16,c5_1);
 tw::store_n(c+5*ldc+32,c5_2,tail);
 tw::store(c+6*ldc+0,c6_0);
 tw::store(c+6*ldc+16,c6_1);
 tw::store_n(c+6*ldc+32,c6_2,tail);
 tw::store(c+7*ldc+0,c7_0);
 tw::store(c+7*ldc+16,c7_1);
 tw::store_n(c+7*ldc+32,c7_2,tail);
 tw::store(c+8*ldc+0,c8_0);
 tw::store(c+8*ldc+16,c8_1);
 tw::store_n(c+8*ldc+32,c8_2,tail);
}

TW_NOINLINE void task(void *ctx,long t,long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
 const long ti=t%x->TM; t/=x->TM; const long tj=t%x->TN, o=t/x->TN; (void)o;
 
 const long ob=0; (void)ob;
 const long r0=ti*1L/x->TM, r1=(ti+1)*1L/x->TM;
 const long c0=tj*1L/x->TN, c1=(tj+1)*1L/x->TN;
 char *const mine=x->ws+w*x->bytes;
 S *const out=(S*)(mine+x->a_bytes+x->b_bytes); const long ldc=x->NT*48L;
 const char *const A=(const char*)x->t[0]+(0L)*2L;
 const char *const B=(const char*)x->t[1]+(0L)*2L;
 for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);
  for(long cb0=c0;cb0<c1;cb0+=x->NT) { const long cb1=tw::imin(c1,cb0+x->NT);
   for(long k0=0;k0<21L;k0+=x->KC) { const long kc=tw::imin(x->KC,21L-k0);
    const long mode=(k0>0?1:0)|(k0+kc>=21L?2:0), panel=((kc+1L)/2L*64L);
    (void)panel;
    for(long cb=cb0;cb<cb1;cb++) for(long rb=rb0;rb<rb1;rb++) {
     const long m=(rb)*9L, v=(cb)*3L, n=v*16L;
     const char *a=A+m*42L+k0*2L;
     const char *b=B+k0*74L+n*2L;
     if(cb==0L) mk_9x3t(x,kc/2L,a,b,out+(m-(rb0)*9L)*ldc+n-(cb0)*3L*16L,ldc,mode,(cb==0L?5L:16L),o,m,n); else mk_9x3(x,kc/2L,a,b,out+(m-(rb0)*9L)*ldc+n-(cb0)*3L*16L,ldc,mode,(cb==0L?5L:16L),o,m,n);
    } } } } }

}
TW_ENTRY(tw_golden) { using namespace tw_golden_; (void)workspace;
 const long kc=tw::imin(args[0],21L); (void)kc;
 const long mt=tw::imin(tw::imax(1,args[1]/9),1L);
 const long nt=tw::imin(tw::imax(1,args[2]/48),1L);
 Ctx x; x.t=tensors; x.KC=args[0]; x.MT=mt; x.NT=nt; x.TM=args[3];x.TN=args[4];
 x.a_bytes=0; x.b_bytes=0; x.bytes=x.a_bytes+x.b_bytes+(args[0]<21L?mt*nt*1728L:0);
 x.packed=nullptr; x.ws=(char*)workspace;
 tw::parallel_for(env,1L*x.TM*x.TN,task,&x);
 return 0; }
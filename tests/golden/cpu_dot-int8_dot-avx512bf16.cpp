// cpu_dot version 5, cpu:avx512bf16
namespace tw_golden_ {
typedef int T; typedef tw::i32v V; enum { L=16 };
typedef tw::i32v W; typedef unsigned char E; enum { G=4 };
TW_INLINE int unit(const void *p) { int v; __builtin_memcpy(&v,p,4); return v; }
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

struct Ctx {
 void *const *t; char *ws; T *image, *tables; long chunk, KC, MT, NT, TM, TN, TK, bytes, a_bytes; bool skips; };
TW_INLINE W as_unit(const unsigned char *p) { return tw::load<W>((const unsigned char*)p); }
TW_INLINE W as_unit_n(const unsigned char *p,long n) { return tw::load_n<W>((const unsigned char*)p,n); }
TW_INLINE E as_element(unsigned char x) { return (E)(x); }
template <class X> TW_INLINE W weave(const X *r0,const X *r1,const X *r2,const X *r3) { return weave_bytes(bytes16(r0),bytes16(r1),bytes16(r2),bytes16(r3)); }
typedef tw::vec<int,4> Q;
TW_INLINE int bits(E e) { int v=0; __builtin_memcpy(&v,&e,sizeof e); return v; }
template <class X> TW_INLINE Q as_four(const X *p) {
 Q q; for(int i=0;i<4;i++) q[i]=bits(as_element(p[i]))&255; return q; }
template <class X> TW_INLINE Q weave4(const X *r0,const X *r1,const X *r2,const X *r3) { return as_four(r0)|as_four(r1)<<8|as_four(r2)<<16|as_four(r3)<<24; }
template <class X> TW_INLINE Q four(const X *p) { return tw::get<Q>((const int*)p); }
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

TW_NOINLINE void row_b(const Ctx *x,long o,long at,long f0,long n,E *d) { (void)o; (void)at;
 const long r0=at; (void)r0;
 for(long l=0;l<n;) { const long i1=(f0+l); (void)i1;
  const long len=tw::imin(n-l,25L-i1); long lo=0,hi=len;
  if(lo>hi) lo=hi;
  const unsigned char *s=(const unsigned char*)x->t[1]+(0L+25L*r0+1L*i1);
  if(hi>lo) copy(d+l+lo,s+lo,hi-lo);
  l+=len; } }

TW_NOINLINE void pack_b(const Ctx *x,long o,long cb,long ce,long k0,long kc,T *TW_RESTRICT q) { (void)o;
 const long deep=tw::imin(kc*4L,12L-k0*4L), units=deep/4L;
 const long rest=deep-units*4L; (void)rest;
 for(;cb<ce;cb++) { const long j0=(cb)*2L*16L;
  const long n=tw::imin(32L,25L-j0); (void)n;
  const unsigned char *s=(const unsigned char*)x->t[1]+0L+j0*1L+k0*100L;
  if(n%L==0) {
   T *d=q;
   for(long u=0;u<units;u++,s+=100L,d+=32L) for(long l=0;l<n;l+=L) tw::put<W>((int*)d+l,weave(s+0L+l,s+25L+l,s+50L+l,s+75L+l));
   if(rest) { const unsigned char none[L]={};
    for(long l=0;l<n;l+=L) tw::put<W>((int*)d+l,weave((0<rest?s+0L+l:none),(1<rest?s+25L+l:none),(2<rest?s+50L+l:none),(3<rest?s+75L+l:none))); }
  } else {
   alignas(64) E rows[4][32]={}; T *d=q;
   for(long k=0;k<deep;d+=32L) {
    if(k<deep) row_b(x,o,k0*4L+k,j0,n,rows[0]); k++;
    if(k<deep) row_b(x,o,k0*4L+k,j0,n,rows[1]); else __builtin_memset(rows[1],0,sizeof rows[1]); k++;
    if(k<deep) row_b(x,o,k0*4L+k,j0,n,rows[2]); else __builtin_memset(rows[2],0,sizeof rows[2]); k++;
    if(k<deep) row_b(x,o,k0*4L+k,j0,n,rows[3]); else __builtin_memset(rows[3],0,sizeof rows[3]); k++;
    for(long l=0;l<n;l+=L) tw::put<W>((int*)d+l,weave(rows[0]+l,rows[1]+l,rows[2]+l,rows[3]+l)); }
  }
  q+=kc*32L; } }

TW_NOINLINE void mk_9x2(long kc, const signed char *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 V c0_0={}, c0_1={};
 V c1_0={}, c1_1={};
 V c2_0={}, c2_1={};
 V c3_0={}, c3_1={};
 V c4_0={}, c4_1={};
 V c5_0={}, c5_1={};
 V c6_0={}, c6_1={};
 V c7_0={}, c7_1={};
 V c8_0={}, c8_1={};
 for(;kc>=1;kc-=1){
 {
  __builtin_prefetch(b+512L,0,3);
  __builtin_prefetch(b+528L,0,3);
  W b0=tw::get<W>((const int*)(b+0L)); TW_HOLD(b0);
  W b1=tw::get<W>((const int*)(b+16L)); TW_HOLD(b1);
  { const W x=tw::splat<W>(unit(a+0L));
   c0_0=step(c0_0,x,b0); TW_HOLD(c0_0);
   c0_1=step(c0_1,x,b1); TW_HOLD(c0_1);
   TW_KEEP(x); }
  { const W x=tw::splat<W>(unit(a+12L));
   c1_0=step(c1_0,x,b0); TW_HOLD(c1_0);
   c1_1=step(c1_1,x,b1); TW_HOLD(c1_1);
   TW_KEEP(x); }
  { const W x=tw::splat<W>(unit(a+24L));
   c2_0=step(c2_0,x,b0); TW_HOLD(c2_0);
   c2_1=step(c2_1,x,b1); TW_HOLD(c2_1);
   TW_KEEP(x); }
  { const W x=tw::splat<W>(unit(a+36L));
   c3_0=step(c3_0,x,b0); TW_HOLD(c3_0);
   c3_1=step(c3_1,x,b1); TW_HOLD(c3_1);
   TW_KEEP(x); }
  { const W x=tw::splat<W>(unit(a+48L));
   c4_0=step(c4_0,x,b0); TW_HOLD(c4_0);
   c4_1=step(c4_1,x,b1); TW_HOLD(c4_1);
   TW_KEEP(x); }
  { const W x=tw::splat<W>(unit(a+60L));
   c5_0=step(c5_0,x,b0); TW_HOLD(c5_0);
   c5_1=step(c5_1,x,b1); TW_HOLD(c5_1);
   TW_KEEP(x); }
  { const W x=tw::splat<W>(unit(a+72L));
   c6_0=step(c6_0,x,b0); TW_HOLD(c6_0);
   c6_1=step(c6_1,x,b1); TW_HOLD(c6_1);
   TW_KEEP(x); }
  { const W x=tw::splat<W>(unit(a+84L));
   c7_0=step(c7_0,x,b0); TW_HOLD(c7_0);
   c7_1=step(c7_1,x,b1); TW_HOLD(c7_1);
   TW_KEEP(x); }
  { const W x=tw::splat<W>(unit(a+96L));
   c8_0=step(c8_0,x,b0); TW_HOLD(c8_0);
   c8_1=step(c8_1,x,b1); TW_HOLD(c8_1);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1);
 }
  a+=4L; b+=32L; }
 if(mode&1){
  if(tail==16){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+16L) + c0_1);
   c1_0=(tw::load<V>(c+25L) + c1_0);
   c1_1=(tw::load<V>(c+41L) + c1_1);
   c2_0=(tw::load<V>(c+50L) + c2_0);
   c2_1=(tw::load<V>(c+66L) + c2_1);
   c3_0=(tw::load<V>(c+75L) + c3_0);
   c3_1=(tw::load<V>(c+91L) + c3_1);
   c4_0=(tw::load<V>(c+100L) + c4_0);
   c4_1=(tw::load<V>(c+116L) + c4_1);
   c5_0=(tw::load<V>(c+125L) + c5_0);
   c5_1=(tw::load<V>(c+141L) + c5_1);
   c6_0=(tw::load<V>(c+150L) + c6_0);
   c6_1=(tw::load<V>(c+166L) + c6_1);
   c7_0=(tw::load<V>(c+175L) + c7_0);
   c7_1=(tw::load<V>(c+191L) + c7_1);
   c8_0=(tw::load<V>(c+200L) + c8_0);
   c8_1=(tw::load<V>(c+216L) + c8_1);
  } else {
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load_n<V>(c+16L,tail) + c0_1);
   c1_0=(tw::load<V>(c+25L) + c1_0);
   c1_1=(tw::load_n<V>(c+41L,tail) + c1_1);
   c2_0=(tw::load<V>(c+50L) + c2_0);
   c2_1=(tw::load_n<V>(c+66L,tail) + c2_1);
   c3_0=(tw::load<V>(c+75L) + c3_0);
   c3_1=(tw::load_n<V>(c+91L,tail) + c3_1);
   c4_0=(tw::load<V>(c+100L) + c4_0);
   c4_1=(tw::load_n<V>(c+116L,tail) + c4_1);
   c5_0=(tw::load<V>(c+125L) + c5_0);
   c5_1=(tw::load_n<V>(c+141L,tail) + c5_1);
   c6_0=(tw::load<V>(c+150L) + c6_0);
   c6_1=(tw::load_n<V>(c+166L,tail) + c6_1);
   c7_0=(tw::load<V>(c+175L) + c7_0);
   c7_1=(tw::load_n<V>(c+191L,tail) + c7_1);
   c8_0=(tw::load<V>(c+200L) + c8_0);
   c8_1=(tw::load_n<V>(c+216L,tail) + c8_1);
  }
 }
 if(tail==16){
  tw::store(c+0L,c0_0);
  tw::store(c+16L,c0_1);
  tw::store(c+25L,c1_0);
  tw::store(c+41L,c1_1);
  tw::store(c+50L,c2_0);
  tw::store(c+66L,c2_1);
  tw::store(c+75L,c3_0);
  tw::store(c+91L,c3_1);
  tw::store(c+100L,c4_0);
  tw::store(c+116L,c4_1);
  tw::store(c+125L,c5_0);
  tw::store(c+141L,c5_1);
  tw::store(c+150L,c6_0);
  tw::store(c+166L,c6_1);
  tw::store(c+175L,c7_0);
  tw::store(c+191L,c7_1);
  tw::store(c+200L,c8_0);
  tw::store(c+216L,c8_1);
 } else {
  tw::store(c+0L,c0_0);
  tw::store_n(c+16L,c0_1,tail);
  tw::store(c+25L,c1_0);
  tw::store_n(c+41L,c1_1,tail);
  tw::store(c+50L,c2_0);
  tw::store_n(c+66L,c2_1,tail);
  tw::store(c+75L,c3_0);
  tw::store_n(c+91L,c3_1,tail);
  tw::store(c+100L,c4_0);
  tw::store_n(c+116L,c4_1,tail);
  tw::store(c+125L,c5_0);
  tw::store_n(c+141L,c5_1,tail);
  tw::store(c+150L,c6_0);
  tw::store_n(c+166L,c6_1,tail);
  tw::store(c+175L,c7_0);
  tw::store_n(c+191L,c7_1,tail);
  tw::store(c+200L,c8_0);
  tw::store_n(c+216L,c8_1,tail);
 }
}
TW_NOINLINE void task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
 T *pb=(T*)(x->ws+w*x->bytes+x->a_bytes);
 const long ti=t%x->TM; t/=x->TM; const long tj=t%x->TN; t/=x->TN;
 const long tk=t%x->TK, o=t/x->TK; (void)o;
 const long r0=ti*1L/x->TM, r1=(ti+1)*1L/x->TM, c0=tj*1L/x->TN, c1=(tj+1)*1L/x->TN;
 const long k0=tk*3L/x->TK, k1=(tk+1)*3L/x->TK;
 int *out=(int*)x->t[2]+0L;
 const signed char *A=(const signed char*)x->t[0]+0L;
 for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);
 for(long cb0=c0;cb0<c1;cb0+=x->NT) { const long cb1=tw::imin(c1,cb0+x->NT);
  for(long pc=k0;pc<k1;pc+=x->KC) { const long kc=tw::imin(k1-pc,x->KC);
   const long mode=(pc>k0)|(pc+kc>=k1?2:0); (void)mode;
   pack_b(x,o,cb0,cb1,pc*1L,kc*1L,pb);
    for(long cb=cb0;cb<cb1;cb++) for(long rb=rb0;rb<rb1;rb++) {
     const long l0=(rb)*9L;
     const signed char *a=A+l0*12L+pc*4L;
     const T *b=pb+(cb-cb0)*kc*32L;
     T *c=out+l0*25L+(cb)*2L*16L;
     { mk_9x2(kc,a,b,c,mode,(cb==0L?9L:16L)); }
    } } } } }
}
TW_ENTRY(tw_golden) { using namespace tw_golden_; (void)workspace;
 const long mt=tw::imin(tw::imax(1,args[1]/9),1L);
 const long nt=tw::imin(tw::imax(1,args[2]/32),1L);
 Ctx c{}; Ctx *x=&c; x->t=tensors; x->ws=(char*)workspace+0L; x->image=(T*)workspace;
 x->tables=(T*)((char*)workspace+0L); x->KC=(args[0]+3)/4; x->MT=mt; x->NT=nt; x->TM=args[3];x->TN=args[4];x->TK=args[5];
 x->a_bytes=0; x->bytes=x->a_bytes+(nt*32L*tw::imin((args[0]+3)/4*1,3L)*4L+4095)/4096*4096;
 for(x->chunk=0;x->chunk<1L;x->chunk++) {
  tw::parallel_for(env,1L*x->TM*x->TN*x->TK,task,x);
 }
 return 0; }
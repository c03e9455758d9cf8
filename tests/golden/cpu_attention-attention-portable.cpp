// cpu_attention version 3, cpu:portable
namespace tw_golden_ {
typedef tw::f32v V; enum { L=4, W=12 };
struct Ctx { void *const *t; char *ws; const float *k, *v; long KB, score_rows, bytes; };
template <class S> TW_INLINE void turn(const S *s, long ss, float *d, long ds) {
 V r0=tw::load<V>(s+0*ss);
 V r1=tw::load<V>(s+1*ss);
 V r2=tw::load<V>(s+2*ss);
 V r3=tw::load<V>(s+3*ss);
 const V t0=__builtin_shufflevector(r0,r2,0,1,4,5);
 const V t1=__builtin_shufflevector(r0,r2,2,3,6,7);
 const V t2=__builtin_shufflevector(r1,r3,0,1,4,5);
 const V t3=__builtin_shufflevector(r1,r3,2,3,6,7);
 const V t4=__builtin_shufflevector(t0,t2,0,4,2,6);
 const V t5=__builtin_shufflevector(t0,t2,1,5,3,7);
 const V t6=__builtin_shufflevector(t1,t3,0,4,2,6);
 const V t7=__builtin_shufflevector(t1,t3,1,5,3,7);
 tw::store(d+0*ds,t4);
 tw::store(d+1*ds,t5);
 tw::store(d+2*ds,t6);
 tw::store(d+3*ds,t7);
}
TW_NOINLINE void queries(const Ctx *x, long o_i0, long o_i1, long q0, long nq, float *q, float *s) { (void)x; (void)o_i0; (void)o_i1; (void)s;
 const float *x0=(const float*)x->t[0];
 const float *from=x0+(o_i1*252L + q0*12L);
 long l=0;
 for(;l+L<=nq;l+=L) { const float *f=from+l*12L; long r=0;
  for(;r+L<=12L;r+=L) turn(f+r,12L,q+r*W+l,W);
  for(;r<12L;r++) for(long i=0;i<L;i++) q[r*W+l+i]=f[i*12L+r]; }
 for(;l<W;l++) for(long r=0;r<12L;r++) q[r*W+l]=l<nq?from[l*12L+r]:0.0f;
}
TW_NOINLINE void weigh(const Ctx *x, long o_i0, long o_i1, long q0, long nq, long ja, long jb,
 float *s, float *m, float *l, float *c) { (void)x; (void)o_i0; (void)o_i1; (void)q0; (void)nq;
 const long size=x->score_rows*W; (void)size;
 const V low=tw::splat<V>(-__builtin_inff()); float *p=s;
 const V m0=tw::load<V>(m+0L); V t0=m0;
 const V m1=tw::load<V>(m+4L); V t1=m1;
 const V m2=tw::load<V>(m+8L); V t2=m2;
 for(long j=ja;j<jb;j++,p+=W) {
  { const V y=tw::load<V>(p+0L);
   const V z=(y * (float)(0x1.279a74590331dp-2f)); tw::store(p+0L,z); t0=z>t0?z:t0; }
  { const V y=tw::load<V>(p+4L);
   const V z=(y * (float)(0x1.279a74590331dp-2f)); tw::store(p+4L,z); t1=z>t1?z:t1; }
  { const V y=tw::load<V>(p+8L);
   const V z=(y * (float)(0x1.279a74590331dp-2f)); tw::store(p+8L,z); t2=z>t2?z:t2; }
 }
 const V f0=t0==low?V{}:t0, c0=tw::exp(m0-f0); V l0={};
 tw::store(m+0L,t0); tw::store(c+0L,c0);
 const V f1=t1==low?V{}:t1, c1=tw::exp(m1-f1); V l1={};
 tw::store(m+4L,t1); tw::store(c+4L,c1);
 const V f2=t2==low?V{}:t2, c2=tw::exp(m2-f2); V l2={};
 tw::store(m+8L,t2); tw::store(c+8L,c2);
 p=s; for(long j=ja;j<jb;j++,p+=W) {
  { const V y=tw::exp(tw::load<V>(p+0L)-f0); tw::store(p+0L,y); l0+=y; }
  { const V y=tw::exp(tw::load<V>(p+4L)-f1); tw::store(p+4L,y); l1+=y; }
  { const V y=tw::exp(tw::load<V>(p+8L)-f2); tw::store(p+8L,y); l2+=y; }
 }
 tw::store(l+0L,tw::load<V>(l+0L)*c0+l0);
 tw::store(l+4L,tw::load<V>(l+4L)*c1+l1);
 tw::store(l+8L,tw::load<V>(l+8L)*c2+l2);
}
TW_NOINLINE void scores_3(const float *TW_RESTRICT k, const float *TW_RESTRICT q, float *TW_RESTRICT s) {
 V c0_0={}, c0_1={}, c0_2={};
 V c1_0={}, c1_1={}, c1_2={};
 V c2_0={}, c2_1={}, c2_2={};
 for(long r=0;r<12L;r+=4) {
  { const V b0=tw::load<V>(q+0L); const V b1=tw::load<V>(q+4L); const V b2=tw::load<V>(q+8L);
   { const V x=tw::splat<V>(k[0L]); c0_0+=x*b0; c0_1+=x*b1; c0_2+=x*b2; }
   { const V x=tw::splat<V>(k[12L]); c1_0+=x*b0; c1_1+=x*b1; c1_2+=x*b2; }
   { const V x=tw::splat<V>(k[24L]); c2_0+=x*b0; c2_1+=x*b1; c2_2+=x*b2; }
  }
  { const V b0=tw::load<V>(q+12L); const V b1=tw::load<V>(q+16L); const V b2=tw::load<V>(q+20L);
   { const V x=tw::splat<V>(k[1L]); c0_0+=x*b0; c0_1+=x*b1; c0_2+=x*b2; }
   { const V x=tw::splat<V>(k[13L]); c1_0+=x*b0; c1_1+=x*b1; c1_2+=x*b2; }
   { const V x=tw::splat<V>(k[25L]); c2_0+=x*b0; c2_1+=x*b1; c2_2+=x*b2; }
  }
  { const V b0=tw::load<V>(q+24L); const V b1=tw::load<V>(q+28L); const V b2=tw::load<V>(q+32L);
   { const V x=tw::splat<V>(k[2L]); c0_0+=x*b0; c0_1+=x*b1; c0_2+=x*b2; }
   { const V x=tw::splat<V>(k[14L]); c1_0+=x*b0; c1_1+=x*b1; c1_2+=x*b2; }
   { const V x=tw::splat<V>(k[26L]); c2_0+=x*b0; c2_1+=x*b1; c2_2+=x*b2; }
  }
  { const V b0=tw::load<V>(q+36L); const V b1=tw::load<V>(q+40L); const V b2=tw::load<V>(q+44L);
   { const V x=tw::splat<V>(k[3L]); c0_0+=x*b0; c0_1+=x*b1; c0_2+=x*b2; }
   { const V x=tw::splat<V>(k[15L]); c1_0+=x*b0; c1_1+=x*b1; c1_2+=x*b2; }
   { const V x=tw::splat<V>(k[27L]); c2_0+=x*b0; c2_1+=x*b1; c2_2+=x*b2; }
  }
  q+=48L; k+=4L; }
 tw::store(s+0L,c0_0);
 tw::store(s+4L,c0_1);
 tw::store(s+8L,c0_2);
 tw::store(s+12L,c1_0);
 tw::store(s+16L,c1_1);
 tw::store(s+20L,c1_2);
 tw::store(s+24L,c2_0);
 tw::store(s+28L,c2_1);
 tw::store(s+32L,c2_2);
}
TW_NOINLINE void scores_1(const float *TW_RESTRICT k, const float *TW_RESTRICT q, float *TW_RESTRICT s) {
 V c0_0={}, c0_1={}, c0_2={};
 for(long r=0;r<12L;r+=4) {
  { const V b0=tw::load<V>(q+0L); const V b1=tw::load<V>(q+4L); const V b2=tw::load<V>(q+8L);
   { const V x=tw::splat<V>(k[0L]); c0_0+=x*b0; c0_1+=x*b1; c0_2+=x*b2; }
  }
  { const V b0=tw::load<V>(q+12L); const V b1=tw::load<V>(q+16L); const V b2=tw::load<V>(q+20L);
   { const V x=tw::splat<V>(k[1L]); c0_0+=x*b0; c0_1+=x*b1; c0_2+=x*b2; }
  }
  { const V b0=tw::load<V>(q+24L); const V b1=tw::load<V>(q+28L); const V b2=tw::load<V>(q+32L);
   { const V x=tw::splat<V>(k[2L]); c0_0+=x*b0; c0_1+=x*b1; c0_2+=x*b2; }
  }
  { const V b0=tw::load<V>(q+36L); const V b1=tw::load<V>(q+40L); const V b2=tw::load<V>(q+44L);
   { const V x=tw::splat<V>(k[3L]); c0_0+=x*b0; c0_1+=x*b1; c0_2+=x*b2; }
  }
  q+=48L; k+=4L; }
 tw::store(s+0L,c0_0);
 tw::store(s+4L,c0_1);
 tw::store(s+8L,c0_2);
}
TW_NOINLINE void values_3(long n, const float *TW_RESTRICT v, const float *TW_RESTRICT s, float *TW_RESTRICT o, const float *TW_RESTRICT c, long first) {
 V a0_0={}, a0_1={}, a0_2={};
 V a1_0={}, a1_1={}, a1_2={};
 V a2_0={}, a2_1={}, a2_2={};
 long j=0;
 for(;j+4<=n;j+=4) {
  { const V b0=tw::load<V>(s+0L); const V b1=tw::load<V>(s+4L); const V b2=tw::load<V>(s+8L);
   { const V x=tw::splat<V>(v[0L]); a0_0+=x*b0; a0_1+=x*b1; a0_2+=x*b2; }
   { const V x=tw::splat<V>(v[1L]); a1_0+=x*b0; a1_1+=x*b1; a1_2+=x*b2; }
   { const V x=tw::splat<V>(v[2L]); a2_0+=x*b0; a2_1+=x*b1; a2_2+=x*b2; }
  }
  { const V b0=tw::load<V>(s+12L); const V b1=tw::load<V>(s+16L); const V b2=tw::load<V>(s+20L);
   { const V x=tw::splat<V>(v[11L]); a0_0+=x*b0; a0_1+=x*b1; a0_2+=x*b2; }
   { const V x=tw::splat<V>(v[12L]); a1_0+=x*b0; a1_1+=x*b1; a1_2+=x*b2; }
   { const V x=tw::splat<V>(v[13L]); a2_0+=x*b0; a2_1+=x*b1; a2_2+=x*b2; }
  }
  { const V b0=tw::load<V>(s+24L); const V b1=tw::load<V>(s+28L); const V b2=tw::load<V>(s+32L);
   { const V x=tw::splat<V>(v[22L]); a0_0+=x*b0; a0_1+=x*b1; a0_2+=x*b2; }
   { const V x=tw::splat<V>(v[23L]); a1_0+=x*b0; a1_1+=x*b1; a1_2+=x*b2; }
   { const V x=tw::splat<V>(v[24L]); a2_0+=x*b0; a2_1+=x*b1; a2_2+=x*b2; }
  }
  { const V b0=tw::load<V>(s+36L); const V b1=tw::load<V>(s+40L); const V b2=tw::load<V>(s+44L);
   { const V x=tw::splat<V>(v[33L]); a0_0+=x*b0; a0_1+=x*b1; a0_2+=x*b2; }
   { const V x=tw::splat<V>(v[34L]); a1_0+=x*b0; a1_1+=x*b1; a1_2+=x*b2; }
   { const V x=tw::splat<V>(v[35L]); a2_0+=x*b0; a2_1+=x*b1; a2_2+=x*b2; }
  }
  s+=48L; v+=44L; }
 for(;j<n;j++) {
  { const V b0=tw::load<V>(s+0L); const V b1=tw::load<V>(s+4L); const V b2=tw::load<V>(s+8L);
   { const V x=tw::splat<V>(v[0L]); a0_0+=x*b0; a0_1+=x*b1; a0_2+=x*b2; }
   { const V x=tw::splat<V>(v[1L]); a1_0+=x*b0; a1_1+=x*b1; a1_2+=x*b2; }
   { const V x=tw::splat<V>(v[2L]); a2_0+=x*b0; a2_1+=x*b1; a2_2+=x*b2; }
  }
  s+=12L; v+=11L; }
 if(!first) {
  const V c0=tw::load<V>(c+0L);
  const V c1=tw::load<V>(c+4L);
  const V c2=tw::load<V>(c+8L);
  a0_0+=tw::load<V>(o+0L)*c0;
  a0_1+=tw::load<V>(o+4L)*c1;
  a0_2+=tw::load<V>(o+8L)*c2;
  a1_0+=tw::load<V>(o+12L)*c0;
  a1_1+=tw::load<V>(o+16L)*c1;
  a1_2+=tw::load<V>(o+20L)*c2;
  a2_0+=tw::load<V>(o+24L)*c0;
  a2_1+=tw::load<V>(o+28L)*c1;
  a2_2+=tw::load<V>(o+32L)*c2;
 }
 tw::store(o+0L,a0_0);
 tw::store(o+4L,a0_1);
 tw::store(o+8L,a0_2);
 tw::store(o+12L,a1_0);
 tw::store(o+16L,a1_1);
 tw::store(o+20L,a1_2);
 tw::store(o+24L,a2_0);
 tw::store(o+28L,a2_1);
 tw::store(o+32L,a2_2);
}
TW_NOINLINE void values_2(long n, const float *TW_RESTRICT v, const float *TW_RESTRICT s, float *TW_RESTRICT o, const float *TW_RESTRICT c, long first) {
 V a0_0={}, a0_1={}, a0_2={};
 V a1_0={}, a1_1={}, a1_2={};
 long j=0;
 for(;j+4<=n;j+=4) {
  { const V b0=tw::load<V>(s+0L); const V b1=tw::load<V>(s+4L); const V b2=tw::load<V>(s+8L);
   { const V x=tw::splat<V>(v[0L]); a0_0+=x*b0; a0_1+=x*b1; a0_2+=x*b2; }
   { const V x=tw::splat<V>(v[1L]); a1_0+=x*b0; a1_1+=x*b1; a1_2+=x*b2; }
  }
  { const V b0=tw::load<V>(s+12L); const V b1=tw::load<V>(s+16L); const V b2=tw::load<V>(s+20L);
   { const V x=tw::splat<V>(v[11L]); a0_0+=x*b0; a0_1+=x*b1; a0_2+=x*b2; }
   { const V x=tw::splat<V>(v[12L]); a1_0+=x*b0; a1_1+=x*b1; a1_2+=x*b2; }
  }
  { const V b0=tw::load<V>(s+24L); const V b1=tw::load<V>(s+28L); const V b2=tw::load<V>(s+32L);
   { const V x=tw::splat<V>(v[22L]); a0_0+=x*b0; a0_1+=x*b1; a0_2+=x*b2; }
   { const V x=tw::splat<V>(v[23L]); a1_0+=x*b0; a1_1+=x*b1; a1_2+=x*b2; }
  }
  { const V b0=tw::load<V>(s+36L); const V b1=tw::load<V>(s+40L); const V b2=tw::load<V>(s+44L);
   { const V x=tw::splat<V>(v[33L]); a0_0+=x*b0; a0_1+=x*b1; a0_2+=x*b2; }
   { const V x=tw::splat<V>(v[34L]); a1_0+=x*b0; a1_1+=x*b1; a1_2+=x*b2; }
  }
  s+=48L; v+=44L; }
 for(;j<n;j++) {
  { const V b0=tw::load<V>(s+0L); const V b1=tw::load<V>(s+4L); const V b2=tw::load<V>(s+8L);
   { const V x=tw::splat<V>(v[0L]); a0_0+=x*b0; a0_1+=x*b1; a0_2+=x*b2; }
   { const V x=tw::splat<V>(v[1L]); a1_0+=x*b0; a1_1+=x*b1; a1_2+=x*b2; }
  }
  s+=12L; v+=11L; }
 if(!first) {
  const V c0=tw::load<V>(c+0L);
  const V c1=tw::load<V>(c+4L);
  const V c2=tw::load<V>(c+8L);
  a0_0+=tw::load<V>(o+0L)*c0;
  a0_1+=tw::load<V>(o+4L)*c1;
  a0_2+=tw::load<V>(o+8L)*c2;
  a1_0+=tw::load<V>(o+12L)*c0;
  a1_1+=tw::load<V>(o+16L)*c1;
  a1_2+=tw::load<V>(o+20L)*c2;
 }
 tw::store(o+0L,a0_0);
 tw::store(o+4L,a0_1);
 tw::store(o+8L,a0_2);
 tw::store(o+12L,a1_0);
 tw::store(o+16L,a1_1);
 tw::store(o+20L,a1_2);
}
TW_NOINLINE void finish(const Ctx *x, long o_i0, long o_i1, long q0, long nq, float *o, const float *l, float *rows) { (void)x; (void)o_i0; (void)o_i1; (void)rows; (void)q0;
 float *s6=(float*)x->t[3];
 float *d=s6+q0*11L+o_i0*462L+o_i1*231L;
 for(long b=0;b<nq;b+=L) { const long n=tw::imin(nq-b,L);
  const V h=tw::splat<V>(1.0f)/tw::load<V>(l+b);
  for(long e=0;e<11L;e++) tw::store(o+e*W+b,tw::load<V>(o+e*W+b)*h);
  float *g=d+b*11L; long e=0;
  if(n==L) for(;e+L<=11L;e+=L) turn(o+e*W+b,W,g+e,11L);
  for(;e<11L;e++) for(long i=0;i<n;i++) g[i*11L+e]=o[e*W+b+i]; }
}
TW_NOINLINE void task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx;
 const long first_key=0, end=37L;
 const long o=t/2L, q0=(1L-t%2L)*W, nq=tw::imin(W,21L-q0); (void)o;
 const long o_i1=(o)%2L; (void)o_i1;
 const long o_i0=(o)/2L; (void)o_i0;
 float *q=(float*)(x->ws+0L+w*x->bytes), *s=q+12L*W;
 float *o_=s+1*x->score_rows*W, *rows=o_+168L; (void)rows;
 float *m=o_+11L*W, *l=m+W, *c=l+W;
 queries(x,o_i0,o_i1,q0,nq,q,s);
 for(long i=0;i<W;i++) { m[i]=-__builtin_inff(); l[i]=0; }
 const float *k=x->k+(o_i1*444L), *v=x->v+(o_i1*407L);
 long first=1;
 for(long j=first_key;j<end;j+=x->KB) { long ja=j, jb=tw::imin(j+x->KB,end);
  float *d=s; long i=ja;
  for(;i+3<=jb;i+=3,d+=36L) scores_3(k+i*12L,q,d);
  if(i<jb) scores_1(k+i*12L,q,d);
  weigh(x,o_i0,o_i1,q0,nq,ja,jb,s,m,l,c);
  for(long b=0;b<3L;b++) values_3(jb-ja,v+ja*11L+((b)*3L-tw::imax(0,(b)-3L))*1L,s,o_+((b)*3L-tw::imax(0,(b)-3L))*W,c,first);
  for(long b=3;b<4L;b++) values_2(jb-ja,v+ja*11L+((b)*3L-tw::imax(0,(b)-3L))*1L,s,o_+((b)*3L-tw::imax(0,(b)-3L))*W,c,first);
  first=0; }
 if(first) for(long i=0;i<11L*W;i++) o_[i]=0;
 finish(x,o_i0,o_i1,q0,nq,o_,l,rows); }
}
TW_ENTRY(tw_golden) { using namespace tw_golden_; Ctx x; x.t=tensors; x.ws=(char*)workspace;
 x.k=(const float*)tensors[1]; x.v=(const float*)tensors[2]; x.KB=tw::imax(3L,args[0]/3*3);
 x.score_rows=tw::imax(x.KB,12L);
 x.bytes=((312L+1*x.score_rows*W)*4+4095)/4096*4096;
 tw::parallel_for(env,4L,task,&x);
 return 0; }
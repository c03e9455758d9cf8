// cpu_recurrent version 1, cpu:portable
namespace tw_golden_ {
typedef float T; typedef tw::vec<T, 4> V; enum { L=4 };
struct Ctx { void *const *t; const T *w; const T *h[2]; T *start; long i1, tasks; };
TW_NOINLINE void pack(void *const *t, T *u) {
 for(long q=0;q<9L;q++) for(long k=0;k<33L;k++) for(long l=0;l<4L;l++) {
  const long j=q*4L+l; T *d=u+0L+(q*33L+k)*16L+l;
  d[0]=j<33L?((const T*)t[1])[0L+j*33L+k*1L]:T(0);
  d[4]=j<33L?((const T*)t[1])[1089L+j*33L+k*1L]:T(0);
  d[8]=j<33L?((const T*)t[1])[3267L+j*33L+k*1L]:T(0);
  d[12]=j<33L?((const T*)t[1])[2178L+j*33L+k*1L]:T(0);
 }
}
TW_NOINLINE void start(const Ctx *x) {
 const T *x3=(const T*)x->t[3];
 const T *x4=(const T*)x->t[4];
 for(long i2=0;i2<3L;i2++) for(long i3=0;i3<33L;i3++) {
  x->start[(0L+i2)*33L+i3]=x3[i2*33L + i3];
  x->start[(3L+i2)*33L+i3]=x4[i2*33L + i3];
 } }
TW_NOINLINE void finish0(const Ctx *x, long b, long count, long q, const V *m) { const long i1=x->i1; (void)i1;
 const T *x0=(const T*)x->t[0];
 const T *x2=(const T*)x->t[2];
 T *out=(T*)x->t[5];
 for(long r=0;r<count;r++,m+=4L) { const long i2=b+r; (void)i2;
  for(long v=0;v<1;v++) { const long i3=q*4L+v*4L, left=33L-i3;
   if(left<=0) break;
   if(left>=L) {
    const V l1=tw::load<V>(x->h[1]+i2*33L+i3);
    const V m0=m[0L+v];
    const V m1=m[1L+v];
    const V m2=m[2L+v];
    const V m3=m[3L+v];
    const tw::vec<float, 4> t0_ = ((((float)(1.0f) / ((float)(1.0f) + tw::exp((-((tw::load<tw::vec<float, 4>>(x0 + (i1*396L + i2*132L + (33L + i3))) + tw::load<tw::vec<float, 4>>(x2 + ((33L + i3)))) + m1))))) * l1) + (((float)(1.0f) / ((float)(1.0f) + tw::exp((-((tw::load<tw::vec<float, 4>>(x0 + (i1*396L + i2*132L + i3)) + tw::load<tw::vec<float, 4>>(x2 + (i3))) + m0))))) * tw::tanh(((tw::load<tw::vec<float, 4>>(x0 + (i1*396L + i2*132L + (66L + i3))) + tw::load<tw::vec<float, 4>>(x2 + ((66L + i3)))) + m3))));
    const V y0=(((float)(1.0f) / ((float)(1.0f) + tw::exp((-((tw::load<tw::vec<float, 4>>(x0 + (i1*396L + i2*132L + (99L + i3))) + tw::load<tw::vec<float, 4>>(x2 + ((99L + i3)))) + m2))))) * tw::tanh(t0_));
    const V y1=t0_;
    tw::store(out+((0L+i1)*3L+i2)*33L+i3, y0);
    tw::store(out+((4L+i1)*3L+i2)*33L+i3, y1);
   }
   else {
    const V l1=tw::load_n<V>(x->h[1]+i2*33L+i3,left);
    const V m0=m[0L+v];
    const V m1=m[1L+v];
    const V m2=m[2L+v];
    const V m3=m[3L+v];
    const tw::vec<float, 4> t0_ = ((((float)(1.0f) / ((float)(1.0f) + tw::exp((-((tw::load_n<tw::vec<float, 4>>(x0 + (i1*396L + i2*132L + (33L + i3)), left) + tw::load_n<tw::vec<float, 4>>(x2 + ((33L + i3)), left)) + m1))))) * l1) + (((float)(1.0f) / ((float)(1.0f) + tw::exp((-((tw::load_n<tw::vec<float, 4>>(x0 + (i1*396L + i2*132L + i3), left) + tw::load_n<tw::vec<float, 4>>(x2 + (i3), left)) + m0))))) * tw::tanh(((tw::load_n<tw::vec<float, 4>>(x0 + (i1*396L + i2*132L + (66L + i3)), left) + tw::load_n<tw::vec<float, 4>>(x2 + ((66L + i3)), left)) + m3))));
    const V y0=(((float)(1.0f) / ((float)(1.0f) + tw::exp((-((tw::load_n<tw::vec<float, 4>>(x0 + (i1*396L + i2*132L + (99L + i3)), left) + tw::load_n<tw::vec<float, 4>>(x2 + ((99L + i3)), left)) + m2))))) * tw::tanh(t0_));
    const V y1=t0_;
    tw::store_n(out+((0L+i1)*3L+i2)*33L+i3, y0, left);
    tw::store_n(out+((4L+i1)*3L+i2)*33L+i3, y1, left);
   }
  } } }
TW_NOINLINE void tile0_3(const Ctx *x, long b, long q, const T *TW_RESTRICT w) {
 const T *a=x->h[0]+b*33L;
 V c0_0_0={}, c0_1_0={}, c0_2_0={}, c0_3_0={};
 V c1_0_0={}, c1_1_0={}, c1_2_0={}, c1_3_0={};
 V c2_0_0={}, c2_1_0={}, c2_2_0={}, c2_3_0={};
 for(long k=0;k<33L;k+=1,w+=16L) {
  { const T s0=a[0L+k+0], s1=a[33L+k+0], s2=a[66L+k+0];
   { const V u=tw::load<V>(w+0L);
    c0_0_0+=u*s0; c1_0_0+=u*s1; c2_0_0+=u*s2; }
   { const V u=tw::load<V>(w+4L);
    c0_1_0+=u*s0; c1_1_0+=u*s1; c2_1_0+=u*s2; }
   { const V u=tw::load<V>(w+8L);
    c0_2_0+=u*s0; c1_2_0+=u*s1; c2_2_0+=u*s2; }
   { const V u=tw::load<V>(w+12L);
    c0_3_0+=u*s0; c1_3_0+=u*s1; c2_3_0+=u*s2; }
  }
 }
 V m[12];
 m[0]=c0_0_0;
 m[1]=c0_1_0;
 m[2]=c0_2_0;
 m[3]=c0_3_0;
 m[4]=c1_0_0;
 m[5]=c1_1_0;
 m[6]=c1_2_0;
 m[7]=c1_3_0;
 m[8]=c2_0_0;
 m[9]=c2_1_0;
 m[10]=c2_2_0;
 m[11]=c2_3_0;
 finish0(x,b,3,q,m); }
TW_NOINLINE void pass0(const Ctx *x, long q0, long q1) {
 for(long q=q0;q<q1;q++) { const T *w=x->w+0L+q*528L;
  for(long r=0;r<1L;r++) { const long b=(r)*3L;
   tile0_3(x,b,q,w);
  } } }
TW_NOINLINE void task0(void *ctx, long t, long) { const Ctx *x=(const Ctx*)ctx;
 pass0(x,t*9L/x->tasks,(t+1)*9L/x->tasks); }
}
TW_ENTRY(tw_golden_pack) { using namespace tw_golden_; (void)args; (void)env;
 pack(tensors,(T*)workspace); return 0; }
TW_ENTRY(tw_golden) { using namespace tw_golden_; (void)args;
 Ctx c{}; Ctx *x=&c; x->t=tensors; x->tasks=tw::imin(args[0],9L); T *at=(T*)workspace;
 x->start=at; at+=208L;
 x->w=(const T*)tensors[1];
 start(x);
 const T *out=(const T*)tensors[5];
 for(long s=0;s<4L;s++) { x->i1=s;
  for(long k=0;k<2;k++) x->h[k]=s?out+(k*4L+x->i1-1)*99L:x->start+k*99L;
  tw::parallel_for(env,x->tasks,task0,x);
 }
 return 0; }

// cpu_winograd version 1, cpu:avx512
namespace tw_golden_ {
typedef float T; typedef tw::f32v V; enum { L=16 };
struct Ctx {
 void *const *t; const T *u; T *zero, *tables, *made; char *ws; long TB, PB, TT, TP, vs, ms, bytes; };
TW_NOINLINE void weights(const T *g, long q, T *u) {
 static const double G[6][3]={{65536.0/64009,0.0/1,0.0/1},{-4096.0/6171,-256.0/561,-16.0/51},{-4096.0/6171,256.0/561,-16.0/51},{4096.0/26979,256.0/1173,16.0/51},{4096.0/26979,-256.0/1173,16.0/51},{0.0/1,0.0/1,1.0/1}};
 for(long c=0;c<19L;c++) {
  double a[9][32],b[6][3][32];
  for(long j=0;j<32L;j++) { const long f=tw::imin(q*32L+j,20L);
   for(long r=0;r<3;r++) for(long s=0;s<3;s++) a[3*r+s][j]=g[c*21L+f*1L+r*1197L+s*399L]; }
  for(long i=0;i<6;i++) for(long s=0;s<3;s++) for(long j=0;j<32;j++)
   b[i][s][j]=G[i][0]*a[s][j]+G[i][1]*a[3+s][j]+G[i][2]*a[6+s][j];
  for(long i=0;i<6;i++) for(long k=0;k<6;k++) { T *d=u+((q*36L+i*6+k)*19L+c)*32L;
   for(long j=0;j<32;j++) d[j]=(T)(b[i][0][j]*G[k][0]+b[i][1][j]*G[k][1]+b[i][2][j]*G[k][2]); } } }
TW_NOINLINE void inputs(const Ctx *x, long first, long count, T *v) {
 for(long t=0;t<count;t++,v+=48L) {
  const T *s[36];
  { const T *d=(const T*)x->t[0]; const long m=first+t,n=m/4L; (void)n; const long y=m/2L%2L*4L+(0L),z=m%2L*4L+(0L);
   d+=n*1330L;
   for(long i=0;i<6;i++) for(long j=0;j<6;j++) { const long a=y+i,b=z+j;
    s[i*6+j]=a>=0&&a<7L&&b>=0&&b<10L?d+a*190L+b*19L:x->zero; } }
  T *TW_RESTRICT q=v;
  for(long c=0;c<16L;c+=L,q+=L) {
   const V d0_0=tw::load<V>(s[0]+c);
   const V d1_0=tw::load<V>(s[6]+c);
   const V d2_0=tw::load<V>(s[12]+c);
   const V d3_0=tw::load<V>(s[18]+c);
   const V d4_0=tw::load<V>(s[24]+c);
   const V d5_0=tw::load<V>(s[30]+c);
   const V e0_0=0.9766998291015625f*d0_0-2.5390625f*d2_0+d4_0;
   const V e5_0=0.9766998291015625f*d1_0-2.5390625f*d3_0+d5_0;
   const V e1_0e=-2.06640625f*d2_0+d4_0,e1_0o=-1.420654296875f*d1_0+0.6875f*d3_0;
   const V e1_0=e1_0e+e1_0o,e2_0=e1_0e-e1_0o;
   const V e3_0e=-0.47265625f*d2_0+d4_0,e3_0o=-0.679443359375f*d1_0+1.4375f*d3_0;
   const V e3_0=e3_0e+e3_0o,e4_0=e3_0e-e3_0o;
   const V d0_1=tw::load<V>(s[1]+c);
   const V d1_1=tw::load<V>(s[7]+c);
   const V d2_1=tw::load<V>(s[13]+c);
   const V d3_1=tw::load<V>(s[19]+c);
   const V d4_1=tw::load<V>(s[25]+c);
   const V d5_1=tw::load<V>(s[31]+c);
   const V e0_1=0.9766998291015625f*d0_1-2.5390625f*d2_1+d4_1;
   const V e5_1=0.9766998291015625f*d1_1-2.5390625f*d3_1+d5_1;
   const V e1_1e=-2.06640625f*d2_1+d4_1,e1_1o=-1.420654296875f*d1_1+0.6875f*d3_1;
   const V e1_1=e1_1e+e1_1o,e2_1=e1_1e-e1_1o;
   const V e3_1e=-0.47265625f*d2_1+d4_1,e3_1o=-0.679443359375f*d1_1+1.4375f*d3_1;
   const V e3_1=e3_1e+e3_1o,e4_1=e3_1e-e3_1o;
   const V d0_2=tw::load<V>(s[2]+c);
   const V d1_2=tw::load<V>(s[8]+c);
   const V d2_2=tw::load<V>(s[14]+c);
   const V d3_2=tw::load<V>(s[20]+c);
   const V d4_2=tw::load<V>(s[26]+c);
   const V d5_2=tw::load<V>(s[32]+c);
   const V e0_2=0.9766998291015625f*d0_2-2.5390625f*d2_2+d4_2;
   const V e5_2=0.9766998291015625f*d1_2-2.5390625f*d3_2+d5_2;
   const V e1_2e=-2.06640625f*d2_2+d4_2,e1_2o=-1.420654296875f*d1_2+0.6875f*d3_2;
   const V e1_2=e1_2e+e1_2o,e2_2=e1_2e-e1_2o;
   const V e3_2e=-0.47265625f*d2_2+d4_2,e3_2o=-0.679443359375f*d1_2+1.4375f*d3_2;
   const V e3_2=e3_2e+e3_2o,e4_2=e3_2e-e3_2o;
   const V d0_3=tw::load<V>(s[3]+c);
   const V d1_3=tw::load<V>(s[9]+c);
   const V d2_3=tw::load<V>(s[15]+c);
   const V d3_3=tw::load<V>(s[21]+c);
   const V d4_3=tw::load<V>(s[27]+c);
   const V d5_3=tw::load<V>(s[33]+c);
   const V e0_3=0.9766998291015625f*d0_3-2.5390625f*d2_3+d4_3;
   const V e5_3=0.9766998291015625f*d1_3-2.5390625f*d3_3+d5_3;
   const V e1_3e=-2.06640625f*d2_3+d4_3,e1_3o=-1.420654296875f*d1_3+0.6875f*d3_3;
   const V e1_3=e1_3e+e1_3o,e2_3=e1_3e-e1_3o;
   const V e3_3e=-0.47265625f*d2_3+d4_3,e3_3o=-0.679443359375f*d1_3+1.4375f*d3_3;
   const V e3_3=e3_3e+e3_3o,e4_3=e3_3e-e3_3o;
   const V d0_4=tw::load<V>(s[4]+c);
   const V d1_4=tw::load<V>(s[10]+c);
   const V d2_4=tw::load<V>(s[16]+c);
   const V d3_4=tw::load<V>(s[22]+c);
   const V d4_4=tw::load<V>(s[28]+c);
   const V d5_4=tw::load<V>(s[34]+c);
   const V e0_4=0.9766998291015625f*d0_4-2.5390625f*d2_4+d4_4;
   const V e5_4=0.9766998291015625f*d1_4-2.5390625f*d3_4+d5_4;
   const V e1_4e=-2.06640625f*d2_4+d4_4,e1_4o=-1.420654296875f*d1_4+0.6875f*d3_4;
   const V e1_4=e1_4e+e1_4o,e2_4=e1_4e-e1_4o;
   const V e3_4e=-0.47265625f*d2_4+d4_4,e3_4o=-0.679443359375f*d1_4+1.4375f*d3_4;
   const V e3_4=e3_4e+e3_4o,e4_4=e3_4e-e3_4o;
   const V d0_5=tw::load<V>(s[5]+c);
   const V d1_5=tw::load<V>(s[11]+c);
   const V d2_5=tw::load<V>(s[17]+c);
   const V d3_5=tw::load<V>(s[23]+c);
   const V d4_5=tw::load<V>(s[29]+c);
   const V d5_5=tw::load<V>(s[35]+c);
   const V e0_5=0.9766998291015625f*d0_5-2.5390625f*d2_5+d4_5;
   const V e5_5=0.9766998291015625f*d1_5-2.5390625f*d3_5+d5_5;
   const V e1_5e=-2.06640625f*d2_5+d4_5,e1_5o=-1.420654296875f*d1_5+0.6875f*d3_5;
   const V e1_5=e1_5e+e1_5o,e2_5=e1_5e-e1_5o;
   const V e3_5e=-0.47265625f*d2_5+d4_5,e3_5o=-0.679443359375f*d1_5+1.4375f*d3_5;
   const V e3_5=e3_5e+e3_5o,e4_5=e3_5e-e3_5o;
   const V f0_0=0.9766998291015625f*e0_0-2.5390625f*e0_2+e0_4;
   const V f0_5=0.9766998291015625f*e0_1-2.5390625f*e0_3+e0_5;
   const V f0_1e=-2.06640625f*e0_2+e0_4,f0_1o=-1.420654296875f*e0_1+0.6875f*e0_3;
   const V f0_1=f0_1e+f0_1o,f0_2=f0_1e-f0_1o;
   const V f0_3e=-0.47265625f*e0_2+e0_4,f0_3o=-0.679443359375f*e0_1+1.4375f*e0_3;
   const V f0_3=f0_3e+f0_3o,f0_4=f0_3e-f0_3o;
   tw::store(q+0L*x->vs,f0_0);
   tw::store(q+1L*x->vs,f0_1);
   tw::store(q+2L*x->vs,f0_2);
   tw::store(q+3L*x->vs,f0_3);
   tw::store(q+4L*x->vs,f0_4);
   tw::store(q+5L*x->vs,f0_5);
   const V f1_0=0.9766998291015625f*e1_0-2.5390625f*e1_2+e1_4;
   const V f1_5=0.9766998291015625f*e1_1-2.5390625f*e1_3+e1_5;
   const V f1_1e=-2.06640625f*e1_2+e1_4,f1_1o=-1.420654296875f*e1_1+0.6875f*e1_3;
   const V f1_1=f1_1e+f1_1o,f1_2=f1_1e-f1_1o;
   const V f1_3e=-0.47265625f*e1_2+e1_4,f1_3o=-0.679443359375f*e1_1+1.4375f*e1_3;
   const V f1_3=f1_3e+f1_3o,f1_4=f1_3e-f1_3o;
   tw::store(q+6L*x->vs,f1_0);
   tw::store(q+7L*x->vs,f1_1);
   tw::store(q+8L*x->vs,f1_2);
   tw::store(q+9L*x->vs,f1_3);
   tw::store(q+10L*x->vs,f1_4);
   tw::store(q+11L*x->vs,f1_5);
   const V f2_0=0.9766998291015625f*e2_0-2.5390625f*e2_2+e2_4;
   const V f2_5=0.9766998291015625f*e2_1-2.5390625f*e2_3+e2_5;
   const V f2_1e=-2.06640625f*e2_2+e2_4,f2_1o=-1.420654296875f*e2_1+0.6875f*e2_3;
   const V f2_1=f2_1e+f2_1o,f2_2=f2_1e-f2_1o;
   const V f2_3e=-0.47265625f*e2_2+e2_4,f2_3o=-0.679443359375f*e2_1+1.4375f*e2_3;
   const V f2_3=f2_3e+f2_3o,f2_4=f2_3e-f2_3o;
   tw::store(q+12L*x->vs,f2_0);
   tw::store(q+13L*x->vs,f2_1);
   tw::store(q+14L*x->vs,f2_2);
   tw::store(q+15L*x->vs,f2_3);
   tw::store(q+16L*x->vs,f2_4);
   tw::store(q+17L*x->vs,f2_5);
   const V f3_0=0.9766998291015625f*e3_0-2.5390625f*e3_2+e3_4;
   const V f3_5=0.9766998291015625f*e3_1-2.5390625f*e3_3+e3_5;
   const V f3_1e=-2.06640625f*e3_2+e3_4,f3_1o=-1.420654296875f*e3_1+0.6875f*e3_3;
   const V f3_1=f3_1e+f3_1o,f3_2=f3_1e-f3_1o;
   const V f3_3e=-0.47265625f*e3_2+e3_4,f3_3o=-0.679443359375f*e3_1+1.4375f*e3_3;
   const V f3_3=f3_3e+f3_3o,f3_4=f3_3e-f3_3o;
   tw::store(q+18L*x->vs,f3_0);
   tw::store(q+19L*x->vs,f3_1);
   tw::store(q+20L*x->vs,f3_2);
   tw::store(q+21L*x->vs,f3_3);
   tw::store(q+22L*x->vs,f3_4);
   tw::store(q+23L*x->vs,f3_5);
   const V f4_0=0.9766998291015625f*e4_0-2.5390625f*e4_2+e4_4;
   const V f4_5=0.9766998291015625f*e4_1-2.5390625f*e4_3+e4_5;
   const V f4_1e=-2.06640625f*e4_2+e4_4,f4_1o=-1.420654296875f*e4_1+0.6875f*e4_3;
   const V f4_1=f4_1e+f4_1o,f4_2=f4_1e-f4_1o;
   const V f4_3e=-0.47265625f*e4_2+e4_4,f4_3o=-0.679443359375f*e4_1+1.4375f*e4_3;
   const V f4_3=f4_3e+f4_3o,f4_4=f4_3e-f4_3o;
   tw::store(q+24L*x->vs,f4_0);
   tw::store(q+25L*x->vs,f4_1);
   tw::store(q+26L*x->vs,f4_2);
   tw::store(q+27L*x->vs,f4_3);
   tw::store(q+28L*x->vs,f4_4);
   tw::store(q+29L*x->vs,f4_5);
   const V f5_0=0.9766998291015625f*e5_0-2.5390625f*e5_2+e5_4;
   const V f5_5=0.9766998291015625f*e5_1-2.5390625f*e5_3+e5_5;
   const V f5_1e=-2.06640625f*e5_2+e5_4,f5_1o=-1.420654296875f*e5_1+0.6875f*e5_3;
   const V f5_1=f5_1e+f5_1o,f5_2=f5_1e-f5_1o;
   const V f5_3e=-0.47265625f*e5_2+e5_4,f5_3o=-0.679443359375f*e5_1+1.4375f*e5_3;
   const V f5_3=f5_3e+f5_3o,f5_4=f5_3e-f5_3o;
   tw::store(q+30L*x->vs,f5_0);
   tw::store(q+31L*x->vs,f5_1);
   tw::store(q+32L*x->vs,f5_2);
   tw::store(q+33L*x->vs,f5_3);
   tw::store(q+34L*x->vs,f5_4);
   tw::store(q+35L*x->vs,f5_5);
  }
  { const long c=16L;
   const V d0_0=tw::load_n<V>(s[0]+c,3L);
   const V d1_0=tw::load_n<V>(s[6]+c,3L);
   const V d2_0=tw::load_n<V>(s[12]+c,3L);
   const V d3_0=tw::load_n<V>(s[18]+c,3L);
   const V d4_0=tw::load_n<V>(s[24]+c,3L);
   const V d5_0=tw::load_n<V>(s[30]+c,3L);
   const V e0_0=0.9766998291015625f*d0_0-2.5390625f*d2_0+d4_0;
   const V e5_0=0.9766998291015625f*d1_0-2.5390625f*d3_0+d5_0;
   const V e1_0e=-2.06640625f*d2_0+d4_0,e1_0o=-1.420654296875f*d1_0+0.6875f*d3_0;
   const V e1_0=e1_0e+e1_0o,e2_0=e1_0e-e1_0o;
   const V e3_0e=-0.47265625f*d2_0+d4_0,e3_0o=-0.679443359375f*d1_0+1.4375f*d3_0;
   const V e3_0=e3_0e+e3_0o,e4_0=e3_0e-e3_0o;
   const V d0_1=tw::load_n<V>(s[1]+c,3L);
   const V d1_1=tw::load_n<V>(s[7]+c,3L);
   const V d2_1=tw::load_n<V>(s[13]+c,3L);
   const V d3_1=tw::load_n<V>(s[19]+c,3L);
   const V d4_1=tw::load_n<V>(s[25]+c,3L);
   const V d5_1=tw::load_n<V>(s[31]+c,3L);
   const V e0_1=0.9766998291015625f*d0_1-2.5390625f*d2_1+d4_1;
   const V e5_1=0.9766998291015625f*d1_1-2.5390625f*d3_1+d5_1;
   const V e1_1e=-2.06640625f*d2_1+d4_1,e1_1o=-1.420654296875f*d1_1+0.6875f*d3_1;
   const V e1_1=e1_1e+e1_1o,e2_1=e1_1e-e1_1o;
   const V e3_1e=-0.47265625f*d2_1+d4_1,e3_1o=-0.679443359375f*d1_1+1.4375f*d3_1;
   const V e3_1=e3_1e+e3_1o,e4_1=e3_1e-e3_1o;
   const V d0_2=tw::load_n<V>(s[2]+c,3L);
   const V d1_2=tw::load_n<V>(s[8]+c,3L);
   const V d2_2=tw::load_n<V>(s[14]+c,3L);
   const V d3_2=tw::load_n<V>(s[20]+c,3L);
   const V d4_2=tw::load_n<V>(s[26]+c,3L);
   const V d5_2=tw::load_n<V>(s[32]+c,3L);
   const V e0_2=0.9766998291015625f*d0_2-2.5390625f*d2_2+d4_2;
   const V e5_2=0.9766998291015625f*d1_2-2.5390625f*d3_2+d5_2;
   const V e1_2e=-2.06640625f*d2_2+d4_2,e1_2o=-1.420654296875f*d1_2+0.6875f*d3_2;
   const V e1_2=e1_2e+e1_2o,e2_2=e1_2e-e1_2o;
   const V e3_2e=-0.47265625f*d2_2+d4_2,e3_2o=-0.679443359375f*d1_2+1.4375f*d3_2;
   const V e3_2=e3_2e+e3_2o,e4_2=e3_2e-e3_2o;
   const V d0_3=tw::load_n<V>(s[3]+c,3L);
   const V d1_3=tw::load_n<V>(s[9]+c,3L);
   const V d2_3=tw::load_n<V>(s[15]+c,3L);
   const V d3_3=tw::load_n<V>(s[21]+c,3L);
   const V d4_3=tw::load_n<V>(s[27]+c,3L);
   const V d5_3=tw::load_n<V>(s[33]+c,3L);
   const V e0_3=0.9766998291015625f*d0_3-2.5390625f*d2_3+d4_3;
   const V e5_3=0.9766998291015625f*d1_3-2.5390625f*d3_3+d5_3;
   const V e1_3e=-2.06640625f*d2_3+d4_3,e1_3o=-1.420654296875f*d1_3+0.6875f*d3_3;
   const V e1_3=e1_3e+e1_3o,e2_3=e1_3e-e1_3o;
   const V e3_3e=-0.47265625f*d2_3+d4_3,e3_3o=-0.679443359375f*d1_3+1.4375f*d3_3;
   const V e3_3=e3_3e+e3_3o,e4_3=e3_3e-e3_3o;
   const V d0_4=tw::load_n<V>(s[4]+c,3L);
   const V d1_4=tw::load_n<V>(s[10]+c,3L);
   const V d2_4=tw::load_n<V>(s[16]+c,3L);
   const V d3_4=tw::load_n<V>(s[22]+c,3L);
   const V d4_4=tw::load_n<V>(s[28]+c,3L);
   const V d5_4=tw::load_n<V>(s[34]+c,3L);
   const V e0_4=0.9766998291015625f*d0_4-2.5390625f*d2_4+d4_4;
   const V e5_4=0.9766998291015625f*d1_4-2.5390625f*d3_4+d5_4;
   const V e1_4e=-2.06640625f*d2_4+d4_4,e1_4o=-1.420654296875f*d1_4+0.6875f*d3_4;
   const V e1_4=e1_4e+e1_4o,e2_4=e1_4e-e1_4o;
   const V e3_4e=-0.47265625f*d2_4+d4_4,e3_4o=-0.679443359375f*d1_4+1.4375f*d3_4;
   const V e3_4=e3_4e+e3_4o,e4_4=e3_4e-e3_4o;
   const V d0_5=tw::load_n<V>(s[5]+c,3L);
   const V d1_5=tw::load_n<V>(s[11]+c,3L);
   const V d2_5=tw::load_n<V>(s[17]+c,3L);
   const V d3_5=tw::load_n<V>(s[23]+c,3L);
   const V d4_5=tw::load_n<V>(s[29]+c,3L);
   const V d5_5=tw::load_n<V>(s[35]+c,3L);
   const V e0_5=0.9766998291015625f*d0_5-2.5390625f*d2_5+d4_5;
   const V e5_5=0.9766998291015625f*d1_5-2.5390625f*d3_5+d5_5;
   const V e1_5e=-2.06640625f*d2_5+d4_5,e1_5o=-1.420654296875f*d1_5+0.6875f*d3_5;
   const V e1_5=e1_5e+e1_5o,e2_5=e1_5e-e1_5o;
   const V e3_5e=-0.47265625f*d2_5+d4_5,e3_5o=-0.679443359375f*d1_5+1.4375f*d3_5;
   const V e3_5=e3_5e+e3_5o,e4_5=e3_5e-e3_5o;
   const V f0_0=0.9766998291015625f*e0_0-2.5390625f*e0_2+e0_4;
   const V f0_5=0.9766998291015625f*e0_1-2.5390625f*e0_3+e0_5;
   const V f0_1e=-2.06640625f*e0_2+e0_4,f0_1o=-1.420654296875f*e0_1+0.6875f*e0_3;
   const V f0_1=f0_1e+f0_1o,f0_2=f0_1e-f0_1o;
   const V f0_3e=-0.47265625f*e0_2+e0_4,f0_3o=-0.679443359375f*e0_1+1.4375f*e0_3;
   const V f0_3=f0_3e+f0_3o,f0_4=f0_3e-f0_3o;
   tw::store(q+0L*x->vs,f0_0);
   tw::store(q+1L*x->vs,f0_1);
   tw::store(q+2L*x->vs,f0_2);
   tw::store(q+3L*x->vs,f0_3);
   tw::store(q+4L*x->vs,f0_4);
   tw::store(q+5L*x->vs,f0_5);
   const V f1_0=0.9766998291015625f*e1_0-2.5390625f*e1_2+e1_4;
   const V f1_5=0.9766998291015625f*e1_1-2.5390625f*e1_3+e1_5;
   const V f1_1e=-2.06640625f*e1_2+e1_4,f1_1o=-1.420654296875f*e1_1+0.6875f*e1_3;
   const V f1_1=f1_1e+f1_1o,f1_2=f1_1e-f1_1o;
   const V f1_3e=-0.47265625f*e1_2+e1_4,f1_3o=-0.679443359375f*e1_1+1.4375f*e1_3;
   const V f1_3=f1_3e+f1_3o,f1_4=f1_3e-f1_3o;
   tw::store(q+6L*x->vs,f1_0);
   tw::store(q+7L*x->vs,f1_1);
   tw::store(q+8L*x->vs,f1_2);
   tw::store(q+9L*x->vs,f1_3);
   tw::store(q+10L*x->vs,f1_4);
   tw::store(q+11L*x->vs,f1_5);
   const V f2_0=0.9766998291015625f*e2_0-2.5390625f*e2_2+e2_4;
   const V f2_5=0.9766998291015625f*e2_1-2.5390625f*e2_3+e2_5;
   const V f2_1e=-2.06640625f*e2_2+e2_4,f2_1o=-1.420654296875f*e2_1+0.6875f*e2_3;
   const V f2_1=f2_1e+f2_1o,f2_2=f2_1e-f2_1o;
   const V f2_3e=-0.47265625f*e2_2+e2_4,f2_3o=-0.679443359375f*e2_1+1.4375f*e2_3;
   const V f2_3=f2_3e+f2_3o,f2_4=f2_3e-f2_3o;
   tw::store(q+12L*x->vs,f2_0);
   tw::store(q+13L*x->vs,f2_1);
   tw::store(q+14L*x->vs,f2_2);
   tw::store(q+15L*x->vs,f2_3);
   tw::store(q+16L*x->vs,f2_4);
   tw::store(q+17L*x->vs,f2_5);
   const V f3_0=0.9766998291015625f*e3_0-2.5390625f*e3_2+e3_4;
   const V f3_5=0.9766998291015625f*e3_1-2.5390625f*e3_3+e3_5;
   const V f3_1e=-2.06640625f*e3_2+e3_4,f3_1o=-1.420654296875f*e3_1+0.6875f*e3_3;
   const V f3_1=f3_1e+f3_1o,f3_2=f3_1e-f3_1o;
   const V f3_3e=-0.47265625f*e3_2+e3_4,f3_3o=-0.679443359375f*e3_1+1.4375f*e3_3;
   const V f3_3=f3_3e+f3_3o,f3_4=f3_3e-f3_3o;
   tw::store(q+18L*x->vs,f3_0);
   tw::store(q+19L*x->vs,f3_1);
   tw::store(q+20L*x->vs,f3_2);
   tw::store(q+21L*x->vs,f3_3);
   tw::store(q+22L*x->vs,f3_4);
   tw::store(q+23L*x->vs,f3_5);
   const V f4_0=0.9766998291015625f*e4_0-2.5390625f*e4_2+e4_4;
   const V f4_5=0.9766998291015625f*e4_1-2.5390625f*e4_3+e4_5;
   const V f4_1e=-2.06640625f*e4_2+e4_4,f4_1o=-1.420654296875f*e4_1+0.6875f*e4_3;
   const V f4_1=f4_1e+f4_1o,f4_2=f4_1e-f4_1o;
   const V f4_3e=-0.47265625f*e4_2+e4_4,f4_3o=-0.679443359375f*e4_1+1.4375f*e4_3;
   const V f4_3=f4_3e+f4_3o,f4_4=f4_3e-f4_3o;
   tw::store(q+24L*x->vs,f4_0);
   tw::store(q+25L*x->vs,f4_1);
   tw::store(q+26L*x->vs,f4_2);
   tw::store(q+27L*x->vs,f4_3);
   tw::store(q+28L*x->vs,f4_4);
   tw::store(q+29L*x->vs,f4_5);
   const V f5_0=0.9766998291015625f*e5_0-2.5390625f*e5_2+e5_4;
   const V f5_5=0.9766998291015625f*e5_1-2.5390625f*e5_3+e5_5;
   const V f5_1e=-2.06640625f*e5_2+e5_4,f5_1o=-1.420654296875f*e5_1+0.6875f*e5_3;
   const V f5_1=f5_1e+f5_1o,f5_2=f5_1e-f5_1o;
   const V f5_3e=-0.47265625f*e5_2+e5_4,f5_3o=-0.679443359375f*e5_1+1.4375f*e5_3;
   const V f5_3=f5_3e+f5_3o,f5_4=f5_3e-f5_3o;
   tw::store(q+30L*x->vs,f5_0);
   tw::store(q+31L*x->vs,f5_1);
   tw::store(q+32L*x->vs,f5_2);
   tw::store(q+33L*x->vs,f5_3);
   tw::store(q+34L*x->vs,f5_4);
   tw::store(q+35L*x->vs,f5_5);
  }
 } }
TW_NOINLINE void mk_8x2(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 V c0_0={}, c0_1={};
 V c1_0={}, c1_1={};
 V c2_0={}, c2_1={};
 V c3_0={}, c3_1={};
 V c4_0={}, c4_1={};
 V c5_0={}, c5_1={};
 V c6_0={}, c6_1={};
 V c7_0={}, c7_1={};
 for(;kc>=1;kc-=1){
 {
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[48L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[96L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[144L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[192L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[240L]);
   c5_0=(c5_0 + (x * b0)); TW_HOLD(c5_0);
   c5_1=(c5_1 + (x * b1)); TW_HOLD(c5_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[288L]);
   c6_0=(c6_0 + (x * b0)); TW_HOLD(c6_0);
   c6_1=(c6_1 + (x * b1)); TW_HOLD(c6_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[336L]);
   c7_0=(c7_0 + (x * b0)); TW_HOLD(c7_0);
   c7_1=(c7_1 + (x * b1)); TW_HOLD(c7_1);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1);
 }
  a+=1L; b+=32L; }
 if(mode&1){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+16L) + c0_1);
   c1_0=(tw::load<V>(c+32L) + c1_0);
   c1_1=(tw::load<V>(c+48L) + c1_1);
   c2_0=(tw::load<V>(c+64L) + c2_0);
   c2_1=(tw::load<V>(c+80L) + c2_1);
   c3_0=(tw::load<V>(c+96L) + c3_0);
   c3_1=(tw::load<V>(c+112L) + c3_1);
   c4_0=(tw::load<V>(c+128L) + c4_0);
   c4_1=(tw::load<V>(c+144L) + c4_1);
   c5_0=(tw::load<V>(c+160L) + c5_0);
   c5_1=(tw::load<V>(c+176L) + c5_1);
   c6_0=(tw::load<V>(c+192L) + c6_0);
   c6_1=(tw::load<V>(c+208L) + c6_1);
   c7_0=(tw::load<V>(c+224L) + c7_0);
   c7_1=(tw::load<V>(c+240L) + c7_1);
 }
  tw::store(c+0L,c0_0);
  tw::store(c+16L,c0_1);
  tw::store(c+32L,c1_0);
  tw::store(c+48L,c1_1);
  tw::store(c+64L,c2_0);
  tw::store(c+80L,c2_1);
  tw::store(c+96L,c3_0);
  tw::store(c+112L,c3_1);
  tw::store(c+128L,c4_0);
  tw::store(c+144L,c4_1);
  tw::store(c+160L,c5_0);
  tw::store(c+176L,c5_1);
  tw::store(c+192L,c6_0);
  tw::store(c+208L,c6_1);
  tw::store(c+224L,c7_0);
  tw::store(c+240L,c7_1);
}
TW_NOINLINE void mk_7x2(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 V c0_0={}, c0_1={};
 V c1_0={}, c1_1={};
 V c2_0={}, c2_1={};
 V c3_0={}, c3_1={};
 V c4_0={}, c4_1={};
 V c5_0={}, c5_1={};
 V c6_0={}, c6_1={};
 for(;kc>=1;kc-=1){
 {
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[48L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[96L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[144L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[192L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[240L]);
   c5_0=(c5_0 + (x * b0)); TW_HOLD(c5_0);
   c5_1=(c5_1 + (x * b1)); TW_HOLD(c5_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[288L]);
   c6_0=(c6_0 + (x * b0)); TW_HOLD(c6_0);
   c6_1=(c6_1 + (x * b1)); TW_HOLD(c6_1);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1);
 }
  a+=1L; b+=32L; }
 if(mode&1){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+16L) + c0_1);
   c1_0=(tw::load<V>(c+32L) + c1_0);
   c1_1=(tw::load<V>(c+48L) + c1_1);
   c2_0=(tw::load<V>(c+64L) + c2_0);
   c2_1=(tw::load<V>(c+80L) + c2_1);
   c3_0=(tw::load<V>(c+96L) + c3_0);
   c3_1=(tw::load<V>(c+112L) + c3_1);
   c4_0=(tw::load<V>(c+128L) + c4_0);
   c4_1=(tw::load<V>(c+144L) + c4_1);
   c5_0=(tw::load<V>(c+160L) + c5_0);
   c5_1=(tw::load<V>(c+176L) + c5_1);
   c6_0=(tw::load<V>(c+192L) + c6_0);
   c6_1=(tw::load<V>(c+208L) + c6_1);
 }
  tw::store(c+0L,c0_0);
  tw::store(c+16L,c0_1);
  tw::store(c+32L,c1_0);
  tw::store(c+48L,c1_1);
  tw::store(c+64L,c2_0);
  tw::store(c+80L,c2_1);
  tw::store(c+96L,c3_0);
  tw::store(c+112L,c3_1);
  tw::store(c+128L,c4_0);
  tw::store(c+144L,c4_1);
  tw::store(c+160L,c5_0);
  tw::store(c+176L,c5_1);
  tw::store(c+192L,c6_0);
  tw::store(c+208L,c6_1);
}
TW_NOINLINE void mk_6x2(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 V c0_0={}, c0_1={};
 V c1_0={}, c1_1={};
 V c2_0={}, c2_1={};
 V c3_0={}, c3_1={};
 V c4_0={}, c4_1={};
 V c5_0={}, c5_1={};
 for(;kc>=1;kc-=1){
 {
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[48L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[96L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[144L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[192L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[240L]);
   c5_0=(c5_0 + (x * b0)); TW_HOLD(c5_0);
   c5_1=(c5_1 + (x * b1)); TW_HOLD(c5_1);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1);
 }
  a+=1L; b+=32L; }
 if(mode&1){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+16L) + c0_1);
   c1_0=(tw::load<V>(c+32L) + c1_0);
   c1_1=(tw::load<V>(c+48L) + c1_1);
   c2_0=(tw::load<V>(c+64L) + c2_0);
   c2_1=(tw::load<V>(c+80L) + c2_1);
   c3_0=(tw::load<V>(c+96L) + c3_0);
   c3_1=(tw::load<V>(c+112L) + c3_1);
   c4_0=(tw::load<V>(c+128L) + c4_0);
   c4_1=(tw::load<V>(c+144L) + c4_1);
   c5_0=(tw::load<V>(c+160L) + c5_0);
   c5_1=(tw::load<V>(c+176L) + c5_1);
 }
  tw::store(c+0L,c0_0);
  tw::store(c+16L,c0_1);
  tw::store(c+32L,c1_0);
  tw::store(c+48L,c1_1);
  tw::store(c+64L,c2_0);
  tw::store(c+80L,c2_1);
  tw::store(c+96L,c3_0);
  tw::store(c+112L,c3_1);
  tw::store(c+128L,c4_0);
  tw::store(c+144L,c4_1);
  tw::store(c+160L,c5_0);
  tw::store(c+176L,c5_1);
}
TW_NOINLINE void mk_5x2(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 V c0_0={}, c0_1={};
 V c1_0={}, c1_1={};
 V c2_0={}, c2_1={};
 V c3_0={}, c3_1={};
 V c4_0={}, c4_1={};
 for(;kc>=1;kc-=1){
 {
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[48L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[96L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[144L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[192L]);
   c4_0=(c4_0 + (x * b0)); TW_HOLD(c4_0);
   c4_1=(c4_1 + (x * b1)); TW_HOLD(c4_1);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1);
 }
  a+=1L; b+=32L; }
 if(mode&1){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+16L) + c0_1);
   c1_0=(tw::load<V>(c+32L) + c1_0);
   c1_1=(tw::load<V>(c+48L) + c1_1);
   c2_0=(tw::load<V>(c+64L) + c2_0);
   c2_1=(tw::load<V>(c+80L) + c2_1);
   c3_0=(tw::load<V>(c+96L) + c3_0);
   c3_1=(tw::load<V>(c+112L) + c3_1);
   c4_0=(tw::load<V>(c+128L) + c4_0);
   c4_1=(tw::load<V>(c+144L) + c4_1);
 }
  tw::store(c+0L,c0_0);
  tw::store(c+16L,c0_1);
  tw::store(c+32L,c1_0);
  tw::store(c+48L,c1_1);
  tw::store(c+64L,c2_0);
  tw::store(c+80L,c2_1);
  tw::store(c+96L,c3_0);
  tw::store(c+112L,c3_1);
  tw::store(c+128L,c4_0);
  tw::store(c+144L,c4_1);
}
TW_NOINLINE void mk_4x2(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 V c0_0={}, c0_1={};
 V c1_0={}, c1_1={};
 V c2_0={}, c2_1={};
 V c3_0={}, c3_1={};
 for(;kc>=1;kc-=1){
 {
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[48L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[96L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[144L]);
   c3_0=(c3_0 + (x * b0)); TW_HOLD(c3_0);
   c3_1=(c3_1 + (x * b1)); TW_HOLD(c3_1);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1);
 }
  a+=1L; b+=32L; }
 if(mode&1){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+16L) + c0_1);
   c1_0=(tw::load<V>(c+32L) + c1_0);
   c1_1=(tw::load<V>(c+48L) + c1_1);
   c2_0=(tw::load<V>(c+64L) + c2_0);
   c2_1=(tw::load<V>(c+80L) + c2_1);
   c3_0=(tw::load<V>(c+96L) + c3_0);
   c3_1=(tw::load<V>(c+112L) + c3_1);
 }
  tw::store(c+0L,c0_0);
  tw::store(c+16L,c0_1);
  tw::store(c+32L,c1_0);
  tw::store(c+48L,c1_1);
  tw::store(c+64L,c2_0);
  tw::store(c+80L,c2_1);
  tw::store(c+96L,c3_0);
  tw::store(c+112L,c3_1);
}
TW_NOINLINE void mk_3x2(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 V c0_0={}, c0_1={};
 V c1_0={}, c1_1={};
 V c2_0={}, c2_1={};
 for(;kc>=1;kc-=1){
 {
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[48L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[96L]);
   c2_0=(c2_0 + (x * b0)); TW_HOLD(c2_0);
   c2_1=(c2_1 + (x * b1)); TW_HOLD(c2_1);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1);
 }
  a+=1L; b+=32L; }
 if(mode&1){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+16L) + c0_1);
   c1_0=(tw::load<V>(c+32L) + c1_0);
   c1_1=(tw::load<V>(c+48L) + c1_1);
   c2_0=(tw::load<V>(c+64L) + c2_0);
   c2_1=(tw::load<V>(c+80L) + c2_1);
 }
  tw::store(c+0L,c0_0);
  tw::store(c+16L,c0_1);
  tw::store(c+32L,c1_0);
  tw::store(c+48L,c1_1);
  tw::store(c+64L,c2_0);
  tw::store(c+80L,c2_1);
}
TW_NOINLINE void mk_2x2(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 V c0_0={}, c0_1={};
 V c1_0={}, c1_1={};
 for(;kc>=1;kc-=1){
 {
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   TW_KEEP(x); }
  { const V x=tw::splat<V>(a[48L]);
   c1_0=(c1_0 + (x * b0)); TW_HOLD(c1_0);
   c1_1=(c1_1 + (x * b1)); TW_HOLD(c1_1);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1);
 }
  a+=1L; b+=32L; }
 if(mode&1){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+16L) + c0_1);
   c1_0=(tw::load<V>(c+32L) + c1_0);
   c1_1=(tw::load<V>(c+48L) + c1_1);
 }
  tw::store(c+0L,c0_0);
  tw::store(c+16L,c0_1);
  tw::store(c+32L,c1_0);
  tw::store(c+48L,c1_1);
}
TW_NOINLINE void mk_1x2(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 V c0_0={}, c0_1={};
 for(;kc>=1;kc-=1){
 {
  V b0=tw::load<V>(b+0L); TW_HOLD(b0);
  V b1=tw::load<V>(b+16L); TW_HOLD(b1);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0)); TW_HOLD(c0_0);
   c0_1=(c0_1 + (x * b1)); TW_HOLD(c0_1);
   TW_KEEP(x); }
  TW_KEEP(b0); TW_KEEP(b1);
 }
  a+=1L; b+=32L; }
 if(mode&1){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c0_1=(tw::load<V>(c+16L) + c0_1);
 }
  tw::store(c+0L,c0_0);
  tw::store(c+16L,c0_1);
}
TW_NOINLINE void products(const Ctx *x, long count, long q0, long q1, const T *v, T *o) {
 const long blocks=(count+7)/8,height=(count+blocks-1)/blocks,full=count-blocks*(height-1);
 for(long k=0;k<36L;k++) for(long q=q0;q<q1;q++) {
  const T *b=x->u+(q*36L+k)*608L; T *d=o+((q-q0)*36L+k)*x->ms;
  for(long r=0;r<blocks;r++) {
   const long at=r*height-tw::imax(0,r-full); const T *a=v+k*x->vs+at*48L; T *c=d+at*32L;
   switch(height-(r>=full)) {
   case 8: mk_8x2(19L,a,b,c,0,16L); break;
   case 7: mk_7x2(19L,a,b,c,0,16L); break;
   case 6: mk_6x2(19L,a,b,c,0,16L); break;
   case 5: mk_5x2(19L,a,b,c,0,16L); break;
   case 4: mk_4x2(19L,a,b,c,0,16L); break;
   case 3: mk_3x2(19L,a,b,c,0,16L); break;
   case 2: mk_2x2(19L,a,b,c,0,16L); break;
   case 1: mk_1x2(19L,a,b,c,0,16L); break;
   } } } }
TW_NOINLINE void outputs(const Ctx *x, long first, long count, long q0, long q1, const T *o) {
 for(long t=0;t<count;t++) { const long m=first+t,n=m/4L; (void)n; const long y=m/2L%2L*4L,z=m%2L*4L;
  T *to=(T*)x->t[2]+n*840L+y*168L+z*21L;
  for(long q=q0;q<q1;q++) { const long end=tw::imin(21L,(q+1)*32L);
   const T *m=o+(q-q0)*36L*x->ms+t*32L;
   for(long f=q*32L;f<end;f+=L,m+=L) {
    const long left=end-f;
    const V d0_0=tw::load<V>(m+0L*x->ms);
    const V d1_0=tw::load<V>(m+6L*x->ms);
    const V d2_0=tw::load<V>(m+12L*x->ms);
    const V d3_0=tw::load<V>(m+18L*x->ms);
    const V d4_0=tw::load<V>(m+24L*x->ms);
    const V d5_0=tw::load<V>(m+30L*x->ms);
    const V e0_0s1=d1_0+d2_0,e0_0d1=d1_0-d2_0;
    const V e0_0s3=d3_0+d4_0,e0_0d3=d3_0-d4_0;
    const V e0_0=d0_0+e0_0s1+e0_0s3;
    const V e1_0=0.6875f*e0_0d1+1.4375f*e0_0d3;
    const V e2_0=0.47265625f*e0_0s1+2.06640625f*e0_0s3;
    const V e3_0=d5_0+0.324951171875f*e0_0d1+2.970458984375f*e0_0d3;
    const V d0_1=tw::load<V>(m+1L*x->ms);
    const V d1_1=tw::load<V>(m+7L*x->ms);
    const V d2_1=tw::load<V>(m+13L*x->ms);
    const V d3_1=tw::load<V>(m+19L*x->ms);
    const V d4_1=tw::load<V>(m+25L*x->ms);
    const V d5_1=tw::load<V>(m+31L*x->ms);
    const V e0_1s1=d1_1+d2_1,e0_1d1=d1_1-d2_1;
    const V e0_1s3=d3_1+d4_1,e0_1d3=d3_1-d4_1;
    const V e0_1=d0_1+e0_1s1+e0_1s3;
    const V e1_1=0.6875f*e0_1d1+1.4375f*e0_1d3;
    const V e2_1=0.47265625f*e0_1s1+2.06640625f*e0_1s3;
    const V e3_1=d5_1+0.324951171875f*e0_1d1+2.970458984375f*e0_1d3;
    const V d0_2=tw::load<V>(m+2L*x->ms);
    const V d1_2=tw::load<V>(m+8L*x->ms);
    const V d2_2=tw::load<V>(m+14L*x->ms);
    const V d3_2=tw::load<V>(m+20L*x->ms);
    const V d4_2=tw::load<V>(m+26L*x->ms);
    const V d5_2=tw::load<V>(m+32L*x->ms);
    const V e0_2s1=d1_2+d2_2,e0_2d1=d1_2-d2_2;
    const V e0_2s3=d3_2+d4_2,e0_2d3=d3_2-d4_2;
    const V e0_2=d0_2+e0_2s1+e0_2s3;
    const V e1_2=0.6875f*e0_2d1+1.4375f*e0_2d3;
    const V e2_2=0.47265625f*e0_2s1+2.06640625f*e0_2s3;
    const V e3_2=d5_2+0.324951171875f*e0_2d1+2.970458984375f*e0_2d3;
    const V d0_3=tw::load<V>(m+3L*x->ms);
    const V d1_3=tw::load<V>(m+9L*x->ms);
    const V d2_3=tw::load<V>(m+15L*x->ms);
    const V d3_3=tw::load<V>(m+21L*x->ms);
    const V d4_3=tw::load<V>(m+27L*x->ms);
    const V d5_3=tw::load<V>(m+33L*x->ms);
    const V e0_3s1=d1_3+d2_3,e0_3d1=d1_3-d2_3;
    const V e0_3s3=d3_3+d4_3,e0_3d3=d3_3-d4_3;
    const V e0_3=d0_3+e0_3s1+e0_3s3;
    const V e1_3=0.6875f*e0_3d1+1.4375f*e0_3d3;
    const V e2_3=0.47265625f*e0_3s1+2.06640625f*e0_3s3;
    const V e3_3=d5_3+0.324951171875f*e0_3d1+2.970458984375f*e0_3d3;
    const V d0_4=tw::load<V>(m+4L*x->ms);
    const V d1_4=tw::load<V>(m+10L*x->ms);
    const V d2_4=tw::load<V>(m+16L*x->ms);
    const V d3_4=tw::load<V>(m+22L*x->ms);
    const V d4_4=tw::load<V>(m+28L*x->ms);
    const V d5_4=tw::load<V>(m+34L*x->ms);
    const V e0_4s1=d1_4+d2_4,e0_4d1=d1_4-d2_4;
    const V e0_4s3=d3_4+d4_4,e0_4d3=d3_4-d4_4;
    const V e0_4=d0_4+e0_4s1+e0_4s3;
    const V e1_4=0.6875f*e0_4d1+1.4375f*e0_4d3;
    const V e2_4=0.47265625f*e0_4s1+2.06640625f*e0_4s3;
    const V e3_4=d5_4+0.324951171875f*e0_4d1+2.970458984375f*e0_4d3;
    const V d0_5=tw::load<V>(m+5L*x->ms);
    const V d1_5=tw::load<V>(m+11L*x->ms);
    const V d2_5=tw::load<V>(m+17L*x->ms);
    const V d3_5=tw::load<V>(m+23L*x->ms);
    const V d4_5=tw::load<V>(m+29L*x->ms);
    const V d5_5=tw::load<V>(m+35L*x->ms);
    const V e0_5s1=d1_5+d2_5,e0_5d1=d1_5-d2_5;
    const V e0_5s3=d3_5+d4_5,e0_5d3=d3_5-d4_5;
    const V e0_5=d0_5+e0_5s1+e0_5s3;
    const V e1_5=0.6875f*e0_5d1+1.4375f*e0_5d3;
    const V e2_5=0.47265625f*e0_5s1+2.06640625f*e0_5s3;
    const V e3_5=d5_5+0.324951171875f*e0_5d1+2.970458984375f*e0_5d3;
    const V f0_0s1=e0_1+e0_2,f0_0d1=e0_1-e0_2;
    const V f0_0s3=e0_3+e0_4,f0_0d3=e0_3-e0_4;
    const V f0_0=e0_0+f0_0s1+f0_0s3;
    const V f0_1=0.6875f*f0_0d1+1.4375f*f0_0d3;
    const V f0_2=0.47265625f*f0_0s1+2.06640625f*f0_0s3;
    const V f0_3=e0_5+0.324951171875f*f0_0d1+2.970458984375f*f0_0d3;
    { V v=f0_0; v=(v / ((float)(1.0f) + tw::exp((-v)))); if(left>=L) tw::store(to+0L+f,v); else tw::store_n(to+0L+f,v,left); }
    { V v=f0_1; v=(v / ((float)(1.0f) + tw::exp((-v)))); if(left>=L) tw::store(to+21L+f,v); else tw::store_n(to+21L+f,v,left); }
    { V v=f0_2; v=(v / ((float)(1.0f) + tw::exp((-v)))); if(left>=L) tw::store(to+42L+f,v); else tw::store_n(to+42L+f,v,left); }
    { V v=f0_3; v=(v / ((float)(1.0f) + tw::exp((-v)))); if(left>=L) tw::store(to+63L+f,v); else tw::store_n(to+63L+f,v,left); }
    const V f1_0s1=e1_1+e1_2,f1_0d1=e1_1-e1_2;
    const V f1_0s3=e1_3+e1_4,f1_0d3=e1_3-e1_4;
    const V f1_0=e1_0+f1_0s1+f1_0s3;
    const V f1_1=0.6875f*f1_0d1+1.4375f*f1_0d3;
    const V f1_2=0.47265625f*f1_0s1+2.06640625f*f1_0s3;
    const V f1_3=e1_5+0.324951171875f*f1_0d1+2.970458984375f*f1_0d3;
    if(y+1<5L) { V v=f1_0; v=(v / ((float)(1.0f) + tw::exp((-v)))); if(left>=L) tw::store(to+168L+f,v); else tw::store_n(to+168L+f,v,left); }
    if(y+1<5L) { V v=f1_1; v=(v / ((float)(1.0f) + tw::exp((-v)))); if(left>=L) tw::store(to+189L+f,v); else tw::store_n(to+189L+f,v,left); }
    if(y+1<5L) { V v=f1_2; v=(v / ((float)(1.0f) + tw::exp((-v)))); if(left>=L) tw::store(to+210L+f,v); else tw::store_n(to+210L+f,v,left); }
    if(y+1<5L) { V v=f1_3; v=(v / ((float)(1.0f) + tw::exp((-v)))); if(left>=L) tw::store(to+231L+f,v); else tw::store_n(to+231L+f,v,left); }
    const V f2_0s1=e2_1+e2_2,f2_0d1=e2_1-e2_2;
    const V f2_0s3=e2_3+e2_4,f2_0d3=e2_3-e2_4;
    const V f2_0=e2_0+f2_0s1+f2_0s3;
    const V f2_1=0.6875f*f2_0d1+1.4375f*f2_0d3;
    const V f2_2=0.47265625f*f2_0s1+2.06640625f*f2_0s3;
    const V f2_3=e2_5+0.324951171875f*f2_0d1+2.970458984375f*f2_0d3;
    if(y+2<5L) { V v=f2_0; v=(v / ((float)(1.0f) + tw::exp((-v)))); if(left>=L) tw::store(to+336L+f,v); else tw::store_n(to+336L+f,v,left); }
    if(y+2<5L) { V v=f2_1; v=(v / ((float)(1.0f) + tw::exp((-v)))); if(left>=L) tw::store(to+357L+f,v); else tw::store_n(to+357L+f,v,left); }
    if(y+2<5L) { V v=f2_2; v=(v / ((float)(1.0f) + tw::exp((-v)))); if(left>=L) tw::store(to+378L+f,v); else tw::store_n(to+378L+f,v,left); }
    if(y+2<5L) { V v=f2_3; v=(v / ((float)(1.0f) + tw::exp((-v)))); if(left>=L) tw::store(to+399L+f,v); else tw::store_n(to+399L+f,v,left); }
    const V f3_0s1=e3_1+e3_2,f3_0d1=e3_1-e3_2;
    const V f3_0s3=e3_3+e3_4,f3_0d3=e3_3-e3_4;
    const V f3_0=e3_0+f3_0s1+f3_0s3;
    const V f3_1=0.6875f*f3_0d1+1.4375f*f3_0d3;
    const V f3_2=0.47265625f*f3_0s1+2.06640625f*f3_0s3;
    const V f3_3=e3_5+0.324951171875f*f3_0d1+2.970458984375f*f3_0d3;
    if(y+3<5L) { V v=f3_0; v=(v / ((float)(1.0f) + tw::exp((-v)))); if(left>=L) tw::store(to+504L+f,v); else tw::store_n(to+504L+f,v,left); }
    if(y+3<5L) { V v=f3_1; v=(v / ((float)(1.0f) + tw::exp((-v)))); if(left>=L) tw::store(to+525L+f,v); else tw::store_n(to+525L+f,v,left); }
    if(y+3<5L) { V v=f3_2; v=(v / ((float)(1.0f) + tw::exp((-v)))); if(left>=L) tw::store(to+546L+f,v); else tw::store_n(to+546L+f,v,left); }
    if(y+3<5L) { V v=f3_3; v=(v / ((float)(1.0f) + tw::exp((-v)))); if(left>=L) tw::store(to+567L+f,v); else tw::store_n(to+567L+f,v,left); }
   } } } }
TW_NOINLINE void task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx;
 T *v=(T*)(x->ws+w*x->bytes),*o=v+36L*x->vs;
 const long i=t%x->TT,j=t/x->TT,t0=i*8L/x->TT,t1=(i+1)*8L/x->TT;
 const long q0=j*1L/x->TP,q1=(j+1)*1L/x->TP,blocks=tw::ceildiv(t1-t0,x->TB);
 for(long b=0;b<blocks;b++) {
  const long first=t0+(t1-t0)*b/blocks,count=t0+(t1-t0)*(b+1)/blocks-first;
  inputs(x,first,count,v);
  for(long q=q0;q<q1;q+=x->PB) { const long end=tw::imin(q1,q+x->PB);
   products(x,count,q,end,v,o);
   outputs(x,first,count,q,end,o); } } }
}
TW_ENTRY(tw_golden_pack) { using namespace tw_golden_; (void)args; (void)env;
 for(long q=0;q<1L;q++) weights((const T*)tensors[1],q,(T*)workspace);
 return 0; }
TW_ENTRY(tw_golden) { using namespace tw_golden_;
 Ctx c{}; Ctx *x=&c; x->t=tensors; x->zero=(T*)workspace; x->tables=x->zero+1024L; x->made=x->tables+0L;
 x->ws=(char*)(x->made+0L); x->TB=tw::imin(args[0],8L); x->PB=tw::imin(args[1],1L); x->TT=args[2];x->TP=args[3];
 x->vs=x->TB*48L+16L; x->ms=x->TB*32L+16L;
 x->bytes=(36L*(x->vs+x->PB*x->ms)*4L+4095)/4096*4096;
 for(long i=0;i<1024L;i++) x->zero[i]=0;
 x->u=(const T*)tensors[1];
 tw::parallel_for(env,x->TT*x->TP,task,x);
 return 0; }

// cpu_attention version 3, cpu:avx512
namespace tw_golden_ {
typedef tw::f32v V; enum { L=16, W=32 };
struct Ctx { void *const *t; char *ws; const float *k, *v; long KB, score_rows, bytes; };
template <class S> TW_INLINE void turn(const S *s, long ss, float *d, long ds) {
 V r0=tw::load<V>(s+0*ss);
 V r1=tw::load<V>(s+1*ss);
 V r2=tw::load<V>(s+2*ss);
 V r3=tw::load<V>(s+3*ss);
 V r4=tw::load<V>(s+4*ss);
 V r5=tw::load<V>(s+5*ss);
 V r6=tw::load<V>(s+6*ss);
 V r7=tw::load<V>(s+7*ss);
 V r8=tw::load<V>(s+8*ss);
 V r9=tw::load<V>(s+9*ss);
 V r10=tw::load<V>(s+10*ss);
 V r11=tw::load<V>(s+11*ss);
 V r12=tw::load<V>(s+12*ss);
 V r13=tw::load<V>(s+13*ss);
 V r14=tw::load<V>(s+14*ss);
 V r15=tw::load<V>(s+15*ss);
 const V t0=__builtin_shufflevector(r0,r8,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23);
 const V t1=__builtin_shufflevector(r0,r8,8,9,10,11,12,13,14,15,24,25,26,27,28,29,30,31);
 const V t2=__builtin_shufflevector(r1,r9,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23);
 const V t3=__builtin_shufflevector(r1,r9,8,9,10,11,12,13,14,15,24,25,26,27,28,29,30,31);
 const V t4=__builtin_shufflevector(r2,r10,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23);
 const V t5=__builtin_shufflevector(r2,r10,8,9,10,11,12,13,14,15,24,25,26,27,28,29,30,31);
 const V t6=__builtin_shufflevector(r3,r11,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23);
 const V t7=__builtin_shufflevector(r3,r11,8,9,10,11,12,13,14,15,24,25,26,27,28,29,30,31);
 const V t8=__builtin_shufflevector(r4,r12,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23);
 const V t9=__builtin_shufflevector(r4,r12,8,9,10,11,12,13,14,15,24,25,26,27,28,29,30,31);
 const V t10=__builtin_shufflevector(r5,r13,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23);
 const V t11=__builtin_shufflevector(r5,r13,8,9,10,11,12,13,14,15,24,25,26,27,28,29,30,31);
 const V t12=__builtin_shufflevector(r6,r14,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23);
 const V t13=__builtin_shufflevector(r6,r14,8,9,10,11,12,13,14,15,24,25,26,27,28,29,30,31);
 const V t14=__builtin_shufflevector(r7,r15,0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23);
 const V t15=__builtin_shufflevector(r7,r15,8,9,10,11,12,13,14,15,24,25,26,27,28,29,30,31);
 const V t16=__builtin_shufflevector(t0,t8,0,1,2,3,16,17,18,19,8,9,10,11,24,25,26,27);
 const V t17=__builtin_shufflevector(t0,t8,4,5,6,7,20,21,22,23,12,13,14,15,28,29,30,31);
 const V t18=__builtin_shufflevector(t2,t10,0,1,2,3,16,17,18,19,8,9,10,11,24,25,26,27);
 const V t19=__builtin_shufflevector(t2,t10,4,5,6,7,20,21,22,23,12,13,14,15,28,29,30,31);
 const V t20=__builtin_shufflevector(t4,t12,0,1,2,3,16,17,18,19,8,9,10,11,24,25,26,27);
 const V t21=__builtin_shufflevector(t4,t12,4,5,6,7,20,21,22,23,12,13,14,15,28,29,30,31);
 const V t22=__builtin_shufflevector(t6,t14,0,1,2,3,16,17,18,19,8,9,10,11,24,25,26,27);
 const V t23=__builtin_shufflevector(t6,t14,4,5,6,7,20,21,22,23,12,13,14,15,28,29,30,31);
 const V t24=__builtin_shufflevector(t1,t9,0,1,2,3,16,17,18,19,8,9,10,11,24,25,26,27);
 const V t25=__builtin_shufflevector(t1,t9,4,5,6,7,20,21,22,23,12,13,14,15,28,29,30,31);
 const V t26=__builtin_shufflevector(t3,t11,0,1,2,3,16,17,18,19,8,9,10,11,24,25,26,27);
 const V t27=__builtin_shufflevector(t3,t11,4,5,6,7,20,21,22,23,12,13,14,15,28,29,30,31);
 const V t28=__builtin_shufflevector(t5,t13,0,1,2,3,16,17,18,19,8,9,10,11,24,25,26,27);
 const V t29=__builtin_shufflevector(t5,t13,4,5,6,7,20,21,22,23,12,13,14,15,28,29,30,31);
 const V t30=__builtin_shufflevector(t7,t15,0,1,2,3,16,17,18,19,8,9,10,11,24,25,26,27);
 const V t31=__builtin_shufflevector(t7,t15,4,5,6,7,20,21,22,23,12,13,14,15,28,29,30,31);
 const V t32=__builtin_shufflevector(t16,t20,0,1,16,17,4,5,20,21,8,9,24,25,12,13,28,29);
 const V t33=__builtin_shufflevector(t16,t20,2,3,18,19,6,7,22,23,10,11,26,27,14,15,30,31);
 const V t34=__builtin_shufflevector(t18,t22,0,1,16,17,4,5,20,21,8,9,24,25,12,13,28,29);
 const V t35=__builtin_shufflevector(t18,t22,2,3,18,19,6,7,22,23,10,11,26,27,14,15,30,31);
 const V t36=__builtin_shufflevector(t17,t21,0,1,16,17,4,5,20,21,8,9,24,25,12,13,28,29);
 const V t37=__builtin_shufflevector(t17,t21,2,3,18,19,6,7,22,23,10,11,26,27,14,15,30,31);
 const V t38=__builtin_shufflevector(t19,t23,0,1,16,17,4,5,20,21,8,9,24,25,12,13,28,29);
 const V t39=__builtin_shufflevector(t19,t23,2,3,18,19,6,7,22,23,10,11,26,27,14,15,30,31);
 const V t40=__builtin_shufflevector(t24,t28,0,1,16,17,4,5,20,21,8,9,24,25,12,13,28,29);
 const V t41=__builtin_shufflevector(t24,t28,2,3,18,19,6,7,22,23,10,11,26,27,14,15,30,31);
 const V t42=__builtin_shufflevector(t26,t30,0,1,16,17,4,5,20,21,8,9,24,25,12,13,28,29);
 const V t43=__builtin_shufflevector(t26,t30,2,3,18,19,6,7,22,23,10,11,26,27,14,15,30,31);
 const V t44=__builtin_shufflevector(t25,t29,0,1,16,17,4,5,20,21,8,9,24,25,12,13,28,29);
 const V t45=__builtin_shufflevector(t25,t29,2,3,18,19,6,7,22,23,10,11,26,27,14,15,30,31);
 const V t46=__builtin_shufflevector(t27,t31,0,1,16,17,4,5,20,21,8,9,24,25,12,13,28,29);
 const V t47=__builtin_shufflevector(t27,t31,2,3,18,19,6,7,22,23,10,11,26,27,14,15,30,31);
 const V t48=__builtin_shufflevector(t32,t34,0,16,2,18,4,20,6,22,8,24,10,26,12,28,14,30);
 const V t49=__builtin_shufflevector(t32,t34,1,17,3,19,5,21,7,23,9,25,11,27,13,29,15,31);
 const V t50=__builtin_shufflevector(t33,t35,0,16,2,18,4,20,6,22,8,24,10,26,12,28,14,30);
 const V t51=__builtin_shufflevector(t33,t35,1,17,3,19,5,21,7,23,9,25,11,27,13,29,15,31);
 const V t52=__builtin_shufflevector(t36,t38,0,16,2,18,4,20,6,22,8,24,10,26,12,28,14,30);
 const V t53=__builtin_shufflevector(t36,t38,1,17,3,19,5,21,7,23,9,25,11,27,13,29,15,31);
 const V t54=__builtin_shufflevector(t37,t39,0,16,2,18,4,20,6,22,8,24,10,26,12,28,14,30);
 const V t55=__builtin_shufflevector(t37,t39,1,17,3,19,5,21,7,23,9,25,11,27,13,29,15,31);
 const V t56=__builtin_shufflevector(t40,t42,0,16,2,18,4,20,6,22,8,24,10,26,12,28,14,30);
 const V t57=__builtin_shufflevector(t40,t42,1,17,3,19,5,21,7,23,9,25,11,27,13,29,15,31);
 const V t58=__builtin_shufflevector(t41,t43,0,16,2,18,4,20,6,22,8,24,10,26,12,28,14,30);
 const V t59=__builtin_shufflevector(t41,t43,1,17,3,19,5,21,7,23,9,25,11,27,13,29,15,31);
 const V t60=__builtin_shufflevector(t44,t46,0,16,2,18,4,20,6,22,8,24,10,26,12,28,14,30);
 const V t61=__builtin_shufflevector(t44,t46,1,17,3,19,5,21,7,23,9,25,11,27,13,29,15,31);
 const V t62=__builtin_shufflevector(t45,t47,0,16,2,18,4,20,6,22,8,24,10,26,12,28,14,30);
 const V t63=__builtin_shufflevector(t45,t47,1,17,3,19,5,21,7,23,9,25,11,27,13,29,15,31);
 tw::store(d+0*ds,t48);
 tw::store(d+1*ds,t49);
 tw::store(d+2*ds,t50);
 tw::store(d+3*ds,t51);
 tw::store(d+4*ds,t52);
 tw::store(d+5*ds,t53);
 tw::store(d+6*ds,t54);
 tw::store(d+7*ds,t55);
 tw::store(d+8*ds,t56);
 tw::store(d+9*ds,t57);
 tw::store(d+10*ds,t58);
 tw::store(d+11*ds,t59);
 tw::store(d+12*ds,t60);
 tw::store(d+13*ds,t61);
 tw::store(d+14*ds,t62);
 tw::store(d+15*ds,t63);
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
 const V m1=tw::load<V>(m+16L); V t1=m1;
 for(long j=ja;j<jb;j++,p+=W) {
  { const V y=tw::load<V>(p+0L);
   const V z=(y * (float)(0x1.279a74590331dp-2f)); tw::store(p+0L,z); t0=z>t0?z:t0; }
  { const V y=tw::load<V>(p+16L);
   const V z=(y * (float)(0x1.279a74590331dp-2f)); tw::store(p+16L,z); t1=z>t1?z:t1; }
 }
 const V f0=t0==low?V{}:t0, c0=tw::exp(m0-f0); V l0={};
 tw::store(m+0L,t0); tw::store(c+0L,c0);
 const V f1=t1==low?V{}:t1, c1=tw::exp(m1-f1); V l1={};
 tw::store(m+16L,t1); tw::store(c+16L,c1);
 p=s; for(long j=ja;j<jb;j++,p+=W) {
  { const V y=tw::exp(tw::load<V>(p+0L)-f0); tw::store(p+0L,y); l0+=y; }
  { const V y=tw::exp(tw::load<V>(p+16L)-f1); tw::store(p+16L,y); l1+=y; }
 }
 tw::store(l+0L,tw::load<V>(l+0L)*c0+l0);
 tw::store(l+16L,tw::load<V>(l+16L)*c1+l1);
}
TW_NOINLINE void scores_9(const float *TW_RESTRICT k, const float *TW_RESTRICT q, float *TW_RESTRICT s) {
 V c0_0={}, c0_1={};
 V c1_0={}, c1_1={};
 V c2_0={}, c2_1={};
 V c3_0={}, c3_1={};
 V c4_0={}, c4_1={};
 V c5_0={}, c5_1={};
 V c6_0={}, c6_1={};
 V c7_0={}, c7_1={};
 V c8_0={}, c8_1={};
 for(long r=0;r<12L;r+=4) {
  { const V b0=tw::load<V>(q+0L); const V b1=tw::load<V>(q+16L);
   { const V x=tw::splat<V>(k[0L]); c0_0+=x*b0; c0_1+=x*b1; }
   { const V x=tw::splat<V>(k[12L]); c1_0+=x*b0; c1_1+=x*b1; }
   { const V x=tw::splat<V>(k[24L]); c2_0+=x*b0; c2_1+=x*b1; }
   { const V x=tw::splat<V>(k[36L]); c3_0+=x*b0; c3_1+=x*b1; }
   { const V x=tw::splat<V>(k[48L]); c4_0+=x*b0; c4_1+=x*b1; }
   { const V x=tw::splat<V>(k[60L]); c5_0+=x*b0; c5_1+=x*b1; }
   { const V x=tw::splat<V>(k[72L]); c6_0+=x*b0; c6_1+=x*b1; }
   { const V x=tw::splat<V>(k[84L]); c7_0+=x*b0; c7_1+=x*b1; }
   { const V x=tw::splat<V>(k[96L]); c8_0+=x*b0; c8_1+=x*b1; }
  }
  { const V b0=tw::load<V>(q+32L); const V b1=tw::load<V>(q+48L);
   { const V x=tw::splat<V>(k[1L]); c0_0+=x*b0; c0_1+=x*b1; }
   { const V x=tw::splat<V>(k[13L]); c1_0+=x*b0; c1_1+=x*b1; }
   { const V x=tw::splat<V>(k[25L]); c2_0+=x*b0; c2_1+=x*b1; }
   { const V x=tw::splat<V>(k[37L]); c3_0+=x*b0; c3_1+=x*b1; }
   { const V x=tw::splat<V>(k[49L]); c4_0+=x*b0; c4_1+=x*b1; }
   { const V x=tw::splat<V>(k[61L]); c5_0+=x*b0; c5_1+=x*b1; }
   { const V x=tw::splat<V>(k[73L]); c6_0+=x*b0; c6_1+=x*b1; }
   { const V x=tw::splat<V>(k[85L]); c7_0+=x*b0; c7_1+=x*b1; }
   { const V x=tw::splat<V>(k[97L]); c8_0+=x*b0; c8_1+=x*b1; }
  }
  { const V b0=tw::load<V>(q+64L); const V b1=tw::load<V>(q+80L);
   { const V x=tw::splat<V>(k[2L]); c0_0+=x*b0; c0_1+=x*b1; }
   { const V x=tw::splat<V>(k[14L]); c1_0+=x*b0; c1_1+=x*b1; }
   { const V x=tw::splat<V>(k[26L]); c2_0+=x*b0; c2_1+=x*b1; }
   { const V x=tw::splat<V>(k[38L]); c3_0+=x*b0; c3_1+=x*b1; }
   { const V x=tw::splat<V>(k[50L]); c4_0+=x*b0; c4_1+=x*b1; }
   { const V x=tw::splat<V>(k[62L]); c5_0+=x*b0; c5_1+=x*b1; }
   { const V x=tw::splat<V>(k[74L]); c6_0+=x*b0; c6_1+=x*b1; }
   { const V x=tw::splat<V>(k[86L]); c7_0+=x*b0; c7_1+=x*b1; }
   { const V x=tw::splat<V>(k[98L]); c8_0+=x*b0; c8_1+=x*b1; }
  }
  { const V b0=tw::load<V>(q+96L); const V b1=tw::load<V>(q+112L);
   { const V x=tw::splat<V>(k[3L]); c0_0+=x*b0; c0_1+=x*b1; }
   { const V x=tw::splat<V>(k[15L]); c1_0+=x*b0; c1_1+=x*b1; }
   { const V x=tw::splat<V>(k[27L]); c2_0+=x*b0; c2_1+=x*b1; }
   { const V x=tw::splat<V>(k[39L]); c3_0+=x*b0; c3_1+=x*b1; }
   { const V x=tw::splat<V>(k[51L]); c4_0+=x*b0; c4_1+=x*b1; }
   { const V x=tw::splat<V>(k[63L]); c5_0+=x*b0; c5_1+=x*b1; }
   { const V x=tw::splat<V>(k[75L]); c6_0+=x*b0; c6_1+=x*b1; }
   { const V x=tw::splat<V>(k[87L]); c7_0+=x*b0; c7_1+=x*b1; }
   { const V x=tw::splat<V>(k[99L]); c8_0+=x*b0; c8_1+=x*b1; }
  }
  q+=128L; k+=4L; }
 tw::store(s+0L,c0_0);
 tw::store(s+16L,c0_1);
 tw::store(s+32L,c1_0);
 tw::store(s+48L,c1_1);
 tw::store(s+64L,c2_0);
 tw::store(s+80L,c2_1);
 tw::store(s+96L,c3_0);
 tw::store(s+112L,c3_1);
 tw::store(s+128L,c4_0);
 tw::store(s+144L,c4_1);
 tw::store(s+160L,c5_0);
 tw::store(s+176L,c5_1);
 tw::store(s+192L,c6_0);
 tw::store(s+208L,c6_1);
 tw::store(s+224L,c7_0);
 tw::store(s+240L,c7_1);
 tw::store(s+256L,c8_0);
 tw::store(s+272L,c8_1);
}
TW_NOINLINE void scores_1(const float *TW_RESTRICT k, const float *TW_RESTRICT q, float *TW_RESTRICT s) {
 V c0_0={}, c0_1={};
 for(long r=0;r<12L;r+=4) {
  { const V b0=tw::load<V>(q+0L); const V b1=tw::load<V>(q+16L);
   { const V x=tw::splat<V>(k[0L]); c0_0+=x*b0; c0_1+=x*b1; }
  }
  { const V b0=tw::load<V>(q+32L); const V b1=tw::load<V>(q+48L);
   { const V x=tw::splat<V>(k[1L]); c0_0+=x*b0; c0_1+=x*b1; }
  }
  { const V b0=tw::load<V>(q+64L); const V b1=tw::load<V>(q+80L);
   { const V x=tw::splat<V>(k[2L]); c0_0+=x*b0; c0_1+=x*b1; }
  }
  { const V b0=tw::load<V>(q+96L); const V b1=tw::load<V>(q+112L);
   { const V x=tw::splat<V>(k[3L]); c0_0+=x*b0; c0_1+=x*b1; }
  }
  q+=128L; k+=4L; }
 tw::store(s+0L,c0_0);
 tw::store(s+16L,c0_1);
}
TW_NOINLINE void values_11(long n, const float *TW_RESTRICT v, const float *TW_RESTRICT s, float *TW_RESTRICT o, const float *TW_RESTRICT c, long first) {
 V a0_0={}, a0_1={};
 V a1_0={}, a1_1={};
 V a2_0={}, a2_1={};
 V a3_0={}, a3_1={};
 V a4_0={}, a4_1={};
 V a5_0={}, a5_1={};
 V a6_0={}, a6_1={};
 V a7_0={}, a7_1={};
 V a8_0={}, a8_1={};
 V a9_0={}, a9_1={};
 V a10_0={}, a10_1={};
 long j=0;
 for(;j+4<=n;j+=4) {
  { const V b0=tw::load<V>(s+0L); const V b1=tw::load<V>(s+16L);
   { const V x=tw::splat<V>(v[0L]); a0_0+=x*b0; a0_1+=x*b1; }
   { const V x=tw::splat<V>(v[1L]); a1_0+=x*b0; a1_1+=x*b1; }
   { const V x=tw::splat<V>(v[2L]); a2_0+=x*b0; a2_1+=x*b1; }
   { const V x=tw::splat<V>(v[3L]); a3_0+=x*b0; a3_1+=x*b1; }
   { const V x=tw::splat<V>(v[4L]); a4_0+=x*b0; a4_1+=x*b1; }
   { const V x=tw::splat<V>(v[5L]); a5_0+=x*b0; a5_1+=x*b1; }
   { const V x=tw::splat<V>(v[6L]); a6_0+=x*b0; a6_1+=x*b1; }
   { const V x=tw::splat<V>(v[7L]); a7_0+=x*b0; a7_1+=x*b1; }
   { const V x=tw::splat<V>(v[8L]); a8_0+=x*b0; a8_1+=x*b1; }
   { const V x=tw::splat<V>(v[9L]); a9_0+=x*b0; a9_1+=x*b1; }
   { const V x=tw::splat<V>(v[10L]); a10_0+=x*b0; a10_1+=x*b1; }
  }
  { const V b0=tw::load<V>(s+32L); const V b1=tw::load<V>(s+48L);
   { const V x=tw::splat<V>(v[11L]); a0_0+=x*b0; a0_1+=x*b1; }
   { const V x=tw::splat<V>(v[12L]); a1_0+=x*b0; a1_1+=x*b1; }
   { const V x=tw::splat<V>(v[13L]); a2_0+=x*b0; a2_1+=x*b1; }
   { const V x=tw::splat<V>(v[14L]); a3_0+=x*b0; a3_1+=x*b1; }
   { const V x=tw::splat<V>(v[15L]); a4_0+=x*b0; a4_1+=x*b1; }
   { const V x=tw::splat<V>(v[16L]); a5_0+=x*b0; a5_1+=x*b1; }
   { const V x=tw::splat<V>(v[17L]); a6_0+=x*b0; a6_1+=x*b1; }
   { const V x=tw::splat<V>(v[18L]); a7_0+=x*b0; a7_1+=x*b1; }
   { const V x=tw::splat<V>(v[19L]); a8_0+=x*b0; a8_1+=x*b1; }
   { const V x=tw::splat<V>(v[20L]); a9_0+=x*b0; a9_1+=x*b1; }
   { const V x=tw::splat<V>(v[21L]); a10_0+=x*b0; a10_1+=x*b1; }
  }
  { const V b0=tw::load<V>(s+64L); const V b1=tw::load<V>(s+80L);
   { const V x=tw::splat<V>(v[22L]); a0_0+=x*b0; a0_1+=x*b1; }
   { const V x=tw::splat<V>(v[23L]); a1_0+=x*b0; a1_1+=x*b1; }
   { const V x=tw::splat<V>(v[24L]); a2_0+=x*b0; a2_1+=x*b1; }
   { const V x=tw::splat<V>(v[25L]); a3_0+=x*b0; a3_1+=x*b1; }
   { const V x=tw::splat<V>(v[26L]); a4_0+=x*b0; a4_1+=x*b1; }
   { const V x=tw::splat<V>(v[27L]); a5_0+=x*b0; a5_1+=x*b1; }
   { const V x=tw::splat<V>(v[28L]); a6_0+=x*b0; a6_1+=x*b1; }
   { const V x=tw::splat<V>(v[29L]); a7_0+=x*b0; a7_1+=x*b1; }
   { const V x=tw::splat<V>(v[30L]); a8_0+=x*b0; a8_1+=x*b1; }
   { const V x=tw::splat<V>(v[31L]); a9_0+=x*b0; a9_1+=x*b1; }
   { const V x=tw::splat<V>(v[32L]); a10_0+=x*b0; a10_1+=x*b1; }
  }
  { const V b0=tw::load<V>(s+96L); const V b1=tw::load<V>(s+112L);
   { const V x=tw::splat<V>(v[33L]); a0_0+=x*b0; a0_1+=x*b1; }
   { const V x=tw::splat<V>(v[34L]); a1_0+=x*b0; a1_1+=x*b1; }
   { const V x=tw::splat<V>(v[35L]); a2_0+=x*b0; a2_1+=x*b1; }
   { const V x=tw::splat<V>(v[36L]); a3_0+=x*b0; a3_1+=x*b1; }
   { const V x=tw::splat<V>(v[37L]); a4_0+=x*b0; a4_1+=x*b1; }
   { const V x=tw::splat<V>(v[38L]); a5_0+=x*b0; a5_1+=x*b1; }
   { const V x=tw::splat<V>(v[39L]); a6_0+=x*b0; a6_1+=x*b1; }
   { const V x=tw::splat<V>(v[40L]); a7_0+=x*b0; a7_1+=x*b1; }
   { const V x=tw::splat<V>(v[41L]); a8_0+=x*b0; a8_1+=x*b1; }
   { const V x=tw::splat<V>(v[42L]); a9_0+=x*b0; a9_1+=x*b1; }
   { const V x=tw::splat<V>(v[43L]); a10_0+=x*b0; a10_1+=x*b1; }
  }
  s+=128L; v+=44L; }
 for(;j<n;j++) {
  { const V b0=tw::load<V>(s+0L); const V b1=tw::load<V>(s+16L);
   { const V x=tw::splat<V>(v[0L]); a0_0+=x*b0; a0_1+=x*b1; }
   { const V x=tw::splat<V>(v[1L]); a1_0+=x*b0; a1_1+=x*b1; }
   { const V x=tw::splat<V>(v[2L]); a2_0+=x*b0; a2_1+=x*b1; }
   { const V x=tw::splat<V>(v[3L]); a3_0+=x*b0; a3_1+=x*b1; }
   { const V x=tw::splat<V>(v[4L]); a4_0+=x*b0; a4_1+=x*b1; }
   { const V x=tw::splat<V>(v[5L]); a5_0+=x*b0; a5_1+=x*b1; }
   { const V x=tw::splat<V>(v[6L]); a6_0+=x*b0; a6_1+=x*b1; }
   { const V x=tw::splat<V>(v[7L]); a7_0+=x*b0; a7_1+=x*b1; }
   { const V x=tw::splat<V>(v[8L]); a8_0+=x*b0; a8_1+=x*b1; }
   { const V x=tw::splat<V>(v[9L]); a9_0+=x*b0; a9_1+=x*b1; }
   { const V x=tw::splat<V>(v[10L]); a10_0+=x*b0; a10_1+=x*b1; }
  }
  s+=32L; v+=11L; }
 if(!first) {
  const V c0=tw::load<V>(c+0L);
  const V c1=tw::load<V>(c+16L);
  a0_0+=tw::load<V>(o+0L)*c0;
  a0_1+=tw::load<V>(o+16L)*c1;
  a1_0+=tw::load<V>(o+32L)*c0;
  a1_1+=tw::load<V>(o+48L)*c1;
  a2_0+=tw::load<V>(o+64L)*c0;
  a2_1+=tw::load<V>(o+80L)*c1;
  a3_0+=tw::load<V>(o+96L)*c0;
  a3_1+=tw::load<V>(o+112L)*c1;
  a4_0+=tw::load<V>(o+128L)*c0;
  a4_1+=tw::load<V>(o+144L)*c1;
  a5_0+=tw::load<V>(o+160L)*c0;
  a5_1+=tw::load<V>(o+176L)*c1;
  a6_0+=tw::load<V>(o+192L)*c0;
  a6_1+=tw::load<V>(o+208L)*c1;
  a7_0+=tw::load<V>(o+224L)*c0;
  a7_1+=tw::load<V>(o+240L)*c1;
  a8_0+=tw::load<V>(o+256L)*c0;
  a8_1+=tw::load<V>(o+272L)*c1;
  a9_0+=tw::load<V>(o+288L)*c0;
  a9_1+=tw::load<V>(o+304L)*c1;
  a10_0+=tw::load<V>(o+320L)*c0;
  a10_1+=tw::load<V>(o+336L)*c1;
 }
 tw::store(o+0L,a0_0);
 tw::store(o+16L,a0_1);
 tw::store(o+32L,a1_0);
 tw::store(o+48L,a1_1);
 tw::store(o+64L,a2_0);
 tw::store(o+80L,a2_1);
 tw::store(o+96L,a3_0);
 tw::store(o+112L,a3_1);
 tw::store(o+128L,a4_0);
 tw::store(o+144L,a4_1);
 tw::store(o+160L,a5_0);
 tw::store(o+176L,a5_1);
 tw::store(o+192L,a6_0);
 tw::store(o+208L,a6_1);
 tw::store(o+224L,a7_0);
 tw::store(o+240L,a7_1);
 tw::store(o+256L,a8_0);
 tw::store(o+272L,a8_1);
 tw::store(o+288L,a9_0);
 tw::store(o+304L,a9_1);
 tw::store(o+320L,a10_0);
 tw::store(o+336L,a10_1);
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
 const long o=t/1L, q0=(0L-t%1L)*W, nq=tw::imin(W,21L-q0); (void)o;
 const long o_i1=(o)%2L; (void)o_i1;
 const long o_i0=(o)/2L; (void)o_i0;
 float *q=(float*)(x->ws+0L+w*x->bytes), *s=q+12L*W;
 float *o_=s+1*x->score_rows*W, *rows=o_+448L; (void)rows;
 float *m=o_+11L*W, *l=m+W, *c=l+W;
 queries(x,o_i0,o_i1,q0,nq,q,s);
 for(long i=0;i<W;i++) { m[i]=-__builtin_inff(); l[i]=0; }
 const float *k=x->k+(o_i1*444L), *v=x->v+(o_i1*407L);
 long first=1;
 for(long j=first_key;j<end;j+=x->KB) { long ja=j, jb=tw::imin(j+x->KB,end);
  float *d=s; long i=ja;
  for(;i+9<=jb;i+=9,d+=288L) scores_9(k+i*12L,q,d);
  if(i<jb) scores_1(k+i*12L,q,d);
  weigh(x,o_i0,o_i1,q0,nq,ja,jb,s,m,l,c);
  for(long b=0;b<1L;b++) values_11(jb-ja,v+ja*11L+(b)*11L*1L,s,o_+(b)*11L*W,c,first);
  first=0; }
 if(first) for(long i=0;i<11L*W;i++) o_[i]=0;
 finish(x,o_i0,o_i1,q0,nq,o_,l,rows); }
}
TW_ENTRY(tw_golden) { using namespace tw_golden_; Ctx x; x.t=tensors; x.ws=(char*)workspace;
 x.k=(const float*)tensors[1]; x.v=(const float*)tensors[2]; x.KB=tw::imax(9L,args[0]/9*9);
 x.score_rows=tw::imax(x.KB,12L);
 x.bytes=((832L+1*x.score_rows*W)*4+4095)/4096*4096;
 tw::parallel_for(env,2L,task,&x);
 return 0; }
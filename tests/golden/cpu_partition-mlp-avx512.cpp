// cpu_partition version 14, cpu:avx512
namespace tw_golden_p0_ {
typedef float T; typedef tw::f32v V; enum { L=16 };
struct Ctx {
 void *const *t; char *ws; T *image, *tables; long chunk, KC, MT, NT, TM, TN, TK, bytes, a_bytes; bool skips; };
TW_NOINLINE void mk_20x1(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 __builtin_prefetch(c+0L,1,3);
 __builtin_prefetch(c+33L,1,3);
 __builtin_prefetch(c+66L,1,3);
 __builtin_prefetch(c+99L,1,3);
 __builtin_prefetch(c+132L,1,3);
 __builtin_prefetch(c+165L,1,3);
 __builtin_prefetch(c+198L,1,3);
 __builtin_prefetch(c+231L,1,3);
 __builtin_prefetch(c+264L,1,3);
 __builtin_prefetch(c+297L,1,3);
 __builtin_prefetch(c+330L,1,3);
 __builtin_prefetch(c+363L,1,3);
 __builtin_prefetch(c+396L,1,3);
 __builtin_prefetch(c+429L,1,3);
 __builtin_prefetch(c+462L,1,3);
 __builtin_prefetch(c+495L,1,3);
 __builtin_prefetch(c+528L,1,3);
 __builtin_prefetch(c+561L,1,3);
 __builtin_prefetch(c+594L,1,3);
 __builtin_prefetch(c+627L,1,3);
 V c0_0={};
 V c1_0={};
 V c2_0={};
 V c3_0={};
 V c4_0={};
 V c5_0={};
 V c6_0={};
 V c7_0={};
 V c8_0={};
 V c9_0={};
 V c10_0={};
 V c11_0={};
 V c12_0={};
 V c13_0={};
 V c14_0={};
 V c15_0={};
 V c16_0={};
 V c17_0={};
 V c18_0={};
 V c19_0={};
 for(;kc>=4;kc-=4){
 {
  __builtin_prefetch(b+32L,0,3);
  V b0=tw::load<V>(b+0L);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[17L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[34L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[51L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[68L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[85L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[102L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[119L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[136L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[153L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[170L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[187L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[204L]);
   c12_0=(c12_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[221L]);
   c13_0=(c13_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[238L]);
   c14_0=(c14_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[255L]);
   c15_0=(c15_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[272L]);
   c16_0=(c16_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[289L]);
   c17_0=(c17_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[306L]);
   c18_0=(c18_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[323L]);
   c19_0=(c19_0 + (x * b0));
  }
 }
 {
  __builtin_prefetch(b+65L,0,3);
  V b0=tw::load<V>(b+33L);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[18L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[35L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[52L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[69L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[86L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[103L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[120L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[137L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[154L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[171L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[188L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[205L]);
   c12_0=(c12_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[222L]);
   c13_0=(c13_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[239L]);
   c14_0=(c14_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[256L]);
   c15_0=(c15_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[273L]);
   c16_0=(c16_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[290L]);
   c17_0=(c17_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[307L]);
   c18_0=(c18_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[324L]);
   c19_0=(c19_0 + (x * b0));
  }
 }
 {
  __builtin_prefetch(b+98L,0,3);
  V b0=tw::load<V>(b+66L);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[36L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[53L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[70L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[87L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[104L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[121L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[138L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[155L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[172L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[189L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[206L]);
   c12_0=(c12_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[223L]);
   c13_0=(c13_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[240L]);
   c14_0=(c14_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[257L]);
   c15_0=(c15_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[274L]);
   c16_0=(c16_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[291L]);
   c17_0=(c17_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[308L]);
   c18_0=(c18_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[325L]);
   c19_0=(c19_0 + (x * b0));
  }
 }
 {
  __builtin_prefetch(b+131L,0,3);
  V b0=tw::load<V>(b+99L);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[20L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[37L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[54L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[71L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[88L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[105L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[122L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[139L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[156L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[173L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[190L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[207L]);
   c12_0=(c12_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[224L]);
   c13_0=(c13_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[241L]);
   c14_0=(c14_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[258L]);
   c15_0=(c15_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[275L]);
   c16_0=(c16_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[292L]);
   c17_0=(c17_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[309L]);
   c18_0=(c18_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[326L]);
   c19_0=(c19_0 + (x * b0));
  }
 }
  a+=4L; b+=132L; }
 for(;kc>0;kc--){
  V b0=tw::load<V>(b+0L);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[17L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[34L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[51L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[68L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[85L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[102L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[119L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[136L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[153L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[170L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[187L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[204L]);
   c12_0=(c12_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[221L]);
   c13_0=(c13_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[238L]);
   c14_0=(c14_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[255L]);
   c15_0=(c15_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[272L]);
   c16_0=(c16_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[289L]);
   c17_0=(c17_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[306L]);
   c18_0=(c18_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[323L]);
   c19_0=(c19_0 + (x * b0));
  }
  a+=1L; b+=33L; }
 if(mode&1){
  if(tail==16){
   c0_0=(tw::load<V>(c+0L) + c0_0);
   c1_0=(tw::load<V>(c+33L) + c1_0);
   c2_0=(tw::load<V>(c+66L) + c2_0);
   c3_0=(tw::load<V>(c+99L) + c3_0);
   c4_0=(tw::load<V>(c+132L) + c4_0);
   c5_0=(tw::load<V>(c+165L) + c5_0);
   c6_0=(tw::load<V>(c+198L) + c6_0);
   c7_0=(tw::load<V>(c+231L) + c7_0);
   c8_0=(tw::load<V>(c+264L) + c8_0);
   c9_0=(tw::load<V>(c+297L) + c9_0);
   c10_0=(tw::load<V>(c+330L) + c10_0);
   c11_0=(tw::load<V>(c+363L) + c11_0);
   c12_0=(tw::load<V>(c+396L) + c12_0);
   c13_0=(tw::load<V>(c+429L) + c13_0);
   c14_0=(tw::load<V>(c+462L) + c14_0);
   c15_0=(tw::load<V>(c+495L) + c15_0);
   c16_0=(tw::load<V>(c+528L) + c16_0);
   c17_0=(tw::load<V>(c+561L) + c17_0);
   c18_0=(tw::load<V>(c+594L) + c18_0);
   c19_0=(tw::load<V>(c+627L) + c19_0);
  } else {
   c0_0=(tw::load_n<V>(c+0L,tail) + c0_0);
   c1_0=(tw::load_n<V>(c+33L,tail) + c1_0);
   c2_0=(tw::load_n<V>(c+66L,tail) + c2_0);
   c3_0=(tw::load_n<V>(c+99L,tail) + c3_0);
   c4_0=(tw::load_n<V>(c+132L,tail) + c4_0);
   c5_0=(tw::load_n<V>(c+165L,tail) + c5_0);
   c6_0=(tw::load_n<V>(c+198L,tail) + c6_0);
   c7_0=(tw::load_n<V>(c+231L,tail) + c7_0);
   c8_0=(tw::load_n<V>(c+264L,tail) + c8_0);
   c9_0=(tw::load_n<V>(c+297L,tail) + c9_0);
   c10_0=(tw::load_n<V>(c+330L,tail) + c10_0);
   c11_0=(tw::load_n<V>(c+363L,tail) + c11_0);
   c12_0=(tw::load_n<V>(c+396L,tail) + c12_0);
   c13_0=(tw::load_n<V>(c+429L,tail) + c13_0);
   c14_0=(tw::load_n<V>(c+462L,tail) + c14_0);
   c15_0=(tw::load_n<V>(c+495L,tail) + c15_0);
   c16_0=(tw::load_n<V>(c+528L,tail) + c16_0);
   c17_0=(tw::load_n<V>(c+561L,tail) + c17_0);
   c18_0=(tw::load_n<V>(c+594L,tail) + c18_0);
   c19_0=(tw::load_n<V>(c+627L,tail) + c19_0);
  }
 }
 if(tail==16){
  tw::store(c+0L,c0_0);
  tw::store(c+33L,c1_0);
  tw::store(c+66L,c2_0);
  tw::store(c+99L,c3_0);
  tw::store(c+132L,c4_0);
  tw::store(c+165L,c5_0);
  tw::store(c+198L,c6_0);
  tw::store(c+231L,c7_0);
  tw::store(c+264L,c8_0);
  tw::store(c+297L,c9_0);
  tw::store(c+330L,c10_0);
  tw::store(c+363L,c11_0);
  tw::store(c+396L,c12_0);
  tw::store(c+429L,c13_0);
  tw::store(c+462L,c14_0);
  tw::store(c+495L,c15_0);
  tw::store(c+528L,c16_0);
  tw::store(c+561L,c17_0);
  tw::store(c+594L,c18_0);
  tw::store(c+627L,c19_0);
 } else {
  tw::store_n(c+0L,c0_0,tail);
  tw::store_n(c+33L,c1_0,tail);
  tw::store_n(c+66L,c2_0,tail);
  tw::store_n(c+99L,c3_0,tail);
  tw::store_n(c+132L,c4_0,tail);
  tw::store_n(c+165L,c5_0,tail);
  tw::store_n(c+198L,c6_0,tail);
  tw::store_n(c+231L,c7_0,tail);
  tw::store_n(c+264L,c8_0,tail);
  tw::store_n(c+297L,c9_0,tail);
  tw::store_n(c+330L,c10_0,tail);
  tw::store_n(c+363L,c11_0,tail);
  tw::store_n(c+396L,c12_0,tail);
  tw::store_n(c+429L,c13_0,tail);
  tw::store_n(c+462L,c14_0,tail);
  tw::store_n(c+495L,c15_0,tail);
  tw::store_n(c+528L,c16_0,tail);
  tw::store_n(c+561L,c17_0,tail);
  tw::store_n(c+594L,c18_0,tail);
  tw::store_n(c+627L,c19_0,tail);
 }
}
TW_NOINLINE void mk_20x1t(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 __builtin_prefetch(c+0L,1,3);
 __builtin_prefetch(c+33L,1,3);
 __builtin_prefetch(c+66L,1,3);
 __builtin_prefetch(c+99L,1,3);
 __builtin_prefetch(c+132L,1,3);
 __builtin_prefetch(c+165L,1,3);
 __builtin_prefetch(c+198L,1,3);
 __builtin_prefetch(c+231L,1,3);
 __builtin_prefetch(c+264L,1,3);
 __builtin_prefetch(c+297L,1,3);
 __builtin_prefetch(c+330L,1,3);
 __builtin_prefetch(c+363L,1,3);
 __builtin_prefetch(c+396L,1,3);
 __builtin_prefetch(c+429L,1,3);
 __builtin_prefetch(c+462L,1,3);
 __builtin_prefetch(c+495L,1,3);
 __builtin_prefetch(c+528L,1,3);
 __builtin_prefetch(c+561L,1,3);
 __builtin_prefetch(c+594L,1,3);
 __builtin_prefetch(c+627L,1,3);
 V c0_0={};
 V c1_0={};
 V c2_0={};
 V c3_0={};
 V c4_0={};
 V c5_0={};
 V c6_0={};
 V c7_0={};
 V c8_0={};
 V c9_0={};
 V c10_0={};
 V c11_0={};
 V c12_0={};
 V c13_0={};
 V c14_0={};
 V c15_0={};
 V c16_0={};
 V c17_0={};
 V c18_0={};
 V c19_0={};
 for(;kc>=4;kc-=4){
 {
  __builtin_prefetch(b+32L,0,3);
  V b0=tw::load_n<V>(b+0L,tail);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[17L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[34L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[51L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[68L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[85L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[102L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[119L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[136L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[153L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[170L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[187L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[204L]);
   c12_0=(c12_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[221L]);
   c13_0=(c13_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[238L]);
   c14_0=(c14_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[255L]);
   c15_0=(c15_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[272L]);
   c16_0=(c16_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[289L]);
   c17_0=(c17_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[306L]);
   c18_0=(c18_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[323L]);
   c19_0=(c19_0 + (x * b0));
  }
 }
 {
  __builtin_prefetch(b+65L,0,3);
  V b0=tw::load_n<V>(b+33L,tail);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[18L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[35L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[52L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[69L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[86L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[103L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[120L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[137L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[154L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[171L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[188L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[205L]);
   c12_0=(c12_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[222L]);
   c13_0=(c13_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[239L]);
   c14_0=(c14_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[256L]);
   c15_0=(c15_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[273L]);
   c16_0=(c16_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[290L]);
   c17_0=(c17_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[307L]);
   c18_0=(c18_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[324L]);
   c19_0=(c19_0 + (x * b0));
  }
 }
 {
  __builtin_prefetch(b+98L,0,3);
  V b0=tw::load_n<V>(b+66L,tail);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[19L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[36L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[53L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[70L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[87L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[104L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[121L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[138L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[155L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[172L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[189L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[206L]);
   c12_0=(c12_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[223L]);
   c13_0=(c13_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[240L]);
   c14_0=(c14_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[257L]);
   c15_0=(c15_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[274L]);
   c16_0=(c16_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[291L]);
   c17_0=(c17_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[308L]);
   c18_0=(c18_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[325L]);
   c19_0=(c19_0 + (x * b0));
  }
 }
 {
  __builtin_prefetch(b+131L,0,3);
  V b0=tw::load_n<V>(b+99L,tail);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[20L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[37L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[54L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[71L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[88L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[105L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[122L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[139L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[156L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[173L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[190L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[207L]);
   c12_0=(c12_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[224L]);
   c13_0=(c13_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[241L]);
   c14_0=(c14_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[258L]);
   c15_0=(c15_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[275L]);
   c16_0=(c16_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[292L]);
   c17_0=(c17_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[309L]);
   c18_0=(c18_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[326L]);
   c19_0=(c19_0 + (x * b0));
  }
 }
  a+=4L; b+=132L; }
 for(;kc>0;kc--){
  V b0=tw::load_n<V>(b+0L,tail);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[17L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[34L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[51L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[68L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[85L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[102L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[119L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[136L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[153L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[170L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[187L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[204L]);
   c12_0=(c12_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[221L]);
   c13_0=(c13_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[238L]);
   c14_0=(c14_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[255L]);
   c15_0=(c15_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[272L]);
   c16_0=(c16_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[289L]);
   c17_0=(c17_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[306L]);
   c18_0=(c18_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[323L]);
   c19_0=(c19_0 + (x * b0));
  }
  a+=1L; b+=33L; }
 if(mode&1){
   c0_0=(tw::load_n<V>(c+0L,tail) + c0_0);
   c1_0=(tw::load_n<V>(c+33L,tail) + c1_0);
   c2_0=(tw::load_n<V>(c+66L,tail) + c2_0);
   c3_0=(tw::load_n<V>(c+99L,tail) + c3_0);
   c4_0=(tw::load_n<V>(c+132L,tail) + c4_0);
   c5_0=(tw::load_n<V>(c+165L,tail) + c5_0);
   c6_0=(tw::load_n<V>(c+198L,tail) + c6_0);
   c7_0=(tw::load_n<V>(c+231L,tail) + c7_0);
   c8_0=(tw::load_n<V>(c+264L,tail) + c8_0);
   c9_0=(tw::load_n<V>(c+297L,tail) + c9_0);
   c10_0=(tw::load_n<V>(c+330L,tail) + c10_0);
   c11_0=(tw::load_n<V>(c+363L,tail) + c11_0);
   c12_0=(tw::load_n<V>(c+396L,tail) + c12_0);
   c13_0=(tw::load_n<V>(c+429L,tail) + c13_0);
   c14_0=(tw::load_n<V>(c+462L,tail) + c14_0);
   c15_0=(tw::load_n<V>(c+495L,tail) + c15_0);
   c16_0=(tw::load_n<V>(c+528L,tail) + c16_0);
   c17_0=(tw::load_n<V>(c+561L,tail) + c17_0);
   c18_0=(tw::load_n<V>(c+594L,tail) + c18_0);
   c19_0=(tw::load_n<V>(c+627L,tail) + c19_0);
 }
  tw::store_n(c+0L,c0_0,tail);
  tw::store_n(c+33L,c1_0,tail);
  tw::store_n(c+66L,c2_0,tail);
  tw::store_n(c+99L,c3_0,tail);
  tw::store_n(c+132L,c4_0,tail);
  tw::store_n(c+165L,c5_0,tail);
  tw::store_n(c+198L,c6_0,tail);
  tw::store_n(c+231L,c7_0,tail);
  tw::store_n(c+264L,c8_0,tail);
  tw::store_n(c+297L,c9_0,tail);
  tw::store_n(c+330L,c10_0,tail);
  tw::store_n(c+363L,c11_0,tail);
  tw::store_n(c+396L,c12_0,tail);
  tw::store_n(c+429L,c13_0,tail);
  tw::store_n(c+462L,c14_0,tail);
  tw::store_n(c+495L,c15_0,tail);
  tw::store_n(c+528L,c16_0,tail);
  tw::store_n(c+561L,c17_0,tail);
  tw::store_n(c+594L,c18_0,tail);
  tw::store_n(c+627L,c19_0,tail);
}
TW_NOINLINE void task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
 const long ti=t%x->TM; t/=x->TM; const long tj=t%x->TN; t/=x->TN;
 const long tk=t%x->TK, o=t/x->TK; (void)o;
 const long r0=ti*1L/x->TM, r1=(ti+1)*1L/x->TM, c0=tj*3L/x->TN, c1=(tj+1)*3L/x->TN;
 const long k0=tk*17L/x->TK, k1=(tk+1)*17L/x->TK;
 float *out=(float*)x->t[2]+0L;
 const T *A=(const T*)x->t[0]+0L;
 const T *B=(const T*)x->t[1]+0L;
 for(long cb0=c0;cb0<c1;cb0+=x->NT) { const long cb1=tw::imin(c1,cb0+x->NT);
  for(long pc=k0;pc<k1;pc+=x->KC) { const long kc=tw::imin(k1-pc,x->KC);
   const long mode=(pc>k0)|(pc+kc>=k1?2:0); (void)mode;
   for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);
    for(long cb=cb0;cb<cb1;cb++) for(long rb=rb0;rb<rb1;rb++) {
     const long l0=(rb)*20L;
     const T *a=A+l0*17L+pc*1L;
     const T *b=B+(cb)*1L*16L+pc*33L;
     T *c=out+l0*33L+(cb)*1L*16L;
     if(cb<2L) { mk_20x1(kc,a,b,c,mode,(cb==2L?1L:16L)); } else if(cb==2L) { mk_20x1t(kc,a,b,c,mode,(cb==2L?1L:16L)); }
    } } } } }
}
TW_ENTRY(tw_golden_p0) { using namespace tw_golden_p0_; (void)workspace;
 const long mt=tw::imin(tw::imax(1,args[1]/20),1L);
 const long nt=tw::imin(tw::imax(1,args[2]/16),3L);
 Ctx c{}; Ctx *x=&c; x->t=tensors; x->ws=(char*)workspace+0L; x->image=(T*)workspace;
 x->tables=(T*)((char*)workspace+0L); x->KC=args[0]; x->MT=mt; x->NT=nt; x->TM=args[3];x->TN=args[4];x->TK=args[5];
 x->a_bytes=0; x->bytes=x->a_bytes+0;
 for(x->chunk=0;x->chunk<1L;x->chunk++) {
  tw::parallel_for(env,1L*x->TM*x->TN*x->TK,task,x);
 }
 return 0; }
namespace tw_golden_p1_ {
typedef float T; typedef tw::f32v V; enum { L=16 };
struct Ctx {
 void *const *t; char *ws; T *image, *tables; long chunk, KC, MT, NT, TM, TN, TK, bytes, a_bytes; bool skips; };
TW_NOINLINE void pack_a(const Ctx *x, long o, long rb, long re, long k0, long kc, T *TW_RESTRICT q) {
 (void)o;
 for(;rb<re;rb++) { const long i0=(rb)*20L, n=20L; (void)n;
  for(long l=0;l<n;l++) { const long m=i0+l; (void)m; const long f_i0=m; long r0=k0;
   for(long kk=0;kk<kc;kk++) { q[(kk/4*20+l)*4+kk%4]=(T)(tw::max<float>((((const float*)x->t[2])[(f_i0)*33L+(r0)*1L] + ((const float*)x->t[0])[(r0)*1L]), 0.0f)); ++r0; } }

  q+=(kc+3)/4*80L; } }
TW_NOINLINE void mk_20x1t(long kc, const T *TW_RESTRICT a, const T *TW_RESTRICT b, T *TW_RESTRICT c, long mode, long tail) { (void)mode; (void)tail;
 __builtin_prefetch(c+0L,1,3);
 __builtin_prefetch(c+9L,1,3);
 __builtin_prefetch(c+18L,1,3);
 __builtin_prefetch(c+27L,1,3);
 __builtin_prefetch(c+36L,1,3);
 __builtin_prefetch(c+45L,1,3);
 __builtin_prefetch(c+54L,1,3);
 __builtin_prefetch(c+63L,1,3);
 __builtin_prefetch(c+72L,1,3);
 __builtin_prefetch(c+81L,1,3);
 __builtin_prefetch(c+90L,1,3);
 __builtin_prefetch(c+99L,1,3);
 __builtin_prefetch(c+108L,1,3);
 __builtin_prefetch(c+117L,1,3);
 __builtin_prefetch(c+126L,1,3);
 __builtin_prefetch(c+135L,1,3);
 __builtin_prefetch(c+144L,1,3);
 __builtin_prefetch(c+153L,1,3);
 __builtin_prefetch(c+162L,1,3);
 __builtin_prefetch(c+171L,1,3);
 V c0_0={};
 V c1_0={};
 V c2_0={};
 V c3_0={};
 V c4_0={};
 V c5_0={};
 V c6_0={};
 V c7_0={};
 V c8_0={};
 V c9_0={};
 V c10_0={};
 V c11_0={};
 V c12_0={};
 V c13_0={};
 V c14_0={};
 V c15_0={};
 V c16_0={};
 V c17_0={};
 V c18_0={};
 V c19_0={};
 for(;kc>=4;kc-=4){
 {
  __builtin_prefetch(b+32L,0,3);
  V b0=tw::load_n<V>(b+0L,tail);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[4L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[8L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[12L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[16L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[20L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[24L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[28L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[32L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[36L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[40L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[44L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[48L]);
   c12_0=(c12_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[52L]);
   c13_0=(c13_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[56L]);
   c14_0=(c14_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[60L]);
   c15_0=(c15_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[64L]);
   c16_0=(c16_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[68L]);
   c17_0=(c17_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[72L]);
   c18_0=(c18_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[76L]);
   c19_0=(c19_0 + (x * b0));
  }
 }
 {
  __builtin_prefetch(b+41L,0,3);
  V b0=tw::load_n<V>(b+9L,tail);
  { const V x=tw::splat<V>(a[1L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[5L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[9L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[13L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[17L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[21L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[25L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[29L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[33L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[37L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[41L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[45L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[49L]);
   c12_0=(c12_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[53L]);
   c13_0=(c13_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[57L]);
   c14_0=(c14_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[61L]);
   c15_0=(c15_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[65L]);
   c16_0=(c16_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[69L]);
   c17_0=(c17_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[73L]);
   c18_0=(c18_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[77L]);
   c19_0=(c19_0 + (x * b0));
  }
 }
 {
  __builtin_prefetch(b+50L,0,3);
  V b0=tw::load_n<V>(b+18L,tail);
  { const V x=tw::splat<V>(a[2L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[6L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[10L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[14L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[18L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[22L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[26L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[30L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[34L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[38L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[42L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[46L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[50L]);
   c12_0=(c12_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[54L]);
   c13_0=(c13_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[58L]);
   c14_0=(c14_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[62L]);
   c15_0=(c15_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[66L]);
   c16_0=(c16_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[70L]);
   c17_0=(c17_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[74L]);
   c18_0=(c18_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[78L]);
   c19_0=(c19_0 + (x * b0));
  }
 }
 {
  __builtin_prefetch(b+59L,0,3);
  V b0=tw::load_n<V>(b+27L,tail);
  { const V x=tw::splat<V>(a[3L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[7L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[11L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[15L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[19L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[23L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[27L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[31L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[35L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[39L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[43L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[47L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[51L]);
   c12_0=(c12_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[55L]);
   c13_0=(c13_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[59L]);
   c14_0=(c14_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[63L]);
   c15_0=(c15_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[67L]);
   c16_0=(c16_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[71L]);
   c17_0=(c17_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[75L]);
   c18_0=(c18_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[79L]);
   c19_0=(c19_0 + (x * b0));
  }
 }
  a+=80L; b+=36L; }
 for(;kc>0;kc--){
  V b0=tw::load_n<V>(b+0L,tail);
  { const V x=tw::splat<V>(a[0L]);
   c0_0=(c0_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[4L]);
   c1_0=(c1_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[8L]);
   c2_0=(c2_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[12L]);
   c3_0=(c3_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[16L]);
   c4_0=(c4_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[20L]);
   c5_0=(c5_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[24L]);
   c6_0=(c6_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[28L]);
   c7_0=(c7_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[32L]);
   c8_0=(c8_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[36L]);
   c9_0=(c9_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[40L]);
   c10_0=(c10_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[44L]);
   c11_0=(c11_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[48L]);
   c12_0=(c12_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[52L]);
   c13_0=(c13_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[56L]);
   c14_0=(c14_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[60L]);
   c15_0=(c15_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[64L]);
   c16_0=(c16_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[68L]);
   c17_0=(c17_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[72L]);
   c18_0=(c18_0 + (x * b0));
  }
  { const V x=tw::splat<V>(a[76L]);
   c19_0=(c19_0 + (x * b0));
  }
  a+=1L; b+=9L; }
 if(mode&1){
   c0_0=(tw::load_n<V>(c+0L,tail) + c0_0);
   c1_0=(tw::load_n<V>(c+9L,tail) + c1_0);
   c2_0=(tw::load_n<V>(c+18L,tail) + c2_0);
   c3_0=(tw::load_n<V>(c+27L,tail) + c3_0);
   c4_0=(tw::load_n<V>(c+36L,tail) + c4_0);
   c5_0=(tw::load_n<V>(c+45L,tail) + c5_0);
   c6_0=(tw::load_n<V>(c+54L,tail) + c6_0);
   c7_0=(tw::load_n<V>(c+63L,tail) + c7_0);
   c8_0=(tw::load_n<V>(c+72L,tail) + c8_0);
   c9_0=(tw::load_n<V>(c+81L,tail) + c9_0);
   c10_0=(tw::load_n<V>(c+90L,tail) + c10_0);
   c11_0=(tw::load_n<V>(c+99L,tail) + c11_0);
   c12_0=(tw::load_n<V>(c+108L,tail) + c12_0);
   c13_0=(tw::load_n<V>(c+117L,tail) + c13_0);
   c14_0=(tw::load_n<V>(c+126L,tail) + c14_0);
   c15_0=(tw::load_n<V>(c+135L,tail) + c15_0);
   c16_0=(tw::load_n<V>(c+144L,tail) + c16_0);
   c17_0=(tw::load_n<V>(c+153L,tail) + c17_0);
   c18_0=(tw::load_n<V>(c+162L,tail) + c18_0);
   c19_0=(tw::load_n<V>(c+171L,tail) + c19_0);
 }
  tw::store_n(c+0L,c0_0,tail);
  tw::store_n(c+9L,c1_0,tail);
  tw::store_n(c+18L,c2_0,tail);
  tw::store_n(c+27L,c3_0,tail);
  tw::store_n(c+36L,c4_0,tail);
  tw::store_n(c+45L,c5_0,tail);
  tw::store_n(c+54L,c6_0,tail);
  tw::store_n(c+63L,c7_0,tail);
  tw::store_n(c+72L,c8_0,tail);
  tw::store_n(c+81L,c9_0,tail);
  tw::store_n(c+90L,c10_0,tail);
  tw::store_n(c+99L,c11_0,tail);
  tw::store_n(c+108L,c12_0,tail);
  tw::store_n(c+117L,c13_0,tail);
  tw::store_n(c+126L,c14_0,tail);
  tw::store_n(c+135L,c15_0,tail);
  tw::store_n(c+144L,c16_0,tail);
  tw::store_n(c+153L,c17_0,tail);
  tw::store_n(c+162L,c18_0,tail);
  tw::store_n(c+171L,c19_0,tail);
}
TW_NOINLINE void task(void *ctx, long t, long w) { const Ctx *x=(const Ctx*)ctx; (void)w;
 T *pa=(T*)(x->ws+w*x->bytes);
 const long ti=t%x->TM; t/=x->TM; const long tj=t%x->TN; t/=x->TN;
 const long tk=t%x->TK, o=t/x->TK; (void)o;
 const long r0=ti*1L/x->TM, r1=(ti+1)*1L/x->TM, c0=tj*1L/x->TN, c1=(tj+1)*1L/x->TN;
 const long k0=tk*33L/x->TK, k1=(tk+1)*33L/x->TK;
 float *out=(float*)x->t[3]+0L;
 const T *B=(const T*)x->t[1]+0L;
 for(long cb0=c0;cb0<c1;cb0+=x->NT) { const long cb1=tw::imin(c1,cb0+x->NT);
  for(long pc=k0;pc<k1;pc+=x->KC) { const long kc=tw::imin(k1-pc,x->KC);
   const long mode=(pc>k0)|(pc+kc>=k1?2:0); (void)mode;
   for(long rb0=r0;rb0<r1;rb0+=x->MT) { const long rb1=tw::imin(r1,rb0+x->MT);
    pack_a(x,o,rb0,rb1,pc*1L,kc*1L,pa);
    const long pstep=(kc+3)/4*80L;
    for(long cb=cb0;cb<cb1;cb++) for(long rb=rb0;rb<rb1;rb++) {
     const long l0=(rb)*20L;
     const T *a=pa+(rb-rb0)*pstep;
     const T *b=B+(cb)*1L*16L+pc*9L;
     T *c=out+l0*9L+(cb)*1L*16L;
     if(cb==0L) { mk_20x1t(kc,a,b,c,mode,(cb==0L?9L:16L)); }
    } } } } }
}
TW_ENTRY(tw_golden_p1) { using namespace tw_golden_p1_; (void)workspace;
 const long mt=tw::imin(tw::imax(1,args[1]/20),1L);
 const long nt=tw::imin(tw::imax(1,args[2]/16),1L);
 Ctx c{}; Ctx *x=&c; x->t=tensors; x->ws=(char*)workspace+0L; x->image=(T*)workspace;
 x->tables=(T*)((char*)workspace+0L); x->KC=args[0]; x->MT=mt; x->NT=nt; x->TM=args[3];x->TN=args[4];x->TK=args[5];
 x->a_bytes=(mt*20L*tw::imin((args[0]+3)/4*4,36L)*4L+4095)/4096*4096; x->bytes=x->a_bytes+0;
 for(x->chunk=0;x->chunk<1L;x->chunk++) {
  tw::parallel_for(env,1L*x->TM*x->TN*x->TK,task,x);
 }
 return 0; }
TW_ENTRY(tw_golden) { char *ws=(char*)workspace; int code; (void)ws; (void)args;
 { void *const t[]={tensors[0],tensors[2],ws+0L};
  code=tw_golden_p0(t,args+0,ws+4096L,env); if(code) return code;
 }
 { void *const t[]={tensors[1],tensors[3],ws+0L,tensors[4]};
  code=tw_golden_p1(t,args+6,ws+4096L,env); if(code) return code;
 }
 return 0; }

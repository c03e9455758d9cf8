"""How C++ for CUDA becomes OpenCL C: texts alone, without a driver."""

from __future__ import annotations

from tilewright.backends.opencl.translate import translate


def test_a_crowded_unit_is_translated_kernel_by_kernel() -> None:
    """Functions of one name in two namespaces; shared memory; packs; a pointer chosen between two."""
    source = "".join(
        f"""namespace k{n}_ {{
TW_DEVICE float twice(const float *x0, float (&v)[2], float *s) {{
    float *const to = s + 1;
    tw::store_shared(to, v[0] * {n + 2}.0f);
    return tw::load_shared<float>(to) + tw::max<float>(tw::load_global<float>(x0), float(int(unsigned(2) / 2u)));
}}
}}
TW_KERNEL(32, 1) void k{n}(const float *__restrict__ x0, float *__restrict__ out, unsigned char *__restrict__ ws) {{
    using namespace k{n}_;
    TW_SHARED(smem);
    float *const a = (float *)(smem), *unused = 0;
    float v[2] = {{1.0f, 2.0f}};
    const tw::pack<float, 2> p = ws ? tw::pack<float, 2>{{}} : tw::load_global<tw::pack<float, 2>>(x0);
    tw::store_global(out + threadIdx.x, twice(x0, v, a) + tw::exchange(p.v[0], 1));
}}
"""
        for n in range(2)
    ).replace(", *unused = 0", "")
    text = translate(source, "")
    assert "::" not in text
    assert "k1_twice(x0, v, a)" in text
    assert "__local float *const a = (__local float *)(smem)" in text
    assert "__local uchar *restrict smem" in text
    assert text.count("tw_lanes[32]") == 2

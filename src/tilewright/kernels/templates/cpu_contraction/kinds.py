"""Instructions for sums of products on an instruction set: element type, group size and instruction of each kind.

Every kind consumes *units* of 4 bytes. A unit of A, ``group`` consecutive k of one row, is broadcast to all lanes. Each
lane multiplies it with a unit of B: the same k of one column. The kinds differ in the elements of a unit.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.core import Target
from tilewright.kernels.expression.expr import BYTES
from tilewright.kernels.templates.cpu_contraction.match import Contraction

UNIT = 4
"""Bytes of a unit."""


@dataclass(frozen=True)
class Kind:
    """An instruction. ``element``: C type of packed elements; ``latency``: cycles between dependent steps."""

    name: str
    element: str
    group: int
    latency: float

    @property
    def bytes(self) -> int:
        """Bytes of one packed element."""
        return UNIT // self.group


PLAIN = Kind("plain", "T", 1, 4.0)
"""Elements in the type of the sums, combined by any operation: the kind of the template ``cpu_contraction``."""
BF16 = Kind("bf16", "unsigned short", 2, 6.0)
U8S8 = Kind("u8s8", "unsigned char", 4, 4.0)
S16 = Kind("s16", "short", 2, 4.0)
I32 = Kind("i32", "int", 1, 10.0)
F32 = Kind("f32", "float", 1, 4.0)


def kind_of(c: Contraction, target: Target) -> Kind:
    """The fastest kind that computes a product exactly as it is defined."""
    isa = set(target.isa)
    if c.acc == "float32":
        both = c.a.dtype == c.b.dtype == "bfloat16"
        return BF16 if both and "avx512bf16" in isa else F32
    if c.a.dtype in BYTES and c.b.dtype in BYTES:
        if "avx512vnni" in isa and "int8" in (c.a.dtype, c.b.dtype):
            return U8S8
        if isa & {"avx512bw", "avx2", "sse2"}:
            return S16
    return I32


def shifted(c: Contraction, kind: Kind) -> bool:
    """Whether A is shifted by 128 to become unsigned; the starting values of the sums compensate for the shift."""
    return kind == U8S8 and c.a.dtype == c.b.dtype == "int8"


# --------------------------------------------------------------------------- printed functions

_BF16_STEP = """#if defined(__clang__)
typedef __bf16 Pair __attribute__((vector_size(64)));
#elif __GNUC__ >= 13
typedef __bf16 Pair __attribute__((vector_size(64)));
#else
typedef short Pair __attribute__((vector_size(64)));
#endif
typedef tw::vec<unsigned short,16> Rounded;
#if defined(__clang__)
TW_INLINE V step(V c,W a,W b) { return __builtin_ia32_dpbf16ps_512(c,(Pair)a,(Pair)b); }
TW_INLINE Rounded rounded(V v) { return (Rounded)__builtin_ia32_cvtneps2bf16_512(v); }
#else
TW_INLINE V step(V c,W a,W b) { return __builtin_ia32_dpbf16ps_v16sf(c,(Pair)a,(Pair)b); }
TW_INLINE Rounded rounded(V v) { return (Rounded)__builtin_ia32_cvtneps2bf16_v16sf(v); }
#endif
"""

_BYTES_STEP = """#if defined(__clang__)
TW_INLINE V dot4(V c,W u,W s) { return __builtin_ia32_vpdpbusd512(c,u,s); }
#else
TW_INLINE V dot4(V c,W u,W s) { return (V)__builtin_ia32_vpdpbusd_v16si((W)c,u,s); }
#endif
"""

_BYTES_WEAVE = """typedef tw::vec<int,4> Q; typedef tw::vec<unsigned char,64> B64;
TW_INLINE Q bytes16(const void *p) { return tw::get<Q>((const int*)p); }
TW_INLINE Q bytes16_n(const void *p,long n) {
 return (Q)tw::get_n<tw::vec<unsigned char,16>>((const unsigned char*)p,n); }
TW_INLINE W weave_bytes(Q a,Q b,Q c,Q d) {
 const W v=tw::join<W>(tw::join<tw::vec<int,8>>(a,b),tw::join<tw::vec<int,8>>(c,d));
 const B64 t=(B64)__builtin_shufflevector(v,v,0,4,8,12,1,5,9,13,2,6,10,14,3,7,11,15);
 return (W)__builtin_shufflevector(t,t,0,4,8,12,1,5,9,13,2,6,10,14,3,7,11,15,
  16,20,24,28,17,21,25,29,18,22,26,30,19,23,27,31,32,36,40,44,33,37,41,45,34,38,42,46,35,39,43,47,
  48,52,56,60,49,53,57,61,50,54,58,62,51,55,59,63); }
"""
"""Interleaves sixteen columns of four rows of bytes into units: one shuffle of words, one of bytes."""

_SHORTS_STEP = "TW_INLINE V step(V c,W a,W b) {{ return c+(V)__builtin_ia32_pmaddwd{}((Pair)a,(Pair)b); }}\n"
_SHORTS_STEP_OF_64 = """#if defined(__clang__)
$step#else
TW_INLINE V step(V c,W a,W b) { return c+(V)__builtin_ia32_pmaddwd512_mask((Pair)a,(Pair)b,W{},(unsigned short)-1); }
#endif
"""


def functions(c: Contraction, kind: Kind, vector_bytes: int) -> str:
    """C types of a vector of units (``W``) and of a packed element (``E``), and the function ``step(sums, a, b)``."""
    head = (
        f"typedef tw::i32v W; typedef {kind.element} E; enum {{ G={kind.group} }};\n"
        "TW_INLINE int unit(const void *p) { int v; __builtin_memcpy(&v,p,4); return v; }\n"
    )
    if kind == BF16:
        return head + _BF16_STEP
    if kind == U8S8:
        # The unsigned factor comes first: A, unless B is the unsigned one.
        swapped = c.a.dtype == "int8" and c.b.dtype == "uint8"
        order = "dot4(c,b,a)" if swapped else "dot4(c,a,b)"
        return head + _BYTES_STEP + _BYTES_WEAVE + f"TW_INLINE V step(V c,W a,W b) {{ return {order}; }}\n"
    if kind == S16:
        step = _SHORTS_STEP.format(8 * vector_bytes)
        if vector_bytes == 64:
            step = _SHORTS_STEP_OF_64.replace("$step", step)
        return f"{head}typedef short Pair __attribute__((vector_size({vector_bytes})));\n{step}"
    return head + "TW_INLINE V step(V c,W a,W b) { return c+(V)a*(V)b; }\n"


def conversions(kind: Kind, source: str) -> str:
    """C functions that convert elements of C type ``source``: ``as_element(x)``, ``as_unit(p)``, ``as_unit_n(p, n)``.

    ``as_element`` converts one element, ``as_unit`` ``L`` elements to one lane each, and ``as_unit_n`` the first ``n``
    elements, with 0 in the remaining lanes. Only the low bits of a lane, those of one element, may be set.
    """
    number = "tw::widen(x)" if source.startswith("tw::") else "x"
    one = f"(E)({number})"
    if kind == BF16 and source == "tw::bf16":
        one = "x.bits"
    return (
        f"TW_INLINE W as_unit(const {source} *p) {{ return {_lanes(kind, False)}; }}\n"
        f"TW_INLINE W as_unit_n(const {source} *p,long n) {{ return {_lanes(kind, True)}; }}\n"
        f"TW_INLINE E as_element({source} x) {{ return {one}; }}\n"
    )


def _lanes(kind: Kind, some: bool) -> str:
    at = f"(const {kind.element}*)p" if kind in (BF16, U8S8) else "p"
    arguments = f"load_n<{{}}>({at},n)" if some else f"load<{{}}>({at})"
    if kind == F32:
        return f"(W)tw::{arguments.format('V')}"
    text = f"tw::{arguments.format('W')}"
    return f"({text}&0xffff)" if kind == S16 else text


def from_value(kind: Kind, text: str) -> str:
    """C text of a packed element, given the C text of its value in the type of the sums."""
    if kind == BF16:  # a widened bfloat16: its upper half
        return f"(unsigned short)(tw::float_bits({text})>>16)"
    return f"(E)({text})"

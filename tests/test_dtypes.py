"""The records of element types: what each field says holds, and no table stands beside them."""

from __future__ import annotations

import ast
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright.backends.cuda.arrays import TORCH_DTYPES
from tilewright.backends.opencl.translate import translate
from tilewright.dtypes import C_BYTES, DTYPES, POSITION, VALUES, DType
from tilewright.kernels.codegen.access import storage
from tilewright.kernels.codegen.printer import computed
from tilewright.kernels.expression import expr
from tilewright.kernels.expression.numerics import decode, encode
from tilewright.kernels.nn.dims import computed as computed_dtype
from tilewright.kernels.primitives import PRIMITIVES
from tilewright.kernels.templates.cuda.text import STORAGE, VALUE, VALUE_BYTES
from tilewright.kernels.templates.cuda_mma.instruction import INSTRUCTIONS
from tilewright.kernels.templates.cuda_wgmma.match import FUNCTIONS
from tilewright.kernels.templates.user_kernel.source import ELEMENTS

ROOT = Path(tilewright.__file__).parent
REALS = [d for d in DTYPES.values() if d.kind == "float"]
WHOLE = [d for d in DTYPES.values() if d.kind != "float"]

# Dictionaries by element type that are no property of the types, and why.
OTHERS = {
    "backends/arguments.py": "how launch arguments are packed",
    "backends/opencl/driver.py": "how launch arguments are packed",
    "cost_model/bound.py": "ordinary units of one vendor's GPUs",
    "dtypes.py": "the records",
    "jax/native.py": "XLA's numbers",
    "kernels/primitives/conformance.py": "results of conformance kernels",
    "kernels/operators/numeric.py": "what results the product operators offer",
    "kernels/templates/cpu_rows/moments.py": "how far one algorithm's sums may be off",
}


def ids(d: DType) -> str:
    return d.name


def test_no_source_file_has_a_table_by_element_type_of_its_own() -> None:
    found = set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            keys = node.keys if isinstance(node, ast.Dict) else []
            if sum(isinstance(k, ast.Constant) and k.value in DTYPES for k in keys) > 1:
                found.add(path.relative_to(ROOT).as_posix())
    assert found == OTHERS.keys() - {"dtypes.py"}


def test_every_field_of_a_record_tells_types_apart() -> None:
    for f in fields(DType):
        assert len({getattr(d, f.name) for d in DTYPES.values()}) > 1, f.name


@pytest.mark.parametrize("d", DTYPES.values(), ids=ids)
def test_what_follows_from_a_record_knows_its_type(d: DType) -> None:
    assert (d.name in expr.FLOATS, d.name in expr.INTEGERS) == (d.kind == "float", d.kind in ("int", "uint"))
    assert (d.name in (*expr.NARROW, *expr.SHORT)) == d.stored_only
    if d.per_byte > 1:  # programs have its bytes, which have its sign
        assert not d.cpu + d.gpu
        assert d.name in expr.PACKED
        assert d.name not in (*VALUES, *expr.ITEMSIZE, *expr.BITS)
        assert DTYPES[d.storage].kind == d.kind
        assert d.per_byte * d.bits == DTYPES[d.storage].bits == 8
    else:
        assert expr.ITEMSIZE[d.name] == d.bytes == d.numpy.itemsize == C_BYTES[d.cpu]
        assert storage(d.name) == d.cpu
        assert computed(d.name) == DTYPES[d.computed].cpu
        assert d.c in ("float", "double", "long", "int", "short", "signed char", "unsigned char", "unsigned short")
    assert computed_dtype(d.name) == d.computed == DTYPES[d.computed].computed
    assert DTYPES[d.accumulated].computed == d.accumulated
    assert (d.name in STORAGE) == (d.name in VALUE) == (d.name in TORCH_DTYPES) == bool(d.gpu)
    assert (d.name in INSTRUCTIONS) == bool(d.matrix)
    assert all(d.name in ELEMENTS[s] for s in d.spellings)
    assert (d.agreement.model > 0) == (d.kind == "float")


@pytest.mark.parametrize("d", [d for d in DTYPES.values() if d.gpu], ids=ids)
def test_values_on_gpus_have_the_bytes_of_their_c_type(d: DType) -> None:
    assert VALUE_BYTES[d.name] == C_BYTES[VALUE[d.name]] == max(4, DTYPES[d.computed].bytes)
    assert C_BYTES[d.gpu] == d.bytes


@pytest.mark.parametrize("d", [d for d in DTYPES.values() if "::" in d.cpu], ids=ids)
def test_a_c_type_of_our_own_is_defined_with_its_conversions(d: DType) -> None:
    name = d.cpu.removeprefix("tw::")
    header = "".join(p.read_text() for p in (ROOT / "kernels" / "codegen" / "headers").glob("*.h"))
    assert f"struct {name} {{" in header
    assert f"widen({name} " in header
    assert f"narrow({name} &" in header
    if d.gpu:
        assert f"tw_{name} v[4]" in translate(f"tw::pack<{d.gpu}, 4> p;", "")


@pytest.mark.parametrize("d", [d for d in DTYPES.values() if d.matrix], ids=ids)
def test_matrix_instructions_of_a_type_exist(d: DType) -> None:
    functions = {f for p in PRIMITIVES for f in p.provides}
    assert INSTRUCTIONS[d.name].function in functions
    assert FUNCTIONS.get(d.name, INSTRUCTIONS[d.name].function) in functions
    assert INSTRUCTIONS[d.name].item == d.bytes
    assert INSTRUCTIONS[d.name].peak.startswith(d.matrix_unit)


@pytest.mark.parametrize("d", WHOLE, ids=ids)
def test_limits_are_those_of_numpy(d: DType) -> None:
    if d.kind != "bool" and d.per_byte == 1:
        assert d.limits == (np.iinfo(d.name).min, np.iinfo(d.name).max)
    assert d.unit == 0.0


@pytest.mark.parametrize("d", REALS, ids=ids)
def test_rounding_follows_from_digits_and_exponent(d: DType) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    info = ml_dtypes.finfo(d.name)
    assert d.largest == float(info.max)
    assert d.unit == float(info.eps) / 2
    assert 2.0**d.least_exponent == float(info.smallest_normal)
    assert d.half_step == float(info.smallest_subnormal) / 2 or d.name == "float64"
    assert 1 + d.exponent + d.digits - 1 == d.bits
    if d.bits == 8:
        values = decode(np.arange(128, dtype=np.uint8), d.name)
        assert np.isfinite(values).sum() == d.finite_codes
        assert values[d.finite_codes - 1] == d.largest


@pytest.mark.parametrize("d", REALS, ids=ids)
def test_a_real_type_holds_what_a_type_of_fewer_digits_and_exponents_has(d: DType) -> None:
    for other in REALS:
        some = np.array([0.0, 1.0, other.largest, 2.0**other.least_exponent, 1 + 2 * other.unit], np.float64)
        with np.errstate(over="ignore"):
            kept = decode(encode(some, d.name), d.name).astype(np.float64)
        assert expr.holds(d.name, other.name) == np.array_equal(kept, some)


def test_positions_are_no_type_of_tensors() -> None:
    assert POSITION.name == expr.INDEX not in DTYPES
    assert expr.ITEMSIZE[expr.INDEX] == POSITION.bytes == C_BYTES[POSITION.cpu]
    assert computed(expr.INDEX) == POSITION.cpu

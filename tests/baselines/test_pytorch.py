"""What PyTorch is timed on computes the workload: in every variant, layout and with rearranged weights."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from tilewright.kernels.operators import get_operator

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")

CONV = {"n": 2, "ci": 8, "co": 12, "padding": 1, "constant": "weight"}
PLANE = {**CONV, "h": 9, "w": 10, "kh": 3, "kw": 3}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("matmul", {"m": 4, "n": 5, "k": 6, "constant": "b"}),
    ("matmul", {"m": 4, "n": 5, "k": 6, "bias": True, "activation": "gelu", "residual": True}),
    ("batch_matmul", {"b": 2, "m": 4, "n": 5, "k": 6, "trans_b": True}),
    ("complex_matmul", {"m": 4, "n": 5, "k": 6, "batch": "2", "trans_b": True, "conj_b": True}),
    *(("conv1d", {**CONV, "w": 10, "kw": 3, "stride": 2, "layout": x}) for x in ("NCW", "NWC")),
    *(("conv_transpose1d", {**CONV, "w": 10, "kw": 4, "stride": 2, "layout": x}) for x in ("NCW", "NWC")),
    *(("conv2d", {**PLANE, "stride": "2,1", "groups": 4, "layout": x}) for x in ("NCHW", "NHWC")),
    *(
        ("conv2d", {**PLANE, "bias": True, "batch_norm": True, "activation": "relu", "layout": x})
        for x in ("NCHW", "NHWC")
    ),
    *(("conv_transpose2d", {**PLANE, "kh": 4, "kw": 4, "stride": 2, "layout": x}) for x in ("NCHW", "NHWC")),
    *(("conv3d", {**PLANE, "n": 1, "d": 4, "kd": 3, "layout": x}) for x in ("NCDHW", "NDHWC")),
    *(("rms_norm", {"shape": "4,6", "residual": x}) for x in (False, True)),
    ("group_norm", {"shape": "2,6,3,3", "num_groups": 3}),
    (
        "capsule_conv2d",
        {"n": 1, "h": 8, "w": 8, "ci": 4, "co": 6, "kh": 3, "kw": 3, "cap_h": 4, "cap_k": 4, "cap_w": 4, "stride": 2,
         "padding": 1, "constant": "weight"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("op", "params"), CASES, ids=lambda v: v if isinstance(v, str) else v.get("layout", ""))
def test_every_way_computes_the_workload(op: str, params: dict[str, Any]) -> None:
    import torch

    from tilewright.baselines.pytorch import as_array, compared, variants

    operator = get_operator(op)
    workload = operator.workload(**params)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(s.shape).astype(np.float32) for s in workload.inputs]
    inputs = [np.abs(a) if s.name == "running_var" else a for a, s in zip(inputs, workload.inputs, strict=True)]
    assert operator.numpy is not None
    want = operator.numpy(*inputs, **dict(workload.params))
    assert compared(workload)
    with torch.no_grad():
        found = {name: as_array(w.result(w.run(*w.tensors))) for name, w in variants(workload, inputs).items()}
    assert found
    for name, got in found.items():
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-4, err_msg=name)

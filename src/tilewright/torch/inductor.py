"""Compiles graphs with tuned kernels by Inductor, with kernels as extern calls outside of PyTorch's dispatcher.

Inductor plans the memory of kernels' results with all other memory. Importing this module imports Inductor and
registers the lowering.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._inductor import compile_fx, config, ir, lowering
from torch._inductor.cudagraph_utils import BoxedDeviceIndex
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes.joint_graph import joint_graph_passes
from torch._inductor.utils import BoxedBool, count_tangents, get_static_bw_input_idxs
from torch._inductor.virtualized import V
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from tilewright.torch.sides import Side

_ir: Any = ir
_lowering: Any = lowering


class _Call(_ir.ExternKernelOut):  # type: ignore[misc]
    """A call of a kernel that writes to memory allocated by Inductor."""

    def codegen(self, wrapper: Any) -> None:
        wrapper.add_import_once("from tilewright.torch.placed import call as tilewright_call")
        super().codegen(wrapper)


@_lowering.register_lowering(torch.ops.tilewright.kernel.default, type_promotion_kind=None)  # type: ignore[untyped-decorator]
def _lowered(
    graph: Any, name: str, shape: Sequence[Any], dtype: torch.dtype, inputs: Sequence[Any], sizes: Sequence[Any]
) -> Any:
    """The lowering of ``torch.ops.tilewright.kernel``: inputs keep the graph's strides; the result is dense and
    row-major."""
    nodes: Any = V.graph.current_node.args[4]
    given = [
        _ir.ExternKernel.require_exact_strides(x, n.meta["val"].stride()) for x, n in zip(inputs, nodes, strict=True)
    ]
    strides = _ir.FlexibleLayout.contiguous_strides(shape)
    device = V.graph.current_node.meta["val"].device
    layout = _ir.FixedLayout(device=device, dtype=dtype, size=list(shape), stride=strides)
    read = [_ir.ExternKernel.realize_input(x) for x in (graph, *given)]
    return _ir.TensorBox.create(_Call(layout, read, (name, *sizes), python_kernel_name="tilewright_call"))


def whole(module: GraphModule, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Compiles a Dynamo graph as ``torch.compile`` does with Inductor as its backend."""
    return compile_fx.compile_fx(module, list(inputs), config_patches=dict(options))


def placed(graph: GraphModule, example: Sequence[Any], options: Mapping[str, Any], side: Side) -> Any:
    """Compiles a graph of ATen operators and kernels. Results have the strides that the graph states."""
    pair = side.pair
    pair.device = pair.device or BoxedDeviceIndex(None)
    static: Sequence[int] = side.static
    if side.backward:
        saved = range(count_tangents(graph))
        static = [*static, *(get_static_bw_input_idxs(graph) if pair.partitioned else saved)]
    mode = detect_fake_mode(example)
    # Passes that rewrite random numbers, and decompositions, make new nodes, which need the fake mode.
    with config.patch(dict(options)), V.set_fake_mode(mode):
        with mode or nullcontext():
            lowered = make_fx(graph, decomposition_table=select_decomp_table(), tracing_mode="real")(*example)
        lowered = joint_graph_passes(lowered)
        (output,) = lowered.graph.find_nodes(op="output")
        results = output.args[0]
        output.meta["user_visible_output_idxs"] = [n for n, r in enumerate(results) if isinstance(r, Node)]
        compiled = compile_fx.compile_fx_inner(
            lowered, list(example), is_inference=side.inference, is_backward=side.backward,
            static_input_idxs=sorted({*static}), boxed_forward_device_index=pair.device,
            cudagraphs=BoxedBool(config.triton.cudagraphs and side.replays),
        )  # fmt: skip
        if not side.backward:
            pair.partitioned = len(getattr(compiled, "partition_maps", None) or ()) > 1
        return compiled

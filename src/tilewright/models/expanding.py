"""Expands nodes into other nodes: functions, and branches and loops whose control flow is known at import."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.models.model_file import STANDARD, Array, Model, onnx_module, subgraphs
from tilewright.models.sessions import fixed_shape

MOST_NODES = 4096
"""Most nodes that a loop is unrolled into."""

SAME_SINCE = 13
"""First operator set whose later changes to an operator only add inputs, attributes and types."""


@dataclass(eq=False)
class Expanded:
    """The nodes in a node's place, and constants that they read, by name.

    ``whole``: onnxruntime may compute the original node faster, so the expansion is used only if kernels take all of
    it.
    """

    nodes: list[Any]
    constants: dict[str, Array] = field(default_factory=dict)
    whole: bool = False


class Expanding:
    """Expands nodes of a model. ``known``: constant values by name; ``kind``: returns a value's ``TypeProto``."""

    def __init__(self, model: Model, known: Mapping[str, Array], kind: Callable[[str], Any]) -> None:
        self._onnx = onnx_module()
        self._model, self._known, self._kind = model, known, kind
        self._local = {(f.domain, f.name): f for f in model.proto.functions}

    def expand(self, node: Any) -> Expanded | None:
        """The expansion of a node; ``None`` for a node without an expansion that is known at import."""
        if (node.domain, node.op_type) in self._local:
            function = self._local[node.domain, node.op_type]
            return Expanded(self._called(node, function, {a.name: a for a in function.attribute_proto}))
        if node.domain not in STANDARD:
            return None
        if node.op_type == "If":
            return self._branch(node)
        if node.op_type == "Loop":
            return self._loop(node)
        if node.op_type == "Scan":
            return self._scan(node)
        return self._standard(node)

    # ----------------------------------------------------------------- functions

    def _standard(self, node: Any) -> Expanded | None:
        """Expands an operator that the standard defines as a function, for this node's types."""
        opset = self._model.opset()
        defs = self._onnx.defs
        schema = defs.get_schema(node.op_type, opset, "")
        if schema.has_function:
            found = [v for v in schema.function_opset_versions if v <= opset]
            body = schema.get_function_with_opset_version(max(found)) if found else b""
        elif schema.has_context_dependent_function:
            found = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
            kinds = [self._kind(n) if n else self._onnx.TypeProto() for n in node.input]
            if not found or None in kinds:
                return None
            given = [k.SerializeToString() for k in kinds]
            body = schema.get_context_dependent_function_with_opset_version(max(found), node.SerializeToString(), given)
        else:
            return None
        if not body:
            return None
        function = self._onnx.FunctionProto()
        function.ParseFromString(body)
        written = next((o.version for o in function.opset_import if o.domain in STANDARD), opset)
        if not all(n.domain in STANDARD and self._means(n.op_type, written, opset) for n in function.node):
            return None
        defaults = {n: a.default_value for n, a in schema.attributes.items() if a.default_value.name}
        return Expanded(self._called(node, function, defaults), whole=True)

    def _means(self, operator: str, written: int, opset: int) -> bool:
        """Whether an operator of set ``written`` means the same in set ``opset``: it has lost no input and no
        attribute."""
        old, new = (self._onnx.defs.get_schema(operator, k, "") for k in (written, opset))
        if written < SAME_SINCE or old.since_version == new.since_version:
            return bool(old.since_version == new.since_version)
        return set(old.attributes) <= set(new.attributes) and len(old.inputs) <= len(new.inputs)

    def _called(self, node: Any, function: Any, defaults: Mapping[str, Any]) -> list[Any]:
        given = {**defaults, **{a.name: a for a in node.attribute}}
        actual = dict(zip(function.input, [*node.input, *[""] * len(function.input)], strict=False))
        return self._renamed(node.output[0], function.node, actual, function.output, node.output, given)

    # ----------------------------------------------------------------- control flow

    def _branch(self, node: Any) -> Expanded | None:
        condition = self._known.get(node.input[0])
        if condition is None:
            return None
        taken = "then_branch" if condition.item() else "else_branch"
        graph = next(a.g for a in node.attribute if a.name == taken)
        prefix = node.output[0]
        nodes = self._renamed(
            prefix, graph.node, self._own(prefix, graph), [v.name for v in graph.output], node.output
        )  # fmt: skip
        return Expanded(nodes, self._initial(prefix, graph))

    def _loop(self, node: Any) -> Expanded | None:
        """Unrolls a loop with a constant number of iterations whose condition stays true."""
        count, going = ([*node.input, "", ""])[:2]
        graph = next(a.g for a in node.attribute if a.name == "body")
        if count not in self._known or (going and not (going in self._known and self._known[going].item())):
            return None
        if not self._goes_on(graph):
            return None
        rounds, first = int(self._known[count].item()), node.output[0]
        values = list(node.input[2:])
        true = f"{first}/going"
        made = Expanded([], {true: np.array(True)})
        stacked: list[list[str]] = [[] for _ in graph.output[1 + len(values) :]]
        if not self._few(rounds, graph, stacked):
            return None
        for k in range(rounds):
            number = f"{first}/number/{k}"
            made.constants[number] = np.array(k, np.int64)
            values = self._round(made, f"{first}/{k}", graph, [number, true, *values], 1, stacked)
        self._finish(made, node, values, stacked, [0] * len(stacked))
        return made

    def _scan(self, node: Any) -> Expanded | None:
        if self._model.opset() < 9:
            return None
        get = self._onnx.helper.get_attribute_value
        a = {x.name: get(x) for x in node.attribute}
        graph, slices = a["body"], a["num_scan_inputs"]
        values, scanned = list(node.input[:-slices]), list(node.input[-slices:])
        shapes = [fixed_shape(self._kind(n)) for n in scanned]
        axes = list(a.get("scan_input_axes", [0] * slices))
        if any(s is None for s in shapes):
            return None
        count = (shapes[0] or ())[axes[0]]
        stacked: list[list[str]] = [[] for _ in graph.output[len(values) :]]
        if not self._few(count, graph, stacked):
            return None
        backwards = a.get("scan_input_directions", [0] * slices)
        made, first = Expanded([]), node.output[0]
        for k in range(count):
            taken = []
            for n, (name, axis, backward) in enumerate(zip(scanned, axes, backwards, strict=True)):
                at, part = f"{first}/at/{k}/{n}", f"{first}/slice/{k}/{n}"
                made.constants[at] = np.array(count - 1 - k if backward else k, np.int64)
                made.nodes.append(self._onnx.helper.make_node("Gather", [name, at], [part], axis=axis))
                taken.append(part)
            values = self._round(made, f"{first}/{k}", graph, [*values, *taken], 0, stacked, len(values))
        for names, backward in zip(stacked, a.get("scan_output_directions", [0] * len(stacked)), strict=True):
            if backward:
                names.reverse()
        self._finish(made, node, values, stacked, a.get("scan_output_axes", [0] * len(stacked)))
        return made

    def _round(
        self, made: Expanded, prefix: str, graph: Any, given: Sequence[str], skipped: int,
        stacked: list[list[str]], carried: int | None = None,
    ) -> list[str]:  # fmt: skip
        """Adds one iteration of a loop and returns the names of the loop-carried values."""
        inputs = [v.name for v in graph.input]
        outputs = [v.name for v in graph.output][skipped:]
        names = [f"{prefix}/out/{n}" for n in range(len(outputs))]
        actual = self._own(prefix, graph) | dict(zip(inputs, given, strict=True))
        made.nodes += self._renamed(prefix, graph.node, actual, outputs, names)
        made.constants |= self._initial(prefix, graph)
        state = len(outputs) - len(stacked) if carried is None else carried
        for rows, name in zip(stacked, names[state:], strict=True):
            rows.append(name)
        return names[:state]

    def _finish(
        self, made: Expanded, node: Any, values: Sequence[str], stacked: Sequence[Sequence[str]], axes: Sequence[int]
    ) -> None:
        make = self._onnx.helper.make_node
        for name, output in zip(values, node.output, strict=False):
            if output:
                made.nodes.append(make("Identity", [name], [output]))
        for rows, output, axis in zip(stacked, node.output[len(values) :], axes, strict=True):
            parts = []
            for name in rows:
                part = f"{name}/row"
                if self._model.opset() < 13:
                    made.nodes.append(make("Unsqueeze", [name], [part], axes=[axis]))
                else:
                    made.constants[f"{part}/axis"] = np.array([axis], np.int64)
                    made.nodes.append(make("Unsqueeze", [name, f"{part}/axis"], [part]))
                parts.append(part)
            if output:
                made.nodes.append(make("Concat", parts, [output], axis=axis))

    def _goes_on(self, graph: Any) -> bool:
        """Whether a loop's condition is passed through unchanged, or is constant true."""
        name, handed = graph.output[0].name, graph.input[1].name
        giving = {o: n for n in graph.node for o in n.output}
        while name in giving and giving[name].op_type == "Identity":
            name = giving[name].input[0]
        if name == handed:
            return True
        value = self._known.get(name)
        if name in giving and giving[name].op_type == "Constant" and giving[name].attribute[0].name == "value":
            value = self._model.array(giving[name].attribute[0].t)
        for tensor in graph.initializer:
            value = self._model.array(tensor) if tensor.name == name else value
        return value is not None and bool(value.item())

    @staticmethod
    def _few(rounds: int, graph: Any, stacked: Sequence[Any]) -> bool:
        return rounds * (len(graph.node) + 1) <= MOST_NODES and (rounds > 0 or not stacked)

    # ----------------------------------------------------------------- names

    def _initial(self, prefix: str, graph: Any) -> dict[str, Array]:
        return {f"{prefix}/{t.name}": self._model.array(t) for t in graph.initializer}

    @staticmethod
    def _own(prefix: str, graph: Any) -> dict[str, str]:
        return {t.name: f"{prefix}/{t.name}" for t in graph.initializer}

    def _renamed(
        self, prefix: str, nodes: Sequence[Any], actual: Mapping[str, str], formal: Sequence[str],
        outputs: Sequence[str], attributes: Mapping[str, Any] | None = None,
    ) -> list[Any]:  # fmt: skip
        """Copies of nodes with prefixed names, which give ``outputs`` for ``formal``.

        ``actual``: the replacements of names from outside. ``attributes``: of a function's call.
        """
        names = dict(actual)
        for node in nodes:
            for name in _defined(node):
                names[name] = f"{prefix}/{name}"
        given = {o for n in nodes for o in n.output}
        passed = []
        for name, output in zip(formal, outputs, strict=False):
            if name in given and output and name not in actual:
                names[name] = output
                given.discard(name)
            elif output:
                passed.append((name, output))
        made = [self._copied(n, names, attributes) for n in nodes]
        make = self._onnx.helper.make_node
        return made + [make("Identity", [names.get(n, n)], [o]) for n, o in passed]

    def _copied(self, node: Any, names: Mapping[str, str], attributes: Mapping[str, Any] | None) -> Any:
        made = self._onnx.NodeProto()
        made.CopyFrom(node)
        made.input[:] = [names.get(n, n) for n in node.input]
        made.output[:] = [names.get(n, n) for n in node.output]
        kept = []
        for a in made.attribute:
            if attributes is not None and a.ref_attr_name:
                if a.ref_attr_name not in attributes:
                    continue
                named, a = a.name, self._onnx.AttributeProto.FromString(attributes[a.ref_attr_name].SerializeToString())
                a.name = named
            kept.append(a)
        copies = [self._onnx.AttributeProto.FromString(a.SerializeToString()) for a in kept]
        del made.attribute[:]
        made.attribute.extend(copies)
        for graph in subgraphs(made):
            inner = [self._copied(n, names, attributes) for n in graph.node]
            del graph.node[:]
            graph.node.extend(inner)
            for value in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
                value.name = names.get(value.name, value.name)
        return made


def _defined(node: Any) -> Iterator[str]:
    """The names that a node defines, and the names defined in its subgraphs."""
    yield from (o for o in node.output if o)
    for graph in subgraphs(node):
        yield from (v.name for v in (*graph.input, *graph.initializer))
        for inner in graph.node:
            yield from _defined(inner)

"""``torch.compile(backend="tilewright")``: what it places, over small modules, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tilewright

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch")
F: Any = torch.nn.functional

import tilewright.torch as tt  # noqa: E402
from tilewright.torch import backend, placed  # noqa: E402

nn = torch.nn
pytestmark = [
    pytest.mark.usefixtures("fresh"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


class Reference:
    """Serves every part by the program's own meaning (NumPy), so that any part placed wrongly is a wrong answer."""

    def __init__(self, path: Path) -> None:
        self.library = tilewright.Library(path, missing_ok=True, watch=False)
        self.asked: list[str] = []

    def __call__(self, workload: Any, device: Any = None) -> Any:
        self.asked.append(workload.op)
        return self.library.resolver.untuned(workload, "a test")

    def compile(self, module: Any, **how: Any) -> Any:
        def make(graph: Any, inputs: Any) -> Any:
            return backend.compiled(graph, inputs, self, backend.Rest("eager"))

        return torch.compile(module, backend=make, fullgraph=True, **how)


class Lambda(nn.Module):
    def __init__(self, fn: Any, *parts: Any) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.fn = fn

    def forward(self, *args: Any) -> Any:
        return self.fn(self.parts, *args)


def heads(t: Any) -> Any:
    return t.unflatten(-1, (2, 4)).transpose(1, 2)


def attention(p: Any, x: Any, **how: Any) -> Any:
    q, k, v = (heads(t) for t in p[0](x).chunk(3, -1))
    return x + p[1](F.scaled_dot_product_attention(q, k, v, **how).transpose(1, 2).flatten(2))


def manual(p: Any, x: Any) -> Any:
    q, k, v = (heads(t) for t in p[0](x).chunk(3, -1))
    return p[1]((torch.softmax(q @ k.mT * 0.5, -1) @ v).transpose(1, 2).flatten(2))


def in_place(p: Any, x: Any) -> Any:
    y = p[0](x)
    y.add_(1.0)
    y[:, 0] = 0.0
    return F.relu_(y)


def mutated(p: Any, x: Any) -> Any:
    y = p[0](x)
    x.mul_(2.0)
    return y + x.sum()


S, L = nn.Sequential, nn.Linear
X = (3, 8)
I = (2, 4, 6, 6)  # noqa: E741
MODULES: dict[str, tuple[Any, Any]] = {
    "mlp": (lambda: S(L(8, 16), nn.GELU(), L(16, 4)), X),
    "mlp_tanh_gelu": (lambda: S(L(8, 16), nn.GELU(approximate="tanh"), L(16, 4)), X),
    "no_bias": (lambda: S(L(8, 16, bias=False), nn.ReLU(), L(16, 8, bias=False)), X),
    "residual": (lambda: Lambda(lambda p, x: x + p[0](F.silu(p[1](x))), L(16, 8), L(8, 16)), X),
    "three_dimensional": (lambda: S(L(8, 16), nn.SiLU(), L(16, 8)), (2, 3, 8)),
    "gated": (lambda: Lambda(lambda p, x: F.silu(p[0](x)) * p[1](x), L(8, 12), L(8, 12)), X),
    "layer_norm": (lambda: S(nn.LayerNorm(8), L(8, 8)), X),
    "layer_norm_plain": (lambda: nn.LayerNorm(8, elementwise_affine=False), X),
    "rms_norm": (lambda: S(nn.RMSNorm(8), L(8, 4)), X),
    "group_norm": (lambda: S(nn.GroupNorm(2, 4), nn.SiLU()), I),
    "conv": (lambda: S(nn.Conv2d(4, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 4, 1)), I),
    "conv_stride_groups": (lambda: nn.Conv2d(4, 8, 3, stride=2, groups=2, dilation=1), I),
    "conv_depthwise": (lambda: S(nn.Conv2d(4, 4, 3, groups=4, padding=1), nn.Conv2d(4, 4, 1)), I),
    "conv_1d": (lambda: S(nn.Conv1d(4, 4, 3, padding=1), nn.ReLU()), (2, 4, 9)),
    "conv_transpose": (lambda: nn.ConvTranspose2d(4, 4, 2, stride=2), I),
    "conv_norm": (lambda: S(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), I),
    "conv_norm_eval": (lambda: S(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval(), I),
    "residual_conv": (lambda: Lambda(lambda p, x: F.relu(x + p[0](x)), nn.Conv2d(4, 4, 3, padding=1)), I),
    "max_pool": (lambda: S(nn.Conv2d(4, 4, 3, padding=1), nn.MaxPool2d(2)), I),
    "adaptive_pool": (lambda: S(nn.AdaptiveAvgPool2d(1), nn.Flatten(), L(4, 3)), I),
    "attention": (lambda: Lambda(attention, L(8, 24), L(8, 8)), (2, 5, 8)),
    "causal": (lambda: Lambda(lambda p, x: attention(p, x, is_causal=True), L(8, 24), L(8, 8)), (2, 5, 8)),
    "masked": (lambda: Lambda(lambda p, x: attention(p, x, attn_mask=torch.eye(5)), L(8, 24), L(8, 8)), (2, 5, 8)),
    "manual_attention": (lambda: Lambda(manual, L(8, 24), L(8, 8)), (2, 5, 8)),
    "multihead": (lambda: Lambda(lambda p, x: p[0](x, x, x)[0], nn.MultiheadAttention(8, 2, batch_first=True)), (2, 5, 8)),
    "softmax_middle": (lambda: Lambda(lambda p, x: torch.softmax(x, 1) + torch.log_softmax(x, 0)), (2, 5, 8)),
    "in_place": (lambda: Lambda(in_place, L(8, 8)), X),
    "mutated_input": (lambda: Lambda(mutated, L(8, 8)), X),
    "views": (lambda: Lambda(lambda p, x: p[0](x).t()[1:].flip(0).reshape(-1, 3).contiguous(), L(8, 8)), X),
    "aliased_output": (lambda: Lambda(lambda p, x: (x, x.view(-1), p[0](x))), X),
    "reductions": (lambda: Lambda(lambda p, x: (x.mean(), x.sum(0), x.amax(-1), x.std(1), x.argmax(1))), X),
    "mixed_types": (lambda: Lambda(lambda p, x: x.double() * x + torch.arange(8) + (x > 0)), X),
    "dropout_eval": (lambda: S(L(8, 8), nn.Dropout(0.5), L(8, 8)).eval(), X),
    "empty": (lambda: L(8, 4), (0, 8)),
    "matrix_powers": (lambda: Lambda(lambda p, x: torch.linalg.matrix_power(x.T @ x, 2) / 7 - x.T @ x), X),
    "broadcast_product": (lambda: Lambda(lambda p, x: x[:, None] @ x.T[None] / (x.abs().sum() + 1)), X),
}  # fmt: skip


def module_of(name: str) -> Any:
    made = MODULES[name][0]()
    if name == "aliased_output":
        made.parts.append(L(8, 8))
    return made


@pytest.mark.sampled
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_small_modules_agree_with_eager(name: str, dtype: str, tmp_path: Path) -> None:
    kind = getattr(torch, dtype)
    if name == "masked" and dtype == "bfloat16":
        pytest.skip("its mask is float32, which PyTorch itself refuses")
    module = module_of(name).to(kind)
    x = torch.randn(MODULES[name][1]).to(kind)
    wanted_x = x.clone()
    reference = Reference(tmp_path / "t.db")
    with torch.no_grad():
        state = {k: v.clone() for k, v in module.state_dict().items()}
        wanted = module(wanted_x)
        module.load_state_dict(state)
        got = reference.compile(module)(x)
    how = {"rtol": 5e-2, "atol": 5e-2} if dtype == "bfloat16" else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(got, wanted, **how)
    torch.testing.assert_close(x, wanted_x)
    for a, b in zip(*(torch.utils._pytree.tree_leaves(t) for t in (got, wanted)), strict=True):
        assert (a.dtype, a.stride()) == (b.dtype, b.stride())


@pytest.mark.parametrize("kind", ["bool", "additive", "heads", "channels_last"])
def test_masks_and_layouts(kind: str, tmp_path: Path) -> None:
    shape = (1, 300, 2, 4) if kind == "heads" else (1, 2, 9, 4)
    q, k, v = (torch.randn(shape) for _ in range(3))
    if kind == "heads":  # as a projection wrote them
        args = tuple(t.transpose(1, 2) for t in (q, k, v))
        call = F.scaled_dot_product_attention
    elif kind == "channels_last":
        conv = nn.Conv2d(64, 32, 3, padding=1).to(memory_format=torch.channels_last)
        args = (torch.randn(1, 64, 32, 32).to(memory_format=torch.channels_last), conv.weight.detach())
        call = lambda x, w: F.relu(F.conv2d(x, w, padding=1))  # noqa: E731
    else:
        mask = torch.rand(9, 9) > 0.3
        mask[:, 0], mask[3] = True, False  # the fourth query sees no key
        mask = mask if kind == "bool" else torch.where(mask, torch.randn(9, 9), float("-inf"))
        args = (q, k, v, mask)
        call = F.scaled_dot_product_attention
    reference = Reference(tmp_path / "t.db")

    def run(*given: Any) -> Any:
        return call(*given)

    def with_kernels(graph: Any, inputs: Any) -> Any:
        return backend.compiled(graph, inputs, reference, backend.Rest("eager"))

    def without(graph: Any, inputs: Any) -> Any:
        return backend.compiled(graph, inputs, lambda *_: None, backend.Rest("eager"))

    with torch.no_grad():
        wanted = call(*args)
        got = torch.compile(run, backend=with_kernels, fullgraph=True)(*args)
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
        assert got.stride() == wanted.stride()
        assert reference.library.stats().tiers["fallback"] > 0  # what a kernel would have answered
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(run, backend=without, fullgraph=True)(*args), wanted)


TRAINED = (
    "mlp",
    "residual",
    "layer_norm",
    "rms_norm",
    "conv",
    "conv_norm",
    "attention",
    "manual_attention",
    "in_place",
)


@pytest.mark.sampled
@pytest.mark.parametrize("name", TRAINED)
def test_a_training_step_agrees_with_eager(name: str, tmp_path: Path) -> None:
    reference = Reference(tmp_path / "t.db")
    found = []
    for compile in (lambda m: m, reference.compile):
        torch.manual_seed(0)
        module = module_of(name)
        x = torch.randn(MODULES[name][1], requires_grad=name != "in_place")
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        run = compile(module)
        for _ in range(2):
            loss = run(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found.append([loss, x.grad, *module.state_dict().values()])
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-5)
    assert reference.asked


class Sliced(nn.Module):
    """Adds a slice of a parameter, whose gradient Inductor makes of zeros of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.positions = nn.Linear(8, 8), nn.Parameter(torch.randn(9, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + self.positions[: x.shape[1]]


def test_a_training_step_with_a_slice_of_a_parameter_agrees_with_eager_where_inductor_compiles(tmp_path: Path) -> None:
    x, module = torch.randn(2, 5, 8), Sliced()
    reference = Reference(tmp_path / "t.db")

    def products(workload: Any, device: Any = None) -> Any:
        return reference(workload) if workload.op.startswith("matmul") else None

    def make(graph: Any, inputs: Any) -> Any:
        return backend.compiled(graph, inputs, products, backend.Rest("inductor"))

    found = []
    for run in (module, torch.compile(module, backend=make, fullgraph=True)):
        module.zero_grad()
        run(x).square().sum().backward()
        found.append([p.grad.clone() for p in module.parameters() if p.grad is not None])
    torch.testing.assert_close(found[1], found[0])
    assert reference.asked


def test_parts_are_fused(tmp_path: Path) -> None:
    reference = Reference(tmp_path / "t.db")
    with torch.no_grad():
        reference.compile(module_of("mlp"))(torch.randn(X))
        assert [a.rpartition("_")[0] for a in reference.asked] == ["linear_gelu", "linear"]


def test_sizes_that_change_stay_right(tmp_path: Path) -> None:
    module = module_of("mlp")
    for how in ({}, {"dynamic": True}, {"dynamic": False}):
        torch._dynamo.reset()
        run = Reference(tmp_path / "t.db").compile(module, **how)
        with torch.no_grad():
            for rows in (1, 2, 5, 7):
                x = torch.randn(rows, 8)
                torch.testing.assert_close(run(x), module(x))


def test_autocast_and_channels_last(tmp_path: Path) -> None:
    reference = Reference(tmp_path / "t.db")
    module, x = module_of("conv").to(memory_format=torch.channels_last), torch.randn(I)
    x = x.contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        wanted = module(x)
        got = reference.compile(module)(x)
        assert got.stride() == wanted.stride()
        torch.testing.assert_close(got, wanted)
        torch._dynamo.reset()
        with torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(reference.compile(module)(x), module(x), rtol=5e-2, atol=5e-2)


@pytest.mark.usefixtures("backend_by_name")
def test_by_its_name_with_inductor_and_tuned_kernels(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    tilewright.tune("matmul", m=3, n=16, k=8, trans_b=True, bias=True, trials=1, cost_model="random", db=path)
    module, x = nn.Linear(8, 16), torch.randn(X)
    library = tt.use(path)
    with torch.no_grad():
        run = torch.compile(module, backend="tilewright", fullgraph=True)
        torch.testing.assert_close(run(x), module(x))
    assert {n: c for n, c in library.stats().tiers.items() if c} == {"exact": 1}


def test_unknown_options_are_named() -> None:
    for how, problem in {
        "rest='nobody' is not known": {"options": {"rest": "nobody"}},
        "Unexpected optimization option max_tune": {"options": {"max_tune": True}},
        "Unexpected type of attr max_autotune, got str": {"options": {"max_autotune": "yes"}},
        "Unrecognized mode=fastest, should be one of: default": {"mode": "fastest"},
        "max_autotune is Inductor's, and rest is eager": {"options": {"rest": "eager", "max_autotune": True}},
    }.items():
        with pytest.raises(tilewright.UsageError, match=how):
            backend.tilewright(torch.fx.symbolic_trace(nn.ReLU()), [torch.randn(2)], **problem)


def test_modes_and_options_are_inductors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import compile_fx, config

    seen: list[tuple[bool, bool]] = []
    inner = compile_fx._compile_fx_inner

    def noted(*args: Any, **how: Any) -> Any:
        seen.append((config.max_autotune, config.triton.cudagraphs))
        return inner(*args, **how)

    monkeypatch.setattr(compile_fx, "_compile_fx_inner", noted)
    monkeypatch.setattr(torch._functorch.config, "enable_autograd_cache", False)
    x, reference = torch.randn(X), Reference(tmp_path / "t.db")
    for find in (lambda *_: None, reference):  # Inductor compiles all of a graph, and what kernels leave
        seen.clear()
        for how in ({}, {"mode": "default"}, {"mode": "max-autotune"}, {"options": {"triton.cudagraphs": True}}):
            torch._dynamo.reset()
            monkeypatch.setattr(backend, "_find", find)
            run = torch.compile(lambda x: x @ x.t(), backend=backend.tilewright, fullgraph=True, **how)
            torch.testing.assert_close(run(x), x @ x.t())
        assert seen == [(False, False), (False, False), (True, True), (False, True)]


def test_optimize_tunes_stores_and_serves(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    module, x = module_of("mlp").eval(), torch.randn(X)
    how: dict[str, Any] = {"db": path, "rest": "eager", "cost_model": "random", "compare": False}
    fast = tt.optimize(module, (x,), trials=2, **how)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)
    assert {n: c for n, c in fast.library.stats().tiers.items() if c} == {"exact": 4}
    again = tt.optimize(module, (x,), trials=2, **how)  # nothing is left to be tuned
    assert again.library.stats().tiers["exact"] == 2
    from tilewright.database import Database

    with Database.open(path) as database:
        assert len(database.runs()) == 2


def test_what_optimize_refuses() -> None:
    with pytest.raises(tilewright.UsageError, match="example is a Tensor"):
        tt.optimize(nn.Linear(2, 2), torch.randn(1, 2))
    with pytest.raises(tilewright.UsageError, match="rest='x' is not known"):
        tt.optimize(nn.Linear(2, 2), (torch.randn(1, 2),), rest="x")


def test_the_backend_is_an_entry_point() -> None:
    import tomllib
    from importlib.metadata import EntryPoint

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    declared = project["entry-points"]["torch_dynamo_backends"]
    assert EntryPoint("tilewright", declared["tilewright"], "torch_dynamo_backends").load() is backend.tilewright


def test_weights_are_rearranged_once_and_after_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.backends.cpu.loader import LoadedKernel

    torch.manual_seed(0)
    module, x = nn.Linear(64, 96).eval(), torch.randn(48, 64)
    how: dict[str, Any] = {"rest": "eager", "cost_model": "random", "seed": 0, "compare": False}
    fast = tt.optimize(module, (x,), db=tmp_path / "t.db", trials=12, **how)
    kernels = placed._placed[max(placed._placed)]
    if not any(p._kept for p in kernels.parts.values()):
        pytest.skip("the kernel that won rearranges nothing")
    packs: list[int] = []
    pack = LoadedKernel.pack

    def counted(self: Any, pointers: Any) -> Any:
        packs.append(1)
        return pack(self, pointers)

    monkeypatch.setattr(LoadedKernel, "pack", counted)

    def agrees() -> int:
        packs.clear()
        with torch.no_grad():
            for _ in range(3):
                torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-4)
        return len(packs)

    before = fast.library.stats().tiers["exact"]
    assert agrees() <= 1  # optimize has called it, perhaps under a mode of PyTorch's
    assert agrees() == 0
    with torch.no_grad():
        module.weight.mul_(2.0)
    assert agrees() == 1
    module.load_state_dict({"weight": torch.randn(96, 64), "bias": torch.randn(96)})
    assert agrees() == 1
    module.weight.data = torch.randn(96, 64)
    assert agrees() == 1
    tt.use(tmp_path / "t.db")  # forgets answers; what is rearranged stays
    assert agrees() == 0
    assert fast.library.stats().tiers["exact"] == before + 18

"""The programs of acceptance, in plain ``torch.nn``: networks as they are published, with random weights.

Each is made at its full size, or at a tiny one that has the same structure, to rehearse without a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Program:
    """A module and arguments of a call. ``make(tiny)`` gives both; ``image``: its tensors have channels last;
    ``trained``: whether a training step of it is measured."""

    make: Callable[[bool], tuple[nn.Module, Tensors]]
    image: bool = False
    trained: bool = False


# --------------------------------------------------------------------------- ResNet-50


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions with batch norms, and a residual sum."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.conv1, self.norm1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.norm3 = nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)
        self.down: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            self.down = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(y)))
        return F.relu(self.norm3(self.conv3(y)) + self.down(x))


class ResNet(nn.Module):
    """``blocks``: of each of the four stages."""

    def __init__(self, blocks: tuple[int, ...], width: int, classes: int) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        layers: list[nn.Module] = []
        channels = width
        for stage, count in enumerate(blocks):
            for block in range(count):
                layers.append(Bottleneck(channels, width << stage, 2 if stage and not block else 1))
                channels = 4 * (width << stage)
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.stem(x))), 3, 2, 1)
        out: torch.Tensor = self.head(self.layers(x).mean((2, 3)))
        return out


def resnet(batch: int) -> Callable[[bool], tuple[nn.Module, Tensors]]:
    def make(tiny: bool) -> tuple[nn.Module, Tensors]:
        net = ResNet((1, 1), 8, 10) if tiny else ResNet((3, 4, 6, 3), 64, 1000)
        size, count = (16, min(batch, 2)) if tiny else (224, batch)
        return net, (torch.randn(count, 3, size, size),)

    return make


# --------------------------------------------------------------------------- encoders


class Attention(nn.Module):
    """Multi-head attention, of one product for queries, keys and values where they are of one sequence."""

    def __init__(self, width: int, heads: int, context: int | None = None, bias: bool = True) -> None:
        super().__init__()
        self.heads = heads
        self.own = context is None
        self.query = nn.Linear(width, 3 * width if context is None else width, bias=bias)
        if context is not None:
            self.pair = nn.Linear(context, 2 * width, bias=bias)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, context: torch.Tensor | None = None) -> torch.Tensor:
        if self.own or context is None:
            q, k, v = self.query(x).chunk(3, -1)
        else:
            q, (k, v) = self.query(x), self.pair(context).chunk(2, -1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v)
        out: torch.Tensor = self.out(y.transpose(1, 2).flatten(2))
        return out


class Layer(nn.Module):
    """An encoder's layer; ``before``: norms in front of attention and products (ViT), else behind the sums (BERT)."""

    def __init__(self, width: int, heads: int, before: bool) -> None:
        super().__init__()
        self.before = before
        self.attention = Attention(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def _wide(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down(F.gelu(self.up(x)))
        return out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.before:
            x = x + self.attention(self.norm1(x))
            return x + self._wide(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        out: torch.Tensor = self.norm2(x + self._wide(x))
        return out


class Bert(nn.Module):
    """Embeddings and layers."""

    def __init__(self, words: int, rows: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(rows, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(*(Layer(width, heads, False) for _ in range(layers)))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        out: torch.Tensor = self.layers(self.norm(x))
        return out


def bert(tiny: bool) -> tuple[nn.Module, Tensors]:
    words, rows, width, heads, layers, batch = (50, 8, 16, 2, 1, 2) if tiny else (30522, 512, 768, 12, 12, 8)
    return Bert(words, rows, width, heads, layers), (torch.randint(0, words, (batch, rows)),)


class Vit(nn.Module):
    """Patches as rows, a row for the class, layers, and a head."""

    def __init__(self, size: int, patch: int, width: int, heads: int, layers: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2 + 1, width))
        self.layers = nn.Sequential(*(Layer(width, heads, True) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.patches(x).flatten(2).transpose(1, 2)
        rows = torch.cat([self.first.expand(rows.shape[0], -1, -1), rows], 1) + self.places
        out: torch.Tensor = self.head(self.norm(self.layers(rows))[:, 0])
        return out


def vit(tiny: bool) -> tuple[nn.Module, Tensors]:
    if tiny:
        return Vit(16, 8, 16, 2, 1, 10), (torch.randn(2, 3, 16, 16),)
    return Vit(224, 16, 768, 12, 12, 1000), (torch.randn(32, 3, 224, 224),)


# --------------------------------------------------------------------------- a block of a language model


class Rms(nn.Module):
    """Root mean square norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, 1e-5)


def turned(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Rotary embeddings: pairs of halves of a head turned by angles that grow with the position."""
    half = x.shape[-1] // 2
    rates = torch.exp(torch.arange(half, device=x.device, dtype=torch.float32) * (-math.log(5e5) / half))
    angles = places.float()[..., None] * rates
    c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * c - b * s, b * c + a * s], -1)


class Llama(nn.Module):
    """A block: grouped heads, rotary embeddings, SwiGLU. With keys and values of earlier positions it computes the
    next one: each sequence of ``length`` positions, behind which the cache holds nothing."""

    def __init__(self, width: int, heads: int, shared: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.shared, self.depth = heads, shared, width // heads
        self.norm1, self.norm2 = Rms(width), Rms(width)
        self.query = nn.Linear(width, width, bias=False)
        self.pair = nn.Linear(width, 2 * shared * self.depth, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(
        self, x: torch.Tensor, keys: torch.Tensor | None = None, values: torch.Tensor | None = None,
        length: torch.Tensor | None = None,
    ) -> torch.Tensor:  # fmt: skip
        y = self.norm1(x)
        q = self.query(y).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.pair(y).unflatten(-1, (2 * self.shared, -1)).transpose(1, 2).chunk(2, 1)
        if keys is None or values is None or length is None:
            places = torch.arange(x.shape[1], device=x.device)
            q, k = turned(q, places), turned(k, places)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            q, k = turned(q, length[:, None, None]), turned(k, length[:, None, None])
            keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
            places = torch.arange(keys.shape[2], device=x.device)
            seen = (places < length[:, None]) | (places == keys.shape[2] - 1)
            y = F.scaled_dot_product_attention(q, keys, values, attn_mask=seen[:, None, None], enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        out: torch.Tensor = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return out


def llama(batch: int, rows: int, cached: int = 0) -> Callable[[bool], tuple[nn.Module, Tensors]]:
    def make(tiny: bool) -> tuple[nn.Module, Tensors]:
        width, heads, shared, hidden = (16, 4, 2, 24) if tiny else (4096, 32, 8, 14336)
        count, many, past = (min(batch, 2), min(rows, 8), min(cached, 8)) if tiny else (batch, rows, cached)
        block = Llama(width, heads, shared, hidden)
        x = torch.randn(count, many, width)
        if not past:
            return block, (x,)
        keys, values = (torch.randn(count, shared, past, width // heads) for _ in range(2))
        length = past - torch.arange(count) % (past // 2)
        return block, (x, keys, values, length)

    return make


# --------------------------------------------------------------------------- a block of a UNet


class Unet(nn.Module):
    """A residual block over time and a transformer block over a text, as SDXL's UNet has them."""

    def __init__(self, channels: int, groups: int, heads: int, text: int, steps: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(groups, channels), nn.Conv2d(channels, channels, 3, 1, 1)
        self.time = nn.Linear(steps, channels)
        self.norm2, self.conv2 = nn.GroupNorm(groups, channels), nn.Conv2d(channels, channels, 3, 1, 1)
        self.norm, self.enter, self.leave = (
            nn.GroupNorm(groups, channels), nn.Linear(channels, channels), nn.Linear(channels, channels)
        )  # fmt: skip
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(3))
        self.own, self.cross = Attention(channels, heads, bias=False), Attention(channels, heads, text, bias=False)
        self.up, self.down = nn.Linear(channels, 8 * channels), nn.Linear(4 * channels, channels)

    def forward(self, x: torch.Tensor, time: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        x = x + self.conv2(F.silu(self.norm2(y)))
        rows = self.enter(self.norm(x).flatten(2).transpose(1, 2))
        rows = rows + self.own(self.norms[0](rows))
        rows = rows + self.cross(self.norms[1](rows), text)
        wide, gate = self.up(self.norms[2](rows)).chunk(2, -1)
        rows = rows + self.down(wide * F.gelu(gate))
        return x + self.leave(rows).transpose(1, 2).unflatten(2, x.shape[2:])


def unet(tiny: bool) -> tuple[nn.Module, Tensors]:
    channels, groups, heads, text, steps, size, words = (
        (16, 4, 2, 12, 16, 4, 5) if tiny else (640, 32, 10, 2048, 1280, 64, 77)
    )
    made = Unet(channels, groups, heads, text, steps)
    return made, (torch.randn(2, channels, size, size), torch.randn(2, steps), torch.randn(2, words, text))


PROGRAMS = {
    "bert_8x512": Program(bert, trained=True),
    "llama_decode_1": Program(llama(1, 1, 2048)),
    "resnet50_32": Program(resnet(32), image=True, trained=True),
    "llama_prefill_2048": Program(llama(1, 2048), trained=True),
    "vit_32": Program(vit, trained=True),
    "unet_2x64x64": Program(unet, image=True, trained=True),
    "llama_decode_16": Program(llama(16, 1, 2048)),
    "resnet50_1": Program(resnet(1), image=True),
}
"""By name, the most telling first."""

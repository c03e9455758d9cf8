"""Translates kernels of GPU templates from C++ to OpenCL C.

Templates print few syntactic forms (listed in ``kernels/codegen/sources.py``), so no parser is needed: functions of the
prelude with types in angle brackets, packs, references to arrays, function-style casts, one namespace per kernel.
Pointers get address spaces: those into shared memory are ``__local``, all others ``__global``.

Templates print one language for all GPUs, so that a farm's builders check it and translate the checked code.
"""

from __future__ import annotations

import re

from tilewright.dtypes import DTYPES

_TYPES = (
    (r"unsigned\s+long\s+long", "ulong"), (r"long\s+long", "long"), (r"unsigned\s+long", "ulong"),
    (r"unsigned\s+int", "uint"), (r"unsigned\s+char", "uchar"), (r"signed\s+char", "char"), (r"unsigned", "uint"),
)  # fmt: skip
_OWN = {d.gpu.replace("::", "_"): d.bytes for d in DTYPES.values() if "::" in d.gpu}
_NAME = rf"(?:float|double|short|char|uchar|int|uint|long|ulong|bool|{'|'.join(_OWN)}|tw_u32|tw_pack_\w+)"
_KERNEL = re.compile(r"TW_KERNEL\((\d+), \d+\) void (\w+)\(")
_DEVICE = re.compile(r"TW_DEVICE [\w ]+?(\w+)\(")
_FUNCTION = re.compile(r"^TW_(?:KERNEL|DEVICE)\b.*(?:\}|\n(?:.*\n)*?\})$", re.MULTILINE)
"""A function: on one line, or up to its closing bracket at the beginning of a line."""
_SIZES = {**_OWN, "short": 2, "char": 1, "uchar": 1, "float": 4, "int": 4, "uint": 4, "tw_u32": 4}


def translate(source: str, prelude: str) -> str:
    """OpenCL C of a translation unit (``source``: a template's output), with its prelude in front."""
    text = re.sub(r"\btw::", "tw_", source)
    for form, name in _TYPES:
        text = re.sub(rf"\b{form}\b", name, text)
    packs: dict[str, tuple[str, str]] = {}

    def pack(found: re.Match[str]) -> str:
        name = f"tw_pack_{found[1].removeprefix('tw_')}_{found[2]}"
        packs[name] = found[1], found[2]
        return name

    text = re.sub(r"\btw_pack<(\w+), (\d+)>", pack, text)
    text = re.sub(r"\b(tw_\w+)<(\w+)>\(", lambda m: f"{m[1]}_{m[2].removeprefix('tw_')}(", text)
    text = re.sub(rf"\b(?:const )?({_NAME}) \(&(\w+)\)\[", r"\1 \2[", text)  # arrays become C array parameters
    text = re.sub(rf"\b({_NAME})\(", r"(\1)(", text)
    text = re.sub(rf"\b({_NAME})\{{\}}", r"(\1){0}", text)
    text = text.replace("threadIdx.x", "((uint)get_local_id(0))").replace("blockIdx.x", "((uint)get_group_id(0))")
    body = _FUNCTION.sub(lambda found: _function(found[0]), _flat(text))
    return f"{prelude}{_pack_functions(packs)}{body}"


def _pack_functions(packs: dict[str, tuple[str, str]]) -> str:
    """Type definitions and accessors of the packs that a unit uses."""
    return "".join(
        f"typedef struct {{ {element} v[{count}]; }} __attribute__((aligned({_SIZES.get(element, 8) * int(count)}))) "
        f"{name};\nTW_ACCESS({name}, {name.removeprefix('tw_')})\n"
        for name, (element, count) in packs.items()
    )


def _flat(text: str) -> str:
    """Remove namespaces: their functions get the namespace's name as a prefix, also in the kernels after them."""
    head, *spaces = re.split(r"^namespace (\w+) \{\n", text, flags=re.MULTILINE)
    for space, source in zip(spaces[::2], spaces[1::2], strict=True):
        functions, closing, kernels = source.partition("\n}\nTW_KERNEL")
        plain = (functions + closing.replace("}", "") + kernels).replace(f"    using namespace {space};\n", "")
        names = "|".join(_DEVICE.findall(functions)) or "(?!)"
        head += re.sub(rf"\b({names})\(", rf"{space}\1(", plain)
    return head


def _function(text: str) -> str:
    kernel = _KERNEL.match(text)
    opening = text.index("{")
    head, body = text[:opening], text[opening + 1 :]
    local = {m[1] for m in re.finditer(r"TW_SHARED\((\w+)\)", body)}
    name_at = head.index("(", head.index(")") if kernel else 0)
    taken = [x.strip() for x in head[name_at + 1 : head.rindex(")")].split(",") if x.strip()]
    if kernel is None:  # inputs, out and ws come from the kernel; all other pointers are its shared memory
        pointers = {m[1] for x in taken if (m := re.search(r"\*\s*(?:__restrict__ )?(\w+)$", x))}
        local |= {x for x in pointers if not re.fullmatch(r"x\d+|out|ws", x)}
    parameters = [_pointer(x, local) for x in taken]
    parameters += [f"__local uchar *restrict {m[1]}" for m in re.finditer(r"TW_SHARED\((\w+)\)", body)]
    body = re.sub(r" *TW_SHARED\(\w+\);\n", "", body)
    body = _spaces(body, local)
    start = head[:name_at]
    if kernel is not None:
        start = f"__kernel __attribute__((reqd_work_group_size({kernel[1]}, 1, 1))) void {kernel[2]}"
        if "tw_exchange(" in body:
            body = f"\n    __local ulong tw_lanes[{kernel[1]}];{body}"
    return f"{start}({', '.join(parameters)}) {{{body}"


def _pointer(parameter: str, local: set[str]) -> str:
    found = re.search(r"\*\s*(__restrict__ )?(\w+)$", parameter)
    if found is None:
        return parameter
    space = "__local" if found[2] in local else "__global"
    return f"{space} {parameter.replace('__restrict__', 'restrict')}"


def _spaces(body: str, local: set[str]) -> str:
    """Add address spaces to the pointers that a function declares and casts to, in the order of declaration."""
    out = []
    for line in body.splitlines(keepends=True):
        declared = re.match(rf"\s*(?:const )?{_NAME} \*(?:const )?(\w+) = (.*)", line)
        if declared is not None and not local.isdisjoint(re.findall(r"\w+", declared[2])):
            local.add(declared[1])
        space = "__global" if declared is None else "__local" if declared[1] in local else "__global"
        if declared is not None:
            line = re.sub(rf"((?:const )?{_NAME} \*)", rf"{space} \1", line, count=1)
        out.append(re.sub(rf"\(((?:const )?{_NAME} \*)\)(?=(.*))", lambda m: _cast(m, local), line))
    return "".join(out)


def _cast(found: re.Match[str], local: set[str]) -> str:
    return f"({'__local' if _base(found[2]) in local else '__global'} {found[1]})"


def _base(text: str) -> str:
    """The variable of a pointer expression: the first name that is not a type in a cast."""
    plain = re.sub(rf"\((?:__local |__global )?(?:const )?{_NAME} \*\)", "", text)
    found = re.search(r"[A-Za-z_]\w*", plain)
    return found[0] if found else ""

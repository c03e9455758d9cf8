"""The text of an exported library's header and of its C file."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from tilewright.bundles.export.functions import Function, Pack, c_type
from tilewright.core import Target, TensorSpec
from tilewright.dtypes import DTYPES

ERRORS = (
    ("OK", "success"),
    ("NULL", "a pointer is null"),
    ("MISALIGNED", "a pointer is not aligned as the function asks"),
    ("OVERLAP", "an output overlaps another tensor"),
    ("NO_MEMORY", "no memory for the workspace"),
    ("PROCESSOR", "this processor lacks instructions that the library was built for"),
    ("KERNEL", "the kernel failed"),
)
"""Names and messages of the functions' return codes, from 0 on."""

_CHECKED = frozenset((
    "avx2", "fma", "bmi2", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni", "avx512bf16",
))  # fmt: skip
"""Instruction sets of targets that compilers can test a processor for."""

_PACK_ALIGN = 4096


def header(name: str, functions: Sequence[Function], target: Target) -> str:
    """The text of ``NAME.h``, in C89."""
    upper = name.upper()
    # C89 takes no comma after the last enumerator.
    commas = [","] * (len(ERRORS) - 1) + [" "]
    codes = "".join(
        f"    {upper}_{code} = {n}{comma}{' ' * (12 - len(code))}/* {text} */\n"
        for n, ((code, text), comma) in enumerate(zip(ERRORS, commas, strict=True))
    )
    text = f"""\
/* Tuned kernels for {target.name}, {target.threads} thread{"s" * (target.threads != 1)} a call.
 *
 * Tensors are dense and row-major, of exactly the sizes that a function's comment gives; an output overlaps no
 * other tensor. Any number of threads may call at once. A thread's workspace is made at its first call and freed when
 * it ends, or by {name}_release. float16 and bfloat16 are passed as their bits. Link with -lm -lpthread.
 */
#ifndef {upper}_H
#define {upper}_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {{
#endif

/* What functions return. */
enum {{
{codes}}};

/* A line for a person; never null. */
const char *{name}_error(int code);

/* Free the calling thread's workspace. */
void {name}_release(void);

"""
    return text + "\n".join(_declared(name, f) for f in functions) + "\n#ifdef __cplusplus\n}\n#endif\n#endif\n"


def _declared(name: str, f: Function) -> str:
    e = f.kernel.entry
    packed = {p.input for p in f.packs}
    lines = [f"{e.op} {e.label}".strip()]
    for n, s in enumerate((*f.inputs, *f.outputs)):
        note = f", rearranged by {name}_{f.name}_pack_{s.name}" if n in packed else ""
        lines.append(f"{_parameter(s, n >= len(f.inputs))}: {_shape(s)} {s.dtype}{note}")
    if f.align > 1:
        lines.append(f"Every pointer is aligned to {f.align} bytes.")
    lines.append(f"Tuned on {e.device_model}: {e.seconds:.3g} s a call.")
    comment = "/* " + "\n * ".join(x.replace("*/", "* /") for x in lines) + "\n */\n"
    text = f"{comment}{_signature(name, f)};\n"
    for p in f.packs:
        s = f.inputs[p.input]
        text += (
            f"/* Rearranges {s.name} once, for all calls, into {p.bytes} bytes aligned to {_PACK_ALIGN}. */\n"
            f"#define {name.upper()}_{f.name.upper()}_PACK_{s.name.upper()}_BYTES {p.bytes}\n"
            f"{_pack_signature(name, f, p)};\n"
        )
    return text


def _signature(name: str, f: Function) -> str:
    packed = {p.input for p in f.packs}
    parameters = [
        f"const void *packed_{s.name}" if n in packed else f"const {c_type(s.dtype)} *{_parameter(s, False)}"
        for n, s in enumerate(f.inputs)
    ]
    parameters += [f"{c_type(s.dtype)} *{_parameter(s, True)}" for s in f.outputs]
    return f"int {name}_{f.name}({', '.join(parameters)})"


def _pack_signature(name: str, f: Function, p: Pack) -> str:
    s = f.inputs[p.input]
    return f"int {name}_{f.name}_pack_{s.name}(const {c_type(s.dtype)} *{_parameter(s, False)}, void *packed)"


def _parameter(s: TensorSpec, output: bool) -> str:
    if output:
        return s.name
    return f"in_{s.name}" if re.fullmatch(r"out\d*", s.name) or s.name in _RESERVED else s.name


_RESERVED = frozenset((
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "float",
    "for", "goto", "if", "int", "long", "register", "return", "short", "signed", "sizeof", "static", "struct", "switch",
    "typedef", "union", "unsigned", "void", "volatile", "while", "bool", "class", "delete", "new", "private", "public",
    "template", "this", "namespace", "operator", "try", "catch", "using", "virtual", "true", "false", "packed",
))  # fmt: skip


def _shape(s: TensorSpec) -> str:
    return f"({', '.join(map(str, s.shape))}{',' * (len(s.shape) == 1)})"


def implementation(name: str, functions: Sequence[Function], target: Target) -> str:
    """The text of the C file, which includes the header and the support object's ``tw.h``."""
    upper = name.upper()
    symbols = sorted({s for f in functions for s in (*(x for x, _ in f.launches), *(p.symbol for p in f.packs))})
    entries = "\n".join(
        f"extern int {s}(void *const *, const long long *, void *, const struct tw_env *);" for s in symbols
    )
    features = sorted(_CHECKED & set(target.isa)) if target.arch == "x86_64" else []
    test = " && ".join(f'__builtin_cpu_supports("{x}")' for x in features) or "1"
    messages = ", ".join(f'"{text}"' for _, text in ERRORS)
    return f"""\
#include "{name}.h"
#include "tw.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

{entries}

static const char *const messages[] = {{{messages}}};

const char *{name}_error(int code)
{{
    return code >= 0 && code < {len(ERRORS)} ? messages[code] : "no error of this library";
}}

struct tensor {{ const void *memory; size_t bytes; }};

static __thread struct {{ void *memory; size_t bytes; }} scratch;
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int supported;

void {name}_release(void)
{{
    tw_free(scratch.memory, scratch.bytes);
    scratch.memory = NULL;
    scratch.bytes = 0;
}}

static void leave(void *unused)
{{
    (void)unused;
    {name}_release();
}}

static void start(void)
{{
    pthread_key_create(&at_exit, leave);
    supported = {test};
}}

static int check(const struct tensor *tensors, int count, int inputs, uintptr_t align)
{{
    pthread_once(&once, start);
    if (!supported)
        return {upper}_PROCESSOR;
    for (int i = 0; i < count; i++) {{
        uintptr_t at = (uintptr_t)tensors[i].memory;
        if (!at)
            return {upper}_NULL;
        if (at % align)
            return {upper}_MISALIGNED;
        for (int j = 0; i >= inputs && j < i; j++) {{
            uintptr_t other = (uintptr_t)tensors[j].memory;
            if (at < other + tensors[j].bytes && other < at + tensors[i].bytes)
                return {upper}_OVERLAP;
        }}
    }}
    return {upper}_OK;
}}

static int run(const struct tw_launch *launches, long count, void *const *tensors, size_t workspace, size_t zero_fill,
               long threads)
{{
    if (workspace > scratch.bytes) {{
        {name}_release();
        scratch.memory = tw_alloc(workspace);
        if (!scratch.memory)
            return {upper}_NO_MEMORY;
        scratch.bytes = workspace;
        pthread_setspecific(at_exit, &scratch);
    }}
    struct tw_call call = {{launches, count, tensors, scratch.memory, zero_fill, tw_env_get(threads)}};
    return tw_run(&call) ? {upper}_KERNEL : {upper}_OK;
}}

static int pack(tw_kernel kernel, const long long *args, void *const *tensors, void *memory, size_t bytes, long threads)
{{
    memset(memory, 0, bytes);
    return kernel(tensors, args, memory, tw_env_get(threads)) ? {upper}_KERNEL : {upper}_OK;
}}

""" + "\n".join(_defined(name, f, target) for f in functions)


def _defined(name: str, f: Function, target: Target) -> str:
    packs = {p.input: p for p in f.packs}
    given = [
        (f"packed_{s.name}", packs[n].bytes) if n in packs else (_parameter(s, False), _bytes(s))
        for n, s in enumerate(f.inputs)
    ]
    given += [(_parameter(s, True), _bytes(s)) for s in f.outputs]
    arguments = "".join(
        f"    static const long long args{n}[] = {{{', '.join(map(str, a)) or '0'}}};\n"
        for n, (_, a) in enumerate(f.launches)
    )
    launches = ", ".join(f"{{{symbol}, args{n}}}" for n, (symbol, _) in enumerate(f.launches))
    checks = ", ".join(f"{{{x}, {size}}}" for x, size in given)
    pointers = ", ".join(f"(void *){x}" for x, _ in given)
    text = f"""\
{_signature(name, f)}
{{
{arguments}    static const struct tw_launch launches[] = {{{launches}}};
    const struct tensor given[] = {{{checks}}};
    void *const tensors[] = {{{pointers}}};
    int problem = check(given, {len(given)}, {len(f.inputs)}, {f.align});
    if (problem)
        return problem;
    return run(launches, {len(f.launches)}, tensors, {f.workspace}, {f.zero_fill}, {target.threads});
}}
"""
    for p in f.packs:
        s = f.inputs[p.input]
        values = ", ".join(map(str, p.arguments)) or "0"
        places = ", ".join(
            f"(void *){_parameter(s, False)}" if n == p.input else "NULL" for n in range(len(f.inputs) + len(f.outputs))
        )
        text += f"""
{_pack_signature(name, f, p)}
{{
    static const long long args[] = {{{values}}};
    const struct tensor given[] = {{{{{_parameter(s, False)}, {_bytes(s)}}}, {{packed, {p.bytes}}}}};
    void *const tensors[] = {{{places}}};
    int problem = check(given, 2, 1, {f.align});
    if (!problem && (uintptr_t)packed % {_PACK_ALIGN})
        problem = {name.upper()}_MISALIGNED;
    return problem ? problem : pack({p.symbol}, args, tensors, packed, {p.bytes}, {target.threads});
}}
"""
    return text


def _bytes(s: TensorSpec) -> int:
    return math.prod(s.shape) * DTYPES[s.dtype].bytes

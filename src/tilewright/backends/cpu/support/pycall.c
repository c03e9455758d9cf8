/* Calls from Python into kernels: see pycall.h.

   A plan is a builtin function whose self is a capsule around its description. A call checks every
   argument against it (exact type, dtype, shape, density, alignment, writability, overlap), which takes
   some tens of nanoseconds, and anything unusual goes to Python, unchanged. */
#include "pycall.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define METHOD_FLAGS (0x0080 | 0x0002) /* METH_FASTCALL | METH_KEYWORDS */
#define KEY_WORDS 96
#define TABLE_LIMIT 4096

static struct tw_py_api py;
static int ready;

#define FIELD(type, object, offset) (*(type const *)((const char *)(object) + (offset)))

static void *data_of(const tw_pyobject *a) { return FIELD(void *, a, py.data); }

static int is_array(const tw_pyobject *o) { return FIELD(tw_pyobject *, o, py.type) == py.ndarray; }

/* numpy's number of the dtype, or -1 when it is not in native byte order */
static long dtype_of(const tw_pyobject *a)
{
    const tw_pyobject *d = FIELD(tw_pyobject *, a, py.descr);
    char order = FIELD(char, d, py.byteorder);
    return order == '=' || order == '|' ? (long)FIELD(int, d, py.type_num) : -1;
}

/* ---------------------------------------------------------------- tensors of another framework */

static struct tw_py_foreign foreign; /* its type is NULL until there is one */

/* numpy's numbers of the dtypes that both have, by DLPack's code and bits; bfloat16 travels as uint16. */
static long dtype_of_foreign(const struct tw_dltensor *t)
{
    enum { INT, UINT, FLOAT, BFLOAT = 4, BOOL = 6 };
    if (t->lanes != 1)
        return -1;
    switch (t->code * 256 + t->bits) {
    case BOOL * 256 + 8: return 0;
    case INT * 256 + 8: return 1;
    case UINT * 256 + 8: return 2;
    case BFLOAT * 256 + 16: return 4;
    case INT * 256 + 32: return 5;
    case INT * 256 + 64: return 7;
    case FLOAT * 256 + 32: return 11;
    case FLOAT * 256 + 64: return 12;
    case FLOAT * 256 + 16: return 23;
    default: return -1;
    }
}

/* What is known of a tensor of that framework in this processor's memory whose gradients nobody wants; 0 where it is
   another kind of object, or anything else is to be said of it: Python does that. */
static int look(tw_pyobject *a, struct tw_dltensor *t)
{
    tw_pyobject *wanted;
    if (!foreign.type || FIELD(tw_pyobject *, a, py.type) != foreign.type)
        return 0;
    wanted = foreign.get_attribute(a, foreign.requires_grad);
    if (wanted)
        py.decref(wanted);
    if (wanted != foreign.no) {
        if (!wanted)
            foreign.clear_error();
        return 0;
    }
    if (foreign.view(a, t)) {
        foreign.clear_error();
        return 0;
    }
    return t->device == 1 /* kDLCPU */ && t->data;
}

/* ---------------------------------------------------------------- workspaces */

/* Idle ones, under the GIL: a call takes one and gives it back, so there are as many as there are calls
   in flight, whatever the number of plans. A fork in the middle of a call loses one, no more. */
struct scratch {
    struct scratch *next;
    void *memory;
    size_t size;
};

static struct scratch *idle;

static struct scratch *scratch_take(size_t size)
{
    struct scratch **at, *s;
    for (at = &idle; *at; at = &(*at)->next) {
        if ((*at)->size >= size) {
            s = *at;
            *at = s->next;
            return s;
        }
    }
    s = idle;
    if (s)
        idle = s->next;
    else if (!(s = (struct scratch *)calloc(1, sizeof *s)))
        return NULL;
    if (s->memory)
        tw_free(s->memory, s->size);
    s->memory = tw_alloc(size);
    if (!s->memory) {
        free(s);
        return NULL;
    }
    s->size = size;
    return s;
}

static void scratch_give(struct scratch *s)
{
    s->next = idle;
    idle = s;
}

/* ---------------------------------------------------------------- plans */

struct tensor {
    long nd;
    const long long *shape;
    uintptr_t bytes;
    long type_num;
};

struct plan {
    struct tw_pymethod method;
    struct tw_call call; /* launches, zero_fill and env; tensors and workspace are a call's own */
    long inputs, outputs, release, total;
    long slots[TW_PYCALL_MAX_ARGS];  /* which tensor of the kernel each argument is, the outputs last */
    void *bound[TW_PYCALL_MAX_ARGS]; /* tensors given once; owned by keep */
    size_t workspace;
    uintptr_t misaligned; /* address bits that must be clear */
    unsigned long long *served;
    tw_pyobject *keep, *empty, *shapes, *dtypes, *fallback;
    tw_pyobject *capsule; /* the capsule around this plan; not owned */
    struct tensor *tensors;
};

static int fits_foreign(const struct plan *p, const struct tensor *t, tw_pyobject *a, void **data)
{
    struct tw_dltensor v;
    long long step = 1;
    long d;
    if (!look(a, &v) || v.nd != t->nd || dtype_of_foreign(&v) != t->type_num)
        return 0;
    for (d = t->nd - 1; d >= 0; d--) {
        if (v.shape[d] != t->shape[d] || (v.strides && v.shape[d] != 1 && v.strides[d] != step))
            return 0;
        step *= v.shape[d];
    }
    *data = (char *)v.data + v.offset;
    return !((uintptr_t)*data & (p->misaligned | (uintptr_t)(v.bits / 8 - 1)));
}

/* Whether an argument is what the plan asks for; *data is where it lies. */
static int fits(const struct plan *p, const struct tensor *t, tw_pyobject *a, long flags, void **data)
{
    const tw_ssize *shape;
    long d;
    if (!is_array(a))
        return fits_foreign(p, t, a, data);
    if ((FIELD(int, a, py.flags) & flags) != flags || FIELD(int, a, py.nd) != t->nd)
        return 0;
    shape = FIELD(tw_ssize *, a, py.dimensions);
    for (d = 0; d < t->nd; d++)
        if (shape[d] != t->shape[d])
            return 0;
    *data = data_of(a);
    return dtype_of(a) == t->type_num && !((uintptr_t)*data & p->misaligned);
}

/* The arrays of `out`: itself where there is one output, else those of a tuple. 0 where it is no such tuple. */
static int outs_of(const struct plan *p, tw_pyobject *out, tw_pyobject **outs)
{
    long i;
    if (p->outputs == 1) {
        outs[0] = out;
        return 1;
    }
    if (FIELD(tw_pyobject *, out, py.type) != py.tuple || py.tuple_size(out) != p->outputs)
        return 0;
    for (i = 0; i < p->outputs; i++)
        outs[i] = py.tuple_item(out, i);
    return 1;
}

/* A new `out`; NULL with an error set. */
static tw_pyobject *new_out(const struct plan *p, tw_pyobject *empty)
{
    tw_pyobject *outs[TW_PYCALL_MAX_ARGS], *out = NULL;
    long i, made;
    for (made = 0; made < p->outputs; made++) {
        tw_pyobject *how[2] = {py.tuple_item(p->shapes, made), py.tuple_item(p->dtypes, made)};
        outs[made] = py.vectorcall(empty, how, 2, NULL);
        if (!outs[made])
            break;
    }
    if (made == p->outputs)
        out = made == 1 ? outs[0] : py.tuple_new(made);
    for (i = 0; i < made && out != outs[0]; i++) {
        if (out)
            py.tuple_set(out, i, outs[i]);
        else
            py.decref(outs[i]);
    }
    return out;
}

/* Whether the arguments fit. If so *result is a new reference to the output, or the tuple of several, or NULL with
   an error set. */
static int plan_run(const struct plan *p, tw_pyobject *const *args, tw_pyobject *out, tw_pyobject **result)
{
    void *tensors[TW_PYCALL_MAX_ARGS];
    tw_pyobject *outs[TW_PYCALL_MAX_ARGS]; /* owned by out */
    const long dense = py.contiguous | py.aligned;
    const long n = p->inputs;
    struct tw_call call = p->call;
    struct scratch *scratch = NULL;
    long i, j;
    int code, lent = 0;

    *result = NULL;
    memcpy(tensors, p->bound, (size_t)p->total * sizeof *tensors);
    for (i = 0; i < n; i++) {
        if (!fits(p, &p->tensors[i], args[i], dense, &tensors[p->slots[i]]))
            return 0;
        lent |= !is_array(args[i]);
    }
    if (out && out != py.none) {
        py.incref(out);
    } else {
        out = new_out(p, lent ? foreign.empty : p->empty);
        if (!out)
            return 1;
        /* Python code may have run and changed the inputs. */
        for (i = 0; i < n; i++)
            if (!fits(p, &p->tensors[i], args[i], dense, &tensors[p->slots[i]]))
                goto misfit;
    }
    if (!outs_of(p, out, outs))
        goto misfit;
    for (i = n; i < n + p->outputs; i++) {
        uintptr_t low, high;
        if (!fits(p, &p->tensors[i], outs[i - n], dense | py.writeable, &tensors[p->slots[i]]))
            goto misfit;
        low = (uintptr_t)tensors[p->slots[i]];
        high = low + p->tensors[i].bytes;
        for (j = 0; j < i; j++) { /* inputs may overlap each other, an output nothing */
            uintptr_t start = (uintptr_t)tensors[p->slots[j]];
            if (start < high && low < start + p->tensors[j].bytes)
                goto misfit;
        }
    }
    call.tensors = tensors;
    if (p->workspace) {
        scratch = scratch_take(p->workspace);
        if (!scratch) {
            py.decref(out);
            py.set_error(py.memory_error, "no memory for a kernel's workspace");
            return 1;
        }
        call.workspace = scratch->memory;
    }
    ++*p->served;
    if (p->release) {
        /* Other threads may drop what this call uses, the plan itself included: hold it. */
        tw_pyobject *capsule = p->capsule;
        void *thread;
        for (i = 0; i < n; i++)
            py.incref(args[i]);
        py.incref(capsule);
        thread = py.save_thread();
        code = tw_run(&call);
        py.restore_thread(thread);
        for (i = 0; i < n; i++)
            py.decref(args[i]);
        py.decref(capsule);
    } else {
        code = tw_run(&call);
    }
    if (scratch)
        scratch_give(scratch);
    if (code) {
        py.decref(out);
        py.set_error(py.kernel_error, "a kernel reported failure; its output is not to be used");
        return 1;
    }
    *result = out;
    return 1;

misfit:
    py.decref(out);
    return 0;
}

static tw_pyobject *plan_call(tw_pyobject *self, tw_pyobject *const *args, tw_ssize nargs, tw_pyobject *kwnames)
{
    const struct plan *p = (const struct plan *)py.capsule_pointer(self, NULL);
    tw_pyobject *out = NULL, *result;
    tw_ssize keywords = kwnames ? py.tuple_size(kwnames) : 0;

    /* `out` comes after the inputs, by position or by name, and sits there either way. */
    if (nargs + keywords == p->inputs + 1 && nargs >= p->inputs &&
        (!keywords || py.tuple_item(kwnames, 0) == py.out_name))
        out = args[p->inputs];
    else if (nargs != p->inputs || keywords)
        return py.vectorcall(p->fallback, args, (size_t)nargs, kwnames);
    if (plan_run(p, args, out, &result))
        return result;
    return py.vectorcall(p->fallback, args, (size_t)nargs, kwnames);
}

static void plan_free(tw_pyobject *capsule)
{
    struct plan *p = (struct plan *)py.capsule_pointer(capsule, NULL);
    py.decref(p->keep);
    py.decref(p->empty);
    py.decref(p->shapes);
    py.decref(p->dtypes);
    py.decref(p->fallback);
    free(p);
}

/* Copies a text to *at, moves *at past it. */
static const char *put_text(char **at, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = (char *)memcpy(*at, text, size);
    *at += size;
    return copy;
}

static tw_pyobject *function_of(struct tw_pymethod *method, tw_pyobject *capsule, tw_pyobject *module)
{
    tw_pyobject *function = py.function_new(method, capsule, module);
    py.decref(capsule); /* the function owns it now, or nobody does */
    return function;
}

static tw_pyobject *no_memory(void)
{
    py.set_error(py.memory_error, "no memory for a plan");
    return NULL;
}

tw_pyobject *tw_pycall_plan(const struct tw_plan_desc *desc)
{
    const long count = desc->inputs + desc->outputs;
    size_t size = sizeof(struct plan) + (size_t)count * sizeof(struct tensor);
    struct plan *p;
    struct tw_launch *launches;
    long long *shape;
    char *texts;
    long i, given = 0;

    for (i = 0; i < desc->total; i++)
        given += !desc->bound[i];
    if (!ready || desc->inputs < 0 || desc->outputs < 1 || desc->total > TW_PYCALL_MAX_ARGS || given != count) {
        py.set_error(py.kernel_error, "a plan with more tensors than a call takes");
        return NULL;
    }
    size += (size_t)desc->launches * sizeof(struct tw_launch);
    for (i = 0; i < count; i++)
        size += (size_t)desc->tensors[i].nd * sizeof(long long);
    size += strlen(desc->name) + strlen(desc->doc) + 2;
    p = (struct plan *)calloc(1, size);
    if (!p)
        return no_memory();
    /* One block: the plan, its tensors, launches, shapes and texts, by falling alignment. */
    p->tensors = (struct tensor *)(p + 1);
    launches = (struct tw_launch *)(p->tensors + count);
    shape = (long long *)(launches + desc->launches);
    for (i = 0; i < count; i++) {
        const struct tw_tensor_desc *t = &desc->tensors[i];
        p->tensors[i].nd = t->nd;
        p->tensors[i].shape = shape;
        p->tensors[i].bytes = (uintptr_t)t->bytes;
        p->tensors[i].type_num = t->type_num;
        if (t->nd)
            memcpy(shape, t->shape, (size_t)t->nd * sizeof *shape);
        shape += t->nd;
    }
    memcpy(launches, desc->launch, (size_t)desc->launches * sizeof *launches);
    texts = (char *)shape;
    p->method.name = put_text(&texts, desc->name);
    p->method.doc = put_text(&texts, desc->doc);
    p->method.function = plan_call;
    p->method.flags = METHOD_FLAGS;
    p->call.launches = launches;
    p->call.count = desc->launches;
    p->call.zero_fill = (size_t)desc->zero_fill;
    p->call.env = desc->env;
    p->inputs = desc->inputs;
    p->outputs = desc->outputs;
    p->total = desc->total;
    for (i = given = 0; i < desc->total; i++) {
        p->bound[i] = desc->bound[i];
        if (!desc->bound[i])
            p->slots[given++] = i;
    }
    p->release = desc->release;
    p->workspace = (size_t)desc->workspace;
    p->misaligned = (uintptr_t)desc->align - 1;
    p->served = desc->served;
    p->keep = desc->keep;
    p->empty = desc->empty;
    p->shapes = desc->shapes;
    p->dtypes = desc->dtypes;
    p->fallback = desc->fallback;
    p->capsule = py.capsule_new(p, NULL, plan_free);
    if (!p->capsule) {
        free(p);
        return NULL;
    }
    py.incref(p->keep);
    py.incref(p->empty);
    py.incref(p->shapes);
    py.incref(p->dtypes);
    py.incref(p->fallback);
    return function_of(&p->method, p->capsule, desc->module);
}

/* ---------------------------------------------------------------- dispatchers */

/* What a call is looked up by: the number of positional and of keyword arguments; dtype, dimensions and
   shape of each positional array; the addresses of each keyword's name and value, `out` left out. Tensors of
   another framework are looked up as arrays of numpy, but for bfloat16, which numpy lacks. */
struct key {
    long size;
    int lent; /* whether another framework's are among them */
    uint64_t hash;
    long long words[KEY_WORDS];
};

struct entry {
    struct entry *next;
    uint64_t hash;
    const struct plan *plan; /* or NULL */
    tw_pyobject *callable;   /* the plan's capsule, or what receives the call */
    tw_pyobject *keep;       /* owns the objects whose addresses are in words */
    unsigned long long *served, *reason;
    long size;
    long long words[];
};

struct dispatcher {
    struct tw_pymethod method;
    tw_pyobject *miss;
    long entries;
    size_t mask; /* buckets - 1 */
    struct entry **buckets;
};

static int key_word(struct key *k, long long word)
{
    if (k->size == KEY_WORDS)
        return 0;
    k->words[k->size++] = word;
    k->hash = (k->hash ^ (uint64_t)word) * 0x9E3779B97F4A7C15u;
    k->hash ^= k->hash >> 29;
    return 1;
}

/* The key of a call, and its `out` when given by name. 0 when it has none. */
static int key_make(struct key *k, tw_pyobject *const *args, tw_ssize nargs, tw_ssize keywords,
                    tw_pyobject *kwnames, tw_pyobject **out)
{
    tw_ssize i;
    long d;
    *out = NULL;
    k->size = k->lent = 0;
    k->hash = 0;
    key_word(k, nargs);
    for (i = 0; i < nargs; i++) {
        tw_pyobject *a = args[i];
        const tw_ssize *shape;
        struct tw_dltensor t;
        long nd;
        if (!is_array(a)) {
            if (!look(a, &t) || !key_word(k, (dtype_of_foreign(&t) + (t.code == 4 ? 4096 : 0)) * 256 + t.nd))
                return 0;
            for (d = 0; d < t.nd; d++)
                if (!key_word(k, t.shape[d]))
                    return 0;
            k->lent = 1;
            continue;
        }
        nd = FIELD(int, a, py.nd);
        shape = FIELD(tw_ssize *, a, py.dimensions);
        if (!key_word(k, (long long)dtype_of(a) * 256 + nd))
            return 0;
        for (d = 0; d < nd; d++)
            if (!key_word(k, shape[d]))
                return 0;
    }
    for (i = 0; i < keywords; i++) {
        tw_pyobject *name = py.tuple_item(kwnames, i);
        if (name == py.out_name) {
            *out = args[nargs + i];
            continue;
        }
        if (!key_word(k, (long long)(intptr_t)name) || !key_word(k, (long long)(intptr_t)args[nargs + i]))
            return 0;
    }
    return 1;
}

static struct entry *table_find(const struct dispatcher *d, const struct key *k)
{
    struct entry *e = d->buckets[k->hash & d->mask];
    while (e && (e->hash != k->hash || e->size != k->size ||
                 memcmp(e->words, k->words, (size_t)k->size * sizeof *k->words) != 0))
        e = e->next;
    return e;
}

static tw_pyobject *dispatch_call(tw_pyobject *self, tw_pyobject *const *args, tw_ssize nargs,
                                  tw_pyobject *kwnames)
{
    const struct dispatcher *d = (const struct dispatcher *)py.capsule_pointer(self, NULL);
    const struct entry *e;
    struct key key;
    tw_pyobject *out, *result, *held;
    int fitted;

    if (!key_make(&key, args, nargs, kwnames ? py.tuple_size(kwnames) : 0, kwnames, &out) ||
        !(e = table_find(d, &key)))
        return py.vectorcall(d->miss, args, (size_t)nargs, kwnames);
    if (e->plan) {
        const struct plan *p = e->plan;
        if (nargs == p->inputs + 1 && !out)
            out = args[p->inputs];
        else if (nargs != p->inputs)
            return py.vectorcall(d->miss, args, (size_t)nargs, kwnames);
        /* The table may be cleared meanwhile: hold what the entry holds. */
        held = e->callable;
        py.incref(held);
        fitted = plan_run(p, args, out, &result);
        py.decref(held);
        if (fitted)
            return result;
        return py.vectorcall(d->miss, args, (size_t)nargs, kwnames);
    }
    if (key.lent) /* numpy's functions are for numpy's arrays */
        return py.vectorcall(d->miss, args, (size_t)nargs, kwnames);
    ++*e->served;
    ++*e->reason;
    held = e->callable;
    py.incref(held);
    result = py.vectorcall(held, args, (size_t)nargs, kwnames);
    py.decref(held);
    return result;
}

static void table_clear(struct dispatcher *d)
{
    struct entry *all = NULL, *e, *next;
    size_t i;
    /* Unlink first: dropping references can run Python code, which may call this dispatcher. */
    for (i = 0; i <= d->mask; i++) {
        for (e = d->buckets[i]; e; e = next) {
            next = e->next;
            e->next = all;
            all = e;
        }
        d->buckets[i] = NULL;
    }
    d->entries = 0;
    for (e = all; e; e = next) {
        next = e->next;
        py.decref(e->callable);
        py.decref(e->keep);
        free(e);
    }
}

static void dispatcher_free(tw_pyobject *capsule)
{
    struct dispatcher *d = (struct dispatcher *)py.capsule_pointer(capsule, NULL);
    table_clear(d);
    py.decref(d->miss);
    free(d->buckets);
    free(d);
}

tw_pyobject *tw_pycall_dispatcher(const char *name, const char *doc, tw_pyobject *module, tw_pyobject *miss)
{
    struct dispatcher *d = (struct dispatcher *)calloc(1, sizeof *d + strlen(name) + strlen(doc) + 2);
    char *texts;
    tw_pyobject *capsule;
    if (!d)
        return no_memory();
    texts = (char *)(d + 1);
    d->mask = 63;
    d->buckets = (struct entry **)calloc(d->mask + 1, sizeof *d->buckets);
    if (!d->buckets) {
        free(d);
        return no_memory();
    }
    d->method.name = put_text(&texts, name);
    d->method.doc = put_text(&texts, doc);
    d->method.function = dispatch_call;
    d->method.flags = METHOD_FLAGS;
    d->miss = miss;
    capsule = py.capsule_new(d, NULL, dispatcher_free);
    if (!capsule) {
        free(d->buckets);
        free(d);
        return NULL;
    }
    py.incref(miss);
    return function_of(&d->method, capsule, module);
}

static struct dispatcher *dispatcher_of(tw_pyobject *capsule)
{
    return (struct dispatcher *)py.capsule_pointer(capsule, NULL);
}

/* Doubles the table; a failure leaves it as it is, only slower. */
static void table_grow(struct dispatcher *d)
{
    size_t mask = 2 * d->mask + 1, i;
    struct entry **buckets = (struct entry **)calloc(mask + 1, sizeof *buckets);
    if (!buckets)
        return;
    for (i = 0; i <= d->mask; i++) {
        struct entry *e = d->buckets[i], *next;
        for (; e; e = next) {
            next = e->next;
            e->next = buckets[e->hash & mask];
            buckets[e->hash & mask] = e;
        }
    }
    free(d->buckets);
    d->buckets = buckets;
    d->mask = mask;
}

int tw_pycall_insert(tw_pyobject *dispatcher, tw_pyobject *args, tw_pyobject *kwnames, tw_pyobject *keep,
                     tw_pyobject *callable, long is_plan, unsigned long long *served, unsigned long long *reason)
{
    struct dispatcher *d = dispatcher_of(dispatcher);
    const struct plan *plan = is_plan ? (const struct plan *)py.capsule_pointer(callable, NULL) : NULL;
    tw_pyobject *flat[KEY_WORDS], *out;
    const tw_ssize total = py.tuple_size(args), keywords = py.tuple_size(kwnames);
    struct key key;
    struct entry *e;
    size_t words;
    tw_ssize i;

    if (total > KEY_WORDS)
        return 0;
    for (i = 0; i < total; i++)
        flat[i] = py.tuple_item(args, i);
    if (!key_make(&key, flat, total - keywords, keywords, kwnames, &out))
        return 0;
    e = table_find(d, &key);
    if (e) { /* another thread was faster, or the answer has changed */
        tw_pyobject *before = e->callable, *kept = e->keep;
        py.incref(callable);
        py.incref(keep);
        e->plan = plan;
        e->callable = callable;
        e->keep = keep;
        e->served = served;
        e->reason = reason;
        py.decref(before);
        py.decref(kept);
        return 1;
    }
    if (d->entries >= TABLE_LIMIT)
        table_clear(d);
    words = (size_t)key.size * sizeof *key.words;
    e = (struct entry *)calloc(1, sizeof *e + words);
    if (!e)
        return 0;
    memcpy(e->words, key.words, words);
    e->hash = key.hash;
    e->size = key.size;
    e->plan = plan;
    e->callable = callable;
    e->keep = keep;
    e->served = served;
    e->reason = reason;
    py.incref(e->callable);
    py.incref(e->keep);
    if ((size_t)d->entries > d->mask)
        table_grow(d);
    e->next = d->buckets[e->hash & d->mask];
    d->buckets[e->hash & d->mask] = e;
    d->entries++;
    return 1;
}

long tw_pycall_entries(tw_pyobject *dispatcher) { return dispatcher_of(dispatcher)->entries; }

void tw_pycall_clear(tw_pyobject *dispatcher) { table_clear(dispatcher_of(dispatcher)); }

/* ---------------------------------------------------------------- set-up */

int tw_pycall_version(void) { return TW_PYCALL_VERSION; }

long tw_pycall_sizes(long which)
{
    switch (which) {
    case 0: return (long)sizeof(struct tw_py_api);
    case 1: return (long)sizeof(struct tw_tensor_desc);
    case 2: return (long)sizeof(struct tw_plan_desc);
    default: return -1;
    }
}

void tw_pycall_foreign(const struct tw_py_foreign *framework) { foreign = *framework; }

void tw_pycall_setup(const struct tw_py_api *api)
{
    py = *api;
    ready = 1;
}

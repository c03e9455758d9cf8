/* Calls from Python into kernels: see pycall.h.

   A plan is a builtin function whose self is a capsule around its description. A call checks every
   argument against it (exact type, dtype, shape, density, alignment, writability, overlap), which takes
   some tens of nanoseconds, and anything unusual goes to Python, unchanged. */
#include "key.h"
#include "pycall.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define METHOD_FLAGS (0x0080 | 0x0002) /* METH_FASTCALL | METH_KEYWORDS */
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

struct plan {
    struct tw_pymethod method;
    struct tw_plan_desc is; /* tensors and launches lie behind this struct */
    long slots[TW_PYCALL_MAX_ARGS];  /* which tensor of the kernel each argument is, the outputs last */
    void *bound[TW_PYCALL_MAX_ARGS]; /* tensors given once; owned by keep */
    tw_pyobject *capsule;            /* the capsule around this plan; not owned */
};

/* Whether an address is none at which the kernel takes a tensor. */
static int misaligned(const struct plan *p, const void *address)
{
    return ((uintptr_t)address & ((uintptr_t)p->is.kernel.align - 1)) != 0;
}

static int fits_foreign(const struct plan *p, const struct tw_tensor_desc *t, tw_pyobject *a, void **data)
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
    return !misaligned(p, *data) && !((uintptr_t)*data & (uintptr_t)(v.bits / 8 - 1));
}

/* Whether an argument is what the plan asks for; *data is where it lies. */
static int fits(const struct plan *p, const struct tw_tensor_desc *t, tw_pyobject *a, long flags, void **data)
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
    return dtype_of(a) == t->type_num && !misaligned(p, *data);
}

/* Output n of a call's result. */
static tw_pyobject *output_of(const struct plan *p, tw_pyobject *out, long n)
{
    return p->is.outputs == 1 ? out : py.tuple_item(out, n);
}

static tw_pyobject *make_output(const struct plan *p, tw_pyobject *empty, long n)
{
    tw_pyobject *how[2] = {py.tuple_item(p->is.shapes, n), py.tuple_item(p->is.dtypes, n)};
    return py.vectorcall(empty, how, 2, NULL);
}

/* A new result: an array or tensor, or a tuple of them; NULL with an error set. */
static tw_pyobject *make_outputs(const struct plan *p, tw_pyobject *empty)
{
    tw_pyobject *made, *one;
    long n;
    if (p->is.outputs == 1)
        return make_output(p, empty, 0);
    made = py.tuple_new(p->is.outputs);
    for (n = 0; made && n < p->is.outputs; n++) {
        one = make_output(p, empty, n);
        if (!one) {
            py.decref(made);
            return NULL;
        }
        py.tuple_set(made, n, one);
    }
    return made;
}

/* Whether a call's tensor n shares memory with one of those before it. */
static int shares(const struct plan *p, void *const *tensors, long n)
{
    const uintptr_t low = (uintptr_t)tensors[p->slots[n]], high = low + (uintptr_t)p->is.tensors[n].bytes;
    long i;
    for (i = 0; i < n; i++) {
        uintptr_t start = (uintptr_t)tensors[p->slots[i]];
        if (start < high && low < start + (uintptr_t)p->is.tensors[i].bytes)
            return 1;
    }
    return 0;
}

/* Whether the arguments fit. If so *result is a new reference to the result, or NULL with an error set. */
static int plan_run(const struct plan *p, tw_pyobject *const *args, tw_pyobject *out, tw_pyobject **result)
{
    void *tensors[TW_PYCALL_MAX_ARGS];
    const long dense = py.contiguous | py.aligned;
    const struct tw_tensor_desc *const asked = p->is.tensors;
    const long n = p->is.inputs, outputs = p->is.outputs;
    struct scratch *scratch = NULL;
    void *workspace = NULL;
    long i;
    int code, lent = 0;

    *result = NULL;
    memcpy(tensors, p->bound, (size_t)p->is.total * sizeof *tensors);
    for (i = 0; i < n; i++) {
        if (!fits(p, &asked[i], args[i], dense, &tensors[p->slots[i]]))
            return 0;
        lent |= !is_array(args[i]);
    }
    if (out && out != py.none) {
        if (outputs > 1 && (FIELD(tw_pyobject *, out, py.type) != py.tuple || py.tuple_size(out) != outputs))
            return 0;
        py.incref(out);
    } else {
        out = make_outputs(p, lent ? foreign.empty : p->is.empty);
        if (!out)
            return 1;
        /* Python code may have run and changed the inputs. */
        for (i = 0; i < n; i++)
            if (!fits(p, &asked[i], args[i], dense, &tensors[p->slots[i]]))
                goto misfit;
    }
    for (i = n; i < n + outputs; i++)
        if (!fits(p, &asked[i], output_of(p, out, i - n), dense | py.writeable, &tensors[p->slots[i]]) ||
            shares(p, tensors, i))
            goto misfit;
    if (p->is.kernel.workspace) {
        scratch = scratch_take((size_t)p->is.kernel.workspace);
        if (!scratch) {
            py.decref(out);
            py.set_error(py.memory_error, "no memory for a kernel's workspace");
            return 1;
        }
        workspace = scratch->memory;
    }
    ++*p->is.kernel.served;
    if (p->is.kernel.release) {
        /* Other threads may drop what this call uses, the plan itself included: hold it. */
        tw_pyobject *capsule = p->capsule;
        void *thread;
        for (i = 0; i < n; i++)
            py.incref(args[i]);
        py.incref(capsule);
        thread = py.save_thread();
        code = tw_run_loaded(&p->is.kernel, tensors, workspace);
        py.restore_thread(thread);
        for (i = 0; i < n; i++)
            py.decref(args[i]);
        py.decref(capsule);
    } else {
        code = tw_run_loaded(&p->is.kernel, tensors, workspace);
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
    const int given = nargs + keywords == p->is.inputs + 1 && nargs >= p->is.inputs &&
                      (!keywords || py.tuple_item(kwnames, 0) == py.out_name);
    if (given)
        out = args[p->is.inputs];
    if ((given || (nargs == p->is.inputs && !keywords)) && plan_run(p, args, out, &result))
        return result;
    return py.vectorcall(p->is.fallback, args, (size_t)nargs, kwnames);
}

/* Takes, or gives up, what a plan owns. */
static void plan_owns(const struct plan *p, void (*change)(tw_pyobject *))
{
    change(p->is.keep);
    change(p->is.empty);
    change(p->is.shapes);
    change(p->is.dtypes);
    change(p->is.fallback);
}

static void plan_free(tw_pyobject *capsule)
{
    struct plan *p = (struct plan *)py.capsule_pointer(capsule, NULL);
    plan_owns(p, py.decref);
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
    const size_t launches = (size_t)desc->kernel.launches * sizeof(struct tw_launch);
    size_t size = sizeof(struct plan) + (size_t)count * sizeof(struct tw_tensor_desc) + launches;
    struct plan *p;
    struct tw_tensor_desc *tensors;
    long long *shape;
    char *texts;
    long i, given = 0;

    for (i = 0; i < desc->total; i++)
        given += !desc->bound[i];
    if (!ready || desc->inputs < 0 || desc->outputs < 1 || desc->total > TW_PYCALL_MAX_ARGS || given != count) {
        py.set_error(py.kernel_error, "a plan with more tensors than a call takes");
        return NULL;
    }
    for (i = 0; i < count; i++)
        size += (size_t)desc->tensors[i].nd * sizeof(long long);
    size += strlen(desc->name) + strlen(desc->doc) + 2;
    p = (struct plan *)calloc(1, size);
    if (!p)
        return no_memory();
    /* One block: the plan, its tensors, launches, shapes and texts, by falling alignment. */
    p->is = *desc;
    p->is.tensors = tensors = memcpy(p + 1, desc->tensors, (size_t)count * sizeof *tensors);
    p->is.kernel.launch = memcpy(tensors + count, desc->kernel.launch, launches);
    shape = (long long *)((char *)(tensors + count) + launches);
    for (i = 0; i < count; i++) {
        if (tensors[i].nd)
            memcpy(shape, tensors[i].shape, (size_t)tensors[i].nd * sizeof *shape);
        tensors[i].shape = shape;
        shape += tensors[i].nd;
    }
    texts = (char *)shape;
    p->method.name = put_text(&texts, desc->name);
    p->method.doc = put_text(&texts, desc->doc);
    p->method.function = plan_call;
    p->method.flags = METHOD_FLAGS;
    for (i = given = 0; i < desc->total; i++) {
        p->bound[i] = desc->bound[i];
        if (!desc->bound[i])
            p->slots[given++] = i;
    }
    p->capsule = py.capsule_new(p, NULL, plan_free);
    if (!p->capsule) {
        free(p);
        return NULL;
    }
    plan_owns(p, py.incref);
    return function_of(&p->method, p->capsule, desc->module);
}

/* ---------------------------------------------------------------- dispatchers */

/* What a call is looked up by: the number of positional and of keyword arguments; dtype, dimensions and
   shape of each positional array; the addresses of each keyword's name and value, `out` left out. Tensors of
   another framework are looked up as arrays of numpy, but for bfloat16, which numpy lacks. */
struct call {
    struct tw_key key;
    int lent; /* whether another framework's arrays are among the arguments */
    tw_pyobject *out; /* given by name, or NULL */
};

struct answer {
    const struct plan *plan; /* or NULL */
    tw_pyobject *callable;   /* the plan's capsule, or what receives the call */
    tw_pyobject *keep;       /* owns the objects whose addresses are in the key */
    unsigned long long *served, *reason;
};

struct entry {
    struct entry *next;
    unsigned long long hash;
    struct answer is;
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

/* What is looked up of a call. 0 where it has no place in a table. */
static int call_read(struct call *c, tw_pyobject *const *args, tw_ssize nargs, tw_ssize keywords, tw_pyobject *kwnames)
{
    tw_ssize i;
    long d, nd, dtype;
    const tw_ssize *shape;
    struct tw_dltensor t;
    c->out = NULL;
    c->lent = 0;
    tw_key_start(&c->key, nargs);
    for (i = 0; i < nargs; i++) {
        if (is_array(args[i])) {
            nd = FIELD(int, args[i], py.nd);
            shape = FIELD(tw_ssize *, args[i], py.dimensions);
            dtype = dtype_of(args[i]);
        } else if (look(args[i], &t)) {
            nd = t.nd;
            shape = t.shape;
            dtype = dtype_of_foreign(&t) + (t.code == 4 ? 4096 : 0);
            c->lent = 1;
        } else {
            return 0;
        }
        if (!tw_key_add(&c->key, dtype * 256 + nd))
            return 0;
        for (d = 0; d < nd; d++)
            if (!tw_key_add(&c->key, shape[d]))
                return 0;
    }
    for (i = 0; i < keywords; i++) {
        tw_pyobject *name = py.tuple_item(kwnames, i), *value = args[nargs + i];
        if (name == py.out_name)
            c->out = value;
        else if (!tw_key_add(&c->key, (intptr_t)name) || !tw_key_add(&c->key, (intptr_t)value))
            return 0;
    }
    return 1;
}

static struct entry *table_find(const struct dispatcher *d, const struct tw_key *k)
{
    struct entry *e = d->buckets[k->hash & d->mask];
    while (e && !(e->hash == k->hash && tw_key_is(k, e->words, e->size)))
        e = e->next;
    return e;
}

static tw_pyobject *dispatch_call(tw_pyobject *self, tw_pyobject *const *args, tw_ssize nargs,
                                  tw_pyobject *kwnames)
{
    const struct dispatcher *d = (const struct dispatcher *)py.capsule_pointer(self, NULL);
    const struct entry *e;
    struct answer a;
    struct call c;
    tw_pyobject *result = NULL;
    int answered = 0;

    if (!call_read(&c, args, nargs, kwnames ? py.tuple_size(kwnames) : 0, kwnames) || !(e = table_find(d, &c.key)))
        return py.vectorcall(d->miss, args, (size_t)nargs, kwnames);
    a = e->is;
    py.incref(a.callable); /* the table may be cleared meanwhile: hold what the entry holds */
    if (a.plan) {
        const long inputs = a.plan->is.inputs;
        if (nargs == inputs + 1 && !c.out)
            answered = plan_run(a.plan, args, args[inputs], &result);
        else if (nargs == inputs)
            answered = plan_run(a.plan, args, c.out, &result);
    } else if (!c.lent) { /* numpy's functions are for numpy's arrays */
        ++*a.served;
        ++*a.reason;
        result = py.vectorcall(a.callable, args, (size_t)nargs, kwnames);
        answered = 1;
    }
    py.decref(a.callable);
    return answered ? result : py.vectorcall(d->miss, args, (size_t)nargs, kwnames);
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
        py.decref(e->is.callable);
        py.decref(e->is.keep);
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
    const struct answer made = {plan, callable, keep, served, reason};
    struct answer before = {NULL};
    tw_pyobject *flat[TW_KEY_WORDS];
    const tw_ssize total = py.tuple_size(args), keywords = py.tuple_size(kwnames);
    struct call c;
    struct entry *e;
    size_t words;
    tw_ssize i;

    if (total > TW_KEY_WORDS)
        return 0;
    for (i = 0; i < total; i++)
        flat[i] = py.tuple_item(args, i);
    if (!call_read(&c, flat, total - keywords, keywords, kwnames))
        return 0;
    e = table_find(d, &c.key);
    if (e) { /* another thread was faster, or the answer has changed */
        before = e->is;
    } else {
        if (d->entries >= TABLE_LIMIT)
            table_clear(d);
        words = (size_t)c.key.size * sizeof *c.key.words;
        e = (struct entry *)calloc(1, sizeof *e + words);
        if (!e)
            return 0;
        memcpy(e->words, c.key.words, words);
        e->hash = c.key.hash;
        e->size = c.key.size;
        if ((size_t)d->entries > d->mask)
            table_grow(d);
        e->next = d->buckets[e->hash & d->mask];
        d->buckets[e->hash & d->mask] = e;
        d->entries++;
    }
    e->is = made;
    py.incref(callable);
    py.incref(keep);
    if (before.callable) {
        py.decref(before.callable);
        py.decref(before.keep);
    }
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

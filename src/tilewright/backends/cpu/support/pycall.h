/* Calls from Python into kernels, at the cost of a C function: layouts shared with runtime/pycall.py.

   Compiled without Python's or numpy's headers, so that one object serves every Python: the runtime
   hands over the interpreter's functions by address and the places, in an ndarray, of the fields that
   are read, both taken from the running interpreter (tw_py_api). Everything here runs with the GIL
   held unless it says otherwise. A change of these structures changes TW_PYCALL_VERSION. */
#ifndef TW_PYCALL_H
#define TW_PYCALL_H

#include "tw.h"

#define TW_PYCALL_VERSION 3
#define TW_PYCALL_MAX_ARGS 16  /* tensors of one call, the outputs included */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tw_pyobject tw_pyobject; /* PyObject, never looked into but at api offsets */
typedef ptrdiff_t tw_ssize;
typedef tw_pyobject *(*tw_pyfunction)(tw_pyobject *self, tw_pyobject *const *args, tw_ssize nargs,
                                      tw_pyobject *kwnames);

struct tw_pymethod { /* PyMethodDef */
    const char *name;
    tw_pyfunction function;
    int flags;
    const char *doc;
};

struct tw_py_api {
    void (*incref)(tw_pyobject *);
    void (*decref)(tw_pyobject *);
    tw_pyobject *(*vectorcall)(tw_pyobject *, tw_pyobject *const *, size_t, tw_pyobject *);
    tw_ssize (*tuple_size)(tw_pyobject *);
    tw_pyobject *(*tuple_item)(tw_pyobject *, tw_ssize);
    tw_pyobject *(*tuple_new)(tw_ssize);
    int (*tuple_set)(tw_pyobject *, tw_ssize, tw_pyobject *); /* takes the reference */
    void (*set_error)(tw_pyobject *, const char *);
    void *(*save_thread)(void);
    void (*restore_thread)(void *);
    tw_pyobject *(*capsule_new)(void *, const char *, void (*)(tw_pyobject *));
    void *(*capsule_pointer)(tw_pyobject *, const char *);
    tw_pyobject *(*function_new)(struct tw_pymethod *, tw_pyobject *self, tw_pyobject *module);
    tw_pyobject *none;
    tw_pyobject *ndarray;      /* numpy.ndarray */
    tw_pyobject *tuple;        /* the type */
    tw_pyobject *out_name;     /* the interned string "out" */
    tw_pyobject *kernel_error; /* raised when a kernel reports failure */
    tw_pyobject *memory_error;
    /* byte offsets in an object, in an ndarray, in a dtype */
    long type, data, nd, dimensions, descr, flags, type_num, byteorder;
    long contiguous, aligned, writeable; /* bits of an ndarray's flags */
};

/* What DLPack says of a tensor (DLTensor, version 1). */
struct tw_dltensor {
    void *data;
    int device, device_id;
    int nd;
    unsigned char code, bits;
    unsigned short lanes;
    const tw_ssize *shape, *strides; /* in elements; no strides: dense */
    unsigned long long offset;        /* bytes */
};

/* A framework whose tensors are taken as they are, by DLPack's exchange API (1.2). Its objects live for good. */
struct tw_py_foreign {
    tw_pyobject *type; /* of its tensors; no subclass */
    int (*view)(tw_pyobject *, struct tw_dltensor *);
    tw_pyobject *(*get_attribute)(tw_pyobject *, tw_pyobject *);
    void (*clear_error)(void);
    tw_pyobject *requires_grad; /* the interned name */
    tw_pyobject *no;            /* False */
    tw_pyobject *empty;         /* (shape, numpy's dtype) -> a new tensor; uint16 stands for bfloat16 */
};

struct tw_tensor_desc {
    long nd;
    const long long *shape;
    long long bytes;
    long type_num; /* numpy's number of the dtype; native byte order is required */
};

struct tw_plan_desc {
    const char *name, *doc;
    long inputs, outputs;                 /* that a call gives and gets; they follow each other in tensors */
    const struct tw_tensor_desc *tensors;
    long total;                           /* tensors of the kernel, the outputs included */
    void *const *bound;                   /* of each: where it lies, or NULL for what a call gives, in order */
    struct tw_loaded kernel;
    tw_pyobject *module;                  /* str */
    tw_pyobject *keep;                    /* whatever owns the kernel's code, its launches' args, env and served */
    tw_pyobject *empty, *shapes, *dtypes; /* a new output is empty(shape, dtype), of tuples of them */
    tw_pyobject *fallback;                /* receives every call that does not fit, unchanged */
};

/* Version of this interface; sizes of the three structures above, to compare with the caller's. */
TW_API int tw_pycall_version(void);
TW_API long tw_pycall_sizes(long which);

/* Hand over the interpreter; to be called once, before anything below. */
TW_API void tw_pycall_setup(const struct tw_py_api *);

/* A builtin `name(inputs..., out=None)` that runs the kernel; several outputs are a tuple. New reference; NULL with an
   error set. */
TW_API tw_pyobject *tw_pycall_plan(const struct tw_plan_desc *);

/* A builtin that looks its positional arrays' dtypes and shapes, and its keyword arguments by
   identity, up in a table, and passes what is not there to `miss`, unchanged. */
TW_API tw_pyobject *tw_pycall_dispatcher(const char *name, const char *doc, tw_pyobject *module,
                                         tw_pyobject *miss);

/* Add to a dispatcher's table; `dispatcher` is its self. `args` is the tuple of positional arguments
   followed by the keyword arguments' values, `kwnames` the tuple of their names; `keep` owns names and
   values. `callable` is the self of a plan made above (is_plan), or any callable, which then receives
   such calls unchanged, counted in `served` and `reason`. Returns 1 when added, 0 when these arguments
   have no place in a table. */
TW_API int tw_pycall_insert(tw_pyobject *dispatcher, tw_pyobject *args, tw_pyobject *kwnames, tw_pyobject *keep,
                            tw_pyobject *callable, long is_plan, unsigned long long *served,
                            unsigned long long *reason);

/* Entries in a dispatcher's table, and forgetting them all. */
TW_API long tw_pycall_entries(tw_pyobject *dispatcher);
TW_API void tw_pycall_clear(tw_pyobject *dispatcher);

TW_API void tw_pycall_foreign(const struct tw_py_foreign *framework);

#ifdef __cplusplus
}
#endif
#endif

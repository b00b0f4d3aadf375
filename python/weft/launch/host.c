/* Host code that queues prepared launches, describes PyTorch's tensors, and answers XLA's calls.

   Python fills the structures, whose fields have 64 bits, and keeps them. A call changes none of them except the lane
   and the counter of a sequence, so that any number of threads may use them. `host_in_python.py` replaces this file
   where the package was installed without a C compiler. */

#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>
#ifdef _WIN32
#include <malloc.h>
#define alloca _alloca
#else
#include <alloca.h>
#endif

typedef uint64_t word;
/* CUlaunchConfig */
typedef struct { uint32_t dimensions[6], shared_bytes; word stream; void *attributes; word count; } Config;

/* Functions of the CUDA driver, in the order of `host.DRIVER`. */
static struct {
    int (*current)(word *context);
    int (*push)(word context);
    int (*pop)(word *context);
    int (*capture)(word stream, int *state, word *graph, void *, void *, void *);
    int (*id)(word stream, word *id);
    int (*launch)(const Config *, word function, void **parameters, void **extra);
    int (*copy)(word to, word from, word bytes, word stream);
    int (*set)(word to, uint32_t value, word count, word stream);
    int (*record)(word event, word stream);
    int (*wait)(word stream, word event, uint32_t flags);
} driver;

/* Queues a plan or a sequence, whose first field is its context. Returns the driver's status, or one of these. */
typedef int Queue(const void *plan, const word *given, word stream);
enum { NO_WORKSPACE = -1, MISCOUNTED = -2, OVERLAP = -3 };

static int in_context(Queue *queue, const void *plan, const word *given, word stream) {
    word context = *(const word *)plan, current = 0;
    int status = driver.current(&current);
    if (status || current == context)
        return status ? status : queue(plan, given, stream);
    if ((status = driver.push(context)))
        return status;
    status = queue(plan, given, stream);
    driver.pop(&current);
    return status;
}

/* Launches. */

typedef struct Space { struct Space *next; word id, graph, addresses[]; } Space; /* of a stream, or of it in a graph */
typedef struct { word byte, address, distance; } Patch; /* a byte of the block, where an address plus distance is put */
typedef struct { word bytes, in_place; } Extent;        /* of an array; whether it may be the one that is written */
typedef struct {
    word context, function;
    const Config *config;
    const char *block; /* the parameters, each at a multiple of 64 bytes: `offsets` */
    word bytes;
    const word *offsets;
    word parameters;
    const Patch *patches;
    word patched;
    word given;  /* addresses that the caller passes; those of workspaces are numbered after them */
    word spaced; /* workspaces of each stream */
    Space *volatile spaces;
    const Extent *extents;
    word written; /* the number of the array that is written */
} Plan;

static int find_space(const Plan *plan, word stream, const word **addresses) {
    int capturing = 0, status;
    word graph = 0, id = stream; /* a captured stream doesn't tell its id, but has a handle of its own */
    if ((status = driver.capture(stream, &capturing, &graph, NULL, NULL, NULL)))
        return status;
    if (capturing != 1) {
        graph = 0;
        if ((status = driver.id(stream, &id)))
            return status;
    }
    for (const Space *space = plan->spaces; space; space = space->next)
        if (space->id == id && space->graph == graph) {
            *addresses = space->addresses;
            return 0;
        }
    return NO_WORKSPACE;
}

static int queue_here(const void *of, const word *given, word stream) {
    const Plan *plan = of;
    const word *spaces = NULL;
    int status = plan->spaced ? find_space(plan, stream, &spaces) : 0;
    if (status)
        return status;
    char *block = alloca(plan->bytes + 64);
    block += -(uintptr_t)block % 64; /* as tensor maps must lie */
    memcpy(block, plan->block, plan->bytes);
    for (const Patch *patch = plan->patches; patch < plan->patches + plan->patched; patch++) {
        word number = patch->address, ours = plan->given;
        word address = (number < ours ? given[number] : spaces[number - ours]) + patch->distance;
        memcpy(block + patch->byte, &address, sizeof address);
    }
    void **parameters = alloca((plan->parameters + 1) * sizeof(void *));
    for (word i = 0; i < plan->parameters; i++)
        parameters[i] = block + plan->offsets[i];
    Config config = *plan->config;
    config.stream = stream;
    return driver.launch(&config, plan->function, parameters, NULL);
}

static int launch(const void *plan, const word *given, word stream) {
    return in_context(queue_here, plan, given, stream);
}

/* Whether the written array and another may overlap, by their first and last bytes. */
static int overlaps(const Plan *plan, const word *given) {
    word start = given[plan->written], end = start + plan->extents[plan->written].bytes;
    for (word i = 0; i < plan->given; i++) {
        Extent extent = plan->extents[i];
        if (given[i] < end && start < given[i] + extent.bytes && !(extent.in_place && given[i] == start))
            return 1;
    }
    return 0;
}

/* Sequences of launches, copies and events. A place is the number of one of the caller's addresses and a byte from
   there on, or -1 and an address. Streams are 0, the caller's, and 1, the GPU's other one. */

typedef struct {
    PyThread_type_lock lock; /* of the thread that queues a sequence on this GPU */
    word last;               /* the stream of the sequence before, or 0 */
    word ended;              /* the event of its end */
    word other;              /* the other stream */
    word events[2];
} Lane;
typedef struct {
    word context;
    Lane *lane;
    word *calls;          /* how many there were, or NULL */
    const word *steps[2]; /* of calls with an even number, and of all without one; of those with an odd number */
    word most;            /* addresses of a launch */
} Sequence;
enum { END, LAUNCH, COPY, SET, RECORD, WAIT }; /* what the words of a step begin with */

static word place(const word *words, const word *given) {
    return (int64_t)*words < 0 ? words[1] : given[*words] + words[1];
}

static int queue_steps(const Sequence *sequence, const word *given, word stream) {
    Lane *lane = sequence->lane;
    word streams[2] = {stream, lane->other}, *addresses = alloca(sequence->most * sizeof(word));
    word call = sequence->calls ? ++*sequence->calls : 0;
    const word *step = sequence->steps[call % 2];
    for (int status = 0;;) {
        switch (*step) {
        case LAUNCH: /* a plan, how many addresses, their places */
            for (word i = 0; i < step[2]; i++)
                addresses[i] = place(step + 3 + 2 * i, given);
            status = launch((const void *)step[1], addresses, stream);
            step += 3 + 2 * step[2];
            break;
        case COPY: /* a stream, where to, from where, bytes */
            status = driver.copy(place(step + 2, given), place(step + 4, given), step[6], streams[step[1]]);
            step += 7;
            break;
        case SET: /* the place of the number of the call */
            status = driver.set(place(step + 1, given), (uint32_t)call, 1, stream);
            step += 3;
            break;
        case RECORD: /* a stream, whose event is recorded */
            status = driver.record(lane->events[step[1]], streams[step[1]]);
            step += 2;
            break;
        case WAIT: /* a stream, and the one whose event it waits for */
            status = driver.wait(streams[step[1]], lane->events[step[2]], 0);
            step += 3;
            break;
        default:
            return 0;
        }
        if (status)
            return status;
    }
}

/* Sequences of a GPU are queued one at a time, and follow each other on all streams. */
static int queue_alone(const void *of, const word *given, word stream) {
    const Sequence *sequence = of;
    Lane *lane = sequence->lane;
    int status = 0;
    PyThread_acquire_lock(lane->lock, WAIT_LOCK);
    if (lane->last && lane->last != stream)
        status = driver.wait(stream, lane->ended, 0);
    if (!status && !(status = queue_steps(sequence, given, stream))) {
        lane->last = stream;
        status = driver.record(lane->ended, stream);
    }
    PyThread_release_lock(lane->lock);
    return status;
}

static int run_sequence(const void *sequence, const word *given, word stream) {
    return in_context(queue_alone, sequence, given, stream);
}

/* PyTorch's tensors. DLPack's exchange table gives a tensor's memory without a Python call; only what it leaves out
   is asked for in Python's way. */

typedef struct {
    char *data;
    int32_t device_type, device, dimensions;
    uint8_t code, bits;
    uint16_t lanes;
    const int64_t *shape, *strides;
    word offset;
} DLTensor;

static struct {
    int (*from_object)(PyObject *, DLTensor *);
    PyObject *tensor, *parameter, *int8, *uint8; /* classes and types of elements */
    PyObject *requires_grad, *is_neg, *dtype, *storage_offset;
} torch;
enum { MOST_DIMENSIONS = 7 };
/* Tensors without memory (freed storage, zeros that were never made) begin at their offset. Most memory is above any
   offset. The heap of some Python programs and CUDA's memory pools are not: there, the offset itself is asked for. */
static const word LEAST_ADDRESS = 1ull << 40;

/* An attribute of an object that keeps it, or NULL. */
static PyObject *attribute(PyObject *object, PyObject *name) {
    PyObject *value = PyObject_GetAttr(object, name);
    Py_XDECREF(value);
    return value;
}

/* Writes the words and the address of a tensor; returns how many words, or 0 for what isn't described so. */
static word describe_one(PyObject *object, word *words, word *address) {
    DLTensor tensor;
    PyObject *kind = (PyObject *)Py_TYPE(object), *value;
    if ((kind != torch.tensor && kind != torch.parameter) || torch.from_object(object, &tensor))
        return 0;
    if (tensor.dimensions > MOST_DIMENSIONS || !(value = attribute(object, torch.requires_grad)))
        return 0;
    word requires_grad = value == Py_True;
    if (tensor.code == 2) { /* only parts of complex numbers are negated lazily: bf16, fp8 and integers never are */
        value = PyObject_CallMethodObjArgs(object, torch.is_neg, NULL);
        Py_XDECREF(value);
        if (!value || value == Py_True)
            return 0;
    } else if (tensor.code < 2 && tensor.bits == 8) { /* PyTorch exports integers of 1 to 7 bits as if they had 8 */
        value = attribute(object, torch.dtype);
        if (!value || (value != torch.int8 && value != torch.uint8))
            return 0;
    }
    *address = (word)tensor.data + tensor.offset;
    if (*address < LEAST_ADDRESS) {
        if (!(value = PyObject_CallMethodObjArgs(object, torch.storage_offset, NULL)))
            return 0;
        word elements = PyLong_AsUnsignedLongLong(value);
        Py_DECREF(value);
        if (*address == elements * (tensor.bits * tensor.lanes / 8))
            return 0;
    }
    word type = tensor.code | tensor.bits << 8 | (word)tensor.lanes << 16;
    words[0] = type << 32 | (tensor.dimensions + 1); /* 0 is None */
    words[1] = (word)tensor.device_type | (word)tensor.device << 8 | (*address & 31) << 48 | requires_grad << 56;
    for (int i = 0; i < tensor.dimensions; i++) {
        words[2 + 2 * i] = tensor.shape[i];
        words[3 + 2 * i] = tensor.strides[i];
    }
    return 2 + 2 * tensor.dimensions;
}

/* describe(a, b, out, *more), of tensors or None. Returns (key, *addresses), where `out` has an address of 0 for None,
   and others of None have none; or None for what isn't a plain tensor of at most seven dimensions with memory. */
static PyObject *describe(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    word *words = alloca(count * (2 + 2 * MOST_DIMENSIONS) * sizeof(word)), *end = words;
    word *addresses = alloca(count * sizeof(word)), told = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (args[i] == Py_None) {
            *end++ = 0;
            if (i == 2)
                addresses[told++] = 0;
            continue;
        }
        word width = describe_one(args[i], end, addresses + told++);
        if (!width) {
            PyErr_Clear();
            Py_RETURN_NONE;
        }
        end += width;
    }
    PyObject *result = PyTuple_New(told + 1);
    PyTuple_SetItem(result, 0, PyBytes_FromStringAndSize((const char *)words, (char *)end - (char *)words));
    for (word i = 0; i < told; i++)
        PyTuple_SetItem(result, i + 1, PyLong_FromUnsignedLongLong(addresses[i]));
    return result;
}

/* XLA's calls (xla/ffi/api/c_api.h). The operands of a product are A, B and what else the kernel reads; there is one
   result. The attributes, in the order of their names, are `key`, an integer that stands for a product, and `product`,
   the text that describes it. Other kernels and products over several GPUs have a third one, `results`, and any number
   of results, whose addresses follow those of all operands. On a GPU, a table has the launch or the sequence, by key
   and GPU; Python is asked only where it has none. */

typedef struct { word size; void *extension; word count; void *types; void **items; } Buffers;
typedef struct { word size; void *extension; int type; word address; } Buffer;
typedef struct {
    word size;
    struct { word size; int kind; void *next; struct Metadata *metadata; } *extension;
    char *api;
    void *context;
    int stage;
    Buffers operands, results;
    struct { word size; void *extension; word count; void *types, *names; void **values; } attributes;
} Frame;
struct Metadata { word size, version_size; void *extension; int major, minor, traits; };
enum { INITIALIZE = 2, EXECUTE = 3 };                                  /* stages */
enum { ERROR_CREATE = 48, STREAM_GET = 80, DEVICE_ORDINAL_GET = 184 }; /* bytes of XLA's API */

typedef struct Entry { struct Entry *next; word key, gpu, result; const void *plan; word spaced; } Entry;
enum { BUCKETS = 1024 };
typedef struct { /* `_Request` of xla_target.py */
    word what, key, gpu;
    const char *text;
    word length, stream, *addresses, count;
    int64_t status;
    word reply; /* 1, or the address of a message; 0 where Python raises an exception */
} Request;
enum { PREPARE, PREPARE_CAPTURED, SETTLE, EMULATE }; /* what Python is asked */

static Entry *volatile *table;
static void (*python)(Request *); /* NULL if Python ends */
static word running;              /* threads that ask Python */
static PyThread_type_lock asking; /* of both */

static void *call_xla(const Frame *frame, int function, void *arguments) {
    return (*(void *(**)(void *))(frame->api + function))(arguments);
}

static void *error(const Frame *frame, const char *message) {
    const int internal = 13;
    struct { word size; void *extension; const char *message; int code; } arguments = {32, NULL, message, internal};
    return call_xla(frame, ERROR_CREATE, &arguments);
}

/* Asks XLA for a number. Returns an error, or NULL. */
static void *number(const Frame *frame, int function, word *value) {
    struct { word size; void *extension, *context; word value; } arguments = {32, NULL, frame->context, 0};
    void *failed = call_xla(frame, function, &arguments);
    *value = arguments.value;
    return failed;
}

/* Has Python do something. Returns an error, or NULL. */
static void *ask(const Frame *frame, Request *request, int what) {
    PyThread_acquire_lock(asking, WAIT_LOCK);
    void (*function)(Request *) = python;
    running += function != NULL;
    PyThread_release_lock(asking);
    if (!function)
        return error(frame, "weft.jax.matmul: the process ends");
    request->what = what;
    request->reply = 0;
    function(request);
    PyThread_acquire_lock(asking, WAIT_LOCK);
    running--;
    PyThread_release_lock(asking);
    if (request->reply == 1)
        return NULL;
    const char *unknown = "weft.jax.matmul: the product failed, and so did the attempt to say why";
    return error(frame, request->reply ? (const char *)request->reply : unknown);
}

static const Entry *lookup(const Request *request, word result) {
    word key = request->key, gpu = request->gpu;
    const Entry *entry = table[(key + gpu + (result >> 8)) % BUCKETS];
    while (entry && (entry->key != key || entry->gpu != gpu || entry->result != result))
        entry = entry->next;
    return entry;
}

/* Writes the addresses of the buffers: of a product the result's third, of another kernel those of results last.
   Returns their low bits, which are 0 if all are aligned. */
static word gather(const Frame *frame, word *given) {
    word before = frame->attributes.count == 2 ? 2 : frame->operands.count; /* operands before the results */
    word low = 0, operands = frame->operands.count, results = frame->results.count;
    for (word i = 0; i < operands; i++)
        low |= given[i < before ? i : i + results] = ((Buffer *)frame->operands.items[i])->address;
    for (word i = 0; i < results; i++)
        low |= given[before + i] = ((Buffer *)frame->results.items[i])->address;
    return low % 16;
}

/* Queues a plan on XLA's stream. */
static void *launch_for_xla(const Frame *frame, Request *request, const Entry *entry, Queue *queue) {
    void *failed = number(frame, STREAM_GET, &request->stream);
    if (failed)
        return failed;
    if (entry->spaced) { /* nodes of a graph may run beside each other: those with one result share a workspace */
        int capturing = 0;
        word graph = 0, result = request->addresses[2];
        if (!driver.capture(request->stream, &capturing, &graph, NULL, NULL, NULL) && capturing == 1)
            while (!(entry = lookup(request, result)))
                if ((failed = ask(frame, request, PREPARE_CAPTURED)))
                    return failed;
    }
    while ((request->status = queue(entry->plan, request->addresses, request->stream)))
        if ((failed = ask(frame, request, SETTLE)))
            return failed;
    return NULL;
}

static void *answer(const Frame *frame, int traits, Queue *queue) {
    if (frame->extension && frame->extension->kind == 1) {
        struct Metadata *metadata = frame->extension->metadata;
        metadata->major = 0, metadata->minor = 1; /* what every release takes */
        metadata->traits = traits;
        return NULL;
    }
    if (frame->stage != EXECUTE && (frame->stage != INITIALIZE || !queue))
        return NULL;
    struct { int type; word *value; } *key = frame->attributes.values[0];
    struct { const char *text; word length; } *product = frame->attributes.values[1];
    word count = frame->operands.count + frame->results.count;
    Request request = {.key = *key->value, .text = product->text, .length = product->length, .count = count};
    const Entry *entry = NULL;
    void *failed;
    if (queue) {
        if ((failed = number(frame, DEVICE_ORDINAL_GET, &request.gpu)))
            return failed;
        request.gpu = (uint32_t)request.gpu;
        while (!(entry = lookup(&request, 0)))
            if ((failed = ask(frame, &request, PREPARE)))
                return failed;
        if (frame->stage == INITIALIZE)
            return NULL;
    }
    request.addresses = alloca((count + 1) * sizeof(word));
    word low = gather(frame, request.addresses);
    if (!queue)
        return ask(frame, &request, EMULATE);
    if (low)
        return error(frame, "weft.jax.matmul: expected buffers of XLA that begin at multiples of 16 bytes");
    return launch_for_xla(frame, &request, entry, queue);
}

/* On a GPU. XLA may capture what it queues. */
static void *xla_gpu(const Frame *frame) { return answer(frame, 1, launch); }

/* For products over several GPUs. XLA mustn't capture what it queues: a graph's nodes may run in any order, but all
   GPUs must run these in the same one. */
static void *xla_team(const Frame *frame) { return answer(frame, 0, run_sequence); }

/* On the CPU, by Python. */
static void *xla_cpu(const Frame *frame) { return answer(frame, 0, NULL); }

/* The module. */

static int integers(PyObject *const *args, Py_ssize_t count, word *values) {
    for (Py_ssize_t i = 0; i < count; i++)
        values[i] = PyLong_AsUnsignedLongLong(args[i]);
    return !PyErr_Occurred();
}

static PyObject *queued(Queue *queue, const word *values) {
    PyThreadState *thread = PyEval_SaveThread();
    int status = queue((const void *)values[0], values + 2, values[1]);
    PyEval_RestoreThread(thread);
    return PyLong_FromLong(status);
}

static PyObject *from_python(PyObject *const *args, Py_ssize_t count, int apart) {
    word *values = alloca(count * sizeof(word));
    if (!integers(args, count, values))
        return NULL;
    const Plan *plan = (const Plan *)values[0];
    if ((word)count - 2 != plan->given)
        return PyLong_FromLong(MISCOUNTED);
    return apart && overlaps(plan, values + 2) ? PyLong_FromLong(OVERLAP) : queued(launch, values);
}

static PyObject *py_queue(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    return from_python(args, count, 0);
}

static PyObject *py_queue_apart(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    return from_python(args, count, 1);
}

static PyObject *py_run_sequence(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    word *values = alloca(count * sizeof(word));
    return integers(args, count, values) ? queued(run_sequence, values) : NULL;
}

static PyObject *connect_driver(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    return integers(args, sizeof driver / sizeof(word), (word *)&driver) ? Py_NewRef(Py_None) : NULL;
}

/* connect_torch(from_object, Tensor, Parameter, int8, uint8), which all live as long as the process */
static PyObject *connect_torch(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    if (!integers(args, 1, (word *)&torch.from_object))
        return NULL;
    torch.tensor = Py_NewRef(args[1]), torch.parameter = Py_NewRef(args[2]);
    torch.int8 = Py_NewRef(args[3]), torch.uint8 = Py_NewRef(args[4]);
    torch.requires_grad = PyUnicode_InternFromString("requires_grad");
    torch.is_neg = PyUnicode_InternFromString("is_neg");
    torch.dtype = PyUnicode_InternFromString("dtype");
    torch.storage_offset = PyUnicode_InternFromString("storage_offset");
    Py_RETURN_NONE;
}

/* connect_xla(table, python): where the table is, and the function that is asked, or 0 */
static PyObject *connect_xla(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    word values[2];
    if (!integers(args, 2, values))
        return NULL;
    PyThread_acquire_lock(asking, WAIT_LOCK);
    table = (Entry *volatile *)values[0];
    python = (void (*)(Request *))values[1];
    PyThread_release_lock(asking);
    Py_RETURN_NONE;
}

static PyObject *asking_threads(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    return PyLong_FromUnsignedLongLong(running);
}

#define METHOD(name, function) {name, (PyCFunction)(void (*)(void))function, METH_FASTCALL, NULL}
static PyMethodDef methods[] = {
    METHOD("queue", py_queue), /* queue(plan, stream, *addresses), which returns a status */
    METHOD("queue_apart", py_queue_apart),
    METHOD("run_sequence", py_run_sequence),
    METHOD("describe", describe),
    METHOD("connect_driver", connect_driver),
    METHOD("connect_torch", connect_torch),
    METHOD("connect_xla", connect_xla),
    METHOD("asking_threads", asking_threads),
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "compiled", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_compiled(void) {
    PyObject *module = PyModule_Create(&definition);
    struct { const char *name; void *function; } handlers[] = {
        {"xla_gpu", (void *)xla_gpu}, {"xla_team", (void *)xla_team}, {"xla_cpu", (void *)xla_cpu}};
    for (int i = 0; module && i < 3; i++)
        PyModule_AddObject(module, handlers[i].name, PyLong_FromVoidPtr(handlers[i].function));
    PyModule_AddObject(module, "source", PyLong_FromUnsignedLong(SOURCE)); /* the CRC-32 of this file */
    asking = PyThread_allocate_lock();
    return module;
}

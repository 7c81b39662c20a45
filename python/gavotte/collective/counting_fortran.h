/* The calls of Fortran that send: `mpi_send_` of mpif.h and `use mpi`, `mpi_send_f08_` of `use mpi_f08`.
 *
 * Open MPI's Fortran binding calls PMPI_Send, past the wrappers of C. MPICH's calls MPI_Send. Each wrapper here calls
 * the library's subroutine with the same pointers, and counts the call if the wrapper of C was not reached meanwhile.
 */

typedef MPI_Fint F;

static void *library_symbol(const char *name) {
    void *symbol = dlsym(RTLD_NEXT, name);
    if (!symbol) {
        fprintf(stderr, "gavotte: the MPI library has no %s\n", name);
        abort();
    }
    return symbol;
}

static int f_in_place(const void *buffer) {
    static const char *names[] = {"mpi_fortran_in_place_", "mpi_fortran_in_place__"};
    for (int i = 0; i < 2; i++) {
        const void *symbol = dlsym(RTLD_DEFAULT, names[i]);
        if (symbol && symbol == buffer) return 1;
    }
    return buffer == MPI_IN_PLACE;
}

static MPI_Datatype *f_types(const F *types, int n) {
    MPI_Datatype *made = malloc(sizeof *made * (size_t)(n + 1));
    for (int i = 0; made && i < n; i++) made[i] = PMPI_Type_f2c(types[i]);
    return made;
}

/* Both ways of a call whose types are a list: `way` counts or traces it. */
static void f_alltoallw(void (*way)(Counts, const MPI_Datatype *, MPI_Comm), const F *counts, const F *types,
                        MPI_Comm comm) {
    const Members *all = members(comm);
    MPI_Datatype *made = all ? f_types(types, all->n) : NULL;
    if (made) way(VECTOR(counts), made, comm);
    free(made);
}
#define count_f_alltoallw(counts, types, comm) f_alltoallw(count_alltoallw, counts, types, comm)
#define trace_f_alltoallw(counts, types, comm) f_alltoallw(trace_alltoallw, counts, types, comm)

static void f_neighboursw(void (*way)(Counts, MPI_Datatype, const MPI_Datatype *, MPI_Comm), const F *counts,
                          const F *types, MPI_Comm comm) {
    int n, *list = neighbours(comm, 0, &n);
    MPI_Datatype *made = f_types(types, n);
    if (made) way(VECTOR(counts), MPI_BYTE, made, comm);
    free(made), free(list);
}
#define count_f_neighboursw(counts, types, comm) f_neighboursw(count_neighboursv, counts, types, comm)
#define trace_f_neighboursw(counts, types, comm) f_neighboursw(trace_neighboursv, counts, types, comm)

/* A call of Fortran begins, and ends. `own` is whether it has not reached the wrapper of C. */
static void f_enter(void) {
    if (tracing && !trace_depth) trace_arrive();
}

static int f_leave(int own) { return tracing && !trace_depth && trace_depart(own); }

#define ONE(symbol, parameters, arguments, before, count, trace)                                                       \
    void symbol parameters;                                                                                            \
    void symbol parameters {                                                                                           \
        static void(*real) parameters;                                                                                 \
        if (!real) *(void **)&real = library_symbol(#symbol);                                                          \
        unsigned long calls = reached;                                                                                 \
        before;                                                                                                        \
        f_enter();                                                                                                     \
        real arguments;                                                                                                \
        int own_ = reached == calls, traced_ = f_leave(own_);                                                          \
        if (own_) {                                                                                                    \
            count;                                                                                                     \
        }                                                                                                              \
        if (traced_) {                                                                                                 \
            trace;                                                                                                     \
            trace_done();                                                                                              \
        }                                                                                                              \
    }
#define FORTRAN(name, parameters, arguments, before, count, trace)                                                     \
    ONE(name##_, parameters, arguments, before, count, trace)                                                          \
    ONE(name##__, parameters, arguments, before, count, trace)                                                         \
    ONE(name##_f08_, parameters, arguments, before, count, trace)
#define UNWRAP(...) __VA_ARGS__
/* A call that is counted by count_WHAT and traced by trace_WHAT with the arguments `own`. */
#define MESSAGE(name, parameters, arguments, what, own)                                                                \
    FORTRAN(mpi_##name, (UNWRAP parameters, F *error), (UNWRAP arguments, error), , count_##what own, trace_##what own)
/* One that starts what a request stands for. */
#define REQUEST(name, parameters, arguments, what, own)                                                                \
    FORTRAN(mpi_##name, (UNWRAP parameters, F *request, F *error), (UNWRAP arguments, request, error), ,               \
            count_##what own, MPI_Request made_ = PMPI_Request_f2c(*request); trace_request = &made_;                  \
            trace_##what own)
#define COLLECTIVE(name, parameters, arguments, what, own)                                                             \
    MESSAGE(name, parameters, arguments, what, own)                                                                    \
    REQUEST(i##name, parameters, arguments, what, own)
#define TYPE(type) PMPI_Type_f2c(*(type))
#define COMM(comm) PMPI_Comm_f2c(*(comm))
#define WINDOW(window) PMPI_Win_f2c(*(window))
#define SIZE(count) ((Bytes)*(count))

/* ---- messages ---- */

#define SENDS(name, mode)                                                                                              \
    MESSAGE(name, (void *buffer, F *count, F *type, F *target, F *tag, F *comm),                                       \
            (buffer, count, type, target, tag, comm),                                                                  \
            send, (SIZE(count), TYPE(type), *target, *tag, mode, COMM(comm)))                                          \
    REQUEST(i##name, (void *buffer, F *count, F *type, F *target, F *tag, F *comm),                                    \
            (buffer, count, type, target, tag, comm),                                                                  \
            send, (SIZE(count), TYPE(type), *target, *tag, mode, COMM(comm)))                                          \
    MESSAGE(name##_init, (void *buffer, F *count, F *type, F *target, F *tag, F *comm, F *request),                    \
            (buffer, count, type, target, tag, comm, request),                                                         \
            send_init, (SIZE(count), TYPE(type), *target, *tag, mode, COMM(comm), PMPI_Request_f2c(*request)))
SENDS(send, STANDARD)
SENDS(ssend, SYNCHRONOUS)
SENDS(bsend, BUFFERED)
SENDS(rsend, READY)

static MPI_Request *f_requests(F count, const F *requests) {
    static _Thread_local void *own;
    static _Thread_local size_t room;
    MPI_Request *made = room_of(&own, &room, sizeof *made * (size_t)(count > 0 ? count : 1));
    for (F i = 0; made && i < count; i++) made[i] = PMPI_Request_f2c(requests[i]);
    return made;
}

FORTRAN(mpi_start, (F *request, F *error), (request, error), MPI_Request began = PMPI_Request_f2c(*request),
        count_start(began), trace_start(began))

FORTRAN(mpi_startall, (F *count, F *requests, F *error), (count, requests, error),
        MPI_Request *began = f_requests(*count, requests), if (began) count_startall(*count, began),
        if (began) trace_startall(*count, began))

FORTRAN(mpi_request_free, (F *request, F *error), (request, error), MPI_Request gone = PMPI_Request_f2c(*request);
        forget_request(gone), , trace_forget(gone))

#include "tracing_fortran.h"

/* ---- one-sided ---- */

MESSAGE(put,
    (void *origin, F *count, F *type, F *target, MPI_Aint *at, F *target_count, F *target_type, F *window),
    (origin, count, type, target, at, target_count, target_type, window),
    put, (SIZE(count), TYPE(type), *target, WINDOW(window)))
REQUEST(rput,
    (void *origin, F *count, F *type, F *target, MPI_Aint *at, F *target_count, F *target_type, F *window),
    (origin, count, type, target, at, target_count, target_type, window),
    put, (SIZE(count), TYPE(type), *target, WINDOW(window)))
MESSAGE(get,
    (void *origin, F *count, F *type, F *target, MPI_Aint *at, F *target_count, F *target_type, F *window),
    (origin, count, type, target, at, target_count, target_type, window),
    get, (SIZE(count), TYPE(type), *target, WINDOW(window)))
REQUEST(rget,
    (void *origin, F *count, F *type, F *target, MPI_Aint *at, F *target_count, F *target_type, F *window),
    (origin, count, type, target, at, target_count, target_type, window),
    get, (SIZE(count), TYPE(type), *target, WINDOW(window)))
MESSAGE(accumulate,
    (void *origin, F *count, F *type, F *target, MPI_Aint *at, F *target_count, F *target_type, F *op, F *window),
    (origin, count, type, target, at, target_count, target_type, op, window),
    put, (SIZE(count), TYPE(type), *target, WINDOW(window)))
REQUEST(raccumulate,
    (void *origin, F *count, F *type, F *target, MPI_Aint *at, F *target_count, F *target_type, F *op, F *window),
    (origin, count, type, target, at, target_count, target_type, op, window),
    put, (SIZE(count), TYPE(type), *target, WINDOW(window)))
MESSAGE(get_accumulate,
    (void *origin, F *count, F *type, void *result, F *back, F *back_type, F *target, MPI_Aint *at, F *target_count,
     F *target_type, F *op, F *window),
    (origin, count, type, result, back, back_type, target, at, target_count, target_type, op, window),
    fetch, (SIZE(count), TYPE(type), SIZE(back), TYPE(back_type), *target, PMPI_Op_f2c(*op), WINDOW(window)))
REQUEST(rget_accumulate,
    (void *origin, F *count, F *type, void *result, F *back, F *back_type, F *target, MPI_Aint *at, F *target_count,
     F *target_type, F *op, F *window),
    (origin, count, type, result, back, back_type, target, at, target_count, target_type, op, window),
    fetch, (SIZE(count), TYPE(type), SIZE(back), TYPE(back_type), *target, PMPI_Op_f2c(*op), WINDOW(window)))
MESSAGE(fetch_and_op,
    (void *origin, void *result, F *type, F *target, MPI_Aint *at, F *op, F *window),
    (origin, result, type, target, at, op, window),
    fetch, (1, TYPE(type), 1, TYPE(type), *target, PMPI_Op_f2c(*op), WINDOW(window)))
MESSAGE(compare_and_swap,
    (void *origin, void *compared, void *result, F *type, F *target, MPI_Aint *at, F *window),
    (origin, compared, result, type, target, at, window),
    fetch, (2, TYPE(type), 1, TYPE(type), *target, MPI_REPLACE, WINDOW(window)))

/* ---- collectives ---- */

COLLECTIVE(barrier, (F *comm), (comm), barrier, (COMM(comm)))
COLLECTIVE(bcast,
    (void *buffer, F *count, F *type, F *root, F *comm),
    (buffer, count, type, root, comm),
    bcast, (SIZE(count), TYPE(type), *root, COMM(comm)))
COLLECTIVE(reduce,
    (void *out, void *in, F *count, F *type, F *op, F *root, F *comm),
    (out, in, count, type, op, root, comm),
    reduce, (SIZE(count), TYPE(type), *root, COMM(comm)))
COLLECTIVE(allreduce,
    (void *out, void *in, F *count, F *type, F *op, F *comm),
    (out, in, count, type, op, comm),
    allreduce, (SIZE(count), TYPE(type), COMM(comm)))
COLLECTIVE(scan,
    (void *out, void *in, F *count, F *type, F *op, F *comm),
    (out, in, count, type, op, comm),
    scan, (SIZE(count), TYPE(type), COMM(comm)))
COLLECTIVE(exscan,
    (void *out, void *in, F *count, F *type, F *op, F *comm),
    (out, in, count, type, op, comm),
    exscan, (SIZE(count), TYPE(type), COMM(comm)))
COLLECTIVE(reduce_scatter,
    (void *out, void *in, F *counts, F *type, F *op, F *comm),
    (out, in, counts, type, op, comm),
    reduce_scatterv, (VECTOR(counts), TYPE(type), COMM(comm)))
COLLECTIVE(reduce_scatter_block,
    (void *out, void *in, F *count, F *type, F *op, F *comm),
    (out, in, count, type, op, comm),
    reduce_scatter_block, (SIZE(count), TYPE(type), COMM(comm)))
COLLECTIVE(scatter,
    (void *out, F *count, F *type, void *in, F *in_count, F *in_type, F *root, F *comm),
    (out, count, type, in, in_count, in_type, root, comm),
    scatter, (SIZE(count), TYPE(type), SIZE(in_count), TYPE(in_type), *root, COMM(comm)))
COLLECTIVE(scatterv,
    (void *out, F *counts, F *places, F *type, void *in, F *in_count, F *in_type, F *root, F *comm),
    (out, counts, places, type, in, in_count, in_type, root, comm),
    scatterv, (VECTOR(counts), TYPE(type), SIZE(in_count), TYPE(in_type), *root, COMM(comm)))
COLLECTIVE(gather,
    (void *out, F *count, F *type, void *in, F *in_count, F *in_type, F *root, F *comm),
    (out, count, type, in, in_count, in_type, root, comm),
    gather, (f_in_place(out), SIZE(count), TYPE(type), SIZE(in_count), TYPE(in_type), *root, COMM(comm)))
COLLECTIVE(gatherv,
    (void *out, F *count, F *type, void *in, F *counts, F *places, F *in_type, F *root, F *comm),
    (out, count, type, in, counts, places, in_type, root, comm),
    gatherv, (SIZE(count), TYPE(type), VECTOR(counts), TYPE(in_type), *root, COMM(comm)))
COLLECTIVE(allgather,
    (void *out, F *count, F *type, void *in, F *in_count, F *in_type, F *comm),
    (out, count, type, in, in_count, in_type, comm),
    allgather, (f_in_place(out), SIZE(count), TYPE(type), SIZE(in_count), TYPE(in_type), COMM(comm)))
COLLECTIVE(allgatherv,
    (void *out, F *count, F *type, void *in, F *counts, F *places, F *in_type, F *comm),
    (out, count, type, in, counts, places, in_type, comm),
    allgatherv, (f_in_place(out), SIZE(count), TYPE(type), VECTOR(counts), TYPE(in_type), COMM(comm)))
COLLECTIVE(alltoall,
    (void *out, F *count, F *type, void *in, F *in_count, F *in_type, F *comm),
    (out, count, type, in, in_count, in_type, comm),
    alltoall, (f_in_place(out), SIZE(count), TYPE(type), SIZE(in_count), TYPE(in_type), COMM(comm)))
COLLECTIVE(alltoallv,
    (void *out, F *counts, F *places, F *type, void *in, F *in_counts, F *in_places, F *in_type, F *comm),
    (out, counts, places, type, in, in_counts, in_places, in_type, comm),
    alltoallv, (f_in_place(out) ? VECTOR(in_counts) : VECTOR(counts),
                    f_in_place(out) ? TYPE(in_type) : TYPE(type), COMM(comm)))
COLLECTIVE(alltoallw,
    (void *out, F *counts, F *places, F *types, void *in, F *in_counts, F *in_places, F *in_types, F *comm),
    (out, counts, places, types, in, in_counts, in_places, in_types, comm),
    f_alltoallw, (f_in_place(out) ? in_counts : counts, f_in_place(out) ? in_types : types, COMM(comm)))
COLLECTIVE(neighbor_allgather,
    (void *out, F *count, F *type, void *in, F *in_count, F *in_type, F *comm),
    (out, count, type, in, in_count, in_type, comm),
    neighbour_allgather, (SIZE(count), TYPE(type), COMM(comm)))
COLLECTIVE(neighbor_allgatherv,
    (void *out, F *count, F *type, void *in, F *counts, F *places, F *in_type, F *comm),
    (out, count, type, in, counts, places, in_type, comm),
    neighbour_allgather, (SIZE(count), TYPE(type), COMM(comm)))
COLLECTIVE(neighbor_alltoall,
    (void *out, F *count, F *type, void *in, F *in_count, F *in_type, F *comm),
    (out, count, type, in, in_count, in_type, comm),
    neighbour_alltoall, (SIZE(count), TYPE(type), COMM(comm)))
COLLECTIVE(neighbor_alltoallv,
    (void *out, F *counts, F *places, F *type, void *in, F *in_counts, F *in_places, F *in_type, F *comm),
    (out, counts, places, type, in, in_counts, in_places, in_type, comm),
    neighboursv, (VECTOR(counts), TYPE(type), NULL, COMM(comm)))
COLLECTIVE(neighbor_alltoallw,
    (void *out, F *counts, MPI_Aint *places, F *types, void *in, F *in_counts, MPI_Aint *in_places, F *in_types,
     F *comm),
    (out, counts, places, types, in, in_counts, in_places, in_types, comm),
    f_neighboursw, (counts, types, COMM(comm)))

/* ---- begin and end ---- */

FORTRAN(mpi_init, (F *error), (error), , started(), )
FORTRAN(mpi_init_thread, (F *wanted, F *given, F *error), (wanted, given, error), , started(), )
FORTRAN(mpi_finalize, (F *error), (error), report(1), , )

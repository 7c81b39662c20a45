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

static void f_alltoallw(const void *out, const F *counts, const F *types, const F *in_counts, const F *in_types,
                        MPI_Comm comm) {
    const Members *all = members(comm);
    int in_place = f_in_place(out);
    MPI_Datatype *made = all ? f_types(in_place ? in_types : types, all->n) : NULL;
    if (made) count_alltoallw(in_place ? VECTOR(in_counts) : VECTOR(counts), made, comm);
    free(made);
}

static void f_neighbour_alltoallw(const F *counts, const F *types, MPI_Comm comm) {
    int n, *list = neighbours(comm, &n);
    MPI_Datatype *made = f_types(types, n);
    if (made) count_neighboursv(VECTOR(counts), MPI_BYTE, made, comm);
    free(made), free(list);
}

#define ONE(symbol, parameters, arguments, before, after)                                                              \
    void symbol parameters;                                                                                            \
    void symbol parameters {                                                                                           \
        static void(*real) parameters;                                                                                 \
        if (!real) *(void **)&real = library_symbol(#symbol);                                                          \
        unsigned long calls = reached;                                                                                 \
        before;                                                                                                        \
        real arguments;                                                                                                \
        after;                                                                                                         \
    }
#define FORTRAN(name, parameters, arguments, before, after)                                                            \
    ONE(name##_, parameters, arguments, before, after)                                                                 \
    ONE(name##__, parameters, arguments, before, after)                                                                \
    ONE(name##_f08_, parameters, arguments, before, after)
#define UNWRAP(...) __VA_ARGS__
#define COUNTED(count) if (reached == calls) count
#define MESSAGE(name, parameters, arguments, count)                                                                    \
    FORTRAN(mpi_##name, (UNWRAP parameters, F *error), (UNWRAP arguments, error), , COUNTED(count))
#define REQUEST(name, parameters, arguments, count)                                                                    \
    MESSAGE(name, (UNWRAP parameters, F *request), (UNWRAP arguments, request), count)
#define COLLECTIVE(name, parameters, arguments, count)                                                                 \
    MESSAGE(name, parameters, arguments, count)                                                                        \
    REQUEST(i##name, parameters, arguments, count)
#define TYPE(type) PMPI_Type_f2c(*(type))
#define COMM(comm) PMPI_Comm_f2c(*(comm))
#define WINDOW(window) PMPI_Win_f2c(*(window))
#define SIZE(count) ((Bytes)*(count))

/* ---- messages ---- */

#define SENDS(name)                                                                                                    \
    MESSAGE(name, (void *buffer, F *count, F *type, F *target, F *tag, F *comm),                                       \
            (buffer, count, type, target, tag, comm), count_send(SIZE(count), TYPE(type), *target, COMM(comm)))        \
    REQUEST(i##name, (void *buffer, F *count, F *type, F *target, F *tag, F *comm),                                    \
            (buffer, count, type, target, tag, comm), count_send(SIZE(count), TYPE(type), *target, COMM(comm)))        \
    REQUEST(name##_init, (void *buffer, F *count, F *type, F *target, F *tag, F *comm),                                \
            (buffer, count, type, target, tag, comm),                                                                  \
            count_send_init(SIZE(count), TYPE(type), *target, COMM(comm), PMPI_Request_f2c(*request)))
SENDS(send)
SENDS(ssend)
SENDS(bsend)
SENDS(rsend)

MESSAGE(sendrecv,
    (void *out, F *count, F *type, F *target, F *tag, void *in, F *in_count, F *in_type, F *source, F *in_tag,
     F *comm, F *status),
    (out, count, type, target, tag, in, in_count, in_type, source, in_tag, comm, status),
    count_send(SIZE(count), TYPE(type), *target, COMM(comm)))
MESSAGE(sendrecv_replace,
    (void *buffer, F *count, F *type, F *target, F *tag, F *source, F *in_tag, F *comm, F *status),
    (buffer, count, type, target, tag, source, in_tag, comm, status),
    count_send(SIZE(count), TYPE(type), *target, COMM(comm)))

static MPI_Request *f_requests(F count, const F *requests) {
    MPI_Request *made = malloc(sizeof *made * (size_t)(count + 1));
    for (F i = 0; made && i < count; i++) made[i] = PMPI_Request_f2c(requests[i]);
    return made;
}

static void f_startall(F count, const MPI_Request *requests) {
    for (F i = 0; requests && i < count; i++) count_start(requests[i]);
}

FORTRAN(mpi_start, (F *request, F *error), (request, error), MPI_Request began = PMPI_Request_f2c(*request),
        COUNTED(count_start(began)))

FORTRAN(mpi_startall, (F *count, F *requests, F *error), (count, requests, error),
        MPI_Request *began = f_requests(*count, requests), COUNTED(f_startall(*count, began)); free(began))

FORTRAN(mpi_request_free, (F *request, F *error), (request, error), forget_request(PMPI_Request_f2c(*request)),
        (void)calls)

/* ---- one-sided ---- */

MESSAGE(put,
    (void *origin, F *count, F *type, F *target, MPI_Aint *at, F *target_count, F *target_type, F *window),
    (origin, count, type, target, at, target_count, target_type, window),
    count_put(SIZE(count), TYPE(type), *target, WINDOW(window)))
REQUEST(rput,
    (void *origin, F *count, F *type, F *target, MPI_Aint *at, F *target_count, F *target_type, F *window),
    (origin, count, type, target, at, target_count, target_type, window),
    count_put(SIZE(count), TYPE(type), *target, WINDOW(window)))
MESSAGE(get,
    (void *origin, F *count, F *type, F *target, MPI_Aint *at, F *target_count, F *target_type, F *window),
    (origin, count, type, target, at, target_count, target_type, window),
    count_get(SIZE(count), TYPE(type), *target, WINDOW(window)))
REQUEST(rget,
    (void *origin, F *count, F *type, F *target, MPI_Aint *at, F *target_count, F *target_type, F *window),
    (origin, count, type, target, at, target_count, target_type, window),
    count_get(SIZE(count), TYPE(type), *target, WINDOW(window)))
MESSAGE(accumulate,
    (void *origin, F *count, F *type, F *target, MPI_Aint *at, F *target_count, F *target_type, F *op, F *window),
    (origin, count, type, target, at, target_count, target_type, op, window),
    count_put(SIZE(count), TYPE(type), *target, WINDOW(window)))
REQUEST(raccumulate,
    (void *origin, F *count, F *type, F *target, MPI_Aint *at, F *target_count, F *target_type, F *op, F *window),
    (origin, count, type, target, at, target_count, target_type, op, window),
    count_put(SIZE(count), TYPE(type), *target, WINDOW(window)))
MESSAGE(get_accumulate,
    (void *origin, F *count, F *type, void *result, F *back, F *back_type, F *target, MPI_Aint *at, F *target_count,
     F *target_type, F *op, F *window),
    (origin, count, type, result, back, back_type, target, at, target_count, target_type, op, window),
    count_fetch(SIZE(count), TYPE(type), SIZE(back), TYPE(back_type), *target, PMPI_Op_f2c(*op), WINDOW(window)))
REQUEST(rget_accumulate,
    (void *origin, F *count, F *type, void *result, F *back, F *back_type, F *target, MPI_Aint *at, F *target_count,
     F *target_type, F *op, F *window),
    (origin, count, type, result, back, back_type, target, at, target_count, target_type, op, window),
    count_fetch(SIZE(count), TYPE(type), SIZE(back), TYPE(back_type), *target, PMPI_Op_f2c(*op), WINDOW(window)))
MESSAGE(fetch_and_op,
    (void *origin, void *result, F *type, F *target, MPI_Aint *at, F *op, F *window),
    (origin, result, type, target, at, op, window),
    count_fetch(1, TYPE(type), 1, TYPE(type), *target, PMPI_Op_f2c(*op), WINDOW(window)))
MESSAGE(compare_and_swap,
    (void *origin, void *compared, void *result, F *type, F *target, MPI_Aint *at, F *window),
    (origin, compared, result, type, target, at, window),
    count_fetch(2, TYPE(type), 1, TYPE(type), *target, MPI_REPLACE, WINDOW(window)))

/* ---- collectives ---- */

COLLECTIVE(bcast,
    (void *buffer, F *count, F *type, F *root, F *comm),
    (buffer, count, type, root, comm),
    count_bcast(SIZE(count), TYPE(type), *root, COMM(comm)))
COLLECTIVE(reduce,
    (void *out, void *in, F *count, F *type, F *op, F *root, F *comm),
    (out, in, count, type, op, root, comm),
    count_reduce(SIZE(count), TYPE(type), *root, COMM(comm)))
COLLECTIVE(allreduce,
    (void *out, void *in, F *count, F *type, F *op, F *comm),
    (out, in, count, type, op, comm),
    count_allreduce(SIZE(count), TYPE(type), COMM(comm)))
COLLECTIVE(scan,
    (void *out, void *in, F *count, F *type, F *op, F *comm),
    (out, in, count, type, op, comm),
    count_scan(SIZE(count), TYPE(type), COMM(comm)))
COLLECTIVE(exscan,
    (void *out, void *in, F *count, F *type, F *op, F *comm),
    (out, in, count, type, op, comm),
    count_scan(SIZE(count), TYPE(type), COMM(comm)))
COLLECTIVE(reduce_scatter,
    (void *out, void *in, F *counts, F *type, F *op, F *comm),
    (out, in, counts, type, op, comm),
    count_reduce_scatterv(VECTOR(counts), TYPE(type), COMM(comm)))
COLLECTIVE(reduce_scatter_block,
    (void *out, void *in, F *count, F *type, F *op, F *comm),
    (out, in, count, type, op, comm),
    count_reduce_scatter_block(SIZE(count), TYPE(type), COMM(comm)))
COLLECTIVE(scatter,
    (void *out, F *count, F *type, void *in, F *in_count, F *in_type, F *root, F *comm),
    (out, count, type, in, in_count, in_type, root, comm),
    count_scatter(SIZE(count), TYPE(type), SIZE(in_count), TYPE(in_type), *root, COMM(comm)))
COLLECTIVE(scatterv,
    (void *out, F *counts, F *places, F *type, void *in, F *in_count, F *in_type, F *root, F *comm),
    (out, counts, places, type, in, in_count, in_type, root, comm),
    count_scatterv(VECTOR(counts), TYPE(type), *root, COMM(comm)))
COLLECTIVE(gather,
    (void *out, F *count, F *type, void *in, F *in_count, F *in_type, F *root, F *comm),
    (out, count, type, in, in_count, in_type, root, comm),
    count_gather(f_in_place(out), SIZE(count), TYPE(type), SIZE(in_count), TYPE(in_type), *root, COMM(comm)))
COLLECTIVE(gatherv,
    (void *out, F *count, F *type, void *in, F *counts, F *places, F *in_type, F *root, F *comm),
    (out, count, type, in, counts, places, in_type, root, comm),
    count_gatherv(SIZE(count), TYPE(type), *root, COMM(comm)))
COLLECTIVE(allgather,
    (void *out, F *count, F *type, void *in, F *in_count, F *in_type, F *comm),
    (out, count, type, in, in_count, in_type, comm),
    count_allgather(f_in_place(out), SIZE(count), TYPE(type), SIZE(in_count), TYPE(in_type), COMM(comm)))
COLLECTIVE(allgatherv,
    (void *out, F *count, F *type, void *in, F *counts, F *places, F *in_type, F *comm),
    (out, count, type, in, counts, places, in_type, comm),
    count_allgatherv(f_in_place(out), SIZE(count), TYPE(type), VECTOR(counts), TYPE(in_type), COMM(comm)))
COLLECTIVE(alltoall,
    (void *out, F *count, F *type, void *in, F *in_count, F *in_type, F *comm),
    (out, count, type, in, in_count, in_type, comm),
    count_alltoall(f_in_place(out), SIZE(count), TYPE(type), SIZE(in_count), TYPE(in_type), COMM(comm)))
COLLECTIVE(alltoallv,
    (void *out, F *counts, F *places, F *type, void *in, F *in_counts, F *in_places, F *in_type, F *comm),
    (out, counts, places, type, in, in_counts, in_places, in_type, comm),
    count_alltoallv(f_in_place(out) ? VECTOR(in_counts) : VECTOR(counts),
                    f_in_place(out) ? TYPE(in_type) : TYPE(type), COMM(comm)))
COLLECTIVE(alltoallw,
    (void *out, F *counts, F *places, F *types, void *in, F *in_counts, F *in_places, F *in_types, F *comm),
    (out, counts, places, types, in, in_counts, in_places, in_types, comm),
    f_alltoallw(out, counts, types, in_counts, in_types, COMM(comm)))
COLLECTIVE(neighbor_allgather,
    (void *out, F *count, F *type, void *in, F *in_count, F *in_type, F *comm),
    (out, count, type, in, in_count, in_type, comm),
    count_neighbours(SIZE(count), TYPE(type), COMM(comm)))
COLLECTIVE(neighbor_allgatherv,
    (void *out, F *count, F *type, void *in, F *counts, F *places, F *in_type, F *comm),
    (out, count, type, in, counts, places, in_type, comm),
    count_neighbours(SIZE(count), TYPE(type), COMM(comm)))
COLLECTIVE(neighbor_alltoall,
    (void *out, F *count, F *type, void *in, F *in_count, F *in_type, F *comm),
    (out, count, type, in, in_count, in_type, comm),
    count_neighbours(SIZE(count), TYPE(type), COMM(comm)))
COLLECTIVE(neighbor_alltoallv,
    (void *out, F *counts, F *places, F *type, void *in, F *in_counts, F *in_places, F *in_type, F *comm),
    (out, counts, places, type, in, in_counts, in_places, in_type, comm),
    count_neighboursv(VECTOR(counts), TYPE(type), NULL, COMM(comm)))
COLLECTIVE(neighbor_alltoallw,
    (void *out, F *counts, MPI_Aint *places, F *types, void *in, F *in_counts, MPI_Aint *in_places, F *in_types,
     F *comm),
    (out, counts, places, types, in, in_counts, in_places, in_types, comm),
    f_neighbour_alltoallw(counts, types, COMM(comm)))

/* ---- begin and end ---- */

FORTRAN(mpi_init, (F *error), (error), (void)calls, started())
FORTRAN(mpi_init_thread, (F *wanted, F *given, F *error), (wanted, given, error), (void)calls, started())
FORTRAN(mpi_finalize, (F *error), (error), report(1), (void)calls)

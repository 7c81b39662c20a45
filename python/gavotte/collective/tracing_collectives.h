/* Collectives as operations: kind, communicator, root and bytes, so that a replay can take them apart by any algorithm.
 *
 * Each trace_NAME has the arguments of count_NAME (counting.c). The order of kinds is that of the file format.
 */

enum {
    BARRIER, BCAST, REDUCE, ALLREDUCE, SCAN, EXSCAN, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, SCATTER, SCATTERV, GATHER,
    GATHERV, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, NEIGHBOR_ALLGATHER, NEIGHBOR_ALLTOALL, COMM
};
enum { UNROOTED = -1000 }; /* no rank, and none of MPI_ROOT and MPI_PROC_NULL */

/* Begin the key of a collective. Lists follow: counts, sources, targets. */
static int collective(int kind, const Members *all, int root, Bytes size) {
    if (!all) return 0;
    Live *own = trace_request ? add_live(*trace_request) : NULL;
    if (own) own->slot = new_slot();
    int rank = root == UNROOTED || root == MPI_PROC_NULL ? -1 : root == MPI_ROOT ? me : root < all->n ? all->map[root] : -1;
    scratch_size = 0;
    put(OP_COLLECTIVE), put((Bytes)kind), put((Bytes)all->id), put((Bytes)(rank < 0 ? 0 : rank + 1)), put(size);
    put((Bytes)(own ? own->slot + 1 : 0));
    return 1;
}

static void put_list(const int *list, int n) {
    put((Bytes)n);
    for (int i = 0; i < n; i++) put((Bytes)(list[i] + 1));
}

static void plain(int kind, const Members *all, int root, Bytes size) {
    if (!collective(kind, all, root, size)) return;
    put(0), put(0), put(0);
    record_scratch();
}

static void with_counts(int kind, const Members *all, int root, Bytes size, Counts counts, int n, MPI_Datatype type) {
    if (!collective(kind, all, root, size)) return;
    put((Bytes)n);
    for (int i = 0; i < n; i++) put(size_of(count_at(counts, i), type));
    put(0), put(0);
    record_scratch();
}

static void trace_barrier(MPI_Comm comm) { plain(BARRIER, members(comm), UNROOTED, 0); }

static void trace_bcast(Bytes count, MPI_Datatype type, int root, MPI_Comm comm) {
    plain(BCAST, members(comm), root, size_of(count, type));
}

static void trace_reduce(Bytes count, MPI_Datatype type, int root, MPI_Comm comm) {
    plain(REDUCE, members(comm), root, size_of(count, type));
}

static void trace_allreduce(Bytes count, MPI_Datatype type, MPI_Comm comm) {
    plain(ALLREDUCE, members(comm), UNROOTED, size_of(count, type));
}

static void trace_scan(Bytes count, MPI_Datatype type, MPI_Comm comm) {
    plain(SCAN, members(comm), UNROOTED, size_of(count, type));
}

static void trace_exscan(Bytes count, MPI_Datatype type, MPI_Comm comm) {
    plain(EXSCAN, members(comm), UNROOTED, size_of(count, type));
}

static void trace_reduce_scatterv(Counts counts, MPI_Datatype type, MPI_Comm comm) {
    const Members *all = members(comm);
    int n = all ? all->inter ? all->locals : all->n : 0;
    with_counts(REDUCE_SCATTER, all, UNROOTED, total(all, counts, type), counts, n, type);
}

static void trace_reduce_scatter_block(Bytes count, MPI_Datatype type, MPI_Comm comm) {
    const Members *all = members(comm);
    Bytes n = all ? (Bytes)(all->inter ? all->locals : all->n) : 0;
    plain(REDUCE_SCATTER_BLOCK, all, UNROOTED, size_of(count * n, type));
}

static void trace_scatter(Bytes count, MPI_Datatype type, Bytes in_count, MPI_Datatype in_type, int root,
                          MPI_Comm comm) {
    const Members *all = members(comm);
    plain(SCATTER, all, root, is_root(all, root) ? size_of(count, type) : size_of(in_count, in_type));
}

static void trace_scatterv(Counts counts, MPI_Datatype type, Bytes in_count, MPI_Datatype in_type, int root,
                           MPI_Comm comm) {
    const Members *all = members(comm);
    if (is_root(all, root)) {
        Bytes own = all->inter ? 0 : size_of(count_at(counts, all->own), type);
        with_counts(SCATTERV, all, root, own, counts, all->n, type);
    } else {
        plain(SCATTERV, all, root, size_of(in_count, in_type));
    }
}

static void trace_gather(int in_place, Bytes count, MPI_Datatype type, Bytes in_count, MPI_Datatype in_type, int root,
                         MPI_Comm comm) {
    const Members *all = members(comm);
    int from_in = is_root(all, root) && (in_place || all->inter);
    plain(GATHER, all, root, from_in ? size_of(in_count, in_type) : size_of(count, type));
}

static void trace_gatherv(Bytes count, MPI_Datatype type, Counts counts, MPI_Datatype in_type, int root,
                          MPI_Comm comm) {
    const Members *all = members(comm);
    if (is_root(all, root)) {
        Bytes own = all->inter ? 0 : size_of(count_at(counts, all->own), in_type);
        with_counts(GATHERV, all, root, own, counts, all->n, in_type);
    } else {
        plain(GATHERV, all, root, size_of(count, type));
    }
}

static void trace_allgather(int in_place, Bytes count, MPI_Datatype type, Bytes in_count, MPI_Datatype in_type,
                            MPI_Comm comm) {
    plain(ALLGATHER, members(comm), UNROOTED, in_place ? size_of(in_count, in_type) : size_of(count, type));
}

static void trace_allgatherv(int in_place, Bytes count, MPI_Datatype type, Counts counts, MPI_Datatype in_type,
                             MPI_Comm comm) {
    const Members *all = members(comm);
    if (!all) return;
    Bytes own = in_place ? size_of(count_at(counts, all->own), in_type) : size_of(count, type);
    with_counts(ALLGATHERV, all, UNROOTED, own, counts, all->n, in_type);
}

static void trace_alltoall(int in_place, Bytes count, MPI_Datatype type, Bytes in_count, MPI_Datatype in_type,
                           MPI_Comm comm) {
    plain(ALLTOALL, members(comm), UNROOTED, in_place ? size_of(in_count, in_type) : size_of(count, type));
}

static void trace_alltoallv(Counts counts, MPI_Datatype type, MPI_Comm comm) {
    const Members *all = members(comm);
    Bytes sum = 0;
    for (int i = 0; all && i < all->n; i++) sum += count_at(counts, i);
    if (all) with_counts(ALLTOALLV, all, UNROOTED, size_of(sum, type), counts, all->n, type);
}

static void trace_alltoallw(Counts counts, const MPI_Datatype *types, MPI_Comm comm) {
    const Members *all = members(comm);
    Bytes sum = 0;
    for (int i = 0; all && i < all->n; i++) sum += size_of(count_at(counts, i), types[i]);
    if (!collective(ALLTOALLV, all, UNROOTED, sum)) return;
    put((Bytes)all->n);
    for (int i = 0; i < all->n; i++) put(size_of(count_at(counts, i), types[i]));
    put(0), put(0);
    record_scratch();
}

/* Each count of `counts`, or `count` to each neighbour. */
static void trace_near(int kind, Counts counts, Bytes count, MPI_Datatype type, const MPI_Datatype *types,
                       MPI_Comm comm) {
    const Members *all = members(comm);
    int n, sources, *list = neighbours(comm, 0, &n), *from = neighbours(comm, 1, &sources);
    Bytes sum = 0;
#define NEAR(i) size_of(counts.at ? count_at(counts, i) : count, types ? types[i] : type)
    for (int i = 0; i < n; i++) sum += NEAR(i);
    if (collective(kind, all, UNROOTED, sum)) {
        put((Bytes)n);
        for (int i = 0; i < n; i++) put(NEAR(i));
        for (int i = 0; i < sources; i++) from[i] = from[i] < 0 ? -1 : all->map[from[i]];
        for (int i = 0; i < n; i++) list[i] = list[i] < 0 ? -1 : all->map[list[i]];
        put_list(from, sources), put_list(list, n);
        record_scratch();
    }
    free(list), free(from);
#undef NEAR
}

static void trace_neighbour_allgather(Bytes count, MPI_Datatype type, MPI_Comm comm) {
    trace_near(NEIGHBOR_ALLGATHER, (Counts){0}, count, type, NULL, comm);
}

static void trace_neighbour_alltoall(Bytes count, MPI_Datatype type, MPI_Comm comm) {
    trace_near(NEIGHBOR_ALLTOALL, (Counts){0}, count, type, NULL, comm);
}

static void trace_neighboursv(Counts counts, MPI_Datatype type, const MPI_Datatype *types, MPI_Comm comm) {
    trace_near(NEIGHBOR_ALLTOALL, counts, 0, type, types, comm);
}

/* A communicator was made from another, by a call that all its ranks make. Its number is that of its group. */
static void trace_made(MPI_Comm parent, MPI_Comm made) {
    if (made != MPI_COMM_NULL) members(made);
    plain(COMM, members(parent), UNROOTED, 0);
}

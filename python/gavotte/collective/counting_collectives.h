/* Collectives: what each rank sends in them, by the shape that the library is taken to use. */

#define count_barrier(comm) (void)members(comm)

/* A collective that libraries carry out in one way: each rank that has bytes sends them to each that wants them. */
static void direct(const Members *all, int target, Bytes size) {
    if (!add(called, all, target, size)) return;
    add(least, all, target, size), add(shaped, all, target, size), add(most, all, target, size);
}

/* An intercommunicator's collectives have no shape of their own here. */
static void stated(const Members *all, int target, Bytes size) {
    if (add(called, all, target, size) && all->inter) add(shaped, all, target, size);
}

#include "counting_shapes.h"

#define SHAPE(estimate)                                                                                                \
    do {                                                                                                               \
        if (all && !all->inter && all->n > 1) estimate;                                                                \
    } while (0)

static void stated_all(const Members *all, Bytes size) {
    for (int i = 0; all && i < all->n; i++)
        if (all->inter || i != all->own) stated(all, i, size);
}

/* Any rank of the communicator may pass this much on to any other. */
static void at_most(const Members *all, Bytes size) {
    for (int i = 0; all && i < all->n; i++)
        if (all->inter || i != all->own) add(most, all, i, size);
    for (int i = 0; all && i < all->locals; i++)
        if (i != all->own && all->local[i] != MPI_UNDEFINED) most[all->local[i]] += size;
}

static int is_root(const Members *all, int root) { return all && (all->inter ? root == MPI_ROOT : root == all->own); }

/* This rank's bytes go to the root. */
static int is_leaf(const Members *all, int root) { return all && root >= 0 && (all->inter || root != all->own); }

/* Each rank passes shares of the vector on to the next one. */
static void ring(const Members *all, Bytes size, Bytes rounds) {
    if (!all || all->n < 1 || (!all->inter && all->n < 2)) return;
    if (all->inter)
        stated(all, all->own % all->n, size);
    else
        stated(all, (all->own + 1) % all->n, rounds * size / (Bytes)all->n * (Bytes)(all->n - 1));
}

static void count_bcast(Bytes count, MPI_Datatype type, int root, MPI_Comm comm) {
    const Members *all = members(comm);
    Bytes size = size_of(count, type);
    if (is_root(all, root)) stated_all(all, size);
    SHAPE(shape_bcast(all, root, size));
    at_most(all, 2 * size);
}

static void count_reduce(Bytes count, MPI_Datatype type, int root, MPI_Comm comm) {
    const Members *all = members(comm);
    Bytes size = size_of(count, type);
    if (is_leaf(all, root)) stated(all, root, size);
    SHAPE(shape_reduce(all, root, size));
    at_most(all, 2 * size);
}

static void count_allreduce(Bytes count, MPI_Datatype type, MPI_Comm comm) {
    const Members *all = members(comm);
    Bytes size = size_of(count, type);
    ring(all, size, 2);
    SHAPE(shape_allreduce(all, size));
    at_most(all, 2 * size);
}

static void count_scan(Bytes count, MPI_Datatype type, MPI_Comm comm) {
    const Members *all = members(comm);
    Bytes size = size_of(count, type);
    if (all && all->own + 1 < all->n) stated(all, all->own + 1, size);
    SHAPE(shape_scan(all, size));
    at_most(all, size);
}

#define count_exscan count_scan

static Bytes total(const Members *all, Counts counts, MPI_Datatype type) {
    Bytes sum = 0;
    for (int i = 0; all && i < (all->inter ? all->locals : all->n); i++) sum += count_at(counts, i);
    return size_of(sum, type);
}

static void count_reduce_scatter(Bytes whole, MPI_Comm comm) {
    const Members *all = members(comm);
    ring(all, whole, 1);
    SHAPE(shape_reduce_scatter(all, whole));
    at_most(all, 2 * whole);
}

static void count_reduce_scatterv(Counts counts, MPI_Datatype type, MPI_Comm comm) {
    count_reduce_scatter(total(members(comm), counts, type), comm);
}

static void count_reduce_scatter_block(Bytes count, MPI_Datatype type, MPI_Comm comm) {
    const Members *all = members(comm);
    count_reduce_scatter(all ? size_of(count * (Bytes)(all->inter ? all->locals : all->n), type) : 0, comm);
}

static void count_scatter(Bytes count, MPI_Datatype type, Bytes in_count, MPI_Datatype in_type, int root,
                          MPI_Comm comm) {
    const Members *all = members(comm);
    int sends = is_root(all, root);
    Bytes size = !all || root == MPI_PROC_NULL ? 0 : sends ? size_of(count, type) : size_of(in_count, in_type);
    if (sends) stated_all(all, size);
    SHAPE(shape_tree_out(all, root, 0, size));
    if (all) at_most(all, size * (Bytes)(all->n > all->locals ? all->n : all->locals));
}

static void count_scatterv(Counts counts, MPI_Datatype type, Bytes in_count, MPI_Datatype in_type, int root,
                           MPI_Comm comm) {
    const Members *all = members(comm);
    (void)in_count, (void)in_type;
    if (!is_root(all, root)) return;
    for (int i = 0; i < all->n; i++)
        if (all->inter || i != all->own) direct(all, i, size_of(count_at(counts, i), type));
}

/* `in_count` is that of the root, which alone knows it in an intercommunicator. */
static void count_gather(int in_place, Bytes count, MPI_Datatype type, Bytes in_count, MPI_Datatype in_type, int root,
                         MPI_Comm comm) {
    const Members *all = members(comm);
    int receives = is_root(all, root);
    Bytes size = !all || root == MPI_PROC_NULL ? 0
                 : receives && (in_place || all->inter) ? size_of(in_count, in_type)
                                                        : size_of(count, type);
    if (is_leaf(all, root)) stated(all, root, size);
    SHAPE(shape_tree_in(all, root, 0, size));
    if (all) at_most(all, size * (Bytes)(all->n > all->locals ? all->n : all->locals));
}

static void count_gatherv(Bytes count, MPI_Datatype type, Counts in_counts, MPI_Datatype in_type, int root,
                          MPI_Comm comm) {
    const Members *all = members(comm);
    (void)in_counts, (void)in_type;
    if (is_leaf(all, root)) direct(all, root, size_of(count, type));
}

static void count_allgather(int in_place, Bytes count, MPI_Datatype type, Bytes in_count, MPI_Datatype in_type,
                            MPI_Comm comm) {
    const Members *all = members(comm);
    Bytes size = in_place ? size_of(in_count, in_type) : size_of(count, type);
    stated_all(all, size);
    SHAPE(shape_allgather(all, size * (Bytes)all->n));
    if (all) at_most(all, (Bytes)(all->n + all->locals) * size);
}

static void count_allgatherv(int in_place, Bytes count, MPI_Datatype type, Counts counts, MPI_Datatype in_type,
                             MPI_Comm comm) {
    const Members *all = members(comm);
    if (!all) return;
    Bytes sum = 0, own = in_place ? size_of(count_at(counts, all->own), in_type) : size_of(count, type);
    for (int i = 0; i < all->n; i++) sum += size_of(count_at(counts, i), in_type);
    stated_all(all, own);
    SHAPE(shape_allgather(all, sum));
    at_most(all, sum + (all->inter ? own * (Bytes)all->locals : 0));
}

static void count_alltoall(int in_place, Bytes count, MPI_Datatype type, Bytes in_count, MPI_Datatype in_type,
                           MPI_Comm comm) {
    const Members *all = members(comm);
    Bytes size = in_place ? size_of(in_count, in_type) : size_of(count, type);
    stated_all(all, size);
    SHAPE(shape_alltoall(all, size));
    if (all) at_most(all, (Bytes)all->n * size);
}

static void count_alltoallv(Counts counts, MPI_Datatype type, MPI_Comm comm) {
    const Members *all = members(comm);
    for (int i = 0; all && i < all->n; i++)
        if (all->inter || i != all->own) direct(all, i, size_of(count_at(counts, i), type));
}

static void count_alltoallw(Counts counts, const MPI_Datatype *types, MPI_Comm comm) {
    const Members *all = members(comm);
    for (int i = 0; all && i < all->n; i++)
        if (all->inter || i != all->own) direct(all, i, size_of(count_at(counts, i), types[i]));
}

/* ---- collectives among neighbours of a topology ---- */

/* The ranks that this one sends to in neighbourhood collectives, or receives from; the caller frees them. */
static int *neighbours(MPI_Comm comm, int sources, int *n) {
    int kind = MPI_UNDEFINED, in = 0, out = 0, weighted = 0, own = 0, *list = NULL;
    *n = 0;
    PMPI_Topo_test(comm, &kind);
    if (kind == MPI_CART) {
        int dimensions = 0;
        PMPI_Cartdim_get(comm, &dimensions);
        list = malloc(sizeof *list * (size_t)(2 * dimensions + 1));
        for (int i = 0; list && i < dimensions; i++, *n += 2)
            PMPI_Cart_shift(comm, i, 1, &list[2 * i], &list[2 * i + 1]);
    } else if (kind == MPI_GRAPH) {
        PMPI_Comm_rank(comm, &own);
        PMPI_Graph_neighbors_count(comm, own, n);
        list = malloc(sizeof *list * (size_t)(*n + 1));
        if (list) PMPI_Graph_neighbors(comm, own, *n, list);
    } else if (kind == MPI_DIST_GRAPH) {
        PMPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
        int *rest = malloc(sizeof *rest * (size_t)(2 * (in + out) + 1));
        *n = sources ? in : out;
        list = malloc(sizeof *list * (size_t)(*n + 1));
        if (list && rest) {
            PMPI_Dist_graph_neighbors(comm, in, rest, rest + in, out, rest + 2 * in, rest + 2 * in + out);
            memcpy(list, sources ? rest : rest + 2 * in, sizeof *list * (size_t)*n);
        }
        free(rest);
    }
    if (!list) *n = 0;
    return list;
}

static void count_neighbours(Bytes count, MPI_Datatype type, MPI_Comm comm) {
    const Members *all = members(comm);
    int n, *list = neighbours(comm, 0, &n);
    for (int i = 0; i < n; i++) direct(all, list[i], size_of(count, type));
    free(list);
}

static void count_neighboursv(Counts counts, MPI_Datatype type, const MPI_Datatype *types, MPI_Comm comm) {
    const Members *all = members(comm);
    int n, *list = neighbours(comm, 0, &n);
    for (int i = 0; i < n; i++) direct(all, list[i], size_of(count_at(counts, i), types ? types[i] : type));
    free(list);
}

#define count_neighbour_allgather count_neighbours
#define count_neighbour_alltoall count_neighbours

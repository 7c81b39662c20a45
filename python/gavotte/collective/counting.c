/*
 * Counts the bytes that each rank of an unchanged MPI program sends each other one, with any MPI.
 *
 *     gavotte shim --count -o libgavotte-count.so                  (or: mpicc -O2 -shared -fPIC -o ... counting.c)
 *     LD_PRELOAD=./libgavotte-count.so GAVOTTE_COUNTS=job          in the environment of every rank
 *
 * Each rank writes job.RANK.pmpi when it calls MPI_Finalize: no message is sent, no rank waits. `gavotte profile pmpi`
 * reads them. A line `RANK EXACT SHAPED BROUGHT` counts bytes between this rank and that one:
 *
 * - EXACT: sent to it by messages, puts, and collectives in which each byte has one sender and one receiver (alltoall,
 *   scatter, gather, allgather);
 * - SHAPED: sent to it by other collectives in the shape assumed for them. A broadcast and a reduction are stars. An
 *   allreduce, a reduce-scatter and a scan are rings;
 * - BROUGHT: fetched from it by gets.
 *
 * `loose` is how much more any pair may have carried if the library uses other shapes.
 *
 * Not counted: intercommunicators, one-sided accumulates with MPI_REPLACE, neighbourhood collectives, MPI-IO, and Fortran
 * programs whose calls do not pass through the C binding.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long Bytes;

static int me = -1, ranks, keyval = MPI_KEYVAL_INVALID;
static Bytes *exact, *shaped, *brought, loose, uncounted;
static MPI_Group world;

/* A persistent send: what each start of it sends. */
typedef struct Persistent {
    MPI_Request request;
    int target;
    Bytes size;
    struct Persistent *next;
} Persistent;
static Persistent *persistent;

static void begin(void) {
    PMPI_Comm_rank(MPI_COMM_WORLD, &me);
    PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    exact = calloc(3 * (size_t)ranks, sizeof *exact);
    shaped = exact ? exact + ranks : NULL, brought = exact ? exact + 2 * (size_t)ranks : NULL;
}

static int drop(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)extra;
    free(value);
    return MPI_SUCCESS;
}

/* The ranks in MPI_COMM_WORLD of a communicator's, kept with it; NULL where they have none. */
static const int *members(MPI_Comm comm, int *size) {
    int inter = 0, found = 0, *map = NULL;
    if (!exact || comm == MPI_COMM_NULL) return NULL;
    PMPI_Comm_test_inter(comm, &inter);
    if (inter) return NULL;
    PMPI_Comm_size(comm, size);
    if (keyval == MPI_KEYVAL_INVALID) PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, drop, &keyval, NULL);
    PMPI_Comm_get_attr(comm, keyval, &map, &found);
    if (found) return map;
    int *own = malloc(sizeof *own * (size_t)*size);
    map = malloc(sizeof *map * (size_t)*size);
    MPI_Group group;
    if (!own || !map) return free(own), free(map), NULL;
    for (int i = 0; i < *size; i++) own[i] = i;
    PMPI_Comm_group(comm, &group);
    PMPI_Group_translate_ranks(group, *size, own, world, map);
    PMPI_Group_free(&group);
    free(own);
    PMPI_Comm_set_attr(comm, keyval, map);
    return map;
}

static Bytes size_of(Bytes count, MPI_Datatype type) {
    int size = 0;
    if (type == MPI_DATATYPE_NULL || PMPI_Type_size(type, &size) != MPI_SUCCESS || size < 0) return 0;
    return count * (Bytes)size;
}

static void add(Bytes *to, MPI_Comm comm, int target, Bytes size) {
    int n;
    const int *map = members(comm, &n);
    if (target == MPI_PROC_NULL || !size) return;
    if (!map || target < 0 || target >= n || map[target] == MPI_UNDEFINED) {
        uncounted += size;
        return;
    }
    to[map[target]] += size;
}

static void add_others(Bytes *to, MPI_Comm comm, Bytes size) {
    int n = 0, own;
    if (!members(comm, &n)) return;
    PMPI_Comm_rank(comm, &own);
    for (int i = 0; i < n; i++)
        if (i != own) add(to, comm, i, size);
}

/* ---- messages ---- */

#define SEND(name)                                                                                                     \
    int MPI_##name(const void *buffer, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm) {             \
        add(exact, comm, target, size_of((Bytes)count, type));                                                         \
        return PMPI_##name(buffer, count, type, target, tag, comm);                                                    \
    }
SEND(Send)
SEND(Ssend)
SEND(Bsend)
SEND(Rsend)

#define ISEND(name)                                                                                                    \
    int MPI_##name(const void *buffer, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm,               \
                   MPI_Request *request) {                                                                             \
        add(exact, comm, target, size_of((Bytes)count, type));                                                         \
        return PMPI_##name(buffer, count, type, target, tag, comm, request);                                           \
    }
ISEND(Isend)
ISEND(Issend)
ISEND(Ibsend)
ISEND(Irsend)

#define SEND_INIT(name)                                                                                                \
    int MPI_##name(const void *buffer, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm,               \
                   MPI_Request *request) {                                                                             \
        int n, code = PMPI_##name(buffer, count, type, target, tag, comm, request);                                    \
        const int *map = members(comm, &n);                                                                            \
        Persistent *fresh = code == MPI_SUCCESS && map && target >= 0 && target < n ? malloc(sizeof *fresh) : NULL;    \
        if (fresh) {                                                                                                   \
            *fresh = (Persistent){*request, map[target], size_of((Bytes)count, type), persistent};                     \
            persistent = fresh;                                                                                        \
        }                                                                                                              \
        return code;                                                                                                   \
    }
SEND_INIT(Send_init)
SEND_INIT(Ssend_init)
SEND_INIT(Bsend_init)
SEND_INIT(Rsend_init)

static void started(MPI_Request request) {
    for (Persistent *each = persistent; each; each = each->next)
        if (each->request == request && each->target >= 0) {
            exact[each->target] += each->size;
            return;
        }
}

int MPI_Start(MPI_Request *request) {
    started(*request);
    return PMPI_Start(request);
}

int MPI_Startall(int count, MPI_Request requests[]) {
    for (int i = 0; i < count; i++) started(requests[i]);
    return PMPI_Startall(count, requests);
}

int MPI_Request_free(MPI_Request *request) {
    for (Persistent **each = &persistent; *each; each = &(*each)->next)
        if ((*each)->request == *request) {
            Persistent *gone = *each;
            *each = gone->next;
            free(gone);
            break;
        }
    return PMPI_Request_free(request);
}

int MPI_Sendrecv(const void *out, int out_count, MPI_Datatype out_type, int target, int out_tag, void *in, int in_count,
                 MPI_Datatype in_type, int source, int in_tag, MPI_Comm comm, MPI_Status *status) {
    add(exact, comm, target, size_of((Bytes)out_count, out_type));
    return PMPI_Sendrecv(out, out_count, out_type, target, out_tag, in, in_count, in_type, source, in_tag, comm, status);
}

int MPI_Sendrecv_replace(void *buffer, int count, MPI_Datatype type, int target, int out_tag, int source, int in_tag,
                         MPI_Comm comm, MPI_Status *status) {
    add(exact, comm, target, size_of((Bytes)count, type));
    return PMPI_Sendrecv_replace(buffer, count, type, target, out_tag, source, in_tag, comm, status);
}

/* ---- one-sided ---- */

static void one_sided(Bytes *to, MPI_Win window, int target, Bytes size) {
    MPI_Group group;
    int rank = MPI_UNDEFINED;
    if (!to || target < 0) return;
    PMPI_Win_get_group(window, &group);
    PMPI_Group_translate_ranks(group, 1, &target, world, &rank);
    PMPI_Group_free(&group);
    if (rank != MPI_UNDEFINED) to[rank] += size;
}

int MPI_Put(const void *origin, int count, MPI_Datatype type, int target, MPI_Aint at, int target_count,
            MPI_Datatype target_type, MPI_Win window) {
    one_sided(exact, window, target, size_of((Bytes)count, type));
    return PMPI_Put(origin, count, type, target, at, target_count, target_type, window);
}

int MPI_Accumulate(const void *origin, int count, MPI_Datatype type, int target, MPI_Aint at, int target_count,
                   MPI_Datatype target_type, MPI_Op op, MPI_Win window) {
    one_sided(exact, window, target, size_of((Bytes)count, type));
    return PMPI_Accumulate(origin, count, type, target, at, target_count, target_type, op, window);
}

int MPI_Get(void *origin, int count, MPI_Datatype type, int target, MPI_Aint at, int target_count,
            MPI_Datatype target_type, MPI_Win window) {
    one_sided(brought, window, target, size_of((Bytes)count, type));
    return PMPI_Get(origin, count, type, target, at, target_count, target_type, window);
}

/* ---- collectives ---- */

static void star_out(MPI_Comm comm, int root, Bytes size) {
    int own;
    PMPI_Comm_rank(comm, &own);
    if (own == root) add_others(shaped, comm, size);
    loose += size;
}

static void star_in(MPI_Comm comm, int root, Bytes size) {
    int own;
    PMPI_Comm_rank(comm, &own);
    if (own != root) add(shaped, comm, root, size);
    loose += size;
}

/* Each edge of a ring of n carries the vector's shares of its n - 1 steps. */
static void ring(MPI_Comm comm, Bytes size, int rounds) {
    int own, n = 1;
    if (!members(comm, &n) || n < 2) return;
    PMPI_Comm_rank(comm, &own);
    add(shaped, comm, (own + 1) % n, (Bytes)rounds * size / (Bytes)n * (Bytes)(n - 1));
    loose += (Bytes)rounds * size;
}

static void scattered(MPI_Comm comm, int root, int count, const int *counts, MPI_Datatype type) {
    int own, n = 0;
    PMPI_Comm_rank(comm, &own);
    if (own != root || !members(comm, &n)) return;
    for (int i = 0; i < n; i++)
        if (i != own) add(exact, comm, i, size_of((Bytes)(counts ? counts[i] : count), type));
}

static void exchanged(MPI_Comm comm, int count, const int *counts, MPI_Datatype type, const MPI_Datatype *types) {
    int own, n = 0;
    PMPI_Comm_rank(comm, &own);
    if (!members(comm, &n)) return;
    for (int i = 0; i < n; i++)
        if (i != own) add(exact, comm, i, size_of((Bytes)(counts ? counts[i] : count), types ? types[i] : type));
}

static void gathered(MPI_Comm comm, int root, Bytes size) {
    int own;
    PMPI_Comm_rank(comm, &own);
    if (own != root) add(exact, comm, root, size);
}

static Bytes own_part(const void *out, int count, MPI_Datatype type, const int *counts, int in_count, MPI_Datatype in_type,
                      MPI_Comm comm) {
    int own;
    if (out != MPI_IN_PLACE) return size_of((Bytes)count, type);
    PMPI_Comm_rank(comm, &own);
    return size_of((Bytes)(counts ? counts[own] : in_count), in_type);
}

static Bytes total(const int *counts, MPI_Datatype type, MPI_Comm comm) {
    Bytes sum = 0;
    int n = 0;
    if (members(comm, &n))
        for (int i = 0; i < n; i++) sum += size_of((Bytes)counts[i], type);
    return sum;
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    star_out(comm, root, size_of((Bytes)count, type));
    return PMPI_Bcast(buffer, count, type, root, comm);
}

int MPI_Ibcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request) {
    star_out(comm, root, size_of((Bytes)count, type));
    return PMPI_Ibcast(buffer, count, type, root, comm, request);
}

int MPI_Reduce(const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
    star_in(comm, root, size_of((Bytes)count, type));
    return PMPI_Reduce(out, in, count, type, op, root, comm);
}

int MPI_Ireduce(const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
                MPI_Request *request) {
    star_in(comm, root, size_of((Bytes)count, type));
    return PMPI_Ireduce(out, in, count, type, op, root, comm, request);
}

int MPI_Allreduce(const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    ring(comm, size_of((Bytes)count, type), 2);
    return PMPI_Allreduce(out, in, count, type, op, comm);
}

int MPI_Iallreduce(const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request) {
    ring(comm, size_of((Bytes)count, type), 2);
    return PMPI_Iallreduce(out, in, count, type, op, comm, request);
}

int MPI_Scan(const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    ring(comm, size_of((Bytes)count, type), 1);
    return PMPI_Scan(out, in, count, type, op, comm);
}

int MPI_Iscan(const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
              MPI_Request *request) {
    ring(comm, size_of((Bytes)count, type), 1);
    return PMPI_Iscan(out, in, count, type, op, comm, request);
}

int MPI_Reduce_scatter(const void *out, void *in, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    ring(comm, total(counts, type, comm), 1);
    return PMPI_Reduce_scatter(out, in, counts, type, op, comm);
}

int MPI_Ireduce_scatter(const void *out, void *in, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                        MPI_Request *request) {
    ring(comm, total(counts, type, comm), 1);
    return PMPI_Ireduce_scatter(out, in, counts, type, op, comm, request);
}

int MPI_Reduce_scatter_block(const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    int n = 1;
    PMPI_Comm_size(comm, &n);
    ring(comm, size_of((Bytes)count * (Bytes)n, type), 1);
    return PMPI_Reduce_scatter_block(out, in, count, type, op, comm);
}

int MPI_Ireduce_scatter_block(const void *out, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                              MPI_Request *request) {
    int n = 1;
    PMPI_Comm_size(comm, &n);
    ring(comm, size_of((Bytes)count * (Bytes)n, type), 1);
    return PMPI_Ireduce_scatter_block(out, in, count, type, op, comm, request);
}

int MPI_Scatter(const void *out, int count, MPI_Datatype type, void *in, int in_count, MPI_Datatype in_type,
                int root, MPI_Comm comm) {
    scattered(comm, root, count, NULL, type);
    return PMPI_Scatter(out, count, type, in, in_count, in_type, root, comm);
}

int MPI_Iscatter(const void *out, int count, MPI_Datatype type, void *in, int in_count, MPI_Datatype in_type,
                 int root, MPI_Comm comm, MPI_Request *request) {
    scattered(comm, root, count, NULL, type);
    return PMPI_Iscatter(out, count, type, in, in_count, in_type, root, comm, request);
}

int MPI_Scatterv(const void *out, const int counts[], const int places[], MPI_Datatype type, void *in, int in_count,
                 MPI_Datatype in_type, int root, MPI_Comm comm) {
    scattered(comm, root, 0, counts, type);
    return PMPI_Scatterv(out, counts, places, type, in, in_count, in_type, root, comm);
}

int MPI_Iscatterv(const void *out, const int counts[], const int places[], MPI_Datatype type, void *in, int in_count,
                  MPI_Datatype in_type, int root, MPI_Comm comm, MPI_Request *request) {
    scattered(comm, root, 0, counts, type);
    return PMPI_Iscatterv(out, counts, places, type, in, in_count, in_type, root, comm, request);
}

int MPI_Gather(const void *out, int count, MPI_Datatype type, void *in, int in_count, MPI_Datatype in_type, int root,
               MPI_Comm comm) {
    gathered(comm, root, size_of((Bytes)count, type));
    return PMPI_Gather(out, count, type, in, in_count, in_type, root, comm);
}

int MPI_Igather(const void *out, int count, MPI_Datatype type, void *in, int in_count, MPI_Datatype in_type,
                int root, MPI_Comm comm, MPI_Request *request) {
    gathered(comm, root, size_of((Bytes)count, type));
    return PMPI_Igather(out, count, type, in, in_count, in_type, root, comm, request);
}

int MPI_Gatherv(const void *out, int count, MPI_Datatype type, void *in, const int counts[], const int places[],
                MPI_Datatype in_type, int root, MPI_Comm comm) {
    gathered(comm, root, size_of((Bytes)count, type));
    return PMPI_Gatherv(out, count, type, in, counts, places, in_type, root, comm);
}

int MPI_Igatherv(const void *out, int count, MPI_Datatype type, void *in, const int counts[], const int places[],
                 MPI_Datatype in_type, int root, MPI_Comm comm, MPI_Request *request) {
    gathered(comm, root, size_of((Bytes)count, type));
    return PMPI_Igatherv(out, count, type, in, counts, places, in_type, root, comm, request);
}

int MPI_Allgather(const void *out, int count, MPI_Datatype type, void *in, int in_count, MPI_Datatype in_type,
                  MPI_Comm comm) {
    add_others(exact, comm, own_part(out, count, type, NULL, in_count, in_type, comm));
    return PMPI_Allgather(out, count, type, in, in_count, in_type, comm);
}

int MPI_Iallgather(const void *out, int count, MPI_Datatype type, void *in, int in_count, MPI_Datatype in_type,
                   MPI_Comm comm, MPI_Request *request) {
    add_others(exact, comm, own_part(out, count, type, NULL, in_count, in_type, comm));
    return PMPI_Iallgather(out, count, type, in, in_count, in_type, comm, request);
}

int MPI_Allgatherv(const void *out, int count, MPI_Datatype type, void *in, const int counts[], const int places[],
                   MPI_Datatype in_type, MPI_Comm comm) {
    add_others(exact, comm, own_part(out, count, type, counts, 0, in_type, comm));
    return PMPI_Allgatherv(out, count, type, in, counts, places, in_type, comm);
}

int MPI_Iallgatherv(const void *out, int count, MPI_Datatype type, void *in, const int counts[], const int places[],
                    MPI_Datatype in_type, MPI_Comm comm, MPI_Request *request) {
    add_others(exact, comm, own_part(out, count, type, counts, 0, in_type, comm));
    return PMPI_Iallgatherv(out, count, type, in, counts, places, in_type, comm, request);
}

int MPI_Alltoall(const void *out, int count, MPI_Datatype type, void *in, int in_count, MPI_Datatype in_type,
                 MPI_Comm comm) {
    exchanged(comm, out == MPI_IN_PLACE ? in_count : count, NULL, out == MPI_IN_PLACE ? in_type : type, NULL);
    return PMPI_Alltoall(out, count, type, in, in_count, in_type, comm);
}

int MPI_Ialltoall(const void *out, int count, MPI_Datatype type, void *in, int in_count, MPI_Datatype in_type,
                  MPI_Comm comm, MPI_Request *request) {
    exchanged(comm, out == MPI_IN_PLACE ? in_count : count, NULL, out == MPI_IN_PLACE ? in_type : type, NULL);
    return PMPI_Ialltoall(out, count, type, in, in_count, in_type, comm, request);
}

int MPI_Alltoallv(const void *out, const int counts[], const int places[], MPI_Datatype type, void *in,
                  const int in_counts[], const int in_places[], MPI_Datatype in_type, MPI_Comm comm) {
    exchanged(comm, 0, out == MPI_IN_PLACE ? in_counts : counts, out == MPI_IN_PLACE ? in_type : type, NULL);
    return PMPI_Alltoallv(out, counts, places, type, in, in_counts, in_places, in_type, comm);
}

int MPI_Ialltoallv(const void *out, const int counts[], const int places[], MPI_Datatype type, void *in,
                   const int in_counts[], const int in_places[], MPI_Datatype in_type, MPI_Comm comm,
                   MPI_Request *request) {
    exchanged(comm, 0, out == MPI_IN_PLACE ? in_counts : counts, out == MPI_IN_PLACE ? in_type : type, NULL);
    return PMPI_Ialltoallv(out, counts, places, type, in, in_counts, in_places, in_type, comm, request);
}

int MPI_Alltoallw(const void *out, const int counts[], const int places[], const MPI_Datatype types[], void *in,
                  const int in_counts[], const int in_places[], const MPI_Datatype in_types[], MPI_Comm comm) {
    exchanged(comm, 0, out == MPI_IN_PLACE ? in_counts : counts, MPI_BYTE, out == MPI_IN_PLACE ? in_types : types);
    return PMPI_Alltoallw(out, counts, places, types, in, in_counts, in_places, in_types, comm);
}

int MPI_Ialltoallw(const void *out, const int counts[], const int places[], const MPI_Datatype types[], void *in,
                   const int in_counts[], const int in_places[], const MPI_Datatype in_types[], MPI_Comm comm,
                   MPI_Request *request) {
    exchanged(comm, 0, out == MPI_IN_PLACE ? in_counts : counts, MPI_BYTE, out == MPI_IN_PLACE ? in_types : types);
    return PMPI_Ialltoallw(out, counts, places, types, in, in_counts, in_places, in_types, comm, request);
}

/* ---- the end ---- */

static void report(void) {
    const char *name = getenv("GAVOTTE_COUNTS");
    char path[4096], aside[4100];
    if (!exact || !name || !*name) return;
    if (snprintf(path, sizeof path, "%s.%d.pmpi", name, me) >= (int)sizeof path) return;
    snprintf(aside, sizeof aside, "%s~", path);
    FILE *file = fopen(aside, "w");
    if (!file) {
        fprintf(stderr, "gavotte: %s cannot be written\n", aside);
        return;
    }
    fprintf(file, "gavotte/pmpi/1 rank %d of %d\nloose %llu\nuncounted %llu\n", me, ranks, loose, uncounted);
    for (int i = 0; i < ranks; i++)
        if (exact[i] || shaped[i] || brought[i]) fprintf(file, "%d %llu %llu %llu\n", i, exact[i], shaped[i], brought[i]);
    fprintf(file, "end\n");
    if (fclose(file) || rename(aside, path)) fprintf(stderr, "gavotte: %s cannot be written\n", path);
}

int MPI_Init(int *count, char ***words) {
    int code = PMPI_Init(count, words);
    if (code == MPI_SUCCESS) begin();
    return code;
}

int MPI_Init_thread(int *count, char ***words, int wanted, int *given) {
    int code = PMPI_Init_thread(count, words, wanted, given);
    if (code == MPI_SUCCESS) begin();
    return code;
}

int MPI_Finalize(void) {
    report();
    return PMPI_Finalize();
}

/*
 * Runs MPI_Bcast, MPI_Reduce, MPI_Scatter, MPI_Gather, MPI_Allgather and MPI_Allreduce of an unchanged program along trees and
 * rings: given ones, or those that it finds while the program runs.
 *
 *     mpicc -O2 -shared -fPIC -o libgavotte-mpi.so shim.c -lm -ldl (or: gavotte shim -o libgavotte-mpi.so)
 *     LD_PRELOAD=./libgavotte-mpi.so GAVOTTE_TREES=trees.txt       in the environment of every rank
 *     LD_PRELOAD=./libgavotte-mpi.so GAVOTTE_TUNE=self             or this, to tune without trees (shim_tuning.h)
 *
 * GAVOTTE_TREES is what `gavotte collective --format shim` writes, the same on all hosts. GAVOTTE_MIN_BYTES (32768):
 * smaller messages go the library's own way. GAVOTTE_VERBOSE=1: rank 0 prints at the end what was taken over.
 * GAVOTTE_OBSERVATIONS: rank 0 appends the time of each edge of broadcasts and scatters to this file, for
 * `gavotte watch`. GAVOTTE_REORDER_SUMS=on: with GAVOTTE_TUNE=self, floating-point numbers may be added in another order.
 *
 * The MPI library itself carries out all other calls:
 *
 * - on intercommunicators, and with GAVOTTE_TREES on communicators with other ranks than MPI_COMM_WORLD;
 * - from roots without a tree;
 * - with operators that do not commute;
 * - reductions of derived datatypes;
 * - of more than 2 GB.
 *
 * The decision uses only what all ranks know alike, so all of them decide the same way. The standard demands equal type
 * signatures, not equal types and counts.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SLOTS = 4 }; /* segments of a reduction that are under way to one rank */

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        int code_ = (call);                                                                                            \
        if (code_ != MPI_SUCCESS) return code_;                                                                        \
    } while (0)

/* A rank that cannot do as the others would make them wait forever. */
static void out_of_memory(void) {
    fprintf(stderr, "gavotte: no memory is left\n");
    PMPI_Abort(MPI_COMM_WORLD, 1);
}

static void *room(size_t bytes) {
    void *made = malloc(bytes);
    if (!made) out_of_memory();
    return made;
}

#include "shim_trees.h"
#include "shim_observe.h"

static long taken[OPERATIONS], passed[OPERATIONS];
static int keyval = MPI_KEYVAL_INVALID;

/* ---- starting ---- */

static int drop(MPI_Comm comm, int key, void *value, void *extra) {
    MPI_Comm *shadow = value;
    (void)comm, (void)key, (void)extra;
    int code = *shadow == MPI_COMM_NULL ? MPI_SUCCESS : PMPI_Comm_free(shadow);
    free(shadow);
    return code;
}

/* Reads GAVOTTE_MIN_BYTES; returns what is wrong with it, or NULL. */
static const char *read_least(void) {
    const char *least = getenv("GAVOTTE_MIN_BYTES");
    char *end;
    if (!least || !*least) return NULL;
    min_bytes = strtod(least, &end);
    return *end || !(min_bytes >= 0) ? "GAVOTTE_MIN_BYTES is no number of bytes" : NULL;
}

static void start_trees(const char *wrong) {
    const char *path = getenv("GAVOTTE_TREES"), *unread = read_trees(path);
    if (unread) wrong = unread;
    unsigned long mine[2], all[2];
    file_sum = checksum(path);
    mine[0] = wrong ? (unsigned long)me : file_sum, mine[1] = ~mine[0];
    PMPI_Allreduce(mine, all, 2, MPI_UNSIGNED_LONG, MPI_MIN, MPI_COMM_WORLD);
    int bad = wrong != NULL, any;
    PMPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    ready = !any && all[0] == ~all[1];
    if (ready) PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, drop, &keyval, NULL);
    else if (me == 0) fprintf(stderr, "gavotte: no trees are used: %s\n", wrong ? wrong : "the ranks' files differ");
    if (ready) observe(getenv("GAVOTTE_OBSERVATIONS"));
}

/* ---- choosing ---- */

/* A communicator of our own with the same ranks, so that no message of the program's can be taken for ours. */
static MPI_Comm shadow_of(MPI_Comm comm) {
    MPI_Comm *shadow;
    int found, inter, result = MPI_UNEQUAL;
    if (PMPI_Comm_get_attr(comm, keyval, &shadow, &found) == MPI_SUCCESS && found) return *shadow;
    shadow = malloc(sizeof *shadow);
    *shadow = MPI_COMM_NULL;
    PMPI_Comm_test_inter(comm, &inter);
    if (!inter) PMPI_Comm_compare(comm, MPI_COMM_WORLD, &result);
    if (result == MPI_IDENT || result == MPI_CONGRUENT) PMPI_Comm_split(comm, 0, me, shadow);
    PMPI_Comm_set_attr(comm, keyval, shadow);
    return *shadow;
}

/* Only then may `root` be compared with our own rank, and arguments be read that count at the root alone. */
static int usable(MPI_Comm comm, MPI_Comm *shadow) {
    return ready && comm != MPI_COMM_NULL && (*shadow = shadow_of(comm)) != MPI_COMM_NULL;
}

/* The tree or ring, or the first of two trees, for an operation; `root` is -1 where it has none. */
static const Tree *choose(int operation, int root, double bytes) {
    const Tree *best = NULL;
    int blocks = operation == SCATTER || operation == GATHER || operation == ALLGATHER;
    int first = operation == ALLGATHER ? UP_OF_GATHER : operation == ALLREDUCE ? UP_OF_REDUCE : operation;
    double room = blocks ? (double)INT_MAX / (ranks ? ranks : 1) : INT_MAX;
    for (int i = 0; bytes > 0 && bytes >= min_bytes && bytes <= room && i < tree_count; i++) {
        const Tree *tree = &trees[i];
        if ((tree->kind != operation && tree->kind != first) || (root >= 0 && tree->root != root)) continue;
        if (!best || fabs(log(tree->bytes / bytes)) < fabs(log(best->bytes / bytes))) best = tree;
    }
    if (best && best->library) best = NULL;
    (best ? taken : passed)[operation]++;
    return best;
}

static double bytes_of(MPI_Count count, MPI_Datatype type) {
    int size = 0;
    if (type == MPI_DATATYPE_NULL || PMPI_Type_size(type, &size) != MPI_SUCCESS) return 0;
    return (double)count * size;
}

static int is_named(MPI_Datatype type) {
    int integers, addresses, types, combiner;
    PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    return combiner == MPI_COMBINER_NAMED;
}

/* Whether memory holds the bytes as they go over the wire: a named type without gaps. */
static int is_plain(MPI_Datatype type) {
    int size;
    MPI_Aint low, extent;
    PMPI_Type_get_extent(type, &low, &extent);
    PMPI_Type_size(type, &size);
    return is_named(type) && low == 0 && extent == size;
}

#include "shim_moves.h"
#include "shim_rings.h"
#include "shim_exchange.h"

/* ---- the operations ---- */

static int bcast(void *buffer, MPI_Count count, MPI_Datatype type, const Tree *tree, MPI_Comm comm) {
    size_t bytes = (size_t)bytes_of(count, type);
    if (is_plain(type)) return tree->exchange ? spread(buffer, bytes, tree, comm) : down(buffer, bytes, 1, tree, comm);
    char *data = malloc(bytes);
    if (!data) return MPI_ERR_NO_MEM;
    if (tree->parent < 0) TRY(pack(buffer, count, type, data, bytes, comm));
    TRY(tree->exchange ? spread(data, bytes, tree, comm) : down(data, bytes, 1, tree, comm));
    if (tree->parent >= 0) TRY(unpack(data, buffer, count, type, bytes, comm));
    free(data);
    return MPI_SUCCESS;
}

static int scatter(const void *from, MPI_Count count, MPI_Datatype type, void *to, MPI_Count to_count,
                   MPI_Datatype to_type, size_t bytes, const Tree *tree, MPI_Comm comm) {
    char *laid = malloc(bytes * tree->size), *block = malloc(bytes);
    MPI_Aint low, extent;
    if (!laid || !block) return free(laid), free(block), MPI_ERR_NO_MEM;
    if (tree->parent < 0) {
        TRY(PMPI_Type_get_extent(type, &low, &extent));
        for (int i = 0; i < tree->size; i++) {
            TRY(pack((const char *)from + extent * count * tree->below[i], count, type, block, bytes, comm));
            deal(laid, block, bytes, i, tree, 1);
        }
    }
    TRY(down(laid, bytes, 0, tree, comm));
    deal(laid, block, bytes, 0, tree, 0);
    if (to != MPI_IN_PLACE) TRY(unpack(block, to, to_count, to_type, bytes, comm));
    free(laid), free(block);
    return MPI_SUCCESS;
}

static int gather(const void *from, MPI_Count count, MPI_Datatype type, void *to, MPI_Count to_count,
                  MPI_Datatype to_type, size_t bytes, const Tree *tree, MPI_Comm comm) {
    char *laid = malloc(bytes * tree->size), *block = malloc(bytes);
    MPI_Aint low, extent;
    if (!laid || !block) return free(laid), free(block), MPI_ERR_NO_MEM;
    if (from != MPI_IN_PLACE) {
        TRY(pack(from, count, type, block, bytes, comm));
        deal(laid, block, bytes, 0, tree, 1);
    }
    TRY(up(laid, bytes, tree, comm));
    if (tree->parent < 0) {
        TRY(PMPI_Type_get_extent(to_type, &low, &extent));
        for (int i = from == MPI_IN_PLACE; i < tree->size; i++) {
            deal(laid, block, bytes, i, tree, 0);
            TRY(unpack(block, (char *)to + extent * to_count * tree->below[i], to_count, to_type, bytes, comm));
        }
    }
    free(laid), free(block);
    return MPI_SUCCESS;
}

static int reduce(const void *from, void *to, MPI_Count count, MPI_Datatype type, MPI_Op op, const Tree *tree,
                  MPI_Comm comm) {
    MPI_Aint low, extent;
    int size;
    TRY(PMPI_Type_get_extent(type, &low, &extent));
    TRY(PMPI_Type_size(type, &size));
    size_t most = piece_of(tree, (size_t)count * size) / size, length = most ? most : 1;
    size_t pieces = ((size_t)count + length - 1) / length, messages = pieces * tree->children;
    char *sum = tree->parent < 0 ? to : (char *)from, *slots = NULL;
    MPI_Request coming[SLOTS];
    if (tree->children) slots = malloc(SLOTS * length * extent);
    if (tree->children && tree->parent >= 0) sum = malloc(count * extent);
    if (tree->children && (!slots || !sum)) return MPI_ERR_NO_MEM;
    if (from != MPI_IN_PLACE && sum != from) memcpy(sum, from, count * extent);
    for (size_t next = 0, done = 0, i = 0; i < pieces; i++) {
        size_t here = i + 1 < pieces ? length : count - i * length;
        for (int c = 0; c < tree->children; c++, done++) {
            for (; next < messages && next < done + SLOTS; next++) {
                int child = tree->child[tree->children - 1 - next % tree->children];
                TRY(PMPI_Irecv(slots + next % SLOTS * length * extent, (int)length, type, child, 0, comm,
                               &coming[next % SLOTS]));
            }
            TRY(await_one(&coming[done % SLOTS]));
            TRY(PMPI_Reduce_local(slots + done % SLOTS * length * extent, sum + i * length * extent, (int)here, type, op));
        }
        if (tree->parent >= 0) TRY(pass(sum + i * length * extent, (int)here, type, tree->parent, comm));
    }
    if (sum != to && sum != from) free(sum);
    free(slots);
    return MPI_SUCCESS;
}

static int allgather(const void *from, MPI_Count count, MPI_Datatype type, void *to, MPI_Count to_count,
                     MPI_Datatype to_type, size_t bytes, const Tree *tree, MPI_Comm comm) {
    MPI_Aint low, extent;
    int me = tree->me, ranks = tree->ranks;
    TRY(PMPI_Type_get_extent(to_type, &low, &extent));
    if (!tree->members && !tree->exchange) {
        int below = from == MPI_IN_PLACE && tree->parent >= 0;
        if (below) from = (char *)to + extent * to_count * me, count = to_count, type = to_type;
        TRY(gather(from, count, type, to, to_count, to_type, bytes, tree, comm));
        return bcast(to, to_count * ranks, to_type, tree + 1, comm);
    }
    int plain = is_plain(to_type);
    char *data = plain ? to : malloc(bytes * ranks);
    if (!data) return MPI_ERR_NO_MEM;
    if (from != MPI_IN_PLACE) TRY(pack(from, count, type, data + bytes * me, bytes, comm));
    else if (!plain) TRY(pack((char *)to + extent * to_count * me, to_count, to_type, data + bytes * me, bytes, comm));
    TRY(tree->exchange ? exchange(data, bytes * ranks, bytes, tree, comm) : collect_round(data, bytes, tree, comm));
    for (int i = 0; !plain && i < ranks; i++)
        TRY(unpack(data + bytes * i, (char *)to + extent * to_count * i, to_count, to_type, bytes, comm));
    if (!plain) free(data);
    return MPI_SUCCESS;
}

static int allreduce(const void *from, void *to, MPI_Count count, MPI_Datatype type, MPI_Op op, const Tree *tree,
                     MPI_Comm comm) {
    MPI_Aint low, extent;
    void *copy = NULL;
    if (tree->members) return combine_round(from, to, count, type, op, tree, comm);
    TRY(PMPI_Type_get_extent(type, &low, &extent));
    if (from == MPI_IN_PLACE && tree->parent >= 0) {
        /* Elsewhere than at the root, a reduction only reads. */
        if (!(copy = malloc(count * extent))) return MPI_ERR_NO_MEM;
        from = memcpy(copy, to, count * extent);
    }
    TRY(reduce(from, to, count, type, op, tree, comm));
    free(copy);
    return bcast(to, count, type, tree + 1, comm);
}

static int may_reduce(MPI_Datatype type, MPI_Op op) {
    int commutes = 0;
    if (type == MPI_DATATYPE_NULL || op == MPI_OP_NULL || !is_named(type)) return 0;
    return PMPI_Op_commutative(op, &commutes) == MPI_SUCCESS && commutes;
}

/* ---- calls ---- */

/* A call of the program. Arguments that its operation does not have are 0. */
typedef struct {
    int operation, root;
    const void *from;
    void *to;
    MPI_Count count, to_count;
    MPI_Datatype type, to_type;
    MPI_Op op;
    MPI_Comm comm;
} Call;

#if MPI_VERSION >= 4
#define IN_LIBRARY(name, ...) return PMPI_##name##_c(__VA_ARGS__)
#else
#define IN_LIBRARY(name, ...) return PMPI_##name(__VA_ARGS__)
#endif

static int in_library(const Call *c) {
    switch (c->operation) {
    case BROADCAST: IN_LIBRARY(Bcast, c->to, c->count, c->type, c->root, c->comm);
    case REDUCE: IN_LIBRARY(Reduce, c->from, c->to, c->count, c->type, c->op, c->root, c->comm);
    case SCATTER: IN_LIBRARY(Scatter, c->from, c->count, c->type, c->to, c->to_count, c->to_type, c->root, c->comm);
    case GATHER: IN_LIBRARY(Gather, c->from, c->count, c->type, c->to, c->to_count, c->to_type, c->root, c->comm);
    case ALLGATHER: IN_LIBRARY(Allgather, c->from, c->count, c->type, c->to, c->to_count, c->to_type, c->comm);
    default: IN_LIBRARY(Allreduce, c->from, c->to, c->count, c->type, c->op, c->comm);
    }
}

/* Carries a call out along a tree or ring, or the first of two trees. */
static int along(const Call *c, const Tree *tree, size_t bytes, MPI_Comm own) {
    switch (c->operation) {
    case BROADCAST: return bcast(c->to, c->count, c->type, tree, own);
    case REDUCE: return reduce(c->from, c->to, c->count, c->type, c->op, tree, own);
    case SCATTER: return scatter(c->from, c->count, c->type, c->to, c->to_count, c->to_type, bytes, tree, own);
    case GATHER: return gather(c->from, c->count, c->type, c->to, c->to_count, c->to_type, bytes, tree, own);
    case ALLGATHER: return allgather(c->from, c->count, c->type, c->to, c->to_count, c->to_type, bytes, tree, own);
    default: return allreduce(c->from, c->to, c->count, c->type, c->op, tree, own);
    }
}

/* The bytes of a message or of one rank's block, from the arguments that count at this rank. */
static double bytes_of_call(const Call *call, int rank) {
    int at_root = rank == call->root, operation = call->operation;
    int by_to = operation == ALLGATHER || (operation == SCATTER && !at_root) || (operation == GATHER && at_root);
    return by_to ? bytes_of(call->to_count, call->to_type) : bytes_of(call->count, call->type);
}

#include "shim_search.h"
#include "shim_tuning.h"

static int operate(const Call *call) {
    MPI_Comm own = MPI_COMM_NULL;
    if (tuning) return tune(call);
    int may = usable(call->comm, &own) && (!is_sum(call->operation) || may_reduce(call->type, call->op));
    double bytes = may ? bytes_of_call(call, me) : 0;
    const Tree *tree = choose(call->operation, call->root, bytes);
    return tree ? along(call, tree, (size_t)bytes, own) : in_library(call);
}

/* ---- starting, by all ranks ---- */

/* What all ranks want. Ranks with other trees or another least size would wait for each other forever. */
static void start(void) {
    const char *tune_by = getenv("GAVOTTE_TUNE"), *reorder = getenv("GAVOTTE_REORDER_SUMS"), *wrong = read_least();
    enum { ON, SELF, NONE, FINE, REORDER, LEAST, GREATEST, WORDS };
    int mine[WORDS], all[WORDS];
    PMPI_Comm_rank(MPI_COMM_WORLD, &me);
    PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    mine[ON] = !tune_by || strcasecmp(tune_by, "off");
    mine[SELF] = tune_by && !strcasecmp(tune_by, "self") && !getenv("GAVOTTE_TREES");
    mine[NONE] = !mine[SELF], mine[FINE] = !wrong;
    mine[REORDER] = reorder && !strcasecmp(reorder, "on");
    mine[LEAST] = min_bytes < INT_MAX ? (int)min_bytes : INT_MAX, mine[GREATEST] = -mine[LEAST];
    PMPI_Allreduce(mine, all, WORDS, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all[ON]) return;
    if (all[NONE]) {
        start_trees(wrong);
        return;
    }
    if (!all[SELF]) wrong = "not all ranks have GAVOTTE_TUNE=self";
    else if (all[LEAST] != -all[GREATEST]) wrong = "not all ranks have the same GAVOTTE_MIN_BYTES";
    if (all[SELF] && all[FINE] && !wrong) start_tuning(all[REORDER]);
    else if (me == 0) fprintf(stderr, "gavotte: nothing is tuned: %s\n", wrong ? wrong : "a rank's GAVOTTE_MIN_BYTES is no number");
}

/* ---- what the program calls; with MPI 4 also with large counts ---- */

int MPI_Init(int *argc, char ***argv) {
    TRY(PMPI_Init(argc, argv));
    return start(), MPI_SUCCESS;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    TRY(PMPI_Init_thread(argc, argv, required, provided));
    return start(), MPI_SUCCESS;
}

int MPI_Finalize(void) {
    const char *verbose = getenv("GAVOTTE_VERBOSE");
    for (int i = 0; verbose && atoi(verbose) && !tuning && me == 0 && i < OPERATIONS; i++)
        fprintf(stderr, "gavotte: %s: %ld taken over, %ld passed on\n", NAMES[i], taken[i], passed[i]);
    print_groups();
    return PMPI_Finalize();
}

#define DEFINE(COUNT, suffix)                                                                                          \
    int MPI_Bcast##suffix(void *buffer, COUNT count, MPI_Datatype type, int root, MPI_Comm comm) {                     \
        return operate(&(Call){BROADCAST, root, .to = buffer, .count = count, .type = type, .comm = comm});            \
    }                                                                                                                  \
    int MPI_Reduce##suffix(const void *from, void *to, COUNT count, MPI_Datatype type, MPI_Op op, int root,            \
                           MPI_Comm comm) {                                                                            \
        return operate(&(Call){REDUCE, root, from, to, .count = count, .type = type, .op = op, .comm = comm});         \
    }                                                                                                                  \
    int MPI_Scatter##suffix(const void *from, COUNT count, MPI_Datatype type, void *to, COUNT to_count,                \
                            MPI_Datatype to_type, int root, MPI_Comm comm) {                                           \
        return operate(&(Call){SCATTER, root, from, to, count, to_count, type, to_type, .comm = comm});                \
    }                                                                                                                  \
    int MPI_Gather##suffix(const void *from, COUNT count, MPI_Datatype type, void *to, COUNT to_count,                 \
                           MPI_Datatype to_type, int root, MPI_Comm comm) {                                            \
        return operate(&(Call){GATHER, root, from, to, count, to_count, type, to_type, .comm = comm});                 \
    }                                                                                                                  \
    int MPI_Allgather##suffix(const void *from, COUNT count, MPI_Datatype type, void *to, COUNT to_count,              \
                              MPI_Datatype to_type, MPI_Comm comm) {                                                   \
        return operate(&(Call){ALLGATHER, -1, from, to, count, to_count, type, to_type, .comm = comm});                \
    }                                                                                                                  \
    int MPI_Allreduce##suffix(const void *from, void *to, COUNT count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {  \
        return operate(&(Call){ALLREDUCE, -1, from, to, .count = count, .type = type, .op = op, .comm = comm});        \
    }

DEFINE(int, )
#if MPI_VERSION >= 4
DEFINE(MPI_Count, _c)
#endif
#ifdef OPEN_MPI
#include "shim_fortran.h"
#endif

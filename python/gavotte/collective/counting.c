/*
 * Counts the bytes that each rank of an unchanged MPI program sends each other one, with any MPI.
 *
 *     gavotte shim --count -o libgavotte-count.so                  (or: mpicc -O2 -shared -fPIC -o ... counting.c -ldl)
 *     LD_PRELOAD=./libgavotte-count.so GAVOTTE_COUNTS=job          in the environment of every rank
 *
 * Each rank writes job.RANK.pmpi when it calls MPI_Finalize: no message is sent, no rank waits. `gavotte profile pmpi`
 * reads them. A line `RANK EXACT CALLED LEAST SHAPED MOST WIRE BROUGHT` counts bytes between this rank and that one:
 *
 * - EXACT: sent to it by messages and puts;
 * - CALLED: sent to it by collectives, if each byte goes from the rank that has it to the rank that wants it;
 * - LEAST, SHAPED, MOST: bounds and an estimate of what collectives sent to it with the library's own algorithms;
 * - WIRE: what collectives sent to it, as the library itself counts it (`wire counted`; counting_wire.h);
 * - BROUGHT: fetched from it by gets.
 *
 * With GAVOTTE_TRACE=job, each rank also records the sequence of its calls (tracing.h) in job.RANK.trace.
 *
 * counting_calls.h has the calls of C, counting_fortran.h those of Fortran that pass the C binding by. `uncounted` are
 * bytes to ranks outside MPI_COMM_WORLD, as of programs that spawn others. Partitioned communication and persistent
 * collectives are not counted.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long Bytes;

enum { COLUMNS = 7 };
static int me = -1, ranks, keyval = MPI_KEYVAL_INVALID, owner, reported, is_spawned;
static Bytes *exact, *called, *least, *shaped, *most, *wire, *brought, uncounted;
static MPI_Group world;

/* How often a call was counted: a call of Fortran counts itself unless it has reached the C binding. */
static _Thread_local unsigned long reached;

/* Counts of a vector collective: `int`, or MPI_Count in calls that end in `_c`. */
typedef struct {
    const void *at;
    int wide;
} Counts;
#define VECTOR(counts) ((Counts){(counts), sizeof *(counts) > sizeof(int)})

static Bytes count_at(Counts counts, int at) {
    return counts.wide ? (Bytes)((const MPI_Count *)counts.at)[at] : (Bytes)((const int *)counts.at)[at];
}

/* A persistent send: what each start of it sends, and whether the library made it for a collective. */
typedef struct Persistent {
    MPI_Request request;
    int target, internal;
    Bytes size;
    struct Persistent *next;
} Persistent;

enum { BUCKETS = 1024 };
static Persistent *persistent[BUCKETS];

static Persistent **bucket_of(MPI_Request request) {
    size_t number = (size_t)request;
    return &persistent[(number ^ number >> 7 ^ number >> 17) % BUCKETS];
}

static const Persistent *persistent_of(MPI_Request request) {
    for (const Persistent *each = *bucket_of(request); each; each = each->next)
        if (each->request == request) return each;
    return NULL;
}

static void forget_request(MPI_Request request) {
    for (Persistent **each = bucket_of(request); *each; each = &(*each)->next)
        if ((*each)->request == request) {
            Persistent *gone = *each;
            *each = gone->next;
            free(gone);
            return;
        }
}

static void remember_request(MPI_Request request, int target, int internal, Bytes size) {
    Persistent *fresh = malloc(sizeof *fresh), **bucket = bucket_of(request);
    forget_request(request);
    if (!fresh) return;
    *fresh = (Persistent){request, target, internal, size, *bucket};
    *bucket = fresh;
}

static void begin(void) {
    if (exact) return;
    PMPI_Comm_rank(MPI_COMM_WORLD, &me);
    PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    Bytes *all = calloc(COLUMNS * (size_t)ranks, sizeof *all);
    if (!all) return;
    Bytes **columns[COLUMNS] = {&called, &least, &shaped, &most, &wire, &brought, &exact};
    for (int i = 0; i < COLUMNS; i++) *columns[i] = all + (size_t)i * (size_t)ranks;
    MPI_Comm parent = MPI_COMM_NULL;
    PMPI_Comm_get_parent(&parent);
    is_spawned = parent != MPI_COMM_NULL;
    owner = getpid();
}

/* The ranks that a communicator reaches, by their rank in MPI_COMM_WORLD; kept with it. Those of an intercommunicator
 * are its remote group, and `local` has its own group. */
typedef struct {
    int n, own, inter, locals, id, dropped; /* id: its number in the trace */
    int *local;
    int map[];
} Members;

static void trace_members(Members *all);
static void trace_drop(Members *all);

/* Number of communicators that were freed: another one may have the handle of a freed one. */
static unsigned long dropped;

static int drop(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)extra;
    __atomic_fetch_add(&dropped, 1, __ATOMIC_RELAXED);
    trace_drop(value);
    free(value);
    return MPI_SUCCESS;
}

static void translate(MPI_Group group, int n, int *map) {
    int *own = malloc(sizeof *own * (size_t)(n ? n : 1));
    for (int i = 0; i < n; i++) map[i] = MPI_UNDEFINED;
    if (own) {
        for (int i = 0; i < n; i++) own[i] = i;
        PMPI_Group_translate_ranks(group, n, own, world, map);
    }
    free(own);
    PMPI_Group_free(&group);
}

static const Members *members(MPI_Comm comm) {
    static _Thread_local MPI_Comm last;
    static _Thread_local const Members *last_members;
    static _Thread_local unsigned long last_dropped;
    int inter = 0, found = 0, locals = 0, n;
    Members *kept = NULL;
    MPI_Group group;
    reached++;
    if (!exact || comm == MPI_COMM_NULL) return NULL;
    if (last_members && last == comm && last_dropped == dropped) return last_members;
    if (keyval == MPI_KEYVAL_INVALID) PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, drop, &keyval, NULL);
    PMPI_Comm_get_attr(comm, keyval, &kept, &found);
    if (found) {
        last = comm, last_members = kept, last_dropped = dropped;
        return kept;
    }
    PMPI_Comm_test_inter(comm, &inter);
    PMPI_Comm_size(comm, &n);
    if (inter) locals = n, PMPI_Comm_remote_size(comm, &n);
    kept = malloc(sizeof *kept + sizeof(int) * (size_t)(n + locals));
    if (!kept) return NULL;
    *kept = (Members){.n = n, .inter = inter, .locals = locals, .local = kept->map + n};
    PMPI_Comm_rank(comm, &kept->own);
    if (inter)
        PMPI_Comm_remote_group(comm, &group);
    else
        PMPI_Comm_group(comm, &group);
    translate(group, n, kept->map);
    if (inter) {
        PMPI_Comm_group(comm, &group);
        translate(group, locals, kept->local);
    }
    trace_members(kept);
    PMPI_Comm_set_attr(comm, keyval, kept);
    return kept;
}

static Bytes size_of(Bytes count, MPI_Datatype type) {
    MPI_Count size = 0;
    if (type == MPI_DATATYPE_NULL || PMPI_Type_size_x(type, &size) != MPI_SUCCESS || size < 0) return 0;
    return count * (Bytes)size;
}

/* Add bytes to a rank of a communicator, and tell whether it is one of MPI_COMM_WORLD. */
static int add(Bytes *to, const Members *all, int target, Bytes size) {
    if (target < 0 || !size) return 0; /* MPI_PROC_NULL, MPI_ROOT */
    if (!all || target >= all->n || all->map[target] == MPI_UNDEFINED) {
        if (to == exact || to == called) __atomic_fetch_add(&uncounted, size, __ATOMIC_RELAXED);
        return 0;
    }
    __atomic_fetch_add(&to[all->map[target]], size, __ATOMIC_RELAXED);
    return 1;
}

/* ---- messages ---- */

static void count_send(Bytes count, MPI_Datatype type, int target, int tag, int mode, MPI_Comm comm) {
    (void)tag, (void)mode;
    add(exact, members(comm), target, size_of(count, type));
}

static void count_send_init(Bytes count, MPI_Datatype type, int target, int tag, int mode, MPI_Comm comm,
                            MPI_Request request) {
    (void)tag, (void)mode;
    const Members *all = members(comm);
    int known = all && target < all->n && target >= 0 && all->map[target] != MPI_UNDEFINED;
    if (target >= 0) remember_request(request, known ? all->map[target] : -1, 0, size_of(count, type));
}

static void count_start(MPI_Request request) {
    const Persistent *each = persistent_of(request);
    reached++;
    if (!exact || !each || each->internal) return;
    if (each->target < 0)
        uncounted += each->size;
    else
        exact[each->target] += each->size;
}

#define count_sendrecv(count, type, target, tag, ...) count_send(count, type, target, tag, 0, comm)
#define count_isendrecv count_sendrecv

static void count_startall(int count, const MPI_Request *requests) {
    for (int i = 0; i < count; i++) count_start(requests[i]);
}

#include "counting_wire.h"

/* ---- one-sided ---- */

static void one_sided(Bytes *to, MPI_Win window, int target, Bytes size) {
    MPI_Group group;
    int rank = MPI_UNDEFINED;
    reached++;
    if (!to || target < 0) return;
    PMPI_Win_get_group(window, &group);
    PMPI_Group_translate_ranks(group, 1, &target, world, &rank);
    PMPI_Group_free(&group);
    if (rank != MPI_UNDEFINED)
        to[rank] += size;
    else
        uncounted += size;
}

static void count_put(Bytes count, MPI_Datatype type, int target, MPI_Win window) {
    one_sided(exact, window, target, size_of(count, type));
}

static void count_get(Bytes count, MPI_Datatype type, int target, MPI_Win window) {
    one_sided(brought, window, target, size_of(count, type));
}

/* What goes there, and what comes back. `MPI_NO_OP` sends nothing. */
static void count_fetch(Bytes count, MPI_Datatype type, Bytes back, MPI_Datatype back_type, int target, MPI_Op op,
                        MPI_Win window) {
    one_sided(exact, window, target, op == MPI_NO_OP ? 0 : size_of(count, type));
    one_sided(brought, window, target, size_of(back, back_type));
}

#include "counting_collectives.h"

/* ---- the calls ---- */

#include "tracing.h"
#include "tracing_collectives.h"

/* A call that blocks: count it by count_NAME, and record it by trace_NAME with the same arguments. */
#define BLOCKING(name, arguments, call) ({ count_##name arguments; TRACED(call, trace_##name arguments); })
/* One that starts what `request` stands for. */
#define STARTING(name, arguments, call, request)                                                                       \
    ({ count_##name arguments; TRACED(call, trace_request = (request); trace_##name arguments); })
/* One that makes a persistent request. */
#define INIT(name, arguments, call)                                                                                    \
    ({                                                                                                                 \
        int made_ = TRACED(call, trace_##name arguments);                                                              \
        if (made_ == MPI_SUCCESS) count_##name arguments;                                                              \
        made_;                                                                                                         \
    })

#define CALL(name) MPI_##name
#define REAL(name) PMPI_##name
#define N int
#define A int
#include "counting_calls.h"
#include "tracing_calls.h"
#undef CALL
#undef REAL
#undef N
#undef A

#if MPI_VERSION >= 4
#define LARGE
#define CALL(name) MPI_##name##_c
#define REAL(name) PMPI_##name##_c
#define N MPI_Count
#define A MPI_Aint
#include "counting_calls.h"
#include "tracing_calls.h"
#endif

int MPI_Start(MPI_Request *request) {
    MPI_Request began = *request;
    return BLOCKING(start, (began), PMPI_Start(request));
}

int MPI_Startall(int count, MPI_Request requests[]) {
    return BLOCKING(startall, (count, requests), PMPI_Startall(count, requests));
}

int MPI_Request_free(MPI_Request *request) {
    MPI_Request gone = *request;
    forget_request(gone);
    return TRACED(PMPI_Request_free(request), trace_forget(gone));
}

#include "tracing_file.h"

/* ---- the end ---- */

/* Spawned programs have ranks from 0 on, too: the number of their job keeps their files apart from their parent's. */
static const char *spawned_job(void) {
    static const char *names[] = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID"};
    static char made[80];
    const char *job = NULL;
    if (!is_spawned) return "";
    for (int i = 0; i < 3 && !job; i++) job = getenv(names[i]);
    snprintf(made, sizeof made, "-spawned-%.60s", job ? job : "job");
    for (char *each = made; *each; each++)
        if (*each == '/' || *each == '.') *each = '-';
    return made;
}

static void report(int whole) {
    const char *name = getenv("GAVOTTE_COUNTS");
    char path[4096], aside[4100];
    if (!exact || reported) return;
    reported = 1;
    trace_report(whole, spawned_job());
    if (!name || !*name) return;
    if (whole) wire_end();
    if (snprintf(path, sizeof path, "%s%s.%d.pmpi", name, spawned_job(), me) >= (int)sizeof path) {
        fprintf(stderr, "gavotte: GAVOTTE_COUNTS is too long\n");
        return;
    }
    snprintf(aside, sizeof aside, "%s~", path);
    FILE *file = fopen(aside, "w");
    if (!file) {
        fprintf(stderr, "gavotte: %s cannot be written\n", aside);
        return;
    }
    fprintf(file, "gavotte/pmpi/2 rank %d of %d\n", me, ranks);
    fprintf(file, "wire %s\nuncounted %llu\n", wire_live ? "counted" : "estimated", uncounted);
    if (!whole) fprintf(file, "unfinished 1\n");
    for (int i = 0; i < ranks; i++)
        if (exact[i] || called[i] || shaped[i] || most[i] || wire[i] || brought[i])
            fprintf(file, "%d %llu %llu %llu %llu %llu %llu %llu\n", i, exact[i], called[i], least[i], shaped[i],
                    most[i], wire_live ? wire[i] : 0, brought[i]);
    fprintf(file, "end\n");
    if (fclose(file) || rename(aside, path)) fprintf(stderr, "gavotte: %s cannot be written\n", path);
}

static void started(void) {
    if (exact) return;
    begin();
    wire_begin();
    trace_begin();
}

int MPI_Init(int *count, char ***words) {
    int code = PMPI_Init(count, words);
    if (code == MPI_SUCCESS) started();
    return code;
}

int MPI_Init_thread(int *count, char ***words, int wanted, int *given) {
    int code = PMPI_Init_thread(count, words, wanted, given);
    if (code == MPI_SUCCESS) started();
    return code;
}

int MPI_Finalize(void) {
    report(1);
    return PMPI_Finalize();
}

#include "counting_fortran.h"

/* A rank that ends without MPI_Finalize leaves its counts; one whose start went past this library says so. */
__attribute__((destructor)) static void leave(void) {
    const char *name = getenv("GAVOTTE_COUNTS");
    int initialised = 0;
    if (exact) {
        if (owner == getpid()) report(0);
        return;
    }
    if (!name || !*name) return;
    PMPI_Initialized(&initialised);
    if (initialised) fprintf(stderr, "gavotte: this process was not counted: it does not start MPI by MPI_Init\n");
}

/* Records the sequence of this rank's MPI calls, with the computing between them, if GAVOTTE_TRACE is set.
 *
 * Each wrapper of a call counts it (counting.c) and records it here, after the library's own function has returned:
 * requests and the sources of wildcards are known then. A call becomes a key, the bytes that describe it in the file.
 * Equal keys have one number (tracing_keys.h). tracing_fold.h folds the sequence of numbers, tracing_file.h writes it.
 *
 * What a receive with a wildcard matched is known when it has completed. Until then it and what follows wait in a
 * queue. Requests have the lowest free number, so that each pass of a loop has the same ones.
 */
#include <time.h>

static int tracing;
static _Thread_local int trace_depth;
static _Thread_local MPI_Request *trace_request; /* of the call that is recorded; NULL = it blocks */
static struct {
    double last, computed, spent, begin, began_s, startup_s, polled_s;
    int polled, threaded, threads, wildcards, locked; /* threads: that have made calls */
    Bytes calls, dropped, one_sided, one_sided_bytes, outside;
} trace;

/* Longest processor time between two polls that counts as waiting, in seconds. */
static const double POLL_S = 20e-6;

static double trace_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double trace_now(void) { return trace_clock(CLOCK_MONOTONIC); }

static double trace_loaded_s;
__attribute__((constructor)) static void trace_load(void) { trace_loaded_s = trace_now(); }

static Bytes zigzag(long long value) { return (Bytes)value << 1 ^ (Bytes)(value >> 63); }

#include "tracing_fold.h"
#include "tracing_keys.h"
#include "tracing_queue.h"
#include "tracing_communicators.h"

/* ---- time ---- */

/* What has passed since the last call was computing. */
static void trace_arrive(void) {
    static _Thread_local int known;
    trace_lock();
    trace.threads += !known, known = 1;
    double now = trace_now(), passed = now - trace.last;
    if (trace.polled && (passed < POLL_S || trace_clock(CLOCK_THREAD_CPUTIME_ID) - trace.polled_s < POLL_S))
        trace.spent += passed;
    else
        trace.computed += passed;
    trace.polled = 0, trace.last = now;
    trace_unlock();
}

/* The library's function has returned. Return whether the call is to be recorded; `trace_done` follows then. */
static int trace_depart(int recorded) {
    trace_lock();
    double now = trace_now();
    trace.spent += now - trace.last, trace.last = now;
    if (recorded) return 1;
    trace_unlock();
    return 0;
}

static void trace_enter(void) {
    reached++;
    if (tracing && !trace_depth++) trace_arrive();
}

static int trace_leave(int code) { return tracing && !--trace_depth && trace_depart(code == MPI_SUCCESS); }

static void trace_done(void) {
    trace_request = NULL;
    trace_unlock();
}

/* Call a function of the library, which blocks, and record it by `what`. */
#define TRACED(call, what)                                                                                             \
    ({                                                                                                                 \
        trace_enter();                                                                                                 \
        int code_ = (call);                                                                                            \
        if (trace_leave(code_)) {                                                                                      \
            what;                                                                                                      \
            trace_done();                                                                                              \
        }                                                                                                              \
        code_;                                                                                                         \
    })

#include "tracing_requests.h"
#include "tracing_messages.h"
#include "tracing_completion.h"

/* ---- one-sided ---- */

static void trace_one_sided(Bytes size) { trace.one_sided++, trace.one_sided_bytes += size; }
#define trace_put(count, type, target, window) trace_one_sided(size_of(count, type))
#define trace_get trace_put
#define trace_fetch(count, type, back, back_type, target, op, window)                                                  \
    trace_one_sided(size_of(count, type) + size_of(back, back_type))

/* ---- begin ---- */

static void trace_begin(void) {
    const char *name = getenv("GAVOTTE_TRACE"), *budget = getenv("GAVOTTE_TRACE_BYTES");
    int level = MPI_THREAD_SINGLE;
    if (!name || !*name || !exact || !fold_begin()) return;
    if (budget && *budget) trace_budget = strtoull(budget, NULL, 10);
    PMPI_Query_thread(&level);
    trace.threaded = level == MPI_THREAD_MULTIPLE;
    trace.begin = trace.last = trace_now();
    trace.startup_s = trace.begin - trace_loaded_s;
    trace.began_s = trace_clock(CLOCK_REALTIME);
    tracing = 1;
    members(MPI_COMM_WORLD);
}

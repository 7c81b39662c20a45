/* The calls of Fortran that only a trace records, and those that send and receive. See counting_fortran.h. */

enum { F_STATUS = sizeof(MPI_Status) / sizeof(F) };

static int f_ignored(const F *status, int many) {
    static const void *known[2][2];
    static const char *names[2][2] = {{"mpi_fortran_status_ignore_", "mpi_fortran_status_ignore__"},
                                      {"mpi_fortran_statuses_ignore_", "mpi_fortran_statuses_ignore__"}};
    for (int i = 0; i < 2; i++) {
        if (!known[many][i]) known[many][i] = dlsym(RTLD_DEFAULT, names[many][i]);
        if (known[many][i] && known[many][i] == status) return 1;
    }
    return status == (many ? MPI_F_STATUSES_IGNORE : MPI_F_STATUS_IGNORE);
}

/* The status to pass on: ours if the program wants none and the trace does. */
static F *f_status(F *status, F *own) { return tracing && f_ignored(status, 0) ? own : status; }

static F *f_statuses(F count, F *statuses) {
    static _Thread_local void *own;
    static _Thread_local size_t room;
    if (!tracing || !trace.wildcards || count <= 0 || !f_ignored(statuses, 1)) return statuses;
    F *made = room_of(&own, &room, sizeof *made * F_STATUS * (size_t)count);
    return made ? made : statuses;
}

static const MPI_Status *f_seen(const F *status, MPI_Status *made) {
    PMPI_Status_f2c(status, made);
    return made;
}

/* The requests that have completed: all, or those that `indices` lists from 1 on. */
static void f_completed(F count, const MPI_Request *before, const F *indices, const F *statuses) {
    static _Thread_local void *requests_own, *statuses_own;
    static _Thread_local size_t requests_room, statuses_room;
    size_t n = before && count > 0 ? (size_t)count : 0;
    MPI_Request *ended = room_of(&requests_own, &requests_room, sizeof *ended * (n + 1));
    MPI_Status *seen = room_of(&statuses_own, &statuses_room, sizeof *seen * (n + 1));
    int none = f_ignored(statuses, 1) || !seen;
    for (size_t i = 0; ended && i < n; i++) {
        ended[i] = before[indices ? (size_t)indices[i] - 1 : i];
        if (!none) PMPI_Status_f2c(statuses + i * F_STATUS, &seen[i]);
    }
    if (ended) trace_completed((int)n, ended, NULL, none ? NULL : seen);
}

#define STATUS F own[F_STATUS]; F *seen = f_status(status, own)
#define SEEN f_seen(seen, &(MPI_Status){0})
#define BEFORE MPI_Request *before = f_requests(*count, requests)
#define TRACE(name, parameters, arguments, before, trace)                                                              \
    FORTRAN(mpi_##name, (UNWRAP parameters, F *error), (UNWRAP arguments, error), before, , trace)

TRACE(recv, (void *buffer, F *count, F *type, F *source, F *tag, F *comm, F *status),
    (buffer, count, type, source, tag, comm, seen), STATUS,
    trace_receive(SIZE(count), TYPE(type), *source, *tag, COMM(comm), SEEN))
TRACE(irecv, (void *buffer, F *count, F *type, F *source, F *tag, F *comm, F *request),
    (buffer, count, type, source, tag, comm, request), ,
    MPI_Request made = PMPI_Request_f2c(*request); trace_request = &made;
    trace_receive(SIZE(count), TYPE(type), *source, *tag, COMM(comm), NULL))
TRACE(recv_init, (void *buffer, F *count, F *type, F *source, F *tag, F *comm, F *request),
    (buffer, count, type, source, tag, comm, request), ,
    trace_receive_init(SIZE(count), TYPE(type), *source, *tag, COMM(comm), PMPI_Request_f2c(*request)))
TRACE(mrecv, (void *buffer, F *count, F *type, F *message, F *status), (buffer, count, type, message, status),
    MPI_Message own = PMPI_Message_f2c(*message), trace_matched_receive(SIZE(count), TYPE(type), own))
TRACE(imrecv, (void *buffer, F *count, F *type, F *message, F *request), (buffer, count, type, message, request),
    MPI_Message own = PMPI_Message_f2c(*message),
    MPI_Request made = PMPI_Request_f2c(*request); trace_request = &made;
    trace_matched_receive(SIZE(count), TYPE(type), own))

#define SENDRECV(name, parameters, arguments, in_count, in_type)                                                       \
    FORTRAN(mpi_##name, (UNWRAP parameters, F *error), (UNWRAP arguments, error), STATUS,                              \
            count_send(SIZE(count), TYPE(type), *target, *tag, STANDARD, COMM(comm)),                                  \
            trace_sendrecv(SIZE(count), TYPE(type), *target, *tag, SIZE(in_count), TYPE(in_type), *source, *in_tag,    \
                           COMM(comm), SEEN))
SENDRECV(sendrecv,
    (void *out, F *count, F *type, F *target, F *tag, void *in, F *in_count, F *in_type, F *source, F *in_tag,
     F *comm, F *status),
    (out, count, type, target, tag, in, in_count, in_type, source, in_tag, comm, seen), in_count, in_type)
SENDRECV(sendrecv_replace,
    (void *buffer, F *count, F *type, F *target, F *tag, F *source, F *in_tag, F *comm, F *status),
    (buffer, count, type, target, tag, source, in_tag, comm, seen), count, type)

/* ---- probes ---- */

TRACE(probe, (F *source, F *tag, F *comm, F *status), (source, tag, comm, status), , )
TRACE(iprobe, (F *source, F *tag, F *comm, F *flag, F *status), (source, tag, comm, flag, status), ,
    if (!*flag) trace_poll())
TRACE(mprobe, (F *source, F *tag, F *comm, F *message, F *status), (source, tag, comm, message, seen), STATUS,
    trace_matched(PMPI_Message_f2c(*message), COMM(comm), SEEN))
TRACE(improbe, (F *source, F *tag, F *comm, F *flag, F *message, F *status),
    (source, tag, comm, flag, message, seen), STATUS,
    if (*flag) trace_matched(PMPI_Message_f2c(*message), COMM(comm), SEEN); else trace_poll())

/* ---- completion ---- */

TRACE(wait, (F *request, F *status), (request, seen),
    STATUS; MPI_Request before = PMPI_Request_f2c(*request), trace_completed(1, &before, NULL, SEEN))
TRACE(test, (F *request, F *flag, F *status), (request, flag, seen),
    STATUS; MPI_Request before = PMPI_Request_f2c(*request), trace_completed(*flag != 0, &before, NULL, SEEN))
TRACE(waitall, (F *count, F *requests, F *statuses), (count, requests, seen),
    BEFORE; F *seen = f_statuses(*count, statuses), f_completed(*count, before, NULL, seen))
TRACE(testall, (F *count, F *requests, F *flag, F *statuses), (count, requests, flag, seen),
    BEFORE; F *seen = f_statuses(*count, statuses), f_completed(*flag ? *count : 0, before, NULL, seen))
TRACE(waitsome, (F *count, F *requests, F *n, F *indices, F *statuses), (count, requests, n, indices, seen),
    BEFORE; F *seen = f_statuses(*count, statuses), f_completed(*n, before, indices, seen))
TRACE(testsome, (F *count, F *requests, F *n, F *indices, F *statuses), (count, requests, n, indices, seen),
    BEFORE; F *seen = f_statuses(*count, statuses), f_completed(*n, before, indices, seen))
TRACE(waitany, (F *count, F *requests, F *index, F *status), (count, requests, index, seen),
    STATUS; BEFORE, trace_completed(before && *index > 0, before + *index - 1, NULL, SEEN))
TRACE(testany, (F *count, F *requests, F *index, F *flag, F *status), (count, requests, index, flag, seen),
    STATUS; BEFORE, trace_completed(before && *flag && *index > 0, before + *index - 1, NULL, SEEN))
TRACE(cancel, (F *request), (request), , trace_cancel(PMPI_Request_f2c(*request)))

/* ---- communicators ---- */

#define MAKES(name, parent, parameters, arguments)                                                                     \
    TRACE(name, (UNWRAP parameters, F *made), (UNWRAP arguments, made), , trace_made(COMM(parent), COMM(made)))
MAKES(comm_dup, comm, (F *comm), (comm))
MAKES(comm_split, comm, (F *comm, F *color, F *order), (comm, color, order))
MAKES(comm_split_type, comm, (F *comm, F *type, F *order, F *info), (comm, type, order, info))
MAKES(comm_create, comm, (F *comm, F *group), (comm, group))
MAKES(comm_create_group, made, (F *comm, F *group, F *tag), (comm, group, tag))
MAKES(cart_create, comm, (F *comm, F *n, F *dims, F *periods, F *reorder), (comm, n, dims, periods, reorder))
MAKES(cart_sub, comm, (F *comm, F *remain), (comm, remain))
MAKES(graph_create, comm, (F *comm, F *n, F *index, F *edges, F *reorder), (comm, n, index, edges, reorder))
MAKES(dist_graph_create, comm,
    (F *comm, F *n, F *sources, F *degrees, F *targets, F *weights, F *info, F *reorder),
    (comm, n, sources, degrees, targets, weights, info, reorder))
MAKES(dist_graph_create_adjacent, comm,
    (F *comm, F *in, F *sources, F *in_weights, F *out, F *targets, F *weights, F *info, F *reorder),
    (comm, in, sources, in_weights, out, targets, weights, info, reorder))
MAKES(intercomm_create, comm, (F *comm, F *leader, F *peers, F *other_leader, F *tag),
    (comm, leader, peers, other_leader, tag))
MAKES(intercomm_merge, comm, (F *comm, F *high), (comm, high))
TRACE(comm_free, (F *comm), (comm), if (tracing) trace_drop((Members *)members(COMM(comm))), )

/* ---- one-sided: what waits is no computing ---- */

#define WAITS(name, parameters, arguments) TRACE(name, parameters, arguments, , )
WAITS(win_fence, (F *assert, F *window), (assert, window))
WAITS(win_lock, (F *type, F *rank, F *assert, F *window), (type, rank, assert, window))
WAITS(win_unlock, (F *rank, F *window), (rank, window))
WAITS(win_unlock_all, (F *window), (window))
WAITS(win_flush, (F *rank, F *window), (rank, window))
WAITS(win_flush_all, (F *window), (window))
WAITS(win_start, (F *group, F *assert, F *window), (group, assert, window))
WAITS(win_complete, (F *window), (window))
WAITS(win_wait, (F *window), (window))
#undef STATUS
#undef SEEN
#undef BEFORE
#undef TRACE
#undef SENDRECV
#undef MAKES
#undef WAITS

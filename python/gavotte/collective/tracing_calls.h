/* The calls of C that only a trace records: receives, what waits for requests, and what makes communicators.
 * counting.c includes them twice, as it does counting_calls.h.
 */

int CALL(Recv)(void *buffer, N count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status) {
    MPI_Status own, *seen = status_for(status, &own);
    return TRACED(REAL(Recv)(buffer, count, type, source, tag, comm, seen),
                  trace_receive((Bytes)count, type, source, tag, comm, seen));
}

int CALL(Irecv)(void *buffer, N count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request *request) {
    return TRACED(REAL(Irecv)(buffer, count, type, source, tag, comm, request),
                  trace_request = request; trace_receive((Bytes)count, type, source, tag, comm, NULL));
}

int CALL(Recv_init)(void *buffer, N count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                    MPI_Request *request) {
    return TRACED(REAL(Recv_init)(buffer, count, type, source, tag, comm, request),
                  trace_receive_init((Bytes)count, type, source, tag, comm, *request));
}

int CALL(Mrecv)(void *buffer, N count, MPI_Datatype type, MPI_Message *message, MPI_Status *status) {
    MPI_Message own = *message;
    return TRACED(REAL(Mrecv)(buffer, count, type, message, status), trace_matched_receive((Bytes)count, type, own));
}

int CALL(Imrecv)(void *buffer, N count, MPI_Datatype type, MPI_Message *message, MPI_Request *request) {
    MPI_Message own = *message;
    return TRACED(REAL(Imrecv)(buffer, count, type, message, request),
                  trace_request = request; trace_matched_receive((Bytes)count, type, own));
}

#ifndef LARGE

/* ---- probes ---- */

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status) {
    return TRACED(PMPI_Probe(source, tag, comm, status), );
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
    return TRACED(PMPI_Iprobe(source, tag, comm, flag, status), if (!*flag) trace_poll());
}

int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
    MPI_Status own, *seen = status_for(status, &own);
    return TRACED(PMPI_Mprobe(source, tag, comm, message, seen), trace_matched(*message, comm, seen));
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status) {
    MPI_Status own, *seen = status_for(status, &own);
    return TRACED(PMPI_Improbe(source, tag, comm, flag, message, seen),
                  if (*flag) trace_matched(*message, comm, seen); else trace_poll());
}

/* ---- completion ---- */

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    MPI_Request before = *request;
    MPI_Status own, *seen = status_for(status, &own);
    return TRACED(PMPI_Wait(request, seen), trace_completed(1, &before, NULL, seen));
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status *statuses) {
    const MPI_Request *before = requests_before(count, requests);
    MPI_Status *seen = statuses_for(count, statuses);
    return TRACED(PMPI_Waitall(count, requests, seen), trace_completed(count, before, NULL, seen));
}

int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status) {
    const MPI_Request *before = requests_before(count, requests);
    MPI_Status own, *seen = status_for(status, &own);
    return TRACED(PMPI_Waitany(count, requests, index, seen),
                  trace_completed(*index != MPI_UNDEFINED, before, index, seen));
}

int MPI_Waitsome(int count, MPI_Request requests[], int *n, int indices[], MPI_Status *statuses) {
    const MPI_Request *before = requests_before(count, requests);
    MPI_Status *seen = statuses_for(count, statuses);
    return TRACED(PMPI_Waitsome(count, requests, n, indices, seen),
                  trace_completed(*n == MPI_UNDEFINED ? 0 : *n, before, indices, seen));
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    MPI_Request before = *request;
    MPI_Status own, *seen = status_for(status, &own);
    return TRACED(PMPI_Test(request, flag, seen), trace_completed(*flag, &before, NULL, seen));
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status *statuses) {
    const MPI_Request *before = requests_before(count, requests);
    MPI_Status *seen = statuses_for(count, statuses);
    return TRACED(PMPI_Testall(count, requests, flag, seen), trace_completed(*flag ? count : 0, before, NULL, seen));
}

int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status) {
    const MPI_Request *before = requests_before(count, requests);
    MPI_Status own, *seen = status_for(status, &own);
    return TRACED(PMPI_Testany(count, requests, index, flag, seen),
                  trace_completed(*flag && *index != MPI_UNDEFINED, before, index, seen));
}

int MPI_Testsome(int count, MPI_Request requests[], int *n, int indices[], MPI_Status *statuses) {
    const MPI_Request *before = requests_before(count, requests);
    MPI_Status *seen = statuses_for(count, statuses);
    return TRACED(PMPI_Testsome(count, requests, n, indices, seen),
                  trace_completed(*n == MPI_UNDEFINED ? 0 : *n, before, indices, seen));
}

int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status) {
    return TRACED(PMPI_Request_get_status(request, flag, status), if (!*flag) trace_poll());
}

int MPI_Cancel(MPI_Request *request) { return TRACED(PMPI_Cancel(request), trace_cancel(*request)); }

/* ---- communicators ---- */

#define MAKES(name, parent, parameters, arguments)                                                                     \
    int MPI_##name parameters { return TRACED(PMPI_##name arguments, trace_made(parent, *made)); }
MAKES(Comm_dup, comm, (MPI_Comm comm, MPI_Comm *made), (comm, made))
MAKES(Comm_dup_with_info, comm, (MPI_Comm comm, MPI_Info info, MPI_Comm *made), (comm, info, made))
MAKES(Comm_split, comm, (MPI_Comm comm, int color, int order, MPI_Comm *made), (comm, color, order, made))
MAKES(Comm_split_type, comm, (MPI_Comm comm, int type, int order, MPI_Info info, MPI_Comm *made),
      (comm, type, order, info, made))
MAKES(Comm_create, comm, (MPI_Comm comm, MPI_Group group, MPI_Comm *made), (comm, group, made))
MAKES(Comm_create_group, *made, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made), (comm, group, tag, made))
MAKES(Cart_create, comm, (MPI_Comm comm, int n, const int dims[], const int periods[], int reorder, MPI_Comm *made),
      (comm, n, dims, periods, reorder, made))
MAKES(Cart_sub, comm, (MPI_Comm comm, const int remain[], MPI_Comm *made), (comm, remain, made))
MAKES(Graph_create, comm, (MPI_Comm comm, int n, const int index[], const int edges[], int reorder, MPI_Comm *made),
      (comm, n, index, edges, reorder, made))
MAKES(Dist_graph_create, comm,
      (MPI_Comm comm, int n, const int sources[], const int degrees[], const int targets[], const int weights[],
       MPI_Info info, int reorder, MPI_Comm *made),
      (comm, n, sources, degrees, targets, weights, info, reorder, made))
MAKES(Dist_graph_create_adjacent, comm,
      (MPI_Comm comm, int in, const int sources[], const int in_weights[], int out, const int targets[],
       const int weights[], MPI_Info info, int reorder, MPI_Comm *made),
      (comm, in, sources, in_weights, out, targets, weights, info, reorder, made))
MAKES(Intercomm_create, comm,
      (MPI_Comm comm, int leader, MPI_Comm peers, int other_leader, int tag, MPI_Comm *made),
      (comm, leader, peers, other_leader, tag, made))
MAKES(Intercomm_merge, comm, (MPI_Comm comm, int high, MPI_Comm *made), (comm, high, made))
#undef MAKES

int MPI_Comm_free(MPI_Comm *comm) {
    if (tracing && *comm != MPI_COMM_NULL) trace_drop((Members *)members(*comm));
    return TRACED(PMPI_Comm_free(comm), );
}

/* ---- one-sided: what waits is no computing ---- */

#define WAITS(name, parameters, arguments)                                                                             \
    int MPI_##name parameters { return TRACED(PMPI_##name arguments, ); }
WAITS(Win_fence, (int assert, MPI_Win window), (assert, window))
WAITS(Win_create, (void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *window),
      (base, size, unit, info, comm, window))
WAITS(Win_allocate, (MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *window),
      (size, unit, info, comm, base, window))
WAITS(Win_free, (MPI_Win *window), (window))
WAITS(Win_lock, (int type, int rank, int assert, MPI_Win window), (type, rank, assert, window))
WAITS(Win_unlock, (int rank, MPI_Win window), (rank, window))
WAITS(Win_unlock_all, (MPI_Win window), (window))
WAITS(Win_flush, (int rank, MPI_Win window), (rank, window))
WAITS(Win_flush_all, (MPI_Win window), (window))
WAITS(Win_flush_local, (int rank, MPI_Win window), (rank, window))
WAITS(Win_flush_local_all, (MPI_Win window), (window))
WAITS(Win_start, (MPI_Group group, int assert, MPI_Win window), (group, assert, window))
WAITS(Win_complete, (MPI_Win window), (window))
WAITS(Win_wait, (MPI_Win window), (window))
#undef WAITS
#endif

/* The calls of C that send or synchronise. counting.c includes them twice: with counts of `int` (N) and, in MPI 4, of
 * MPI_Count. tracing_calls.h has those that only a trace records.
 */

#define SEND_CALL(name, mode)                                                                                          \
    int CALL(name)(const void *buffer, N count, MPI_Datatype type, int target, int tag, MPI_Comm comm) {               \
        return BLOCKING(send, ((Bytes)count, type, target, tag, mode, comm),                                           \
                        REAL(name)(buffer, count, type, target, tag, comm));                                           \
    }
SEND_CALL(Send, STANDARD)
SEND_CALL(Ssend, SYNCHRONOUS)
SEND_CALL(Bsend, BUFFERED)
SEND_CALL(Rsend, READY)

#define ISEND_CALL(name, mode)                                                                                         \
    int CALL(name)(const void *buffer, N count, MPI_Datatype type, int target, int tag, MPI_Comm comm,                 \
                   MPI_Request *request) {                                                                             \
        return STARTING(send, ((Bytes)count, type, target, tag, mode, comm),                                           \
                        REAL(name)(buffer, count, type, target, tag, comm, request), request);                         \
    }
ISEND_CALL(Isend, STANDARD)
ISEND_CALL(Issend, SYNCHRONOUS)
ISEND_CALL(Ibsend, BUFFERED)
ISEND_CALL(Irsend, READY)

#define SEND_INIT_CALL(name, mode)                                                                                     \
    int CALL(name)(const void *buffer, N count, MPI_Datatype type, int target, int tag, MPI_Comm comm,                 \
                   MPI_Request *request) {                                                                             \
        return INIT(send_init, ((Bytes)count, type, target, tag, mode, comm, *request),                                \
                    REAL(name)(buffer, count, type, target, tag, comm, request));                                      \
    }
SEND_INIT_CALL(Send_init, STANDARD)
SEND_INIT_CALL(Ssend_init, SYNCHRONOUS)
SEND_INIT_CALL(Bsend_init, BUFFERED)
SEND_INIT_CALL(Rsend_init, READY)
#undef SEND_CALL
#undef ISEND_CALL
#undef SEND_INIT_CALL

int CALL(Sendrecv)(const void *out, N out_count, MPI_Datatype out_type, int target, int out_tag, void *in, N in_count,
                   MPI_Datatype in_type, int source, int in_tag, MPI_Comm comm, MPI_Status *status) {
    MPI_Status own, *seen = status_for(status, &own);
    return BLOCKING(sendrecv, ((Bytes)out_count, out_type, target, out_tag, (Bytes)in_count, in_type, source, in_tag,
                               comm, seen),
                    REAL(Sendrecv)(out, out_count, out_type, target, out_tag, in, in_count, in_type, source, in_tag,
                                   comm, seen));
}

int CALL(Sendrecv_replace)(void *buffer, N count, MPI_Datatype type, int target, int out_tag, int source, int in_tag,
                           MPI_Comm comm, MPI_Status *status) {
    MPI_Status own, *seen = status_for(status, &own);
    return BLOCKING(sendrecv, ((Bytes)count, type, target, out_tag, (Bytes)count, type, source, in_tag, comm, seen),
                    REAL(Sendrecv_replace)(buffer, count, type, target, out_tag, source, in_tag, comm, seen));
}

#if MPI_VERSION >= 4
int CALL(Isendrecv)(const void *out, N out_count, MPI_Datatype out_type, int target, int out_tag, void *in, N in_count,
                    MPI_Datatype in_type, int source, int in_tag, MPI_Comm comm, MPI_Request *request) {
    return STARTING(isendrecv, ((Bytes)out_count, out_type, target, out_tag, (Bytes)in_count, in_type, source, in_tag,
                                comm),
                    REAL(Isendrecv)(out, out_count, out_type, target, out_tag, in, in_count, in_type, source, in_tag,
                                    comm, request),
                    request);
}

int CALL(Isendrecv_replace)(void *buffer, N count, MPI_Datatype type, int target, int out_tag, int source, int in_tag,
                            MPI_Comm comm, MPI_Request *request) {
    return STARTING(isendrecv, ((Bytes)count, type, target, out_tag, (Bytes)count, type, source, in_tag, comm),
                    REAL(Isendrecv_replace)(buffer, count, type, target, out_tag, source, in_tag, comm, request),
                    request);
}
#endif

/* ---- one-sided ---- */

int CALL(Put)(const void *origin, N count, MPI_Datatype type, int target, MPI_Aint at, N target_count,
              MPI_Datatype target_type, MPI_Win window) {
    return BLOCKING(put, ((Bytes)count, type, target, window),
                    REAL(Put)(origin, count, type, target, at, target_count, target_type, window));
}

int CALL(Rput)(const void *origin, N count, MPI_Datatype type, int target, MPI_Aint at, N target_count,
               MPI_Datatype target_type, MPI_Win window, MPI_Request *request) {
    return BLOCKING(put, ((Bytes)count, type, target, window),
                    REAL(Rput)(origin, count, type, target, at, target_count, target_type, window, request));
}

int CALL(Get)(void *origin, N count, MPI_Datatype type, int target, MPI_Aint at, N target_count,
              MPI_Datatype target_type, MPI_Win window) {
    return BLOCKING(get, ((Bytes)count, type, target, window),
                    REAL(Get)(origin, count, type, target, at, target_count, target_type, window));
}

int CALL(Rget)(void *origin, N count, MPI_Datatype type, int target, MPI_Aint at, N target_count,
               MPI_Datatype target_type, MPI_Win window, MPI_Request *request) {
    return BLOCKING(get, ((Bytes)count, type, target, window),
                    REAL(Rget)(origin, count, type, target, at, target_count, target_type, window, request));
}

int CALL(Accumulate)(const void *origin, N count, MPI_Datatype type, int target, MPI_Aint at, N target_count,
                     MPI_Datatype target_type, MPI_Op op, MPI_Win window) {
    return BLOCKING(put, ((Bytes)count, type, target, window),
                    REAL(Accumulate)(origin, count, type, target, at, target_count, target_type, op, window));
}

int CALL(Raccumulate)(const void *origin, N count, MPI_Datatype type, int target, MPI_Aint at, N target_count,
                      MPI_Datatype target_type, MPI_Op op, MPI_Win window, MPI_Request *request) {
    return BLOCKING(put, ((Bytes)count, type, target, window),
                    REAL(Raccumulate)(origin, count, type, target, at, target_count, target_type, op, window,
                                      request));
}

int CALL(Get_accumulate)(const void *origin, N count, MPI_Datatype type, void *result, N back, MPI_Datatype back_type,
                         int target, MPI_Aint at, N target_count, MPI_Datatype target_type, MPI_Op op,
                         MPI_Win window) {
    return BLOCKING(fetch, ((Bytes)count, type, (Bytes)back, back_type, target, op, window),
                    REAL(Get_accumulate)(origin, count, type, result, back, back_type, target, at, target_count,
                                         target_type, op, window));
}

int CALL(Rget_accumulate)(const void *origin, N count, MPI_Datatype type, void *result, N back,
                          MPI_Datatype back_type, int target, MPI_Aint at, N target_count, MPI_Datatype target_type,
                          MPI_Op op, MPI_Win window, MPI_Request *request) {
    return BLOCKING(fetch, ((Bytes)count, type, (Bytes)back, back_type, target, op, window),
                    REAL(Rget_accumulate)(origin, count, type, result, back, back_type, target, at, target_count,
                                          target_type, op, window, request));
}

#ifndef LARGE
int MPI_Fetch_and_op(const void *origin, void *result, MPI_Datatype type, int target, MPI_Aint at, MPI_Op op,
                     MPI_Win window) {
    return BLOCKING(fetch, (1, type, 1, type, target, op, window),
                    PMPI_Fetch_and_op(origin, result, type, target, at, op, window));
}

int MPI_Compare_and_swap(const void *origin, const void *compared, void *result, MPI_Datatype type, int target,
                         MPI_Aint at, MPI_Win window) {
    return BLOCKING(fetch, (2, type, 1, type, target, MPI_REPLACE, window),
                    PMPI_Compare_and_swap(origin, compared, result, type, target, at, window));
}
#endif

/* ---- collectives ---- */

#ifndef LARGE
int MPI_Barrier(MPI_Comm comm) { return BLOCKING(barrier, (comm), PMPI_Barrier(comm)); }

int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request) {
    return STARTING(barrier, (comm), PMPI_Ibarrier(comm, request), request);
}
#endif

int CALL(Bcast)(void *buffer, N count, MPI_Datatype type, int root, MPI_Comm comm) {
    return BLOCKING(bcast, ((Bytes)count, type, root, comm), REAL(Bcast)(buffer, count, type, root, comm));
}

int CALL(Ibcast)(void *buffer, N count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request) {
    return STARTING(bcast, ((Bytes)count, type, root, comm),
                    REAL(Ibcast)(buffer, count, type, root, comm, request),
                    request);
}

int CALL(Reduce)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
    return BLOCKING(reduce, ((Bytes)count, type, root, comm), REAL(Reduce)(out, in, count, type, op, root, comm));
}

int CALL(Ireduce)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
                  MPI_Request *request) {
    return STARTING(reduce, ((Bytes)count, type, root, comm),
                    REAL(Ireduce)(out, in, count, type, op, root, comm, request),
                    request);
}

int CALL(Allreduce)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    return BLOCKING(allreduce, ((Bytes)count, type, comm), REAL(Allreduce)(out, in, count, type, op, comm));
}

int CALL(Iallreduce)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                     MPI_Request *request) {
    return STARTING(allreduce, ((Bytes)count, type, comm),
                    REAL(Iallreduce)(out, in, count, type, op, comm, request),
                    request);
}

int CALL(Scan)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    return BLOCKING(scan, ((Bytes)count, type, comm), REAL(Scan)(out, in, count, type, op, comm));
}

int CALL(Iscan)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                MPI_Request *request) {
    return STARTING(scan, ((Bytes)count, type, comm), REAL(Iscan)(out, in, count, type, op, comm, request), request);
}

int CALL(Exscan)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    return BLOCKING(exscan, ((Bytes)count, type, comm), REAL(Exscan)(out, in, count, type, op, comm));
}

int CALL(Iexscan)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                  MPI_Request *request) {
    return STARTING(exscan, ((Bytes)count, type, comm),
                    REAL(Iexscan)(out, in, count, type, op, comm, request),
                    request);
}

int CALL(Reduce_scatter)(const void *out, void *in, const N counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    return BLOCKING(reduce_scatterv, (VECTOR(counts), type, comm),
                    REAL(Reduce_scatter)(out, in, counts, type, op, comm));
}

int CALL(Ireduce_scatter)(const void *out, void *in, const N counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                          MPI_Request *request) {
    return STARTING(reduce_scatterv, (VECTOR(counts), type, comm),
                    REAL(Ireduce_scatter)(out, in, counts, type, op, comm, request),
                    request);
}

int CALL(Reduce_scatter_block)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    return BLOCKING(reduce_scatter_block, ((Bytes)count, type, comm),
                    REAL(Reduce_scatter_block)(out, in, count, type, op, comm));
}

int CALL(Ireduce_scatter_block)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                                MPI_Request *request) {
    return STARTING(reduce_scatter_block, ((Bytes)count, type, comm),
                    REAL(Ireduce_scatter_block)(out, in, count, type, op, comm, request),
                    request);
}

int CALL(Scatter)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type, int root,
                  MPI_Comm comm) {
    return BLOCKING(scatter, ((Bytes)count, type, (Bytes)in_count, in_type, root, comm),
                    REAL(Scatter)(out, count, type, in, in_count, in_type, root, comm));
}

int CALL(Iscatter)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type, int root,
                   MPI_Comm comm, MPI_Request *request) {
    return STARTING(scatter, ((Bytes)count, type, (Bytes)in_count, in_type, root, comm),
                    REAL(Iscatter)(out, count, type, in, in_count, in_type, root, comm, request),
                    request);
}

int CALL(Scatterv)(const void *out, const N counts[], const A places[], MPI_Datatype type, void *in, N in_count,
                   MPI_Datatype in_type, int root, MPI_Comm comm) {
    return BLOCKING(scatterv, (VECTOR(counts), type, (Bytes)in_count, in_type, root, comm),
                    REAL(Scatterv)(out, counts, places, type, in, in_count, in_type, root, comm));
}

int CALL(Iscatterv)(const void *out, const N counts[], const A places[], MPI_Datatype type, void *in, N in_count,
                    MPI_Datatype in_type, int root, MPI_Comm comm, MPI_Request *request) {
    return STARTING(scatterv, (VECTOR(counts), type, (Bytes)in_count, in_type, root, comm),
                    REAL(Iscatterv)(out, counts, places, type, in, in_count, in_type, root, comm, request),
                    request);
}

int CALL(Gather)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type, int root,
                 MPI_Comm comm) {
    return BLOCKING(gather, (out == MPI_IN_PLACE, (Bytes)count, type, (Bytes)in_count, in_type, root, comm),
                    REAL(Gather)(out, count, type, in, in_count, in_type, root, comm));
}

int CALL(Igather)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type, int root,
                  MPI_Comm comm, MPI_Request *request) {
    return STARTING(gather, (out == MPI_IN_PLACE, (Bytes)count, type, (Bytes)in_count, in_type, root, comm),
                    REAL(Igather)(out, count, type, in, in_count, in_type, root, comm, request),
                    request);
}

int CALL(Gatherv)(const void *out, N count, MPI_Datatype type, void *in, const N counts[], const A places[],
                  MPI_Datatype in_type, int root, MPI_Comm comm) {
    return BLOCKING(gatherv, ((Bytes)count, type, VECTOR(counts), in_type, root, comm),
                    REAL(Gatherv)(out, count, type, in, counts, places, in_type, root, comm));
}

int CALL(Igatherv)(const void *out, N count, MPI_Datatype type, void *in, const N counts[], const A places[],
                   MPI_Datatype in_type, int root, MPI_Comm comm, MPI_Request *request) {
    return STARTING(gatherv, ((Bytes)count, type, VECTOR(counts), in_type, root, comm),
                    REAL(Igatherv)(out, count, type, in, counts, places, in_type, root, comm, request),
                    request);
}

int CALL(Allgather)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type,
                    MPI_Comm comm) {
    return BLOCKING(allgather, (out == MPI_IN_PLACE, (Bytes)count, type, (Bytes)in_count, in_type, comm),
                    REAL(Allgather)(out, count, type, in, in_count, in_type, comm));
}

int CALL(Iallgather)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type,
                     MPI_Comm comm, MPI_Request *request) {
    return STARTING(allgather, (out == MPI_IN_PLACE, (Bytes)count, type, (Bytes)in_count, in_type, comm),
                    REAL(Iallgather)(out, count, type, in, in_count, in_type, comm, request),
                    request);
}

int CALL(Allgatherv)(const void *out, N count, MPI_Datatype type, void *in, const N counts[], const A places[],
                     MPI_Datatype in_type, MPI_Comm comm) {
    return BLOCKING(allgatherv, (out == MPI_IN_PLACE, (Bytes)count, type, VECTOR(counts), in_type, comm),
                    REAL(Allgatherv)(out, count, type, in, counts, places, in_type, comm));
}

int CALL(Iallgatherv)(const void *out, N count, MPI_Datatype type, void *in, const N counts[], const A places[],
                      MPI_Datatype in_type, MPI_Comm comm, MPI_Request *request) {
    return STARTING(allgatherv, (out == MPI_IN_PLACE, (Bytes)count, type, VECTOR(counts), in_type, comm),
                    REAL(Iallgatherv)(out, count, type, in, counts, places, in_type, comm, request),
                    request);
}

int CALL(Alltoall)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type,
                   MPI_Comm comm) {
    return BLOCKING(alltoall, (out == MPI_IN_PLACE, (Bytes)count, type, (Bytes)in_count, in_type, comm),
                    REAL(Alltoall)(out, count, type, in, in_count, in_type, comm));
}

int CALL(Ialltoall)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type,
                    MPI_Comm comm, MPI_Request *request) {
    return STARTING(alltoall, (out == MPI_IN_PLACE, (Bytes)count, type, (Bytes)in_count, in_type, comm),
                    REAL(Ialltoall)(out, count, type, in, in_count, in_type, comm, request),
                    request);
}

int CALL(Alltoallv)(const void *out, const N counts[], const A places[], MPI_Datatype type, void *in,
                    const N in_counts[], const A in_places[], MPI_Datatype in_type, MPI_Comm comm) {
    int in_place = out == MPI_IN_PLACE;
    return BLOCKING(alltoallv, (in_place ? VECTOR(in_counts) : VECTOR(counts), in_place ? in_type : type, comm),
                    REAL(Alltoallv)(out, counts, places, type, in, in_counts, in_places, in_type, comm));
}

int CALL(Ialltoallv)(const void *out, const N counts[], const A places[], MPI_Datatype type, void *in,
                     const N in_counts[], const A in_places[], MPI_Datatype in_type, MPI_Comm comm,
                     MPI_Request *request) {
    int in_place = out == MPI_IN_PLACE;
    return STARTING(alltoallv, (in_place ? VECTOR(in_counts) : VECTOR(counts), in_place ? in_type : type, comm),
                    REAL(Ialltoallv)(out, counts, places, type, in, in_counts, in_places, in_type, comm, request),
                    request);
}

int CALL(Alltoallw)(const void *out, const N counts[], const A places[], const MPI_Datatype types[], void *in,
                    const N in_counts[], const A in_places[], const MPI_Datatype in_types[], MPI_Comm comm) {
    int in_place = out == MPI_IN_PLACE;
    return BLOCKING(alltoallw, (in_place ? VECTOR(in_counts) : VECTOR(counts), in_place ? in_types : types, comm),
                    REAL(Alltoallw)(out, counts, places, types, in, in_counts, in_places, in_types, comm));
}

int CALL(Ialltoallw)(const void *out, const N counts[], const A places[], const MPI_Datatype types[], void *in,
                     const N in_counts[], const A in_places[], const MPI_Datatype in_types[], MPI_Comm comm,
                     MPI_Request *request) {
    int in_place = out == MPI_IN_PLACE;
    return STARTING(alltoallw, (in_place ? VECTOR(in_counts) : VECTOR(counts), in_place ? in_types : types, comm),
                    REAL(Ialltoallw)(out, counts, places, types, in, in_counts, in_places, in_types, comm, request),
                    request);
}

int CALL(Neighbor_allgather)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type,
                             MPI_Comm comm) {
    return BLOCKING(neighbour_allgather, ((Bytes)count, type, comm),
                    REAL(Neighbor_allgather)(out, count, type, in, in_count, in_type, comm));
}

int CALL(Ineighbor_allgather)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type,
                              MPI_Comm comm, MPI_Request *request) {
    return STARTING(neighbour_allgather, ((Bytes)count, type, comm),
                    REAL(Ineighbor_allgather)(out, count, type, in, in_count, in_type, comm, request),
                    request);
}

int CALL(Neighbor_allgatherv)(const void *out, N count, MPI_Datatype type, void *in, const N counts[],
                              const A places[], MPI_Datatype in_type, MPI_Comm comm) {
    return BLOCKING(neighbour_allgather, ((Bytes)count, type, comm),
                    REAL(Neighbor_allgatherv)(out, count, type, in, counts, places, in_type, comm));
}

int CALL(Ineighbor_allgatherv)(const void *out, N count, MPI_Datatype type, void *in, const N counts[],
                               const A places[], MPI_Datatype in_type, MPI_Comm comm, MPI_Request *request) {
    return STARTING(neighbour_allgather, ((Bytes)count, type, comm),
                    REAL(Ineighbor_allgatherv)(out, count, type, in, counts, places, in_type, comm, request),
                    request);
}

int CALL(Neighbor_alltoall)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type,
                            MPI_Comm comm) {
    return BLOCKING(neighbour_alltoall, ((Bytes)count, type, comm),
                    REAL(Neighbor_alltoall)(out, count, type, in, in_count, in_type, comm));
}

int CALL(Ineighbor_alltoall)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type,
                             MPI_Comm comm, MPI_Request *request) {
    return STARTING(neighbour_alltoall, ((Bytes)count, type, comm),
                    REAL(Ineighbor_alltoall)(out, count, type, in, in_count, in_type, comm, request),
                    request);
}

int CALL(Neighbor_alltoallv)(const void *out, const N counts[], const A places[], MPI_Datatype type, void *in,
                             const N in_counts[], const A in_places[], MPI_Datatype in_type, MPI_Comm comm) {
    return BLOCKING(neighboursv, (VECTOR(counts), type, NULL, comm),
                    REAL(Neighbor_alltoallv)(out, counts, places, type, in, in_counts, in_places, in_type, comm));
}

int CALL(Ineighbor_alltoallv)(const void *out, const N counts[], const A places[], MPI_Datatype type, void *in,
                              const N in_counts[], const A in_places[], MPI_Datatype in_type, MPI_Comm comm,
                              MPI_Request *request) {
    return STARTING(neighboursv, (VECTOR(counts), type, NULL, comm),
                    REAL(Ineighbor_alltoallv)(out, counts, places, type, in, in_counts, in_places, in_type, comm,
                                              request),
                    request);
}

int CALL(Neighbor_alltoallw)(const void *out, const N counts[], const MPI_Aint places[], const MPI_Datatype types[],
                             void *in, const N in_counts[], const MPI_Aint in_places[], const MPI_Datatype in_types[],
                             MPI_Comm comm) {
    return BLOCKING(neighboursv, (VECTOR(counts), MPI_BYTE, types, comm),
                    REAL(Neighbor_alltoallw)(out, counts, places, types, in, in_counts, in_places, in_types, comm));
}

int CALL(Ineighbor_alltoallw)(const void *out, const N counts[], const MPI_Aint places[], const MPI_Datatype types[],
                              void *in, const N in_counts[], const MPI_Aint in_places[],
                              const MPI_Datatype in_types[], MPI_Comm comm, MPI_Request *request) {
    return STARTING(neighboursv, (VECTOR(counts), MPI_BYTE, types, comm),
                    REAL(Ineighbor_alltoallw)(out, counts, places, types, in, in_counts, in_places, in_types, comm,
                                              request),
                    request);
}

/* The calls of C that send. counting.c includes them twice: with counts of `int` (N) and, in MPI 4, of MPI_Count. */

#define SEND(name)                                                                                                     \
    int CALL(name)(const void *buffer, N count, MPI_Datatype type, int target, int tag, MPI_Comm comm) {               \
        count_send((Bytes)count, type, target, comm);                                                                  \
        return REAL(name)(buffer, count, type, target, tag, comm);                                                     \
    }
SEND(Send)
SEND(Ssend)
SEND(Bsend)
SEND(Rsend)

#define ISEND(name)                                                                                                    \
    int CALL(name)(const void *buffer, N count, MPI_Datatype type, int target, int tag, MPI_Comm comm,                 \
                   MPI_Request *request) {                                                                             \
        count_send((Bytes)count, type, target, comm);                                                                  \
        return REAL(name)(buffer, count, type, target, tag, comm, request);                                            \
    }
ISEND(Isend)
ISEND(Issend)
ISEND(Ibsend)
ISEND(Irsend)

#define SEND_INIT(name)                                                                                                \
    int CALL(name)(const void *buffer, N count, MPI_Datatype type, int target, int tag, MPI_Comm comm,                 \
                   MPI_Request *request) {                                                                             \
        int code = REAL(name)(buffer, count, type, target, tag, comm, request);                                        \
        if (code == MPI_SUCCESS) count_send_init((Bytes)count, type, target, comm, *request);                          \
        return code;                                                                                                   \
    }
SEND_INIT(Send_init)
SEND_INIT(Ssend_init)
SEND_INIT(Bsend_init)
SEND_INIT(Rsend_init)
#undef SEND
#undef ISEND
#undef SEND_INIT

int CALL(Sendrecv)(const void *out, N out_count, MPI_Datatype out_type, int target, int out_tag, void *in, N in_count,
                   MPI_Datatype in_type, int source, int in_tag, MPI_Comm comm, MPI_Status *status) {
    count_send((Bytes)out_count, out_type, target, comm);
    return REAL(Sendrecv)(out, out_count, out_type, target, out_tag, in, in_count, in_type, source, in_tag, comm,
                          status);
}

int CALL(Sendrecv_replace)(void *buffer, N count, MPI_Datatype type, int target, int out_tag, int source, int in_tag,
                           MPI_Comm comm, MPI_Status *status) {
    count_send((Bytes)count, type, target, comm);
    return REAL(Sendrecv_replace)(buffer, count, type, target, out_tag, source, in_tag, comm, status);
}

#if MPI_VERSION >= 4
int CALL(Isendrecv)(const void *out, N out_count, MPI_Datatype out_type, int target, int out_tag, void *in,
                    N in_count,
                    MPI_Datatype in_type, int source, int in_tag, MPI_Comm comm, MPI_Request *request) {
    count_send((Bytes)out_count, out_type, target, comm);
    return REAL(Isendrecv)(out, out_count, out_type, target, out_tag, in, in_count, in_type, source, in_tag, comm,
                           request);
}

int CALL(Isendrecv_replace)(void *buffer, N count, MPI_Datatype type, int target, int out_tag, int source, int in_tag,
                            MPI_Comm comm, MPI_Request *request) {
    count_send((Bytes)count, type, target, comm);
    return REAL(Isendrecv_replace)(buffer, count, type, target, out_tag, source, in_tag, comm, request);
}
#endif

/* ---- one-sided ---- */

int CALL(Put)(const void *origin, N count, MPI_Datatype type, int target, MPI_Aint at, N target_count,
              MPI_Datatype target_type, MPI_Win window) {
    count_put((Bytes)count, type, target, window);
    return REAL(Put)(origin, count, type, target, at, target_count, target_type, window);
}

int CALL(Rput)(const void *origin, N count, MPI_Datatype type, int target, MPI_Aint at, N target_count,
               MPI_Datatype target_type, MPI_Win window, MPI_Request *request) {
    count_put((Bytes)count, type, target, window);
    return REAL(Rput)(origin, count, type, target, at, target_count, target_type, window, request);
}

int CALL(Get)(void *origin, N count, MPI_Datatype type, int target, MPI_Aint at, N target_count,
              MPI_Datatype target_type, MPI_Win window) {
    count_get((Bytes)count, type, target, window);
    return REAL(Get)(origin, count, type, target, at, target_count, target_type, window);
}

int CALL(Rget)(void *origin, N count, MPI_Datatype type, int target, MPI_Aint at, N target_count,
               MPI_Datatype target_type, MPI_Win window, MPI_Request *request) {
    count_get((Bytes)count, type, target, window);
    return REAL(Rget)(origin, count, type, target, at, target_count, target_type, window, request);
}

int CALL(Accumulate)(const void *origin, N count, MPI_Datatype type, int target, MPI_Aint at, N target_count,
                     MPI_Datatype target_type, MPI_Op op, MPI_Win window) {
    count_put((Bytes)count, type, target, window);
    return REAL(Accumulate)(origin, count, type, target, at, target_count, target_type, op, window);
}

int CALL(Raccumulate)(const void *origin, N count, MPI_Datatype type, int target, MPI_Aint at, N target_count,
                      MPI_Datatype target_type, MPI_Op op, MPI_Win window, MPI_Request *request) {
    count_put((Bytes)count, type, target, window);
    return REAL(Raccumulate)(origin, count, type, target, at, target_count, target_type, op, window, request);
}

int CALL(Get_accumulate)(const void *origin, N count, MPI_Datatype type, void *result, N back, MPI_Datatype back_type,
                         int target, MPI_Aint at, N target_count, MPI_Datatype target_type, MPI_Op op,
                         MPI_Win window) {
    count_fetch((Bytes)count, type, (Bytes)back, back_type, target, op, window);
    return REAL(Get_accumulate)(origin, count, type, result, back, back_type, target, at, target_count, target_type,
                                op, window);
}

int CALL(Rget_accumulate)(const void *origin, N count, MPI_Datatype type, void *result, N back,
                          MPI_Datatype back_type, int target, MPI_Aint at, N target_count, MPI_Datatype target_type,
                          MPI_Op op, MPI_Win window, MPI_Request *request) {
    count_fetch((Bytes)count, type, (Bytes)back, back_type, target, op, window);
    return REAL(Rget_accumulate)(origin, count, type, result, back, back_type, target, at, target_count, target_type,
                                 op, window, request);
}

#ifndef LARGE
int MPI_Fetch_and_op(const void *origin, void *result, MPI_Datatype type, int target, MPI_Aint at, MPI_Op op,
                     MPI_Win window) {
    count_fetch(1, type, 1, type, target, op, window);
    return PMPI_Fetch_and_op(origin, result, type, target, at, op, window);
}

int MPI_Compare_and_swap(const void *origin, const void *compared, void *result, MPI_Datatype type, int target,
                         MPI_Aint at, MPI_Win window) {
    count_fetch(2, type, 1, type, target, MPI_REPLACE, window);
    return PMPI_Compare_and_swap(origin, compared, result, type, target, at, window);
}
#endif

/* ---- collectives ---- */

int CALL(Bcast)(void *buffer, N count, MPI_Datatype type, int root, MPI_Comm comm) {
    count_bcast((Bytes)count, type, root, comm);
    return REAL(Bcast)(buffer, count, type, root, comm);
}

int CALL(Ibcast)(void *buffer, N count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request) {
    count_bcast((Bytes)count, type, root, comm);
    return REAL(Ibcast)(buffer, count, type, root, comm, request);
}

int CALL(Reduce)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm) {
    count_reduce((Bytes)count, type, root, comm);
    return REAL(Reduce)(out, in, count, type, op, root, comm);
}

int CALL(Ireduce)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
                  MPI_Request *request) {
    count_reduce((Bytes)count, type, root, comm);
    return REAL(Ireduce)(out, in, count, type, op, root, comm, request);
}

int CALL(Allreduce)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    count_allreduce((Bytes)count, type, comm);
    return REAL(Allreduce)(out, in, count, type, op, comm);
}

int CALL(Iallreduce)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                     MPI_Request *request) {
    count_allreduce((Bytes)count, type, comm);
    return REAL(Iallreduce)(out, in, count, type, op, comm, request);
}

int CALL(Scan)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    count_scan((Bytes)count, type, comm);
    return REAL(Scan)(out, in, count, type, op, comm);
}

int CALL(Iscan)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                MPI_Request *request) {
    count_scan((Bytes)count, type, comm);
    return REAL(Iscan)(out, in, count, type, op, comm, request);
}

int CALL(Exscan)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    count_scan((Bytes)count, type, comm);
    return REAL(Exscan)(out, in, count, type, op, comm);
}

int CALL(Iexscan)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                  MPI_Request *request) {
    count_scan((Bytes)count, type, comm);
    return REAL(Iexscan)(out, in, count, type, op, comm, request);
}

int CALL(Reduce_scatter)(const void *out, void *in, const N counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    count_reduce_scatterv(VECTOR(counts), type, comm);
    return REAL(Reduce_scatter)(out, in, counts, type, op, comm);
}

int CALL(Ireduce_scatter)(const void *out, void *in, const N counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                          MPI_Request *request) {
    count_reduce_scatterv(VECTOR(counts), type, comm);
    return REAL(Ireduce_scatter)(out, in, counts, type, op, comm, request);
}

int CALL(Reduce_scatter_block)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    count_reduce_scatter_block((Bytes)count, type, comm);
    return REAL(Reduce_scatter_block)(out, in, count, type, op, comm);
}

int CALL(Ireduce_scatter_block)(const void *out, void *in, N count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                                MPI_Request *request) {
    count_reduce_scatter_block((Bytes)count, type, comm);
    return REAL(Ireduce_scatter_block)(out, in, count, type, op, comm, request);
}

int CALL(Scatter)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type, int root,
                  MPI_Comm comm) {
    count_scatter((Bytes)count, type, (Bytes)in_count, in_type, root, comm);
    return REAL(Scatter)(out, count, type, in, in_count, in_type, root, comm);
}

int CALL(Iscatter)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type, int root,
                   MPI_Comm comm, MPI_Request *request) {
    count_scatter((Bytes)count, type, (Bytes)in_count, in_type, root, comm);
    return REAL(Iscatter)(out, count, type, in, in_count, in_type, root, comm, request);
}

int CALL(Scatterv)(const void *out, const N counts[], const A places[], MPI_Datatype type, void *in, N in_count,
                   MPI_Datatype in_type, int root, MPI_Comm comm) {
    count_scatterv(VECTOR(counts), type, root, comm);
    return REAL(Scatterv)(out, counts, places, type, in, in_count, in_type, root, comm);
}

int CALL(Iscatterv)(const void *out, const N counts[], const A places[], MPI_Datatype type, void *in, N in_count,
                    MPI_Datatype in_type, int root, MPI_Comm comm, MPI_Request *request) {
    count_scatterv(VECTOR(counts), type, root, comm);
    return REAL(Iscatterv)(out, counts, places, type, in, in_count, in_type, root, comm, request);
}

int CALL(Gather)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type, int root,
                 MPI_Comm comm) {
    count_gather(out == MPI_IN_PLACE, (Bytes)count, type, (Bytes)in_count, in_type, root, comm);
    return REAL(Gather)(out, count, type, in, in_count, in_type, root, comm);
}

int CALL(Igather)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type, int root,
                  MPI_Comm comm, MPI_Request *request) {
    count_gather(out == MPI_IN_PLACE, (Bytes)count, type, (Bytes)in_count, in_type, root, comm);
    return REAL(Igather)(out, count, type, in, in_count, in_type, root, comm, request);
}

int CALL(Gatherv)(const void *out, N count, MPI_Datatype type, void *in, const N counts[], const A places[],
                  MPI_Datatype in_type, int root, MPI_Comm comm) {
    count_gatherv((Bytes)count, type, root, comm);
    return REAL(Gatherv)(out, count, type, in, counts, places, in_type, root, comm);
}

int CALL(Igatherv)(const void *out, N count, MPI_Datatype type, void *in, const N counts[], const A places[],
                   MPI_Datatype in_type, int root, MPI_Comm comm, MPI_Request *request) {
    count_gatherv((Bytes)count, type, root, comm);
    return REAL(Igatherv)(out, count, type, in, counts, places, in_type, root, comm, request);
}

int CALL(Allgather)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type,
                    MPI_Comm comm) {
    count_allgather(out == MPI_IN_PLACE, (Bytes)count, type, (Bytes)in_count, in_type, comm);
    return REAL(Allgather)(out, count, type, in, in_count, in_type, comm);
}

int CALL(Iallgather)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type,
                     MPI_Comm comm, MPI_Request *request) {
    count_allgather(out == MPI_IN_PLACE, (Bytes)count, type, (Bytes)in_count, in_type, comm);
    return REAL(Iallgather)(out, count, type, in, in_count, in_type, comm, request);
}

int CALL(Allgatherv)(const void *out, N count, MPI_Datatype type, void *in, const N counts[], const A places[],
                     MPI_Datatype in_type, MPI_Comm comm) {
    count_allgatherv(out == MPI_IN_PLACE, (Bytes)count, type, VECTOR(counts), in_type, comm);
    return REAL(Allgatherv)(out, count, type, in, counts, places, in_type, comm);
}

int CALL(Iallgatherv)(const void *out, N count, MPI_Datatype type, void *in, const N counts[], const A places[],
                      MPI_Datatype in_type, MPI_Comm comm, MPI_Request *request) {
    count_allgatherv(out == MPI_IN_PLACE, (Bytes)count, type, VECTOR(counts), in_type, comm);
    return REAL(Iallgatherv)(out, count, type, in, counts, places, in_type, comm, request);
}

int CALL(Alltoall)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type,
                   MPI_Comm comm) {
    count_alltoall(out == MPI_IN_PLACE, (Bytes)count, type, (Bytes)in_count, in_type, comm);
    return REAL(Alltoall)(out, count, type, in, in_count, in_type, comm);
}

int CALL(Ialltoall)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type,
                    MPI_Comm comm, MPI_Request *request) {
    count_alltoall(out == MPI_IN_PLACE, (Bytes)count, type, (Bytes)in_count, in_type, comm);
    return REAL(Ialltoall)(out, count, type, in, in_count, in_type, comm, request);
}

int CALL(Alltoallv)(const void *out, const N counts[], const A places[], MPI_Datatype type, void *in,
                    const N in_counts[], const A in_places[], MPI_Datatype in_type, MPI_Comm comm) {
    int in_place = out == MPI_IN_PLACE;
    count_alltoallv(in_place ? VECTOR(in_counts) : VECTOR(counts), in_place ? in_type : type, comm);
    return REAL(Alltoallv)(out, counts, places, type, in, in_counts, in_places, in_type, comm);
}

int CALL(Ialltoallv)(const void *out, const N counts[], const A places[], MPI_Datatype type, void *in,
                     const N in_counts[], const A in_places[], MPI_Datatype in_type, MPI_Comm comm,
                     MPI_Request *request) {
    int in_place = out == MPI_IN_PLACE;
    count_alltoallv(in_place ? VECTOR(in_counts) : VECTOR(counts), in_place ? in_type : type, comm);
    return REAL(Ialltoallv)(out, counts, places, type, in, in_counts, in_places, in_type, comm, request);
}

int CALL(Alltoallw)(const void *out, const N counts[], const A places[], const MPI_Datatype types[], void *in,
                    const N in_counts[], const A in_places[], const MPI_Datatype in_types[], MPI_Comm comm) {
    int in_place = out == MPI_IN_PLACE;
    count_alltoallw(in_place ? VECTOR(in_counts) : VECTOR(counts), in_place ? in_types : types, comm);
    return REAL(Alltoallw)(out, counts, places, types, in, in_counts, in_places, in_types, comm);
}

int CALL(Ialltoallw)(const void *out, const N counts[], const A places[], const MPI_Datatype types[], void *in,
                     const N in_counts[], const A in_places[], const MPI_Datatype in_types[], MPI_Comm comm,
                     MPI_Request *request) {
    int in_place = out == MPI_IN_PLACE;
    count_alltoallw(in_place ? VECTOR(in_counts) : VECTOR(counts), in_place ? in_types : types, comm);
    return REAL(Ialltoallw)(out, counts, places, types, in, in_counts, in_places, in_types, comm, request);
}

int CALL(Neighbor_allgather)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type,
                             MPI_Comm comm) {
    count_neighbours((Bytes)count, type, comm);
    return REAL(Neighbor_allgather)(out, count, type, in, in_count, in_type, comm);
}

int CALL(Ineighbor_allgather)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type,
                              MPI_Comm comm, MPI_Request *request) {
    count_neighbours((Bytes)count, type, comm);
    return REAL(Ineighbor_allgather)(out, count, type, in, in_count, in_type, comm, request);
}

int CALL(Neighbor_allgatherv)(const void *out, N count, MPI_Datatype type, void *in, const N counts[],
                              const A places[], MPI_Datatype in_type, MPI_Comm comm) {
    count_neighbours((Bytes)count, type, comm);
    return REAL(Neighbor_allgatherv)(out, count, type, in, counts, places, in_type, comm);
}

int CALL(Ineighbor_allgatherv)(const void *out, N count, MPI_Datatype type, void *in, const N counts[],
                               const A places[], MPI_Datatype in_type, MPI_Comm comm, MPI_Request *request) {
    count_neighbours((Bytes)count, type, comm);
    return REAL(Ineighbor_allgatherv)(out, count, type, in, counts, places, in_type, comm, request);
}

int CALL(Neighbor_alltoall)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type,
                            MPI_Comm comm) {
    count_neighbours((Bytes)count, type, comm);
    return REAL(Neighbor_alltoall)(out, count, type, in, in_count, in_type, comm);
}

int CALL(Ineighbor_alltoall)(const void *out, N count, MPI_Datatype type, void *in, N in_count, MPI_Datatype in_type,
                             MPI_Comm comm, MPI_Request *request) {
    count_neighbours((Bytes)count, type, comm);
    return REAL(Ineighbor_alltoall)(out, count, type, in, in_count, in_type, comm, request);
}

int CALL(Neighbor_alltoallv)(const void *out, const N counts[], const A places[], MPI_Datatype type, void *in,
                             const N in_counts[], const A in_places[], MPI_Datatype in_type, MPI_Comm comm) {
    count_neighboursv(VECTOR(counts), type, NULL, comm);
    return REAL(Neighbor_alltoallv)(out, counts, places, type, in, in_counts, in_places, in_type, comm);
}

int CALL(Ineighbor_alltoallv)(const void *out, const N counts[], const A places[], MPI_Datatype type, void *in,
                              const N in_counts[], const A in_places[], MPI_Datatype in_type, MPI_Comm comm,
                              MPI_Request *request) {
    count_neighboursv(VECTOR(counts), type, NULL, comm);
    return REAL(Ineighbor_alltoallv)(out, counts, places, type, in, in_counts, in_places, in_type, comm, request);
}

int CALL(Neighbor_alltoallw)(const void *out, const N counts[], const MPI_Aint places[], const MPI_Datatype types[],
                             void *in, const N in_counts[], const MPI_Aint in_places[], const MPI_Datatype in_types[],
                             MPI_Comm comm) {
    count_neighboursv(VECTOR(counts), MPI_BYTE, types, comm);
    return REAL(Neighbor_alltoallw)(out, counts, places, types, in, in_counts, in_places, in_types, comm);
}

int CALL(Ineighbor_alltoallw)(const void *out, const N counts[], const MPI_Aint places[], const MPI_Datatype types[],
                              void *in, const N in_counts[], const MPI_Aint in_places[],
                              const MPI_Datatype in_types[], MPI_Comm comm, MPI_Request *request) {
    count_neighboursv(VECTOR(counts), MPI_BYTE, types, comm);
    return REAL(Ineighbor_alltoallw)(out, counts, places, types, in, in_counts, in_places, in_types, comm, request);
}

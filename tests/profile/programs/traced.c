/* Four ranks make calls whose trace a test knows. The first argument chooses them. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char out[1 << 20], in[1 << 20];
static int rank, ranks, next, last;

static void spin(double seconds) {
    double end = MPI_Wtime() + seconds;
    while (MPI_Wtime() < end) {}
}

/* 20 steps: 3 exchanges with both neighbours, 2 ms of computing, one sum. */
static void loops(void) {
    double own = 1, sum;
    for (int step = 0; step < 20; step++) {
        for (int i = 0; i < 3; i++) {
            MPI_Request requests[4];
            MPI_Irecv(in, 1000, MPI_CHAR, last, 7, MPI_COMM_WORLD, &requests[0]);
            MPI_Irecv(in + 1000, 1000, MPI_CHAR, next, 8, MPI_COMM_WORLD, &requests[1]);
            MPI_Isend(out, 1000, MPI_CHAR, next, 7, MPI_COMM_WORLD, &requests[2]);
            MPI_Isend(out, 1000, MPI_CHAR, last, 8, MPI_COMM_WORLD, &requests[3]);
            MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        }
        spin(0.002);
        MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
}

/* Rank 0 receives from anyone: by one blocking call, by requests of which it waits for any or some, by tests. */
static void wildcards(void) {
    MPI_Request requests[3];
    int index, indices[3], n, flag;
    if (rank) {
        for (int tag = 1; tag <= 4; tag++) {
            spin(0.002 * rank);
            MPI_Send(out, 100 * tag + rank, MPI_CHAR, 0, tag, MPI_COMM_WORLD);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        return;
    }
    for (int i = 0; i < 3; i++) MPI_Recv(in, 4000, MPI_CHAR, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++)
        MPI_Irecv(in, 4000, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < 3; i++) MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++) MPI_Irecv(in, 4000, MPI_CHAR, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &requests[i]);
    for (int left = 3; left; left -= n) MPI_Waitsome(3, requests, &n, indices, MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++) MPI_Irecv(in, 4000, MPI_CHAR, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &requests[i]);
    for (flag = 0; !flag;) MPI_Testall(3, requests, &flag, MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Communicators of one group: made in the same order, used in another one on each rank. One is freed and made again. */
static void communicators(void) {
    MPI_Comm a, b, c, half;
    MPI_Comm_dup(MPI_COMM_WORLD, &a), MPI_Comm_dup(MPI_COMM_WORLD, &b);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, -rank, &half);
    MPI_Request requests[2];
    MPI_Irecv(in, 10, MPI_CHAR, last, 0, rank % 2 ? a : b, &requests[0]);
    MPI_Irecv(in, 10, MPI_CHAR, last, 0, rank % 2 ? b : a, &requests[1]);
    MPI_Send(out, 10, MPI_CHAR, next, 0, a), MPI_Send(out, 10, MPI_CHAR, next, 0, b);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&a);
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    MPI_Barrier(c);
    MPI_Bcast(out, 99, MPI_CHAR, 0, half); /* from the higher rank */
    MPI_Comm_free(&b), MPI_Comm_free(&c), MPI_Comm_free(&half);
    for (int i = 0; i < 30; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &a);
        MPI_Comm_free(&a);
    }
}

/* Messages that a probe matches, a request that is cancelled, one for which no call waits, and MPI_PROC_NULL. */
static void rare(void) {
    MPI_Request request;
    MPI_Message message;
    MPI_Status status;
    MPI_Isend(out, 500, MPI_CHAR, next, 3, MPI_COMM_WORLD, &request);
    MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
    MPI_Mrecv(in, 500, MPI_CHAR, &message, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Irecv(in, 4, MPI_CHAR, last, 55, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Sendrecv(out, 10, MPI_CHAR, rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL, 0, in, 10, MPI_CHAR,
                 rank ? rank - 1 : MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Isend(out, 20, MPI_CHAR, next, 0, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    MPI_Recv(in, 20, MPI_CHAR, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Sizes that never repeat. */
static void irregular(void) {
    for (int i = 0; i < 4000; i++)
        MPI_Sendrecv(out, 1 + i, MPI_CHAR, next, 0, in, 1 + i, MPI_CHAR, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* argv[2] round trips of argv[3] bytes between ranks 0 and 1; prints seconds. */
static void pingpong(int trips, int size) {
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (int i = 0; i < trips && rank < 2; i++) {
        if (rank) MPI_Recv(in, size, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, size, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD);
        if (!rank) MPI_Recv(in, size, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (!rank) printf("%.9f\n", MPI_Wtime() - began);
}

int main(int count, char **words) {
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    const char *kind = count > 1 ? words[1] : "";
    if (!strcmp(kind, "loops")) loops();
    if (!strcmp(kind, "wildcards")) wildcards();
    if (!strcmp(kind, "communicators")) communicators();
    if (!strcmp(kind, "rare")) rare();
    if (!strcmp(kind, "irregular")) irregular();
    if (!strcmp(kind, "pingpong")) pingpong(atoi(words[2]), atoi(words[3]));
    MPI_Finalize();
    return 0;
}

/* Jobs that stand for kinds of programs. The hosts of a lab share this machine's processors, so that
 *
 * - pauses stand for computing;
 * - a rank that waits sleeps for POLL_NS between two looks at its sockets. Open MPI yields the processor instead if
 *   `mpi_yield_when_idle` is set, but the ranks that wait still keep all processors busy, and delay the others by whole
 *   time slices. The program must export its symbols (-rdynamic), so that the library calls this `sched_yield`.
 *
 *     jobs halo|transpose|wavefront|training|pairs ITERATIONS BYTES PAUSE_MS
 */

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { POLL_NS = 100000, SLACK_NS = 1000 };

static unsigned seed;

int sched_yield(void) {
    static int precise;
    if (!precise) precise = !prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0);
    return nanosleep(&(struct timespec){0, POLL_NS}, NULL);
}

/* Pause as long as a rank would compute: within 10 % of the mean. */
static void compute(double mean_ms) {
    seed = seed * 1103515245u + 12345u;
    double ms = mean_ms * (0.9 + 0.2 * (double)(seed >> 16) / 65536.0);
    struct timespec left = {(time_t)(ms / 1e3), (long)((ms / 1e3 - (double)(time_t)(ms / 1e3)) * 1e9)};
    while (nanosleep(&left, &left)) continue;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: %s halo|transpose|wavefront|training|pairs ITERATIONS BYTES PAUSE_MS\n", argv[0]);
        return 2;
    }
    int rank, size, bytes = atoi(argv[3]);
    long iterations = atol(argv[2]);
    double pause_ms = atof(argv[4]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    seed = (unsigned)rank + 1;
    char *mine = calloc((size_t)size, (size_t)bytes), *theirs = calloc((size_t)size, (size_t)bytes);
    int next = (rank + 1) % size, last = (rank + size - 1) % size, other = (rank + size / 2) % size;
    double sum = 0, one = 1;
    for (long i = 0; i < iterations; i++) {
        if (!strcmp(argv[1], "halo")) {
            MPI_Request open[4];
            MPI_Irecv(theirs, bytes, MPI_BYTE, last, 0, MPI_COMM_WORLD, open);
            MPI_Irecv(theirs + bytes, bytes, MPI_BYTE, next, 1, MPI_COMM_WORLD, open + 1);
            MPI_Isend(mine, bytes, MPI_BYTE, next, 0, MPI_COMM_WORLD, open + 2);
            MPI_Isend(mine + bytes, bytes, MPI_BYTE, last, 1, MPI_COMM_WORLD, open + 3);
            compute(pause_ms);
            MPI_Waitall(4, open, MPI_STATUSES_IGNORE);
            MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        } else if (!strcmp(argv[1], "transpose")) {
            compute(pause_ms);
            MPI_Alltoall(mine, bytes, MPI_BYTE, theirs, bytes, MPI_BYTE, MPI_COMM_WORLD);
        } else if (!strcmp(argv[1], "wavefront")) {
            if (rank > 0) MPI_Recv(theirs, bytes, MPI_BYTE, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            compute(pause_ms);
            if (rank + 1 < size) MPI_Send(mine, bytes, MPI_BYTE, rank + 1, 0, MPI_COMM_WORLD);
        } else if (!strcmp(argv[1], "training")) {
            compute(pause_ms);
            MPI_Allreduce(mine, theirs, bytes / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        } else {
            compute(pause_ms);
            MPI_Sendrecv(mine, bytes, MPI_BYTE, other, 0, theirs, bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
        }
    }
    MPI_Finalize();
    free(mine);
    free(theirs);
    return 0;
}

/* Programs that call MPI often, for the cost of counting and recording the calls. Rank 0 prints the seconds from before
 * MPI_Init to after MPI_Finalize, so that what the preloaded library does at both ends counts.
 *
 *     tracing pingpong|halo|compute|communicators|kept COUNT
 */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 1024, TERMS = 300000 };

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static double sum_of_terms(void) {
    volatile double sum = 0;
    for (int i = 1; i <= TERMS; i++) sum += 1.0 / i;
    return sum;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s pingpong|halo|compute|communicators|kept COUNT\n", argv[0]);
        return 2;
    }
    const char *name = argv[1];
    int rank, size, count = atoi(argv[2]);
    double begin = now(), one = 1, all = 0;
    char out[2 * BYTES] = {0}, in[2 * BYTES];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, last = (rank + size - 1) % size, other = size > 1;
    MPI_Comm *kept = calloc((size_t)count, sizeof *kept);
    if (!kept) return 1;
    for (int i = 0; i < count; i++) {
        if (!strcmp(name, "pingpong")) {
            if (rank == 0) {
                MPI_Send(out, 8, MPI_BYTE, other, 0, MPI_COMM_WORLD);
                MPI_Recv(in, 8, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else if (rank == 1) {
                MPI_Recv(in, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                MPI_Send(out, 8, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
            }
        } else if (!strcmp(name, "halo")) {
            MPI_Request open[4];
            MPI_Irecv(in, BYTES, MPI_BYTE, last, 0, MPI_COMM_WORLD, open);
            MPI_Irecv(in + BYTES, BYTES, MPI_BYTE, next, 1, MPI_COMM_WORLD, open + 1);
            MPI_Isend(out, BYTES, MPI_BYTE, next, 0, MPI_COMM_WORLD, open + 2);
            MPI_Isend(out + BYTES, BYTES, MPI_BYTE, last, 1, MPI_COMM_WORLD, open + 3);
            MPI_Waitall(4, open, MPI_STATUSES_IGNORE);
        } else if (!strcmp(name, "compute")) {
            one = sum_of_terms();
            MPI_Allreduce(&one, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        } else {
            MPI_Comm made, half;
            MPI_Comm_dup(MPI_COMM_WORLD, &made);
            MPI_Allreduce(&one, &all, 1, MPI_DOUBLE, MPI_SUM, made);
            MPI_Comm_split(made, rank % 2, rank, &half);
            MPI_Barrier(half);
            MPI_Comm_free(&half);
            if (!strcmp(name, "kept"))
                kept[i] = made;
            else
                MPI_Comm_free(&made);
        }
    }
    for (int i = 0; i < count && !strcmp(name, "kept"); i++) MPI_Comm_free(&kept[i]);
    free(kept);
    MPI_Finalize();
    if (rank == 0) printf("%.9f\n", now() - begin);
    return 0;
}

/* Rank r exchanges `bytes` with rank r + half, `times` times. Options end it early: see main. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words) {
    int rank, ranks;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int bytes = count > 1 ? atoi(words[1]) : 1000000, times = count > 2 ? atoi(words[2]) : 1;
    const char *end = count > 3 ? words[3] : "";
    char *out = calloc(bytes, 1), *in = calloc(bytes, 1), host[64];
    int other = (rank + ranks / 2) % ranks;
    for (int i = 0; i < times; i++)
        MPI_Sendrecv(out, bytes, MPI_BYTE, other, 0, in, bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    gethostname(host, sizeof host);
    printf("%d %s\n", rank, host);
    fflush(stdout);
    if (!strcmp(end, "wait")) sleep(60);
    if (!strcmp(end, "die") && rank == 1) raise(SIGKILL);
    if (!strcmp(end, "cat")) {
        /* MPICH's mpiexec mixes what ranks print at the same time, even within lines: the others' lines come first. */
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) usleep(300000);
        if (rank == 0)
            for (int c; (c = getchar()) != EOF;) putchar(c);
    }
    MPI_Finalize();
    return !strcmp(end, "fail") ? 3 : 0;
}

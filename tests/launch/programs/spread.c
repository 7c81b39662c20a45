/* Broadcasts `bytes` from rank 0 `times` times. Each rank prints its number, its host and whether rules are set. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **words) {
    int rank;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int bytes = atoi(words[1]), times = atoi(words[2]);
    char *buffer = calloc(bytes, 1), host[64];
    for (int i = 0; i < times; i++) {
        MPI_Bcast(buffer, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    gethostname(host, sizeof host);
    const char *names[] = {"OMPI_MCA_coll_tuned_dynamic_rules_filename", "OMPI_MCA_coll_tuned_use_dynamic_rules",
                           "MPIR_CVAR_BCAST_INTRA_ALGORITHM"};
    int set = 0;
    for (int i = 0; i < 3; i++) set += getenv(names[i]) != NULL;
    printf("%d %s %d\n", rank, host, set);
    fflush(stdout);
    MPI_Finalize();
    free(buffer);
    return 0;
}

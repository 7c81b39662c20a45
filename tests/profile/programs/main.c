/* A program in C whose messages are sent by a subroutine in Fortran, but for one byte from rank 0 to rank 1. */
#include <mpi.h>

void around_(void);

int main(int words, char **word) {
    char byte = 0;
    int rank;
    MPI_Init(&words, &word);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) MPI_Send(&byte, 1, MPI_CHAR, 1, 7, MPI_COMM_WORLD);
    if (rank == 1) MPI_Recv(&byte, 1, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    around_();
    MPI_Finalize();
}

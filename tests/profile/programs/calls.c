/* Four ranks send by every kind of call that a profile may miss. Rank r's messages to rank t have sizes of their own. */
#include <mpi.h>
#include <string.h>

static char out[1 << 16], in[1 << 16];

static void persistent(int rank, int ranks) {
    MPI_Request sends[2], receives[2];
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    MPI_Send_init(out, 1000, MPI_CHAR, next, 0, MPI_COMM_WORLD, &sends[0]);
    MPI_Ssend_init(out, 50, MPI_CHAR, next, 1, MPI_COMM_WORLD, &sends[1]);
    MPI_Recv_init(in, 1000, MPI_CHAR, last, 0, MPI_COMM_WORLD, &receives[0]);
    MPI_Recv_init(in + 1000, 50, MPI_CHAR, last, 1, MPI_COMM_WORLD, &receives[1]);
    for (int i = 0; i < 4; i++) {
        MPI_Startall(2, receives);
        MPI_Start(&sends[0]), MPI_Start(&sends[1]);
        MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
        MPI_Waitall(2, receives, MPI_STATUSES_IGNORE);
        MPI_Startall(2, receives);
        MPI_Startall(2, sends);
        MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
        MPI_Waitall(2, receives, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < 2; i++) MPI_Request_free(&sends[i]), MPI_Request_free(&receives[i]);
}

static void neighbours(int rank, int ranks) {
    MPI_Comm ring, graph;
    int yes = 1, weight = 1, to = (rank + 2) % ranks, from = (rank + ranks - 2) % ranks;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &yes, 0, &ring);
    MPI_Neighbor_alltoall(out, 500, MPI_CHAR, in, 500, MPI_CHAR, ring);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &from, &weight, 1, &to, &weight, MPI_INFO_NULL, 0, &graph);
    MPI_Neighbor_allgather(out, 700, MPI_CHAR, in, 700, MPI_CHAR, graph);
    MPI_Comm_free(&ring), MPI_Comm_free(&graph);
}

/* Ranks 0 and 2 send ranks 1 and 3 over an intercommunicator. */
static void across(int rank) {
    MPI_Comm half, other;
    int part;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Comm_rank(half, &part);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 0, &other);
    MPI_Sendrecv(out, 300, MPI_CHAR, part, 0, in, 300, MPI_CHAR, part, 0, other, MPI_STATUS_IGNORE);
    MPI_Bcast(out, 90, MPI_CHAR, rank % 2 ? 0 : part ? MPI_PROC_NULL : MPI_ROOT, other);
    MPI_Comm_free(&other), MPI_Comm_free(&half);
}

static void one_sided(int rank, int ranks) {
    MPI_Win window;
    MPI_Request request;
    int next = (rank + 1) % ranks;
    MPI_Win_create(in, sizeof in, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Put(out, 110, MPI_CHAR, next, 0, 110, MPI_CHAR, window);
    MPI_Accumulate(out, 4, MPI_INT, next, 4096, 4, MPI_INT, MPI_SUM, window);
    MPI_Get(out + 9000, 60, MPI_CHAR, next, 8192, 60, MPI_CHAR, window);
    MPI_Win_fence(0, window);
    MPI_Win_lock_all(0, window);
    MPI_Rput(out, 7, MPI_CHAR, next, 0, 7, MPI_CHAR, window, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_unlock_all(window);
    MPI_Bcast(out, 200, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Win_free(&window);
}

int main(int words, char **word) {
    int rank, ranks;
    MPI_Init(&words, &word);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (words < 2 || strstr(word[1], "persistent")) persistent(rank, ranks);
    if (words < 2 || strstr(word[1], "neighbours")) neighbours(rank, ranks);
    if (words < 2 || strstr(word[1], "across")) across(rank);
    if (words < 2 || strstr(word[1], "one-sided")) one_sided(rank, ranks);
    MPI_Finalize();
}

/*
 * Blocks that go directly from each rank to each other one, each edge timed on the way; part of shim.c.
 *
 * 1. In step k, all ranks send to the rank that is the same number of places after them. Each host then sends and receives one block
 *    at a time.
 * 2. The sender sends a mark of no bytes ahead of each block, as in shim_observe.h. The receiver takes the time from the mark to
 *    the block, if it has looked between the two and found nothing.
 * 3. A rank takes the next step when its block has left and the block of this step has arrived.
 * 4. The first blocks are not timed, because hosts whose rate is limited may send some bytes at once. The next exchange takes its
 *    steps from another one on, and times these edges.
 *
 * An allgather is one exchange. In a broadcast, the root first deals out a block to each rank. Both move what the program
 * wants to have moved, so timing costs next to nothing.
 */

enum { LATENCIES = 8 }; /* messages of no bytes that are timed */
#define BURST_BYTES 65536 /* that a host may send faster than its rate */

/* How fast edges to this rank are. All ranks have the same `first`. */
typedef struct Edges {
    int first;       /* number of the next exchange's first step */
    double latency;  /* of a message of no bytes; INFINITY = not timed */
    double *seconds; /* by source: those of a byte, summed over the blocks that were timed; then the number of these */
} Edges;

/* The seconds of one message of no bytes: the least of a few round a ring. */
static int time_latency(const Tree *tree, MPI_Comm comm) {
    int next = (tree->me + 1) % tree->ranks, before = (tree->me + tree->ranks - 1) % tree->ranks;
    for (int i = 0; i < LATENCIES; i++) {
        double began = PMPI_Wtime();
        TRY(PMPI_Sendrecv(NULL, 0, MPI_BYTE, next, MARK, NULL, 0, MPI_BYTE, before, MARK, comm, MPI_STATUS_IGNORE));
        tree->exchange->latency = fmin(PMPI_Wtime() - began, tree->exchange->latency);
    }
    return MPI_SUCCESS;
}

static size_t length_of(int block_of, size_t block, size_t bytes) {
    size_t at = block * block_of;
    return at >= bytes ? 0 : at + block < bytes ? block : bytes - at;
}

/* Collects all ranks' blocks in `data`, of `bytes`, where this rank's own is already. */
static int exchange(char *data, size_t bytes, size_t block, const Tree *tree, MPI_Comm comm) {
    int n = tree->ranks, own = tree->me, finished;
    Edges *edges = tree->exchange;
    /* By rank: its mark and its block; then the mark and the block that this rank sends. */
    MPI_Request *requests = malloc(sizeof *requests * (2 * n + 2)), *sent = requests + 2 * n;
    int *done = malloc(sizeof *done * (2 * n + 2));
    double *marked = malloc(sizeof *marked * 2 * n), *looked = marked + n, empty = 0; /* times that nothing was found */
    if (!requests || !done || !marked) return free(requests), free(done), free(marked), MPI_ERR_NO_MEM;
    if (isinf(edges->latency)) TRY(time_latency(tree, comm)); /* on all ranks or on none */
    requests[2 * own] = requests[2 * own + 1] = sent[0] = sent[1] = MPI_REQUEST_NULL;
    for (int from = 0; from < n; from++) {
        marked[from] = 0, looked[from] = INFINITY;
        if (from == own) continue;
        TRY(PMPI_Irecv(NULL, 0, MPI_BYTE, from, MARK, comm, &requests[2 * from]));
        TRY(PMPI_Irecv(data + block * from, (int)length_of(from, block, bytes), MPI_BYTE, from, 0, comm,
                       &requests[2 * from + 1]));
    }
    for (int step = 0; step < n - 1; step++) {
        int shift = 1 + (edges->first + step) % (n - 1), to = (own + shift) % n, from = (own + n - shift) % n;
        TRY(PMPI_Isend(NULL, 0, MPI_BYTE, to, MARK, comm, &sent[0]));
        TRY(PMPI_Isend(data + block * own, (int)length_of(own, block, bytes), MPI_BYTE, to, 0, comm, &sent[1]));
        while (sent[0] != MPI_REQUEST_NULL || sent[1] != MPI_REQUEST_NULL ||
               requests[2 * from] != MPI_REQUEST_NULL || requests[2 * from + 1] != MPI_REQUEST_NULL) {
            TRY(PMPI_Testsome(2 * n + 2, requests, &finished, done, MPI_STATUSES_IGNORE));
            if (finished <= 0) empty++, sched_yield();
            double now = PMPI_Wtime();
            for (int i = 0; i < finished; i++) {
                int source = done[i] / 2, its_step = ((own + n - source) % n + n - 2 - edges->first) % (n - 1);
                if (source >= n) continue;
                if (done[i] % 2 == 0) {
                    marked[source] = now, looked[source] = empty;
                } else if (empty > looked[source] && (size_t)its_step * block >= BURST_BYTES) {
                    edges->seconds[source] += (now - marked[source]) / (double)length_of(source, block, bytes);
                    edges->seconds[n + source]++;
                }
            }
        }
    }
    edges->first = (edges->first + (n - 1) / 2) % (n - 1);
    free(requests), free(done), free(marked);
    return MPI_SUCCESS;
}

/* Broadcasts: the root deals out one block to each rank, and then all exchange their blocks. */
static int spread(char *data, size_t bytes, const Tree *tree, MPI_Comm comm) {
    int n = tree->ranks, own = tree->me;
    size_t block = (bytes + n - 1) / n;
    MPI_Request *going = malloc(sizeof *going * n);
    if (!going) return MPI_ERR_NO_MEM;
    for (int to = 0; own == tree->root && to < n; to++)
        if (to != own)
            TRY(PMPI_Isend(data + block * to, (int)length_of(to, block, bytes), MPI_BYTE, to, 0, comm, &going[to]));
    for (int to = 0; own == tree->root && to < n; to++)
        if (to != own) TRY(await_one(&going[to]));
    free(going);
    if (own != tree->root) {
        MPI_Request coming;
        TRY(PMPI_Irecv(data + block * own, (int)length_of(own, block, bytes), MPI_BYTE, tree->root, 0, comm, &coming));
        TRY(await_one(&coming));
    }
    return exchange(data, bytes, block, tree, comm);
}

/*
 * Times each edge of a broadcast or scatter, for free; part of shim.c.
 *
 * Works like gavotte.mpi.observing. A sender cannot know when its message has arrived, because its kernel takes megabytes at once.
 *
 * 1. The sender sends a mark of no bytes ahead of each piece.
 * 2. The receiver takes the time from the mark to the piece. It skips a piece whose mark had arrived before it looked.
 * 3. Rank 0 collects the times at the end, so it waits for all ranks.
 */

#include <fcntl.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

enum { MARK = 1 }; /* the tag of marks; pieces have 0 */
#define LEAST_TIMED 0.5 /* share of a message that must have been timed for its edge to count */

static const char *observations; /* the file that rank 0 adds to; NULL = no marks are sent */
static long observed;
static unsigned long run, file_sum;
static double *told; /* at rank 0, of each rank: seconds of the edge to it, -1 = not timed, and its parent */
static char *shares; /* at rank 0, whether a rank shares its host with another */

static int await_one(MPI_Request *request);

typedef struct {
    double seconds, bytes;
} Timed;

static int await_timed(MPI_Request *mark, MPI_Request *piece, double bytes, Timed *timed) {
    int early;
    TRY(PMPI_Test(mark, &early, MPI_STATUS_IGNORE));
    if (early) return await_one(piece);
    TRY(await_one(mark));
    double started = PMPI_Wtime();
    TRY(await_one(piece));
    timed->seconds += PMPI_Wtime() - started, timed->bytes += bytes;
    return MPI_SUCCESS;
}

static const char *host_of(int rank) { return host_names + (size_t)HOST_ROOM * rank; }

static int make_room(void) {
    told = malloc(sizeof *told * 2 * ranks), shares = calloc(ranks, 1);
    for (int i = 0; shares && i < ranks; i++)
        for (int j = 0; j < i; j++)
            if (!strcmp(host_of(i), host_of(j))) shares[i] = shares[j] = 1;
    return told && shares;
}

/* Starts observing if all ranks want it, since marks that no rank receives would never complete; called by all. */
static void observe(const char *path) {
    int wanted = path && *path && host_names && (me != 0 || make_room()), all = 0;
    PMPI_Allreduce(&wanted, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    observations = all ? path : NULL;
    if (path && !all && me == 0)
        fprintf(stderr, "gavotte: nothing is observed: %s\n",
                host_names ? "not all ranks have GAVOTTE_OBSERVATIONS" : "GAVOTTE_TREES names no hosts");
    run = ((unsigned long)time(NULL) << 22) ^ (unsigned long)getpid();
}

/* Prints numbers without printf's %f, which writes commas in some languages. */
static void print_seconds(FILE *out, double seconds) {
    int64_t ns = (int64_t)(seconds * 1e9);
    fprintf(out, "%lld.%09lld", (long long)(ns / 1000000000), (long long)(ns % 1000000000));
}

static unsigned long mixed(unsigned long sum, unsigned long word) { return (sum ^ word) * 1099511628211UL; }

/* Whether an edge is reported. In a scatter, edges between the same hosts carry different numbers of blocks. */
static int counts(int rank, const Tree *tree) {
    int parent = (int)told[2 * rank + 1];
    if (parent < 0 || told[2 * rank] <= 0 || !strcmp(host_of(parent), host_of(rank))) return 0;
    return tree->kind != SCATTER || !(shares[parent] || shares[rank]);
}

/* Writes one Record an edge, all at once, because other processes may read or append meanwhile. */
static void record(const Tree *tree, double bytes) {
    int edges = 0;
    unsigned long shape = mixed(mixed(mixed(file_sum, tree->kind), (unsigned long)bytes), (unsigned long)tree->segment_bytes);
    for (int i = 0; i < ranks; i++) shape = mixed(shape, (unsigned long)(told[2 * i + 1] + 1));
    for (int i = 0; i < ranks; i++) edges += counts(i, tree);
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (!out) return;
    for (int i = 0; i < ranks; i++) {
        if (!counts(i, tree)) continue;
        fprintf(out, "{\"format\":\"gavotte/record/1\",\"kind\":\"%s\",\"metric\":\"transfer_s\",\"value\":",
                tree->kind == SCATTER ? "scatter" : "broadcast");
        print_seconds(out, told[2 * i]);
        fputs(",\"time_s\":", out);
        print_seconds(out, (double)time(NULL));
        fprintf(out, ",\"labels\":{\"run\":\"%lx\",\"operation\":%ld,\"edges\":%d,\"tree\":\"%016lx\",\"bytes\":%.0f,", run,
                observed, edges, shape, bytes);
        fprintf(out, "\"source\":\"%s\",\"target\":\"%s\"}}\n", host_of((int)told[2 * i + 1]), host_of(i));
    }
    fclose(out);
    int file = length ? open(observations, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (length && (file < 0 || write(file, text, length) != (ssize_t)length)) {
        static int complained;
        if (!complained++) fprintf(stderr, "gavotte: %s: cannot be written\n", observations);
    }
    if (file >= 0) close(file);
    free(text);
}

/* After an operation along a tree: rank 0 learns what each edge took. `whole` is what came down this rank's edge. */
static int report(const Timed *timed, double whole, double bytes, const Tree *tree, MPI_Comm comm) {
    double mine[2] = {-1, tree->parent};
    MPI_Request all;
    if (timed->bytes > 0 && timed->bytes >= LEAST_TIMED * whole) mine[0] = timed->seconds * whole / timed->bytes;
    TRY(PMPI_Igather(mine, 2, MPI_DOUBLE, told, 2, MPI_DOUBLE, 0, comm, &all));
    TRY(await_one(&all));
    observed++;
    if (me == 0) record(tree, bytes);
    return MPI_SUCCESS;
}

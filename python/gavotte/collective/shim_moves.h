/* Moving bytes up and down a tree; part of shim.c. */

/* Yields the processor while it waits. If ranks outnumber cores and the library waits busily, the next rank of the chain may lack a
 * core. Costs nothing if no other process is ready to run. */
static int await_one(MPI_Request *request) {
    for (int done = 0;;) {
        TRY(PMPI_Test(request, &done, MPI_STATUS_IGNORE));
        if (done) return MPI_SUCCESS;
        sched_yield();
    }
}

/* Sends one piece, and waits until it is away. */
static int pass(const void *part, int count, MPI_Datatype type, int to, MPI_Comm comm) {
    MPI_Request request;
    TRY(PMPI_Isend(part, count, type, to, 0, comm, &request));
    return await_one(&request);
}

static int pack(const void *from, MPI_Count count, MPI_Datatype type, char *to, size_t bytes, MPI_Comm comm) {
    int at = 0;
    if (is_plain(type)) return memcpy(to, from, bytes), MPI_SUCCESS;
    return PMPI_Pack(from, (int)count, type, to, (int)bytes, &at, comm);
}

static int unpack(const char *from, void *to, MPI_Count count, MPI_Datatype type, size_t bytes, MPI_Comm comm) {
    int at = 0;
    if (is_plain(type)) return memcpy(to, from, bytes), MPI_SUCCESS;
    return PMPI_Unpack(from, (int)bytes, &at, to, (int)count, type, comm);
}

static size_t piece_of(const Tree *tree, size_t bytes) {
    size_t piece = (size_t)tree->segment_bytes;
    return piece == 0 || piece > bytes ? bytes : piece;
}

/*
 * Sends `bytes` for each rank below down the tree, one piece of all of them after the other, in one buffer laid out as
 * [piece][rank of `below`]. With `shared`, all ranks get the same bytes.
 */
static int down(char *data, size_t bytes, int shared, const Tree *tree, MPI_Comm comm) {
    size_t piece = piece_of(tree, bytes), pieces = (bytes + piece - 1) / piece, ours = shared ? 1 : tree->size;
    MPI_Request *coming = malloc(sizeof *coming * 2 * pieces), *marks;
    Timed timed = {0};
    if (!coming) return MPI_ERR_NO_MEM;
    marks = coming + pieces;
    /* The root of a flat scatter sends to all at once: a host may carry more than one pair does. */
    int flat = !shared && tree->parent < 0 && tree->children == tree->ranks - 1;
    MPI_Request *going = flat ? malloc(sizeof *going * tree->ranks) : NULL;
    for (size_t i = 0; tree->parent >= 0 && i < pieces; i++) {
        size_t length = i + 1 < pieces ? piece : bytes - i * piece;
        if (observations) TRY(PMPI_Irecv(NULL, 0, MPI_BYTE, tree->parent, MARK, comm, &marks[i]));
        TRY(PMPI_Irecv(data + ours * i * piece, (int)(ours * length), MPI_BYTE, tree->parent, 0, comm, &coming[i]));
    }
    for (size_t i = 0; i < pieces; i++) {
        size_t length = i + 1 < pieces ? piece : bytes - i * piece;
        if (tree->parent >= 0 && observations) TRY(await_timed(&marks[i], &coming[i], (double)(ours * length), &timed));
        else if (tree->parent >= 0) TRY(await_one(&coming[i]));
        for (int c = 0; c < tree->children; c++) {
            size_t weight = shared ? 1 : tree->weight[c], at = shared ? 0 : tree->at[c];
            const char *part = data + ours * i * piece + at * length;
            if (observations) TRY(PMPI_Send(NULL, 0, MPI_BYTE, tree->child[c], MARK, comm));
            if (going) TRY(PMPI_Isend(part, (int)(weight * length), MPI_BYTE, tree->child[c], 0, comm, &going[c]));
            else TRY(pass(part, (int)(weight * length), MPI_BYTE, tree->child[c], comm));
        }
        for (int c = 0; going && c < tree->children; c++) TRY(await_one(&going[c]));
    }
    free(coming), free(going);
    return observations ? report(&timed, (double)(ours * bytes), (double)bytes, tree, comm) : MPI_SUCCESS;
}

/* The same backwards: what each rank below has comes up. */
static int up(char *data, size_t bytes, const Tree *tree, MPI_Comm comm) {
    size_t piece = piece_of(tree, bytes), pieces = (bytes + piece - 1) / piece, ours = tree->size;
    MPI_Request *coming = malloc(sizeof *coming * (pieces * tree->children + 1));
    if (!coming) return MPI_ERR_NO_MEM;
    size_t number = 0;
    for (size_t i = 0; i < pieces; i++)
        for (int c = tree->children - 1; c >= 0; c--) {
            size_t length = i + 1 < pieces ? piece : bytes - i * piece;
            char *part = data + ours * i * piece + tree->at[c] * length;
            TRY(PMPI_Irecv(part, (int)(tree->weight[c] * length), MPI_BYTE, tree->child[c], 0, comm,
                           &coming[number++]));
        }
    for (size_t i = 0; i < pieces; i++) {
        size_t length = i + 1 < pieces ? piece : bytes - i * piece;
        for (int c = 0; c < tree->children; c++) TRY(await_one(&coming[i * tree->children + c]));
        if (tree->parent >= 0)
            TRY(pass(data + ours * i * piece, (int)(ours * length), MPI_BYTE, tree->parent, comm));
    }
    free(coming);
    return MPI_SUCCESS;
}

/* Between one rank's block in a row and its pieces at `place` of the layout of `down`. */
static void deal(char *laid, char *block, size_t bytes, size_t place, const Tree *tree, int into_layout) {
    size_t piece = piece_of(tree, bytes);
    for (size_t at = 0; at < bytes; at += piece) {
        size_t length = at + piece < bytes ? piece : bytes - at;
        char *there = laid + tree->size * at + place * length;
        memcpy(into_layout ? there : block + at, into_layout ? block + at : there, length);
    }
}

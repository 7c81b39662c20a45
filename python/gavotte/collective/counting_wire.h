/* What Open MPI itself sends for its collectives: each message of theirs is counted as it goes.
 *
 * All of Open MPI's messages pass `mca_pml`, a table of functions whose order is the same from version 1.3 to 5.0.
 * After MPI_Init, its four functions that send are replaced by those below, which count and call the former. The
 * library's own messages, as those of collectives, have a negative tag. Two messages of this rank to itself show
 * whether the table is as expected. GAVOTTE_WIRE=0 leaves the table alone.
 *
 * Open MPI's own monitoring would count the same, but in version 4 it crashes in neighbourhood collectives on
 * distributed graphs.
 */

static int wire_live;

#ifdef OPEN_MPI
typedef int Isend(const void *, size_t, MPI_Datatype, int, int, int, MPI_Comm, MPI_Request *);
typedef int Send(const void *, size_t, MPI_Datatype, int, int, int, MPI_Comm);
typedef int Start(size_t, MPI_Request *);

enum { ISEND_INIT = 9, ISEND = 10, SEND = 11, START = 14, PROBE_TAG = 77 };
static union {
    void *any;
    Isend *isend;
    Send *send;
    Start *start;
} *wire_table, library[START + 1];
static int wire_probes;

static int wire_rank(MPI_Comm comm, int target) {
    Members *kept = NULL;
    MPI_Group group;
    int found = 0, inter = 0, rank = MPI_UNDEFINED;
    if (comm == MPI_COMM_WORLD) return target;
    if (keyval != MPI_KEYVAL_INVALID) PMPI_Comm_get_attr(comm, keyval, &kept, &found);
    if (found) return target < kept->n ? kept->map[target] : MPI_UNDEFINED;
    PMPI_Comm_test_inter(comm, &inter);
    if (inter)
        PMPI_Comm_remote_group(comm, &group);
    else
        PMPI_Comm_group(comm, &group);
    PMPI_Group_translate_ranks(group, 1, &target, world, &rank);
    PMPI_Group_free(&group);
    return rank;
}

static void wire_count(size_t count, MPI_Datatype type, int target, int tag, MPI_Comm comm) {
    if (tag >= 0 || target < 0) {
        wire_probes += tag == PROBE_TAG && count == 1 && type == MPI_CHAR && comm == MPI_COMM_SELF;
        return;
    }
    int rank = wire_rank(comm, target);
    if (rank >= 0 && rank < ranks) __atomic_fetch_add(&wire[rank], size_of(count, type), __ATOMIC_RELAXED);
}

static int wire_isend(const void *buffer, size_t count, MPI_Datatype type, int target, int tag, int mode, MPI_Comm comm,
                      MPI_Request *request) {
    wire_count(count, type, target, tag, comm);
    return library[ISEND].isend(buffer, count, type, target, tag, mode, comm, request);
}

static int wire_send(const void *buffer, size_t count, MPI_Datatype type, int target, int tag, int mode,
                     MPI_Comm comm) {
    wire_count(count, type, target, tag, comm);
    return library[SEND].send(buffer, count, type, target, tag, mode, comm);
}

static int wire_isend_init(const void *buffer, size_t count, MPI_Datatype type, int target, int tag, int mode,
                           MPI_Comm comm, MPI_Request *request) {
    int code = library[ISEND_INIT].isend(buffer, count, type, target, tag, mode, comm, request);
    if (code != MPI_SUCCESS) return code;
    forget_request(*request);
    if (tag < 0 && target >= 0) remember_request(*request, wire_rank(comm, target), 1, size_of(count, type));
    return code;
}

static int wire_start(size_t count, MPI_Request *requests) {
    for (size_t i = 0; i < count; i++) {
        const Persistent *each = persistent_of(requests[i]);
        if (each && each->internal && each->target >= 0 && each->target < ranks)
            __atomic_fetch_add(&wire[each->target], each->size, __ATOMIC_RELAXED);
    }
    return library[START].start(count, requests);
}

static void wire_end(void) {
    if (!wire_table) return;
    wire_table[ISEND_INIT] = library[ISEND_INIT], wire_table[START] = library[START];
    wire_table[ISEND] = library[ISEND], wire_table[SEND] = library[SEND];
    wire_table = NULL;
}

static void wire_begin(void) {
    const char *wanted = getenv("GAVOTTE_WIRE");
    char sent = 0, got;
    MPI_Request request;
    if (!exact || (wanted && !strcmp(wanted, "0"))) return;
    wire_table = dlsym(RTLD_DEFAULT, "mca_pml");
    if (!wire_table) return;
    memcpy(library, wire_table, sizeof library);
    wire_table[ISEND_INIT].isend = wire_isend_init, wire_table[START].start = wire_start;
    wire_table[ISEND].isend = wire_isend, wire_table[SEND].send = wire_send;
    PMPI_Irecv(&got, 1, MPI_CHAR, 0, PROBE_TAG, MPI_COMM_SELF, &request);
    PMPI_Send(&sent, 1, MPI_CHAR, 0, PROBE_TAG, MPI_COMM_SELF);
    PMPI_Wait(&request, MPI_STATUS_IGNORE);
    PMPI_Irecv(&got, 1, MPI_CHAR, 0, PROBE_TAG, MPI_COMM_SELF, &request);
    MPI_Request other;
    PMPI_Isend(&sent, 1, MPI_CHAR, 0, PROBE_TAG, MPI_COMM_SELF, &other);
    PMPI_Wait(&request, MPI_STATUS_IGNORE), PMPI_Wait(&other, MPI_STATUS_IGNORE);
    wire_live = wire_probes == 2;
    if (!wire_live) wire_end();
}
#else
static void wire_begin(void) {}
static void wire_end(void) {}
#endif

/* Messages as operations: sends, receives, persistent requests, and messages that a probe has matched. */

/* Return the world rank of a communicator's rank; MPI_PROC_NULL, or MPI_UNDEFINED outside MPI_COMM_WORLD. */
static int peer_of(const Members *all, int rank) {
    if (rank == MPI_PROC_NULL) return MPI_PROC_NULL;
    if (!all || rank < 0 || rank >= all->n || all->map[rank] == MPI_UNDEFINED) {
        trace.outside++;
        return MPI_UNDEFINED;
    }
    return all->map[rank];
}

static int is_peer(int peer) { return peer != MPI_PROC_NULL && peer != MPI_UNDEFINED; }

static void start_send(Live *own, int mode, int peer, Bytes size, int tag, int comm) {
    own->slot = new_slot();
    scratch_size = 0;
    put(OP_ISEND), put((Bytes)mode), put((Bytes)peer), put(size), put_signed(tag), put((Bytes)comm), put((Bytes)own->slot);
    record_scratch();
}

static void start_receive(Live *own, int peer, Bytes size, int tag, int comm) {
    own->slot = new_slot();
    if (own->wild) {
        Queued queued = {.size = size, .comm = comm, .tag = tag == MPI_ANY_TAG ? -1 : tag, .slot = own->slot};
        trace.wildcards++;
        own->queued = queue_end;
        record(UNRESOLVED, &queued);
        if (trace.dropped) trace.wildcards--, own->wild = 0;
        return;
    }
    put_receive(peer, size, tag, comm, own->slot);
    record_scratch();
}

static void trace_send(Bytes count, MPI_Datatype type, int target, int tag, int mode, MPI_Comm comm) {
    const Members *all = members(comm);
    int peer = peer_of(all, target);
    Bytes size = size_of(count, type);
    if (!is_peer(peer)) return;
    if (trace_request) {
        Live *own = add_live(*trace_request);
        if (own) start_send(own, mode, peer, size, tag, all->id);
        return;
    }
    scratch_size = 0;
    put(OP_SEND), put((Bytes)mode), put((Bytes)peer), put(size), put_signed(tag), put((Bytes)all->id);
    record_scratch();
}

static void trace_send_init(Bytes count, MPI_Datatype type, int target, int tag, int mode, MPI_Comm comm,
                            MPI_Request request) {
    const Members *all = members(comm);
    int peer = peer_of(all, target);
    Live *own = is_peer(peer) ? add_live(request) : NULL;
    if (!own) return;
    own->persistent = 1, own->kind = OP_ISEND, own->mode = mode, own->peer = peer, own->tag = tag;
    own->comm = all->id, own->size = size_of(count, type);
}

/* A receive: with `status` a blocking one that has completed, else one that `trace_request` stands for. */
static void trace_receive(Bytes count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                          const MPI_Status *status) {
    const Members *all = members(comm);
    int any = source == MPI_ANY_SOURCE, wild = any || tag == MPI_ANY_TAG;
    if (source == MPI_PROC_NULL || !all) return;
    if (status && wild) source = status->MPI_SOURCE, tag = status->MPI_TAG, any = 0;
    int peer = any ? -1 : peer_of(all, source);
    Bytes size = size_of(count, type);
    if (!any && !is_peer(peer)) return;
    if (status) {
        put_receive(peer, size, tag, all->id, -1);
        record_scratch();
        return;
    }
    Live *own = add_live(*trace_request);
    if (!own) return;
    own->wild = wild, own->comm = all->id;
    start_receive(own, peer, size, tag, all->id);
}

static void trace_receive_init(Bytes count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                               MPI_Request request) {
    const Members *all = members(comm);
    int any = source == MPI_ANY_SOURCE;
    if (source == MPI_PROC_NULL || !all) return;
    int peer = any ? -1 : peer_of(all, source);
    Live *own = any || is_peer(peer) ? add_live(request) : NULL;
    if (!own) return;
    own->persistent = 1, own->kind = OP_IRECV, own->peer = peer, own->tag = tag, own->wild = any || tag == MPI_ANY_TAG;
    own->comm = all->id, own->size = size_of(count, type);
}

static void trace_start(MPI_Request request) {
    Live *own = *find_live(request);
    if (!own || !own->persistent) return;
    if (own->kind == OP_ISEND)
        start_send(own, own->mode, own->peer, own->size, own->tag, own->comm);
    else
        start_receive(own, own->peer, own->size, own->tag, own->comm);
}

static void trace_startall(int count, const MPI_Request *requests) {
    for (int i = 0; i < count; i++) trace_start(requests[i]);
}

/* Both parts of an `Isendrecv`: one request stands for two. */
static void trace_isendrecv(Bytes count, MPI_Datatype type, int target, int tag, Bytes in_count, MPI_Datatype in_type,
                            int source, int in_tag, MPI_Comm comm) {
    trace_receive(in_count, in_type, source, in_tag, comm, NULL);
    Live *first = *find_live(*trace_request);
    if (first && is_peer(peer_of(members(comm), target))) first->paired = 1;
    trace_send(count, type, target, tag, STANDARD, comm);
}

/* Both parts of a `Sendrecv`, with two requests that are free afterwards. */
static void trace_sendrecv(Bytes count, MPI_Datatype type, int target, int tag, Bytes in_count, MPI_Datatype in_type,
                           int source, int in_tag, MPI_Comm comm, const MPI_Status *status) {
    const Members *all = members(comm);
    if (source != MPI_PROC_NULL && (source == MPI_ANY_SOURCE || in_tag == MPI_ANY_TAG))
        source = status->MPI_SOURCE, in_tag = status->MPI_TAG;
    int to = peer_of(all, target), from = peer_of(all, source);
    if (!is_peer(to)) {
        if (is_peer(from)) trace_receive(in_count, in_type, source, in_tag, comm, status);
        return;
    }
    if (!is_peer(from)) {
        trace_send(count, type, target, tag, STANDARD, comm);
        return;
    }
    int in = new_slot(), out = new_slot();
    scratch_size = 0;
    put(OP_SENDRECV), put((Bytes)to), put(size_of(count, type)), put_signed(tag), put((Bytes)from);
    put(size_of(in_count, in_type)), put_signed(in_tag), put((Bytes)all->id), put((Bytes)in), put((Bytes)out);
    record_scratch();
    free_slot(in), free_slot(out);
}

/* ---- messages that a probe has matched ---- */

typedef struct Matched {
    MPI_Message message;
    int peer, tag, comm;
    struct Matched *next;
} Matched;
static Matched *matched;

static void trace_matched(MPI_Message message, MPI_Comm comm, const MPI_Status *status) {
    const Members *all = members(comm);
    if (message == MPI_MESSAGE_NO_PROC || !all) return;
    int peer = peer_of(all, status->MPI_SOURCE);
    Matched *fresh = is_peer(peer) ? trace_alloc(sizeof *fresh) : NULL;
    if (!fresh) return;
    *fresh = (Matched){message, peer, status->MPI_TAG, all->id, matched};
    matched = fresh;
}

static void trace_matched_receive(Bytes count, MPI_Datatype type, MPI_Message message) {
    Matched **at = &matched, *own;
    while (*at && (*at)->message != message) at = &(*at)->next;
    if (!(own = *at)) return;
    Live *started = trace_request ? add_live(*trace_request) : NULL;
    if (started) {
        start_receive(started, own->peer, size_of(count, type), own->tag, own->comm);
    } else {
        put_receive(own->peer, size_of(count, type), own->tag, own->comm, -1);
        record_scratch();
    }
    *at = own->next;
    free(own), trace_bytes -= sizeof *own;
}

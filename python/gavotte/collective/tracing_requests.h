/* Requests that the program waits for, their slots, and the statuses and requests that the library gets from us. */

/* A request that this rank waits for, or a persistent one, which has a slot while it is active. */
typedef struct Live {
    MPI_Request request;
    int slot, persistent, kind, mode, peer, tag, comm, wild, paired; /* paired: the next entry completes with it */
    unsigned long queued; /* where the queue has the receive with a wildcard */
    Bytes size;
    struct Live *next;
} Live;
enum { LIVE_BUCKETS = 1 << 12 };
static Live *live[LIVE_BUCKETS], *free_live;
static unsigned char *slot_used;
static int slots, slot_least;

static int new_slot(void) {
    while (slot_least < slots && slot_used[slot_least]) slot_least++;
    if (slot_least == slots) {
        int room = slots ? 2 * slots : 256;
        unsigned char *more = realloc(slot_used, (size_t)room);
        if (!more) return 0;
        memset(more + slots, 0, (size_t)(room - slots));
        slot_used = more, slots = room;
    }
    slot_used[slot_least] = 1;
    return slot_least++;
}

static void free_slot(int slot) {
    if (slot < 0 || slot >= slots) return;
    slot_used[slot] = 0;
    if (slot < slot_least) slot_least = slot;
}

static Live **live_bucket(MPI_Request request) {
    size_t number = (size_t)request;
    return &live[(number ^ number >> 6 ^ number >> 17) % LIVE_BUCKETS];
}

/* Return where the list has the oldest entry of a request. MPICH gives several small sends one request. */
static Live **find_live(MPI_Request request) {
    Live **at = live_bucket(request);
    while (*at && (*at)->request != request) at = &(*at)->next;
    return at;
}

static Live *add_live(MPI_Request request) {
    Live **at = live_bucket(request), *fresh = free_live;
    if (fresh)
        free_live = fresh->next;
    else if (!(fresh = trace_alloc(sizeof *fresh)))
        return NULL;
    *fresh = (Live){.request = request, .slot = -1};
    while (*at) at = &(*at)->next;
    *at = fresh;
    return fresh;
}

static void remove_live(Live **at) {
    Live *gone = *at;
    *at = gone->next;
    gone->next = free_live, free_live = gone;
}

/* ---- what the library's functions get ---- */

/* The statuses to pass on: ours if the program wants none and the trace does. */
static MPI_Status *status_for(MPI_Status *status, MPI_Status *own) {
    return tracing && status == MPI_STATUS_IGNORE ? own : status;
}

static void *room_of(void **buffer, size_t *room, size_t size) {
    if (size > *room) {
        void *more = realloc(*buffer, size);
        if (!more) return NULL;
        *buffer = more, *room = size;
    }
    return *buffer;
}

static MPI_Status *statuses_for(int n, MPI_Status *statuses) {
    static _Thread_local void *own;
    static _Thread_local size_t room;
    if (!tracing || !trace.wildcards || statuses != MPI_STATUSES_IGNORE) return statuses;
    MPI_Status *made = room_of(&own, &room, sizeof *made * (size_t)(n > 0 ? n : 1));
    return made ? made : statuses;
}

/* The requests of a call, which sets them to MPI_REQUEST_NULL when they have completed. */
static const MPI_Request *requests_before(int n, const MPI_Request *requests) {
    static _Thread_local void *own;
    static _Thread_local size_t room;
    if (!tracing || n <= 0) return requests;
    MPI_Request *made = room_of(&own, &room, sizeof *made * (size_t)n);
    return made ? memcpy(made, requests, sizeof *made * (size_t)n) : requests;
}

/* Records the sequence of this rank's MPI calls, with the computing between them, if GAVOTTE_TRACE is set.
 *
 * Each wrapper of a call counts it (counting.c) and records it here, after the library's own function has returned:
 * requests and the sources of wildcards are known then. A call becomes a key, the bytes that describe it in the file.
 * Equal keys have one number. tracing_fold.h folds the sequence of numbers, tracing_file.h writes it.
 *
 * What a receive with a wildcard matched is known when it has completed. Until then it and what follows wait in a
 * queue. Requests have the lowest free number, so that each pass of a loop has the same ones.
 */
#include <time.h>

static int tracing;
static _Thread_local int trace_depth;
static _Thread_local MPI_Request *trace_request; /* of the call that is recorded; NULL = it blocks */
static struct {
    double last, computed, spent, begin, began_s, startup_s, polled_s;
    int polled, threaded, threads, wildcards, locked; /* threads: that have made calls */
    Bytes calls, dropped, one_sided, one_sided_bytes, outside;
} trace;

/* Longest processor time between two polls that counts as waiting, in seconds. */
static const double POLL_S = 20e-6;

static double trace_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double trace_now(void) { return trace_clock(CLOCK_MONOTONIC); }

static double trace_loaded_s;
__attribute__((constructor)) static void trace_load(void) { trace_loaded_s = trace_now(); }

static Bytes zigzag(long long value) { return (Bytes)value << 1 ^ (Bytes)(value >> 63); }

#include "tracing_fold.h"

/* ---- keys ---- */

enum { OP_SEND = 1, OP_RECV, OP_ISEND, OP_IRECV, OP_WAIT, OP_CANCEL, OP_SENDRECV, OP_COLLECTIVE, OP_END };
enum { STANDARD, SYNCHRONOUS, BUFFERED, READY };

static unsigned char *key_bytes, scratch_own[256], *scratch = scratch_own;
static size_t key_bytes_size, key_bytes_room, scratch_size, scratch_room = sizeof scratch_own;
static struct Key {
    size_t from, size;
    Hash hash;
} *key_at;
static int keys, keys_room, *key_slots, key_slots_room;

static void put(Bytes value) {
    if (scratch_size + 10 > scratch_room) {
        unsigned char *more = malloc(2 * scratch_room);
        if (!more) return;
        memcpy(more, scratch, scratch_size);
        if (scratch != scratch_own) free(scratch);
        scratch = more, scratch_room *= 2;
    }
    for (; value > 127; value >>= 7) scratch[scratch_size++] = (unsigned char)(value | 128);
    scratch[scratch_size++] = (unsigned char)value;
}

static void put_signed(long long value) { put(zigzag(value)); }

static int grow_keys(size_t size) {
    if (keys == keys_room) {
        int room = keys_room ? 2 * keys_room : 256;
        struct Key *more = realloc(key_at, sizeof *more * (size_t)room);
        if (!more) return 0;
        trace_bytes += sizeof *more * (size_t)(room - keys_room);
        key_at = more, keys_room = room;
    }
    if (2 * keys >= key_slots_room) {
        int room = key_slots_room ? 2 * key_slots_room : 1024;
        int *more = calloc((size_t)room, sizeof *more);
        if (!more) return 0;
        trace_bytes += sizeof *more * (size_t)(room - key_slots_room);
        for (int i = 0; i < keys; i++) {
            int slot = (int)(key_at[i].hash % (Hash)room);
            while (more[slot]) slot = (slot + 1) % room;
            more[slot] = i + 1;
        }
        free(key_slots);
        key_slots = more, key_slots_room = room;
    }
    if (key_bytes_size + size > key_bytes_room) {
        size_t room = 2 * (key_bytes_size + size) + 4096;
        unsigned char *more = realloc(key_bytes, room);
        if (!more) return 0;
        trace_bytes += room - key_bytes_room;
        key_bytes = more, key_bytes_room = room;
    }
    return 1;
}

/* Return the number of the key in `scratch`; -1 = out of memory. */
static int key_number(void) {
    Hash hash = scratch_size;
    for (size_t i = 0; i < scratch_size; i += sizeof(Hash)) {
        Hash word = 0;
        memcpy(&word, scratch + i, scratch_size - i < sizeof word ? scratch_size - i : sizeof word);
        hash = mix(hash ^ word);
    }
    int slot = 0;
    if (key_slots_room) {
        for (slot = (int)(hash % (Hash)key_slots_room); key_slots[slot]; slot = (slot + 1) % key_slots_room) {
            const struct Key *key = &key_at[key_slots[slot] - 1];
            if (key->hash == hash && key->size == scratch_size &&
                !memcmp(key_bytes + key->from, scratch, scratch_size))
                return key_slots[slot] - 1;
        }
    }
    if (!grow_keys(scratch_size)) return -1;
    for (slot = (int)(hash % (Hash)key_slots_room); key_slots[slot];) slot = (slot + 1) % key_slots_room;
    memcpy(key_bytes + key_bytes_size, scratch, scratch_size);
    key_at[keys] = (struct Key){key_bytes_size, scratch_size, hash};
    key_bytes_size += scratch_size;
    key_slots[slot] = ++keys;
    return keys - 1;
}

/* ---- operations that wait for a wildcard before them ---- */

enum { MOST_QUEUED = 1 << 14, UNRESOLVED = -2 };
typedef struct {
    int key;
    double computed, spent;
    Bytes size;
    int comm, tag, slot;
} Queued;
static Queued *queue; /* a ring; entry n is queue[n % MOST_QUEUED] */
static unsigned long queue_first, queue_end;

static void put_receive(int source, Bytes size, int tag, int comm, int slot) {
    scratch_size = 0;
    put(slot < 0 ? OP_RECV : OP_IRECV), put((Bytes)(source + 1)), put(size), put_signed(tag), put((Bytes)comm);
    if (slot >= 0) put((Bytes)slot);
}

static void settle(Queued *queued, int source, int tag) {
    if (queued->key != UNRESOLVED) return;
    put_receive(source, queued->size, tag, queued->comm, queued->slot);
    queued->key = key_number();
    trace.wildcards--;
}

/* Append what no longer waits, or all of the queue. */
static void drain(int all) {
    for (; queue_first != queue_end; queue_first++) {
        Queued *queued = &queue[queue_first % MOST_QUEUED];
        if (all) settle(queued, -1, queued->tag);
        if (queued->key == UNRESOLVED) return;
        if (queued->key >= 0) append(queued->key, queued->computed, queued->spent);
    }
}

static int is_full(void) { return trace.dropped || trace_bytes > trace_budget; }

/* Record an operation. Past the budget, only count it. */
static void record(int key, const Queued *unresolved) {
    double computed = trace.computed > 0 ? trace.computed : 0, spent = trace.spent;
    trace.computed = trace.spent = 0;
    if (key == -1 || is_full()) {
        trace.dropped++;
        return;
    }
    trace.calls++;
    if (queue_first == queue_end && !unresolved) {
        append(key, computed, spent);
        return;
    }
    if (!queue) queue = trace_alloc(sizeof *queue * MOST_QUEUED);
    if (!queue) {
        trace.dropped++;
        return;
    }
    if (queue_end - queue_first == MOST_QUEUED) {
        settle(&queue[queue_first % MOST_QUEUED], -1, queue[queue_first % MOST_QUEUED].tag);
        drain(0);
    }
    Queued *queued = &queue[queue_end++ % MOST_QUEUED];
    *queued = unresolved ? *unresolved : (Queued){0};
    queued->key = key, queued->computed = computed, queued->spent = spent;
}

static void record_scratch(void) { record(is_full() ? -1 : key_number(), NULL); }

/* ---- communicators ---- */

/* World ranks of a communicator's members, then of an intercommunicator's other group. */
typedef struct Group {
    Hash hash;
    int n, remote, instances, instances_room, *ids;
    struct Group *next;
    int ranks[];
} Group;
static struct {
    const Group *group;
    int instance, live;
} *comms;
static int trace_comms, comms_room;
enum { GROUP_BUCKETS = 1 << 10 };
static Group *groups[GROUP_BUCKETS];

/* Return the number of a new communicator. Its group and which of the live ones with this group it is are the same on
 * all ranks, since they make and free communicators in the same order. */
static int new_comm(const int *list, int n, const int *remote, int remotes) {
    size_t size = sizeof(int) * (size_t)(n + remotes);
    Hash hash = mix((Hash)n);
    for (int i = 0; i < n + remotes; i++) hash = mix(hash ^ (Hash)(unsigned)(i < n ? list[i] : remote[i - n]));
    Group **bucket = &groups[hash % GROUP_BUCKETS], *group = *bucket;
    while (group && (group->hash != hash || group->n != n || group->remote != remotes ||
                     memcmp(group->ranks, list, sizeof(int) * (size_t)n) ||
                     memcmp(group->ranks + n, remote, sizeof(int) * (size_t)remotes)))
        group = group->next;
    if (!group) {
        group = trace_alloc(sizeof *group + size);
        if (!group) return 0;
        *group = (Group){.hash = hash, .n = n, .remote = remotes, .next = *bucket};
        for (int i = 0; i < n + remotes; i++) group->ranks[i] = i < n ? list[i] : remote[i - n];
        *bucket = group;
    }
    for (int i = 0; i < group->instances; i++)
        if (!comms[group->ids[i]].live) {
            comms[group->ids[i]].live = 1;
            return group->ids[i];
        }
    if (group->instances == group->instances_room) {
        int room = group->instances_room ? 2 * group->instances_room : 4;
        int *more = realloc(group->ids, sizeof *more * (size_t)room);
        if (!more) return 0;
        trace_bytes += sizeof *more * (size_t)(room - group->instances_room);
        group->ids = more, group->instances_room = room;
    }
    if (trace_comms == comms_room) {
        int room = comms_room ? 2 * comms_room : 64;
        void *more = realloc(comms, sizeof *comms * (size_t)room);
        if (!more) return 0;
        trace_bytes += sizeof *comms * (size_t)(room - comms_room);
        comms = more, comms_room = room;
    }
    comms[trace_comms].group = group, comms[trace_comms].instance = group->instances, comms[trace_comms].live = 1;
    group->ids[group->instances++] = trace_comms;
    return trace_comms++;
}

static _Thread_local int trace_holds;

static void trace_lock(void) {
    if (!trace.threaded || trace_holds++) return;
    while (__atomic_exchange_n(&trace.locked, 1, __ATOMIC_ACQUIRE)) {}
}

static void trace_unlock(void) {
    if (trace.threaded && !--trace_holds) __atomic_store_n(&trace.locked, 0, __ATOMIC_RELEASE);
}

/* Number a communicator whose members were just found. */
static void trace_members(Members *all) {
    if (!tracing) return;
    trace_lock();
    all->id = all->inter ? new_comm(all->local, all->locals, all->map, all->n) : new_comm(all->map, all->n, NULL, 0);
    trace_unlock();
}

/* A communicator is freed. MPICH deletes its attributes later, when no message of it is under way. */
static void trace_drop(Members *all) {
    if (!tracing || !all || all->dropped) return;
    trace_lock();
    all->dropped = 1;
    if (all->id < trace_comms) comms[all->id].live = 0;
    trace_unlock();
}

/* ---- time ---- */

/* What has passed since the last call was computing. */
static void trace_arrive(void) {
    static _Thread_local int known;
    trace_lock();
    trace.threads += !known, known = 1;
    double now = trace_now(), passed = now - trace.last;
    if (trace.polled && (passed < POLL_S || trace_clock(CLOCK_THREAD_CPUTIME_ID) - trace.polled_s < POLL_S))
        trace.spent += passed;
    else
        trace.computed += passed;
    trace.polled = 0, trace.last = now;
    trace_unlock();
}

/* The library's function has returned. Return whether the call is to be recorded; `trace_done` follows then. */
static int trace_depart(int recorded) {
    trace_lock();
    double now = trace_now();
    trace.spent += now - trace.last, trace.last = now;
    if (recorded) return 1;
    trace_unlock();
    return 0;
}

static void trace_enter(void) {
    reached++;
    if (tracing && !trace_depth++) trace_arrive();
}

static int trace_leave(int code) { return tracing && !--trace_depth && trace_depart(code == MPI_SUCCESS); }

static void trace_done(void) {
    trace_request = NULL;
    trace_unlock();
}

/* Call a function of the library, which blocks, and record it by `what`. */
#define TRACED(call, what)                                                                                             \
    ({                                                                                                                 \
        trace_enter();                                                                                                 \
        int code_ = (call);                                                                                            \
        if (trace_leave(code_)) {                                                                                      \
            what;                                                                                                      \
            trace_done();                                                                                              \
        }                                                                                                              \
        code_;                                                                                                         \
    })
/* ---- requests ---- */

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

/* ---- messages ---- */

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

/* ---- completion ---- */

/* Return the slot of a request that has completed; -1 = none is known. */
static int complete(MPI_Request request, const MPI_Status *status, int *paired) {
    Live **at = find_live(request), *own = *at;
    *paired = 0;
    if (request == MPI_REQUEST_NULL || !own || own->slot < 0) return -1;
    int slot = own->slot;
    *paired = own->paired;
    if (own->wild && own->queued >= queue_first && own->queued < queue_end) {
        const Group *group = comms[own->comm].group;
        const int *list = group->remote ? group->ranks + group->n : group->ranks;
        int n = group->remote ? group->remote : group->n;
        int known = status && status->MPI_SOURCE >= 0 && status->MPI_SOURCE < n;
        settle(&queue[own->queued % MOST_QUEUED], known ? list[status->MPI_SOURCE] : -1, known ? status->MPI_TAG : -1);
    }
    if (own->persistent)
        own->slot = -1;
    else
        remove_live(at);
    return slot;
}

/* A call has found that nothing has completed. */
static void trace_poll(void) { trace.polled = 1, trace.polled_s = trace_clock(CLOCK_THREAD_CPUTIME_ID); }

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void trace_wait(int *finished, int n) {
    if (!n) {
        trace_poll();
        return;
    }
    int sorted = 1;
    for (int i = 1; i < n && sorted; i++) sorted = finished[i - 1] < finished[i];
    if (!sorted) qsort(finished, (size_t)n, sizeof *finished, by_number);
    drain(0);
    scratch_size = 0;
    put(OP_WAIT), put((Bytes)n);
    for (int i = 0; i < n; i++) put((Bytes)finished[i]);
    record_scratch();
    for (int i = 0; i < n; i++) free_slot(finished[i]);
}

/* Requests that have completed: all n, or those that `indices` lists. `statuses` are in the same order. None: a poll. */
static void trace_completed(int n, const MPI_Request *requests, const int *indices, const MPI_Status *statuses) {
    static void *own;
    static size_t room;
    int *finished = room_of(&own, &room, sizeof *finished * (size_t)(2 * n + 1)), size = 0;
    if (statuses == MPI_STATUSES_IGNORE || statuses == MPI_STATUS_IGNORE) statuses = NULL;
    for (int i = 0; finished && i < n; i++) {
        MPI_Request request = requests[indices ? indices[i] : i];
        for (int paired = 1; paired;) {
            int slot = complete(request, statuses ? &statuses[i] : NULL, &paired);
            if (slot >= 0) finished[size++] = slot;
        }
    }
    if (finished) trace_wait(finished, size);
}

static void trace_cancel(MPI_Request request) {
    Live *own = *find_live(request);
    if (!own || own->slot < 0) return;
    int slot = complete(request, NULL, &(int){0});
    drain(0);
    scratch_size = 0;
    put(OP_CANCEL), put((Bytes)slot);
    record_scratch();
    free_slot(slot);
}

/* A request for which no call will wait. */
static void trace_forget(MPI_Request request) {
    Live **at = find_live(request);
    if (!*at) return;
    if ((*at)->slot >= 0) free_slot((*at)->slot);
    remove_live(at);
}

/* ---- one-sided ---- */

static void trace_one_sided(Bytes size) { trace.one_sided++, trace.one_sided_bytes += size; }
#define trace_put(count, type, target, window) trace_one_sided(size_of(count, type))
#define trace_get trace_put
#define trace_fetch(count, type, back, back_type, target, op, window)                                                  \
    trace_one_sided(size_of(count, type) + size_of(back, back_type))

/* ---- begin ---- */

static void trace_begin(void) {
    const char *name = getenv("GAVOTTE_TRACE"), *budget = getenv("GAVOTTE_TRACE_BYTES");
    int level = MPI_THREAD_SINGLE;
    if (!name || !*name || !exact || !fold_begin()) return;
    if (budget && *budget) trace_budget = strtoull(budget, NULL, 10);
    PMPI_Query_thread(&level);
    trace.threaded = level == MPI_THREAD_MULTIPLE;
    trace.begin = trace.last = trace_now();
    trace.startup_s = trace.begin - trace_loaded_s;
    trace.began_s = trace_clock(CLOCK_REALTIME);
    tracing = 1;
    members(MPI_COMM_WORLD);
}

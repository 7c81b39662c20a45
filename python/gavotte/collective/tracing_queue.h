/* The queue of operations that wait for a wildcard before them, and how an operation gets into the sequence. */

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

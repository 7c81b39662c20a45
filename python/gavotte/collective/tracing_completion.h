/* Requests that have completed, were cancelled, or for which no call will wait. */

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

/* Communicators by numbers that all their members agree on, and the lock that threads share. */

/* World ranks of a communicator's members, then of an intercommunicator's other group. */
typedef struct Group {
    Hash hash;
    int n, remote, instances, instances_room, least, *ids; /* least: no instance below it is free */
    struct Group *next;
    int ranks[];
} Group;
static struct {
    Group *group;
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
    while (group->least < group->instances && comms[group->ids[group->least]].live) group->least++;
    if (group->least < group->instances) {
        int id = group->ids[group->least++];
        comms[id].live = 1;
        return id;
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
    if (all->id < trace_comms) {
        Group *group = comms[all->id].group;
        comms[all->id].live = 0;
        if (comms[all->id].instance < group->least) group->least = comms[all->id].instance;
    }
    trace_unlock();
}

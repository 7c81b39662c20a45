/* Keys: the bytes that describe an operation in the file, each under one number. */

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

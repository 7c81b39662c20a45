/* The file of one rank's trace (docs/reference/formats.md): `gvtrace1`, the length of the rest, the rest, its CRC-32.
 * Integers are LEB128, those that may be negative zigzag; times are IEEE floats, least byte first.
 */

static struct {
    unsigned char *at;
    size_t size, room;
    int failed;
} out;

static void out_bytes(const void *from, size_t size) {
    if (out.size + size > out.room) {
        size_t room = 2 * (out.size + size) + 4096;
        unsigned char *more = realloc(out.at, room);
        if (!more) {
            out.failed = 1;
            return;
        }
        out.at = more, out.room = room;
    }
    memcpy(out.at + out.size, from, size);
    out.size += size;
}

static void out_number(Bytes value) {
    unsigned char digits[10];
    size_t size = 0;
    for (; value > 127; value >>= 7) digits[size++] = (unsigned char)(value | 128);
    digits[size++] = (unsigned char)value;
    out_bytes(digits, size);
}

static void out_bits(Bytes bits, int size) {
    unsigned char bytes[8];
    for (int i = 0; i < size; i++) bytes[i] = (unsigned char)(bits >> 8 * i);
    out_bytes(bytes, (size_t)size);
}

static void out_double(double value) {
    Bytes bits;
    memcpy(&bits, &value, sizeof bits);
    out_bits(bits, 8);
}

static void out_float(double value) {
    float narrow = (float)value;
    unsigned bits;
    memcpy(&bits, &narrow, sizeof bits);
    out_bits(bits, 4);
}

/* World ranks as runs of start, step and length; ranks outside MPI_COMM_WORLD are -1. */
static void out_ranks(const int *list, int n) {
    int runs = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass) out_number((Bytes)runs);
        for (int i = 0, length; i < n; i += length, runs += !pass) {
            int step = i + 1 < n ? list[i + 1] - list[i] : 0;
            for (length = 1; i + length < n && list[i + length] - list[i + length - 1] == step;) length++;
            if (pass) out_number(zigzag(list[i])), out_number(zigzag(step)), out_number((Bytes)length);
        }
    }
}

static void out_node(const Node *node) {
    if (node->op >= 0) {
        double variance = node->squares / (double)node->count;
        out_number((Bytes)node->op + 1);
        out_float(node->mean), out_float(variance), out_float(node->least), out_float(node->most);
        out_float(node->spent / (double)node->count);
        return;
    }
    out_number(0), out_number(node->count), out_number((Bytes)node->size);
    for (int i = 0; i < node->size; i++) out_node(node->body[i]);
}

static unsigned crc32_of(const unsigned char *at, size_t size) {
    unsigned table[256], crc = ~0u;
    for (unsigned i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
    }
    for (size_t i = 0; i < size; i++) crc = crc >> 8 ^ table[(crc ^ at[i]) & 255];
    return ~crc;
}

static void out_trace(int whole) {
    out_number((Bytes)me), out_number((Bytes)ranks);
    out_number((Bytes)whole | (Bytes)(trace.threads > 1) << 1);
    out_double(trace.began_s), out_double(trace.startup_s), out_double(trace.last - trace.begin);
    out_number(trace.calls), out_number(trace.dropped);
    out_number(trace.one_sided), out_number(trace.one_sided_bytes), out_number(trace.outside);
    out_number((Bytes)trace_comms);
    for (int i = 0; i < trace_comms; i++) {
        const Group *group = comms[i].group;
        out_number((Bytes)comms[i].instance);
        out_ranks(group->ranks, group->n), out_ranks(group->ranks + group->n, group->remote);
    }
    out_number((Bytes)keys);
    for (int i = 0; i < keys; i++) out_number(key_at[i].size), out_bytes(key_bytes + key_at[i].from, key_at[i].size);
    out_number((Bytes)top_size);
    for (int i = 0; i < top_size; i++) out_node(top[i].node);
}

static void trace_report(int whole, const char *job) {
    const char *name = getenv("GAVOTTE_TRACE");
    char path[4096], aside[4100];
    if (!tracing) return;
    trace_arrive();
    scratch_size = 0;
    put(OP_END), record_scratch();
    drain(1);
    tracing = 0;
    if (snprintf(path, sizeof path, "%s%s.%d.trace", name, job, me) >= (int)sizeof path) {
        fprintf(stderr, "gavotte: GAVOTTE_TRACE is too long\n");
        return;
    }
    snprintf(aside, sizeof aside, "%s~", path);
    out_trace(whole);
    size_t size = out.size;
    unsigned crc = crc32_of(out.at, size);
    FILE *file = fopen(aside, "w");
    int written = 0;
    if (file && !out.failed) {
        out.size = 0;
        unsigned char *rest = out.at;
        out.at = NULL, out.room = 0;
        out_bytes("gvtrace1", 8), out_bits(size, 8);
        written = fwrite(out.at, 1, out.size, file) == out.size && fwrite(rest, 1, size, file) == size;
        out.size = 0, out_bits(crc, 4);
        written = written && fwrite(out.at, 1, 4, file) == 4;
        free(rest);
    }
    if (file) written = !fclose(file) && written;
    if (!written || rename(aside, path)) fprintf(stderr, "gavotte: %s cannot be written\n", path);
}

/* Messages round a ring, as crates/collective/src/ring.rs times them; part of shim.c. */

/*
 * Collects everybody's block in `data`, where this rank's stands already. In round r, the member at place i passes on the
 * blocks of group i - r: to the next member, unless it is the last round, and to each rank that hangs from it, but its own.
 */
static int collect_round(char *data, size_t bytes, const Tree *ring, MPI_Comm comm) {
    size_t piece = piece_of(ring, bytes), pieces = (bytes + piece - 1) / piece, number = 0, next = 0;
    int members = ring->members, place = ring->place, hangs = ring->parent >= 0, me = ring->me;
    int before = ring->below[ring->at[(place + members - 1) % members]];
    int after = ring->below[ring->at[(place + 1) % members]];
    MPI_Request *coming = malloc(sizeof *coming * (pieces * ring->ranks + 1));
    if (!coming) return MPI_ERR_NO_MEM;
    for (int round = 0; round < members; round++) {
        int group = (place + members - round) % members;
        for (int b = ring->at[group]; b < ring->at[group + 1]; b++) {
            int block = ring->below[b], from = hangs ? ring->parent : round ? before : block;
            for (size_t at = 0; block != me && at < bytes; at += piece) {
                size_t length = at + piece < bytes ? piece : bytes - at;
                TRY(PMPI_Irecv(data + bytes * block + at, (int)length, MPI_BYTE, from, 0, comm, &coming[number++]));
            }
        }
    }
    for (size_t at = 0; hangs && at < bytes; at += piece) {
        size_t length = at + piece < bytes ? piece : bytes - at;
        TRY(pass(data + bytes * me + at, (int)length, MPI_BYTE, ring->parent, comm));
    }
    for (int round = 0; !hangs && round < members; round++) {
        int group = (place + members - round) % members;
        for (int b = ring->at[group]; b < ring->at[group + 1]; b++) {
            int block = ring->below[b];
            for (size_t at = 0; at < bytes; at += piece) {
                const char *part = data + bytes * block + at;
                int length = (int)(at + piece < bytes ? piece : bytes - at);
                if (block != me) TRY(await_one(&coming[next++]));
                if (round + 1 < members) TRY(pass(part, length, MPI_BYTE, after, comm));
                for (int c = 0; c < ring->children; c++)
                    if (ring->child[c] != block) TRY(pass(part, length, MPI_BYTE, ring->child[c], comm));
            }
        }
    }
    for (; next < number; next++) TRY(await_one(&coming[next]));
    free(coming);
    return MPI_SUCCESS;
}

/* A vector in as many shares as there are members, each in pieces of `length` elements. */
typedef struct {
    size_t count, length, pieces;
    int members, place;
} Shares;

/* Where a piece of the share of a round begins, and how many elements it has: none at the end of a smaller share. */
static size_t share_piece(const Shares *shares, size_t round, size_t piece, size_t *first) {
    size_t share = (shares->place + 2 * shares->members - round) % shares->members;
    size_t start = share * shares->count / shares->members, end = (share + 1) * shares->count / shares->members;
    *first = start + piece * shares->length;
    if (*first >= end) return *first = end, 0;
    return *first + shares->length < end ? shares->length : end - *first;
}

/* A rank that hangs: its vector goes up share by share as they are needed, and comes back whole. */
static int combine_hanging(const char *mine, char *to, MPI_Datatype type, MPI_Aint extent, const Shares *shares,
                           const Tree *ring, MPI_Comm comm) {
    size_t members = shares->members, number = 0, first, length;
    MPI_Request *coming = malloc(sizeof *coming * members * shares->pieces);
    if (!coming) return MPI_ERR_NO_MEM;
    for (size_t round = members - 1; round < 2 * members - 1; round++)
        for (size_t piece = 0; piece < shares->pieces; piece++) {
            length = share_piece(shares, round, piece, &first);
            TRY(PMPI_Irecv(to + first * extent, (int)length, type, ring->parent, 0, comm, &coming[number++]));
        }
    for (size_t round = 0; round < members; round++)
        for (size_t piece = 0; piece < shares->pieces; piece++) {
            length = share_piece(shares, round, piece, &first);
            TRY(pass(mine + first * extent, (int)length, type, ring->parent, comm));
        }
    for (size_t i = 0; i < number; i++) TRY(await_one(&coming[i]));
    free(coming);
    return MPI_SUCCESS;
}

/*
 * Combines vectors. In round r, the member at place i holds share i - r.
 *
 * 1. Until round `members` - 1 it adds what the previous member and its hanging ranks send.
 * 2. From then on shares are complete, and go to hanging ranks, too.
 *
 * Messages arrive in one order: by round, by piece, from the previous member and then from each hanging rank. Enough receives are posted
 * ahead for everything that the previous member may send while all members send.
 */
static int combine_member(char *sum, MPI_Datatype type, MPI_Op op, MPI_Aint extent, const Shares *shares,
                          const Tree *ring, MPI_Comm comm) {
    size_t members = shares->members, rounds = 2 * members - 1, sources = 1 + ring->children, first, length;
    int before = ring->below[ring->at[(ring->place + members - 1) % members]];
    int after = ring->below[ring->at[(ring->place + 1) % members]];
    size_t window = (shares->pieces + 1) * sources, all = rounds * shares->pieces * sources, next = 0;
    MPI_Request *coming = malloc(sizeof *coming * window);
    char *slots = malloc(window * shares->length * extent);
    if (!coming || !slots) return MPI_ERR_NO_MEM;
    for (size_t now = 0; now < all; now++) {
        size_t source = now % sources, piece = now / sources % shares->pieces, round = now / sources / shares->pieces;
        /* Never into a share that still has to be sent: it would be overwritten. */
        for (; next < all && next < now + window && next / sources / shares->pieces < round + members; next++) {
            size_t then = next / sources / shares->pieces, who = next % sources;
            MPI_Request *request = &coming[next % window];
            char *slot = slots + next % window * shares->length * extent;
            length = share_piece(shares, then, next / sources % shares->pieces, &first);
            *request = MPI_REQUEST_NULL;
            if (who ? then < members : then > 0)
                TRY(PMPI_Irecv(then < members ? slot : sum + first * extent, (int)length, type,
                               who ? ring->child[who - 1] : before, 0, comm, request));
        }
        int comes = coming[now % window] != MPI_REQUEST_NULL;
        length = share_piece(shares, round, piece, &first);
        char *part = sum + first * extent;
        TRY(await_one(&coming[now % window]));
        if (comes && round < members)
            TRY(PMPI_Reduce_local(slots + now % window * shares->length * extent, part, (int)length, type, op));
        if (source + 1 < sources) continue;
        if (round + 1 < rounds) TRY(pass(part, (int)length, type, after, comm));
        for (int c = 0; round + 1 >= members && c < ring->children; c++)
            TRY(pass(part, (int)length, type, ring->child[c], comm));
    }
    free(coming), free(slots);
    return MPI_SUCCESS;
}

static int combine_round(const void *from, void *to, MPI_Count count, MPI_Datatype type, MPI_Op op, const Tree *ring,
                         MPI_Comm comm) {
    MPI_Aint low, extent;
    int size;
    TRY(PMPI_Type_get_extent(type, &low, &extent));
    TRY(PMPI_Type_size(type, &size));
    Shares shares = {.count = count, .members = ring->members, .place = ring->place};
    size_t share = ((size_t)count + ring->members - 1) / ring->members;
    shares.length = piece_of(ring, share * size) / size;
    if (shares.length == 0) shares.length = 1;
    shares.pieces = (share + shares.length - 1) / shares.length;
    if (ring->parent < 0) {
        if (from != MPI_IN_PLACE) memcpy(to, from, count * extent);
        return combine_member(to, type, op, extent, &shares, ring, comm);
    }
    char *copy = NULL;
    if (from == MPI_IN_PLACE) {
        if (!(copy = malloc(count * extent))) return MPI_ERR_NO_MEM;
        from = memcpy(copy, to, count * extent);
    }
    TRY(combine_hanging(from, to, type, extent, &shares, ring, comm));
    free(copy);
    return MPI_SUCCESS;
}

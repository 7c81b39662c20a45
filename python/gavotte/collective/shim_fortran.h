/* The calls of Fortran in Open MPI, which pass the C binding by; part of shim.c. MPICH's go through it. */

typedef MPI_Fint F;

static int is_symbol(const void *buffer, const char *name) {
    const void *symbol = dlsym(RTLD_DEFAULT, name);
    return symbol && symbol == buffer;
}

static void *f_buffer(void *buffer) {
    if (is_symbol(buffer, "mpi_fortran_in_place_") || is_symbol(buffer, "mpi_fortran_in_place__")) return MPI_IN_PLACE;
    if (is_symbol(buffer, "mpi_fortran_bottom_") || is_symbol(buffer, "mpi_fortran_bottom__")) return MPI_BOTTOM;
    return buffer;
}

/* A subroutine of mpif.h, `use mpi` and `use mpi_f08`, the last of which may leave out the error. */
#define ONE(symbol, parameters, call)                                                                                  \
    void symbol parameters;                                                                                            \
    void symbol parameters {                                                                                           \
        int code = call;                                                                                               \
        if (error) *error = code;                                                                                      \
    }
#define SUBROUTINE(name, parameters, call)                                                                             \
    ONE(name##_, parameters, call)                                                                                     \
    ONE(name##__, parameters, call)                                                                                    \
    ONE(name##_f08_, parameters, call)
#define TYPE(type) PMPI_Type_f2c(*(type))
#define COMM PMPI_Comm_f2c(*comm)
#define OP PMPI_Op_f2c(*op)
#define FROM f_buffer(from)
#define TO f_buffer(to)

SUBROUTINE(mpi_init, (F *error), MPI_Init(NULL, NULL))
SUBROUTINE(mpi_init_thread, (F *required, F *provided, F *error), MPI_Init_thread(NULL, NULL, *required, provided))
SUBROUTINE(mpi_finalize, (F *error), MPI_Finalize())
SUBROUTINE(mpi_bcast, (void *to, F *count, F *type, F *root, F *comm, F *error),
           MPI_Bcast(TO, *count, TYPE(type), *root, COMM))
SUBROUTINE(mpi_reduce, (void *from, void *to, F *count, F *type, F *op, F *root, F *comm, F *error),
           MPI_Reduce(FROM, TO, *count, TYPE(type), OP, *root, COMM))
SUBROUTINE(mpi_allreduce, (void *from, void *to, F *count, F *type, F *op, F *comm, F *error),
           MPI_Allreduce(FROM, TO, *count, TYPE(type), OP, COMM))
SUBROUTINE(mpi_scatter, (void *from, F *count, F *type, void *to, F *to_count, F *to_type, F *root, F *comm, F *error),
           MPI_Scatter(FROM, *count, TYPE(type), TO, *to_count, TYPE(to_type), *root, COMM))
SUBROUTINE(mpi_gather, (void *from, F *count, F *type, void *to, F *to_count, F *to_type, F *root, F *comm, F *error),
           MPI_Gather(FROM, *count, TYPE(type), TO, *to_count, TYPE(to_type), *root, COMM))
SUBROUTINE(mpi_allgather, (void *from, F *count, F *type, void *to, F *to_count, F *to_type, F *comm, F *error),
           MPI_Allgather(FROM, *count, TYPE(type), TO, *to_count, TYPE(to_type), COMM))

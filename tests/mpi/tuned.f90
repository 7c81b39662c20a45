! Broadcasts and reductions often enough that the preloaded library tunes them.
program tuned
    use mpi
    implicit none
    integer, parameter :: count = 50000
    integer :: code, rank, ranks, turn
    integer, allocatable :: values(:), sums(:), blocks(:)
    call mpi_init(code)
    call mpi_comm_rank(mpi_comm_world, rank, code)
    call mpi_comm_size(mpi_comm_world, ranks, code)
    allocate (values(count), sums(count), blocks(count*ranks))
    do turn = 1, 12
        values = rank + turn
        call mpi_bcast(values, count, mpi_integer, 1, mpi_comm_world, code)
        if (any(values /= 1 + turn)) stop 1
        values = rank + 1
        call mpi_allgather(values, count, mpi_integer, blocks, count, mpi_integer, mpi_comm_world, code)
        if (any(blocks(1 + count*(ranks - 1):) /= ranks) .or. blocks(1) /= 1) stop 2
        sums = rank + 1
        call mpi_reduce(values, sums, count, mpi_integer, mpi_max, 0, mpi_comm_world, code)
        if (rank == 0 .and. any(sums /= ranks)) stop 3
        values = rank + 1
        call mpi_allreduce(mpi_in_place, values, count, mpi_integer, mpi_max, mpi_comm_world, code)
        if (any(values /= ranks)) stop 4
    end do
    if (rank == 0) print *, "done"
    call mpi_finalize(code)
end program

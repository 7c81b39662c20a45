! Ranks send by Fortran's calls, each to the next one. F08 chooses `use mpi_f08`, SUBROUTINE a part of a program in C.
#ifdef F08
#define INTEGER_HANDLE(kind) type(kind)
#else
#define INTEGER_HANDLE(kind) integer
#endif

subroutine around()
#ifdef F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
  integer :: rank, ranks, next, last, i, error
  integer, allocatable :: counts(:), places(:)
  INTEGER_HANDLE(MPI_Request) :: requests(2)
  character :: sent(4000), got(4000)
  double precision :: sums(100), all(1000)

  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  next = mod(rank + 1, ranks)
  last = mod(rank + ranks - 1, ranks)
  sent = 'x'
  sums = 1
  ! 1000 and 2000 bytes by a message that waits and one that does not.
  call MPI_Irecv(got, 1000, MPI_CHARACTER, last, 0, MPI_COMM_WORLD, requests(1), error)
  call MPI_Send(sent, 1000, MPI_CHARACTER, next, 0, MPI_COMM_WORLD, error)
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE, error)
  call MPI_Irecv(got, 2000, MPI_CHARACTER, last, 0, MPI_COMM_WORLD, requests(1), error)
  call MPI_Isend(sent, 2000, MPI_CHARACTER, next, 0, MPI_COMM_WORLD, requests(2), error)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, error)
  call MPI_Sendrecv(sent, 300, MPI_CHARACTER, next, 0, got, 300, MPI_CHARACTER, last, 0, MPI_COMM_WORLD, &
                    MPI_STATUS_IGNORE, error)
  ! 3 times 40 bytes by a persistent one, twice of them started as a list.
  call MPI_Send_init(sent, 40, MPI_CHARACTER, next, 0, MPI_COMM_WORLD, requests(1), error)
  call MPI_Recv_init(got, 40, MPI_CHARACTER, last, 0, MPI_COMM_WORLD, requests(2), error)
  call MPI_Start(requests(1), error)
  call MPI_Start(requests(2), error)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, error)
  do i = 1, 2
    call MPI_Startall(2, requests, error)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, error)
  end do
  call MPI_Request_free(requests(1), error)
  call MPI_Request_free(requests(2), error)
  ! Collectives, also in place.
  call MPI_Allreduce(MPI_IN_PLACE, sums, 100, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 10, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, error)
  call MPI_Bcast(sent, 500, MPI_CHARACTER, 0, MPI_COMM_WORLD, error)
  allocate (counts(ranks), places(ranks))
  counts = 6
  places = [(6 * (i - 1), i=1, ranks)]
  call MPI_Alltoallv(sent, counts, places, MPI_CHARACTER, got, counts, places, MPI_CHARACTER, MPI_COMM_WORLD, error)
end subroutine

#ifndef SUBROUTINE
program ring
#ifdef F08
  use mpi_f08
  implicit none
  call MPI_Init()
  call around()
  call MPI_Finalize()
#else
  use mpi
  implicit none
  integer :: error
  call MPI_Init(error)
  call around()
  call MPI_Finalize(error)
#endif
end program
#endif

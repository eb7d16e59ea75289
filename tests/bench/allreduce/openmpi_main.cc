// mpirun -np RANKS openmpi_main BYTES:ITERATIONS...: MPI_Allreduce in place, over shared memory.

#include <mpi.h>

#include "tests/bench/allreduce/measure.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int world_size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  const auto sizes = lockstep::bench::ParseSizes(argc, argv, 1);
  const int code =
      lockstep::bench::MeasureAll(sizes, world_size, rank == 0, [](float* data, std::size_t count) {
        return MPI_Allreduce(MPI_IN_PLACE,
                             data,
                             static_cast<int>(count),
                             MPI_FLOAT,
                             MPI_SUM,
                             MPI_COMM_WORLD) == MPI_SUCCESS;
      });
  MPI_Finalize();
  return code;
}

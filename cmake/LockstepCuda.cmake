# nvcc, where `scripts/install.sh cuda` has put it: no GPU and no driver are needed to compile. What
# is built with it is left out where it is not there, and in sanitizer builds, which it does not
# know. That script alone says which version.

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS scripts/install.sh)
execute_process(
  COMMAND "${CMAKE_COMMAND}" -E env "LOCKSTEP_CACHE_DIR=${LOCKSTEP_CACHE_DIR}"
          "${CMAKE_SOURCE_DIR}/scripts/install.sh" --path cuda
  OUTPUT_VARIABLE lockstep_cuda_wheels
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(lockstep_cuda_toolkit "${lockstep_cuda_wheels}/nvidia/cu13")

set(LOCKSTEP_WITH_CUDA OFF)
if(LOCKSTEP_SANITIZE)
  message(STATUS "No kernels for GPUs in a sanitizer build")
elseif(NOT EXISTS "${lockstep_cuda_toolkit}/bin/nvcc")
  message(STATUS "No kernels for GPUs: no nvcc in ${lockstep_cuda_wheels}: scripts/install.sh cuda")
else()
  set(LOCKSTEP_WITH_CUDA ON)
  set(CMAKE_CUDA_COMPILER "${lockstep_cuda_toolkit}/bin/nvcc")
  set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
  # A100, H100 and H200, B200, RTX 50 and PRO 6000. All others from H100's on compile its
  # intermediate code (PTX) when they load it.
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90 100-real 120-real)
  # What the headers need; CMake 3.25 does not know that nvcc can do more.
  set(CMAKE_CUDA_STANDARD 17)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_EXTENSIONS OFF)
  enable_language(CUDA)
  # CMake keeps the compiler that a build folder began with.
  if(NOT CMAKE_CUDA_COMPILER STREQUAL "${lockstep_cuda_toolkit}/bin/nvcc")
    message(FATAL_ERROR "${CMAKE_BINARY_DIR} was begun with ${CMAKE_CUDA_COMPILER}, and now "
                        "${lockstep_cuda_toolkit}/bin/nvcc is wanted: remove that folder")
  endif()
endif()

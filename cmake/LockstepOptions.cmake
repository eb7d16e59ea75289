# Language level, warnings, sanitizers and where binaries go: the same for every target of ours.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

set(LOCKSTEP_SANITIZE "" CACHE STRING "Comma-separated -fsanitize= list; empty for none")
set(LOCKSTEP_LINKER "" CACHE STRING "Linker for -fuse-ld=, where it is installed; empty for ld")
option(LOCKSTEP_FUZZ "Build the libFuzzer programs of tests/fuzz; needs clang" OFF)
option(LOCKSTEP_WITH_TORCH "Build the LibTorch engine plug-in" ON)

find_program(LOCKSTEP_CCACHE ccache)
if(LOCKSTEP_CCACHE)
  # Told the repository's root, it reuses in one clone what another compiled, in an image or where
  # no locale is set (a locale changes the language of messages only). Without the other words of
  # sloppiness it keeps nothing that uses a precompiled header. It learns from the compiler what a
  # source includes (instead of preprocessing it before), and reads a file that many include once.
  set(cache_sloppiness "locale,pch_defines,time_macros,include_file_mtime,include_file_ctime")
  set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND}"
      -E
      env
      "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}"
      CCACHE_NOHASHDIR=1
      "CCACHE_SLOPPINESS=${cache_sloppiness}"
      CCACHE_DEPEND=1
      CCACHE_INODECACHE=1
      "${LOCKSTEP_CCACHE}")
endif()

# docs/decisions/0034-units.md has what it saves.
if(LOCKSTEP_LINKER)
  find_program(LOCKSTEP_LINKER_PROGRAM "${LOCKSTEP_LINKER}")
  if(LOCKSTEP_LINKER_PROGRAM)
    add_link_options("$<$<LINK_LANGUAGE:C,CXX>:-fuse-ld=${LOCKSTEP_LINKER}>")
  else()
    message(STATUS "No ${LOCKSTEP_LINKER} here: the system's linker takes its place")
  endif()
endif()

# Applied by lockstep_target() to our own code only; third-party headers are SYSTEM.
# Debug paths and __FILE__ are written from the repository's root: equal in every clone.
add_library(lockstep_flags INTERFACE)
target_compile_options(lockstep_flags INTERFACE "-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=")
target_compile_options(
  lockstep_flags
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            -Wshadow
            -Wconversion
            -Wnon-virtual-dtor
            -Werror)
# GCC tidies its memory up less often, which takes 7 % off a compilation.
target_compile_options(
  lockstep_flags INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>)
target_include_directories(lockstep_flags INTERFACE "${CMAKE_SOURCE_DIR}")

# Tests are half of all that is compiled, and run once. Position-independent as a library is, so
# that they can share a precompiled header.
add_library(lockstep_test_flags INTERFACE)
target_compile_options(lockstep_test_flags INTERFACE -O1 -fPIC)

if(LOCKSTEP_SANITIZE)
  # GCC 12 reports false "maybe uninitialized" positives in standard headers under sanitizers.
  add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all
                      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
  if(LOCKSTEP_SANITIZE MATCHES thread)
    # GCC's thread sanitizer does not understand fences, and says so for each one of Boost.Asio's.
    # Asio's queues are under a mutex as well, which it does understand.
    add_compile_options(-Wno-tsan)
    add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()

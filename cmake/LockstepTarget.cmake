# One target per folder: sources listed, links written out, tests beside the sources.

# lockstep_library(NAME SOURCES a.cc b.cc [LINK lockstep::x Third::party] [PRIVATE_LINK ...]
#                  [PRECOMPILE <header>...])
# makes static library lockstep_NAME with alias lockstep::NAME. PRECOMPILE: instead of what is
# precompiled for all.
function(lockstep_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;PRIVATE_LINK;PRECOMPILE" ${ARGN})
  set(target lockstep_${name})
  if(ARG_SOURCES)
    add_library(${target} STATIC ${ARG_SOURCES})
    target_link_libraries(${target} PUBLIC ${ARG_LINK} PRIVATE lockstep_flags ${ARG_PRIVATE_LINK})
    target_include_directories(${target} PUBLIC "${CMAKE_SOURCE_DIR}")
    if(ARG_PRECOMPILE)
      target_precompile_headers(${target} PRIVATE ${ARG_PRECOMPILE})
    else()
      target_precompile_headers(${target} REUSE_FROM lockstep_precompiled)
    endif()
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${ARG_LINK})
    target_include_directories(${target} INTERFACE "${CMAKE_SOURCE_DIR}")
  endif()
  add_library(lockstep::${name} ALIAS ${target})
endfunction()

# lockstep_test(NAME SOURCES a_test.cc [LINK ...] [TIMEOUT seconds] [LABELS ...]
#               [PRECOMPILED_AS target])
# makes GoogleTest program lockstep_NAME_test, run by ctest as one test a program. PRECOMPILED_AS:
# with the header of that library, and its options, instead of what is precompiled for all tests.
# Tests that compute, as these do, count for two beside those that mostly wait (scripts/test.sh).
function(lockstep_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;PRECOMPILED_AS" "SOURCES;LINK;LABELS" ${ARGN})
  set(target lockstep_${name}_test)
  add_executable(${target} ${ARG_SOURCES})
  if(ARG_PRECOMPILED_AS)
    target_compile_options(${target} PRIVATE -fPIC)
    target_precompile_headers(${target} REUSE_FROM ${ARG_PRECOMPILED_AS})
  else()
    target_link_libraries(${target} PRIVATE lockstep_test_flags)
    target_precompile_headers(${target} REUSE_FROM lockstep_precompiled_test)
  endif()
  target_link_libraries(${target} PRIVATE lockstep_flags ${ARG_LINK} GTest::gmock GTest::gtest
                                          GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${target})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600) # most take a second; busy machines and sanitizers slow down twentyfold
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  set_tests_properties(
    ${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} PROCESSORS 2 LABELS "${ARG_LABELS}")
endfunction()

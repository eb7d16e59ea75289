# One target per folder: sources listed, links written out, tests beside the sources.

# lockstep_library(NAME SOURCES a.cc b.cc [LINK lockstep::x Third::party] [PRIVATE_LINK ...])
# makes static library lockstep_NAME with alias lockstep::NAME.
function(lockstep_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  set(target lockstep_${name})
  if(ARG_SOURCES)
    add_library(${target} STATIC ${ARG_SOURCES})
    target_link_libraries(${target} PUBLIC ${ARG_LINK} PRIVATE lockstep_flags ${ARG_PRIVATE_LINK})
    target_include_directories(${target} PUBLIC "${CMAKE_SOURCE_DIR}")
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${ARG_LINK})
    target_include_directories(${target} INTERFACE "${CMAKE_SOURCE_DIR}")
  endif()
  add_library(lockstep::${name} ALIAS ${target})
endfunction()

# lockstep_test(NAME SOURCES a_test.cc [LINK ...] [TIMEOUT seconds] [LABELS ...])
# makes GoogleTest program lockstep_NAME_test, run by ctest as one test a program.
function(lockstep_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  set(target lockstep_${name}_test)
  add_executable(${target} ${ARG_SOURCES})
  # Half of all that is compiled, and run once. A precompiled header wants the options it was made
  # with.
  target_compile_options(
    ${target}
    PRIVATE $<$<NOT:$<BOOL:$<TARGET_PROPERTY:PRECOMPILE_HEADERS_REUSE_FROM>>>:-O1>)
  target_link_libraries(${target} PRIVATE lockstep_flags ${ARG_LINK} GTest::gmock GTest::gtest
                                          GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${target})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
    if(LOCKSTEP_SANITIZE)
      set(ARG_TIMEOUT 600)
    endif()
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()

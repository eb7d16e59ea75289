# One target per folder: sources listed, links written out, tests beside the sources.

# How large a unit of several sources is, in steps of 8 KiB a source. Larger units parse less often
# what all sources include, and take longer after a change of one; this many take about ten seconds.
# In steps, so that an edit seldom moves the next sources into other units.
set(LOCKSTEP_UNIT_STEPS 10 CACHE STRING "Size of a unit of several sources, in steps of 8 KiB")
option(CMAKE_UNITY_BUILD "Compile several sources of a folder as one unit" ON)
set(lockstep_unity ${CMAKE_UNITY_BUILD})
set(CMAKE_UNITY_BUILD OFF) # CMake's own, of which the next comment tells

# lockstep_units(RESULT TARGET SOURCE...): in RESULT, what is compiled instead of the sources: units
# that each include several of them, in their order. CMake's own UNITY_BUILD writes absolute paths
# into its units, so no clone could reuse what another has compiled; CMAKE_UNITY_BUILD switches this
# one. Generated sources stay alone, and those with the property SKIP_UNITY_BUILD_INCLUSION: they
# have options of their own, or include what others must not see.
function(lockstep_units result target)
  set(compiled "")
  set(unit "")
  set(unit_steps 0)
  set(unit_count 0)
  foreach(source IN LISTS ARGN ITEMS "")
    set(is_shared OFF)
    set(source_steps 0)
    if(lockstep_unity AND source MATCHES "\\.cc$" AND NOT IS_ABSOLUTE "${source}")
      get_source_file_property(is_alone "${source}" SKIP_UNITY_BUILD_INCLUSION)
      if(NOT is_alone)
        set(is_shared ON)
        file(SIZE "${CMAKE_CURRENT_SOURCE_DIR}/${source}" bytes)
        math(EXPR source_steps "${bytes} / 8192 + 1")
      endif()
    endif()
    math(EXPR sum "${unit_steps} + ${source_steps}")
    if(unit AND (source STREQUAL "" OR sum GREATER LOCKSTEP_UNIT_STEPS))
      set(unit_file "${CMAKE_CURRENT_BINARY_DIR}/units/${target}_${unit_count}.cc")
      file(CONFIGURE OUTPUT "${unit_file}" CONTENT "${unit}" @ONLY)
      list(APPEND compiled "${unit_file}")
      math(EXPR unit_count "${unit_count} + 1")
      set(unit "")
      set(unit_steps 0)
    endif()
    if(is_shared)
      file(REAL_PATH "${source}" path)
      file(RELATIVE_PATH path "${CMAKE_SOURCE_DIR}" "${path}")
      string(APPEND unit "#include \"${path}\"\n")
      math(EXPR unit_steps "${unit_steps} + ${source_steps}")
    elseif(source)
      list(APPEND compiled "${source}")
    endif()
  endforeach()
  set(${result} "${compiled}" PARENT_SCOPE)
endfunction()

# lockstep_library(NAME SOURCES a.cc b.cc [LINK lockstep::x Third::party] [PRIVATE_LINK ...]
#                  [PRECOMPILE <header>...])
# makes static library lockstep_NAME with alias lockstep::NAME. PRECOMPILE: instead of what is
# precompiled for all.
function(lockstep_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;PRIVATE_LINK;PRECOMPILE" ${ARGN})
  set(target lockstep_${name})
  if(ARG_SOURCES)
    lockstep_units(units ${target} ${ARG_SOURCES})
    add_library(${target} STATIC ${units})
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

# lockstep_portable(TARGET): a program or library that loads nothing but glibc, 2.34 or newer
# (docs/surprises/glibc-symbols.md). Everything that it links comes from archives.
function(lockstep_portable target)
  set_target_properties(${target} PROPERTIES LOCKSTEP_STATIC_OPENSSL ON)
  target_link_libraries(${target} PRIVATE lockstep_glibc_compat)
  if(NOT LOCKSTEP_SANITIZE)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()

# lockstep_python_program(TARGET): a program that pip puts on the PATH, from the wheel.
function(lockstep_python_program target)
  if(SKBUILD_SCRIPTS_DIR)
    install(TARGETS ${target} COMPONENT python DESTINATION "${SKBUILD_SCRIPTS_DIR}")
  endif()
endfunction()

# What scripts/test.sh --quick builds, and what the gate builds with sanitizers.
add_custom_target(lockstep_quick)
add_custom_target(lockstep_pure)

# lockstep_test(NAME [PURE] SOURCES a_test.cc [LINK ...] [TIMEOUT seconds] [COST seconds]
#               [SHARDS number] [LABELS ...] [PRECOMPILED_AS target])
# makes GoogleTest program lockstep_NAME_test, run by ctest as one test a program. PURE: the room
# decides or reads bytes from outside, so the gate runs its tests with sanitizers, too. COST: the
# seconds it takes on two cores, where they are more than a few; the longest tests begin. SHARDS:
# how many tests of ctest it is, for a program whose tests mostly wait; COST is that of each.
# PRECOMPILED_AS: with the header of that library, and its options, instead of what is precompiled
# for all tests.
function(lockstep_test name)
  cmake_parse_arguments(
    ARG "PURE" "TIMEOUT;COST;SHARDS;PRECOMPILED_AS" "SOURCES;LINK;LABELS" ${ARGN})
  set(target lockstep_${name}_test)
  lockstep_units(units ${target} ${ARG_SOURCES})
  add_executable(${target} ${units})
  if(ARG_PRECOMPILED_AS)
    target_compile_options(${target} PRIVATE -fPIC)
    target_precompile_headers(${target} REUSE_FROM ${ARG_PRECOMPILED_AS})
  else()
    target_link_libraries(${target} PRIVATE lockstep_test_flags)
    target_precompile_headers(${target} REUSE_FROM lockstep_precompiled_test)
  endif()
  target_link_libraries(${target} PRIVATE lockstep_flags ${ARG_LINK} lockstep_common_base_paths
                                          GTest::gmock GTest::gtest GTest::gtest_main)
  set(tests ${name})
  set(cores_half 2) # as scripts/test.sh counts what runs at a time
  if(ARG_SHARDS)
    set(tests "")
    set(cores_half 1)
    math(EXPR last "${ARG_SHARDS} - 1")
    foreach(shard RANGE ${last})
      list(APPEND tests ${name}_${shard})
    endforeach()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600) # most take a second; busy machines and sanitizers slow down twentyfold
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
    add_dependencies(lockstep_quick ${target})
  endif()
  if(ARG_PURE)
    list(APPEND ARG_LABELS pure)
    add_dependencies(lockstep_pure ${target})
  endif()
  foreach(test IN LISTS tests)
    add_test(NAME ${test} COMMAND ${target})
    set_tests_properties(
      ${test} PROPERTIES TIMEOUT ${ARG_TIMEOUT} PROCESSORS ${cores_half} LABELS "${ARG_LABELS}")
    if(ARG_SHARDS)
      list(FIND tests ${test} shard)
      set(shard_variables "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard}")
      set_tests_properties(${test} PROPERTIES ENVIRONMENT "${shard_variables}")
    endif()
    if(ARG_COST)
      set_tests_properties(${test} PROPERTIES COST ${ARG_COST})
    endif()
  endforeach()
endfunction()

# What most sources include, parsed once: takes a fifth off compiling everything. One header goes
# with one set of options, so libraries and tests have one each.
#
# Nothing but time depends on it: asan-ubsan does without (CMAKE_DISABLE_PRECOMPILE_HEADERS), and so
# finds the source that lacks an include.

# GCC 12 raises false alarms about std::string's short strings, and does not know that they are in a
# system header when that comes precompiled. asan-ubsan keeps these warnings, too.
if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
  foreach(false_alarm IN ITEMS array-bounds restrict stringop-overflow stringop-overread)
    target_compile_options(lockstep_flags
                           INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-${false_alarm}>)
  endforeach()
endif()

set(lockstep_common_headers
    <algorithm>
    <array>
    <atomic>
    <chrono>
    <condition_variable>
    <deque>
    <functional>
    <map>
    <memory>
    <mutex>
    <optional>
    <set>
    <sstream>
    <string>
    <thread>
    <unordered_map>
    <utility>
    <variant>
    <vector>
    <nlohmann/json.hpp>)

set(lockstep_precompiled_source "${CMAKE_BINARY_DIR}/CMakeFiles/lockstep_precompiled.cc")
file(CONFIGURE OUTPUT "${lockstep_precompiled_source}" CONTENT "// For its header.\n")

add_library(lockstep_precompiled OBJECT "${lockstep_precompiled_source}")
target_link_libraries(lockstep_precompiled PRIVATE lockstep_flags nlohmann_json::nlohmann_json)
target_precompile_headers(lockstep_precompiled PRIVATE ${lockstep_common_headers})

add_library(lockstep_precompiled_test OBJECT "${lockstep_precompiled_source}")
target_link_libraries(lockstep_precompiled_test
                      PRIVATE lockstep_flags lockstep_test_flags nlohmann_json::nlohmann_json
                              GTest::gmock GTest::gtest)
target_precompile_headers(lockstep_precompiled_test PRIVATE ${lockstep_common_headers}
                          <gmock/gmock.h> <gtest/gtest.h>)

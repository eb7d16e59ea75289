# Third-party packages, all from Debian 12 (scripts/install.sh installs them).

find_package(Threads REQUIRED)
find_package(GTest REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(spdlog 1.10 REQUIRED)
find_package(fmt 9.1 REQUIRED)
find_package(yaml-cpp 0.7 REQUIRED)
find_package(Boost 1.74 EXACT REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
set(Boost_USE_DEBUG_RUNTIME OFF) # Debian builds Boost's libraries, which cpprestsdk wants, once
find_package(cpprestsdk 2.10 REQUIRED)
find_package(ZLIB REQUIRED)

# For programs that live on many small objects (docs/decisions/0012-mimalloc.md). Nothing names it:
# it takes the place of malloc by being linked. Sanitizers bring an allocator of their own.
add_library(lockstep_allocator INTERFACE)
if(NOT LOCKSTEP_SANITIZE)
  find_package(mimalloc 2.0 REQUIRED)
  target_link_options(lockstep_allocator INTERFACE LINKER:--no-as-needed)
  target_link_libraries(lockstep_allocator INTERFACE mimalloc)
endif()

# lockstep-runtime is copied into other people's images, `lockstep` onto their machines. Both may
# need nothing but glibc (lockstep_portable), so what they use is linked from archives.
# OpenSSL only in targets with the property LOCKSTEP_STATIC_OPENSSL: all others may load libraries
# that bring the shared one, and two copies in one process take each other's calls.
add_library(lockstep_crypto INTERFACE)
target_link_libraries(
  lockstep_crypto
  INTERFACE
    $<IF:$<BOOL:$<TARGET_PROPERTY:LOCKSTEP_STATIC_OPENSSL>>,libcrypto.a,OpenSSL::Crypto>
    ${CMAKE_DL_LIBS}
    Threads::Threads)
add_library(lockstep_static_zlib INTERFACE)
target_link_libraries(lockstep_static_zlib INTERFACE libz.a)
add_library(lockstep_tls INTERFACE)
target_link_libraries(
  lockstep_tls
  INTERFACE $<IF:$<BOOL:$<TARGET_PROPERTY:LOCKSTEP_STATIC_OPENSSL>>,libssl.a,OpenSSL::SSL>
            lockstep_crypto)
add_library(lockstep_static_yaml INTERFACE)
target_link_libraries(lockstep_static_yaml INTERFACE libyaml-cpp.a)

# Header-only logging: Debian's spdlog target would link the shared libfmt.
add_library(lockstep_spdlog INTERFACE)
target_compile_definitions(lockstep_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
target_link_libraries(lockstep_spdlog INTERFACE fmt::fmt-header-only Threads::Threads)

# Debian's packages of these have only the shared library, so scripts/install.sh builds static ones
# (docs/decisions/0003-static-prometheus.md).
if(DEFINED ENV{LOCKSTEP_CACHE_DIR})
  set(lockstep_cache_default "$ENV{LOCKSTEP_CACHE_DIR}")
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(lockstep_cache_default "$ENV{XDG_CACHE_HOME}/lockstep")
else()
  set(lockstep_cache_default "$ENV{HOME}/.cache/lockstep")
endif()
set(LOCKSTEP_CACHE_DIR "${lockstep_cache_default}"
    CACHE PATH "Where scripts/install.sh keeps what it builds")
set(lockstep_simdjson_archive
    "${LOCKSTEP_CACHE_DIR}/simdjson-3.0.1-1-${CMAKE_HOST_SYSTEM_PROCESSOR}/lib/libsimdjson.a")
set(lockstep_prometheus_dir
    "${LOCKSTEP_CACHE_DIR}/prometheus-cpp-1.0.1-1-${CMAKE_HOST_SYSTEM_PROCESSOR}")
set(lockstep_prometheus_archive "${lockstep_prometheus_dir}/lib/libprometheus-cpp-core.a")
foreach(archive IN ITEMS "${lockstep_prometheus_archive}" "${lockstep_simdjson_archive}")
  if(NOT EXISTS "${archive}")
    message(FATAL_ERROR "No ${archive}: run scripts/install.sh")
  endif()
endforeach()
# By way of the build folder, so that what is compiled with it can be reused where the cache lies
# elsewhere, as in an image.
file(CREATE_LINK "${lockstep_prometheus_dir}" "${CMAKE_BINARY_DIR}/prometheus-cpp" SYMBOLIC)
add_library(lockstep_static_prometheus STATIC IMPORTED GLOBAL)
set_target_properties(
  lockstep_static_prometheus
  PROPERTIES IMPORTED_LOCATION "${lockstep_prometheus_archive}"
             INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_BINARY_DIR}/prometheus-cpp/include"
             INTERFACE_LINK_LIBRARIES Threads::Threads)
add_library(lockstep_static_simdjson STATIC IMPORTED GLOBAL)
set_target_properties(
  lockstep_static_simdjson PROPERTIES IMPORTED_LOCATION "${lockstep_simdjson_archive}")

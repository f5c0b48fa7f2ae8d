# The libraries of cmake/SystemLibraries.cmake compiled in, from the sources in MPNANNY_PORTABLE (scripts/package_sources
# brings them, pinned), for programs that shall run on machines that have none of them.
list(PREPEND CMAKE_PREFIX_PATH "${MPNANNY_PORTABLE}")  # its headers, not those that lie among this machine's C library

# mpnanny_third_party(<target> <include folder> <source>…): a static library; its warnings are not ours.
function(mpnanny_third_party target include)
  add_library(${target} STATIC ${ARGN})
  target_include_directories(${target} SYSTEM PUBLIC "${include}")
  target_compile_options(${target} PRIVATE -w -O2)
endfunction()

set(sqlite "${MPNANNY_PORTABLE}/src/sqlite3")
mpnanny_third_party(mpn_sqlite "${sqlite}" "${sqlite}/sqlite3.c")
# What Debian's build has of it and mpnanny uses; extensions that are loaded at run time are not.
target_compile_definitions(mpn_sqlite PRIVATE SQLITE_THREADSAFE=1 SQLITE_ENABLE_FTS5 SQLITE_ENABLE_MATH_FUNCTIONS
  SQLITE_ENABLE_COLUMN_METADATA SQLITE_OMIT_LOAD_EXTENSION SQLITE_HAVE_ISNAN HAVE_USLEEP=1)
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  target_compile_definitions(mpn_sqlite PRIVATE HAVE_FDATASYNC=1)
endif()
target_link_libraries(mpn_sqlite PUBLIC Threads::Threads m)
add_library(SQLite::SQLite3 ALIAS mpn_sqlite)
file(STRINGS "${sqlite}/sqlite3.h" SQLite3_VERSION REGEX "^#define SQLITE_VERSION ")
if(MPNANNY_MONITOR_ONLY)
  return()
endif()

set(sodium "${MPNANNY_PORTABLE}/src/libsodium/src/libsodium")
file(GLOB_RECURSE sources "${sodium}/*.c")
mpnanny_third_party(mpn_sodium "${sodium}/include" ${sources})
configure_file("${MPNANNY_PORTABLE}/src/libsodium/builds/msvc/version.h" "${CMAKE_BINARY_DIR}/third_party/sodium/version.h" COPYONLY)
target_include_directories(mpn_sodium SYSTEM PUBLIC "${CMAKE_BINARY_DIR}/third_party" "${sodium}/include/sodium" PRIVATE "${CMAKE_BINARY_DIR}/third_party/sodium")
target_compile_definitions(mpn_sodium PUBLIC SODIUM_STATIC PRIVATE CONFIGURED=1 DEV_MODE=0 NATIVE_LITTLE_ENDIAN=1 HAVE_TI_MODE=1
  HAVE_ATOMIC_OPS=1 HAVE_C11_MEMORY_FENCES=1 HAVE_GETPID=1)
if(WIN32)
  target_compile_definitions(mpn_sodium PRIVATE HAVE_RAISE=1)
else()
  target_compile_definitions(mpn_sodium PRIVATE HAVE_PTHREAD=1 HAVE_MMAP=1 HAVE_MLOCK=1 HAVE_MADVISE=1 HAVE_MPROTECT=1 HAVE_SYS_MMAN_H=1
    HAVE_NANOSLEEP=1 HAVE_POSIX_MEMALIGN=1)
endif()
if(APPLE)
  target_compile_definitions(mpn_sodium PRIVATE HAVE_ARC4RANDOM=1 HAVE_ARC4RANDOM_BUF=1 HAVE_MEMSET_S=1)
elseif(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  target_compile_definitions(mpn_sodium PRIVATE HAVE_SYS_RANDOM_H=1 HAVE_GETRANDOM=1 HAVE_EXPLICIT_BZERO=1 HAVE_WEAK_SYMBOLS=1)
endif()

set(zlib "${MPNANNY_PORTABLE}/src/zlib")
file(GLOB sources "${zlib}/*.c")
mpnanny_third_party(mpn_zlib "${zlib}" ${sources})
target_compile_definitions(mpn_zlib PRIVATE HAVE_UNISTD_H Z_HAVE_UNISTD_H)
if(APPLE)
  target_compile_definitions(mpn_zlib PRIVATE fdopen=fdopen)  # else it takes any macOS for that of 1999, which had none
endif()

if(NOT AGG_LIBRARY)  # Debian has an archive of it for its own targets only
  set(agg "${MPNANNY_PORTABLE}/src/agg")
  file(GLOB sources "${agg}/src/agg_*.cpp")
  mpnanny_third_party(mpn_agg "${agg}/include" ${sources})
endif()

set(yaml "${MPNANNY_PORTABLE}/src/yaml-cpp")
file(GLOB sources "${yaml}/src/*.cpp")
mpnanny_third_party(yaml-cpp "${yaml}/include" ${sources})
target_compile_definitions(yaml-cpp PUBLIC YAML_CPP_STATIC_DEFINE)

# mpnanny_version(<variable> <file> <define>…): the numbers that these macros of a header have, with dots between.
function(mpnanny_version variable file)
  set(numbers "")
  foreach(define IN LISTS ARGN)
    file(STRINGS "${MPNANNY_PORTABLE}/${file}" line REGEX "^ *# *define +${define} ")
    string(REGEX MATCH "[0-9.]+[^0-9.]*$" number "${line}")
    string(REGEX MATCH "^[0-9.]+" number "${number}")
    list(APPEND numbers "${number}")
  endforeach()
  list(JOIN numbers "." version)
  set(${variable} "${version}" PARENT_SCOPE)
endfunction()
mpnanny_version(nlohmann_json_VERSION include/nlohmann/detail/abi_macros.hpp NLOHMANN_JSON_VERSION_MAJOR NLOHMANN_JSON_VERSION_MINOR
  NLOHMANN_JSON_VERSION_PATCH)
mpnanny_version(CLI11_VERSION include/CLI/Version.hpp CLI11_VERSION_MAJOR CLI11_VERSION_MINOR CLI11_VERSION_PATCH)
mpnanny_version(spdlog_VERSION include/spdlog/version.h SPDLOG_VER_MAJOR SPDLOG_VER_MINOR SPDLOG_VER_PATCH)
file(STRINGS "${yaml}/CMakeLists.txt" line REGEX "project.YAML_CPP VERSION")
string(REGEX MATCH "[0-9.]+" yaml-cpp_VERSION "${line}")

# Headers only.
foreach(target nlohmann_json CLI11 spdlog)
  add_library(mpn_${target} INTERFACE)
  target_include_directories(mpn_${target} SYSTEM INTERFACE "${MPNANNY_PORTABLE}/include")
endforeach()
target_compile_definitions(mpn_spdlog INTERFACE SPDLOG_FMT_EXTERNAL SPDLOG_HEADER_ONLY FMT_HEADER_ONLY)
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  target_compile_definitions(mpn_spdlog INTERFACE _LARGEFILE64_SOURCE)  # it uses names that musl has only with this
endif()
add_library(nlohmann_json::nlohmann_json ALIAS mpn_nlohmann_json)
add_library(CLI11::CLI11 ALIAS mpn_CLI11)
add_library(spdlog::spdlog ALIAS mpn_spdlog)

# Libraries that come ready from the system, or from .deps/ where scripts/setup unpacked them: what `./scripts/build` and
# `pip install .` use. cmake/PortableLibraries.cmake defines the same targets from sources.
find_package(SQLite3 3.34)
if(NOT SQLite3_FOUND)
  message(FATAL_ERROR "SQLite 3.34 or newer with its headers is missing.
  Debian, Ubuntu: apt-get install libsqlite3-dev    Fedora: dnf install sqlite-devel    conda: conda install sqlite
  Without root: ./scripts/setup unpacks it into .deps/, where this finds it.")
endif()
if(MPNANNY_MONITOR_ONLY)
  return()
endif()
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)

# libsodium: random ids, MACs, comparison in constant time. Static where there is an archive, so that starting the program
# loads one library less.
find_path(SODIUM_INCLUDE sodium.h REQUIRED)
find_library(SODIUM_LIBRARY NAMES libsodium.a sodium REQUIRED)
add_library(mpn_sodium INTERFACE)
target_include_directories(mpn_sodium SYSTEM INTERFACE "${SODIUM_INCLUDE}")
target_link_libraries(mpn_sodium INTERFACE "${SODIUM_LIBRARY}")

# zlib: compressed members of .npz files. Static where there is an archive, as above.
find_path(ZLIB_INCLUDE zlib.h REQUIRED)
find_library(ZLIB_LIBRARY NAMES libz.a z REQUIRED)
add_library(mpn_zlib INTERFACE)
target_include_directories(mpn_zlib SYSTEM INTERFACE "${ZLIB_INCLUDE}")
target_link_libraries(mpn_zlib INTERFACE "${ZLIB_LIBRARY}")

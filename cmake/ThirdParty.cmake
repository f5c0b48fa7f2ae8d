# Third-party code that is the same in every build: headers, Anti-Grain Geometry, stb, and tree-sitter, whose C sources
# scripts/setup fetches, pinned, into .deps/src. The other libraries: cmake/SystemLibraries.cmake, cmake/PortableLibraries.cmake.
find_path(VALIJSON_INCLUDE valijson/validator.hpp REQUIRED)
add_library(mpn_valijson INTERFACE)
target_include_directories(mpn_valijson SYSTEM INTERFACE "${VALIJSON_INCLUDE}")

# toml++: pyproject.toml. Headers only.
find_path(TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)
add_library(mpn_toml INTERFACE)
target_include_directories(mpn_toml SYSTEM INTERFACE "${TOMLPLUSPLUS_INCLUDE}")
if(APPLE AND MPNANNY_PORTABLE)
  # One of its checks asks for FLT_RADIX, which zig's headers for macOS do not define.
  target_compile_definitions(mpn_toml INTERFACE TOML_DISABLE_ENVIRONMENT_CHECKS)
endif()

# Anti-Grain Geometry 2.4 (BSD; 2.5 is GPL and not taken) draws shapes, stb (public domain) reads fonts and writes PNG.
if(NOT TARGET mpn_agg)  # cmake/PortableLibraries.cmake compiles it where there is no archive for the target
  find_path(AGG_INCLUDE agg_rasterizer_scanline_aa.h PATH_SUFFIXES agg2 REQUIRED)
  find_library(AGG_LIBRARY NAMES libagg.a agg REQUIRED)
  add_library(mpn_agg INTERFACE)
  target_include_directories(mpn_agg SYSTEM INTERFACE "${AGG_INCLUDE}")
  target_link_libraries(mpn_agg INTERFACE "${AGG_LIBRARY}")
endif()
find_path(STB_INCLUDE stb_truetype.h PATH_SUFFIXES stb REQUIRED)
add_library(mpn_stb STATIC cmake/stb.c)
target_include_directories(mpn_stb SYSTEM PUBLIC "${STB_INCLUDE}")
target_compile_options(mpn_stb PRIVATE -w -O2)
target_link_libraries(mpn_stb PUBLIC mpn_zlib m)

set(MPNANNY_DEPS "${CMAKE_SOURCE_DIR}/.deps/src" CACHE PATH "Fetched third-party sources (scripts/setup)")
file(GLOB _ts "${MPNANNY_DEPS}/tree-sitter-0.*/tree_sitter/core/lib")
file(GLOB _tspy "${MPNANNY_DEPS}/tree_sitter_python-0.*/src")
if(NOT _ts OR NOT _tspy)
  message(FATAL_ERROR "tree-sitter's sources are not in ${MPNANNY_DEPS}. Run ./scripts/setup first.")
endif()

# cpp-httplib: the whole header, of 0.28 or later (scripts/fetch_httplib).
file(GLOB _httplib "${MPNANNY_DEPS}/cpp-httplib-*/httplib.h")
foreach(_header IN LISTS _httplib ITEMS /usr/local/include/httplib.h /usr/include/httplib.h)
  if(NOT EXISTS "${_header}")
    continue()
  endif()
  file(STRINGS "${_header}" _version REGEX "^#define CPPHTTPLIB_VERSION \"")
  file(STRINGS "${_header}" _whole REGEX "^inline Server::Server\\(\\)")
  string(REGEX REPLACE ".*\"(.*)\".*" "\\1" _version "${_version}")
  if(_whole AND _version VERSION_GREATER_EQUAL 0.28)
    get_filename_component(HTTPLIB_INCLUDE "${_header}" DIRECTORY)
    set(_httplib_version "${_version}")
    break()
  endif()
endforeach()
if(NOT HTTPLIB_INCLUDE)
  message(FATAL_ERROR "cpp-httplib's header is neither in ${MPNANNY_DEPS} nor on the system. Run ./scripts/setup first.")
endif()
add_library(mpn_httplib INTERFACE)
target_include_directories(mpn_httplib SYSTEM INTERFACE "${HTTPLIB_INCLUDE}")
target_link_libraries(mpn_httplib INTERFACE Threads::Threads)

# One include folder with the grammar ABI's headers, which the Python package of the grammar leaves out.
set(_abi "${CMAKE_BINARY_DIR}/third_party/tree_sitter")
foreach(h parser.h array.h alloc.h ts_assert.h)
  configure_file("${_ts}/src/${h}" "${_abi}/${h}" COPYONLY)
endforeach()

add_library(mpn_tree_sitter STATIC "${_ts}/src/lib.c" "${_tspy}/parser.c" "${_tspy}/scanner.c")
# <src/…>: its own structures, which engines/check/syntax/tree_copy.cc walks.
target_include_directories(mpn_tree_sitter SYSTEM PUBLIC "${_ts}/include" "${_ts}" "${CMAKE_BINARY_DIR}/third_party"
                           PRIVATE "${_ts}/src")
target_compile_options(mpn_tree_sitter PRIVATE -w -O2)
# The grammar is generated for ABI 14; the 0.25 headers renamed one member and one type and kept the layout. The library
# reads ABI 14's shorter lexer modes by itself (it looks at the ABI number).
set_source_files_properties("${_tspy}/parser.c" PROPERTIES
  COMPILE_DEFINITIONS "version=abi_version;TSFieldMapSlice=TSMapSlice" COMPILE_OPTIONS -Wno-incompatible-pointer-types)

# What `mpnanny --version` says of them. SQLite's is asked when it runs: the system may have another one by then.
string(REGEX MATCH "tree-sitter-([0-9.]+)" _found "${_ts}")
set(_ts_version "${CMAKE_MATCH_1}")
string(REGEX MATCH "tree_sitter_python-([0-9.]+)" _found "${_tspy}")
set(MPNANNY_LIBRARIES "tree-sitter ${_ts_version}, tree-sitter-python ${CMAKE_MATCH_1}, cpp-httplib ${_httplib_version}, nlohmann/json ${nlohmann_json_VERSION}, CLI11 ${CLI11_VERSION}, spdlog ${spdlog_VERSION}, yaml-cpp ${yaml-cpp_VERSION}")

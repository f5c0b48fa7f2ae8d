# How the build is made quick where it waits for people and machines (MPNANNY_QUICK_BUILD, which scripts/build sets): files compiled
# together, precompiled headers, -O1. What the build *is* stands in CMakeLists.txt; without the option these functions do nothing.

if(MPNANNY_QUICK_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options("SHELL:--param ggc-min-heapsize=500000")  # KB before the compiler collects its garbage: a tenth of its time
endif()

# mpnanny_headers(<name> <header>…): the target that compiles them. Options and definitions must be those of its readers, and where it
# is compiled with -O0 so must they be; -Winvalid-pch says in build/build.log if they are not used.
function(mpnanny_headers name)
  if(MPNANNY_QUICK_BUILD)
    file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/generated/${name}.cc" CONTENT "" @ONLY)
    add_library(${name} OBJECT "${CMAKE_BINARY_DIR}/generated/${name}.cc")
    target_link_libraries(${name} PRIVATE mpn_options Threads::Threads nlohmann_json::nlohmann_json)
    target_precompile_headers(${name} PRIVATE ${ARGN})
  endif()
endfunction()

# mpnanny_precompiled(<target> <headers>): the target reads the headers that <headers> has compiled before. A file still includes what
# it uses; the other presets compile without.
function(mpnanny_precompiled target headers)
  if(MPNANNY_QUICK_BUILD)
    target_precompile_headers(${target} REUSE_FROM ${headers})
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE)
      # Programs would be compiled with -fPIE, and g++ then leaves headers aside that were compiled with -fPIC.
      set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${target} PRIVATE -fPIC)
    endif()
  endif()
endfunction()

# mpnanny_together(<target> [BY_FOLDER] [ALONE <regex>]): the target's .cc files are compiled sixteen at a time, in the order of their paths, since most
# of the work of one is in headers that its neighbours include as well. Those of one namespace share its anonymous namespace then: the
# compiler refuses a name that two of them give. BY_FOLDER: each folder below the first by itself and the first file by file, where
# programs link the target and shall hold only what they use. ALONE: paths of files that stay by themselves.
function(mpnanny_together target)
  cmake_parse_arguments(together "BY_FOLDER" "ALONE" "" ${ARGN})
  if(NOT MPNANNY_QUICK_BUILD OR NOT TARGET ${target})
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # takes an included .cc for a header
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  if(together_ALONE)
    list(FILTER sources EXCLUDE REGEX "${together_ALONE}")
  endif()
  list(SORT sources)
  set(group "")
  set(in_folder "")
  set(index 0)
  foreach(source IN LISTS sources)
    file(REAL_PATH "${source}" path BASE_DIRECTORY "${CMAKE_SOURCE_DIR}")
    get_filename_component(folder "${path}" DIRECTORY)
    file(RELATIVE_PATH folder "${CMAKE_SOURCE_DIR}" "${folder}")
    if(together_BY_FOLDER)
      if(NOT folder MATCHES "/")
        continue()
      endif()
      if(NOT folder STREQUAL in_folder)
        set(in_folder "${folder}")
        set(index 0)
        string(REPLACE "/" "_" group "${folder}")
      endif()
    else()
      set(group "${target}")
    endif()
    math(EXPR part "${index} / 16")
    math(EXPR index "${index} + 1")
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}_${part}")
  endforeach()
endfunction()

# mpnanny_lightly(<target>…): -O1. Two thirds of the time to compile. Measured: the check is as fast (the parser, the kernels of
# numerics/ and JSON keep theirs), a call over HTTP takes 3 % longer.
function(mpnanny_lightly)
  if(MPNANNY_QUICK_BUILD AND NOT MPNANNY_PORTABLE)
    foreach(target IN LISTS ARGN)
      target_compile_options(${target} PRIVATE -O1)
    endforeach()
  endif()
endfunction()

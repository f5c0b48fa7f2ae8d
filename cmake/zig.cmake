# CMake toolchain file: zig compiles for another C library and another processor than this machine's. scripts/package makes
# the wrappers in MPNANNY_ZIG (zig's commands with the target in them), as CMake wants compilers without arguments.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR "${MPNANNY_PROCESSOR}")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MPNANNY_ZIG MPNANNY_PROCESSOR)
set(CMAKE_C_COMPILER "${MPNANNY_ZIG}/cc")
set(CMAKE_CXX_COMPILER "${MPNANNY_ZIG}/c++")
set(CMAKE_AR "${MPNANNY_ZIG}/ar")
set(CMAKE_RANLIB "${MPNANNY_ZIG}/ranlib")

# CMake toolchain file: zig compiles for another C library and another processor than this machine's. scripts/package makes
# the wrappers in MPNANNY_ZIG (zig's commands with the target in them), as CMake wants compilers without arguments.
set(CMAKE_SYSTEM_NAME "${MPNANNY_SYSTEM}")  # Linux, Darwin or Windows
set(CMAKE_SYSTEM_PROCESSOR "${MPNANNY_PROCESSOR}")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MPNANNY_ZIG MPNANNY_PROCESSOR MPNANNY_SYSTEM)
set(CMAKE_C_COMPILER "${MPNANNY_ZIG}/cc")
set(CMAKE_CXX_COMPILER "${MPNANNY_ZIG}/c++")
set(CMAKE_AR "${MPNANNY_ZIG}/ar")
set(CMAKE_RANLIB "${MPNANNY_ZIG}/ranlib")
set(CMAKE_INSTALL_NAME_TOOL /bin/false)  # CMake asks for one for macOS; nothing here has a name to change

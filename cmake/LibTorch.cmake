# LibTorch of the torch that MPNANNY_PYTHON has, as plain imported targets. Not find_package(Torch): with a CUDA wheel that
# demands a CUDA toolkit. The package is found without importing it, which would take seconds.
#
# Defines torch::cpu when torch is there; MPNANNY_TORCH_DIR is its folder.
if(MPNANNY_PYTHON)
  execute_process(COMMAND "${MPNANNY_PYTHON}" -c
    "import importlib.util as u, os; s = u.find_spec('torch'); print(os.path.dirname(s.origin) if s else '')"
    OUTPUT_VARIABLE MPNANNY_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(MPNANNY_TORCH_DIR AND EXISTS "${MPNANNY_TORCH_DIR}/lib/libtorch_cpu.so")
  foreach(lib c10 torch_cpu)
    add_library(torch::${lib} SHARED IMPORTED)
    set_target_properties(torch::${lib} PROPERTIES IMPORTED_LOCATION "${MPNANNY_TORCH_DIR}/lib/lib${lib}.so")
  endforeach()
  add_library(torch::cpu INTERFACE IMPORTED)
  target_include_directories(torch::cpu SYSTEM INTERFACE
    "${MPNANNY_TORCH_DIR}/include" "${MPNANNY_TORCH_DIR}/include/torch/csrc/api/include")
  target_link_libraries(torch::cpu INTERFACE torch::torch_cpu torch::c10)
else()
  message(STATUS "No torch for MPNANNY_PYTHON: mpnanny-worker is left out. ./scripts/setup installs one.")
endif()

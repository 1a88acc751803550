# The GPU plug-in (kernels/cuda): AUTO where the toolkit is found, ON or an error, OFF. Nothing else is built with CUDA, and no
# program links it.
set(SKERRY_CUDA OFF CACHE STRING "Build the GPU plug-in: OFF, AUTO or ON")
set(SKERRY_CUDA_ARCHITECTURES release CACHE STRING
  "release: every generation; check: two of them and PTX, quicker to compile; or CMake's own list")
set(SKERRY_HAS_CUDA OFF)
if(NOT SKERRY_CUDA)
  return()
endif()

# nvcc is often not on PATH.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(NOT SKERRY_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "SKERRY_CUDA=${SKERRY_CUDA}, but no CUDA toolkit was found; set CUDACXX to its nvcc")
  endif()
  return()
endif()

# PTX is for devices that come later.
if(SKERRY_CUDA_ARCHITECTURES STREQUAL "release")
  set(CMAKE_CUDA_ARCHITECTURES 80-real 86-real 89-real 90-real 100-real 120-real 80-virtual)
elseif(SKERRY_CUDA_ARCHITECTURES STREQUAL "check")
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 80-virtual)
else()
  set(CMAKE_CUDA_ARCHITECTURES ${SKERRY_CUDA_ARCHITECTURES})
endif()
if(SKERRY_CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${SKERRY_CCACHE})
endif()
enable_language(CUDA)
# CMake 3.25 does not know it for nvcc.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
find_package(CUDAToolkit REQUIRED)
if(NOT TARGET CUDA::cublasLt)
  message(FATAL_ERROR "the CUDA toolkit of ${CMAKE_CUDA_COMPILER} has no cuBLASLt")
endif()
set(SKERRY_HAS_CUDA ON)

# Registers that do not fit are an error of the assembler, not a line in a log.
set(skerry_cuda_options --expt-relaxed-constexpr -Werror all-warnings -Xptxas --warn-on-spills,-Werror)

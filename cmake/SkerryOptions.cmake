# Compiler flags and sanitizers, the same for every target of ours.
option(SKERRY_WERROR "Warnings are errors" ON)
option(SKERRY_FUZZ "Programs for libFuzzer; needs clang" OFF)
set(SKERRY_SANITIZE "" CACHE STRING "Sanitizers: empty, 'address,undefined' or 'thread'")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_program(SKERRY_CCACHE ccache)
if(SKERRY_CCACHE)
  # What one checkout compiled serves every other, wherever it lies; precompiled headers too (SkerryPrecompiled.cmake).
  set(SKERRY_CCACHE ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${SKERRY_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${SKERRY_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SKERRY_CCACHE})
endif()

add_library(skerry_flags INTERFACE)
target_include_directories(skerry_flags INTERFACE ${CMAKE_SOURCE_DIR})
# -ffp-contract=off: peers must compute equal bits wherever they agree on numbers; kernels ask for FMA by intrinsics.
target_compile_options(skerry_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -ffp-contract=off
  $<$<BOOL:${SKERRY_WERROR}>:-Werror>
  # Programs are the same bytes wherever they are built (./dev reproduce).
  $<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.>)
# g++ 12 at -O3 takes "a" + std::string for an overlapping copy of 2^63 bytes (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(skerry_flags INTERFACE -Wno-restrict)
endif()
if(SKERRY_SANITIZE)
  target_compile_options(skerry_flags INTERFACE -fsanitize=${SKERRY_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all
    $<$<BOOL:$<TARGET_PROPERTY:SKERRY_NO_POINTER_CHECKS>>:-fno-sanitize=alignment,null,vptr>)
  target_link_options(skerry_flags INTERFACE -fsanitize=${SKERRY_SANITIZE})
endif()

# Checks before every access through a pointer take two fifths of a sanitized compilation. Where nobody casts bytes they find nothing
# that the address sanitizer does not.
function(skerry_without_pointer_checks target)
  set_target_properties(${target} PROPERTIES SKERRY_NO_POINTER_CHECKS ON)
endfunction()

# Options of the sources of tests: what they test is compiled as it is for users, they themselves quickly.
function(skerry_test_options target)
  skerry_without_pointer_checks(${target})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

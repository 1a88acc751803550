# Headers that most of our time as compilers went into, parsed once: a third of a build. What users run is compiled without, so that a
# file which forgets an include does not go unnoticed; tests always may.
set(SKERRY_PRECOMPILED OFF CACHE STRING "Parse common headers once: OFF, TESTS (theirs only) or ON")
# g++ forgets of precompiled headers that they are the system's, and then reports its false alarms about std::string (GCC bug 105651).
# -fpch-preprocess is for ccache: without it nothing that uses them is kept.
set(skerry_precompiled_flags $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess;-Wno-array-bounds;-Wno-stringop-overread;-Wno-stringop-overflow>)

function(skerry_is_precompiled name out)
  if(SKERRY_PRECOMPILED STREQUAL "TESTS" AND NOT name STREQUAL "tests")
    set(${out} OFF PARENT_SCOPE)
  elseif(SKERRY_PRECOMPILED)
    set(${out} ON PARENT_SCOPE)
  else()
    set(${out} OFF PARENT_SCOPE)
  endif()
endfunction()

# skerry_precompiled(NAME HEADERS … DEPS …): a set of headers for skerry_use_precompiled.
function(skerry_precompiled name)
  skerry_is_precompiled(${name} wanted)
  if(NOT wanted)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "HEADERS;DEPS" ${ARGN})
  set(source ${CMAKE_BINARY_DIR}/generated/precompiled_${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(skerry_precompiled_${name} STATIC ${source})
  target_link_libraries(skerry_precompiled_${name} PRIVATE skerry_flags ${ARG_DEPS})
  target_compile_options(skerry_precompiled_${name} PRIVATE ${skerry_precompiled_flags})
  if(name STREQUAL "tests")
    skerry_test_options(skerry_precompiled_tests)
  endif()
  target_precompile_headers(skerry_precompiled_${name} PRIVATE ${ARG_HEADERS})
endfunction()

# The target's sources see the set's headers; they must be compiled with the same options.
function(skerry_use_precompiled target name)
  skerry_is_precompiled(${name} wanted)
  if(wanted)
    target_compile_options(${target} PRIVATE ${skerry_precompiled_flags})
    target_precompile_headers(${target} REUSE_FROM skerry_precompiled_${name})
  endif()
endfunction()

set(skerry_common_headers
  <algorithm> <deque> <filesystem> <fstream> <functional> <map> <memory> <optional> <set> <sstream> <string> <utility>
  <variant> <vector> <absl/status/statusor.h> <absl/strings/str_format.h> <nlohmann/json.hpp>)
skerry_precompiled(programs HEADERS ${skerry_common_headers} DEPS absl::statusor absl::str_format nlohmann_json::nlohmann_json)
skerry_precompiled(tests HEADERS ${skerry_common_headers} <catch2/catch.hpp>
  DEPS absl::statusor absl::str_format nlohmann_json::nlohmann_json Catch2::Catch2)

# Folders whose sources mostly need them, and have no options of their own.
set(skerry_folders_with_common_headers coordinator node sim wire)

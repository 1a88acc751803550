# skerry_library(NAME SOURCES … [DEPS …] [PRIVATE_DEPS …]): a static library, reachable as skerry::NAME.
function(skerry_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(skerry_${name} STATIC ${ARG_SOURCES})
  add_library(skerry::${name} ALIAS skerry_${name})
  target_link_libraries(skerry_${name} PUBLIC ${ARG_DEPS} PRIVATE skerry_flags ${ARG_PRIVATE_DEPS})
  target_include_directories(skerry_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME folder)
  if(folder IN_LIST skerry_folders_with_common_headers)
    skerry_use_precompiled(skerry_${name} programs)
  endif()
endfunction()

# skerry_program(NAME SOURCES … DEPS …): an executable in build/…/bin.
function(skerry_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE skerry_flags ${ARG_DEPS})
  skerry_use_precompiled(${name} programs)
endfunction()

# skerry_test(NAME SOURCES … DEPS …): a Catch2 program tests/NAME; every test case is one ctest test.
function(skerry_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(test_${name} ${ARG_SOURCES})
  target_link_libraries(test_${name} PRIVATE skerry_flags skerry_catch_main ${ARG_DEPS})
  skerry_test_options(test_${name})
  skerry_use_precompiled(test_${name} tests)
  catch_discover_tests(test_${name} TEST_PREFIX "${name}: " EXTRA_ARGS --warn NoTests
    PROPERTIES TIMEOUT 300)
endfunction()

# cmake -D SOURCE=coordinator/duties.cc -D ROOT=… -D OUT=… -P mutate.cmake
#
# Writes a copy of one production source with all its mutations (mutations.cmake) in it, each asleep until MutantIs(N). A
# mutation whose text is not there exactly once is an error: the source has changed, so must the mutation.
cmake_minimum_required(VERSION 3.25)

file(READ ${ROOT}/${SOURCE} text)

# How often `what` is in the source.
function(count_of what result)
  set(rest "${text}")
  set(count 0)
  string(LENGTH "${what}" length)
  string(FIND "${rest}" "${what}" at)
  while(at GREATER_EQUAL 0)
    math(EXPR count "${count} + 1")
    math(EXPR next "${at} + ${length}")
    string(SUBSTRING "${rest}" ${next} -1 rest)
    string(FIND "${rest}" "${what}" at)
  endwhile()
  set(${result} ${count} PARENT_SCOPE)
endfunction()

function(mutant number source original mutated)
  if(NOT source STREQUAL SOURCE)
    return()
  endif()
  count_of("${original}" count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "mutant ${number}: its text is ${count} times in ${source}, not once:\n${original}\n"
      "The source has changed: mend tests/sim/mutants/mutations.cmake.")
  endif()
  string(REPLACE "${original}" "${mutated}" text "${text}")
  set(text "${text}" PARENT_SCOPE)
endfunction()

include(${CMAKE_CURRENT_LIST_DIR}/mutations.cmake)
file(WRITE ${OUT} "#include \"tests/sim/mutants/mutant.h\"\n#line 1 \"${ROOT}/${SOURCE}\"\n${text}")

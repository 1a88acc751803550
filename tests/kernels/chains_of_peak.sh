#!/bin/sh
# Usage: chains_of_peak.sh OBJDUMP LIBRARY FUNCTION INSTRUCTION COUNT
# A peak is that of COUNT chains only if each of them is computed: of chains that begin alike a
# compiler computes one, and the rate is then counted so many times.
found=$("$1" --disassemble --no-show-raw-insn --demangle "$2" |
  awk -v name="$3(" -v instruction="$4" '/>:$/ { inside = index($0, name) > 0 }
       inside && $2 ~ instruction { ++count } END { print count + 0 }')
[ "$found" -ge "$5" ] && exit 0
echo "$3 has $found of $5 chains"
exit 1

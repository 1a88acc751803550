#!/bin/sh
# Usage: symbols_of_kernels.sh NM LIBRARY MEMBER TABLE
# A file compiled for newer processors may define nothing that other files could share but its table
# (kernels/cpu/kernel_table.h): lists what else it defines, and fails if there is any.
others=$("$1" --defined-only --extern-only "$2" |
  awk -v member="$3:" '/:$/ { inside = $0 == member } inside && NF == 3 { print $3 }' | sort)
[ "$(echo "$others" | c++filt)" = "$4" ] && exit 0
echo "$3 defines: $others"
exit 1

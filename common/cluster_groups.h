// What [cluster] groups says, read: which nodes the operator wants together.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ids.h"

namespace skerry {

// Of each group its members: names of regions, or at least four hex digits that ids begin with.
using ClusterGroups = std::vector<std::vector<std::string>>;

// "off" and "measured" name none. InvalidArgument: an empty group, or a member that is named twice.
absl::StatusOr<ClusterGroups> ParseClusterGroups(std::string_view text);

// The first group that names the node, by its region or the beginning of its id; −1: none does.
int GroupOf(const ClusterGroups& groups, const NodeId& node, const std::string& region);

}  // namespace skerry

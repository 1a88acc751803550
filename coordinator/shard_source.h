// Serves the run's token shards to nodes out of memory-mapped files.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/coordinator_actor.h"
#include "model/file_io.h"

namespace skerry {

class ShardSource final : public ObjectSource {
 public:
  // Opens every file of the data set in `directory`; names() is what Welcome lists. What no node
  // could train on is an error here, before anybody joins; digests are not read.
  static absl::StatusOr<std::unique_ptr<ShardSource>> Open(const std::string& directory,
                                                           const RunConfig& config);

  ObjectChunk Read(const ObjectRequest& request) override;
  const std::vector<ShardName>& names() const { return names_; }

 private:
  std::vector<ShardName> names_;
  std::map<std::string, std::unique_ptr<MappedFile>> files_;  // "shard/FILE"
};

}  // namespace skerry

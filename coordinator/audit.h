// What a journal proves of its run, and where it contradicts itself (`skerry-coordinator audit`).
//
// Read from the records alone, in order, with nothing else to believe:
//
//   records      every record is whole and follows from those before it (RunState::Apply): a plan
//                is newer than the last, a commit of a stage is that of its next round
//   samples      every microbatch of every step is credited to one node, once, or written off once,
//                with a stage-0 node that was lost before (docs/PROTOCOL.md, 13); at the end none
//                is open
//   rounds       a stage's rounds are committed from 0 on without gap, each once, each over those
//                who take part by the plan in force: one set, ordered, nobody twice; at the end all
//                of them; a stage of one replica has none
//   credit       nobody is credited with more tokens than a round can have; that a contribution,
//   one
//                node's of one round of a stage, is counted once, follows from the rule before
//   digests      whoever applied a round holds the same base as the others, or was put out
//
// Not thread-safe; memory as that of RunState.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/run_config.h"
#include "coordinator/run_state.h"

namespace skerry {

struct AuditFinding {
  int64_t record = 0;  // number in the journal, from 1; 0: the journal as a whole
  std::string rule;    // as above
  std::string what;
};

struct AuditCounts {
  int64_t records = 0;
  int64_t samples = 0;      // microbatches credited
  int64_t written_off = 0;  // microbatches that died with their stage-0 node
  int64_t open = 0;         // of a finished run: neither
  int64_t tokens = 0;
  int64_t rounds = 0;         // committed, over all stages
  int64_t contributions = 0;  // deltas (or sums) of their participants
  int64_t digests = 0;        // of bases, compared
  int64_t plans = 0;
};

class JournalAudit {
 public:
  static constexpr size_t kFindingsMax = 100;  // further ones are counted

  // `config` as the operator wrote it.
  explicit JournalAudit(RunConfig config);

  // The next record. One that cannot be applied is a finding, and the fold goes on without it;
  // from one on that only a newer version knows nothing is looked at.
  void Add(const std::string& record);
  // What can only be said when there are no more; call once.
  void End();

  // FailedPrecondition: names that record, which says nothing against the run.
  const absl::Status& known() const { return known_; }
  const std::vector<AuditFinding>& findings() const { return findings_; }
  int64_t found() const { return found_; }  // also beyond kFindingsMax
  AuditCounts counts() const;
  const RunState& state() const { return state_; }
  const RunConfig& config() const { return config_; }  // with what the planner chose

 private:
  void Find(const std::string& rule, const std::string& what);
  void AfterPlan();
  void BeforeLosses(const nlohmann::json& json);
  void BeforeWrittenOff(const nlohmann::json& json);
  void CheckCommit(const RoundCommit& commit);
  void EndSamples();
  void EndRounds();
  void EndDigests();
  bool IsStep(int64_t step, int32_t microbatch) const;

  RunConfig config_;
  RunState state_;
  AuditCounts counts_;
  absl::Status known_;
  int64_t number_ = 0;
  int64_t found_ = 0;
  std::vector<AuditFinding> findings_;
  std::vector<NodeId> first_stage_;  // live replicas by the plan in force
  int64_t first_stage_losses_ = 0;   // times that somebody left stage 0
  int64_t first_step_ = 0;           // of a run that begins with another's checkpoint
  struct Report {
    int64_t record = 0;
    NodeId node;
    Digest digest;
  };
  std::map<RunState::StageRound, std::vector<Report>> reports_;
};

// For people, and for programs.
std::string AuditText(const JournalAudit& audit);
nlohmann::json AuditJson(const JournalAudit& audit);

}  // namespace skerry

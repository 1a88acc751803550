#include "node/state_transfer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "common/digest.h"

namespace skerry {
namespace {

constexpr size_t kNamesMax = 6;  // of donors, for people
constexpr Duration kTimerMin = Duration::Millis(100);

std::string Names(const std::vector<NodeId>& nodes) {
  std::string names;
  for (size_t i = 0; i < std::min(nodes.size(), kNamesMax); ++i) {
    names += (i > 0 ? ", " : "") + nodes[i].Short();
  }
  if (nodes.size() > kNamesMax) names += absl::StrFormat(" and %d more", nodes.size() - kNamesMax);
  return names;
}

double Megabytes(int64_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

}  // namespace

std::string StateObject(const char* kind, int32_t stage, int64_t version) {
  return absl::StrFormat("%s/%d/%d", kind, stage, version);
}

std::span<const uint8_t> PartOf(const Payload& object, int64_t offset, int64_t length) {
  const auto bytes = View(object);
  const size_t begin = std::min(static_cast<size_t>(offset), bytes.size());
  return bytes.subspan(begin, std::min(static_cast<size_t>(length), bytes.size() - begin));
}

StateTransfer::StateTransfer(int32_t stage, int64_t version, NodeId coordinator, SendFn send)
    : stage_(stage), version_(version), coordinator_(coordinator), send_(std::move(send)) {}

void StateTransfer::Begin(Context& context, const StageWork* work) {
  work_ = work;
  sizes_ = work->SizesForJoiners();
  Pump(context);
}

void StateTransfer::SetDonors(Context& context, const std::vector<NodeId>& live) {
  live_ = live;
  UpdateDonors();
  Pump(context);
}

void StateTransfer::OnRoot(Context& context, const NodeId& from, const StateRoot& message) {
  if (message.stage != stage_ || message.round != version_ || message.root.IsZero()) return;
  if (from == coordinator_) {
    if (!root_) root_ = message.root;
  } else {
    said_[from] = message;
  }
  UpdateDonors();
  Pump(context);
}

std::vector<NodeId> StateTransfer::Donors() const {
  std::vector<NodeId> donors;
  for (const NodeId& node : live_) {
    const auto said = said_.find(node);
    const bool lied = std::find(refuted_.begin(), refuted_.end(), node) != refuted_.end();
    if (root_ && said != said_.end() && said->second.root == *root_ && !lied) {
      donors.push_back(node);
    }
  }
  return donors;
}

void StateTransfer::UpdateDonors() {
  if (scheduler_) scheduler_->SetDonors(Donors());
}

void StateTransfer::Pump(Context& context) {
  if (work_ == nullptr || !root_ || Done()) return;
  if (!scheduler_) {
    AskForTable(context);
  } else {
    for (const ChunkScheduler::Ask& ask : scheduler_->Next(context.now())) {
      const int64_t common = StateChunks(sizes_.common);
      const bool is_moments = ask.chunk >= common;
      const int64_t offset = (is_moments ? ask.chunk - common : ask.chunk) * kStateChunkBytes;
      const int64_t size = is_moments ? sizes_.moments : sizes_.common;
      send_(context, ask.donor,
            ObjectRequest{StateObject(is_moments ? "moments" : "state", stage_, version_), offset,
                          std::min(kStateChunkBytes, size - offset)});
    }
  }
  Arm(context);
}

// One timer at a time; one that fires early finds nothing due.
void StateTransfer::Arm(Context& context) {
  if (timer_ != 0) return;
  const std::optional<Instant> due =
      scheduler_ ? scheduler_->NextDue()
                 : (asks_table_ ? std::optional(table_asked_ + kTablePatience) : std::nullopt);
  if (!due) return;
  timer_ = context.StartTimer(std::max(*due - context.now(), kTimerMin));
}

bool StateTransfer::OnTimer(Context& context, TimerId timer) {
  if (timer != timer_ || timer == 0) return false;
  timer_ = 0;
  if (scheduler_) {
    for (const NodeId& silent : scheduler_->Tend(context.now())) {
      context.Event("donor_silent",
                    absl::StrFormat(R"("stage":%d,"node":"%s")", stage_, silent.Short()));
    }
  }
  Pump(context);
  return true;
}

// ---- the table ---------------------------------------------------------------------------------

void StateTransfer::AskForTable(Context& context) {
  const std::vector<NodeId> donors = Donors();
  if (donors.empty()) {
    asks_table_ = false;
    return;
  }
  const auto it = std::find(donors.begin(), donors.end(), table_donor_);
  const bool waits = asks_table_ && it != donors.end();
  if (waits && context.now() - table_asked_ < kTablePatience) return;
  // The next one, from the start: lists of two donors do not mix.
  table_donor_ =
      it == donors.end() ? donors.front() : donors[(it - donors.begin() + 1) % donors.size()];
  asks_table_ = true;
  table_asked_ = context.now();
  table_bytes_.clear();
  const int64_t size = StateChunks(sizes_.common) * static_cast<int64_t>(sizeof(Digest));
  send_(context, table_donor_,
        ObjectRequest{StateObject("table", stage_, version_), 0,
                      std::min(size, kObjectChunkBytesMax)});
}

void StateTransfer::OnTable(Context& context, const NodeId& from, const ObjectChunk& chunk) {
  if (!asks_table_ || from != table_donor_) return;
  const int64_t size = StateChunks(sizes_.common) * static_cast<int64_t>(sizeof(Digest));
  const auto have = static_cast<int64_t>(table_bytes_.size());
  const auto part = View(chunk.values);
  if (chunk.offset != have) return;
  const bool fits = chunk.total_bytes == size && !part.empty() && std::ssize(part) <= size - have;
  if (fits) table_bytes_.insert(table_bytes_.end(), part.begin(), part.end());
  const auto got = static_cast<int64_t>(table_bytes_.size());
  if (fits && got < size) {
    table_asked_ = context.now();
    return send_(context, from,
                 ObjectRequest{chunk.object, got, std::min(size - got, kObjectChunkBytesMax)});
  }
  asks_table_ = false;
  const Digest digest = DigestOf(std::span<const uint8_t>(table_bytes_));
  if (!fits || digest != *root_) {
    Refute(context, from, -1, digest);
    return Pump(context);
  }
  table_.resize(table_bytes_.size() / sizeof(Digest));
  for (size_t i = 0; i < table_.size(); ++i) {
    std::copy_n(table_bytes_.begin() + static_cast<std::ptrdiff_t>(i * sizeof(Digest)),
                sizeof(Digest), table_[i].bytes.begin());
  }
  table_bytes_ = {};
  const int64_t chunks = StateChunks(sizes_.common) + StateChunks(sizes_.moments);
  chunks_.resize(static_cast<size_t>(chunks));
  scheduler_.emplace(chunks);
  began_ = context.now();
  UpdateDonors();
  Say(context, true);
  Pump(context);
}

// ---- chunks ------------------------------------------------------------------------------------

void StateTransfer::OnChunk(Context& context, const NodeId& from, const ObjectChunk& chunk) {
  if (work_ == nullptr || !root_) return;
  if (chunk.total_bytes < 0) {  // nothing, or nothing any more
    said_.erase(from);
    UpdateDonors();
    return Pump(context);
  }
  if (chunk.object == StateObject("table", stage_, version_)) return OnTable(context, from, chunk);
  const bool is_moments = chunk.object == StateObject("moments", stage_, version_);
  if (!is_moments && chunk.object != StateObject("state", stage_, version_)) return;
  if (scheduler_) OnPart(context, from, chunk, is_moments);
}

void StateTransfer::OnPart(Context& context, const NodeId& from, const ObjectChunk& part,
                           bool is_moments) {
  const int64_t size = is_moments ? sizes_.moments : sizes_.common;
  if (part.offset < 0 || part.offset >= size || part.offset % kStateChunkBytes != 0) return;
  const int64_t common = StateChunks(sizes_.common);
  const int64_t chunk = part.offset / kStateChunkBytes + (is_moments ? common : 0);
  if (!scheduler_->Arrived(context.now(), from, chunk)) return Pump(context);
  const bool is_whole = part.total_bytes == size &&
                        SizeOf(part.values) == std::min(kStateChunkBytes, size - part.offset);
  const auto bytes = View(part.values);
  const Digest digest = DigestOf(bytes);
  const bool is_good = is_whole && (is_moments ? work_->CheckMoments(chunk - common, bytes).ok()
                                               : digest == table_[static_cast<size_t>(chunk)]);
  if (!is_good) {
    Refute(context, from, chunk, digest);
    return Pump(context);
  }
  scheduler_->Keep(from, chunk);
  chunks_[static_cast<size_t>(chunk)] = part.values;
  Say(context, false);
  Pump(context);
}

void StateTransfer::Refute(Context& context, const NodeId& donor, int64_t chunk,
                           const Digest& digest) {
  refuted_.push_back(donor);
  if (scheduler_) scheduler_->Drop(donor);
  send_(context, coordinator_, StateRefuted{stage_, version_, donor, chunk, digest});
  context.Event("donor_refuted",
                absl::StrFormat(R"("stage":%d,"version":%d,"node":"%s","chunk":%d)", stage_,
                                version_, donor.Short(), chunk));
}

StageWork::JoinersChunks StateTransfer::Take() {
  SKERRY_CHECK(Done());
  StageWork::JoinersChunks taken;
  taken.version = version_;
  const auto common = static_cast<std::ptrdiff_t>(StateChunks(sizes_.common));
  taken.common.assign(chunks_.begin(), chunks_.begin() + common);
  taken.moments.assign(chunks_.begin() + common, chunks_.end());
  chunks_.clear();
  // Steps only correct the bias of young moments: of those that gave, the youngest.
  std::optional<int64_t> steps;
  for (const auto& [donor, count] : scheduler_->given()) {
    const auto said = said_.find(donor);
    if (said != said_.end()) {
      steps = std::min(steps.value_or(said->second.inner_steps), said->second.inner_steps);
    }
  }
  taken.inner_steps = steps.value_or(0);
  return taken;
}

// ---- for people --------------------------------------------------------------------------------

int64_t StateTransfer::BytesHeld() const {
  const int64_t all = sizes_.common + sizes_.moments;
  return std::min(all, scheduler_ ? scheduler_->held() * kStateChunkBytes : 0);
}

void StateTransfer::Say(Context& context, bool always) {
  const bool done = Done();
  if (!always && !done && context.now() - told_ < kSayEvery) return;
  told_ = context.now();
  std::string donors;
  for (const auto& [donor, count] : scheduler_->given()) {
    donors += absl::StrFormat(R"(%s"%s":%.1f)", donors.empty() ? "" : ",", donor.Short(),
                              Megabytes(count * kStateChunkBytes));
  }
  const std::string progress =
      absl::StrFormat(R"("stage":%d,"version":%d,"mb":%.1f,"of_mb":%.1f,"seconds":%.1f)", stage_,
                      version_, Megabytes(BytesHeld()), Megabytes(sizes_.common + sizes_.moments),
                      (context.now() - *began_).seconds());
  context.Event(
      "state", absl::StrFormat(R"(%s,"asked_again":%d,"asked_twice":%d,"donors_mb":{%s})", progress,
                               scheduler_->asked_again(), scheduler_->stolen(), donors));
}

std::string StateTransfer::WaitingFor() const {
  if (!root_) return "what the replicas agree the state of the stage is";
  const std::vector<NodeId> donors = Donors();
  if (donors.empty()) return "a replica that can give the state of its stage";
  return absl::StrFormat("state of the stage from %s, %.0f of %.0f MB", Names(donors),
                         Megabytes(BytesHeld()), Megabytes(sizes_.common + sizes_.moments));
}

}  // namespace skerry

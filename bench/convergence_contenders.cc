#include "bench/convergence_contenders.h"

#include <utility>

#include "common/status.h"

namespace skerry::bench {
namespace {

class Collection {
 public:
  explicit Collection(int32_t replicas)
      : replicas_(replicas), prefix_("R" + std::to_string(replicas) + " ") {}

  void Study(const char* name) { study_ = name; }
  void Add(const std::string& name, Training training) {
    training.replicas = replicas_;
    all_.push_back({prefix_ + name, study_, training, prefix_ + "baseline"});
  }
  std::vector<Contender> Take() { return std::move(all_); }

 private:
  int32_t replicas_;
  std::string prefix_, study_;
  std::vector<Contender> all_;
};

Training Synchronous(int64_t tau, DeltaCodec codec = DeltaCodec::kNone) {
  Training training;
  training.tau = tau;
  training.codec = codec;
  return training;
}

Training Overlapped(OuterMode mode, int64_t delta) {
  Training training = Synchronous(kStudyTau);
  training.mode = mode;
  training.delta = delta;
  return training;
}

std::string WithTau(const std::string& what) {
  return "tau " + std::to_string(kStudyTau) + " " + what;
}

struct NamedMode {
  const char* name;
  OuterMode mode;
  int64_t delta;
};
constexpr NamedMode kModes[] = {{"delta 2", OuterMode::kOverlap, kStudyTau / 8},
                                {"delta 16", OuterMode::kOverlap, kStudyTau},
                                {"co2", OuterMode::kCo2, kStudyTau},
                                {"streaming 4, delta 2", OuterMode::kStreaming, kStudyTau / 8}};

void AddModes(Collection* out) {
  out->Study("modes");
  Training parallel = Synchronous(1);
  parallel.mode = OuterMode::kDataParallel;
  out->Add("data_parallel (mean of weights)", parallel);
  for (const auto& [name, mode, delta] : kModes) out->Add(WithTau(name), Overlapped(mode, delta));
}

constexpr std::pair<const char*, DeltaCodec> kLossyCodecs[] = {
    {"bf16", DeltaCodec::kBf16},       {"int8", DeltaCodec::kInt8}, {"int4", DeltaCodec::kInt4},
    {"ternary", DeltaCodec::kTernary}, {"sign", DeltaCodec::kSign}, {"topk", DeltaCodec::kTopK},
    {"lowrank", DeltaCodec::kLowRank}};

bool IsCoarse(DeltaCodec codec) {
  return codec == DeltaCodec::kTernary || codec == DeltaCodec::kSign ||
         codec == DeltaCodec::kTopK || codec == DeltaCodec::kLowRank;
}

// Every mode with every codec; the rest of coarse ones in the weights, where the mode allows.
void AddTable(Collection* out) {
  out->Study("table");
  for (const auto& [mode_name, mode, delta] : kModes) {
    for (const auto& [codec_name, codec] : kLossyCodecs) {
      Training training = Overlapped(mode, delta);
      training.codec = codec;
      if (IsCoarse(codec) && mode != OuterMode::kCo2) training.residual = ResidualPlace::kWeights;
      out->Add(WithTau(std::string(mode_name) + ", " + codec_name), training);
    }
  }
}

void AddCodecs(Collection* out) {
  out->Study("codecs");
  for (const auto& [name, codec] : kLossyCodecs) {
    Training training = Synchronous(kStudyTau, codec);
    out->Add(WithTau(name), training);
    if (!IsCoarse(codec)) continue;
    training.residual = ResidualPlace::kWeights;
    out->Add(WithTau(std::string(name) + " in weights"), training);
  }
}

void AddSums(Collection* out) {
  out->Study("sums");
  const std::pair<const char*, DeltaCodec> codecs[] = {{"int8", DeltaCodec::kInt8},
                                                       {"int4", DeltaCodec::kInt4},
                                                       {"ternary", DeltaCodec::kTernary},
                                                       {"lowrank", DeltaCodec::kLowRank}};
  for (const auto& [name, codec] : codecs) {
    Training training = Synchronous(kStudyTau, codec);
    training.sharded = true;
    out->Add(WithTau(std::string(name) + " both ways"), training);
  }
}

// Where progress lives that a coarse message left out, and what its sums lose.
void AddRest(Collection* out) {
  out->Study("rest");
  const struct {
    const char* name;
    DeltaCodec codec;
    double bits;
  } coarse[] = {{"ternary", DeltaCodec::kTernary, 1},
                {"lowrank of 1 bit", DeltaCodec::kLowRank, 1},
                {"lowrank of 0.15 bit", DeltaCodec::kLowRank, 0.15}};
  for (const auto& [name, codec, bits] : coarse) {
    for (const ResidualPlace place : {ResidualPlace::kBuffer, ResidualPlace::kWeights}) {
      for (const bool sharded : {false, true}) {
        Training training = Synchronous(kStudyTau, codec);
        training.bits = bits;
        training.residual = place;
        training.sharded = sharded;
        out->Add(WithTau(std::string(name) +
                         (place == ResidualPlace::kWeights ? ", weights" : ", buffer") +
                         (sharded ? ", both ways" : "")),
                 training);
      }
    }
  }
}

// What a checkpoint does not keep: residuals and what reducers have left over, dropped half-way.
void AddBack(Collection* out) {
  out->Study("back");
  const struct {
    const char* name;
    DeltaCodec codec;
    double bits;
    ResidualPlace residual;
  } kept[] = {{"no codec", DeltaCodec::kNone, 1, ResidualPlace::kBuffer},
              {"int8", DeltaCodec::kInt8, 1, ResidualPlace::kBuffer},
              {"default tier", DeltaCodec::kTernary, 1, ResidualPlace::kWeights},
              {"ternary, buffer", DeltaCodec::kTernary, 1, ResidualPlace::kBuffer},
              {"starved tier", DeltaCodec::kLowRank, 0.15, ResidualPlace::kWeights}};
  for (const auto& [name, codec, bits, residual] : kept) {
    for (const bool goes_back : {false, true}) {
      Training training = Synchronous(kStudyTau, codec);
      training.bits = bits;
      training.residual = residual;
      training.sharded = true;
      training.goes_back = goes_back;
      out->Add(WithTau(std::string(name) + ", both ways" + (goes_back ? ", goes back" : "")),
               training);
    }
  }
}

void AddMissing(Collection* out) {
  out->Study("missing");
  for (const DeltaCodec codec : {DeltaCodec::kNone, DeltaCodec::kTernary}) {
    Training training = Synchronous(kStudyTau, codec);
    training.missing = 0.25;
    if (codec == DeltaCodec::kTernary) training.residual = ResidualPlace::kWeights;
    out->Add(WithTau(codec == DeltaCodec::kNone ? "25 % missing" : "ternary, 25 % missing"),
             training);
  }
}

void AddSkips(Collection* out) {
  out->Study("skip");
  for (const auto& [name, skip] : {std::pair{"skip 0.25", 0.25}, std::pair{"skip 0.33", 1.0 / 3}}) {
    Training training;
    training.skip = skip;
    training.gradient_mean = true;
    out->Add(std::string("baseline, ") + name, training);
    training = Synchronous(kStudyTau);
    training.skip = skip;
    out->Add(WithTau(name), training);
    training = Overlapped(OuterMode::kOverlap, kStudyTau / 8);
    training.codec = DeltaCodec::kTernary;
    training.skip = skip;
    out->Add(WithTau(std::string("delta 2 ternary, ") + name), training);
  }
}

}  // namespace

std::vector<Contender> ContendersOf(int32_t replicas) {
  Collection out(replicas);
  Training baseline;
  baseline.gradient_mean = true;
  out.Add("baseline", baseline);
  out.Study("tau");
  for (const int64_t tau : {int64_t{4}, int64_t{16}, int64_t{32}}) {
    out.Add("tau " + std::to_string(tau), Synchronous(tau));
  }
  if (replicas >= 8) return out.Take();
  AddModes(&out);
  AddCodecs(&out);
  AddTable(&out);
  AddSums(&out);
  AddRest(&out);
  AddBack(&out);
  AddMissing(&out);
  AddSkips(&out);
  return out.Take();
}

bool HasFixedOuterStep(const Training& training) {
  return training.gradient_mean || training.mode == OuterMode::kDataParallel;
}

absl::StatusOr<Tuned> Tune(const Training& training, const Rates& start,
                           const std::function<absl::StatusOr<Outcome>(const Rates&)>& train) {
  Tuned best{start, {}, 1};
  SKERRY_ASSIGN_OR_RETURN(best.outcome, train(start));
  const auto attempt = [&](const Rates& rates) -> absl::StatusOr<bool> {
    SKERRY_ASSIGN_OR_RETURN(const Outcome outcome, train(rates));
    ++best.runs;
    if (!(outcome.loss < best.outcome.loss)) return false;
    best.rates = rates;
    best.outcome = outcome;
    return true;
  };
  const bool fixed = HasFixedOuterStep(training);
  // From little momentum to much; the last only where the one before it was better than less.
  constexpr std::pair<float, float> kOuter[] = {{1, 0}, {0.7f, 0.6f}, {0.7f, 0.9f}};
  for (const auto& [alpha, beta] : kOuter) {
    if (fixed || (beta > 0.8f && best.rates.beta < 0.5f)) continue;
    SKERRY_RETURN_IF_ERROR(attempt({start.inner, start.beta2, alpha, beta}).status());
  }
  for (const float factor : {0.5f, 2.0f}) {
    bool fell = true;
    for (int i = 0; i < 3 && fell; ++i) {
      Rates next = best.rates;
      next.inner *= factor;
      SKERRY_ASSIGN_OR_RETURN(fell, attempt(next));
    }
    if (best.rates.inner < start.inner) break;
  }
  return best;
}

}  // namespace skerry::bench

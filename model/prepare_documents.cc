#include "model/prepare_documents.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/status.h"
#include "model/prepare_state.h"
#include "model/source_mix.h"
#include "model/token_shuffle.h"

namespace skerry {
namespace {

constexpr double kShareOfReading = 0.8;  // of the time of a preparation that shuffles

absl::Status CheckOptions(const std::vector<std::string>& inputs,
                          const PrepareDocumentsOptions& options) {
  if (!(options.validation_share >= 0 && options.validation_share <= 0.5)) {
    return InvalidArgument("validation share: %g is outside 0 to 0.5", options.validation_share);
  }
  if (options.weights.empty()) return absl::OkStatus();
  if (options.weights.size() != inputs.size()) {
    return InvalidArgument("want a weight for each of %d inputs, got %d", inputs.size(),
                           options.weights.size());
  }
  for (const double weight : options.weights) {
    if (!(weight > 0 && std::isfinite(weight)))
      return InvalidArgument("weight %g: want > 0", weight);
  }
  if (options.passes_max < 1) return InvalidArgument("passes: want 1 or more");
  if (std::find(inputs.begin(), inputs.end(), kStandardInput) != inputs.end()) {
    return InvalidArgument(
        "inputs with weights may be read again, standard input cannot: put it "
        "into a file");
  }
  return absl::OkStatus();
}

std::vector<int64_t> Numbers(const UnitSource::Position& at) {
  return {at.pass, at.file, at.unit, at.seen, at.held_out, at.tokens, at.text};
}

UnitSource::Position PositionOf(const std::vector<int64_t>& n) {
  return n.size() == 7 ? UnitSource::Position{n[0], n[1], n[2], n[3], n[4], n[5], n[6]}
                       : UnitSource::Position{0, -1, 0, 0, 0, 0, 0};
}

// Reads the mix into the writer, or into the shuffle and from there into the writer.
class Preparation {
 public:
  Preparation(SourceMix mix, std::string directory, const PrepareDocumentsOptions& options)
      : mix_(std::move(mix)), directory_(std::move(directory)), options_(options) {}

  // `request` is empty if it cannot be gone on with.
  absl::Status Begin(const std::string& request, int32_t vocab) {
    SKERRY_ASSIGN_OR_RETURN(writer_,
                            TokenDatasetWriter::Create(directory_, vocab, options_.shard_tokens,
                                                       options_.tokenizer_digest));
    if (options_.shuffle.has_value()) {
      shuffle_ = std::make_unique<TokenShuffle>(directory_ + "/shuffle", *options_.shuffle,
                                                writer_->token_bytes(), options_.shuffle_bytes_max);
    }
    request_ = request;
    SKERRY_ASSIGN_OR_RETURN(auto state, LoadPrepareState(directory_, request));
    if (state.has_value()) return GoOn(*std::move(state));
    if (shuffle_ != nullptr) shuffle_->RemoveAll();
    return absl::OkStatus();
  }

  absl::Status Run() {
    if (bucket_ == 0) SKERRY_RETURN_IF_ERROR(Read());
    if (shuffle_ != nullptr) SKERRY_RETURN_IF_ERROR(Emit());
    SKERRY_RETURN_IF_ERROR(writer_->Finish());
    RemovePrepareState(directory_);
    if (shuffle_ != nullptr) shuffle_->RemoveAll();
    return absl::OkStatus();
  }

  const SourceMix& mix() const { return mix_; }
  int64_t tokens(Split split) const { return counts_[static_cast<size_t>(split)]; }

 private:
  absl::Status Read() {
    int64_t saved = TextRead();
    while (true) {
      SKERRY_ASSIGN_OR_RETURN(const auto unit, mix_.Next());
      if (!unit.has_value()) break;
      SKERRY_RETURN_IF_ERROR(shuffle_ != nullptr ? shuffle_->Add(*unit)
                                                 : Append(unit->split, unit->tokens));
      Report(shuffle_ == nullptr ? mix_.progress() : kShareOfReading * mix_.progress());
      if (TextRead() - saved < options_.save_every) continue;
      saved = TextRead();
      SKERRY_RETURN_IF_ERROR(Save());
    }
    return absl::OkStatus();
  }

  absl::Status Emit() {
    if (bucket_ == 0) SKERRY_RETURN_IF_ERROR(Save());
    int64_t saved = counts_[0] + counts_[1];
    for (int first = bucket_; bucket_ < TokenShuffle::kBuckets;) {
      SKERRY_RETURN_IF_ERROR(shuffle_->Emit(
          bucket_++,
          [this](Split split, std::span<const int32_t> tokens) { return Append(split, tokens); }));
      Report(kShareOfReading + (1 - kShareOfReading) * bucket_ / TokenShuffle::kBuckets);
      if (counts_[0] + counts_[1] - saved < options_.save_every / 4) continue;
      saved = counts_[0] + counts_[1];
      SKERRY_RETURN_IF_ERROR(Save());
      while (first < bucket_) shuffle_->Remove(first++);
    }
    return absl::OkStatus();
  }

  absl::Status Append(Split split, std::span<const int32_t> tokens) {
    counts_[static_cast<size_t>(split)] += static_cast<int64_t>(tokens.size());
    return writer_->Append(split, tokens);
  }

  absl::Status Save() {
    std::vector<int64_t> lengths;
    if (shuffle_ != nullptr) {
      SKERRY_ASSIGN_OR_RETURN(lengths, shuffle_->Flush());
      std::fill_n(lengths.begin(), bucket_, 0);
    }
    if (request_.empty()) return absl::OkStatus();
    PrepareState state{request_, {}, writer_->standing()};
    state.numbers["tokens"] = {counts_[0], counts_[1]};
    for (size_t i = 0; i < mix_.sources().size(); ++i) {
      state.numbers[SourceName(i)] = Numbers(mix_.sources()[i].source.position());
    }
    if (shuffle_ != nullptr) {
      state.numbers["shuffle"] = {shuffle_->units(), bucket_};
      state.numbers["lengths"] = std::move(lengths);
    }
    return SavePrepareState(directory_, state);
  }

  absl::Status GoOn(PrepareState state) {
    const auto damaged =
        DataLoss("%s: its state is damaged; remove it and begin again", directory_);
    auto& counts = state.numbers["tokens"];
    if (counts.size() != 2) return damaged;
    std::copy(counts.begin(), counts.end(), counts_);
    std::vector<UnitSource::Position> positions;
    for (size_t i = 0; i < mix_.sources().size(); ++i) {
      positions.push_back(PositionOf(state.numbers[SourceName(i)]));
    }
    if (shuffle_ != nullptr) {
      const auto& shuffle = state.numbers["shuffle"];
      if (shuffle.size() != 2) return damaged;
      SKERRY_RETURN_IF_ERROR(shuffle_->GoTo(shuffle[0], state.numbers["lengths"]));
      bucket_ = static_cast<int>(shuffle[1]);
    }
    SKERRY_RETURN_IF_ERROR(mix_.GoTo(positions));
    is_resumed_ = true;
    SKERRY_ASSIGN_OR_RETURN(writer_, TokenDatasetWriter::Resume(directory_, options_.shard_tokens,
                                                                std::move(state.written)));
    return absl::OkStatus();
  }

  static std::string SourceName(size_t i) { return "source " + std::to_string(i); }
  int64_t SumOf(int64_t UnitSource::Position::*what) const {
    int64_t sum = 0;
    for (const WeightedSource& s : mix_.sources()) sum += s.source.position().*what;
    return sum;
  }
  int64_t TextRead() const { return SumOf(&UnitSource::Position::text); }

  void Report(double share) const {
    if (!options_.progress) return;
    options_.progress({share, TextRead(), SumOf(&UnitSource::Position::tokens), is_resumed_});
  }

  SourceMix mix_;
  std::string directory_;
  const PrepareDocumentsOptions& options_;
  std::string request_;
  std::unique_ptr<TokenDatasetWriter> writer_;
  std::unique_ptr<TokenShuffle> shuffle_;
  int bucket_ = 0;              // of the shuffle, the next to be written; > 0: all is read
  int64_t counts_[2] = {0, 0};  // tokens by Split
  bool is_resumed_ = false;
};

absl::StatusOr<SourceMix> MixOf(const std::vector<std::string>& inputs, TextTokenizer& tokenizer,
                                const PrepareDocumentsOptions& options) {
  const UnitOptions units{{options.field, options.is_json_lines},
                          options.validation_share,
                          options.shuffle.has_value()};
  std::vector<WeightedSource> sources;
  if (options.weights.empty()) {
    SKERRY_ASSIGN_OR_RETURN(auto files, FilesOf(inputs));
    sources.push_back({UnitSource(std::move(files), &tokenizer, units), 1});
  }
  for (size_t i = 0; i < options.weights.size(); ++i) {
    SKERRY_ASSIGN_OR_RETURN(auto files, FilesOf({inputs[i]}));
    sources.push_back({UnitSource(std::move(files), &tokenizer, units), options.weights[i]});
  }
  return SourceMix(std::move(sources), options.passes_max);
}

std::string RequestOf(const std::vector<std::string>& inputs, const SourceMix& mix, int32_t vocab,
                      const PrepareDocumentsOptions& options) {
  if (std::find(inputs.begin(), inputs.end(), kStandardInput) != inputs.end()) return "";
  std::vector<std::string> files;
  for (const WeightedSource& s : mix.sources()) {
    files.insert(files.end(), s.source.files().begin(), s.source.files().end());
  }
  return RequestDigest(
      {"documents 1", options.tokenizer_digest, std::to_string(vocab), options.field,
       options.is_json_lines ? "lines" : "", absl::StrFormat("%.17g", options.validation_share),
       std::to_string(options.shard_tokens), absl::StrJoin(options.weights, ","),
       std::to_string(options.passes_max),
       options.shuffle.has_value() ? std::to_string(*options.shuffle) : "",
       absl::StrJoin(inputs, "\n")},
      files);
}

}  // namespace

absl::StatusOr<PreparedDocuments> PrepareDocuments(const std::vector<std::string>& inputs,
                                                   const std::string& directory,
                                                   TextTokenizer& tokenizer,
                                                   const PrepareDocumentsOptions& options) {
  SKERRY_RETURN_IF_ERROR(CheckOptions(inputs, options));
  SKERRY_ASSIGN_OR_RETURN(SourceMix mix, MixOf(inputs, tokenizer, options));
  const std::string request = RequestOf(inputs, mix, tokenizer.vocab(), options);
  Preparation preparation(std::move(mix), directory, options);
  SKERRY_RETURN_IF_ERROR(preparation.Begin(request, tokenizer.vocab()));
  const absl::Status done = preparation.Run();
  if (!done.ok()) return done;
  PreparedDocuments result;
  result.train_tokens = preparation.tokens(Split::kTrain);
  result.validation_tokens = preparation.tokens(Split::kValidation);
  for (size_t i = 0; i < options.weights.size(); ++i) {
    const UnitSource& source = preparation.mix().sources()[i].source;
    const double passes = static_cast<double>(source.position().pass) + source.progress();
    result.sources.push_back({inputs[i], passes, source.position().tokens});
  }
  return result;
}

}  // namespace skerry

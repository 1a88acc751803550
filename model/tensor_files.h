// The tensors of a Hugging Face directory: model.safetensors, or several files that
// model.safetensors.index.json lists:
//
//   { "metadata": {"total_size": bytes}, "weight_map": {"TENSOR": "FILE", …} }
//
// Hostile until proven otherwise, as a single file is: names of files are plain, every listed
// tensor is in its file, and no file has a tensor that is listed elsewhere or not at all.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/parameter_layout.h"
#include "model/safetensors.h"

namespace skerry {

inline constexpr char kWeightsFile[] = "model.safetensors";
inline constexpr char kWeightsIndex[] = "model.safetensors.index.json";

// Norms and biases are vectors there, one-column matrices here.
std::vector<int64_t> StoredShape(const TensorSlot& slot);

class TensorFiles {
 public:
  // Maps the files; reads headers only.
  static absl::StatusOr<std::unique_ptr<TensorFiles>> Open(const std::string& directory);

  // The files hold the layout's tensors in their shapes and no others. Left-overs that carry
  // nothing are let pass: rotary_emb.inv_freq, and the head of a tied model where it is the
  // embedding, value by value.
  absl::Status CheckAgainst(const ParameterLayout& layout) const;

  // After CheckAgainst: the values of a tensor, in pieces of bounded size, one after the other.
  // InvalidArgument names the tensor that has a value that is not finite.
  absl::Status ForEachPiece(const TensorSlot& slot,
                            const std::function<absl::Status(std::span<const float>)>& take) const;

 private:
  TensorFiles() = default;
  absl::Status Add(const std::string& directory, const std::string& name);
  absl::Status AddListed(const std::string& directory);
  bool CarriesNothing(const std::string& name, const StoredTensor& tensor,
                      const ParameterLayout& layout) const;

  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const SafetensorsFile*> holder_;  // by tensor
  std::string path_;                                      // of the file or the index
};

}  // namespace skerry

// `skerry-node evaluate | generate | reference`: what a trained model is worth, on this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/device_split.h"
#include "node/device_choice.h"

namespace skerry {

struct EvaluateOptions {
  std::string model;         // a Hugging Face directory; or
  bool initial = false;      // the model of `config` before training
  std::string config;        // run.toml
  std::string data;          // prepared token shards; or
  std::string text;          // a file of text, for the model's tokenizer
  int64_t windows_max = 64;  // of the validation split, or of the text
  int32_t stages = 0;        // > 0: also with some of so many left out
  uint64_t seed = 1;         // of which
  int32_t context = 0;       // tokens a window; 0: the model's, 1024 at most
  DeviceWish device = DeviceWish::kCpu;
  int threads = 1;
  bool json = false;
};
absl::Status EvaluateModel(const EvaluateOptions& options);

// Prints the logits of every token as JSON, a list for each: to compare with other programs.
struct LogitsOptions {
  std::string model;
  std::vector<int32_t> tokens;
  int threads = 1;
};
absl::Status PrintLogits(const LogitsOptions& options);

struct GenerateOptions {
  std::string model;
  std::string prompt;
  int64_t tokens = 200;
  int32_t context = 0;  // tokens that the model sees; as above
  float temperature = 0.8f;
  uint64_t seed = 1;
  DeviceWish device = DeviceWish::kCpu;
  int threads = 1;
};
absl::Status GenerateFromModel(const GenerateOptions& options);

struct ReferenceOptions {
  std::string config, data;
  std::string from;  // a Hugging Face directory to begin with; "": anew
  std::string out;   // also write the model here; "" for not
  int64_t windows_max = 64;
  DeviceWish device = DeviceWish::kCpu;
  std::string devices;  // several as one, as for `join`
  DeviceSplit split = DeviceSplit::kSequences;
  int threads = 1;
  bool json = false;
};
// Trains the run's model in this one process on the same tokens, every microbatch through every
// layer, and evaluates it.
absl::Status TrainReference(const ReferenceOptions& options);

}  // namespace skerry

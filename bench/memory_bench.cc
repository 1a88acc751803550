// The memory model (pipeline/plan/memory_model.h) against what production stages take from the
// heap, over shapes of every kind. Goal: each within 5 %.
#include <cmath>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "bench/replica_bytes.h"
#include "bench/stage_exercise.h"

namespace skerry::bench {
namespace {

constexpr double kGoalPercent = 5;

struct Named {
  std::string name;
  StageCase shape;
};

Named Shape(std::string name, int32_t hidden, int32_t layers, bool holds_ends) {
  StageCase shape;
  TransformerConfig& model = shape.config.model;
  model.vocab = 4096;
  model.hidden = hidden;
  model.heads = hidden / 64;
  model.kv_heads = hidden / 128;
  model.ffn = hidden * 8 / 3 / 32 * 32;
  model.context = 128;
  model.layers = layers + 1;
  shape.config.pipeline.sequences_per_microbatch = 1;
  shape.layers = layers;
  shape.holds_ends = holds_ends;
  shape.first_replicas = 2;
  shape.replicas = 2;
  return {std::move(name), shape};
}

std::vector<Named> Shapes() {
  std::vector<Named> shapes;
  shapes.push_back(Shape("1 layer of 512, int8", 512, 1, false));
  shapes.push_back(Shape("3 layers of 256, both ends", 256, 3, true));
  shapes.push_back(Shape("6 layers of 128, both ends", 128, 6, true));
  shapes.push_back(Shape("4 layers of 256, SGD", 256, 4, false));
  shapes.back().shape.config.inner.optimizer = InnerOptimizer::kSgd;
  shapes.push_back(Shape("4 layers of 256, Muon", 256, 4, false));
  shapes.back().shape.config.inner.optimizer = InnerOptimizer::kMuon;
  shapes.push_back(Shape("2 layers of 128, 8 sequences", 128, 2, false));
  shapes.back().shape.config.pipeline.sequences_per_microbatch = 8;
  shapes.push_back(Shape("2 layers of 256, window of 8", 256, 2, false));
  shapes.back().shape.config.pipeline.in_flight = 8;
  shapes.back().shape.config.pipeline.microbatches_per_step = 16;
  shapes.push_back(Shape("2 layers of 256, residual in weights", 256, 2, false));
  shapes.back().shape.config.outer.residual = ResidualPlace::kWeights;
  shapes.push_back(Shape("2 layers of 256, 8 replicas, float32", 256, 2, false));
  shapes.back().shape.config.outer.codec = DeltaCodec::kNone;
  shapes.back().shape.replicas = 8;
  shapes.push_back(Shape("2 layers of 256, 8 replicas, ternary", 256, 2, false));
  shapes.back().shape.config.outer.codec = DeltaCodec::kTernary;
  shapes.back().shape.replicas = 8;
  shapes.push_back(Shape("2 layers of 256, 4 replicas, topk", 256, 2, false));
  shapes.back().shape.config.outer.codec = DeltaCodec::kTopK;
  shapes.back().shape.replicas = 4;
  shapes.push_back(Shape("1 layer of 512, both ends, alone", 512, 1, true));
  shapes.back().shape.replicas = shapes.back().shape.first_replicas = 1;
  shapes.back().shape.config.pipeline.in_flight = 1;
  shapes.push_back(Shape("6 layers of 128, 8 sequences, recomputed", 128, 6, false));
  shapes.back().shape.config.pipeline.sequences_per_microbatch = 8;
  shapes.back().shape.recomputed = 6;
  shapes.push_back(Shape("4 layers of 256, both ends, 2 recomputed", 256, 4, true));
  shapes.back().shape.config.pipeline.sequences_per_microbatch = 4;
  shapes.back().shape.recomputed = 2;
  // Of two devices: all that both have.
  const auto wide = [&](const std::string& how, int32_t devices, DeviceSplit split) {
    shapes.push_back(Shape("1 layer of 1024, 2 sequences, " + how, 1024, 1, false));
    shapes.back().shape.config.pipeline.sequences_per_microbatch = 2;
    shapes.back().shape.devices = devices;
    shapes.back().shape.split = split;
  };
  wide("one device", 1, DeviceSplit::kSequences);
  wide("two that share sequences", 2, DeviceSplit::kSequences);
  wide("two that share tensors", 2, DeviceSplit::kTensors);
  const auto ends = [&](const std::string& how, int32_t devices, DeviceSplit split) {
    shapes.push_back(Shape("1 layer of 512, 32k tokens, " + how, 512, 1, true));
    shapes.back().shape.config.model.vocab = 32768;
    shapes.back().shape.config.pipeline.sequences_per_microbatch = 4;
    shapes.back().shape.devices = devices;
    shapes.back().shape.split = split;
  };
  ends("one device", 1, DeviceSplit::kSequences);
  ends("two that share sequences", 2, DeviceSplit::kSequences);
  ends("two that share tensors", 2, DeviceSplit::kTensors);
  ends("four that share tensors", 4, DeviceSplit::kTensors);
  return shapes;
}

// Of the outer rounds alone, beside weights and inner optimizer. Goals are of steps without
// momentum, which adds 4.
void MeasureReplicas(Bench& bench) {
  struct Row {
    const char* name;
    DeltaCodec codec;
    ResidualPlace residual;
    double goal;
    float momentum = 0;
  };
  for (const Row& row :
       {Row{"ternary, rest in the weights", DeltaCodec::kTernary, ResidualPlace::kWeights, 4.5},
        Row{"int8, residual buffer", DeltaCodec::kInt8, ResidualPlace::kBuffer, 8},
        Row{"ternary, residual buffer", DeltaCodec::kTernary, ResidualPlace::kBuffer, 8},
        Row{"ternary, rest in the weights, momentum", DeltaCodec::kTernary, ResidualPlace::kWeights,
            8.5, 0.6f}}) {
    const ReplicaBytes bytes = MeasureReplica(row.codec, row.residual, row.momentum);
    const std::string of = std::string("a replica's rounds, ") + row.name;
    bench.Record(of + ": before the first", bytes.fresh, "byte/parameter");
    bench.AtMost(of + ": between rounds", bytes.between, "byte/parameter", row.goal);
    bench.AtMost(of + ": in a round, at most", bytes.most, "byte/parameter", row.goal);
  }
}

int Run(int argc, char** argv) {
  Bench bench("memory", argc, argv);
  double books_least = 1;
  for (const Named& named : Shapes()) {
    const auto bytes = MeasureStage(named.shape);
    if (!bytes.ok()) {
      std::fprintf(stderr, "%s: %s\n", named.name.c_str(), bytes.status().ToString().c_str());
      return 2;
    }
    const auto heap = static_cast<double>(bytes->heap);
    bench.Record(named.name + ": heap", heap / (1 << 20), "MiB");
    bench.AtMost(named.name + ": off by", 100 * std::abs(bytes->error()), "%", kGoalPercent);
    books_least = std::min(books_least, static_cast<double>(bytes->stage) / heap);
  }
  bench.Record("stage's own books, at least", 100 * books_least, "% of it");
  MeasureReplicas(bench);
  return bench.Finish();
}

}  // namespace
}  // namespace skerry::bench

int main(int argc, char** argv) {
  return skerry::bench::Run(argc, argv);
}

// The model by its formulas, in float64, a token at a time: nothing is shared with what it judges.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "common/run_config.h"
#include "model/parameter_layout.h"

namespace skerry {

class PlainModel {
 public:
  using Row = std::vector<double>;
  using Rows = std::vector<Row>;  // a row for each token

  PlainModel(const TransformerConfig& config, const std::vector<float>& parameters)
      : config_(config), layout_(ParameterLayout::ForModel(config)), values_(parameters) {}

  // Mean cross-entropy over sequences of config.context tokens.
  double Loss(const std::vector<int32_t>& tokens, const std::vector<int32_t>& targets) const {
    const auto context = static_cast<size_t>(config_.context);
    double sum = 0;
    for (size_t at = 0; at < tokens.size(); at += context) {
      const auto from = tokens.begin() + static_cast<ptrdiff_t>(at);
      const Rows logits = Logits({from, from + config_.context});
      for (size_t t = 0; t < context; ++t) {
        double all = 0;
        for (const double logit : logits[t]) all += std::exp(logit);
        sum += std::log(all) - logits[t][static_cast<size_t>(targets[at + t])];
      }
    }
    return sum / static_cast<double>(tokens.size());
  }

  Rows Logits(const std::vector<int32_t>& tokens) const {
    const TensorSlot& table = Slot("model.embed_tokens.weight");
    Rows x;
    for (const int32_t token : tokens) {
      Row row;
      for (int64_t i = 0; i < table.columns; ++i) row.push_back(At(table, token, i));
      x.push_back(row);
    }
    if (config_.ladder == 0) {
      for (int32_t half = 0; half < 2 * config_.layers; ++half) Add(HalfOf(half, x), x);
    } else {
      for (int32_t first = 0; first < 2 * config_.layers; first += 2 * config_.ladder) {
        x = LadderOf(first, 2 * config_.ladder, x);
      }
    }
    return Times(Normed(x, "model.norm.weight"),
                 config_.tied_head ? "model.embed_tokens.weight" : "lm_head.weight");
  }

 private:
  // r_h = r_{h−1} + half_{h−1}(r_{h−2}), where every r before the first is the input.
  Rows LadderOf(int32_t first, int32_t halves, const Rows& input) const {
    std::vector<Rows> r = {input};
    for (int32_t h = 0; h < halves; ++h) {
      Rows next = r.back();
      Add(HalfOf(first + h, r[r.size() < 2 ? 0 : r.size() - 2]), next);
      r.push_back(next);
    }
    return r.back();
  }

  Rows HalfOf(int32_t half, const Rows& x) const {
    const std::string layer = "model.layers." + std::to_string(half / 2) + ".";
    if (half % 2 == 0) return Attention(layer, Normed(x, layer + "input_layernorm.weight"));
    const Rows b = Normed(x, layer + "post_attention_layernorm.weight");
    Rows inner = Times(b, layer + "mlp.gate_proj.weight");
    const Rows up = Times(b, layer + "mlp.up_proj.weight");
    for (size_t t = 0; t < inner.size(); ++t) {
      for (size_t i = 0; i < inner[t].size(); ++i) {
        inner[t][i] *= up[t][i] / (1 + std::exp(-inner[t][i]));
      }
    }
    return Times(inner, layer + "mlp.down_proj.weight");
  }

  Rows Attention(const std::string& layer, const Rows& a) const {
    const auto size = static_cast<size_t>(config_.head_size());
    const auto heads = static_cast<size_t>(config_.heads);
    const auto shared = heads / static_cast<size_t>(config_.kv_heads);
    const Rows q = Rotated(Times(a, layer + "self_attn.q_proj.weight"));
    const Rows k = Rotated(Times(a, layer + "self_attn.k_proj.weight"));
    const Rows v = Times(a, layer + "self_attn.v_proj.weight");
    Rows out(a.size(), Row(heads * size));
    for (size_t t = 0; t < a.size(); ++t) {
      for (size_t h = 0; h < heads; ++h) {
        const size_t own = h * size, of = h / shared * size;
        Row weights;
        double all = 0;
        for (size_t s = 0; s <= t; ++s) {
          double score = 0;
          for (size_t i = 0; i < size; ++i) score += q[t][own + i] * k[s][of + i];
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(size))));
          all += weights.back();
        }
        for (size_t s = 0; s <= t; ++s) {
          for (size_t i = 0; i < size; ++i) out[t][own + i] += weights[s] / all * v[s][of + i];
        }
      }
    }
    return Times(out, layer + "self_attn.o_proj.weight");
  }

  Rows Rotated(Rows x) const {
    const auto size = static_cast<size_t>(config_.head_size());
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t head = 0; head < x[t].size(); head += size) {
        for (size_t i = 0; i < size / 2; ++i) {
          const double angle = static_cast<double>(t) *
                               std::pow(config_.rope_base,
                                        -2.0 * static_cast<double>(i) / static_cast<double>(size));
          double &a = x[t][head + i], &b = x[t][head + size / 2 + i];
          const double turned = a * std::cos(angle) - b * std::sin(angle);
          b = a * std::sin(angle) + b * std::cos(angle);
          a = turned;
        }
      }
    }
    return x;
  }

  Rows Normed(Rows x, const std::string& name) const {
    const TensorSlot& weight = Slot(name);
    for (Row& row : x) {
      double squares = 0;
      for (const double value : row) squares += value * value;
      const double mean = squares / static_cast<double>(row.size());
      for (size_t i = 0; i < row.size(); ++i) {
        row[i] *= At(weight, static_cast<int64_t>(i), 0) /
                  std::sqrt(mean + static_cast<double>(config_.norm_epsilon));
      }
    }
    return x;
  }

  Rows Times(const Rows& x, const std::string& name) const {
    const TensorSlot& weight = Slot(name);
    Rows out;
    for (const Row& row : x) {
      out.emplace_back();
      for (int64_t r = 0; r < weight.rows; ++r) {
        double sum = 0;
        for (int64_t c = 0; c < weight.columns; ++c) {
          sum += At(weight, r, c) * row[static_cast<size_t>(c)];
        }
        out.back().push_back(sum);
      }
    }
    return out;
  }

  static void Add(const Rows& what, Rows& to) {
    for (size_t t = 0; t < to.size(); ++t) {
      for (size_t i = 0; i < to[t].size(); ++i) to[t][i] += what[t][i];
    }
  }

  const TensorSlot& Slot(const std::string& name) const {
    const TensorSlot* slot = layout_.Find(name);
    INFO(name);
    REQUIRE(slot != nullptr);
    return *slot;
  }
  double At(const TensorSlot& slot, int64_t row, int64_t column) const {
    return values_[static_cast<size_t>(slot.offset + row * slot.columns + column)];
  }

  TransformerConfig config_;
  ParameterLayout layout_;
  std::vector<float> values_;
};

}  // namespace skerry

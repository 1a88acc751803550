// Kernels that go row by row over the tokens: RMSNorm, RoPE, cross-entropy.
#pragma once

#include <cstdint>

namespace skerry {
namespace {

inline float DotProduct(const float* a, const float* b, int64_t n) {
  Lanes sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int j = 0; j < 4; ++j)
      sums[j] = MultiplyAdd(Load(a + i + j * kLanes), Load(b + i + j * kLanes), sums[j]);
  }
  ForLanes(n - i, [&](int64_t at, auto load, auto) {
    sums[0] = MultiplyAdd(load(a + i + at), load(b + i + at), sums[0]);
  });
  return SumOf((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

template <typename T>
void RmsNormForward(const RmsNormForwardArgs<T>& args) {
  for (int64_t t = 0; t < args.rows; ++t) {
    const float* x = args.x + t * args.width;
    if (args.addend != nullptr) {
      const float* addend = args.addend + t * args.width;
      float* sum = args.sum + t * args.width;
      ForLanes(args.width, [&](int64_t i, auto load, auto store) {
        store(sum + i, load(x + i) + load(addend + i));
      });
      x = sum;
    }
    T* out = args.out + t * args.width;
    const float mean = DotProduct(x, x, args.width) / static_cast<float>(args.width);
    const float inverse = 1 / __builtin_sqrtf(mean + args.epsilon);
    args.inverse_rms[t] = inverse;
    ForLanes(args.width, [&](int64_t i, auto load, auto store) {
      store(out + i, load(x + i) * inverse * load(args.weight + i));
    });
  }
}

// With y = x·r·w and r = (mean x² + ε)^(−1/2): ∂x += r·w·∂y − x·r³/d·Σ(w·∂y·x); ∂w += ∂y·x·r.
template <typename T>
void RmsNormBackward(const RmsNormBackwardArgs<T>& args) {
  const float* weight = args.weight;
  for (int64_t t = 0; t < args.rows; ++t) {
    const float* x = args.x + t * args.width;
    const T* d_out = args.d_out + t * args.width;
    float *d_x = args.d_x + t * args.width, *d_weight = args.d_weight;
    const float inverse = args.inverse_rms[t];
    Lanes sum = {};
    ForLanes(args.width, [&](int64_t i, auto load, auto store) {
      const Lanes product = load(d_out + i) * load(x + i);
      sum = MultiplyAdd(product, load(weight + i), sum);
      store(d_weight + i, MultiplyAdd(product, Spread(inverse), load(d_weight + i)));
    });
    const float shrink = -inverse * inverse * inverse * SumOf(sum) / static_cast<float>(args.width);
    ForLanes(args.width, [&](int64_t i, auto load, auto store) {
      const Lanes through = MultiplyAdd(load(x + i), Spread(shrink), load(d_x + i));
      const Lanes d = MultiplyAdd(load(d_out + i) * inverse, load(weight + i), through);
      store(d_x + i, d);
      if (args.rounded != nullptr) store(args.rounded + t * args.width + i, d);
    });
  }
}

template <typename T>
void Rope(const RopeArgs<T>& args) {
  const int64_t half = args.head_size / 2;
  const float sign = args.inverse ? -1.0f : 1.0f;
  for (int64_t t = 0; t < args.rows; ++t) {
    const int64_t position = (args.first_row + t) % args.context;
    const float *cosines = args.cosines + position * half, *sines = args.sines + position * half;
    for (int64_t first = 0; first < args.columns; first += args.head_size) {
      T* low = args.x + t * args.step + first;
      T* high = low + half;
      ForLanes(half, [&](int64_t i, auto load, auto store) {
        FetchNextRow(low + i, args.step);
        FetchNextRow(high + i, args.step);
        const Lanes a = load(low + i), b = load(high + i);
        const Lanes c = load(cosines + i), s = load(sines + i) * sign;
        store(low + i, MultiplyAdd(a, c, -b * s));
        store(high + i, MultiplyAdd(b, c, a * s));
      });
    }
  }
}

inline float LargestOfRow(const float* row, int64_t n) {
  // Several, as comparisons wait for each other.
  Lanes tops[4] = {Spread(row[0]), Spread(row[0]), Spread(row[0]), Spread(row[0])};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) tops[j] = Larger(Load(row + i + j * kLanes), tops[j]);
  }
  for (; i + kLanes <= n; i += kLanes) tops[0] = Larger(Load(row + i), tops[0]);
  float largest = LargestOf(Larger(Larger(tops[0], tops[1]), Larger(tops[2], tops[3])));
  for (; i < n; ++i) largest = largest > row[i] ? largest : row[i];
  return largest;
}

// Σ e^(x − top) in vectors; the last partial vector leaves its idle lanes out. Rows lie one after
// another: arithmetic on this one is time to fetch the next, and what will be `written`, unless it
// is nullptr.
template <typename T>
float SumOfExponentials(const float* row, int64_t n, float top, float* kept, const T* written) {
  Lanes sum = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    __builtin_prefetch(row + n + i);
    if (written != nullptr) __builtin_prefetch(written + i, 1);
    const Lanes e = Exp(Load(row + i) - top);
    if (kept != nullptr) Store(kept + i, e);
    sum += e;
  }
  float total = SumOf(sum);
  const Lanes rest = Exp(LoadSome(row + i, n - i) - top);
  if (kept != nullptr) StoreSome(kept + i, rest, n - i);
  for (int64_t l = 0; l < n - i; ++l) total += rest[l];
  return total;
}

// A row's logits: Σ e^logit = sum · e^top, and the target's.
struct LogitTotals {
  float top, sum, aim;
};

inline LogitTotals RowOfParts(const float* statistics, int64_t parts, int64_t step) {
  LogitTotals of = {statistics[0], 0, 0};
  for (int64_t p = 1; p < parts; ++p) {
    const float top = statistics[3 * p * step];
    of.top = of.top > top ? of.top : top;
  }
  double sum = 0;
  for (int64_t p = 0; p < parts; ++p) {
    const float* const part = statistics + 3 * p * step;
    sum += part[step] * __builtin_exp(static_cast<double>(part[0]) - of.top);
    of.aim += part[2 * step];
  }
  of.sum = static_cast<float>(sum);
  return of;
}

inline void LogitStatistics(const LogitStatisticsArgs& args) {
  const int64_t n = args.vocabulary;
  for (int64_t t = 0; t < args.rows; ++t) {
    const float* const row = args.logits + t * n;
    const int32_t target = args.targets[t];
    args.tops[t] = LargestOfRow(row, n);
    args.sums[t] = SumOfExponentials<float>(row, n, args.tops[t], nullptr, nullptr);
    args.aims[t] = target < 0 ? 0 : row[target];
  }
}

// kept ← e^(logit − top), where that has not been made beside their sum.
inline void KeepExponentials(const float* row, int64_t n, float top, float* kept) {
  ForLanes(n, [&](int64_t i, auto load, auto store) { store(kept + i, Exp(load(row + i) - top)); });
}

template <typename T>
void CrossEntropy(const CrossEntropyArgs<T>& args) {
  const int64_t n = args.vocabulary;
  for (int64_t t = 0; t < args.rows; ++t) {
    float* const row = args.logits + t * n;
    T* const gradient = args.d_logits == nullptr ? nullptr : args.d_logits + t * n;
    // In place, or all in the first row, which stays in the cache: kept where they were read, they
    // would go to memory with every row.
    const bool in_place = static_cast<const void*>(args.d_logits) == args.logits;
    float* const kept = gradient == nullptr ? nullptr : in_place ? row : args.logits;
    const int32_t target = args.targets[t];
    LogitTotals of = {};
    if (args.parts > 0) {
      of = RowOfParts(args.statistics + t, args.parts, args.step);
      if (kept != nullptr) KeepExponentials(row, n, of.top, kept);
    } else {
      of.top = LargestOfRow(row, n);
      of.aim = row[target];
      of.sum = SumOfExponentials(row, n, of.top, kept, in_place ? nullptr : gradient);
    }
    const auto [top, sum, aim] = of;
    const double log_sum = __builtin_log(static_cast<double>(sum)), lse = log_sum + top;
    const double loss = log_sum + (static_cast<double>(top) - aim);
    args.losses[t] = static_cast<float>(loss + args.z_loss * lse * lse);
    if (gradient == nullptr) continue;
    const float more = 1 + 2 * args.z_loss * static_cast<float>(lse);
    const float scale = args.scale / sum * more;
    const float at_target = target < 0 ? 0 : kept[target] * scale - args.scale;
    ForLanes(
        n, [&](int64_t i, auto load, auto store) { store(gradient + i, load(kept + i) * scale); });
    if (target < 0) continue;
    ForLanes(1, [&](int64_t, auto, auto store) { store(gradient + target, Spread(at_target)); });
  }
}

}  // namespace
}  // namespace skerry

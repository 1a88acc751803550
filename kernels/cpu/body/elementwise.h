// Kernels that treat every element alike, and the sum over all of them.
#pragma once

#include <cstdint>

namespace skerry {
namespace {

// 1 / (1 + e^−x); past kExpHigh it is as small as a normal float32 gets. T: what is made of it. For
// bf16 there is a shorter one (bf16_math.h).
template <typename T>
[[gnu::always_inline]] inline Lanes Sigmoid(Lanes x) {
  return 1.0f / (1.0f + ExpOrLeast(Lower(-x, Spread(kExpHigh))));
}

template <typename T>
void SwigluForward(const T* gate_up, T* out, int64_t ffn) {
  ForLanes(ffn, [&](int64_t i, auto load, auto store) {
    FetchNextRow(gate_up + i, 2 * ffn);
    FetchNextRow(gate_up + ffn + i, 2 * ffn);
    const Lanes gate = load(gate_up + i);
    store(out + i, gate * Sigmoid<T>(gate) * load(gate_up + ffn + i));
  });
}

template <typename T>
void SwigluBackward(const T* gate_up, const T* d_out, T* d_gate_up, int64_t ffn) {
  ForLanes(ffn, [&](int64_t i, auto load, auto store) {
    FetchNextRow(gate_up + i, 2 * ffn);
    FetchNextRow(gate_up + ffn + i, 2 * ffn);
    FetchNextRow(d_out + i, ffn);
    const Lanes gate = load(gate_up + i), up = load(gate_up + ffn + i), d = load(d_out + i);
    const Lanes sigmoid = Sigmoid<T>(gate);
    const Lanes slope = MultiplyAdd(gate, 1.0f - sigmoid, Spread(1));
    store(d_gate_up + i, d * up * sigmoid * slope);
    store(d_gate_up + ffn + i, d * gate * sigmoid);
  });
}

// Between float32 and the type of storage, either way.
template <typename From, typename To>
void Convert(const From* x, To* y, int64_t n) {
  ForLanes(n, [&](int64_t i, auto load, auto store) { store(y + i, load(x + i)); });
}

void Add(const float* x, float* y, int64_t n) {
  ForLanes(n, [&](int64_t i, auto load, auto store) { store(y + i, load(y + i) + load(x + i)); });
}

// Float64 sums, element i into sum i mod 32, then added in order: additions wait for each other, so
// that one vector of them would be slower than memory. A float32 squared is exact in float64, so
// every instruction set gives the same bits.
double SumOfSquares(const float* x, int64_t n) {
  constexpr int kSums = 32;
  Doubles sums[kSums / kDoubles] = {};
  int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    FetchAhead(x + i);
    FetchAhead(x + i + 16);
#pragma GCC unroll 16
    for (int v = 0; v < kSums / kDoubles; ++v) {
      const Doubles values = LoadDoubles(x + i + kDoubles * v);
      sums[v] += values * values;
    }
  }
  for (int l = 0; i + l < n; ++l)
    sums[l / kDoubles][l % kDoubles] += static_cast<double>(x[i + l]) * x[i + l];
  double total = 0;
  for (int l = 0; l < kSums; ++l) total += sums[l / kDoubles][l % kDoubles];
  return total;
}

// Zero where |x| < least.
inline Lanes Dropped(Lanes x, float least) {
  return Larger(x, -x) < Spread(least) ? Lanes{} : x;
}

// Moments of a row that no token uses any more die away and would stay denormal for ever (0.9 of
// the least is the least again), each a hundred cycles of an Intel processor: 27 times a step's
// time. So they end at zero, far below what ε lets through. v ends so much earlier that |m| ≤ C·√v
// holds (model/joiners_moments.h) for C up to 256, and squares of gradients are no denormals.
constexpr float kLeastGradient = 0x1p-57f, kLeastM = 0x1p-54f, kLeastV = 0x1p-124f;

void AdamW(const AdamWArgs& args) {
  const AdamWArgs a = args;
  ForLanes(a.n, [&](int64_t i, auto load, auto store) {
    const Lanes g = Dropped(load(a.gradient + i) * a.scale, kLeastGradient);
    const Lanes m =
        Dropped(MultiplyAdd(load(a.m + i), Spread(a.beta1), g * a.one_minus_beta1), kLeastM);
    const Lanes v =
        Dropped(MultiplyAdd(load(a.v + i), Spread(a.beta2), g * g * a.one_minus_beta2), kLeastV);
    const Lanes move = m * a.rate / MultiplyAdd(SquareRoot(v), Spread(a.root), Spread(a.epsilon));
    store(a.m + i, m);
    store(a.v + i, v);
    store(a.parameters + i, MultiplyAdd(load(a.parameters + i), Spread(a.keep), -move));
  });
}

void Sgd(float rate, const float* gradient, float* parameters, int64_t n) {
  ForLanes(n, [&](int64_t i, auto load, auto store) {
    store(parameters + i, MultiplyAdd(load(gradient + i), Spread(-rate), load(parameters + i)));
  });
}

}  // namespace
}  // namespace skerry

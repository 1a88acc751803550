// The bodies of the loops of low rank, included like value_loops.h.
#pragma once

// Sums of every 16th, halved together four times; what is left over is added one by one.
float Dot(const float* a, const float* b, size_t n) {
  float sums[16] = {};
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (size_t lane = 0; lane < 16; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (size_t width = 8; width > 0; width /= 2) {
    for (size_t lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
  }
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return sums[0];
}

void AddScaled(float factor, const float* a, size_t n, float* y) {
  for (size_t i = 0; i < n; ++i) y[i] += factor * a[i];
}

void Combine(const float* factors, const int8_t* rows, size_t stride, size_t rank, size_t n,
             float* values) {
  constexpr size_t kTile = 64;
  size_t first = 0;
  for (; first + kTile <= n; first += kTile) {
    float sums[kTile] = {};
    for (size_t k = 0; k < rank; ++k) {
      const int8_t* row = rows + k * stride + first;
      for (size_t i = 0; i < kTile; ++i) sums[i] += factors[k] * static_cast<float>(row[i]);
    }
    for (size_t i = 0; i < kTile; ++i) values[first + i] = sums[i];
  }
  for (; first < n; ++first) {
    float sum = 0;
    for (size_t k = 0; k < rank; ++k) {
      sum += factors[k] * static_cast<float>(rows[k * stride + first]);
    }
    values[first] = sum;
  }
}

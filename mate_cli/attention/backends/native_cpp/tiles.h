// Vectors of floats and products of small matrices that lie in cache, for whatever instructions the compiler may use.

#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#if defined(__AVX512F__)
constexpr int kLanes = 16, kPanelVectors = 4;  // 6 x 4 sums, 4 columns and a number fit 32 registers
#elif defined(__AVX__)
constexpr int kLanes = 8, kPanelVectors = 2;  // 6 x 2 sums fit 16 registers
#else
constexpr int kLanes = 4, kPanelVectors = 4;
#endif
constexpr int kTileRows = 6, kPanel = kLanes * kPanelVectors;
constexpr float kLog2e = 1.44269504f;

typedef float Vec __attribute__((vector_size(kLanes * 4), may_alias));
typedef int32_t IntVec __attribute__((vector_size(kLanes * 4), may_alias));
typedef uint32_t UintVec __attribute__((vector_size(kLanes * 4), may_alias));
using Lanes = std::make_integer_sequence<int, kLanes>;

inline int round_up(int n) { return (n + kLanes - 1) / kLanes * kLanes; }
inline Vec& vec(float* p) { return *reinterpret_cast<Vec*>(p); }
inline const Vec& vec(const float* p) { return *reinterpret_cast<const Vec*>(p); }
inline Vec splat(float x) { return x - Vec{}; }
inline Vec larger(Vec a, Vec b) { return a > b ? a : b; }
inline Vec plus(Vec a, Vec b) { return a + b; }

// 2 to the power x: the whole part goes to the exponent's bits, the rest (half at most) through a polynomial.
// The relative error is 1e-7; what is under 2^-126 becomes 2^-126.
inline Vec exp2(Vec x) {
  x = larger(x, splat(-126.f));
  const Vec shift = splat(12582912.f);  // adding 1.5 * 2^23 rounds to a whole number
  const Vec shifted = x + shift, f = x - (shifted - shift);
  Vec p = splat(1.5353362e-4f);
  for (float c : {1.3398874e-3f, 9.6184373e-3f, 5.5503324e-2f, 2.4022647e-1f, 6.9314718e-1f, 1.f}) p = p * f + splat(c);
  return (Vec)((IntVec)p + ((IntVec)shifted << 23));
}

template <int By, int... I>
inline Vec rotate(Vec x, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(x, x, ((I + By) % kLanes)...);
}

template <int By = kLanes / 2, class Op>
inline float reduce(Vec x, Op op) {
  if constexpr (By == 0) {
    return x[0];
  } else {
    return reduce<By / 2>(op(x, rotate<By>(x, Lanes{})), op);
  }
}

// The lanes of a and b in turn, from the first or from the second half of each.
template <int Half, int... I>
inline Vec zip(Vec a, Vec b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, (Half * kLanes / 2 + I / 2 + I % 2 * kLanes)...);
}

// in [n, width] to panels [width, kPanel] of its transpose, one after the other; width is a multiple of kLanes.
inline void transpose(const float* in, int n, int width, float* out) {
  for (int j = 0; j < n; j += kLanes) {
    for (int d = 0; d < width; d += kLanes) {
      Vec row[kLanes], next[kLanes];
      for (int i = 0; i < kLanes; ++i) row[i] = j + i < n ? vec(in + (j + i) * width + d) : Vec{};
      for (int step = 1; step < kLanes; step *= 2) {
        for (int i = 0; i < kLanes / 2; ++i) {
          next[2 * i] = zip<0>(row[i], row[i + kLanes / 2], Lanes{});
          next[2 * i + 1] = zip<1>(row[i], row[i + kLanes / 2], Lanes{});
        }
        std::copy(next, next + kLanes, row);
      }
      float* to = out + j / kPanel * width * kPanel + d * kPanel + j % kPanel;
      for (int i = 0; i < kLanes; ++i) vec(to + i * kPanel) = row[i];
    }
  }
}

struct Left {  // the left factor, read number by number: element (i, k) is at[i * row + k * step]
  const float* at;
  int64_t row, step;
};

struct Right {  // the right factor, read by vectors: panels of kPanel columns, each with rows `row` apart
  const float* at;
  int64_t row, panel;
};

struct Target {  // where the product goes; with `add` it is added
  float* at;
  int64_t row;
  bool add;
};

template <int R, int W>
inline void tile(Left a, Right b, Target c, int depth) {
  Vec sum[R][W];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int w = 0; w < W; ++w) sum[r][w] = c.add ? vec(c.at + r * c.row + w * kLanes) : Vec{};
  for (int k = 0; k < depth; ++k) {
    Vec right[W];
#pragma GCC unroll 8
    for (int w = 0; w < W; ++w) right[w] = vec(b.at + k * b.row + w * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec left = splat(a.at[r * a.row + k * a.step]);
#pragma GCC unroll 8
      for (int w = 0; w < W; ++w) sum[r][w] += left * right[w];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int w = 0; w < W; ++w) vec(c.at + r * c.row + w * kLanes) = sum[r][w];
}

template <int W, int R = kTileRows>
void column(int rows, Left a, Right b, Target c, int depth) {
  for (; rows >= R; rows -= R, a.at += R * a.row, c.at += R * c.row) tile<R, W>(a, b, c, depth);
  if constexpr (R > 1) {
    if (rows) column<W, R - 1>(rows, a, b, c, depth);
  }
}

template <int W = kPanelVectors>
void panel(int vectors, int rows, Left a, Right b, Target c, int depth) {
  if (vectors == W) return column<W>(rows, a, b, c, depth);
  if constexpr (W > 1) panel<W - 1>(vectors, rows, a, b, c, depth);
}

// Columns [from, to) of c [rows, :] = a [rows, depth] b [depth, :]; from and to are multiples of kLanes.
inline void multiply(int rows, int from, int to, int depth, Left a, Right b, Target c) {
  for (int j = from, next; j < to; j = next) {
    next = std::min(j / kPanel * kPanel + kPanel, to);
    const Right part{b.at + j / kPanel * b.panel + j % kPanel, b.row, b.panel};
    panel((next - j) / kLanes, rows, a, part, {c.at + j, c.row, c.add}, depth);
  }
}

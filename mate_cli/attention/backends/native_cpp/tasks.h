// The tasks of a batch: many small dense attentions, each gathered into cache (see SegmentTasks).
//
// Scores are kept in units of log2, so that the exponential is exp2.

#pragma once

#include <atomic>
#include <cmath>
#include <memory>

#include "tiles.h"

struct Problem {  // the same fields as in native.py
  int64_t blocks, heads, size, count, threads, seed;
  double dropout;
  const int32_t *rows, *tasks;  // [V * P] and [6, count]
  const float *qkv, *key_bias;  // [P, 3, N, H] and [P] or null
};

constexpr int kKeyBlock = 256, kQueryBlock = 96;  // keys, values, their gradients and scores fit a second-level cache
constexpr int kScoreRow = kKeyBlock + kLanes;     // not a power of two, or columns would share cache sets

struct Span {  // consecutive entries of Problem::rows
  int start, count;
};

struct Tasks : Problem {
  const int width = round_up(size), all_heads = blocks * heads;  // in memory of our own, heads are `width` apart
  const float scale = 1.f / std::sqrt(static_cast<float>(size));
  const uint32_t dropped = dropout * 4294967296.0;

  explicit Tasks(const Problem& problem) : Problem(problem) {}
  Span queries(int i) const { return {tasks[i], tasks[count + i]}; }
  Span globals(int i) const { return {tasks[2 * count + i], tasks[3 * count + i]}; }
  Span locals(int i) const { return {tasks[4 * count + i], tasks[5 * count + i]}; }
  bool asks_all(int i) const { return globals(i).count && queries(i).start == globals(i).start; }
  int64_t token(int place) const { return rows[place] / blocks; }
  int64_t head(int place, int h) const { return token(place) * all_heads + rows[place] % blocks * heads + h; }
  int64_t part(int place, int h, int which) const {  // of the projections: query, key or value
    return (head(place, h) + token(place) * 2 * all_heads + which * all_heads) * size;
  }
  Left left(const float* at) const { return {at, width, 1}; }
  Right right(const float* at) const { return {at, width, kPanel}; }
  Right panels(const float* at) const { return {at, kPanel, width * kPanel}; }
};

class Scratch {  // aligned memory that its thread keeps from call to call
 public:
  float* take(int64_t n) {
    if (n > size_) memory_.reset(new float[(size_ = n) + kLanes]);
    const auto past = reinterpret_cast<uintptr_t>(memory_.get()) % sizeof(Vec);
    return memory_.get() + (past ? (sizeof(Vec) - past) / 4 : 0);
  }

 private:
  std::unique_ptr<float[]> memory_;
  int64_t size_ = 0;
};

// Threads take pieces of work from a counter, since pieces differ in size.
template <class F>
void for_each(int64_t threads, int64_t work, const F& f) {
  std::atomic<int64_t> next{0};
#pragma omp parallel num_threads(static_cast<int>(std::max<int64_t>(1, std::min(threads, work))))
  for (int64_t i; (i = next.fetch_add(1)) < work;) f(i);
}

inline void read(const Tasks& t, const float* from, float scale, float* to) {
  for (int d = 0; d < t.size; ++d) to[d] = scale * from[d];
  for (int d = t.size; d < t.width; ++d) to[d] = 0;
}

inline void gather(const Tasks& t, int which, int h, Span span, float scale, float* to) {
  for (int i = 0; i < span.count; ++i, to += t.width) read(t, t.qkv + t.part(span.start + i, h, which), scale, to);
}

// What is added to the scores of keys, and their numbers for the dropout.
inline void gather_keys(const Tasks& t, Span span, float* bias, int32_t* ids) {
  for (int i = 0; i < span.count; ++i) {
    bias[i] = t.key_bias ? kLog2e * t.key_bias[t.token(span.start + i)] : 0.f;
    ids[i] = t.rows[span.start + i];
  }
}

inline uint32_t query_seed(const Tasks& t, int row, int h) {
  uint64_t x = static_cast<uint64_t>(t.seed) * 0x9e3779b97f4a7c15 + row * t.heads + h;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x >> 32;
}

// 1 / (1 - p) or 0: a hash of seed, query and key decides, so that the backward pass finds it again.
inline Vec keep(const Tasks& t, uint32_t seed, const int32_t* ids) {
  UintVec x = *reinterpret_cast<const UintVec*>(ids) ^ seed;
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  x ^= x >> 16;
  return (Vec)((x >= t.dropped) & (UintVec)splat(static_cast<float>(1 / (1 - t.dropout))));
}

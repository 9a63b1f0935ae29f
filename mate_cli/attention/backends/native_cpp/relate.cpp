// The rows of attention whose scores know relations: softmax and sums by relation, and their gradients.

#include <cmath>
#include <vector>

#include "tasks.h"

namespace {

struct Relate {  // the same fields as in native_relations.py
  int64_t examples, heads, nodes, relations, threads;
  const uint8_t* ids;  // [B, K, K]
  const uint8_t* real;  // [B, K]
};

constexpr int kSums = 4;  // the same relation often comes again at once: so many sums do not wait for each other

// Calls f with a row's place among all rows of all heads, the relations of its node, and the nodes of its example.
template <class F>
void for_each_row(const Relate& r, const F& f) {
  const int64_t k = r.nodes;
  for_each(r.threads, r.examples * r.heads, [&](int64_t head) {
    const int64_t example = head / r.heads;
    std::vector<float> scratch(kSums * r.relations);
    for (int64_t i = 0; i < k; ++i)
      f(head * k + i, r.ids + (example * k + i) * k, r.real + example * k, r.real[example * k + i], scratch.data());
  });
}

void sum_by_relation(const Relate& r, const float* values, const uint8_t* ids, float* scratch, float* sums) {
  std::fill(scratch, scratch + kSums * r.relations, 0.f);
  int64_t j = 0;
  for (; j + kSums <= r.nodes; j += kSums)
    for (int s = 0; s < kSums; ++s) scratch[s * r.relations + ids[j + s]] += values[j + s];
  for (; j < r.nodes; ++j) scratch[ids[j]] += values[j];
  for (int64_t i = 0; i < r.relations; ++i) {
    float sum = 0;
    for (int s = 0; s < kSums; ++s) sum += scratch[s * r.relations + i];
    sums[i] = sum;
  }
}

// Scores to weights, which sum to one over real nodes and are zero elsewhere.
void softmax(float* row, const uint8_t* real, int64_t count) {
  float most = -INFINITY, sum = 0;
  for (int64_t j = 0; j < count; ++j) most = real[j] && row[j] > most ? row[j] : most;
  int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    Vec scores;
    __builtin_memcpy(&scores, row + j, sizeof scores);
    scores = exp2((scores - splat(most)) * splat(kLog2e));
    __builtin_memcpy(row + j, &scores, sizeof scores);
  }
  for (; j < count; ++j) row[j] = std::exp2((row[j] - most) * kLog2e);
  for (j = 0; j < count; ++j) row[j] = real[j] ? row[j] : 0.f;
  for (j = 0; j < count; ++j) sum += row[j];
  for (j = 0; j < count; ++j) row[j] /= sum;
}

}  // namespace

// Scores [B, N, K, K] become weights, given those of relations [B, N, K, R]; sums of weights by relation are written.
extern "C" void mate_relate(const Relate* relate, float* scores, const float* of_relations, float* sums) {
  const Relate& r = *relate;
  for_each_row(r, [&](int64_t place, const uint8_t* ids, const uint8_t* real, bool asks, float* scratch) {
    float* row = scores + place * r.nodes;
    const float* own = of_relations + place * r.relations;
    if (asks) {
      for (int64_t j = 0; j < r.nodes; ++j) row[j] += own[ids[j]];
      softmax(row, real, r.nodes);
    } else {
      std::fill(row, row + r.nodes, 0.f);
    }
    sum_by_relation(r, row, ids, scratch, sums + place * r.relations);
  });
}

// The gradients of weights [B, N, K, K] become those of scores, given those of sums [B, N, K, R]; those of the scores of
// relations are written.
extern "C" void mate_relate_backward(const Relate* relate, const float* weights, float* gradient, const float* of_sums,
                                     float* of_relations) {
  const Relate& r = *relate;
  for_each_row(r, [&](int64_t place, const uint8_t* ids, const uint8_t*, bool, float* scratch) {
    const float* weight = weights + place * r.nodes;
    float* row = gradient + place * r.nodes;
    const float* own = of_sums + place * r.relations;
    float dot = 0;
    for (int64_t j = 0; j < r.nodes; ++j) row[j] += own[ids[j]];
    for (int64_t j = 0; j < r.nodes; ++j) dot += row[j] * weight[j];
    for (int64_t j = 0; j < r.nodes; ++j) row[j] = (row[j] - dot) * weight[j];
    sum_by_relation(r, row, ids, scratch, of_relations + place * r.relations);
  });
}

// The backward pass: a walk over the segments, which computes the weights again from the saved log-sum-exp.
//
// A segment's own tokens are touched by one walk alone; what global tokens get from all of them is summed afterwards,
// in a fixed order. So the result does not depend on the number of threads, and nothing is added atomically.

#include <vector>

#include "tasks.h"

namespace {

constexpr int kChunkTokens = 256;  // at least so many tokens in one piece of the backward pass

struct Chunk {  // some segments of one example and block of heads, and what its global tokens get from them
  Span globals;
  std::vector<int> segments;
  int tokens;
  bool first;  // of its example and block: it also pairs the global tokens with each other
  int64_t partial;
};

std::vector<Chunk> cut(const Tasks& t) {
  std::vector<Chunk> chunks;
  for (int i = 0; i < t.count; ++i) {
    const bool first = chunks.empty() || chunks.back().globals.start != t.globals(i).start;
    if (first || (chunks.back().tokens >= kChunkTokens)) chunks.push_back({t.globals(i), {}, 0, first, 0});
    if (t.asks_all(i)) continue;
    chunks.back().segments.push_back(i);
    chunks.back().tokens += t.queries(i).count;
  }
  return chunks;
}

struct Tokens {  // the global tokens and those of a segment after them; matrices are [n, width]
  float *q, *k, *v, *sent, *dq, *dk, *dv, *lse, *delta, *bias, *local_bias, *dbias;
  float *k_panels, *v_panels, *score, *slope;
  int32_t* ids;

  void take(Scratch& scratch, int64_t n, int width) {
    const int64_t lanes = round_up(n), block = kKeyBlock * width, scores = kQueryBlock * kScoreRow;
    float* next = scratch.take(7 * lanes * width + 6 * lanes + 2 * block + 2 * scores);
    for (float** p : {&q, &k, &v, &sent, &dq, &dk, &dv}) *p = next, next += lanes * width;
    for (float** p : {&lse, &delta, &bias, &local_bias, &dbias}) *p = next, next += lanes;
    ids = reinterpret_cast<int32_t*>(next), next += lanes;
    for (float** p : {&k_panels, &v_panels}) *p = next, next += block;
    for (float** p : {&score, &slope}) *p = next, next += scores;
  }
};

struct Gradients {
  const Tasks t;
  const float *out, *lse, *sent;
  float *dqkv, *dbias;  // [P, 3, N, H] and [P, N] or null

  void load(const Tokens& w, Span span, int h, int to) const {
    const int64_t at = static_cast<int64_t>(to) * t.width;
    gather(t, 0, h, span, kLog2e * t.scale, w.q + at);
    gather(t, 1, h, span, 1.f, w.k + at);
    gather(t, 2, h, span, 1.f, w.v + at);
    gather_keys(t, span, w.bias + to, w.ids + to);
    for (int i = 0; i < span.count; ++i) {
      const int64_t from = t.head(span.start + i, h);
      float* row = w.sent + at + i * t.width;
      read(t, sent + from * t.size, 1.f, row);
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int d = 0; d < t.size; ++d) sum += out[from * t.size + d] * row[d];
      w.delta[to + i] = sum;
      w.lse[to + i] = lse[from];
    }
    for (float* p : {w.dq, w.dk, w.dv}) std::fill(p + at, p + at + span.count * t.width, 0.f);
    std::fill(w.dbias + to, w.dbias + to + span.count, 0.f);
  }

  void store(const Tokens& w, Span span, int h, int from) const {
    const float scales[] = {t.scale, 1 / kLog2e, 1.f};  // q was read times log2(e) and scale
    const float* found[] = {w.dq, w.dk, w.dv};
    for (int i = 0; i < span.count; ++i) {
      const int64_t row = static_cast<int64_t>(from + i) * t.width;
      for (int which = 0; which < 3; ++which) {
        float* to = dqkv + t.part(span.start + i, h, which);
        for (int d = 0; d < t.size; ++d) to[d] = scales[which] * found[which][row + d];
      }
      if (dbias) dbias[t.head(span.start + i, h)] = w.dbias[from + i];
    }
  }

  // Scores become weights, and the gradients of weights those of scores; lanes [from, to) of key block k.
  template <bool kDrop>
  void soften(const Tokens& w, int h, int q, int i, const float* bias, int k, int from, int to) const {
    float *score = w.score + i * kScoreRow, *slope = w.slope + i * kScoreRow;
    const Vec lse = splat(w.lse[q + i]), delta = splat(w.delta[q + i]);
    const uint32_t seed = kDrop ? query_seed(t, w.ids[q + i], h) : 0;
    for (int j = from; j < to; j += kLanes) {
      const Vec weight = exp2(vec(score + j) + vec(bias + k + j) - lse);
      const Vec kept = kDrop ? keep(t, seed, w.ids + k + j) : splat(1.f);
      vec(score + j) = kDrop ? weight * kept : weight;
      vec(slope + j) = weight * ((kDrop ? vec(slope + j) * kept : vec(slope + j)) - delta);
    }
  }

  // Queries [q, q + m) meet keys [k + lane, k + n).
  void block(const Tokens& w, int h, int q, int m, int k, int n, int lane, const float* bias) const {
    const int lanes = round_up(n), keys = n - lane;
    const int64_t asking = static_cast<int64_t>(q) * t.width, asked = static_cast<int64_t>(k + lane) * t.width;
    multiply(m, lane, lanes, t.size, t.left(w.q + asking), t.panels(w.k_panels), {w.score, kScoreRow, false});
    multiply(m, lane, lanes, t.size, t.left(w.sent + asking), t.panels(w.v_panels), {w.slope, kScoreRow, false});
    const auto soften_row = t.dropped ? &Gradients::soften<true> : &Gradients::soften<false>;
    for (int i = 0; i < m; ++i) (this->*soften_row)(w, h, q, i, bias, k, lane, lanes);
    const float *score = w.score + lane, *slope = w.slope + lane;
    multiply(keys, 0, t.width, m, {score, 1, kScoreRow}, t.right(w.sent + asking), {w.dv + asked, t.width, true});
    multiply(keys, 0, t.width, m, {slope, 1, kScoreRow}, t.right(w.q + asking), {w.dk + asked, t.width, true});
    multiply(m, 0, t.width, keys, {slope, kScoreRow, 1}, t.right(w.k + asked), {w.dq + asking, t.width, true});
    if (!dbias) return;
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < keys; ++j) w.dbias[k + lane + j] += slope[i * kScoreRow + j];
  }

  // A segment's tokens meet each other and the global tokens, both ways.
  void segment(const Tokens& w, int h, int globals, int total, bool pair_globals) const {
    std::fill(w.bias + total, w.bias + round_up(total), -INFINITY);
    std::copy(w.bias, w.bias + round_up(total), w.local_bias);
    if (!pair_globals) std::fill(w.local_bias, w.local_bias + globals, -INFINITY);
    for (int k = 0; k < total; k += kKeyBlock) {
      const int n = std::min(kKeyBlock, total - k);
      transpose(w.k + static_cast<int64_t>(k) * t.width, n, t.width, w.k_panels);
      transpose(w.v + static_cast<int64_t>(k) * t.width, n, t.width, w.v_panels);
      const int others = pair_globals ? 0 : std::clamp(globals - k, 0, n);
      for (int q = 0; q < globals && others < n; q += kQueryBlock)
        block(w, h, q, std::min(kQueryBlock, globals - q), k, n, others / kLanes * kLanes, w.local_bias);
      for (int q = globals; q < total; q += kQueryBlock)
        block(w, h, q, std::min(kQueryBlock, total - q), k, n, 0, w.bias);
    }
  }

  int64_t partial_size(const Chunk& c) const { return c.globals.count * (3 * t.width + 1); }

  void chunk(const Chunk& c, int h, float* partial) const {
    static thread_local Scratch scratch;
    int longest = 0;
    for (int i : c.segments) longest = std::max(longest, t.queries(i).count);
    Tokens w;
    w.take(scratch, c.globals.count + longest, t.width);
    load(w, c.globals, h, 0);
    if (c.segments.empty()) segment(w, h, c.globals.count, c.globals.count, true);
    for (int i : c.segments) {
      load(w, t.queries(i), h, c.globals.count);
      segment(w, h, c.globals.count, c.globals.count + t.queries(i).count, c.first && i == c.segments.front());
      store(w, t.queries(i), h, c.globals.count);
    }
    for (const float* from : {w.dq, w.dk, w.dv}) partial = std::copy(from, from + c.globals.count * t.width, partial);
    std::copy(w.dbias, w.dbias + c.globals.count, partial);
  }

  void sum_globals(const Chunk* begin, const Chunk* end, int h, float* partials) const {
    const int64_t n = partial_size(*begin), matrix = n - begin->globals.count;
    float* sum = partials + begin->partial + h * n;
    for (const Chunk* c = begin + 1; c < end; ++c)
      for (int64_t i = 0; i < n; ++i) sum[i] += partials[c->partial + h * n + i];
    Tokens w;
    w.dq = sum, w.dk = sum + matrix / 3, w.dv = sum + matrix / 3 * 2, w.dbias = sum + matrix;
    store(w, begin->globals, h, 0);
  }

  void run() const {
    auto chunks = cut(t);
    std::vector<int> groups;
    int64_t size = 0;
    for (auto& c : chunks) {
      if (c.first) groups.push_back(&c - chunks.data());
      c.partial = size;
      size += partial_size(c) * t.heads;
    }
    groups.push_back(chunks.size());
    const std::unique_ptr<float[]> partials(new float[size]);
    for_each(t.threads, chunks.size() * t.heads, [&](int64_t i) {
      const Chunk& c = chunks[i / t.heads];
      chunk(c, i % t.heads, partials.get() + c.partial + i % t.heads * partial_size(c));
    });
    for_each(t.threads, (groups.size() - 1) * t.heads, [&](int64_t i) {
      const int* group = &groups[i / t.heads];
      sum_globals(&chunks[*group], chunks.data() + group[1], i % t.heads, partials.get());
    });
  }
};

}  // namespace

// sent: the gradient of out; dqkv [P, 3, N, H]; dbias [P, N] or null
extern "C" void mate_attend_backward(const Problem* problem, const float* out, const float* lse, const float* sent,
                                     float* dqkv, float* dbias) {
  Gradients{Tasks(*problem), out, lse, sent, dqkv, dbias}.run();
}

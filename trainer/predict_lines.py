"""The scoring kernel of lines: eight models at once on one chunk, one in each lane.

A model alone uses few of the lanes: two entries of a pair of features, say. Here each lane is
another model, and all models look up the same rows. Events come ad by ad, so that an ad's vectors
are computed once and stay in the first cache. Measured with seven user features, 20,000 events and
1,500 ads: half of the time of eight models one after the other (`trainer/predict.py`).
"""

import numpy as np

from divergence.jit import inlined, jit
from divergence.lanemath import begin_constants, f32, softplus_lanes
from divergence.simd import WIDTH, fma, item, load, prefetch, put, splat, store
from divergence.subnormals import flush_subnormals, restore_subnormals
from trainer.geometry import PARTS
from trainer.predict import slots_of
from trainer.stages import CACHE_LINE

AHEAD = 4
BLOCK = 64
"""The vectors of so many ads are computed at a time."""


@jit
def group_events(number, start, event):
    """Sort the events by their numbers; start[n] becomes the first place of those with number n."""
    for i in range(len(number)):
        start[number[i] + 1] += 1
    for n in range(1, len(start)):
        start[n] += start[n - 1]
    place = start[:-1].copy()
    for i in range(len(number)):
        event[place[number[i]]] = i
        place[number[i]] += 1


@jit
def score_together(users, by_ad, user_at, ad_at, shape, user_tables, ad_tables, biases, logits):
    """logits[8 i + m] becomes the logit of event i by model m: the bits of `predict_block`."""
    control = flush_subnormals()
    width, length = shape.user_padded * WIDTH, shape.ad_padded * WIDTH
    lanes = np.zeros((len(user_at) + shape.features) * width, np.float32)
    _interleave(user_tables, user_at, shape, lanes)
    count, last = len(by_ad.start) - 1, len(by_ad.event) - 1
    ads = np.empty(min(count, BLOCK) * length, np.float32)
    user, ad = np.zeros(length, np.float32), np.zeros(length, np.float32)
    where, bias = np.zeros(shape.features, np.int64), load(biases, 0)
    for a in range(count):
        if a % BLOCK == 0:
            for m in range(WIDTH):
                block = ads[m * shape.ad_padded :]
                _ad_vectors(by_ad.ads, ad_at, ad_tables[m], shape, a, min(a + BLOCK, count), block)
        for m in range(WIDTH):
            at = a % BLOCK * length + m * shape.ad_padded
            for j in range(shape.ad_padded):
                put(ad, j * WIDTH + m, item(ads, at + j))
        for e in range(by_ad.start[a], by_ad.start[a + 1]):
            i = by_ad.event[e]
            _prefetch_slots(users, shape, by_ad.event[min(e + AHEAD, last)])
            _mix(users, lanes, shape, i, len(user_at) * width, where)
            _user_vectors(lanes, where, shape, user)
            store(logits, i * WIDTH, bias + _dot(ad, user, length))
    restore_subnormals(control)


@jit
def add_losses(logits, click, constants, totals):
    """Add each model's log-losses to totals[m], in float64: the bits of `total_loss`."""
    n, k, sums = len(click), begin_constants(constants, splat), np.zeros(WIDTH, np.float32)
    for i in range(n):
        sign = splat(f32(-1.0) if click[i] else f32(1.0))
        store(logits, i * WIDTH, sign * load(logits, i * WIDTH))
    for i in range(n, n + WIDTH):
        if i * WIDTH < len(logits):
            store(logits, i * WIDTH, splat(f32(-1e30)))
    for i in range(0, n * WIDTH, WIDTH * WIDTH):
        a, b = softplus_lanes(load(logits, i), k), softplus_lanes(load(logits, i + 8), k)
        c, d = softplus_lanes(load(logits, i + 16), k), softplus_lanes(load(logits, i + 24), k)
        e, f = softplus_lanes(load(logits, i + 32), k), softplus_lanes(load(logits, i + 40), k)
        g, h = softplus_lanes(load(logits, i + 48), k), softplus_lanes(load(logits, i + 56), k)
        store(sums, 0, _tree(a, b, c, d, e, f, g, h))
        for m in range(WIDTH):
            totals[m] += np.float64(sums[m])


@inlined
def _interleave(tables, at, shape, lanes):
    """The vectors of these rows, entry by entry, those of eight models side by side."""
    width = shape.user_padded
    for m in range(WIDTH):
        table = tables[m]
        for r in range(len(at)):
            first = at[r] * (PARTS * width)
            for j in range(width):
                put(lanes, (r * width + j) * WIDTH + m, item(table, first + j))


@inlined
def _ad_vectors(rows, at, table, shape, first, last, ads):
    """The weighted sums of the rows of some ads, in one model."""
    size = PARTS * shape.ad_padded
    for a in range(first, last):
        _prefetch_rows(rows, at, table, shape, min(a + AHEAD, last - 1))
        begin, end = slots_of(rows, shape.ad_slots, a)
        for j in range(0, shape.ad_padded, WIDTH):
            v = splat(f32(0.0))
            for slot in range(begin, end):
                w = f32(1.0) if shape.ad_slots > 0 else item(rows.weight, slot)
                row = item(at, np.int64(item(rows.row, slot)))
                v = fma(splat(w), load(table, row * size + j), v)
            store(ads, (a - first) * shape.ad_padded * WIDTH + j, v)


@inlined
def _prefetch_rows(rows, at, table, shape, ad):
    """Ask for an ad's rows before they are needed: those of lines are cold."""
    begin, end = slots_of(rows, shape.ad_slots, ad)
    for slot in range(begin, end):
        row = item(at, np.int64(item(rows.row, slot)))
        for j in range(0, shape.ad_padded, CACHE_LINE):
            prefetch(table, row * (PARTS * shape.ad_padded) + j)


@inlined
def _prefetch_slots(rows, shape, event):
    """Ask for an event's slots: events come ad by ad, not in the order of memory."""
    begin, _ = slots_of(rows, shape.user_slots, event)
    prefetch(rows.row, begin)
    if shape.user_slots == 0:
        prefetch(rows.feature, begin)
        prefetch(rows.weight, begin)


@inlined
def _mix(rows, lanes, shape, event, scratch, where):
    """where[k]: the vectors of feature k, its value's own or, at `scratch`, the mean of several."""
    width = shape.user_padded * WIDTH
    slot, end = slots_of(rows, shape.user_slots, event)
    for k in range(shape.features):
        at = np.int64(item(rows.row, slot)) * width
        stop = slot + 1
        if shape.user_slots == 0:
            while stop < end and item(rows.feature, stop) == k:
                stop += 1
        if stop > slot + 1:
            to = scratch + k * width
            for j in range(0, shape.user * WIDTH, WIDTH):
                mean = splat(item(rows.weight, slot)) * load(lanes, at + j)
                for other in range(slot + 1, stop):
                    value = np.int64(item(rows.row, other)) * width
                    mean = fma(splat(item(rows.weight, other)), load(lanes, value + j), mean)
                store(lanes, to + j, mean)
            at = to
        put(where, k, at)
        slot = stop


@inlined
def _user_vectors(lanes, where, shape, user):
    """The products of each pair of features' shared entries, then their lone entries."""
    K, o, s = shape.features, shape.overlap * WIDTH, shape.alone * WIDTH
    t = 0
    for p in range(K):
        for q in range(p + 1, K):
            left, right = item(where, p) + (q - 1) * o, item(where, q) + p * o
            for j in range(0, o, WIDTH):
                store(user, t + j, load(lanes, left + j) * load(lanes, right + j))
            t += o
    for k in range(K):
        for j in range(0, s, WIDTH):
            store(user, t + j, load(lanes, item(where, k) + (K - 1) * o + j))
        t += s


@inlined
def _dot(ad, user, length):
    """The products of eight models' vectors. Entry j of a vector alone would be in lane j % 8."""
    a = b = c = d = e = f = g = h = splat(f32(0.0))
    for j in range(0, length, WIDTH * WIDTH):
        a = fma(load(ad, j), load(user, j), a)
        b = fma(load(ad, j + 8), load(user, j + 8), b)
        c = fma(load(ad, j + 16), load(user, j + 16), c)
        d = fma(load(ad, j + 24), load(user, j + 24), d)
        e = fma(load(ad, j + 32), load(user, j + 32), e)
        f = fma(load(ad, j + 40), load(user, j + 40), f)
        g = fma(load(ad, j + 48), load(user, j + 48), g)
        h = fma(load(ad, j + 56), load(user, j + 56), h)
    return _tree(a, b, c, d, e, f, g, h)


@inlined
def _tree(a, b, c, d, e, f, g, h):
    """The sum of eight, in the order of `lane_sum`."""
    return ((a + e) + (c + g)) + ((b + f) + (d + h))
